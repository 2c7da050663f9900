"""Cloze: nats and accuracy at gaps by model and by what is read, and paired differences between models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.drawing import DrawnFigure, Panel, as_svg, canvas, facets, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import Estimate, joined, named, number, pick, single, units_counted, values_of

if TYPE_CHECKING:
    import pandas as pd

_SCORES = {
    "cloze_nats": "nats per gap (less is better)",
    "cloze_top1": "answers ranked first (more is better)",
    "cloze_reciprocal_rank": "mean reciprocal rank (more is better)",
}
_DIFFERENCE = "cloze_nats_difference"
_MIX = Style("tuned mix", "#332288", "s")
_CONDITIONS: dict[str, Style] = {
    "unigram": Style("unigram", NEUTRAL, "|"),
    "forward": Style("left only", DIRECTIONS["left"].colour, DIRECTIONS["left"].marker),
    "backward": Style("right only", DIRECTIONS["right"].colour, DIRECTIONS["right"].marker),
    "product": Style("corrected product", _MIX.colour, "X"),
    "tuned mix": _MIX,
    "joint": Style("joint", DIRECTIONS["interaction"].colour, DIRECTIONS["interaction"].marker),
}
_BEST = ("joint", "tuned mix", "forward")
Lines = list[tuple[str, dict[str, Estimate]]]


def cloze_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each data set, numbered from `first`: scores of trained models, and differences where there are two."""
    rows = pick(results, measure=[*_SCORES, _DIFFERENCE], weights="trained")
    for index, (part, _, varying) in enumerate(facets(rows, "data")):
        panels: list[Panel] = []
        for measure, axis in _SCORES.items():
            lines = _lines(pick(part, measure=measure, reference=None), styles)
            if lines:
                name = panel_name(first + index, len(panels) + 1, measure)
                title = axis.split(" (")[0]
                panels.append(Panel(name, title, _alt(lines, title, styles), as_svg(_scores(lines, axis, styles))))
        differences = _differences(pick(part, measure=_DIFFERENCE), styles)
        if differences:
            name = panel_name(first + index, len(panels) + 1, "cloze-differences")
            alt = "Differences in nats per gap: " + "; ".join(f"{label} {one}" for label, one in differences) + "."
            panels.append(Panel(name, "differences in nats per gap", alt, as_svg(_forest(differences))))
        if panels:
            title = "Filling gaps from one side, from two sides combined, and jointly" + (
                f" ({varying})" if varying else ""
            )
            shown = [name for name in _CONDITIONS if name in values_of(pick(part, reference=None), "condition")]
            measures = (*_SCORES, *([_DIFFERENCE] if differences else []), *shown)
            yield DrawnFigure(first + index, "gaps", title, _caption(part, styles), measures, tuple(panels))


