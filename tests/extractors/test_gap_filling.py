"""Filling gaps: every kind of model against a slow computation of its own, batches, ends of words, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import PairGapFiller, load_extractor
from extractors.foundation.errors import DataError, ModelError, UsageError
from extractors.gaps import SAMPLED, Gap, WordEnds, gap_filler

SENTENCES = [
    ("the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"),
    ("She", "said", "that", "they", "read", "unbelievable", "papers"),
    ("one", "two", "three"),
    ("hello",),
]
GAPS = [Gap(words, position) for words in SENTENCES for position in range(len(words))]
MASKED = ("bert", "roberta", "albert", "distilbert", "electra")
CANDIDATES = ["the", "fox", "dog", "one", "two", "and", "of", "read"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Callable[[str], Path]) -> dict[str, Path]:
    """One small model of each kind with its head, weights larger than usual so that context matters."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    from extractors.bigpt import BigptConfig
    from extractors.bigpt.network import build_network as build_bigpt
    from extractors.bigpt.network import draw_weights as draw_bigpt
    from extractors.bilstm_mlm import BilstmMlmConfig
    from extractors.bilstm_mlm.network import build_network as build_bilstm
    from extractors.bilstm_mlm.network import draw_weights as draw_bilstm
    from extractors.elmo.network import build_network as build_elmo
    from extractors.elmo.network import draw_weights as draw_elmo
    from extractors.elmo.options import ElmoOptions
    from extractors.elmo.writing import write_elmo
    from extractors.native import write_model

    root = tmp_path_factory.mktemp("gaps")
    made = {kind: root / kind for kind in ("elmo", "bilstm-mlm", "bigpt", "gpt2", "reversed", *MASKED)}
    for folder in made.values():
        folder.mkdir()
    words = ["<S>", "</S>", "<UNK>", *dict.fromkeys(word for sentence in SENTENCES for word in sentence), "and", "of"]
    vocabulary = "".join(f"{word}\n" for word in words)
    cnn: dict[str, Any] = {
        "embedding": {"dim": 4},
        "filters": [[1, 6], [3, 8]],
        "n_highway": 1,
        "activation": "relu",
    }
    generator = torch.Generator().manual_seed(5)

    options = ElmoOptions.model_validate_json(
        json.dumps({"lstm": {"dim": 12, "projection_dim": 8, "n_layers": 2}, "char_cnn": cnn})
    )
    elmo = draw_elmo(build_elmo(options), 3)
    write_elmo(made["elmo"], options, {key: 2 * value.numpy() for key, value in elmo.state_dict().items()})
    softmax = {
        "weight": torch.randn(len(words), 8, generator=generator),
        "bias": torch.randn(len(words), generator=generator),
    }
    save_file(softmax, made["elmo"] / "softmax.safetensors")

    config = BilstmMlmConfig.model_validate_json(
        json.dumps({"char_cnn": cnn, "projection_dim": 8, "cells": 12, "vocabulary": len(words)})
    )
    bilstm = draw_bilstm(build_bilstm(config), 3)
    write_model(made["bilstm-mlm"], config, {k: 2 * v for k, v in bilstm.state_dict().items()}, torch.float32)
    for kind in ("elmo", "bilstm-mlm"):
        (made[kind] / "vocabulary.txt").write_text(vocabulary)

    tokenizer = (tiny_folder("bert") / "tokenizer.json").read_text()
    size = len(json.loads(tokenizer)["model"]["vocab"])
    pair = BigptConfig(vocab_size=size, hidden_size=12, n_layers=3, n_heads=2, intermediate_size=24, n_positions=24)
    bigpt = draw_bigpt(build_bigpt(pair), 3).state_dict()
    larger = {k: v if "norm" in k else v + 0.3 * torch.randn(v.shape, generator=generator) for k, v in bigpt.items()}
    write_model(made["bigpt"], pair, larger, torch.float32)
    (made["bigpt"] / "tokenizer.json").write_text(tokenizer)

    for seed, kind in enumerate(("gpt2", "reversed", *MASKED), start=1):
        family = "gpt2" if kind == "reversed" else kind
        factory = AutoModelForCausalLM if family == "gpt2" else AutoModelForMaskedLM
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tiny_folder(family) / name, made[kind])
        settings = AutoConfig.from_pretrained(tiny_folder(family))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = factory.from_config(settings)
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    torch.nn.init.normal_(parameter, std=0.4)
        model.save_pretrained(made[kind])
    for kind, mask in (("roberta", "<mask>"), ("albert", "[MASK]")):
        with_mask = {**json.loads((made[kind] / "tokenizer_config.json").read_text()), "mask_token": mask}
        (made[kind] / "tokenizer_config.json").write_text(json.dumps(with_mask))
    return made


