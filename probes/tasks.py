"""Probing tasks: which words, spans or pairs of spans have which label (Tenney et al. 2019; Hewitt & Liang 2019).

A task is built from corpus sentences and knows nothing of models; a probe reads the vectors of its items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError
from probes.corpora import SPLITS, CorpusSentence

PAIR = " ⟂ "
"""What joins the texts of two spans to the type of their pair."""


@dataclass(frozen=True)
class TaskInfo:
    """What a task, or a family of tasks, is and needs."""

    name: str
    """Its name; ``<Name>`` stands for what the data call it."""
    description: str
    """What is predicted."""
    needs: str
    """What a corpus must hold."""
    default: bool
    """Whether it is run when no task is named (of the features, the two with most labelled items)."""


TASKS: dict[str, TaskInfo] = {
    task.name: task
    for task in (
        TaskInfo("upos", "universal part of speech of a word", "CoNLL-U with UPOS", True),
        TaskInfo("deprel", "universal dependency relation of a word to its head", "CoNLL-U with DEPREL", True),
        TaskInfo(
            "ner",
            "named-entity tag of a word, in IOB2",
            "CoNLL columns with tags (IOB1, IOB2, BIOES), or CoNLL-U with NER= in MISC",
            True,
        ),
        TaskInfo(
            "feats:<Name>", "value of a morphological feature, on words that bear it", "CoNLL-U with the feature", True
        ),
        TaskInfo(
            "spans:<kind>",
            "label of a span or a pair of spans of words",
            "edge-probing JSON lines, or pairs of sentences",
            True,
        ),
        TaskInfo("xpos", "language-specific part of speech of a word", "CoNLL-U with XPOS", False),
        TaskInfo("deprel_full", "dependency relation with its subtype", "CoNLL-U with DEPREL subtypes", False),
        TaskInfo("lemma", "lemma of a word", "CoNLL-U with LEMMA", False),
        TaskInfo(
            "misc:<Name>", "value of a MISC attribute, on words that bear it", "CoNLL-U with the attribute", False
        ),
        TaskInfo("column:<name>", "any column of word labels, by its name", "CoNLL columns with that column", False),
    )
}
"""Every kind of task, in the order in which `available_tasks` lists them."""


@dataclass(frozen=True, eq=False)
class TaskItems:
    """The labelled items of one split; all arrays have one entry per item, in sentence order."""

    sentence: npt.NDArray[np.int64]
    """(n,) index into the split's sentences."""
    spans: npt.NDArray[np.int64]
    """(n, s, 2) word spans [start, stop); s is 1, or 2 for pairs. A word is a span of length one."""
    labels: npt.NDArray[np.object_]
    """(n,) labels, str."""
    types: npt.NDArray[np.object_]
    """(n,) word type of each item, str: the text of its span, for pairs both joined by `PAIR`. Case is kept."""

    def __len__(self) -> int:
        """Number of items."""
        return len(self.sentence)


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task with its three splits."""

    name: str
    """The name it was asked for by."""
    kind: str
    """``token``, ``span`` or ``span_pair``."""
    labels: tuple[str, ...]
    """The labels seen in train, sorted. Items of dev and test may have others: they are kept, and no probe can get
    them right."""
    splits: Mapping[str, TaskItems]
    """``train``, ``dev`` and ``test``, none empty."""
    description: str
    """What it is, how many items it has, and what was left out."""


def available_tasks(sentences: Sequence[CorpusSentence]) -> tuple[str, ...]:
    """The names of the tasks that these sentences allow: those with at least two labels.

    Parameters
    ----------
    sentences : sequence of CorpusSentence
        Of all splits together.

    Returns
    -------
    tuple of str
        In the order of `TASKS`; within a family, those with most labelled items first.
    """
    counts = {name: labels for name, labels in _label_counts(sentences).items() if len(labels) > 1}
    families = list(TASKS)
    return tuple(sorted(counts, key=lambda name: (families.index(_family(name)), -counts[name].total(), name)))


def default_tasks(splits: Mapping[str, Sequence[CorpusSentence]]) -> tuple[str, ...]:
    """The tasks to run when none is named.

    Parameters
    ----------
    splits : mapping
        The sentences of ``train``, ``dev`` and ``test``.

    Returns
    -------
    tuple of str
        The default tasks that train allows and that dev and test have items of, in the order of `available_tasks`; of
        the features, the two with most items in train.
    """
    chosen: list[str] = []
    elsewhere = [_label_counts(splits[split]).keys() for split in ("dev", "test")]
    for name in available_tasks(splits["train"]):
        family = _family(name)
        full = family == "feats:<Name>" and sum(_family(other) == family for other in chosen) == 2
        wanted = TASKS[family].default and not full
        if wanted and all(name in names for names in elsewhere):
            chosen.append(name)
    return tuple(chosen)


def build_task(name: str, splits: Mapping[str, Sequence[CorpusSentence]]) -> Task:
    """Collect the items of a task.

    Every word, span or pair that has a label is an item; one without is none. A span that has several different labels
    of one kind is left out, since a single-label probe cannot be right about it, and counted in the description.
    Labels that only dev or test hold stay there and count as errors.

    Parameters
    ----------
    name : str
        A name that `available_tasks` gives, or the name of any column.
    splits : mapping
        The sentences of ``train``, ``dev`` and ``test``, as `probes.splits.split_corpora` gives them.

    Returns
    -------
    Task
        With items in each split and at least two labels in train.

    Raises
    ------
    DataError
        If the data do not hold the task (the message lists those they do), a split has no item, train has one label
        only, or single spans and pairs are mixed.
    """
    missing = [split for split in SPLITS if split not in splits]
    if missing:
        raise DataError(f"task {name!r}: no {', '.join(missing)} split; train, dev and test are needed")
    everything = [sentence for split in SPLITS for sentence in splits[split]]
    collected = {split: _collect(name, splits[split]) for split in SPLITS}
    items = {split: found for split, (found, _) in collected.items()}
    if not any(map(len, items.values())):
        available = ", ".join(available_tasks(everything)) or "none"
        dropped = sum(count for _, count in collected.values())
        why = f"all its {dropped:,} spans have several labels" if dropped else "it has no label in these data"
        raise DataError(f"task {name!r}: {why}; tasks that these data allow: {available}")
    for split in SPLITS:
        if not len(items[split]):
            raise DataError(
                f"task {name!r}: none of the {len(splits[split]):,} sentences of {split} has a label for it; "
                f"give another {split} file or choose a task that all files hold"
            )
    widths = {found.spans.shape[1] for found in items.values()}
    if len(widths) > 1 or 0 in widths:
        raise DataError(f"task {name!r} mixes single spans and pairs of spans; put them into separate files and runs")
    pairs = widths == {2}
    labels = tuple(sorted(set(items["train"].labels.tolist())))
    if len(labels) < 2:
        raise DataError(
            f"task {name!r}: train holds the one label {labels[0]!r} only; there is nothing to learn, "
            "choose another task or give more data"
        )
    kind = "token" if not name.startswith("spans:") else "span_pair" if pairs else "span"
    return Task(name, kind, labels, items, _describe(name, collected, labels))


def _collect(name: str, sentences: Sequence[CorpusSentence]) -> tuple[TaskItems, int]:
    """The items of one split, and how many spans were left out because they have several labels."""
    prefix, _, rest = name.partition(":")
    if prefix == "spans":
        return _span_items(rest, sentences)
    column = rest if prefix == "column" else name
    found = [
        (index, position, label, sentence.words[position])
        for index, sentence in enumerate(sentences)
        for position, label in enumerate(sentence.columns.get(column, ()))
        if label is not None
    ]
    starts = np.array([position for _, position, _, _ in found], dtype=np.int64)
    spans = np.stack([starts, starts + 1], axis=-1)[:, None, :]
    return _items([row[0] for row in found], spans, [row[2] for row in found], [row[3] for row in found]), 0


def _span_items(kind: str, sentences: Sequence[CorpusSentence]) -> tuple[TaskItems, int]:
    owners: list[int] = []
    places: list[tuple[tuple[int, int], ...]] = []
    labels: list[str] = []
    types: list[str] = []
    dropped = 0
    for index, sentence in enumerate(sentences):
        labels_of: dict[tuple[tuple[int, int], ...], set[str]] = {}
        for span in sentence.spans:
            if span.kind == kind:
                labels_of.setdefault(span.spans, set()).add(span.label)
        for place, found in labels_of.items():
            if len(found) > 1:
                dropped += 1
                continue
            owners.append(index)
            places.append(place)
            labels.extend(found)
            types.append(PAIR.join(" ".join(sentence.words[start:stop]) for start, stop in place))
    widths = set(map(len, places))
    # A mixture has no rectangular array: width 0 tells `build_task`, which knows the task's name.
    spans = np.array(places, dtype=np.int64) if len(widths) == 1 else np.empty((len(places), 0, 2), dtype=np.int64)
    return _items(owners, spans, labels, types), dropped


def _items(owners: list[int], spans: npt.NDArray[np.int64], labels: list[str], types: list[str]) -> TaskItems:
    return TaskItems(
        np.array(owners, dtype=np.int64), spans, np.array(labels, dtype=object), np.array(types, dtype=object)
    )


def _describe(name: str, collected: Mapping[str, tuple[TaskItems, int]], labels: Iterable[str]) -> str:
    known = set(labels)
    counts = ", ".join(f"{split} {len(items):,}" for split, (items, _) in collected.items())
    parts = [TASKS[_family(name)].description, f"{len(known)} labels", f"items: {counts}"]
    unseen = [label for items, _ in collected.values() for label in items.labels.tolist() if label not in known]
    if unseen:
        parts.append(
            f"{len(unseen):,} items of dev and test have labels that train lacks ({', '.join(sorted(set(unseen))[:5])}"
            f"{', ...' if len(set(unseen)) > 5 else ''}) and count as errors"
        )
    if dropped := sum(count for _, count in collected.values()):
        parts.append(f"{dropped:,} spans with several labels left out")
    return "; ".join(parts)


def _label_counts(sentences: Iterable[CorpusSentence]) -> dict[str, Counter[str | None]]:
    """How often each label of each task occurs."""
    counts: dict[str, Counter[str | None]] = {}
    for sentence in sentences:
        for column, values in sentence.columns.items():
            counts.setdefault(column, Counter()).update(values)
        for span in sentence.spans:
            counts.setdefault(f"spans:{span.kind}", Counter())[span.label] += 1
    for labels in counts.values():
        del labels[None]
    # A column that a treebank would not have is asked for as column:<name>, which says where it comes from.
    return {
        name if _family(name) != "column:<name>" or name.startswith("column:") else f"column:{name}": labels
        for name, labels in counts.items()
    }


def _family(name: str) -> str:
    """The key of `TASKS` that a task's name belongs to."""
    if name in TASKS:
        return name
    prefix = name.partition(":")[0]
    families = {"feats": "feats:<Name>", "spans": "spans:<kind>", "misc": "misc:<Name>"}
    return families.get(prefix, "column:<name>")
