"""Scores of predictions with intervals over sentences (or documents), as functions of sums per sentence.

A `Measure` holds what each sentence contributes; `scores` resamples all measures together, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.bootstrap import bootstrap, ratio_of_sums

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Labels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Measure:
    """A score that is a function of sums over units."""

    name: str
    """Name in the results table: ``accuracy``, ``macro_f1``, ..."""
    unit: str
    """Unit of the value: ``proportion`` or ``bits``."""
    statistics: Array
    """(units, k) what each unit contributes, units in rising order of their numbers."""
    function: Callable[[Array], Array]
    """Sums of shape (..., k) -> values of shape (..., 1)."""


@dataclass(frozen=True)
class Score:
    """A measured value with its interval."""

    measure: str
    """Name of the measure."""
    value: float
    """On the whole sample; NaN if undefined."""
    low: float
    """Lower end of the interval; NaN if undefined or with one unit only."""
    high: float
    """Upper end, likewise."""
    unit: str
    """Unit of the three."""
    n: int
    """Number of units (sentences or documents) resampled."""


def scores(
    measures: Sequence[Measure], *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[Score, ...]:
    """Evaluate measures on the same bootstrap samples of the same units.

    Parameters
    ----------
    measures : sequence of Measure
        All over the same units.
    resamples, level, seed
        See `extractors.foundation.bootstrap.bootstrap`. The same seed and number of units give the same resamples, so
        that layers and models are compared on common draws.

    Returns
    -------
    tuple of Score
        One per measure, in order.
    """
    widths = [measure.statistics.shape[1] for measure in measures]
    ends = np.cumsum(widths)
    columns = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]

    def evaluate(sums: Array) -> Array:
        return np.concatenate(
            [measure.function(sums[..., part]) for measure, part in zip(measures, columns, strict=True)], axis=-1
        )

    units = np.concatenate([measure.statistics for measure in measures], axis=1)
    interval = bootstrap(units, evaluate, resamples=resamples, level=level, seed=seed)
    return tuple(
        Score(measure.name, float(value), float(low), float(high), measure.unit, interval.n)
        for measure, value, low, high in zip(measures, interval.value, interval.low, interval.high, strict=True)
    )


def accuracy(gold: Labels, predicted: Labels, units: Integers) -> Measure:
    """Share of items that are right.

    Parameters
    ----------
    gold, predicted : arrays of shape (n,)
        Labels.
    units : int array of shape (n,)
        Sentence (or document) of each item.
    """
    right = np.asarray(gold == predicted, dtype=np.float64)
    return Measure("accuracy", "proportion", _sums(units, right, np.ones(len(right))), ratio_of_sums(0, 1))


def macro_f1(gold: Labels, predicted: Labels, units: Integers) -> Measure:
    """Mean over labels of F1 = 2 TP / (gold + predicted).

    The mean runs over the labels that occur among the gold labels or the predictions of the sample: for a label that
    occurs in neither F1 is 0 / 0, and it is left out (also of a resample that happens not to hold it). So a label known from
    training only has no say. This is scikit-learn's ``f1_score(average="macro")``.

    Parameters
    ----------
    gold, predicted : arrays of shape (n,)
        Labels.
    units : int array of shape (n,)
        Sentence (or document) of each item.
    """
    labels, codes = np.unique(np.concatenate([gold, predicted]), return_inverse=True)
    gold_codes, predicted_codes = codes[: len(gold)], codes[len(gold) :]
    numbers, rows = np.unique(units, return_inverse=True)
    right = gold_codes == predicted_codes
    counts = np.zeros((2, len(numbers), len(labels)))
    np.add.at(counts[0], (rows[right], gold_codes[right]), 2.0)
    np.add.at(counts[1], (rows, gold_codes), 1.0)
    np.add.at(counts[1], (rows, predicted_codes), 1.0)

    def function(sums: Array) -> Array:
        twice_right, total = sums[..., : len(labels)], sums[..., len(labels) :]
        present = total > 0
        f1 = np.divide(twice_right, total, out=np.zeros_like(total), where=present)
        return np.asarray(f1.sum(axis=-1, keepdims=True) / present.sum(axis=-1, keepdims=True))

    return Measure("macro_f1", "proportion", np.concatenate(counts, axis=1), function)


def cross_entropy(log_probabilities: Array, units: Integers) -> Measure:
    """Mean cost of the gold labels in bits per item.

    Parameters
    ----------
    log_probabilities : float array of shape (n,)
        Natural logarithm of the probability given to each item's gold label; NaN for items whose label was never seen
        in training, for which no code exists. They are left out here (and count as errors in `accuracy`).
    units : int array of shape (n,)
        Sentence (or document) of each item.
    """
    known = ~np.isnan(log_probabilities)
    bits = np.where(known, -log_probabilities / np.log(2), 0.0)
    return Measure("cross_entropy", "bits", _sums(units, bits, known.astype(np.float64)), ratio_of_sums(0, 1))


def span_f1(gold: Labels, predicted: Labels, sentence: Integers, position: Integers, units: Integers) -> Measure:
    """Entity-level F1 of IOB2 tags: an entity counts if begin, end and type are right, micro-averaged.

    As in conlleval (Tjong Kim Sang & De Meulder 2003), an ``I-X`` that follows no ``B-X`` or ``I-X`` begins an entity.

    Parameters
    ----------
    gold, predicted : arrays of shape (n,)
        Tags ``O``, ``B-<type>``, ``I-<type>``.
    sentence, position : int arrays of shape (n,)
        Sentence of each word and its place there; an entity does not go on over a word that is not there.
    units : int array of shape (n,)
        Sentence (or document) of each item.
    """
    order = np.lexsort((position, sentence))
    sentence, position = sentence[order], position[order]
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = (sentence[1:] == sentence[:-1]) & (position[1:] == position[:-1] + 1)
    tags, codes = np.unique(np.concatenate([gold, predicted]), return_inverse=True)
    entities = [_entities(tags, part[order], follows) for part in (codes[: len(gold)], codes[len(gold) :])]
    (gold_end, gold_type), (predicted_end, predicted_type) = entities
    right = (gold_end > 0) & (gold_end == predicted_end) & (gold_type == predicted_type)
    total = (gold_end > 0).astype(np.float64) + (predicted_end > 0)
    return Measure("span_f1", "proportion", _sums(units[order], 2.0 * right, total), ratio_of_sums(0, 1))


def is_iob2(labels: Sequence[str]) -> bool:
    """Whether labels are IOB2 tags: all ``O``, ``B-...`` or ``I-...``, with at least one ``B-``."""
    return any(label.startswith("B-") for label in labels) and all(
        label == "O" or label.startswith(("B-", "I-")) for label in labels
    )


def difference(name: str, first: Measure, second: Measure) -> Measure:
    """The paired difference first - second of two measures over the same units."""
    width = first.statistics.shape[1]

    def function(sums: Array) -> Array:
        return first.function(sums[..., :width]) - second.function(sums[..., width:])

    return Measure(name, first.unit, np.concatenate([first.statistics, second.statistics], axis=1), function)


def _entities(tags: Labels, codes: Integers, follows: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """At the first word of each entity one past its last word (else 0), and at every word the number of its type."""
    types = {tag[2:]: number for number, tag in enumerate(tags) if tag != "O"}
    type_of = np.array([-1 if tag == "O" else types[tag[2:]] for tag in tags], dtype=np.int64)[codes]
    begins = np.array([tag.startswith("B-") for tag in tags], dtype=np.bool_)[codes]
    previous = np.concatenate([[-1], type_of[:-1]])
    inside = type_of >= 0
    first = inside & (begins | ~follows | (type_of != previous))
    breaks = np.append(np.flatnonzero(first | ~inside), len(codes))
    starts = np.flatnonzero(first)
    end = np.zeros(len(codes), dtype=np.int64)
    end[starts] = breaks[np.searchsorted(breaks, starts, side="right")]
    return end, type_of


def _sums(units: Integers, *columns: npt.NDArray[Any]) -> Array:
    """Sum columns (n,) over the items of each unit, shape (units, columns)."""
    numbers, rows = np.unique(units, return_inverse=True)
    return np.stack([np.bincount(rows, weights=column, minlength=len(numbers)) for column in columns], axis=1)