KINDS = {
    "elmo": ("forward", "backward"),
    "bigpt": ("forward", "backward"),
    "bilstm-mlm": ("joint",),
    **dict.fromkeys(MASKED, ("joint",)),
    "gpt2": ("forward",),
}


def predictable(filler: Any) -> list[Gap]:
    """The gaps that the model can fill: not the first word if its tokenizer spells that otherwise."""
    return [gap for gap in GAPS if filler.refusal(gap) is None]


def usable(filler: Any, number: int = 8) -> list[str]:
    """Some words that are one entry, from all over the vocabulary."""
    words = filler.words()
    return list(words[:: max(1, len(words) // number)])


def log_softmax(scores: Any) -> np.ndarray:
    scores = np.asarray(scores, dtype=np.float64)
    return (
        scores
        - np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1, keepdims=True))
        - scores.max(-1)[..., None]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_sides_shapes_and_independence_of_the_batch(folders: dict[str, Path], kind: str) -> None:
    filler = gap_filler(load_extractor(folders[kind]))
    assert filler.sides == KINDS[kind]
    candidates = usable(filler)
    assert len(candidates) >= 8
    gaps = predictable(filler)[::-1]
    together = filler.log_probabilities(gaps, candidates)
    assert tuple(together) == filler.sides
    alone = filler.log_probabilities(gaps, candidates, batch_size=1)
    for side in filler.sides:
        assert together[side].shape == (len(gaps), len(candidates))
        assert together[side].dtype == np.float64
        assert (together[side] < 0).all()
        assert (np.exp(together[side]).sum(axis=1) < 1 + 1e-6).all()
        np.testing.assert_allclose(alone[side], together[side], atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_word_at_the_gap_is_not_read_and_each_side_reads_its_own_words(folders: dict[str, Path], kind: str) -> None:
    filler = gap_filler(load_extractor(folders[kind], dtype="float64"))
    candidates = usable(filler)
    base = ["the", "fox", "one", "dog", "two"]
    changed = {place: [*base[:place], "the" if place else "two", *base[place + 1 :]] for place in (0, 2, 4)}
    gaps = [Gap(tuple(words), 2) for words in (base, changed[0], changed[2], changed[4])]
    for side, values in filler.log_probabilities(gaps, candidates).items():
        left, own, right = (np.abs(values[i] - values[0]).max() for i in (1, 2, 3))
        assert own < 1e-12
        assert (left > 1e-6) == (side != "backward")
        assert (right > 1e-6) == (side != "forward")
        assert max(left, right) > 1e-6


def test_words_are_those_that_are_one_entry(folders: dict[str, Path]) -> None:
    for kind in KINDS:
        filler = gap_filler(load_extractor(folders[kind]))
        words = filler.words()
        assert len(set(words)) == len(words) > 10
        entries = filler.entries(words)
        assert None not in entries
        assert entries == sorted(entries)  # type: ignore[type-var]
        assert filler.entries(["<UNK>", "[MASK]", "unbelievableness"]) == [None] * 3
    assert "[MASK]" not in gap_filler(load_extractor(folders["bert"])).words()


@pytest.mark.parametrize(
    ("family", "mark"), [("bert", "##"), ("gpt2", "Ġ"), ("qwen2", "Ġ"), ("llama", "▁"), ("albert", "▁")]
)
def test_pieces_are_spelt_by_the_tokenizers_own_rules(
    tiny_folder: Callable[[str], Path], family: str, mark: str
) -> None:
    from extractors.huggingface.gap_pieces import PieceVocabulary

    extractor: Any = load_extractor(tiny_folder(family))
    size = len(extractor.tokenizer)
    pieces = PieceVocabulary(extractor.tokenizer, extractor._words, size + 3)
    tokens = extractor.tokenizer.convert_ids_to_tokens(list(range(size)))
    assert pieces.continues.shape == (size + 3,)
    assert 0.2 < pieces.continues.mean() < 0.95
    for token, carries_on in zip(tokens, pieces.continues, strict=False):
        if carries_on:
            assert token.startswith(mark) == (mark == "##"), token
    by_token = dict(zip(tokens, pieces.continues.tolist(), strict=False))
    assert by_token["##s" if mark == "##" else "s"]
    assert not by_token["s" if mark == "##" else f"{mark}s"]
    assert not any(by_token[token] for token in (",", f"{mark},") if token in by_token)
    assert "s" in pieces.words
    assert not any(mark in word for word in pieces.words)


def test_elmo_is_its_softmax_over_its_own_top_vectors(folders: dict[str, Path]) -> None:
    """By hand from the vectors of the words beside the gap; the boundary words are checked by what they cannot know."""
    from safetensors.numpy import load_file

    extractor = load_extractor(folders["elmo"], dtype="float64")
    softmax = load_file(folders["elmo"] / "softmax.safetensors")
    words = (folders["elmo"] / "vocabulary.txt").read_text().split()
    columns = [words.index(word) for word in CANDIDATES]
    found = gap_filler(extractor).log_probabilities(GAPS, CANDIDATES)
    top = {item.words: item.hidden[-1] for item in extractor.extract(SENTENCES)}
    weight, bias = softmax["weight"].astype(np.float64), softmax["bias"].astype(np.float64)
    checked = 0
    for number, gap in enumerate(GAPS):
        vectors = top[gap.words]
        for side, beside, half in (
            ("forward", gap.position - 1, slice(0, 8)),
            ("backward", gap.position + 1, slice(8, 16)),
        ):
            if 0 <= beside < len(gap.words):
                wanted = log_softmax([[row @ vectors[beside, half] for row in weight] + bias])[0, columns]
                np.testing.assert_allclose(found[side][number], wanted, atol=1e-10)
                checked += 1
    assert checked == 2 * sum(len(words) - 1 for words in SENTENCES)
    first = [i for i, gap in enumerate(GAPS) if gap.position == 0]
    assert np.ptp(found["forward"][first], axis=0).max() < 1e-12
    last = [i for i, gap in enumerate(GAPS) if gap.position == len(gap.words) - 1]
    assert np.ptp(found["backward"][last], axis=0).max() < 1e-12
    assert np.ptp(found["backward"][first], axis=0).max() > 1e-3


def test_the_masked_lstm_is_its_scores_at_the_masked_word(folders: dict[str, Path]) -> None:
    import torch

    from extractors.elmo.reading import encode_sentences

    extractor: Any = load_extractor(folders["bilstm-mlm"], dtype="float64")
    words = (folders["bilstm-mlm"] / "vocabulary.txt").read_text().split()
    found = gap_filler(extractor).log_probabilities(GAPS, CANDIDATES)["joint"]
    for number in (0, 5, 12, len(GAPS) - 1):
        gap = GAPS[number]
        read = (*gap.words[: gap.position], "[MASK]", *gap.words[gap.position + 1 :])
        with torch.no_grad():
            tokens, lengths = encode_sentences(extractor.network.tokens, [read], 50, masked=("[MASK]",))
            scores = extractor.network.scores(extractor.network(tokens, lengths)[-1])[0, gap.position + 1]
        wanted = log_softmax(scores[None].numpy())[0, [words.index(word) for word in CANDIDATES]]
        np.testing.assert_allclose(found[number], wanted, atol=1e-10)


@pytest.mark.parametrize("kind", MASKED)
def test_a_masked_lm_is_what_transformers_says(folders: dict[str, Path], kind: str) -> None:
    import torch
    from transformers import AutoModelForMaskedLM

    extractor: Any = load_extractor(folders[kind])
    model = AutoModelForMaskedLM.from_pretrained(folders[kind]).eval()
    filler = gap_filler(extractor)
    candidates = usable(filler)
    gaps = predictable(filler)
    found = filler.log_probabilities(gaps, candidates)["joint"]
    tokenizer = extractor.tokenizer
    for number, gap in enumerate(gaps):
        alignment = next(extractor.align([gap.words]))
        ids = tokenizer.convert_tokens_to_ids(list(alignment.pieces))
        at = alignment.word_pieces[gap.position]
        ids = [*ids[: at[0]], tokenizer.mask_token_id, *ids[at[-1] + 1 :]]
        with torch.no_grad():
            scores = model(torch.tensor([ids])).logits[0, at[0]]
        wanted = log_softmax(scores[None].numpy())[0, filler.entries(candidates)]
        np.testing.assert_allclose(found[number], wanted, atol=2e-5)


def by_hand(
    scores: Callable[[list[int]], Any], context: list[int], pieces: list[int], continues: np.ndarray
) -> np.ndarray:
    """P(piece | context) P(the next piece does not carry on | context, piece), one run of the model for each piece."""
    first = log_softmax(scores(context)[None])[0]
    ends = [np.log(np.exp(log_softmax(scores([*context, piece])[None])[0])[~continues].sum()) for piece in pieces]
    return first[pieces] + ends


def test_the_towers_include_the_end_of_the_word_from_the_left(folders: dict[str, Path]) -> None:
    import torch

    extractor: Any = load_extractor(folders["bigpt"], dtype="float64")
    filler = gap_filler(extractor, exact_ends=None)
    candidates = usable(filler)
    pieces: Any = filler.entries(candidates)
    found = filler.log_probabilities(GAPS, candidates)
    vocabulary = extractor.tokenizer.convert_ids_to_tokens(list(range(extractor.config.vocab_size)))
    continues = np.array([piece.startswith("##") for piece in vocabulary])
    assert continues.any()

    def scores(direction: str) -> Callable[[list[int]], Any]:
        def run(ids: list[int]) -> Any:
            with torch.no_grad():
                return extractor.network.scores(extractor.network(torch.tensor([ids]), direction)[-1][0, -1]).numpy()

        return run

    several = 0
    for number, gap in enumerate(GAPS):
        alignment = next(extractor.align([gap.words]))
        ids = extractor.tokenizer.convert_tokens_to_ids(list(alignment.pieces))
        at = alignment.word_pieces[gap.position]
        several += len(at) > 1
        forward = by_hand(scores("forward"), ids[: at[0]], pieces, continues)
        np.testing.assert_allclose(found["forward"][number], forward, atol=1e-10)
        backward = log_softmax(scores("backward")(ids[: at[-1] : -1])[None])[0, pieces]
        np.testing.assert_allclose(found["backward"][number], backward, atol=1e-10)
    assert several, "no word of several pieces among the contexts"


def test_a_left_to_right_model_includes_the_end_of_the_word(folders: dict[str, Path]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    extractor: Any = load_extractor(folders["gpt2"], dtype="float64")
    model = AutoModelForCausalLM.from_pretrained(folders["gpt2"], dtype=torch.float64).eval()
    filler = gap_filler(extractor, exact_ends=None)
    candidates = usable(filler)
    pieces: Any = filler.entries(candidates)
    gaps = predictable(filler)
    found = filler.log_probabilities(gaps, candidates)["forward"]
    tokens = extractor.tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size)))
    backend = extractor.tokenizer.backend_tokenizer
    texts = [backend.decode([number], skip_special_tokens=False) for number in range(len(tokens))]
    continues = np.array([text[:1].isalnum() or text[:1] == "\ufffd" for text in texts])
    assert 0 < continues.sum() < len(continues)

    def scores(ids: list[int]) -> Any:
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0, -1].numpy()

    for number, gap in enumerate(gaps):
        alignment = next(extractor.align([gap.words]))
        before = extractor.tokenizer.convert_tokens_to_ids(list(alignment.pieces))[
            : alignment.word_pieces[gap.position][0]
        ]
        wanted = by_hand(scores, [extractor.tokenizer.bos_token_id, *before], pieces, continues)
        np.testing.assert_allclose(found[number], wanted, atol=1e-8)


