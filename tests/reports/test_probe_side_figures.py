"""Figures of neighbour and conjunction probes: captions and text alternatives say what the table says."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from extractors.foundation.results import tidy
from reports.conjunction_figures import conjunction_figures
from reports.drawing import DrawnFigure
from reports.neighbour_figures import neighbour_figures
from reports.palette import model_styles, theme

MODELS = ("elmo-tiny", "bert-tiny")


def base(model: str, layer: int, **columns: Any) -> dict[str, Any]:
    fixed = {"family": "x", "weights": "trained", "part": "whole", "kind": "analysis", "data": "d", "pooling": "mean"}
    return {"model": model, "layer": layer, "layer_name": f"layer {layer}", **fixed, "seed": 0, "n": 50, **columns}


def conjunction_rows(model: str, parity: float) -> list[dict[str, Any]]:
    rows = []
    for layer in range(3):
        for probe in ("linear", "mlp"):
            for task, value in (
                ("left", 0.4),
                ("right", 0.3),
                ("and", 0.25),
                ("xor", parity if probe == "linear" else 0.2),
            ):
                value = value * layer / 2
                for condition in (None, "polarity"):
                    rows.append(
                        base(
                            model, layer, measure="conjunction_bits", task=f"cues:{task}", probe=probe, condition=condition,
                            value=value, low=value - 0.01, high=value + 0.01, unit="bits",
                        )
                    )  # fmt: skip
    return rows


def neighbour_rows(model: str) -> list[dict[str, Any]]:
    rows = []
    for layer in range(3):
        for part in ("whole", "forward", "backward") if model == "elmo-tiny" and layer else ("whole",):
            about = {"task": "upos", "probe": "linear", "unit": "bits", "part": part}
            for k in (-2, -1, 0, 1, 2):
                value = (0.5 if k < 0 else 0.7) / max(abs(k), 1) * (layer + 1) / 3
                numbers = {"value": value, "low": value - 0.02, "high": value + 0.02}
                rows.append(base(model, layer, measure="neighbour_bits", offset=k, **about, **numbers))
            for name, value in (("bits_left", 0.75), ("bits_right", 1.05), ("asymmetry", 0.3)):
                value *= (layer + 1) / 3
                numbers = {"value": value, "low": value - 0.05, "high": value + 0.05}
                rows.append(base(model, layer, measure=f"neighbour_{name}", length=2, **about, **numbers))
    return rows


def drawn(draw: Any, frame: pd.DataFrame) -> list[DrawnFigure]:
    with theme():
        return list(draw(frame, model_styles(MODELS), 3))


@pytest.fixture(scope="module")
def conjunction() -> pd.DataFrame:
    return tidy(conjunction_rows("elmo-tiny", 0.0) + conjunction_rows("bert-tiny", 0.1))


def test_conjunction_figure_says_where_there_is_a_parity(conjunction: pd.DataFrame) -> None:
    (figure,) = drawn(conjunction_figures, conjunction)
    assert figure.number == 3
    assert (
        "elmo-tiny layer 2: parity 0 [−0.010, 0.010] (none), both cues 0.250, parity by the perceptron 0.200"
        in figure.caption
    )
    assert "bert-tiny layer 2: parity 0.100 [0.090, 0.110] (present)" in figure.caption
    assert "n = 50 items" in figure.caption
    assert "Cues: polarity." in figure.caption
    assert [panel.title for panel in figure.panels] == ["elmo-tiny", "bert-tiny", "Parity, all models"]
    assert "Layer 2: linear, left: 0.400" in figure.panels[0].alt
    assert all(panel.svg.startswith(b"<?xml") for panel in figure.panels)
    assert set(figure.measures) == {"conjunction_bits", "polarity"}


def test_conjunction_verdict_needs_its_interval(conjunction: pd.DataFrame) -> None:
    wide = conjunction.copy()
    wide["low"], wide["high"] = wide["value"] - 0.15, wide["value"] + 0.15
    (figure,) = drawn(conjunction_figures, wide)
    assert figure.caption.count("(undecided)") == 2


def test_neighbour_figure_sums_sides_and_draws_halves() -> None:
    (figure,) = drawn(neighbour_figures, tidy(neighbour_rows("elmo-tiny") + neighbour_rows("bert-tiny")))
    assert "elmo-tiny layer 2: left 0.750, right 1.050, right minus left 0.300 [0.250, 0.350]" in figure.caption
    assert "Bits are not access" in figure.caption
    assert [panel.title for panel in figure.panels] == ["elmo-tiny", "bert-tiny", "Both sides by layer"]
    assert b"layer 2, forward half" in figure.panels[0].svg
    assert b"half" not in figure.panels[1].svg
    assert "−2: 0.250, −1: 0.500, +1: 0.700, +2: 0.350" in figure.panels[1].alt
    assert "neighbour_asymmetry" in figure.measures


def test_no_rows_no_figure() -> None:
    for draw in (conjunction_figures, neighbour_figures):
        assert drawn(draw, tidy([])) == []
