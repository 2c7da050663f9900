from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.results import COLUMNS
from extractors.representation import ModelInfo
from probes.control import control_labels
from probes.evaluation import evaluate_layers
from probes.tasks import Task, TaskItems

DIM, LABELS, WORDS = 24, np.array(["A", "B", "C", "D"], dtype=object), 8
MODEL = ModelInfo(
    name="tiny",
    source="tiny",
    family="elmo",
    weights="trained",
    layer_names=("token", "first", "second"),
    hidden_size=DIM,
    directionality="concatenated",
    parts=MappingProxyType({"whole": slice(None), "forward": slice(0, 12), "backward": slice(12, 24)}),
)
SENTENCES = {"train": 250, "dev": 80, "test": 80}


def planted(labels=None, seed=0, sentences=SENTENCES):
    """A task whose label is linear in the last dimensions of layer 2, weakly in layer 1, absent from layer 0.

    Word types say nothing about the label; `labels` replaces the labels split by split.
    """
    generator = np.random.default_rng(seed)
    splits, vectors = {}, {}
    for split, count in sentences.items():
        n = count * WORDS
        codes = generator.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
        signal = np.zeros((n, DIM))
        signal[:, -4:] = 6 * (codes[:, None] == np.arange(4))
        noise = generator.normal(size=(3, n, DIM))
        vectors[split] = (noise + np.array([0, 0.3, 1])[:, None, None] * signal).astype(np.float32)
        position = np.tile(np.arange(WORDS), count)
        splits[split] = TaskItems(
            np.repeat(np.arange(count), WORDS),
            np.stack([position, position + 1], axis=1)[:, None],
            LABELS[codes] if labels is None else labels(generator, n),
            np.array([f"w{i}" for i in generator.integers(0, 300, n)], dtype=object),
        )
    task = Task("planted", "token", tuple(sorted(set(splits["train"].labels))), splits, "")
    return task, lambda layer, part, split: vectors[split][layer][:, MODEL.parts[part]]


def evaluate(task, features, **options):
    settings = {"model": MODEL, "layers": [0, 1, 2], "pooling": "mean", "data": "sim", "resamples": 200} | options
    return evaluate_layers(task, features, **settings).to_frame()


def pick(frame, measure, layer=2, probe="linear", condition=None, part="whole"):
    chosen = frame[(frame.measure == measure) & (frame.probe == probe)]
    if layer is not None:
        chosen = chosen[(chosen.layer == layer) & (chosen.part == part)]
    chosen = chosen[chosen.condition.isna() if condition is None else chosen.condition == condition]
    assert len(chosen) == 1
    return chosen.iloc[0]


@pytest.fixture(scope="module")
def frame():
    return evaluate(*planted())


def test_planted_labels_are_found_and_control_labels_are_not(frame):
    assert pick(frame, "accuracy").value > 0.97
    assert pick(frame, "macro_f1").value > 0.95
    assert pick(frame, "cross_entropy").value < 0.15
    control = pick(frame, "accuracy", condition="control")
    assert control.value < 0.5
    selectivity = pick(frame, "selectivity")
    assert selectivity.value == pytest.approx(pick(frame, "accuracy").value - control.value)
    assert selectivity.low > 0.4


def test_a_layer_with_the_signal_beats_one_without(frame):
    weak, strong = pick(frame, "accuracy", layer=1), pick(frame, "accuracy", layer=2)
    none = pick(frame, "accuracy", layer=0)
    assert none.high < weak.low
    assert weak.high < strong.low
    assert pick(frame, "cross_entropy", layer=2).high < pick(frame, "cross_entropy", layer=0).low


def test_without_signal_the_probe_is_the_majority_and_the_prior(frame):
    majority = pick(frame, "accuracy", layer=None, probe="majority").value
    assert pick(frame, "accuracy", layer=0).value == pytest.approx(majority, abs=0.03)
    prior = pick(frame, "cross_entropy", layer=None, probe="majority").value
    entropy = -sum(p * np.log2(p) for p in (0.4, 0.3, 0.2, 0.1))
    assert prior == pytest.approx(entropy, abs=0.05)
    assert pick(frame, "cross_entropy", layer=0).value == pytest.approx(prior, abs=0.03)


