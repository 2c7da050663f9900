"""Contexts from a corpus: for each target word K left and K right parts, by default taken from disjoint sentences.

Within one grid every left part has the same number of pieces in every given model, and so has every right part: a
longer left part would shift the target's position, and the model's position embedding would pass for an effect of the
left side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product, zip_longest

from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.representation import Alignment
from extractors.words import as_words

SIDES = (8, 6, 4, 3, 2)
"""Words per side that are tried in turn when `side` is left open."""
GRIDS = (8, 6, 4)
"""Contexts per side that are tried in turn when `grid` is left open."""
COLLECTED = ("crossed", "natural")
"""How `collect_contexts` takes parts from a corpus: from disjoint sentences, or both from the same ones."""

_ENOUGH = 10
"""With open `side` or `grid`, the first setting with so many targets is taken (or with as many as asked for)."""
_POOL = 256
"""At most so many occurrences of a word are looked at, drawn at random: more would cost time and change nothing."""
_OPEN_CLASSES = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"})
"""Universal Dependencies' open classes: content words."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class PieceCounts:
    """How many pieces a model reads, the same in every sentence of one grid."""

    before: int
    """Pieces before the target, special tokens included."""
    target: int
    """Pieces of the target."""
    after: int
    """Pieces after the target, special tokens included."""


@dataclass(frozen=True)
class TargetContexts:
    """One target word with its left and right parts; each left part is combined with each right part."""

    word: str
    """The target, as written."""
    left: tuple[Words, ...]
    """K left parts of W words each."""
    right: tuple[Words, ...]
    """K right parts of W words each, from other sentences than the left parts."""
    pieces: Mapping[str, PieceCounts]
    """Model name -> piece counts, constant over the grid."""
    word_class: str | None = None
    """``content`` or ``function`` by the word's most frequent UPOS tag; None without tags."""
    upos: str | None = None
    """The word's most frequent UPOS tag; None without tags."""

    @property
    def position(self) -> int:
        """Position of the target in each composed sentence, counted in words from 0."""
        return len(self.left[0])

    def sentences(self) -> Iterator[Words]:
        """Compose all sentences, left part by left part: sentence number ``l * len(right) + r`` holds (l, r)."""
        for left, right in product(self.left, self.right):
            yield (*left, self.word, *right)


@dataclass(frozen=True)
class ContextSet:
    """Crossed contexts for several targets, valid for the models they were collected for."""

    targets: tuple[TargetContexts, ...]
    """The targets, in the order in which they were chosen."""
    side: int
    """W, words per side."""
    grid: int
    """K, left parts and right parts per target."""
    models: tuple[str, ...]
    """Names of the models in whose pieces the lengths are fixed."""
    seed: int
    """Seed of the choice."""
    notes: tuple[str, ...] = ()
    """What was shortened or dropped, and why."""
    mode: str = "crossed"
    """How the parts were drawn: ``crossed`` (left and right from disjoint sentences), ``natural`` (part k on either side
    from one sentence) or ``resampled`` (every word replaced by a corpus word of the same piece count)."""

    @property
    def words(self) -> tuple[str, ...]:
        """The target words."""
        return tuple(target.word for target in self.targets)

    @property
    def texts(self) -> tuple[tuple[str, tuple[Words, ...], tuple[Words, ...]], ...]:
        """Every target with its left and right parts: models read the same contexts if these are equal."""
        return tuple((target.word, target.left, target.right) for target in self.targets)


