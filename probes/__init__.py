"""Vectors and labels in, how decodable the labels are out: tasks, linear probes, controls, baselines, scores."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probes.baselines import majority_predictions, word_type_predictions
    from probes.control import control_labels, label_marginal
    from probes.corpora import Corpus, CorpusSentence, read_corpora, read_corpus
    from probes.evaluation import ProbeResult, evaluate_layers
    from probes.features import item_features, task_features
    from probes.linear import LinearProbe, PenaltyPath, fit_path
    from probes.splits import split_corpora
    from probes.tasks import Task, TaskItems, available_tasks, build_task

_HOMES = {
    "Corpus": "probes.corpora",
    "CorpusSentence": "probes.corpora",
    "LinearProbe": "probes.linear",
    "PenaltyPath": "probes.linear",
    "ProbeResult": "probes.evaluation",
    "Task": "probes.tasks",
    "TaskItems": "probes.tasks",
    "available_tasks": "probes.tasks",
    "build_task": "probes.tasks",
    "control_labels": "probes.control",
    "evaluate_layers": "probes.evaluation",
    "fit_path": "probes.linear",
    "item_features": "probes.features",
    "label_marginal": "probes.control",
    "majority_predictions": "probes.baselines",
    "read_corpora": "probes.corpora",
    "read_corpus": "probes.corpora",
    "split_corpora": "probes.splits",
    "task_features": "probes.features",
    "word_type_predictions": "probes.baselines",
}

__all__ = [
    "Corpus",
    "CorpusSentence",
    "LinearProbe",
    "PenaltyPath",
    "ProbeResult",
    "Task",
    "TaskItems",
    "available_tasks",
    "build_task",
    "control_labels",
    "evaluate_layers",
    "fit_path",
    "item_features",
    "label_marginal",
    "majority_predictions",
    "read_corpora",
    "read_corpus",
    "split_corpora",
    "task_features",
    "word_type_predictions",
]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use, so that importing the package stays cheap."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
