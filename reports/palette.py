"""One palette and one theme for every figure: fixed colours for left, right and interaction, one style per model.

The direction colours are from Okabe & Ito's set (distinguishable with all common colour-vision deficiencies), and each has
its own marker, so that nothing rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How one thing is drawn, in every figure."""

    label: str
    """Text for legends: safe to draw, short, unique among its peers."""
    colour: str
    """Hexadecimal colour; at least 3:1 against white."""
    marker: str
    """A matplotlib marker."""


DIRECTIONS: dict[str, Style] = {
    "left": Style("left", "#0072B2", "<"),
    "right": Style("right", "#D55E00", ">"),
    "interaction": Style("interaction", "#009E73", "D"),
}
"""Left context, right context, and their interaction."""

NEUTRAL = "#595959"
"""Baselines, notes and everything that is neither a direction nor a model."""

_COLOURS = ("#332288", "#B5475D", "#2A7F72", "#8A6D00", "#7B1F5C", "#3B82B8", "#6E4B2A", "#A64CA6")
_MARKERS = ("o", "s", "^", "P", "v", "X", "p", "*")


def model_styles(models: Iterable[str]) -> dict[str, Style]:
    """Give each model its colour, marker and label, by order of appearance.

    Parameters
    ----------
    models : iterable of str
        Names in a stable order (the order of the run). Duplicates count once.

    Returns
    -------
    dict
        Name -> style. The pair of colour and marker is unique for up to 64 models.
    """
    from reports.tables import shortened

    styles: dict[str, Style] = {}
    labels: set[str] = set()
    for index, model in enumerate(dict.fromkeys(models)):
        label = shortened(model, 30)
        if label in labels:
            label = f"{shortened(model, 26)} #{index + 1}"
        labels.add(label)
        round_, place = divmod(index, len(_COLOURS))
        styles[model] = Style(label, _COLOURS[place], _MARKERS[(place + round_) % len(_MARKERS)])
    return styles


@contextmanager
def theme() -> Iterator[None]:
    """Draw inside the report's theme; matplotlib's global settings are as before afterwards."""
    import warnings

    import matplotlib
    import seaborn

    settings = {
        **seaborn.axes_style("whitegrid"),
        **seaborn.plotting_context("paper"),
        "axes.edgecolor": "#8C8C8C",
        "axes.grid.axis": "y",
        "axes.labelcolor": "#222222",
        "axes.labelsize": 9,
        "axes.linewidth": 0.7,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 9.5,
        "axes.titleweight": "regular",
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.6,
        "hatch.color": "#BDBDBD",
        "hatch.linewidth": 0.6,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "lines.linewidth": 1.5,
        "lines.markersize": 4.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "janus",
        "text.color": "#222222",
        # Model and label names are text: "$x^2$" must not turn into a formula, or into an error.
        "text.parse_math": False,
        "text.usetex": False,
        "xtick.bottom": True,
        "xtick.color": "#444444",
        "xtick.labelsize": 8.5,
        "xtick.major.size": 3,
        "xtick.major.width": 0.7,
        "ytick.color": "#444444",
        "ytick.labelsize": 8.5,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # The font that text is measured with lacks some scripts; the reader's own fonts draw it.
        warnings.filterwarnings("ignore", message=r"(?s).*Glyph.*missing from")
        warnings.filterwarnings("ignore", message=r"(?s).*Matplotlib currently does not support .* natively")
        yield
