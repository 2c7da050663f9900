"""Modes, scalar mixes, word classes and lengths of direction shares, on models whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from analyses import (
    ContextSet,
    collect_contexts,
    contexts_by_length,
    direction_shares,
    narrow_contexts,
    natural_statistics,
    resample_contexts,
    shares_by_length,
    shorten_contexts,
)
from analyses.direction_shares import BY_CLASS, CONTROL, CROSSED, MIX, NORMED_MIX
from analyses.masking import OUT_OF_VOCABULARY, side_masks
from analyses.shares_by_length import BY_LENGTH
from analyses.variance import presence_effects
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for

Corpus = list[tuple[str, ...]]
MASK = OUT_OF_VOCABULARY[0]
FORMS = {"sum": lambda a, b: a + b, "product": lambda a, b: a * b, "both": lambda a, b: a + b + a * b}


@pytest.fixture(scope="module")
def wide() -> Corpus:
    """480 sentences of 37 words of 4000 forms; twelve target words in the middle of 40 sentences each."""
    generator = generator_for("wide corpus")
    sentences = []
    for number in range(480):
        words = [f"w{i}" for i in generator.integers(4000, size=37)]
        words[18] = f"t{number % 12}"
        sentences.append(tuple(words))
    return sentences


@pytest.fixture(scope="module")
def signs(sided: Any, part_sign: Any) -> Any:
    """Model whose layer 1 is a form of independent signs of the two sides; a masked side is 0."""

    def build(form: str, **options: Any) -> Any:
        def side(name: str, dimension: int, words: tuple[str, ...]) -> float:
            return 0.0 if not set(words) - {MASK} else part_sign(name, str(dimension), *words)

        def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
            return np.array([FORMS[form](side("l", d, left), side("r", d, right)) for d in range(6)])

        return sided(vector, **options)

    return build


def shares(result: Any, layer: int | None = 1, part: str = "whole", condition: str | None = None) -> np.ndarray:
    return result.interval(layer, part, condition).value[:3]


@pytest.mark.parametrize("form", FORMS)
def test_four_and_sixteen_contexts_agree_within_their_intervals(signs: Any, wide: Corpus, form: str) -> None:
    """Neither is the estimate moved by K, nor is the truth outside of the interval of either."""
    model = signs(form)
    truth = np.array({"sum": (0.5, 0.5, 0), "product": (0, 0, 1), "both": (1 / 3, 1 / 3, 1 / 3)}[form])
    small, large = (
        direction_shares(model, wide, contexts=collect_contexts([model], wide, side=2, grid=grid), natural=10)
        for grid in (4, 16)
    )
    assert (small.contexts.grid, large.contexts.grid) == (4, 16)
    one, other = small.interval(1), large.interval(1)
    rounding = 1e-12
    width = np.hypot(one.high - one.low, other.high - other.low)[:3] / 2
    assert np.all(np.abs(one.value - other.value)[:3] <= width + rounding)
    for interval in (one, other):
        assert np.all(interval.low[:3] - rounding <= truth)
        assert np.all(truth <= interval.high[:3] + rounding)
    if form == "both":
        # Sixteen contexts a side say more than four, and twelve targets bound both.
        assert np.all((other.high - other.low)[:3] < (one.high - one.low)[:3])


def test_presence_effects_of_known_cells() -> None:
    """Additive, product and constant cells in closed form, and the exact sum: mean squared distance from the mean."""
    additive = np.array([[[0.0, 5.0], [1.0, 5.0]], [[2.0, 5.0], [3.0, 5.0]]])
    parts = presence_effects(additive)
    assert parts.left.tolist() == [1.0, 0.0]
    assert parts.right.tolist() == [0.25, 0.0]
    assert parts.interaction.tolist() == [0.0, 0.0]
    cells = np.random.default_rng(0).standard_normal((5, 2, 2, 3))
    parts = presence_effects(cells)
    around = np.square(cells - cells.mean(axis=(1, 2), keepdims=True)).mean(axis=(1, 2))
    assert parts.total == pytest.approx(around, rel=1e-12)
    with pytest.raises(ValueError, match="2, 2, dim"):
        presence_effects(np.zeros((3, 2, 4)))


@pytest.mark.parametrize(("form", "truth"), [("sum", (0.5, 0.5, 0)), ("product", (1 / 3, 1 / 3, 1 / 3))])
def test_masked_sides_in_closed_form(signs: Any, wide: Corpus, form: str, truth: tuple[float, ...]) -> None:
    """h = l + r has squared effects 1/4, 1/4, 0; h = l r, which is 0 unless both are there, has 1/16 thrice."""
    result = direction_shares(signs(form), [words[14:23] for words in wide], mode="masked", natural=10)
    assert result.contexts.mode == "natural"
    assert shares(result) == pytest.approx(truth, abs=1e-12)
    assert set(result.to_frame()["condition"]) == {"masked"}
    assert {key[2] for key in result.components} == {"masked"}
    total = result.components[1, "whole", "masked"][:, :3].sum(axis=1)
    assert total == pytest.approx(6 * (0.5 if form == "sum" else 3 / 16), rel=1e-12), (
        "a mean over pairs, a sum over dims"
    )


def test_masked_reads_the_pairs_and_keeps_lengths(fake: Any, wide: Corpus) -> None:
    """Words of two pieces are replaced by two placeholders, so that the target's place in pieces is the same in all."""
    read: list[tuple[str, ...]] = []

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        read.append(words)
        return np.zeros((2, len(words), 2)) + len(read)

    def pieces(words: tuple[str, ...]) -> list[int]:
        return [1 if word == MASK or word[-1] in "02468" or word.startswith("t") else 2 for word in words]

    model = fake(hidden, pieces=pieces)
    contexts = collect_contexts([model], wide, side=2, grid=3, targets=2, mode="natural")
    target = contexts.targets[0]
    masks = side_masks(model)
    composed = list(masks.sentences(target))
    assert len(composed) == 3 * 3 + 1
    left_pieces, right_pieces = target.pieces["fake"].before - 1, target.pieces["fake"].after - 1
    no_left, no_right = (MASK,) * left_pieces, (MASK,) * right_pieces
    assert composed[0] == ((*no_left, target.word, *no_right), left_pieces)
    for k in range(3):
        assert composed[1 + 3 * k] == ((*target.left[k], target.word, *no_right), 2)
        assert composed[2 + 3 * k] == ((*no_left, target.word, *target.right[k]), left_pieces)
        assert composed[3 + 3 * k] == ((*target.left[k], target.word, *target.right[k]), 2)
    read.clear()
    direction_shares(model, wide, contexts=contexts, mode="masked", natural=1)
    assert sorted(read[1:]) == sorted(words for one in contexts.targets for words, _ in masks.sentences(one))


