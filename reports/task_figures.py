"""Probe scores over layers, one figure per task: every model beside the baselines, and the selectivity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.captions import task_alt, task_caption
from reports.definitions import measure_label
from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import NEUTRAL, Style
from reports.summary import main_measure
from reports.tables import Estimate, estimates, number, pick, shortened, single, values_of

if TYPE_CHECKING:
    import pandas as pd

_PART_LINES = {"whole": "-", "forward": "-.", "backward": ":"}


def task_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each task (and data set, split and pooling), numbered from `first`."""
    rows = pick(results, kind="probe", condition=None)
    place = first
    faceted = (
        (task, *facet)
        for task in values_of(rows, "task")
        for facet in facets(pick(rows, task=task), "data", "split", "pooling")
    )
    for task, task_rows, _, varying in faceted:
        main = main_measure(task_rows, task)
        if main is None:
            continue
        shown = [main] + ["selectivity"] * (not pick(task_rows, measure="selectivity").dropna(subset=["layer"]).empty)
        panels = tuple(
            Panel(
                panel_name(place, number_, "task", task, measure),
                f"{shortened(task, 40)}, {measure_label(measure)}",
                task_alt(task_rows, task, measure, {name: style.label for name, style in styles.items()}),
                as_svg(_task_panel(pick(task_rows, measure=measure), task, measure, styles)),
            )
            for number_, measure in enumerate(shown, start=1)
        )
        title = f"Task {shortened(task, 60)}, by layer" + (f" ({varying})" if varying else "")
        baselines = [
            name for name in values_of(pick(task_rows, measure=shown), "probe") if name in ("majority", "word_type")
        ]
        yield DrawnFigure(place, "tasks", title, task_caption(task_rows, task, shown), (*shown, *baselines), panels)
        place += 1


def _task_panel(rows: pd.DataFrame, task: str, measure: str, styles: Mapping[str, Style]) -> Any:
    curves: list[tuple[dict[int, Estimate], Style, str, str, bool]] = []
    for model, style in styles.items():
        for weights in ("trained", "untrained"):
            for half, line in _PART_LINES.items():
                curve = estimates(pick(rows, model=model, weights=weights, part=half))
                if any(one.defined for one in curve.values()):
                    label = (
                        style.label
                        + (f", {half} half" if half != "whole" else "")
                        + (" (untrained)" if weights == "untrained" else "")
                    )
                    curves.append(
                        (curve, style, "--" if weights == "untrained" else line, label, weights == "untrained")
                    )
    columns = 2 if curves and max(len(label) for *_, label, _ in curves) <= 24 else 1
    figure = canvas(2.9 + 0.19 * -(-len(curves) // columns))
    axes = figure.subplots()
    for curve, style, line, label, faint in curves:
        draw_curve(axes, curve, colour=style.colour, marker=style.marker, line=line, label=label, faint=faint)
    if measure == "selectivity":
        axes.axhline(0, color="#8C8C8C", linewidth=0.8, zorder=1)
    layers = sorted({layer for curve, *_ in curves for layer in curve}) or [0]
    layer_axis(axes, list(range(layers[0], layers[-1] + 1)))
    bounds = [
        bound
        for curve, *_ in curves
        for one in curve.values()
        if one.defined
        for bound in (one.low, one.value, one.high)
        if bound == bound
    ]
    for name, words in (("word_type", "word type"), ("majority", "majority")):
        found = single(pick(rows, probe=name))
        if found is not None and found.defined:
            bounds = _baseline(axes, found, words, bounds)
    if bounds:
        room = 0.08 * (max(bounds) - min(bounds)) or 0.05
        noted = any(text.get_text().startswith("↓") for text in axes.texts)
        top = max(bounds) + room
        # Scores end at 1: an axis that goes on beyond it would suggest otherwise.
        axes.set_ylim(min(bounds) - (2.5 if noted else 1) * room, top if measure == "cross_entropy" else min(top, 1.02))
    axes.set_ylabel(measure_label(measure) + (", bits" if measure == "cross_entropy" else ""))
    panel_title(figure, f"{shortened(task, 34)}, {measure_label(measure).lower().replace('f1', 'F1')}")
    if curves:
        figure.legend(loc="outside lower left", ncols=columns, handlelength=2.6, columnspacing=1.2)
    return figure


def _baseline(axes: Any, found: Estimate, words: str, bounds: list[float]) -> list[float]:
    """Draw a horizontal line, or name it at the lower edge where it lies so far below that it would flatten the curves.

    Gives the bounds of the axis with the line.
    """
    left = words == "majority"
    value = found.value
    text = {
        "fontsize": 7.5,
        "color": "#444444",
        "zorder": 4,
        "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.75},
    }
    if bounds and value < min(bounds) - 0.8 * max(max(bounds) - min(bounds), 0.02):
        axes.annotate(
            f"↓ {words} {number(value)}, below the axis",
            (0 if left else 1, 0),
            xycoords="axes fraction",
            xytext=(3 if left else -3, 3),
            textcoords="offset points",
            ha="left" if left else "right",
            va="bottom",
            **text,
        )
        return bounds
    axes.axhline(value, color=NEUTRAL, linewidth=1.0, linestyle=(0, (1, 1.5)) if left else (0, (5, 2)), zorder=1.5)
    axes.annotate(
        f"{words} {number(value)}",
        (0 if left else 1, value),
        xycoords=axes.get_yaxis_transform(),
        xytext=(3 if left else -3, 2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="bottom",
        **text,
    )
    return [*bounds, value]
