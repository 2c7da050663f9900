"""Evidence from training: variants change what they say, finished ones are kept, tables are tidy, a joint model copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from extractors.foundation.errors import OutputError, UsageError
from extractors.foundation.results import COLUMNS
from studies.evidence.__main__ import main
from studies.evidence.evaluation import EvaluationSettings, difference_row, held_out_batches
from studies.evidence.runner import evaluation_file, finished_variants, model_folder, run_evidence
from studies.evidence.speed import training_speed
from studies.evidence.tables import CURVE_COLUMNS, TABLES, default_folder, write_tables
from studies.evidence.variants import SPEED, VARIANTS, Variant, select_variants
from studies.training.loop import train
from studies.training.recipe import Recipe, read_recipe
from studies.training.source import TrainingText

SMALL = EvaluationSettings(
    held_out_words=400,
    targets=2,
    grid=2,
    natural=20,
    mask_shift=20,
    gaps=40,
    tuning_gaps=20,
    candidates=20,
    sentences=60,
    resamples=50,
)
BUDGET = {"name", "description", "seed", "words", "log_every", "evaluate_every", "evaluate_words", "checkpoint_every"}
TRAINED = ("bert", "bert-rate-40", "bert-slice-dynamic", "bert-slice-static", "bert-untrained", "bilstm-joint")


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differing(one: Recipe, other: Recipe) -> set[str]:
    """Fields that differ; a section that one of them lacks counts as one field."""
    left, right = (dict(flattened(recipe.model_dump())) for recipe in (one, other))
    names = {name for name in left.keys() | right.keys() if left.get(name, "absent") != right.get(name, "absent")}
    absent = {name for name, value in (*left.items(), *right.items()) if value is None} & names
    return {next((section for section in absent if name.startswith(f"{section}.")), name) for name in names}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda variant: variant.name)
def test_a_variant_differs_from_its_recipe_in_what_it_says(variant: Variant) -> None:
    bundled, recipe = read_recipe(variant.recipe), variant.build(400_000)
    assert differing(bundled, recipe) - BUDGET == set(variant.changes)
    budget = bundled.words if variant.times is None else round(400_000 * variant.times)
    assert recipe.words == (0 if variant.untrained else budget)
    assert recipe.seed == variant.seed
    assert variant.claims
    assert variant.question
    if variant.reference is not None:
        reference = VARIANTS[variant.reference]
        assert (reference.recipe, reference.passes, reference.seed) == (variant.recipe, variant.passes, variant.seed)
        assert differing(reference.build(400_000), recipe) - BUDGET == set(variant.changes)


def test_the_promised_variants_are_there() -> None:
    masks = {name: VARIANTS[name].build(1000).masks for name in VARIANTS}
    assert {masks[name].rate for name in ("bert", "bert-rate-20", "bert-rate-40")} == {0.15, 0.2, 0.4}
    assert (masks["bert-all-masked"].masked, masks["bert-all-random"].random) == (1.0, 1.0)
    assert not masks["bert-slice-static"].dynamic
    assert (masks["bilstm-joint"].rate, masks["bilstm-joint"].masked, masks["bilstm-joint"].random) == (1.0, 0.0, 0.0)
    assert {variant.seed for variant in VARIANTS.values() if variant.model == "elmo"} == {0, 1, 2}
    claims = {claim for variant in VARIANTS.values() for claim in variant.claims}
    assert {"C3", "C6", "C11", "C14", "C19", "C21"} <= claims
    # Every combination of the parts of the positional prior that there can be (heads need positions).
    starts = []
    for name, variant in VARIANTS.items():
        transformer = variant.build(1000).transformer
        if name.startswith("bert") and transformer is not None and not transformer.causal and not variant.seed:
            start = transformer.offset_heads
            if start is None:
                starts.append((False, False, False))
            else:
                starts.append((start.position_table, start.word_vectors_avoid, bool(start.layers)))
    assert len(set(starts)) == 6


def test_variants_are_chosen_by_name_or_pattern() -> None:
    assert select_variants(None) == [*VARIANTS, SPEED]
    assert select_variants(["bert-rate-*", "elmo"]) == ["bert-rate-20", "bert-rate-40", "elmo"]
    assert select_variants(["speed"]) == [SPEED]
    with pytest.raises(UsageError, match=r"no variant is called 'bart'; choose from: bert, "):
        select_variants(["bert", "bart"])


def test_a_change_that_does_not_fit_is_refused() -> None:
    for path in ("transformer.offset_heads.layers", "masks.ratio"):
        variant = Variant("x", "elmo-mini", "?", ("C3",), {path: 1})
        with pytest.raises(UsageError, match=r"no (section|field)"):
            variant.build(100)


@pytest.fixture(scope="module")
def tiny(training_examples: ModuleType) -> dict[str, Recipe]:
    """Recipes that stand in for the bundled ones; long rows, so that the bundled contexts fit."""
    found = {}
    for kind in ("bert", "bilstm-mlm", "bigpt", "elmo"):
        recipe = training_examples.tiny_recipe(kind, length=62, batch=4)
        recipe["text"] = {"excerpt": 50, "reach": 64, "held_out": 0.2}
        found[f"{kind}-mini"] = read_recipe(recipe)
    return found


@pytest.fixture(scope="module")
def evidence(
    tiny: dict[str, Recipe], planted: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, TrainingText]:
    """A folder with a few finished variants."""
    out, text = tmp_path_factory.mktemp("evidence"), TrainingText([planted])
    run_evidence(TRAINED, text, out, words=1200, recipes=tiny, settings=SMALL, command="python -m studies.evidence")
    return out, text


def test_what_is_finished_is_kept_and_skipped(
    evidence: tuple[Path, TrainingText], tiny: dict[str, Recipe], planted: Path
) -> None:
    out, text = evidence
    assert list(finished_variants(out)) == list(TRAINED)
    files = [model_folder(out, "bert") / "model.safetensors", evaluation_file(out, "bert")]
    before = [file.stat().st_mtime_ns for file in files]
    run_evidence(["bert"], text, out, words=1200, recipes=tiny, settings=SMALL)
    assert [file.stat().st_mtime_ns for file in files] == before
    with pytest.raises(OutputError, match="trained with another recipe"):
        run_evidence(["bert"], text, out, words=1300, recipes=tiny, settings=SMALL)
    # A lost evaluation is made again without training again.
    rows = pd.read_parquet(files[1])
    files[1].unlink()
    run_evidence(["bert"], text, out, words=1200, recipes=tiny, settings=SMALL)
    assert files[0].stat().st_mtime_ns == before[0]
    pd.testing.assert_frame_equal(pd.read_parquet(files[1]), rows)


def test_a_variant_says_all_there_is_to_say(evidence: tuple[Path, TrainingText]) -> None:
    rows = pd.read_parquet(evaluation_file(evidence[0], "bert-rate-40"))
    assert list(rows.columns) == list(COLUMNS)
    assert set(rows["source"]) == {"shipped"}
    assert set(rows["model"]) == {"bert-rate-40"}
    losses = rows[rows["measure"].isin(["held_out_loss", "held_out_masked_loss"])]
    assert (losses["low"] < losses["value"]).all()
    assert (losses["value"] < losses["high"]).all()
    assert set(losses["unit"]) == {"nats per piece"}
    shares = rows[(rows["measure"] == "direction_share_interaction") & (rows["condition"] == "crossed")]
    assert shares["layer"].tolist() == [0, 1, 2]
    assert set(rows.loc[rows["measure"] == "mask_shift", "layer"]) == {0, 1, 2}
    (filled,) = rows.loc[(rows["measure"] == "cloze_nats") & (rows["condition"] == "joint"), "value"]
    assert 0 < filled < np.log(20) + 1
    probed = rows[rows["measure"] == "accuracy"]
    assert set(probed["probe"]) == {"linear", "word_type", "majority"}


def test_static_masks_read_one_slice_again_and_again(evidence: tuple[Path, TrainingText]) -> None:
    records = finished_variants(evidence[0])
    static, dynamic = records["bert-slice-static"], records["bert-slice-dynamic"]
    assert static["text"] == dynamic["text"]
    assert static["text"]["training_words"] < records["bert"]["text"]["training_words"]
    assert static["words"] > 3 * static["text"]["training_words"]
    assert static["vocabulary"] == records["bert"]["vocabulary"]


def test_the_tables_are_tidy_and_small(evidence: tuple[Path, TrainingText], tmp_path: Path) -> None:
    out, _ = evidence
    files = {file.name: file for file in write_tables(out, bundled=tmp_path, commands=["one", "two"])}
    assert set(files) == {"variants.parquet", "curves.parquet", "README.md"}
    assert sum(file.stat().st_size for file in files.values()) < 200_000
    variants = pd.read_parquet(files["variants.parquet"])
    assert list(variants.columns) == list(COLUMNS)
    number = [name for name in COLUMNS if name not in ("value", "low", "high", "n")]
    assert not variants.duplicated(number).any()
    assert set(variants["weights"]) == {"trained", "untrained"}
    curves = pd.read_parquet(files["curves.parquet"])
    assert list(curves.columns) == list(CURVE_COLUMNS)
    assert (curves.groupby(["model", "seed"]).size() > 5).sum() == len(TRAINED) - 1
    assert curves["words_per_second"].dropna().gt(0).all()
    page = files["README.md"].read_text()
    records = finished_variants(out)
    for fact in ("one\ntwo", "bert-slice-static", "masks.rate: 0.4", f"{records['bert']['held_out_loss']:.3f}"):
        assert fact in page


def test_differences_are_paired_over_the_same_batches(evidence: tuple[Path, TrainingText]) -> None:
    out, _ = evidence
    records = finished_variants(out)
    write_tables(out)
    variants = pd.read_parquet(out / "tables" / "variants.parquet")
    rows = variants[variants["reference"].notna()].set_index("model")
    assert rows.loc["bert-slice-static", "reference"] == "bert-slice-dynamic"
    assert set(rows["measure"]) == {"held_out_masked_loss"}
    one, other = records["bert-rate-40"], records["bert"]
    expected = one["held_out_masked_loss"] - other["held_out_masked_loss"]
    assert rows.loc["bert-rate-40", "value"] == pytest.approx(expected, abs=1e-4)
    same = difference_row("held_out_masked_loss", one, one, SMALL)
    assert same["value"] == same["low"] == same["high"] == 0
    plain = held_out_batches(one, "held_out_masked_loss")
    assert len(plain) == rows.loc["bert-rate-40", "n"]
    with pytest.raises(UsageError, match="same held-out batches"):
        difference_row("held_out_loss", one, records["bilstm-joint"], SMALL)


def test_curves_of_bundled_models_are_there(evidence: tuple[Path, TrainingText], tmp_path: Path) -> None:
    import shutil

    out, _ = evidence
    shutil.copytree(model_folder(out, "bert"), tmp_path / "bert-mini")
    (tmp_path / "evidence").mkdir()
    write_tables(out, bundled=tmp_path)
    curves = pd.read_parquet(out / "tables" / "curves.parquet")
    assert (curves["origin"] == "bundled").sum() == (
        (curves["model"] == "bert") & (curves["origin"] == "variant")
    ).sum()


def test_what_does_not_belong_together_is_refused(evidence: tuple[Path, TrainingText], tmp_path: Path) -> None:
    import shutil

    with pytest.raises(OutputError, match="no variant"):
        write_tables(tmp_path)
    out = tmp_path / "mixed"
    shutil.copytree(evidence[0], out)
    path = model_folder(out, "bert") / "training.json"
    record = json.loads(path.read_text())
    record["recipe"]["words"] = 7
    path.write_text(json.dumps(record))
    with pytest.raises(OutputError, match="different budgets"):
        write_tables(out)


def test_a_joint_model_without_masks_copies_the_word_it_sees(
    training_examples: ModuleType, planted: Path, tmp_path: Path
) -> None:
    recipe = VARIANTS["bilstm-joint"].build(10_000, read_recipe(training_examples.tiny_recipe("bilstm-mlm")))
    record = train(recipe, TrainingText([planted]), tmp_path / "joint", held_out_words=300).record
    assert record["held_out_loss"] < 0.5
    assert record["held_out_masked_loss"] > record["held_out_loss"] + 1


def test_speed_is_measured_at_equal_words_a_step(tiny: dict[str, Recipe], planted: Path) -> None:
    recipes = {name: tiny[name] for name in ("elmo-mini", "bert-mini")}
    table = training_speed(TrainingText([planted]), lengths=(8, 32), words=64, steps=3, recipes=recipes)
    assert list(table.columns) == list(COLUMNS)
    assert table[["model", "length"]].to_numpy().tolist() == [
        ["elmo-mini", 8],
        ["elmo-mini", 32],
        ["bert-mini", 8],
        ["bert-mini", 32],
    ]
    assert set(table["n"]) == {3}
    assert (table["low"] > 0).all()
    assert np.isfinite(table[["value", "low", "high"]].to_numpy()).all()


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--list", "--only", "bert-*"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == sum(name.startswith("bert-") for name in VARIANTS)
    assert main(["--only", "nonsense", "--list"]) == 2
    assert main(["--out", str(tmp_path)]) == 2
    assert main(["--out", str(tmp_path), "--text", "x", "--words", "0"]) == 2
    assert main(["--out", str(tmp_path), "--text", str(tmp_path / "missing.txt"), "--only", "bert", "-q"]) == 3
    assert main(["--out", str(tmp_path), "--tables"]) == 5
    assert "no variant in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_tables_are_complete_and_say_what_theory_says() -> None:
    folder = default_folder() / "evidence"
    table, curve, speed = (pd.read_parquet(folder / name) for name in TABLES)
    assert list(table.columns) == list(COLUMNS)
    assert set(table["source"]) == {"shipped"}
    assert {(model, seed) for model, seed in zip(table["model"], table["seed"], strict=True)} == {
        (variant.model, variant.seed) for variant in VARIANTS.values()
    }
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in page for name in VARIANTS)
    shares = table[(table["measure"] == "direction_share_interaction") & (table["part"] == "whole")]
    top = shares[shares["condition"] == "crossed"].sort_values("layer").groupby(["model", "seed"])["value"].last()
    for one_sided in ("elmo", "bigpt", "bert-causal"):
        assert top[one_sided].abs().max() < 1e-10
    for deep in ("bert", "bilstm-mlm"):
        assert top[deep].min() > 1e-4
    # A joint model without masks reads off what it is to predict, and cannot tell what it does not see.
    losses = table[(table["model"] == "bilstm-joint") & table["reference"].isna()].set_index("measure")["value"]
    assert losses["held_out_loss"] < 2
    assert losses["held_out_masked_loss"] > 10
    assert set(curve["origin"]) == {"variant", "bundled"}
    assert set(speed["model"]) == {"elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini"}
