"""The figure of context reach: panels, scales, captions from the numbers, tables with gaps."""

from __future__ import annotations

from typing import Any

import pytest

from extractors.foundation.results import tidy
from reports.palette import model_styles, theme
from reports.reach_figures import reach_figures

NAN = float("nan")


def rows(
    model: str, layers: int = 3, *, weights: str = "trained", left: float = 0.6, gradient: bool = True
) -> list[Any]:
    """Influence falling off with distance, one-sided halves for models with "elmo" in their name; layer 0 undefined."""
    table = []
    for part in ("whole", "forward", "backward") if "elmo" in model else ("whole",):
        for layer in range(layers + 1):
            where = {
                "model": model,
                "family": "bert",
                "weights": weights,
                "part": part,
                "layer": layer,
                "kind": "analysis",
                "data": "made up",
                "length": 4,
                "pooling": "mean",
                "n": 20,
                "seed": 0,
            }
            share = {"whole": left, "forward": 1.0, "backward": 0.0}[part]
            for condition in ("substitution", "gradient")[: 1 + gradient]:
                here = {**where, "condition": condition}
                for offset in range(-4, 5):
                    value = (share if offset < 0 else 1 - share) * 0.6 / max(1, abs(offset)) if offset else 5.0
                    value *= {"trained": 1.0, "untrained": 0.3}[weights] * (0.7 if condition == "gradient" else 1)
                    bounds = {"value": value, "low": 0.8 * value, "high": 1.2 * value}
                    if layer == 0:
                        bounds = dict.fromkeys(bounds, NAN)
                    table.append({**here, "measure": "reach_influence", "offset": offset, "unit": "ratio", **bounds})
                numbers = {
                    "reach_mass_left": share,
                    "reach_mass_right": 1 - share,
                    "reach_distance": 1 + 0.3 * layer,
                    "reach_radius_50": 1.0,
                    "reach_radius_90": 3.0,
                }
                for measure, value in numbers.items():
                    half = 1 if "radius" in measure else 0.05
                    bounds = {"value": value, "low": value - half, "high": value + half}
                    if layer == 0:
                        bounds = dict.fromkeys(bounds, NAN)
                    table.append(
                        {**here, "measure": measure, "unit": "share" if "mass" in measure else "words", **bounds}
                    )
            if gradient:
                value = 0.83 if layer else NAN
                bounds = {"value": value, "low": value - 0.25, "high": value + 0.125}
                table.append({**where, "measure": "reach_agreement", **bounds})
    return table


def figures(table: list[dict[str, Any]]) -> list[Any]:
    frame = tidy(table)
    with theme():
        return list(reach_figures(frame, model_styles(frame["model"]), 3))


def test_one_panel_per_model_one_for_all_and_a_caption_from_the_numbers() -> None:
    (figure,) = figures(rows("elmo-made") + rows("bert-made", left=0.4) + rows("bert-made", weights="untrained"))
    assert figure.number == 3
    assert [panel.title for panel in figure.panels] == [
        "elmo-made",
        "bert-made",
        "Mean distance and left mass by layer",
    ]
    assert "elmo-made layer 3: left mass 0.600 [0.550, 0.650]" in figure.caption
    assert "bert-made layer 3: left mass 0.400" in figure.caption
    assert (
        "half within 1 [0, 2] words, nine tenths within 3 [2, 4] words, rank agreement with gradients 0.830 [0.580, 0.955]"
    ) in figure.caption
    assert "Dashes: the untrained copy" in figure.caption
    assert "Contexts have 4 words on each side" in figure.caption
    assert "n = 20 targets" in figure.caption
    assert "−4: 0.090" in figure.panels[0].alt
    assert "+1: 0.240" in figure.panels[0].alt
    assert b"forward half" in figure.panels[0].svg
    assert b"layer 0" not in figure.panels[0].svg
    assert {"reach_influence", "substitution", "gradient", "reach_agreement"} <= set(figure.measures)


def test_the_word_itself_does_not_set_the_scale() -> None:
    (figure,) = figures(rows("bert-made"))
    assert b">5<" not in figure.panels[0].svg


def test_lengths_are_figures_of_their_own() -> None:
    table = rows("bert-made")
    first, second = figures(table + [{**row, "length": 8} for row in table])
    assert (first.number, second.number) == (3, 4)
    assert "8 words on each side" in second.caption


def test_many_layers_are_thinned_and_the_top_one_kept() -> None:
    (figure,) = figures(rows("deep", layers=24, gradient=False))
    shown = [layer for layer in range(25) if f">layer {layer}<".encode() in figure.panels[0].svg]
    assert shown[-1] == 24
    assert len(shown) <= 6
    assert "Diamonds" not in figure.caption


@pytest.mark.parametrize("kept", ["untrained", "gradient"])
def test_tables_that_lack_something_are_drawn(kept: str) -> None:
    table = rows("bert-made", weights="untrained" if kept == "untrained" else "trained")
    if kept == "gradient":
        table = [row for row in table if row.get("condition") == "gradient"]
    (figure,) = figures(table)
    assert "left mass 0.600" in figure.caption


@pytest.mark.parametrize("table", [[], [row for row in rows("bert-made") if row["layer"] == 0]])
def test_without_numbers_there_is_no_figure(table: list[dict[str, Any]]) -> None:
    assert figures(table) == []
