"""Percentile bootstrap over units (sentences, documents or targets) for functions of sums.

Every estimate of this project is a function of sums over independent units (accuracy, macro-F1, ratios of sums of
squares), so a resample is a vector of counts and all resamples are one matrix product (Efron & Tibshirani 1993, ch. 13).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value with its interval; each field has the shape of the function's output."""

    value: Array
    """The function on the whole sample."""
    low: Array
    """Lower end; NaN where the function is undefined or there is only one unit."""
    high: Array
    """Upper end; NaN likewise."""
    n: int
    """Number of units resampled."""


def bootstrap(
    units: npt.ArrayLike,
    function: Callable[[Array], Array],
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Evaluate `function` on the column sums of `units`, with a percentile interval over units.

    Parameters
    ----------
    units : array of shape (n_units, k)
        Sufficient statistics of each independent unit; the estimate depends on them through their sums only.
    function : callable
        Maps sums of shape (..., k) to estimates of shape (..., m), vectorised over leading axes.
    resamples : int
        Number of bootstrap samples.
    level : float
        Coverage, 0.95 for a 95 % interval.
    seed : int
        Seed of the resampling; the same seed gives the same interval.

    Returns
    -------
    Interval
        `value`, `low`, `high` of shape (m,) and `n` = n_units.

    Raises
    ------
    ValueError
        If `units` is not two-dimensional or empty, or `level` is outside (0, 1).
    """
    statistics = np.asarray(units, dtype=np.float64)
    if statistics.ndim != 2 or len(statistics) == 0:
        raise ValueError(f"units must have shape (n_units >= 1, k), got {statistics.shape}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    n = len(statistics)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.asarray(function(statistics.sum(axis=0)), dtype=np.float64)
        if n == 1:
            missing = np.full_like(value, np.nan)
            return Interval(value, missing, missing, n)
        generator = np.random.default_rng(seed)
        drawn = [
            function(generator.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64) @ statistics)
            for size in _chunks(resamples, n)
        ]
    samples = np.concatenate(drawn)
    low, high = np.full_like(value, np.nan), np.full_like(value, np.nan)
    defined = np.isfinite(value) & np.isfinite(samples).any(axis=0)
    tail = 100 * (1 - level) / 2
    if defined.any():
        low[defined], high[defined] = np.nanpercentile(
            np.where(np.isfinite(samples), samples, np.nan)[:, defined], [tail, 100 - tail], axis=0
        )
    return Interval(value, low, high, n)


def ratio_of_sums(numerator: int, denominator: int) -> Callable[[Array], Array]:
    """A function for `bootstrap`: column `numerator` over column `denominator`, as shape (..., 1)."""

    def ratio(sums: Array) -> Array:
        return sums[..., [numerator]] / sums[..., [denominator]]

    return ratio


def _chunks(resamples: int, n: int) -> list[int]:
    """Split the resamples so that the count matrix stays under about 64 MB; the draws do not depend on the split."""
    size = max(1, min(resamples, 8_000_000 // n))
    return [min(size, resamples - start) for start in range(0, resamples, size)]
