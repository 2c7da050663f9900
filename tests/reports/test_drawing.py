"""Drawings as SVG: short, and yet the same drawing."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from reports.drawing import as_svg, canvas
from reports.figures import draw_figures
from reports.palette import model_styles, theme

TEXT = 'a </g> <g id="x"> style="fill: red" 1.500'


def drawing() -> Any:
    figure = canvas(3)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0.25, 1.5, 1.0], marker="o")
    axes.vlines([0.0, 1.0], [0.1, 0.2], [0.3, 0.4], color="#123456")
    axes.imshow([[0.0, 1.0], [0.5, 0.25]])
    axes.tick_params(length=0, labelbottom=False)  # groups without content
    axes.set_title(TEXT)
    return figure


def elements(svg: bytes) -> Counter[tuple[str, str]]:
    """Everything that is drawn, with the look that style or class give it; groups left out, numbers as numbers."""
    root = ElementTree.fromstring(svg)
    rules = dict(re.findall(r"\.(s\d+)\{([^}]*)\}", "".join(root.itertext())))
    found: Counter[tuple[str, str]] = Counter()
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if name in ("path", "use", "text", "image", "rect"):
            look = element.get("style") or rules.get(element.get("class", ""), "")
            outline = [float(value) for value in re.findall(r"-?\d+(?:\.\d+)?", element.get("d", ""))]
            place = [round(float(element.get(key, 0)), 2) for key in ("x", "y")] if name == "text" else []
            found[name, f"{look} {[round(value, 2) for value in outline]} {place} {element.text or ''}"] += 1
    return found


def test_a_compact_drawing_has_every_mark_and_its_look(monkeypatch: pytest.MonkeyPatch) -> None:
    with theme():
        short = as_svg(drawing())
        monkeypatch.setattr("reports.drawing._compact", lambda text: text)
        long = as_svg(drawing())
    assert elements(short) == elements(long)
    assert sum(elements(short).values()) > 15
    assert TEXT in "".join(ElementTree.fromstring(short).itertext())
    assert len(short) < 0.75 * len(long)
    assert io.BytesIO(short).readline().startswith(b'<?xml version="1.0"')


def test_every_figure_of_a_report_is_well_formed(synthetic: ModuleType) -> None:
    table = synthetic.full_table()
    figures = draw_figures(table, model_styles(["elmo-tiny", "bert-tiny"]), synthetic.costs_table())
    panels = [panel for figure in figures for panel in figure.panels]
    assert any("by head" in panel.title for panel in panels)
    for panel in panels:
        ElementTree.fromstring(panel.svg)
