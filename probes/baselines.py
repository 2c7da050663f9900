"""Predictions without a model: the most frequent label, and the most frequent label of each word type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError

Labels = npt.NDArray[np.object_]


def majority_predictions(train_labels: Labels, n: int) -> Labels:
    """Predict the most frequent training label (ties: the first in sorting order).

    Parameters
    ----------
    train_labels : object array of str, shape (n_train,)
        Training labels.
    n : int
        Number of predictions.

    Returns
    -------
    object array of str, shape (n,)

    Raises
    ------
    DataError
        If there are no training labels.
    """
    if len(train_labels) == 0:
        raise DataError("there are no training labels to take the most frequent of")
    values, counts = np.unique(train_labels, return_counts=True)
    return np.full(n, values[counts.argmax()], dtype=object)


def word_type_predictions(train_types: Labels, train_labels: Labels, types: Labels) -> Labels:
    """Predict the most frequent training label of the item's word type, for unseen types the most frequent label.

    Ties go to the label that is first in sorting order. Types are compared as they are, case and all.

    Parameters
    ----------
    train_types, train_labels : object arrays of str, shape (n_train,)
        Training items.
    types : object array of str, shape (n,)
        Word types to predict for.

    Returns
    -------
    object array of str, shape (n,)

    Raises
    ------
    DataError
        If there are no training labels.
    """
    predicted = majority_predictions(train_labels, len(types))
    if len(types) == 0:
        return predicted
    seen, type_codes = np.unique(train_types, return_inverse=True)
    labels, label_codes = np.unique(train_labels, return_inverse=True)
    pairs, counts = np.unique(type_codes.astype(np.int64) * len(labels) + label_codes, return_counts=True)
    pair_types, pair_labels = np.divmod(pairs, len(labels))
    # By type, then falling count, then label; the first pair of each type is its choice.
    order = np.lexsort((pair_labels, -counts, pair_types))
    _, firsts = np.unique(pair_types[order], return_index=True)
    choices = labels[pair_labels[order][firsts]]
    position = np.minimum(np.searchsorted(seen, types), len(seen) - 1)
    known = np.asarray(seen[position] == types, dtype=np.bool_)
    predicted[known] = choices[position[known]]
    return predicted
