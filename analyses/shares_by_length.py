"""Direction shares as a function of how much context there is: the same targets with 2, 4, 8, 16 words on each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.context_variants import SIDES, common_targets, contexts_by_length
from analyses.contexts import ContextSet
from analyses.direction_shares import CROSSED, DirectionShares, direction_shares
from analyses.share_components import NaturalStatistics, natural_statistics
from extractors.base import Extractor, Sentence
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BY_LENGTH = "by context length"
"""Condition of the rows; the column `length` gives the words per side."""


@dataclass(frozen=True)
class SharesByLength:
    """Direction shares of one model for several lengths of context."""

    results: tuple[DirectionShares, ...]
    """Mode ``crossed``, by rising length (`contexts.side`)."""
    notes: tuple[str, ...] = ()
    """What was left out."""

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`: whole vectors, every layer, every length."""
        return [
            {**row, "condition": BY_LENGTH, "length": shares.contexts.side}
            for shares in self.results
            for layer in shares.layers
            for row in shares.rows_of(layer, "whole", CROSSED)
        ]

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Shares of the top layer by words per side, as a matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        sides = [shares.contexts.side for shares in self.results]
        intervals = [shares.interval(shares.layers[-1]) for shares in self.results]
        for column, label in enumerate(("left", "right", "interaction")):
            axes.plot(sides, [interval.value[column] for interval in intervals], marker="o", label=label)
            axes.fill_between(
                sides,
                [interval.low[column] for interval in intervals],
                [interval.high[column] for interval in intervals],
                alpha=0.2,
            )
        axes.set(xlabel="words of context per side", ylabel="share of contextual variance", xticks=sides)
        axes.set_title(f"{self.results[0].info.name}, layer {self.results[0].layers[-1]}")
        axes.legend()
        return figure


def shares_by_length(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    contexts: Sequence[ContextSet] | None = None,
    sides: Sequence[int] = SIDES,
    grid: int = 4,
    targets: int = 20,
    upos: Sequence[Sequence[str]] | None = None,
    layers: Layers = "all",
    pooling: str = "mean",
    batch_size: int = 32,
    natural: int = 500,
    statistics: NaturalStatistics | None = None,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> SharesByLength:
    """Measure direction shares for several lengths of context.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus: for natural sentences, and for contexts if none are given.
    contexts : sequence of ContextSet, optional
        Crossed contexts of different lengths (`contexts_by_length`, or one set and its `shorten_contexts`), the same for
        all models to be compared. Target words that not all of them have are left out, with a note.
    sides, grid, targets, upos
        For contexts collected here: words per side, parts per side, target words, part-of-speech tags; see
        `contexts_by_length`.
    layers, pooling, batch_size, natural, statistics, resamples, seed, data, progress
        As for `direction_shares`.

    Returns
    -------
    SharesByLength
        Shares with intervals for each length and layer.

    Raises
    ------
    UsageError, DataError
        As `direction_shares` and `contexts_by_length`; also for contexts of equal length.
    """
    if contexts is None:
        contexts = contexts_by_length(
            [extractor], sentences, sides=sides, grid=grid, targets=targets, seed=seed, upos=upos
        )
    lengths = [one.side for one in contexts]
    if not lengths or len(set(lengths)) < len(lengths):
        raise UsageError(f"contexts of lengths {lengths}: give at least one set, each of another length")
    contexts = common_targets(contexts)
    chosen = select_layers(layers, extractor.info.layer_names, model=extractor.info.name)
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
    results = tuple(
        direction_shares(
            extractor,
            sentences,
            contexts=one,
            mode=CROSSED,
            layers=chosen,
            pooling=pooling,
            batch_size=batch_size,
            statistics=statistics,
            resamples=resamples,
            seed=seed,
            data=data,
            progress=progress,
        )
        for one in contexts
    )
    return SharesByLength(results, tuple(dict.fromkeys(note for one in contexts for note in one.notes)))
