"""Small NumPy models whose direction shares and attention are known, and small corpora."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.randomness import generator_for
from extractors.representation import Alignment, ModelInfo

DIM = 6


@cache
def word_vector(word: str, dim: int = DIM) -> np.ndarray:
    return generator_for("vector", word).standard_normal(dim)


@cache
def sign(*words: str) -> float:
    """An independent +-1 for each stretch of words."""
    return float(generator_for("sign", *words).choice([-1.0, 1.0]))


class FakeExtractor(Extractor):
    """Words in, `hidden(words)` out; `pieces(words)` says how many pieces each word has."""

    def __init__(
        self,
        hidden: Callable[[tuple[str, ...]], np.ndarray],
        *,
        pieces: Callable[[tuple[str, ...]], Sequence[int]] | None = None,
        attention: Callable[[tuple[str, ...]], np.ndarray] | None = None,
        windows: Callable[[tuple[str, ...]], int] = lambda words: 1,
        name: str = "fake",
        dtype: str = "float64",
        **info: Any,
    ) -> None:
        probe = hidden(("a", "b"))
        self.hidden, self.attention, self.windows = hidden, attention, windows
        self.pieces = pieces or (lambda words: [1] * len(words))
        self.dtype = np.dtype("float64" if dtype == "float64" else "float32")
        options = {"directionality": "bidirectional", **info}
        self.info = ModelInfo(
            name=name,
            source=name,
            family="fake",
            weights="trained",
            layer_names=tuple(f"layer {i}" for i in range(len(probe))),
            hidden_size=probe.shape[-1],
            heads=None if attention is None else attention(("a", "b")).shape[1],
            dtype=dtype,
            **options,
        )

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        ends = np.cumsum([1, *self.pieces(words)])
        spans = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
        alignment = Alignment(words, tuple("x" for _ in range(ends[-1] + 1)), spans)
        count, n = self.windows(words), len(words)
        windows = tuple(
            Window(0, n, (n * i // count, n * (i + 1) // count), int(ends[-1]) + 1, words) for i in range(count)
        )
        return Prepared(alignment, windows)

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        outputs = []
        for window in windows:
            hidden = self.hidden(window.payload)[list(layers)].astype(self.dtype)
            if not attention:
                outputs.append(WindowOutput(hidden))
                continue
            assert self.attention is not None
            maps = self.attention(window.payload)[[layer - 1 for layer in layers if layer > 0]]
            outputs.append(WindowOutput(hidden, maps, 1 - maps.sum(axis=-1)))
        return outputs


def of_sides(function: Callable[[tuple[str, ...], tuple[str, ...]], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """Layer 0: the word's own vector; layer 1: `function(left words, right words)` added to it."""

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([word_vector(word) for word in words])
        sides = np.stack([function(words[:i], words[i + 1 :]) for i in range(len(words))])
        return np.stack([own, own + sides])

    return hidden


@pytest.fixture(scope="session")
def fake() -> Callable[..., FakeExtractor]:
    """Build a fake model from `hidden(words)`."""
    return FakeExtractor


@pytest.fixture(scope="session")
def sided() -> Callable[..., FakeExtractor]:
    """Build a fake model whose layer 1 is a function of the words left and right."""
    return lambda function, **options: FakeExtractor(of_sides(function), **options)


@pytest.fixture(scope="session")
def part_sign() -> Callable[..., float]:
    return sign


@pytest.fixture(scope="session")
def part_vector() -> Callable[[tuple[str, ...]], np.ndarray]:
    return lambda words: word_vector(" ".join(words))


@pytest.fixture(scope="session")
def corpus() -> list[tuple[str, ...]]:
    """300 sentences of 13 words; ten target words t0..t9 in the middle of 30 sentences each, the rest almost unique."""
    generator = generator_for("corpus")
    letters = [f"{chr(97 + i)}{chr(97 + j)}" for i in range(26) for j in range(26)]
    sentences = []
    for number in range(300):
        words = [f"{letters[i]}{number}" for i in generator.integers(len(letters), size=13)]
        words[6] = f"t{number % 10}"
        sentences.append(tuple(words))
    return sentences