@pytest.mark.parametrize("kind", ["bigpt", "gpt2"])
def test_ends_are_asked_in_the_context_for_the_likeliest_candidates_and_the_word_itself(
    folders: dict[str, Path], kind: str
) -> None:
    extractor = load_extractor(folders[kind], dtype="float64")
    exact, some, none = (gap_filler(extractor, exact_ends=number) for number in (None, 3, 0))
    candidates = usable(exact, 20)
    gaps = [Gap(("one", *SENTENCES[1][:number], word, "dog"), number + 1) for word in candidates for number in (0, 2)]
    values = [filler.log_probabilities(gaps, candidates)["forward"] for filler in (exact, some, none)]
    own = np.arange(len(gaps)), [candidates.index(gap.answer) for gap in gaps]
    for found, number in ((values[1], 3), (values[2], 0)):
        np.testing.assert_allclose(found[own], values[0][own], atol=1e-10)
        agree = np.isclose(found, values[0], atol=1e-10, rtol=0).sum(axis=1)
        assert set(agree) <= {number, number + 1}
        assert number + 1 in agree  # the word itself is beyond the likeliest
        assert np.abs(found - values[0]).max() > 1e-3
    # A word that is no candidate is not asked for.
    without = [Gap((*gap.words[: gap.position], "xyzzy", "dog"), gap.position) for gap in gaps]
    agree = np.isclose(some.log_probabilities(without, candidates)["forward"], values[0], atol=1e-10, rtol=0)
    assert (agree.sum(axis=1) == 3).all()


