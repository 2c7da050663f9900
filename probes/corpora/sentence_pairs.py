"""Pairs of sentences with a label, as JSON lines: does a premise entail a hypothesis?

One pair a line: ``{"premise": "The phone no longer works .", "hypothesis": "The phone is broken .", "label": "entailment"}``. A
pair becomes one text, the premise and then the hypothesis, and a pair of spans in it, so that a model that can bring the two
together may do so.
"""

from __future__ import annotations

from pathlib import Path

from probes.corpora.base import CorpusSentence, SpanLabel
from probes.corpora.json_lines import Malformed, Record, checked, names_of, read_json_lines, words_of

KIND = "entailment"
"""The label set's name; the task is ``spans:entailment``."""


def read_sentence_pairs(text: str, path: Path) -> tuple[CorpusSentence, ...]:
    """Read pairs of a premise and a hypothesis.

    Words are separated by single spaces; the spans of a pair are the premise and the hypothesis, whole. ``info`` may hold
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
        One for each pair.

    Raises
    ------
    DataError
        With file and line: lines that are not JSON objects, keys that are missing or not strings, empty words or labels.
    """
    return read_json_lines(text, path, _sentence, {"premise": str, "hypothesis": str, "label": str})


def _sentence(record: Record, where: str) -> CorpusSentence:
    premise, hypothesis = words_of(record, "premise"), words_of(record, "hypothesis")
    if not record["label"]:
        raise Malformed("the label is empty; leave out pairs that have none")
    spans = ((0, len(premise)), (len(premise), len(premise) + len(hypothesis)))
    label = SpanLabel(spans, checked(record["label"]), KIND)
    return CorpusSentence(premise + hypothesis, columns={}, spans=(label,), where=where, **names_of(record))
