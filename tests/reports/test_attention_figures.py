"""Attention figures with variants and with two towers: what is drawn, told and defined."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from extractors.foundation.results import tidy
from reports.attention_figures import attention_figures
from reports.definitions import DEFINITIONS
from reports.palette import model_styles, theme

DISTANCES = {"plain": 3.0, "uniform": 5.5, "norm-weighted": 2.25, "rollout": 1.5, "rollout uniform": 4.5}


def table(synthetic: ModuleType, *, towers: bool = False, variants: bool = True, entropy: bool = False) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    lines = (
        [("forward", 0), ("forward", 1), ("backward", 2), ("backward", 3)] if towers else [("whole", 0), ("whole", 1)]
    )
    lines += [("forward", None), ("backward", None)] if towers else []
    for layer in (1, 2):
        for condition, distance in DISTANCES.items():
            if not variants and condition not in ("plain", "uniform"):
                continue
            for part, head in (*lines, ("whole", None)):
                if head is not None and condition.startswith("rollout"):
                    continue
                base = {
                    "model": "some",
                    "family": "some",
                    "weights": "trained",
                    "part": part,
                    "layer": layer,
                    "kind": "analysis",
                    "data": "text",
                    "condition": condition,
                    "head": head,
                    "n": 9,
                    "seed": 0,
                }
                # A layer's own value differs from its towers', so that a mix-up shows.
                value = distance + layer / 8 + {"forward": 20, "backward": 30, "whole": 0}[part]
                side = {"forward": -value, "backward": value, "whole": 0.5}[part]
                left = {"forward": 0.9, "backward": 0.0, "whole": 0.45}[part]
                rows += [
                    {**base, "measure": "attention_distance", "unit": "words", **synthetic.interval(value, 0.1)},
                    {**base, "measure": "attention_signed_distance", "unit": "words", **synthetic.interval(side, 0.1)},
                    {**base, "measure": "attention_mass_left", "unit": "share", **synthetic.interval(left, 0.01)},
                    {
                        **base,
                        "measure": "attention_mass_right",
                        "unit": "share",
                        **synthetic.interval(0.9 - left, 0.01),
                    },
                ]
                if entropy:
                    bits = {"plain": 1.75, "uniform": 2.5}.get(condition, 2.25) + layer / 8
                    rows.append(
                        {**base, "measure": "attention_entropy", "unit": "bits", **synthetic.interval(bits, 0.125)}
                    )
    return tidy(rows)


def drawn(frame: pd.DataFrame) -> Any:
    with theme():
        (figure,) = attention_figures(frame, model_styles(["some"]), 1)
    return figure


def test_the_readings_are_drawn_side_by_side_and_told(synthetic: ModuleType) -> None:
    figure = drawn(table(synthetic))
    assert figure.panels[-1].title == "some, readings of attention"
    drawing = figure.panels[-1].svg.decode()
    for label in ("plain", "norm-weighted", "rollout", "rollout, uniform", "signed distance, words"):
        assert f">{label}<" in drawing
    assert "norm-weighted reaches 2.50 [2.40, 2.60] words at layer 2 (plain maps: 3.25 [3.15, 3.35])" in figure.caption
    assert "rollout reaches 1.75 [1.65, 1.85] words at layer 2 (uniform: 4.75 [4.65, 4.85])" in figure.caption
    assert "Two models" not in figure.caption
    assert "rollout: layer 1 1.62, layer 2 1.75" in figure.panels[-1].alt
    wanted = {"rollout", "rollout uniform", "norm-weighted", "uniform", "attention_signed_distance"}
    assert wanted <= set(figure.measures) <= set(DEFINITIONS)


@pytest.mark.parametrize("towers", [False, True])
def test_without_variants_nothing_is_said_of_them(synthetic: ModuleType, towers: bool) -> None:
    figure = drawn(table(synthetic, towers=towers, variants=False))
    assert [panel.title.split(", ")[1] for panel in figure.panels][-1] == "layer means"
    assert "ollout" not in figure.caption + "".join(figure.measures)
    assert "attention_signed_distance" not in figure.measures


def test_layers_of_two_towers_are_over_both_and_heads_are_told_apart(synthetic: ModuleType) -> None:
    figure = drawn(table(synthetic, towers=True))
    assert "heads 0 to 1 of the left-to-right one and 2 to 3 of the right-to-left one" in figure.caption
    assert "norm-weighted reaches 2.50 [2.40, 2.60] words at layer 2" in figure.caption
    assert (
        "At layer 2, 0.450 [0.440, 0.460] of the attention between words goes left and 0.450 [0.440, 0.460] right."
        in figure.caption
    )
    assert "layer 2 3.25" in figure.panels[0].alt
    assert ">head (0 to 1 left-to-right, 2 to 3 right-to-left)<" in figure.panels[0].svg.decode()


def test_entropy_is_drawn_beside_that_of_uniform_attention(synthetic: ModuleType) -> None:
    plain = drawn(table(synthetic, variants=False))
    assert b"entropy" not in plain.panels[-1].svg
    assert "entropy" not in plain.caption
    figure = drawn(table(synthetic, variants=False, entropy=True))
    assert b">entropy, bits<" in figure.panels[-1].svg
    assert (
        "The entropy of attention, in bits, is 2.000 [1.875, 2.125] at layer 2 (spread evenly: 2.750 [2.625, 2.875])."
        in figure.caption
    )
    assert "attention_entropy" in figure.measures
