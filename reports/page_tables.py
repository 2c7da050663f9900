"""The tables of the page, as plain text cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.definitions import measure_label
from reports.summary import SUPPORTED, Statement, probe_summaries
from reports.tables import MISSING, Estimate, Table, estimates, integer, named, number, pick, single, values_of

if TYPE_CHECKING:
    import pandas as pd

_PARTS = ("whole", "forward", "backward")
_SHARES = ("direction_share_left", "direction_share_right", "direction_share_interaction", "contextual_share")


def statement_table(found: Sequence[Statement]) -> Table:
    """Statements and their verdicts."""
    rows = [[named(one.model), one.claim, one.evidence, one.verdict, one.reason] for one in found]
    return Table("Statements that this run decides", ("model", "statement", "number", "verdict", "why"), rows, key=5)


def models_table(run: Mapping[str, Any]) -> Table:
    """The models of a run."""
    rows = [
        [
            str(model.get("name", MISSING)),
            str(model.get("weights", MISSING)),
            str(model.get("family", MISSING)),
            str(model.get("directionality", MISSING)),
            f"0–{len(model['layers']) - 1}" if model.get("layers") else MISSING,
            integer(model.get("hidden_size")),
            integer(model.get("parameters")),
            str(model.get("dtype", MISSING)),
            str(model.get("pooling", MISSING)),
            str(model.get("note") or ""),
        ]
        for model in run.get("models", ())
    ]
    headers = (
        "model",
        "weights",
        "family",
        "directionality",
        "layers",
        "dimensions",
        "parameters",
        "precision",
        "pooling",
        "note",
    )
    return Table("Models", headers, rows, key=4, tail=3)


def data_table(run: Mapping[str, Any]) -> Table:
    """The data of a run."""
    rows = [
        [
            str(data.get("name", MISSING)),
            str(data.get("format") or MISSING),
            str(data.get("split") or MISSING),
            integer(data.get("sentences")),
            integer(data.get("words")),
        ]
        for data in run.get("data", ())
    ]
    return Table("Data", ("data", "format", "split", "sentences", "words"), rows, key=3)


def probe_table(results: pd.DataFrame) -> Table:
    """Best layer of every model on every task, beside the baselines."""
    rows = []
    for one in probe_summaries(results):
        rows_at = pick(
            results, kind="probe", task=one.task, model=one.model, weights=one.weights, part=one.part, layer=one.layer
        )
        selectivity = single(pick(rows_at, measure="selectivity"))
        above = f"{one.layers_above} of {one.layers}" if one.word_type is not None else MISSING
        rows.append(
            [
                named(one.task),
                _series(one.model, one.weights, one.part),
                measure_label(one.measure),
                str(one.layer),
                str(one.best),
                MISSING if selectivity is None else str(selectivity),
                _value(one.word_type),
                _value(one.majority),
                above + (" ✓" if one.verdict == SUPPORTED else ""),
            ]
        )
    headers = (
        "task",
        "model",
        "measure",
        "best layer",
        "score",
        "selectivity there",
        "word type",
        "majority",
        "layers above the word type",
    )
    return Table("Best layer of each model on each task, and the baselines", headers, rows, key=3)


def cost_table(costs: pd.DataFrame | None) -> Table:
    """Times and memory."""
    if costs is None:
        return Table("Cost", (), ())
    # Speed and memory by length of sentence are drawn, not listed.
    costs = costs[costs["length"].isna()]
    measures = values_of(costs, "measure")
    keys = [
        column
        for column in ("model", "weights", "part", "kind", "task", "probe", "condition", "data", "layer")
        if costs[column].notna().any()
    ]
    rows = []
    for _, group in costs.groupby(keys, sort=False, dropna=False):
        first = group.iloc[0]
        rows.append(
            [_text(first[key]) for key in keys] + [_value(single(pick(group, measure=measure))) for measure in measures]
        )
    headers = [*keys, *(measure_label(measure).lower() for measure in measures)]
    return Table("Times and memory on the machine of this run", headers, rows, key=len(keys))


def layer_tables(results: pd.DataFrame) -> list[Table]:
    """One table by layer for the direction shares, each task and the attention of each model."""
    found = []
    shares = pick(results, kind="analysis", measure=list(_SHARES))
    # Rows of a word class or of a length of context are not one per layer.
    shares = shares[shares["task"].isna() & shares["length"].isna() & shares["layer"].notna()]
    for condition in values_of(shares, "condition"):
        part = pick(shares, condition=condition)
        present = values_of(part, "measure")
        found.append(
            _layer_table(f"Direction shares by layer, {condition}", part, [one for one in _SHARES if one in present])
        )
    for task in values_of(pick(results, kind="probe"), "task"):
        part = pick(results, kind="probe", task=task, condition=None)
        part = part[part["layer"].notna()]
        measures = [name for name in values_of(part, "measure") if name != "penalty"]
        found.append(_layer_table(f"Task {named(task)} by layer", part, measures))
    attention = results[results["measure"].fillna("").str.startswith("attention_") & results["head"].isna()]
    for condition in values_of(attention, "condition"):
        part = pick(attention, condition=condition)
        title = f"Attention, means over the heads of a layer, {condition}"
        found.append(_layer_table(title, part, values_of(part, "measure")))
    return [table for table in found if table.rows]


def _layer_table(title: str, rows: pd.DataFrame, measures: Sequence[str]) -> Table:
    headers = ("model", "layer", *(measure_label(name).lower().replace("f1", "F1") for name in measures), "n")
    return Table(title, headers, _by_layer(rows, measures), key=2)


def _by_layer(rows: pd.DataFrame, measures: Sequence[str]) -> list[list[str]]:
    """Rows of model and layer, one column per measure, and the number of items."""
    found = []
    for model in values_of(rows, "model"):
        for weights in ("trained", "untrained"):
            for part in _PARTS:
                here = pick(rows, model=model, weights=weights, part=part)
                curves = [estimates(pick(here, measure=measure)) for measure in measures]
                for layer in sorted({layer for curve in curves for layer in curve}):
                    cells = [_cell(curve.get(layer)) for curve in curves]
                    counts = sorted({curve[layer].n or 0 for curve in curves if layer in curve} - {0})
                    n = (
                        ""
                        if not counts
                        else integer(counts[0])
                        if len(counts) == 1
                        else f"{integer(counts[0])}–{integer(counts[-1])}"
                    )
                    found.append([_series(model, weights, part), str(layer), *cells, n])
    return found


def _series(model: str, weights: str, part: str) -> str:
    return (
        model + ("" if part in ("whole", "") else f", {part} half") + (" (untrained)" if weights == "untrained" else "")
    )


def _cell(one: Estimate | None) -> str:
    return "" if one is None else str(one)


def _value(one: Estimate | None) -> str:
    return MISSING if one is None else number(one.value, one.unit)


def _text(value: Any) -> str:
    import pandas as pd

    return "" if pd.isna(value) else named(str(value))
