"""What to run, on what, where: the plan of a run, its execution and resumption, and the ``probe`` command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.config import SAMPLE_CORPUS, RunConfig
    from studies.run import RunResult, run

_HOMES = {
    "RunConfig": "studies.config",
    "RunResult": "studies.run",
    "SAMPLE_CORPUS": "studies.config",
    "run": "studies.run",
}

__all__ = ["SAMPLE_CORPUS", "RunConfig", "RunResult", "run"]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