def test_the_table_is_complete(frame):
    assert list(frame.columns) == list(COLUMNS)
    per_layer = {"accuracy", "macro_f1", "cross_entropy", "selectivity", "penalty"}
    for layer in range(3):
        rows = frame[frame.layer == layer]
        assert set(rows.measure) == per_layer
        assert set(rows.layer_name) == {MODEL.layer_names[layer]}
        assert sorted(rows[rows.condition == "control"].measure) == ["accuracy", "penalty"]
    baselines = frame[frame.layer.isna()]
    assert set(baselines.probe) == {"majority", "word_type"}
    assert not frame.duplicated(["layer", "part", "probe", "measure", "condition"]).any()
    for column, expected in {
        "model": "tiny", "family": "elmo", "weights": "trained", "kind": "probe", "task": "planted", "data": "sim",
        "split": "test", "pooling": "mean", "n": 80, "seed": 0, "source": "measured",
    }.items():  # fmt: skip
        assert set(frame[column]) == {expected}, column
    units = dict(zip(frame.measure, frame.unit, strict=True))
    assert units == {
        "accuracy": "proportion", "macro_f1": "proportion", "cross_entropy": "bits", "selectivity": "proportion",
        "penalty": "strength",
    }  # fmt: skip
    estimates = frame[frame.measure != "penalty"]
    assert ((estimates.low <= estimates.value) & (estimates.value <= estimates.high)).all()
    assert frame[frame.measure == "penalty"][["low", "high"]].isna().all(axis=None)


def test_same_seed_same_table_and_other_seed_other_control(frame):
    pd.testing.assert_frame_equal(evaluate(*planted()), frame)
    other = evaluate(*planted(), seed=1, layers=[2])
    assert pick(other, "accuracy").value == pick(frame, "accuracy").value
    controls = [pick(table, "accuracy", condition="control").value for table in (frame, other)]
    assert controls[0] != controls[1]


def test_two_tasks_on_the_same_words_have_independent_control_labels(monkeypatch):
    """One random number per word for all tasks of a seed would make their selectivities go up and down together."""
    import probes.evaluation

    drawn = []

    def recorded(types, **options):
        labels = control_labels(types, **options)
        drawn.append(labels)
        return labels

    monkeypatch.setattr(probes.evaluation, "control_labels", recorded)
    task, features = planted(sentences={"train": 60, "dev": 10, "test": 10})
    for name in ("one", "other", "one"):
        renamed = Task(name, task.kind, task.labels, task.splits, task.description)
        evaluate(renamed, features, layers=[0], baselines=False)
    one, other, again = drawn[0], drawn[3], drawn[6]
    by_chance = sum(share**2 for share in (0.4, 0.3, 0.2, 0.1))
    assert (one == other).mean() == pytest.approx(by_chance, abs=0.15)
    assert (one == again).all()


def test_test_labels_and_vectors_have_no_say_in_the_fit():
    """Neither the penalty nor the control labels of train may move when test is replaced altogether."""
    task, features = planted()
    shuffled = np.random.default_rng(0).permutation(task.splits["test"].labels)
    test = task.splits["test"]
    changed = Task(
        "planted",
        "token",
        task.labels,
        {**task.splits, "test": TaskItems(test.sentence, test.spans, shuffled, test.types)},
        "",
    )

    def scaled(layer, part, split):
        return features(layer, part, split) * (1000 if split == "test" else 1)

    before, after = evaluate(task, features, layers=[1]), evaluate(changed, scaled, layers=[1])
    assert pick(after, "accuracy", layer=1).value < pick(before, "accuracy", layer=1).value - 0.2
    for condition in (None, "control"):
        penalties = [pick(table, "penalty", layer=1, condition=condition).value for table in (before, after)]
        assert penalties[0] == penalties[1]


def test_results_do_not_depend_on_which_layers_are_probed_or_in_what_order(frame):
    turned = evaluate(*planted(), layers=[2, 0], baselines=False)
    expected = frame[frame.layer.isin([0, 2])]
    key = ["layer", "measure", "condition"]
    pd.testing.assert_frame_equal(
        turned.sort_values(key, ignore_index=True), expected.sort_values(key, ignore_index=True)
    )


def test_parts_are_slices():
    task, features = planted()
    table = evaluate(task, features, layers=[2], parts=("forward", "backward"), control=False, baselines=False)
    assert pick(table, "accuracy", part="forward").value < 0.5, "the signal lies in the last dimensions"
    assert pick(table, "accuracy", part="backward").value > 0.97
    assert set(table.measure) == {"accuracy", "macro_f1", "cross_entropy", "penalty"}


