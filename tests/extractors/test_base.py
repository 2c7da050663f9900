"""Batching, order and streaming of the protocol, on an extractor whose vectors can be told by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import DataError, UsageError
from extractors.representation import Alignment, ModelInfo


class Letters(Extractor):
    """Vector of a word at layer l: its length and its position in the window, times l + 1. Windows of four words."""

    def __init__(self) -> None:
        self.info = ModelInfo("letters", "-", "letters", "trained", ("zero", "one", "two"), 2, "bidirectional")
        self.batches: list[list[int]] = []

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        starts = range(0, len(words), 4)
        windows = [
            Window(s, min(s + 4, len(words)), (s, min(s + 4, len(words))), len(words[s : s + 4]), words[s : s + 4])
            for s in starts
        ]
        return Prepared(Alignment(words, words, tuple((i,) for i in range(len(words)))), tuple(windows))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        self.batches.append([window.length for window in windows])
        return [
            WindowOutput(
                np.array(
                    [[[len(w) * (k + 1), i * (k + 1)] for i, w in enumerate(window.payload)] for k in layers],
                    np.float32,
                )
            )
            for window in windows
        ]


def test_sentences_come_back_in_order_whatever_their_length() -> None:
    sentences = [["a"] * (1 + n % 9) + ["b" * n] for n in range(1, 50)]
    for batch_size in (1, 3, 100):
        extractor = Letters()
        got = list(extractor.extract(iter(sentences), batch_size=batch_size))
        assert [sentence.words for sentence in got] == [tuple(sentence) for sentence in sentences]
        for sentence, representation in zip(sentences, got, strict=True):
            np.testing.assert_array_equal(representation.hidden[0, :, 0], [len(word) for word in sentence])
            np.testing.assert_array_equal(representation.hidden[2, :, 1], [3 * (i % 4) for i in range(len(sentence))])
            assert representation.windows == -(-len(sentence) // 4)
        for batch in extractor.batches:
            assert len(batch) <= batch_size
            assert batch == sorted(batch, reverse=True)


def test_sentences_are_streamed() -> None:
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        while True:
            read += 1
            yield ["a", "b"]

    stream = Letters().extract(endless(), batch_size=2)
    for _ in range(5):
        next(stream)
    assert read <= 64


def test_options_are_checked_before_anything_is_read() -> None:
    def untouched() -> Iterator[str]:
        raise AssertionError("read")
        yield ""

    for options in ({"layers": 3}, {"pooling": "sum"}, {"batch_size": 0}, {"attention": True}):
        with pytest.raises(UsageError):
            Letters().extract(untouched(), **options)  # type: ignore[arg-type]


def test_a_bad_sentence_is_named_by_its_place_in_the_whole_input() -> None:
    sentences = [["a"]] * 70 + [["a", ""]]
    for call in (Letters().align, lambda s: Letters().extract(s, batch_size=2)):
        with pytest.raises(DataError, match="sentence 71: word 2"):
            list(call(sentences))  # type: ignore[operator]


def test_progress_counts_sentences() -> None:
    from contextlib import contextmanager

    class Counter:
        def __init__(self) -> None:
            self.seen: list[object] = []

        @contextmanager
        def task(self, description: str, total: int | None = None) -> Iterator[Counter]:
            self.seen.append(total)
            yield self

        def advance(self, amount: int = 1) -> None:
            self.seen.append(amount)

        def note(self, message: str) -> None:
            raise AssertionError(message)

    counter = Counter()
    list(Letters().extract([["a"], ["b"] * 9], progress=counter))
    assert counter.seen == [2, 1, 1]


def test_a_bare_string_is_not_a_list_of_sentences() -> None:
    # Its characters would be read as sentences of one word each.
    for attempt in (lambda text: list(Letters().extract(text)), lambda text: list(Letters().align(text))):
        with pytest.raises(UsageError, match=r"got the string 'One sentence'; write \[text\]"):
            attempt("One sentence")


def test_an_extractor_says_what_it_is() -> None:
    assert repr(Letters()) == "<letters: letters, trained, layers 0 to 2, 2 dimensions>"