def test_natural_pairs_come_from_one_sentence_and_bias_the_shares(sided: Any, part_vector: Any, wide: Corpus) -> None:
    """A topic that both sides of a sentence tell: additive in itself, it passes for an interaction among natural pairs."""
    sentence_of = {}
    for number, words in enumerate(wide):
        sentence_of[words[14:18]] = sentence_of[words[19:23]] = number

    def agreement(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
        same = len(left) == len(right) == 4 and sentence_of.get(left) == sentence_of.get(right)
        return part_vector(left) + part_vector(("r", *right)) + 2.0 * same

    model = sided(agreement)
    words = {f"t{number}" for number in range(6)}
    natural = collect_contexts([model], wide, side=4, grid=4, mode="natural", words=words)
    assert set(natural.words) == words
    for target in natural.targets:
        pairs = [(sentence_of[left], sentence_of[right]) for left, right in zip(target.left, target.right, strict=True)]
        assert all(left == right for left, right in pairs)
        assert len(set(pairs)) == 4
    biased = direction_shares(model, wide, contexts=natural, natural=10)
    assert biased.mode == "natural"
    assert set(biased.to_frame()["condition"]) == {"natural"}
    contexts = collect_contexts([model], wide, side=4, grid=4, words=words)
    crossed = direction_shares(model, wide, contexts=contexts, natural=10)
    assert abs(shares(crossed)[2]) < 1e-14
    assert shares(biased)[2] > 0.05


def test_resampled_contexts_keep_piece_counts_and_nothing_else(fake: Any, wide: Corpus) -> None:
    def hidden(words: tuple[str, ...]) -> np.ndarray:
        return np.zeros((2, len(words), 2))

    models = [
        fake(hidden, pieces=lambda words: [1 + (word[-1] in "13579") for word in words], name="pieces"),
        fake(hidden, name="words"),
    ]
    contexts = collect_contexts(models, wide, side=4, grid=4, targets=4)
    drawn = resample_contexts(models, wide, contexts)
    assert drawn.mode == "resampled"
    assert drawn.words == contexts.words
    corpus_words = {word for words in wide for word in words}
    same = 0
    for before, after in zip(contexts.targets, drawn.targets, strict=True):
        assert after.pieces == before.pieces
        for old, new in zip((*before.left, *before.right), (*after.left, *after.right), strict=True):
            assert [word[-1] in "13579" for word in old] == [word[-1] in "13579" for word in new]
            assert set(new) <= corpus_words
            same += sum(a == b for a, b in zip(old, new, strict=True))
    assert same < 5, "4000 word forms: hardly any is drawn for itself"
    assert resample_contexts(models, wide, contexts) == drawn
    assert resample_contexts(models, wide, contexts, seed=1).targets != drawn.targets
    with pytest.raises(UsageError, match="give the same ones"):
        resample_contexts(models[:1], wide, contexts)


def test_words_are_drawn_by_frequency_and_kept_where_none_fits(fake: Any, wide: Corpus) -> None:
    """Half of the corpus is one word, so half of all draws are; a word of five pieces has no equal and stays."""

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        return np.zeros((2, len(words), 2))

    text = [tuple("the" if i % 2 else word for i, word in enumerate(words)) for words in wide]
    model = fake(hidden, pieces=lambda words: [5 if word == "long" else 1 for word in words])
    contexts = collect_contexts([model], wide, side=4, grid=8, targets=8)
    drawn = resample_contexts([model], text, contexts)
    words = [word for target in drawn.targets for part in (*target.left, *target.right) for word in part]
    assert np.mean([word == "the" for word in words]) == pytest.approx(0.5, abs=0.08)
    first = contexts.targets[0]
    marked = replace(first, left=tuple(("long", *part[1:]) for part in first.left))
    stubborn = resample_contexts([model], text, replace(contexts, targets=(marked, *contexts.targets[1:])))
    assert {part[0] for part in stubborn.targets[0].left} == {"long"}
    assert any("8 words of the contexts kept" in note for note in stubborn.notes)


def test_resampled_shares_are_those_of_the_resampled_contexts(signs: Any, wide: Corpus) -> None:
    model, text = signs("both"), [words[15:22] for words in wide]
    result = direction_shares(model, text, mode="resampled", natural=10)
    assert (result.contexts.side, result.contexts.grid) == (3, 8)
    assert result.contexts.mode == "resampled"
    assert set(result.to_frame()["condition"]) == {"resampled"}
    assert shares(result) == pytest.approx([1 / 3] * 3, abs=0.15)
    assert not {words[:3] for words in text} & set(result.contexts.targets[0].left)


def test_contexts_of_another_mode_are_refused(signs: Any, wide: Corpus) -> None:
    model = signs("sum")
    crossed = collect_contexts([model], wide, side=2, grid=2, targets=2)
    with pytest.raises(UsageError, match="resample_contexts"):
        direction_shares(model, wide, contexts=crossed, mode="resampled")
    with pytest.raises(UsageError, match="mode='natural'"):
        direction_shares(model, wide, contexts=crossed, mode="natural")
    with pytest.raises(UsageError, match="give crossed or natural ones"):
        direction_shares(model, wide, contexts=resample_contexts([model], wide, crossed), mode="masked")
    with pytest.raises(UsageError, match="crossed, natural"):
        collect_contexts([model], wide, mode="masked")
    direction_shares(model, wide, contexts=crossed, mode="masked", natural=1)


@pytest.fixture(scope="module")
def towers(fake: Any, part_vector: Any) -> Any:
    """Two one-directional models side by side, three layers, each word's scale its own."""

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([part_vector((word,)) for word in words])
        layers = [np.hstack([own, own])]
        for depth in ("a", "b"):
            forward = np.stack([part_vector((depth, *words[: i + 1])) for i in range(len(words))])
            backward = np.stack([part_vector((depth, "back", *words[i:])) for i in range(len(words))])
            layers.append(np.hstack([forward, 2 * backward]) + layers[-1])
        return np.stack(layers)

    parts = MappingProxyType({"whole": slice(None), "forward": slice(0, 6), "backward": slice(6, 12)})
    return fake(hidden, parts=parts, directionality="concatenated")


def test_a_scalar_mix_is_additive_and_its_layer_norm_is_not(towers: Any, wide: Corpus) -> None:
    contexts = collect_contexts([towers], wide, side=2, grid=4, targets=8)
    result = direction_shares(towers, wide, contexts=contexts, natural=20)
    for mix in (None, [0.2, -1.0, 3.0]):
        mixed = direction_shares(towers, wide, contexts=contexts, natural=20, mix=mix)
        interval = mixed.interval(None, condition=MIX)
        assert max(abs(interval.low[2]), abs(interval.high[2])) < 1e-14
        assert shares(mixed, None, "forward", MIX) == pytest.approx([1, 0, 0], abs=1e-14)
        assert shares(mixed, None, "backward", MIX) == pytest.approx([0, 1, 0], abs=1e-14)
        normed = mixed.interval(None, condition=NORMED_MIX)
        assert normed.low[2] > 1e-6, "a deviation over the sentence depends on both sides"
        assert shares(mixed, None, "forward", NORMED_MIX)[1] > 1e-6, "the forward half comes to know the right side"
    rows = result.to_frame()
    mixes = rows[rows["condition"].isin([MIX, NORMED_MIX])]
    assert mixes["layer"].isna().all()
    assert "contextual_share" in set(mixes.loc[mixes["condition"] == MIX, "measure"])
    assert "contextual_share" not in set(mixes.loc[mixes["condition"] == NORMED_MIX, "measure"])


def test_mixes_equal_a_slow_loop(towers: Any, wide: Corpus) -> None:
    contexts = collect_contexts([towers], wide, side=2, grid=3, targets=2)
    weights = np.array([0.2, 0.5, 0.3])
    result = direction_shares(towers, wide, contexts=contexts, natural=5, mix=weights.tolist())
    for condition in (MIX, NORMED_MIX):
        both, total = 0.0, 0.0
        for target in contexts.targets:
            h = {}
            for i, left in enumerate(target.left):
                for j, right in enumerate(target.right):
                    layers = towers.hidden((*left, target.word, *right))
                    if condition == NORMED_MIX:
                        layers = np.stack([(one - one.mean()) / np.sqrt(one.var() + 1e-12) for one in layers])
                    h[i, j] = (weights[:, None, None] * layers).sum(axis=0)[2]
            n = range(3)
            d = [h[a, r] - h[b, r] - h[a, s] + h[b, s] for a in n for b in n for r in n for s in n if a != b and r != s]
            e = [h[a, r] - h[b, r] for a in n for b in n for r in n if a != b]
            f = [h[a, r] - h[a, s] for a in n for r in n for s in n if r != s]
            crossed = np.mean([x @ x for x in d]) / 4
            both += crossed
            total += np.mean([x @ x for x in e]) / 2 + np.mean([x @ x for x in f]) / 2 - crossed
        assert shares(result, None, condition=condition)[2] == pytest.approx(both / total, rel=1e-9, abs=1e-12)


def test_a_mix_needs_all_layers(towers: Any, wide: Corpus) -> None:
    contexts = collect_contexts([towers], wide, side=2, grid=2, targets=2)
    some = direction_shares(towers, wide, contexts=contexts, layers="1,2", natural=5)
    assert not [key for key in some.components if key[0] is None]
    with pytest.raises(UsageError, match="needs all its layers"):
        direction_shares(towers, wide, contexts=contexts, layers="1,2", mix=[1, 1])
    for bad in ([1.0, 2.0], [1.0, 2.0, float("nan")], [0.0, 0.0, 0.0]):
        with pytest.raises(UsageError, match="3 finite weights"):
            direction_shares(towers, wide, contexts=contexts, mix=bad)


def test_shares_by_word_class(sided: Any, part_vector: Any, wide: Corpus, fake: Any) -> None:
    """Function words that see the left side only, content words the right one; UPOS tags split the latter."""
    text = [(*words[:18], f"t{number % 24}", *words[19:]) for number, words in enumerate(wide)]
    determiners, nouns = {f"t{number}" for number in range(8)}, {"t8", "t9"}
    tags = [["DET" if word in determiners else "NOUN" if word in nouns else "VERB" for word in words] for words in text]

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([part_vector((word,)) for word in words])
        sides = [
            part_vector(words[:i]) if word in determiners else part_vector(words[i + 1 :])
            for i, word in enumerate(words)
        ]
        return np.stack([own, np.stack(sides)])

    model = fake(hidden)
    contexts = collect_contexts([model], text, side=2, grid=3, targets=24, upos=tags)
    assert {target.upos for target in contexts.targets} == {"DET", "NOUN", "VERB"}
    result = direction_shares(model, text, contexts=contexts, natural=10)
    classes = result.by_class()
    assert set(classes) == {"content", "function", "DET", "NOUN", "VERB"}
    assert shares(classes["function"]) == pytest.approx([1, 0, 0], abs=1e-12)
    assert shares(classes["NOUN"]) == pytest.approx([0, 1, 0], abs=1e-12)
    assert [one.interval(1).n for one in (classes["function"], classes["NOUN"], classes["VERB"])] == [8, 2, 14]
    frame = result.to_frame()
    rows = frame[(frame["condition"] == BY_CLASS) & (frame["layer"] == 1)].pivot(
        index="task", columns="measure", values="value"
    )
    assert set(rows.index) == {"content", "function", "DET", "VERB"}, "two nouns are too few for rows"
    assert result.notes == ("word classes with fewer than 8 target words have no rows: NOUN (2)",)
    assert rows.loc["content", "direction_share_right"] == pytest.approx(1)
    assert rows.loc["function", "direction_share_left"] == pytest.approx(1)
    assert frame.loc[frame["condition"] != BY_CLASS, "task"].isna().all()
    plain = direction_shares(model, wide, contexts=collect_contexts([model], wide, side=2, grid=3), natural=10)
    assert BY_CLASS not in set(plain.to_frame()["condition"])


def test_shares_by_length_of_context(sided: Any, part_vector: Any, wide: Corpus) -> None:
    """A left side of which the nearest word counts, a right side that is averaged: its share falls with its length."""

    def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
        total = np.mean([part_vector(("r", word)) for word in right], axis=0) if right else np.zeros(6)
        return (part_vector((left[-1],)) if left else np.zeros(6)) + total

    model = sided(vector)
    result = shares_by_length(model, wide, sides=(1, 4, 16, 40), targets=8, natural=10)
    assert [one.contexts.side for one in result.results] == [1, 4, 16]
    assert any("no contexts of 40 words per side" in note for note in result.notes)
    assert len({one.contexts.words for one in result.results}) == 1, "the same targets at every length"
    frame = result.to_frame()
    assert set(frame["condition"]) == {BY_LENGTH}
    right = frame[(frame["measure"] == "direction_share_right") & (frame["layer"] == 1)].set_index("length")
    for side, truth in ((1, 1 / 2), (4, 1 / 5), (16, 1 / 17)):
        assert right.loc[side, "low"] - 0.05 < truth < right.loc[side, "high"] + 0.05
    assert right["value"].is_monotonic_decreasing


def test_given_contexts_are_measured_on_the_words_of_all_lengths(sided: Any, part_vector: Any, wide: Corpus) -> None:
    model = sided(lambda left, right: part_vector(left) + part_vector(right))
    long = collect_contexts([model], wide, side=4, grid=3, targets=9)
    short = shorten_contexts([model], long, 2)
    short = replace(short, targets=short.targets[8:0:-1])
    result = shares_by_length(model, wide, contexts=[long, short], natural=5)
    assert [one.contexts.side for one in result.results] == [2, 4]
    assert [one.contexts.words for one in result.results] == [long.words[1:]] * 2
    assert set(result.to_frame()["n"]) == {8}
    assert f"left out, as not every length has contexts for them: {long.words[0]}" in result.notes
    with pytest.raises(DataError, match="fewer than two words"):
        shares_by_length(model, wide, contexts=[long, replace(short, targets=short.targets[:1])], natural=5)


def test_shortened_contexts_are_nested(sided: Any, part_vector: Any, wide: Corpus) -> None:
    model = sided(lambda left, right: part_vector(left))
    contexts = collect_contexts([model], wide, side=4, grid=3, targets=3)
    short = shorten_contexts([model], contexts, 2)
    assert short.side == 2
    for long_one, short_one in zip(contexts.targets, short.targets, strict=True):
        assert short_one.left == tuple(part[2:] for part in long_one.left)
        assert short_one.right == tuple(part[:2] for part in long_one.right)
        assert short_one.pieces["fake"].before == long_one.pieces["fake"].before - 2
    assert shorten_contexts([model], contexts, 4) is contexts
    for side in (0, 5):
        with pytest.raises(UsageError, match="4 words per side"):
            shorten_contexts([model], contexts, side)


def test_narrowed_contexts_keep_the_first_parts(signs: Any, wide: Corpus) -> None:
    model = signs("both")
    contexts = collect_contexts([model], wide, side=2, grid=4, targets=3)
    narrow = narrow_contexts(contexts, 2)
    assert (narrow.grid, narrow.side, narrow.words) == (2, 2, contexts.words)
    assert narrow.targets[0].left == contexts.targets[0].left[:2]
    assert direction_shares(model, wide, contexts=narrow, natural=3).contexts.grid == 2
    for grid in (1, 5):
        with pytest.raises(UsageError, match="4 parts per side"):
            narrow_contexts(contexts, grid)


def test_shortening_drops_what_is_no_longer_even(fake: Any, wide: Corpus) -> None:
    def hidden(words: tuple[str, ...]) -> np.ndarray:
        return np.zeros((2, len(words), 2))

    model = fake(hidden, pieces=lambda words: [1 + (word[-1] in "13579" and word[0] == "w") for word in words])
    contexts = collect_contexts([model], wide, side=4, grid=4, targets=4)
    with pytest.raises(DataError, match="contexts of constant length"):
        shorten_contexts([model], contexts, 2)


def test_lengths_that_cannot_be_had_are_told(sided: Any, part_vector: Any, wide: Corpus) -> None:
    model = sided(lambda left, right: part_vector(left))
    with pytest.raises(DataError, match="30 words on both sides"):
        contexts_by_length([model], wide, sides=(30, 40))
    with pytest.raises(UsageError, match="must be different"):
        contexts_by_length([model], wide, sides=(2, 2))
    same = collect_contexts([model], wide, side=2, grid=2, targets=2)
    with pytest.raises(UsageError, match="each of another length"):
        shares_by_length(model, wide, contexts=[same, same])


def test_statistics_of_natural_sentences_may_be_given(signs: Any, wide: Corpus) -> None:
    model = signs("both")
    contexts = collect_contexts([model], wide, side=2, grid=3, targets=3)
    statistics = natural_statistics(model, wide, natural=3)
    once = direction_shares(model, wide, contexts=contexts, statistics=statistics)
    again = direction_shares(model, wide, contexts=contexts, natural=3)
    for key, units in once.components.items():
        np.testing.assert_array_equal(units, again.components[key])
    with pytest.raises(UsageError, match="statistics given are not of"):
        direction_shares(model, wide, contexts=contexts, statistics=statistics, layers=1)


@pytest.mark.parametrize("mode", ["crossed", "natural", "resampled", "masked"])
def test_batch_size_changes_nothing_in_any_mode(signs: Any, wide: Corpus, mode: str) -> None:
    model, text = signs("both"), [words[16:21] for words in wide if words[18] < "t2"]
    one, many = (direction_shares(model, text, mode=mode, batch_size=size, natural=10, seed=2) for size in (1, 64))
    assert isinstance(one.contexts, ContextSet)
    assert one.contexts == many.contexts
    for key, units in one.components.items():
        np.testing.assert_allclose(units, many.components[key], rtol=1e-12, atol=1e-12)
    assert (CONTROL in {key[2] for key in one.components}) == (mode == CROSSED)
