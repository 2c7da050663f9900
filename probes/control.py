"""Control tasks: a random label per word type, which only a probe that memorises can learn (Hewitt & Liang 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError
from extractors.foundation.randomness import seed_for


def label_marginal(labels: npt.NDArray[np.object_]) -> dict[str, float]:
    """The share of each label among training items, labels sorted.

    Parameters
    ----------
    labels : object array of str, shape (n,)
        Training labels.
    """
    values, counts = np.unique(labels, return_counts=True)
    return {str(value): float(count) / len(labels) for value, count in zip(values, counts, strict=True)}


def control_labels(
    types: npt.NDArray[np.object_], *, marginal: Mapping[str, float], seed: int
) -> npt.NDArray[np.object_]:
    """Give every word type one random label.

    Each type draws its label from the marginal, independently of all other types, by a random number that follows from the
    seed and the type alone. So a type has the same label in every split, and no label depends on the order of the items or
    on which other types there are. The marginal is kept over *types*; over items it is kept on average only, since frequent
    types carry their label along. The analogue for spans and pairs of spans: the type is the text of the span, or
    the texts of both.

    Parameters
    ----------
    types : object array of str, shape (n,)
        Word type of each item.
    marginal : mapping of str to float
        Probability of each label (counts will do), as in training; see `label_marginal`.
    seed : int
        Any integer; 0 is a seed like others.

    Returns
    -------
    object array of str, shape (n,)
        Control labels.

    Raises
    ------
    DataError
        If the marginal is empty or not a distribution.
    """
    names = sorted(marginal)
    weights = np.array([marginal[name] for name in names], dtype=np.float64)
    if not names or not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise DataError(f"the label marginal {dict(marginal)!r} is not a distribution; give the shares of the labels")
    edges = np.cumsum(weights) / weights.sum()
    unique, positions = np.unique(types, return_inverse=True)
    draws = np.array([seed_for(seed, "control label", name) for name in unique], dtype=np.float64) / 2.0**32
    chosen = np.minimum(np.searchsorted(edges, draws, side="right"), len(names) - 1)
    labels: npt.NDArray[np.object_] = np.array(names, dtype=object)[chosen][positions]
    return labels
