"""What a word is: pre-split input is taken as it stands and checked; a plain string is split by one documented rule."""

from __future__ import annotations

import re
from collections.abc import Sequence

from extractors.foundation.errors import DataError

MASK_WORD = "[MASK]"
"""A word spelt like this is the masked word, to extractors that read masks (see `Extractor.with_masks`)."""

_HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}])\w)+(?:['’.\-](?:(?![{_HAN}])\w)+)*|[^\w\s]")


def split_words(text: str) -> list[str]:
    """Split a plain string into words.

    The rule: white space separates; a run of letters, digits and underscores is one word and may hold single inner
    apostrophes, full stops and hyphens (``don't``, ``U.S``, ``well-known``); a Han character is a word by itself; every
    other visible character is a word by itself. No character but white space is lost. Corpora that are split already
    should be given as lists of words, which are never split again.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        The words in order; joined, they are the text without its white space.

    Examples
    --------
    >>> split_words("She said: don't!")
    ['She', 'said', ':', "don't", '!']
    >>> split_words("我喜欢 BERT。")
    ['我', '喜', '欢', 'BERT', '。']
    """
    return _WORD.findall(text)


def as_words(sentence: str | Sequence[str], *, where: str = "the sentence") -> tuple[str, ...]:
    """Give the words of a sentence: a string is split by `split_words`, a sequence is checked and kept as it is.

    Parameters
    ----------
    sentence : str or sequence of str
        A plain string, or words.
    where : str
        How an error calls the sentence, e.g. ``sentence 3``.

    Returns
    -------
    tuple of str
        One entry per word, never fewer or more than given.

    Raises
    ------
    DataError
        If there is no word, a word is not a string, or a word is empty or only white space (named by position).
    """
    if isinstance(sentence, str):
        words: tuple[str, ...] = tuple(split_words(sentence))
    else:
        words = tuple(sentence)
        for position, word in enumerate(words, start=1):
            if not isinstance(word, str):
                raise DataError(f"{where}: word {position} is {type(word).__name__} ({word!r}); words must be strings")
            if not word or word.isspace():
                raise DataError(
                    f"{where}: word {position} is empty or only white space ({word!r}); "
                    "remove it from the input, together with its label"
                )
    if not words:
        raise DataError(f"{where} has no words; remove it from the input")
    return words
