"""Train a model from a recipe: the same loop for all four kinds, resumable, deterministic for a seed on one machine."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.devices import usable_device
from extractors.foundation.errors import DataError, OutputError
from extractors.foundation.progress import SILENT, Progress
from studies.training.recipe import OptimizerSettings, Recipe, read_recipe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import torch

    from studies.training.excerpts import Rows
    from studies.training.learner import Learner
    from studies.training.source import TrainingText
    from studies.workspace import Workspace

LOG_COLUMNS: dict[str, str] = {
    "step": "int64",
    "words": "int64",
    "seconds": "float64",
    "objective": "string",
    "training_loss": "float64",
    "held_out_loss": "float64",
    "held_out_masked_loss": "float64",
    "gradient_norm": "float64",
    "gradient_norm_max": "float64",
    "learning_rate": "float64",
}
"""Columns of ``training.parquet``. Losses in nats per predicted unit (word or piece); see docs/training.md."""

_CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class TrainingResult:
    """A finished training run."""

    folder: Path
    """The model folder, readable by `extractors.load_extractor`."""
    log: pd.DataFrame
    """The rows of ``training.parquet``; see `LOG_COLUMNS`."""
    record: Mapping[str, Any]
    """The content of ``training.json``: recipe, text, sizes, losses, time."""

    def to_frame(self) -> pd.DataFrame:
        """The training log, one row for each stretch of words."""
        return self.log


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    text: Sequence[str | Path] | TrainingText,
    out: str | Path,
    *,
    device: str = "cpu",
    words: int | None = None,
    seed: int | None = None,
    held_out_words: int | None = None,
    command: str | None = None,
    progress: Progress = SILENT,
) -> TrainingResult:
    """Train a model and write its folder.

    The same call on an unfinished folder resumes it. On one machine with one number of threads the weights follow from recipe
    and text alone, however often the run was interrupted.

    Parameters
    ----------
    recipe : str, Path, mapping or Recipe
        A YAML file, the name of a bundled recipe (``elmo-mini``, ``bilstm-mlm-mini``, ``bigpt-mini``, ``bert-mini``), or content.
    text : sequence of path, or TrainingText
        UTF-8 text files, plain or .gz: one paragraph a line, a blank line between documents. For several trainings on the
        same files give them a `studies.training.source.TrainingText`, which reads and prepares them once.
    out : path
        New, empty or unfinished folder.
    device : str
        A torch device.
    words, seed : int, optional
        Word budget and seed, instead of the recipe's.
    held_out_words : int, optional
        Held-out words of the last evaluation (about); all if left open.
    command : str, optional
        The command line, for the record.
    progress : Progress
        Receives words.

    Returns
    -------
    TrainingResult
        The folder holds the model in fp16, ``training.parquet``, ``training.json``, ``recipe.yaml`` and the card ``README.md``.

    Raises
    ------
    UsageError
        If the recipe or the device cannot be right.
    DataError
        If a text file is missing, damaged, or too small.
    OutputError
        If the folder is not empty, or holds an unfinished run with other settings.
    """
    from studies.workspace import Workspace, workspace

    checked = read_recipe(recipe, words=words, seed=seed)
    folder = Path(out).expanduser()
    settings = checked.model_dump(mode="json", exclude={"checkpoint_every", "description"})
    refusal = Workspace.refusal(folder, settings)
    if refusal is not None:
        raise OutputError(refusal)
    usable_device(device)

    from studies.training.learner import learner_class
    from studies.training.source import TrainingText

    source = text if isinstance(text, TrainingText) else TrainingText(text, progress=progress)
    material = source.material(checked)
    with workspace(folder, settings) as space:
        if space.resumed:
            progress.note(f"resuming the training in {folder}")
        space.pin("text", source.checksum)
        space.pin("text limit", source.limit)
        learner = learner_class(checked)(material, device=device)
        with _deterministic(device):
            log, state = _run(learner, space, progress)
            final = learner.held_out(held_out_words)
        record = _record(learner, source, state, final, command, device)
        result = _write(folder, learner, log, record, space)
    return result


def _run(learner: Learner, space: Workspace, progress: Progress) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Train to the end of the word budget; gives the log and the final state."""
    from studies.training.checkpoint import load_checkpoint, save_checkpoint
    from studies.training.excerpts import Reading

    recipe = learner.recipe
    optimizer = optimizer_of(learner.network, recipe.optimizer)
    path = space.path(_CHECKPOINT)
    state: dict[str, Any] = {"step": 0, "words": 0, "seconds": 0.0, "position": [0, 0], "rows": [], "recent": []}
    if path.exists():
        state = load_checkpoint(path, learner.network, optimizer)
    reading = Reading(
        learner.material.text.training,
        excerpt=recipe.text.excerpt,
        reach=recipe.text.reach,
        seed=recipe.seed,
        position=tuple(state["position"]),
    )
    if not state["rows"]:
        state["rows"].append(_row(state, "none", **learner.evaluate(recipe.evaluate_words)))
    learner.network.train()
    with progress.task(f"training {recipe.name} (words)", recipe.words) as task:
        task.advance(min(state["words"], recipe.words))
        while state["words"] < recipe.words:
            began = time.perf_counter()
            seen = state["words"]
            rows = learner.material.training.rows(reading.take(recipe.batch), recipe.length)
            rate = _learning_rate(recipe.optimizer, seen / recipe.words)
            for group in optimizer.param_groups:
                group["lr"] = rate
            full = recipe.sampled_softmax is None or seen >= recipe.full_softmax_from * recipe.words
            value, size = training_step(learner, optimizer, rows, state["step"], full=full)
            if not math.isfinite(value) or not math.isfinite(size):
                raise DataError(
                    f"training diverged at step {state['step']} after {seen} words (loss {value}, gradient norm {size}); "
                    "lower optimizer.learning_rate in the recipe"
                )
            state["step"] += 1
            state["words"] += rows.words
            state["position"] = list(reading.position)
            state["recent"].append([value, size])
            state["seconds"] += time.perf_counter() - began
            done = state["words"] >= recipe.words
            if done or _passed(seen, state["words"], recipe.log_every):
                evaluate = done or _passed(seen, state["words"], recipe.evaluate_every)
                held_out = learner.evaluate(recipe.evaluate_words) if evaluate else {}
                state["rows"].append(_row(state, "full" if full else "sampled", rate, **held_out))
                state["recent"] = []
            task.advance(min(state["words"], recipe.words) - min(seen, recipe.words))
            if done or _passed(seen, state["words"], recipe.checkpoint_every):
                # The table is for looking at while training goes on; the checkpoint comes last and alone decides.
                _table(state["rows"]).to_parquet(space.path("training.parquet"), index=False)
                save_checkpoint(path, learner.network, optimizer, state)
    return _table(state["rows"]), state


