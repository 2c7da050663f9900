"""Contexts made from other contexts: words drawn anew from the corpus, sides cut shorter, several lengths side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from analyses.contexts import ContextSet, TargetContexts, Words, collect_contexts, piece_counts
from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.words import as_words

SIDES = (2, 4, 8, 16)
"""Words per side of `contexts_by_length`."""

_SAMPLE = 1000
"""Corpus sentences whose words stand for the corpus when words are drawn anew."""

_Signature = tuple[int, ...]


def resample_contexts(
    extractors: Sequence[Extractor], sentences: Sequence[Sentence], contexts: ContextSet, *, seed: int | None = None
) -> ContextSet:
    """Replace every word of every part by a random word of the corpus: contexts without syntax, topic or collocation.

    Words are drawn in proportion to their frequency (from a thousand sentences, drawn at random, if the corpus has
    more), among those that have as many pieces as the word replaced, in every model; where there is none, the word
    stays. So grids, side lengths and piece counts remain as they were.

    Parameters
    ----------
    extractors : sequence of Extractor
        The models that `contexts` were made for; only their alignment is used.
    sentences : sequence of str or of sequences of str
        The corpus.
    contexts : ContextSet
        Crossed contexts.
    seed : int, optional
        Seed of the choice; default: that of `contexts`.

    Returns
    -------
    ContextSet
        Of mode ``resampled``; a target whose piece counts are not constant any more is dropped, with a note.

    Raises
    ------
    DataError
        If the corpus is empty, or fewer than two targets are left.
    UsageError
        If the models are not those of `contexts`.
    """
    _check_models(extractors, contexts)
    if not sentences:
        raise DataError("the corpus is empty: its words are needed to draw contexts from; give sentences")
    seed = contexts.seed if seed is None else seed
    drawn = generator_for(seed, "resampled words").permutation(len(sentences))[:_SAMPLE]
    sample = [as_words(sentences[i], where=f"sentence {i + 1}") for i in sorted(drawn)]
    supply: dict[_Signature, list[str]] = defaultdict(list)
    for words, signatures in zip(sample, _word_pieces(extractors, sample), strict=True):
        for word, signature in zip(words, signatures, strict=True):
            supply[signature].append(word)
    kept = 0
    targets = []
    for target in contexts.targets:
        generator = generator_for(seed, "resampled contexts", target.word)
        pairs = [(*a, target.word, *b) for a, b in zip(target.left, target.right, strict=True)]
        left, right = [], []
        for words, signatures in zip(pairs, _word_pieces(extractors, pairs), strict=True):
            new = []
            for word, signature in zip(words, signatures, strict=True):
                choice = supply.get(signature)
                kept += choice is None
                new.append(choice[int(generator.integers(len(choice)))] if choice else word)
            left.append(tuple(new[: target.position]))
            right.append(tuple(new[target.position + 1 :]))
        targets.append(replace(target, left=tuple(left), right=tuple(right)))
    notes = [f"{kept} words of the contexts kept: no other word of the corpus has as many pieces"] if kept else []
    return _made(extractors, contexts, targets, notes, mode="resampled", seed=seed)


def shorten_contexts(extractors: Sequence[Extractor], contexts: ContextSet, side: int) -> ContextSet:
    """Keep the `side` words next to the target on each side.

    Parameters
    ----------
    extractors : sequence of Extractor
        The models that `contexts` were made for; only their alignment is used.
    contexts : ContextSet
        Longer contexts.
    side : int
        Words per side to keep.

    Returns
    -------
    ContextSet
        The same targets; one whose shorter parts are not of constant length in pieces is dropped, with a note.

    Raises
    ------
    DataError
        If fewer than two targets are left.
    UsageError
        If `side` is not between 1 and that of `contexts`, or the models are not those of `contexts`.
    """
    _check_models(extractors, contexts)
    if not 1 <= side <= contexts.side:
        raise UsageError(
            f"side={side} is not possible: the contexts have {contexts.side} words per side; give 1 to that"
        )
    if side == contexts.side:
        return contexts
    targets = [
        replace(
            target,
            left=tuple(part[-side:] for part in target.left),
            right=tuple(part[:side] for part in target.right),
        )
        for target in contexts.targets
    ]
    return replace(_made(extractors, contexts, targets, [], mode=contexts.mode, seed=contexts.seed), side=side)


def narrow_contexts(contexts: ContextSet, grid: int) -> ContextSet:
    """Keep the first `grid` left and right parts of every target: a cheaper measurement that estimates the same.

    Parameters
    ----------
    contexts : ContextSet
        Contexts of any mode.
    grid : int
        Parts per side to keep.

    Returns
    -------
    ContextSet
        The same targets.

    Raises
    ------
    UsageError
        If `grid` is not between 2 and that of `contexts`.
    """
    if not 2 <= grid <= contexts.grid:
        raise UsageError(
            f"grid={grid} is not possible: the contexts have {contexts.grid} parts per side; give 2 to that"
        )
    targets = tuple(replace(target, left=target.left[:grid], right=target.right[:grid]) for target in contexts.targets)
    return replace(contexts, targets=targets, grid=grid)


def contexts_by_length(
    extractors: Sequence[Extractor],
    sentences: Sequence[Sentence],
    *,
    sides: Sequence[int] = SIDES,
    grid: int = 4,
    targets: int = 20,
    seed: int = 0,
    upos: Sequence[Sequence[str]] | None = None,
) -> tuple[ContextSet, ...]:
    """Collect crossed contexts of several lengths for the same targets.

    The longest come first, as they are the scarcest; the shorter ones are collected for the words that these have, and
    only words found at every length are kept. A length with fewer than two targets is left out.

    Parameters
    ----------
    extractors : sequence of Extractor
        The models; only their alignment is used.
    sentences : sequence of str or of sequences of str
        The corpus.
    sides : sequence of int
        Words per side.
    grid, targets, seed, upos
        As for `collect_contexts`.

    Returns
    -------
    tuple of ContextSet
        By rising length; the notes of the longest say which lengths were left out.

    Raises
    ------
    DataError
        If no length has two targets; says why of the shortest.
    UsageError
        As `collect_contexts`, and for lengths that are given twice or not at all.
    """
    if not sides or len(set(sides)) < len(sides):
        raise UsageError(f"lengths {list(sides)} must be different and at least one; give e.g. 2, 4, 8, 16")
    found: list[ContextSet] = []
    missing: list[int] = []
    for side in sorted(sides, reverse=True):
        try:
            words = found[-1].words if found else None
            found.append(
                collect_contexts(
                    extractors, sentences, side=side, grid=grid, targets=targets, seed=seed, upos=upos, words=words
                )
            )
        except DataError:
            if side == min(sides) and not found:
                raise
            missing.append(side)
    sets = list(common_targets(found))
    if missing:
        lengths = ", ".join(map(str, sorted(missing)))
        note = f"no contexts of {lengths} words per side: fewer than two words have {grid} x {grid} of them"
        sets[-1] = replace(sets[-1], notes=(*sets[-1].notes, note))
    return tuple(sets)


def common_targets(found: Sequence[ContextSet]) -> tuple[ContextSet, ...]:
    """Keep the targets that contexts of several lengths have in common.

    Parameters
    ----------
    found : sequence of ContextSet
        Contexts of different lengths.

    Returns
    -------
    tuple of ContextSet
        By rising length, with the same target words in the same order, that of the longest; the words left out stand in
        the notes of the longest.

    Raises
    ------
    DataError
        If fewer than two target words are in all of them.
    """
    found = sorted(found, key=lambda contexts: contexts.side)
    common = set.intersection(*(set(contexts.words) for contexts in found))
    if len(common) < 2:
        raise DataError(
            f"fewer than two words have contexts of {', '.join(str(contexts.side) for contexts in found)} words per "
            "side alike; give more sentences, or fewer lengths"
        )
    order = [word for word in found[-1].words if word in common]
    sets = []
    for contexts in found:
        by_word = {target.word: target for target in contexts.targets}
        sets.append(replace(contexts, targets=tuple(by_word[word] for word in order)))
    left_out = dict.fromkeys(word for contexts in found for word in contexts.words if word not in common)
    if left_out:
        note = f"left out, as not every length has contexts for them: {', '.join(left_out)}"
        sets[-1] = replace(sets[-1], notes=(*sets[-1].notes, note))
    return tuple(sets)


def _check_models(extractors: Sequence[Extractor], contexts: ContextSet) -> None:
    names = tuple(extractor.info.name for extractor in extractors)
    if sorted(names) != sorted(contexts.models):
        raise UsageError(
            f"the contexts were made for {', '.join(contexts.models)}, but the models given are {', '.join(names)}; give the "
            "same ones, so that lengths stay constant in the pieces of each"
        )


def _word_pieces(extractors: Sequence[Extractor], sentences: Sequence[Words]) -> list[list[_Signature]]:
    """For each word of each sentence its number of pieces in every model."""
    columns = [
        [[len(pieces) for pieces in alignment.word_pieces] for alignment in extractor.align(sentences)]
        for extractor in extractors
    ]
    return [list(zip(*counts, strict=True)) for counts in zip(*columns, strict=True)]


def _made(
    extractors: Sequence[Extractor],
    contexts: ContextSet,
    targets: Sequence[TargetContexts],
    notes: Sequence[str],
    *,
    mode: str,
    seed: int,
) -> ContextSet:
    """A set of the targets whose composed sentences have constant piece counts."""
    kept, dropped = [], []
    for target in targets:
        composed = [(*left, target.word, *right) for left, right in product(target.left, target.right)]
        pieces = {}
        for extractor in extractors:
            counts = {piece_counts(alignment, target.position) for alignment in extractor.align(composed)}
            if len(counts) == 1:
                pieces[extractor.info.name] = counts.pop()
        if len(pieces) == len(extractors):
            kept.append(replace(target, pieces=pieces))
        else:
            dropped.append(target.word)
    if dropped:
        notes = [*notes, f"dropped, as their lengths in pieces are no longer constant: {', '.join(dropped)}"]
    if len(kept) < 2:
        raise DataError(
            f"{len(kept)} of {len(targets)} targets have contexts of constant length in the pieces of "
            f"{', '.join(contexts.models)}, and 2 are needed; give more targets, or fewer models at a time"
        )
    return replace(contexts, targets=tuple(kept), notes=(*contexts.notes, *notes), mode=mode, seed=seed)
