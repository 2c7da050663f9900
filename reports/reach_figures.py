"""Context reach: profiles over offsets, layer above layer, one panel per model; and mean distance and left mass by layer."""

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
    single,
    trained_or_all,
    units_counted,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 6
"""So many layers are drawn at most, evenly spaced, the top one among them."""
_SUMMARIES = ("reach_mass_left", "reach_mass_right", "reach_distance", "reach_radius_50", "reach_radius_90")
_SUBSTITUTION, _GRADIENT = "substitution", "gradient"
_GRADIENT_COLOUR = "#222222"

Profile = dict[int, Estimate]


def reach_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each length of context, data set and pooling, numbered from `first`."""
    rows = results[results["measure"].fillna("").str.startswith("reach_") & results["layer"].notna()]
    for index, (part, key, varying) in enumerate(facets(rows, "data", "pooling", "length")):
        top = _top(part)
        panels: list[Panel] = []
        for model, style in styles.items():
            lines = _lines(pick(part, model=model, measure="reach_influence"))
            if lines:
                name = panel_name(first + index, len(panels) + 1, "context-reach", model)
                drawing = _profile_panel(lines, style.label, top)
                panels.append(Panel(name, style.label, _alt(part, model), as_svg(drawing)))
        if not panels:
            continue
        name = panel_name(first + index, len(panels) + 1, "context-reach", "by layer")
        drawing = _summary_panel(part, styles)
        panels.append(
            Panel(name, "Mean distance and left mass by layer", _summary_alt(part, list(styles)), as_svg(drawing))
        )
        conditions = [name for name in (_SUBSTITUTION, _GRADIENT) if not pick(part, condition=name).empty]
        agreement = [] if pick(part, measure="reach_agreement").empty else ["reach_agreement"]
        yield DrawnFigure(
            first + index,
            "reach",
            "Which words around a word its vector depends on" + (f" ({varying})" if varying else ""),
            _caption(part, list(styles), key["length"]),
            ("reach_influence", *_SUMMARIES, *conditions, *agreement),
            tuple(panels),
        )


def _lines(rows: pd.DataFrame) -> list[tuple[str, Profile, Profile, Profile]]:
    """What a panel shows, from top to bottom: title, substitution, gradient, and substitution of the untrained copy."""
    main = trained_or_all(rows)
    copy = pick(rows, weights="untrained") if len(pick(rows, weights="trained")) else rows.head(0)

    def line(title: str, layer: int, part: str) -> tuple[str, Profile, Profile, Profile]:
        here, there = pick(main, layer=layer, part=part), pick(copy, layer=layer, part=part)
        return (
            title,
            offset_profile(pick(here, condition=_SUBSTITUTION)),
            offset_profile(pick(here, condition=_GRADIENT)),
            offset_profile(pick(there, condition=_SUBSTITUTION)),
        )

    defined = pick(main, part="whole")
    layers = sorted({int(layer) for layer in defined[defined["value"].notna()]["layer"]}, reverse=True)
    if not layers:
        return []
    step = max(1, -(-len(layers) // _MOST_ROWS))
    lines = [line(f"layer {layer}", layer, "whole") for layer in layers[::step]]
    halves = [half for half in ("forward", "backward") if not pick(main, layer=layers[0], part=half).empty]
    return lines + [line(f"layer {layers[0]}, {half} half", layers[0], half) for half in halves]


def _top(part: pd.DataFrame) -> float:
    """Upper end of the scale of all profiles: the largest bound of what is drawn, the word itself left out."""
    rows = pick(part, measure="reach_influence")
    rows = rows[(rows["offset"] != 0).fillna(False).to_numpy(dtype=bool)]
    drawn = (rows["weights"] != "untrained").fillna(True) | (rows["condition"] == _SUBSTITUTION).fillna(False)
    rows = rows[drawn.to_numpy(dtype=bool)]
    bounds = [float(x) for column in ("value", "high") for x in rows[column].dropna()]
    return 1.08 * max([0.05, *bounds])


def _profile_panel(lines: list[tuple[str, Profile, Profile, Profile]], model: str, top: float) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = canvas(0.95 + 0.72 * len(lines))
    grid = figure.subplots(len(lines), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    panel_title(figure, model)
    reach = max(abs(offset) for _, *profiles in lines for profile in profiles for offset in profile)
    for axes, (title, substitution, gradient, untrained) in zip(grid, lines, strict=True):
        for side, sign in (("left", -1), ("right", 1)):
            mine = {offset: one for offset, one in substitution.items() if offset * sign > 0}
            axes.bar(list(mine), [one.value for one in mine.values()], width=0.72, color=DIRECTIONS[side].colour)
        bounded = {offset: one for offset, one in substitution.items() if one.bounded}
        low, high = [one.low for one in bounded.values()], [one.high for one in bounded.values()]
        axes.vlines(list(bounded), low, high, color="#222222", linewidth=0.9)
        axes.plot(
            [offset + 0.2 for offset in gradient],
            [one.value for one in gradient.values()],
            linestyle="",
            marker="D",
            markersize=3.2,
            markerfacecolor="white",
            markeredgecolor=_GRADIENT_COLOUR,
            markeredgewidth=0.8,
            zorder=4,
        )
        axes.hlines(
            [one.value for one in untrained.values()],
            [offset - 0.46 for offset in untrained],
            [offset + 0.46 for offset in untrained],
            color=NEUTRAL,
            linewidth=1.1,
            linestyle=(0, (2, 1)),
            zorder=3.5,
        )
        axes.axvline(0, color=NEUTRAL, linewidth=0.7, linestyle=":")
        axes.text(0.99, 0.93, title, transform=axes.transAxes, ha="right", va="top", fontsize=7.5, color="#222222")
        axes.set_ylim(0, top)
        axes.tick_params(axis="y", labelsize=7)
    last = grid[-1]
    step = max(1, -(-reach // 8))
    last.set_xticks(sorted({sign * offset for offset in range(0, reach + 1, step) for sign in (-1, 1)}))
    last.set_xlim(-reach - 0.7, reach + 0.7)
    last.set_xlabel("offset in words (0: the word itself)")
    grid[len(grid) // 2].set_ylabel("influence")
    handles: list[Any] = [Patch(color=DIRECTIONS[side].colour) for side in ("left", "right")]
    labels = ["left", "right"]
    if any(gradient for _, _, gradient, _ in lines):
        look: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": _GRADIENT_COLOUR, "markersize": 4}
        handles.append(Line2D([], [], linestyle="", marker="D", **look))
        labels.append("gradient")
    if any(untrained for *_, untrained in lines):
        handles.append(Line2D([], [], color=NEUTRAL, linewidth=1.1, linestyle=(0, (2, 1))))
        labels.append("untrained")
    grid[0].legend(
        handles,
        labels,
        ncols=4,
        loc="lower left",
        bbox_to_anchor=(0, 0.98),
        handlelength=1.3,
        columnspacing=0.9,
        handletextpad=0.5,
        borderaxespad=0.2,
        fontsize=8,
    )
    return figure


def _summary_panel(part: pd.DataFrame, styles: Mapping[str, Style]) -> Any:
    figure = canvas(4.6)
    distance, mass = figure.subplots(2, 1, sharex=True)
    panel_title(figure, "All models")
    layers: set[int] = set()
    for model, style in styles.items():
        rows = pick(trained_or_all(pick(part, model=model, part="whole")), condition=_SUBSTITUTION)
        for axes, measure in ((distance, "reach_distance"), (mass, "reach_mass_left")):
            curve = _defined(rows, measure)
            if curve:
                layers.update(curve)
                draw_curve(axes, curve, colour=style.colour, marker=style.marker, label=style.label)
    distance.set_ylim(bottom=0)
    distance.set_ylabel("mean distance, words")
    mass.set_ylim(-0.03, 1.03)
    mass.axhline(0.5, color=NEUTRAL, linestyle=":", linewidth=0.9, zorder=1)
    mass.set_ylabel("left mass")
    if distance.get_legend_handles_labels()[0]:
        distance.legend(
            ncols=2,
            loc="lower left",
            bbox_to_anchor=(0, 0.98),
            handlelength=1.8,
            columnspacing=1.0,
            borderaxespad=0.2,
            fontsize=7.5,
        )
    layer_axis(mass, list(range(min(layers, default=0), max(layers, default=0) + 1)))
    return figure


def _defined(rows: pd.DataFrame, measure: str) -> dict[int, Estimate]:
    return {layer: one for layer, one in estimates(pick(rows, measure=measure)).items() if one.defined}


def _tops(part: pd.DataFrame, models: list[str]) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """Model, its top layer with a defined profile, and the rows of its whole vectors there."""
    for model in models:
        rows = trained_or_all(pick(part, model=model, part="whole"))
        curve = _defined(pick(rows, condition=_SUBSTITUTION), "reach_distance") or _defined(rows, "reach_distance")
        if curve:
            yield model, max(curve), pick(rows, layer=max(curve))


def _caption(part: pd.DataFrame, models: list[str], length: Any) -> str:
    tops = []
    for model, layer, rows in _tops(part, models):
        estimator = _SUBSTITUTION if not pick(rows, condition=_SUBSTITUTION).empty else _GRADIENT
        found = {measure: single(pick(rows, measure=measure, condition=estimator)) for measure in _SUMMARIES}
        text = f"{named(model)} layer {layer}: left mass {found['reach_mass_left']}, mean distance {found['reach_distance']} words"
        for measure, what in (("reach_radius_50", "half"), ("reach_radius_90", "nine tenths")):
            radius = found[measure]
            if radius is not None and radius.defined:
                text += f", {what} within {_whole(radius)} words"
        agreement = single(pick(rows, measure="reach_agreement"))
        if agreement is not None and agreement.defined:
            text += f", rank agreement with gradients {agreement}"
        tops.append(text)
    lead = f"At the top layer: {'; '.join(tops)}. " if tops else ""
    substituted, differentiated = (not pick(part, condition=name).empty for name in (_SUBSTITUTION, _GRADIENT))
    text = ""
    if substituted:
        text += (
            "Bars: what replacing the word at that offset by another does to the vector, with intervals (1: as much as another context "
            "altogether). "
        )
    if differentiated:
        text += "Diamonds: gradient norms (1: all context words together); the two are compared in order, not in size. "
    if not pick(part, weights="untrained").empty and not pick(part, weights="trained").empty:
        text += "Dashes: the untrained copy. "
    n = units_counted(part, "targets")
    words = f" Contexts have {int(length)} words on each side; nothing can lie farther." if length is not None else ""
    return f"{lead}{text}The word itself is left out; layers that do not vary with the context are not drawn.{words}{n}"


def _whole(one: Estimate) -> str:
    """A whole number of words with its interval; over seeds it may be none."""
    text = f"{one.value:g}"
    return text + (f" [{one.low:g}, {one.high:g}]" if one.bounded else "")


def _alt(part: pd.DataFrame, model: str) -> str:
    for _, layer, rows in _tops(part, [model]):
        estimator = _SUBSTITUTION if not pick(rows, condition=_SUBSTITUTION).empty else _GRADIENT
        profile = offset_profile(pick(rows, measure="reach_influence", condition=estimator))
        values = ", ".join(f"{offset:+d}: {number(one.value)}".replace("-", "−", 1) for offset, one in profile.items())
        return f"Influence by offset of {named(model)}, layer by layer ({estimator}). Layer {layer}: {values}."
    return f"Influence by offset of {named(model)}: undefined at every layer."


def _summary_alt(part: pd.DataFrame, models: list[str]) -> str:
    texts = []
    for model, layer, rows in _tops(part, models):
        found = pick(rows, condition=_SUBSTITUTION)
        distance, mass = (single(pick(found, measure=name)) for name in ("reach_distance", "reach_mass_left"))
        if distance is not None and mass is not None:
            texts.append(
                f"{named(model)} layer {layer}: {number(distance.value, 'words')} words, left mass {number(mass.value)}"
            )
    return f"Mean distance and left mass of the reach by layer. {'; '.join(texts)}."
