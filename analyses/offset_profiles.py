"""What a profile of influence over offsets -K..K says in one number: sides, mean distance, radius, and whether two agree.

All functions work on the last axis, so that a bootstrap can hand over all its resamples at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SUMMARIES: dict[str, str] = {
    "reach_mass_left": "share",
    "reach_mass_right": "share",
    "reach_distance": "words",
    "reach_radius_50": "words",
    "reach_radius_90": "words",
}
"""Measure -> unit, in the order of `summarise`."""

_TIE = 1e-12
"""Two shares that differ by less are equal: a radius must not hang on the last bit of a sum."""


def summarise(profile: Array) -> Array:
    """Summaries of a profile over the context; the word itself, offset 0, does not count.

    With p_k the value at offset k and P = sum_{k != 0} p_k: left mass sum_{k < 0} p_k / P, right mass alike, mean
    distance sum |k| p_k / P, and the smallest whole number r with sum_{0 < |k| <= r} p_k >= q P for q = 0.5 and 0.9.

    Parameters
    ----------
    profile : array of shape (..., 2 K + 1)
        Values at the offsets -K..K, none negative.

    Returns
    -------
    array of shape (..., 5)
        In the order of `SUMMARIES`; NaN where P is not positive.
    """
    reach = profile.shape[-1] // 2
    left, right = profile[..., :reach][..., ::-1], profile[..., reach + 1 :]
    both = left + right
    total = both.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cumulated = both.cumsum(axis=-1) / total[..., None]
        found = [
            left.sum(axis=-1) / total,
            right.sum(axis=-1) / total,
            both @ np.arange(1.0, reach + 1) / total,
            *((cumulated >= q - _TIE).argmax(axis=-1) + 1.0 for q in (0.5, 0.9)),
        ]
    summaries = np.stack(found, axis=-1)
    summaries[~(total > 0)] = np.nan
    return summaries


def rank_agreement(one: Array, other: Array) -> Array:
    """Spearman's rank correlation of two profiles over their offsets, the word itself left out; ties share their mean rank.

    Parameters
    ----------
    one, other : arrays of shape (..., 2 K + 1)
        Values at the offsets -K..K.

    Returns
    -------
    array of shape (..., 1)
        NaN where a profile has the same value everywhere.
    """
    from scipy.stats import rankdata

    reach = one.shape[-1] // 2
    ranks = [rankdata(np.delete(profile, reach, axis=-1), axis=-1) - (reach + 0.5) for profile in (one, other)]
    products = (ranks[0] * ranks[1]).sum(axis=-1, keepdims=True)
    sizes = [np.square(rank).sum(axis=-1, keepdims=True) for rank in ranks]
    defined = (sizes[0] > 0) & (sizes[1] > 0)
    correlation: Array = np.divide(
        products, np.sqrt(sizes[0] * sizes[1]), out=np.full(products.shape, np.nan), where=defined
    )
    return correlation
