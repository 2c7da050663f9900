from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from extractors.foundation.errors import DataError, UsageError
from probes.corpora import CorpusSentence
from probes.features import item_features, task_features
from probes.tasks import TaskItems, build_task

OFFSETS = np.array([0, 3, 7, 8])
MATRIX = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)


def items(*located):
    """Items given as (sentence, spans...)."""
    spans = np.array([spans for _, *spans in located], dtype=np.int64)
    blank = np.full(len(located), "x", dtype=object)
    return TaskItems(np.array([sentence for sentence, *_ in located]), spans, blank, blank)


def test_words_are_rows():
    got = item_features(MATRIX, OFFSETS, items((0, (2, 3)), (2, (0, 1)), (1, (0, 1))))
    np.testing.assert_array_equal(got, MATRIX[[2, 7, 3]])
    assert got.dtype == np.float32


def test_spans_are_means_and_pairs_lie_side_by_side():
    got = item_features(MATRIX, OFFSETS, items((1, (0, 4), (1, 2)), (0, (0, 2), (0, 3)), (1, (3, 4), (0, 4))))
    expected = [
        np.concatenate([MATRIX[3:7].mean(0), MATRIX[4]]),
        np.concatenate([MATRIX[0:2].mean(0), MATRIX[0:3].mean(0)]),
        np.concatenate([MATRIX[6], MATRIX[3:7].mean(0)]),
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_stretch_of_offsets_reads_one_split_of_a_larger_matrix():
    got = item_features(MATRIX, OFFSETS[1:], items((0, (1, 2))))
    np.testing.assert_array_equal(got, MATRIX[[4]])


def test_memory_maps_and_half_precision(tmp_path):
    stored = np.memmap(tmp_path / "layer", dtype=np.float16, mode="w+", shape=MATRIX.shape)
    stored[:] = MATRIX
    wanted = items((1, (0, 3)), (0, (0, 1)))
    got = item_features(stored, OFFSETS, wanted)
    assert not isinstance(got, np.memmap)
    np.testing.assert_array_equal(got, item_features(np.asarray(stored), OFFSETS, wanted))
    assert got.dtype == np.float32


@pytest.mark.parametrize("wrong", [(3, (0, 1)), (-1, (0, 1)), (0, (2, 4)), (0, (1, 1)), (0, (-1, 1)), (2, (0, 2))])
def test_items_outside_their_sentence_are_refused(wrong):
    with pytest.raises(DataError, match=r"item 1 .*lies outside"):
        item_features(MATRIX, OFFSETS, items((0, (0, 1)), wrong))


@pytest.mark.parametrize("offsets", [[0, 9], [0, 5, 3], [-1, 4], []])
def test_offsets_that_do_not_fit_are_refused(offsets):
    with pytest.raises(DataError, match="offsets do not fit"):
        item_features(MATRIX, np.array(offsets, dtype=np.int64), items((0, (0, 1))))


class Reader:
    """Vectors that say which sentence and word they belong to: (layer, length of the sentence, position)."""

    class info:
        name = "counter"
        layer_names = ("0", "1", "2")
        parts: ClassVar = {"whole": slice(None), "forward": slice(0, 2)}

    def extract(self, sentences, *, layers, pooling, batch_size, progress):
        for words in sentences:
            hidden = [[(layer, len(words), position) for position in range(len(words))] for layer in layers]
            yield SimpleNamespace(hidden=np.array(hidden, dtype=np.float32))


SPLITS = {
    "train": [
        CorpusSentence(("a", "b"), {"mine": ("x", "y")}),
        CorpusSentence(("a", "b", "c"), {"mine": (None, "x", "y")}),
    ],
    "dev": [CorpusSentence(("a",), {"mine": ("x",)})],
    "test": [CorpusSentence(("a", "b", "c", "d"), {"mine": (None, None, None, "y")})],
}


def test_task_features_are_the_vectors_of_the_labelled_words():
    features = task_features(build_task("mine", SPLITS), SPLITS, Reader(), layers=[0, 2])
    np.testing.assert_array_equal(features(2, "whole", "train"), [(2, 2, 0), (2, 2, 1), (2, 3, 1), (2, 3, 2)])
    np.testing.assert_array_equal(features(0, "forward", "test"), [(0, 4)])
    with pytest.raises(UsageError, match="layer 1 was not read; read were: 0, 2"):
        features(1, "whole", "train")


def test_task_features_refuse_the_sentences_of_another_task():
    task = build_task("mine", SPLITS)
    with pytest.raises(DataError, match="no sentences for it"):
        task_features(task, {"train": SPLITS["train"]}, Reader())
    features = task_features(task, {**SPLITS, "test": SPLITS["dev"]}, Reader())
    with pytest.raises(DataError, match="lies outside"):
        features(0, "whole", "test")
