"""Predictions for a gap over a fixed set of candidates: normalised, mixed log-linearly, and scored against the answer.

A log-linear mix of log-probabilities is a conditional (multinomial) logit model with one weight for each ingredient; its
likelihood is concave in the weights, so that there is one best mix (Genest & Zidek 1986; Heskes 1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_GAPS_AT_ONCE = 128
"""Bounds the memory of a pass over gaps (5 MB per ingredient at 5,000 candidates)."""


def normalised(scores: Array) -> Array:
    """Log-probabilities that sum to one over the last axis, the candidates.

    Parameters
    ----------
    scores : array, shape (..., candidates)
        Log-probabilities that need not sum to one, or any scores.

    Returns
    -------
    array, shape (..., candidates)
    """
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - top - np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)))


def mixed(ingredients: Sequence[Array], weights: Sequence[float]) -> Array:
    """Log-probabilities proportional to the product of the ingredients, each to the power of its weight.

    Parameters
    ----------
    ingredients : sequence of arrays, each broadcastable to (gaps, candidates)
        Log-probabilities.
    weights : sequence of float
        One for each ingredient.

    Returns
    -------
    array, shape (gaps, candidates)
        Normalised over the candidates.
    """
    return normalised(sum((w * one for w, one in zip(weights, ingredients, strict=True)), start=np.zeros(())))


def prediction_sums(log_probabilities: Array, answers: Integers) -> Array:
    """How good predictions are, gap by gap.

    Parameters
    ----------
    log_probabilities : array, shape (gaps, candidates)
        Normalised over the candidates.
    answers : array of int, shape (gaps,)
        The candidate that stands in each gap.

    Returns
    -------
    array, shape (gaps, 3)
        Nats (-log of the answer's probability), 1 if the answer is the likeliest candidate, and 1 / its rank. Candidates as
        likely as the answer count half, so that a prediction without preferences has the rank (candidates + 1) / 2.
    """
    chosen = log_probabilities[np.arange(len(answers)), answers][:, None]
    better = (log_probabilities > chosen).sum(axis=1)
    level = (log_probabilities == chosen).sum(axis=1) - 1
    rank = 1 + better + level / 2
    return np.stack([-chosen[:, 0], (rank == 1).astype(np.float64), 1 / rank], axis=1)


def tuned_weights(
    ingredients: Sequence[Array], answers: Integers, *, starts: Sequence[Sequence[float]], steps: int = 50
) -> Array:
    """The weights of the log-linear mix with the fewest nats per gap.

    Newton's method with step halving, from the best of `starts`: every step lowers the nats, so that the result is no worse
    than any start; nothing is random.

    Parameters
    ----------
    ingredients : sequence of arrays, each broadcastable to (gaps, candidates)
        Log-probabilities.
    answers : array of int, shape (gaps,)
        The candidate that stands in each gap.
    starts : sequence of sequences of float
        Weights to start from.
    steps : int
        Newton steps at most; a handful is enough.

    Returns
    -------
    array, shape (ingredients,)
        One weight for each ingredient.
    """
    weights = min((np.array(start, dtype=np.float64) for start in starts), key=lambda w: _nats(ingredients, answers, w))
    value = _nats(ingredients, answers, weights)
    for _ in range(steps):
        gradient, curvature = _derivatives(ingredients, answers, weights)
        # Ingredients that say the same leave directions without curvature: the shortest step along the others.
        step = np.linalg.pinv(curvature, rcond=1e-10, hermitian=True) @ gradient
        size = 1.0
        while size > 1e-8:
            trial = weights - size * step
            lower = _nats(ingredients, answers, trial)
            if lower < value:
                break
            size /= 2
        else:
            break
        done = value - lower < 1e-12
        weights, value = trial, lower
        if done:
            break
    return weights


def weight_units(ingredients: Sequence[Array], answers: Integers, weights: Sequence[float], units: Integers) -> Array:
    """Derivatives of the summed nats of each unit at some weights, from which `refitted_weights` refits the mix.

    Parameters
    ----------
    ingredients, answers
        As for `tuned_weights`.
    weights : sequence of float
        The tuned weights.
    units : array of int, shape (gaps,)
        The unit (sentence) of each gap, numbered from 0.

    Returns
    -------
    array, shape (units, k + k * k) with k ingredients
        Gradient and Hessian of each unit.
    """
    number = int(units.max()) + 1
    found = np.zeros((number, len(ingredients) * (1 + len(ingredients))))
    for unit in range(number):
        chosen = np.flatnonzero(units == unit)
        parts = [one[chosen] if one.ndim == 2 and len(one) > 1 else one for one in ingredients]
        gradient, curvature = _derivatives(parts, answers[chosen], np.array(weights, dtype=np.float64))
        found[unit] = len(chosen) * np.concatenate([gradient, curvature.ravel()])
    return found


def refitted_weights(weights: Sequence[float], sums: Array) -> Array:
    """Weights of the mix on a sample of units: one Newton step from those of the whole sample.

    To first order in the change of the sample this is the refitted mix (one-step bootstrap: Davidson & MacKinnon 1999).

    Parameters
    ----------
    weights : sequence of float, length k
        The weights tuned on the whole sample.
    sums : array, shape (..., k + k * k)
        Sums of `weight_units` over the sample.

    Returns
    -------
    array, shape (..., k)
    """
    number = len(weights)
    curvature = sums[..., number:].reshape(*sums.shape[:-1], number, number)
    step = np.linalg.pinv(curvature, rcond=1e-10, hermitian=True) @ sums[..., :number, None]
    return np.asarray(np.array(weights) - step[..., 0])


def _parts(ingredients: Sequence[Array], answers: Integers, first: int) -> tuple[list[Array], Integers]:
    chosen = slice(first, first + _GAPS_AT_ONCE)
    return [one[chosen] if one.ndim == 2 and len(one) > 1 else one for one in ingredients], answers[chosen]


def _nats(ingredients: Sequence[Array], answers: Integers, weights: Array) -> float:
    """Mean nats per gap."""
    total = 0.0
    for first in range(0, len(answers), _GAPS_AT_ONCE):
        parts, right = _parts(ingredients, answers, first)
        total -= float(mixed(parts, weights.tolist())[np.arange(len(right)), right].sum())
    return total / len(answers)


def _derivatives(ingredients: Sequence[Array], answers: Integers, weights: Array) -> tuple[Array, Array]:
    """Gradient and Hessian of the mean nats: expected minus observed ingredients, and their covariance."""
    number = len(ingredients)
    gradient, curvature = np.zeros(number), np.zeros((number, number))
    for first in range(0, len(answers), _GAPS_AT_ONCE):
        parts, right = _parts(ingredients, answers, first)
        shares = np.exp(mixed(parts, weights.tolist()))
        rows = np.arange(len(right))
        full = [np.broadcast_to(part, shares.shape) for part in parts]
        means = np.stack([(shares * part).sum(axis=1) for part in full])
        gradient += (means - np.stack([part[rows, right] for part in full])).sum(axis=1)
        centred = [part - mean[:, None] for part, mean in zip(full, means, strict=True)]
        for i in range(number):
            weighted = shares * centred[i]
            for j in range(i, number):
                curvature[i, j] += float((weighted * centred[j]).sum())
    curvature = np.triu(curvature) + np.triu(curvature, 1).T
    return gradient / len(answers), curvature / len(answers)
