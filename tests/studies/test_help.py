"""The help texts fit an ordinary terminal, name every default, and call arguments by what they are."""

from __future__ import annotations

import pytest

from studies.cli import main

COMMANDS = ["run", "models", "tasks", "analyses", "extract", "report", "version"]


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_the_terminal(
    command: str | None, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = help_of(capsys, *filter(None, [command]))
    assert max(map(len, text.splitlines())) <= width
    assert not {"<str>", "<int", "(None)"} & set(text.replace("DIR <str>", "").split())


def test_no_summary_of_a_command_is_cut_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = help_of(capsys).splitlines()
    summaries = {line.split()[0]: line for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS}
    assert sorted(summaries) == sorted(COMMANDS)
    assert [line for line in summaries.values() if line.endswith("...")] == []


def test_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "-h"])
    assert "Default: janus-run." in " ".join(capsys.readouterr().out.split())
