"""The figure of the mask shift: its caption's numbers are those of the table, and gaps leave no trace of a value."""

from __future__ import annotations

from typing import Any

import pytest

from extractors.foundation.results import tidy
from reports.figures import draw_figures
from reports.palette import model_styles

NAN = float("nan")


def rows(model: str, weights: str, *, top: float) -> list[dict[str, Any]]:
    """Shifts that fall from about 1 at layer 0 to `top` at layer 3."""
    found = []
    for layer in range(4):
        for condition, factor in (("given as the mask", 1.0), ("given as a random word", 1.2)):
            value = factor * (1 + (top - 1) * layer / 3)
            found.append(
                {
                    "model": model,
                    "family": "bert",
                    "weights": weights,
                    "layer": layer,
                    "layer_name": f"layer {layer}",
                    "part": "whole",
                    "kind": "analysis",
                    "measure": "mask_shift",
                    "condition": condition,
                    "data": "sample",
                    "pooling": "mean",
                    "value": value,
                    "low": value - 0.05,
                    "high": value + 0.05,
                    "unit": "ratio",
                    "n": 200,
                    "seed": 0,
                }
            )
    return found


def figures(table: list[dict[str, Any]]) -> list[Any]:
    frame = tidy(table)
    return [
        figure
        for figure in draw_figures(frame, model_styles(frame["model"].dropna()))
        if "mask_shift" in figure.measures
    ]


def test_one_panel_per_model_and_a_caption_from_the_numbers() -> None:
    table = rows("one", "trained", top=0.3) + rows("one", "untrained", top=0.9) + rows("two", "trained", top=0.5)
    (figure,) = figures(table)
    assert [panel.title for panel in figure.panels] == ["one", "two"]
    assert "one layer 3: 0.300 [0.250, 0.350] as the mask, 0.360 [0.310, 0.410] as a random word" in figure.caption
    assert "n = 200 sentences" in figure.caption
    assert "untrained" in figure.caption
    assert "mask: 1.000 at layer 0, 0.300 at layer 3" in figure.panels[0].alt
    for panel in figure.panels:
        assert panel.svg.startswith(b"<?xml") or b"<svg" in panel.svg[:200]


def test_an_undefined_layer_is_left_out() -> None:
    table = rows("one", "trained", top=0.3)
    for row in table:
        if row["layer"] == 3:
            row.update(value=NAN, low=NAN, high=NAN)
    (figure,) = figures(table)
    assert "layer 2" in figure.caption
    assert "nan" not in figure.caption
    assert "layer 3" not in figure.panels[0].alt


@pytest.mark.parametrize("table", [[]])
def test_without_numbers_there_is_no_figure(table: list[dict[str, Any]]) -> None:
    assert figures(table) == []
