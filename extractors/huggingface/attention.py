"""Attention between pieces to attention between words (Clark et al. 2019, "What does BERT look at?", section 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def word_attention(attention: torch.Tensor, word_of_piece: torch.Tensor, words: int) -> torch.Tensor:
    """Sum attention over the pieces of the word attended to, average it over the pieces of the word that attends.

    Parameters
    ----------
    attention : tensor of shape (heads, pieces, pieces)
        Entry [i, j]: attention of piece i to piece j; rows sum to 1.
    word_of_piece : int64 tensor of shape (pieces,)
        Word (0-based) of each piece, -1 for special tokens.
    words : int
        Number of words; each has at least one piece.

    Returns
    -------
    tensor of shape (heads, words, words + 1)
        In float64 if `attention` is float64, else float32. The last column is the attention to special tokens; rows
        sum to 1.
    """
    import torch
    from torch.nn.functional import one_hot

    dtype = torch.float64 if attention.dtype == torch.float64 else torch.float32
    exact = attention.to(dtype)
    if attention.dtype in (torch.float16, torch.bfloat16):
        exact = exact / exact.sum(-1, keepdim=True)  # give back what rounding the softmax to half precision took
    column = torch.where(word_of_piece < 0, words, word_of_piece)
    membership = one_hot(column, words + 1).to(dtype)
    members = membership[:, :words]
    averaged = (members / members.sum(0)).T @ exact
    return averaged @ membership
