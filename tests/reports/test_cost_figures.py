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
            operations = (1 - kept) * per_word * length
            rows.append(_row(model, "append_flops", operations, "operations", 1e4, length=length))
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


def timed_rows(traced: tuple[int, ...] = LENGTHS, copies: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    rows = []
    for model, (_, exponent, _) in KINDS.items():
        first = len(rows)
        for batch in ("batch 1", "batch 8"):
            rows.append(_row(model, "time_exponent", exponent, "exponent", 0.05, condition=batch, length=8))
            for length in LENGTHS:
                speed = 2e4 * length ** (1 - exponent)
                rows.append(
                    _row(model, "reading_speed", speed, "words per second", 1e3, condition=batch, length=length)
                )
                memory = _row(model, "peak_tensor_memory", 1e5 * length, "bytes", condition=batch, length=length)
                rows.extend([memory] if length in traced else [])
        if model in copies:
            rows[first:] = [{**row, "weights": "untrained"} for row in rows[first:]]
    return [{**row, "n": 3} for row in rows]


def draw(rows: list[dict[str, Any]], costs: list[dict[str, Any]] | None = None) -> list[Any]:
    with theme():
        return list(cost_figures(tidy(rows), model_styles(KINDS), 4, None if costs is None else tidy(costs)))


def test_three_figures_with_numbers_in_their_captions() -> None:
    sizes, lengths, word = draw(exact_rows(), timed_rows())
    assert [figure.number for figure in (sizes, lengths, word)] == [4, 5, 6]
    assert {figure.section for figure in (sizes, lengths, word)} == {"cost"}
    assert "from 3.9M (elmo-tiny) to 1.56B (gpt2-xl) parameters" in sizes.caption
    assert "2 of them are published models" in sizes.caption
    assert (
        "bert-tiny: operations ~ length^1.400 [1.390, 1.410], time ~ length^1.400 [1.350, 1.450] at batch 1"
        in lengths.caption
    )
    assert "elmo-tiny 0.500" in word.caption
    assert "bert-tiny 0" in word.caption
    assert [panel.title for panel in lengths.panels] == [
        "operations per word",
        "reading speed, batch 1",
        "reading speed, batch 8",
        "peak tensor memory, batch 8",
    ]
    assert [panel.title for panel in word.panels] == [
        "work of one more word",
        "operations of one more word",
        "elmo-tiny, states that survive",
        "bert-tiny, states that survive",
    ]
    assert "bert-tiny: 73.5M at 8 words, 3.57B at 128" in word.panels[1].alt
    for figure in (sizes, lengths, word):
        assert set(figure.measures) <= set(DEFINITIONS)
        assert all(panel.alt and panel.svg.startswith(b"<?xml") for panel in figure.panels)


def test_captions_follow_the_numbers() -> None:
    rows = exact_rows()
    for row in rows:
        if row["measure"] == "states_surviving" and row["model"] == "bert-tiny":
            row.update(value=0.25, low=0.2, high=0.3)
    assert "bert-tiny 0.250 [0.200, 0.300]" in draw(rows)[-1].caption


def test_the_caption_says_what_was_timed_and_where_memory_was_measured() -> None:
    caption = draw(exact_rows(), timed_rows())[1].caption
    assert "over 3 repeats. Memory was measured for sentences of 8, 32 and 128 words." in caption
    assert "untrained" not in caption
    figure = draw(exact_rows(), timed_rows(traced=(8, 32), copies=("bert-tiny",)))[1]
    assert "Timed on an untrained copy that reads longer sentences: bert-tiny." in figure.caption
    assert "Memory was measured for sentences of 8 and 32 words." in figure.caption
    assert all("bert-tiny" in panel.alt for panel in figure.panels)
    assert "Memory" not in draw(exact_rows(), timed_rows(traced=()))[1].caption


def test_without_states_nothing_is_said_of_them() -> None:
    """Half precision has none."""
    word = draw([row for row in exact_rows() if row["measure"] != "states_surviving"])[-1]
    assert word.measures == ("append_share", "append_flops")
    assert "state" not in word.caption


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


def test_words_to_a_loss_that_all_models_reached() -> None:
    bounds = [f"{margin} under the unigram entropy" for margin in ("1 nat", "1.5 nats", "2 nats")]
    columns = {"kind": "training", "n": 1}
    rows = [
        _row(model, "words_to_loss", value, "words", condition=bound, **columns)
        for model, values in (("elmo-tiny", (1.2e6, 4.9e6, NAN)), ("bert-tiny", (5e5, 1.1e6, 2.5e6)))
        for bound, value in zip(bounds, values, strict=True)
    ]
    with theme():
        (figure,) = cost_figures(tidy(rows), model_styles(list(KINDS)), 4)
    assert figure.number == 4
    assert "elmo-tiny 1.2M (4.9M until 1.5 nats under the unigram entropy)" in figure.caption
    assert "bert-tiny 500k (1.1M until 1.5" in figure.caption
    assert "2 nats" not in figure.caption + figure.panels[0].alt
    assert set(figure.measures) <= set(DEFINITIONS)
    one = tidy(rows[:1] + rows[3:4])
    with theme():
        (figure,) = cost_figures(one, model_styles(list(KINDS)), 4)
    assert "elmo-tiny 1.2M; bert-tiny 500k." in figure.caption
    with theme():
        assert not list(cost_figures(tidy(rows[2:3]), model_styles(list(KINDS)), 4))
