"""Features of task items: the vector of a word, the mean over a span, two spans side by side (after Tenney et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers

if TYPE_CHECKING:
    from extractors.base import Extractor
    from probes.corpora import CorpusSentence
    from probes.evaluation import Features
    from probes.tasks import Task, TaskItems


def task_features(
    task: Task,
    splits: Mapping[str, Sequence[CorpusSentence]],
    extractor: Extractor,
    *,
    layers: Layers = "all",
    pooling: str = "mean",
    batch_size: int = 32,
    progress: Progress = SILENT,
) -> Features:
    """Read the sentences of a task with a model, and give the features of its items, for `evaluate_layers`.

    The vectors of all words are held in memory: words x layers x dim x 4 bytes. For a text that is too long for that,
    write a store (`extractors.write_store`) and read its layers with `item_features`.

    Parameters
    ----------
    task : Task
        What `probes.build_task` made of `splits`.
    splits : mapping
        The sentences of ``train``, ``dev`` and ``test`` that the task was built from.
    extractor : Extractor
        The model.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of a word become one vector.
    batch_size : int
        Sentences per forward pass.
    progress : Progress
        Receives one unit per sentence.

    Returns
    -------
    callable
        ``features(layer, part, split)``, a float32 array of shape (items of the split, dim; twice that for pairs of spans).

    Raises
    ------
    DataError
        If `splits` are not those of the task.
    UsageError
        For an unknown layer or pooling; from the callable, for a layer that was not read.
    """
    chosen = select_layers(layers, extractor.info.layer_names, model=extractor.info.name)
    matrices: dict[str, npt.NDArray[Any]] = {}
    offsets: dict[str, npt.NDArray[np.int64]] = {}
    for split in task.splits:
        if split not in splits:
            raise DataError(
                f"task {task.name!r} has a split {split}, but there are no sentences for it; give its sentences"
            )
        words = [sentence.words for sentence in splits[split]]
        stream = extractor.extract(words, layers=chosen, pooling=pooling, batch_size=batch_size, progress=progress)
        matrices[split] = np.concatenate([item.hidden for item in stream], axis=1)
        offsets[split] = np.cumsum([0, *map(len, words)], dtype=np.int64)

    def features(layer: int, part: str, split: str) -> npt.NDArray[np.float32]:
        if layer not in chosen:
            raise UsageError(
                f"layer {layer} was not read; read were: {', '.join(map(str, chosen))}; give it in `layers`"
            )
        matrix = matrices[split][chosen.index(layer)][:, extractor.info.parts[part]]
        return item_features(matrix, offsets[split], task.splits[split])

    return features


def item_features(
    matrix: npt.NDArray[Any], offsets: npt.NDArray[np.int64], items: TaskItems
) -> npt.NDArray[np.float32]:
    """Gather the features of items from the word vectors of one layer.

    Parameters
    ----------
    matrix : array of shape (words, dim)
        Vectors of all words of all sentences, one after the other; may be a memory map, of which only the needed rows are
        read.
    offsets : int64 array of shape (sentences + 1,)
        Row of each sentence's first word, and one past the last word. For one split of a larger matrix, give that
        split's stretch of the offsets.
    items : TaskItems
        Items whose `sentence` counts in `offsets`; `spans` has shape (n, s, 2).

    Returns
    -------
    float32 array of shape (n, s * dim)
        The mean over the words of each span, for pairs the second after the first.

    Raises
    ------
    DataError
        If an item points outside its sentence, or the offsets outside the matrix: vectors and labels belong to
        different texts.
    """
    offsets = np.asarray(offsets, dtype=np.int64)
    sentence, spans = items.sentence, items.spans
    if len(offsets) == 0 or offsets[0] < 0 or offsets[-1] > len(matrix) or (np.diff(offsets) < 0).any():
        raise DataError(
            f"the sentence offsets do not fit vectors of {len(matrix)} words; give the offsets that were stored with them"
        )
    sentences = len(offsets) - 1
    outside = (sentence < 0) | (sentence >= sentences)
    if not outside.any():
        lengths = np.diff(offsets)[sentence][:, None]
        begin, end = spans[..., 0], spans[..., 1]
        outside = np.any((begin < 0) | (begin >= end) | (end > lengths), axis=1)
    if outside.any():
        first = int(outside.argmax())
        raise DataError(
            f"item {first} (sentence {int(sentence[first]) + 1}, words {spans[first].tolist()}) lies outside the "
            f"{sentences} sentences that there are vectors for; extract the text that the labels belong to"
        )
    rows = offsets[sentence][:, None, None] + spans
    parts = [_span_means(matrix, rows[:, which, 0], rows[:, which, 1]) for which in range(spans.shape[1])]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _span_means(
    matrix: npt.NDArray[Any], begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    lengths = end - begin
    if (lengths == 1).all():
        return np.asarray(matrix[begin], dtype=np.float32)
    # One pass per position in the span: later passes touch only the few long spans.
    total = np.asarray(matrix[begin], dtype=np.float64)
    for position in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > position)
        total[longer] += matrix[begin[longer] + position]
    return (total / lengths[:, None]).astype(np.float32)
