"""Plain text: one sentence or paragraph a line, a blank line between documents; no labels, so for analyses only."""

from __future__ import annotations

from pathlib import Path

from extractors.words import split_words
from probes.corpora.base import CorpusSentence


def read_plain_text(text: str, path: Path) -> tuple[CorpusSentence, ...]:
    """Read plain text; each line is split by `extractors.words.split_words`.

    Parameters
    ----------
    text : str
        Contents of the file, not blank, lines ended by a line feed.
    path : Path
        Where it came from.

    Returns
    -------
    tuple of CorpusSentence
        At least one; documents are called by the file's name and a number.
    """
    sentences: list[CorpusSentence] = []
    document, ended = 0, True
    for number, line in enumerate(text.split("\n"), start=1):
        words = split_words(line)
        if not words:
            ended = True
            continue
        document += ended
        ended = False
        sentences.append(
            CorpusSentence(tuple(words), {}, document=f"{path.name} {document}", where=f"{path.name}:{number}")
        )
    return tuple(sentences)
