"""Words and pieces on nasty input, and windows over long sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extractors import load_extractor
from extractors.foundation.errors import AlignmentError, DataError
from extractors.huggingface.alignment import divide_into_windows

FAMILIES = ("bert", "roberta", "gpt2", "xlnet", "albert", "t5", "llama", "qwen2")
NASTY = [
    "two  spaces  inside",
    " leading",
    "trailing ",
    "tab\tinside",
    "\u200b",
    "zero\u200bwidth",
    "\ufeff",
    "\x07",
    "bell\x07inside",
    "\u0301",
    "cafe\u0301",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "don't",
    "U.S.",
    "[SEP]",
    "[CLS]x[MASK]",
    "</s>",
    "<s>",
    "<pad>",
    "<|endoftext|>",
    "<sep>",
    "##ing",
    "Ġthe",
    "▁the",
    "\u00a0x\u00a0",
    "漢字",
    "שָׁלוֹם",
    "\U0010ffff",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_nasty_words_never_shift_their_neighbours(family: str, tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder(family))
    plain = next(extractor.align([["the", "fox"]]))
    around = len(plain.pieces) - sum(map(len, plain.word_pieces))
    for nasty in [*NASTY, "x" * 20]:
        words = ("the", nasty, "fox")
        alignment = next(extractor.align([words]))
        assert alignment.words == words
        assert len(alignment.word_pieces) == 3
        assert all(alignment.word_pieces)
        flat = [piece for pieces in alignment.word_pieces for piece in pieces]
        first = alignment.word_pieces[0][0]
        assert flat == list(range(first, first + len(flat))), "pieces lost, invented or out of order"
        assert len(alignment.pieces) == len(flat) + around
        for here, there in ((0, 0), (2, 1)):
            assert [alignment.pieces[i] for i in alignment.word_pieces[here]] == [
                plain.pieces[i] for i in plain.word_pieces[there]
            ]
        assert alignment.replaced in ((), (1,))
    everything = next(load_extractor(tiny_folder("xlnet")).extract([NASTY]))
    assert everything.hidden.shape[1] == len(NASTY)
    assert np.isfinite(everything.hidden).all()


def test_words_that_map_to_nothing_stand_as_unknown(tiny_folder: Callable[[str], Path], minilm_path: Path) -> None:
    for folder in (tiny_folder("bert"), minilm_path):
        extractor = load_extractor(folder)
        alignment = next(extractor.align([["the", "\x07", "fox", "\u200b"]]))
        assert alignment.replaced == (1, 3)
        assert [alignment.pieces[alignment.word_pieces[i][0]] for i in (1, 3)] == ["[UNK]", "[UNK]"]
        got = next(extractor.extract([["the", "\x07", "fox", "\u200b"]]))
        unknown = next(extractor.extract([["the", "\U0010ffff", "fox", "\U0010ffff"]]))
        assert unknown.alignment.pieces == got.alignment.pieces
        np.testing.assert_allclose(got.hidden, unknown.hidden, atol=1e-6)


def test_without_an_unknown_token_the_word_is_refused(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    extractor._words._unknown = None
    with pytest.raises(AlignmentError, match=r"sentence 2: word 3 \('\\x07'\)"):
        list(extractor.align([["the"], ["a", "fox", "\x07"]]))


def test_text_of_special_tokens_is_text(minilm_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    alignment = next(load_extractor(minilm_path).align([["a", "[SEP]", "b"]]))
    assert alignment.pieces == ("[CLS]", "a", "[", "sep", "]", "b", "[SEP]")
    alignment = next(load_extractor(tiny_folder("gpt2")).align([["a", "<|endoftext|>", "b"]]))
    assert "<|endoftext|>" not in alignment.pieces
    alignment = next(load_extractor(tiny_folder("roberta")).align([["a", "</s>"]]))
    assert alignment.pieces.count("</s>") == 1


def test_special_tokens_stand_where_the_family_has_them(tiny_folder: Callable[[str], Path]) -> None:
    edges = {
        "bert": ("[CLS]", "[SEP]"),
        "roberta": ("<s>", "</s>"),
        "llama": ("<s>", None),
        "gpt2": (None, None),
        "t5": (None, "</s>"),
    }
    for family, (before, after) in edges.items():
        alignment = next(load_extractor(tiny_folder(family)).align([["the", "fox"]]))
        first, last = alignment.word_pieces[0][0], alignment.word_pieces[-1][-1]
        assert alignment.pieces[:first] == ((before,) if before else ())
        assert alignment.pieces[last + 1 :] == ((after,) if after else ())
    alignment = next(load_extractor(tiny_folder("xlnet")).align([["the", "fox"]]))
    assert alignment.word_pieces[0][0] == 0
    assert alignment.pieces[-2:] == ("<sep>", "<cls>")


@pytest.mark.parametrize("family", ["gpt2", "roberta", "qwen2"])
def test_words_carry_their_space_and_suffixes_do_not(family: str, tiny_folder: Callable[[str], Path]) -> None:
    alignment = next(load_extractor(tiny_folder(family)).align([["the", "don't", "the"]]))
    pieces = [tuple(alignment.pieces[i] for i in word) for word in alignment.word_pieces]
    assert pieces[0] == pieces[2] == ("Ġthe",)
    assert pieces[1] == ("Ġdo", "n", "'t")


def test_a_word_is_tokenised_as_in_running_text(tiny_folder: Callable[[str], Path]) -> None:
    text = "one quick fox jumps over unbelievable papers"
    for family in FAMILIES:
        extractor = load_extractor(tiny_folder(family))
        running = extractor.tokenizer(text, add_special_tokens=False).tokens()
        alignment = next(extractor.align([text.split()]))
        pieces = [alignment.pieces[i] for word in alignment.word_pieces[1:] for i in word]
        assert pieces == running[-len(pieces) :], family


def test_other_callers_of_the_tokenizer_do_not_disturb(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    before = next(extractor.align([["the", "quick", "fox"]]))
    extractor.tokenizer(["a", "b"], padding="max_length", truncation=True, max_length=4, split_special_tokens=False)
    assert next(extractor.align([["the", "quick", "fox"]])) == before


def test_invalid_unicode_and_empty_words_are_named(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    with pytest.raises(AlignmentError, match="sentence 1: word 2"):
        list(extractor.align([["the", "\ud800"]]))
    with pytest.raises(DataError, match="sentence 2: word 1 is empty"):
        list(extractor.extract([["the"], [" "]]))


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    .filter(lambda word: not word.isspace())
    .map(lambda word: ["one", word, "two"])
)
@settings(max_examples=200, deadline=None)
def test_word_count_never_drifts(sentence: list[str]) -> None:
    for extractor in _EXTRACTORS:
        alignment = next(extractor.align([sentence]))
        assert len(alignment.word_pieces) == 3
        assert all(alignment.word_pieces)


_EXTRACTORS: list = []


@pytest.fixture(autouse=True, scope="module")
def _some_extractors(tiny_folder: Callable[[str], Path]) -> None:
    _EXTRACTORS.extend(load_extractor(tiny_folder(family)) for family in ("bert", "gpt2", "xlnet", "llama"))


@st.composite
def _windowed(draw: st.DrawFn) -> tuple[list[int], int, float]:
    capacity = draw(st.integers(1, 30))
    lengths = draw(st.lists(st.integers(1, capacity), min_size=1, max_size=60))
    return lengths, capacity, draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.95]))


@given(_windowed())
@settings(max_examples=400, deadline=None)
def test_windows_divide_the_words(case: tuple[list[int], int, float]) -> None:
    lengths, capacity, overlap = case
    spans = divide_into_windows(lengths, capacity, overlap=overlap)
    kept = [word for span in spans for word in range(*span.keep)]
    assert kept == list(range(len(lengths)))
    for span in spans:
        assert span.start <= span.keep[0] < span.keep[1] <= span.stop
        assert sum(lengths[span.start : span.stop]) <= capacity
    if sum(lengths) <= capacity:
        assert len(spans) == 1

    def margin(word: int, start: int, stop: int) -> float:
        left = sum(lengths[start:word]) if start > 0 else np.inf
        right = sum(lengths[word + 1 : stop]) if stop < len(lengths) else np.inf
        return min(left, right)

    for span in spans:
        for word in range(*span.keep):
            others = [margin(word, o.start, o.stop) for o in spans if o.start <= word < o.stop]
            assert margin(word, span.start, span.stop) == max(others)


def test_neighbouring_windows_overlap_by_half() -> None:
    spans = divide_into_windows([1] * 100, 20)
    assert [(span.start, span.stop) for span in spans[:3]] == [(0, 20), (10, 30), (20, 40)]
    assert [span.keep for span in spans[:3]] == [(0, 15), (15, 25), (25, 35)]
    assert (spans[-1].start, spans[-1].stop, spans[-1].keep) == (80, 100, (85, 100))


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_long_sentences_are_read_in_windows(family: str, tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder(family))
    limit = extractor.info.max_pieces
    assert limit is not None
    words = ["the", "unbelievable", "fox", "don't", "look", ",", "hello", "one"] * 12
    got = next(extractor.extract([words], attention=True))
    assert got.hidden.shape == (4, len(words), 16)
    assert got.windows > 2
    assert got.attention is not None
    assert got.attention_special is not None
    np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)
    prepared = extractor._prepare(tuple(words), "here")
    assert len(prepared.windows) == got.windows
    for window in prepared.windows:
        assert window.length <= limit
        direct = next(extractor.extract([words[window.start : window.stop]], attention=True))
        assert direct.windows == 1
        kept, local = slice(*window.keep), slice(window.keep[0] - window.start, window.keep[1] - window.start)
        np.testing.assert_allclose(got.hidden[:, kept], direct.hidden[:, local], atol=1e-5)
        assert direct.attention is not None
        inside = got.attention[:, :, kept, window.start : window.stop]
        np.testing.assert_allclose(inside, direct.attention[:, :, local], atol=1e-5)
    # The longest input still is one window, one piece more is two.
    around = len(prepared.alignment.pieces) - sum(map(len, prepared.alignment.word_pieces))
    piece = "," if family == "bert" else "the"
    assert len(next(extractor.align([[piece]])).pieces) == 1 + around
    counts = [next(extractor.extract([[piece] * (limit - around + more)])).windows for more in (0, 1)]
    assert counts == [1, 2]


def test_models_without_a_limit_need_no_windows(tiny_folder: Callable[[str], Path]) -> None:
    got = next(load_extractor(tiny_folder("xlnet")).extract([["the", "fox"] * 60]))
    assert (got.windows, got.hidden.shape) == (1, (4, 120, 16))


def test_a_word_longer_than_the_model_stands_as_its_unknown_token(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    (item,) = extractor.extract([["a", "x" * 90, "*" * 500, "b"]])
    assert item.alignment is not None
    assert 2 in item.alignment.replaced
    assert len(item.alignment.word_pieces[2]) == 1
    assert item.windows == 1


def test_without_an_unknown_token_a_word_longer_than_the_model_is_refused_by_name(
    tiny_folder: Callable[[str], Path],
) -> None:
    extractor: Any = load_extractor(tiny_folder("gpt2"))
    extractor._words._unknown = None
    with pytest.raises(AlignmentError, match=r"sentence 2: word 3 .*200 pieces.*at most 40"):
        list(extractor.extract([["the"], ["a", "b", "\x07" * 199]]))
