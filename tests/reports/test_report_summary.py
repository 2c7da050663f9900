"""Verdicts and sentences follow the numbers: doctored tables flip them."""

from __future__ import annotations

import math

import pytest

from extractors.foundation.results import tidy
from reports.summary import (
    layer_verdict,
    probe_summaries,
    share_verdicts,
    statements,
    summary_paragraphs,
)
from reports.tables import Estimate, over_seeds

NAN = float("nan")
KINDS = {"elmo-tiny": "concatenated", "bert-tiny": "bidirectional"}


def share(value, half):
    return Estimate(value, value - half, value + half, "share", 40)


def doctored(table, value, low, high, **where):
    """The table with value and interval of the matching rows replaced."""
    keep = table["value"].isna() | True
    for column, wanted in where.items():
        keep &= (table[column] == wanted).fillna(False)
    assert keep.any()
    table = table.copy()
    table.loc[keep, ["value", "low", "high"]] = [value, low, high]
    return table


def verdict_of(found, model, words):
    (one,) = [statement for statement in found if statement.model == model and words in statement.claim]
    return one


@pytest.mark.parametrize(
    ("estimate", "exact", "expected"),
    [
        (share(0.1, 0.02), False, "present"),
        (share(0.02, 0.02), False, "undecided"),
        (share(0.004, 0.002), False, "none"),
        (share(0.004, 0.002), True, "undecided"),
        (share(1e-12, 1e-12), True, "none"),
        (share(-2e-10, 1e-12), True, "undecided"),
        (share(-0.5, 0.01), False, "undecided"),
        (share(0.1, 0.02), True, "present"),
        (Estimate(0.1, NAN, NAN, "share", 40), False, "undecided"),
        (Estimate(NAN, NAN, NAN, "share", 40), False, "undefined"),
    ],
)
def test_rule_at_one_layer(estimate, exact, expected):
    assert layer_verdict(1, estimate, exact=exact).verdict == expected


def test_controls_decide_too():
    strong = share(0.1, 0.02)
    below = layer_verdict(
        1, strong, exact=False, controls={"the untrained copy": share(0.02, 0.01), "the additive control": None}
    )
    assert below.verdict == "present"
    assert below.above == ("the untrained copy",)
    assert below.missing == ("additive control",)
    assert "no additive control to compare with" in below.reason
    for name in ("the untrained copy", "the additive control"):
        reached = layer_verdict(1, strong, exact=False, controls={name: share(0.09, 0.01)})
        assert reached.verdict == "undecided"
        assert name in reached.reason


def test_all_statements_hold_on_the_clean_table(synthetic):
    found = statements(synthetic.full_table(), KINDS)
    assert {one.model for one in found} == set(KINDS)
    assert [one.verdict for one in found] == ["supported"] * 5


def test_concatenation_is_refuted_by_an_interaction_in_one_layer(synthetic):
    table = doctored(
        synthetic.full_table(),
        0.2,
        0.18,
        0.22,
        model="elmo-tiny",
        weights="trained",
        part="whole",
        measure="direction_share_interaction",
        layer=2,
        condition="crossed",
    )
    table = doctored(
        table,
        0.0,
        -1e-3,
        1e-3,
        model="elmo-tiny",
        weights="untrained",
        part="whole",
        measure="direction_share_interaction",
        layer=2,
        condition="crossed",
    )
    one = verdict_of(statements(table, KINDS), "elmo-tiny", "do not interact")
    assert one.verdict == "refuted"
    assert "layer 2" in one.reason
    assert "do not interact" not in summary_paragraphs(table, KINDS)[0].split(".")[0]


def test_float_noise_above_the_exact_bound_is_undecided(synthetic):
    table = doctored(
        synthetic.full_table(),
        1e-8,
        0.0,
        2e-8,
        model="elmo-tiny",
        weights="trained",
        part="whole",
        measure="direction_share_interaction",
        condition="crossed",
        layer=1,
    )
    one = verdict_of(statements(table, KINDS), "elmo-tiny", "do not interact")
    assert one.verdict == "undecided"
    assert "float64" in one.reason


def test_a_half_that_sees_the_other_side_is_refuted(synthetic):
    table = doctored(
        synthetic.full_table(),
        0.3,
        0.25,
        0.35,
        model="elmo-tiny",
        weights="trained",
        part="forward",
        measure="direction_share_right",
        layer=1,
    )
    found = statements(table, KINDS)
    assert verdict_of(found, "elmo-tiny", "forward half").verdict == "refuted"
    assert verdict_of(found, "elmo-tiny", "backward half").verdict == "supported"


def test_interaction_in_every_layer_needs_every_layer(synthetic):
    where = {
        "model": "bert-tiny",
        "weights": "trained",
        "measure": "direction_share_interaction",
        "condition": "crossed",
    }
    table = synthetic.full_table()
    none = doctored(table, 0.001, -0.001, 0.003, layer=3, **where)
    assert verdict_of(statements(none, KINDS), "bert-tiny", "every contextual layer").verdict == "refuted"
    unclear = doctored(table, 0.03, -0.01, 0.07, layer=3, **where)
    assert verdict_of(statements(unclear, KINDS), "bert-tiny", "every contextual layer").verdict == "undecided"
    untrained = doctored(table, 0.4, 0.38, 0.42, **{**where, "weights": "untrained"})
    assert verdict_of(statements(untrained, KINDS), "bert-tiny", "every contextual layer").verdict == "undecided"


