"""Settings: YAML and explicit values together, every fault named."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractors.foundation.errors import UsageError
from studies.config import PRESETS, RunConfig, make_config


def test_explicit_values_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("model: [a, b]\nlayer: [0, 3]\nseed: 5\ndirection_shares: {side: 4}\n")
    config = make_config({"model": ["c"], "pooling": None}, file)
    assert config.model == ("c",)
    assert config.layer == "0,3"
    assert config.seed == (5,)
    assert config.pooling == "mean"
    assert config.direction_shares.side == 4


def test_seed_zero_and_layer_zero_are_values() -> None:
    config = make_config({"seed": [0], "layer": 0})
    assert config.seed == (0,)
    assert config.layer == "0"


def test_a_preset_stands_under_what_is_given(tmp_path: Path) -> None:
    quick = make_config({"preset": "quick"})
    assert (
        quick.direction_shares.grid
        == PRESETS["quick"]["direction_shares"]["grid"]
        != make_config({}).direction_shares.grid
    )
    assert not quick.control
    file = tmp_path / "run.yaml"
    file.write_text("preset: quick\ncontrol: true\ndirection_shares: {targets: 3}\n")
    config = make_config({"resamples": 300}, file)
    assert config.control
    assert config.resamples == 300
    assert config.direction_shares.targets == 3
    assert config.direction_shares.grid == quick.direction_shares.grid


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modle": "x"}, "modle"),
        ({"pooling": "median"}, "median"),
        ({"preset": "slow"}, "no preset 'slow'; choose from: default, quick"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": [-1]}, "seed"),
        ({"seed": [1, 1]}, "twice"),
        ({"model": ["a", "a"]}, "twice"),
        ({"model": []}, "no model"),
        ({"direction_shares": {"sides": 4}}, "direction_shares.sides"),
    ],
)
def test_faults_are_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_config(settings)


@pytest.mark.parametrize(
    "text", ["- a\n- b\n", "model: [", "3", "model: !!python/object/apply:os.system ['true']", "\xff"]
)
def test_bad_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="configuration"):
        make_config({}, file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yaml"):
        make_config({}, tmp_path / "nowhere.yaml")


def test_what_cannot_change_numbers_does_not_forbid_resuming() -> None:
    assert RunConfig(batch_size=4).measured() == RunConfig(batch_size=64).measured()
    assert RunConfig(layer="1").measured() != RunConfig(layer="2").measured()
