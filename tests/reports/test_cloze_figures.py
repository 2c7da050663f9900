"""The cloze figure: what is drawn and said follows from the rows."""

from __future__ import annotations

from typing import Any

import pytest

from extractors.foundation.results import tidy
from reports.cloze_figures import cloze_figures
from reports.figures import draw_figures
from reports.palette import model_styles, theme

MODELS = {"elmo-mini": "elmo", "bilstm-mlm-mini": "bilstm-mlm", "bigpt-mini": "bigpt", "bert-mini": "bert"}
PAIR = {"unigram": 6.0, "forward": 4.7, "backward": 4.65, "product": 4.3, "tuned mix": 4.0}


def rows(gap: float = -0.15) -> list[dict[str, Any]]:
    """The four models; each masked one is `gap` nats from the mix of each pair."""
    found = []
    for model, family in MODELS.items():
        base = {"model": model, "family": family, "weights": "trained", "part": "whole", "kind": "analysis"}
        base |= {"data": "sample", "n": 250, "seed": 0}
        pair = family in ("elmo", "bigpt")
        scores = PAIR if pair else {"unigram": 6.0, "joint": PAIR["tuned mix"] + gap}
        for condition, nats in scores.items():
            for measure, value, unit in (
                ("cloze_nats", nats, "nats"),
                ("cloze_top1", 1 - nats / 7, "proportion"),
                ("cloze_reciprocal_rank", 1 - nats / 8, "reciprocal rank"),
            ):
                numbers = {"value": value, "low": value - 0.05, "high": value + 0.05}
                found.append({**base, "measure": measure, "condition": condition, "unit": unit, **numbers})
        if not pair:
            for reference in ("elmo-mini", "bigpt-mini"):
                numbers = {"value": gap, "low": gap - 0.08, "high": gap + 0.08}
                row = {"measure": "cloze_nats_difference", "condition": "joint", "reference": reference, "unit": "nats"}
                found.append({**base, **row, **numbers})
    return found


def drawn(table: list[dict[str, Any]]) -> list[Any]:
    with theme():
        return list(cloze_figures(tidy(table), model_styles(MODELS), 3))


def test_one_figure_with_scores_and_differences() -> None:
    (figure,) = drawn(rows())
    assert figure.number == 3
    assert [panel.name for panel in figure.panels] == [
        "figure-03-01-cloze-nats",
        "figure-03-02-cloze-top1",
        "figure-03-03-cloze-reciprocal-rank",
        "figure-03-04-cloze-differences",
    ]
    assert "elmo-mini (tuned mix) 4.000 [3.950, 4.050]" in figure.caption
    assert "bert-mini (joint) 3.850" in figure.caption
    assert "n = 250 sentences" in figure.caption
    assert "left only 4.700" in figure.panels[0].alt
    assert figure.panels[2].title == "mean reciprocal rank"
    assert "left only 0.412" in figure.panels[2].alt
    assert "bert-mini − bigpt-mini" in figure.panels[3].alt
    assert set(figure.measures) >= {
        "cloze_nats",
        "cloze_reciprocal_rank",
        "cloze_nats_difference",
        "tuned mix",
        "joint",
        "unigram",
    }


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (-0.15, "better for bilstm-mlm-mini than elmo-mini, bilstm-mlm-mini than bigpt-mini, bert-mini than"),
        (0.15, "worse for bilstm-mlm-mini than elmo-mini"),
        (-0.01, "undecided for 4 of 4 pairs"),
    ],
)
def test_the_caption_turns_with_the_numbers(gap: float, said: str) -> None:
    assert said in drawn(rows(gap))[0].caption


def test_one_model_alone_and_untrained_copies() -> None:
    alone = [row for row in rows() if row["model"] == "elmo-mini"]
    (figure,) = drawn(alone)
    assert len(figure.panels) == 3
    assert "against" not in figure.caption
    assert drawn([{**row, "weights": "untrained"} for row in rows()]) == []
    assert drawn([]) == []


def test_the_report_draws_it_and_twice_the_same() -> None:
    one, other = (draw_figures(tidy(rows()), model_styles(MODELS)) for _ in range(2))
    assert [figure.title for figure in one] == ["Filling gaps from one side, from two sides combined, and jointly"]
    assert one == other


def test_undefined_scores_are_left_out(synthetic: Any) -> None:
    table = rows()
    for row in table:
        if row["model"] == "bert-mini":
            row.update(value=synthetic.NAN, low=synthetic.NAN, high=synthetic.NAN)
    (figure,) = drawn(table)
    assert "bert-mini" not in figure.caption
    scores = figure.panels[:3]
    assert not any("bert-mini" in panel.alt for panel in scores)
    assert all("bilstm-mlm-mini" in panel.alt for panel in scores)
