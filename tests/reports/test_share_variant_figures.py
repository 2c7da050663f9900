"""Figures of word classes, lengths of context and comparisons: captions and text alternatives say the numbers of the table."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pandas as pd
import pytest

from extractors.foundation.results import tidy
from reports.figures import draw_figures
from reports.palette import model_styles, theme
from reports.share_variant_figures import share_variant_figures

MODELS = {"elmo-mini": "concatenated", "bert-mini": "bidirectional"}


def rows(*, effects: bool = True) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    base = {
        "weights": "trained",
        "part": "whole",
        "kind": "analysis",
        "data": "d",
        "pooling": "last",
        "seed": 0,
        "unit": "share",
    }
    for model in MODELS:
        deep = model == "bert-mini"
        where = {**base, "model": model, "family": model[:4]}
        for layer in range(3):
            for name, shift, n in (("content", 0.0, 22), ("function", 0.06, 18), ("NOUN", 0.02, 9)):
                value = float("nan") if layer == 0 else deep * (0.1 * layer + shift)
                numbers = {"value": value, "low": value - 0.02, "high": value + 0.02, "n": n}
                found.append(
                    {
                        **where,
                        **numbers,
                        "layer": layer,
                        "measure": "direction_share_interaction",
                        "condition": "by word class",
                        "task": name,
                    }
                )
            for side in (2, 4, 6):
                mixed = deep * 0.02 * side * layer
                for measure, value in (("left", 0.6 - mixed), ("right", 0.4), ("interaction", mixed)):
                    numbers = {"value": value, "low": value - 0.03, "high": value + 0.03, "n": 40}
                    if layer == 0:
                        numbers = {"value": float("nan"), "n": 40}
                    found.append(
                        {
                            **where,
                            **numbers,
                            "layer": layer,
                            "measure": f"direction_share_{measure}",
                            "condition": "by context length",
                            "length": side,
                        }
                    )
    gap = {"value": 0.21, "low": 0.17, "high": 0.26, "n": 40, "condition": "crossed"}
    found.append(
        {**base, **gap, "model": "bert-mini", "reference": "elmo-mini", "layer": 2, "measure": "interaction_gap"}
    )
    for measure, value in (
        ("main_effect_directionality", 0.2),
        ("main_effect_architecture", 0.01),
        ("effect_interaction", -0.02),
    ):
        if effects:
            found.append(
                {
                    **base,
                    "measure": measure,
                    "task": "direction_share_interaction",
                    "condition": "crossed",
                    "value": value,
                    "low": value - 0.04,
                    "high": value + 0.04,
                    "n": 40,
                }
            )
    return found


def drawn(table: pd.DataFrame) -> list[Any]:
    with theme():
        return list(share_variant_figures(table, model_styles(MODELS), 3))


def test_three_figures_with_captions_from_the_numbers() -> None:
    figures = drawn(tidy(rows()))
    assert [figure.number for figure in figures] == [3, 4, 5]
    classes, lengths, compared = figures
    assert [len(figure.panels) for figure in figures] == [2, 2, 1]
    assert (
        "bert-mini layer 2: 0.200 [0.180, 0.220] for content words and 0.260 [0.240, 0.280] for function words"
        in classes.caption
    )
    assert "n = 22 content words and n = 18 function words." in classes.caption
    assert "Lower row: by part of speech (UPOS)" in classes.caption
    assert b">NOUN 9<" in classes.panels[1].svg
    assert "bert-mini layer 2: 0.080 [0.050, 0.110] with 2 and 0.240 [0.210, 0.270] with 6" in lengths.caption
    assert "n = 40 targets" in lengths.caption
    assert "bert-mini − elmo-mini: 0.210 [0.170, 0.260]" in compared.caption
    assert "Intervals without 0: bert-mini − elmo-mini and Main effect of directionality." in compared.caption
    assert set(compared.measures) == {
        "interaction_gap", "main_effect_directionality", "main_effect_architecture", "effect_interaction",
    }  # fmt: skip
    for figure in figures:
        for panel in figure.panels:
            ElementTree.fromstring(panel.svg)
            assert any(character.isdigit() for character in panel.alt)


def test_counts_are_of_all_models() -> None:
    table = tidy(rows())
    table.loc[((table["model"] == "bert-mini") & (table["task"] == "content")).fillna(False), "n"] = 30
    assert "n = 22 to 30 content words and n = 18 function words." in drawn(table)[0].caption


def test_nothing_is_said_of_intervals_that_are_not_there() -> None:
    around = tidy(rows())
    compared = (around["condition"] == "crossed").fillna(False)
    around.loc[compared, ["low", "high"]] = [-0.5, 0.5]
    assert "Every interval holds 0." in drawn(around)[2].caption
    one = around.copy()
    one.loc[(one["measure"] == "interaction_gap").fillna(False), ["low", "high"]] = float("nan")
    assert "Every interval" not in drawn(one)[2].caption
    assert "No interval: bert-mini − elmo-mini." in drawn(one)[2].caption
    none = around.copy()
    none.loc[compared, ["low", "high"]] = float("nan")
    assert "holds 0" not in drawn(none)[2].caption
    assert "without 0" not in drawn(none)[2].caption


def test_without_tags_there_is_no_lower_row() -> None:
    classes = drawn(tidy(row for row in rows() if row.get("task") != "NOUN"))[0]
    assert "Lower row" not in classes.caption
    assert b"NOUN" not in classes.panels[1].svg


def test_what_is_missing_is_not_drawn() -> None:
    assert drawn(tidy(rows())[:0]) == []
    some = drawn(tidy(row for row in rows(effects=False) if row["condition"] == "crossed"))
    assert [figure.title for figure in some] == ["Models compared: interaction gaps"]
    nothing = tidy(rows())
    nothing[["value", "low", "high"]] = float("nan")
    assert drawn(nothing) == []


def test_classes_and_lengths_stay_out_of_the_figure_of_shares(synthetic: Any) -> None:
    """They have several rows a layer, which would pass for the shares of the whole set."""
    plain = synthetic.share_rows("elmo-mini", "concatenated", 2) + synthetic.share_rows("bert-mini", "bidirectional", 2)
    styles = model_styles(MODELS)
    before = draw_figures(tidy(plain), styles)
    after = draw_figures(tidy([*rows(), *plain]), styles)
    assert len(before) == 1
    assert len(after) == 4
    assert after[0] == before[0]


@pytest.mark.parametrize("condition", ["masked", "resampled", "natural"])
def test_other_modes_show_whole_vectors_alone(synthetic: Any, condition: str) -> None:
    table = tidy(synthetic.share_rows("elmo-mini", "concatenated", 2, condition=condition))
    (figure,) = draw_figures(table, model_styles(["elmo-mini"]))
    assert len(figure.panels) == 1
    (crossed,) = draw_figures(tidy(synthetic.share_rows("elmo-mini", "concatenated", 2)), model_styles(["elmo-mini"]))
    assert len(crossed.panels) == 3


def test_mixes_and_onsets_stand_in_the_figure_of_shares(synthetic: Any) -> None:
    table = synthetic.share_rows("elmo-mini", "concatenated", 2) + synthetic.share_rows("bert-mini", "bidirectional", 2)
    styles = model_styles(MODELS)
    (before,) = draw_figures(tidy(table), styles)
    assert b"LN" not in before.panels[0].svg
    assert "onset" not in before.caption
    (where,) = [row for row in table if row.get("layer") == 2 and row["model"] == "bert-mini"][:1]
    where = {key: value for key, value in where.items() if key not in ("layer", "layer_name")}
    for condition, value in (("scalar mix", 0.125), ("scalar mix layer-normed", 0.25)):
        for name, share in (("left", 0.5), ("right", 0.5 - value), ("interaction", value)):
            numbers = synthetic.interval(share, 0.0625)
            table.append({**where, "condition": condition, "measure": f"direction_share_{name}", **numbers})
    for model, onset in (("elmo-mini", float("nan")), ("bert-mini", 2.0)):
        numbers = {"value": onset, "low": float("nan"), "high": float("nan")}
        table.append({**where, "model": model, "measure": "mixing_onset", "unit": "layer", **numbers})
    (after,) = draw_figures(tidy(table), styles)
    assert "interaction: bert-mini 0.125 [0.062, 0.188], layer-normed 0.250 [0.188, 0.312]." in after.caption
    assert "bert-mini layer 2: interaction 0.300 [0.288, 0.312], of a contextual share of 0.500" in after.caption
    assert "mixing onset at layer 2" in after.caption
    assert "no mixing onset" in after.caption
    assert {"scalar mix", "scalar mix layer-normed", "mixing_onset"} <= set(after.measures)
    assert [b">LN<" in panel.svg for panel in after.panels] == [False, False, False, True]
    assert after.panels[:3] == before.panels[:3]
