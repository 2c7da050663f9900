"""The page: one HTML file with everything inside, and the figures beside it as SVG."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.foundation.files import output_error, written_whole
from reports.definitions import DEFINITIONS, definitions_for
from reports.drawing import DrawnFigure
from reports.figures import draw_figures
from reports.page_tables import cost_table, data_table, layer_tables, models_table, probe_table, statement_table
from reports.palette import model_styles
from reports.sections import SECTIONS
from reports.summary import RULES, statements, summary_paragraphs
from reports.tables import (
    checked,
    data_uri,
    downloads,
    integer,
    joined,
    named,
    over_seeds,
    shortened,
    values_of,
    visible,
)
from reports.two_by_two import two_by_two

if TYPE_CHECKING:
    import pandas as pd

_STALE = re.compile(r"figure-\d\d+-\d\d+(-[a-z0-9-]+)?\.svg")


def render_report(results: pd.DataFrame, *, costs: pd.DataFrame | None, run: Mapping[str, Any], folder: Path) -> Path:
    """Write ``figures/*.svg`` and ``report.html`` into a folder.

    Parameters
    ----------
    results : pandas.DataFrame
        The tidy table with exactly the columns of `extractors.foundation.results.COLUMNS`. It may lack any kind of
        measurement: the page then lacks that section.
    costs : pandas.DataFrame or None
        Times and memory, same columns.
    run : mapping
        What ran: the contents of ``run.json``. Absent entries are left out of the page.
    folder : Path
        Where to write; created if need be. Figures of an earlier rendering are replaced.

    Returns
    -------
    Path
        The path of ``report.html``. The same table and record give the same bytes.

    Raises
    ------
    DataError
        If a table does not follow the schema.
    OutputError
        If the folder cannot be written. No file is ever half-written, and the page is replaced last.
    """
    figures, page = render(results, costs=costs, run=run)
    folder = Path(folder)
    for panel in (panel for figure in figures for panel in figure.panels):
        with written_whole(folder / "figures" / f"{panel.name}.svg") as temporary:
            temporary.write_bytes(panel.svg)
    current = {f"{panel.name}.svg" for figure in figures for panel in figure.panels}
    try:
        for path in sorted((folder / "figures").glob("figure-*.svg")):
            if path.name not in current and _STALE.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        raise output_error(error, folder / "figures") from error
    target = folder / "report.html"
    with written_whole(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def render(
    results: pd.DataFrame, *, costs: pd.DataFrame | None, run: Mapping[str, Any]
) -> tuple[list[DrawnFigure], str]:
    """Draw the figures and render the page in memory; see `render_report`."""
    run = _complete(run)
    results = checked(results, "the result table")
    costs = None if costs is None or costs.empty else checked(costs, "the cost table")
    # Literature figures stay in the downloads; they are never drawn or summarised as if they had been measured here.
    measured = over_seeds(results[(results["source"] != "literature").fillna(True).astype(bool)])
    read = measured[(measured["condition"] != "configuration").fillna(True).astype(bool)]
    models = list(dict.fromkeys([*(str(m["name"]) for m in run["models"]), *values_of(read, "model")]))
    directionality = {str(m["name"]): str(m["directionality"]) for m in run["models"]}
    styles = model_styles(models)
    figures = draw_figures(measured, styles, costs)
    by_section = {name: [figure for figure in figures if figure.section == name] for name in SECTIONS}
    probed, costed = probe_table(measured), cost_table(costs)
    css = files("reports").joinpath("templates/report.css").read_text(encoding="utf-8")
    context = {
        "css": _Trusted(css),
        "css_hash": "sha256-" + base64.b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        "title": _title(models),
        "models_line": joined([named(model) for model in models]),
        "two_by_two": two_by_two(measured, run),
        "summary": summary_paragraphs(measured, directionality),
        "statements": statement_table(statements(measured, directionality)),
        "rules": RULES,
        "figures": by_section,
        "sections": [
            section
            for name, section in SECTIONS.items()
            if by_section[name] or (name == "cost" and costed.rows) or (name == "tasks" and probed.rows)
        ],
        "without_attention": _without_attention(measured, models),
        "models_table": models_table(run),
        "data_table": data_table(run),
        "splits": [(str(name), integer(count)) for name, count in run["splits"].items()],
        "probe_table": probed,
        "cost_table": costed,
        "layer_tables": layer_tables(measured),
        "downloads": downloads(results, "results") + ([] if costs is None else downloads(costs, "costs")),
        "rows": integer(len(results)),
        "definitions": definitions_for(_names(measured, costs)),
        "seeds": sorted({int(seed) for seed in results["seed"].dropna()}),
        "run": run,
        "notes": [str(note) for note in run["notes"]],
        "svg_uri": lambda svg: data_uri(svg, "image/svg+xml"),
        "known": DEFINITIONS,
        "untrained": "untrained" in values_of(measured, "weights"),
        "literature": bool((results["source"] == "literature").fillna(False).any()),
    }
    return figures, _environment().get_template("report.html.j2").render(context)


class _Trusted(str):
    """Text of this package that goes into the page as it is."""

    def __html__(self) -> str:
        return str(self)


def _complete(run: Mapping[str, Any]) -> dict[str, Any]:
    """The record with every entry that the page reads; absent ones are empty."""
    whole = (
        dict.fromkeys(("command", "version", "started", "python", "platform"), "")
        | {"packages": {}, "seed": [], "models": [], "data": [], "splits": {}, "notes": []}
        | {key: value for key, value in run.items() if value is not None}
    )
    seed = whole["seed"]
    whole["seed"] = [seed] if isinstance(seed, int | str) else list(seed)
    models = dict.fromkeys(("name", "source", "weights", "checksum", "directionality"), "")
    data = dict.fromkeys(("name", "path", "checksum"), "")
    whole["models"] = [models | dict(model) for model in whole["models"]]
    whole["data"] = [data | dict(one) for one in whole["data"]]
    return whole


def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def shown(value: Any) -> Any:
        # Everything from a table or record passes here before it is escaped; data: URIs are long and hold nothing to show.
        if isinstance(value, str) and not hasattr(value, "__html__") and not value.startswith("data:"):
            return visible(value, keep="\n")
        return value

    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["integer"] = integer
    environment.filters["trusted"] = _Trusted
    return environment


def _title(models: list[str]) -> str:
    if not models:
        return "Left and right context, layer by layer"
    shown = [shortened(model, 40) for model in models[:3]] + ([f"{len(models) - 3} more"] if len(models) > 3 else [])
    return f"Left and right context, layer by layer: {joined(shown)}"


def _without_attention(results: pd.DataFrame, models: list[str]) -> list[str]:
    """Models that lack attention measures where others have them."""
    rows = results[results["measure"].fillna("").str.startswith("attention_")]
    have = set(values_of(rows, "model"))
    return [model for model in models if model not in have] if have else []


def _names(results: pd.DataFrame, costs: pd.DataFrame | None) -> list[str]:
    """Everything on the page that has, or should have, a definition."""
    names = values_of(results, "measure") + ([] if costs is None else values_of(costs, "measure"))
    return names + [
        name for column in ("condition", "probe") for name in values_of(results, column) if name in DEFINITIONS
    ]
