"""Steps to a given loss: how much training a model needed until its held-out loss was so far under the unigram entropy.

Read from the learning curve that lies beside a model made with ``probe train``; nothing is trained.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

MEASURES: dict[str, str] = {"steps_to_loss": "steps", "words_to_loss": "words"}
"""Measure -> unit."""
MARGINS = (1.0, 1.5, 2.0)
"""Nats under the unigram entropy."""
CURVE, RECORD = "training.parquet", "training.json"


@dataclass(frozen=True)
class StepsToLoss:
    """Optimizer steps and words read until the held-out loss had fallen to given values."""

    model: str
    """Name of the model."""
    family: str
    """Its kind."""
    unit: str
    """What is predicted, ``word`` or ``piece``."""
    unigram: float
    """Unigram entropy of the held-out text, nats per unit."""
    margins: tuple[float, ...]
    """Nats under the unigram entropy, one for each entry of the arrays."""
    steps: Array
    """Steps, shape (margins,); NaN where the loss was never reached."""
    words: Array
    """Words read, shape (margins,); NaN likewise."""
    curve: Array
    """Shape (evaluations, 3): steps, words, held-out loss in nats per unit."""
    seed: int
    """Seed of the training."""

    def rows(self) -> list[dict[str, Any]]:
        """Rows for the tidy table. They have no intervals: one training gives one curve; further seeds would give the spread."""
        return [
            {
                "model": self.model,
                "family": self.family,
                "weights": "trained",
                "kind": "training",
                "measure": measure,
                "condition": f"{margin:g} {'nat' if margin == 1 else 'nats'} under the unigram entropy",
                "value": float(value),
                "unit": unit,
                "n": 1,
                "seed": self.seed,
                "source": "shipped",
            }
            for (measure, unit), values in zip(MEASURES.items(), (self.steps, self.words), strict=True)
            for margin, value in zip(self.margins, values, strict=True)
        ]

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """The learning curve, with the losses asked for, as a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.curve[:, 1], self.curve[:, 2], marker="o", label="held-out loss")
        axes.axhline(self.unigram, color="gray", linestyle=":", label="unigram entropy")
        axes.plot(self.words, self.unigram - np.array(self.margins), linestyle="", marker="x", label="reached")
        axes.set(xlabel="words read", ylabel=f"nats per {self.unit}", title=self.model)
        axes.legend()
        return figure


def steps_to_loss(folder: str | Path, *, margins: Sequence[float] = MARGINS, name: str | None = None) -> StepsToLoss:
    """Read from a model's learning curve when its held-out loss had fallen `margins` nats under the unigram entropy.

    Between two evaluations the loss is taken to fall along a line. Losses of models that predict different units (words, pieces;
    the next one, a hidden one) are not comparable, and what is said relative to the unigram entropy is so only within limits:
    a hidden word has two sides to be told from. For scores that are the same for all kinds see `analyses.cloze`.

    Parameters
    ----------
    folder : path
        A model folder as ``probe train`` writes it, with ``training.parquet`` and ``training.json``.
    margins : sequence of float
        Nats under the unigram entropy.
    name : str, optional
        Name of the model in the table; default: as its record says.

    Returns
    -------
    StepsToLoss
        NaN where a loss was never reached.

    Raises
    ------
    DataError
        If the folder has no readable learning curve.
    UsageError
        If a margin is not a number.
    """
    import pandas as pd

    if not margins or not np.isfinite(np.asarray(margins, dtype=np.float64)).all():
        raise UsageError(f"margins {list(margins)} must be finite numbers of nats, at least one; e.g. {MARGINS}")
    folder = Path(folder)
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        log = pd.read_parquet(folder / CURVE, columns=["step", "words", "held_out_loss"]).dropna()
        unigram, unit, family = float(record["unigram_loss"]), str(record["unit"]), str(record["kind"])
        named, seed = str(record["name"]), int(record["seed"])
    except Exception as error:  # Damaged Parquet raises a dozen kinds of error.
        raise DataError(
            f"{folder} has no readable learning curve ({error}); give a folder that probe train has written, with {CURVE} "
            f"and {RECORD}"
        ) from error
    curve = log.to_numpy(dtype=np.float64)
    places = [_first_below(curve[:, 2], unigram - margin) for margin in margins]
    steps, words = (
        np.array(
            [np.nan if place is None else np.interp(place, np.arange(len(curve)), curve[:, column]) for place in places]
        )
        for column in (0, 1)
    )
    return StepsToLoss(name or named, family, unit, unigram, tuple(map(float, margins)), steps, words, curve, seed)


def _first_below(losses: Array, bound: float) -> float | None:
    """Where, in rows and parts of rows, a curve first comes down to a value; None if it never does."""
    below = np.flatnonzero(losses <= bound)
    if not len(below):
        return None
    row = int(below[0])
    if row == 0:
        return 0.0
    before, after = losses[row - 1], losses[row]
    return row - 1 + float((before - bound) / (before - after))
