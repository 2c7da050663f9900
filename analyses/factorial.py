"""Comparisons of models on the same units: paired differences, and the main effects of a 2 x 2 of models.

Works for any estimate that is a function of sums over units (targets, sentences, items): all models are resampled
together, so that what they share cancels (Efron & Tibshirani 1993, ch. 13; 2 x 2 factorial design: Fisher 1935).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.bootstrap import Interval, bootstrap

Array = npt.NDArray[np.float64]
Estimate = Callable[[Array], Array]
"""Maps sums of shape (..., k) to one number each, shape (...)."""

ARCHITECTURES = ("LSTM", "Transformer")
DIRECTIONALITIES = ("shallow", "deep")
CELLS = tuple((architecture, direction) for architecture in ARCHITECTURES for direction in DIRECTIONALITIES)
"""The cells of the 2 x 2, as (architecture, directionality)."""

Cell = tuple[str, str]

EFFECTS = ("main_effect_directionality", "main_effect_architecture", "effect_interaction")
"""The measures of `MainEffects`, in the order of its columns."""

_CONTRASTS = np.array([[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5], [1.0, -1.0, -1.0, 1.0]])
"""Rows: `EFFECTS`; columns: `CELLS`."""


@dataclass(frozen=True)
class MainEffects:
    """What architecture and directionality do to a measure, in a 2 x 2 of models read on the same units.

    With m the measure: directionality = mean over architectures of m(deep) - m(shallow); architecture = mean over
    directionalities of m(Transformer) - m(LSTM); interaction = [m(deep) - m(shallow)] of the Transformers minus that of
    the LSTMs: how much more the directionality matters there.
    """

    effects: Interval
    """Arrays of shape (3,), in the order of `EFFECTS`, with intervals over units."""
    cells: Interval
    """The measure itself, arrays of shape (4,), in the order of `CELLS`."""

    def rows(self, **columns: Any) -> list[dict[str, Any]]:
        """One mapping per effect, for `extractors.foundation.results.tidy`.

        Parameters
        ----------
        **columns
            Further columns of every row: `task` (the measure compared), `condition`, `unit`, `data`, `seed`, ...
        """
        return _rows(self.effects, **columns)


def paired_difference(
    first: npt.ArrayLike, second: npt.ArrayLike, estimate: Estimate, *, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Difference of an estimate between two models on the same units, with a paired interval.

    Parameters
    ----------
    first, second : array of shape (n_units, k)
        Sums of each unit, the same units in the same order.
    estimate : callable
        Maps sums (..., k) to numbers (...).
    resamples, seed
        As for `extractors.foundation.bootstrap.bootstrap`.

    Returns
    -------
    Interval
        Arrays of shape (1,): estimate of `first` minus that of `second`; every resample draws the same units for both.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    joined, width = _side_by_side([first, second])

    def difference(sums: Array) -> Array:
        return (estimate(sums[..., :width]) - estimate(sums[..., width:]))[..., None]

    return bootstrap(joined, difference, resamples=resamples, seed=seed)


def main_effects(
    cells: Mapping[Cell, npt.ArrayLike], estimate: Estimate, *, resamples: int = 1000, seed: int = 0
) -> MainEffects:
    """Main effects of architecture and directionality on an estimate, and their interaction.

    Parameters
    ----------
    cells : mapping of (architecture, directionality) to array of shape (n_units, k)
        Sums of each unit for the four `CELLS`, the same units in the same order.
    estimate : callable
        Maps sums (..., k) to numbers (...), e.g. ``lambda sums: sums[..., 2] / sums[..., :3].sum(axis=-1)``.
    resamples, seed
        As for `extractors.foundation.bootstrap.bootstrap`.

    Returns
    -------
    MainEffects
        Effects and cells; every resample draws the same units for all four models.

    Raises
    ------
    ValueError
        If a cell is missing or unknown, or shapes differ.
    """
    if set(cells) != set(CELLS):
        raise ValueError(f"the 2 x 2 needs the cells {CELLS}, got {tuple(cells)}")
    joined, width = _side_by_side([cells[cell] for cell in CELLS])

    def of_cells(sums: Array) -> Array:
        return np.stack([estimate(sums[..., i * width : (i + 1) * width]) for i in range(len(CELLS))], axis=-1)

    def effects(sums: Array) -> Array:
        return np.asarray(of_cells(sums) @ _CONTRASTS.T)

    return MainEffects(
        bootstrap(joined, effects, resamples=resamples, seed=seed),
        bootstrap(joined, of_cells, resamples=resamples, seed=seed),
    )


def spread_over_seeds(effects: Sequence[MainEffects], **columns: Any) -> list[dict[str, Any]]:
    """How far the effects differ between training seeds: one row per effect.

    Parameters
    ----------
    effects : sequence of MainEffects
        One for each training seed of the four models, at least two.
    **columns
        As for `MainEffects.rows`.

    Returns
    -------
    list of dict
        Condition ``over seeds``: `value` is the mean over seeds, `low` and `high` the smallest and the largest, `n` the
        number of seeds.

    Raises
    ------
    ValueError
        For fewer than two seeds.
    """
    return _rows(seed_range([one.effects.value for one in effects]), **{**columns, "condition": "over seeds"})


def seed_range(values: Sequence[npt.ArrayLike]) -> Interval:
    """Mean, smallest and largest value over seeds, as an interval whose n counts the seeds.

    Parameters
    ----------
    values : sequence of arrays of one shape
        One per seed, at least two.

    Returns
    -------
    Interval
        Arrays of that shape.

    Raises
    ------
    ValueError
        For fewer than two seeds.
    """
    table = np.asarray(values, dtype=np.float64)
    if len(table) < 2:
        raise ValueError(f"a spread over seeds needs at least two of them, got {len(table)}")
    return Interval(table.mean(axis=0), table.min(axis=0), table.max(axis=0), len(table))


def mean_of_units(sums: Array) -> Array:
    """An estimate for sums of two columns, total and count: the mean, shape (...)."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def _rows(interval: Interval, **columns: Any) -> list[dict[str, Any]]:
    return [
        {
            "kind": "analysis",
            **columns,
            "measure": measure,
            "value": float(interval.value[i]),
            "low": float(interval.low[i]),
            "high": float(interval.high[i]),
            "n": interval.n,
        }
        for i, measure in enumerate(EFFECTS)
    ]


def _side_by_side(units: Sequence[npt.ArrayLike]) -> tuple[Array, int]:
    tables = [np.asarray(table, dtype=np.float64) for table in units]
    shapes = {table.shape for table in tables}
    if len(shapes) > 1 or tables[0].ndim != 2:
        raise ValueError(
            f"models compared must have the same units, as arrays (n_units, k); got shapes {sorted(shapes)}"
        )
    return np.concatenate(tables, axis=1), tables[0].shape[1]
