"""Features of task items: the vector of a word, the mean over a span, two spans side by side (after Tenney et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError

if TYPE_CHECKING:
    from probes.tasks import TaskItems


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
