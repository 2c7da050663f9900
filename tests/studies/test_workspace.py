"""The output folder: refused, resumed, or left without a trace."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pandas as pd
import pytest

from extractors.foundation.errors import OutputError
from extractors.foundation.results import tidy
from studies.workspace import RUN_FILE, UNFINISHED, Workspace, workspace, write_json

SETTINGS = {"layer": "all", "seed": [0]}
ROWS = tidy([{"model": "m", "measure": "accuracy", "value": 0.5, "layer": 0}])


def test_units_survive_and_the_folder_resumes(tmp_path: Path) -> None:
    first = Workspace(tmp_path / "run", SETTINGS)
    assert not first.resumed
    first.save("unit", ROWS, ROWS)
    first.release()
    second = Workspace(tmp_path / "run", SETTINGS)
    assert second.resumed
    assert second.has("unit")
    assert not second.has("other")
    results, costs = second.load("unit")
    pd.testing.assert_frame_equal(results, ROWS)
    pd.testing.assert_frame_equal(costs, ROWS)


def test_other_settings_do_not_resume(tmp_path: Path) -> None:
    Workspace(tmp_path / "run", SETTINGS)
    with pytest.raises(OutputError, match=r"layer: 'all' then, '1' now"):
        Workspace(tmp_path / "run", {**SETTINGS, "layer": "1"})


def test_changed_inputs_do_not_resume(tmp_path: Path) -> None:
    Workspace(tmp_path / "run", SETTINGS).pin("data", [{"checksum": "a"}])
    again = Workspace(tmp_path / "run", SETTINGS)
    again.pin("data", [{"checksum": "a"}])
    with pytest.raises(OutputError, match="data changed"):
        again.pin("data", [{"checksum": "b"}])


def test_foreign_and_finished_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        Workspace(tmp_path, SETTINGS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]
    finished = Workspace(tmp_path / "run", SETTINGS)
    write_json(finished.folder / RUN_FILE, {})
    finished.finish()
    with pytest.raises(OutputError, match="probe report"):
        Workspace(tmp_path / "run", SETTINGS)
    with pytest.raises(OutputError, match="is a file"):
        Workspace(tmp_path / "notes.txt", SETTINGS)


def test_a_failure_at_once_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), workspace(tmp_path / "run", SETTINGS):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []

    def one_unit_then_failure() -> None:
        with workspace(tmp_path / "run", SETTINGS) as space:
            space.save("unit", ROWS, ROWS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        one_unit_then_failure()
    assert (tmp_path / "run" / UNFINISHED / "unit.parquet").exists()


@pytest.mark.parametrize(
    ("code", "words"), [(errno.EACCES, "no permission"), (errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only")]
)
def test_what_the_system_refuses_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match=words):
        Workspace(tmp_path / "run", SETTINGS)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_table_that_does_not_fit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Workspace(tmp_path / "run", SETTINGS)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda self, path, **_: _fill(Path("/dev/full")))
    with pytest.raises(OutputError, match="disk is full"):
        space.save("unit", ROWS, ROWS)
    assert not space.has("unit")
    assert not list((tmp_path / "run" / UNFINISHED).glob("*.part"))


def _fill(device: Path) -> None:
    with device.open("wb", buffering=0) as file:
        file.write(b"x")


def test_a_path_through_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="not a folder"):
        Workspace(tmp_path / "file" / "run", SETTINGS)
