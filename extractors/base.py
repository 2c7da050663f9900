"""The protocol of every extractor: words in, per-layer vectors out, streaming, in the order given.

A subclass turns one sentence into windows (`_prepare`) and runs a batch of windows (`_forward`); checking, batching by
length, restoring the order and stitching windows live here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from extractors.foundation.errors import ModelError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import (
    ATTENTION_VARIANTS,
    POOLINGS,
    Alignment,
    AttentionMaps,
    FloatArray,
    ModelInfo,
    SentenceRepresentation,
)
from extractors.words import as_words

Sentence = str | Sequence[str]

_BATCHES_PER_CHUNK = 16
"""Sentences are sorted by length within chunks of so many batches: little padding, bounded memory."""
_MAP_BYTES = 2**28
"""A chunk ends early when its attention maps, which grow with the square of the length, have reached this size."""


@dataclass(frozen=True)
class Window:
    """A stretch of a sentence that the model reads in one go."""

    start: int
    """First word of the window (0-based)."""
    stop: int
    """One past its last word."""
    keep: tuple[int, int]
    """The words [from, to) whose vectors are taken from this window; the windows of a sentence divide its words."""
    length: int
    """Number of inputs the model reads, for sorting."""
    payload: Any
    """What the subclass needs to run it."""


@dataclass(frozen=True)
class Prepared:
    """A sentence ready to run."""

    alignment: Alignment
    windows: tuple[Window, ...]


@dataclass(frozen=True)
class WindowOutput:
    """The vectors of one window, words of the window only."""

    hidden: FloatArray
    """(layers, words of the window, dim)."""
    attention: FloatArray | None = None
    """(attention layers, heads, words, words)."""
    attention_special: FloatArray | None = None
    """(attention layers, heads, words)."""
    variants: Mapping[str, AttentionMaps] = field(default_factory=dict)
    """The variants of attention asked for."""


def _refuse_bare_text(sentences: object) -> None:
    """A string is iterable too: its characters would pass for sentences."""
    if isinstance(sentences, str):
        shown = sentences if len(sentences) <= 40 else f"{sentences[:40]}..."
        raise UsageError(
            f"sentences must be a list of sentences, got the string {shown!r}; write [text] for one sentence"
        )


class Extractor(ABC):
    """Base class of all extractors.

    Attributes
    ----------
    info : ModelInfo
        What the model is: layers, parts, directionality, checksum.
    attention_variants : tuple of str
        What is given beside plain attention maps, see `with_attention_variants`.
    """

    info: ModelInfo
    attention_variants: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Name, family, layers and size, for interactive sessions."""
        info = self.info
        return f"<{info.name}: {info.family}, {info.weights}, layers 0 to {info.layers[-1]}, {info.hidden_size} dimensions>"

    @abstractmethod
    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        """Tokenise one sentence; raise AlignmentError naming `where` if words and pieces cannot be brought together."""

    @abstractmethod
    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        """Run a batch of windows, sorted by falling length; one output per window, in the same order."""

    def with_sentence_start(self) -> Extractor:
        """The same model, reading a sentence-start token before every sentence, if that makes a difference.

        Where nothing precedes a sentence, its first word is what every later word can spend attention on that it has no
        use for. Models that read a special token first, or none, are returned as they are.

        Returns
        -------
        Extractor
            Shares the network with this one.
        """
        return self

    def attention_gap(self, variant: str) -> str | None:
        """Say why the model cannot give a variant of its attention maps; None if it can.

        Parameters
        ----------
        variant : str
            One of `extractors.representation.ATTENTION_VARIANTS`.

        Returns
        -------
        str or None
            The reason, in plain words.
        """
        if self.info.heads is None:
            return f"{self.info.name} ({self.info.family}) has no attention"
        return f"{variant} attention is not available for models of type {self.info.family}"

    def with_attention_variants(self, *variants: str) -> Extractor:
        """The same model, giving variants of its attention maps wherever it is asked for attention.

        They are made batch by batch from what the forward pass computes anyway and come as
        `SentenceRepresentation.attention_variants`, beside the plain maps.

        Parameters
        ----------
        *variants : {"rollout", "norm-weighted"}
            ``rollout``: for layer l the product A_l ... A_1 over layers, with A the mean map of a layer's heads between
            pieces (special tokens included) plus the identity, rows renormalised to 1 (Abnar & Zuidema 2020).
            ``norm-weighted``: per head, each attention weight times the norm of f(x) = (x W_V + b_V) W_O, what the piece
            attended to adds to the output; rows renormalised to 1 (Kobayashi et al. 2020). Both are then taken to words.

        Returns
        -------
        Extractor
            Shares the network with this one. Changes to its weights afterwards may go unnoticed.

        Raises
        ------
        UsageError
            For an unknown variant, or one that the model cannot give.
        """
        for variant in variants:
            if variant not in ATTENTION_VARIANTS:
                raise UsageError(
                    f"attention variant {variant!r} is unknown; choose from {', '.join(ATTENTION_VARIANTS)}"
                )
            if reason := self.attention_gap(variant):
                raise UsageError(f"{reason}; leave it out")
        other = copy(self)
        other.attention_variants = tuple(dict.fromkeys(variants))
        return other

    def with_masks(self) -> Extractor:
        """The same model, reading a word spelt `extractors.words.MASK_WORD` (``[MASK]``) as its own mask.

        To a model without masks, or read as it is, such a word is text like any other. The mask is one piece.

        Returns
        -------
        Extractor
            Shares the network with this one.

        Raises
        ------
        UsageError
            If the model has no mask (`info.masks`).
        """
        raise UsageError(
            f"{self.info.name} ({self.info.family}) has no mask to stand for a word; give a masked language model"
        )

    def align(self, sentences: Iterable[Sentence]) -> Iterator[Alignment]:
        """Align words and pieces without running the model.

        Parameters
        ----------
        sentences : iterable of str or of sequences of str
            Sentences; a plain string is split by `split_words`.

        Yields
        ------
        Alignment
            One per sentence, in order.

        Raises
        ------
        DataError, AlignmentError
            Names the sentence (counting from 1) and the word.
        """
        _refuse_bare_text(sentences)
        for number, sentence in enumerate(sentences, start=1):
            where = f"sentence {number}"
            yield self._prepare(as_words(sentence, where=where), where).alignment

    def extract(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: Layers = "all",
        pooling: str = "mean",
        attention: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
    ) -> Iterator[SentenceRepresentation]:
        """Extract the vectors of sentences, one after the other, in the order given.

        Vectors do not depend on batch size, order or padding beyond float noise (1e-5 in float32). Memory does not grow
        with the number of sentences. A sentence longer than the model's longest input is read in overlapping windows;
        each word is taken from the window in which it is furthest from an edge that is not an edge of the sentence.

        Parameters
        ----------
        sentences : iterable of str or of sequences of str
            Words of each sentence; a plain string is split by `split_words`.
        layers : str, int or sequence of int
            Which layers, see `select_layers`.
        pooling : {"first", "last", "mean", "max"}
            How the pieces of a word become one vector. Without effect on models that read whole words.
        attention : bool
            Also give word-level attention maps.
        batch_size : int
            Sentences (windows) per forward pass.
        progress : Progress
            Receives one unit per sentence.

        Yields
        ------
        SentenceRepresentation
            `hidden` has shape (layers, words, dim).

        Raises
        ------
        UsageError
            For an unknown pooling, layer or batch size, attention from a model that has none, or a bare string.
        DataError, AlignmentError
            For an empty sentence or word, by position.
        ModelError
            If the model gives a value that is not finite.
        """
        _refuse_bare_text(sentences)
        chosen = select_layers(layers, self.info.layer_names, model=self.info.name)
        if pooling not in POOLINGS:
            raise UsageError(f"pooling {pooling!r} is unknown; choose one of {', '.join(POOLINGS)}")
        if batch_size < 1:
            raise UsageError(f"batch size {batch_size} is not positive")
        if attention and self.info.heads is None:
            raise UsageError(f"{self.info.name} ({self.info.family}) has no attention; ask for hidden states only")
        return self._stream(sentences, chosen, pooling, attention, batch_size, progress)

    def _stream(
        self,
        sentences: Iterable[Sentence],
        layers: tuple[int, ...],
        pooling: str,
        attention: bool,
        batch_size: int,
        progress: Progress,
    ) -> Iterator[SentenceRepresentation]:
        total = len(sentences) if isinstance(sentences, Sequence) else None
        source = enumerate(sentences, start=1)
        number = 0
        maps = (self.info.heads or 0) * sum(layer > 0 for layer in layers) if attention else 0
        maps *= 1 + len(self.attention_variants)
        with progress.task(f"{self.info.name}: reading sentences", total) as task:
            while prepared := self._read_chunk(source, batch_size * _BATCHES_PER_CHUNK, maps):
                jobs = [(i, j) for i, item in enumerate(prepared) for j in range(len(item.windows))]
                jobs.sort(key=lambda job: (-prepared[job[0]].windows[job[1]].length, job))
                outputs: dict[tuple[int, int], WindowOutput] = {}
                for first in range(0, len(jobs), batch_size):
                    batch = jobs[first : first + batch_size]
                    windows = [prepared[i].windows[j] for i, j in batch]
                    results = self._forward(windows, layers=layers, pooling=pooling, attention=attention)
                    outputs.update(zip(batch, results, strict=True))
                for i, item in enumerate(prepared):
                    parts = [outputs.pop((i, j)) for j in range(len(item.windows))]
                    number += 1
                    yield self._finite(self._stitch(item, parts, layers), number)
                    task.advance()

    def _read_chunk(self, source: Iterator[tuple[int, Sentence]], most: int, maps: int) -> list[Prepared]:
        """The next sentences, at most `most` of them and `_MAP_BYTES` of attention maps, `maps` per sentence."""
        prepared: list[Prepared] = []
        cells = 0
        for number, sentence in islice(source, most):
            where = f"sentence {number}"
            prepared.append(self._prepare(as_words(sentence, where=where), where))
            cells += maps * len(prepared[-1].alignment.words) ** 2
            if cells * np.dtype(np.float32).itemsize >= _MAP_BYTES:
                break
        return prepared

    def _finite(self, item: SentenceRepresentation, number: int) -> SentenceRepresentation:
        """Refuse NaN and infinity here, where every measure takes its vectors from."""
        for layer, vectors in zip(item.layers, item.hidden, strict=True):
            if not np.isfinite(vectors).all():
                raise ModelError(
                    f"{self.info.name} gives values that are not finite for sentence {number} at layer {layer} "
                    f"({self.info.layer_names[layer]}): its weights are damaged, or too large for {self.info.dtype}; fetch it "
                    "again, or try float64"
                )
        return item

    def _stitch(
        self, item: Prepared, outputs: Sequence[WindowOutput], layers: tuple[int, ...]
    ) -> SentenceRepresentation:
        words = item.alignment.words
        hidden, attention, special = outputs[0].hidden, outputs[0].attention, outputs[0].attention_special
        variants = outputs[0].variants
        if len(item.windows) > 1:
            hidden = np.empty((hidden.shape[0], len(words), hidden.shape[2]), dtype=hidden.dtype)
            for window, output in zip(item.windows, outputs, strict=True):
                local = slice(window.keep[0] - window.start, window.keep[1] - window.start)
                hidden[:, slice(*window.keep)] = output.hidden[:, local]
            plain = [
                AttentionMaps(output.attention, output.attention_special)
                for output in outputs
                if output.attention is not None and output.attention_special is not None
            ]
            if plain:
                whole = _stitch_maps(item.windows, plain, len(words))
                attention, special = whole.words, whole.special
            variants = {
                name: _stitch_maps(item.windows, [output.variants[name] for output in outputs], len(words))
                for name in variants
            }
        return SentenceRepresentation(
            words=words,
            hidden=hidden,
            layers=layers,
            layer_names=tuple(self.info.layer_names[layer] for layer in layers),
            alignment=item.alignment,
            attention=attention,
            attention_special=special,
            attention_layers=tuple(layer for layer in layers if layer > 0) if attention is not None else (),
            windows=len(item.windows),
            attention_variants=variants,
        )


def _stitch_maps(windows: Sequence[Window], maps: Sequence[AttentionMaps], words: int) -> AttentionMaps:
    """Maps of a whole sentence from those of its windows; attention between words that share no window is 0."""
    first = maps[0].words
    attention = np.zeros((*first.shape[:2], words, words), dtype=first.dtype)
    special = np.empty((*first.shape[:2], words), dtype=first.dtype)
    for window, part in zip(windows, maps, strict=True):
        whole = slice(*window.keep)
        local = slice(window.keep[0] - window.start, window.keep[1] - window.start)
        attention[:, :, whole, window.start : window.stop] = part.words[:, :, local]
        special[:, :, whole] = part.special[:, :, local]
    return AttentionMaps(attention, special)
