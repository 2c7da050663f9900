"""Tidy tables made up by formula, shaped like those of a run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from extractors.foundation.results import tidy

NAN = float("nan")


def interval(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def share_rows(
    model: str, kind: str, layers: int, *, weights: str = "trained", condition: str = "crossed", top: float = 0.3
) -> list[dict[str, Any]]:
    """Direction shares: `kind` "concatenated" gives exact zeros and both halves, anything else an interaction growing to `top`."""
    family = "elmo" if kind == "concatenated" else "bert"
    base = {
        "model": model,
        "family": family,
        "weights": weights,
        "kind": "analysis",
        "data": "en_ewt-ud-test",
        "pooling": "mean",
        "condition": condition,
        "unit": "share",
        "n": 40,
        "seed": 0,
    }
    rows = []
    for part in ("whole", "forward", "backward") if kind == "concatenated" else ("whole",):
        for layer in range(layers + 1):
            where = {
                **base,
                "part": part,
                "layer": layer,
                "layer_name": "token layer" if layer == 0 else f"layer {layer}",
            }
            if layer == 0:
                values = {key: {"value": NAN, "low": NAN, "high": NAN} for key in ("left", "right", "interaction")}
            elif kind == "concatenated":
                left = {"whole": 0.55, "forward": 1.0, "backward": 0.0}[part]
                values = {
                    "left": interval(left, 0.03 if part == "whole" else 3e-16),
                    "right": interval(1 - left, 0.03 if part == "whole" else 3e-16),
                    "interaction": interval(2e-16, 9e-16),
                }
            else:
                mixed = top * layer / layers
                values = {
                    "left": interval(0.55 * (1 - mixed), 0.03),
                    "right": interval(0.45 * (1 - mixed), 0.03),
                    "interaction": interval(mixed, 0.012),
                }
            rows += [{**where, "measure": f"direction_share_{name}", **numbers} for name, numbers in values.items()]
            context = interval(0.1 + 0.4 * layer / layers, 0.02) if layer else {"value": 0.0, "low": NAN, "high": NAN}
            rows.append({**where, "measure": "contextual_share", **context})
        slope = interval(0.0, 3e-16) if kind == "concatenated" else interval(top / layers, 0.003)
        if layers > 1:
            measure = "direction_share_interaction_slope"
            rows.append({**base, "part": part, "measure": measure, **slope, "unit": "share per layer"})
    return rows


def additive_rows(model: str, layers: int, *, part: str = "whole", value: float = 0.005) -> list[dict[str, Any]]:
    """The control of the interaction share: layer norm of additive features."""
    base = {
        "model": model,
        "family": "bert",
        "weights": "trained",
        "kind": "analysis",
        "data": "en_ewt-ud-test",
        "pooling": "mean",
        "part": part,
        "condition": "layer-normed additive",
        "unit": "share",
        "n": 40,
        "seed": 0,
        "measure": "direction_share_interaction",
    }
    return [
        {**base, "layer": layer, "layer_name": f"layer {layer}", **interval(value, 0.001)}
        for layer in range(1, layers + 1)
    ]


def probe_rows(
    model: str, layers: int, tasks: tuple[str, ...], *, weights: str = "trained", seeds: tuple[int, ...] = (0,)
) -> list[dict[str, Any]]:
    """Accuracy, macro F1, cross-entropy and selectivity with a peak in the lower third of the layers."""
    rows = []
    for number, task in enumerate(tasks):
        for seed in seeds:
            for layer in range(layers + 1):
                peak = math.exp(-(((layer - layers / 3) / max(layers, 1)) ** 2))
                accuracy = (0.84 if weights == "trained" else 0.7) + 0.1 * peak - 0.01 * number + 0.001 * seed
                if layer == 0:
                    accuracy = 0.8 - 0.01 * number
                base = {
                    "model": model,
                    "family": "bert",
                    "weights": weights,
                    "part": "whole",
                    "layer": layer,
                    "layer_name": f"layer {layer}",
                    "kind": "probe",
                    "task": task,
                    "probe": "linear",
                    "data": "en_ewt-ud-test",
                    "split": "test",
                    "pooling": "mean",
                    "seed": seed,
                    "n": 2077,
                }
                main = "span_f1" if task.startswith("spans") else "accuracy"
                rows += [
                    {**base, "measure": main, "unit": "share", **interval(accuracy, 0.006)},
                    {
                        **base,
                        "measure": main,
                        "unit": "share",
                        "condition": "control",
                        **interval(accuracy - 0.3, 0.006),
                    },
                    {**base, "measure": "macro_f1", "unit": "share", **interval(accuracy - 0.05, 0.01)},
                    {**base, "measure": "cross_entropy", "unit": "bits", **interval(2 * (1 - accuracy), 0.02)},
                    {**base, "measure": "selectivity", "unit": "share", **interval(0.3 - 0.01 * layer, 0.01)},
                    {**base, "measure": "penalty", "unit": "strength", "value": 0.01},
                ]
    return rows


def baseline_rows(tasks: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for number, task in enumerate(tasks):
        for probe, value in (("majority", 0.17 + 0.3 * (number % 2)), ("word_type", 0.83 - 0.01 * number)):
            rows.append(
                {
                    "kind": "probe",
                    "task": task,
                    "probe": probe,
                    "measure": "span_f1" if task.startswith("spans") else "accuracy",
                    "data": "en_ewt-ud-test",
                    "split": "test",
                    "unit": "share",
                    "n": 2077,
                    "seed": 0,
                    **interval(value, 0.005),
                }
            )
    return rows


def attention_rows(model: str, layers: int, heads: int, *, weights: str = "trained") -> list[dict[str, Any]]:
    rows = []
    for layer in range(1, layers + 1):
        for head in [None, *range(heads)]:
            phase = 0.0 if head is None else math.sin(head * 1.7 + layer)
            base = {
                "model": model,
                "family": "bert",
                "weights": weights,
                "part": "whole",
                "layer": layer,
                "layer_name": f"layer {layer}",
                "kind": "analysis",
                "data": "en_ewt-ud-test",
                "condition": "plain",
                "head": head,
                "n": 500,
                "seed": 0,
            }
            left = 0.4 + 0.25 * phase
            rows += [
                {
                    **base,
                    "measure": "attention_distance",
                    "unit": "words",
                    **interval(3 + 2 * phase + 0.1 * layer, 0.1),
                },
                {**base, "measure": "attention_signed_distance", "unit": "words", **interval(-2 * phase, 0.1)},
                {**base, "measure": "attention_mass_left", "unit": "share", **interval(left, 0.01)},
                {**base, "measure": "attention_mass_right", "unit": "share", **interval(0.85 - left, 0.01)},
                {**base, "measure": "attention_mass_self", "unit": "share", **interval(0.15, 0.01)},
                {
                    **base,
                    "measure": "attention_mass_special",
                    "unit": "share",
                    **interval(0.3 + 0.4 * layer / layers, 0.01),
                },
                {**base, "measure": "attention_entropy", "unit": "bits", **interval(2.5 - phase, 0.05)},
            ]
        base = {**base, "condition": "uniform", "head": None}
        rows += [
            {**base, "head": head, "measure": "attention_distance", "unit": "words", **interval(6.4, 0.1)}
            for head in (None, *range(heads))
        ]
        rows += [
            {**base, "measure": "attention_mass_left", "unit": "share", **interval(0.46, 0.01)},
            {**base, "measure": "attention_mass_right", "unit": "share", **interval(0.46, 0.01)},
            {**base, "measure": "attention_mass_self", "unit": "share", **interval(0.08, 0.01)},
        ]
    return rows


TASKS = ("upos", "spans:ner")


def full_table() -> pd.DataFrame:
    """ELMo and BERT with untrained copies, two tasks, attention."""
    rows = share_rows("elmo-tiny", "concatenated", 2) + share_rows("bert-tiny", "bidirectional", 6)
    rows += share_rows("elmo-tiny", "concatenated", 2, weights="untrained") + share_rows(
        "bert-tiny", "bidirectional", 6, weights="untrained", top=0.02
    )
    rows += additive_rows("bert-tiny", 6)
    for model, layers in (("elmo-tiny", 2), ("bert-tiny", 6)):
        rows += probe_rows(model, layers, TASKS) + probe_rows(model, layers, TASKS, weights="untrained")
    rows += baseline_rows(TASKS) + attention_rows("bert-tiny", 6, 12)
    return tidy(rows)


def small_table() -> pd.DataFrame:
    """A little of everything."""
    rows = share_rows("elmo-tiny", "concatenated", 1) + share_rows("bert-tiny", "bidirectional", 2)
    return tidy(
        rows + probe_rows("bert-tiny", 2, ("upos",)) + baseline_rows(("upos",)) + attention_rows("bert-tiny", 2, 2)
    )


def costs_table() -> pd.DataFrame:
    rows = []
    for model, seconds in (("elmo-tiny", 12.5), ("bert-tiny", 31.0)):
        base = {"model": model, "family": "bert", "weights": "trained", "kind": "analysis", "data": "en_ewt-ud-test"}
        rows += [
            {**base, "measure": "seconds", "unit": "seconds", "value": seconds, "condition": "extract"},
            {
                **base,
                "measure": "words_per_second",
                "unit": "words/s",
                "value": 25094 / seconds,
                "condition": "extract",
            },
            {**base, "measure": "peak_memory", "unit": "bytes", "value": 812 * 2**20, "condition": "extract"},
        ]
    return tidy(rows)


def run_record(models: dict[str, str] | None = None) -> dict[str, Any]:
    """A run.json; `models` maps names to directionalities."""
    models = models or {"elmo-tiny": "concatenated", "bert-tiny": "bidirectional"}
    return {
        "command": "probe run --model elmo-tiny --model bert-tiny --data en_ewt-ud-test.conllu --layer all --out janus-run",
        "version": "0.1.0",
        "started": "2026-01-02T03:04:05+00:00",
        "python": "3.11.9",
        "platform": "Linux x86_64",
        "packages": {"torch": "2.13.0", "transformers": "5.24.0", "scikit-learn": "1.9.0"},
        "seed": [0],
        "models": [
            {
                "name": name,
                "source": f"models/{name}",
                "family": "elmo" if kind == "concatenated" else "bert",
                "weights": weights,
                "checksum": "ab" * 32 if weights == "trained" else "",
                "layers": ["token layer", "layer 1", "layer 2"],
                "hidden_size": 256,
                "parameters": 13_600_000,
                "directionality": kind,
                "dtype": "float64",
                "note": "a sentence encoder without a masked-LM head" if kind == "bidirectional" else "",
                "pooling": "mean",
            }
            for name, kind in models.items()
            for weights in ("trained", "untrained")
        ],
        "data": [
            {
                "name": "en_ewt-ud-test",
                "path": "data/en_ewt-ud-test.conllu",
                "format": "conllu",
                "split": "test",
                "sentences": 2077,
                "words": 25094,
                "checksum": "cd" * 32,
            }
        ],
        "splits": {"train": 1601, "dev": 400, "test": 2077},
        "notes": ["elmo-tiny has no attention: attention distance was not measured for it."],
    }
