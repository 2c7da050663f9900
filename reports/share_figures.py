"""Direction shares: stacked by layer, as curves with intervals, and the contextual share beneath; one panel per model and half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from analyses.direction_shares import MIX, NORMED_MIX
from reports.captions import share_alt, share_caption
from reports.drawing import (
    MANY_LAYERS,
    DrawnFigure,
    Panel,
    as_svg,
    canvas,
    draw_curve,
    facets,
    layer_axis,
    mark_undefined,
    panel_name,
    panel_title,
)
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.summary import CONTROL
from reports.tables import Estimate, estimates, pick, single, values_of

if TYPE_CHECKING:
    import pandas as pd


HALVES = ("whole", "forward", "backward")
"""Parts with a panel; of other modes than crossed the whole vectors alone."""

MIXES = {MIX: "mix", NORMED_MIX: "mix\nLN"}
"""Condition of a mix of all layers -> its tick."""

ONSET = "mixing_onset"


def share_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each sampling mode, data set and pooling, numbered from `first`."""
    import pandas as pd

    names = [f"direction_share_{direction}" for direction in DIRECTIONS]
    rows = pick(results, kind="analysis", measure=[*names, "contextual_share"])
    # Scalar mixes have no layer and stand to the right of the layers they mix.
    mixes = pick(rows, condition=list(MIXES), layer=None, weights="trained")
    onsets = pick(results, measure=ONSET, condition="crossed", weights="trained")
    # Word classes and lengths of context have figures of their own.
    rows = rows[rows["layer"].notna() & rows["task"].isna() & rows["length"].isna()]
    # The control is a line in the figure of the shares that it is made of, not a figure of its own.
    additive = pick(rows, condition=CONTROL)
    rows = rows[(rows["condition"] != CONTROL).fillna(True).to_numpy(dtype=bool)]
    if pick(rows, measure=names).empty:
        return
    for index, (part, key, varying) in enumerate(facets(rows, "condition", "data", "pooling")):
        columns = [
            (model, half)
            for model in styles
            for half in (HALVES if str(key["condition"]).startswith("crossed") else HALVES[:1])
            if not pick(part, model=model, part=half, measure=names).empty
        ]
        if not columns:
            continue
        control = additive.head(0) if key["condition"] != "crossed" else additive
        mixed, onset = (frame if key["condition"] == "crossed" else frame.head(0) for frame in (mixes, onsets))
        if key["data"] is not None:
            control, mixed, onset = (pick(frame, data=key["data"]) for frame in (control, mixed, onset))
        if key["pooling"] is not None:
            mixed, onset = (pick(frame, pooling=key["pooling"]) for frame in (mixed, onset))
        scale = _share_scale(pd.concat([part, mixed]) if len(mixed) else part)
        panels = tuple(
            Panel(
                panel_name(first + index, place, "direction-shares", model, half, str(key["condition"] or "")),
                styles[model].label + ("" if half == "whole" else f", {half} half"),
                share_alt(part, model, half),
                as_svg(
                    _share_panel(
                        pick(part, model=model, part=half),
                        pick(control, model=model, part=half),
                        pick(mixed, model=model, part=half),
                        styles[model],
                        half,
                        scale,
                    )
                ),
            )
            for place, (model, half) in enumerate(columns, start=1)
        )
        title = "Left, right and interaction share by layer" + (f" ({varying})" if varying else "")
        condition = key["condition"]
        measures = (
            *names,
            "contextual_share",
            *([condition] if isinstance(condition, str) else []),
            *([CONTROL] if not control.empty else []),
            *values_of(mixed, "condition"),
            *([] if onset.empty else [ONSET]),
        )
        yield DrawnFigure(
            first + index,
            "directions",
            title,
            share_caption(part, list(styles), control=not control.empty, mixes=mixed, onsets=onset),
            measures,
            panels,
        )


def _share_scale(part: pd.DataFrame) -> tuple[float, float, float]:
    """Common limits: bottom and top of the shares, top of the contextual share."""
    shares = part[part["measure"] != "contextual_share"]
    bounds = [float(x) for column in ("value", "low", "high") for x in shares[column].dropna()]
    context = [
        float(x)
        for column in ("value", "high")
        for x in part.loc[part["measure"] == "contextual_share", column].dropna()
    ]
    return (
        min([-0.03, *(bound - 0.02 for bound in bounds)]),
        max([1.03, *(b + 0.02 for b in bounds)]),
        max([0.05, *context]) * 1.08,
    )


