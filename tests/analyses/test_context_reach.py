"""Context reach on models whose influence profile is known, exact zeros of one-directional networks, and the options."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses import ContextReach, ContextSet, TargetContexts, collect_contexts, context_reach
from analyses.context_reach import GRADIENT, MEASURES, SUBSTITUTION
from analyses.jacobians import jackknifed_norms, squared_jacobian_norms
from analyses.offset_profiles import rank_agreement, summarise
from analyses.reach_units import plan_sentences
from analyses.substitution import Substitutes
from extractors import load_extractor
from extractors.foundation.errors import DataError, ModelError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.foundation.results import COLUMNS

SIDE = 3
WEIGHTS = {-3: 0.5, -2: 1.0, -1: 2.0, 0: 3.0, 1: 1.5, 2: 0.0, 3: 0.25}
POWERS = {SUBSTITUTION: 2, GRADIENT: 1}
"""Distances are squared, gradients are norms."""


def made_contexts(targets: int, parts: int, vocabulary: list[str] | None = None, side: int = SIDE) -> ContextSet:
    """Contexts without any word in common, or random words of a vocabulary."""
    generator = generator_for("reach contexts", targets, parts)

    def part(*name: object) -> tuple[str, ...]:
        if vocabulary:
            return tuple(generator.choice(vocabulary, side).tolist())
        return tuple("c" + "x".join(map(str, (*name, k))) for k in range(side))

    return ContextSet(
        tuple(
            TargetContexts(
                vocabulary[n] if vocabulary else f"t{n}",
                tuple(part("l", n, i) for i in range(parts)),
                tuple(part("r", n, i) for i in range(parts)),
                {},
            )
            for n in range(targets)
        ),
        side,
        parts,
        ("fake",),
        0,
    )


SUPPLY = [tuple(f"s{n}x{k}" for k in range(8)) for n in range(40)]
"""A corpus of words that no context holds."""


@pytest.fixture(scope="module")
def linear(fake: Any) -> Callable[..., Any]:
    """h(t) = sum_k A_k x_{t+k} at layer 1 and x_t at layer 0, in NumPy and with a graph in torch."""
    from extractors.input_gradients import Trace, trace_windows

    class Linear(fake):  # type: ignore[misc]
        def __init__(self, vector: Any, matrices: dict[int, np.ndarray], **info: Any) -> None:
            self.vector, self.matrices = vector, matrices
            super().__init__(self.layers, **info)

        def layers(self, words: tuple[str, ...]) -> np.ndarray:
            x = np.stack([self.vector(word) for word in words])
            top = np.zeros((len(words), len(self.matrices[0])))
            for offset, matrix in self.matrices.items():
                if abs(offset) >= len(words):
                    continue
                read = slice(max(0, offset), len(words) + min(0, offset))
                top[max(0, -offset) : len(words) - max(0, offset)] += x[read] @ matrix.T
            return np.stack([np.pad(x, ((0, 0), (0, top.shape[1] - x.shape[1]))), top])

    @trace_windows.register(Linear)
    def _(extractor: Any, windows: Any, layers: Any, pooling: str) -> Trace:
        import torch

        size = [len(window.payload) for window in windows]
        flat = np.stack([extractor.vector(word) for window in windows for word in window.payload])
        inputs = torch.from_numpy(flat).requires_grad_()
        hidden = []
        for x in inputs.split(size):
            top = torch.zeros(len(x), len(extractor.matrices[0]), dtype=torch.float64)
            for offset, matrix in extractor.matrices.items():
                n = len(x) - abs(offset)
                read, write = x[max(0, offset) :][:n], max(0, -offset)
                moved = read @ torch.from_numpy(matrix).T
                top = top + torch.nn.functional.pad(moved, (0, 0, write, len(x) - n - write))
            pad = torch.nn.functional.pad(x, (0, top.shape[1] - x.shape[1]))
            hidden.append(torch.stack([pad, top])[list(layers)])
        return Trace(torch.cat(hidden, dim=1), inputs, torch.arange(len(flat)))

    return Linear


def one_hot(words: list[str]) -> Callable[[str], np.ndarray]:
    number = {word: i for i, word in enumerate(words)}
    return lambda word: np.eye(len(words))[number.get(word, 0)]


@pytest.fixture(scope="module")
def exact(linear: Any) -> Callable[..., Any]:
    """A linear model with blocks of its own for each offset, in which any two words are equally far apart."""

    def build(contexts: ContextSet, supply: list[tuple[str, ...]] = SUPPLY[:2], **options: Any) -> Any:
        used = {word for t in contexts.targets for words in t.sentences() for word in words}
        words = sorted(used | {word for sentence in supply for word in sentence})
        size = len(words)
        matrices = {}
        for number, (offset, weight) in enumerate(WEIGHTS.items()):
            matrices[offset] = np.zeros((len(WEIGHTS) * size, size))
            matrices[offset][number * size : (number + 1) * size] = weight * np.eye(size)
        cut = (SIDE + 1) * size
        parts = {"whole": slice(None), "forward": slice(0, cut), "backward": slice(cut, len(WEIGHTS) * size)}
        return linear(cache(one_hot(words)), matrices, parts=types.MappingProxyType(parts), **options)

    return build


def test_the_name_is_the_function() -> None:
    import analyses.context_reach

    assert isinstance(analyses.context_reach, types.FunctionType)


@pytest.mark.parametrize("condition", [SUBSTITUTION, GRADIENT])
def test_the_profile_of_a_linear_model_is_exact(exact: Any, condition: str) -> None:
    contexts = made_contexts(3, 3)
    result = context_reach(exact(contexts), SUPPLY[:2], contexts=contexts, bases=2, draws=1, projections=1)
    sizes = np.array([0.5, 1, 2, 3, 1.5, 0, 0.25]) ** POWERS[condition]
    around = np.delete(sizes, SIDE)
    np.testing.assert_allclose(result.profile(1, condition=condition).value, sizes / around.sum(), rtol=1e-12)
    left = around[:3].sum() / around.sum()
    distance = around @ [3, 2, 1, 1, 2, 3] / around.sum()
    # Of 7.5625 there are 6.25 within one word and 7.25 within two, of 5.25 of the norms 3.5 and 4.5.
    expected = [left, 1 - left, distance, 1, {SUBSTITUTION: 2, GRADIENT: 3}[condition]]
    np.testing.assert_allclose(result.summary(1, condition=condition).value, expected, rtol=1e-12)
    forward = result.profile(1, "forward", condition).value
    assert not forward[SIDE + 1 :].any()
    np.testing.assert_allclose(forward[:SIDE], around[:3] / around[:3].sum(), rtol=1e-12)
    np.testing.assert_allclose(result.summary(1, "backward", condition).value[:2], [0, 1], atol=1e-15)
    np.testing.assert_allclose(result.agreement(1).value, 1)
    assert result.profile(1).n == 3


def test_where_there_is_no_context_there_is_no_value(exact: Any) -> None:
    contexts = made_contexts(3, 3)
    result = context_reach(exact(contexts), SUPPLY[:2], contexts=contexts, bases=1, draws=1, projections=1)
    for condition in (SUBSTITUTION, GRADIENT):
        assert np.isnan(result.profile(0, condition=condition).value).all()
        assert np.isnan(result.summary(0, condition=condition).value).all()
    assert np.isnan(result.agreement(0).value).all()
    assert {part for layer, part, _ in result.statistics if layer == 0} == {"whole"}
    # What counts as nothing: 32 rounding errors of a norm, and the square of that of a squared distance.
    for condition, noise in ((SUBSTITUTION, (30 * 2.2e-16) ** 2), (GRADIENT, 30 * 2.2e-16)):
        for factor, defined in ((1, False), (2, True)):
            units = result.statistics[1, "whole", condition].copy()
            units[:, -2] = noise * factor ** POWERS[condition] * units[:, -1]
            faint = replace(result, statistics={(1, "whole", condition): units})
            assert np.isfinite(faint.profile(1, condition=condition).value).all() == defined
    assert result.to_frame().query("layer == 1")["value"].notna().all()


def gaussian(dim: int = 6) -> Callable[[str], np.ndarray]:
    return cache(lambda word: generator_for("reach vector", word).standard_normal(dim))


@pytest.fixture(scope="module")
def random_linear(linear: Any) -> Any:
    """Words are independent standard normal vectors, matrices are full: the truth is |A_k|², in expectation, or |A_k|."""
    matrices = {
        offset: weight * generator_for("reach matrix", offset).standard_normal((8, 6)) / 48**0.5
        for offset, weight in WEIGHTS.items()
    }
    return linear(gaussian(), matrices)


def truth(model: Any, condition: str) -> np.ndarray:
    norms = np.array([np.linalg.norm(model.matrices[offset]) for offset in range(-SIDE, SIDE + 1)])
    sizes = norms ** POWERS[condition]
    return sizes / (sizes.sum() - sizes[SIDE])


VOCABULARY = [f"v{n}" for n in range(400)]


def reach_of(model: Any, targets: int, parts: int = 4, **options: Any) -> ContextReach:
    contexts = made_contexts(targets, parts, VOCABULARY)
    supply = [tuple(VOCABULARY[i : i + 10]) for i in range(0, 400, 10)]
    return context_reach(model, supply, contexts=contexts, **options)


def errors(interval: Any, expected: np.ndarray) -> np.ndarray:
    """How many standard errors of its own an estimate is off; where it has none it must be exact."""
    off, standard = interval.value - expected, (interval.high - interval.low) / 3.92
    exact = standard < 1e-12
    assert np.all(np.abs(off[exact]) < 1e-12)
    return off[~exact] / standard[~exact]


def test_both_estimators_find_a_random_linear_model(random_linear: Any) -> None:
    result = reach_of(random_linear, 40, bases=2, draws=2, projections=8)
    for condition, tolerance in ((SUBSTITUTION, 0.08), (GRADIENT, 0.02)):
        interval = result.profile(1, condition=condition)
        np.testing.assert_allclose(interval.value, truth(random_linear, condition), atol=tolerance)
        assert np.all(np.abs(errors(interval, truth(random_linear, condition))) < 4)
    agreement = result.agreement(1)
    assert agreement.value[0] > 0.9
    assert agreement.low[0] <= agreement.value[0] <= agreement.high[0]


def test_projections_are_unbiased_for_the_squared_norm(random_linear: Any) -> None:
    words = tuple(VOCABULARY[:7])
    exact_norms = [np.square(random_linear.matrices[offset]).sum() for offset in range(-SIDE, SIDE + 1)]
    options = {"layers": (1,), "pooling": "mean", "seed": 0}
    many, _ = squared_jacobian_norms(random_linear, [words], SIDE, projections=4000, **options)
    np.testing.assert_allclose(many["whole"][:, 0, 0].mean(axis=0), exact_norms, rtol=0.06)
    one, hidden = squared_jacobian_norms(random_linear, [words, words[::-1]], SIDE, projections=1, **options)
    assert not np.allclose(one["whole"][0, 0, 0], exact_norms, rtol=0.06)
    np.testing.assert_allclose(hidden[0, 0], random_linear.hidden(words)[1, SIDE])


@pytest.mark.parametrize("rank", [1, 2, 8])
def test_the_jackknife_takes_the_bias_of_the_root_away(rank: int) -> None:
    generator = generator_for("jackknifed norms", rank)
    jacobian = generator.standard_normal((16, rank))
    vectors = generator.choice([-1.0, 1.0], (8, 20000, 16))
    squares = np.square(vectors @ jacobian).sum(axis=-1)
    norm = np.linalg.norm(jacobian)
    for count, allowed in ((2, 0.02), (8, 0.002)):
        plain, corrected = np.sqrt(squares[:count].mean(axis=0)), jackknifed_norms(squares[:count])
        assert (corrected >= plain - 1e-12).all()
        error = 3.5 * corrected.std() / len(corrected) ** 0.5
        assert abs(corrected.mean() - norm) < allowed * norm + error
        assert plain.mean() < corrected.mean() - error / 3.5
    assert plain.mean() - norm > -1.2 * norm / (4 * 8)
    np.testing.assert_array_equal(jackknifed_norms(squares[:1]), np.sqrt(squares[0]))
    assert not jackknifed_norms(0 * squares).any()


@pytest.mark.parametrize(
    ("parts", "bases", "draws", "projections"), [(2, 1, 1, 2), (8, 1, 1, 4), (4, 4, 1, 2), (4, 1, 4, 8)]
)
def test_sizes_do_not_move_the_estimate(
    random_linear: Any, parts: int, bases: int, draws: int, projections: int
) -> None:
    """Each design is held against the standard errors of its own: a precise one may not hide behind a coarse one."""
    result = reach_of(random_linear, 160, parts, bases=bases, draws=draws, projections=projections)
    for condition in (SUBSTITUTION, GRADIENT):
        off = errors(result.profile(1, condition=condition), truth(random_linear, condition))
        assert np.abs(off).max() < 3.5, condition
        # All offsets together: a bias that they share shows here before it does in any of them.
        assert np.abs(off).mean() < 1.6, condition


def test_intervals_shrink_with_the_root_of_the_targets(random_linear: Any) -> None:
    widths = []
    for targets in (20, 320):
        interval = reach_of(random_linear, targets, 2, bases=1, draws=1, projections=1).summary(1)
        widths.append((interval.high - interval.low)[[0, 2]])
    np.testing.assert_allclose(widths[0] / widths[1], 4, rtol=0.35)


def test_ratio_of_sums_by_a_slow_loop(linear: Any) -> None:
    """The definition in plain loops over the very sentences that are read."""
    matrices = {k: generator_for("slow", k).standard_normal((9, 6)) for k in range(-SIDE, SIDE + 1)}
    model = linear(gaussian(), matrices)
    inner = model.hidden
    model.hidden = lambda words: np.tanh(inner(words)) + 2  # what matters: not linear
    contexts = made_contexts(3, 4, VOCABULARY)
    supply = [tuple(VOCABULARY[:30])]
    options = {"contexts": contexts, "bases": 2, "draws": 3, "estimators": [SUBSTITUTION]}
    result = context_reach(model, supply, **options)
    planned, _ = plan_sentences(model, supply, contexts, 2, 3, 0, [])
    numerator, denominator = np.zeros(7), 0.0
    for plan in planned:
        read = [model.hidden(words)[1, SIDE] for words in plan.contexts]
        pairs = [np.sum((a - b) ** 2) for i, a in enumerate(read) for b in read[:i]]
        denominator += np.mean(pairs)
        for k in range(7):
            numerator[k] += np.mean(
                [
                    np.sum((read[base] - model.hidden(words)[1, SIDE]) ** 2)
                    for base, by_offset in zip(plan.bases, plan.substitutes, strict=True)
                    for words in by_offset[k]
                ]
            )
    np.testing.assert_allclose(result.profile(1).value, numerator / denominator, rtol=1e-10)


def test_batches_and_seeds(random_linear: Any) -> None:
    results = [
        reach_of(random_linear, 3, bases=2, draws=2, projections=2, batch_size=size, seed=seed, resamples=50).to_frame()
        for size, seed in ((1, 0), (64, 0), (64, 1))
    ]
    numbers = ["value", "low", "high"]
    pd.testing.assert_frame_equal(results[0][numbers], results[1][numbers], rtol=1e-12)
    assert (results[1]["value"] - results[2]["value"]).abs().max() > 1e-3


def test_the_rows(random_linear: Any) -> None:
    frame = reach_of(random_linear, 2, bases=1, draws=1, projections=1, data="made up").to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert set(frame["measure"]) == set(MEASURES)
    assert (frame["length"] == SIDE).all()
    profile = frame.query("measure == 'reach_influence' and layer == 1")
    assert len(profile) == 2 * 7
    assert sorted(profile["offset"].unique()) == list(range(-3, 4))
    assert set(profile["condition"]) == {SUBSTITUTION, GRADIENT}
    agreement = frame.query("measure == 'reach_agreement'")
    assert agreement["condition"].isna().all()
    assert len(agreement) == 2


def test_summaries_by_hand() -> None:
    np.testing.assert_allclose(summarise(np.array([1.0, 0, 9, 0, 1])), [0.5, 0.5, 2, 2, 2])
    np.testing.assert_allclose(summarise(np.array([0, 0.0, 3, 1, 0])), [0, 1, 1, 1, 1])
    np.testing.assert_allclose(summarise(np.array([1, 2.5, 0, 2.5, 4])), [0.35, 0.65, 1.5, 1, 2])
    assert np.isnan(summarise(np.array([0, 0, 1.0, 0, 0]))).all()
    stacked = summarise(np.random.default_rng(0).random((4, 3, 13)))
    assert stacked.shape == (4, 3, 5)
    np.testing.assert_allclose(stacked[..., 0] + stacked[..., 1], 1)


def test_rank_agreement_is_spearmans() -> None:
    from scipy.stats import spearmanr

    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 5, (6, 13)).astype(float), generator.random((6, 13))
    expected = [spearmanr(np.delete(a, 6), np.delete(b, 6)).statistic for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(rank_agreement(one, other)[:, 0], expected, rtol=1e-12)
    assert np.isnan(rank_agreement(np.ones(5), np.arange(5.0))).all()
    np.testing.assert_allclose(rank_agreement(np.array([1, 2, 99, 3, 4.0]), -np.array([1, 2, 0, 3, 4.0])), -1)


def test_substitutes_keep_pieces_kind_and_frequency(fake: Any) -> None:
    model = fake(lambda words: np.zeros((1, len(words), 2)), pieces=lambda words: [len(w) // 2 or 1 for w in words])
    text = [("of", "of", "of", "it", "four", ".", ","), ("OF", "word", "many", "sixsix", "of")]
    supply = Substitutes(model, text, 0)
    words = ("it", "four", ".", "sixsix", "ab")
    assert {sentence[2] for sentence in supply.replace(words, 2, 20, "a")} == {","}
    found = supply.replace(words, 1, 20, "b")
    assert {sentence[1] for sentence in found} == {"word", "many"}
    assert all(sentence[:1] + sentence[2:] == words[:1] + words[2:] for sentence in found)
    assert supply.replace(words, 3, 1, "c") is None  # itself only
    drawn = [sentence[4] for sentence in supply.replace(words, 4, 200, "d")[:20]]
    assert drawn.count("of") > drawn.count("it")
    assert "of" not in {s[4].casefold() for s in supply.replace((*words[:4], "Of"), 4, 20, "e")}
    assert supply.replace(words, 1, 5, "b") == found[:5]


def test_words_that_fuse_with_their_neighbours_are_not_taken(fake: Any) -> None:
    """Piece counts that depend on the sentence: what counts is the sentence with the new word in it."""
    pieces = lambda words: [2 if i and words[i - 1] == "bad" else 1 for i in range(len(words))]  # noqa: E731
    model = fake(lambda words: np.zeros((1, len(words), 2)), pieces=pieces)
    supply = Substitutes(model, [("bad",), ("good",)], 0)
    assert {sentence[0] for sentence in supply.replace(("x", "y"), 0, 8, "a")} == {"good"}


def test_contexts_without_substitutes_are_passed_over(fake: Any, part_vector: Any) -> None:
    def hidden(words: tuple[str, ...]) -> np.ndarray:
        return np.stack([np.stack([part_vector(words[: i + 1]) for i in range(len(words))])] * 2)

    model = fake(hidden)  # the corpus has no punctuation mark to take the place of another
    contexts = made_contexts(3, 3)
    first, second, third = contexts.targets
    rare = replace(first, left=((".", *first.left[0][1:]), *first.left[1:]))
    lost = replace(third, word="!")
    result = context_reach(model, SUPPLY, contexts=replace(contexts, targets=(rare, second, lost)), bases=2)
    assert result.contexts.words == ("t0", "t1")
    assert any("4 contexts passed over" in note for note in result.notes)
    assert any("dropped, as no context is left: !" in note for note in result.notes)
    with pytest.raises(DataError, match="at least 2 target words"):
        context_reach(model, SUPPLY, contexts=replace(contexts, targets=(lost, lost)))
    uneven = fake(hidden, pieces=lambda words: [2 if word == first.left[1][0] else 1 for word in words])
    with pytest.raises(DataError, match="constant length"):
        context_reach(uneven, SUPPLY, contexts=contexts, bases=1)


def test_options_are_checked(random_linear: Any, fake: Any) -> None:
    for options in ({"bases": 0}, {"draws": 0}, {"projections": 0}, {"estimators": ["both"]}, {"estimators": []}):
        with pytest.raises(UsageError):
            reach_of(random_linear, 2, **options)
    plain = fake(random_linear.layers)
    with pytest.raises(UsageError, match="cannot be differentiated"):
        reach_of(plain, 2, estimators=[GRADIENT])
    result = reach_of(plain, 2)
    assert any("no gradient" in note for note in result.notes)
    assert result.agreement(1) is None
    np.testing.assert_array_equal(
        result.profile(1).value, reach_of(random_linear, 2, estimators=[SUBSTITUTION]).profile(1).value
    )
    with pytest.raises(DataError, match="corpus is empty"):
        context_reach(plain, [], contexts=made_contexts(2, 2))
    with pytest.raises(DataError, match="one context only"):
        context_reach(plain, SUPPLY, contexts=made_contexts(2, 1))


def test_gradients_of_another_network_are_refused(random_linear: Any, linear: Any) -> None:
    model = linear(random_linear.vector, random_linear.matrices)
    inner = model.hidden
    model.hidden = lambda words: 1.5 * inner(words)
    with pytest.raises(ModelError, match="gives other vectors"):
        reach_of(model, 2)


def test_contexts_are_collected_by_default(fake: Any, part_vector: Any, corpus: Any) -> None:
    def hidden(words: tuple[str, ...]) -> np.ndarray:
        return np.stack([np.stack([part_vector(words[: i + 1]) for i in range(len(words))])] * 2)

    result = context_reach(fake(hidden), corpus, side=4, targets=10)
    assert result.offsets == tuple(range(-4, 5))
    profile = result.profile(1).value
    assert not profile[5:].any()
    np.testing.assert_allclose(profile[:4], 1, atol=0.3)  # any change on the left is as good as another context
    assert result.plot().axes[0].lines
    # Every base is a stretch of a sentence of the corpus; in crossed contexts none is, and the notes say so.
    written = {words[i : i + 9] for words in corpus for i in range(len(words) - 8)}
    joined = context_reach(fake(hidden), corpus, contexts=collect_contexts([fake(hidden)], corpus, side=4, targets=10))
    for reach, inside in ((result, True), (joined, False)):
        assert reach.contexts.mode == ("natural" if inside else "crossed")
        planned, _ = plan_sentences(fake(hidden), corpus, reach.contexts, 4, 2, 0, [])
        assert {words in written for plan in planned for words in plan.contexts} == {inside}
        assert any("join left and right parts" in note for note in reach.notes) is not inside


WORDS = [f"{a}{b}" for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Small float64 networks over one word-level vocabulary, with weights so large that context matters."""

    @cache
    def build(kind: str) -> Any:
        import torch

        folder: Path = tmp_path_factory.mktemp(kind)
        with torch.random.fork_rng():
            torch.manual_seed(4)
            _write(kind, folder)
        return load_extractor(folder, dtype="float64")

    return build


