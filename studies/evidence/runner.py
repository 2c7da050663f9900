"""Train and evaluate variants one after the other; what is finished is kept and skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extractors.foundation.errors import OutputError
from extractors.foundation.progress import SILENT, Progress
from studies.evidence.evaluation import Evaluation, EvaluationSettings
from studies.evidence.variants import SPEED, VARIANTS, Variant
from studies.training.loop import train
from studies.training.recipe import Recipe, read_recipe
from studies.training.source import TrainingText
from studies.workspace import UNFINISHED, read_json, write_json, write_table

WORDS = 400_000
"""The default budget of a variant."""
SPEED_FILE = "speed.parquet"

_SPEED_WORDS = 300_000
"""Words of the slice that training speed is measured on."""


def model_folder(out: Path, name: str) -> Path:
    """Where a variant's model goes."""
    return out / "models" / name


def evaluation_file(out: Path, name: str) -> Path:
    """Where a variant's rows go."""
    return out / "evaluations" / f"{name}.parquet"


def run_evidence(
    names: Sequence[str],
    text: TrainingText,
    out: Path,
    *,
    words: int = WORDS,
    recipes: Mapping[str, Recipe] | None = None,
    settings: EvaluationSettings | None = None,
    command: str | None = None,
    progress: Progress = SILENT,
) -> None:
    """Train and evaluate variants, and measure training speed.

    Several processes can work on one folder, each on variants of its own. An interrupted training resumes.

    Parameters
    ----------
    names : sequence of str
        From `studies.evidence.variants.select_variants`.
    text : TrainingText
        The text, read once for all of them.
    out : Path
        Folder of models, evaluations and tables.
    words : int
        Word budget of each variant.
    recipes : mapping of str to Recipe, optional
        Name of a bundled recipe -> the recipe to use instead.
    settings : EvaluationSettings, optional
        Sizes of the evaluation.
    command : str, optional
        The command line, for the records.
    progress : Progress
        Receives the progress; says what is skipped.

    Raises
    ------
    OutputError
        If a finished variant was trained on another text, with another budget, or from another recipe.
    """
    given = recipes or {}
    pieces = VARIANTS["bert"].build(0, given.get("bert-mini"))
    evaluation = Evaluation(text, pieces, settings=settings, progress=progress)
    for name in names:
        if name == SPEED:
            _measure_speed(text, out, given, progress)
            continue
        variant = VARIANTS[name]
        recipe = variant.build(words, given.get(variant.recipe))
        _train(variant, recipe, text, out, words, evaluation.settings, command, progress)
        _evaluate(variant, out, evaluation, progress)


def _train(
    variant: Variant,
    recipe: Recipe,
    text: TrainingText,
    out: Path,
    words: int,
    settings: EvaluationSettings,
    command: str | None,
    progress: Progress,
) -> None:
    folder, size = model_folder(out, variant.name), variant.slice(words)
    source = text if size is None else text.limited(size)
    if _is_finished(folder):
        record = read_json(folder / "training.json")
        wanted = {"recipe": recipe.model_dump(mode="json"), "limit": source.limit, "checksums": source.file_checksums}
        trained = {
            "recipe": record["recipe"],
            "limit": record["text"]["limit"],
            "checksums": [file["sha256"] for file in record["text"]["files"]],
        }
        if trained != wanted:
            differs = ", ".join(key for key in wanted if wanted[key] != trained[key])
            raise OutputError(
                f"{folder} holds {variant.name} as it was trained with another {differs}; give the text and --words it was "
                "trained with, or choose another folder with --out"
            )
        progress.note(f"{variant.name} is trained already")
        return
    train(recipe, source, folder, held_out_words=settings.held_out_words, command=command, progress=progress)


def _evaluate(variant: Variant, out: Path, evaluation: Evaluation, progress: Progress) -> None:
    folder, file = model_folder(out, variant.name), evaluation_file(out, variant.name)
    record = read_json(folder / "training.json")
    basis = {"settings": evaluation.to_json(), "model": record}
    note = file.with_suffix(".json")
    if file.exists() and note.exists() and read_json(note) == basis:
        progress.note(f"{variant.name} is evaluated already")
        return
    note.unlink(missing_ok=True)
    write_table(file, evaluation.rows(variant, folder, record))
    write_json(note, basis)


def _measure_speed(text: TrainingText, out: Path, given: Mapping[str, Recipe], progress: Progress) -> None:
    from studies.evidence.speed import RECIPES, training_speed

    file = out / SPEED_FILE
    if file.exists():
        progress.note("training speed is measured already")
        return
    recipes = {name: given.get(name) or read_recipe(name) for name in RECIPES}
    write_table(file, training_speed(text.limited(_SPEED_WORDS), recipes=recipes, progress=progress))


def finished_variants(out: Path) -> dict[str, dict[str, Any]]:
    """Name -> record of every variant that is trained and evaluated, in the order of `VARIANTS`."""
    return {
        name: read_json(model_folder(out, name) / "training.json")
        for name in VARIANTS
        if _is_finished(model_folder(out, name)) and evaluation_file(out, name).with_suffix(".json").exists()
    }


def _is_finished(folder: Path) -> bool:
    return (folder / "training.json").exists() and not (folder / UNFINISHED / "identity.json").exists()