def _share_panel(
    rows: pd.DataFrame,
    control: pd.DataFrame,
    mixed: pd.DataFrame,
    style: Style,
    half: str,
    scale: tuple[float, float, float],
) -> Any:
    trained = pick(rows, weights="trained")
    main = trained if not trained.empty else pick(rows, weights="untrained")
    untrained = pick(rows, weights="untrained") if not trained.empty else None
    curves = {direction: estimates(pick(main, measure=f"direction_share_{direction}")) for direction in DIRECTIONS}
    context = estimates(pick(main, measure="contextual_share"))
    layers = sorted({layer for curve in (*curves.values(), context) for layer in curve}) or [0]
    layers = list(range(layers[0], layers[-1] + 1))
    longest = max(curves.values(), key=len)
    additive = estimates(pick(control, weights="trained" if not trained.empty else "untrained"))
    additive = additive if any(one.defined for one in additive.values()) else {}

    figure = canvas(5.9 if context else 4.6)
    axes = figure.subplots(3 if context else 2, 1, sharex=True, height_ratios=[1.9, 1.9, 1.1][: 3 if context else 2])
    stacked, lines = axes[0], axes[1]
    panel_title(
        figure,
        style.label
        + {"forward": ", forward half", "backward": ", backward half"}.get(half, "")
        + (" (untrained)" if trained.empty else ""),
    )
    _stack(stacked, layers, curves)
    stacked.set_ylim(scale[0], scale[1])
    stacked.set_ylabel("share, stacked")
    stacked.legend(
        *_direction_handles(untrained=untrained is not None and not untrained.empty, additive=bool(additive)),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=5,
        handlelength=1.3,
        columnspacing=0.9,
        handletextpad=0.5,
        fontsize=8,
        borderaxespad=0.2,
    )
    for direction, look in DIRECTIONS.items():
        if untrained is not None:
            copy = estimates(pick(untrained, measure=f"direction_share_{direction}"))
            if copy:
                draw_curve(lines, copy, colour=look.colour, marker=look.marker, line="--", faint=True)
        if curves[direction]:
            draw_curve(lines, curves[direction], colour=look.colour, marker=look.marker)
    if additive:
        draw_curve(lines, additive, colour=NEUTRAL, marker="", line=":", faint=True)
    lines.set_ylim(scale[0], scale[1])
    lines.set_ylabel("share, interval")
    for index, row in enumerate((stacked, lines)):
        mark_undefined(row, layers, longest, label=index == 0)
    if context:
        if untrained is not None:
            copy = estimates(pick(untrained, measure="contextual_share"))
            if copy:
                draw_curve(axes[2], copy, colour=style.colour, marker=style.marker, line="--", faint=True)
        draw_curve(axes[2], context, colour=style.colour, marker=style.marker)
        mark_undefined(axes[2], layers, context, label=False)
        axes[2].set_ylim(0 if scale[2] > 0 else None, scale[2])
        axes[2].set_ylabel("contextual\nshare")
    layer_axis(axes[-1], layers)
    if not mixed.empty:
        _draw_mixes(axes, mixed, style, layers)
    figure.align_ylabels(list(axes))
    return figure


def _draw_mixes(axes: Any, mixed: pd.DataFrame, style: Style, layers: list[int]) -> None:
    """Put the shares of the mixes of all layers to the right of the layers, behind a line."""
    step = max(1, round(len(layers) / 9))
    places = {layers[-1] + 1 + step * (index + 1): name for index, name in enumerate(MIXES)}
    shares: dict[str, dict[int, Estimate]] = {direction: {} for direction in DIRECTIONS}
    for place, name in places.items():
        here = pick(mixed, condition=name)
        for direction, look in DIRECTIONS.items():
            one = single(pick(here, measure=f"direction_share_{direction}"))
            if one is not None and one.defined:
                shares[direction][place] = one
                draw_curve(axes[1], {place: one}, colour=look.colour, marker=look.marker)
        context = single(pick(here, measure="contextual_share"))
        if len(axes) > 2 and context is not None and context.defined:
            draw_curve(axes[2], {place: context}, colour=style.colour, marker=style.marker)
    _stack(axes[0], [*layers, *places], shares)
    for row in axes:
        row.axvline(layers[-1] + 0.5 + step / 2, color=NEUTRAL, linewidth=0.7)
    ticks = [int(tick) for tick in axes[-1].get_xticks()]
    axes[-1].set_xticks([*ticks, *places], labels=[*map(str, ticks), *MIXES.values()])
    for label in axes[-1].get_xticklabels()[len(ticks) :]:
        label.set_fontsize(7)
    axes[-1].set_xlim(layers[0] - 0.6, max(places) + 0.5 + step / 4)


def _stack(axes: Any, layers: list[int], curves: Mapping[str, Mapping[int, Estimate]]) -> None:
    """Stack the shares of each layer upwards from 0; negative estimates hang below 0."""
    above, below = dict.fromkeys(layers, 0.0), dict.fromkeys(layers, 0.0)
    for direction, look in DIRECTIONS.items():
        defined = {layer: one.value for layer, one in curves[direction].items() if one.defined}
        axes.bar(
            list(defined),
            list(defined.values()),
            width=0.78,
            color=look.colour,
            edgecolor="white",
            linewidth=0.5 if len(layers) <= MANY_LAYERS else 0,
            bottom=[above[layer] if value >= 0 else below[layer] for layer, value in defined.items()],
        )
        for layer, value in defined.items():
            (above if value >= 0 else below)[layer] += value


def _direction_handles(*, untrained: bool, additive: bool) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=look.colour, marker=look.marker, linewidth=3) for look in DIRECTIONS.values()]
    labels = [look.label for look in DIRECTIONS.values()]
    if untrained:
        handles.append(
            Line2D([], [], color=NEUTRAL, linestyle="--", linewidth=1.1, marker="o", markerfacecolor="white")
        )
        labels.append("untrained")
    if additive:
        handles.append(Line2D([], [], color=NEUTRAL, linestyle=":", linewidth=1.4))
        labels.append("additive")
    return handles, labels