def collect_contexts(
    extractors: Sequence[Extractor],
    sentences: Sequence[Sentence],
    *,
    side: int | None = None,
    grid: int | None = None,
    targets: int = 20,
    seed: int = 0,
    upos: Sequence[Sequence[str]] | None = None,
    mode: str = "crossed",
    words: Collection[str] | None = None,
) -> ContextSet:
    """Collect contexts from a corpus, the same ones for all given models.

    A target is a word form (case-sensitive, with at least one letter) that has K left and K right parts: W words
    directly before, or after, an occurrence with at least W words on both sides. No sentence gives both a left and a
    right part, and no sentence of the corpus has a left and a right part of one grid around the target (such a natural
    pair would bias the variances). No part is used twice, and per grid all left parts have one piece count in each
    model, and all right parts too: the combination of counts with the largest supply is taken. The composed sentences
    are aligned again, and a target whose piece counts are not constant in them is dropped. In mode ``natural`` the K
    left and the K right parts are those of the same K sentences, pair by pair.

    Candidates are tried in falling order of frequency, one from each half in turn: with `upos` the halves are function
    and content words; without, the more and the less frequent half of the candidates, the second holding most content
    words.

    Parameters
    ----------
    extractors : sequence of Extractor
        The models; only their alignment is used.
    sentences : sequence of str or of sequences of str
        The corpus. A sentence that occurs again is ignored.
    side : int, optional
        W, words per side. Left open, 8, 6, 4, 3 and 2 are tried in turn.
    grid : int, optional
        K, left and right parts per target. Left open, 8, 6 and 4 are tried for each W, before W is shortened: estimates
        do not depend on K, but they do on W. The first setting with 10 targets (or `targets`, if fewer) is taken; if
        none has so many, the one with the most. It is recorded in the result and in its notes.
    targets : int
        Number of targets wanted; fewer are taken if the corpus has no more.
    seed : int
        Seed of the choice of occurrences.
    upos : sequence of sequences of str, optional
        Universal part-of-speech tags of the sentences, word by word.
    mode : {"crossed", "natural"}
        Left and right parts from disjoint sentences, or from the same ones.
    words : collection of str, optional
        Take targets from these words only.

    Returns
    -------
    ContextSet
        At least two targets.

    Raises
    ------
    UsageError
        For no model, two models of one name, an unknown mode, a side below 1, a grid or a number of targets below 2.
    DataError
        If fewer than two targets are possible; says what was found and what is needed. Also for tags that do not match.
    """
    names = tuple(extractor.info.name for extractor in extractors)
    if not names or len(set(names)) < len(names):
        raise UsageError(f"contexts need at least one model, and models of different names; got {', '.join(names)}")
    for label, value, least in (("side", side, 1), ("grid", grid, 2), ("targets", targets, 2)):
        if value is not None and value < least:
            raise UsageError(f"{label}={value} is too small; it must be at least {least}")
    if mode not in COLLECTED:
        raise UsageError(f"contexts cannot be collected in mode {mode!r}; choose one of {', '.join(COLLECTED)}")
    corpus = _Corpus(extractors, sentences, upos, seed, natural=mode == "natural", only=words)
    sides = SIDES if side is None else (side,)
    grids = GRIDS if grid is None else (grid,)
    enough = min(targets, _ENOUGH)
    best: tuple[list[TargetContexts], list[str], int, int] = ([], [], sides[0], grids[0])
    for words_per_side, parts in product(sides, grids):
        found, notes = corpus.collect(words_per_side, parts, targets)
        if len(found) > len(best[0]):
            best = found, notes, words_per_side, parts
        if len(found) >= enough:
            break
    found, notes, words_per_side, parts = best
    if len(found) < 2:
        raise DataError(corpus.shortage(sides[-1], grids[-1], len(found)))
    if (words_per_side, parts) != (sides[0], grids[0]):
        notes.insert(
            0,
            f"{words_per_side} words per side and {parts} x {parts} contexts used: with {sides[0]} words and "
            f"{grids[0]} x {grids[0]} contexts fewer than {enough} target words were found",
        )
    return ContextSet(tuple(found), words_per_side, parts, names, seed, tuple(notes), mode)


@dataclass(frozen=True)
class _Occurrence:
    sentence: int
    left: Words
    right: Words
    before: tuple[int, ...]
    """Pieces before the target, per model."""
    after: tuple[int, ...]


