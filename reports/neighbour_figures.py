"""Neighbour probes: bits by offset, layer above layer, one panel per model; and left and right information by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import (
    Estimate,
    estimates,
    named,
    number,
    offset_profile,
    pick,
    shortened,
    single,
    trained_or_all,
    units_counted,
    values_of,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 4
"""So many contextual layers are drawn at most, evenly spaced, the top one among them."""

Profile = dict[int, Estimate]


def neighbour_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each property, data set and pooling, numbered from `first`."""
    rows = results[results["measure"].fillna("").str.startswith("neighbour_") & results["layer"].notna()]
    for index, (part, key, varying) in enumerate(facets(rows, "task", "data", "pooling")):
        limits = _limits(part)
        panels: list[Panel] = []
        for model, style in styles.items():
            lines, static = _lines(pick(part, model=model, measure="neighbour_bits"))
            if lines:
                name = panel_name(first + index, len(panels) + 1, "neighbour-probes", str(key["task"]), model)
                drawing = _profile_panel(lines, static, style.label, limits)
                panels.append(Panel(name, style.label, _alt(lines, model), as_svg(drawing)))
        if not panels:
            continue
        if not pick(part, measure=["neighbour_bits_left", "neighbour_bits_right"]).empty:
            name = panel_name(first + index, len(panels) + 1, "neighbour-probes", str(key["task"]), "by layer")
            drawing = _sides_panel(part, styles)
            panels.append(Panel(name, "Both sides by layer", _sides_alt(part, list(styles)), as_svg(drawing)))
        title = f"What a word's vector tells of its neighbours: {shortened(str(key['task']), 40)}"
        found = [name for name in values_of(part, "measure") if name != "neighbour_accuracy"]
        yield DrawnFigure(
            first + index,
            "neighbours",
            title + (f" ({varying})" if varying and varying != str(key["task"]) else ""),
            _caption(part, list(styles)),
            tuple(found),
            tuple(panels),
        )


