"""Direction shares: how much of a word's contextual variance is due to its left, its right, and both in interaction.

Functional ANOVA over crossed contexts with generalised Sobol indices (Sobol 1993; Gamboa et al. 2014). A concatenation
of two one-directional models has no interaction share whatever its weights; a model that mixes both sides can have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.context_variants import resample_contexts
from analyses.contexts import ContextSet, collect_contexts
from analyses.masking import side_masks
from analyses.share_components import (
    COMPONENTS,
    CONTROL,
    CROSSED,
    MIX,
    NORMED_MIX,
    STANDARDISED,
    Key,
    NaturalStatistics,
    crossed_components,
    natural_statistics,
    numerical_floor,
    plain_components,
    read_grids,
    read_masked,
)
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "BY_CLASS",
    "COMPONENTS",
    "CONTROL",
    "CROSSED",
    "LEAST_TARGETS",
    "MIX",
    "MODES",
    "NORMED_MIX",
    "STANDARDISED",
    "DirectionShares",
    "bounded",
    "direction_shares",
    "numerical_floor",
    "target_notes",
]

Array = npt.NDArray[np.float64]

MODES = ("crossed", "natural", "resampled", "masked")
"""How contexts are put together; each is the condition of its rows."""

BY_CLASS = "by word class"
"""Condition of the rows for one class of target words; the column `task` names the class."""

LEAST_TARGETS = 8
"""An interval is over at least so many targets; a percentile bootstrap over fewer is far too narrow (of 95 % intervals over
two targets about half hold the truth). Word classes with fewer have no rows."""

SHARES = ("direction_share_left", "direction_share_right", "direction_share_interaction", "contextual_share")
"""The measures, in the order of an interval's columns."""


