"""Conjunction probe: bits of two cues, their conjunction and their parity by layer; linear above, perceptron below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import (
    Estimate,
    estimates,
    joined,
    named,
    number,
    pick,
    single,
    trained_or_all,
    units_counted,
    values_of,
)

if TYPE_CHECKING:
    import pandas as pd

ZERO = 0.02
"""Bits: an upper bound under this counts as none."""

_READERS = {"linear": "linear, bits", "mlp": "perceptron, bits"}
_LOOKS = {
    "cues:left": DIRECTIONS["left"],
    "cues:right": DIRECTIONS["right"],
    "cues:and": Style("both (AND)", "#6E4B2A", "s"),
    "cues:xor": Style("parity (XOR)", DIRECTIONS["interaction"].colour, "D"),
}


def conjunction_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each set of sentences and pooling, numbered from `first`."""
    rows = pick(results, measure="conjunction_bits")
    rows = rows[rows["layer"].notna()]
    for index, (part, _, varying) in enumerate(facets(rows, "data", "pooling")):
        shown = _joined_types(part)
        over = values_of(part, "condition")
        panels: list[Panel] = []
        drawn = pick(shown, part="whole")
        bounds = [float(x) for column in ("value", "low", "high") for x in drawn[column].dropna()]
        limits = min([-0.05, *(bound - 0.03 for bound in bounds)]), 1.08 * max([0.1, *bounds])
        for model, style in styles.items():
            own = pick(shown, model=model, part="whole")
            if not own.empty:
                name = panel_name(first + index, len(panels) + 1, "conjunction-probe", model)
                drawing = _model_panel(own, _shared_types(part, model), style, limits)
                panels.append(Panel(name, style.label, _alt(own, model), as_svg(drawing)))
        if not panels:
            continue
        name = panel_name(first + index, len(panels) + 1, "conjunction-probe", "parity")
        drawing = _parity_panel(pick(shown, task="cues:xor", part="whole"), styles)
        panels.append(Panel(name, "Parity, all models", _parity_alt(shown, list(styles)), as_svg(drawing)))
        yield DrawnFigure(
            first + index,
            "conjunction",
            "What a linear reader gets of a left and a right cue together" + (f" ({varying})" if varying else ""),
            _caption(shown, list(styles), _types_told(part, list(styles))),
            ("conjunction_bits", *over),
            tuple(panels),
        )


def _types(part: pd.DataFrame, model: str, weights: str) -> list[str]:
    """The cue types on which a model's vectors were read."""
    return values_of(pick(part, model=model, weights=weights), "condition")


def _joined_types(part: pd.DataFrame) -> pd.DataFrame:
    """Of every model and its untrained copy the rows over all of its cue types, or of the only one there is."""
    import pandas as pd

    found = []
    for _, own in part.groupby(["model", "weights"], sort=False, dropna=False):
        together, types = pick(own, condition=None), values_of(own, "condition")
        found.append(pick(own, condition=types[0]) if together.empty and types else together)
    return pd.concat(found)


def _shared_types(part: pd.DataFrame, model: str) -> dict[str, dict[int, float]]:
    """Reader -> layer -> parity in the trained model over the cue types of its untrained copy, if it was read on more of them.

    Bits over several types are those of the types, weighted by their items: the same number as over all these items at once. An
    interval does not follow from those of the types.
    """
    types = _types(part, model, "untrained")
    if not types or set(types) == set(_types(part, model, "trained")):
        return {}
    rows = pick(part, model=model, weights="trained", part="whole", task="cues:xor", condition=types)
    found: dict[str, dict[int, float]] = {}
    for reader in values_of(rows, "probe"):
        for layer in sorted(values_of(rows, "layer")):
            cells = pick(rows, probe=reader, layer=layer)
            if len(cells) == len(types) and cells["value"].notna().all():
                items = cells["n"].astype(float)
                mean = (cells["value"].astype(float) * items).sum() / items.sum()
                found.setdefault(str(reader), {})[int(layer)] = float(mean)
    return found


def _types_told(part: pd.DataFrame, models: list[str]) -> str:
    """Which cue types the vectors were read on, and what that means for comparing trained models with their copies."""
    trained, copies = (
        list(dict.fromkeys(name for model in models for name in _types(part, model, weights)))
        for weights in ("trained", "untrained")
    )
    if not trained or not copies or set(trained) == set(copies):
        return f" Cues: {joined(trained or copies)}." if trained or copies else ""
    text = f" Cues: {joined(trained)}; of untrained copies {joined(copies)} alone"
    if any(_shared_types(part, model).get("linear") for model in models):
        text += (
            ", to be compared with the thin line, the trained model’s parity over these same cues (without an interval)"
        )
    return text + "."


def _curve(rows: pd.DataFrame) -> dict[int, Estimate]:
    return {layer: one for layer, one in estimates(rows).items() if one.defined}


