"""CoNLL columns: one word a line, labels beside it, a blank line between sentences.

Covers CoNLL-2000 and CoNLL-2003 (Tjong Kim Sang & De Meulder 2003), Universal NER (Mayhew et al. 2024) and their like.
Tags in IOB1 (Ramshaw & Marcus 1995), IOB2, BIOES, BILOU or BMES all become IOB2; the scheme is that of a whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from extractors.foundation.errors import DataError
from probes.corpora.base import CorpusSentence, comment_value

_TAG = re.compile(r"O|[BIESLUM]-.+", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+(?:[-.][0-9]+)?")
_COMMENT = re.compile(r"#[ ]*(?:[\w.:\[\]-]+[ ]*=|(?:newdoc|newpar)\b)")
_DOCUMENT = "-DOCSTART-"
_SCHEMES = ("BIOES", "BILOU", "BMEOS")
_LETTERS = {"L": "E", "U": "S", "M": "I"}
"""The letters of BILOU and BMES in terms of BIOES."""


def iob2(tags: Sequence[str], *, places: Sequence[str] | None = None) -> list[str]:
    """Rewrite tags as IOB2: ``B-X`` begins every entity, ``I-X`` continues it.

    The scheme follows from the tags themselves. If a letter of BIOES, BILOU or BMES occurs, it is that. Else it is
    IOB2 if every ``I-X`` continues an X, and IOB1 if every ``B-X`` follows an X (there ``B-`` only parts two adjacent
    entities of one type). Both hold only when there is no entity at all.

    Parameters
    ----------
    tags : sequence of str
        Tags of one sentence, or of several with an ``O`` between them.
    places : sequence of str, optional
        How errors call each tag; by default ``tag 1``, ``tag 2`` ...

    Returns
    -------
    list of str
        As many tags, the same entities, in IOB2.

    Raises
    ------
    DataError
        If a tag is no tag, or the tags fit no scheme; the places that rule each scheme out are named.

    Examples
    --------
    >>> iob2(["I-PER", "I-PER", "B-PER", "O"])
    ['B-PER', 'I-PER', 'B-PER', 'O']
    >>> iob2(["B-PER", "E-PER", "S-PER", "O"])
    ['B-PER', 'I-PER', 'B-PER', 'O']
    """

    def place(index: int) -> str:
        return places[index] if places is not None else f"tag {index + 1}"

    split: list[tuple[str, str]] = []
    for index, tag in enumerate(tags):
        if not _TAG.fullmatch(tag):
            raise DataError(f"{place(index)}: {tag!r} is not a tag; tags are O or a letter and a type, such as B-PER")
        letter, _, kind = tag.partition("-")
        split.append((letter, kind))
    letters = {letter for letter, _ in split}
    if not letters <= set("BIO"):
        if not any(letters <= set(scheme) for scheme in _SCHEMES):
            raise DataError(
                f"{place(0)} and following: the letters {', '.join(sorted(letters))} belong to no one scheme; "
                "valid are IOB1, IOB2, BIOES, BILOU and BMES"
            )
        return _from_bioes([(_LETTERS.get(letter, letter), kind) for letter, kind in split], tags, place)
    # The type of the entity the previous tag is in; "" after O and at the start.
    before = ["", *(kind for _, kind in split)]
    not_iob2 = next((i for i, (letter, kind) in enumerate(split) if letter == "I" and before[i] != kind), None)
    if not_iob2 is None:
        return list(tags)
    not_iob1 = next((i for i, (letter, kind) in enumerate(split) if letter == "B" and before[i] != kind), None)
    if not_iob1 is None:
        return [
            f"B-{kind}" if letter == "I" and before[i] != kind else tag
            for i, (tag, (letter, kind)) in enumerate(zip(tags, split, strict=True))
        ]
    raise DataError(
        f"{place(not_iob2)}: {tags[not_iob2]} continues no entity, so the tags are not IOB2, and {place(not_iob1)}: "
        f"{tags[not_iob1]} follows no entity of its type, so they are not IOB1 either; correct one of them"
    )


def read_columns(text: str, path: Path, columns: Sequence[str] | None = None) -> tuple[CorpusSentence, ...]:
    """Read CoNLL columns.

    Columns are separated by tabs if the first line of words has a tab, else by spaces. Without names, the first column
    is the word (the second if the first counts the words; lines whose number is a range or an empty node are then left
    out, as in CoNLL-U); the last column whose values are all tags is called ``ner``; every other column is called
    ``column2``, ``column3`` ... by its position in the file. Every column of tags becomes IOB2. ``_`` is no label. Lines
    that begin with ``#`` before the first word of a sentence are comments if they read ``# key = value`` (``newdoc``
    and ``sent_id`` are used) or do not have the columns of a word. ``-DOCSTART-`` and ``# newdoc`` start a document.

    Parameters
    ----------
    text : str
        Contents of the file, lines ended by a line feed.
    path : Path
        Where it came from, for messages.
    columns : sequence of str, optional
        A name for each column; one has to be ``word``, and those called ``_`` are left out.

    Returns
    -------
    tuple of CorpusSentence
        At least one.

    Raises
    ------
    DataError
        With file and line: lines of different numbers of columns, empty words, word numbers that do not count up,
        names that do not fit, tags that fit no scheme, no sentence at all.
    """
    blocks, width = _blocks(text, path)
    names, numbered = _names(blocks, width, columns, path)
    if numbered:
        for block in blocks:
            block.keep_numbered_words(path)
    word = names.index("word")
    for block in blocks:
        for number, fields in block.rows:
            if not fields[word] or fields[word].isspace():
                raise DataError(f"{path}:{number}: the word (column {word + 1}) is empty; give the word")
    labels: list[dict[str, tuple[str | None, ...]]] = [{} for _ in blocks]
    for position, name in enumerate(names):
        if name in ("word", "_"):
            continue
        values = [[fields[position] for _, fields in block.rows] for block in blocks]
        if name == "ner" or _is_tagged({value for sentence in values for value in sentence}):
            values = _as_iob2(values, blocks, path)
        for sentence, of_block in zip(values, labels, strict=True):
            if any(value != "_" for value in sentence):
                of_block[name] = tuple(None if value == "_" else value for value in sentence)
    return tuple(
        CorpusSentence(
            words=tuple(fields[word] for _, fields in block.rows),
            columns=of_block,
            id=block.id,
            document=block.document,
            where=f"{path.name}:{block.rows[0][0]}",
        )
        for block, of_block in zip(blocks, labels, strict=True)
    )


def looks_like_columns(text: str) -> bool:
    """Whether the first 200 lines of words agree in their number of columns and one of these holds tags."""
    lines = [line for line in text.split("\n", 2000)[:2000] if line.strip()]
    if any(line.startswith(_DOCUMENT) for line in lines):
        return True
    rows = [_split(line, "\t" in line) for line in lines if not line.startswith("#")][:200]
    if not rows or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        return False
    return any(_is_tagged(set(column)) and set(column) != {"O"} for column in list(zip(*rows, strict=True))[1:])


class _Block:
    """The lines of one sentence: (line number, fields) each."""

    def __init__(self, rows: list[tuple[int, list[str]]], identifier: str | None, document: str | None) -> None:
        self.rows = rows
        self.id = identifier
        self.document = document

    def keep_numbered_words(self, path: Path) -> None:
        """Drop ranges and empty nodes; check that the rest counts 1, 2, 3 ..."""
        first = self.rows[0][0]
        self.rows = [row for row in self.rows if row[1][0].isdecimal()]
        if not self.rows:
            raise DataError(f"{path}:{first}: an empty sentence: no line has an integer number")
        for due, (number, fields) in enumerate(self.rows, start=1):
            if fields[0] != str(due):
                raise DataError(f"{path}:{number}: word number {fields[0]} where {due} was due")


def _blocks(text: str, path: Path) -> tuple[list[_Block], int]:
    """Split the text into sentences, and give the number of columns."""
    blocks: list[_Block] = []
    rows: list[tuple[int, list[str]]] = []
    identifier: str | None = None
    document: str | None = None
    documents = 0
    lines = [*text.split("\n"), ""]
    # A word may be "#", so the columns are those of the first line that cannot be a comment.
    first = next((i for i, line in enumerate(lines) if line.strip(" \t") and not line.startswith(("#", _DOCUMENT))), 0)
    tabs = "\t" in lines[first]
    width = len(_split(lines[first], tabs))
    for number, line in enumerate(lines, start=1):
        boundary = line.startswith(_DOCUMENT)
        if boundary or not line.strip(" \t"):
            if rows:
                blocks.append(_Block(rows, identifier, document))
                rows, identifier = [], None
            if boundary:
                documents += 1
                document = f"{path.name} {documents}"
            continue
        fields = _split(line, tabs)
        comment = line[0] == "#" and not rows
        if comment and (_COMMENT.match(line) or len(fields) != width):
            match comment_value(line):
                case "sent_id", value:
                    identifier = value
                case "newdoc", value:
                    documents += 1
                    document = value or f"{path.name} {documents}"
            continue
        if len(fields) != width:
            separator = "tabs" if tabs else "spaces"
            raise DataError(
                f"{path}:{number}: {len(fields)} columns, but line {first + 1} has {width} (separated by {separator}); "
                "every line of words needs the same"
            )
        rows.append((number, fields))
    if not blocks:
        raise DataError(f"{path} holds no sentence; give a file with one word a line")
    return blocks, width


def _names(blocks: list[_Block], width: int, given: Sequence[str] | None, path: Path) -> tuple[list[str], bool]:
    """Name the columns, and say whether the first one counts the words."""
    values = [{fields[position] for block in blocks for _, fields in block.rows} for position in range(width)]
    numbered = width > 1 and all(_NUMBER.fullmatch(value) for value in values[0])
    if given is not None:
        if len(given) != width:
            raise DataError(f"{path} has {width} columns, but {len(given)} names were given: {', '.join(given)}")
        if list(given).count("word") != 1:
            raise DataError(f"{path}: exactly one column has to be called 'word'; given: {', '.join(given)}")
        named = [name for name in given if name != "_"]
        if "" in named or len(set(named)) < len(named):
            raise DataError(f"{path}: column names must differ and not be empty; given: {', '.join(given)}")
        return list(given), numbered and given[0] != "word"
    names = [f"column{position + 1}" for position in range(width)]
    word = 1 if numbered else 0
    names[word] = "word"
    if numbered:
        names[0] = "_"
    tagged = [position for position in range(word + 1, width) if _is_tagged(values[position])]
    # A column of nothing but O is the tags of a file without entities only if no other column is a better candidate.
    tagged = [position for position in tagged if values[position] != {"O"}] or tagged
    if tagged:
        names[tagged[-1]] = "ner"
        return names, numbered
    for position in range(word + 1, width):
        if "O" in values[position] and any(_TAG.fullmatch(value) for value in values[position] - {"O"}):
            number, wrong = next(
                (number, fields[position])
                for block in blocks
                for number, fields in block.rows
                if not _TAG.fullmatch(fields[position])
            )
            raise DataError(
                f"{path}:{number}: {wrong!r} is not a tag, though column {position + 1} holds tags; tags are O or a letter "
                "and a type, such as B-PER (or name the columns)"
            )
    return names, numbered


def _as_iob2(values: list[list[str]], blocks: list[_Block], path: Path) -> list[list[str]]:
    """Rewrite the tags of a whole file: an O between sentences keeps entities from crossing."""
    tags = [tag for sentence in values for tag in (*sentence, "O")]
    places = [
        f"{path}:{number}" for block in blocks for number in (*(number for number, _ in block.rows), block.rows[-1][0])
    ]
    rewritten = iter(iob2(tags, places=places))
    return [[next(rewritten) for _ in (*sentence, "O")][:-1] for sentence in values]


def _from_bioes(split: list[tuple[str, str]], tags: Sequence[str], place: Callable[[int], str]) -> list[str]:
    """Rewrite BIOES, checking that every entity that begins also ends."""
    rewritten: list[str] = []
    inside: str | None = None
    for index, (letter, kind) in enumerate([*split, ("O", "")]):
        continues = letter in ("I", "E")
        if continues and inside != kind:
            raise DataError(f"{place(index)}: {tags[index]} continues no entity that was begun with B-{kind}")
        if not continues and inside is not None:
            raise DataError(f"{place(index - 1)}: {tags[index - 1]} leaves its entity without an end")
        inside = kind if letter in ("B", "I") else None
        rewritten.append("O" if letter == "O" else f"I-{kind}" if continues else f"B-{kind}")
    return rewritten[:-1]


def _is_tagged(values: set[str]) -> bool:
    return all(_TAG.fullmatch(value) for value in values)


def _split(line: str, tabs: bool) -> list[str]:
    # Only tabs and spaces separate: a word may hold a no-break space.
    return line.split("\t") if tabs else re.split(" +", line.strip(" "))
