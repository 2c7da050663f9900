"""What all figures share: the panel, its canvas and SVG, curves over layers, gaps, facets.

Panels instead of one wide drawing: they stay readable on a phone and on paper. All panels of a figure share their scales.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.tables import Estimate, shortened, values_of

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 4.6
"""Width of a panel in inches."""

MANY_LAYERS = 16
"""With more layers than this, intervals are bands and labels inside the axes are left out."""

_FONTS = "'DejaVu Sans', Verdana, Geneva, sans-serif"


@dataclass(frozen=True)
class Panel:
    """One drawing."""

    name: str
    """File name without suffix: ASCII letters, digits and hyphens."""
    title: str
    """What it shows, for its download link."""
    alt: str
    """What a reader who cannot see it needs."""
    svg: bytes
    """The drawing."""


@dataclass(frozen=True)
class DrawnFigure:
    """A numbered figure of the page."""

    number: int
    """1, 2, ..."""
    section: str
    """One of `reports.sections.SECTIONS`."""
    title: str
    """Plain text."""
    caption: str
    """What is seen, with numbers; plain text."""
    measures: tuple[str, ...]
    """Measures and conditions whose definitions the caption links to."""
    panels: tuple[Panel, ...]
    """Left to right, top to bottom."""


def as_svg(figure: Any) -> bytes:
    """Bytes of a matplotlib figure as SVG: the same figure gives the same bytes; text stays text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue().decode("utf-8")
    # Comments, metadata and indentation are a third of the file. Text is escaped, so none of this can match inside it.
    text = re.sub(r"(?s)<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE.*?>", "", text)
    text = re.sub(r">\s+<", "><", text)
    # A hundredth of a point is enough; only inside tags, names may hold numbers too.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), text)
    # Before 3.11, matplotlib names a clip area after floats whose last bits vary: name it after what is written of it.
    areas = {name: _short_hash(area) for name, area in re.findall(r'<clipPath id="(p\w+)">(.*?)</clipPath>', text)}
    text = re.sub(r'(id="|url\(#)(p\w+)', lambda match: match[1] + areas.get(match[2], match[2]), text)
    # The generic family comes last so that the drawing looks alike where the measuring font is absent.
    text = re.sub(r"font: ([^;\"]*?)'?DejaVu Sans'?[^;\"]*", rf"font: \1{_FONTS}", text)
    return _compact(text).encode("utf-8")


def _compact(text: str) -> str:
    """The same drawing in about half the bytes: short numbers, no groups that only carry a name, each style said once."""

    def tag(match: re.Match[str]) -> str:
        short = re.sub(r' transform="rotate\(-?0 [^"]*"', "", match[0])
        short = re.sub(r' d="[^"]*"', lambda path: _short_path(path[0]), short)
        return re.sub(r"(?<=\d)(\.\d*?)0+(?!\d)", lambda ending: ending[1].rstrip("."), short)

    text = re.sub(r"<[a-z][^>]*>", tag, text)
    kept: list[str] = []
    open_groups: list[bool] = []
    for piece in re.split(r"(</?g\b[^>]*>)", text):
        if re.fullmatch(r"<g\b[^>]*/>", piece):
            piece = ""
        elif re.match(r"<g\b", piece):
            bare = re.fullmatch(r'<g( id="[^"]*")?>', piece) is not None
            open_groups.append(bare)
            piece = "" if bare else piece
        elif piece == "</g>" and open_groups.pop():
            piece = ""
        kept.append(piece)
    text = "".join(kept)
    styles: dict[str, str] = {}

    def named_style(match: re.Match[str]) -> str:
        return f' class="{styles.setdefault(match[1], f"s{len(styles)}")}"'

    text = re.sub(r' style="([^"]*)"(?=[^<>]*>)', named_style, text)
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    return text.replace("</style>", f"{rules}</style>", 1)


def _short_path(path: str) -> str:
    """A path without line breaks and without spaces around its letters."""
    return re.sub(
        r" ?([A-Za-z]) ?", r"\1", re.sub(r"\s+", " ", path.removeprefix(' d="').removesuffix('"')).strip()
    ).join((' d="', '"'))


def _short_hash(text: str) -> str:
    return "p" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]


