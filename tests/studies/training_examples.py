"""Tiny recipes of the four kinds and a planted language with dependencies on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("elmo", "bilstm-mlm", "bigpt", "bert")

_NOUNS = ["cat", "dog", "bird", "house", "tree", "boy", "girl", "king"]
_VERBS = ["sees", "likes", "hears", "finds"]


def planted_text(documents: int = 16, lines: int = 8) -> str:
    """Sentences in which adjective and verb follow from the first noun, so that context is worth nats."""
    generator = np.random.default_rng(0)
    blocks = []
    for _ in range(documents):
        paragraphs = []
        for _ in range(lines):
            sentences = []
            for _ in range(6):
                first, second = generator.integers(len(_NOUNS), size=2)
                sentences.append(
                    f"The {_NOUNS[first]} {_VERBS[first % 4]} one {_NOUNS[second]} {'near' if second % 2 else 'under'} it."
                )
            paragraphs.append(" ".join(sentences))
        blocks.append("\n".join(paragraphs))
    return "\n\n".join(blocks) + "\n"


def write_text(folder: Path, **sizes: int) -> Path:
    """The planted text as a file."""
    path = folder / "planted.txt"
    path.write_text(planted_text(**sizes), encoding="utf-8")
    return path


def tiny_recipe(kind: str, **changes: Any) -> dict[str, Any]:
    """A recipe that trains in seconds."""
    recipe: dict[str, Any] = {
        "kind": kind,
        "name": f"tiny-{kind}",
        "words": 3000,
        "length": 12,
        "batch": 8,
        "text": {"excerpt": 12, "reach": 16, "held_out": 0.1},
        "optimizer": {"learning_rate": 0.01},
        "log_every": 500,
        "evaluate_every": 1000,
        "evaluate_words": 300,
        "checkpoint_every": 500,
    }
    if kind in ("elmo", "bilstm-mlm"):
        recipe["lstm"] = {
            "projection_dim": 16,
            "cells": 24,
            "clip": 3.0,
            "char_cnn": {"embedding": 8, "filters": [[1, 8], [2, 16], [3, 16]]},
            "vocabulary": 60,
        }
    else:
        offsets = [[-1, -2]] if kind == "bigpt" else [[-1, 1]]
        recipe["transformer"] = {
            "hidden_size": 32,
            "n_layers": 2,
            "n_heads": 2,
            "intermediate_size": 48,
            "vocabulary": 90,
            "offset_heads": {"frequencies": 8, "layers": offsets},
        }
    if kind in ("elmo", "bigpt"):
        recipe["sampled_softmax"] = 16
    return {**recipe, **changes}
