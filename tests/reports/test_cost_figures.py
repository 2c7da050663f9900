"""The figures of costs, drawn from rows made up by formula: what is drawn, said, and left out."""

from __future__ import annotations

from typing import Any

import pytest

from extractors.foundation.results import tidy
from reports.cost_figures import cost_figures
from reports.definitions import DEFINITIONS
from reports.palette import model_styles, theme

NAN = float("nan")
LENGTHS = (8, 32, 128)
KINDS = {"elmo-tiny": ("elmo", 1.0, 0.5), "bert-tiny": ("bert", 1.4, 0.0)}


def _row(model: str, measure: str, value: float, unit: str, half: float = NAN, **columns: Any) -> dict[str, Any]:
    base = {"model": model, "family": "x", "weights": "trained", "part": "whole", "kind": "analysis", "n": 8, "seed": 0}
    return {
        **base,
        "measure": measure,
        "unit": unit,
        "value": value,
        "low": value - half,
        "high": value + half,
        **columns,
    }


def exact_rows() -> list[dict[str, Any]]:
    rows = []
    for model, (family, exponent, kept) in KINDS.items():
        rows.append(_row(model, "parameters", 3.9e6, "parameters"))
        rows.append(_row(model, "parameters_without_embeddings", 2.2e6, "parameters"))
        rows.append(_row(model, "flops_exponent", exponent, "exponent", 0.01))
        for length in LENGTHS:
            per_word = 4e6 * length ** (exponent - 1)
            rows.append(_row(model, "flops_per_word", per_word, "operations", 1e4, length=length))
            rows.append(_row(model, "append_share", 1 - kept, "share", 0.01, length=length))
        for layer in (0, 1, 2, None):
            for edit in ("append", "insert", "replace"):
                value = 1.0 if layer == 0 else kept
                rows.append(
                    _row(model, "states_surviving", value, "share", 0.0, layer=layer, condition=edit, length=12)
                )
                for part in ("forward", "backward") if family == "elmo" else ():
                    value = 1.0 if layer == 0 else float(part == "forward") if edit == "append" else 0.5
                    columns = {"layer": layer, "condition": edit, "part": part, "length": 12}
                    rows.append(_row(model, "states_surviving", value, "share", 0.05, **columns))
    for name, total in (("bert-base-uncased", 109_482_240), ("gpt2-xl", 1_557_611_200)):
        columns = {"weights": None, "condition": "configuration", "n": None}
        rows.append(_row(name, "parameters", total, "parameters", **columns))
        rows.append(_row(name, "parameters_without_embeddings", 0.8 * total, "parameters", **columns))
        rows.extend(_row(name, "flops_per_word", 2 * total + n, "operations", length=n, **columns) for n in LENGTHS)
    return rows


def timed_rows() -> list[dict[str, Any]]:
    rows = []
    for model, (_, exponent, _) in KINDS.items():
        for batch in ("batch 1", "batch 8"):
            rows.append(_row(model, "time_exponent", exponent, "exponent", 0.05, condition=batch, length=8))
            for length in LENGTHS:
                speed = 2e4 * length ** (1 - exponent)
                rows.append(
                    _row(model, "reading_speed", speed, "words per second", 1e3, condition=batch, length=length)
                )
                memory = _row(model, "peak_tensor_memory", 1e5 * length, "bytes", condition=batch, length=length)
                rows.append(memory)
    return rows


def draw(rows: list[dict[str, Any]], costs: list[dict[str, Any]] | None = None) -> list[Any]:
    with theme():
        return list(cost_figures(tidy(rows), model_styles(KINDS), 4, None if costs is None else tidy(costs)))


def test_three_figures_with_numbers_in_their_captions() -> None:
    sizes, lengths, word = draw(exact_rows(), timed_rows())
    assert [figure.number for figure in (sizes, lengths, word)] == [4, 5, 6]
    assert {figure.section for figure in (sizes, lengths, word)} == {"cost"}
    assert "from 3.9M (elmo-tiny) to 1.56B (gpt2-xl) parameters" in sizes.caption
    assert "2 of them are published models" in sizes.caption
    assert "bert-tiny: operations ~ length^1.400, time ~ length^1.400 [1.350, 1.450] at batch 1" in lengths.caption
    assert "elmo-tiny 0.500" in word.caption
    assert "bert-tiny 0" in word.caption
    assert [panel.title for panel in lengths.panels] == [
        "operations per word",
        "reading speed, batch 1",
        "reading speed, batch 8",
        "peak tensor memory, batch 8",
    ]
    assert len(word.panels) == 3
    for figure in (sizes, lengths, word):
        assert set(figure.measures) <= set(DEFINITIONS)
        assert all(panel.alt and panel.svg.startswith(b"<?xml") for panel in figure.panels)


def test_captions_follow_the_numbers() -> None:
    rows = exact_rows()
    for row in rows:
        if row["measure"] == "states_surviving" and row["model"] == "bert-tiny":
            row.update(value=0.25, low=0.2, high=0.3)
    assert "bert-tiny 0.250 [0.200, 0.300]" in draw(rows)[-1].caption


def test_without_times_only_what_is_exact_is_drawn() -> None:
    figures = draw(exact_rows())
    assert figures[1].title == "Operations by sentence length"
    assert len(figures[1].panels) == 1
    assert "time" not in figures[1].caption


def test_no_rows_no_figure_and_the_same_rows_the_same_bytes() -> None:
    assert draw([]) == []
    assert draw([_row("elmo-tiny", "accuracy", 0.5, "proportion")]) == []
    assert draw(exact_rows(), timed_rows()) == draw(exact_rows(), timed_rows())


@pytest.mark.parametrize("measure", ["parameters", "flops_per_word", "states_surviving"])
def test_one_kind_of_row_alone_is_drawn(measure: str) -> None:
    (figure,) = draw([row for row in exact_rows() if row["measure"] == measure])
    assert figure.panels
