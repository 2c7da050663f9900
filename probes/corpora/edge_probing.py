"""Edge-probing JSON lines, the format of jiant (Tenney et al. 2019, "What do you learn from context?").

One sentence a line: ``{"text": "Paris is big", "targets": [{"span1": [0, 1], "label": "GPE"}], "info": {...}}``; a target
with ``span2`` labels a pair of spans.
"""

from __future__ import annotations

import json
from pathlib import Path

from extractors.foundation.errors import DataError
from probes.corpora.base import CorpusSentence, SpanLabel

KIND = "targets"
"""The label set's name, after the key that holds it; the task is ``spans:targets``."""


def read_edge_probing(text: str, path: Path) -> tuple[CorpusSentence, ...]:
    """Read edge-probing JSON lines.

    ``text`` is split on single spaces, spans are [start, end) in these words. A target with a list of labels gives one
    `SpanLabel` for each, so that nothing is lost here; a task for single-label probes keeps only the spans that have
    exactly one (see `probes.tasks.build_task`). A target with an empty list has no label. ``info`` may hold
    ``document_id`` and ``sent_id`` (strings or integers).

    Parameters
    ----------
    text : str
        Contents of the file, lines ended by a line feed.
    path : Path
        Where it came from, for messages.

    Returns
    -------
    tuple of CorpusSentence
        At least one.

    Raises
    ------
    DataError
        With file and line: lines that are not JSON objects, keys that are missing or of the wrong type, empty words,
        spans that are empty or outside the sentence.
    """
    sentences: list[CorpusSentence] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sentences.append(_sentence(line, f"{path.name}:{number}"))
        except _Malformed as problem:
            raise DataError(f"{path}:{number}: {problem}") from None
    return tuple(sentences)


class _Malformed(Exception):
    """What is wrong with a line, without its place."""


def _sentence(line: str, where: str) -> CorpusSentence:
    try:
        record = json.loads(line)
    except RecursionError:
        raise _Malformed("the JSON is nested too deeply") from None
    except ValueError as error:
        raise _Malformed(f"not JSON ({error}); each line must be one JSON object") from None
    if not isinstance(record, dict):
        raise _Malformed("not a JSON object; each line must be one, with the keys text and targets")
    for key, kind, called in (("text", str, "a string"), ("targets", list, "a list")):
        if key not in record:
            raise _Malformed(f'no "{key}"; each line needs the keys text and targets')
        if not isinstance(record[key], kind):
            raise _Malformed(f'"{key}" must be {called}')
    words = tuple(_string(record["text"]).split(" "))
    for position, word in enumerate(words, start=1):
        if not word or word.isspace():
            raise _Malformed(f"word {position} is empty; words in text are separated by single spaces")
    spans: list[SpanLabel] = []
    for position, target in enumerate(record["targets"], start=1):
        called = f"target {position}"
        if not isinstance(target, dict):
            raise _Malformed(f"{called} is not an object")
        pair = [_span(target.get("span1"), f"span1 of {called}", len(words))]
        if target.get("span2") is not None:
            pair.append(_span(target["span2"], f"span2 of {called}", len(words)))
        labels = target.get("label")
        labels = labels if isinstance(labels, list) else [labels]
        for label in labels:
            if not isinstance(label, str) or not label:
                raise _Malformed(f"the label of {called} must be a string or a list of strings, not empty")
            spans.append(SpanLabel(tuple(pair), _string(label), KIND))
    information = record.get("info")
    information = information if isinstance(information, dict) else {}
    return CorpusSentence(
        words=words,
        columns={},
        spans=tuple(spans),
        id=_name(information.get("sent_id")),
        document=_name(information.get("document_id")),
        where=where,
    )


def _span(value: object, called: str, length: int) -> tuple[int, int]:
    # bool is an int to Python, not to a reader of the file.
    if not (isinstance(value, list) and len(value) == 2 and all(type(bound) is int for bound in value)):
        raise _Malformed(f"{called} must be [start, end], two integers")
    start, stop = value
    if not 0 <= start < stop <= length:
        raise _Malformed(
            f"{called} is [{start}, {stop}), but the sentence has {length} words: 0 <= start < end <= {length}"
        )
    return start, stop


def _name(value: object) -> str | None:
    return _string(str(value)) if isinstance(value, str | int) and value != "" else None


def _string(value: str) -> str:
    """Refuse half a surrogate pair, which JSON can escape and no file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _Malformed(f"half a surrogate pair (\\u{ord(value[error.start]):x}) is no character") from None
    return value
