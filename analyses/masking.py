"""Sentences with one side, the other, or both masked, their lengths in the model's pieces unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analyses.contexts import TargetContexts, Words
from extractors.base import Extractor
from extractors.foundation.errors import AlignmentError, UsageError
from extractors.words import MASK_WORD

OUT_OF_VOCABULARY = ("zqxjk", "\ue000", "~")
"""What stands for a masked word in models without a mask, the first of these that the model reads as one piece: a word of no
vocabulary (ELMo, which reads characters), a character of no vocabulary (word pieces: the unknown token), a rare
character (bytes)."""


@dataclass(frozen=True)
class SideMasks:
    """How one model reads a side that is masked: as many masks as the side has pieces."""

    reader: Extractor
    """The model, reading the mask as such."""
    word: str
    """The word that is one mask."""

    def sentences(self, target: TargetContexts) -> Iterator[tuple[Words, int]]:
        """Compose the sentences of one target, each with the target's position in words.

        Yields
        ------
        sentence, position
            For each pair (left[k], right[k]) three: right side masked, left side masked, both present. First of all one
            with both sides masked, which is the same for all pairs.
        """
        left, right = self._sides(target)
        yield (*left, target.word, *right), len(left)
        for before, after in zip(target.left, target.right, strict=True):
            yield (*before, target.word, *right), len(before)
            yield (*left, target.word, *after), len(left)
            yield (*before, target.word, *after), len(before)

    def _sides(self, target: TargetContexts) -> tuple[Words, Words]:
        """Masks for the left and for the right side; all parts of a side have one number of pieces."""
        (alignment,) = self.reader.align([(*target.left[0], target.word, *target.right[0])])
        pieces = [len(word) for word in alignment.word_pieces]
        position = target.position
        return (self.word,) * sum(pieces[:position]), (self.word,) * sum(pieces[position + 1 :])


def side_masks(extractor: Extractor) -> SideMasks:
    """Choose the mask of a model: its own where it has one (`ModelInfo.masks`), else the first fitting `OUT_OF_VOCABULARY`.

    Parameters
    ----------
    extractor : Extractor
        The model.

    Returns
    -------
    SideMasks
        Composes the sentences.

    Raises
    ------
    UsageError
        If the model has no mask and reads none of the words as one piece.
    """
    if extractor.info.masks:
        return SideMasks(extractor.with_masks(), MASK_WORD)
    for word in OUT_OF_VOCABULARY:
        try:
            (alignment,) = extractor.align([(word, word)])
        except AlignmentError:
            continue
        if all(len(pieces) == 1 for pieces in alignment.word_pieces):
            return SideMasks(extractor, word)
    raise UsageError(
        f"{extractor.info.name} has no mask and reads no placeholder as one piece ({', '.join(map(repr, OUT_OF_VOCABULARY))}); "
        "choose another mode of direction shares, e.g. crossed"
    )