@dataclass(frozen=True)
class DirectionShares:
    """Direction shares of one model, by layer and part.

    Conditions in mode ``crossed``: ``crossed`` (vectors as they are), ``crossed standardised`` (each dimension divided by
    its standard deviation over natural sentences, so that a few huge dimensions do not decide), ``layer-normed additive``
    (a control: layer norm of the purely additive part of the same grids, i.e. the interaction that a normalisation alone
    would make), and of all layers together ``scalar mix`` and ``scalar mix layer-normed``. The other modes have one
    condition, of the mode's name.
    """

    info: ModelInfo
    """The model."""
    contexts: ContextSet
    """Targets and contexts."""
    components: Mapping[Key, Array]
    """(layer, part, condition) -> array of shape (targets, 5), columns `COMPONENTS`; the units of the bootstrap, and
    what paired comparisons of models on the same contexts start from. A scalar mix has layer None."""
    pooling: str
    """How the target's pieces became one vector."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over targets."""
    seed: int
    """Seed of contexts, natural sentences and resampling."""
    mode: str = CROSSED
    """One of `MODES`; also the condition of the vectors as they are."""
    notes: tuple[str, ...] = ()
    """What a reader must know."""

    @property
    def floor(self) -> float:
        """Relative numerical floor: a variance under `floor` times the mean of |h|^2 is rounding noise; shares are
        missing.

        It is (32 eps)^2, eps the machine epsilon of the network's precision: rounding errors are proportional to the
        size of the vectors (not to their distance from the corpus mean), and grow to some ten eps through a few layers.
        """
        return numerical_floor(self.info.dtype)

    @property
    def layers(self) -> tuple[int, ...]:
        """Layer numbers, in rising order."""
        return tuple(sorted({layer for layer, _, _ in self.components if layer is not None}))

    def interval(self, layer: int | None, part: str = "whole", condition: str | None = None) -> Interval:
        """Estimate with 95 % interval over targets.

        Parameters
        ----------
        layer, part, condition
            A key of `components`; the condition is by default that of the mode.

        Returns
        -------
        Interval
            Arrays of shape (4,): shares of left, right and interaction, and the contextual share. Shares are NaN where
            the contextual variance is at the numerical floor, low and high with fewer than `LEAST_TARGETS` targets.
        """
        condition = condition or self.mode
        units = self.components[layer, part, condition]
        result = bounded(bootstrap(units, _ratios, resamples=self.resamples, seed=self.seed))
        if not self.is_defined(layer, part, condition):
            for array in (result.value, result.low, result.high):
                array[:3] = np.nan
        return result

    def is_defined(self, layer: int | None, part: str = "whole", condition: str | None = None) -> bool:
        """Whether the contextual variance is above the numerical floor, so that there are shares of it."""
        # What is noise as it stands stays noise when divided or normed, however large it becomes by that.
        plain = self.mode if layer is not None else MIX
        for tested in (condition or self.mode, plain):
            sums = self.components[layer, part, tested].sum(axis=0)
            if sums[:3].sum() <= self.floor * sums[4]:
                return False
        return True

    def of_targets(self, chosen: Sequence[int]) -> DirectionShares:
        """The same measurement for some of its targets.

        Parameters
        ----------
        chosen : sequence of int
            Their numbers, from 0.
        """
        targets = tuple(self.contexts.targets[i] for i in chosen)
        components = {key: units[list(chosen)] for key, units in self.components.items()}
        return replace(self, contexts=replace(self.contexts, targets=targets), components=components)

    def by_class(self) -> dict[str, DirectionShares]:
        """The measurement by class of the target word: ``content``, ``function``, and each UPOS tag, where known.

        Returns
        -------
        dict
            Class -> shares of its targets; classes with at least two targets.
        """
        members: dict[str, list[int]] = {}
        for name in ("word_class", "upos"):
            for number, target in enumerate(self.contexts.targets):
                if (label := getattr(target, name)) is not None:
                    members.setdefault(label, []).append(number)
        return {label: self.of_targets(numbers) for label, numbers in members.items() if len(numbers) >= 2}

    def slope(self, part: str = "whole", condition: str | None = None) -> Interval | None:
        """Least-squares slope of the interaction share over layers 1..L, with 95 % interval over targets.

        Each resample of targets gives a whole curve and so a slope: the layers of one model are not independent.

        Parameters
        ----------
        part, condition
            As for `interval`.

        Returns
        -------
        Interval or None
            Arrays of shape (1,), in share per layer, low and high NaN with fewer than `LEAST_TARGETS` targets; None if
            fewer than two contextual layers have a defined share.
        """
        condition = condition or self.mode
        layers = [
            layer
            for layer in self.layers
            if layer > 0 and (layer, part, condition) in self.components and self.is_defined(layer, part, condition)
        ]
        if len(layers) < 2:
            return None
        units = np.concatenate([self.components[layer, part, condition][:, :3] for layer in layers], axis=1)
        weights = np.array(layers) - np.mean(layers)
        weights /= weights @ weights

        def fitted(sums: Array) -> Array:
            effects = sums.reshape(*sums.shape[:-1], len(layers), 3)
            slopes: Array = effects[..., 2] / effects.sum(axis=-1) @ weights
            return slopes[..., None]

        return bounded(bootstrap(units, fitted, resamples=self.resamples, seed=self.seed))

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`."""
        rows = [row for key in self.components for row in self.rows_of(*key)]
        for part, condition in dict.fromkeys((part, condition) for _, part, condition in self.components):
            slope = self.slope(part, condition) if condition != CONTROL else None
            if slope is not None:
                rows.append(
                    {
                        **self.columns(part, condition),
                        "measure": "direction_share_interaction_slope",
                        "value": float(slope.value[0]),
                        "low": float(slope.low[0]),
                        "high": float(slope.high[0]),
                        "unit": "share per layer",
                        "n": slope.n,
                    }
                )
        return [*rows, *self._class_rows()]

    def _class_rows(self) -> Iterator[dict[str, Any]]:
        """Whole vectors of mode ``crossed``, class by class, of classes with `LEAST_TARGETS` targets."""
        if self.mode != CROSSED:
            return
        for label, shares in self.by_class().items():
            for layer in self.layers if len(shares.contexts.targets) >= LEAST_TARGETS else ():
                for row in shares.rows_of(layer, "whole", CROSSED):
                    yield {**row, "condition": BY_CLASS, "task": label}

    def columns(self, part: str = "whole", condition: str | None = None) -> dict[str, Any]:
        """What all rows of a part and condition have in common."""
        return {
            "model": self.info.name,
            "family": self.info.family,
            "weights": self.info.weights,
            "part": part,
            "kind": "analysis",
            "data": self.data,
            "condition": condition or self.mode,
            "pooling": self.pooling,
            "seed": self.seed,
        }

    def rows_of(self, layer: int | None, part: str, condition: str) -> list[dict[str, Any]]:
        """The rows of one key of `components`: the shares and the contextual share, as far as they mean something."""
        interval = self.interval(layer, part, condition)
        # The control and the normalised mix are on a scale of their own, on which no corpus mean is known.
        measures = {CONTROL: SHARES[2:3], NORMED_MIX: SHARES[:3]}.get(condition, SHARES)
        rows = []
        for measure in measures:
            column = SHARES.index(measure)
            rows.append(
                {
                    **self.columns(part, condition),
                    "layer": layer,
                    "layer_name": None if layer is None else self.info.layer_names[layer],
                    "measure": measure,
                    "value": float(interval.value[column]),
                    "low": float(interval.low[column]),
                    "high": float(interval.high[column]),
                    "unit": "share",
                    "n": interval.n,
                }
            )
        return rows

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Shares by layer with intervals, whole vectors, as a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        intervals = [self.interval(layer) for layer in self.layers]
        for column, label in enumerate(("left", "right", "interaction")):
            axes.plot(self.layers, [interval.value[column] for interval in intervals], marker="o", label=label)
            axes.fill_between(
                self.layers,
                [interval.low[column] for interval in intervals],
                [interval.high[column] for interval in intervals],
                alpha=0.2,
            )
        axes.set(xlabel="layer", ylabel="share of contextual variance", title=self.info.name, xticks=self.layers)
        axes.legend()
        return figure

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one small file; see `analyses.share_files.save_shares`."""
        from analyses.share_files import save_shares

        save_shares(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> DirectionShares:
        """Read a file written by `save`; see `analyses.share_files.load_shares`."""
        from analyses.share_files import load_shares

        return load_shares(path)


def direction_shares(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    contexts: ContextSet | None = None,
    mode: str | None = None,
    layers: Layers = "all",
    pooling: str = "mean",
    mix: Sequence[float] | None = None,
    batch_size: int = 32,
    natural: int = 500,
    statistics: NaturalStatistics | None = None,
    upos: Sequence[Sequence[str]] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> DirectionShares:
    """Measure the direction shares of every layer.

    For each target word, K left and K right parts are combined to K x K sentences; the target's vector h(l, r) is split
    into h_0 + h_L(l) + h_R(r) + h_LR(l, r), with variances V_L, V_R, V_LR (traces, unbiased: `variance_components`):

        S_u = sum_targets V_u / sum_targets (V_L + V_R + V_LR),   u in {L, R, LR},   S_L + S_R + S_LR = 1,
        contextual share = sum_targets (V_L + V_R + V_LR) / sum_targets mean |h - m|^2,

    where m is the mean vector of words in natural sentences and the mean runs over the grid: how much of the distance
    of a vector from the corpus mean is due to its context rather than to the word. Intervals: bootstrap over targets.

    Modes: ``crossed``, left and right parts from disjoint sentences; ``natural``, from the same K sentences, which biases
    the shares, as the two sides of a sentence depend on each other; ``resampled``, words drawn anew from the corpus
    (`resample_contexts`). ``masked`` is another estimand: for each pair (left[k], right[k]) either side is present or
    masked (`analyses.masking`), and V_u are squared effects of presence (`presence_effects`), averaged over pairs, not
    variances over contexts; the mean of |h - m|^2 then runs over the four cells.

    The scalar mix of all layers, sum_l s_l h_l (Peters et al. 2018), of two one-directional models has no interaction
    either. Layer norm before mixing makes some: it divides by a deviation that depends on both sides. Mean and deviation
    are those of the sentence, over all its words and dimensions; AllenNLP's code takes them over the whole batch, so that
    vectors depend on which sentences are read together.

    One grid is in memory at a time. ELMo's halves at layer 0, the same context-free vector twice, are left out.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus: for natural sentences, and for contexts if none are given.
    contexts : ContextSet, optional
        Give the same set to several models to compare them; by default collected for this model with `seed` (in mode
        ``masked`` natural ones).
    mode : {"crossed", "natural", "resampled", "masked"}, optional
        How contexts are put together; by default that of `contexts`, else ``crossed``.
    layers : str, int or sequence of int
        Which layers, see `select_layers`. The scalar mix needs all.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of the target become one vector.
    mix : sequence of float, optional
        Weights s_0..s_L of the scalar mix; by default all equal, with sum 1.
    batch_size : int
        Sentences per forward pass.
    natural : int
        Number of natural sentences (drawn at random; all, if there are fewer) for mean and standard deviations.
    statistics : NaturalStatistics, optional
        What `natural_statistics` gave for this model, layers and pooling, to spare reading the natural sentences again.
    upos : sequence of sequences of str, optional
        Universal part-of-speech tags of the sentences, for contexts collected here.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of contexts, natural sentences and resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence.

    Returns
    -------
    DirectionShares
        Shares with intervals for each layer, part and condition.

    Raises
    ------
    UsageError
        For an unknown mode, layer or pooling, contexts of another mode, fewer than one natural sentence, weights or
        statistics that do not fit, or masks where the model has none and reads no placeholder.
    DataError
        If the corpus holds fewer than two targets, or `contexts` do not have constant lengths in this model's pieces.

    References
    ----------
    Sobol (1993), Sensitivity estimates for nonlinear mathematical models. Gamboa, Janon, Klein and Lagnoux (2014),
    Sensitivity analysis for multidimensional and functional outputs.
    """
    mode = mode or (contexts.mode if contexts is not None else CROSSED)
    _check_mode(mode, contexts)
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    weights = _mix_weights(mix, info, chosen) if mode == CROSSED else None
    if contexts is None:
        collected = "natural" if mode == "masked" else mode.replace("resampled", CROSSED)
        contexts = collect_contexts([extractor], sentences, seed=seed, upos=upos, mode=collected)
        if mode == "resampled":
            contexts = resample_contexts([extractor], sentences, contexts)
        for note in contexts.notes:
            progress.note(f"{info.name}: {note}")
    if statistics is None:
        statistics = natural_statistics(
            extractor,
            sentences,
            layers=chosen,
            pooling=pooling,
            natural=natural,
            batch_size=batch_size,
            seed=seed,
            progress=progress,
        )
    elif (statistics.info, statistics.layers, statistics.pooling) != (info, chosen, pooling):
        raise UsageError(f"the statistics given are not of {info.name} with these layers and pooling; leave them out")

    masked = mode == "masked"
    notes = list(target_notes(contexts, mode))
    if masked:
        if not info.masks:
            notes.append(f"masked words are read as {side_masks(extractor).word!r}: {info.name} has no mask")
        stream = read_masked(extractor, contexts, chosen, pooling, batch_size)
    else:
        stream = read_grids(extractor, contexts, chosen, pooling, batch_size, moments=weights is not None)
    units: dict[Key, list[Array]] = {}
    total = sum(_sentence_count(len(target.left), len(target.right), masked) for target in contexts.targets)
    with progress.task(f"{info.name}: direction shares, {mode}", total) as task:
        for target, cells in zip(contexts.targets, stream, strict=True):
            if mode == CROSSED:
                found = crossed_components(cells, statistics, info.parts, weights)
            else:
                found = plain_components(cells, statistics, info.parts, mode, masked=masked)
            for key, sums in found:
                units.setdefault(key, []).append(sums)
            task.advance(_sentence_count(len(target.left), len(target.right), masked))
    return DirectionShares(
        info=info,
        contexts=contexts,
        components={key: np.stack(values) for key, values in units.items()},
        pooling=pooling,
        data=data,
        resamples=resamples,
        seed=seed,
        mode=mode,
        notes=tuple(notes),
    )


def bounded(interval: Interval) -> Interval:
    """The interval as it is, or without its ends if it is over fewer than `LEAST_TARGETS` targets.

    Parameters
    ----------
    interval : Interval
        Over targets.

    Returns
    -------
    Interval
        With the same values and n.
    """
    if interval.n >= LEAST_TARGETS:
        return interval
    return replace(interval, low=np.full_like(interval.low, np.nan), high=np.full_like(interval.high, np.nan))


def target_notes(contexts: ContextSet, mode: str = CROSSED) -> tuple[str, ...]:
    """What cannot be told for want of targets: intervals, or rows of word classes.

    Parameters
    ----------
    contexts : ContextSet
        The contexts measured.
    mode : {"crossed", "natural", "resampled", "masked"}
        The mode; word classes have rows in ``crossed``.

    Returns
    -------
    tuple of str
        The same for every model; empty if nothing is missing.
    """
    number = len(contexts.targets)
    if number < LEAST_TARGETS:
        return (f"no intervals, over {number} target words they would be too narrow; {LEAST_TARGETS} are needed",)
    labels = Counter(
        label for target in contexts.targets for label in (target.word_class, target.upos) if label is not None
    )
    few = ", ".join(f"{label} ({count})" for label, count in sorted(labels.items()) if count < LEAST_TARGETS)
    if mode != CROSSED or not few:
        return ()
    return (f"word classes with fewer than {LEAST_TARGETS} target words have no rows: {few}",)


def _check_mode(mode: str, contexts: ContextSet | None) -> None:
    if mode not in MODES:
        raise UsageError(f"mode {mode!r} is unknown; choose one of {', '.join(MODES)}")
    if contexts is None or mode == contexts.mode or (mode == "masked" and contexts.mode != "resampled"):
        return
    how = {
        "resampled": "make them with resample_contexts(models, sentences, contexts)",
        "masked": "give crossed or natural ones",
    }.get(mode, f"collect them with collect_contexts(models, sentences, mode={mode!r})")
    raise UsageError(f"mode {mode!r} cannot be measured on contexts of mode {contexts.mode!r}; {how}")


def _mix_weights(mix: Sequence[float] | None, info: ModelInfo, chosen: tuple[int, ...]) -> Array | None:
    """Weights of the scalar mix; None if not all layers are read."""
    if chosen != info.layers:
        if mix is not None:
            raise UsageError(f"a scalar mix of {info.name} needs all its layers; choose layers='all', or leave mix out")
        return None
    weights = np.full(len(chosen), 1 / len(chosen)) if mix is None else np.asarray(mix, dtype=np.float64)
    if weights.shape != (len(chosen),) or not np.isfinite(weights).all() or not weights.any():
        raise UsageError(f"mix={mix!r} are not {len(chosen)} finite weights, one for each layer of {info.name}")
    return weights


def _sentence_count(left: int, right: int, masked: bool) -> int:
    return 3 * left + 1 if masked else left * right


def _ratios(sums: Array) -> Array:
    """Sums of components (..., 5) -> three shares and the contextual share (..., 4)."""
    variance = sums[..., :3].sum(axis=-1, keepdims=True)
    return np.concatenate([sums[..., :3] / variance, variance / sums[..., 3:4]], axis=-1)
