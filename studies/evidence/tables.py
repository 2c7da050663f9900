"""The tables to ship: learning curves, the variants' numbers, training speed, and a page that says how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import OutputError
from extractors.foundation.files import written_whole
from studies.evidence.evaluation import LOSSES, EvaluationSettings, difference_row
from studies.evidence.runner import SPEED_FILE, evaluation_file, finished_variants, model_folder
from studies.evidence.variants import VARIANTS, Variant
from studies.training.loop import LOG_COLUMNS
from studies.workspace import read_json, read_table

if TYPE_CHECKING:
    import pandas as pd

CURVE_COLUMNS: dict[str, str] = {
    "model": "string",
    "family": "string",
    "origin": "string",
    "seed": "int64",
    "unit": "string",
    **LOG_COLUMNS,
    "words_per_second": "float64",
    "seconds_per_step": "float64",
}
"""Columns of ``curves.parquet``: those of a training log (docs/training.md), which model, and the speed of each stretch.
`origin` is ``variant`` or ``bundled``, `unit` what is predicted."""

TABLES = ("variants.parquet", "curves.parquet", "speed.parquet")


def write_tables(out: Path, *, bundled: Path | None = None, commands: Sequence[str] = ()) -> list[Path]:
    """Put together what is finished.

    Parameters
    ----------
    out : Path
        The folder of `studies.evidence.runner.run_evidence`.
    bundled : Path, optional
        Folder of the bundled models, for their learning curves; default: ``extractors/bundled``.
    commands : sequence of str
        The commands that made it, for the page.

    Returns
    -------
    list of Path
        The files, in ``out/tables``.

    Raises
    ------
    OutputError
        If no variant is finished, or two were trained with different budgets or on different text.
    """
    import pandas as pd

    records = finished_variants(out)
    if not records:
        raise OutputError(
            f"no variant in {out} is finished; train some with: python -m studies.evidence --out {out} ..."
        )
    _refuse_mixture(out, records)
    rows = [read_table(evaluation_file(out, name)) for name in records]
    found = {
        "variants.parquet": pd.concat([*rows, *_differences(out, records)], ignore_index=True),
        "curves.parquet": curves(out, records, bundled or default_folder()),
    }
    if (out / SPEED_FILE).exists():
        found["speed.parquet"] = read_table(out / SPEED_FILE)
    folder = out / "tables"
    files = []
    for name, table in found.items():
        files.append(folder / name)
        with written_whole(folder / name) as temporary:
            temporary.write_bytes(table.to_parquet(None, index=False, compression="zstd"))
    files.append(folder / "README.md")
    with written_whole(files[-1]) as temporary:
        temporary.write_text(_page(records, found, commands), encoding="utf-8")
    return files


def default_folder() -> Path:
    """Where the bundled models lie."""
    import extractors

    return Path(extractors.__file__).parent / "bundled"


def curves(out: Path, records: Mapping[str, Mapping[str, Any]], bundled: Path) -> pd.DataFrame:
    """Learning curves of finished variants and of the bundled models.

    Parameters
    ----------
    out : Path
        The folder of the variants.
    records : mapping
        From `finished_variants`.
    bundled : Path
        Folder of model folders; need not exist.

    Returns
    -------
    pandas.DataFrame
        `CURVE_COLUMNS`, one row for each stretch of training; the first row of a model is its start.
    """
    import pandas as pd

    parts = [
        _curve(model_folder(out, name), record, VARIANTS[name].model, "variant") for name, record in records.items()
    ]
    if bundled.is_dir():
        for folder in sorted(bundled.iterdir()):
            if (folder / "training.parquet").exists() and (folder / "training.json").exists():
                record = read_json(folder / "training.json")
                parts.append(_curve(folder, record, record["name"], "bundled"))
    return pd.concat(parts, ignore_index=True)


def _curve(folder: Path, record: Mapping[str, Any], model: str, origin: str) -> pd.DataFrame:
    import pandas as pd

    log = pd.read_parquet(folder / "training.parquet")
    seconds, words, steps = (log[column].diff() for column in ("seconds", "words", "step"))
    return log.assign(
        model=model,
        family=record["kind"],
        origin=origin,
        seed=record["seed"],
        unit=record["unit"],
        words_per_second=(words / seconds).where(seconds > 0),
        seconds_per_step=(seconds / steps).where(steps > 0),
    )[list(CURVE_COLUMNS)].astype(CURVE_COLUMNS)


def _differences(out: Path, records: Mapping[str, Mapping[str, Any]]) -> list[pd.DataFrame]:
    """Losses against the variant of reference, under the common evaluation where there is one."""
    from extractors.foundation.results import tidy

    rows = []
    for name, record in records.items():
        variant = VARIANTS[name]
        if variant.reference is None or variant.reference not in records:
            continue
        reference = records[variant.reference]
        settings = read_json(evaluation_file(out, name).with_suffix(".json"))["settings"]
        measure = LOSSES[1] if LOSSES[1] in record else LOSSES[0]
        rows.append(
            {
                **difference_row(measure, record, reference, EvaluationSettings(**settings)),
                "model": variant.model,
                "reference": VARIANTS[variant.reference].model,
                "family": record["kind"],
                "weights": "untrained" if variant.untrained else "trained",
                "seed": variant.seed,
                "source": "shipped",
            }
        )
    return [tidy(rows)] if rows else []


def _refuse_mixture(out: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
    budgets = {record["recipe"]["words"] for name, record in records.items() if _has_common_budget(VARIANTS[name])}
    texts = {tuple(file["sha256"] for file in record["text"]["files"]) for record in records.values()}
    for what, values in (("budgets", budgets), ("texts", texts)):
        if len(values) > 1:
            raise OutputError(
                f"the variants in {out} were trained with {len(values)} different {what}; keep one folder for each"
            )


def _has_common_budget(variant: Variant) -> bool:
    return variant.times == 1 and not variant.untrained


def _page(records: Mapping[str, Mapping[str, Any]], found: Mapping[str, pd.DataFrame], commands: Sequence[str]) -> str:
    some = next(iter(records.values()))
    budgets = [record["recipe"]["words"] for name, record in records.items() if _has_common_budget(VARIANTS[name])]
    budget = f"a budget of {budgets[0]:,} words" if budgets else "the budget that is stated"
    files = [(file["name"], f"`{file['sha256']}`") for file in some["text"]["files"]]
    rows = [_line(VARIANTS[name], record, found["variants.parquet"]) for name, record in records.items()]
    head = (
        "variant",
        "recipe",
        "what is changed",
        "seed",
        "words",
        "passes",
        "seconds",
        "own loss",
        "masked loss",
        "S_LR, top layer",
        "UPOS, best layer",
    )
    shown = "\n".join(commands) or "python -m studies.evidence --text FILE... --out DIR"
    parts = [
        "# Evidence from training",
        f"Variants of the recipes in `studies/recipes/`, each at {budget} (where another is not stated), one evaluation for all. They answer questions about training that a run on finished models cannot; the "
        "variants themselves are not shipped. What the columns mean: docs/evidence.md.",
        f"```\n{shown}\n```",
        f"janus-probe {some['version']}, torch {some['torch']}, {some['machine']}. Losses in nats per predicted unit (words for the "
        "LSTMs, word pieces for the Transformers) on held-out text; masked loss: 15 % of the units predicted, all of them masked.",
        _table(head, rows),
        "UPOS: accuracy of a linear probe on the bundled sample, at the layer that is best on its test part, and so a little too "
        f"high; the word-type baseline has {_word_type(found['variants.parquet'])}.",
        "## Text",
        f"{max(record['text']['training_words'] for record in records.values()):,} words for training, "
        f"{some['text']['held_out_words']:,} held out.",
        _table(("file", "SHA-256"), files),
        "## Tables",
        _table(
            ("file", "rows", "content"),
            [(f"`{name}`", f"{len(table):,}", _CONTENT[name]) for name, table in found.items()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


_CONTENT = {
    "variants.parquet": "losses, differences to the variant of reference, cloze, direction shares, mask shift, probe, one row per number",
    "curves.parquet": "learning curves of the variants and of the bundled models",
    "speed.parquet": "words per second of training steps over row length",
}


def _line(variant: Variant, record: Mapping[str, Any], rows: pd.DataFrame) -> tuple[str, ...]:
    mine = rows[(rows["model"] == variant.model) & (rows["seed"] == variant.seed) & rows["reference"].isna()]
    changed = "; ".join(f"{path}: {_at(record['recipe'], path)}" for path in variant.changes)
    if variant.passes:
        changed = "; ".join(filter(None, [changed, f"a slice of {record['text']['training_words']:,} words"]))
    shares = mine[
        (mine["measure"] == "direction_share_interaction")
        & (mine["condition"] == "crossed")
        & (mine["part"] == "whole")
    ]
    probed = mine[(mine["measure"] == "accuracy") & mine["layer"].notna()]
    top = shares.sort_values("layer")["value"].tail(1).tolist()
    best = probed["value"].max()
    return (
        variant.name,
        variant.recipe,
        changed or ("untrained" if variant.untrained else "–"),
        str(variant.seed),
        f"{record['words']:,}",
        f"{record['words'] / record['text']['training_words']:.2f}",
        f"{record['seconds']:,.0f}",
        f"{record['held_out_loss']:.3f}",
        f"{record['held_out_masked_loss']:.3f}" if "held_out_masked_loss" in record else "–",
        _short(top[0]) if top else "–",
        _short(best),
    )


def _at(recipe: Mapping[str, Any], path: str) -> Any:
    value: Any = recipe
    for name in path.split("."):
        value = value[name]
    return value


def _word_type(rows: pd.DataFrame) -> str:
    found = rows[(rows["measure"] == "accuracy") & (rows["probe"] == "word_type")]["value"]
    return _short(found.iloc[0]) if len(found) else "–"


def _short(value: float) -> str:
    return "–" if value != value else f"{value:.3f}" if abs(value) >= 5e-4 or value == 0 else f"{value:.0e}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
