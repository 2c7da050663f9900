"""What to run, on what, where: the plan of a run, its execution and resumption, and the ``probe`` command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.config import RunConfig
    from studies.run import RunResult, run
    from studies.training.loop import TrainingResult, train
    from studies.training.recipe import Recipe, read_recipe

_HOMES = {
    "Recipe": "studies.training.recipe",
    "RunConfig": "studies.config",
    "RunResult": "studies.run",
    "TrainingResult": "studies.training.loop",
    "read_recipe": "studies.training.recipe",
    "run": "studies.run",
    "train": "studies.training.loop",
}

__all__ = ["Recipe", "RunConfig", "RunResult", "TrainingResult", "read_recipe", "run", "train"]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
