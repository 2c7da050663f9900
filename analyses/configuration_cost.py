"""What a model costs according to its configuration alone: sizes and operations of models that need not be here.

The published models of the story (`extractors.parameters.PUBLISHED`), or any configuration on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.cost import LENGTHS, MEASURES
from analyses.flops import architecture_of, reading_without_tokenizer
from extractors.foundation.errors import UsageError
from extractors.parameters import PUBLISHED, Configuration, ParameterCount, count_parameters, read_configuration

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CONDITION = "configuration"
"""The column ``condition`` of all rows: counted from a configuration, no weights and no text."""


@dataclass(frozen=True)
class ConfigurationCost:
    """Sizes and operations of one model."""

    parameters: ParameterCount
    """Exact."""
    lengths: tuple[int, ...]
    """Words of a sentence."""
    flops: tuple[int, ...]
    """Operations of reading a sentence of each length."""
    append: tuple[tuple[int, int], ...]
    """For each length, operations of one more word, and of reading the longer sentence from nothing."""

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number; without intervals, as nothing is estimated."""
        base = {
            "model": self.parameters.name,
            "family": self.parameters.family,
            "part": "whole",
            "kind": "analysis",
            "condition": CONDITION,
        }
        rows: list[dict[str, Any]] = [
            {**base, "measure": "parameters", "value": float(self.parameters.total)},
            {**base, "measure": "parameters_without_embeddings", "value": float(self.parameters.without_embeddings)},
        ]
        for length, flops, (append, whole) in zip(self.lengths, self.flops, self.append, strict=True):
            numbers = {"flops_per_word": flops / length, "append_flops": float(append), "append_share": append / whole}
            rows.extend({**base, "measure": name, "length": length, "value": value} for name, value in numbers.items())
        return [{**row, "unit": MEASURES[row["measure"]]} for row in rows]

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Operations per word and of one more word by sentence length, a matplotlib figure; they are exact, without intervals."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 3.2), layout="constrained")
        per_word = [flops / length for flops, length in zip(self.flops, self.lengths, strict=True)]
        curves = {"operations per word": per_word, "operations of one more word": [append for append, _ in self.append]}
        for axes, (label, values) in zip(figure.subplots(1, 2, sharey=True), curves.items(), strict=True):
            axes.plot(self.lengths, values, marker="o")
            axes.set(xscale="log", yscale="log", xlabel="words of a sentence", ylabel=label)
        figure.suptitle(f"{self.parameters.name}, {self.parameters.total:,} parameters")
        return figure


def configuration_cost(
    source: str | Path | Configuration,
    *,
    lengths: Sequence[int] = LENGTHS,
    pieces_per_word: float = 1.0,
    name: str | None = None,
) -> ConfigurationCost:
    """Count parameters and operations of a model from its configuration.

    Without a tokenizer and a text, a Transformer is taken to read `pieces_per_word` pieces for each word (and its special
    tokens), a model over characters to compute every word at full length. Lengths are not held against the position
    table: the formula says what the architecture would take.

    Parameters
    ----------
    source : str, Path or configuration
        See `extractors.parameters.read_configuration`.
    lengths : sequence of int
        Words of a sentence.
    pieces_per_word : float
        At least 1; English takes 1.1 to 1.4 with the vocabularies of the published models.
    name : str, optional
        What to call it.

    Returns
    -------
    ConfigurationCost
        Exact under these assumptions.

    Raises
    ------
    ModelError
        If there is no such configuration, or no formula for its type.
    UsageError
        If a length is not positive or `pieces_per_word` is below 1.
    """
    if not lengths or min(lengths) < 1:
        raise UsageError(f"lengths {list(lengths)} must be positive, such as 8, 16, 32")
    if not pieces_per_word >= 1:
        raise UsageError(f"pieces_per_word={pieces_per_word} is below 1: a word is at least one piece")
    configuration = read_configuration(source) if isinstance(source, str | Path) else source
    if name is None and isinstance(source, str | Path):
        name = Path(source).name
    architecture = architecture_of(configuration)

    def reading(words: int) -> Any:
        return reading_without_tokenizer(configuration, words, pieces_per_word=pieces_per_word)

    appended = []
    for length in lengths:
        whole = architecture.sentence(reading(length + 1)).total
        appended.append((architecture.append(reading(length), reading(length + 1)).total, whole))
    return ConfigurationCost(
        count_parameters(configuration, name=name),
        tuple(lengths),
        tuple(architecture.sentence(reading(length)).total for length in lengths),
        tuple(appended),
    )


def published_costs(
    names: Sequence[str] = tuple(PUBLISHED), *, lengths: Sequence[int] = LENGTHS, pieces_per_word: float = 1.0
) -> list[ConfigurationCost]:
    """`configuration_cost` of published models, by default of all that the story names; about a second together."""
    return [configuration_cost(name, lengths=lengths, pieces_per_word=pieces_per_word) for name in names]
