"""docs/troubleshooting.md quotes messages as the program has them today."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
FROM_ELSEWHERE = {"requires a different Python", "probe: command not found"}


def messages() -> str:
    """All strings of the packages, one a line, … in place of what is filled in."""
    found = []
    for package in ("extractors", "probes", "analyses", "reports", "studies"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


MESSAGES = messages()
QUOTED = [row for row in re.findall(r"^\| (?:pip: )?`([^`]+)` \|", PAGE, re.MULTILINE) if row not in FROM_ELSEWHERE]


def test_the_page_has_messages() -> None:
    assert len(QUOTED) > 40


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_is_the_programs(quoted: str) -> None:
    # What is filled in may itself hold text, so … stands for anything on one line.
    pattern = ".*?".join(re.escape(part) for part in quoted.split("…"))
    assert re.search(pattern, MESSAGES), quoted
