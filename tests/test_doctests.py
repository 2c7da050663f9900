"""The examples in docstrings run and give what they say; only modules that hold one are imported."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for package in ("extractors", "probes", "analyses", "reports", "studies")
    for file in (ROOT / package).rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    assert "extractors.words" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0  # what failed is in the captured output