def _model_panel(
    rows: pd.DataFrame, shared: Mapping[str, Mapping[int, float]], style: Style, limits: tuple[float, float]
) -> Any:
    main = trained_or_all(rows)
    copy = pick(rows, weights="untrained") if not pick(rows, weights="trained").empty else rows.head(0)
    readers = [reader for reader in _READERS if not pick(main, probe=reader).empty]
    figure = canvas(1.1 + 1.75 * len(readers))
    grid = figure.subplots(len(readers), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    panel_title(figure, style.label)
    layers: set[int] = set()
    for axes, reader in zip(grid, readers, strict=True):
        for task, look in _LOOKS.items():
            curve = _curve(pick(main, probe=reader, task=task))
            if curve:
                layers.update(curve)
                draw_curve(axes, curve, colour=look.colour, marker=look.marker, label=look.label)
        other = _curve(pick(copy, probe=reader, task="cues:xor"))
        if other:
            look = _LOOKS["cues:xor"]
            draw_curve(
                axes, other, colour=look.colour, marker=look.marker, line="--", label="XOR, untrained", faint=True
            )
            same = shared.get(reader, {})
            if same:
                axes.plot(
                    list(same),
                    list(same.values()),
                    color=_LOOKS["cues:xor"].colour,
                    linewidth=0.9,
                    label="XOR, same cues",
                )
        axes.axhline(0, color="#8C8C8C", linewidth=0.8, zorder=1)
        axes.set_ylim(*limits)
        axes.set_ylabel(_READERS[reader])
    _legend(grid[0], 3)
    layer_axis(grid[-1], list(range(min(layers, default=0), max(layers, default=0) + 1)))
    return figure


def _parity_panel(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Any:
    readers = [reader for reader in _READERS if not pick(rows, probe=reader).empty]
    figure = canvas(1.1 + 1.75 * len(readers))
    grid = figure.subplots(len(readers), 1, sharex=True, squeeze=False)[:, 0]
    panel_title(figure, "Parity (XOR), all models")
    layers: set[int] = set()
    for axes, reader in zip(grid, readers, strict=True):
        for model, style in styles.items():
            curve = _curve(trained_or_all(pick(rows, model=model, probe=reader)))
            if curve:
                layers.update(curve)
                draw_curve(axes, curve, colour=style.colour, marker=style.marker, label=style.label)
        axes.axhline(0, color="#8C8C8C", linewidth=0.8, zorder=1)
        axes.axhline(ZERO, color=NEUTRAL, linewidth=0.9, linestyle=":", zorder=1)
        axes.set_ylabel(_READERS[reader])
    _legend(grid[0], 2)
    layer_axis(grid[-1], list(range(min(layers, default=0), max(layers, default=0) + 1)))
    return figure


def _legend(axes: Any, columns: int) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            ncols=columns,
            loc="lower left",
            bbox_to_anchor=(0, 0.98),
            handlelength=1.8,
            columnspacing=1.0,
            borderaxespad=0.2,
            fontsize=7.5,
        )


def _top(rows: pd.DataFrame, model: str) -> tuple[int, dict[tuple[str, str], Estimate]] | None:
    """The top layer of a model that a linear probe read, and (probe, task) -> estimate there."""
    own = trained_or_all(pick(rows, model=model, part="whole"))
    layers = [int(layer) for layer in pick(own, probe="linear")["layer"]]
    if not layers:
        return None
    here = pick(own, layer=max(layers))
    found = {
        (reader, task): one
        for reader in _READERS
        for task in _LOOKS
        if (one := single(pick(here, probe=reader, task=task))) is not None and one.defined
    }
    return max(layers), found


def _verdict(one: Estimate) -> str:
    if not one.bounded:
        return "undecided"
    if one.high < ZERO:
        return "none"
    return "present" if one.low > 0 else "undecided"


def _caption(rows: pd.DataFrame, models: list[str], kinds: str) -> str:
    tops = []
    for model in models:
        found = _top(rows, model)
        if found is None or ("linear", "cues:xor") not in found[1]:
            continue
        layer, cells = found
        parity = cells["linear", "cues:xor"]
        text = f"{named(model)} layer {layer}: parity {parity} ({_verdict(parity)})"
        if ("linear", "cues:and") in cells:
            text += f", both cues {cells['linear', 'cues:and']}"
        if ("mlp", "cues:xor") in cells:
            text += f", parity by the perceptron {cells['mlp', 'cues:xor']}"
        tops.append(text)
    lead = f"Bits for a linear reader at the top layer: {'; '.join(tops)}. " if tops else ""
    n = units_counted(rows, "items of four sentences")
    copies = " Dashed, open markers: parity in the untrained copy." if not pick(rows, weights="untrained").empty else ""
    return (
        f"{lead}At most 1 bit, for both cues 0.811; all models share a scale. A concatenation of two one-directional models has no parity for a linear "
        f"reader; a perceptron may find it there too. None: upper bound under {ZERO}; present: not none, and lower bound above 0."
        f" The scale of the panel of parities is its own.{copies}{kinds}{n}"
    )


def _alt(rows: pd.DataFrame, model: str) -> str:
    found = _top(rows, model)
    if found is None:
        return f"Bits of cues by layer of {named(model)}: not measured with a linear reader."
    layer, cells = found
    texts = [
        f"{'linear' if reader == 'linear' else 'perceptron'}, {_LOOKS[task].label}: {number(one.value)}"
        for (reader, task), one in cells.items()
    ]
    return (
        f"Bits of left cue, right cue, both and parity by layer of {named(model)}. Layer {layer}: {'; '.join(texts)}."
    )


def _parity_alt(rows: pd.DataFrame, models: list[str]) -> str:
    texts = []
    for model in models:
        found = _top(rows, model)
        if found is not None and ("linear", "cues:xor") in found[1]:
            texts.append(f"{named(model)} layer {found[0]}: {found[1]['linear', 'cues:xor']}")
    return f"Parity by layer, all models. Linear reader: {'; '.join(texts)}."
