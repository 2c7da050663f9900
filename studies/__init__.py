"""What to run, on what, where: the plan of a run, its execution and resumption, and the ``probe`` command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.config import SAMPLE_CORPUS, RunConfig
    from studies.execution import RunResult, render, run

_HOMES = {
    "SAMPLE_CORPUS": "studies.config",
    "RunConfig": "studies.config",
    "RunResult": "studies.execution",
    "render": "studies.execution",
    "run": "studies.execution",
}

__all__ = ["SAMPLE_CORPUS", "RunConfig", "RunResult", "render", "run"]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
