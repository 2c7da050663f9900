"""Figures of neighbour and conjunction probes: captions and text alternatives say what the table says."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from extractors.foundation.results import tidy
from reports import conjunction_figures as conjunction_figures_module
from reports import neighbour_figures as neighbour_figures_module
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
        "elmo-tiny layer 2: parity 0 [−0.010, 0.010] (none), both cues 0.250 [0.240, 0.260], parity by the perceptron "
        "0.200 [0.190, 0.210]" in figure.caption
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


def with_copy(copied: list[str], items: dict[str, int]) -> pd.DataFrame:
    """bert-tiny over all `items`, its untrained copy over the `copied` cue types; parity .8 per type, counted from 1."""
    rows = []
    for weights, types in (("trained", list(items)), ("untrained", copied)):
        together = [None] if len(types) > 1 else []
        for condition in (*together, *types):
            value = 0.5 if condition is None else 0.2 * (1 + list(items).index(condition))
            value *= 1 if weights == "trained" else 0.1
            n = sum(items[name] for name in types) if condition is None else items[condition]
            about = {"measure": "conjunction_bits", "task": "cues:xor", "probe": "linear", "unit": "bits"}
            numbers = {"value": value, "low": value - 0.01, "high": value + 0.01}
            row = base("bert-tiny", 1, **about, condition=condition, **numbers)
            rows.append({**row, "weights": weights, "n": n})
    return tidy(rows)


def test_copies_are_compared_over_the_cues_they_were_read_on() -> None:
    items = {"agreement": 10, "polarity": 30, "sense": 20}
    (figure,) = drawn(conjunction_figures, with_copy(["agreement", "polarity"], items))
    assert "Cues: agreement, polarity and sense; of untrained copies agreement and polarity alone" in figure.caption
    assert "the thin line" in figure.caption
    assert b">XOR, same cues<" in figure.panels[0].svg
    found = conjunction_figures_module._shared_types(with_copy(["agreement", "polarity"], items), "bert-tiny")
    assert found == {"linear": {1: pytest.approx((0.2 * 10 + 0.4 * 30) / 40)}}
    # A copy read on one type has no row over several.
    (one,) = drawn(conjunction_figures, with_copy(["polarity"], items))
    assert "of untrained copies polarity alone" in one.caption
    assert b">XOR, untrained<" in one.panels[0].svg
    (same,) = drawn(conjunction_figures, with_copy(list(items), items))
    assert "Cues: agreement, polarity and sense." in same.caption
    assert "thin line" not in same.caption
    assert b"same cues" not in same.panels[0].svg


def test_scales_hold_what_is_drawn(conjunction: pd.DataFrame) -> None:
    deep = conjunction.copy()
    deep["value"], deep["low"] = deep["value"] - 1, deep["value"] - 3
    (figure,) = drawn(conjunction_figures, deep)
    ticks = re.findall(r">(−?\d+(?:\.\d+)?)<", figure.panels[0].svg.decode())
    assert min(float(tick.replace("−", "-")) for tick in ticks) <= -2
    far = tidy(neighbour_rows("elmo-tiny"))
    far.loc[far["measure"] == "neighbour_bits", ["value", "low"]] = [-1.5, -3.5]
    assert neighbour_figures_module._limits(far)[0] < -3.5


def test_neighbour_figure_sums_sides_and_draws_halves() -> None:
    (figure,) = drawn(neighbour_figures, tidy(neighbour_rows("elmo-tiny") + neighbour_rows("bert-tiny")))
    assert (
        "elmo-tiny layer 2: left 0.750 [0.700, 0.800], right 1.050 [1.000, 1.100], right minus left 0.300 [0.250, 0.350]"
        in figure.caption
    )
    assert "Bits are not access" in figure.caption
    assert [panel.title for panel in figure.panels] == ["elmo-tiny", "bert-tiny", "Both sides by layer"]
    assert b"layer 2, forward half" in figure.panels[0].svg
    assert b"half" not in figure.panels[1].svg
    assert "−2: 0.250, −1: 0.500, +1: 0.700, +2: 0.350" in figure.panels[1].alt
    assert "neighbour_asymmetry" in figure.measures


def test_no_rows_no_figure() -> None:
    for draw in (conjunction_figures, neighbour_figures):
        assert drawn(draw, tidy([])) == []
