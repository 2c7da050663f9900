"""Mask shift by layer: how far a word's vector moves when it is given as the mask, or as a random word; one panel per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import NEUTRAL, Style
from reports.tables import Estimate, estimates, named, number, pick, units_counted

if TYPE_CHECKING:
    import pandas as pd

_MEASURE = "mask_shift"
_CONDITIONS = {"given as the mask": ("mask", "-", "o"), "given as a random word": ("random word", "-", "s")}


def mask_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each data set and pooling, numbered from `first`; models without a mask have no panel."""
    rows = pick(results, measure=_MEASURE, part="whole")
    for index, (part, _, varying) in enumerate(facets(rows[rows["layer"].notna()], "data", "pooling")):
        panels: list[Panel] = []
        bounds = [1.0, *(float(x) for column in ("value", "high") for x in part[column].dropna())]
        for model, style in styles.items():
            mine = pick(part, model=model)
            if mine.empty:
                continue
            drawing = _panel(mine, style, 1.05 * max(bounds))
            name = panel_name(first + index, len(panels) + 1, "mask-shift", model)
            panels.append(Panel(name, style.label, _alt(mine, model), as_svg(drawing)))
        if panels:
            title = "How far a hidden or replaced word's vector moves" + (f" ({varying})" if varying else "")
            measures = (_MEASURE, *_CONDITIONS)
            yield DrawnFigure(first + index, "masks", title, _caption(part, list(styles)), measures, tuple(panels))


def _panel(rows: pd.DataFrame, style: Style, top: float) -> Any:
    figure = canvas(3.6)
    axes = figure.subplots()
    layers: set[int] = set()
    for condition, (label, line, marker) in _CONDITIONS.items():
        colour = style.colour if label == "mask" else NEUTRAL
        for weights, faint in (("trained", False), ("untrained", True)):
            curve = _curve(rows, condition, weights)
            if curve:
                layers.update(curve)
                shown = label + (", untrained" if faint else "")
                draw_curve(
                    axes,
                    curve,
                    colour=colour,
                    marker=marker,
                    line="--" if faint else line,
                    label=shown,
                    faint=faint,
                )
    axes.axhline(1, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=1)
    axes.set_ylim(0, top)
    axes.set_ylabel("shift (1: two random words)")
    panel_title(figure, style.label)
    axes.legend(
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 0.99),
        handlelength=1.8,
        columnspacing=1.0,
        borderaxespad=0.1,
        fontsize=7.5,
    )
    axes.set_title(" ", pad=14)
    layer_axis(axes, list(range(min(layers, default=0), max(layers, default=0) + 1)))
    return figure


def _curve(rows: pd.DataFrame, condition: str, weights: str = "trained") -> dict[int, Estimate]:
    found = estimates(pick(rows, condition=condition, weights=weights))
    return {layer: one for layer, one in found.items() if one.defined}


def _caption(part: pd.DataFrame, models: list[str]) -> str:
    tops = []
    for model in models:
        curves = {label: _curve(pick(part, model=model), name) for name, (label, _, _) in _CONDITIONS.items()}
        if not all(curves.values()):
            continue
        top = max(curves["mask"])
        tops.append(
            f"{named(model)} layer {top}: {curves['mask'][top]} as the mask, {curves['random word'].get(top)} as a random word"
        )
    lead = f"At the top layer: {'; '.join(tops)}. " if tops else ""
    copies = " Dashed, with open markers: the untrained copy." if (part["weights"] == "untrained").any() else ""
    many = units_counted(part, "sentences, one word of each")
    return (
        f"{lead}Squared distance between a word's vector and its vector when the mask, or a random word, stands in its place, "
        f"relative to two words picked at random (dotted line at 1; 0: no difference).{copies}{many}"
    )


def _alt(rows: pd.DataFrame, model: str) -> str:
    parts = []
    for condition, (label, _, _) in _CONDITIONS.items():
        curve = _curve(rows, condition) or _curve(rows, condition, "untrained")
        if curve:
            first, last = min(curve), max(curve)
            parts.append(
                f"{label}: {number(curve[first].value)} at layer {first}, {number(curve[last].value)} at layer {last}"
            )
    return f"Mask shift by layer of {named(model)}. {'; '.join(parts)}."
