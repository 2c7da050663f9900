"""Attention: heat maps of heads and layers, and layer means beside uniform attention; one figure per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reports.captions import attention_alt, attention_caption
from reports.drawing import DrawnFigure, Panel, as_svg, canvas, draw_curve, facets, layer_axis, panel_name, panel_title
from reports.palette import DIRECTIONS, NEUTRAL, Style
from reports.tables import estimates, pick, values_of

if TYPE_CHECKING:
    import pandas as pd


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
                panels.append(Panel(name, f"{style.label}, {title}", attention_alt(part, measure), as_svg(drawing)))
            if panels:
                measures = tuple(values_of(pick(part, condition="plain"), "measure")) + (
                    ("uniform",) if not pick(part, condition="uniform").empty else ()
                )
                shown = tuple(
                    name for name in measures if name not in ("attention_entropy", "attention_signed_distance")
                )
                title = f"Attention of {style.label}" + (f" ({varying})" if varying else "")
                yield DrawnFigure(place, "attention", title, attention_caption(part), shown, tuple(panels))
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
        yield "layer means", "attention_distance", _attention_means(rows[rows["head"].isna()], style)


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
    axes.set(xlabel="head", ylabel="layer")
    panel_title(figure, model)
    axes.set_title(title)
    axes.collections[0].colorbar.outline.set_visible(False)
    return figure


def _attention_means(rows: pd.DataFrame, style: Style) -> Any:
    figure = canvas(4.4)
    distance, mass = figure.subplots(2, 1, sharex=True)
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

    curve(
        distance,
        uniform,
        "attention_distance",
        colour=NEUTRAL,
        marker="",
        line=":",
        label="uniform attention",
        faint=True,
    )
    curve(
        distance,
        untrained,
        "attention_distance",
        colour=style.colour,
        marker=style.marker,
        line="--",
        label="untrained",
        faint=True,
    )
    curve(distance, plain, "attention_distance", colour=style.colour, marker=style.marker, label="trained")
    distance.set_ylim(bottom=0)
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
    layer_axis(mass, list(range(layers[0], layers[-1] + 1)))
    return figure