class _Corpus:
    """The sentences of one collection, with what was learnt about them."""

    def __init__(
        self,
        extractors: Sequence[Extractor],
        sentences: Sequence[Sentence],
        upos: Sequence[Sequence[str]] | None,
        seed: int,
        *,
        natural: bool,
        only: Collection[str] | None,
    ) -> None:
        self.natural, self.only = natural, None if only is None else frozenset(only)
        self.extractors = extractors
        self.seed = seed
        split = [as_words(sentence, where=f"sentence {number}") for number, sentence in enumerate(sentences, start=1)]
        self.sentences = list(dict.fromkeys(split))
        self.tags = _word_tags(split, upos)
        self.signatures: dict[tuple[int, Words], tuple[PieceCounts, ...]] = {}

    def collect(self, side: int, grid: int, wanted: int) -> tuple[list[TargetContexts], list[str]]:
        """Find targets for one setting, and say what was dropped."""
        found: list[TargetContexts] = []
        notes: list[str] = []
        uneven = 0
        for word, places in self.candidates(side, grid):
            parts = self.parts(word, places, side, grid)
            if parts is None:
                uneven += 1
                continue
            left, right = parts
            composed = [(*before, word, *after) for before, after in product(left, right)]
            signatures = {self.signature(side, words) for words in composed}
            if len(signatures) > 1:
                notes.append(f"{word!r} dropped: its piece counts change with the words around it")
                continue
            (signature,) = signatures
            if problem := self.too_long(signature):
                notes.append(f"{word!r} dropped: {problem}")
                continue
            pieces = {extractor.info.name: counts for extractor, counts in zip(self.extractors, signature, strict=True)}
            tag = self.tags.get(word)
            found.append(TargetContexts(word, left, right, pieces, word_class_of(tag), tag))
            if len(found) == wanted:
                break
        if uneven:
            words = "1 frequent word" if uneven == 1 else f"{uneven} frequent words"
            notes.append(
                f"{words} passed over: fewer than {grid} left or right contexts of one length in pieces, apart from each other"
            )
        return found, notes

    def candidates(self, side: int, grid: int) -> list[tuple[str, list[tuple[int, int]]]]:
        """Words with enough occurrences and their places (sentence, position), in the order of trial."""
        places: dict[str, dict[int, int]] = defaultdict(dict)
        for number, words in enumerate(self.sentences):
            for position in range(side, len(words) - side):
                places[words[position]].setdefault(number, position)
        frequent = [
            (word, list(where.items()))
            for word, where in places.items()
            if len(where) >= self.needed(grid)
            and any(character.isalpha() for character in word)
            and (self.only is None or word in self.only)
        ]
        frequent.sort(key=lambda item: (-len(item[1]), item[0]))
        if self.tags:
            first = [item for item in frequent if word_class_of(self.tags[item[0]]) == "function"]
            second = [item for item in frequent if word_class_of(self.tags[item[0]]) == "content"]
        else:
            half = (len(frequent) + 1) // 2
            first, second = frequent[:half], frequent[half:]
        return [item for item in chain.from_iterable(zip_longest(first, second)) if item is not None]

    def parts(
        self, word: str, places: list[tuple[int, int]], side: int, grid: int
    ) -> tuple[tuple[Words, ...], tuple[Words, ...]] | None:
        """K left and K right parts of equal piece counts, from disjoint sentences or (natural) the same; or None."""
        generator = generator_for(self.seed, "contexts", word, side)
        chosen = [places[i] for i in generator.permutation(len(places))[:_POOL]]
        occurrences = [self.occurrence(side, sentence, position) for sentence, position in chosen]
        if self.natural:
            return _natural_parts(occurrences, grid)
        lefts: dict[tuple[int, ...], dict[Words, int]] = defaultdict(dict)
        rights: dict[tuple[int, ...], dict[Words, int]] = defaultdict(dict)
        for item in occurrences:
            lefts[item.before].setdefault(item.left, item.sentence)
            rights[item.after].setdefault(item.right, item.sentence)
        supply = {
            (before, after): min(len(a), len(b), len({*a.values(), *b.values()}) // 2)
            for (before, a), (after, b) in product(lefts.items(), rights.items())
        }
        before, after = max(supply, key=lambda key: (supply[key], key))
        if supply[before, after] < grid:
            return None
        left = {sentence: part for part, sentence in lefts[before].items()}
        right = {sentence: part for part, sentence in rights[after].items()}
        shared = left.keys() & right.keys()
        use_left = [sentence for sentence in left if sentence not in shared]
        use_right = [sentence for sentence in right if sentence not in shared]
        # A sentence that could serve both sides goes to the side that has fewer; as `supply` reaches `grid`, both do.
        for sentence in (sentence for sentence in left if sentence in shared):
            (use_left if len(use_left) <= len(use_right) else use_right).append(sentence)
        before_parts = tuple(left[use_left[i]] for i in generator.permutation(len(use_left))[:grid])
        after_parts = (right[use_right[i]] for i in generator.permutation(len(use_right)))
        # A part that occurs in several sentences is kept for one of them; with the other sides it must not meet either.
        partners = self.partners(word, places, side)
        apart = [part for part in after_parts if not any(part in partners[other] for other in before_parts)][:grid]
        return (before_parts, tuple(apart)) if len(apart) == grid else None

    def partners(self, word: str, places: Sequence[tuple[int, int]], side: int) -> dict[Words, set[Words]]:
        """Left part -> the right parts with which it stands around the word, in all sentences that have the word."""
        found: dict[Words, set[Words]] = defaultdict(set)
        for sentence, _ in places:
            words = self.sentences[sentence]
            for position in range(side, len(words) - side):
                if words[position] == word:
                    found[words[position - side : position]].add(words[position + 1 : position + 1 + side])
        return found

    def needed(self, grid: int) -> int:
        """Sentences that a target must occur in."""
        return grid if self.natural else 2 * grid

    def occurrence(self, side: int, sentence: int, position: int) -> _Occurrence:
        window = self.sentences[sentence][position - side : position + side + 1]
        signature = self.signature(side, window)
        return _Occurrence(
            sentence,
            window[:side],
            window[side + 1 :],
            tuple(counts.before for counts in signature),
            tuple(counts.after for counts in signature),
        )

    def signature(self, side: int, words: Words) -> tuple[PieceCounts, ...]:
        """Piece counts around the target in each model."""
        key = (side, words)
        if key not in self.signatures:
            self.signatures[key] = tuple(
                piece_counts(next(iter(extractor.align([words]))), side) for extractor in self.extractors
            )
        return self.signatures[key]

    def too_long(self, signature: tuple[PieceCounts, ...]) -> str | None:
        for extractor, counts in zip(self.extractors, signature, strict=True):
            total, limit = counts.before + counts.target + counts.after, extractor.info.max_pieces
            if limit is not None and total > limit:
                return f"its sentences have {total} pieces, {extractor.info.name} reads at most {limit}"
        return None

    def shortage(self, side: int, grid: int, found: int) -> str:
        """Say why there are fewer than two targets, for the least demanding setting tried."""
        candidates = self.candidates(side, grid)
        most = max(candidates, key=lambda item: len(item[1]), default=None)
        seen = f"the most frequent is {most[0]!r} with {len(most[1])}" if most else "no word has so many"
        parts = "left and right parts" if self.natural else f"left parts and {grid} others with right parts"
        return (
            f"direction shares need at least 2 target words, {found} found in {len(self.sentences)} different sentences"
            f": a target needs {self.needed(grid)} sentences in which it has {side} words on both sides ({seen}), {grid} of "
            f"them with {parts} of equal piece counts in {', '.join(extractor.info.name for extractor in self.extractors)}; give more or longer sentences "
            "(some two thousand are plenty), or a smaller side or grid"
        )


def piece_counts(alignment: Alignment, position: int) -> PieceCounts:
    """Pieces before, of and after the word at `position` (from 0)."""
    pieces = alignment.word_pieces[position]
    return PieceCounts(min(pieces), len(pieces), len(alignment.pieces) - max(pieces) - 1)


def word_class_of(upos: str | None) -> str | None:
    """``content`` for the open classes of Universal Dependencies, else ``function``; None without a tag."""
    return None if upos is None else "content" if upos in _OPEN_CLASSES else "function"


def _natural_parts(occurrences: Sequence[_Occurrence], grid: int) -> tuple[tuple[Words, ...], tuple[Words, ...]] | None:
    """The first K pairs, no part twice, of the piece counts that most pairs have."""
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[Words, Words]]] = defaultdict(list)
    seen: set[tuple[str, Words]] = set()
    for item in occurrences:
        parts = {("left", item.left), ("right", item.right)}
        if not parts & seen:
            seen |= parts
            groups[item.before, item.after].append((item.left, item.right))
    pairs = max(groups.items(), key=lambda group: (len(group[1]), group[0]))[1][:grid]
    if len(pairs) < grid:
        return None
    left, right = zip(*pairs, strict=True)
    return tuple(left), tuple(right)


def _word_tags(sentences: Sequence[Words], upos: Sequence[Sequence[str]] | None) -> dict[str, str]:
    """Every word's most frequent tag; empty without tags."""
    if upos is None:
        return {}
    if len(upos) != len(sentences):
        raise DataError(f"{len(upos)} tag sequences for {len(sentences)} sentences; give one tag per word")
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for number, (words, labels) in enumerate(zip(sentences, upos, strict=True), start=1):
        if len(words) != len(labels):
            raise DataError(f"sentence {number}: {len(labels)} tags for {len(words)} words; give one tag per word")
        for word, tag in zip(words, labels, strict=True):
            tags[word][tag] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
