"""Filling gaps: how probable a model finds each candidate word in a gap, given the words to the left, to the right, or both.

A candidate is a word that is one entry of the model's output vocabulary (one word, or one word piece). What the model's output
layer is, and where its vocabulary lies, is settled for each family in its own module ``gaps``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor
from extractors.foundation.errors import DataError, ModelError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.representation import ModelInfo
from extractors.words import as_words

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]

FORWARD, BACKWARD, JOINT = SIDES = ("forward", "backward", "joint")
"""What a prediction has read: the words to the left of the gap, those to the right, or both at once in one model."""

ALTERNATIVES = 1536
"""Candidates that are carried on at once, over all gaps of a batch (50 MB of scores at 8,192 pieces)."""

SAMPLED = 4
"""Candidates per gap by which the error of ends from the start of a sentence is estimated."""

VOCABULARY_FILE = "vocabulary.txt"
"""Output words of a model over words, one a line."""


@dataclass(frozen=True)
class Gap:
    """A place in a sentence to be filled. No model reads the word that stands there."""

    words: tuple[str, ...]
    """The sentence, with any word at the place."""
    position: int
    """The place, counted from 0."""

    @property
    def answer(self) -> str:
        """The word that stands there."""
        return self.words[self.position]


class GapFiller(ABC):
    """A model with its output layer.

    Attributes
    ----------
    info : ModelInfo
        The model.
    sides : tuple of str
        What it predicts from, of `SIDES`: ``("forward", "backward")`` for two one-directional models, ``("forward",)`` for a
        left-to-right one, ``("joint",)`` for a masked language model.
    note : str
        How the probability of a word is defined, where that needs saying.
    """

    info: ModelInfo
    sides: tuple[str, ...]
    note: str = ""

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """All words that are one entry of the output vocabulary, in its order."""

    @abstractmethod
    def entries(self, words: Sequence[str]) -> list[int | None]:
        """The entry of the output vocabulary that is each word; None for a word that is not one entry."""

    @abstractmethod
    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        """Log-probabilities (gaps, entries) by side; gaps of the same sentence follow one another."""

    def refusal(self, gap: Gap) -> str | None:
        """Say why the model cannot predict this gap; None if it can.

        Parameters
        ----------
        gap : Gap
            A gap.

        Returns
        -------
        str or None
            The reason, e.g. that the sentence is longer than the model reads in one go.
        """
        return None

    def log_probabilities(
        self, gaps: Sequence[Gap], candidates: Sequence[str], *, batch_size: int = 64, progress: Progress = SILENT
    ) -> dict[str, Array]:
        """Log-probability of each candidate in each gap, in nats, for each side that the model predicts from.

        The values are those of the model's own distribution over its whole output vocabulary, so that those of some
        candidates need not sum to one. They do not depend on the batch beyond float noise. The word that stands in a gap is
        not read; for some models it is one of those whose end is computed in the context (`exact_ends` of `gap_filler`).

        Parameters
        ----------
        gaps : sequence of Gap
            Where to predict.
        candidates : sequence of str
            Distinct words, each of them one entry of the output vocabulary.
        batch_size : int
            Gaps per forward pass.
        progress : Progress
            Receives one unit per gap.

        Returns
        -------
        dict of str to array of float64, shape (gaps, candidates)
            By side, in the order of `sides`.

        Raises
        ------
        DataError
            If a candidate is not one entry of the vocabulary, two are the same entry, a gap lies outside its sentence, or
            the model cannot predict it (`refusal`).
        UsageError
            If there are no candidates or the batch size is not positive.
        ModelError
            If the model gives a value that is not finite.
        """
        if batch_size < 1:
            raise UsageError(f"batch size {batch_size} is not positive")
        entries = self.check(candidates)
        for number, gap in enumerate(gaps, start=1):
            words = as_words(gap.words, where=f"gap {number}")
            if not 0 <= gap.position < len(words):
                raise DataError(
                    f"gap {number}: there is no word {gap.position + 1} in a sentence of {len(words)} words"
                )
            if reason := self.refusal(gap):
                raise DataError(f"gap {number}: {reason}")
        # Sentences of like length go together, the gaps of one sentence beside each other: they may share a pass.
        order = sorted(range(len(gaps)), key=lambda i: (-len(gaps[i].words), gaps[i].words, gaps[i].position))
        found = {side: np.empty((len(gaps), len(entries))) for side in self.sides}
        with progress.task(f"{self.info.name}: filling gaps", len(gaps)) as task:
            for first in range(0, len(order), batch_size):
                batch = order[first : first + batch_size]
                for side, values in self._score([gaps[i] for i in batch], entries).items():
                    if not np.isfinite(values).all():
                        raise ModelError(
                            f"{self.info.name} gives log-probabilities that are not finite: its weights are damaged, or too "
                            f"large for {self.info.dtype}; fetch it again, or try float64"
                        )
                    found[side][batch] = values
                task.advance(len(batch))
        return found

    def check(self, candidates: Sequence[str]) -> npt.NDArray[np.int64]:
        """Give the entries (candidates,) of words that can be chosen from.

        Raises
        ------
        DataError
            If a candidate is not one entry of the vocabulary, or two are the same entry.
        UsageError
            If there are none.
        """
        if not candidates:
            raise UsageError("there are no candidates; give at least two words")
        entries = self.entries(candidates)
        missing = [word for word, entry in zip(candidates, entries, strict=True) if entry is None]
        if missing:
            raise DataError(
                f"{len(missing)} of {len(candidates)} candidates are not one entry of the output vocabulary of "
                f"{self.info.name} ({', '.join(map(repr, missing[:5]))}{', ...' if len(missing) > 5 else ''}); leave them "
                "out, e.g. with analyses.shared_candidates"
            )
        first: dict[int | None, str] = {}
        for word, entry in zip(candidates, entries, strict=True):
            if entry in first:
                raise DataError(
                    f"candidates {first[entry]!r} and {word!r} are one entry of {self.info.name}; give one of them"
                )
            first[entry] = word
        return np.array(entries, dtype=np.int64)


def gap_filler(extractor: Extractor, *, exact_ends: int | None = 16) -> GapFiller:
    """The output layer of an extractor's model, ready to fill gaps.

    Parameters
    ----------
    extractor : Extractor
        ELMo with ``softmax.safetensors`` and ``vocabulary.txt`` beside its weights (or untrained, with the vocabulary), a
        bidirectional LSTM masked LM with ``vocabulary.txt``, a pair of GPTs, or a Hugging Face checkpoint with the head of a
        masked or of a left-to-right language model.
    exact_ends : int, optional
        For left-to-right models over word pieces, whose word probability includes that the word ends: for how many
        candidates, the likeliest by their piece, the end is computed in the context, beside the word that stands in the gap;
        for the others it is taken from the start of a sentence. The filler's `note` says by how much that moves the nats.
        None computes all in the context, which takes as many steps of the model as there are candidates.

    Returns
    -------
    GapFiller
        Shares the network with the extractor.

    Raises
    ------
    UsageError
        If the model has no such layer; says what is missing.
    ModelError
        If its file is damaged or belongs to another model.
    """
    from extractors.bigpt import BigptExtractor
    from extractors.bilstm_mlm import BilstmMlmExtractor
    from extractors.elmo import ElmoExtractor
    from extractors.huggingface import HuggingFaceExtractor

    if exact_ends is not None and exact_ends < 0:
        raise UsageError(f"exact_ends={exact_ends} is negative; give a number of candidates, or None for all")
    if isinstance(extractor, ElmoExtractor):
        from extractors.elmo.gaps import elmo_gap_filler

        return elmo_gap_filler(extractor)
    if isinstance(extractor, BilstmMlmExtractor):
        from extractors.bilstm_mlm.gaps import BilstmMlmGapFiller

        return BilstmMlmGapFiller(extractor)
    if isinstance(extractor, BigptExtractor):
        from extractors.bigpt.gaps import BigptGapFiller

        return BigptGapFiller(extractor, exact_ends=exact_ends)
    if isinstance(extractor, HuggingFaceExtractor):
        from extractors.huggingface.gaps import huggingface_gap_filler

        return huggingface_gap_filler(extractor, exact_ends=exact_ends)
    raise no_head(extractor.info, "it gives vectors only")


class PairGapFiller(GapFiller):
    """Two separate left-to-right models as one pair: P(w | L) from the one, P(w | R) from the other, trained on reversed text.

    The second model is given the words of a sentence from the last to the first; within a word its tokenizer spells as ever.

    Parameters
    ----------
    forward, backward : Extractor or GapFiller
        The two models. Candidates are words that are one entry of both.

    Raises
    ------
    UsageError
        If one of them is not a left-to-right model with its output layer, or one is trained and the other is not.
    """

    sides = (FORWARD, BACKWARD)

    def __init__(self, forward: Extractor | GapFiller, backward: Extractor | GapFiller) -> None:
        self.forward, self.backward = (
            one if isinstance(one, GapFiller) else gap_filler(one) for one in (forward, backward)
        )
        one, other = self.forward.info, self.backward.info
        for filler in (self.forward, self.backward):
            if filler.sides != (FORWARD,):
                raise UsageError(
                    f"{filler.info.name} predicts from {' and '.join(filler.sides)}; a pair is made of two left-to-right models"
                )
        if one.weights != other.weights:
            raise UsageError(
                f"{one.name} is {one.weights} and {other.name} is {other.weights}; give a pair of one kind"
            )
        limits = [info.max_pieces for info in (one, other) if info.max_pieces is not None]
        self.info = replace(
            one,
            name=f"{one.name} + {other.name}",
            source=f"{one.source} + {other.source}",
            hidden_size=one.hidden_size + other.hidden_size,
            directionality="concatenated",
            parts=MappingProxyType({"whole": slice(None)}),
            heads=None,
            head_parts=MappingProxyType({}),
            max_pieces=min(limits, default=None),
            parameters=one.parameters + other.parameters,
            checksum="",
            revision=None,
            note=f"two models; {other.name} reads the words from the last to the first",
            masks=False,
        )
        self.note = self._note()

    def words(self) -> tuple[str, ...]:
        """See `GapFiller.words`: those of the first model that the second has too."""
        found = self.forward.words()
        return tuple(word for word, entry in zip(found, self.backward.entries(found), strict=True) if entry is not None)

    def entries(self, words: Sequence[str]) -> list[int | None]:
        """See `GapFiller.entries`: one number for the entries of both models."""
        pairs = zip(self.forward.entries(words), self.backward.entries(words), strict=True)
        return [None if one is None or other is None else one * _ENTRIES + other for one, other in pairs]

    def check(self, candidates: Sequence[str]) -> npt.NDArray[np.int64]:
        """See `GapFiller.check`: the candidates must be different entries of each model."""
        one, other = self.forward.check(candidates), self.backward.check(candidates)
        return one * _ENTRIES + other

    def refusal(self, gap: Gap) -> str | None:
        """See `GapFiller.refusal`."""
        return self.forward.refusal(gap) or self.backward.refusal(_turned(gap))

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        one, other = np.divmod(entries, _ENTRIES)
        found = {
            FORWARD: self.forward._score(gaps, one)[FORWARD],
            BACKWARD: self.backward._score([_turned(gap) for gap in gaps], other)[FORWARD],
        }
        self.note = self._note()
        return found

    def _note(self) -> str:
        notes = [f"{filler.info.name}: {filler.note}" for filler in (self.forward, self.backward) if filler.note]
        return "; ".join([f"{self.backward.info.name} reads the words from the last to the first", *notes])


_ENTRIES = 2**31
"""More than any output vocabulary has."""


def _turned(gap: Gap) -> Gap:
    """The gap in the sentence read from its end."""
    return Gap(gap.words[::-1], len(gap.words) - 1 - gap.position)


def no_head(info: ModelInfo, reason: str) -> UsageError:
    """The error of a model that cannot fill gaps."""
    return UsageError(
        f"{info.name} ({info.family}) cannot fill gaps: {reason}; give a masked language model, or language models with their "
        "output layer"
    )


class WordVocabulary:
    """The output words of a model over words, from ``vocabulary.txt``.

    Parameters
    ----------
    folder : Path
        Where the file lies.
    size : int, optional
        How many entries it must have.
    """

    _SPECIAL = frozenset({"<S>", "</S>", "<UNK>"})

    def __init__(self, folder: Path, size: int | None = None) -> None:
        path = folder / VOCABULARY_FILE
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"cannot read the output vocabulary {path}: {error}; fetch the model again") from error
        self.entries = lines[:-1] if lines[-1] == "" else lines
        if size is not None and len(self.entries) != size:
            raise ModelError(
                f"{path} has {len(self.entries)} words, but the output layer has {size}; they are not of one model"
            )
        self.words = tuple(
            word for word in self.entries if word not in self._SPECIAL and word and not any(map(str.isspace, word))
        )
        self._numbers = {word: number for number, word in enumerate(self.entries)}

    def numbers(self, words: Sequence[str]) -> list[int | None]:
        """The entry of each word; None for words that it does not hold and for special entries."""
        return [None if word in self._SPECIAL else self._numbers.get(word) for word in words]


def log_softmax_at(scores: Tensor, entries: npt.NDArray[np.int64]) -> Array:
    """Log-probabilities (rows, entries) in float64 from unnormalised scores (rows, vocabulary)."""
    import torch

    exact = scores.to("cpu", torch.float64)
    values: Any = (exact[:, torch.from_numpy(entries)] - exact.logsumexp(dim=1, keepdim=True)).numpy()
    return np.asarray(values, dtype=np.float64)


def log_share(scores: Tensor, flags: npt.NDArray[np.bool_]) -> Array:
    """Log-probability, per row of unnormalised scores (rows, vocabulary), that one of the flagged entries follows.

    In the precision of the scores: there is one such row for every alternative at every gap.
    """
    import torch

    shares = (scores - scores.amax(dim=1, keepdim=True)).exp_()
    total = shares.sum(dim=1)
    flagged = shares.mul_(torch.from_numpy(flags).to(shares)).sum(dim=1)
    values: Any = (flagged.clamp_min(torch.finfo(shares.dtype).tiny) / total).log().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


class WordEnds:
    """What a left-to-right model over word pieces says about whether a word ends with its piece.

    It is asked in the context of a gap for the candidates that are likeliest by their piece and for the word that stands in the
    gap; for the others it is asked once, at the start of a sentence. That word's probability is then off only by the sum over the
    candidates, as it is for any other word that is asked in the context. How far is estimated as it goes, from candidates drawn
    from among the others with the probabilities that they have.

    Parameters
    ----------
    exact : int, optional
        See `gap_filler`.
    """

    def __init__(self, exact: int | None) -> None:
        self._exact = exact
        self._from_start: dict[int, float] = {}
        self._shifts: list[float] = []

    @property
    def note(self) -> str:
        """Where the ends come from, and by how much that moves the nats per gap."""
        text = "from the left, a word's probability includes that no piece carries it on"
        if not self._shifts:
            return text
        shifts = np.array(self._shifts)
        return (
            f"{text}, asked in the context for the word in the gap and the {self._exact} candidates that are likeliest by their piece, "
            f"at the start of a sentence for the others; against asking for all in the context this moves the nats from the left by "
            f"{shifts.mean():+.4f} ± {2 * shifts.std() / len(shifts) ** 0.5:.4f} (estimated from {SAMPLED} of the others in each of "
            f"{len(shifts)} gaps; ± two standard errors)"
        )

    def add(
        self,
        values: Array,
        entries: npt.NDArray[np.int64],
        standing: Sequence[int | None],
        ends: Callable[[npt.NDArray[np.int64]], Array],
        at_start: Callable[[npt.NDArray[np.int64]], Array],
    ) -> Array:
        """Add to the log-probability of each piece that the word ends with it.

        Parameters
        ----------
        values : array, shape (gaps, candidates)
            Log-probabilities of the pieces.
        entries : array, shape (candidates,)
            The pieces.
        standing : sequence of int or None, one for each gap
            The piece that stands there, if it is one piece. It need not be a candidate.
        ends : callable
            From pieces (gaps, some), alternatives at each gap, to the log-probabilities (gaps, some) that words end with them.
        at_start : callable
            The same at the start of a sentence, from pieces (1, some) to (1, some).

        Returns
        -------
        array, shape (gaps, candidates)
        """
        gaps, total = values.shape
        if self._exact is None or self._exact >= total:
            return values + _in_parts(ends, np.tile(entries, (gaps, 1)))
        rows = np.arange(gaps)[:, None]
        # The order of like values is that of the candidates, so that nothing is left to chance.
        asked = np.argsort(-values, axis=1, kind="stable")[:, : self._exact]
        column = {entry: place for place, entry in enumerate(entries.tolist())}
        places = [None if piece is None else column.get(piece) for piece in standing]
        # Where it is no candidate, the likeliest is asked twice.
        extra = [int(row.argmax()) if place is None else place for row, place in zip(values, places, strict=True)]
        asked = np.concatenate([asked, np.array(extra)[:, None]], axis=1)
        ended = values + self._start(entries, at_start)
        others = ended.copy()
        others[rows, asked] = -np.inf
        drawn = _drawn(others, len(self._shifts))
        chosen = np.concatenate([asked, drawn], axis=1)
        computed = values[rows, chosen] + _in_parts(ends, entries[chosen])
        ended[rows, asked] = computed[:, : asked.shape[1]]
        # The sum over the candidates is too small or too large by the share of the others times the error of their stand-ins.
        ratios = np.exp(computed[:, asked.shape[1] :] - ended[rows, drawn]).mean(axis=1)
        share = np.exp(np.logaddexp.reduce(others, axis=1) - np.logaddexp.reduce(ended, axis=1))
        self._shifts += (share * (1 - ratios)).tolist()
        return ended

    def _start(self, entries: npt.NDArray[np.int64], at_start: Callable[[npt.NDArray[np.int64]], Array]) -> Array:
        """Log-probabilities (candidates,) that words end with some pieces at the start of a sentence, each computed once."""
        known = self._from_start
        missing = np.array([entry for entry in entries.tolist() if entry not in known], dtype=np.int64)
        if len(missing):
            known.update(zip(missing.tolist(), _in_parts(at_start, missing[None])[0].tolist(), strict=True))
        return np.array([known[entry] for entry in entries.tolist()])


def _in_parts(ends: Callable[[npt.NDArray[np.int64]], Array], pieces: npt.NDArray[np.int64]) -> Array:
    """Ask for pieces (gaps, some), so many at once as memory allows."""
    step = max(1, ALTERNATIVES // len(pieces))
    parts = [ends(pieces[:, first : first + step]) for first in range(0, pieces.shape[1], step)]
    return np.concatenate(parts, axis=1)


def _drawn(weights: Array, first: int) -> npt.NDArray[np.int64]:
    """Draw `SAMPLED` columns of each row (rows, columns) of log-weights, by systematic sampling.

    The places of row i follow from its number `first` + i: multiples of the golden ratio are spread evenly over 0..1.
    """
    top = weights.max(axis=1, keepdims=True)
    sums = np.exp(weights - np.where(np.isfinite(top), top, 0)).cumsum(axis=1)
    offsets = (np.arange(first, first + len(weights)) * ((5**0.5 - 1) / 2)) % 1
    points = (np.arange(SAMPLED) + offsets[:, None]) / SAMPLED * sums[:, -1:]
    found = [np.searchsorted(row, point, side="right") for row, point in zip(sums, points, strict=True)]
    return np.asarray(np.minimum(np.stack(found), weights.shape[1] - 1), dtype=np.int64)
