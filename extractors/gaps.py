"""Filling gaps: how probable a model finds each candidate word in a gap, given the words to the left, to the right, or both.

A candidate is a word that is one entry of the model's output vocabulary (one word, or one word piece). What the model's output
layer is, and where its vocabulary lies, is settled for each family in its own module ``gaps``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
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

ALTERNATIVES = 1024
"""Candidates that are carried on at once, over all gaps of a batch (33 MB of scores at 8,192 pieces)."""

VOCABULARY_FILE = "vocabulary.txt"
"""Output words of a model over words, one a line."""


@dataclass(frozen=True)
class Gap:
    """A place in a sentence to be filled. The word that stands there is never read."""

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
        candidates need not sum to one. They do not depend on the batch beyond float noise.

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
        candidates, the likeliest by their piece, the end is computed in the context; for the others it is taken from the
        start of a sentence. None computes all in the context, which takes as many steps of the model as there are
        candidates.

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

    Exponentials in the precision of the scores, sums in float64: there is one such row for every candidate of every gap.
    """
    import torch

    shares = (scores - scores.amax(dim=1, keepdim=True)).exp()
    total = shares.sum(dim=1, dtype=torch.float64)
    flagged = (shares * torch.from_numpy(flags).to(shares)).sum(dim=1, dtype=torch.float64)
    values: Any = (flagged.clamp_min(torch.finfo(shares.dtype).tiny) / total).log().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def add_ends(
    values: Array,
    entries: npt.NDArray[np.int64],
    ends: Callable[[npt.NDArray[np.int64]], Array],
    from_start: Array,
    exact: int | None,
) -> Array:
    """Add to the log-probability of each piece that the word ends with it.

    Parameters
    ----------
    values : array, shape (gaps, candidates)
        Log-probabilities of the pieces.
    entries : array, shape (candidates,)
        The pieces.
    ends : callable
        From pieces (gaps, some), alternatives at each gap, to the log-probabilities (gaps, some) that words end with them.
    from_start : array, shape (candidates,)
        The same at the start of a sentence, which stands in for candidates that are unlikely by their piece.
    exact : int, optional
        How many candidates of each gap are computed in the context, the likeliest first; None for all.

    Returns
    -------
    array, shape (gaps, candidates)
    """
    ended = values + from_start
    gaps, number = len(values), len(entries) if exact is None else min(exact, len(entries))
    # The order of like values is that of the candidates, so that nothing is left to chance.
    likeliest = np.argsort(-values, axis=1, kind="stable")[:, :number]
    rows = np.arange(gaps)[:, None]
    step = max(1, ALTERNATIVES // gaps)
    for first in range(0, number, step):
        chosen = likeliest[:, first : first + step]
        ended[rows, chosen] = values[rows, chosen] + ends(entries[chosen])
    return ended


def ends_from_start(
    known: dict[int, float], entries: npt.NDArray[np.int64], ends: Callable[[npt.NDArray[np.int64]], Array]
) -> Array:
    """Log-probabilities (candidates,) that words end with some pieces at the start of a sentence, each computed once."""
    missing = np.array([entry for entry in entries.tolist() if entry not in known], dtype=np.int64)
    for first in range(0, len(missing), ALTERNATIVES):
        part = missing[first : first + ALTERNATIVES]
        known.update(zip(part.tolist(), ends(part[None])[0].tolist(), strict=True))
    return np.array([known[entry] for entry in entries.tolist()])
