"""Attention distance: how far, and to which side, each head looks, beside attention that is uniform.

Mean attention distance per head (Vig & Belinkov 2019) at word level: attention to special tokens is left out and the
rest renormalised as a ratio of sums. Measured on plain maps, on their rollout over layers (Abnar & Zuidema 2020), and on maps
weighted by the norms of what is attended to (Kobayashi et al. 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.attention_maps import COLUMNS, WORD_COLUMNS, rolled_out_uniform_rows, sentence_sums, uniform_rows
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import ATTENTION_VARIANTS, ModelInfo, SentenceRepresentation

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

PLAIN, ROLLOUT = "plain", "rollout"
BASELINES = {PLAIN: "uniform", ROLLOUT: "rollout uniform"}
"""Condition -> the condition of its baseline. Norm-weighted attention stands beside ``uniform`` too."""

_WORD_MEASURES = tuple(MEASURES)[:WORD_COLUMNS]
_ESTIMATES = len(MEASURES) + WORD_COLUMNS
_DIRECTIONS = {"forward": "left-to-right", "backward": "right-to-left"}


@dataclass(frozen=True)
class AttentionDistance:
    """Attention distance of one model, by layer and head.

    Conditions: ``plain`` (measured), ``rollout`` (followed through all layers up to this one; of a layer, not of a head),
    ``norm-weighted``; ``uniform`` (what a head would have that attends from each piece evenly to the allowed pieces of the
    sentence: all of them, or up to the piece itself in a left-to-right model; each word counts by its measured mass on words),
    ``rollout uniform`` (the rollout of such heads in every layer). A word of six pieces is six places to such a head. Of two
    models side by side the heads of each tower have its own allowed pieces, and `part` is the tower's;
    ``whole`` is a layer with all heads of both.
    """

    info: ModelInfo
    """The model."""
    layers: tuple[int, ...]
    """Layer numbers of the second axis of `statistics`."""
    statistics: Mapping[str, Array]
    """Condition (``plain``, ``rollout``, ``norm-weighted``) -> sums per sentence, shape (sentences, layers, heads, 15): rows' mass
    times |i - j|, j - i, left, self, right, entropy; mass on special tokens; mass on words; number of words; the first six again
    for the baseline. Rollout has one head, or one for each of two towers."""
    notes: tuple[str, ...]
    """What was left out, and what a reader must know."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over sentences."""
    seed: int
    """Seed of the resampling."""

    def lines(self, condition: str = PLAIN) -> tuple[tuple[str, int | None], ...]:
        """What the lines of `interval` are: part and head of each, None for a layer's heads together."""
        parts = _head_parts(self.info)
        heads = [] if condition == ROLLOUT else [(part, head) for part, heads in parts.items() for head in heads]
        towers = [(part, None) for part in parts] if len(parts) > 1 else []
        return (*heads, *towers, ("whole", None))

    def interval(self, layer: int, condition: str = PLAIN) -> Interval:
        """Estimates of all heads of a layer with 95 % intervals over sentences.

        Parameters
        ----------
        layer : int
            One of `layers`.
        condition : str
            ``plain``, ``rollout`` or ``norm-weighted``.

        Returns
        -------
        Interval
            Arrays of shape (lines, 13), for the lines in `lines`; the last one is the layer, all heads together. Columns: the
            measures in the order of `MEASURES`, then the first six for the baseline (NaN if the allowed pieces are not known).
        """
        whole, place = self._intervals[condition], self.layers.index(layer)
        return Interval(whole.value[place], whole.low[place], whole.high[place], whole.n)

    @cached_property
    def _intervals(self) -> dict[str, Interval]:
        """Condition -> estimates of shape (layers, lines, 13), from common resamples."""
        return {condition: self._estimate(condition) for condition in self.statistics}

    def _estimate(self, condition: str) -> Interval:
        units = self.statistics[condition]
        sentences, layers, heads = units.shape[:3]
        parts = list(_head_parts(self.info).items())
        lines = self.lines(condition)
        # Which heads each line sums up. Of rollout, a tower is a head.
        members = np.zeros((len(lines), heads))
        for line, (part, head) in enumerate(lines):
            for place, (name, range_) in enumerate(parts):
                if part in (name, "whole"):
                    members[line, [place] if condition == ROLLOUT else [head] if head is not None else list(range_)] = 1

        def estimates(sums: Array) -> Array:
            both = members @ sums.reshape(*sums.shape[:-1], layers, heads, COLUMNS)
            words, rows = both[..., 7:8], both[..., 8:9]
            ratios = np.concatenate([both[..., :6] / words, both[..., 6:7] / rows, both[..., 9:] / words], axis=-1)
            return ratios.reshape(*sums.shape[:-1], layers * len(lines) * _ESTIMATES)

        flat = bootstrap(units.reshape(sentences, -1), estimates, resamples=self.resamples, seed=self.seed)
        shape = (layers, len(lines), _ESTIMATES)
        return Interval(flat.value.reshape(shape), flat.low.reshape(shape), flat.high.reshape(shape), flat.n)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`; `head` is None for the layer."""
        rows: list[dict[str, Any]] = []
        for condition in self.statistics:
            names = [(measure, condition) for measure in MEASURES]
            if self.has_baseline and condition in BASELINES:
                names += [(measure, BASELINES[condition]) for measure in _WORD_MEASURES]
            for layer in self.layers:
                interval = self.interval(layer, condition)
                for line, (part, head) in enumerate(self.lines(condition)):
                    for column, (measure, name) in enumerate(names):
                        rows.append(
                            {
                                "model": self.info.name,
                                "family": self.info.family,
                                "weights": self.info.weights,
                                "layer": layer,
                                "layer_name": self.info.layer_names[layer],
                                "part": part,
                                "kind": "analysis",
                                "measure": measure,
                                "data": self.data,
                                "condition": name,
                                "head": head,
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
        """Whether the allowed pieces of every head are known, so that there is a uniform baseline."""
        return not np.isnan(self.statistics[PLAIN]).any()

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Mean distance by layer and head as a heat map, a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        heads = [line for line, (_, head) in enumerate(self.lines()) if head is not None]
        values = np.stack([self.interval(layer).value[heads, 0] for layer in self.layers])
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
    variants: Sequence[str] = ATTENTION_VARIANTS,
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
    Attention maps are reduced batch by batch; 15 sums per sentence and head are kept.

    The same measures of two variants, which are made between pieces, special tokens included, and then taken to words like the
    plain maps: `rollout`, R_l = B_l ... B_1 with B = (mean over heads of A + I) / 2, which says how far back to the input layer
    l reaches if attention were all that mixes positions; and `norm-weighted`, A[i, j] |f(x_j)| with f(x) = (x W_V + b_V) W_O
    and rows renormalised to 1, which takes into account that heads put spare attention where they read next to nothing.

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
    variants : sequence of {"rollout", "norm-weighted"}
        What to measure beside the plain maps. What the model cannot give is left out and told in `notes`.
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
        If the model has no attention, only layer 0 is asked for, a variant is unknown, or `max_sentences` is not positive.
    DataError
        If no sentence is left.

    References
    ----------
    Vig and Belinkov (2019), Analyzing the structure of attention in a Transformer language model.
    Abnar and Zuidema (2020), Quantifying attention flow in Transformers.
    Kobayashi, Kuribayashi, Yokoi and Inui (2020), Attention is not only a weight: analyzing Transformers with vector norms.
    """
    reader = extractor.with_sentence_start() if sentence_start else extractor
    info = reader.info
    if info.heads is None:
        raise UsageError(
            f"{info.name} ({info.family}) has no attention, so there is no attention distance; "
            "measure direction shares instead"
        )
    for variant in variants:
        if variant not in ATTENTION_VARIANTS:
            raise UsageError(f"attention variant {variant!r} is unknown; choose from {', '.join(ATTENTION_VARIANTS)}")
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
    gaps = {variant: reader.attention_gap(variant) for variant in dict.fromkeys(variants)}
    started = reader is not extractor
    reader = reader.with_attention_variants(*(variant for variant, gap in gaps.items() if gap is None))
    kept: dict[str, list[Array]] = {condition: [] for condition in (PLAIN, *reader.attention_variants)}
    for item in reader.extract(whole, layers=chosen, attention=True, batch_size=batch_size, progress=progress):
        for condition, sums in _sentence_statistics(item, info).items():
            kept[condition].append(sums)
    if not kept[PLAIN]:
        raise DataError(
            f"no sentence to measure attention on: {len(corpus)} given, {too_long} of them longer than "
            f"{info.name} reads in one go; give shorter sentences"
        )
    statistics = {condition: np.stack(sums) for condition, sums in kept.items()}
    notes = []
    if too_long:
        notes.append(f"{too_long} of {len(corpus)} sentences left out: longer than {info.max_pieces} pieces")
    if started:
        notes.append(f"{info.note}, as its first word would else take the attention a head has to spare")
    if info.directionality == "left-to-right" and not statistics[PLAIN][..., 6].any():
        notes.append(
            "no special token is read before the sentence: its first word takes the attention a head has to spare"
        )
    if np.isnan(statistics[PLAIN]).any():
        notes.append("no uniform baseline: which pieces a head may attend to is not known")
    notes += [f"{gap}; left out" for gap in gaps.values() if gap is not None]
    return AttentionDistance(info, chosen, statistics, tuple(notes), data, resamples, seed)


def _sentence_statistics(item: SentenceRepresentation, info: ModelInfo) -> dict[str, Array]:
    """Condition -> sums over one sentence, shape (layers, heads, 15); see `AttentionDistance.statistics`."""
    assert item.attention is not None
    assert item.attention_special is not None
    parts = _head_parts(info)
    ways = {part: _DIRECTIONS.get(part, info.directionality) for part in parts}
    rows = [uniform_rows(item.alignment, way) for way in ways.values()]
    even = np.repeat(np.stack(rows), [len(heads) for heads in parts.values()], axis=0)
    found = {PLAIN: sentence_sums(item.attention, item.attention_special, even)}
    for condition, maps in item.attention_variants.items():
        baseline = even
        if condition == ROLLOUT:
            rolled = [rolled_out_uniform_rows(item.alignment, way, item.attention_layers) for way in ways.values()]
            baseline = np.stack(rolled, axis=1)
        found[condition] = sentence_sums(maps.words, maps.special, baseline)
    return found


def _head_parts(info: ModelInfo) -> dict[str, range]:
    """Part -> its heads: those of each of two models side by side, or ``whole`` with all of them."""
    heads = info.heads or 0
    return {part: range(heads)[where] for part, where in info.head_parts.items()} or {"whole": range(heads)}