def _row(state: Mapping[str, Any], objective: str, rate: float = 0.0, **held_out: float) -> dict[str, Any]:
    recent = state["recent"]
    mean = [sum(column) / len(recent) for column in zip(*recent, strict=True)] if recent else [None, None]
    return {
        "step": state["step"],
        "words": state["words"],
        "seconds": state["seconds"],
        "objective": objective,
        "training_loss": mean[0],
        "gradient_norm": mean[1],
        "gradient_norm_max": max((norm for _, norm in recent), default=None),
        "learning_rate": rate,
        **held_out,
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(LOG_COLUMNS)).astype(LOG_COLUMNS)


def _passed(before: int, now: int, every: int) -> bool:
    return before // every < now // every


def _learning_rate(settings: OptimizerSettings, share: float) -> float:
    """Linear rise over the warm-up, then linear fall to zero; `share` is the share of the word budget seen."""
    rise = share / settings.warmup if settings.warmup else 1.0
    fall = (1 - share) / (1 - settings.warmup) if settings.warmup < 1 else 1.0
    # The very first step would have a rate of zero.
    return settings.learning_rate * max(min(rise, fall, 1.0), 1e-3)


def training_step(
    learner: Learner, optimizer: torch.optim.Optimizer, rows: Rows, step: int, *, full: bool
) -> tuple[float, float]:
    """One step of the optimizer on a batch.

    Returns
    -------
    tuple of float
        Loss in nats per predicted unit, and norm of the gradient before clipping. Where one of them is not finite, the
        weights are no more either.
    """
    import torch

    loss = learner.loss(rows, step, full=full)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(list(learner.network.parameters()), learner.recipe.optimizer.gradient_clip)
    optimizer.step()
    return loss.item(), norm.item()


