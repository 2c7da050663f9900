"""The opening of a report on four matched models: LSTM or Transformer, shallow or deep, in numbers.

Only reads the table: which model is in which cell follows from its family and directionality, the effects are rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.factorial import ARCHITECTURES, CELLS, DIRECTIONALITIES, EFFECTS, Cell
from analyses.share_comparison import two_by_two as cells_of
from reports.definitions import measure_label
from reports.summary import DELTA, ONE_SIDED, share_verdicts
from reports.tables import Estimate, Table, estimates, named, pick, single, values_of

if TYPE_CHECKING:
    import pandas as pd

_SHARE = "direction_share_interaction"
_QUANTITIES = {
    _SHARE: "interaction share",
    "conjunction_bits": "parity of a left and a right cue, to a linear reader",
    "cloze_nats": "filling a gap (lower is better)",
}
"""What effects are measured on -> what it is called here."""


@dataclass(frozen=True)
class TwoByTwo:
    """What the opening says."""

    models: Mapping[Cell, str]
    """Cell -> name of its model."""
    lines: Mapping[Cell, Sequence[tuple[str, str]]]
    """Cell -> (what, number) pairs at the top layer."""
    effects: Table | None
    """Main effects, a row for each quantity that the table compares."""
    sentences: Sequence[str]
    """What the interaction shares of the four models and their effects say, in words."""

    architectures = ARCHITECTURES
    directionalities = DIRECTIONALITIES


def two_by_two(results: pd.DataFrame, run: Mapping[str, Any]) -> TwoByTwo | None:
    """Collect the 2 x 2 of a run.

    Parameters
    ----------
    results : pandas.DataFrame
        The tidy table, seeds joined.
    run : mapping
        The run's record; `models` gives name, family, directionality and weights.

    Returns
    -------
    TwoByTwo or None
        None unless the run has exactly one model in each cell and their interaction shares.
    """
    trained = [model for model in run["models"] if model["weights"] == "trained" and model.get("family")]
    places = cells_of([_Kind(str(model["family"]), str(model["directionality"])) for model in trained])
    if places is None:
        return None
    models = {cell: str(trained[places[cell]]["name"]) for cell in CELLS}
    directionality = {str(model["name"]): str(model["directionality"]) for model in trained}
    tops: dict[Cell, _Top] = {}
    for cell, model in models.items():
        top = _top(results, model, directionality[model])
        if top is None:
            return None
        tops[cell] = top
    lines = {cell: _lines(results, models[cell], tops[cell]) for cell in CELLS}
    return TwoByTwo(models, lines, _effects_table(results), _sentences(results, models, tops))


@dataclass(frozen=True)
class _Kind:
    family: str
    directionality: str


@dataclass(frozen=True)
class _Top:
    layer: int
    share: Estimate
    verdict: str
    context: Estimate | None


def _top(results: pd.DataFrame, model: str, directionality: str) -> _Top | None:
    verdicts = share_verdicts(results, model, _SHARE, part="whole", exact=directionality in ONE_SIDED, controlled=True)
    if not verdicts:
        return None
    last = verdicts[-1]
    rows = pick(results, model=model, weights="trained", part="whole", condition="crossed", measure="contextual_share")
    return _Top(last.layer, last.estimate, last.verdict, estimates(rows).get(last.layer))


def _lines(results: pd.DataFrame, model: str, top: _Top) -> list[tuple[str, str]]:
    said = {"present": "interaction", "none": "no interaction"}.get(top.verdict, top.verdict)
    lines = [("interaction share", f"{top.share} ({said})")]
    if top.context is not None and top.context.defined:
        lines.append(("contextual share", str(top.context)))
    own = pick(results, model=model, weights="trained", part="whole", reference=None)
    parity = pick(own, measure="conjunction_bits", task="cues:xor", probe="linear", condition=None)
    gaps = pick(own, measure="cloze_nats")
    best = next((name for name in ("joint", "tuned mix") if not pick(gaps, condition=name).empty), "")
    for quantity, one in (
        ("conjunction_bits", estimates(parity).get(top.layer)),
        ("cloze_nats", single(pick(gaps, condition=best))),
    ):
        if one is not None and one.defined:
            lines.append(
                (_QUANTITIES[quantity], f"{one} {one.unit}" + (f" ({best})" if quantity == "cloze_nats" else ""))
            )
    return lines


def _effect(results: pd.DataFrame, measure: str, quantity: str) -> Estimate | None:
    rows = pick(results, measure=measure, task=quantity, weights="trained")
    crossed = pick(rows, condition="crossed")
    return single(crossed if not crossed.empty else rows)


def _effects_table(results: pd.DataFrame) -> Table | None:
    rows = []
    for quantity in values_of(pick(results, measure=list(EFFECTS)), "task"):
        found = [_effect(results, measure, quantity) for measure in EFFECTS]
        if any(one is not None and one.defined for one in found):
            rows.append(
                [
                    _QUANTITIES.get(quantity, measure_label(quantity)),
                    *("" if one is None or not one.defined else str(one) for one in found),
                ]
            )
    if not rows:
        return None
    return Table(
        "Effects at the top layer: the mean difference that each makes, with its interval",
        ["quantity", "deep minus shallow", "Transformer minus LSTM", "interaction of the two"],
        rows,
    )


def _sentences(results: pd.DataFrame, models: Mapping[Cell, str], tops: Mapping[Cell, _Top]) -> list[str]:
    """What the four cells and their effects say.

    A cause is named only if both deep models mix the sides, no shallow one does, and the effect of the directionality is
    larger than the effect of the architecture and than the interaction of the two, intervals apart. Otherwise it is said what
    the cells show and no more.
    """
    depth, architecture, both = (_effect(results, measure, _SHARE) for measure in EFFECTS)
    parts = []
    for direction in DIRECTIONALITIES:
        cells = [(name, direction) for name in ARCHITECTURES]
        said = [f"{tops[cell].share} in {named(models[cell])}" for cell in cells]
        what = "read each side apart" if direction == DIRECTIONALITIES[0] else "read both sides in every layer"
        parts.append(f"in the models that {what} it is {' and '.join(said)}")
    sentences = [f"The interaction share at the top layer: {'; '.join(parts)}."]
    if depth is None or architecture is None or not (depth.bounded and architecture.bounded):
        return sentences
    outweighs = _outweighs(depth, architecture)
    which = ": on these numbers neither outweighs the other"
    if outweighs:
        which = "; the first outweighs the second, intervals apart"
    elif _outweighs(architecture, depth):
        which = "; the second outweighs the first, intervals apart"
    sentences.append(
        f"Reading both sides in every layer changes it by {depth} on average, being a Transformer by {architecture}{which}."
    )
    deep, shallow = ([tops[name, direction] for name in ARCHITECTURES] for direction in reversed(DIRECTIONALITIES))
    if depth.low > DELTA and all(top.verdict == "none" for top in shallow):
        present = [
            named(models[name, DIRECTIONALITIES[1]])
            for name, top in zip(ARCHITECTURES, deep, strict=True)
            if top.verdict == "present"
        ]
        if len(present) == 2 and outweighs and both is not None and both.bounded and _outweighs(depth, both):
            rest = "not the Transformer" if architecture.low <= 0 <= architecture.high else "more than the Transformer"
            sentences.append(
                "Both deep models mix the sides and neither shallow one does, whatever they are built of: the cause is what a "
                f"layer may read and what it is trained to predict, {rest}."
            )
        elif len(present) == 2:
            matters = ""
            if both is not None and both.bounded and both.low * both.high > 0:
                matters = f" The two effects depend on each other (their interaction: {both})."
            sentences.append(
                "Both deep models mix the sides and neither shallow one does; what they are built of counts too much here to name "
                f"one cause (effect of the architecture {architecture}).{matters}"
            )
        elif present:
            sentences.append(
                f"Of the deep models only {present[0]} mixes the sides beyond doubt, and neither shallow one does."
            )
    sentences.append(
        "Each cell is one model from one training seed; the intervals are over target words and hold nothing of what another "
        "seed would change."
    )
    return sentences


def _outweighs(one: Estimate, other: Estimate) -> bool:
    """Whether one effect is larger than another in absolute value, intervals apart."""
    if one.low * one.high <= 0:
        return False
    return min(abs(one.low), abs(one.high)) > max(abs(other.low), abs(other.high))
