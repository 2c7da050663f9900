"""Attention: heat maps of heads and layers, layer means beside uniform attention, and variants; one figure per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.captions import attention_alt, attention_caption
from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import Estimate, estimates, number, pick, values_of

if TYPE_CHECKING:
    import pandas as pd

_VARIANTS = {"norm-weighted": "norm-weighted", "rollout": "rollout"}
_BASELINES = ("uniform", "rollout uniform")
_SHOWN_WITH_VARIANTS = "attention_signed_distance"
_ROLLOUT = "#2B2B2B"


def attention_figures(results: pd.DataFrame, styles: Mapping[str, Style], first: int) -> Iterator[DrawnFigure]:
    """One figure for each model with attention (and data set), numbered from `first`."""
    rows = results[results["measure"].fillna("").str.startswith("attention_") & results["layer"].notna()]
    heads = pick(rows, measure="attention_distance", condition="plain", weights="trained")
    longest = float(heads.loc[heads["head"].notna(), "value"].max()) if heads["head"].notna().any() else 1.0
    place = first
    for model, style in styles.items():
        for part, _, varying in facets(pick(rows, model=model), "data"):
            panels: list[Panel] = []
            for title, measure, drawing in _attention_panels(part, style, longest):
                name = panel_name(place, len(panels) + 1, "attention", model, title)
                alt = _variants_alt(part) if measure == _SHOWN_WITH_VARIANTS else attention_alt(part, measure)
                panels.append(Panel(name, f"{style.label}, {title}", alt, as_svg(drawing)))
            if panels:
                conditions = values_of(part, "condition")
                varied = any(name in conditions for name in _VARIANTS)
                unseen = () if varied else (_SHOWN_WITH_VARIANTS,)
                shown = [name for name in values_of(pick(part, condition="plain"), "measure") if name not in unseen]
                shown += [name for name in (*_VARIANTS, *_BASELINES) if name in conditions]
                title = f"Attention of {style.label}" + (f" ({varying})" if varying else "")
                caption = " ".join(
                    filter(None, (attention_caption(part), _variants_caption(part), _towers_caption(part)))
                )
                yield DrawnFigure(place, "attention", title, caption, tuple(shown), tuple(panels))
                place += 1


def _attention_panels(rows: pd.DataFrame, style: Style, longest: float) -> Iterator[tuple[str, str, Any]]:
    plain = pick(rows, condition="plain", weights="trained")
    single_heads = plain[plain["head"].notna()]
    maps = (
        ("attention_distance", "distance in words, by head", "#3B2F5C", longest),
        ("attention_mass_left", "left mass, by head", DIRECTIONS["left"].colour, 1.0),
        ("attention_mass_right", "right mass, by head", DIRECTIONS["right"].colour, 1.0),
    )
    for measure, title, colour, top in maps:
        cells = pick(single_heads, measure=measure)
        if not cells["value"].dropna().empty:
            yield title, measure, _heat_map(cells, style.label, title, colour, top)
    if not plain[plain["head"].isna()].empty:
        yield "layer means", "attention_distance", _attention_means(pick(rows, head=None, part="whole"), style)
    whole = pick(rows, head=None, part="whole", weights="trained")
    if not pick(whole, condition=list(_VARIANTS)).empty:
        yield "readings of attention", _SHOWN_WITH_VARIANTS, _attention_variants(whole, style)


def _heat_map(cells: pd.DataFrame, model: str, title: str, colour: str, top: float) -> Any:
    import seaborn

    grid = cells.drop_duplicates(["layer", "head"]).pivot(index="layer", columns="head", values="value").astype(float)
    grid = grid.sort_index(ascending=False).sort_index(axis=1)
    layers, heads = grid.shape
    figure = canvas(min(6.5, max(2.3, 0.23 * layers + 1.25)))
    axes = figure.subplots()
    small = heads <= 12 and layers <= 12
    seaborn.heatmap(
        grid,
        ax=axes,
        vmin=0,
        vmax=top,
        cmap=seaborn.light_palette(colour, as_cmap=True),
        linewidths=0.4 if small else 0,
        linecolor="white",
        annot=small,
        fmt=".1f" if top > 1 else ".2f",
        annot_kws={"fontsize": 6.5},
        rasterized=not small,
        cbar_kws={"pad": 0.02, "aspect": 30},
        xticklabels=max(1, -(-heads // 12)),
        yticklabels=max(1, -(-layers // 25)),
    )
    axes.tick_params(axis="both", length=0)
    axes.tick_params(axis="y", rotation=0)
    axes.tick_params(axis="x", rotation=0)
    towers = ", ".join(f"{span} {direction}" for direction, span in _tower_spans(cells).items())
    axes.set(xlabel=f"head ({towers})" if towers else "head", ylabel="layer")
    panel_title(figure, model)
    axes.set_title(title)
    axes.collections[0].colorbar.outline.set_visible(False)
    return figure


def _attention_variants(rows: pd.DataFrame, style: Style) -> Any:
    """Mean and signed distance of plain, norm-weighted and rolled-out attention, layer by layer."""
    figure = canvas(4.4)
    upper, lower = figure.subplots(2, 1, sharex=True)
    looks: dict[str, dict[str, Any]] = {
        "uniform": {"colour": NEUTRAL, "marker": "", "line": ":", "label": "uniform", "faint": True},
        "rollout uniform": {"colour": _ROLLOUT, "marker": "", "line": "-.", "label": "rollout, uniform", "faint": True},
        "plain": {"colour": style.colour, "marker": style.marker, "label": "plain"},
        "norm-weighted": {"colour": style.colour, "marker": "D", "line": "--", "label": "norm-weighted", "faint": True},
        "rollout": {"colour": _ROLLOUT, "marker": "s", "label": "rollout", "faint": True},
    }
    layers: set[int] = set()
    for condition, look in looks.items():
        for axes, measure in ((upper, "attention_distance"), (lower, "attention_signed_distance")):
            curve = _defined(rows, condition, measure)
            if curve:
                layers |= curve.keys()
                draw_curve(axes, curve, **look)
    upper.set_ylim(bottom=0)
    upper.set_ylabel("mean distance, words")
    lower.set_ylabel("signed distance, words")
    lower.axhline(0, color="#8C8C8C", linewidth=0.8, zorder=1)
    low, high = lower.get_ylim()
    reach = max(abs(low), abs(high), 0.5)
    lower.set_ylim(-reach, reach)
    lower.set_title("above 0: to the right, below 0: to the left", fontsize=7.5, color="#444444")
    panel_title(figure, style.label)
    upper.set_title("readings of attention, layer means", pad=30)
    upper.legend(
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(0, 0.99),
        handlelength=2.2,
        columnspacing=1.0,
        borderaxespad=0.1,
        fontsize=7.5,
    )
    found = sorted(layers) or [1]
    layer_axis(lower, list(range(found[0], found[-1] + 1)))
    return figure


def _defined(rows: pd.DataFrame, condition: str, measure: str = "attention_distance") -> dict[int, Estimate]:
    """Layer -> defined estimate of a condition among rows of whole layers."""
    found = estimates(pick(rows, condition=condition, measure=measure))
    return {layer: one for layer, one in found.items() if one.defined}


def _variants_caption(rows: pd.DataFrame) -> str:
    """What the variants say at the highest layer, beside what they are to be compared with."""
    whole = pick(rows, head=None, part="whole", weights="trained")
    parts = []
    for condition, beside, name in (
        ("norm-weighted", "plain", "plain maps"),
        ("rollout", "rollout uniform", "uniform"),
    ):
        curve, other = _defined(whole, condition), _defined(whole, beside)
        if curve:
            top = max(curve)
            text = f"{_VARIANTS[condition]} reaches {curve[top]} words at layer {top}"
            parts.append(text + (f" ({name}: {other[top]})" if top in other else ""))
    if not parts:
        return ""
    return (
        f"Readings of attention: {'; '.join(parts)}. Norm-weighted maps count what heads read, not where they point; rollout "
        "follows attention from a layer down to the input. A signed distance below 0 is to the left."
    )


def _towers_caption(rows: pd.DataFrame) -> str:
    """Which heads are whose, of two models side by side."""
    spans = _tower_spans(rows)
    towers = [f"{span} of the {direction} one" for direction, span in spans.items()]
    return f"Two models side by side: heads {' and '.join(towers)}; layer means are over both." if towers else ""


def _tower_spans(rows: pd.DataFrame) -> dict[str, str]:
    """Reading direction -> the heads of the model that reads so, of two side by side."""
    spans = {}
    for part, direction in (("forward", "left-to-right"), ("backward", "right-to-left")):
        heads = sorted({int(head) for head in pick(rows, part=part, condition="plain")["head"].dropna()})
        if heads:
            spans[direction] = f"{heads[0]} to {heads[-1]}" if len(heads) > 1 else f"{heads[0]}"
    return spans


def _variants_alt(rows: pd.DataFrame) -> str:
    """Text alternative: mean distance by layer of each reading of attention."""
    whole = pick(rows, head=None, part="whole", weights="trained")
    curves = []
    for condition in ("plain", *_VARIANTS):
        curve = _defined(whole, condition)
        if curve:
            means = ", ".join(f"layer {layer} {number(one.value, one.unit)}" for layer, one in curve.items())
            curves.append(f"{condition}: {means}")
    return f"Mean distance by layer of different readings of attention. {'; '.join(curves)}."


def _attention_means(rows: pd.DataFrame, style: Style) -> Any:
    has_entropy = not pick(rows, measure="attention_entropy")["value"].dropna().empty
    figure = canvas(6.2 if has_entropy else 4.4)
    grid = figure.subplots(2 + has_entropy, 1, sharex=True)
    distance, mass = grid[0], grid[1]
    plain, untrained, uniform = (
        pick(rows, condition="plain", weights="trained"),
        pick(rows, condition="plain", weights="untrained"),
        pick(rows, condition="uniform", weights="trained"),
    )
    layers: list[int] = []

    def curve(axes: Any, part: pd.DataFrame, measure: str, **look: Any) -> None:
        found = estimates(pick(part, measure=measure))
        if any(one.defined for one in found.values()):
            layers.extend(found)
            draw_curve(axes, found, **look)

    beside = ((distance, "attention_distance"), *([(grid[2], "attention_entropy")] if has_entropy else []))
    for axes, measure in beside:
        curve(axes, uniform, measure, colour=NEUTRAL, marker="", line=":", label="uniform attention", faint=True)
        curve(
            axes, untrained, measure, colour=style.colour, marker=style.marker, line="--", label="untrained", faint=True
        )
        curve(axes, plain, measure, colour=style.colour, marker=style.marker, label="trained")
        axes.set_ylim(bottom=0)
    distance.set_ylabel("mean distance, words")
    looks = {
        "left": (DIRECTIONS["left"].colour, "<"),
        "right": (DIRECTIONS["right"].colour, ">"),
        "self": ("#6E4B2A", "o"),
        "special": ("#8C8C8C", "s"),
    }
    for name, (colour, marker) in looks.items():
        curve(
            mass,
            plain,
            f"attention_mass_{name}",
            colour=colour,
            marker=marker,
            label={"special": "special tokens"}.get(name, name),
        )
        if name in ("left", "right"):
            curve(mass, uniform, f"attention_mass_{name}", colour=colour, marker="", line=":", faint=True)
    mass.set_ylim(-0.03, 1.03)
    mass.set_ylabel("share of attention")
    if has_entropy:
        grid[2].set_ylabel("entropy, bits")
    panel_title(figure, style.label)
    for axes in (distance, mass):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(
                ncols=4,
                loc="lower left",
                bbox_to_anchor=(0, 0.99),
                handlelength=1.8,
                columnspacing=1.0,
                borderaxespad=0.1,
                fontsize=7.5,
            )
    distance.set_title("means over the heads of a layer", pad=18)
    layers = sorted(set(layers)) or [1]
    layer_axis(grid[-1], list(range(layers[0], layers[-1] + 1)))
    return figure
