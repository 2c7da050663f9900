"""What to run, on what, where: the plan of a run, its execution and resumption, and the ``probe`` command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.config import SAMPLE_CORPUS, RunConfig
    from studies.execution import RunResult, render, run
    from studies.training.loop import TrainingResult, train
    from studies.training.recipe import Recipe, read_recipe

_HOMES = {
    "SAMPLE_CORPUS": "studies.config",
    "Recipe": "studies.training.recipe",
    "RunConfig": "studies.config",
    "RunResult": "studies.execution",
    "TrainingResult": "studies.training.loop",
    "read_recipe": "studies.training.recipe",
    "render": "studies.execution",
    "run": "studies.execution",
    "train": "studies.training.loop",
}

__all__ = [
    "SAMPLE_CORPUS",
    "Recipe",
    "RunConfig",
    "RunResult",
    "TrainingResult",
    "read_recipe",
    "render",
    "run",
    "train",
]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
