"""Controlled sentences: two binary cues, one on each side of a target word, balanced given everything else.

Made for the conjunction probe: an item is one filled frame in all four combinations of its cues, so frame, target and
fillers say nothing about a cue, and no sum of a left and a right contribution says anything about the parity of the two
(the exclusive or; Minsky & Papert 1969, *Perceptrons*). What a concatenation of two directions cannot hold in readable
form is then told apart from what it can. Knows no model.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from math import perm
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import UsageError
from extractors.foundation.randomness import generator_for

if TYPE_CHECKING:
    import pandas as pd

CUE_TYPES = ("agreement", "polarity", "sense", "coreference")
"""Grammatical number of the subject and of a noun on the right; affirmation and negation; words that favour one sense of
an ambiguous target (nature, human works); gender of a person on the left and of a pronoun or person on the right."""
SPLITS = ("train", "dev", "test")
"""The splits share frames, function words and targets, and no other content word that fills a frame. A target tells
nothing of any label, since it stands in all four combinations; if it were new in test, it would only be noise."""
SIDES = ("both", "left", "right")
"""Where the cues are. With one cue the other side is filled by a part that does not vary."""
LABELS = ("left", "right", "and", "xor")
"""Left cue, right cue, both cues 1 (conjunction), cues different (parity)."""


@dataclass(frozen=True)
class ControlledSentence:
    """One sentence with its target and cues."""

    words: tuple[str, ...]
    """The words, punctuation included."""
    target: int
    """Position of the target, counted in words from 0."""
    left_cue: int | None
    """0 or 1; None where the left side holds no cue."""
    right_cue: int | None
    """0 or 1; None where the right side holds no cue."""
    frame: str
    """Name of the frame: its left and its right part."""
    cue_type: str
    """One of `CUE_TYPES`."""
    split: str
    """One of `SPLITS`."""
    item: int
    """Sentences of one item differ in their cues alone; an item holds each combination once."""

    @property
    def target_word(self) -> str:
        """The target."""
        return self.words[self.target]

    @property
    def left_length(self) -> int:
        """Number of words left of the target."""
        return self.target

    @property
    def right_length(self) -> int:
        """Number of words right of the target."""
        return len(self.words) - self.target - 1

    def label(self, name: str) -> int | None:
        """One of `LABELS` as 0 or 1; None if a cue it needs is not in the sentence."""
        if name == "left":
            return self.left_cue
        if name == "right":
            return self.right_cue
        if name not in LABELS:
            raise UsageError(f"label {name!r} is unknown; choose one of {', '.join(LABELS)}")
        if self.left_cue is None or self.right_cue is None:
            return None
        return self.left_cue & self.right_cue if name == "and" else self.left_cue ^ self.right_cue


@dataclass(frozen=True)
class ControlledSentences:
    """Controlled sentences of one cue type and split, item by item."""

    sentences: tuple[ControlledSentence, ...]
    """The sentences; those of an item stand together, cues in the order (0, 0), (0, 1), (1, 0), (1, 1)."""
    cue_type: str
    """One of `CUE_TYPES`."""
    values: tuple[str, str]
    """What 0 and 1 mean, e.g. ``("Sing", "Plur")``."""
    sides: str
    """One of `SIDES`."""
    split: str
    """One of `SPLITS`."""
    seed: int
    """Seed of the choice of fillers."""

    def labels(self, name: str) -> npt.NDArray[np.int64]:
        """Labels of all sentences.

        Parameters
        ----------
        name : {"left", "right", "and", "xor"}
            Which label.

        Returns
        -------
        numpy.ndarray
            Shape (sentences,), 0 or 1.

        Raises
        ------
        UsageError
            For an unknown label, or one that needs a cue these sentences do not have.
        """
        values = [value for sentence in self.sentences if (value := sentence.label(name)) is not None]
        if len(values) < len(self.sentences):
            raise UsageError(
                f"label {name!r} needs a cue that is not there: these sentences have sides={self.sides!r}; "
                "make them with sides='both'"
            )
        return np.array(values, dtype=np.int64)

    def to_frame(self) -> pd.DataFrame:
        """One row per sentence."""
        import pandas as pd

        return pd.DataFrame(
            {
                "cue_type": sentence.cue_type,
                "split": sentence.split,
                "frame": sentence.frame,
                "item": sentence.item,
                "text": " ".join(sentence.words),
                "target": sentence.target,
                "target_word": sentence.target_word,
                "left_length": sentence.left_length,
                "right_length": sentence.right_length,
                **{f"{name}_label": sentence.label(name) for name in LABELS},
            }
            for sentence in self.sentences
        )


def controlled_sentences(
    cue_type: str, *, split: str = "train", sides: str = "both", items: int = 100, seed: int = 0
) -> ControlledSentences:
    """Generate controlled sentences.

    Every frame is a left part, a target and a right part; the parts combine freely, and the items are spread evenly over
    all frames. Fillers are drawn at random; within a sentence no filler comes twice, and no two items are the same.
    Words that must agree take their form from the same cue, so each sentence is grammatical by construction.

    Parameters
    ----------
    cue_type : {"agreement", "polarity", "sense", "coreference"}
        What the cues are.
    split : {"train", "dev", "test"}
        Which lexicon fills the frames.
    sides : {"both", "left", "right"}
        Where the cues are.
    items : int
        Number of items: four sentences each with both cues, two with one.
    seed : int
        Seed of the fillers; the same arguments give the same sentences.

    Returns
    -------
    ControlledSentences
        4 or 2 sentences per item.

    Raises
    ------
    UsageError
        For an unknown cue type, split or side, or a number of items below 1 or beyond what the lexicon can fill.
    """
    for label, value, valid in (("cue type", cue_type, CUE_TYPES), ("split", split, SPLITS), ("sides", sides, SIDES)):
        if value not in valid:
            raise UsageError(f"{label} {value!r} is unknown; choose one of {', '.join(valid)}")
    grammar = _grammar()
    kind, fillers = grammar["types"][cue_type], grammar["lexicon"][split] | grammar["targets"]
    frames = [
        _Frame(f"{cue_type}-{left_name}-{right_name}", left, kind["target"], right)
        for (left_name, left), (right_name, right) in product(
            _parts(kind["left"], "left", cued=sides != "right"), _parts(kind["right"], "right", cued=sides != "left")
        )
    ]
    # Half of a frame's combinations at most: beyond, drawing distinct ones becomes slow.
    most = len(frames) * min(frame.combinations(fillers) // 2 for frame in frames)
    if not 1 <= items <= most:
        raise UsageError(f"items={items} is not possible for {cue_type}, {sides}; give 1 to {most}")
    cues: list[tuple[int | None, int | None]] = list(
        product((0, 1) if sides != "right" else (None,), (0, 1) if sides != "left" else (None,))
    )
    order = generator_for(seed, "controlled", cue_type, split, sides).permutation(len(frames))
    sentences: list[ControlledSentence] = []
    item = 0
    for rank, number in enumerate(order):
        frame = frames[number]
        share = items // len(frames) + (rank < items % len(frames))
        for filling in frame.fillings(fillers, share, generator_for(seed, "controlled", split, frame.name)):
            for left_cue, right_cue in cues:
                words = frame.words(filling, grammar["closed"], left_cue, right_cue)
                target = len(frame.left)
                sentences.append(
                    ControlledSentence(words, target, left_cue, right_cue, frame.name, cue_type, split, item)
                )
            item += 1
    first, second = kind["values"]
    return ControlledSentences(tuple(sentences), cue_type, (first, second), sides, split, seed)


_Forms = str | list[str]
"""A lexicon entry: one form, or two, for cue 0 and cue 1."""


@dataclass(frozen=True)
class _Slot:
    """A word of a frame: itself, or ``{category}``, ``{category:form}``; form L or R follows a cue, 1 is the second."""

    text: str

    @property
    def category(self) -> str | None:
        return self.text[1:-1].partition(":")[0] if self.text.startswith("{") else None

    @property
    def form(self) -> str:
        return self.text[1:-1].partition(":")[2]


class _Frame:
    """A left part, a target and a right part, with slots."""

    def __init__(self, name: str, left: str, target: str, right: str) -> None:
        self.name = name
        self.left = left.split()
        self.slots = [_Slot(text) for text in (*self.left, target, *right.split())]

    def _open(self, fillers: dict[str, list[_Forms]]) -> Counter[str]:
        """How many slots of each open category the frame has."""
        return Counter(slot.category for slot in self.slots if slot.category is not None and slot.category in fillers)

    def combinations(self, fillers: dict[str, list[_Forms]]) -> int:
        """In how many ways the slots can be filled."""
        total = 1
        for category, count in self._open(fillers).items():
            total *= perm(len(fillers[category]), count)
        return total

    def fillings(
        self, fillers: dict[str, list[_Forms]], count: int, generator: np.random.Generator
    ) -> list[tuple[_Forms | None, ...]]:
        """`count` distinct fillings, each with one entry per slot (None where the slot is no open category)."""
        needed = self._open(fillers)
        found: dict[tuple[tuple[str, tuple[int, ...]], ...], None] = {}
        while len(found) < count:
            drawn = (
                (category, tuple(int(i) for i in generator.choice(len(fillers[category]), size=number, replace=False)))
                for category, number in needed.items()
            )
            found.setdefault(tuple(drawn))
        fillings = []
        for key in found:
            queues = {category: iter(numbers) for category, numbers in key}
            fillings.append(
                tuple(
                    fillers[slot.category][next(queues[slot.category])] if slot.category in queues else None
                    for slot in self.slots
                )
            )
        return fillings

    def words(
        self,
        filling: tuple[_Forms | None, ...],
        closed: dict[str, list[str]],
        left_cue: int | None,
        right_cue: int | None,
    ) -> tuple[str, ...]:
        """The sentence for one filling and one pair of cues."""
        words = []
        for slot, entry in zip(self.slots, filling, strict=True):
            if slot.category is None:
                words.append(slot.text)
                continue
            forms = closed[slot.category] if entry is None else entry
            number = {"L": left_cue, "R": right_cue, "1": 1}.get(slot.form, 0)
            assert number is not None, f"{self.name}: a part without a cue has the slot {slot.text}"
            words.append(forms if isinstance(forms, str) else forms[number])
        return tuple(words)


def _parts(parts: dict[str, list[str]], side: str, *, cued: bool) -> list[tuple[str, str]]:
    kind = "cued" if cued else "neutral"
    return [(f"{side}{'' if cued else ' neutral'} {number}", part) for number, part in enumerate(parts[kind], start=1)]


@cache
def _grammar() -> dict[str, Any]:
    """Frames and lexicons, see the README beside the file."""
    text = (files("probes") / "data" / "controlled.json").read_text(encoding="utf-8")
    grammar: dict[str, Any] = json.loads(text)
    return grammar
