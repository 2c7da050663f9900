from collections import Counter, defaultdict

import numpy as np
import pytest

from extractors.foundation.errors import DataError
from probes.baselines import majority_predictions, word_type_predictions


def strings(values):
    return np.array(list(values), dtype=object)


def test_majority_and_its_ties():
    assert majority_predictions(strings("bbac"), 3).tolist() == ["b", "b", "b"]
    assert majority_predictions(strings("ba"), 2).tolist() == ["a", "a"]
    with pytest.raises(DataError, match="no training labels"):
        majority_predictions(strings(""), 1)


def test_word_type_backs_off_and_breaks_ties_by_label():
    train_types = strings(["run", "run", "run", "The", "tie", "tie"])
    train_labels = strings(["V", "N", "V", "D", "Y", "X"])
    predicted = word_type_predictions(train_types, train_labels, strings(["run", "The", "the", "tie", "zzz"]))
    assert predicted.tolist() == ["V", "D", "V", "X", "V"]
    assert len(word_type_predictions(train_types, train_labels, strings([]))) == 0


def test_word_type_equals_counting_by_hand():
    generator = np.random.default_rng(0)
    types = strings(f"w{i}" for i in generator.integers(0, 60, 500))
    labels = strings(f"L{i}" for i in generator.integers(0, 4, 500))
    counts = defaultdict(Counter)
    for word, label in zip(types, labels, strict=True):
        counts[word][label] += 1
    expected = [min(counts[word], key=lambda label, c=counts[word]: (-c[label], label)) for word in types]
    assert word_type_predictions(types, labels, types).tolist() == expected
