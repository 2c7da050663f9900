"""Odd paths, terminals, limits and files: one clear message and a documented exit code, or simply the right result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extractors.foundation.errors import OutputError, UsageError
from extractors.foundation.files import written_whole
from studies.cli import main
from studies.config import make_config
from studies.console import Bars, Lines, reporter

ROOT = Path(__file__).resolve().parents[2]
FAST = ["--task", "upos", "--no-untrained", "-q"]


def probe(*arguments: object) -> int:
    """Exit code of the command, run in this process."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a shell of its own; ``probe`` is this program."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    script = f'probe() {{ "{sys.executable}" -m studies.cli "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", script], cwd=folder, env=variables, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("option", "value", "code", "words"),
    [
        ("--out", "", 2, "--out is empty"),
        ("--out", "x" * 300, 5, "too long"),
        ("--out", "/".join(["folder"] * 1000), 5, "too long"),
        ("--out", "file/run", 5, "not a folder"),
        ("--out", "link-to-itself", 5, "symbolic links"),
        ("--config", "", 2, "--config is empty"),
        ("--data", "", 2, "empty name"),
        ("--data", "x" * 5000, 3, "too long"),
        ("--model", "", 2, "empty name"),
    ],
)
def test_paths_that_cannot_be(
    option: str,
    value: str,
    code: int,
    words: str,
    tmp_path: Path,
    tiny_bert: Path,
    tiny_treebank: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "link-to-itself").symlink_to("link-to-itself")
    given = {"--model": str(tiny_bert), "--data": str(tiny_treebank), "--out": "run", option: value}
    found = probe("run", *[part for pair in given.items() for part in pair], *FAST)
    error = capsys.readouterr().err
    assert found == code, error
    assert words in error
    assert "Traceback" not in error
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "link-to-itself"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--layer", ""], "all, last"),
        (["--pooling", ""], "mean"),
        (["--dtype", ""], "float32"),
        (["--device", ""], "cpu"),
        (["--untrained", "--seed", "99999999999999999999"], "seed"),
        (["--out", ""], "--out is empty"),
    ],
)
def test_an_empty_option_is_not_the_default(
    options: list[str],
    words: str,
    tmp_path: Path,
    tiny_bert: Path,
    tiny_treebank: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [*options] if "--out" in options else [*options, "--out", str(tmp_path / "store")]
    assert probe("extract", "-m", tiny_bert, "-d", tiny_treebank, *given) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a,b.conllu", "a=b.conllu", "é 中\n.conllu", os.fsdecode(b"r\xe9sum\xe9.conllu")])
def test_names_that_shells_and_tables_trip_over(
    name: str, tmp_path: Path, tiny_bert: Path, tiny_treebank: Path
) -> None:
    import pandas as pd

    shutil.copy(tiny_treebank, tmp_path / name)
    out = tmp_path / f"of {name}"
    assert probe("run", "-m", tiny_bert, "-d", f"{tmp_path / name}", *FAST, "--out", out) == 0
    (label,) = pd.read_parquet(out / "results.parquet")["data"].unique() if name.isascii() else [name]
    assert label.removesuffix(".conllu") == name.removesuffix(".conllu")
    assert json.loads((out / "run.json").read_text(encoding="utf-8"))["data"][0]["sentences"] == 120
    assert probe("run", "-m", tiny_bert, "-d", f"train={tmp_path / name}", *FAST, "--out", f"{out} 2") == 0


def test_a_failed_extraction_leaves_no_folder(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights that are NaN are found in the first sentence; model and layer are named."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "broken-bert"
    shutil.copytree(tiny_bert, folder)
    weights = load_file(folder / "model.safetensors")
    name = next(key for key in weights if "layer.1" in key and key.endswith("weight"))
    weights[name].fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    before = sorted(tmp_path.iterdir())
    assert probe("extract", "-m", folder, "-d", tiny_treebank, "-q", "--out", tmp_path / "a" / "b" / "store") == 4
    assert probe("run", "-m", folder, "-d", tiny_treebank, *FAST, "--out", tmp_path / "c" / "d" / "run") == 4
    analyses = ["--analysis", "direction_shares", "--no-untrained", "-q"]
    assert probe("run", "-m", folder, "-d", tiny_treebank, *analyses, "--out", tmp_path / "e" / "run") == 4
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all("broken-bert" in line and "layer 2" in line and "not finite" in line for line in lines)
    assert sorted(tmp_path.iterdir()) == before


def _limited(size: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("command", [["run", *FAST], ["extract", "-q"]], ids=["run", "extract"])
def test_a_file_that_may_not_grow(command: list[str], tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    """The limit stands in for a full disk: both fail in the middle of a write."""
    arguments = ["-m", str(tiny_bert), "-d", str(tiny_treebank), "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "studies.cli", *command, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: _limited(20_000),
    )
    assert done.returncode == 5, done.stderr
    assert "ulimit" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_removes_the_folders_it_made(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="disk is full"), written_whole(tmp_path / "a" / "b" / "file"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    with pytest.raises(ZeroDivisionError), written_whole(tmp_path / "kept" / "b" / "file"):
        raise ZeroDivisionError
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("name", ["folder/file.conllu", "folder", "file.conllu"])
def test_data_of_somebody_else(name: str, tmp_path: Path, tiny_treebank: Path) -> None:
    """Not being allowed to read is said as such, with the exit code of data, wherever on the path it happens."""
    (tmp_path / "folder").mkdir(mode=0o700)
    shutil.copy(tiny_treebank, tmp_path / "folder" / "file.conllu")
    shutil.copy(tiny_treebank, tmp_path / "file.conllu")
    (tmp_path / "file.conllu").chmod(0o600)
    for folder in [tmp_path, *list(tmp_path.parents)[:2]]:
        folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setuid(65534)
            main(["tasks", "--data", str(tmp_path / name)])
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_output_that_nobody_reads(tmp_path: Path) -> None:
    """Closed or full standard streams, and a locale that can write ASCII only."""
    done = shell("probe models >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    if Path("/dev/full").exists():
        done = shell("probe models >/dev/full", tmp_path)
        assert done.returncode == 5
        assert b"Traceback" not in done.stderr
    done = shell(
        "probe models", tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_json_is_json_in_every_locale(tmp_path: Path, tiny_treebank: Path) -> None:
    text = tiny_treebank.read_text().replace("Number=", "Número=")
    (tmp_path / "é.conllu").write_text(text, encoding="utf-8")
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = shell("probe tasks --data é.conllu --json", tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert "feats:Número" in [row["name"] for row in json.loads(done.stdout)]


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(reporter(quiet=False), Bars)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(reporter(quiet=False), Lines)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"task": []}, "neither a task nor an analysis"),
        ({"analysis": [], "task": []}, "neither a task nor an analysis"),
        ({"data": [""]}, "empty name under data"),
        ({"task": " "}, "empty name under task"),
        ({"seed": 1.5}, "should be a list"),
    ],
)
def test_settings_that_ask_for_nothing(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_config(settings)


def test_an_empty_value_in_yaml_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("layer:\nseed:\ndirection_shares:\ntask:\n")
    assert make_config({}, tmp_path / "run.yaml") == make_config({})


def test_line_ends(tmp_path: Path, tiny_treebank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tiny_treebank.read_text()
    (tmp_path / "dos.conllu").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (tmp_path / "mac.conllu").write_bytes(text.replace("\n", "\r").encode())
    assert probe("tasks", "--data", tmp_path / "dos.conllu") == 0
    assert probe("tasks", "--data", tmp_path / "mac.conllu") == 3
    assert "carriage returns" in capsys.readouterr().err


def test_layer_zero_alone(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    """Layer 0 has no attention: without --analysis that is a note, not an error."""
    out = tmp_path / "run"
    assert probe("run", "-m", tiny_bert, "-d", tiny_treebank, "--layer", "0", "--no-untrained", "--out", out, "-q") == 0
    notes = json.loads((out / "run.json").read_text())["notes"]
    assert any("attention_distance is left out" in note for note in notes)


def test_two_interrupts_are_one(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    """An impatient user presses Ctrl-C twice: no traceback, and the folder is resumable or gone."""
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "studies.cli", "run", "-m", str(tiny_bert), "-d", str(tiny_treebank), "--out", str(out)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (out / ".unfinished" / "identity.json").exists() and process.poll() is None:
        pass
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), error
    assert "Traceback" not in error
