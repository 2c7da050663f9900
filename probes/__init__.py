"""Vectors and labels in, how decodable the labels are out: tasks, linear probes, controls, baselines, scores."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probes.baselines import majority_predictions, word_type_predictions
    from probes.conjunction import ConjunctionProbe, conjunction_probe, read_cues
    from probes.control import control_labels, label_marginal
    from probes.controlled import ControlledSentences, controlled_sentences
    from probes.corpora import Corpus, CorpusSentence, read_corpora, read_corpus
    from probes.evaluation import ProbeResult, evaluate_layers
    from probes.features import item_features, task_features
    from probes.linear import LinearProbe, PenaltyPath, fit_path
    from probes.neighbours import NeighbourProbes, neighbour_probes
    from probes.splits import split_corpora
    from probes.tasks import Task, TaskItems, available_tasks, build_task

_HOMES = {
    "ConjunctionProbe": "probes.conjunction",
    "ControlledSentences": "probes.controlled",
    "Corpus": "probes.corpora",
    "CorpusSentence": "probes.corpora",
    "LinearProbe": "probes.linear",
    "NeighbourProbes": "probes.neighbours",
    "PenaltyPath": "probes.linear",
    "ProbeResult": "probes.evaluation",
    "Task": "probes.tasks",
    "TaskItems": "probes.tasks",
    "available_tasks": "probes.tasks",
    "build_task": "probes.tasks",
    "conjunction_probe": "probes.conjunction",
    "control_labels": "probes.control",
    "controlled_sentences": "probes.controlled",
    "evaluate_layers": "probes.evaluation",
    "fit_path": "probes.linear",
    "item_features": "probes.features",
    "label_marginal": "probes.control",
    "majority_predictions": "probes.baselines",
    "neighbour_probes": "probes.neighbours",
    "read_corpora": "probes.corpora",
    "read_corpus": "probes.corpora",
    "read_cues": "probes.conjunction",
    "split_corpora": "probes.splits",
    "task_features": "probes.features",
    "word_type_predictions": "probes.baselines",
}

__all__ = [
    "ConjunctionProbe",
    "ControlledSentences",
    "Corpus",
    "CorpusSentence",
    "LinearProbe",
    "NeighbourProbes",
    "PenaltyPath",
    "ProbeResult",
    "Task",
    "TaskItems",
    "available_tasks",
    "build_task",
    "conjunction_probe",
    "control_labels",
    "controlled_sentences",
    "evaluate_layers",
    "fit_path",
    "item_features",
    "label_marginal",
    "majority_predictions",
    "neighbour_probes",
    "read_corpora",
    "read_corpus",
    "read_cues",
    "split_corpora",
    "task_features",
    "word_type_predictions",
]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use, so that importing the package stays cheap."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
