"""Attention distance: how far, and to which side, each head looks, beside attention that is uniform.

Mean attention distance per head (Vig & Belinkov 2019) at word level: attention to special tokens is left out and the
rest renormalised as a ratio of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

MEASURES: dict[str, str] = {
    "attention_distance": "words",
    "attention_signed_distance": "words",
    "attention_mass_left": "share",
    "attention_mass_self": "share",
    "attention_mass_right": "share",
    "attention_entropy": "bits",
    "attention_mass_special": "share",
}
"""Measure -> unit. The last one has no uniform baseline."""

_WORD_MEASURES = tuple(MEASURES)[:6]
_COLUMNS = 6 + 1 + 1 + 1 + 6
"""Per sentence and head: 6 sums of the word measures, special mass, word mass, rows, 6 sums of the uniform baseline."""


@dataclass(frozen=True)
class AttentionDistance:
    """Attention distance of one model, by layer and head.

    Conditions: ``plain`` (measured), ``uniform`` (what a head would have that gives each row's mass on words evenly to
    the allowed words of the sentence: all of them, or up to the word itself in a left-to-right model).
    """

    info: ModelInfo
    """The model."""
    layers: tuple[int, ...]
    """Layer numbers of the second axis of `statistics`."""
    statistics: Array
    """Sums per sentence, shape (sentences, layers, heads, 15): rows' mass times |i - j|, j - i, left, self, right,
    entropy; mass on special tokens; mass on words; number of words; the first six again for uniform attention."""
    notes: tuple[str, ...]
    """What was left out, and what a reader must know."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over sentences."""
    seed: int
    """Seed of the resampling."""

    def interval(self, layer: int) -> Interval:
        """Estimates of all heads of a layer with 95 % intervals over sentences.

        Parameters
        ----------
        layer : int
            One of `layers`.

        Returns
        -------
        Interval
            Arrays of shape (heads + 1, 13): the last line is the layer, all heads together. Columns: the measures in
            the order of `MEASURES`, then the first six for uniform attention (NaN if the allowed words are not known).
        """
        units = self.statistics[:, self.layers.index(layer)]
        sentences, heads = units.shape[:2]

        def estimates(sums: Array) -> Array:
            by_head = sums.reshape(*sums.shape[:-1], heads, _COLUMNS)
            both = np.concatenate([by_head, by_head.sum(axis=-2, keepdims=True)], axis=-2)
            words, rows = both[..., 7:8], both[..., 8:9]
            ratios = np.concatenate([both[..., :6] / words, both[..., 6:7] / rows, both[..., 9:] / words], axis=-1)
            return ratios.reshape(*sums.shape[:-1], (heads + 1) * 13)

        flat = bootstrap(units.reshape(sentences, -1), estimates, resamples=self.resamples, seed=self.seed)
        shape = (heads + 1, 13)
        return Interval(flat.value.reshape(shape), flat.low.reshape(shape), flat.high.reshape(shape), flat.n)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`; `head` is None for the layer."""
        rows: list[dict[str, Any]] = []
        names = [(measure, "plain") for measure in MEASURES] + [(measure, "uniform") for measure in _WORD_MEASURES]
        for layer in self.layers:
            interval = self.interval(layer)
            heads = len(interval.value) - 1
            for line in range(heads + 1):
                for column, (measure, condition) in enumerate(names):
                    if condition == "uniform" and not self.has_baseline:
                        continue
                    rows.append(
                        {
                            "model": self.info.name,
                            "family": self.info.family,
                            "weights": self.info.weights,
                            "layer": layer,
                            "layer_name": self.info.layer_names[layer],
                            "part": "whole",
                            "kind": "analysis",
                            "measure": measure,
                            "data": self.data,
                            "condition": condition,
                            "head": None if line == heads else line,
                            "value": float(interval.value[line, column]),
                            "low": float(interval.low[line, column]),
                            "high": float(interval.high[line, column]),
                            "unit": MEASURES[measure],
                            "n": interval.n,
                            "seed": self.seed,
                        }
                    )
        return rows

    @property
    def has_baseline(self) -> bool:
        """Whether the allowed words are known, so that there is a uniform baseline."""
        return self.info.directionality != "concatenated"

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Mean distance by layer and head as a heat map, a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        values = np.stack([self.interval(layer).value[:-1, 0] for layer in self.layers])
        image = axes.imshow(values, aspect="auto", cmap="viridis")
        axes.set(xlabel="head", ylabel="layer", title=self.info.name)
        axes.set_xticks(range(values.shape[1]))
        axes.set_yticks(range(len(self.layers)), labels=[str(layer) for layer in self.layers])
        figure.colorbar(image, label="mean attention distance (words)")
        return figure


def attention_distance(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    layers: Layers = "all",
    batch_size: int = 16,
    max_sentences: int | None = None,
    sentence_start: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> AttentionDistance:
    """Measure how far and to which side every attention head looks.

    With A[i, j] the attention of word i to word j (special tokens left out) and sums over all words of all sentences,

        distance = sum A[i, j] |i - j| / sum A[i, j],   signed distance = sum A[i, j] (j - i) / sum A[i, j],
        left, self, right mass = sum over j < i, j = i, j > i of A[i, j] / sum A[i, j],
        entropy = sum_i m_i H(A[i, .] / m_i) / sum_i m_i in bits, with m_i = sum_j A[i, j],
        special mass = attention to special tokens / number of words,

    so a word counts by the attention that it gives to words; a negative signed distance is to the left. The layer's
    value sums over its heads too. Intervals: bootstrap over sentences. Layer 0 has no attention and gives no rows.
    Attention maps are reduced one sentence at a time; 15 sums per sentence and head are kept.

    A left-to-right model whose tokenizer puts nothing before a sentence (GPT-2) spends what attention it has no use for
    on the first word, which would pass for attention to words far to the left. It is therefore read behind its tokenizer's
    start token, which counts as a special token like [CLS].

    Parameters
    ----------
    extractor : Extractor
        A model with attention.
    sentences : sequence of str or of sequences of str
        The corpus.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    batch_size : int
        Sentences per forward pass.
    max_sentences : int, optional
        Read only the first so many sentences.
    sentence_start : bool
        Read `extractor.with_sentence_start()`; False leaves the input as the tokenizer makes it.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of the resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence.

    Returns
    -------
    AttentionDistance
        Values with intervals per head and layer. Sentences longer than the model reads in one go are left out (words in
        different windows cannot attend to each other) and counted in `notes`.

    Raises
    ------
    UsageError
        If the model has no attention, only layer 0 is asked for, or `max_sentences` is not positive.
    DataError
        If no sentence is left.

    References
    ----------
    Vig and Belinkov (2019), Analyzing the structure of attention in a Transformer language model.
    """
    reader = extractor.with_sentence_start() if sentence_start else extractor
    info = reader.info
    if info.heads is None:
        raise UsageError(
            f"{info.name} ({info.family}) has no attention, so there is no attention distance; "
            "measure direction shares instead"
        )
    if max_sentences is not None and max_sentences < 1:
        raise UsageError(f"max_sentences={max_sentences} is not positive; leave it out to read the whole corpus")
    chosen = tuple(layer for layer in select_layers(layers, info.layer_names, model=info.name) if layer > 0)
    if not chosen:
        raise UsageError(
            f"layer 0 of {info.name} has no attention; choose from layers 1 to {len(info.layer_names) - 1}"
        )
    corpus = sentences[:max_sentences]
    # The map of a sentence in windows would grow with the square of all its words: leave it out before it is made.
    whole = [
        alignment.words
        for alignment in reader.align(corpus)
        if info.max_pieces is None or len(alignment.pieces) <= info.max_pieces
    ]
    too_long = len(corpus) - len(whole)
    kept: list[Array] = []
    for item in reader.extract(whole, layers=chosen, attention=True, batch_size=batch_size, progress=progress):
        assert item.attention is not None
        assert item.attention_special is not None
        kept.append(_sentence_statistics(item.attention, item.attention_special, info.directionality))
    if not kept:
        raise DataError(
            f"no sentence to measure attention on: {len(corpus)} given, {too_long} of them longer than "
            f"{info.name} reads in one go; give shorter sentences"
        )
    statistics = np.stack(kept)
    notes = []
    if too_long:
        notes.append(f"{too_long} of {len(corpus)} sentences left out: longer than {info.max_pieces} pieces")
    if reader is not extractor:
        notes.append(f"{info.note}, as its first word would else take the attention a head has to spare")
    if info.directionality == "left-to-right" and not statistics[..., 6].any():
        notes.append(
            "no special token is read before the sentence: its first word takes the attention a head has to spare"
        )
    if info.directionality == "concatenated":
        notes.append("no uniform baseline: which words a head may attend to is not known for two models side by side")
    return AttentionDistance(info, chosen, statistics, tuple(notes), data, resamples, seed)


def _sentence_statistics(attention: npt.ArrayLike, special: npt.ArrayLike, directionality: str) -> Array:
    """Sums over one sentence, shape (layers, heads, 15); see `AttentionDistance.statistics`."""
    maps = np.asarray(attention, dtype=np.float64)
    words = maps.shape[-1]
    flat = maps.reshape(*maps.shape[:2], words * words)
    mass = maps.sum(axis=-1)
    sums = flat @ _weights(words)
    entropy = (_x_log2_x(mass).sum(axis=-1) - _x_log2_x(flat).sum(axis=-1))[..., None]
    special_mass = np.asarray(special, dtype=np.float64).sum(axis=-1)[..., None]
    rows = np.full_like(special_mass, words)
    uniform = mass @ _uniform_rows(words, directionality)
    return np.concatenate([sums, entropy, special_mass, mass.sum(axis=-1)[..., None], rows, uniform], axis=-1)


def _weights(words: int) -> Array:
    """What each cell of a map is multiplied with, shape (words * words, 5): |i - j|, j - i, left, self, right."""
    offset = np.arange(words)[None, :] - np.arange(words)[:, None]
    parts = [np.abs(offset), offset, offset < 0, offset == 0, offset > 0]
    return np.stack([part.astype(np.float64).ravel() for part in parts], axis=1)


@lru_cache(maxsize=512)
def _uniform_rows(words: int, directionality: str) -> Array:
    """The six word measures of each row under uniform attention to the allowed words, shape (words, 6)."""
    offset = np.arange(words)[None, :] - np.arange(words)[:, None]
    match directionality:
        case "bidirectional":
            allowed = np.ones_like(offset, dtype=bool)
        case "left-to-right":
            allowed = offset <= 0
        case "right-to-left":
            allowed = offset >= 0
        case _:
            return np.full((words, 6), np.nan)
    share = allowed / allowed.sum(axis=1, keepdims=True)
    rows = np.einsum("ij,ijk->ik", share, _weights(words).reshape(words, words, 5))
    return np.concatenate([rows, np.log2(allowed.sum(axis=1))[:, None]], axis=1)


def _x_log2_x(values: Array) -> Array:
    """Elementwise x log2 x, 0 at 0."""
    return values * np.log2(values, out=np.zeros_like(values), where=values > 0)
