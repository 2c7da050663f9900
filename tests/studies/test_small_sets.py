"""The small bundled sets: well-formed, balanced, without duplicates, and closed to readers that skip what they test.

The shortcut baselines are bags of words, heuristics and majorities, cross-validated with whole documents (families) held out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import studies
from probes.corpora import CorpusSentence, read_corpus
from probes.tasks import available_tasks

FOLDER = files("studies") / "data"
RELATIONS = {"destroyer", "owner", "producer", "recipient", "topic"}
NEGATIONS = {"failed", "neither", "never", "no", "nobody", "nor", "not", "nothing", "refused", "without"}

Counts = dict[str, float]


def read_spans(name: str) -> tuple[CorpusSentence, ...]:
    return read_corpus(str(FOLDER / name)).sentences


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def bag(words: Iterable[str], prefix: str = "") -> Counts:
    return {prefix + word.lower(): 1.0 for word in words}


def accuracy(features: list[Counts], labels: list[str], groups: list[str | None]) -> float:
    """Held-out accuracy of logistic regression; no group is in training and test at once."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=500))
    folds = GroupKFold(5)
    predicted = cross_val_predict(model, features, labels, groups=groups, cv=folds)
    return float(np.mean(predicted == np.array(labels)))


@pytest.fixture(scope="module")
def pronouns() -> tuple[CorpusSentence, ...]:
    return read_spans("pronouns.jsonl")


@pytest.fixture(scope="module")
def relations() -> tuple[CorpusSentence, ...]:
    return read_spans("relations.jsonl")


@pytest.fixture(scope="module")
def cues() -> dict[str, str]:
    return {record["info"]["sent_id"]: record["info"]["cue"] for record in records("pronouns.jsonl")}


@pytest.fixture(scope="module")
def pairs() -> list[dict[str, Any]]:
    return records("entailment.jsonl")


