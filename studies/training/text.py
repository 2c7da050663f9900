"""Running text as arrays: word types, places of words, sentence starts, documents, and what is held out.

One paragraph a line, a blank line between documents (plain or .gz). Words are split by `extractors.words.split_words`; sentences end
at full stops, question and exclamation marks by the stated rule of `sentence_starts`, and at the end of a line.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.words import split_words

Integers = npt.NDArray[np.int64]

_ENDS = frozenset(".!?。！？…")
_CLOSERS = frozenset("”’»)]}』」")
_NEVER_FIRST = frozenset(",;:.!?)]}”’»—–-")
_ABBREVIATIONS = frozenset(
    [
        "Mr",
        "Mrs",
        "Ms",
        "Dr",
        "Prof",
        "Rev",
        "Hon",
        "Gen",
        "Col",
        "Capt",
        "Lt",
        "Maj",
        "Sgt",
        "Gov",
        "Sen",
        "Rep",
        "Pres",
        "Messrs",
        "Mme",
        "Mlle",
        "St",
        "Mt",
        "Ft",
        "Jr",
        "Sr",
        "vol",
        "Vol",
        "pp",
        "fig",
        "Fig",
        "ed",
        "Ed",
        "cf",
        "vs",
        "etc",
        "viz",
        "e.g",
        "i.e",
        "Jan",
        "Feb",
        "Mar",
        "Apr",
        "Aug",
        "Sept",
        "Oct",
        "Nov",
        "Dec",
    ]
)


@dataclass(frozen=True)
class Text:
    """Words of several documents, one after the other."""

    types: tuple[str, ...]
    """Distinct words of all files, in order of first occurrence."""
    words: npt.NDArray[np.int32]
    """(words,): number of each word's type."""
    starts: Integers
    """(sentences,): place of each sentence's first word, rising."""
    documents: Integers
    """(documents + 1,): place of each document's first word, and the number of words."""
    checksum: str
    """SHA-256 over the bytes of the files, in the order given."""

    def select(self, documents: Sequence[int]) -> Text:
        """The text of some documents, in the order given."""
        words, starts, edges, total = [], [], [0], 0
        for number in documents:
            first, stop = int(self.documents[number]), int(self.documents[number + 1])
            inside = self.starts[np.searchsorted(self.starts, first) : np.searchsorted(self.starts, stop)]
            words.append(self.words[first:stop])
            starts.append(inside - first + total)
            total += stop - first
            edges.append(total)
        empty = np.zeros(0, dtype=np.int64)
        return Text(
            self.types,
            np.concatenate(words) if words else empty.astype(np.int32),
            np.concatenate(starts) if starts else empty,
            np.array(edges, dtype=np.int64),
            self.checksum,
        )

    def counts(self) -> Integers:
        """Occurrences of each type, shape (types,)."""
        return np.bincount(self.words, minlength=len(self.types)).astype(np.int64)


@dataclass(frozen=True)
class DividedText:
    """Training and held-out documents; they share no document."""

    training: Text
    held_out: Text


def sentence_starts(words: Sequence[str]) -> list[int]:
    """Where the sentences of a paragraph start.

    A sentence ends at a full stop, question or exclamation mark, or ellipsis, with the closing quotation marks and brackets
    that follow, unless the next word starts with a lower-case letter or is punctuation that cannot start a sentence, or a full
    stop follows a common abbreviation or a single capital letter.

    Parameters
    ----------
    words : sequence of str
        Words of the paragraph, from `split_words`.

    Returns
    -------
    list of int
        Positions of first words; the first is 0.

    Examples
    --------
    >>> sentence_starts(["“", "Go", "!", "”", "said", "Mr", ".", "B", ".", "He", "went", ".", "Why", "?"])
    [0, 12]
    """
    starts, last = [0], 0
    for place, word in enumerate(words):
        if word not in _ENDS or place < last:
            continue
        last = place + 1
        while last < len(words) and (words[last] in _ENDS or words[last] in _CLOSERS or _closes(words, last)):
            last += 1
        if last == len(words):
            break
        before = words[place - 1] if place else ""
        abbreviated = word == "." and (before in _ABBREVIATIONS or (len(before) == 1 and before.isupper()))
        following = words[last]
        if not (abbreviated or following[0].islower() or following in _NEVER_FIRST):
            starts.append(last)
    return starts


def _closes(words: Sequence[str], place: int) -> bool:
    """Whether a straight double quotation mark closes: it does if it is the second, fourth, ... of the paragraph."""
    return words[place] == '"' and words[:place].count('"') % 2 == 1


