"""Which stretches of the text are read, in which order: the same for every kind of model with the same seed.

One pass tiles each document with excerpts that lie at least `excerpt` words apart, from a random start, and reads them in
random order. Half of them begin at a sentence's start and half end at a sentence's end, so that both directions of a
concatenated model meet real edges of sentences, next to their boundary marks, equally often. A model that reads words takes so many words from
the anchored end, one that reads pieces so many pieces: every row is full, and there is no padding.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError
from extractors.foundation.randomness import generator_for
from studies.training.text import Text

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Anchors:
    """Excerpts, each a place in the text and the side on which it lies."""

    places: Integers
    """(excerpts,): the word that an excerpt begins with, or the one behind its last."""
    ends_here: npt.NDArray[np.bool_]
    """(excerpts,): True where the excerpt lies left of its place."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, chosen: slice) -> Anchors:
        return Anchors(self.places[chosen], self.ends_here[chosen])


@dataclass(frozen=True)
class Rows:
    """A batch of excerpts in units (words or pieces)."""

    units: Integers
    """(rows, length): word types or piece ids, in text order."""
    places: Integers
    """(rows, length): place of each unit in the text's sequence of units."""
    words: int
    """Words read (those whose first unit is read)."""


@dataclass(frozen=True)
class Units:
    """A text in the units of a model."""

    values: npt.NDArray[np.int32]
    """(units,): word types or piece ids."""
    offsets: Integers
    """(words + 1,): first unit of each word."""

    def rows(self, anchors: Anchors, length: int) -> Rows:
        """The rows of some excerpts, `length` units from each place in its direction."""
        first = self.offsets[anchors.places] - np.where(anchors.ends_here, length, 0)
        places = first[:, None] + np.arange(length)
        begun = np.searchsorted(self.offsets, [first, first + length])
        return Rows(self.values[places].astype(np.int64), places, int((begun[1] - begun[0]).sum()))


def anchors_of_pass(text: Text, *, excerpt: int, reach: int, names: tuple[object, ...]) -> Anchors:
    """Tile a text with excerpts, in random order.

    Parameters
    ----------
    text : Text
        The text.
    excerpt : int
        Least distance of neighbouring tiles in words.
    reach : int
        Words of its document that an excerpt is sure to have on its side.
    names : tuple
        What the randomness follows from, e.g. ``(seed, "pass", 0)``.

    Returns
    -------
    Anchors
        Excerpts of at most `excerpt` words overlap nowhere.

    Raises
    ------
    DataError
        If no document has `reach` words.
    """
    generator = generator_for(*names)
    places: list[int] = []
    sides: list[bool] = []
    edges = text.documents.tolist()
    for begin, end in pairwise(edges):
        low, high = np.searchsorted(text.starts, [begin, end])
        bounds = [*text.starts[low:high].tolist(), end]
        early = bisect_left(bounds, begin + excerpt)
        place = int(generator.integers(max(1, min(early, len(bounds) - 1))))
        while place < len(bounds) - 1:
            following = bisect_left(bounds, bounds[place] + excerpt)
            if following == len(bounds):
                break
            start, stop = bounds[place], bounds[following]
            fits = [start + reach <= end, stop - reach >= begin]
            if any(fits):
                side = bool(generator.integers(2)) if all(fits) else fits[1]
                places.append(stop if side else start)
                sides.append(side)
            place = following
    if not places:
        raise DataError(
            f"no document of the text has {reach} words; give longer documents (a blank line ends a document), or lower "
            "length, text.excerpt and text.reach"
        )
    order = generator.permutation(len(places))
    return Anchors(np.array(places, dtype=np.int64)[order], np.array(sides, dtype=np.bool_)[order])


class Reading:
    """An endless sequence of batches of excerpts, pass after pass.

    Parameters
    ----------
    text : Text
        The training text.
    excerpt, reach : int
        See `anchors_of_pass`.
    seed : int
        Seed of tiles and order.
    position : tuple of int
        Pass and excerpt to start from, for resuming: the value of `position` then.
    """

    def __init__(self, text: Text, *, excerpt: int, reach: int, seed: int, position: tuple[int, int] = (0, 0)) -> None:
        self._text, self._excerpt, self._reach, self._seed = text, excerpt, reach, seed
        self.position = position
        self._anchors = self._tile(position[0])

    def take(self, number: int) -> Anchors:
        """The next `number` excerpts."""
        parts: list[Anchors] = []
        while number:
            current, done = self.position
            part = self._anchors[done : done + number]
            parts.append(part)
            number -= len(part)
            self.position = (current, done + len(part))
            if self.position[1] == len(self._anchors):
                self.position = (current + 1, 0)
                self._anchors = self._tile(current + 1)
        return Anchors(
            np.concatenate([part.places for part in parts]), np.concatenate([part.ends_here for part in parts])
        )

    def _tile(self, number: int) -> Anchors:
        names = (self._seed, "pass", number)
        return anchors_of_pass(self._text, excerpt=self._excerpt, reach=self._reach, names=names)
