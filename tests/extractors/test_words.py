"""What a word is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractors import split_words
from extractors.foundation.errors import DataError
from extractors.words import as_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("She said: don't!", ["She", "said", ":", "don't", "!"]),
        ("the U.S. won", ["the", "U.S", ".", "won"]),
        ("well-known  facts\tand\nmore", ["well-known", "facts", "and", "more"]),
        ("我喜欢 BERT。", ["我", "喜", "欢", "BERT", "。"]),
        ("3.14, 1-2", ["3.14", ",", "1-2"]),
        ("it’s", ["it’s"]),
        ("'quoted'", ["'", "quoted", "'"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_the_documented_rule(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.text(max_size=40))
def test_no_visible_character_is_lost(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert all(word and not any(character.isspace() for character in word) for word in words)


@given(st.lists(st.text(min_size=1).filter(lambda word: not word.isspace()), min_size=1))
def test_given_words_are_kept_as_they_are(words: list[str]) -> None:
    assert as_words(words) == tuple(words)


def test_a_string_is_split_and_a_sequence_is_not() -> None:
    assert as_words("two words") == ("two", "words")
    assert as_words(["two words"]) == ("two words",)
    assert as_words(("a  b", "\u200b")) == ("a  b", "\u200b")


@pytest.mark.parametrize("empty", ["", " ", "\t", "\u00a0", "\u2003"])
def test_empty_words_are_refused_by_position(empty: str) -> None:
    with pytest.raises(DataError, match=r"sentence 7: word 2 is empty"):
        as_words(["one", empty, "three"], where="sentence 7")


@pytest.mark.parametrize("nothing", ["", "  ", [], ()])
def test_a_sentence_without_words_is_refused(nothing: str | list[str]) -> None:
    with pytest.raises(DataError, match="sentence 3 has no words"):
        as_words(nothing, where="sentence 3")


def test_a_word_that_is_no_string_is_refused() -> None:
    with pytest.raises(DataError, match=r"word 2 is int \(5\)"):
        as_words(["one", 5])  # type: ignore[list-item]