def test_at_the_start_of_a_sentence_all_ends_are_exact(folders: dict[str, Path]) -> None:
    extractor = load_extractor(folders["bigpt"], dtype="float64")
    starts = [gap for gap in GAPS if gap.position == 0]
    exact, none = (gap_filler(extractor, exact_ends=number) for number in (None, 0))
    candidates = usable(exact)
    values = [filler.log_probabilities(starts, candidates)["forward"] for filler in (exact, none)]
    np.testing.assert_allclose(values[1], values[0], atol=1e-10)


def test_the_note_says_how_far_ends_from_the_start_of_a_sentence_move_the_nats() -> None:
    """Against the exact sum over the candidates, of gaps whose ends are known."""
    generator = np.random.default_rng(3)
    gaps, candidates = 4000, 60
    entries = np.arange(candidates)
    values = np.log(generator.dirichlet(np.full(candidates, 0.3), size=gaps).clip(1e-12))
    ends = np.log(generator.uniform(0.2, 1.0, size=(gaps, candidates)))
    at_start = np.log(np.full((1, candidates), 0.5))
    standing = generator.integers(candidates, size=gaps)
    words = WordEnds(4)
    assert "asked in the context" not in words.note
    first = np.zeros(gaps, dtype=int)

    def asked(pieces: np.ndarray) -> np.ndarray:
        first[:] += pieces.shape[1]
        return np.take_along_axis(ends, pieces, axis=1)

    found = words.add(values, entries, standing.tolist(), asked, lambda pieces: at_start[:, pieces[0]])
    assert set(first) == {4 + 1 + SAMPLED}
    np.testing.assert_allclose(found[np.arange(gaps), standing], (values + ends)[np.arange(gaps), standing])
    truth = np.logaddexp.reduce(found, axis=1) - np.logaddexp.reduce(values + ends, axis=1)
    said = np.array(words._shifts)
    spread = said.std() / gaps**0.5
    assert truth.mean() < -0.02  # too small a sum: .5 stands in for a mean of .6
    assert said.mean() == pytest.approx(truth.mean(), abs=4 * spread + 0.005)
    assert spread < 0.005
    assert (
        f"by {said.mean():+.4f} ± {2 * spread:.4f} (estimated from {SAMPLED} of the others in each of {gaps} gaps"
        in words.note
    )