def read_text(paths: Sequence[str | Path], *, progress: Progress = SILENT) -> tuple[Text, tuple[int, ...]]:
    """Read text files.

    Parameters
    ----------
    paths : sequence of path
        Plain or gzipped UTF-8 text, one paragraph a line, a blank line between documents.
    progress : Progress
        Receives one unit per file.

    Returns
    -------
    text : Text
        All documents.
    files : tuple of int
        For each document the number of its file.

    Raises
    ------
    DataError
        If a file is missing, given twice, not UTF-8, damaged, or without words.
    """
    if not paths:
        raise DataError("no text given; name at least one file with --text")
    index: dict[str, int] = {}
    words: list[npt.NDArray[np.int32]] = []
    starts: list[int] = []
    edges, files = [0], []
    digest = hashlib.sha256()
    total = 0
    seen: set[Path] = set()
    with progress.task("reading text", len(paths)) as task:
        for number, name in enumerate(paths):
            path = Path(name).expanduser()
            if path.resolve() in seen:
                raise DataError(f"{path} is given twice; give each text file once")
            seen.add(path.resolve())
            before = total
            for line in _lines(path, digest):
                found = split_words(line)
                if not found:
                    if total > edges[-1]:
                        edges.append(total)
                        files.append(number)
                    continue
                starts.extend(total + start for start in sentence_starts(found))
                words.append(np.array([index.setdefault(word, len(index)) for word in found], dtype=np.int32))
                total += len(found)
            if total > edges[-1]:
                edges.append(total)
                files.append(number)
            if total == before:
                raise DataError(f"{path} holds no words; give a file with running text")
            task.advance()
    text = Text(
        tuple(index),
        np.concatenate(words),
        np.array(starts, dtype=np.int64),
        np.array(edges, dtype=np.int64),
        digest.hexdigest(),
    )
    return text, tuple(files)


def _lines(path: Path, digest: hashlib._Hash) -> Iterable[str]:
    try:
        raw = path.read_bytes()
        digest.update(raw)
        content = gzip.decompress(raw) if path.suffix == ".gz" else raw
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; give a text file, plain or .gz") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file ({error}); fetch it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}); convert it first") from error
    return text.splitlines()


def divide(text: Text, files: Sequence[int], *, share: float, seed: int) -> DividedText:
    """Hold out whole documents of every file by a seeded rule.

    Within each file documents are taken in an order drawn from `seed` until they hold `share` of the file's words; a document
    that would bring them above twice that is passed over. From a file in which no document is small enough the last sentences
    of its last document are held out instead, as a document of their own.

    Parameters
    ----------
    text, files
        From `read_text`.
    share : float
        Share of each file's words to hold out.
    seed : int
        Seed of the order.

    Returns
    -------
    DividedText
        Together every word once.

    Raises
    ------
    DataError
        If a file is too small to hold anything out.
    """
    held: set[int] = set()
    sizes = np.diff(text.documents)
    edges = text.documents.tolist()
    for number in sorted(set(files)):
        mine = [document for document, file in enumerate(files) if file == number]
        wanted = share * float(sizes[mine].sum())
        taken = 0.0
        chosen = []
        if len(mine) > 1:
            for place in generator_for(seed, "held-out", number).permutation(len(mine)):
                document = mine[place]
                if taken >= wanted:
                    break
                if taken + sizes[document] <= 2 * wanted:
                    chosen.append(document)
                    taken += float(sizes[document])
        if chosen:
            held.update(int(text.documents[document]) for document in chosen)
            continue
        first, stop = int(text.documents[mine[-1]]), int(text.documents[mine[-1] + 1])
        cut = text.starts[min(int(np.searchsorted(text.starts, stop - wanted)), len(text.starts) - 1)]
        if not first < cut < stop:
            cut = text.starts[np.searchsorted(text.starts, stop) - 1]
        if not first < cut < stop:
            raise DataError(f"text file {number + 1} is a single sentence; give more text")
        edges.append(int(cut))
        held.add(int(cut))
    divided = Text(text.types, text.words, text.starts, np.array(sorted(edges), dtype=np.int64), text.checksum)
    numbers = range(len(divided.documents) - 1)
    inside = [number for number in numbers if int(divided.documents[number]) in held]
    return DividedText(
        training=divided.select([number for number in numbers if number not in set(inside)]),
        held_out=divided.select(inside),
    )
