"""Linear probes over the layers of a model, with control task, selectivity and baselines (Hewitt & Liang 2019).

Each layer and part is fitted by itself: no result depends on which other layers are probed, or in what order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import seed_for
from extractors.foundation.results import tidy
from extractors.representation import ModelInfo
from probes.baselines import majority_predictions, word_type_predictions
from probes.control import control_labels, label_marginal
from probes.metrics import Measure, Score, accuracy, cross_entropy, difference, is_iob2, macro_f1, scores, span_f1

if TYPE_CHECKING:
    import pandas as pd

    from probes.linear import Design
    from probes.tasks import Task, TaskItems

Features = Callable[[int, str, str], npt.NDArray[Any]]
"""Layer number, part, split -> features (items of the split, dim)."""

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class ProbeScore:
    """One number of a probe or baseline."""

    layer: int | None
    """Layer number; None for baselines, which read no vectors."""
    part: str | None
    """Part of the layer; None for baselines."""
    probe: str
    """``linear``, ``majority`` or ``word_type``."""
    condition: str | None
    """None for the task itself, ``control`` for its control task."""
    score: Score
    """The value with its interval."""


@dataclass(frozen=True)
class ProbeResult:
    """The scores of one task on one model, with what they are about."""

    model: ModelInfo
    """The model that the vectors come from."""
    task: str
    """Name of the task."""
    data: str
    """Name of the data."""
    pooling: str
    """How pieces became words."""
    seed: int
    """Seed of the control labels and of the resampling."""
    scores: tuple[ProbeScore, ...]
    """All scores: baselines, then layers in the order given."""

    def rows(self) -> list[dict[str, Any]]:
        """The scores as rows of the results table (see `extractors.foundation.results`)."""
        return [
            {
                "model": self.model.name,
                "family": self.model.family,
                "weights": self.model.weights,
                "layer": item.layer,
                "layer_name": None if item.layer is None else self.model.layer_names[item.layer],
                "part": item.part,
                "kind": "probe",
                "measure": item.score.measure,
                "task": self.task,
                "probe": item.probe,
                "data": self.data,
                "split": "test",
                "condition": item.condition,
                "pooling": self.pooling,
                "value": item.score.value,
                "low": item.score.low,
                "high": item.score.high,
                "unit": item.score.unit,
                "n": item.score.n,
                "seed": self.seed,
            }
            for item in self.scores
        ]

    def to_frame(self) -> pd.DataFrame:
        """The scores as a tidy table."""
        return tidy(self.rows())


def evaluate_layers(
    task: Task,
    features: Features,
    *,
    model: ModelInfo,
    layers: Sequence[int],
    parts: Sequence[str] = ("whole",),
    pooling: str,
    data: str,
    seed: int = 0,
    control: bool = True,
    control_parts: Sequence[str] | None = None,
    baselines: bool = True,
    penalties: Sequence[float] | None = None,
    test_units: npt.NDArray[np.int64] | None = None,
    resamples: int = 1000,
    progress: Progress = SILENT,
) -> ProbeResult:
    """Probe layers for a task: penalty chosen on dev, fitted on train, scored on test.

    For each layer and part: ``accuracy``, ``macro_f1``, ``cross_entropy`` (bits per item), for IOB2 tags ``span_f1``, and
    the chosen ``penalty``; with `control` also ``accuracy`` and ``penalty`` under condition ``control``, the penalty chosen
    on the control task's own dev labels, and ``selectivity``, the paired difference of the two accuracies. Baselines:
    ``majority`` (its cross-entropy is that of the label marginal of train) and ``word_type``. Layer 0 is a baseline by
    its own row, the untrained copy by a call with its vectors.

    Items whose label does not occur in train count as errors; they have no code and are left out of the cross-entropy.

    Parameters
    ----------
    task : Task
        Items with labels and word types in train, dev and test.
    features : callable
        ``features(layer, part, split)`` gives an array of shape (items of the split, dim); float32 is fitted in float32.
    model : ModelInfo
        What the vectors come from.
    layers : sequence of int
        Layer numbers.
    parts : sequence of str
        Parts of a layer: ``whole``, ``forward``, ``backward``. At layer 0 both halves hold the same word vector, which is read
        once, as ``whole``.
    pooling, data : str
        How pieces became words, and the name of the data; for the table.
    seed : int
        Seed of control labels and resampling.
    control, baselines : bool
        Whether to run the control task, and to score the baselines.
    control_parts : sequence of str, optional
        Parts that the control task is run for; default: all of `parts`.
    penalties : sequence of float, optional
        Penalties to choose from; without it `probes.linear.PENALTIES`, 1 down to 1e-5.
    test_units : int array of shape (test sentences,), optional
        Unit that each test sentence belongs to, e.g. its document; without it intervals are over sentences.
    resamples : int
        Bootstrap samples.
    progress : Progress
        Receives one unit per layer and part.

    Returns
    -------
    ProbeResult
        Its `n` is the number of sentences (or documents) that hold test items.

    Raises
    ------
    UsageError
        If a layer or part is not of the model.
    DataError
        If a split is empty, train has one label only, or features do not fit the items or are not finite.
    """
    from probes.linear import PENALTIES

    _check(task, model, layers, parts)
    penalties = PENALTIES if penalties is None else penalties
    test = task.splits["test"]
    units = test.sentence if test_units is None else np.asarray(test_units, dtype=np.int64)[test.sentence]
    real = _Labels.of({split: task.splits[split].labels for split in SPLITS})
    marginal = label_marginal(task.splits["train"].labels)
    # Named by the task: tasks that share their words and the seed still have independent control labels.
    drawn = seed_for(seed, "control", task.name)
    fake = _Labels.of(
        {split: control_labels(task.splits[split].types, marginal=marginal, seed=drawn) for split in SPLITS}
    )
    resampling = {"resamples": resamples, "seed": seed_for(seed, "probe intervals")}
    found: list[ProbeScore] = []
    if baselines:
        for probe, measures in _baselines(task, units).items():
            found += [ProbeScore(None, None, probe, None, score) for score in scores(measures, **resampling)]
    # At layer 0 the halves of a concatenated model are no halves: each holds the same word vector.
    places = [
        (layer, part) for layer in layers for part in parts if layer > 0 or part == "whole" or "whole" not in parts
    ]
    with progress.task(f"{model.name}: probing {task.name}", len(places)) as running:
        for layer, part in places:
            vectors = _Vectors.of(task, features, layer, part, model.name)
            controlled = control and (control_parts is None or part in control_parts)
            found += _probe_layer(vectors, real, fake if controlled else None, task, units, penalties, resampling)
            running.advance()
    return ProbeResult(model, task.name, data, pooling, seed, tuple(found))


@dataclass(frozen=True)
class _Labels:
    """Labels of the three splits as codes, so that strings are compared once and not per layer."""

    names: npt.NDArray[np.object_]
    codes: Mapping[str, npt.NDArray[np.int64]]

    @classmethod
    def of(cls, labels: Mapping[str, npt.NDArray[np.object_]]) -> _Labels:
        names, codes = np.unique(np.concatenate([labels[split] for split in SPLITS]), return_inverse=True)
        ends = np.cumsum([len(labels[split]) for split in SPLITS])[:-1]
        return cls(names, dict(zip(SPLITS, np.split(codes.astype(np.int64), ends), strict=True)))


@dataclass(frozen=True)
class _Vectors:
    """The features of one layer and part; the training ones are prepared once for the task and its control."""

    layer: int
    part: str
    train: Design
    dev: npt.NDArray[Any]
    test: npt.NDArray[Any]

    @classmethod
    def of(cls, task: Task, features: Features, layer: int, part: str, model: str) -> _Vectors:
        from probes.linear import Design

        matrices = {}
        for split in SPLITS:
            matrix = matrices[split] = np.asarray(features(layer, part, split))
            items = len(task.splits[split].labels)
            where = f"layer {layer} ({part}) of {model}, task {task.name!r}, split {split}"
            if matrix.ndim != 2 or len(matrix) != items or matrix.shape[1] == 0:
                raise DataError(f"{where}: features have shape {matrix.shape}, expected ({items}, dim)")
            if not np.isfinite(matrix).all():
                raise DataError(f"{where}: features hold NaN or infinity; extract them again, in float32 or float64")
        return cls(layer, part, Design.of(matrices["train"]), matrices["dev"], matrices["test"])


@dataclass(frozen=True)
class _Fit:
    """What a fitted probe says about test."""

    predicted: npt.NDArray[np.int64]
    log_probabilities: npt.NDArray[np.float64]
    penalty: float


def _fit(vectors: _Vectors, labels: _Labels, penalties: Sequence[float]) -> _Fit:
    from probes.linear import fit_path, known_codes

    path = fit_path(vectors.train, labels.codes["train"], vectors.dev, labels.codes["dev"], penalties=penalties)
    log_probabilities = path.probe.predict_log_proba(vectors.test)
    known, positions = known_codes(labels.codes["test"], path.probe.classes_)
    of_gold = np.full(len(known), np.nan)
    of_gold[known] = log_probabilities[known, positions]
    return _Fit(path.probe.classes_[log_probabilities.argmax(axis=1)], of_gold, path.probe.penalty)


def _probe_layer(
    vectors: _Vectors,
    real: _Labels,
    fake: _Labels | None,
    task: Task,
    units: npt.NDArray[np.int64],
    penalties: Sequence[float],
    resampling: dict[str, int],
) -> list[ProbeScore]:
    fit = _fit(vectors, real, penalties)
    gold = real.codes["test"]
    measures: list[tuple[str | None, Measure]] = [
        (None, accuracy(gold, fit.predicted, units)),
        (None, macro_f1(gold, fit.predicted, units)),
        (None, cross_entropy(fit.log_probabilities, units)),
        *((None, measure) for measure in _span_measures(task, real.names[fit.predicted], units)),
    ]
    chosen: list[tuple[str | None, float]] = [(None, fit.penalty)]
    # With one label in train a control has nothing to learn (a tiny corpus with few types); there is no selectivity then.
    if fake is not None and len(np.unique(fake.codes["train"])) > 1:
        control = _fit(vectors, fake, penalties)
        control_accuracy = accuracy(fake.codes["test"], control.predicted, units)
        measures += [
            ("control", control_accuracy),
            (None, difference("selectivity", measures[0][1], control_accuracy)),
        ]
        chosen.append(("control", control.penalty))
    values = scores([measure for _, measure in measures], **resampling)
    found = [(condition, score) for (condition, _), score in zip(measures, values, strict=True)]
    # The penalty is a choice, not an estimate: it has no interval.
    found += [(name, Score("penalty", value, np.nan, np.nan, "strength", values[0].n)) for name, value in chosen]
    return [ProbeScore(vectors.layer, vectors.part, "linear", condition, score) for condition, score in found]


def _baselines(task: Task, units: npt.NDArray[np.int64]) -> dict[str, list[Measure]]:
    train, test = task.splits["train"], task.splits["test"]
    predictions = {
        "majority": majority_predictions(train.labels, len(test.labels)),
        "word_type": word_type_predictions(train.types, train.labels, test.types),
    }
    found = {
        probe: [
            accuracy(test.labels, predicted, units),
            macro_f1(test.labels, predicted, units),
            *_span_measures(task, predicted, units),
        ]
        for probe, predicted in predictions.items()
    }
    marginal = label_marginal(train.labels)
    of_gold = np.log([marginal.get(label, np.nan) for label in test.labels])
    found["majority"].append(cross_entropy(of_gold, units))
    return found


def _span_measures(task: Task, predicted: npt.NDArray[np.object_], units: npt.NDArray[np.int64]) -> list[Measure]:
    test: TaskItems = task.splits["test"]
    if task.kind != "token" or not is_iob2(task.labels):
        return []
    return [span_f1(test.labels, predicted, test.sentence, test.spans[:, 0, 0], units)]


def _check(task: Task, model: ModelInfo, layers: Sequence[int], parts: Sequence[str]) -> None:
    if wrong := [layer for layer in layers if layer not in model.layers]:
        raise UsageError(f"layers {wrong} do not exist in {model.name}; it has layers 0 to {model.layers[-1]}")
    if absent := [part for part in parts if part not in model.parts]:
        raise UsageError(f"{model.name} has no part {', '.join(absent)}; its parts are {', '.join(model.parts)}")
    for split in SPLITS:
        if split not in task.splits or len(task.splits[split].labels) == 0:
            raise DataError(f"task {task.name!r} has no items in {split}; give a {split} file or another split")
    labels = np.unique(task.splits["train"].labels)
    if len(labels) < 2:
        raise DataError(
            f"task {task.name!r} has one label only in train ({labels[0]!r}); there is nothing to tell apart: "
            "choose another task or give more data"
        )
    if not np.isin(task.splits["dev"].labels, labels).any():
        raise DataError(
            f"task {task.name!r}: no item of dev has a label that occurs in train, so no penalty can be chosen; "
            "check that both files carry the same labels"
        )
