"""A perceptron with one hidden layer and several binary outputs: the linear probe's contrast.

Without the hidden layer it would be as many independent linear probes, on the same labels. What it reads beyond them it
owes to the hidden layer, which all outputs share (the nonlinear probe of Hewitt & Liang 2019). Plain NumPy: the same
seed gives the same bits, and no thread or seed of another library is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import UsageError
from extractors.foundation.randomness import generator_for

Array = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Bits = npt.NDArray[np.int64]

_FIRST_MOMENT, _SECOND_MOMENT, _STABLE = 0.9, 0.999, 1e-5
"""Adam's constants (Kingma & Ba 2015); the last one larger than theirs, or rounding noise in a slope of 0 would be taken
for a slope and followed at full length."""


DECAYS = (10.0, 1.0)
"""The weight decays to choose from."""
_NOISE = 1e-6
"""Cross-entropies that differ by less (in nats) are taken as equal."""


@dataclass(frozen=True)
class PerceptronReading:
    """What a perceptron, stopped on the development set, says about other items."""

    logits: Array
    """(n_test, outputs) log odds of label 1, each output at its own best step."""
    steps: tuple[int, ...]
    """For each output the step with the lowest development cross-entropy; 0: no better than the training prior."""
    dev_cross_entropy: tuple[float, ...]
    """That cross-entropy, in nats per item."""


def read_with_perceptron(
    train: npt.ArrayLike,
    labels: npt.ArrayLike,
    dev: npt.ArrayLike,
    dev_labels: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    hidden: int = 32,
    steps: int = 300,
    every: int = 5,
    patience: int = 60,
    learning_rate: float = 3e-3,
    decays: Sequence[float] = DECAYS,
    seed: int = 0,
) -> PerceptronReading:
    """Fit binary labels with a rectified hidden layer by full-batch Adam, stop on dev, and read test.

    Features are centred and divided by their training standard deviation. Before the first step each output gives its
    training prior, so an output that learns nothing of use keeps to it. All steps are the same for every output; only the
    step at which an output is read is its own.

    Parameters
    ----------
    train, dev, test : arrays of shape (n, dim), (n_dev, dim), (n_test, dim)
        Features.
    labels, dev_labels : arrays of shape (n, outputs), (n_dev, outputs)
        0 or 1; each output has both in training.
    hidden : int
        Hidden units.
    steps : int
        Most steps.
    every : int
        Steps between two looks at dev.
    patience : int
        Stop when no output has improved on dev for so many steps.
    learning_rate : float
        Of Adam.
    decays : sequence of float
        Decoupled weight decays per unit of learning rate (Loshchilov & Hutter 2019); biases do not decay. All are tried, from
        the same first weights, and each output keeps the best on dev.
    seed : int
        Seed of the first weights.

    Returns
    -------
    PerceptronReading
        Log odds of test, and where each output was stopped.

    Raises
    ------
    UsageError
        If `hidden`, `steps` or `every` is not positive, no decay is given, or an output has one label only in training.
    """
    for name, value in (("hidden", hidden), ("steps", steps), ("every", every)):
        if value < 1:
            raise UsageError(f"{name}={value} is not positive; give 1 or more")
    if len(decays) == 0:
        raise UsageError("no weight decay given; give at least one, such as 1.0")
    gold, dev_gold = np.asarray(labels, dtype=np.float32), np.asarray(dev_labels, dtype=np.float32)
    prior = gold.mean(axis=0, dtype=np.float64)
    if ((prior <= 0) | (prior >= 1)).any():
        raise UsageError(f"each output needs both labels in training; the shares of label 1 are {prior.tolist()}")
    matrices = _standardised(np.asarray(train), np.asarray(dev), np.asarray(test))
    fitted, looked_at, read = matrices
    best = np.full(len(prior), np.inf)
    chosen = np.zeros(len(prior), dtype=np.int64)
    logits = np.empty((len(read), len(prior)))
    for decay in decays:
        network = _Network.drawn(fitted.shape[1], hidden, prior, seed)
        own_best = np.full(len(prior), np.inf)
        improved = 0
        for step in range(steps + 1):
            if step % every == 0 or step == steps:
                losses = cross_entropies(network.scores(looked_at), dev_gold)
                better = losses < best - _NOISE
                if better.any():
                    best[better], chosen[better] = losses[better], step
                    logits[:, better] = network.scores(read)[:, better]
                if (losses < own_best - _NOISE).any():
                    own_best, improved = np.minimum(own_best, losses), step
                elif step - improved >= patience:
                    break
            if step < steps:
                network.step(fitted, gold, learning_rate, decay)
    return PerceptronReading(logits, tuple(map(int, chosen)), tuple(map(float, best)))


def cross_entropies(logits: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Array:
    """Mean cross-entropy of each column in nats, shape (outputs,), from log odds and 0/1 labels (n, outputs)."""
    signed = np.where(labels > 0, -logits, logits).astype(np.float64)
    return np.asarray(np.logaddexp(0, signed).mean(axis=0))


class _Network:
    """Weights with the moments of Adam; biases are the last row of each matrix."""

    def __init__(self, inner: Singles, outer: Singles) -> None:
        self.weights = [inner, outer]
        self.means = [np.zeros_like(one) for one in self.weights]
        self.squares = [np.zeros_like(one) for one in self.weights]
        self.steps = 0

    @classmethod
    def drawn(cls, dim: int, hidden: int, prior: Array, seed: int) -> _Network:
        """Hidden weights as He et al. 2015; outputs at the prior, whatever is read."""
        inner = np.zeros((dim + 1, hidden), dtype=np.float32)
        inner[:-1] = generator_for(seed, "perceptron").standard_normal((dim, hidden)) * np.sqrt(2 / dim)
        outer = np.zeros((hidden + 1, len(prior)), dtype=np.float32)
        outer[-1] = np.log(prior / (1 - prior))
        return cls(inner, outer)

    def hidden(self, features: Singles) -> Singles:
        units: Singles = np.maximum(features @ self.weights[0][:-1] + self.weights[0][-1], 0)
        return units

    def scores(self, features: Singles) -> Singles:
        scores: Singles = self.hidden(features) @ self.weights[1][:-1] + self.weights[1][-1]
        return scores

    def step(self, features: Singles, gold: Singles, rate: float, decay: float) -> None:
        """One step of Adam on the mean over items of the summed cross-entropies."""
        units = self.hidden(features)
        scores = units @ self.weights[1][:-1] + self.weights[1][-1]
        slope = (1 / (1 + np.exp(-np.clip(scores, -60, 60))) - gold) / np.float32(len(gold))
        back = (slope @ self.weights[1][:-1].T) * (units > 0)
        gradients = [
            np.vstack([features.T @ back, back.sum(axis=0)]),
            np.vstack([units.T @ slope, slope.sum(axis=0)]),
        ]
        self.steps += 1
        size = rate * np.sqrt(1 - _SECOND_MOMENT**self.steps) / (1 - _FIRST_MOMENT**self.steps)
        for place, gradient in enumerate(gradients):
            mean, square, weights = self.means[place], self.squares[place], self.weights[place]
            mean += np.float32(1 - _FIRST_MOMENT) * (gradient - mean)
            square += np.float32(1 - _SECOND_MOMENT) * (gradient**2 - square)
            weights[:-1] *= np.float32(1 - rate * decay)
            weights -= np.float32(size) * mean / (np.sqrt(square) + np.float32(_STABLE))


def _standardised(*matrices: npt.NDArray[Any]) -> list[Singles]:
    """Matrices centred and scaled by the first one; a constant feature becomes 0."""
    mean = matrices[0].mean(axis=0, dtype=np.float64)
    deviation = matrices[0].std(axis=0, dtype=np.float64)
    constant = deviation <= 10 * np.finfo(np.float32).eps * np.abs(mean)
    scale = np.where(constant, np.inf, deviation)
    return [np.ascontiguousarray((matrix - mean) / scale, dtype=np.float32) for matrix in matrices]