def test_a_fillers_note_counts_its_gaps(folders: dict[str, Path]) -> None:
    for kind in ("bigpt", "gpt2"):
        filler = gap_filler(load_extractor(folders[kind]), exact_ends=2)
        assert "gaps" not in filler.note
        gaps = predictable(filler)
        filler.log_probabilities(gaps, usable(filler))
        assert f"in each of {len(gaps)} gaps" in filler.note


def test_first_words_that_are_spelt_otherwise_are_not_asked_for(folders: dict[str, Path]) -> None:
    """GPT-2's own text begins without a space, and the piece of a candidate has one."""
    for kind in KINDS:
        filler = gap_filler(load_extractor(folders[kind]))
        refused = filler.refusal(Gap(SENTENCES[0], 0))
        if kind in ("gpt2", "roberta"):
            assert refused is not None
            assert "spells the first word of a text otherwise" in refused
            with pytest.raises(DataError, match="spells the first word"):
                filler.log_probabilities([Gap(SENTENCES[0], 0)], usable(filler))
        else:
            assert refused is None
        assert filler.refusal(Gap(SENTENCES[0], 1)) is None


def pair_of(folders: dict[str, Path], **options: Any) -> tuple[list[Any], PairGapFiller]:
    extractors = [load_extractor(folders[kind], dtype="float64") for kind in ("gpt2", "reversed")]
    return extractors, PairGapFiller(*(gap_filler(extractor, **options) for extractor in extractors))


