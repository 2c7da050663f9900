"""Attention between pieces to attention between words, and its two variants: rollout and norm-weighted.

Clark et al. (2019, "What does BERT look at?", section 4.1), Abnar & Zuidema (2020, "Quantifying attention flow in
Transformers") and Kobayashi et al. (2020, "Attention is not only a weight: analyzing Transformers with vector norms").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def word_attention(attention: torch.Tensor, word_of_piece: torch.Tensor, words: int) -> torch.Tensor:
    """Sum attention over the pieces of the word attended to, average it over the pieces of the word that attends.

    Parameters
    ----------
    attention : tensor of shape (..., pieces, pieces)
        Entry [i, j]: attention of piece i to piece j; rows sum to 1.
    word_of_piece : int64 tensor of shape (pieces,)
        Word (0-based) of each piece, -1 for special tokens.
    words : int
        Number of words; each has at least one piece.

    Returns
    -------
    tensor of shape (..., words, words + 1)
        In float64 if `attention` is float64, else float32. The last column is the attention to special tokens; rows
        sum to 1.
    """
    import torch
    from torch.nn.functional import one_hot

    dtype = _exact(attention)
    exact = attention.to(dtype)
    if attention.dtype in (torch.float16, torch.bfloat16):
        exact = exact / exact.sum(-1, keepdim=True)  # give back what rounding the softmax to half precision took
    column = torch.where(word_of_piece < 0, words, word_of_piece)
    membership = one_hot(column, words + 1).to(dtype)
    members = membership[:, :words]
    averaged = (members / members.sum(0)).T @ exact
    return averaged @ membership


def rolled_out(attentions: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Follow attention down to the input, layer after layer.

    With A_l the mean of a layer's maps over heads, and half of every vector coming through the residual connection,
    R_l = B_l R_(l-1), B_l = (A_l + I) / 2 with rows renormalised to 1, R_0 = I.

    Parameters
    ----------
    attentions : iterable of tensors of shape (..., heads, pieces, pieces)
        The maps of layers 1, 2, ...; rows sum to 1.

    Yields
    ------
    tensor of shape (..., pieces, pieces)
        R_1, R_2, ... in float64 if the maps are float64, else float32. What no path leads to is exactly 0.
    """
    import torch

    flow: torch.Tensor | None = None
    for attention in attentions:
        mean = attention.to(_exact(attention)).mean(-3)
        step = mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
        step = step / step.sum(-1, keepdim=True)
        flow = step if flow is None else step @ flow
        yield flow


def output_factors(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """What `value_norms` needs of an output projection: |v W_O| = |v F| with a square F instead of a wide W_O.

    Parameters
    ----------
    weight : tensor of shape (heads * head_dim, dim)
        W_O, so that the heads' concatenated values v give v W_O.
    heads : int
        Number of heads.

    Returns
    -------
    tensor of shape (heads, head_dim, min(dim, head_dim))
        F of each head, the transposed triangular factor of W_O's transpose: an orthogonal map keeps norms. In float64 if
        `weight` is float64, else float32.
    """
    import torch

    blocks = weight.detach().reshape(heads, -1, weight.shape[1]).transpose(-1, -2)
    factors: torch.Tensor = torch.linalg.qr(blocks.to(torch.float64), mode="r").R
    return factors.transpose(-1, -2).to(_exact(weight))


def value_norms(values: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Norms |f(x_j)|, f(x) = (x W_V + b_V) W_O, of what each piece adds to the output of each head that attends to it.

    Parameters
    ----------
    values : tensor of shape (..., value heads, pieces, head_dim)
        x W_V + b_V. Where several heads share their values (grouped queries), each of them stands for as many heads in a row.
    factors : tensor of shape (heads, head_dim, ...)
        From `output_factors`.

    Returns
    -------
    tensor of shape (..., heads, pieces)
        In the precision of `factors`.
    """
    shared = factors.shape[0] // values.shape[-3]
    if shared > 1:
        values = values.repeat_interleave(shared, dim=-3)
    norms: torch.Tensor = (values.to(factors.dtype) @ factors).norm(dim=-1)
    return norms


def norm_weighted(attention: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    """Weigh attention by the norms of what is attended to, rows renormalised to 1.

    Parameters
    ----------
    attention : tensor of shape (..., heads, pieces, pieces)
        Entry [i, j]: attention of piece i to piece j.
    norms : tensor of shape (..., heads, pieces)
        From `value_norms`.

    Returns
    -------
    tensor of the shape of `attention`
        In the precision of `norms`. Exactly 0 where attention is; a row that reads nothing but zero vectors is 0 throughout.
    """
    import torch

    weighted = attention.to(norms.dtype) * norms.unsqueeze(-2)
    return weighted / weighted.sum(-1, keepdim=True).clamp_min(torch.finfo(norms.dtype).tiny)


def _exact(tensor: torch.Tensor) -> torch.dtype:
    """float64 for float64, float32 for anything else: half-precision weights are summed in float32."""
    import torch

    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
