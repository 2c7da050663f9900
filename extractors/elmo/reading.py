"""How models over characters read words: framed by the boundary words, each word type through the character CNN once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from extractors.base import Prepared, Window
from extractors.elmo.characters import BEGIN_SENTENCE, END_SENTENCE, MASK, character_ids, word_bytes
from extractors.representation import Alignment

if TYPE_CHECKING:
    from torch import Tensor

    from extractors.elmo.network import CharacterEncoder

_TYPES_PER_PASS = 256
"""Word types that go through the character CNN at once; bounds its memory (48 MB per pass at the original size)."""


def prepare_words(words: tuple[str, ...], limit: int) -> Prepared:
    """A sentence in one window, every word one piece; `limit` is the model's characters per word."""
    count = len(words)
    alignment = Alignment(
        words=words,
        pieces=(BEGIN_SENTENCE, *words, END_SENTENCE),
        word_pieces=tuple((position,) for position in range(1, count + 1)),
        replaced=tuple(i for i, word in enumerate(words) if not word_bytes(word, limit)),
    )
    return Prepared(alignment, (Window(0, count, (0, count), count + 2, words),))


def encode_sentences(
    encoder: CharacterEncoder, sentences: Sequence[tuple[str, ...]], limit: int, *, masked: Collection[str] = ()
) -> tuple[Tensor, list[int]]:
    """Token vectors of framed sentences, sorted by falling length.

    Parameters
    ----------
    encoder : CharacterEncoder
        The token layer.
    sentences : sequence of tuples of str
        Words without the boundary words, the longest sentence first.
    limit : int
        Characters per word.
    masked : collection of str
        Words that stand for the mask: all their characters have id 0.

    Returns
    -------
    Tensor, shape (sentences, longest + 2, projection_dim)
        Padded with the vector of the first word type.
    list of int
        Lengths, boundary words included.
    """
    import torch

    framed = [(BEGIN_SENTENCE, *words, END_SENTENCE) for words in sentences]
    types = list(dict.fromkeys(word for words in framed for word in words))
    row = {word: i for i, word in enumerate(types)}
    lengths = [len(words) for words in framed]
    rows = np.zeros((len(framed), lengths[0]), dtype=np.int64)
    for line, words in zip(rows, framed, strict=True):
        line[: len(words)] = [row[word] for word in words]
    vectors = encode_types(encoder, types, limit, masked=masked)
    return vectors[torch.from_numpy(rows).to(vectors.device)], lengths


def encode_types(
    encoder: CharacterEncoder, types: Sequence[str], limit: int, *, masked: Collection[str] = ()
) -> Tensor:
    """Token vectors (types, projection_dim) of distinct words, in the order given; parameters as in `encode_sentences`."""
    import torch

    # Words of like length go together, so that little padding is convolved; ties are broken by spelling, so that the
    # result is the same to the last bit for the same set of words in any order.
    order = sorted(range(len(types)), key=lambda i: (len(word_bytes(types[i], limit)), types[i]))
    device = encoder.projection.weight.device
    parts = []
    for first in range(0, len(order), _TYPES_PER_PASS):
        words = [types[i] for i in order[first : first + _TYPES_PER_PASS]]
        ids = character_ids(words, limit)
        ids[[i for i, word in enumerate(words) if word in masked]] = MASK
        parts.append(encoder(torch.from_numpy(ids).to(device)))
    ordered = torch.cat(parts)
    vectors = torch.empty_like(ordered)
    vectors[torch.tensor(order, device=device)] = ordered
    return vectors
