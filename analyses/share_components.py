"""From sentences to variance components: reads the composed sentences of each target and keeps a few sums per target.

All targets' sentences go through one stream, so that batches are full whatever the size of a grid; one grid is in memory
at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyses.contexts import ContextSet, TargetContexts, piece_counts
from analyses.masking import side_masks
from analyses.variance import VarianceComponents, presence_effects, two_way_effects, variance_components
from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo, SentenceRepresentation
from extractors.words import as_words

Array = npt.NDArray[np.float64]

Key = tuple[int | None, str, str]
"""(layer, part, condition); the scalar mix of all layers has no layer."""

CROSSED, STANDARDISED, CONTROL = "crossed", "crossed standardised", "layer-normed additive"
MIX, NORMED_MIX = "scalar mix", "scalar mix layer-normed"

COMPONENTS = ("left", "right", "interaction", "second_moment", "raw_second_moment")
"""What is kept per target, each a sum over dimensions: V_L, V_R, V_LR, the mean over the grid of |h - corpus mean|^2,
and the mean of |h|^2."""

_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_FLOOR_EPSILONS = 32
_NORM_EPSILON = 1e-12
"""Added to the variance before the square root in the layer norm of AllenNLP's scalar mix."""


def numerical_floor(dtype: str) -> float:
    """Relative variance below which differences are rounding noise in a network of that precision: (32 eps)^2."""
    return (_FLOOR_EPSILONS * _EPSILON[dtype]) ** 2


@dataclass(frozen=True)
class NaturalStatistics:
    """What is known of the words of natural sentences, by layer; may serve several measurements of one model."""

    info: ModelInfo
    """The model."""
    layers: tuple[int, ...]
    """Layer numbers of the first axis of the arrays."""
    pooling: str
    """How pieces became words."""
    mean: Array
    """Mean vector of a word, shape (layers, dim)."""
    weight: Array
    """1 / variance of each dimension, shape (layers, dim); 0 where the variance is at the numerical floor."""


def natural_statistics(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    layers: Layers = "all",
    pooling: str = "mean",
    natural: int = 500,
    batch_size: int = 32,
    seed: int = 0,
    progress: Progress = SILENT,
) -> NaturalStatistics:
    """Mean of words in natural sentences, and the weights of standardisation (1 / variance).

    A dimension whose variance is at the numerical floor, relative to its own mean square or to that of the average
    dimension, gets weight 0: it carries rounding noise only. In a left-to-right model that reads nothing before a
    sentence (GPT-2) the first word is the attention sink, with a vector many times as long as others: it is left out.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus.
    layers, pooling, batch_size, progress
        As in `Extractor.extract`.
    natural : int
        Sentences drawn at random (all, if there are fewer).
    seed : int
        Seed of the draw.

    Returns
    -------
    NaturalStatistics
        Mean and weights.

    Raises
    ------
    UsageError
        For fewer than one sentence, or an unknown layer or pooling.
    DataError
        If the corpus is empty, or only first words of a model that reads nothing before them are given.
    """
    if natural < 1:
        raise UsageError(f"natural={natural} sentences cannot give a corpus mean; give at least 1 (default 500)")
    if not sentences:
        raise DataError("the corpus is empty: natural sentences are needed for the corpus mean; give sentences")
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    drawn = generator_for(seed, "natural sentences").permutation(len(sentences))[:natural]
    sample = [as_words(sentences[i], where=f"sentence {i + 1}") for i in sorted(drawn)]
    causal = info.directionality == "left-to-right"
    count = 0
    mean = np.zeros((len(chosen), 1))
    squares = np.zeros((len(chosen), 1))
    for item in extractor.extract(sample, layers=chosen, pooling=pooling, batch_size=batch_size, progress=progress):
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
            f"all {len(sample)} natural sentences have one word only; give longer sentences, or more of them"
        )
    variance = squares / count
    size = variance + mean**2
    floor = numerical_floor(info.dtype) * np.maximum(size, size.mean(axis=1, keepdims=True))
    weight = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > floor)
    return NaturalStatistics(info, chosen, pooling, mean, weight)


@dataclass(frozen=True)
class Cells:
    """The vectors of one target in all its sentences."""

    vectors: Array
    """(layers, K_L, K_R, dim); of masked sides (layers, K, 2, 2, dim), see `presence_effects`."""
    moments: Array | None = None
    """Mean and standard deviation of each sentence over its words and dimensions, (layers, K_L, K_R, 2)."""


def read_grids(
    extractor: Extractor, contexts: ContextSet, layers: tuple[int, ...], pooling: str, batch_size: int, *, moments: bool
) -> Iterator[Cells]:
    """Read every target's grid of composed sentences.

    Yields
    ------
    Cells
        One per target, in order, float64.

    Raises
    ------
    DataError
        If the lengths of one grid are not constant in the model's pieces, or beyond what it reads.
    """
    composed = (words for target in contexts.targets for words in target.sentences())
    stream = extractor.extract(composed, layers=layers, pooling=pooling, batch_size=batch_size)
    for target in contexts.targets:
        shape = len(target.left), len(target.right)
        cells = np.empty((len(layers), shape[0] * shape[1], extractor.info.hidden_size))
        spread = np.empty((len(layers), shape[0] * shape[1], 2)) if moments else None
        checked = _Lengths(extractor.info, target)
        for number in range(shape[0] * shape[1]):
            item = next(stream)
            checked(item, target.position)
            cells[:, number] = item.hidden[:, target.position]
            if spread is not None:
                spread[:, number, 0] = item.hidden.mean(axis=(1, 2), dtype=np.float64)
                spread[:, number, 1] = item.hidden.std(axis=(1, 2), dtype=np.float64)
        yield Cells(
            cells.reshape(len(layers), *shape, -1), None if spread is None else spread.reshape(len(layers), *shape, 2)
        )


