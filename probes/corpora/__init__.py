"""Corpora: files of sentences with labels, in five formats, read strictly."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from extractors.foundation.errors import DataError, UsageError
from probes.corpora.base import Corpus, CorpusSentence, SpanLabel, read_text
from probes.corpora.columns import iob2, looks_like_columns, read_columns
from probes.corpora.conllu import read_conllu
from probes.corpora.edge_probing import read_edge_probing
from probes.corpora.sentence_pairs import read_sentence_pairs
from probes.corpora.text import read_plain_text

__all__ = ["FORMATS", "SPLITS", "Corpus", "CorpusSentence", "SpanLabel", "iob2", "read_corpora", "read_corpus"]

FORMATS: dict[str, str] = {
    "conllu": "CoNLL-U, Universal Dependencies (.conllu)",
    "columns": "CoNLL columns, one word a line with its tags (.conll .iob .iob2 .bio .tsv)",
    "edge-probing": "jiant edge-probing JSON lines, labelled spans and pairs of spans (.json .jsonl)",
    "sentence-pairs": "premise, hypothesis and label as JSON lines (.json .jsonl)",
    "text": "plain text, one sentence a line, a blank line between documents; no labels (.txt)",
}
"""Format name -> what it is. Every file may also be compressed (.gz)."""

SPLITS = ("train", "dev", "test")
"""The splits a file may be, in order."""

_SUFFIXES = {
    ".conllu": "conllu",
    ".conll": "columns",
    ".iob": "columns",
    ".iob2": "columns",
    ".bio": "columns",
    ".tsv": "columns",
    ".json": "edge-probing",
    ".jsonl": "edge-probing",
    ".txt": "text",
}
_SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "val", "valid", "validation", "testa"), "dev"),
    **dict.fromkeys(("test", "testb"), "test"),
}


def read_corpus(path: str | Path, *, format: str | None = None, columns: Sequence[str] | None = None) -> Corpus:
    """Read a corpus file.

    Parameters
    ----------
    path : path
        The file; it may be compressed with gzip.
    format : str, optional
        A key of `FORMATS`. By default it follows from the suffix; for ``.txt``, ``.conll``, ``.json`` and ``.jsonl``, which are
        used for more than one format, and for unknown suffixes, from the contents.
    columns : sequence of str, optional
        Names of the columns of a file in the format ``columns``, e.g. ``["word", "xpos", "chunk", "ner"]``.

    Returns
    -------
    Corpus
        Its `split` is what the file name says (``train``, ``dev`` or ``test`` as a word of it), else None.

    Raises
    ------
    DataError
        If the file cannot be read or is malformed (with its line), or the format is unknown or cannot be told.
    UsageError
        If `columns` is given for another format.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise DataError(f"unknown format {format!r}; {_formats()}")
    text, checksum = read_text(path)
    if columns is not None:
        format = format or "columns"
    format = format or _guess_format(path, text)
    if columns is not None and format != "columns":
        raise UsageError(f"{path}: column names belong to the format 'columns', not to {format!r}; leave them out")
    match format:
        case "conllu":
            sentences = read_conllu(text, path)
        case "columns":
            sentences = read_columns(text, path, columns)
        case "edge-probing":
            sentences = read_edge_probing(text, path)
        case "sentence-pairs":
            sentences = read_sentence_pairs(text, path)
        case _:
            sentences = read_plain_text(text, path)
    # A name that is no text in this locale is read as UTF-8: it goes into tables and pages.
    name = os.fsencode(path.name).decode("utf-8", "replace").removesuffix(".gz")
    if _suffix(path) in _SUFFIXES:
        name = name[: -len(_suffix(path))]
    split = next((_SPLIT_WORDS[word] for word in _words_of(path)[::-1] if word in _SPLIT_WORDS), None)
    return Corpus(name, path, format, split, sentences, checksum)


def read_corpora(specifications: Sequence[str | Path]) -> list[Corpus]:
    """Read several corpus files.

    Parameters
    ----------
    specifications : sequence of str or path
        Each a file, ``train=FILE``, ``dev=FILE`` or ``test=FILE`` (which says what the file is, whatever its name), or
        a folder: all corpus files directly in it, in the order of their names, that is those with a suffix of
        `FORMATS`; plain text counts only if the folder holds nothing else, and README and LICENSE files never.

    Returns
    -------
    list of Corpus
        In the order given.

    Raises
    ------
    DataError
        As `read_corpus`; also if nothing was given or a folder holds no corpus file.
    """
    if not specifications:
        raise DataError("no corpus given; give a file, train=FILE, dev=FILE, test=FILE or a folder")
    corpora: list[Corpus] = []
    for specification in specifications:
        split: str | None = None
        if not str(specification).strip():
            raise DataError("an empty name of a corpus; give a file, train=FILE, dev=FILE, test=FILE or a folder")
        path = Path(specification)
        if isinstance(specification, str):
            before, equals, after = specification.partition("=")
            if equals and before in SPLITS:
                split, path = before, Path(after)
                if not after:
                    raise DataError(f"no file after {specification!r}; write {before}=FILE")
        # os.path, unlike Path, takes what cannot be looked at for absent; reading it then says why.
        for file in _files_in(path) if os.path.isdir(path) else [path]:
            corpus = read_corpus(file)
            corpora.append(dataclasses.replace(corpus, split=split) if split else corpus)
    return corpora


def _guess_format(path: Path, text: str) -> str:
    suffix = _suffix(path)
    known = _SUFFIXES.get(suffix)
    if known is not None and suffix not in (".txt", ".conll", ".json", ".jsonl"):
        return known
    lines = (line for line in text.split("\n", 1000)[:1000] if line.strip())
    first = next((line for line in lines if not line.startswith("#")), "")
    if first.count("\t") == 9 and re.match(r"[0-9]+(?:[-.][0-9]+)?\t", first):
        return "conllu"
    if first.startswith("{") and '"targets"' in first:
        return "edge-probing"
    if first.startswith("{") and '"premise"' in first:
        return "sentence-pairs"
    if known == "edge-probing":
        return known
    if looks_like_columns(text):
        return "columns"
    if known is not None:
        return known
    raise DataError(
        f"{path}: cannot tell the format from the name or the contents; rename the file or name one of: {_formats()}"
    )


def _files_in(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise DataError(f"{folder}: the folder cannot be read: {error.strerror}") from None
    files = {
        entry: _SUFFIXES.get(_suffix(entry))
        for entry in entries
        if not re.match(r"\.|readme|licen[cs]e", entry.name, re.IGNORECASE)
    }
    labelled = [entry for entry, format in files.items() if format not in (None, "text")]
    found = labelled or [entry for entry, format in files.items() if format == "text"]
    if not found:
        raise DataError(
            f"{folder} holds no corpus file; suffixes that are read: {', '.join(_SUFFIXES)}, each also with .gz"
        )
    return found


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _words_of(path: Path) -> list[str]:
    return re.findall("[a-z]+", path.name.lower())


def _formats() -> str:
    return "valid formats: " + "; ".join(f"{name} ({description})" for name, description in FORMATS.items())
