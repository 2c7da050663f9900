"""Train, dev and test from corpus files: as the files say, or by a seeded division by document or sentence."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from probes.corpora import SPLITS, Corpus, CorpusSentence

_FEWEST_DOCUMENTS = 10
_FEWEST_SENTENCES = 10
"""To divide; with fewer, a tenth is nothing."""

_Unit = tuple[Hashable, CorpusSentence]
"""The document a sentence belongs to (a number stands for a file without documents), and the sentence."""


def split_corpora(
    corpora: Sequence[Corpus], *, seed: int = 0, by: str = "document"
) -> dict[str, tuple[CorpusSentence, ...]]:
    """Give every sentence of the corpora to exactly one of train, dev and test.

    Files of one split are joined in the order given. What the files lack is divided off:

    ========================== ================================================================================
    files                      result
    ========================== ================================================================================
    train, dev and test        as they are
    train and test             a tenth of train becomes dev
    dev and test               dev is divided 80/20 into train and dev; test stays untouched
    train and dev              dev is halved into dev and test; train stays
    one split, or none said    70/10/20
    ========================== ================================================================================

    Where no file says its split, files with different sets of span labels are divided one apart from the other, so that every task
    has its share of each part.

    A division is by document, if there are at least ten documents: no document is in two parts, whole documents are
    drawn at random until a part has its share of *sentences*, and a document larger than the smallest share goes to the
    largest part. Otherwise (or if the documents are so uneven that a part would be empty) single sentences are drawn.
    Within each part the order of the files is kept. The same files in the same order with the same seed give the same
    splits on every machine.

    Parameters
    ----------
    corpora : sequence of Corpus
        Files that say their split, or none of which does.
    seed : int
        Seed of the division.
    by : {"document", "sentence"}
        What stays together; ``sentence`` draws single sentences even if documents are marked.

    Returns
    -------
    dict
        ``train``, ``dev`` and ``test``, in this order, none empty.

    Raises
    ------
    DataError
        If there are too few sentences to divide, a file was given twice, or only some files say their split.
    UsageError
        If `by` is neither of the two.
    """
    if by not in ("document", "sentence"):
        raise UsageError(f"cannot split by {by!r}; valid: document, sentence")
    if not corpora:
        raise DataError("no corpus to split; give at least one file")
    seen: dict[str, Corpus] = {}
    for corpus in corpora:
        if corpus.checksum in seen:
            raise DataError(
                f"{corpus.path} and {seen[corpus.checksum].path} hold the same bytes, so the same sentences would be in "
                "two places; give the file once"
            )
        seen[corpus.checksum] = corpus
    given: dict[str | None, list[_Unit]] = {}
    unsaid: dict[frozenset[str], list[_Unit]] = {}
    for number, corpus in enumerate(corpora):
        # Two files may annotate the same document, and then it has the same name; no name is nobody's name.
        units: list[_Unit] = [(sentence.document or number, sentence) for sentence in corpus.sentences]
        given.setdefault(corpus.split, []).extend(units)
        unsaid.setdefault(corpus.label_sets, []).extend(units)
    if None in given and len(given) > 1:
        names = ", ".join(str(corpus.path) for corpus in corpora if corpus.split is None)
        raise DataError(
            f"some files say their split and these do not: {names}; write train=FILE, dev=FILE or test=FILE for them"
        )
    train, dev, test = (given.get(split, []) for split in SPLITS)
    present = set(given)
    if present == {"train", "test"}:
        train, dev = _divide(train, (9, 1), seed, by)
    elif present == {"dev", "test"}:
        train, dev = _divide(dev, (8, 2), seed, by)
    elif present == {"train", "dev"}:
        dev, test = _divide(dev, (5, 5), seed, by)
    elif len(present) == 1:
        train, dev, test = [], [], []
        for group in unsaid.values() if present == {None} else given.values():
            for part, more in zip((train, dev, test), _divide(group, (7, 1, 2), seed, by), strict=True):
                part.extend(more)
    result = {
        split: tuple(sentence for _, sentence in units) for split, units in zip(SPLITS, (train, dev, test), strict=True)
    }
    for split, sentences in result.items():
        if not sentences:
            raise DataError(f"no sentence is left for {split}; give more sentences or a file {split}=FILE")
    return result


def _divide(units: list[_Unit], shares: tuple[int, ...], seed: int, by: str) -> list[list[_Unit]]:
    """Divide sentences into parts of the given shares; the first share is the largest."""
    if len(units) < _FEWEST_SENTENCES:
        raise DataError(
            f"{len(units)} sentences are too few to divide into {'/'.join(str(10 * share) for share in shares)} %: "
            f"at least {_FEWEST_SENTENCES} are needed; give more sentences, or train=FILE, dev=FILE and test=FILE"
        )
    sizes: dict[Hashable, int] = {}
    for document, _ in units:
        sizes[document] = sizes.get(document, 0) + 1
    groups: list[Hashable] = [document for document, _ in units]
    parts: dict[Hashable, int] = {}
    if by == "document" and len(sizes) >= _FEWEST_DOCUMENTS:
        parts = _assign(sizes, shares, seed)
    if len(set(parts.values())) < len(shares):
        groups = list(range(len(units)))
        parts = _assign(dict.fromkeys(groups, 1), shares, seed)
    divided: list[list[_Unit]] = [[] for _ in shares]
    for group, unit in zip(groups, units, strict=True):
        divided[parts[group]].append(unit)
    return divided


def _assign(sizes: dict[Hashable, int], shares: tuple[int, ...], seed: int) -> dict[Hashable, int]:
    """Give each group the index of its part; the parts after the first are filled up to their share in sentences."""
    total = sum(sizes.values())
    wanted = [total * share / sum(shares) for share in shares]
    names = list(sizes)
    drawn = [names[index] for index in generator_for(seed, "split").permutation(len(names)).tolist()]
    parts: dict[Hashable, int] = {}
    part, filled = 1, 0
    for group in drawn:
        if part == len(shares) or sizes[group] > max(1, min(wanted)):
            parts[group] = 0
            continue
        parts[group] = part
        filled += sizes[group]
        if filled >= round(wanted[part]):
            part, filled = part + 1, 0
    return parts
