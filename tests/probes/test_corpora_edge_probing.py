"""Edge-probing JSON lines: spans and pairs are read, and every kind of bad line is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extractors.foundation.errors import DataError
from probes.corpora import CorpusSentence, SpanLabel, read_corpus


def read(tmp_path: Path, *lines: str) -> tuple[CorpusSentence, ...]:
    path = tmp_path / "train.jsonl"
    path.write_bytes("\n".join(lines).encode())
    return read_corpus(path).sentences


def line(targets: object, text: object = "Ms. Haag plays Elianti .", **more: object) -> str:
    return json.dumps({"text": text, "targets": targets, **more})


def test_spans_pairs_and_several_labels(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        line(
            [
                {"span1": [0, 2], "label": "PERSON"},
                {"span1": [2, 3], "span2": [0, 2], "label": ["ARG0", "AGENT"]},
                {"span1": [2, 3], "span2": None, "label": []},
            ],
            info={"document_id": "wsj/1", "sent_id": 7},
        ),
        "",
        line([], text="No-break\u00a0space is no separator"),
    )
    assert first.words == ("Ms.", "Haag", "plays", "Elianti", ".")
    assert first.spans == (
        SpanLabel(((0, 2),), "PERSON", "targets"),
        SpanLabel(((2, 3), (0, 2)), "ARG0", "targets"),
        SpanLabel(((2, 3), (0, 2)), "AGENT", "targets"),
    )
    assert (first.document, first.id, first.where) == ("wsj/1", "7", "train.jsonl:1")
    assert second.words[0] == "No-break\u00a0space"
    assert (second.spans, second.where) == ((), "train.jsonl:3")


def test_the_label_set_may_have_a_name(tmp_path: Path) -> None:
    first, second = read(
        tmp_path, line([{"span1": [0, 2], "label": "A"}], task="coref"), line([{"span1": [0, 2], "label": "A"}])
    )
    assert [sentence.spans[0].kind for sentence in (first, second)] == ["coref", "targets"]


GOOD = line([{"span1": [0, 1], "label": "A"}])
BAD = {
    "not JSON": ("{'text': 'a'}", "not JSON"),
    "cut off": (GOOD[:-3], "not JSON"),
    "a list": ("[1, 2]", "not a JSON object"),
    "nested deeply": ("[" * 200_000, "nested too deeply"),
    "number of five thousand digits": ('{"text": ' + "1" * 5000 + "}", "not JSON"),
    "no text": ('{"targets": []}', 'no "text"'),
    "no targets": ('{"text": "a"}', 'no "targets"'),
    "text a number": (line([], text=3), '"text" must be a string'),
    "targets an object": (line({}), '"targets" must be a list'),
    "double space": (line([], text="a  b"), "word 2 is empty"),
    "empty text": (line([], text=""), "word 1 is empty"),
    "blank word": (line([], text="a \u00a0 b"), "word 2 is empty"),
    "half a surrogate pair": ('{"text": "a \\ud800", "targets": []}', "surrogate"),
    "task a number": (line([], task=3), '"task" must be a name'),
    "task with a space": (line([], task="a b"), '"task" must be a name'),
    "task empty": (line([], task=""), '"task" must be a name'),
    "target a string": (line(["A"]), "target 1 is not an object"),
    "no span1": (line([{"label": "A"}]), "span1 of target 1 must be"),
    "span of three": (line([{"span1": [0, 1, 2], "label": "A"}]), "two integers"),
    "span of floats": (line([{"span1": [0, 1.0], "label": "A"}]), "two integers"),
    "span of booleans": (line([{"span1": [False, True], "label": "A"}]), "two integers"),
    "span beyond": (line([{"span1": [0, 6], "label": "A"}]), "but the sentence has 5 words"),
    "span empty": (line([{"span1": [2, 2], "label": "A"}]), "but the sentence has 5 words"),
    "span negative": (line([{"span1": [-1, 2], "label": "A"}]), "but the sentence has 5 words"),
    "span2 beyond": (line([{"span1": [0, 1], "span2": [5, 6], "label": "A"}]), "span2 of target 1"),
    "no label": (line([{"span1": [0, 1]}]), "label of target 1"),
    "label a number": (line([{"span1": [0, 1], "label": 1}]), "label of target 1"),
    "label empty": (line([{"span1": [0, 1], "label": ""}]), "label of target 1"),
    "label in a list a number": (line([{"span1": [0, 1], "label": ["A", 2]}]), "label of target 1"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_lines_are_named(tmp_path: Path, kind: str) -> None:
    bad, message = BAD[kind]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, GOOD, "", bad)
    assert str(caught.value).startswith(f"{tmp_path / 'train.jsonl'}:3: ")
