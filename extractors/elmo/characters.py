"""How ELMo spells a word: the bytes of its UTF-8 form between marks, all plus one (Peters et al. 2018; bilm-tf).

The ids follow the published code to the letter, quirks included: a word beyond the limit is cut, even inside a character,
and a word spelt ``<S>`` or ``</S>`` in the text *is* the boundary word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BEGIN_SENTENCE, END_SENTENCE = "<S>", "</S>"
"""The boundary words that ELMo reads before and after each sentence."""

MASK = 0
"""Id of a character of no word at all (padding of a batch of sentences); its vector is zero."""
_SHIFT = 1
"""Published ids are shifted by one, so that 0 is free for the mask."""
_BEGIN_SENTENCE, _END_SENTENCE = 256 + _SHIFT, 257 + _SHIFT
_BEGIN_WORD, _END_WORD = 258 + _SHIFT, 259 + _SHIFT
PAD = 260 + _SHIFT
"""Id that fills a word up to its full length. It has a trained vector and takes part in the maximum over the word."""


def word_bytes(word: str, max_characters: int = 50) -> bytes:
    """The bytes of a word that ELMo reads: at most `max_characters` - 2; what UTF-8 cannot hold is left out."""
    return word.encode("utf-8", "ignore")[: max_characters - 2]


def character_ids(words: Sequence[str], max_characters: int = 50) -> npt.NDArray[np.int64]:
    """Spell words as ELMo's character ids.

    Parameters
    ----------
    words : sequence of str
        Words; ``<S>`` and ``</S>`` are the boundary words.
    max_characters : int
        Ids per word; 50 in all official models, so that a word has at most 48 bytes.

    Returns
    -------
    array of int64, shape (words, max_characters)
        Begin-of-word mark, bytes, end-of-word mark, padding; all shifted by one (0 is the mask and does not occur).

    Examples
    --------
    >>> character_ids(["né"], 8).tolist()
    [[259, 111, 196, 170, 260, 261, 261, 261]]
    """
    ids = np.full((len(words), max_characters), PAD, dtype=np.int64)
    ids[:, 0] = _BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        if word == BEGIN_SENTENCE:
            inner = [_BEGIN_SENTENCE]
        elif word == END_SENTENCE:
            inner = [_END_SENTENCE]
        else:
            inner = [byte + _SHIFT for byte in word_bytes(word, max_characters)]
        row[1 : len(inner) + 1] = inner
        row[len(inner) + 1] = _END_WORD
    return ids