def test_layer_0_has_no_halves():
    task, features = planted()
    options = {"layers": [0, 2], "control": False, "baselines": False}
    table = evaluate(task, features, parts=("whole", "forward", "backward"), **options)
    assert table[["layer", "part"]].drop_duplicates().to_numpy().tolist() == [
        [0, "whole"],
        *([2, part] for part in ("whole", "forward", "backward")),
    ]
    assert set(evaluate(task, features, parts=("forward",), **options)["layer"]) == {0, 2}


def test_a_probe_that_reads_word_types_is_not_selective():
    """Vectors that name the word type allow the control task as well as any: selectivity near zero or below."""
    task, _ = planted()
    types = {name: position for position, name in enumerate(sorted(set(task.splits["train"].types)))}
    table = np.eye(len(types), dtype=np.float32)
    frame = evaluate(
        task,
        lambda layer, part, split: table[[types.get(name, 0) for name in task.splits[split].types]],
        layers=[2],
        baselines=False,
    )
    assert pick(frame, "accuracy", condition="control").value > 0.95
    assert pick(frame, "selectivity").high < 0


def test_the_control_task_has_labels_of_its_own_with_the_marginal_of_train():
    task, features = planted(
        labels=lambda generator, n: np.where(np.arange(n) % 50 == 0, "rare", "common").astype(object)
    )
    frame = evaluate(task, features, layers=[0], baselines=False)
    assert pick(frame, "accuracy", layer=0, condition="control").value > 0.9
    assert pick(frame, "accuracy", layer=0).value != pick(frame, "accuracy", layer=0, condition="control").value


def test_entity_tags_get_a_span_score():
    def tags(generator, n):
        return np.where(np.arange(n) % 4 == 1, "B-P", np.where(np.arange(n) % 4 == 2, "I-P", "O")).astype(object)

    task, _ = planted(labels=tags)
    names = np.array(task.labels, dtype=object)
    features = lambda layer, part, split: (  # noqa: E731
        (task.splits[split].labels[:, None] == names) + 0.01 * np.arange(WORDS * SENTENCES[split])[:, None] % 0.02
    ).astype(np.float32)
    frame = evaluate(task, features, layers=[2], control=False)
    assert pick(frame, "span_f1").value == 1.0
    assert pick(frame, "span_f1", layer=None, probe="majority").value == 0.0
    assert {"majority", "word_type", "linear"} == set(frame[frame.measure == "span_f1"].probe)


def test_labels_that_train_lacks_count_as_errors():
    task, features = planted()
    test = task.splits["test"]
    labels = test.labels.copy()
    labels[::10] = "unseen"
    changed = TaskItems(test.sentence, test.spans, labels, test.types)
    other = Task("planted", "token", task.labels, {**task.splits, "test": changed}, "")
    frame = evaluate(other, features, layers=[2])
    assert 0.87 < pick(frame, "accuracy").value < 0.905
    assert pick(frame, "cross_entropy").value < 0.15


def test_intervals_over_documents_resample_documents():
    task, features = planted()
    frame = evaluate(task, features, layers=[2], control=False, test_units=np.arange(80) // 8)
    assert set(frame.n) == {10}


def test_faults_are_named():
    task, features = planted(sentences={"train": 20, "dev": 5, "test": 5})
    with pytest.raises(UsageError, match=r"layers \[7\] do not exist in tiny; it has layers 0 to 2"):
        evaluate(task, features, layers=[0, 7])
    with pytest.raises(UsageError, match="no part sideways; its parts are whole, forward, backward"):
        evaluate(task, features, parts=["sideways"])
    with pytest.raises(DataError, match=r"split train: features have shape \(159, 24\), expected \(160, dim\)"):
        evaluate(task, lambda layer, part, split: features(layer, part, split)[1:])
    with pytest.raises(DataError, match=r"layer 0 \(whole\) of tiny.*NaN"):
        evaluate(task, lambda layer, part, split: np.full_like(features(layer, part, split), np.nan))
    one, features = planted(labels=lambda generator, n: np.full(n, "only", dtype=object))
    with pytest.raises(DataError, match="one label only in train"):
        evaluate(one, features)
    with pytest.raises(DataError, match="no items in dev"):
        evaluate(Task("t", "token", task.labels, {"train": task.splits["train"]}, ""), features)
    strange = task.splits["dev"]
    strange = TaskItems(strange.sentence, strange.spans, np.full(40, "Z", dtype=object), strange.types)
    with pytest.raises(DataError, match="no item of dev has a label that occurs in train"):
        evaluate(Task("t", "token", task.labels, {**task.splits, "dev": strange}, ""), features)
