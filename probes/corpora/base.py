"""What a corpus is, whatever its file format, and how its bytes become text.

A reader turns lines into `CorpusSentence`s; every message it raises names file and line.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extractors.foundation.errors import DataError

_COMMENT = re.compile(r"#\s*(newdoc|sent_id)(?:\s+id)?\s*(?:=\s*(.*?)\s*)?")


@dataclass(frozen=True)
class SpanLabel:
    """One label of one span of words, or of a pair of spans."""

    spans: tuple[tuple[int, int], ...]
    """One or two spans of words, each [start, stop) counted from 0."""
    label: str
    """The label."""
    kind: str
    """Name of the label set, e.g. ``targets``; the task is called ``spans:<kind>``."""


@dataclass(frozen=True)
class CorpusSentence:
    """A sentence as its corpus gives it: words, and what is said about them."""

    words: tuple[str, ...]
    """The words, at least one, none of them empty or only white space."""
    columns: Mapping[str, tuple[str | None, ...]]
    """Column name -> one label per word; None where the word has none. A column without any label in this sentence
    is left out."""
    spans: tuple[SpanLabel, ...] = ()
    """Labels of spans and pairs of spans."""
    id: str | None = None
    """The identifier that the corpus gives, if any."""
    document: str | None = None
    """The document it belongs to: the identifier that the corpus gives, or file name and number; None where the corpus
    marks no documents."""
    where: str = ""
    """File name and line of the first word, e.g. ``dev.conllu:12``."""


@dataclass(frozen=True)
class Corpus:
    """One corpus file, read."""

    name: str
    """File name without its suffixes."""
    path: Path
    """The file."""
    format: str
    """A key of `probes.corpora.FORMATS`."""
    split: str | None
    """``train``, ``dev`` or ``test``; None where nothing says so."""
    sentences: tuple[CorpusSentence, ...]
    """The sentences in file order, at least one."""
    checksum: str
    """SHA-256 of the file's bytes as they lie on disk."""

    @property
    def label_sets(self) -> frozenset[str]:
        """The names of its sets of span labels; empty for running text, whose labels are of words, if it has any."""
        return frozenset(span.kind for sentence in self.sentences for span in sentence.spans)


def read_text(path: Path) -> tuple[str, str]:
    """Read a UTF-8 file, compressed or not.

    Parameters
    ----------
    path : Path
        The file; gzip is recognised by its first two bytes, whatever its suffix.

    Returns
    -------
    text : str
        The contents without byte order mark, lines ended by a line feed alone.
    checksum : str
        SHA-256 of the bytes on disk.

    Raises
    ------
    DataError
        If the file is missing, a folder, unreadable, empty, a damaged gzip file, not UTF-8, or has no line feeds but carriage returns.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a file in it") from None
    except PermissionError:
        raise DataError(f"{path}: no permission to read this file; change its permissions or give another") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    checksum = hashlib.sha256(data).hexdigest()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except EOFError:
            raise DataError(f"{path}: the gzip file ends too early; copy or download it again") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path}: the gzip file is damaged ({error}); copy or download it again") from None
    elif path.suffix == ".gz" and data:
        raise DataError(f"{path}: not a gzip file, though its name ends in .gz; rename it or compress it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; convert the file to UTF-8"
        ) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\r" in text and "\n" not in text:
        raise DataError(f"{path}: its lines end in carriage returns alone, as on old Macs; convert them to line feeds")
    if not text.strip():
        raise DataError(f"{path} is empty; give a file that holds sentences")
    return text, checksum


def comment_value(comment: str) -> tuple[str, str | None] | None:
    """Key and value of a comment that says where a document starts or names a sentence; None for any other.

    The key is ``newdoc`` or ``sent_id``; the value is None where the comment gives none.
    """
    found = _COMMENT.fullmatch(comment)
    return (found[1], found[2] or None) if found else None
