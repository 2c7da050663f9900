"""The examples run as they stand, offline, say what they promise, warn of nothing and leave nothing behind."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def output_of(example: str, tmp_path: Path, *arguments: str) -> str:
    """What an example prints, started in an empty folder that must stay empty."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(temporary),
        "HF_HUB_OFFLINE": "1",
        # torch 2.6 leaves a temporary folder of its own to the end of the process.
        "PYTHONWARNINGS": "default,ignore:Implicitly cleaning up <TemporaryDirectory:ResourceWarning",
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), *arguments],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(here.iterdir())
    return done.stdout


def numbers_by_line(output: str) -> dict[str, list[float]]:
    """First words of a line -> the numbers behind them."""
    lines = (
        re.match(r"(\S+(?: \S+)*?)  +(.*)", line) or re.match(r"(\S+) (\d.*)", line) for line in output.split("\n")
    )
    return {line[1]: [float(x) for x in re.findall(r"[-+]?\d+\.\d+", line[2])] for line in lines if line}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_opens_with_three_lines_on_what_it_shows(example: Path) -> None:
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    assert docstring is not None
    assert len([line for line in docstring.splitlines() if line]) == 3


def test_every_example_is_run_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert len(EXAMPLES) >= 3
    assert [example.name for example in EXAMPLES if f'output_of("{example.name}"' not in source] == []


def test_layer_vectors(tmp_path: Path) -> None:
    output = output_of("layer_vectors.py", tmp_path)
    lines = numbers_by_line(output)
    assert lines["embeddings"] == [1.0]
    assert all(lines[f"layer {layer}"][0] < 0.99 for layer in range(1, 7))
    assert "bid ##ire ##ction ##al" in output


def test_layer_vectors_of_elmo(tmp_path: Path, elmo_reference: Path) -> None:
    lines = numbers_by_line(output_of("layer_vectors.py", tmp_path, str(elmo_reference)))
    whole, forward, backward = lines["biLSTM 2"]
    assert forward == 1.0
    assert max(whole, backward) < 0.999


def test_direction_shares(tmp_path: Path) -> None:
    output = output_of("direction_shares.py", tmp_path)
    lines = numbers_by_line(output)
    assert "undefined" in output  # layer 0 has no contextual variance to divide
    for layer in range(1, 7):
        left, right, interaction = lines[f"layer {layer}"][0:9:3]
        assert left + right + interaction == pytest.approx(1, abs=0.016)
    assert lines["layer 5"][6] > lines["layer 1"][6] + 0.1
    folder = Path(output.rsplit("table and plot: ", 1)[1].strip())
    assert folder.parent == tmp_path / "temporary"
    assert sorted(path.name for path in folder.iterdir()) == ["shares.csv", "shares.png"]


def test_probe_your_labels(tmp_path: Path) -> None:
    lines = numbers_by_line(output_of("probe_your_labels.py", tmp_path))
    # The next word is beyond a word by itself, and within reach of a layer that has read it.
    assert lines["majority"][0] < lines["word_type"][0] < lines["layer 2"][1]
    assert lines["layer 2"][3] > 0.05 > lines["embeddings"][3]
