"""Tasks: every labelled word, span or pair is an item, ambiguous spans are counted out, absent tasks are explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from extractors.foundation.errors import DataError
from probes.corpora import CorpusSentence, SpanLabel, read_corpora
from probes.splits import split_corpora
from probes.tasks import TASKS, available_tasks, build_task, default_tasks

A = CorpusSentence(
    ("The", "cats", "sleep"),
    {
        "upos": ("DET", "NOUN", None),
        "feats:Number": (None, "Plur", "Sing"),
        "feats:Case": ("Nom", None, None),
        "chunk": ("B", "I", "O"),
    },
)
B = CorpusSentence(("cats", "The"), {"upos": ("NOUN", "DET"), "feats:Case": ("Acc", "Gen"), "one": ("x", "x")})
C = CorpusSentence(("hm",), {"upos": ("INTJ",)})
D = CorpusSentence(("nothing",), {})
WORDS = {"train": [D, A, B], "dev": [C], "test": [A]}


def test_token_items() -> None:
    task = build_task("upos", WORDS)
    train = task.splits["train"]
    assert (task.name, task.kind, task.labels) == ("upos", "token", ("DET", "NOUN"))
    assert train.sentence.tolist() == [1, 1, 2, 2]
    assert train.spans.tolist() == [[[0, 1]], [[1, 2]], [[0, 1]], [[1, 2]]]
    assert train.labels.tolist() == ["DET", "NOUN", "NOUN", "DET"]
    assert train.types.tolist() == ["The", "cats", "cats", "The"]
    assert train.sentence.dtype == train.spans.dtype == np.int64
    assert train.labels.dtype == train.types.dtype == object
    assert len(train) == 4
    # dev's INTJ stays an item, and the description owns up to it.
    assert task.splits["dev"].labels.tolist() == ["INTJ"]
    assert "1 items of dev and test have labels that train lacks (INTJ)" in task.description
    assert "train 4, dev 1, test 2" in task.description


def test_features_leave_out_words_without_them() -> None:
    task = build_task("feats:Case", {"train": [A, B], "dev": [A], "test": [B]})
    assert task.splits["train"].labels.tolist() == ["Nom", "Acc", "Gen"]
    assert task.splits["train"].spans.tolist() == [[[0, 1]], [[0, 1]], [[1, 2]]]


def test_available_tasks_are_those_with_two_labels() -> None:
    everything = [*WORDS["train"], *WORDS["dev"], *WORDS["test"]]
    # In the order of TASKS, features by frequency; "one" has one label.
    assert available_tasks(everything) == ("upos", "feats:Case", "feats:Number", "column:chunk")
    assert available_tasks([D]) == ()
    assert default_tasks({"train": [A, B], "dev": [A], "test": [A]}) == ("upos", "feats:Case", "feats:Number")
    assert default_tasks({"train": [A, B], "dev": [C], "test": [A]}) == ("upos",)


def test_default_tasks_take_two_of_a_family() -> None:
    sentence = CorpusSentence(
        ("a", "b", "c"),
        {
            "xpos": ("X", "Y", "Z"),
            "ner": ("O", "B-PER", "O"),
            "feats:Two": ("1", "2", None),
            "feats:Three": ("1", "2", "3"),
            "feats:AlsoTwo": ("1", None, "2"),
        },
        spans=(SpanLabel(((0, 1),), "S", "targets"), SpanLabel(((0, 2),), "T", "targets")),
    )
    splits = {"train": [sentence], "dev": [sentence], "test": [sentence]}
    assert default_tasks(splits) == ("ner", "feats:Three", "feats:AlsoTwo", "spans:targets")
    assert available_tasks([sentence])[-1] == "xpos"


@pytest.mark.parametrize("name", ["column:chunk", "chunk"])
def test_any_column_by_name(name: str) -> None:
    task = build_task(name, {"train": [A], "dev": [A], "test": [A]})
    assert (task.name, task.labels) == (name, ("B", "I", "O"))
    assert task.description.startswith(TASKS["column:<name>"].description)


def spans(*labels: tuple[tuple[tuple[int, int], ...], str]) -> CorpusSentence:
    return CorpusSentence(
        ("New", "York", "is", "big"), {}, tuple(SpanLabel(s, label, "targets") for s, label in labels)
    )


def test_spans_with_several_labels_are_left_out_and_counted() -> None:
    city, verb = ((0, 2),), ((2, 3),)
    one = spans((city, "LOC"), (verb, "V"), (city, "LOC"))
    two = spans((city, "LOC"), (city, "GPE"), (verb, "V"))
    task = build_task("spans:targets", {"train": [one, two], "dev": [one], "test": [two]})
    train = task.splits["train"]
    assert task.kind == "span"
    assert train.sentence.tolist() == [0, 0, 1]
    assert train.spans.tolist() == [[[0, 2]], [[2, 3]], [[2, 3]]]
    assert train.labels.tolist() == ["LOC", "V", "V"]
    assert train.types.tolist() == ["New York", "is", "is"]
    assert "2 spans with several labels left out" in task.description
    several = spans((city, "LOC"), (city, "GPE"))
    with pytest.raises(DataError, match="all its 3 spans have several labels"):
        build_task("spans:targets", {"train": [several], "dev": [several], "test": [several]})


def test_pairs() -> None:
    pair = spans((((3, 4), (0, 2)), "arg"), (((2, 3), (0, 2)), "root"))
    task = build_task("spans:targets", {"train": [pair], "dev": [pair], "test": [pair]})
    assert task.kind == "span_pair"
    assert task.splits["dev"].spans.tolist() == [[[3, 4], [0, 2]], [[2, 3], [0, 2]]]
    assert task.splits["dev"].types.tolist() == ["big ⟂ New York", "is ⟂ New York"]
    single = spans((((0, 1),), "arg"))
    for mixed in (
        {"train": [pair, single], "dev": [pair], "test": [pair]},
        {"train": [pair], "dev": [single], "test": [pair]},
    ):
        with pytest.raises(DataError, match="mixes single spans and pairs"):
            build_task("spans:targets", mixed)


@pytest.mark.parametrize(
    ("name", "splits", "message"),
    [
        ("ner", WORDS, "'ner': it has no label in these data; tasks that these data allow: upos, feats:Case"),
        ("spans:targets", WORDS, "tasks that these data allow: upos"),
        ("nonsense", WORDS, "tasks that these data allow: upos"),
        ("upos", {"train": [D], "dev": [D], "test": [D]}, "allow: none"),
        ("feats:Number", WORDS, "none of the 1 sentences of dev has a label"),
        ("one", {"train": [B], "dev": [B], "test": [B]}, "train holds the one label 'x' only"),
        ("upos", {"train": [C], "dev": [A], "test": [A]}, "train holds the one label 'INTJ' only"),
        ("upos", {"train": [A], "test": [A]}, "no dev split"),
    ],
)
def test_what_cannot_be_built(name: str, splits: dict[str, list[CorpusSentence]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_task(name, splits)


def test_every_available_task_of_a_treebank_can_be_built(shared_data: Path) -> None:
    splits = split_corpora(
        read_corpora([shared_data / "ud" / "en_ewt" / f"en_ewt-ud-{s}.conllu" for s in ("dev", "test")])
    )
    everything = [sentence for sentences in splits.values() for sentence in sentences]
    assert default_tasks(splits) == ("upos", "deprel", "feats:Number", "feats:PronType")
    names = available_tasks(everything)
    assert {"xpos", "deprel_full", "lemma"} <= set(names)
    words = sum(len(sentence.words) for sentence in everything)
    upos = build_task("upos", splits)
    assert sum(map(len, upos.splits.values())) == words == 25147 + 25094
    assert len(upos.labels) == 17
    for name in names:
        if name.startswith("misc:"):
            continue
        for split, items in build_task(name, splits).splits.items():
            first = splits[split][items.sentence[0]]
            (start, stop), *_ = items.spans[0].tolist()
            assert first.words[start:stop] == (items.types[0],)
            assert first.columns[name][start] == items.labels[0]
