"""What is left of an interrupted run: computed again or refused, never taken for good, and used by one process only."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from extractors.foundation.errors import OutputError
from extractors.foundation.results import tidy
from studies.execution import run
from studies.workspace import RUN_FILE, UNFINISHED, Workspace, workspace, write_json

SETTINGS = {"layer": "all"}
ROWS = tidy([{"model": "m", "measure": "accuracy", "value": 0.5, "layer": 0}])


def unfinished(folder: Path) -> Path:
    """A run with two finished units whose process has ended."""
    space = Workspace(folder, SETTINGS)
    space.save("a", ROWS, ROWS)
    space.save("b", ROWS, ROWS)
    space.release()
    return folder / UNFINISHED


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Inside the first page, behind the four letters at the start: only its checksum can tell.
    content[content.index(b"m", 4)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (_cut, "a.parquet"),
        (_flip, "a.parquet"),
        (_cut, "a.costs"),
        (Path.unlink, "a.costs"),
        (lambda path: path.write_bytes(b""), "a.parquet"),
    ],
    ids=["cut", "one bit", "costs cut", "costs deleted", "empty"],
)
def test_a_damaged_unit_is_computed_again(tmp_path: Path, damage: Callable[[Path], object], name: str) -> None:
    damage(unfinished(tmp_path / "run") / name)
    space = Workspace(tmp_path / "run", SETTINGS)
    assert not space.has("a")
    assert space.has("b")


@pytest.mark.parametrize("content", ["", '{"settings": {"lay', "[]", "{}", '{"settings": 3}'])
def test_a_damaged_identity_is_refused(tmp_path: Path, content: str) -> None:
    (unfinished(tmp_path / "run") / "identity.json").write_text(content)
    with pytest.raises(OutputError, match="--out"):
        Workspace(tmp_path / "run", SETTINGS)
    assert Workspace.refusal(tmp_path / "run", SETTINGS)


def test_what_has_no_identity_is_not_used(tmp_path: Path) -> None:
    """An interruption while the folder was being removed may leave units whose settings nobody knows."""
    work = unfinished(tmp_path / "run")
    (work / "identity.json").unlink()
    (work / "store-00-trained").mkdir()
    space = Workspace(tmp_path / "run", SETTINGS)
    assert not space.resumed
    assert {entry.name for entry in work.iterdir()} == {"identity.json", "lock"}


def test_leftovers_of_killed_processes_do_not_pile_up(tmp_path: Path) -> None:
    work = unfinished(tmp_path / "run")
    (work / ".a.parquet.x1y2.part").write_bytes(b"half")
    (work / ".store-00-trained.ab12.part").mkdir()
    (tmp_path / "run" / ".results.csv.x1y2.part").write_bytes(b"half")
    space = Workspace(tmp_path / "run", SETTINGS)
    assert not list(work.glob(".*.part"))
    write_json(tmp_path / "run" / RUN_FILE, {})
    space.finish()
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == [RUN_FILE]


def test_an_interruption_while_cleaning_up_leaves_a_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    space = Workspace(tmp_path / "run", SETTINGS)
    write_json(tmp_path / "run" / RUN_FILE, {})
    monkeypatch.setattr(shutil, "rmtree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        space.finish()
    space.release()
    with pytest.raises(OutputError, match="finished run"):
        Workspace(tmp_path / "run", SETTINGS)


def test_a_second_process_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    first = Workspace(tmp_path / "run", SETTINGS)
    first.save("a", ROWS, ROWS)
    before = sorted(path.name for path in (tmp_path / "run" / UNFINISHED).iterdir())
    child = os.fork()
    if child == 0:
        try:
            Workspace(tmp_path / "run", SETTINGS)
        except OutputError as error:
            os._exit(17 if "another process" in str(error) else 18)
        finally:
            os._exit(19)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert sorted(path.name for path in (tmp_path / "run" / UNFINISHED).iterdir()) == before
    first.release()
    assert Workspace(tmp_path / "run", SETTINGS).has("a")


def test_a_failed_process_gives_the_folder_back(tmp_path: Path) -> None:
    def fail_after_one_unit() -> None:
        with workspace(tmp_path / "run", SETTINGS) as space:
            space.save("a", ROWS, ROWS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_one_unit()
    assert Workspace(tmp_path / "run", SETTINGS).resumed


def test_a_file_system_without_locks_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert Workspace.refusal(tmp_path / "run", SETTINGS) is None
    Workspace(tmp_path / "run", SETTINGS).release()
    assert Workspace(tmp_path / "run", SETTINGS).resumed


def test_a_failure_removes_the_folders_above_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), workspace(tmp_path / "a" / "b" / "run", SETTINGS):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_text_survive_a_resumption(tmp_path: Path) -> None:
    """A file name in another encoding than this locale's comes as lone surrogates, which UTF-8 cannot hold."""
    settings = {"data": [os.fsdecode(b"r\xe9sum\xe9.conllu")]}
    first = Workspace(tmp_path / "run", settings)
    first.pin("data", settings["data"])
    first.release()
    again = Workspace(tmp_path / "run", settings)
    assert again.resumed
    again.pin("data", settings["data"])


@pytest.mark.parametrize("damage", ["layer cut", "layer changed", "manifest gone"])
def test_a_damaged_store_is_extracted_again(
    damage: str, tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after its first unit, with the vectors of the next ones damaged meanwhile, a run ends as if undisturbed."""
    settings = {"model": [str(tiny_bert)], "data": [str(tiny_treebank)], "task": ["upos", "feats:Number"]}
    settings |= {"layer": "0,2", "untrained": False}
    whole = run(out=tmp_path / "whole", **settings).folder
    kept = tmp_path / "kept"

    def save_and_stop(self: Workspace, *arguments: object) -> None:
        save(self, *arguments)
        # As a killed process leaves it: the store is not cleaned away.
        shutil.copytree(self.folder, kept)
        raise KeyboardInterrupt

    save: Callable[..., None] = Workspace.save
    with monkeypatch.context() as patched:
        patched.setattr(Workspace, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "stopped", **settings)
    layer = kept / UNFINISHED / "store-00-trained" / "layer_02.safetensors"
    if damage == "layer cut":
        _cut(layer)
    elif damage == "layer changed":
        content = bytearray(layer.read_bytes())
        content[-1000:] = bytes(1000)
        layer.write_bytes(content)
    else:
        layer.with_name("manifest.json").unlink()
    run(out=kept, **settings)
    assert (kept / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
    assert not (kept / UNFINISHED).exists()


def test_changed_data_is_refused(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    data = tmp_path / "data.conllu"
    shutil.copy(tiny_treebank, data)
    settings = {"model": [str(tiny_bert)], "data": [str(data)], "task": ["upos"], "untrained": False}
    with pytest.MonkeyPatch.context() as patched:
        # Stopped at the first unit, as by a kill: nothing is cleaned away.
        patched.setattr(Workspace, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patched.setattr(Workspace, "abandon", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "run", **settings)
    data.write_text(data.read_text() + "\n")
    with pytest.raises(OutputError, match="data changed"):
        run(out=tmp_path / "run", **settings)
