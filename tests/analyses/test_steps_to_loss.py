"""Steps to a given loss: read off a planted curve, missing where the loss was never reached, and true of the bundled models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import studies
from analyses import steps_to_loss
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.results import COLUMNS
from extractors.registry import BUNDLED_MODELS


def folder(path: Path, losses: list[float | None]) -> Path:
    """A curve with an evaluation every 100 steps of 50 words; the unigram entropy is 7."""
    rows = np.arange(len(losses))
    pd.DataFrame({"step": 100 * rows, "words": 5000 * rows, "held_out_loss": losses}).to_parquet(
        path / "training.parquet"
    )
    record = {"name": "m", "kind": "bert", "unit": "piece", "unigram_loss": 7.0, "seed": 3}
    (path / "training.json").write_text(json.dumps(record))
    return path


def test_planted_curve(tmp_path: Path) -> None:
    found = steps_to_loss(folder(tmp_path, [9.0, 6.5, None, 5.5, 5.7, 4.5]), margins=(0.0, 1.0, 1.5, 2.0, 3.0))
    # From 9 to 6.5 in 100 steps: 7 after 80. The row without an evaluation is no row: 6.5 at 100 and 5.5 at 300.
    np.testing.assert_allclose(found.steps, [80, 200, 300, 300 + 100 + 100 * 0.7 / 1.2, np.nan])
    np.testing.assert_allclose(found.words, 50 * found.steps)
    table = found.to_frame()
    assert list(table.columns) == list(COLUMNS)
    assert table["measure"].tolist() == ["steps_to_loss"] * 5 + ["words_to_loss"] * 5
    assert table["condition"].iloc[2] == "1.5 nats under the unigram entropy"
    assert table["value"].isna().tolist() == [False] * 4 + [True] + [False] * 4 + [True]
    assert len(found.plot().axes[0].lines) == 3


def test_a_curve_that_starts_below(tmp_path: Path) -> None:
    assert steps_to_loss(folder(tmp_path, [5.0, 4.0]), margins=(1.0,)).steps.tolist() == [0.0]


@pytest.mark.parametrize("name", ["elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini"])
def test_bundled_models_reach_a_nat_and_a_half(name: str) -> None:
    found = steps_to_loss(BUNDLED_MODELS / name)
    assert found.model == name
    assert np.all(np.diff(found.words[np.isfinite(found.words)]) > 0)
    assert 0 < found.words[1] < 7_000_000
    assert found.unigram - found.curve[-1, 2] >= 1.5


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no readable learning curve"):
        steps_to_loss(tmp_path)
    folder(tmp_path, [9.0, 6.0])
    with pytest.raises(UsageError, match="margins"):
        steps_to_loss(tmp_path, margins=(float("nan"),))
    (tmp_path / "training.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="no readable learning curve"):
        steps_to_loss(tmp_path)


@pytest.mark.parametrize("name", ["elmo-mini", "bert-mini"])
def test_a_run_finds_the_curve_beside_the_model(name: str, tmp_path: Path) -> None:
    sizes = {"lengths": [8], "repeats": 2, "edits": 2, "memory_words": 1}
    result = studies.run(
        model=[name], analysis=["cost"], untrained=False, cost=sizes, resamples=100, out=tmp_path / "run"
    )
    found = result.results.query("measure == 'words_to_loss'")
    assert found["model"].tolist() == [name] * 3
    assert found["condition"].iloc[0] == "1 nat under the unigram entropy"
