"""Direction shares: how much of a word's contextual variance is due to its left, its right, and both in interaction.

Functional ANOVA over crossed contexts with generalised Sobol indices (Sobol 1993; Gamboa et al. 2014). A concatenation
of two one-directional models has no interaction share whatever its weights; a model that mixes both sides can have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.contexts import ContextSet, TargetContexts, collect_contexts, piece_counts
from analyses.variance import two_way_effects, variance_components
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo
from extractors.words import as_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

MODES = ("crossed",)
"""How contexts are put together; left and right parts drawn independently of each other."""

CROSSED, STANDARDISED, CONTROL = "crossed", "crossed standardised", "layer-normed additive"
"""The conditions of the rows, see `DirectionShares`."""

COMPONENTS = ("left", "right", "interaction", "second_moment", "raw_second_moment")
"""What is kept per target, each a sum over dimensions: V_L, V_R, V_LR, the mean over the grid of |h - corpus mean|^2,
and the mean of |h|^2."""

_SHARES = ("direction_share_left", "direction_share_right", "direction_share_interaction")
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_FLOOR_EPSILONS = 32

Key = tuple[int, str, str]


@dataclass(frozen=True)
class DirectionShares:
    """Direction shares of one model, by layer and part.

    Conditions: ``crossed`` (vectors as they are), ``crossed standardised`` (each dimension divided by its standard
    deviation over natural sentences, so that a few huge dimensions do not decide), ``layer-normed additive`` (a
    control: layer norm of the purely additive part of the same grids, i.e. the interaction that a normalisation alone
    would make).
    """

    info: ModelInfo
    """The model."""
    contexts: ContextSet
    """Targets and contexts."""
    components: Mapping[Key, Array]
    """(layer, part, condition) -> array of shape (targets, 5), columns `COMPONENTS`; the units of the bootstrap, and
    what paired comparisons of models on the same contexts start from."""
    pooling: str
    """How the target's pieces became one vector."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over targets."""
    seed: int
    """Seed of contexts, natural sentences and resampling."""

    @property
    def floor(self) -> float:
        """Relative numerical floor: a variance under `floor` times the mean of |h|^2 is rounding noise; shares are
        missing.

        It is (32 eps)^2, eps the machine epsilon of the network's precision: rounding errors are proportional to the
        size of the vectors (not to their distance from the corpus mean), and grow to some ten eps through a few layers.
        """
        return numerical_floor(self.info.dtype)

    def interval(self, layer: int, part: str = "whole", condition: str = "crossed") -> Interval:
        """Estimate with 95 % interval over targets.

        Parameters
        ----------
        layer, part, condition
            A key of `components`.

        Returns
        -------
        Interval
            Arrays of shape (4,): shares of left, right and interaction, and the contextual share. Shares are NaN where
            the contextual variance is at the numerical floor.
        """
        units = self.components[layer, part, condition]
        result = bootstrap(units, _ratios, resamples=self.resamples, seed=self.seed)
        # What is noise as it stands stays noise when divided or normed, however large it becomes by that.
        for tested in (units, self.components[layer, part, CROSSED]):
            sums = tested.sum(axis=0)
            if sums[:3].sum() <= self.floor * sums[4]:
                for array in (result.value, result.low, result.high):
                    array[:3] = np.nan
        return result

    def slope(self, part: str = "whole", condition: str = CROSSED) -> Interval | None:
        """Least-squares slope of the interaction share over layers 1..L, with 95 % interval over targets.

        Each resample of targets gives a whole curve and so a slope: the layers of one model are not independent.

        Parameters
        ----------
        part, condition
            As for `interval`.

        Returns
        -------
        Interval or None
            Arrays of shape (1,), in share per layer; None if fewer than two contextual layers have a defined share.
        """
        layers = [
            layer
            for layer, other, variant in self.components
            if layer > 0
            and (other, variant) == (part, condition)
            and np.isfinite(self.interval(layer, part, condition).value[2])
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

        return bootstrap(units, fitted, resamples=self.resamples, seed=self.seed)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`."""
        rows = [row for key in self.components for row in self._layer_rows(*key)]
        for part, condition in dict.fromkeys((part, condition) for _, part, condition in self.components):
            slope = self.slope(part, condition) if condition != CONTROL else None
            if slope is not None:
                rows.append(
                    {
                        **self._context(part, condition),
                        "measure": "direction_share_interaction_slope",
                        "value": float(slope.value[0]),
                        "low": float(slope.low[0]),
                        "high": float(slope.high[0]),
                        "unit": "share per layer",
                        "n": slope.n,
                    }
                )
        return rows

    def _context(self, part: str, condition: str) -> dict[str, Any]:
        return {
            "model": self.info.name,
            "family": self.info.family,
            "weights": self.info.weights,
            "part": part,
            "kind": "analysis",
            "data": self.data,
            "condition": condition,
            "pooling": self.pooling,
            "seed": self.seed,
        }

    def _layer_rows(self, layer: int, part: str, condition: str) -> list[dict[str, Any]]:
        interval = self.interval(layer, part, condition)
        measures = ("direction_share_interaction",) if condition == CONTROL else (*_SHARES, "contextual_share")
        rows = []
        for measure in measures:
            column = (*_SHARES, "contextual_share").index(measure)
            rows.append(
                {
                    **self._context(part, condition),
                    "layer": layer,
                    "layer_name": self.info.layer_names[layer],
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
        layers = sorted({layer for layer, _, _ in self.components})
        intervals = [self.interval(layer) for layer in layers]
        for column, label in enumerate(("left", "right", "interaction")):
            axes.plot(layers, [interval.value[column] for interval in intervals], marker="o", label=label)
            axes.fill_between(
                layers,
                [interval.low[column] for interval in intervals],
                [interval.high[column] for interval in intervals],
                alpha=0.2,
            )
        axes.set(xlabel="layer", ylabel="share of contextual variance", title=self.info.name, xticks=layers)
        axes.legend()
        return figure


def direction_shares(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    contexts: ContextSet | None = None,
    layers: Layers = "all",
    pooling: str = "mean",
    mode: str = "crossed",
    batch_size: int = 32,
    natural: int = 500,
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
    In a left-to-right model that reads nothing before a sentence (GPT-2) the first word is the attention sink, with a vector
    many times as long as others: it is left out of mean and standard deviations.

    One grid is in memory at a time. ELMo's halves at layer 0, the same context-free vector twice, are left out.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus: for natural sentences, and for contexts if none are given.
    contexts : ContextSet, optional
        Give the same set to several models to compare them; by default collected for this model with `seed`.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of the target become one vector.
    mode : {"crossed"}
        How contexts are put together.
    batch_size : int
        Sentences per forward pass.
    natural : int
        Number of natural sentences (drawn at random; all, if there are fewer) for mean and standard deviations.
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
        For an unknown mode, layer or pooling, or fewer than one natural sentence.
    DataError
        If the corpus holds fewer than two targets, or `contexts` do not have constant lengths in this model's pieces.

    References
    ----------
    Sobol (1993), Sensitivity estimates for nonlinear mathematical models. Gamboa, Janon, Klein and Lagnoux (2014),
    Sensitivity analysis for multidimensional and functional outputs.
    """
    if mode not in MODES:
        raise UsageError(f"mode {mode!r} is unknown; choose one of {', '.join(MODES)}")
    if natural < 1:
        raise UsageError(f"natural={natural} sentences cannot give a corpus mean; give at least 1 (default 500)")
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    if contexts is None:
        contexts = collect_contexts([extractor], sentences, seed=seed)
        for note in contexts.notes:
            progress.note(f"{info.name}: {note}")
    if not sentences:
        raise DataError("the corpus is empty: natural sentences are needed for the corpus mean; give sentences")
    drawn = generator_for(seed, "natural sentences").permutation(len(sentences))[:natural]
    sample = [as_words(sentences[i], where=f"sentence {i + 1}") for i in sorted(drawn)]
    mean, weight = _natural_statistics(extractor, sample, chosen, pooling, batch_size, progress)

    keys = [
        (layer, part, condition)
        for layer in chosen
        for part in info.parts
        if part == "whole" or layer > 0
        for condition in (CROSSED, STANDARDISED, CONTROL)
    ]
    units: dict[Key, list[Array]] = {key: [] for key in keys}
    total = sum(len(target.left) * len(target.right) for target in contexts.targets)
    with progress.task(f"{info.name}: direction shares", total) as task:
        for target in contexts.targets:
            grid = _grid(extractor, target, chosen, pooling, batch_size)
            for i, layer in enumerate(chosen):
                measured = _components(grid[i], mean[i])
                for part, dimensions in info.parts.items():
                    if part != "whole" and layer == 0:
                        continue
                    here = measured[:, dimensions]
                    units[layer, part, CROSSED].append(here.sum(axis=1))
                    units[layer, part, STANDARDISED].append(here @ weight[i, dimensions])
                    control = _layer_norm(two_way_effects(grid[i][..., dimensions]).additive)
                    units[layer, part, CONTROL].append(_components(control, np.zeros(control.shape[-1])).sum(axis=1))
            task.advance(len(target.left) * len(target.right))
    return DirectionShares(
        info=info,
        contexts=contexts,
        components={key: np.stack(values) for key, values in units.items()},
        pooling=pooling,
        data=data,
        resamples=resamples,
        seed=seed,
    )


def numerical_floor(dtype: str) -> float:
    """Relative variance below which differences are rounding noise in a network of that precision: (32 eps)^2."""
    return (_FLOOR_EPSILONS * _EPSILON[dtype]) ** 2


def _grid(
    extractor: Extractor, target: TargetContexts, layers: tuple[int, ...], pooling: str, batch_size: int
) -> Array:
    """Vectors of the target in all composed sentences, shape (layers, K_L, K_R, dim), float64."""
    sentences = list(target.sentences())
    grid: Array | None = None
    lengths = set()
    for number, item in enumerate(extractor.extract(sentences, layers=layers, pooling=pooling, batch_size=batch_size)):
        vectors = item.hidden[:, target.position]
        if grid is None:
            grid = np.empty((vectors.shape[0], len(sentences), vectors.shape[1]), dtype=np.float64)
        grid[:, number] = vectors
        lengths.add(piece_counts(item.alignment, target.position))
        if len(lengths) > 1 or item.windows > 1:
            raise DataError(
                f"the contexts of {target.word!r} do not have one constant length in the pieces of "
                f"{extractor.info.name}, or are longer than it reads; collect contexts for all models together: "
                "collect_contexts([model, other_model], sentences)"
            )
    assert grid is not None
    return grid.reshape(grid.shape[0], len(target.left), len(target.right), grid.shape[2])


def _components(grid: Array, mean: Array) -> Array:
    """The five `COMPONENTS` per dimension, shape (5, dim)."""
    variances = variance_components(grid)
    moments = [np.square(grid - mean).mean(axis=(0, 1)), np.square(grid).mean(axis=(0, 1))]
    return np.stack([variances.left, variances.right, variances.interaction, *moments])


def _ratios(sums: Array) -> Array:
    """Sums of components (..., 5) -> three shares and the contextual share (..., 4)."""
    variance = sums[..., :3].sum(axis=-1, keepdims=True)
    return np.concatenate([sums[..., :3] / variance, variance / sums[..., 3:4]], axis=-1)


def _layer_norm(vectors: Array) -> Array:
    """Layer norm over the last axis, without gain and bias; a constant vector becomes zero."""
    centred = vectors - vectors.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True))
    normed: Array = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
    return normed


def _natural_statistics(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    layers: tuple[int, ...],
    pooling: str,
    batch_size: int,
    progress: Progress,
) -> tuple[Array, Array]:
    """Mean of words in natural sentences, and the weights of standardisation (1 / variance), both (layers, dim).

    A dimension whose variance is at the numerical floor, relative to its own mean square or to that of the average
    dimension, gets weight 0: it carries rounding noise only.

    Raises
    ------
    DataError
        If only first words of a model that reads nothing before them are given.
    """
    causal = extractor.info.directionality == "left-to-right"
    count = 0
    mean = np.zeros((len(layers), 1))
    squares = np.zeros((len(layers), 1))
    for item in extractor.extract(sentences, layers=layers, pooling=pooling, batch_size=batch_size, progress=progress):
        vectors = item.hidden.astype(np.float64)
        if causal and item.alignment.word_pieces[0][0] == 0:
            vectors = vectors[:, 1:]
        n = vectors.shape[1]
        if n == 0:
            continue
        # Merging means and squared deviations (Chan, Golub & LeVeque 1979): E h^2 - m^2 would lose constant dimensions.
        own = vectors.mean(axis=1)
        delta = own - mean
        squares = squares + np.square(vectors - own[:, None]).sum(axis=1) + delta**2 * (count * n / (count + n))
        mean = mean + delta * (n / (count + n))
        count += n
    if count == 0:
        raise DataError(
            f"all {len(sentences)} natural sentences have one word only; give longer sentences, or more of them"
        )
    variance = squares / count
    size = variance + mean**2
    floor = numerical_floor(extractor.info.dtype) * np.maximum(size, size.mean(axis=1, keepdims=True))
    weight = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > floor)
    return mean, weight