def optimizer_of(network: torch.nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """AdamW over a network's parameters; weight decay on matrices only."""
    import torch

    parameters = list(network.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, foreach=False, fused=True
    )


@contextmanager
def _deterministic(device: str) -> Iterator[None]:
    """Ask torch for kernels that add in a fixed order, and put the settings back; a GPU lacks a few of them."""
    import torch
    from torch.utils import deterministic

    settings: Any = deterministic
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=device.startswith("cuda"))
    settings.fill_uninitialized_memory = False  # costs time and decides nothing here
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        settings.fill_uninitialized_memory = filled


def _record(
    learner: Learner,
    source: TrainingText,
    state: Mapping[str, Any],
    final: Mapping[str, npt.NDArray[np.float64]],
    command: str | None,
    device: str,
) -> dict[str, Any]:
    """The content of ``training.json``."""
    import platform

    import torch

    from studies.provenance import version
    from studies.training.learner import mean_losses

    recipe, material = learner.recipe, learner.material
    counts = learner.count_parameters(recipe, len(material.vocabulary))
    training, held_out = material.text.training, material.text.held_out
    return {
        "name": recipe.name,
        "kind": recipe.kind,
        "command": command,
        "version": version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {device}",
        "seed": recipe.seed,
        "steps": state["step"],
        "words": state["words"],
        "passes": state["position"][0],
        "seconds": round(state["seconds"], 1),
        "words_per_second": round(state["words"] / state["seconds"], 1) if state["seconds"] else None,
        "parameters": counts.total,
        "parameters_without_embeddings": counts.without_embeddings,
        "unit": "word" if recipe.reads_words else "piece",
        "vocabulary": len(material.vocabulary),
        "unigram_loss": material.unigram_loss(),
        **mean_losses(final),
        "held_out_batches": {
            name: {"nats": sums[:, 0].round(3).tolist(), "predictions": sums[:, 1].astype(int).tolist()}
            for name, sums in final.items()
        },
        "text": {
            "files": [
                {"name": path.name, "sha256": checksum}
                for path, checksum in zip(source.paths, source.file_checksums, strict=True)
            ],
            "limit": source.limit,
            "training_words": len(training.words),
            "training_documents": len(training.documents) - 1,
            "held_out_words": len(held_out.words),
            "held_out_documents": len(held_out.documents) - 1,
            "units_per_word": len(material.training.values) / len(training.words),
        },
        "recipe": recipe.model_dump(mode="json"),
    }


def _write(
    folder: Path, learner: Learner, log: pd.DataFrame, record: dict[str, Any], space: Workspace
) -> TrainingResult:
    """Export everything; the folder counts as finished only when the last file is in place."""
    import yaml

    from extractors.foundation.files import written_whole
    from studies.training.card import model_card
    from studies.workspace import write_json, write_table

    files = learner.export(folder)
    record["files"] = {name: (folder / name).stat().st_size for name in files}
    write_table(folder / "training.parquet", log)
    with written_whole(folder / "recipe.yaml") as temporary:
        temporary.write_text(
            yaml.safe_dump(learner.recipe.model_dump(mode="json", exclude_none=True), sort_keys=False), encoding="utf-8"
        )
    with written_whole(folder / "README.md") as temporary:
        temporary.write_text(model_card(record, log), encoding="utf-8")
    write_json(folder / "training.json", record)
    space.finish()
    return TrainingResult(folder, log, record)
