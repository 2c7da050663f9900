"""Costs: sizes, operations and speed by sentence length, and what a new word leaves valid; one figure for each question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.drawing import DrawnFigure, Panel, as_svg, canvas, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import Estimate, joined, named, number, pick, shortened, single, values_of

if TYPE_CHECKING:
    import pandas as pd

_EDITS = {"append": "one word more at the end", "insert": "one word inserted", "replace": "one word replaced"}
_CONFIGURATION = "configuration"
_PARTS = {
    "whole": Style("whole", NEUTRAL, "o"),
    "forward": Style("forward half", DIRECTIONS["left"].colour, DIRECTIONS["left"].marker),
    "backward": Style("backward half", DIRECTIONS["right"].colour, DIRECTIONS["right"].marker),
}
Curve = dict[int, Estimate]


def cost_figures(
    results: pd.DataFrame, styles: Mapping[str, Style], first: int, costs: pd.DataFrame | None = None
) -> Iterator[DrawnFigure]:
    """Up to four figures, numbered from `first`.

    Parameters
    ----------
    results : pandas.DataFrame
        The tidy table, seeds joined: sizes, operations, surviving states, steps to a loss.
    styles : mapping
        Model -> style. Models that are only in the table by their configuration need none.
    first : int
        Number of the first figure.
    costs : pandas.DataFrame, optional
        The table of costs, for what was timed.

    Yields
    ------
    DrawnFigure
        Of section ``cost``.
    """
    rows = results[(results["weights"] != "untrained").fillna(True).to_numpy(dtype=bool)]
    place = first
    for draw in (_sizes, _by_length, _one_more_word, _training):
        figure = draw(rows, styles, place, costs)
        if figure is not None:
            yield figure
            place += 1


def _sizes(
    rows: pd.DataFrame, styles: Mapping[str, Style], place: int, costs: pd.DataFrame | None
) -> DrawnFigure | None:
    sizes = pick(rows, measure=["parameters", "parameters_without_embeddings"])
    if sizes.empty:
        return None
    models = values_of(sizes, "model")
    points = {
        model: [single(pick(sizes, model=model, measure=measure)) for measure in values_of(sizes, "measure")]
        for model in models
    }
    panels = [
        Panel(
            panel_name(place, 1, "parameters"),
            "parameters",
            "Parameters: " + "; ".join(_pair(model, points[model], "without embeddings") for model in models) + ".",
            as_svg(_dots(points, styles, "parameters", ("all", "without embeddings"))),
        )
    ]
    operations = pick(rows, measure="flops_per_word")
    lengths = sorted(int(length) for length in values_of(operations, "length"))
    if lengths:
        ends = list(dict.fromkeys((lengths[0], lengths[-1])))
        spans = {
            model: [single(pick(operations, model=model, length=length)) for length in ends]
            for model in values_of(operations, "model")
        }
        labels = tuple(f"{length} words" for length in ends)
        alt = "; ".join(_pair(model, found, f"at {labels[-1]}") for model, found in spans.items())
        panels.append(
            Panel(
                panel_name(place, 2, "operations"),
                "operations per word",
                f"Operations per word of sentences of {labels[0]}: {alt}.",
                as_svg(_dots(spans, styles, "operations per word", labels)),
            )
        )
    measures = ("parameters", "parameters_without_embeddings", *(["flops_per_word"] if lengths else []))
    published = pick(sizes, condition=_CONFIGURATION)
    caption = _size_caption(points, published)
    if not published.empty:
        measures = (*measures, _CONFIGURATION)
    return DrawnFigure(place, "cost", "Sizes, and operations per word", caption, measures, tuple(panels))


def _size_caption(points: Mapping[str, Sequence[Estimate | None]], published: pd.DataFrame) -> str:
    known = {model: found[0].value for model, found in points.items() if found[0] is not None}
    small, large = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    text = (
        f"{len(known)} models from {_count(known[small])} ({named(small)}) to {_count(known[large])} ({named(large)})"
    )
    text = f"{named(small)}: {_count(known[small])}" if len(known) == 1 else text
    text += " parameters, counted from configurations without loading weights. The axes are logarithmic."
    if not published.empty:
        text += (
            f" {len(values_of(published, 'model'))} of them are published models that need not be here: for their "
            "operations one word is taken as one piece, and a character CNN reads every word at full length."
        )
    return text


def _by_length(
    rows: pd.DataFrame, styles: Mapping[str, Style], place: int, costs: pd.DataFrame | None
) -> DrawnFigure | None:
    operations = _curves(pick(rows, measure="flops_per_word", condition=None), styles)
    panels: list[Panel] = []

    def add(curves: Mapping[str, Curve], title: str, axis: str, scale: float = 1.0) -> None:
        if not curves:
            return
        drawing = _lines(curves, styles, title, axis, scale=scale)
        name = panel_name(place, len(panels) + 1, title)
        panels.append(Panel(name, title, _ends_alt(title, curves, styles), as_svg(drawing)))

    add(operations, "operations per word", "operations per word")
    timed = None if costs is None else pick(costs, measure=["reading_speed", "time_exponent", "peak_tensor_memory"])
    batches = [] if timed is None else values_of(timed, "condition")
    measures = ["flops_per_word"] if operations else []
    for batch in batches:
        here = pick(timed, condition=batch)  # type: ignore[arg-type]
        add(_curves(pick(here, measure="reading_speed"), styles), f"reading speed, {batch}", "words per second")
    if timed is not None and batches:
        memory = _curves(pick(timed, condition=batches[-1], measure="peak_tensor_memory"), styles)
        add(memory, f"peak tensor memory, {batches[-1]}", "MiB", 2.0**-20)
        measures += values_of(timed, "measure")
    if not panels:
        return None
    caption = _length_caption(rows, styles, timed, batches)
    if (rows["measure"] == "flops_exponent").fillna(False).any():
        measures.append("flops_exponent")
    title = "Operations, speed and memory by sentence length" if batches else "Operations by sentence length"
    return DrawnFigure(place, "cost", title, caption, tuple(measures), tuple(panels))


def _length_caption(
    rows: pd.DataFrame, styles: Mapping[str, Style], timed: pd.DataFrame | None, batches: Sequence[str]
) -> str:
    said = []
    for model, style in styles.items():
        parts = []
        exact = single(pick(rows, measure="flops_exponent", model=model))
        if exact is not None and exact.defined:
            parts.append(f"operations ~ length^{exact}")
        for batch in batches:
            assert timed is not None
            here = pick(timed, measure="time_exponent", model=model, condition=batch)
            shortest = here[here["length"] == here["length"].min()] if not here.empty else here
            found = single(shortest)
            if found is not None and found.defined:
                parts.append(f"time ~ length^{found} at {batch}")
        if parts:
            said.append(f"{style.label}: {', '.join(parts)}")
    lead = f"Per sentence, over all lengths: {'; '.join(said)}. " if said else ""
    timing = "" if timed is None or not batches else _timing_caption(rows, styles, timed, batches[-1])
    return f"{lead}1 is the same for each word at every length, above 1 a word costs more in a longer sentence.{timing}"


def _timing_caption(rows: pd.DataFrame, styles: Mapping[str, Style], timed: pd.DataFrame, batch: str) -> str:
    """How times and memory were taken, and of what."""
    text = " Times are of this machine and this run"
    repeats = sorted({int(n) for n in pick(timed, measure="reading_speed")["n"].dropna()})
    if repeats:
        text += f"; bars: 95 % intervals of Student’s t over {joined([str(n) for n in repeats])} repeats"
    copies = set(values_of(pick(timed, weights="untrained"), "model"))
    longer = [style.label for model, style in styles.items() if model in copies and not pick(rows, model=model).empty]
    if longer:
        text += f". Timed on an untrained copy that reads longer sentences: {joined(longer)}"
    traced = pick(timed, measure="peak_tensor_memory", condition=batch)
    lengths = sorted(int(length) for length in values_of(traced, "length"))
    if lengths:
        text += f". Memory was measured for sentences of {joined([str(length) for length in lengths])} words"
    return f"{text}."


def _one_more_word(
    rows: pd.DataFrame, styles: Mapping[str, Style], place: int, costs: pd.DataFrame | None
) -> DrawnFigure | None:
    shares = _curves(pick(rows, measure="append_share", condition=None), styles)
    states = pick(rows, measure="states_surviving")
    panels: list[Panel] = []
    if shares:
        alt = "; ".join(
            f"{styles[model].label}: {number(curve[max(curve)].value)} at {max(curve)} words"
            for model, curve in shares.items()
        )
        drawing = _lines(shares, styles, "work of one more word", "share of reading it all again", top=1.05)
        panels.append(
            Panel(
                panel_name(place, 1, "append"), "work of one more word", f"Share of the work: {alt}.", as_svg(drawing)
            )
        )
    appended = _curves(pick(rows, measure="append_flops", condition=None), styles)
    if appended:
        title = "operations of one more word"
        drawing = _lines(appended, styles, title, title)
        name = panel_name(place, len(panels) + 1, title)
        panels.append(Panel(name, title, _ends_alt(title, appended, styles), as_svg(drawing)))
    for model, style in styles.items():
        mine = pick(states, model=model)
        if mine[mine["layer"].notna()].empty:
            continue
        name = panel_name(place, len(panels) + 1, "states", model)
        panels.append(
            Panel(name, f"{style.label}, states that survive", _state_alt(mine, style), as_svg(_states(mine, style)))
        )
    if not panels:
        return None
    kept = []
    for model, style in styles.items():
        found = single(pick(states, model=model, condition="append", part="whole", layer=None))
        if found is not None and found.defined:
            kept.append(f"{style.label} {found}")
    caption = (
        f"When a word is appended, the share of contextual states (layers 1 and up) that stay as they are: {joined(kept)}. "
        if kept
        else ""
    )
    if states.empty:
        caption = "1 is as much work as reading the longer sentence from nothing."
    else:
        caption += (
            "A state is one word’s vector at one layer, in each half where a model has halves; it stays if it moves by no more than "
            "float noise. Layer 0 has read no context; where it does not stay, positions are counted from the end that moved."
        )
    n = sorted({int(one) for one in states["n"].dropna()})
    caption += f" n = {joined([str(one) for one in n])} sentences." if n else ""
    measures = (
        *(["append_share"] if shares else []),
        *(["append_flops"] if appended else []),
        *(["states_surviving", *values_of(states, "condition")] if not states.empty else []),
    )
    return DrawnFigure(place, "cost", "What a new word leaves valid", caption, measures, tuple(panels))


def _training(
    rows: pd.DataFrame, styles: Mapping[str, Style], place: int, costs: pd.DataFrame | None
) -> DrawnFigure | None:
    """Words read until the held-out loss was so far down, for the models that bring their learning curves."""
    words = pick(rows, measure="words_to_loss")
    models = [model for model in styles if not pick(words, model=model).empty]
    found: dict[str, dict[str, Estimate]] = {}
    for bound in values_of(words, "condition"):
        here = {model: single(pick(words, model=model, condition=bound)) for model in models}
        reached = {model: one for model, one in here.items() if one is not None and one.defined}
        if len(reached) == len(models):
            found[str(bound)] = reached
    if not found:
        return None
    bounds = list(dict.fromkeys((next(iter(found)), list(found)[-1])))
    points = {model: [found[bound][model] for bound in bounds] for model in models}
    told = "; ".join(_pair(model, points[model], f"until {bounds[-1]}") for model in models)
    drawing = _dots(points, styles, "words read in training", [bound.partition(" under")[0] for bound in bounds])
    panel = Panel(
        panel_name(place, 1, "training"), "words read", f"Words read until {bounds[0]}: {told}.", as_svg(drawing)
    )
    caption = (
        f"Words read in training until the held-out loss was {bounds[0]}: {told}. Only bounds that all models reached are shown. One training "
        "of each, so there is no interval. Losses are in nats per predicted unit, which is a word for some kinds and a piece for "
        "others, the next one or a hidden one: compare within a kind, and see the filled gaps for scores that are the same for all."
    )
    return DrawnFigure(
        place, "cost", "How much training a loss took", caption, ("words_to_loss", "steps_to_loss"), (panel,)
    )


def _ends_alt(title: str, curves: Mapping[str, Curve], styles: Mapping[str, Style]) -> str:
    """What curves show at the shortest and at the longest sentence."""
    ends = "; ".join(
        f"{styles[model].label}: {_short(curve[min(curve)])} at {min(curve)} words, {_short(curve[max(curve)])} at {max(curve)}"
        for model, curve in curves.items()
    )
    return f"{title} by length. {ends}."


def _state_alt(rows: pd.DataFrame, style: Style) -> str:
    layers = sorted(int(layer) for layer in values_of(rows, "layer"))
    parts = []
    for edit, label in _EDITS.items():
        for part, look in _PARTS.items():
            found = [single(pick(rows, condition=edit, part=part, layer=layer)) for layer in layers]
            values = [number(one.value) for one in found if one is not None and one.defined]
            if values:
                parts.append(f"{label}, {look.label}: {', '.join(values)}")
    return f"Share of states of {style.label} that survive, layers {layers[0]} to {layers[-1]}. {'; '.join(parts)}."


def _states(rows: pd.DataFrame, style: Style) -> Any:
    """Bars by layer, one row of axes for each edit, side by side for the halves of a model that has them."""
    edits = [edit for edit in _EDITS if not pick(rows, condition=edit).empty]
    parts = [part for part in ("forward", "backward") if not pick(rows, part=part).empty] or ["whole"]
    layers = sorted(int(layer) for layer in values_of(rows, "layer"))
    figure = canvas(0.9 + 1.15 * len(edits))
    grid = figure.subplots(len(edits), 1, sharex=True, squeeze=False)[:, 0]
    width = 0.8 / len(parts)
    for axes, edit in zip(grid, edits, strict=True):
        for index, part in enumerate(parts):
            look = _PARTS[part] if len(parts) > 1 else style
            for layer in layers:
                one = single(pick(rows, condition=edit, part=part, layer=layer))
                if one is None or not one.defined:
                    continue
                at = layer + (index - (len(parts) - 1) / 2) * width
                axes.bar(at, one.value, width=width * 0.92, color=look.colour)
                if one.value == 0:  # an empty place could be a missing value
                    axes.plot(at, 0.03, look.marker, color=look.colour, markersize=4)
                if one.bounded and one.low < one.high:
                    axes.vlines(at, one.low, one.high, color="#222222", linewidth=1.0)
        axes.set_ylim(0, 1.08)
        axes.set_title(_EDITS[edit])
    grid[len(edits) // 2].set_ylabel("share of states that survive")
    step = max(1, -(-len(layers) // 14))
    grid[-1].set_xticks(layers[::step])
    grid[-1].set_xlabel("layer")
    panel_title(figure, style.label)
    if len(parts) > 1:
        from matplotlib.patches import Patch

        handles = [Patch(color=_PARTS[part].colour, label=_PARTS[part].label) for part in parts]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7.5)
    return figure


def _curves(rows: pd.DataFrame, styles: Mapping[str, Style]) -> dict[str, Curve]:
    """Model -> length -> estimate, models in the order of the run, defined values only."""
    found: dict[str, Curve] = {}
    for model in styles:
        mine = pick(rows, model=model)
        curve = {int(length): single(pick(mine, length=int(length))) for length in sorted(values_of(mine, "length"))}
        defined = {length: one for length, one in curve.items() if one is not None and one.defined}
        if defined:
            found[model] = defined
    return found


def _lines(
    curves: Mapping[str, Curve],
    styles: Mapping[str, Style],
    title: str,
    axis: str,
    *,
    scale: float = 1.0,
    top: float | None = None,
) -> Any:
    """Curves over length on a logarithmic axis; the other axis is logarithmic too, unless it has a `top`."""
    figure = canvas(3.7)
    axes = figure.subplots()
    for model, curve in curves.items():
        style = styles[model]
        axes.plot(
            list(curve),
            [one.value * scale for one in curve.values()],
            color=style.colour,
            marker=style.marker,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            label=style.label,
        )
        bounded = {length: one for length, one in curve.items() if one.bounded}
        axes.vlines(
            list(bounded),
            [one.low * scale for one in bounded.values()],
            [one.high * scale for one in bounded.values()],
            color=style.colour,
            linewidth=1.0,
        )
    axes.set_xscale("log", base=2)
    if top is None:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, top)
    lengths = sorted({length for curve in curves.values() for length in curve})
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    axes.minorticks_off()
    axes.set(xlabel="words of a sentence", ylabel=axis)
    if top is None:
        _plain_ticks(axes.yaxis)
    panel_title(figure, title)
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1), fontsize=7.5, borderaxespad=0.2, columnspacing=1.0)
    return figure


def _dots(
    points: Mapping[str, Sequence[Estimate | None]], styles: Mapping[str, Style], axis: str, labels: Sequence[str]
) -> Any:
    """One line per model on a logarithmic axis: a full mark for the first number, an open one for the second."""
    from matplotlib.lines import Line2D

    figure = canvas(1.0 + 0.21 * len(points))
    axes = figure.subplots()
    for place, (model, found) in enumerate(points.items()):
        colour = styles[model].colour if model in styles else NEUTRAL
        defined = [one.value for one in found if one is not None and one.defined]
        if len(defined) > 1:
            axes.hlines(place, min(defined), max(defined), color=colour, linewidth=1.0)
        for index, one in enumerate(found):
            if one is not None and one.defined:
                axes.plot(
                    one.value,
                    place,
                    "o",
                    color=colour,
                    markerfacecolor=colour if index == 0 else "white",
                    markersize=5.5,
                )
    axes.set_xscale("log")
    names = [styles[model].label if model in styles else shortened(model, 30) for model in points]
    axes.set_yticks(range(len(points)), labels=names)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major")
    axes.minorticks_off()
    axes.set_xlabel(axis)
    _plain_ticks(axes.xaxis)
    panel_title(figure, axis)
    handles = [
        Line2D([], [], color=NEUTRAL, marker="o", linestyle="", markerfacecolor=NEUTRAL if index == 0 else "white")
        for index in range(len(labels))
    ]
    axes.legend(handles, labels, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), fontsize=7.5, borderaxespad=0.2)
    return figure


def _plain_ticks(axis: Any) -> None:
    """Numbers instead of powers, which formulas would have to be parsed for; 1, 2 and 5 of each decade if there are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    steps: Sequence[float] = (1.0,) if high > 30 * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axis.set_minor_locator(NullLocator())
    formatter: Callable[[float, int], str] = lambda value, _: _count(value)  # noqa: E731
    axis.set_major_formatter(FuncFormatter(formatter))


def _count(value: float) -> str:
    """A large number for people: 13.6M, 1.56B, 940k."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _short(one: Estimate) -> str:
    return number(one.value, one.unit) if one.unit == "bytes" else _count(one.value)


def _pair(model: str, found: Sequence[Estimate | None], second: str) -> str:
    values = [_count(one.value) for one in found if one is not None and one.defined]
    return f"{named(model)} {values[0]}" + (f" ({values[1]} {second})" if len(values) > 1 else "") if values else model
