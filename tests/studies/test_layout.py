"""The tree keeps its shape: imports point one way, the cheap stays cheap, the terminal talks only where it should."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "extractors": {"extractors"},
    "probes": {"extractors", "probes"},
    "analyses": {"extractors", "analyses"},
    "reports": {"extractors", "probes", "analyses", "reports"},
    "studies": {"extractors", "probes", "analyses", "reports", "studies"},
}


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        foreign = imported_packages(file) & ALLOWED.keys() - ALLOWED[package]
        assert not foreign, f"{file.relative_to(ROOT)} imports {foreign}"


def test_reports_compute_nothing_heavy() -> None:
    for file in (ROOT / "reports").rglob("*.py"):
        assert not imported_packages(file) & {"torch", "transformers", "sklearn", "allennlp_light"}, file


@pytest.mark.parametrize("module", ["extractors", "probes", "analyses", "studies", "studies.cli", "reports"])
def test_importing_a_package_loads_no_heavy_library(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "print(sorted({'torch', 'transformers', 'pandas', 'sklearn', 'seaborn', 'matplotlib', 'h5py'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_answers_without_torch() -> None:
    code = (
        "import sys\nfrom studies.cli import main\n"
        "try:\n    main(['run', '--help'])\nexcept SystemExit as end:\n"
        "    assert end.code == 0 and 'torch' not in sys.modules and 'pandas' not in sys.modules\n    print('cheap')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("cheap\n")


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_public_names_stay_what_they_are_whatever_is_imported(package: str) -> None:
    """A function named like its module must not turn into the module once that is imported."""
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in (ROOT / package).glob("*.py")
        if not file.stem.startswith("__")
    ]
    code = (
        f"import importlib, {package} as package\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        "print([name for name in package.__all__ if type(getattr(package, name)).__name__ == 'module'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
