"""The text of a training: files read once, and brought into the units of any number of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from extractors.foundation.errors import UsageError
from extractors.foundation.files import sha256_of_file
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from studies.training.text import DividedText, Text, divide, read_text

if TYPE_CHECKING:
    from studies.training.learner import Material
    from studies.training.recipe import Recipe

_PARTS = 16
"""A limited text takes at most one part in so many from a single document."""


class TrainingText:
    """Text files for `studies.train`; nothing is read before it is needed, and everything is read once.

    Reading millions of words, learning word pieces from them and cutting them into pieces takes longer than many a small
    training. Give the same object to several trainings to do it once.

    Parameters
    ----------
    paths : sequence of path
        UTF-8 text files, plain or .gz: one paragraph a line, a blank line between documents.
    progress : Progress
        Receives one unit per file read.

    Attributes
    ----------
    paths : tuple of Path
        The files.
    limit : int or None
        Words of training text at most; None: all of it. See `limited`.
    """

    def __init__(self, paths: Sequence[str | Path], *, progress: Progress = SILENT) -> None:
        self.paths = tuple(Path(path).expanduser() for path in paths)
        self.limit: int | None = None
        self._progress = progress
        # Shared with the limited copies.
        self._read: dict[str, tuple[Text, tuple[int, ...]]] = {}
        self._divided: dict[tuple[float, int], DividedText] = {}
        self._materials: dict[tuple[object, ...], Material] = {}

    def limited(self, words: int) -> TrainingText:
        """The same text with at most about `words` words for training: a slice that a training reads again and again.

        The slice holds the beginnings of documents in an order drawn from ``text.held_out_seed``, at most a sixteenth of it from
        each (fewer documents give more each). Held-out text and vocabularies stay those of the whole text, so that losses can be compared.

        Parameters
        ----------
        words : int
            Size of the slice.

        Returns
        -------
        TrainingText
            Shares what has been read with this one.

        Raises
        ------
        UsageError
            If `words` is not positive.
        """
        if words < 1:
            raise UsageError(f"a training text of {words} words cannot be read; give at least 1")
        other = TrainingText(self.paths, progress=self._progress)
        other.limit = words
        other._read, other._divided, other._materials = self._read, self._divided, self._materials
        return other

    @property
    def checksum(self) -> str:
        """SHA-256 over the bytes of the files, in the order given."""
        return self._everything()[0].checksum

    @cached_property
    def file_checksums(self) -> list[str]:
        """SHA-256 of each file's bytes."""
        return [sha256_of_file(path) for path in self.paths]

    def material(self, recipe: Recipe) -> Material:
        """The text in the units of a recipe's kind.

        Raises
        ------
        DataError
            If a file is missing, given twice, not UTF-8, damaged, or too small.
        """
        from studies.training.learner import prepare

        settings, section = recipe.text, recipe.lstm or recipe.transformer
        assert section is not None
        division = (settings.held_out, settings.held_out_seed)
        if division not in self._divided:
            everything, files = self._everything()
            self._divided[division] = divide(everything, files, share=division[0], seed=division[1])
        units = (division, recipe.reads_words, section.vocabulary)
        if units not in self._materials:
            self._materials[units] = prepare(recipe, self._divided[division])
        material = self._materials[units]
        if self.limit is not None:
            key = (*units, self.limit, settings.reach)
            if key not in self._materials:
                part = _beginnings(material.text.training, self.limit, settings.reach, settings.held_out_seed)
                self._materials[key] = material.over(part)
            material = self._materials[key]
        return replace(material, recipe=recipe)

    def _everything(self) -> tuple[Text, tuple[int, ...]]:
        if "text" not in self._read:
            self._read["text"] = read_text(self.paths, progress=self._progress)
        return self._read["text"]


def _beginnings(text: Text, words: int, reach: int, seed: int) -> Text:
    """Beginnings of documents in random order, whole sentences, until `words` words; all of a text that has no more."""
    if len(text.words) <= words:
        return text
    documents = len(text.documents) - 1
    largest = max(words // min(_PARTS, documents) + 1, 2 * reach)
    cuts, taken = {}, 0
    for document in generator_for(seed, "training slice").permutation(documents).tolist():
        first, stop = text.documents[document : document + 2].tolist()
        wanted = min(largest, max(words - taken, 2 * reach))
        if stop - first > wanted:
            inside = text.starts[np.searchsorted(text.starts, first + 1) : np.searchsorted(text.starts, stop)]
            after = inside[inside <= first + wanted]
            # A first sentence longer than all that is wanted is taken whole.
            stop = int(after[-1]) if len(after) else int(inside[0]) if len(inside) else stop
        cuts[first] = stop
        taken += stop - first
        if taken >= words:
            break
    edges = np.unique(np.concatenate([text.documents, np.array(list(cuts.values()), dtype=np.int64)]))
    cut = Text(text.types, text.words, text.starts, edges, text.checksum)
    return cut.select([int(np.searchsorted(edges, first)) for first in sorted(cuts)])
