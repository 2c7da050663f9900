"""Splits: files are believed, what they lack is divided off by document, and no sentence is in two places."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractors.foundation.errors import DataError, UsageError
from probes.corpora import Corpus, CorpusSentence, SpanLabel, read_corpora
from probes.splits import split_corpora


def corpus(sizes: list[int], split: str | None = None, name: str = "c", marked: bool = True) -> Corpus:
    """One document of each size; every sentence differs."""
    sentences = tuple(
        CorpusSentence((f"{name}-{number}-{i}",), {}, document=f"{name}-{number}" if marked else None)
        for number, size in enumerate(sizes)
        for i in range(size)
    )
    return Corpus(name, Path(f"{name}.conllu"), "conllu", split, sentences, checksum=name)


def counts(splits: dict[str, tuple[CorpusSentence, ...]]) -> tuple[int, int, int]:
    return len(splits["train"]), len(splits["dev"]), len(splits["test"])


def test_files_are_believed_and_joined_in_order() -> None:
    corpora = [corpus([2], "test", "t"), corpus([3], "train", "b"), corpus([1], "dev", "d"), corpus([4], "train", "a")]
    splits = split_corpora(corpora)
    assert list(splits) == ["train", "dev", "test"]
    assert splits["train"] == corpora[1].sentences + corpora[3].sentences
    assert splits["dev"] == corpora[2].sentences
    assert splits["test"] == corpora[0].sentences


@pytest.mark.parametrize(
    ("given_splits", "expected"),
    [
        (("train", "test"), (180, 20, 200)),
        (("dev", "test"), (160, 40, 200)),
        (("train", "dev"), (200, 100, 100)),
        ((None,), (140, 20, 40)),
        (("train",), (140, 20, 40)),
        (("dev",), (140, 20, 40)),
        (("test",), (140, 20, 40)),
        ((None, None), (280, 40, 80)),
    ],
)
def test_what_is_lacking_is_divided_off(given_splits: tuple[str | None, ...], expected: tuple[int, int, int]) -> None:
    corpora = [corpus([4] * 50, split, f"c{i}") for i, split in enumerate(given_splits)]
    splits = split_corpora(corpora)
    assert counts(splits) == expected
    documents = [document for sentences in splits.values() for document in {s.document for s in sentences}]
    assert len(documents) == len(set(documents))
    if "test" in given_splits and len(given_splits) > 1:
        assert splits["test"] == corpora[given_splits.index("test")].sentences


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40).filter(lambda sizes: sum(sizes) >= 10),
    st.integers(0, 5),
    st.sampled_from([None, "train", "dev"]),
    st.sampled_from(["document", "sentence"]),
    st.booleans(),
)
def test_every_sentence_is_in_exactly_one_split(
    sizes: list[int], seed: int, split: str | None, by: str, marked: bool
) -> None:
    whole = corpus(sizes, split, marked=marked)
    splits = split_corpora([whole], seed=seed, by=by)
    joined = [sentence for sentences in splits.values() for sentence in sentences]
    assert Counter(s.words for s in joined) == Counter(s.words for s in whole.sentences)
    assert all(splits.values())
    assert len(splits["train"]) >= len(joined) / 2 or max(sizes) > len(joined) / 10
    order = {s.words: i for i, s in enumerate(whole.sentences)}
    for sentences in splits.values():
        assert [order[s.words] for s in sentences] == sorted(order[s.words] for s in sentences)
    assert splits == split_corpora([whole], seed=seed, by=by)
    if by == "sentence" or not marked or len(sizes) < 10:
        tenth, fifth = max(1, round(len(joined) / 10)), max(1, round(len(joined) / 5))
        assert counts(splits) == (len(joined) - tenth - fifth, tenth, fifth)


def test_seeds_draw_other_documents_and_sentences() -> None:
    whole = corpus([3] * 40)
    for by in ("document", "sentence"):
        drawn = {tuple(s.words for s in split_corpora([whole], seed=seed, by=by)["test"]) for seed in range(5)}
        assert len(drawn) == 5


def test_golden_division() -> None:
    # Pinned: a change here would silently change every number measured on a divided treebank.
    splits = split_corpora([corpus([1] * 20)], seed=0)
    assert [s.words[0] for s in splits["dev"]] == ["c-0-0", "c-4-0"]
    assert [s.words[0] for s in splits["test"]] == ["c-10-0", "c-13-0", "c-14-0", "c-18-0"]


def test_huge_documents_go_to_train() -> None:
    splits = split_corpora([corpus([200] + [2] * 50)])
    assert counts(splits) == (210, 30, 60)
    assert len([s for s in splits["train"] if s.document == "c-0"]) == 200


def test_uneven_documents_fall_back_to_sentences() -> None:
    # Nine documents above a tenth leave one small document for two parts.
    assert counts(split_corpora([corpus([11] * 9 + [1])])) == (70, 10, 20)


def test_few_documents_are_divided_by_sentence() -> None:
    splits = split_corpora([corpus([20] * 9)])
    assert counts(splits) == (126, 18, 36)
    assert {s.document for s in splits["test"]} & {s.document for s in splits["train"]}


def test_two_files_about_the_same_documents_are_divided_alike() -> None:
    first = corpus([3] * 30, "dev", "same")
    second = Corpus("other", Path("other.iob2"), "columns", "dev", first.sentences, checksum="other")
    splits = split_corpora([first, second, corpus([5], "test", "t")])
    assert not {s.document for s in splits["train"]} & {s.document for s in splits["dev"]}


def labelled(sizes: list[int], kind: str, split: str | None = None) -> Corpus:
    """As `corpus`, with a span in every sentence."""
    plain = corpus(sizes, split, kind)
    spans = (SpanLabel(((0, 1),), "A", kind),)
    return replace(plain, sentences=tuple(replace(sentence, spans=spans) for sentence in plain.sentences))


def test_files_with_other_span_labels_are_divided_apart() -> None:
    corpora = [corpus([2] * 50), labelled([1] * 20, "coref"), labelled([1] * 10, "relations")]
    splits = split_corpora(corpora)
    for whole in corpora:
        alone = split_corpora([whole])
        for split, sentences in splits.items():
            assert tuple(s for s in sentences if s.words[0].startswith(f"{whole.name}-")) == alone[split]


def test_files_that_say_their_split_are_believed_whatever_their_labels() -> None:
    # The test file holds no label of the second set: it must not be taken for data of another kind, and divided.
    train = [labelled([1] * 20, "coref", "train"), labelled([1] * 20, "relations", "train")]
    splits = split_corpora([*train, labelled([1] * 20, "coref2", "dev"), corpus([1] * 20, "test")])
    assert counts(splits) == (40, 20, 20)


@pytest.mark.parametrize(
    ("corpora", "error", "message"),
    [
        ([corpus([9])], DataError, "9 sentences are too few to divide into 70/10/20 %: at least 10 are needed"),
        ([corpus([9], "train"), corpus([9], "test", "t")], DataError, "90/10 %"),
        ([corpus([20], "train"), corpus([20], None, "u")], DataError, "do not: u.conllu; write train=FILE"),
        ([corpus([20], "train"), corpus([20], "test")], DataError, "the same bytes"),
        ([], DataError, "no corpus"),
    ],
)
def test_what_cannot_be_split(corpora: list[Corpus], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        split_corpora(corpora)


def test_unknown_unit() -> None:
    with pytest.raises(UsageError, match="'paragraph'; valid: document, sentence"):
        split_corpora([corpus([20])], by="paragraph")


def test_real_dev_and_test(shared_data: Path) -> None:
    folder = shared_data / "ud" / "en_ewt"
    corpora = read_corpora([folder / "en_ewt-ud-dev.conllu", folder / "en_ewt-ud-test.conllu"])
    splits = split_corpora(corpora)
    assert splits["test"] == corpora[1].sentences
    assert len(splits["train"]) + len(splits["dev"]) == 2001
    assert 400 <= len(splits["dev"]) <= 440
    assert not {s.document for s in splits["train"]} & {s.document for s in splits["dev"]}
