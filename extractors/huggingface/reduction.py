"""The attention maps of a batch of windows, piece by piece, reduced to words at once: plain ones and the variants asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.huggingface.attention import norm_weighted, rolled_out, word_attention
from extractors.representation import AttentionMaps

if TYPE_CHECKING:
    import torch

PLAIN = "plain"


def batch_word_maps(
    maps: Sequence[torch.Tensor],
    norms: Sequence[torch.Tensor],
    layers: Sequence[int],
    words_of_pieces: Sequence[npt.NDArray[np.int64]],
    *,
    heads: int,
    dtype: str,
    variants: Sequence[str] = (),
) -> list[dict[str, AttentionMaps]]:
    """Reduce the maps of a batch.

    Parameters
    ----------
    maps : sequence of tensors of shape (batch, heads, pieces, pieces)
        Of layers 1, 2, ..., at least up to the highest of `layers`; rows may be padded on the right.
    norms : sequence of tensors of shape (batch, heads, pieces)
        Of the same layers, see `value_norms`; read for norm-weighted attention only.
    layers : sequence of int
        The layers asked for; layer 0 has no maps and is passed over.
    words_of_pieces : sequence of int64 arrays
        For each window of the batch the word (0-based) of each piece in the order of the maps, -1 for special tokens.
    heads : int
        Number of heads, for when no layer is left.
    dtype : str
        Precision of the network, likewise.
    variants : sequence of {"rollout", "norm-weighted"}
        What to give beside the plain maps.

    Returns
    -------
    list of dict
        For each window ``plain`` and the variants -> maps between words.
    """
    import torch

    kept = [layer - 1 for layer in layers if layer > 0]
    flow = list(rolled_out(maps[: max(kept) + 1])) if kept and "rollout" in variants else []
    results = []
    for row, word_of_piece in enumerate(words_of_pieces):
        size, words = len(word_of_piece), int(word_of_piece.max()) + 1
        if not kept:
            results.append({name: _nothing(name, heads, words, dtype) for name in (PLAIN, *variants)})
            continue
        plain = torch.stack([maps[index][row, :, :size, :size] for index in kept])
        pieces = {PLAIN: plain}
        if "rollout" in variants:
            pieces["rollout"] = torch.stack([flow[index][row, None, :size, :size] for index in kept])
        if "norm-weighted" in variants:
            sizes = torch.stack([norms[index][row, :, :size] for index in kept])
            pieces["norm-weighted"] = norm_weighted(plain, sizes)
        owners = torch.from_numpy(word_of_piece).to(plain.device)
        results.append({name: _divided(word_attention(part, owners, words)) for name, part in pieces.items()})
    return results


def _divided(maps: torch.Tensor) -> AttentionMaps:
    """Words and, from the last column, special tokens."""
    whole: Any = maps.cpu().numpy()
    return AttentionMaps(whole[..., :-1].copy(), whole[..., -1].copy())


def _nothing(name: str, heads: int, words: int, dtype: str) -> AttentionMaps:
    shape = (0, 1 if name == "rollout" else heads, words)
    number: Any = np.float64 if dtype == "float64" else np.float32
    return AttentionMaps(np.zeros((*shape, words), number), np.zeros(shape, number))
