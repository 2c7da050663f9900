"""CoNLL-U, the format of Universal Dependencies (Nivre et al. 2020; universaldependencies.org/format.html), strictly.

Words are the syntactic words, that is the lines with integer ids: the format has multiword ranges (``1-2``) and empty
nodes (``5.1``) carry no labels of their own and no position among the words. Written by hand because every message has
to name its line, and because it is several times faster than a general parser.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from extractors.foundation.errors import DataError
from probes.corpora.base import CorpusSentence, comment_value

_FIELDS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")

_Row = tuple[int, list[str]]
"""Line number and the ten fields."""


def read_conllu(text: str, path: Path) -> tuple[CorpusSentence, ...]:
    """Read CoNLL-U.

    The columns of a sentence are ``upos``, ``xpos``, ``lemma``, ``deprel`` (the universal part, before the colon),
    ``deprel_full`` (the whole relation), and, for each feature and each ``Name=Value`` of MISC that occurs in the
    sentence, ``feats:<Name>`` and ``misc:<Name>``; the MISC attribute ``NER`` (IOB2 tags) gives ``ner``. A word has a
    label where the file gives one: ``_`` is none, and a word without the feature has none either (it is no item of that
    task, not an item labelled "absent"). ``_`` as FORM with ``_`` as LEMMA is the word underscore. ``# newdoc`` starts a
    document, ``# sent_id`` names the sentence.

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
        With file and line, for whatever the format forbids: a number of columns other than ten, an empty column, ids
        that are not 1, 2, 3 ..., ranges that are backwards, overlapping or beyond the sentence, empty nodes out of
        place, comments inside a sentence or without one, heads that do not exist, features that are not Name=Value;
        and for a file whose words are withheld (all ``_``).
    """
    sentences: list[CorpusSentence] = []
    comments: list[tuple[int, str]] = []
    rows: list[_Row] = []
    document: str | None = None
    documents = 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if not line or line.isspace():
            if rows:
                identifier = None
                for _, comment in comments:
                    match comment_value(comment):
                        case "sent_id", value:
                            identifier = value
                        case "newdoc", value:
                            documents += 1
                            document = value or f"{path.name} {documents}"
                sentences.append(_sentence(rows, path, identifier, document))
            elif comments:
                _fail(path, comments[0][0], "an empty sentence: comments without words; remove them or add the words")
            comments, rows = [], []
        elif line[0] == "#":
            if rows:
                _fail(path, number, "a comment inside a sentence; comments stand before the first word")
            comments.append((number, line))
        else:
            fields = line.split("\t")
            if len(fields) != 10:
                _fail(
                    path, number, f"{len(fields)} columns, but CoNLL-U has 10, separated by tabs: {', '.join(_FIELDS)}"
                )
            rows.append((number, fields))
    if not sentences:
        raise DataError(f"{path} holds no sentence; give a CoNLL-U file with words")
    words = sum(len(sentence.words) for sentence in sentences)
    if 2 * sum(sentence.words.count("_") for sentence in sentences) > words:
        raise DataError(
            f"{path}: most words are '_', so the text is withheld; fill it in as the treebank's README says"
        )
    return tuple(sentences)


def _sentence(rows: list[_Row], path: Path, identifier: str | None, document: str | None) -> CorpusSentence:
    """Build one sentence from its lines, checking each of them."""
    words = _syntactic_words(rows, path)
    heads = {str(head) for head in range(len(words) + 1)}
    plain: dict[str, list[str | None]] = {name: [] for name in ("upos", "xpos", "lemma", "deprel", "deprel_full")}
    columns: dict[str, tuple[str | None, ...]] = {}
    named: dict[str, list[str | None]] = {}
    forms: list[str] = []
    for position, (number, fields) in enumerate(words):
        if "" in fields:
            _fail(path, number, f"{_FIELDS[fields.index('')]} is empty; CoNLL-U writes _ where there is no value")
        own, form, lemma, upos, xpos, features, head, relation, _, miscellaneous = fields
        if form.isspace():
            _fail(path, number, f"FORM is only white space ({form!r}); give the word")
        if form == "_" and lemma != "_":
            _fail(path, number, f"FORM is missing ('_', while LEMMA is {lemma!r}); give the word")
        if head != "_" and (head not in heads or head == own):
            _fail(
                path, number, f"HEAD {head!r} of word {own}; valid are 0 to {len(words)} but not the word itself, and _"
            )
        forms.append(form)
        plain["upos"].append(None if upos == "_" else upos)
        plain["xpos"].append(None if xpos == "_" else xpos)
        plain["lemma"].append(None if lemma == "_" != form else lemma)
        plain["deprel"].append(None if relation == "_" else relation.partition(":")[0])
        plain["deprel_full"].append(None if relation == "_" else relation)
        if features != "_":
            for feature in features.split("|"):
                name, equals, value = feature.partition("=")
                if not (name and equals and value):
                    _fail(path, number, f"FEATS {features!r}: {feature!r} is not Name=Value; separate features by |")
                named.setdefault(f"feats:{name}", [None] * len(words))[position] = value
        if miscellaneous != "_":
            for item in miscellaneous.split("|"):
                name, equals, value = item.partition("=")
                # MISC is free text by the format: what is not Name=Value is nobody's label.
                if name and equals and value:
                    column = "ner" if name == "NER" else f"misc:{name}"
                    named.setdefault(column, [None] * len(words))[position] = value
    for name, labels in (plain | named).items():
        if any(label is not None for label in labels):
            columns[name] = tuple(labels)
    return CorpusSentence(
        words=tuple(forms), columns=columns, id=identifier, document=document, where=f"{path.name}:{words[0][0]}"
    )


def _syntactic_words(rows: list[_Row], path: Path) -> list[_Row]:
    """Check the ids of a sentence and keep the lines of its words."""
    words: list[_Row] = []
    range_end, range_line = 0, 0
    # What the next line has to be after "3-4": the word 3.
    range_opened = False
    empty_nodes = 0
    for number, fields in rows:
        identifier = fields[0]
        due = len(words) + 1
        if identifier == str(due):
            words.append((number, fields))
            range_opened, empty_nodes = False, 0
        elif found := _RANGE.fullmatch(identifier):
            start, end = int(found[1]), int(found[2])
            if end < start:
                _fail(path, number, f"the range {identifier} runs backwards")
            if range_opened or start <= range_end:
                _fail(path, number, f"the range {identifier} overlaps the one on line {range_line}")
            if start != due:
                _fail(path, number, f"the range {identifier} is out of place: the next word is {due}")
            range_end, range_line, range_opened = end, number, True
        elif found := _EMPTY_NODE.fullmatch(identifier):
            if range_opened or int(found[1]) != len(words) or int(found[2]) != empty_nodes + 1:
                _fail(
                    path,
                    number,
                    f"the empty node {identifier} is out of place: {len(words)}.{empty_nodes + 1} could be here",
                )
            empty_nodes += 1
        else:
            _fail(path, number, f"bad id {identifier!r}: word {due} is due, ids are 1, 2, 3 ... in each sentence")
    if not words:
        _fail(path, rows[0][0], "an empty sentence: no line has an integer id, so there are no words")
    if range_end > len(words):
        _fail(path, range_line, f"the range ends at {range_end}, but the sentence has {len(words)} words")
    return words


def _fail(path: Path, line: int, problem: str) -> NoReturn:
    raise DataError(f"{path}:{line}: {problem}")