def canvas(height: float) -> Any:
    """An empty figure of the width of a panel and the given height in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def panel_title(figure: Any, text: str) -> None:
    """Put the panel's title at its upper left, over its whole width."""
    figure.suptitle(text, x=0.02, ha="left", fontsize=10.5, fontweight="bold")


def panel_name(number_: int, place: int, *words: str) -> str:
    """File name of a panel, safe on every file system: numbers of figure and panel, then what is left of the words in ASCII."""
    slug = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:48].rstrip("-")
    return f"figure-{number_:02d}-{place:02d}" + (f"-{slug}" if slug else "")


def layer_axis(axes: Any, layers: list[int], label: str = "layer") -> None:
    """Label the horizontal axis with layer numbers, thinned out where there are many."""
    step = max(1, -(-len(layers) // 14))
    axes.set_xticks(layers[::step])
    axes.set_xlim(layers[0] - 0.6, layers[-1] + 0.6)
    axes.set_xlabel(label)


def draw_curve(
    axes: Any,
    curve: Mapping[int, Estimate],
    *,
    colour: str,
    marker: str,
    line: str = "-",
    label: str = "",
    faint: bool = False,
) -> None:
    """Draw one curve over layers: a gap where a layer is undefined, bars (or a band for many layers) where it has an interval."""
    layers = list(range(min(curve), max(curve) + 1))
    nan = float("nan")
    values = [curve[layer].value if layer in curve else nan for layer in layers]
    many = len(layers) > MANY_LAYERS
    axes.plot(
        layers,
        values,
        line,
        color=colour,
        marker=marker,
        markersize=4 if many else 5,
        markevery=max(1, len(layers) // 12) if many else None,
        markerfacecolor="white" if faint else colour,
        markeredgecolor=colour if faint else "white",
        markeredgewidth=0.9 if faint else 0.5,
        linewidth=1.1 if faint else 1.5,
        label=label,
        zorder=2.5 if faint else 3,
    )
    bounded = {layer: one for layer, one in curve.items() if one.bounded}
    if many:
        low = [bounded[layer].low if layer in bounded else nan for layer in layers]
        high = [bounded[layer].high if layer in bounded else nan for layer in layers]
        axes.fill_between(layers, low, high, color=colour, alpha=0.12 if faint else 0.2, linewidth=0)
    elif bounded:
        axes.vlines(
            list(bounded),
            [one.low for one in bounded.values()],
            [one.high for one in bounded.values()],
            color=colour,
            linewidth=1.0,
            zorder=2,
        )


def mark_undefined(axes: Any, layers: list[int], curve: Mapping[int, Estimate], *, label: bool = True) -> None:
    """Hatch the layers of a model that have no defined value, so that a gap is not read as zero."""
    for layer in layers:
        if layer in curve and curve[layer].defined:
            continue
        axes.axvspan(
            layer - 0.4, layer + 0.4, facecolor="#F4F4F4", edgecolor="#BDBDBD", hatch="////", linewidth=0, zorder=0.5
        )
        if label and len(layers) <= MANY_LAYERS:
            axes.text(
                layer,
                0.5,
                "undefined",
                rotation=90,
                ha="center",
                va="center",
                fontsize=7.5,
                color="#444444",
                transform=axes.get_xaxis_transform(),
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9},
            )


def facets(rows: pd.DataFrame, *columns: str) -> Iterator[tuple[pd.DataFrame, dict[str, Any], str]]:
    """Split rows by columns; gives the rows, the values, and a title part naming the columns that vary.

    Rows that miss a column (baselines have no pooling) belong to every facet of it.
    """
    facets: list[tuple[pd.DataFrame, dict[str, Any], list[str]]] = [(rows, {}, [])]
    for column in columns:
        values = values_of(rows, column) or [None]
        facets = [
            (
                part
                if value is None
                else part[((part[column] == value) | part[column].isna()).fillna(True).astype(bool)],
                {**key, column: value},
                named + [shortened(str(value), 40)] * (len(values) > 1),
            )
            for part, key, named in facets
            for value in values
        ]
    for part, key, named in facets:
        if not part.empty:
            yield part, key, ", ".join(named)
