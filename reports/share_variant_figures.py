"""Direction shares by class of the target word and by length of context, and the models compared with one another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyses.direction_shares import BY_CLASS
from analyses.factorial import EFFECTS
from analyses.shares_by_length import BY_LENGTH
from reports.definitions import measure_label
from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import Estimate, estimates, joined, named, pick, single, units_counted, values_of

if TYPE_CHECKING:
    import pandas as pd

_INTERACTION = "direction_share_interaction"
_SHARES = tuple(f"direction_share_{direction}" for direction in DIRECTIONS)
_CLASSES = ("content", "function")
_GAP = "interaction_gap"


def share_variant_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """Up to three figures for each data set and pooling, numbered from `first`."""
    place = first
    for draw in (_by_class, _by_length, _comparisons):
        for figure in draw(results, styles, place):
            yield figure
            place += 1


def _by_class(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    every = pick(results, measure=_INTERACTION, condition=BY_CLASS, weights="trained")
    for index, (part, _, varying) in enumerate(facets(every, "data", "pooling")):
        classes = pick(part, task=list(_CLASSES))
        tagged = {model: _by_tag(pick(part, model=model)) for model in styles}
        tag_limits = _limits([one for tags in tagged.values() for one in tags.values()])
        panels: list[Panel] = []
        tops = []
        for model, style in styles.items():
            curves = {name: _defined(pick(part, model=model, task=name)) for name in _CLASSES}
            if not all(curves.values()):
                continue
            drawing = _class_panel(curves, tagged[model], style, _bounds(classes), tag_limits)
            top = max(curves["content"])
            ends = [f"{curves[name][top]} for {name} words" for name in _CLASSES if top in curves[name]]
            tops.append(f"{named(model)} layer {top}: {' and '.join(ends)}")
            alt = f"Interaction share of {named(model)} by layer and class of the target word. Layer {top}: {joined(ends)}."
            name = panel_name(first + index, len(panels) + 1, "word-class", model)
            panels.append(Panel(name, style.label, alt, as_svg(drawing)))
        if panels:
            counts = [units_counted(pick(classes, task=name), f"{name} words").strip(" .") for name in _CLASSES]
            caption = f"At the top layer: {'; '.join(tops)}. {joined(list(filter(None, counts)))}."
            if any(tagged.values()):
                caption += " Lower row: by part of speech (UPOS) at the top layer, with the number of target words."
            title = "Interaction share by class of the target word" + (f" ({varying})" if varying else "")
            yield DrawnFigure(first + index, "directions", title, caption, (_INTERACTION, BY_CLASS), tuple(panels))


def _by_tag(rows: pd.DataFrame) -> dict[str, Estimate]:
    """UPOS tag -> estimate at the top layer of a model, in the order of their numbers of words."""
    layers = rows["layer"].dropna()
    if layers.empty:
        return {}
    here = pick(rows, layer=int(layers.max()))
    tags = [tag for tag in values_of(here, "task") if tag not in _CLASSES]
    found = {tag: one for tag in tags if (one := single(pick(here, task=tag))) is not None and one.defined}
    return dict(sorted(found.items(), key=lambda item: (-(item[1].n or 0), item[0])))


def _class_panel(
    curves: Mapping[str, Mapping[int, Estimate]],
    tags: Mapping[str, Estimate],
    style: Style,
    limits: tuple[float, float],
    tag_limits: tuple[float, float],
) -> Any:
    figure = canvas(4.7 if tags else 3.0)
    grid = figure.subplots(1 + bool(tags), 1, squeeze=False)[:, 0]
    axes = grid[0]
    looks = {"content": (style.colour, style.marker, "-", False), "function": (NEUTRAL, "s", "--", True)}
    for name, curve in curves.items():
        colour, marker, line, faint = looks[name]
        draw_curve(axes, curve, colour=colour, marker=marker, line=line, label=f"{name} words", faint=faint)
    axes.set_ylim(*limits)
    axes.set_ylabel("interaction share")
    panel_title(figure, style.label)
    _legend_above(axes)
    layers = sorted({layer for curve in curves.values() for layer in curve})
    layer_axis(axes, list(range(layers[0], layers[-1] + 1)))
    if tags:
        places = dict(enumerate(tags.values()))
        bounded = {place: one for place, one in places.items() if one.bounded}
        colour, lower = style.colour, grid[1]
        lower.plot(
            list(places), [one.value for one in places.values()], linestyle="", marker=style.marker, color=colour
        )
        lower.vlines(
            list(bounded),
            [o.low for o in bounded.values()],
            [o.high for o in bounded.values()],
            color=colour,
            linewidth=1.0,
        )
        names = [tag if one.n is None else f"{tag} {one.n}" for tag, one in tags.items()]
        lower.set_xticks(list(places), labels=names, rotation=90, fontsize=7)
        lower.set_xlim(-0.6, len(tags) - 0.4)
        lower.set_ylim(*tag_limits)
        lower.set_ylabel(f"share, layer {layers[-1]}")
    return figure


def _by_length(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    rows = pick(results, measure=list(_SHARES), condition=BY_LENGTH, part="whole", weights="trained")
    for index, (part, _, varying) in enumerate(facets(rows, "data", "pooling")):
        panels: list[Panel] = []
        spans = []
        counts: set[int] = set()
        for model, style in styles.items():
            mine = pick(part, model=model)
            if mine["layer"].dropna().empty:
                continue
            top = int(mine["layer"].max())
            curves = {
                direction: _over_lengths(pick(mine, layer=top, measure=measure))
                for direction, measure in zip(DIRECTIONS, _SHARES, strict=True)
            }
            mixed = curves["interaction"]
            if not mixed:
                continue
            counts |= {one.n for one in mixed.values() if one.n is not None}
            ends = [f"{mixed[side]} with {side}" for side in dict.fromkeys((min(mixed), max(mixed)))]
            spans.append(f"{named(model)} layer {top}: {joined(ends)}")
            alt = f"Direction shares of {named(model)} at layer {top} by words of context per side; interaction {joined(ends)}."
            drawing = _length_panel(curves, style, top, _bounds(part))
            name = panel_name(first + index, len(panels) + 1, "context-length", model)
            panels.append(Panel(name, style.label, alt, as_svg(drawing)))
        if panels:
            caption = (
                f"Shares at the top layer for the same target words with more and more words on each side. Interaction share: "
                f"{'; '.join(spans)} words a side. n = {joined([str(n) for n in sorted(counts)])} targets."
            )
            title = "Direction shares by length of context" + (f" ({varying})" if varying else "")
            yield DrawnFigure(first + index, "directions", title, caption, (*_SHARES, BY_LENGTH), tuple(panels))


def _length_panel(
    curves: Mapping[str, Mapping[int, Estimate]], style: Style, layer: int, bounds: tuple[float, float]
) -> Any:
    figure = canvas(3.0)
    axes = figure.subplots()
    sides = sorted({side for curve in curves.values() for side in curve})
    for direction, curve in curves.items():
        look = DIRECTIONS[direction]
        shown = [side for side in sides if side in curve]
        axes.plot(
            shown,
            [curve[side].value for side in shown],
            color=look.colour,
            marker=look.marker,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            linewidth=1.5,
            label=look.label,
        )
        bounded = [side for side in shown if curve[side].bounded]
        axes.vlines(
            bounded, [curve[s].low for s in bounded], [curve[s].high for s in bounded], color=look.colour, linewidth=1.0
        )
    axes.set_ylim(*bounds)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sides, labels=[str(side) for side in sides])
    axes.minorticks_off()
    axes.set_xlabel("words of context per side")
    axes.set_ylabel(f"share at layer {layer}")
    panel_title(figure, style.label)
    _legend_above(axes)
    return figure


def _comparisons(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    rows = pick(results, measure=[_GAP, *EFFECTS], condition="crossed", weights="trained")
    rows = rows[(rows["measure"] == _GAP) | (rows["task"] == _INTERACTION).fillna(False)]
    for index, (part, _, varying) in enumerate(facets(rows, "data", "pooling")):
        found = list(_compared(part, styles))
        if not found:
            continue
        texts = [f"{label}: {one}" for label, one in found]
        counts = sorted({one.n for _, one in found if one.n is not None})
        caption = (
            f"Differences of interaction shares at the top layer, on the same target words and contexts. {'; '.join(texts)}. "
            + _about_0(found)
            + f"n = {joined([str(n) for n in counts])} targets."
        )
        alt = f"Differences of interaction shares with intervals. {'; '.join(texts)}."
        name = panel_name(first + index, 1, "interaction-gaps")
        panel = Panel(name, "Interaction gaps and main effects", alt, as_svg(_comparison_panel(found)))
        title = "Models compared: interaction gaps" + (" and main effects" if _has_effects(part) else "")
        shown = tuple(values_of(part, "measure"))
        yield DrawnFigure(
            first + index, "directions", title + (f" ({varying})" if varying else ""), caption, shown, (panel,)
        )


def _about_0(found: Sequence[tuple[str, Estimate]]) -> str:
    """Which intervals lie off 0; that all hold it only where there is an interval for each."""
    apart = [label for label, one in found if one.bounded and (one.low > 0 or one.high < 0)]
    unbounded = [label for label, one in found if not one.bounded]
    text = f"Intervals without 0: {joined(apart)}. " if apart else "" if unbounded else "Every interval holds 0. "
    return text + (f"No interval: {joined(unbounded)}. " if unbounded else "")


def _has_effects(part: pd.DataFrame) -> bool:
    return not pick(part, measure=list(EFFECTS)).empty


def _compared(part: pd.DataFrame, styles: Mapping[str, Style]) -> Iterator[tuple[str, Estimate]]:
    gaps = pick(part, measure=_GAP)
    for model in styles:
        for reference in styles:
            one = single(pick(gaps, model=model, reference=reference))
            if one is not None and one.defined:
                yield f"{styles[model].label} − {styles[reference].label}", one
    for measure in EFFECTS:
        one = single(pick(part, measure=measure))
        if one is not None and one.defined:
            yield measure_label(measure), one


def _comparison_panel(found: Sequence[tuple[str, Estimate]]) -> Any:
    figure = canvas(0.9 + 0.42 * len(found))
    axes = figure.subplots()
    effects = {measure_label(measure) for measure in EFFECTS}
    for place, (label, one) in enumerate(found):
        colour = DIRECTIONS["interaction"].colour if label in effects else NEUTRAL
        if one.bounded:
            axes.plot([one.low, one.high], [place, place], color=colour, linewidth=1.6)
        axes.plot([one.value], [place], color=colour, marker="D" if label in effects else "o", markersize=5)
        axes.annotate(
            label,
            (0, place),
            xycoords=("axes fraction", "data"),
            xytext=(2, 6),
            textcoords="offset points",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
    axes.axvline(0, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=1)
    axes.set_ylim(len(found) - 0.5, -0.9)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.set_xlabel("difference of interaction shares")
    panel_title(figure, "Interaction share, top layers")
    return figure


def _defined(rows: pd.DataFrame) -> dict[int, Estimate]:
    return {layer: one for layer, one in estimates(rows).items() if one.defined}


def _over_lengths(rows: pd.DataFrame) -> dict[int, Estimate]:
    """Words per side -> estimate."""
    found = {int(side): single(pick(rows, length=int(side))) for side in sorted(values_of(rows, "length"))}
    return {side: one for side, one in found.items() if one is not None and one.defined}


def _bounds(rows: pd.DataFrame) -> tuple[float, float]:
    """Limits that all panels share."""
    return _around([float(x) for column in ("value", "low", "high") for x in rows[column].dropna()])


def _limits(found: Sequence[Estimate]) -> tuple[float, float]:
    """Limits that hold all of some estimates with their intervals."""
    return _around([x for one in found for x in (one.value, one.low, one.high) if not math.isnan(x)])


def _around(found: Sequence[float]) -> tuple[float, float]:
    return min([-0.03, *(bound - 0.02 for bound in found)]), max([0.1, *(bound + 0.02 for bound in found)])


def _legend_above(axes: Any) -> None:
    axes.legend(
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(0, 0.99),
        handlelength=1.8,
        columnspacing=1.0,
        borderaxespad=0.1,
        fontsize=8,
    )
    axes.set_title(" ", pad=8)
