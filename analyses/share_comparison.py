"""Models against each other on the same targets: interaction gap, main effects of the 2 x 2, mixing onset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from analyses.direction_shares import CONTROL, CROSSED, LEAST_TARGETS, STANDARDISED, DirectionShares, bounded
from analyses.factorial import (
    ARCHITECTURES,
    CELLS,
    DIRECTIONALITIES,
    Cell,
    MainEffects,
    main_effects,
    paired_difference,
)
from extractors.foundation.bootstrap import Interval
from extractors.foundation.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

DELTA = 0.01
"""An interaction share that does not rise above this is not called an interaction."""

QUANTITY = "direction_share_interaction"
"""What the comparisons are about: the column `task` of the main effects."""

_LSTM_FAMILIES = frozenset({"elmo", "bilstm-mlm"})


@dataclass(frozen=True)
class ShareComparison:
    """Comparisons of several models at their top layers; see `compare_shares`."""

    gaps: tuple[tuple[DirectionShares, DirectionShares, str, Interval], ...]
    """(deep model, shallow model, condition, interaction gap)."""
    effects: tuple[tuple[tuple[DirectionShares, ...], str, MainEffects], ...]
    """(the four models in the order of `analyses.factorial.CELLS`, condition, effects)."""
    onsets: tuple[tuple[DirectionShares, int | None], ...]
    """(model, mixing onset)."""
    notes: tuple[str, ...]
    """What could not be compared, and why."""

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`."""
        rows: list[dict[str, Any]] = []
        for deep, shallow, condition, gap in self.gaps:
            top = deep.layers[-1]
            rows.append(
                {
                    **deep.columns("whole", condition),
                    "layer": top,
                    "layer_name": deep.info.layer_names[top],
                    "measure": "interaction_gap",
                    "reference": shallow.info.name,
                    "value": float(gap.value[0]),
                    "low": float(gap.low[0]),
                    "high": float(gap.high[0]),
                    "unit": "share",
                    "n": gap.n,
                }
            )
        for models, condition, effects in self.effects:
            shared = models[0].columns("whole", condition)
            rows += effects.rows(**{**shared, "model": None, "family": None, "task": QUANTITY, "unit": "share"})
        for shares, onset in self.onsets:
            rows.append(
                {
                    **shares.columns(),
                    "measure": "mixing_onset",
                    "value": float("nan") if onset is None else float(onset),
                    "unit": "layer",
                    "n": len(shares.contexts.targets),
                }
            )
        return rows

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Gaps and main effects of trained models, mode as measured, with intervals, as a matplotlib figure."""
        from matplotlib.figure import Figure

        found = [
            (f"{deep.info.name} − {shallow.info.name}", gap.value[0], gap.low[0], gap.high[0])
            for deep, shallow, condition, gap in self.gaps
            if condition == deep.mode and deep.info.weights == "trained"
        ]
        for models, condition, effects in self.effects:
            if condition == models[0].mode and models[0].info.weights == "trained":
                labels = ("directionality", "architecture", "their interaction")
                found += zip(labels, effects.effects.value, effects.effects.low, effects.effects.high, strict=True)
        figure = Figure(figsize=(6, 1 + 0.4 * len(found)), layout="constrained")
        axes = figure.add_subplot()
        for place, (_, value, low, high) in enumerate(found):
            axes.plot([low, high], [place, place], color="C0")
            axes.plot([value], [place], marker="o", color="C0")
        axes.axvline(0, color="0.5", linewidth=0.8)
        axes.set_yticks(range(len(found)), labels=[label for label, *_ in found])
        axes.invert_yaxis()
        axes.set_xlabel("difference of interaction shares, top layer")
        return figure


def interaction_share(sums: Array) -> Array:
    """S_LR from sums of `COMPONENTS`, shape (..., 5) -> (...); an estimate for `analyses.factorial`."""
    return np.asarray(sums[..., 2] / sums[..., :3].sum(axis=-1))


def interaction_gap(deep: DirectionShares, shallow: DirectionShares, *, condition: str | None = None) -> Interval:
    """S_LR(deep) - S_LR(shallow) at the top layers, with a paired 95 % interval over the targets that both have read.

    Parameters
    ----------
    deep, shallow : DirectionShares
        Of the same contexts and mode.
    condition : str, optional
        ``crossed`` or ``crossed standardised``; by default that of the mode.

    Returns
    -------
    Interval
        Arrays of shape (1,); NaN where one of the shares is undefined, low and high also with fewer than
        `LEAST_TARGETS` targets.

    Raises
    ------
    UsageError
        If contexts or modes differ.
    """
    _check_same([deep, shallow])
    first, second = (_top(shares, condition) for shares in (deep, shallow))
    gap = bounded(paired_difference(first, second, interaction_share, resamples=deep.resamples, seed=deep.seed))
    return gap if _all_defined([deep, shallow], condition) else _undefined(gap)


def share_effects(cells: Mapping[Cell, DirectionShares], *, condition: str | None = None) -> MainEffects:
    """Main effects of directionality and architecture, and their interaction, on S_LR at the top layer of the 2 x 2.

    Parameters
    ----------
    cells : mapping of (architecture, directionality) to DirectionShares
        The four `analyses.factorial.CELLS`, of the same contexts and mode.
    condition : str, optional
        ``crossed`` or ``crossed standardised``; by default that of the mode.

    Returns
    -------
    MainEffects
        With intervals over targets, all models resampled together; NaN where one of the shares is undefined, low and
        high also with fewer than `LEAST_TARGETS` targets.

    Raises
    ------
    UsageError
        If a cell is missing, or contexts or modes differ.
    """
    if set(cells) != set(CELLS):
        raise UsageError(
            f"the 2 x 2 needs the cells {', '.join(map(' '.join, CELLS))}; got {', '.join(map(' '.join, cells))}"
        )
    models = [cells[cell] for cell in CELLS]
    _check_same(models)
    units = {cell: _top(shares, condition) for cell, shares in cells.items()}
    found = main_effects(units, interaction_share, resamples=models[0].resamples, seed=models[0].seed)
    found = replace(found, effects=bounded(found.effects), cells=bounded(found.cells))
    return found if _all_defined(models, condition) else replace(found, effects=_undefined(found.effects))


def mixing_onset(
    shares: DirectionShares, *, untrained: DirectionShares | None = None, delta: float = DELTA
) -> int | None:
    """The first layer at which left and right interact.

    That is: the lower bound of S_LR is above `delta`, above the upper bound of the untrained copy at that layer, and above
    that of the control ``layer-normed additive``, whole vectors of mode ``crossed``. The onset is a decision made from
    intervals and has none of its own: it says at which layer an interaction is first shown, not where it sets in within
    some margin, and more targets, hence narrower intervals, may show it earlier.

    Parameters
    ----------
    shares : DirectionShares
        Of mode ``crossed``.
    untrained : DirectionShares, optional
        The untrained copy on the same contexts.
    delta : float
        The least share called an interaction.

    Returns
    -------
    int or None
        The layer; None if there is none, or if there are no intervals to decide by (fewer than `LEAST_TARGETS` targets).

    Raises
    ------
    UsageError
        If the mode is not ``crossed``, or contexts differ.
    """
    if shares.mode != CROSSED:
        raise UsageError(f"the mixing onset is defined for mode crossed, not {shares.mode}")
    if untrained is not None:
        _check_same([shares, untrained])
    for layer in shares.layers:
        if layer == 0 or not shares.is_defined(layer):
            continue
        bars = [delta, shares.interval(layer, condition=CONTROL).high[2]]
        if untrained is not None and layer in untrained.layers:
            bars.append(untrained.interval(layer).high[2])
        if shares.interval(layer).low[2] > np.nanmax(bars):
            return layer
    return None


class Described(Protocol):
    """What decides the cell of a model."""

    @property
    def family(self) -> str:
        """As in `ModelInfo`."""

    @property
    def directionality(self) -> str:
        """As in `ModelInfo`."""


def two_by_two(infos: Sequence[Described]) -> dict[Cell, int] | None:
    """Arrange models in the 2 x 2, by family and directionality.

    Parameters
    ----------
    infos : sequence of ModelInfo, or of anything with its `family` and `directionality`
        The models of one run.

    Returns
    -------
    dict or None
        (architecture, directionality) -> number of the model, from 0; None unless each cell has exactly one. Shallow is
        two one-directional models side by side, deep is one that reads both sides in its layers; others are in no cell.
    """
    kinds = {"concatenated": DIRECTIONALITIES[0], "bidirectional": DIRECTIONALITIES[1]}
    found: dict[Cell, list[int]] = {cell: [] for cell in CELLS}
    for number, info in enumerate(infos):
        if info.directionality in kinds:
            architecture = ARCHITECTURES[info.family not in _LSTM_FAMILIES]
            found[architecture, kinds[info.directionality]].append(number)
    if any(len(numbers) != 1 for numbers in found.values()):
        return None
    return {cell: numbers[0] for cell, numbers in found.items()}


def compare_shares(results: Sequence[DirectionShares], *, design: Mapping[Cell, str] | None = None) -> ShareComparison:
    """Compare all models of a run that were measured on the same contexts.

    Interaction gaps of every deep model (reads both sides in its layers) against every shallow one (two one-directional
    models side by side), trained with trained and untrained with untrained; main effects where there is a 2 x 2; the
    mixing onset of every trained model, against its untrained copy.

    Parameters
    ----------
    results : sequence of DirectionShares
        Of any modes, seeds and models, untrained copies among them; what belongs together is found by contexts, mode,
        pooling and seed.
    design : mapping of (architecture, directionality) to str, optional
        Names of the four models; by default `two_by_two`.

    Returns
    -------
    ShareComparison
        What could be compared.
    """
    groups: dict[Any, list[DirectionShares]] = {}
    for shares in results:
        groups.setdefault((shares.mode, shares.pooling, shares.seed, shares.contexts.texts), []).append(shares)
    gaps, effects, onsets, notes = [], [], [], []
    for group in groups.values():
        conditions = (CROSSED, STANDARDISED) if group[0].mode == CROSSED else (group[0].mode,)
        for weights in ("trained", "untrained"):
            models = [shares for shares in group if shares.info.weights == weights]
            deep = [shares for shares in models if shares.info.directionality == "bidirectional"]
            shallow = [shares for shares in models if shares.info.directionality == "concatenated"]
            gaps += [
                (one, other, condition, interaction_gap(one, other, condition=condition))
                for one in deep
                for other in shallow
                for condition in conditions
            ]
            cells = _cells(models, design)
            if cells is not None:
                four = tuple(cells[cell] for cell in CELLS)
                effects += [(four, condition, share_effects(cells, condition=condition)) for condition in conditions]
        if group[0].mode == CROSSED:
            copies = {shares.info.name: shares for shares in group if shares.info.weights == "untrained"}
            for shares in group:
                if shares.info.weights != "trained":
                    continue
                if len(shares.contexts.targets) < LEAST_TARGETS:
                    notes.append(
                        f"no mixing onset: it is decided by intervals, which need {LEAST_TARGETS} target words"
                    )
                    continue
                copy = copies.get(shares.info.name)
                onsets.append((shares, mixing_onset(shares, untrained=copy)))
                if copy is None:
                    notes.append(f"mixing onset of {shares.info.name} without an untrained copy to compare with")
    if design is not None and not effects:
        notes.append("no main effects: not all four models of the design were measured on the same contexts")
    return ShareComparison(tuple(gaps), tuple(effects), tuple(onsets), tuple(dict.fromkeys(notes)))


def _cells(models: Sequence[DirectionShares], design: Mapping[Cell, str] | None) -> dict[Cell, DirectionShares] | None:
    if design is None:
        places = two_by_two([shares.info for shares in models])
        return None if places is None else {cell: models[number] for cell, number in places.items()}
    by_name = {shares.info.name: shares for shares in models}
    if not set(design.values()) <= by_name.keys():
        return None
    return {cell: by_name[name] for cell, name in design.items()}


def _check_same(results: Sequence[DirectionShares]) -> None:
    first = results[0]
    for other in results[1:]:
        if (other.mode, other.contexts.texts) != (first.mode, first.contexts.texts):
            raise UsageError(
                f"{first.info.name} and {other.info.name} were not measured on the same contexts; give direction_shares "
                "one set for both: collect_contexts([model, other_model], sentences)"
            )


def _top(shares: DirectionShares, condition: str | None) -> Array:
    return shares.components[shares.layers[-1], "whole", condition or shares.mode]


def _all_defined(results: Sequence[DirectionShares], condition: str | None) -> bool:
    return all(shares.is_defined(shares.layers[-1], "whole", condition) for shares in results)


def _undefined(interval: Interval) -> Interval:
    missing = np.full_like(interval.value, np.nan)
    return Interval(missing, missing, missing, interval.n)