def _lines(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Lines:
    """Model -> condition -> estimate, in the order of the run and of the conditions; undefined ones are left out."""
    found: Lines = []
    for model in styles:
        mine = pick(rows, model=model)
        scores = {name: single(pick(mine, condition=name)) for name in _CONDITIONS}
        defined = {name: one for name, one in scores.items() if one is not None and one.defined}
        if defined:
            found.append((model, defined))
    return found


def _scores(lines: Lines, axis: str, styles: Mapping[str, Style]) -> Any:
    places = sum(1 + len(scores) for _, scores in lines)
    figure = canvas(0.8 + 0.19 * places)
    axes = figure.subplots()
    ticks: list[tuple[float, str, bool]] = []
    place = 0.0
    for model, scores in lines:
        ticks.append((place, styles[model].label, True))
        for name, one in scores.items():
            place += 1
            look = _CONDITIONS[name]
            ticks.append((place, look.label, False))
            _point(axes, place, one, look)
        place += 1.2
    panel_title(figure, axis.split(" (")[0])
    _categories(axes, ticks)
    axes.set_xlabel(axis)
    return figure


def _forest(differences: Sequence[tuple[str, Estimate]]) -> Any:
    figure = canvas(1.1 + 0.24 * len(differences))
    axes = figure.subplots()
    axes.axvline(0, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=1)
    for place, (_, one) in enumerate(differences):
        _point(axes, place, one, Style("", NEUTRAL, "o"))
    panel_title(figure, "differences in nats per gap")
    _categories(axes, [(place, label, False) for place, (label, _) in enumerate(differences)])
    axes.set_xlabel("nats per gap (below 0: the first is better)")
    return figure


def _point(axes: Any, place: float, one: Estimate, look: Style) -> None:
    if one.bounded:
        axes.hlines(place, one.low, one.high, color=look.colour, linewidth=1.4, zorder=2)
    axes.plot(
        [one.value],
        [place],
        look.marker,
        color=look.colour,
        markersize=9 if look.marker == "|" else 6,
        markeredgecolor=look.colour if look.marker == "|" else "white",
        markeredgewidth=1.6 if look.marker == "|" else 0.6,
        zorder=3,
    )


def _categories(axes: Any, ticks: Sequence[tuple[float, str, bool]]) -> None:
    """Label the lines of a drawing, from top to bottom; those that head a group in bold."""
    axes.set_yticks([place for place, _, _ in ticks], labels=[label for _, label, _ in ticks])
    for label, (_, _, bold) in zip(axes.get_yticklabels(), ticks, strict=True):
        label.set_fontweight("bold" if bold else "normal")
    axes.set_ylim(ticks[-1][0] + 0.7, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)


def _differences(rows: pd.DataFrame, styles: Mapping[str, Style]) -> list[tuple[str, Estimate]]:
    found = []
    for model in styles:
        for reference in styles:
            one = single(pick(rows, model=model, reference=reference))
            if one is not None and one.defined:
                found.append((f"{styles[model].label} − {styles[reference].label}", one))
    return found


def _caption(part: pd.DataFrame, styles: Mapping[str, Style]) -> str:
    scores = pick(part, measure="cloze_nats", reference=None)
    best = []
    for model, found in _lines(scores, styles):
        condition = next((name for name in _BEST if name in found), None)
        if condition is not None:
            best.append(f"{named(model)} ({_CONDITIONS[condition].label}) {found[condition]}")
    text = f"Nats per gap: {'; '.join(best)}. " if best else ""
    against = pick(part, measure=_DIFFERENCE, condition="joint")
    pairs = [
        (model, reference, one)
        for model in styles
        for reference, found in _lines(scores, styles)
        if "tuned mix" in found
        and (one := single(pick(against, model=model, reference=reference))) is not None
        and one.bounded
    ]
    better = [f"{named(model)} than {named(reference)}" for model, reference, one in pairs if one.high < 0]
    worse = [f"{named(model)} than {named(reference)}" for model, reference, one in pairs if one.low > 0]
    if pairs:
        said = [f"better for {joined(better)}"] * bool(better) + [f"worse for {joined(worse)}"] * bool(worse)
        open_ = len(pairs) - len(better) - len(worse)
        said += [f"undecided for {open_} of {len(pairs)} pairs"] * bool(open_)
        text += f"One joint model against two one-directional ones combined by tuned weights, intervals of the difference: {'; '.join(said)}. "
    many = units_counted(scores, "sentences")
    return (
        f"{text}All models choose among the same words in the same gaps. Corrected product and tuned mix: the two directions of one model "
        f"combined, the second with weights tuned on other sentences.{many}"
    )


def _alt(lines: Lines, title: str, styles: Mapping[str, Style]) -> str:
    parts = [
        f"{styles[model].label}: "
        + ", ".join(f"{_CONDITIONS[name].label} {number(one.value, one.unit)}" for name, one in scores.items())
        for model, scores in lines
    ]
    return f"{title[0].upper()}{title[1:]}. {'; '.join(parts)}."