def test_a_pair_gives_the_second_model_the_words_from_the_last(folders: dict[str, Path]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    extractors, pair = pair_of(folders, exact_ends=None)
    assert pair.sides == ("forward", "backward")
    assert pair.info.directionality == "concatenated"
    candidates = usable(pair)
    gaps = predictable(pair)
    assert {gap.position for gap in gaps if len(gap.words) == 9} == set(range(1, 8))
    found = pair.log_probabilities(gaps, candidates)
    for side, kind, extractor in zip(pair.sides, ("gpt2", "reversed"), extractors, strict=True):
        model = AutoModelForCausalLM.from_pretrained(folders[kind], dtype=torch.float64).eval()
        backend = extractor.tokenizer.backend_tokenizer
        texts = [backend.decode([number], skip_special_tokens=False) for number in range(model.config.vocab_size)]
        continues = np.array([text[:1].isalnum() or text[:1] == "\ufffd" for text in texts])

        def scores(ids: list[int], model: Any = model) -> Any:
            with torch.no_grad():
                return model(torch.tensor([ids])).logits[0, -1].numpy()

        def pieces(word: str, backend: Any = backend) -> list[int]:
            return list(backend.encode(f" {word}", add_special_tokens=False).ids)

        entries = [pieces(word)[0] for word in candidates]
        for number, gap in enumerate(gaps):
            read = gap.words[: gap.position] if side == "forward" else gap.words[: gap.position : -1]
            context = [extractor.tokenizer.bos_token_id, *(piece for word in read for piece in pieces(word))]
            wanted = by_hand(scores, context, entries, continues)
            np.testing.assert_allclose(found[side][number], wanted, atol=1e-8)


def test_a_pair_is_measured_like_any_pair_and_its_mix_is_that_of_its_sides(folders: dict[str, Path]) -> None:
    from analyses import cloze, collect_gaps
    from analyses.gap_mixes import mixed, normalised

    extractors, pair = pair_of(folders)
    text = [
        tuple(np.random.default_rng(number).permutation(["the", "of", "one", "two", "dog", "and"]))
        for number in range(40)
    ]
    words = [tuple(map(str, words)) for words in text]
    gaps = collect_gaps([pair], words, targets=30, tuning_targets=30)
    result = cloze(PairGapFiller(*extractors), gaps=gaps)
    (model,) = result.models
    assert model.conditions == ("unigram", "forward", "backward", "product", "tuned mix")
    assert "reads the words from the last to the first" in model.note
    sides = [
        cloze(one, gaps=gaps_read).interval(0, "forward").value[0]
        for one, gaps_read in ((extractors[0], gaps), (extractors[1], turned(gaps)))
    ]
    np.testing.assert_allclose([result.interval(0, side).value[0] for side in pair.sides], sides, atol=1e-10)
    values = {side: normalised(v) for side, v in pair.log_probabilities(gaps.test, gaps.candidates).items()}
    tuned = [normalised(v) for v in pair.log_probabilities(gaps.tuning, gaps.candidates).values()]
    unigram = normalised(np.log(np.mean(np.exp(np.concatenate(tuned)), axis=0)))
    answers = [gaps.candidates.index(gap.answer) for gap in gaps.test]
    by_rule = mixed([values["forward"], values["backward"], unigram], model.weights or ())
    wanted = -by_rule[np.arange(len(answers)), answers].mean()
    assert float(result.interval(0, "tuned mix").value[0]) == pytest.approx(wanted, abs=1e-10)


def turned(gaps: Any) -> Any:
    from dataclasses import replace

    def back(some: tuple[Gap, ...]) -> tuple[Gap, ...]:
        return tuple(Gap(gap.words[::-1], len(gap.words) - 1 - gap.position) for gap in some)

    return replace(gaps, test=back(gaps.test), tuning=back(gaps.tuning))


def test_a_pair_of_other_things_is_refused(folders: dict[str, Path]) -> None:
    one = load_extractor(folders["gpt2"])
    with pytest.raises(UsageError, match="predicts from joint; a pair is made of two left-to-right models"):
        PairGapFiller(one, load_extractor(folders["bert"]))
    with pytest.raises(UsageError, match="predicts from forward and backward"):
        PairGapFiller(load_extractor(folders["bigpt"]), one)
    with pytest.raises(UsageError, match="give a pair of one kind"):
        PairGapFiller(one, load_extractor(folders["reversed"], untrained=True))
    pair = PairGapFiller(one, load_extractor(folders["reversed"]))
    with pytest.raises(DataError, match="not one entry"):
        pair.log_probabilities([Gap(SENTENCES[0], 3)], ["the", "xyzzy"])


def test_families_without_a_cache_read_the_context_again(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.cache_utils import Cache

    filler = gap_filler(load_extractor(folders["gpt2"], dtype="float64"), exact_ends=None)
    candidates, gaps = usable(filler), predictable(filler)
    repeated, used = Cache.batch_repeat_interleave, []
    monkeypatch.setattr(Cache, "batch_repeat_interleave", lambda *args: (used.append(args), repeated(*args))[1])
    cached = filler.log_probabilities(gaps, candidates)["forward"]
    assert len(used) == len(gaps), "the cache was not used"
    monkeypatch.delattr(Cache, "batch_repeat_interleave")
    again = gap_filler(load_extractor(folders["gpt2"], dtype="float64"), exact_ends=None)
    np.testing.assert_allclose(again.log_probabilities(gaps, candidates)["forward"], cached, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_untrained_copies_fill_gaps_and_follow_from_their_seed(folders: dict[str, Path], kind: str) -> None:
    found = []
    for seed in (1, 1, 2):
        extractor: Any = load_extractor(folders[kind], untrained=True, seed=seed)
        filler = gap_filler(extractor)
        found.append(filler.log_probabilities(predictable(filler), usable(filler))[filler.sides[0]])
    assert np.array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_the_head_stands_on_the_extractors_own_network(folders: dict[str, Path]) -> None:
    for kind in ("bert", "gpt2"):
        extractor: Any = load_extractor(folders[kind], untrained=True, seed=4)
        filler: Any = gap_filler(extractor)
        model = filler._network.model
        assert model.base_model is extractor.model
        assert model.get_output_embeddings().weight is extractor.model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["the", "xyzzy"], r"1 of 2 candidates are not one entry .*'xyzzy'"),
        (["the", "the"], "are one entry"),
        (["the", "<UNK>"], "not one entry"),
    ],
)
def test_candidates_must_be_entries_of_the_vocabulary(folders: dict[str, Path], words: list[str], said: str) -> None:
    for kind in KINDS:
        with pytest.raises(DataError, match=said):
            gap_filler(load_extractor(folders[kind])).log_probabilities(GAPS, words)


