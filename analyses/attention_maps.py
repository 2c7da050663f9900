"""Sums over the attention map of one sentence, and the same sums for attention without preferences.

Plain and norm-weighted attention stand beside attention spread evenly over the pieces a head may attend to; rollout beside the
rollout of such attention, because the residual connection alone gives every word half of itself.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from extractors.representation import Alignment

Array = npt.NDArray[np.float64]

WORD_COLUMNS = 6
"""|i - j|, j - i, left, self, right, entropy."""
COLUMNS = WORD_COLUMNS + 1 + 1 + 1 + WORD_COLUMNS
"""Per sentence and head: sums of the word measures, special mass, word mass, words, sums of the word measures of the baseline."""


def sentence_sums(words: npt.ArrayLike, special: npt.ArrayLike, baseline: Array) -> Array:
    """Sum one sentence.

    Parameters
    ----------
    words : array of shape (layers, heads, words, words)
        Attention of word i to word j.
    special : array of shape (layers, heads, words)
        Attention to special tokens.
    baseline : array broadcastable to (layers, heads, words, 6)
        The word measures of each row of the baseline.

    Returns
    -------
    float64 array of shape (layers, heads, 15)
        See `COLUMNS`. A row without any attention (it reads nothing but zero vectors) is no word to be averaged over.
    """
    maps, beside = np.asarray(words, dtype=np.float64), np.asarray(special, dtype=np.float64)
    count = maps.shape[-1]
    flat = maps.reshape(*maps.shape[:2], count * count)
    mass = maps.sum(axis=-1)
    sums = flat @ _cell_weights(count)
    entropy = _x_log2_x(mass).sum(axis=-1) - _x_log2_x(flat).sum(axis=-1)
    rows = (mass + beside > 0).sum(axis=-1)
    single = np.stack([entropy, beside.sum(axis=-1), mass.sum(axis=-1), rows], axis=-1)
    even = (mass[..., None, :] @ baseline)[..., 0, :]
    return np.concatenate([sums, single, even], axis=-1)


def uniform_rows(alignment: Alignment, directionality: str) -> Array:
    """The word measures of each row under uniform attention to the allowed pieces.

    Every piece attends evenly to the pieces that it may attend to, special tokens included. Taken to words like a measured
    map (summed over the pieces of the word attended to, averaged over those of the word that attends); what goes to special
    tokens is left out and the rest renormalised, so that a head that is uniform over pieces has exactly these rows.

    Parameters
    ----------
    alignment : Alignment
        Which pieces belong to which word.
    directionality : str
        One of `extractors.representation.DIRECTIONALITIES`.

    Returns
    -------
    float64 array of shape (words, 6)
        NaN if it is not known which pieces are allowed.
    """
    allowed = _allowed(len(alignment.pieces), directionality)
    if allowed is None:
        return np.full((len(alignment.words), WORD_COLUMNS), np.nan)
    members = _members(alignment)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    between = members / members.sum(axis=1, keepdims=True) @ even @ members.T
    return _row_measures(between / between.sum(axis=1, keepdims=True))


def rolled_out_uniform_rows(alignment: Alignment, directionality: str, layers: tuple[int, ...]) -> Array:
    """The word measures of each row of the rollout of uniform attention.

    In every layer every piece attends evenly to the pieces that it may attend to, special tokens included; the rollout over
    pieces is taken to words (summed over the pieces of the word attended to, averaged over those of the word that attends),
    and what goes to special tokens is left out.

    Parameters
    ----------
    alignment : Alignment
        Which pieces belong to which word.
    directionality : str
        One of `extractors.representation.DIRECTIONALITIES`.
    layers : tuple of int
        Layers 1..L, ascending.

    Returns
    -------
    float64 array of shape (layers, words, 6)
        NaN if it is not known which pieces are allowed.
    """
    words, pieces = len(alignment.words), len(alignment.pieces)
    allowed = _allowed(pieces, directionality)
    if allowed is None:
        return np.full((len(layers), words, WORD_COLUMNS), np.nan)
    members = _members(alignment)
    step = (allowed / allowed.sum(axis=1, keepdims=True) + np.eye(pieces)) / 2
    flow = members / members.sum(
        axis=1, keepdims=True
    )  # rows are words from the start: the step is the same in every layer
    kept = []
    for layer in range(1, max(layers) + 1):
        flow = flow @ step
        if layer in layers:
            kept.append(flow)
    between = np.stack(kept) @ members.T
    return _row_measures(between / between.sum(axis=-1, keepdims=True))


def _members(alignment: Alignment) -> Array:
    """1 where a piece belongs to a word, shape (words, pieces)."""
    members = np.zeros((len(alignment.words), len(alignment.pieces)))
    for word, places in enumerate(alignment.word_pieces):
        members[word, list(places)] = 1
    return members


def _allowed(positions: int, directionality: str) -> Array | None:
    """1 where a position may attend to another, shape (positions, positions); None if that is not known."""
    whole = np.ones((positions, positions))
    match directionality:
        case "bidirectional":
            return whole
        case "left-to-right":
            return np.tril(whole)
        case "right-to-left":
            return np.triu(whole)
        case _:
            return None


def _row_measures(shares: Array) -> Array:
    """The six word measures of each row of maps (..., words, words) whose rows sum to 1, shape (..., words, 6)."""
    words = shares.shape[-1]
    cells = _cell_weights(words).reshape(words, words, WORD_COLUMNS - 1)
    rows = (shares[..., None, :] @ cells)[..., 0, :]
    return np.concatenate([rows, -_x_log2_x(shares).sum(axis=-1, keepdims=True)], axis=-1)


@lru_cache(maxsize=4)
def _cell_weights(words: int) -> Array:
    """What each cell of a map is multiplied with, shape (words * words, 5): |i - j|, j - i, left, self, right.

    Kept for the few uses that one sentence makes of it.
    """
    offset = np.subtract.outer(np.arange(words), np.arange(words)).ravel()
    return np.stack([np.abs(offset), -offset, offset > 0, offset == 0, offset < 0], axis=1).astype(np.float64)


def _x_log2_x(values: Array) -> Array:
    """Elementwise x log2 x, 0 at 0."""
    return values * np.log2(values, out=np.zeros_like(values), where=values > 0)
