"""Masks of the masked objective (Devlin et al. 2019), drawn anew each time (Liu et al. 2019) or once for each place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extractors.foundation.randomness import generator_for
from studies.training.excerpts import Rows
from studies.training.recipe import MaskSettings

EVALUATION = MaskSettings(rate=0.15, masked=1.0, random=0.0)
"""The one evaluation of all masked models, whatever they were trained with: 15 % predicted, all of them masked."""


@dataclass(frozen=True)
class Masked:
    """What is done to each unit of a batch; all arrays (rows, length)."""

    predicted: npt.NDArray[np.bool_]
    """Units to be predicted."""
    hidden: npt.NDArray[np.bool_]
    """Of these, those replaced by the mask."""
    replaced: npt.NDArray[np.bool_]
    """Of these, those replaced by a random unit."""
    draw: npt.NDArray[np.float64]
    """Uniform numbers that choose the random unit."""


class Masks:
    """Draws masks.

    Parameters
    ----------
    settings : MaskSettings
        Rate, shares, dynamic or static.
    seed : int
        Seed of all draws.
    places : int
        Number of units of the text, for static masks.
    """

    def __init__(self, settings: MaskSettings, *, seed: int, places: int) -> None:
        self._settings, self._seed = settings, seed
        self._table = None if settings.dynamic else generator_for(seed, "static masks").random((3, places))

    def __call__(self, rows: Rows, step: int | str) -> Masked:
        """The masks of a batch; dynamic ones follow from `step`, static ones from the places of the units."""
        if self._table is None:
            choice, action, draw = generator_for(self._seed, "masks", step).random((3, *rows.units.shape))
        else:
            choice, action, draw = self._table[:, rows.places]
        predicted = choice < self._settings.rate
        if not predicted.any():  # a batch of a few short rows: there must be something to learn from
            predicted.flat[int(choice.argmin())] = True
        hidden = predicted & (action < self._settings.masked)
        replaced = predicted & ~hidden & (action < self._settings.masked + self._settings.random)
        return Masked(predicted, hidden, replaced, draw)
