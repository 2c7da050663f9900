"""Which of a model's states stay valid when a sentence is edited: one word more at its end, one inserted, one replaced.

A model whose states of the words before an edit do not change can keep them and read on; one whose states all change
has to read the sentence again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.representation import ModelInfo
from extractors.words import as_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

MEASURE = "states_surviving"
EDITS = ("append", "insert", "replace")
"""One word more at the end; one before a random word; another word in place of a random one."""
_EPSILONS = 100
"""A state survives if it moves by less than so many machine epsilons of a typical vector's length."""
_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_FINE = ("float64", "float32")
"""Precisions whose rounding errors are far smaller than what an edit does to a state."""


@dataclass(frozen=True)
class Edited:
    """A sentence before and after an edit."""

    words: tuple[str, ...]
    """After the edit."""
    kept: tuple[tuple[int, int], ...]
    """(place before, place after) of every word that stands in both."""


@dataclass(frozen=True)
class SurvivingStates:
    """How far every state moved, by edit."""

    info: ModelInfo
    """The model."""
    layers: tuple[int, ...]
    """All layers, 0..L."""
    halves: tuple[str, ...]
    """The parts whose states are counted one by one: ``forward`` and ``backward``, or ``whole`` for a model without halves."""
    moved: dict[str, list[Array]]
    """Edit -> one array per sentence, empty if the model reads none of the edits, (layers, halves, kept words): |h' - h|
    divided by the root mean square of |h| at that layer and half over all words of all sentences."""
    tolerance: float
    """A state survives if it moved by no more than this."""
    length: int
    """Words of a sentence before the edit."""
    resamples: int
    """Bootstrap samples over sentences."""
    seed: int
    """Seed of edits and resampling."""
    data: str = ""
    """Name of the corpus."""

    def units(self, edit: str, part: str) -> tuple[Array, Array]:
        """Surviving and compared states per sentence and layer, two arrays of shape (sentences, layers).

        A state is one word's vector at one layer in one half; ``whole`` counts the states of all halves.
        """
        chosen = list(range(len(self.halves))) if part == "whole" else [self.halves.index(part)]
        survive = [(moved[:, chosen] <= self.tolerance).sum(axis=(1, 2)) for moved in self.moved[edit]]
        compared = [np.full(len(moved), len(chosen) * moved.shape[2]) for moved in self.moved[edit]]
        return np.stack(survive).astype(np.float64), np.stack(compared).astype(np.float64)

    def share(self, edit: str, part: str = "whole") -> Interval:
        """Share of states that survive, with 95 % intervals over sentences.

        Parameters
        ----------
        edit : str
            One of `EDITS`.
        part : str
            ``whole`` or one of `halves`.

        Returns
        -------
        Interval
            Arrays of shape (layers + 1,): each layer, then the contextual layers 1..L together.
        """
        survive, compared = self.units(edit, part)
        layers = survive.shape[1]

        def shares(sums: Array) -> Array:
            good, all_ = sums[..., :layers], sums[..., layers:]
            together = good[..., 1:].sum(axis=-1, keepdims=True) / all_[..., 1:].sum(axis=-1, keepdims=True)
            return np.concatenate([good / all_, together], axis=-1)

        return bootstrap(np.concatenate([survive, compared], axis=1), shares, resamples=self.resamples, seed=self.seed)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`; edits that the model reads none of have no rows."""
        rows = []
        names = self.info.layer_names
        for edit in self._edits():
            for part in dict.fromkeys(("whole", *self.halves)):
                interval = self.share(edit, part)
                for place, layer in enumerate((*self.layers, None)):
                    if not np.isfinite(interval.value[place]):
                        continue  # no contextual layer at all
                    rows.append(
                        {
                            "model": self.info.name,
                            "family": self.info.family,
                            "weights": self.info.weights,
                            "layer": layer,
                            "layer_name": None if layer is None else names[layer],
                            "part": part,
                            "kind": "analysis",
                            "measure": MEASURE,
                            "data": self.data,
                            "condition": edit,
                            "length": self.length,
                            "value": float(interval.value[place]),
                            "low": float(interval.low[place]),
                            "high": float(interval.high[place]),
                            "unit": "share",
                            "n": interval.n,
                            "seed": self.seed,
                        }
                    )
        return rows

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Share of states that survive by layer, one panel for each edit, with intervals, as a matplotlib figure."""
        from matplotlib.figure import Figure

        edits = self._edits()
        figure = Figure(figsize=(3 * len(edits) + 1, 3.2), layout="constrained")
        for axes, edit in zip(figure.subplots(1, len(edits), sharey=True, squeeze=False)[0], edits, strict=True):
            for number, half in enumerate(self.halves):
                interval = self.share(edit, half)
                values, low, high = (
                    array[: len(self.layers)] for array in (interval.value, interval.low, interval.high)
                )
                axes.plot(self.layers, values, "o-", color=f"C{number}", label=half)
                axes.vlines(self.layers, low, high, color=f"C{number}")
            axes.set(xlabel="layer", title=edit, xticks=self.layers, ylim=(-0.04, 1.04))
        figure.axes[0].set_ylabel("share of states that survive")
        figure.axes[0].legend()
        figure.suptitle(self.info.name)
        return figure

    def _edits(self) -> list[str]:
        return [edit for edit in EDITS if self.moved[edit]]


def edits_of(
    sentence: Sequence[str], length: int, others: Sequence[str], rng: np.random.Generator
) -> dict[str, Edited]:
    """The three edits of the first `length` words of a longer sentence.

    The appended word is the sentence's own next word; place and word of the others are drawn.

    Parameters
    ----------
    sentence : sequence of str
        More than `length` words.
    length : int
        Words before the edit.
    others : sequence of str
        Words to draw from, at least two different ones.
    rng : numpy.random.Generator
        What draws.

    Returns
    -------
    dict
        Edit -> the edited sentence.
    """
    words = tuple(sentence[:length])
    at, where = (int(place) for place in rng.integers(length, size=2))
    different = [word for word in others if word != words[at]]
    new, another = different[int(rng.integers(len(different)))], others[int(rng.integers(len(others)))]
    before = tuple((i, i) for i in range(length))
    return {
        "append": Edited((*words, sentence[length]), before),
        "insert": Edited(
            (*words[:where], another, *words[where:]), tuple((i, i + (i >= where)) for i in range(length))
        ),
        "replace": Edited((*words[:at], new, *words[at + 1 :]), tuple(pair for pair in before if pair[0] != at)),
    }


def surviving_states(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    length: int = 12,
    max_sentences: int = 24,
    tolerance: float | None = None,
    batch_size: int = 32,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> SurvivingStates:
    """Compare every state of a sentence before and after an edit.

    A state is the vector of one word at one layer, in each half where the model has halves. It survives an edit if

        |h' - h| <= tolerance * sqrt(mean |h|^2),

    the mean over all words of all sentences at that layer and half. States are compared at the same *word*: behind an
    inserted word a state that only moved on by one place would survive. The word that is replaced is not counted, and where a
    model has the same context-free vector for both (both are unknown to it) the sentence does not count for that edit.
    What theory says at layers 1..L: appending a word leaves every state of a left-to-right model valid, the forward half of a
    concatenation and nothing else; in a layer that reads both sides nothing survives. Where the influence of a distant word
    fades below the tolerance (a forgetful LSTM), a state survives that theory would compute again.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus; sentences of more than `length` words are used, cut to `length` words before the edit.
    length : int
        Words of a sentence before the edit, at least 2.
    max_sentences : int
        Use the first so many sentences that are long enough.
    tolerance : float, optional
        Default: 100 times the machine epsilon of the network's precision, 1.2e-5 for float32. For float16 (.098) and
        bfloat16 (.78) that is more than many an edit moves a state: there is no default for them.
    batch_size : int
        Sentences per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of places, words and resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence read.

    Returns
    -------
    SurvivingStates
        Shares by layer, part and edit.

    Raises
    ------
    UsageError
        If a length or number is too small, or a model of half precision is given no tolerance.
    DataError
        If no sentence is long enough, or there is only one word to draw from.
    """
    if length < 2 or max_sentences < 1:
        raise UsageError(f"length={length} must be at least 2, and max_sentences={max_sentences} at least 1")
    reason = too_coarse(extractor.info)
    if tolerance is None and reason is not None:
        raise UsageError(f"{reason}; read the model in float32, or give a tolerance")
    split = [as_words(sentence, where=f"sentence {i}") for i, sentence in enumerate(sentences, start=1)]
    chosen = [words for words in split if len(words) > length][:max_sentences]
    if not chosen:
        longest = max(map(len, split), default=0)
        raise DataError(
            f"no sentence has more than {length} words (the longest has {longest}); give longer sentences or a smaller length"
        )
    others = sorted({word for words in chosen for word in words})
    if len(others) < 2:
        raise DataError(f"all words are {others[0]!r}; a word cannot be replaced by another one")
    edited = [edits_of(words, length, others, generator_for(seed, "edit", i)) for i, words in enumerate(chosen)]
    texts = [text for words, edits in zip(chosen, edited, strict=True) for text in (words[:length], *_texts(edits))]
    halves = tuple(part for part in extractor.info.parts if part != "whole") or ("whole",)
    slices = [extractor.info.parts[half] for half in halves]
    limit = _default_tolerance(extractor.info.dtype) if tolerance is None else tolerance
    read = extractor.extract(texts, batch_size=batch_size, progress=progress)
    moved: dict[str, list[Array]] = {edit: [] for edit in EDITS}
    squares = np.zeros((len(extractor.info.layers), len(halves)))
    for edits in edited:
        before = next(read).hidden.astype(np.float64)
        squares += _lengths(before, slices, power=2).sum(axis=2)
        for edit in EDITS:
            after = next(read).hidden.astype(np.float64)
            if edit == "replace" and _reads_the_same(before[0], after[0], edits[edit], limit):
                continue
            old, new = (list(places) for places in zip(*edits[edit].kept, strict=True))
            moved[edit].append(_lengths(after[:, new] - before[:, old], slices))
    typical = np.sqrt(squares / (len(chosen) * length))[:, :, None]
    # A layer of zeros moves by nothing.
    scaled = {edit: [one / np.where(typical > 0, typical, 1) for one in arrays] for edit, arrays in moved.items()}
    return SurvivingStates(extractor.info, extractor.info.layers, halves, scaled, limit, length, resamples, seed, data)


def too_coarse(info: ModelInfo) -> str | None:
    """Say why a model's precision cannot tell a state that survives from one that moved; None if it can."""
    if info.dtype in _FINE:
        return None
    return (
        f"{info.name} computes in {info.dtype}, where {_EPSILONS} machine epsilons are {_default_tolerance(info.dtype):.2g} of a "
        "typical vector's length: an edit may move a state by less than that"
    )


def _default_tolerance(dtype: str) -> float:
    return _EPSILONS * _EPSILON[dtype]


def _reads_the_same(before: Array, after: Array, edited: Edited, limit: float) -> bool:
    """Whether a replaced word and the one in its place have the same context-free vector, from layer 0 (words, dim)."""
    (at,) = set(range(len(before))) - {old for old, _ in edited.kept}
    return bool(np.linalg.norm(after[at] - before[at]) <= limit * np.linalg.norm(before[at]))


def _texts(edits: dict[str, Edited]) -> list[tuple[str, ...]]:
    return [edits[edit].words for edit in EDITS]


def _lengths(vectors: Array, slices: Sequence[slice], power: int = 1) -> Array:
    """|v|^power of each half, shape (layers, halves, words), from (layers, words, dim)."""
    return np.stack([np.linalg.norm(vectors[..., part], axis=-1) ** power for part in slices], axis=1)