def _lines(rows: pd.DataFrame) -> tuple[list[tuple[str, Profile]], Profile]:
    """What a panel shows, from top to bottom, and the static layer."""
    main = trained_or_all(rows)
    whole = pick(main, part="whole")
    static = offset_profile(pick(whole, layer=0))
    layers = sorted({int(layer) for layer in whole["layer"] if layer > 0}, reverse=True)
    if not layers:
        return ([("layer 0", static)] if static else []), {}
    step = max(1, -(-len(layers) // _MOST_ROWS))
    lines = [(f"layer {layer}", offset_profile(pick(whole, layer=layer))) for layer in layers[::step]]
    for half in ("forward", "backward"):
        profile = offset_profile(pick(main, layer=layers[0], part=half))
        if profile:
            lines.append((f"layer {layers[0]}, {half} half", profile))
    return [(title, profile) for title, profile in lines if profile], static


def _limits(part: pd.DataFrame) -> tuple[float, float]:
    """Common scale of all profiles, the word itself left out."""
    rows = pick(part, measure="neighbour_bits")
    rows = rows[(rows["offset"] != 0).fillna(False).to_numpy(dtype=bool)]
    bounds = [float(x) for column in ("value", "low", "high") for x in rows[column].dropna()]
    return min([0.0, *(1.08 * bound for bound in bounds)]), 1.08 * max([0.05, *bounds])


def _profile_panel(lines: list[tuple[str, Profile]], static: Profile, model: str, limits: tuple[float, float]) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = canvas(0.95 + 0.78 * len(lines))
    grid = figure.subplots(len(lines), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    panel_title(figure, model)
    reach = max(abs(offset) for _, profile in lines for offset in profile)
    for axes, (title, profile) in zip(grid, lines, strict=True):
        for side, sign in (("left", -1), ("right", 1)):
            mine = {offset: one for offset, one in profile.items() if offset * sign > 0}
            axes.bar(list(mine), [one.value for one in mine.values()], width=0.72, color=DIRECTIONS[side].colour)
        bounded = {offset: one for offset, one in profile.items() if one.bounded}
        axes.vlines(
            list(bounded),
            [one.low for one in bounded.values()],
            [one.high for one in bounded.values()],
            color="#222222",
            linewidth=0.9,
        )
        axes.hlines(
            [one.value for one in static.values()],
            [offset - 0.46 for offset in static],
            [offset + 0.46 for offset in static],
            color=NEUTRAL,
            linewidth=1.1,
            linestyle=(0, (2, 1)),
            zorder=3.5,
        )
        axes.axvline(0, color=NEUTRAL, linewidth=0.7, linestyle=":")
        axes.axhline(0, color="#8C8C8C", linewidth=0.7)
        axes.text(0.99, 0.93, title, transform=axes.transAxes, ha="right", va="top", fontsize=7.5, color="#222222")
        axes.set_ylim(*limits)
        axes.tick_params(axis="y", labelsize=7)
    last = grid[-1]
    last.set_xticks(range(-reach, reach + 1))
    last.set_xlim(-reach - 0.7, reach + 0.7)
    last.set_xlabel("offset in words (0: the word itself)")
    grid[len(grid) // 2].set_ylabel("bits")
    handles: list[Any] = [Patch(color=DIRECTIONS[side].colour) for side in ("left", "right")]
    labels = ["left", "right"]
    if static:
        handles.append(Line2D([], [], color=NEUTRAL, linewidth=1.1, linestyle=(0, (2, 1))))
        labels.append("layer 0, no context")
    _legend(grid[0], 4, handles, labels)
    return figure


def _sides_panel(part: pd.DataFrame, styles: Mapping[str, Style]) -> Any:
    figure = canvas(4.6)
    grid = figure.subplots(2, 1, sharex=True, sharey=True)
    panel_title(figure, "All models")
    layers: set[int] = set()
    for axes, side in zip(grid, ("left", "right"), strict=True):
        for model, style in styles.items():
            rows = trained_or_all(pick(part, model=model, part="whole"))
            curve = _defined(pick(rows, measure=f"neighbour_bits_{side}"))
            if curve:
                layers.update(curve)
                draw_curve(axes, curve, colour=style.colour, marker=style.marker, label=style.label)
        axes.axhline(0, color="#8C8C8C", linewidth=0.8, zorder=1)
        axes.set_ylabel(f"bits, {side} side")
    _legend(grid[0], 2)
    layer_axis(grid[-1], list(range(min(layers, default=0), max(layers, default=0) + 1)))
    return figure


def _legend(axes: Any, columns: int, *entries: list[Any]) -> None:
    if entries or axes.get_legend_handles_labels()[0]:
        axes.legend(
            *entries,
            ncols=columns,
            loc="lower left",
            bbox_to_anchor=(0, 0.98),
            handlelength=1.5,
            columnspacing=0.9,
            handletextpad=0.5,
            borderaxespad=0.2,
            fontsize=7.5,
        )


def _defined(rows: pd.DataFrame) -> dict[int, Estimate]:
    return {layer: one for layer, one in estimates(rows).items() if one.defined}


def _tops(part: pd.DataFrame, models: list[str]) -> Iterator[tuple[str, int, dict[str, Estimate]]]:
    """Model, its top layer, and measure -> sum over a side there."""
    for model in models:
        rows = trained_or_all(pick(part, model=model, part="whole"))
        rows = rows[rows["offset"].isna()]
        if rows.empty:
            continue
        layer = max(int(layer) for layer in rows["layer"])
        here = pick(rows, layer=layer)
        found = {name: single(pick(here, measure=name)) for name in values_of(here, "measure")}
        yield model, layer, {name: one for name, one in found.items() if one is not None and one.defined}


def _caption(part: pd.DataFrame, models: list[str]) -> str:
    tops = []
    for model, layer, found in _tops(part, models):
        sides = [
            f"{side} {found[f'neighbour_bits_{side}']}"
            for side in ("left", "right")
            if f"neighbour_bits_{side}" in found
        ]
        text = f"{named(model)} layer {layer}: {', '.join(sides)}"
        if "neighbour_asymmetry" in found:
            text += f", right minus left {found['neighbour_asymmetry']}"
        tops.append(text)
    lead = f"Bits summed over the offsets of a side, at the top layer: {'; '.join(tops)}. " if tops else ""
    n = units_counted(part, "test sentences")
    return (
        f"{lead}Bars: bits over the label's frequency that a linear probe gets of the word at that offset, with intervals; dashes: "
        "what the word alone tells of its neighbours. Below 0 a probe does worse than knowing nothing. Bits are not access: a model "
        f"trained to predict the next word holds bits about it without having seen it. The word itself is left out.{n}"
    )


def _alt(lines: list[tuple[str, Profile]], model: str) -> str:
    title, profile = lines[0]
    values = ", ".join(f"{offset:+d}: {number(one.value)}".replace("-", "−", 1) for offset, one in profile.items())
    return f"Bits by offset of {named(model)}, layer by layer. {title.capitalize()}: {values}."


def _sides_alt(part: pd.DataFrame, models: list[str]) -> str:
    texts = [
        f"{named(model)} layer {layer}: "
        + ", ".join(
            f"{side} {number(found[f'neighbour_bits_{side}'].value)}"
            for side in ("left", "right")
            if f"neighbour_bits_{side}" in found
        )
        for model, layer, found in _tops(part, models)
    ]
    return f"Bits of the left and of the right side by layer, all models. {'; '.join(texts)}."
