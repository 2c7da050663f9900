"""Mask shift on models whose vectors are known, and on tiny real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from analyses import ANALYSES, mask_shift
from analyses.mask_shift import AS_MASK, AS_RANDOM
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.words import MASK_WORD

DIM = 40
LETTERS = [f"{chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(10)]
SENTENCES = [
    tuple(np.random.default_rng(number).choice(LETTERS, size=6, replace=False).tolist()) for number in range(400)
]


def vector(word: str) -> np.ndarray:
    return generator_for("word", word).standard_normal(DIM)


def of_words(function: Callable[[str], np.ndarray]) -> Callable[[tuple[str, ...]], np.ndarray]:
    """Layer 0: independent word vectors; layer 1: `function(word)`; layer 2: one vector for all."""

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([vector(word) for word in words])
        return np.stack([own, np.stack([function(word) for word in words]), np.ones_like(own)])

    return hidden


@pytest.fixture
def masking(fake: Callable[..., Any]) -> Callable[..., Any]:
    """A fake model with a mask."""

    def build(function: Callable[[str], np.ndarray], **options: Any) -> Any:
        extractor = fake(of_words(function), masks=True, **options)
        extractor.with_masks = lambda: extractor
        return extractor

    return build


def test_independent_vectors_are_one_apart(masking: Callable[..., Any]) -> None:
    result = mask_shift(masking(vector), SENTENCES, number=400)
    interval = result.interval(0)
    # The mask's vector is one draw, so that its own length counts: E |h' - h|^2 = |mask|^2 + D, against 2 D.
    own = (np.square(vector(MASK_WORD) - np.mean([vector(w) for w in LETTERS], axis=0)).sum() / DIM + 1) / 2
    np.testing.assert_allclose(interval.value[0], own, rtol=0.03)
    np.testing.assert_allclose(interval.value[1], 1, rtol=0.03)
    assert interval.low[1] < 1 < interval.high[1]
    assert interval.n == 400


def test_a_mask_at_a_known_distance(masking: Callable[..., Any]) -> None:
    """The mask is given the corpus mean, so it is half as far (in squares) from a word as another word is."""
    centre = np.mean([vector(word) for word in LETTERS], axis=0)
    result = mask_shift(masking(lambda word: centre if word == MASK_WORD else vector(word)), SENTENCES, number=400)
    np.testing.assert_allclose(result.interval(1).value, [0.5, 1], rtol=0.04)


def test_a_model_that_ignores_the_target_does_not_move(masking: Callable[..., Any]) -> None:
    def by_place(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([vector(word) for word in words])
        left = np.stack([vector(words[i - 1]) if i else np.zeros(DIM) for i in range(len(words))])
        return np.stack([own, left])

    extractor = masking(vector)
    extractor.hidden = by_place
    result = mask_shift(extractor, SENTENCES, number=50, layers=[0, 1])
    assert (result.interval(1).value == 0).all()
    assert (result.interval(0).value > 0.5).all()


def test_vectors_that_are_all_the_same_have_no_shift(masking: Callable[..., Any]) -> None:
    interval = mask_shift(masking(vector), SENTENCES, number=20).interval(2)
    assert np.isnan([*interval.value, *interval.low, *interval.high]).all()


def test_only_words_of_one_piece_with_letters_take_part(masking: Callable[..., Any]) -> None:
    sentences = [(*sentence, ",", "12") for sentence in SENTENCES]
    extractor = masking(vector, pieces=lambda words: [2 if word.startswith("a") else 1 for word in words])
    read: list[tuple[str, ...]] = []
    plain = extractor.hidden
    extractor.hidden = lambda words: (read.append(words), plain(words))[1]
    result = mask_shift(extractor, sentences, number=100)
    assert not any(word.startswith("a") or word in (",", "12") for word in result.targets)
    assert len(set(result.targets)) > 50
    shown, hidden, replaced = (sorted(read[i : i + 100]) for i in (0, 100, 200))
    assert set(shown) <= set(sentences)
    assert all(words.count(MASK_WORD) == 1 for words in hidden)
    for words in replaced:
        (change,) = [
            (one, other)
            for sentence in shown
            if sum(map(str.__ne__, sentence, words)) == 1
            for one, other in zip(sentence, words, strict=True)
            if one != other
        ]
        assert not any(word.startswith("a") for word in change)
    with pytest.raises(DataError, match="one piece"):
        mask_shift(masking(vector, pieces=lambda words: [2] * len(words)), sentences)
    with pytest.raises(DataError, match="give more text"):
        mask_shift(extractor, [("bb", "bb")])


def test_rows_are_tidy_and_follow_from_the_seed(masking: Callable[..., Any]) -> None:
    extractor = masking(vector)
    frames = [mask_shift(extractor, SENTENCES, number=30, seed=seed, data="x").to_frame() for seed in (0, 0, 1)]
    assert frames[0].equals(frames[1])
    assert not np.allclose(frames[0]["value"][:2], frames[2]["value"][:2])
    assert set(frames[0]["condition"]) == {AS_MASK, AS_RANDOM}
    assert set(frames[0]["measure"]) <= set(ANALYSES["mask_shift"].measures)
    batched = mask_shift(extractor, SENTENCES, number=30, batch_size=7, data="x").to_frame()
    np.testing.assert_allclose(batched["value"].to_numpy(), frames[0]["value"].to_numpy(), atol=1e-12)
    assert mask_shift(extractor, SENTENCES, number=10).plot().axes


def test_intervals_shrink_with_more_sentences(masking: Callable[..., Any]) -> None:
    widths = []
    for number in (50, 200):
        interval = mask_shift(masking(vector), SENTENCES, number=number).interval(0)
        widths.append(interval.high[1] - interval.low[1])
    assert 1.3 < widths[0] / widths[1] < 3.0


def test_a_model_without_a_mask_is_refused(fake: Callable[..., Any]) -> None:
    extractor = fake(of_words(vector))
    with pytest.raises(UsageError, match="no mask"):
        mask_shift(extractor, SENTENCES)
    reason = ANALYSES["mask_shift"].applicable(extractor.info)
    assert reason is not None
    assert "no mask" in reason
    with pytest.raises(UsageError, match="number=0"):
        mask_shift(extractor, SENTENCES, number=0)