def _write(kind: str, folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoModel, BertConfig, GPT2Config, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind != "gpt2":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    size = tokenizer.get_vocab_size()
    if kind in ("bert", "gpt2"):
        config: Any = (
            BertConfig(
                vocab_size=size,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=24,
                max_position_embeddings=32,
            )
            if kind == "bert"
            else GPT2Config(
                vocab_size=size, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=2
            )
        )
        model = AutoModel.from_config(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
        start = {"bos_token": "[CLS]"} if kind == "gpt2" else {}
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", **start
        ).save_pretrained(folder)
        return
    from extractors import bigpt, bilstm_mlm
    from extractors.bigpt import network as bigpt_network
    from extractors.bilstm_mlm import network as bilstm_network
    from extractors.native import write_model

    if kind == "bigpt":
        tokenizer.save(str(folder / "tokenizer.json"))
        sizes = {"hidden_size": 12, "n_layers": 2, "n_heads": 2, "intermediate_size": 24, "n_positions": 32}
        settings: Any = bigpt.BigptConfig(vocab_size=size, **sizes)
        network: Any = bigpt_network.draw_weights(bigpt_network.build_network(settings), 3)
    else:
        cnn = {"embedding": {"dim": 4}, "filters": ((1, 6), (3, 8)), "n_highway": 1, "activation": "relu"}
        settings = bilstm_mlm.BilstmMlmConfig(char_cnn=cnn, projection_dim=8, cells=12, vocabulary=20)
        network = bilstm_network.draw_weights(bilstm_network.build_network(settings), 3)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                parameter += 0.3 * torch.randn(parameter.shape)
    write_model(folder, settings, network.state_dict(), torch.float32)


def tiny_reach(model: Any, **options: Any) -> ContextReach:
    contexts = made_contexts(4, 3, WORDS)
    supply = [tuple(WORDS[i : i + 7]) for i in range(0, 70, 7)]
    sizes = {"bases": 2, "draws": 1, "projections": 2, "resamples": 100}
    return context_reach(model, supply, contexts=contexts, **{**sizes, **options})


@pytest.mark.parametrize("kind", ["gpt2", "bigpt", "elmo"])
@pytest.mark.parametrize("condition", [SUBSTITUTION, GRADIENT])
def test_one_directional_networks_reach_to_one_side_only(
    tiny: Any, elmo_reference: Path, kind: str, condition: str
) -> None:
    model = load_extractor(elmo_reference, dtype="float64") if kind == "elmo" else tiny(kind)
    result = tiny_reach(model)
    sides = {"forward": slice(SIDE + 1, None), "backward": slice(0, SIDE)}
    for layer in model.info.layers[1:]:
        for part, unread in sides.items() if kind != "gpt2" else [("whole", sides["forward"])]:
            profile = result.profile(layer, part, condition)
            for numbers in (profile.value, profile.high):
                assert np.abs(numbers[unread]).max() < 1e-20
            read = np.delete(profile.value, np.r_[np.arange(2 * SIDE + 1)[unread], SIDE])
            assert (read > 1e-4).all()
            lost = 1 if part != "backward" else 0
            assert result.summary(layer, part, condition).value[lost] < 1e-20
        if kind != "gpt2":
            assert (result.profile(layer, "whole", condition).value > 1e-4).all()


@pytest.mark.parametrize("kind", ["bert", "bilstm-mlm"])
def test_deep_networks_reach_to_both_sides(tiny: Any, kind: str) -> None:
    model = tiny(kind)
    result = tiny_reach(model)
    top = model.info.layers[-1]
    for part in model.info.parts:
        for condition in (SUBSTITUTION, GRADIENT):
            assert (result.profile(top, part, condition).value > 1e-4).all()
            assert 0.05 < result.summary(top, part, condition).value[0] < 0.95
    if kind == "bilstm-mlm":  # layer 1 is ELMo's
        assert not result.profile(1, "forward", GRADIENT).value[SIDE + 1 :].any()
        assert np.abs(result.profile(1, "backward").value[:SIDE]).max() < 1e-20


def test_the_batch_size_does_not_matter_to_a_network(tiny: Any) -> None:
    one, other = (tiny_reach(tiny("bert"), batch_size=size).to_frame()["value"] for size in (3, 50))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gpt2_is_read_behind_its_start_token(tiny: Any) -> None:
    model = tiny("gpt2")
    result = tiny_reach(model)
    assert any("before every sentence" in note for note in result.notes)
    bare = tiny_reach(model, sentence_start=False)
    assert not any("before every sentence" in note for note in bare.notes)
    assert not np.allclose(result.profile(1).value, bare.profile(1).value)


def test_a_real_bert_reaches_to_both_sides_and_most_to_its_neighbours(minilm_path: Path) -> None:
    model = load_extractor(minilm_path)
    lefts = [
        "people in the old room saw the",
        "my brother was waiting near the other",
        "for years she thought about this",
    ]
    rights = ["of the small town by night", "behind the green door at last", "when the last train had left"]
    targets = tuple(
        TargetContexts(
            word, tuple(tuple(p.split()[-5:]) for p in lefts), tuple(tuple(p.split()[:5]) for p in rights), {}
        )
        for word in ("house", "king", "dog")
    )
    contexts = ContextSet(targets, 5, 3, (model.info.name,), 0)
    supply = ["the man who sold his horse saw a bird in that big garden with two women"]
    result = context_reach(
        model, supply, contexts=contexts, bases=1, draws=1, projections=2, layers="0,3,6", resamples=50
    )
    assert np.isnan(result.profile(0).value).all()
    for condition in (SUBSTITUTION, GRADIENT):
        profile = result.profile(3, condition=condition).value
        assert (profile > 0).all()
        assert profile[4] + profile[6] > profile[0] + profile[10]
        assert 0.2 < result.summary(3, condition=condition).value[0] < 0.8
