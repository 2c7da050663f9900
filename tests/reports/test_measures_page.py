"""docs/measures.md speaks of every measure that the report defines and the analyses write, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyses import ANALYSES
from analyses.direction_shares import BY_CLASS, CONTROL, MIX, MODES, NORMED_MIX, STANDARDISED
from analyses.shares_by_length import BY_LENGTH
from probes.conjunction import MEASURES as CONJUNCTION_MEASURES
from probes.controlled import CUE_TYPES
from probes.neighbours import MEASURES as NEIGHBOUR_MEASURES
from reports.definitions import DEFINITIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "measures.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


def test_the_page_lists_what_the_report_defines_each_once() -> None:
    assert sorted(LISTED) == sorted(DEFINITIONS)


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=lambda analysis: analysis.name)
def test_the_page_lists_what_an_analysis_writes(analysis) -> None:
    assert set(analysis.measures) <= set(LISTED)
    assert f"analyses.{analysis.name}" in PAGE


@pytest.mark.parametrize("condition", [*MODES, STANDARDISED, CONTROL, MIX, NORMED_MIX, BY_CLASS, BY_LENGTH])
def test_the_page_lists_the_conditions_of_direction_shares(condition: str) -> None:
    assert condition in LISTED


def test_the_page_lists_what_the_probes_of_sides_write() -> None:
    assert {*NEIGHBOUR_MEASURES, *CONJUNCTION_MEASURES, *CUE_TYPES, "mlp"} <= set(LISTED)
    assert "probes.neighbour_probes" in PAGE
    assert "probes.conjunction_probe" in PAGE
