"""What the formats of JSON lines share: one object a line, strings that a file can hold, and messages with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from extractors.foundation.errors import DataError
from probes.corpora.base import CorpusSentence

Record = Mapping[str, Any]


class Malformed(Exception):
    """What is wrong with a line, without its place."""


def read_json_lines(
    text: str, path: Path, sentence: Callable[[Record, str], CorpusSentence], keys: Mapping[str, type]
) -> tuple[CorpusSentence, ...]:
    """Read one sentence from each line that is not blank.

    Parameters
    ----------
    text : str
        Contents of the file, lines ended by a line feed.
    path : Path
        Where it came from, for messages.
    sentence : callable
        Makes a sentence of an object and of the place it stands at (file name and line), or raises `Malformed`.
    keys : mapping of str to type
        The keys that every object must have, ``str`` or ``list``.

    Returns
    -------
    tuple of CorpusSentence
        In the order of the lines.

    Raises
    ------
    DataError
        With file and line: lines that are not JSON objects, keys that are missing or of the wrong type, and what
        `sentence` finds wrong.
    """
    return tuple(_sentences(text, path, sentence, keys))


def _sentences(
    text: str, path: Path, sentence: Callable[[Record, str], CorpusSentence], keys: Mapping[str, type]
) -> Iterator[CorpusSentence]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield sentence(_object(line, keys), f"{path.name}:{number}")
        except Malformed as problem:
            raise DataError(f"{path}:{number}: {problem}") from None


def _object(line: str, keys: Mapping[str, type]) -> Record:
    try:
        record = json.loads(line)
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"not JSON ({error}); each line must be one JSON object") from None
    *most, last = keys
    needed = f"the keys {', '.join(most)} and {last}"
    if not isinstance(record, dict):
        raise Malformed(f"not a JSON object; each line must be one, with {needed}")
    for key, kind in keys.items():
        if key not in record:
            raise Malformed(f'no "{key}"; each line needs {needed}')
        if not isinstance(record[key], kind):
            raise Malformed(f'"{key}" must be a {"string" if kind is str else "list"}')
    return record


def words_of(record: Record, key: str) -> tuple[str, ...]:
    """The words of a text in which single spaces separate them."""
    words = tuple(checked(record[key]).split(" "))
    for position, word in enumerate(words, start=1):
        if not word or word.isspace():
            raise Malformed(f"word {position} is empty; words in {key} are separated by single spaces")
    return words


def names_of(record: Record) -> dict[str, str | None]:
    """The names of sentence and document in ``info``, as arguments of `CorpusSentence`."""
    information = record.get("info")
    information = information if isinstance(information, dict) else {}
    return {"id": _name(information.get("sent_id")), "document": _name(information.get("document_id"))}


def checked(value: str) -> str:
    """Refuse half a surrogate pair, which JSON can escape and no file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Malformed(f"half a surrogate pair (\\u{ord(value[error.start]):x}) is no character") from None
    return value


def _name(value: object) -> str | None:
    return checked(str(value)) if isinstance(value, str | int) and value != "" else None
