"""The opening on four matched models: cells, effects and sentences follow the numbers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from extractors.foundation.results import tidy
from reports.render import render
from reports.tables import over_seeds
from reports.two_by_two import two_by_two

MODELS = {
    "elmo-a": ("elmo", "concatenated"),
    "bilstm-b": ("bilstm-mlm", "bidirectional"),
    "bigpt-c": ("bigpt", "concatenated"),
    "bert-d": ("bert", "bidirectional"),
}


def record(synthetic: ModuleType, models=MODELS) -> dict[str, Any]:
    run = synthetic.run_record({name: kind for name, (_, kind) in models.items()})
    for model in run["models"]:
        model["family"] = models[model["name"]][0]
    return run


def effect_rows(synthetic: ModuleType, task: str, values: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    names = {"directionality": "main_effect_directionality", "architecture": "main_effect_architecture"}
    base = {"kind": "analysis", "task": task, "weights": "trained", "condition": "crossed", "unit": "share", "n": 40}
    return [{**base, "measure": names.get(name, name), **synthetic.interval(*value)} for name, value in values.items()]


def table(
    synthetic: ModuleType, *, deep: float = 0.3, effects: dict[str, tuple[float, float]] | None = None, models=MODELS
):
    rows = []
    for name, (_, kind) in models.items():
        rows += synthetic.share_rows(name, kind, 2, top=deep)
        rows += synthetic.share_rows(name, kind, 2, weights="untrained", top=0.001)
        rows += synthetic.additive_rows(name, 2)
        rows.append(
            {
                "model": name, "weights": "trained", "part": "whole", "kind": "analysis", "measure": "cloze_nats",
                "condition": "joint" if kind == "bidirectional" else "tuned mix", "unit": "nats", "n": 40,
                **synthetic.interval(4.25, 0.25),
            }
        )  # fmt: skip
    rows += effect_rows(
        synthetic,
        "direction_share_interaction",
        effects or {"directionality": (deep, 0.01), "architecture": (0.0, 0.02), "effect_interaction": (0.0, 0.02)},
    )
    return over_seeds(tidy(rows))


def test_every_cell_holds_its_model_and_its_numbers(synthetic: ModuleType) -> None:
    found = two_by_two(table(synthetic), record(synthetic))
    assert found is not None
    assert found.models == {
        ("LSTM", "shallow"): "elmo-a",
        ("LSTM", "deep"): "bilstm-b",
        ("Transformer", "shallow"): "bigpt-c",
        ("Transformer", "deep"): "bert-d",
    }
    deep, shallow = (dict(found.lines["Transformer", direction]) for direction in ("deep", "shallow"))
    assert deep["interaction share"].startswith("0.300 [")
    assert deep["interaction share"].endswith("(interaction)")
    assert shallow["interaction share"].endswith("(no interaction)")
    assert "joint" in deep["filling a gap (lower is better)"]
    assert "tuned mix" in shallow["filling a gap (lower is better)"]
    assert found.effects is not None
    assert [row[0] for row in found.effects.rows] == ["interaction share"]


def sentences(synthetic: ModuleType, **changes: Any) -> str:
    found = two_by_two(table(synthetic, **changes), record(synthetic))
    assert found is not None
    return " ".join(found.sentences)


def test_the_conclusion_turns_with_the_numbers(synthetic: ModuleType) -> None:
    assert "the first outweighs the second" in sentences(synthetic)
    assert "not the Transformer" in sentences(synthetic)
    even = {"directionality": (0.05, 0.02), "architecture": (0.05, 0.02)}
    assert "neither outweighs the other" in sentences(synthetic, effects=even)
    assert "the second outweighs the first" in sentences(
        synthetic, effects={"directionality": (0.02, 0.01), "architecture": (0.3, 0.02)}
    )
    both = {"directionality": (0.26, 0.02), "architecture": (0.24, 0.02), "effect_interaction": (0.0, 0.02)}
    unclear = sentences(synthetic, effects=both)
    assert "the cause" not in unclear
    assert "Both deep models mix the sides and neither shallow one does; what they are built of" in unclear
    assert "effect of the architecture 0.240 [0.220, 0.260]" in unclear
    assert "depend on each other" not in unclear
    apart = {"directionality": (0.3, 0.02), "architecture": (0.1, 0.02), "effect_interaction": (0.05, 0.02)}
    assert "the cause is what a layer may read and what it is trained to predict, more than" in sentences(
        synthetic, effects=apart
    )
    # Deep models that differ this much: what directionality does is not the same in both architectures.
    mixed = sentences(synthetic, effects={**apart, "effect_interaction": (0.29, 0.02)})
    assert "the cause" not in mixed
    assert "their interaction: 0.290 [0.270, 0.310]" in mixed
    weak = sentences(synthetic, deep=0.004, effects={"directionality": (0.004, 0.002), "architecture": (0.0, 0.002)})
    assert "not the Transformer" not in weak
    assert "the cause" not in weak
    assert "from one training seed" in weak


def test_without_four_cells_there_is_no_opening(synthetic: ModuleType) -> None:
    three = {name: kind for name, kind in MODELS.items() if name != "bigpt-c"}
    assert two_by_two(table(synthetic, models=three), record(synthetic, three)) is None
    five = {**MODELS, "bert-e": ("bert", "bidirectional")}
    assert two_by_two(table(synthetic, models=five), record(synthetic, five)) is None
    unmeasured = table(synthetic)
    unmeasured = unmeasured[(unmeasured["model"] != "bert-d").fillna(True)]
    assert two_by_two(unmeasured, record(synthetic)) is None


@pytest.mark.parametrize("effects", [True, False])
def test_the_page_opens_with_the_four_models(synthetic: ModuleType, effects: bool) -> None:
    results = table(synthetic)
    if not effects:
        results = results[results["task"].isna()]
    _, page = render(results, costs=None, run=record(synthetic))
    start, end = page.index("Top layer of four matched models"), page.index('id="h-run"')
    for name in MODELS:
        assert start < page.index(name, start) < end
    assert ("Effects at the top layer" in page) is effects
