"""The Python code in the documentation runs as it stands (the ELMo is the tiny reference one), and its links lead somewhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def run_code(page: str, replacements: dict[str, str]) -> dict[str, object]:
    """Run the Python blocks of a page one after the other, and give their names."""
    names: dict[str, object] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        for written, used in replacements.items():
            block = block.replace(written, used)
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with the sample under the names that the pages use."""
    from studies import SAMPLE_CORPUS

    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE_CORPUS, "my.conllu")
    text = SAMPLE_CORPUS.read_text(encoding="utf-8")
    Path("my.txt").write_text("\n".join(re.findall(r"^# text = (.*)$", text, re.MULTILINE)), encoding="utf-8")
    return tmp_path


def test_the_code_of_the_extractors_page(in_folder: Path, elmo_reference: Path) -> None:
    names = run_code("docs/extractors.md", {"elmo-original": str(elmo_reference)})
    assert names["matrix"].shape == (15, 384)  # type: ignore[attr-defined]
    assert names["alignment"].word_pieces == ((1, 2, 3, 4), (5, 6, 7, 8))  # type: ignore[attr-defined]


def test_the_code_of_the_readme(in_folder: Path, elmo_reference: Path) -> None:
    names = run_code("README.md", {'"elmo-original"': repr(str(elmo_reference))})
    assert names["sentence"].hidden.shape == (3, 10, 32)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_code_of_the_python_page_and_the_results_page(in_folder: Path, elmo_reference: Path) -> None:
    shorter = {
        "elmo-small": str(elmo_reference),
        'layer="all", out=': 'layer="last", resamples=100, out=',
        "direction_shares(bert, sentences)": "direction_shares(bert, sentences, natural=100, resamples=100)",
        "contexts=contexts)": "contexts=contexts, natural=100, resamples=100)",
    }
    names = run_code("docs/python.md", shorter)
    assert names["result"].report.is_file()  # type: ignore[attr-defined]
    assert set(names["splits"]) == {"train", "dev", "test"}  # type: ignore[call-overload]
    assert abs(names["both"][1].interval(2, "forward").value[1]) < 1e-10  # type: ignore[index]
    names = run_code("docs/results-table.md", {"janus-run/": "my-run/"})
    assert len(names["probes"]) == 2  # type: ignore[arg-type]


def test_the_yaml_of_the_command_line_page_is_a_valid_configuration(in_folder: Path) -> None:
    from studies.config import make_config

    (block,) = re.findall(r"^```yaml\n(.*?)^```$", COMMAND_LINE, re.MULTILINE | re.DOTALL)
    Path("settings.yaml").write_text(block, encoding="utf-8")
    written, default = make_config({}, "settings.yaml"), make_config({})
    assert written.seed == (0, 1, 2)
    same = written.model_dump(exclude={"model", "data", "task", "seed", "direction_shares"})
    assert same == default.model_dump(exclude={"model", "data", "task", "seed", "direction_shares"})
    assert written.direction_shares.targets == default.direction_shares.targets


@pytest.mark.parametrize("command", ["run", "extract"])
def test_the_command_line_page_has_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from studies.cli import main

    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = set(re.findall(r"^ .*?(--[a-z-]+)\b", capsys.readouterr().out, re.MULTILINE)) - {"--help", "--untrained"}
    section = COMMAND_LINE.split(f"## `probe {command}`")[1].split("\n## ")[0]
    assert options
    assert options - set(re.findall(r"--[a-z-]+", section)) == set()
