"""Edge-probing JSON lines, the format of jiant (Tenney et al. 2019, "What do you learn from context?").

One sentence a line: ``{"text": "Paris is big", "targets": [{"span1": [0, 1], "label": "GPE"}], "info": {...}}``; a target
with ``span2`` labels a pair of spans. A key ``task`` beside them, which is not jiant's, names the label set, so that one run can read
several.
"""

from __future__ import annotations

import re
from pathlib import Path

from probes.corpora.base import CorpusSentence, SpanLabel
from probes.corpora.json_lines import Malformed, Record, checked, names_of, read_json_lines, words_of

KIND = "targets"
"""The label set's name where ``task`` gives none, after the key that holds it; the task is then ``spans:targets``."""


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
    return read_json_lines(text, path, _sentence, {"text": str, "targets": list})


def _sentence(record: Record, where: str) -> CorpusSentence:
    words = words_of(record, "text")
    kind = record.get("task", KIND)
    if not isinstance(kind, str) or not re.fullmatch(r"[\w.-]+", kind):
        raise Malformed('"task" must be a name of letters, digits, dots and hyphens, or be left out')
    spans: list[SpanLabel] = []
    for position, target in enumerate(record["targets"], start=1):
        called = f"target {position}"
        if not isinstance(target, dict):
            raise Malformed(f"{called} is not an object")
        pair = [_span(target.get("span1"), f"span1 of {called}", len(words))]
        if target.get("span2") is not None:
            pair.append(_span(target["span2"], f"span2 of {called}", len(words)))
        labels = target.get("label")
        labels = labels if isinstance(labels, list) else [labels]
        for label in labels:
            if not isinstance(label, str) or not label:
                raise Malformed(f"the label of {called} must be a string or a list of strings, not empty")
            spans.append(SpanLabel(tuple(pair), checked(label), kind))
    return CorpusSentence(words, columns={}, spans=tuple(spans), where=where, **names_of(record))


def _span(value: object, called: str, length: int) -> tuple[int, int]:
    # bool is an int to Python, not to a reader of the file.
    if not (isinstance(value, list) and len(value) == 2 and all(type(bound) is int for bound in value)):
        raise Malformed(f"{called} must be [start, end], two integers")
    start, stop = value
    if not 0 <= start < stop <= length:
        raise Malformed(
            f"{called} is [{start}, {stop}), but the sentence has {length} words: 0 <= start < end <= {length}"
        )
    return start, stop