def test_growth_flips_with_the_slope(synthetic):
    where = {"model": "bert-tiny", "weights": "trained", "condition": "crossed"}
    slope = {**where, "measure": "direction_share_interaction_slope"}
    table = synthetic.full_table()
    assert verdict_of(statements(table, KINDS), "bert-tiny", "grows").verdict == "supported"
    falls = doctored(table, -0.02, -0.03, -0.01, **slope)
    assert verdict_of(statements(falls, KINDS), "bert-tiny", "grows").verdict == "refuted"
    flat = doctored(table, 0.001, -0.01, 0.012, **slope)
    assert verdict_of(statements(flat, KINDS), "bert-tiny", "grows").verdict == "undecided"
    absent = table[table["measure"] != "direction_share_interaction_slope"]
    assert verdict_of(statements(absent, KINDS), "bert-tiny", "grows").verdict == "undecided"


def test_the_course_names_its_ends_and_a_peak_in_between(synthetic):
    where = {
        "model": "bert-tiny",
        "weights": "trained",
        "measure": "direction_share_interaction",
        "condition": "crossed",
    }
    table = synthetic.full_table()
    opening = summary_paragraphs(table, KINDS)[0]
    assert "rises from 0.050" in opening
    assert "peak" not in opening
    assert "(contextual share at layer 6: 0.500)" in opening
    falls = doctored(table, 0.6, 0.58, 0.62, layer=1, **where)
    assert "falls from 0.600" in summary_paragraphs(falls, KINDS)[0]
    peaked = doctored(table, 0.5, 0.48, 0.52, layer=4, **where)
    assert "with its peak of 0.500 [0.480, 0.520] at layer 4" in summary_paragraphs(peaked, KINDS)[0]
    assert "highest at layer 4" in verdict_of(statements(peaked, KINDS), "bert-tiny", "grows").evidence


def test_without_untrained_copy_the_sentence_says_so(synthetic):
    rows = synthetic.share_rows("bert-tiny", "bidirectional", 6)
    text = summary_paragraphs(tidy(rows), KINDS)[0]
    assert "no untrained copy and additive control was measured" in text
    assert "beyond" not in text


def test_causal_model_with_right_share_is_refuted(synthetic):
    table = tidy(synthetic.share_rows("gpt", "bidirectional", 3))
    found = statements(table, {"gpt": "left-to-right"})
    assert verdict_of(found, "gpt", "sees only the left side").verdict == "refuted"
    assert verdict_of(found, "gpt", "do not interact").verdict == "refuted"


def test_undefined_input_layer_is_not_counted(synthetic):
    verdicts = share_verdicts(
        synthetic.full_table(), "bert-tiny", "direction_share_interaction", part="whole", exact=False, controlled=True
    )
    assert [one.layer for one in verdicts] == [1, 2, 3, 4, 5, 6]


def test_probe_above_the_word_type_flips(synthetic):
    table = synthetic.full_table()
    found = {(one.task, one.model): one for one in probe_summaries(table) if one.weights == "trained"}
    one = found["upos", "bert-tiny"]
    assert (one.verdict, one.layer, one.layers_above, one.layers) == ("supported", 2, 6, 6)
    high = doctored(table, 0.99, 0.98, 1.0, task="upos", probe="word_type")
    found = {(one.task, one.model): one for one in probe_summaries(high) if one.weights == "trained"}
    assert found["upos", "bert-tiny"].verdict == "refuted"
    assert found["spans:ner", "bert-tiny"].verdict == "supported"


def test_lower_cross_entropy_is_better(synthetic):
    rows = [row for row in synthetic.probe_rows("bert-tiny", 6, ("upos",)) if row["measure"] == "cross_entropy"]
    (one,) = probe_summaries(tidy(rows))
    assert one.measure == "cross_entropy"
    assert one.best.value == min(row["value"] for row in rows)
    assert one.verdict == "no baseline"


def test_seeds_are_averaged_and_their_intervals_enclosed(synthetic):
    rows = synthetic.probe_rows("bert-tiny", 2, ("upos",), seeds=(0, 1, 2))
    joined = over_seeds(tidy(rows))
    assert len(joined) * 3 == len(rows)
    first = joined[(joined["measure"] == "accuracy") & joined["condition"].isna() & (joined["layer"] == 1)].iloc[0]
    values = [row for row in rows if row["measure"] == "accuracy" and "condition" not in row and row["layer"] == 1]
    assert math.isclose(first["value"], sum(row["value"] for row in values) / 3)
    assert first["low"] == min(row["low"] for row in values)
    assert first["high"] == max(row["high"] for row in values)
