"""From the vectors of a word's pieces to the vector of the word, for a whole batch at once.

Pooling changes results by tens of points, so it is part of every result's metadata (`ModelInfo` and the results table).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractors.foundation.errors import UsageError
from extractors.representation import POOLINGS

if TYPE_CHECKING:
    import torch


def pool_pieces(vectors: torch.Tensor, lengths: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool consecutive pieces to words.

    Parameters
    ----------
    vectors : tensor of shape (pieces, dim)
        Vectors of the pieces, word after word; special tokens and padding are left out.
    lengths : int64 tensor of shape (words,)
        Number of pieces of each word, at least 1 each; they sum to `pieces`.
    pooling : {"first", "last", "mean", "max"}
        Which piece stands for the word, or how they are combined.

    Returns
    -------
    tensor of shape (words, dim)
        In float64 if `vectors` are float64, else in float32: half-precision pieces are summed in float32.

    Raises
    ------
    UsageError
        For another `pooling`.
    """
    import torch

    exact = vectors.to(torch.float64 if vectors.dtype == torch.float64 else torch.float32)
    ends = lengths.cumsum(0)
    if pooling == "first":
        return exact[ends - lengths]
    if pooling == "last":
        return exact[ends - 1]
    if pooling not in POOLINGS:
        raise UsageError(f"pooling {pooling!r} is unknown; choose one of {', '.join(POOLINGS)}")
    word_of_piece = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    words = exact.new_zeros(len(lengths), exact.shape[1])
    if pooling == "mean":
        return words.index_add_(0, word_of_piece, exact) / lengths.unsqueeze(1)
    index = word_of_piece.unsqueeze(1).expand_as(exact)
    return words.scatter_reduce_(0, index, exact, "amax", include_self=False)
