"""Heads that start by attending to one offset: the initialisation that takes a small masked LM off its plateau.

A default-initialised masked LM of a few million parameters stays at the unigram loss for a long time, since nothing tells its
heads where a piece is. Here positions start as points on circles, p -> (cos w_k p, sin w_k p) with w_k = pi (k + 1/2) / K for k < K, in a
subspace of 2 K dimensions in which word vectors start at zero. A head's keys start as that subspace and its queries as the subspace
rotated by w_k times the offset, so that the logit of offset d is proportional to sum_k cos(w_k (d - offset)): its largest value at the
offset and zero at every other offset up to 2 K - 1. Everything is trained afterwards, and the model is a plain one. It is a
positional prior and has to be disclosed; every part can be switched off to see what it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from studies.training.recipe import OffsetHeads

if TYPE_CHECKING:
    import torch


def initialise(
    settings: OffsetHeads,
    *,
    words: torch.Tensor,
    positions: torch.Tensor,
    heads: Sequence[Sequence[torch.nn.Linear]],
    deviation: float,
    others: Sequence[torch.Tensor] = (),
) -> None:
    """Initialise a Transformer's vectors and first heads in place.

    Parameters
    ----------
    settings : OffsetHeads
        Which parts, which offsets.
    words : Tensor, shape (pieces, dim)
        Word vectors, drawn already.
    positions : Tensor, shape (positions, dim)
        Position vectors.
    heads : sequence of (query, key)
        The linear maps of each layer, each (dim, dim), bottom up; inputs are layer-normalised sums of word and position.
    deviation : float
        Standard deviation of the word vectors where they do not avoid the subspace; sets the scale of positions.
    others : sequence of Tensor, each (..., dim)
        What else is added to a word vector (segment vectors): avoids the subspace if word vectors do.
    """
    import torch

    size = words.shape[1]
    count = settings.frequencies
    subspace = slice(size - 2 * count, size)
    angles = np.pi * (np.arange(count) + 0.5) / count
    with torch.no_grad():
        if settings.word_vectors_avoid:
            for vectors in (words, *others):
                vectors[..., subspace] = 0
        if not settings.position_table:
            return
        turns = torch.from_numpy(np.outer(np.arange(len(positions)), angles)).to(words)
        # Positions get as much squared norm as words have outside the subspace.
        radius = deviation * ((size - 2 * count) / count) ** 0.5
        positions.zero_()
        positions[:, subspace] = radius * torch.cat([turns.cos(), turns.sin()], dim=1)
        # After the layer norm the whole vector has squared norm `size`, half of it position: the radius is then `after`.
        after = (size / (2 * count)) ** 0.5
        for (query, key), offsets in zip(heads, settings.layers, strict=False):
            width = size // len(offsets)
            gain = (settings.sharpness * width**0.5 / (count * after**2)) ** 0.5
            for head, offset in enumerate(offsets):
                rows = slice(head * width, head * width + 2 * count)
                key.weight[rows, subspace] += gain * torch.eye(2 * count).to(words)
                query.weight[rows, subspace] += gain * _rotation(angles * offset).to(words)


def _rotation(turn: np.typing.NDArray[np.float64]) -> torch.Tensor:
    """(2 K, 2 K): turns (cos a_k, sin a_k) to (cos(a_k + turn_k), sin(a_k + turn_k)), cosines first."""
    import torch

    cosine, sine = np.diag(np.cos(turn)), np.diag(np.sin(turn))
    return torch.from_numpy(np.block([[cosine, -sine], [sine, cosine]]))
