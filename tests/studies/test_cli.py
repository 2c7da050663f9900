"""The command as a user meets it: every mistake one clear line, a documented exit code, nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.cli import main

ROOT = Path(__file__).resolve().parents[2]


def probe(*arguments: object) -> int:
    """Exit code of the command, run in this process."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


ONE_SENTENCE = "1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n\n"


def conllu(*lines: str) -> str:
    return "\n".join(lines) + "\n\n"


BAD_DATA = {
    "empty file": ("", "empty"),
    "wrong column count": (conllu("1\tHi\thi\tINTJ\t_\t_\t0\troot\t_"), "data.conllu:1"),
    "ids that jump": (
        conllu("1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_", "3\tyou\tyou\tPRON\t_\t_\t1\tdep\t_\t_"),
        "data.conllu:2",
    ),
    "an id that is no number": (conllu("one\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_"), "data.conllu:1"),
    "an empty sentence": (ONE_SENTENCE + "# sent_id = 2\n\n" + ONE_SENTENCE, "data.conllu:"),
    "fewer sentences than splits": (ONE_SENTENCE * 2, "sentence"),
    "one label only": (ONE_SENTENCE * 40, "label"),
    "not text": (b"\xff\xfe\x00\x01" * 20, "UTF-8"),
}


@pytest.mark.parametrize("case", sorted(BAD_DATA))
def test_bad_data(case: str, tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = BAD_DATA[case]
    data = tmp_path / "data.conllu"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    code = probe("run", "-m", tiny_bert, "-d", data, "--task", "upos", "--out", tmp_path / "run")
    error = capsys.readouterr().err
    assert code == 3, error
    assert words.lower() in error.lower()
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_truncated_gzip_file(tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.conllu.gz"
    data.write_bytes(gzip.compress((ONE_SENTENCE * 500).encode())[:-20])
    assert probe("run", "-m", tiny_bert, "-d", data, "--out", tmp_path / "run") == 3
    assert "data.conllu.gz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--data", "nowhere.conllu"], 3, "nowhere.conllu"),
        (["--model", "./no-such-model"], 4, "no-such-model"),
        (["--model", "no-such-registered-name", "--offline"], 4, "no-such-registered-name"),
        (["--layer", "7"], 2, "layers 0 to 2"),
        (["--layer", "first"], 2, "all, last"),
        (["--task", "ner"], 3, "upos"),
        (["--task", "no-such-task"], 3, "no-such-task"),
        (["--analysis", "no-such-analysis"], 2, "direction_shares"),
        (["--pooling", "median"], 2, "mean"),
        (["--seed", "x"], 2, "whole numbers"),
        (["--batch-size", "0"], 2, "batch-size"),
        (["--device", "tpu9"], 2, "tpu9"),
        (["--task", "upos,,xpos"], 2, "comma"),
        (["--no-such-option"], 2, "no-such-option"),
    ],
)
def test_wrong_options(
    options: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    tiny_bert: Path,
    tiny_treebank: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = list(options)
    if "--model" not in options:
        given += ["--model", str(tiny_bert)]
    if "--data" not in options:
        given += ["--data", str(tiny_treebank)]
    found = probe("run", *given, "--out", tmp_path / "run")
    error = capsys.readouterr().err
    assert found == code, error
    assert words in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_left_alone(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("chapter one")
    assert probe("run", "-m", tiny_bert, "-d", tiny_treebank, "--out", tmp_path) == 5
    assert "not empty" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_no_permission_to_write(tmp_path: Path, tiny_treebank: Path) -> None:
    """As nobody, in a folder of root's: one line, exit code 5."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom studies.workspace import Workspace\n"
        "from extractors.foundation.errors import JanusError\nos.setuid(65534)\n"
        "try:\n    Workspace(Path(sys.argv[1]), {})\n"
        "except JanusError as error:\n    print(error)\n    sys.exit(error.exit_code)\n"
    )
    for folder in [tmp_path, *list(tmp_path.parents)[:2]]:
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stderr
    assert "no permission" in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_run_end_to_end(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas as pd

    from extractors.foundation.results import COLUMNS

    out = tmp_path / "run"
    code = probe("run", "-m", tiny_bert, "-d", tiny_treebank, "--layer", "all", "--out", out, "--json", "--quiet")
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert json.loads(captured.out)["report"] == str(out / "report.html")
    assert captured.err == ""
    results = pd.read_parquet(out / "results.parquet")
    assert list(results.columns) == list(COLUMNS)
    assert {entry.name for entry in out.iterdir()} == {
        "results.parquet",
        "results.csv",
        "costs.parquet",
        "run.json",
        "figures",
        "report.html",
    }
    measures = set(results["measure"])
    assert {
        "direction_share_left",
        "direction_share_right",
        "direction_share_interaction",
        "contextual_share",
        "attention_distance",
        "attention_mass_left",
        "attention_mass_right",
        "accuracy",
        "macro_f1",
        "selectivity",
    } <= measures
    assert set(results["weights"]) == {"trained", "untrained"}
    assert set(results["layer"].dropna()) == {0, 1, 2}
    upos = results.query("task == 'upos' and measure == 'accuracy' and condition.isna()")
    assert set(upos["probe"]) == {"linear", "majority", "word_type"}
    record = json.loads((out / "run.json").read_text())
    assert record["models"][0]["checksum"]
    assert record["data"][0]["checksum"]
    page = (out / "report.html").read_text()
    assert "tiny-bert" in page
    before = {path.name: path.read_bytes() for path in out.glob("report.html")}
    assert probe("report", out) == 0
    assert {path.name: path.read_bytes() for path in out.glob("report.html")} == before
    assert probe("run", "-m", tiny_bert, "-d", tiny_treebank, "--layer", "all", "--out", out) == 5
    assert "probe report" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_table(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    common = ["run", "-m", tiny_bert, "-d", tiny_treebank, "--task", "upos", "--analysis", "direction_shares", "-q"]
    assert probe(*common, "--out", tmp_path / "a") == 0
    assert probe(*common, "--out", tmp_path / "b") == 0
    assert probe(*common, "--seed", "1", "--out", tmp_path / "c") == 0
    tables = [(tmp_path / name / "results.csv").read_bytes() for name in "abc"]
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


def test_an_interrupted_run_resumes_to_the_same_table(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    """Ctrl-C as soon as one unit is finished: exit code 130, no traceback; the same command then finishes the run."""
    common = ["run", "-m", str(tiny_bert), "-d", str(tiny_treebank), "--task", "upos,feats:Number", "--analysis"]
    common += ["direction_shares,attention_distance"]
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "studies.cli", *common, "--out", str(out)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # A test session in the background ignores SIGINT and would hand that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not list((out / ".unfinished").glob("*.parquet")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "resume" in error
    assert not (out / "results.parquet").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (out / ".unfinished").glob("*.parquet")}
    assert kept
    assert probe(*common, "--out", out, "-q") == 0
    assert not (out / ".unfinished").exists()
    assert probe(*common, "--out", tmp_path / "undisturbed", "-q") == 0
    assert (out / "results.csv").read_bytes() == (tmp_path / "undisturbed" / "results.csv").read_bytes()


def test_a_run_without_a_name_takes_the_next_free_one(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["run", "-m", tiny_bert, "-d", tiny_treebank, "--task", "upos", "--no-untrained", "-q"]
    assert probe(*command) == 0
    assert probe(*command) == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["janus-run", "janus-run-2"]


def test_a_batch_size_changes_no_verdict(tmp_path: Path, tiny_bert: Path, tiny_treebank: Path) -> None:
    import numpy as np
    import pandas as pd

    common = ["run", "-m", tiny_bert, "-d", tiny_treebank, "--analysis", "direction_shares", "--no-untrained", "-q"]
    assert probe(*common, "--batch-size", "1", "--out", tmp_path / "a") == 0
    assert probe(*common, "--batch-size", "50", "--out", tmp_path / "b") == 0
    a, b = (pd.read_parquet(tmp_path / name / "results.parquet")["value"] for name in "ab")
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("command", ["models", "tasks", "analyses"])
def test_what_exists_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(command) == 0
    assert capsys.readouterr().out.strip()
    assert probe(command, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["name"] and row["description"] for row in rows)


def test_tasks_of_a_file(tiny_treebank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe("tasks", "--data", tiny_treebank, "--json") == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert "upos" in names


@pytest.mark.parametrize("layout", ["store", "allennlp", "structural-probes"])
def test_extract_and_read_back(
    layout: str, tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    from extractors import RepresentationStore, load_extractor
    from probes.corpora import read_corpus

    out = tmp_path / ("store" if layout == "store" else "vectors.hdf5")
    assert probe("extract", "-m", tiny_bert, "-d", tiny_treebank, "--format", layout, "-o", out, "--json", "-q") == 0
    assert json.loads(capsys.readouterr().out)["layers"] == [0, 1, 2]
    words = read_corpus(tiny_treebank).sentences[5].words
    direct = next(load_extractor(tiny_bert).extract([words])).hidden
    if layout == "store":
        store = RepresentationStore.open(out)
        stored = np.stack([store.layer(k)[store.offsets[5] : store.offsets[6]] for k in range(3)])
    else:
        import h5py

        with h5py.File(out) as file:
            stored = file["5"][()]
    np.testing.assert_allclose(stored, direct, atol=1e-5)
    assert probe("extract", "-m", tiny_bert, "-d", tiny_treebank, "--format", layout, "-o", out, "-q") == 5


def test_report_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe("report", tmp_path) == 2
    assert "finished run" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_fault() -> None:
    done = subprocess.run(
        f"{sys.executable} -m studies.cli models --json | head -c 1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_the_quick_run_of_the_four_models(tmp_path: Path) -> None:
    """Without models and data: the 2 x 2 on the bundled set, one task and the direction shares, and a page that opens with it."""
    import pandas as pd

    out = tmp_path / "run"
    assert probe("run", "--preset", "quick", "-q", "-o", out) == 0
    results = pd.read_parquet(out / "results.parquet")
    shares = results.query("measure == 'direction_share_interaction' and condition == 'crossed' and part == 'whole'")
    top = shares.query("weights == 'trained'").groupby("model")[["layer", "value", "low", "high", "n"]].last()
    assert set(top.index) == {"elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini"}
    assert (top["n"] == 16).all()
    for shallow in ("elmo-mini", "bigpt-mini"):
        assert abs(top.loc[shallow, "low"]) < 1e-10 > abs(top.loc[shallow, "high"])
    copies = shares.query("weights == 'untrained'").groupby("model")["high"].last()
    assert top.loc["bert-mini", "low"] > max(0.01, copies["bert-mini"])
    assert results.query("measure == 'direction_share_left' and layer == 0")["value"].isna().all()
    effects = results.query(
        "measure == 'main_effect_directionality' and condition == 'crossed' and weights == 'trained'"
    )
    assert effects.iloc[0]["low"] > 0
    assert set(results["task"].dropna()) >= {"upos"}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Top layer of four matched models" in page
    notes = json.loads((out / "run.json").read_text())["notes"]
    assert any("contexts written for the purpose" in note for note in notes)