def sides(sentence: CorpusSentence) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Words left of the pronoun, the pronoun, words right of it."""
    ((start, stop), _) = sentence.spans[0].spans
    return sentence.words[:start], " ".join(sentence.words[start:stop]), sentence.words[stop:]


def antecedent(sentence: CorpusSentence) -> str:
    """The mention that the pronoun stands for."""
    (answer,) = (label for label in sentence.spans if label.label == "yes")
    return " ".join(sentence.words[slice(*answer.spans[1])]).lower()


@pytest.mark.parametrize("name", ["pronouns.jsonl", "relations.jsonl"])
def test_span_sets_are_span_pair_tasks_of_unique_texts(name: str) -> None:
    sentences = read_spans(name)
    assert available_tasks(sentences) == (f"spans:{name.removesuffix('.jsonl')}",)
    assert len({sentence.words for sentence in sentences}) == len(sentences)
    assert len({sentence.id for sentence in sentences}) == len(sentences)
    for sentence in sentences:
        assert all(len(label.spans) == 2 for label in sentence.spans)
        assert len({label.spans for label in sentence.spans}) == len(sentence.spans)


def test_pronouns_are_balanced(pronouns: tuple[CorpusSentence, ...], cues: dict[str, str]) -> None:
    assert len(pronouns) >= 100
    assert sum(len(sentence.spans) for sentence in pronouns) >= 200
    # Every text has two candidates, in front of the pronoun, of which one is meant; each is meant equally often.
    firsts = 0
    for sentence in pronouns:
        first, second = sentence.spans
        assert {first.label, second.label} == {"yes", "no"}
        assert first.spans[0] == second.spans[0]
        assert first.spans[1][1] <= second.spans[1][0] < second.spans[1][1] <= first.spans[0][0]
        firsts += first.label == "yes"
    assert 2 * firsts == len(pronouns)
    # Neither the pronoun nor the mentions give the answer away: in a family they stay, and each mention is meant equally often.
    families = defaultdict(list)
    for sentence in pronouns:
        families[sentence.document].append(sentence)
    for family in families.values():
        assert len({sides(sentence)[1] for sentence in family}) == 1
        mentions = [{" ".join(s.words[slice(*x.spans[1])]).lower() for x in s.spans} for s in family]
        assert all(each == mentions[0] for each in mentions)
        assert Counter(map(antecedent, family)) == dict.fromkeys(mentions[0], len(family) // 2)
    assert Counter(cues.values()) == dict.fromkeys(("left", "right", "both"), len(pronouns) // 3)


def test_pronoun_cues_stand_where_they_are_said_to(pronouns: tuple[CorpusSentence, ...], cues: dict[str, str]) -> None:
    families = defaultdict(list)
    for sentence in pronouns:
        families[sentence.document, cues[str(sentence.id)]].append(sentence)
    for (document, cue), family in families.items():
        lefts = {sides(sentence)[0] for sentence in family}
        rights = {sides(sentence)[2] for sentence in family}
        assert (len(lefts), len(rights)) == {"left": (2, 1), "right": (1, 2), "both": (2, 2)}[cue], document
        if cue == "both":
            # Neither side alone says who is meant: with each left side either can be, and with each right side.
            assert len(family) == 4
            for side in (0, 2):
                met = defaultdict(set)
                for sentence in family:
                    met[sides(sentence)[side]].add(antecedent(sentence))
                assert all(len(answers) == 2 for answers in met.values()), document


def test_pronouns_have_no_shortcut(pronouns: tuple[CorpusSentence, ...]) -> None:
    features: dict[str, list[Counts]] = defaultdict(list)
    labels: list[str] = []
    groups: list[str | None] = []
    for sentence in pronouns:
        for position, target in enumerate(sentence.spans):
            mention = sentence.words[slice(*target.spans[1])]
            features["text"].append(bag(sentence.words))
            features["words of the spans"].append(bag((*mention, sides(sentence)[1])))
            distance = (target.spans[0][0] - target.spans[1][0]) / 10
            features["order and distance"].append({f"candidate {position}": 1.0, "distance": distance})
            features["words with order"].append(bag(sentence.words, f"{position}:"))
            labels.append(target.label)
            groups.append(sentence.document)
    for name, values in features.items():
        assert accuracy(values, labels, groups) <= 0.55, name


def test_relations_are_balanced(relations: tuple[CorpusSentence, ...]) -> None:
    targets = [label for sentence in relations for label in sentence.spans]
    assert len(targets) >= 200
    assert Counter(target.label for target in targets) == dict.fromkeys(RELATIONS, len(targets) // 5)
    people: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in relations:
        # One thing and four people, each in another relation to it; no person is in a text twice.
        assert len({target.spans[0] for target in sentence.spans}) == 1
        assert len({target.label for target in sentence.spans}) == len(sentence.spans) == 4
        names = [" ".join(sentence.words[slice(*target.spans[1])]) for target in sentence.spans]
        assert len(set(names)) == 4
        assert all(sentence.words.count(name) == 1 for name in names)
        for name, target in zip(names, sentence.spans, strict=True):
            people[name][target.label] += 1
    assert all(counts == dict.fromkeys(RELATIONS, 2) for counts in people.values())


def test_relations_have_no_shortcut(relations: tuple[CorpusSentence, ...]) -> None:
    features: dict[str, list[Counts]] = defaultdict(list)
    labels: list[str] = []
    groups: list[str | None] = []
    for sentence in relations:
        for position, target in enumerate(sentence.spans):
            (thing, _), (person, _) = target.spans
            features["text"].append(bag(sentence.words))
            features["words of the spans"].append(bag((sentence.words[thing], sentence.words[person])))
            features["both"].append({**bag(sentence.words), **bag((sentence.words[person],), "person:")})
            features["order"].append({f"person {position}": 1.0, "right": float(person > thing)})
            around = (*sentence.words[max(0, person - 3) : person], "|", *sentence.words[person + 1 : person + 4])
            features["around the person"].append(bag(around))
            labels.append(target.label)
            groups.append(sentence.document)
    scores = {name: accuracy(values, labels, groups) for name, values in features.items()}
    # Chance is .20; a text holds four relations, so that its words alone can give .25 at most.
    assert max(scores["text"], scores["words of the spans"], scores["both"]) <= 0.25
    # The order of mention is not balanced (what becomes of a thing in the end is told in the end).
    assert scores["order"] <= 0.40
    # The words beside the person do carry the relation: the task can be learnt from what it has.
    assert scores["around the person"] >= 0.45


def test_entailment_pairs_are_well_formed(pairs: list[dict[str, Any]]) -> None:
    assert len(pairs) >= 240
    for pair in pairs:
        assert list(pair) == ["premise", "hypothesis", "label", "info"]
        for side in ("premise", "hypothesis"):
            words = pair[side].split(" ")
            assert all(words)
            assert words[-1] == "."
            assert pair[side].isascii()
    assert len({(pair["premise"], pair["hypothesis"]) for pair in pairs}) == len(pairs)
    assert len({pair["info"]["sent_id"] for pair in pairs}) == len(pairs)


def test_entailment_is_read_as_pairs_of_spans(pairs: list[dict[str, Any]]) -> None:
    sentences = read_spans("entailment.jsonl")
    for sentence, pair in zip(sentences, pairs, strict=True):
        ((first, second), label) = sentence.spans[0].spans, sentence.spans[0].label
        assert " ".join(sentence.words[slice(*first)]) == pair["premise"]
        assert " ".join(sentence.words[slice(*second)]) == pair["hypothesis"]
        assert label == pair["label"]
    assert available_tasks(sentences) == ("spans:entailment",)


def test_entailment_is_balanced_for_each_premise_and_hypothesis(pairs: list[dict[str, Any]]) -> None:
    once = {"entailment": 1, "neutral": 1, "contradiction": 1}
    for side in ("premise", "hypothesis"):
        met: dict[str, Counter[str]] = defaultdict(Counter)
        for pair in pairs:
            met[pair[side]][pair["label"]] += 1
        assert all(counts == once for counts in met.values()), side


def test_entailment_has_no_shortcut(pairs: list[dict[str, Any]]) -> None:
    features: dict[str, list[Counts]] = defaultdict(list)
    labels = [pair["label"] for pair in pairs]
    groups = [pair["info"]["document_id"] for pair in pairs]
    for pair in pairs:
        premise, hypothesis = (pair[side].lower().split(" ") for side in ("premise", "hypothesis"))
        negated = [float(bool(NEGATIONS & set(words))) for words in (premise, hypothesis)]
        features["hypothesis"].append(bag(hypothesis))
        features["premise"].append(bag(premise))
        features["both"].append({**bag(premise, "p:"), **bag(hypothesis, "h:")})
        features["negation"].append({"one": float(negated[0] != negated[1]), "p": negated[0], "h": negated[1]})
        shared = len(set(premise) & set(hypothesis)) / len(set(hypothesis))
        features["overlap"].append({"shared": shared, "length": len(premise) / 10})
    scores = {name: accuracy(values, labels, groups) for name, values in features.items()}
    # Chance is .333.
    assert max(scores["hypothesis"], scores["premise"], scores["both"]) <= 0.36
    assert scores["negation"] <= 0.45
    assert scores["overlap"] <= 0.50


def test_without_data_every_set_is_a_task_and_analyses_read_running_text(tmp_path: Path, tiny_bert: Path) -> None:
    small = [f"spans:{name}" for name in ("pronouns", "relations", "entailment")]
    result = studies.run(
        model=[str(tiny_bert)],
        task=["upos", *small],
        analysis=["mask_shift"],
        layer="last",
        untrained=False,
        control=False,
        resamples=100,
        out=tmp_path / "run",
    )
    table = result.results
    found = table.dropna(subset=["task"]).groupby("task")["data"].unique().map(list).to_dict()
    assert found == {"upos": ["sample"], **{name: [name.removeprefix("spans:")] for name in small}}
    assert set(table[table["kind"] == "analysis"]["data"]) == {"sample"}
    # A fifth of each set is for test, by whole families.
    chosen = table[(table["measure"] == "accuracy") & (table["probe"] == "linear")].set_index("task")["n"].to_dict()
    assert 15 <= chosen["spans:pronouns"] <= 28
    assert 8 <= chosen["spans:relations"] <= 12
    assert 40 <= chosen["spans:entailment"] <= 58