def test_impossible_requests_are_refused(folders: dict[str, Path]) -> None:
    filler = gap_filler(load_extractor(folders["elmo"]))
    with pytest.raises(UsageError, match="no candidates"):
        filler.log_probabilities(GAPS, [])
    with pytest.raises(UsageError, match="batch size 0"):
        filler.log_probabilities(GAPS, ["the"], batch_size=0)
    with pytest.raises(DataError, match="gap 1: there is no word 4 in a sentence of 3 words"):
        filler.log_probabilities([Gap(("a", "b", "c"), 3)], ["the"])
    for kind in ("bigpt", "bert", "gpt2"):
        with pytest.raises(DataError, match=r"gap 1: the sentence has .* pieces, but .* reads at most"):
            gap_filler(load_extractor(folders[kind])).log_probabilities([Gap(SENTENCES[0] * 6, 3)], ["the"])
    with pytest.raises(UsageError, match="exact_ends=-1"):
        gap_filler(load_extractor(folders["bigpt"]), exact_ends=-1)


def test_a_model_without_start_token_does_not_predict_the_first_word(folders: dict[str, Path], tmp_path: Path) -> None:
    for file in folders["gpt2"].iterdir():
        shutil.copy(file, tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings.update(tokenizer_class="PreTrainedTokenizerFast", bos_token=None, eos_token=None, unk_token=None)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    filler = gap_filler(load_extractor(tmp_path))
    assert filler.refusal(Gap(SENTENCES[0], 1)) is None
    with pytest.raises(DataError, match="reads nothing before the first word"):
        filler.log_probabilities([Gap(SENTENCES[0], 0)], ["the"])
    assert np.isfinite(filler.log_probabilities([Gap(SENTENCES[0], 1)], usable(filler))["forward"]).all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet", "t5"])
def test_a_checkpoint_without_a_head_says_so(tiny_folder: Callable[[str], Path], family: str) -> None:
    if family == "gpt2":  # its head is its word vectors, so that any GPT-2 has one
        assert gap_filler(load_extractor(tiny_folder("gpt2"))).sides == ("forward",)
        return
    with pytest.raises(UsageError, match="cannot fill gaps"):
        gap_filler(load_extractor(tiny_folder(family)))


@pytest.mark.parametrize("name", ["softmax.safetensors", "vocabulary.txt"])
def test_elmo_without_its_softmax_says_so(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    for file in folders["elmo"].iterdir():
        if file.name != name:
            shutil.copy(file, tmp_path)
    with pytest.raises(UsageError, match=rf"cannot fill gaps: its softmax is not there \({name}"):
        gap_filler(load_extractor(tmp_path))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: (path / "softmax.safetensors").write_bytes(b"x" * 40), "cannot read the softmax"),
        (lambda path: (path / "vocabulary.txt").write_text("the\n"), "has 1 words, but the output layer has"),
        (lambda path: _widen(path), "they are not of one model"),
    ],
)
def test_a_softmax_of_another_model_is_refused(
    folders: dict[str, Path], tmp_path: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    for file in folders["elmo"].iterdir():
        shutil.copy(file, tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelError, match=said):
        gap_filler(load_extractor(tmp_path))


def _widen(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weight": np.ones((5, 9), np.float32), "bias": np.ones(5, np.float32)}, path / "softmax.safetensors")
