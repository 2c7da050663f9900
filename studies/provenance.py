"""What ``run.json`` says: the command, versions, and checksums of models and data."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from studies.config import RunConfig

if TYPE_CHECKING:
    from extractors import ModelInfo
    from probes.corpora import Corpus

_PACKAGES = (
    "torch",
    "transformers",
    "allennlp-light",
    "ai2-tango",
    "huggingface-hub",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "h5py",
    "safetensors",
    "tokenizers",
)


def version() -> str:
    """The installed version of janus-probe; ``unknown`` when run from a folder without installation."""
    try:
        return importlib.metadata.version("janus-probe")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def describe_model(info: ModelInfo) -> dict[str, Any]:
    """What identifies a model, as plain JSON values."""
    return {
        "name": info.name,
        "source": info.source,
        "family": info.family,
        "weights": info.weights,
        "checksum": info.checksum,
        "seed": info.seed,
        "revision": info.revision,
        "layers": list(info.layer_names),
        "hidden_size": info.hidden_size,
        "heads": info.heads,
        "parameters": info.parameters,
        "directionality": info.directionality,
        "dtype": info.dtype,
        "note": info.note,
    }


def describe_corpus(corpus: Corpus) -> dict[str, Any]:
    """What identifies a corpus, as plain JSON values."""
    return {
        "name": corpus.name,
        "path": str(corpus.path),
        "format": corpus.format,
        "split": corpus.split,
        "sentences": len(corpus.sentences),
        "words": sum(len(sentence.words) for sentence in corpus.sentences),
        "checksum": corpus.checksum,
    }


def run_record(
    config: RunConfig,
    *,
    command: str | None,
    started: datetime,
    models: Sequence[Mapping[str, Any]],
    corpora: Sequence[Corpus],
    splits: Mapping[str, int],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The content of ``run.json``; `models` as `describe_model` gives them, untrained copies included."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "command": command or equivalent_command(config),
        "version": version(),
        "started": started.isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "seed": list(config.seed),
        "pooling": config.pooling,
        "settings": config.model_dump(mode="json"),
        "models": [{**model, "pooling": config.pooling} for model in models],
        "data": [describe_corpus(corpus) for corpus in corpora],
        "splits": dict(splits),
        "notes": list(notes),
    }


def equivalent_command(config: RunConfig) -> str:
    """The ``probe run`` command with the same settings (those that have an option of their own)."""
    words = ["probe", "run"]
    defaults = RunConfig()
    for field in ("model", "data", "task", "analysis", "seed"):
        if getattr(config, field) != getattr(defaults, field):
            for value in getattr(config, field):
                words += [f"--{field}", str(value)]
    words += ["--layer", config.layer]
    for field in ("preset", "pooling", "device", "dtype", "batch_size"):
        if getattr(config, field) != getattr(defaults, field):
            words += [f"--{field.replace('_', '-')}", str(getattr(config, field))]
    if not config.untrained:
        words.append("--no-untrained")
    return shlex.join(words)
