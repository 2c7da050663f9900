"""Crossed contexts written for this project: targets with 24 left and 24 right parts of six words, in any pairing.

A treebank has next to no content word that occurs often enough between sides of equal length; these contexts give the
direction shares the same targets in every model, with nothing to bring along.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from analyses.contexts import ContextSet, PieceCounts, TargetContexts, Words, piece_counts
from extractors.base import Extractor
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for

_Signature = tuple[PieceCounts, ...]


def bundled_contexts(
    extractors: Sequence[Extractor], *, grid: int | None = None, targets: int | None = None, seed: int = 0
) -> ContextSet:
    """Give the bundled contexts, as far as their lengths are constant in the pieces of every given model.

    Of a target's parts, those with the most frequent piece counts are kept, the same ones for all models. A target left
    with fewer than `grid` parts on a side is dropped, and so is one whose piece counts are not constant in the composed
    sentences; the notes say which. In models that read each of the common words used here as one piece, all are kept.

    Parameters
    ----------
    extractors : sequence of Extractor
        The models; only their alignment is used.
    grid : int, optional
        K, left and right parts per target, drawn at random from those of constant length; all 24 if left open.
    targets : int, optional
        How many targets at most, function and content words in turn; all if left open.
    seed : int
        Seed of the choice of parts.

    Returns
    -------
    ContextSet
        At least two targets.

    Raises
    ------
    UsageError
        For no model, two models of one name, or a grid or number of targets out of range.
    DataError
        If fewer than two targets remain; says what to do.
    """
    names = tuple(extractor.info.name for extractor in extractors)
    if not names or len(set(names)) < len(names):
        raise UsageError(f"contexts need at least one model, and models of different names; got {', '.join(names)}")
    bundle = _bundle()
    entries, side = bundle["targets"], bundle["side"]
    most = min(len(entry[part]) for entry in entries for part in ("left", "right"))
    size = most if grid is None else grid
    wanted = len(entries) if targets is None else targets
    for label, value, highest in (("grid", size, most), ("targets", wanted, len(entries))):
        if not 2 <= value <= highest:
            raise UsageError(f"{label}={value} is not possible with the bundled contexts; give 2 to {highest}")
    found: list[TargetContexts] = []
    dropped: list[str] = []
    for entry in entries:
        if len(found) == wanted:
            break
        target = _target(extractors, entry, size, seed)
        if target is None:
            dropped.append(entry["word"])
        else:
            found.append(target)
    if len(found) < 2:
        raise DataError(
            f"{len(found)} of {len(entries)} bundled target words have {size} left and {size} right parts of constant "
            f"length in the pieces of {', '.join(names)}, and 2 are needed; give a smaller grid, fewer models at a time, "
            "or sentences of your own to collect contexts from"
        )
    notes = []
    if dropped:
        notes.append(
            f"{len(dropped)} bundled target words dropped, without {size} left and {size} right parts of constant length "
            f"in the pieces of {', '.join(names)}: {', '.join(dropped)}"
        )
    return ContextSet(tuple(found), side, size, names, seed, tuple(notes))


def _target(extractors: Sequence[Extractor], entry: dict[str, Any], size: int, seed: int) -> TargetContexts | None:
    """One target with `size` parts a side, or None if it has no such grid of constant length."""
    word: str = entry["word"]
    lefts: list[Words] = [tuple(part.split()) for part in entry["left"]]
    rights: list[Words] = [tuple(part.split()) for part in entry["right"]]
    # Each part is seen once, whatever stands across: the composed grid below is what counts.
    pairs = _signatures(extractors, ((*a, word, *b) for a, b in zip(lefts, rights, strict=True)), len(lefts[0]))
    left = _evenly(lefts, [tuple(counts.before for counts in pair) for pair in pairs])
    right = _evenly(rights, [tuple(counts.after for counts in pair) for pair in pairs])
    if min(len(left), len(right)) < size:
        return None
    generator = generator_for(seed, "bundled contexts", word)
    left = [left[i] for i in sorted(generator.permutation(len(left))[:size])]
    right = [right[i] for i in sorted(generator.permutation(len(right))[:size])]
    grid = ((*before, word, *after) for before, after in product(left, right))
    signatures = set(_signatures(extractors, grid, len(left[0])))
    if len(signatures) > 1:
        return None
    (signature,) = signatures
    for extractor, counts in zip(extractors, signature, strict=True):
        limit = extractor.info.max_pieces
        if limit is not None and counts.before + counts.target + counts.after > limit:
            return None
    pieces = {extractor.info.name: counts for extractor, counts in zip(extractors, signature, strict=True)}
    return TargetContexts(word, tuple(left), tuple(right), pieces, entry["word_class"], entry["upos"])


def _signatures(extractors: Sequence[Extractor], sentences: Iterable[Words], position: int) -> list[_Signature]:
    """Piece counts around the word at `position`, per sentence in each model."""
    listed = list(sentences)
    columns = [[piece_counts(item, position) for item in extractor.align(listed)] for extractor in extractors]
    return list(zip(*columns, strict=True))


def _evenly(parts: Sequence[Words], lengths: Sequence[tuple[int, ...]]) -> list[Words]:
    """The parts with the most frequent length (the shorter of two equally frequent)."""
    supply = Counter(lengths)
    best = min(supply, key=lambda length: (-supply[length], length))
    return [part for part, length in zip(parts, lengths, strict=True) if length == best]


@cache
def _bundle() -> dict[str, Any]:
    text = (files("studies") / "data" / "contexts.json").read_text(encoding="utf-8")
    bundle: dict[str, Any] = json.loads(text)
    return bundle
