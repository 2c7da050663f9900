"""Mask shift: how far a word's vector moves when the word is given as the mask, or as a random word, instead of itself.

A masked language model is trained on masks and used without them (Devlin et al. 2019, section 3.1). The distance between the
two, layer by layer, is what 80/10/10 masking is meant to make small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.share_components import numerical_floor
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo
from extractors.words import MASK_WORD, as_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
Words = tuple[str, ...]

MEASURE = "mask_shift"
AS_MASK, AS_RANDOM = "given as the mask", "given as a random word"
"""The conditions of the rows."""


@dataclass(frozen=True)
class MaskShift:
    """Mask shift of one model, by layer and part; conditions `AS_MASK` and `AS_RANDOM`."""

    info: ModelInfo
    """The model."""
    statistics: Mapping[tuple[int, str], Array]
    """(layer, part) -> sums per sentence, shape (sentences, 5): squared distance of the target's vector from itself when given
    as the mask, and when given as a random word; squared distances of all its words' vectors from the corpus mean, and
    from zero; number of words."""
    targets: tuple[str, ...]
    """The target of each sentence."""
    pooling: str
    """How pieces became words; targets are one piece."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over sentences."""
    seed: int
    """Seed of sentences, targets, random words and resampling."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    def interval(self, layer: int, part: str = "whole") -> Interval:
        """Estimates with 95 % intervals over sentences.

        Parameters
        ----------
        layer, part
            A key of `statistics`.

        Returns
        -------
        Interval
            Arrays of shape (2,): given as the mask, given as a random word. NaN where all words have one vector, up to
            the network's rounding errors.
        """
        units = np.column_stack([self.statistics[layer, part], np.ones(len(self.targets))])
        floor = numerical_floor(self.info.dtype)

        def shifts(sums: Array) -> Array:
            spread, size, words, sentences = (sums[..., column : column + 1] for column in range(2, 6))
            defined = spread > floor * size
            ratio = (sums[..., :2] / sentences) / (2 * np.where(defined, spread, 1.0) / words)
            return np.where(defined, ratio, np.nan)

        return bootstrap(units, shifts, resamples=self.resamples, seed=self.seed)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`."""
        rows = []
        for layer, part in self.statistics:
            interval = self.interval(layer, part)
            for column, condition in enumerate((AS_MASK, AS_RANDOM)):
                rows.append(
                    {
                        "model": self.info.name,
                        "family": self.info.family,
                        "weights": self.info.weights,
                        "layer": layer,
                        "layer_name": self.info.layer_names[layer],
                        "part": part,
                        "kind": "analysis",
                        "measure": MEASURE,
                        "data": self.data,
                        "condition": condition,
                        "pooling": self.pooling,
                        "value": float(interval.value[column]),
                        "low": float(interval.low[column]),
                        "high": float(interval.high[column]),
                        "unit": "ratio",
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
        """Shift by layer with intervals, whole vectors, as a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        layers = sorted({layer for layer, _ in self.statistics})
        intervals = [self.interval(layer) for layer in layers]
        for column, label in enumerate((AS_MASK, AS_RANDOM)):
            axes.plot(layers, [interval.value[column] for interval in intervals], marker="o", label=label)
            axes.fill_between(
                layers,
                [interval.low[column] for interval in intervals],
                [interval.high[column] for interval in intervals],
                alpha=0.2,
            )
        axes.set(xlabel="layer", ylabel="shift (1: distance of two words)", title=self.info.name, xticks=layers)
        axes.legend()
        return figure


def mask_shift(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    layers: Layers = "all",
    pooling: str = "mean",
    number: int = 200,
    batch_size: int = 32,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> MaskShift:
    """Measure how far a word's vector moves when the word is hidden by the mask, or replaced by another word.

    In each sentence one word is the target. With h its vector, h' its vector when the mask (or a random word) stands in its
    place and everything else is as it was, and m the mean vector of all words of these sentences,

        shift = mean over sentences |h' - h|^2 / (2 * mean over words |h_w - m|^2),

    a ratio of sums. The denominator is the mean squared distance of two words picked at random, so 0 means that the
    model tells no difference, and 1 that hidden and shown are as far apart as two words of the corpus. Targets and random
    words hold a letter and are one piece of the model, as the mask is: no other word changes its place. Random words are
    drawn from the distinct words of the sentences. Intervals: bootstrap over sentences.

    Parameters
    ----------
    extractor : Extractor
        A model with a mask (`info.masks`).
    sentences : sequence of str or of sequences of str
        The corpus.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    pooling : {"first", "last", "mean", "max"}
        How pieces become words, for the mean over all words; targets are one piece.
    number : int
        Sentences, drawn at random; if there are fewer, all that have a target. Each is read three times.
    batch_size : int
        Sentences per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of sentences, targets, random words and resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence and version.

    Returns
    -------
    MaskShift
        Shifts with intervals for each layer and part.

    Raises
    ------
    UsageError
        If the model has no mask, `number` is not positive, or for an unknown layer or pooling.
    DataError
        If no sentence has a target.

    References
    ----------
    Devlin, Chang, Lee and Toutanova (2019), BERT: pre-training of deep bidirectional Transformers.
    """
    if number < 1:
        raise UsageError(f"number={number} sentences cannot be measured; give at least 1 (default 200)")
    reader = extractor.with_masks()
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    split = [as_words(sentence, where=f"sentence {i}") for i, sentence in enumerate(sentences, start=1)]
    shown, hidden, replaced, places, short = _versions(extractor, split, number, seed)
    notes = (f"{short} sentences without a word that is one piece of {info.name} passed over",) if short else ()
    keys = [
        (layer, part) for layer in chosen for part in info.parts if part == "whole" or layer > 0
    ]  # at layer 0 the halves of a concatenated model are no halves
    options: dict[str, Any] = {"layers": chosen, "pooling": pooling, "batch_size": batch_size}
    targets: list[Array] = []
    means: list[Array] = []
    spreads: list[Array] = []
    sizes: list[Array] = []
    lengths: list[int] = []
    with progress.task(f"{info.name}: mask shift", 3 * len(shown)) as task:
        # Words are summed up around their sentence's mean first: small differences of large vectors stay exact.
        for item, place in zip(reader.extract(shown, **options), places, strict=True):
            vectors = item.hidden.astype(np.float64)
            mean = vectors.mean(axis=1)
            targets.append(vectors[:, place])
            means.append(mean)
            spreads.append(np.square(vectors - mean[:, None]).sum(axis=1))
            sizes.append(np.square(vectors).sum(axis=1))
            lengths.append(vectors.shape[1])
            task.advance()
        moved = []
        for version in (hidden, replaced):
            distances = []
            for item, place, target in zip(reader.extract(version, **options), places, targets, strict=True):
                distances.append(np.square(item.hidden[:, place].astype(np.float64) - target))
                task.advance()
            moved.append(np.stack(distances))
    words = np.array(lengths, dtype=np.float64)
    own = np.stack(means)
    grand = np.einsum("s,sld->ld", words / words.sum(), own)
    spread = np.stack(spreads) + words[:, None, None] * np.square(own - grand)
    size = np.stack(sizes)
    statistics = {}
    for layer, part in keys:
        sums = [array[:, chosen.index(layer), info.parts[part]].sum(axis=-1) for array in (*moved, spread, size)]
        statistics[layer, part] = np.column_stack([*sums, words])
    kept = tuple(sentence[place] for sentence, place in zip(shown, places, strict=True))
    return MaskShift(info, statistics, kept, pooling, data, resamples, seed, notes)


def _versions(
    extractor: Extractor, sentences: Sequence[Words], number: int, seed: int
) -> tuple[list[Words], list[Words], list[Words], list[int], int]:
    """Sentences as they are, with the target masked, and with it replaced; places of the targets; how many had none."""
    types = sorted({word for sentence in sentences for word in sentence if any(map(str.isalpha, word))} - {MASK_WORD})
    # Words are tokenised one by one inside a sentence too, so that one alone tells how many pieces it has.
    alignments = extractor.align([[word] for word in types])
    single = [word for word, found in zip(types, alignments, strict=True) if len(found.word_pieces[0]) == 1]
    eligible = set(single) if len(single) > 1 else set()
    shown: list[Words] = []
    hidden: list[Words] = []
    replaced: list[Words] = []
    places: list[int] = []
    without = 0
    for index in generator_for(seed, "mask shift").permutation(len(sentences)).tolist():
        if len(shown) == number:
            break
        sentence = sentences[index]
        generator = generator_for(seed, "mask shift", index)
        found = [place for place, word in enumerate(sentence) if word in eligible]
        if not found:
            without += 1
            continue
        place = found[int(generator.integers(len(found)))]
        other = single[int(generator.integers(len(single) - 1))]
        if other == sentence[place]:
            other = single[-1]
        shown.append(sentence)
        hidden.append((*sentence[:place], MASK_WORD, *sentence[place + 1 :]))
        replaced.append((*sentence[:place], other, *sentence[place + 1 :]))
        places.append(place)
    if not shown:
        raise DataError(
            f"none of {len(sentences)} sentences has a word of letters that is one piece of {extractor.info.name} and could be "
            "replaced by another such word; give more text in the model's language"
        )
    return shown, hidden, replaced, places, without