def read_masked(
    extractor: Extractor, contexts: ContextSet, layers: tuple[int, ...], pooling: str, batch_size: int
) -> Iterator[Cells]:
    """Read every target's pairs of sides, each side present or masked; as `read_grids`."""
    masks = side_masks(extractor)
    composed = (words for target in contexts.targets for words, _ in masks.sentences(target))
    stream = masks.reader.extract(composed, layers=layers, pooling=pooling, batch_size=batch_size)
    for target in contexts.targets:
        checked = _Lengths(extractor.info, target)
        vectors = []
        for _, position in masks.sentences(target):
            item = next(stream)
            checked(item, position)
            vectors.append(item.hidden[:, position].astype(np.float64))
        neither = np.broadcast_to(vectors[0], (len(target.left), *vectors[0].shape))
        left_only, right_only, both = (np.stack(vectors[start::3]) for start in (1, 2, 3))
        cells = np.stack([np.stack([neither, right_only], axis=2), np.stack([left_only, both], axis=2)], axis=2)
        yield Cells(np.moveaxis(cells, 0, 1))


class _Lengths:
    """Refuses sentences of one target that differ in length."""

    def __init__(self, info: ModelInfo, target: TargetContexts) -> None:
        self.info, self.target = info, target
        self.seen: set[object] = set()

    def __call__(self, item: SentenceRepresentation, position: int) -> None:
        self.seen.add(piece_counts(item.alignment, position))
        if len(self.seen) > 1 or item.windows > 1:
            raise DataError(
                f"the contexts of {self.target.word!r} do not have one constant length in the pieces of "
                f"{self.info.name}, or are longer than it reads; collect contexts for all models together: "
                "collect_contexts([model, other_model], sentences)"
            )


def crossed_components(
    cells: Cells, statistics: NaturalStatistics, parts: Mapping[str, slice], mix: Array | None
) -> Iterator[tuple[Key, Array]]:
    """Components of a grid of crossed contexts: as it is, standardised, its layer-normed additive part, scalar mixes.

    Parameters
    ----------
    cells : Cells
        With `moments` if there is a mix.
    statistics : NaturalStatistics
        Of the same layers.
    parts : mapping of str to slice
        Parts of the dimensions.
    mix : array of shape (layers,) or None
        Weights of the scalar mix.

    Yields
    ------
    key, array of shape (5,)
        The `COMPONENTS`.
    """
    for i, layer in enumerate(statistics.layers):
        grid = cells.vectors[i]
        measured = _components(grid, variance_components(grid), statistics.mean[i])
        additive = two_way_effects(grid).additive
        for part, dimensions in _parts(parts, layer):
            yield (layer, part, CROSSED), measured[:, dimensions].sum(axis=1)
            yield (layer, part, STANDARDISED), measured[:, dimensions] @ statistics.weight[i, dimensions]
            control = _layer_norm(additive[..., dimensions])
            yield (layer, part, CONTROL), _components(control, variance_components(control), 0.0).sum(axis=1)
    if mix is None:
        return
    assert cells.moments is not None
    mean, deviation = cells.moments[..., :1], np.sqrt(np.square(cells.moments[..., 1:]) + _NORM_EPSILON)
    mixed: dict[str, tuple[Array, Array | float]] = {
        MIX: (np.tensordot(mix, cells.vectors, axes=1), mix @ statistics.mean),
        NORMED_MIX: (np.tensordot(mix, (cells.vectors - mean) / deviation, axes=1), 0.0),
    }
    for condition, (grid, centre) in mixed.items():
        measured = _components(grid, variance_components(grid), centre)
        for part, dimensions in parts.items():
            yield (None, part, condition), measured[:, dimensions].sum(axis=1)


def plain_components(
    cells: Cells, statistics: NaturalStatistics, parts: Mapping[str, slice], condition: str, *, masked: bool
) -> Iterator[tuple[Key, Array]]:
    """Components of a grid, or of pairs with masked sides (means over pairs), under one condition."""
    for i, layer in enumerate(statistics.layers):
        values = cells.vectors[i]
        if masked:
            effects = presence_effects(values)
            variances = VarianceComponents(
                effects.left.mean(axis=0), effects.right.mean(axis=0), effects.interaction.mean(axis=0)
            )
            values = values.reshape(-1, 2, values.shape[-1])
        else:
            variances = variance_components(values)
        measured = _components(values, variances, statistics.mean[i])
        for part, dimensions in _parts(parts, layer):
            yield (layer, part, condition), measured[:, dimensions].sum(axis=1)


def _parts(parts: Mapping[str, slice], layer: int) -> Iterator[tuple[str, slice]]:
    """Halves say nothing at layer 0: they are the same context-free vector twice."""
    return ((part, dimensions) for part, dimensions in parts.items() if part == "whole" or layer > 0)


def _components(grid: Array, variances: VarianceComponents, mean: Array | float) -> Array:
    """The five `COMPONENTS` per dimension, shape (5, dim)."""
    moments = [np.square(grid - mean).mean(axis=(0, 1)), np.square(grid).mean(axis=(0, 1))]
    return np.stack([variances.left, variances.right, variances.interaction, *moments])


def _layer_norm(vectors: Array) -> Array:
    """Layer norm over the last axis, without gain and bias; a constant vector becomes zero."""
    centred = vectors - vectors.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True))
    normed: Array = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
    return normed
