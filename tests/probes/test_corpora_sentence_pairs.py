"""Pairs of sentences: one text and two spans for each, and every kind of bad line is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extractors.foundation.errors import DataError
from probes.corpora import CorpusSentence, SpanLabel, read_corpus


def read(tmp_path: Path, *lines: str) -> tuple[CorpusSentence, ...]:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_corpus(path).sentences


def line(
    premise: object = "It rains .", hypothesis: object = "It is wet .", label: object = "entailment", **more: object
) -> str:
    return json.dumps({"premise": premise, "hypothesis": hypothesis, "label": label, **more})


def test_a_pair_is_one_text_with_two_spans(tmp_path: Path) -> None:
    first, second = read(tmp_path, line(info={"document_id": "rain", "sent_id": 3}), "", line(label="neutral"))
    assert first.words == ("It", "rains", ".", "It", "is", "wet", ".")
    assert first.spans == (SpanLabel(((0, 3), (3, 7)), "entailment", "entailment"),)
    assert (first.document, first.id, first.where) == ("rain", "3", "pairs.jsonl:1")
    assert (second.spans[0].label, second.document, second.where) == ("neutral", None, "pairs.jsonl:3")


BAD = {
    "cut off": (line()[:-3], "not JSON"),
    "a list": ("[1, 2]", "with the keys premise, hypothesis and label"),
    "no hypothesis": ('{"premise": "a", "label": "b"}', 'no "hypothesis"'),
    "premise a list": (line(["It", "rains"]), '"premise" must be a string'),
    "label a number": (line(label=1), '"label" must be a string'),
    "label empty": (line(label=""), "the label is empty"),
    "double space": (line(hypothesis="a  b"), "word 2 is empty; words in hypothesis"),
    "empty premise": (line(""), "word 1 is empty; words in premise"),
    "half a surrogate pair": ('{"premise": "a", "hypothesis": "\\ud800", "label": "x"}', "surrogate"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_lines_are_named(tmp_path: Path, kind: str) -> None:
    bad, message = BAD[kind]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, line(), "", bad)
    assert str(caught.value).startswith(f"{tmp_path / 'pairs.jsonl'}:3: ")
