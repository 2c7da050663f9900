"""CoNLL columns: tag schemes are told apart and converted exactly, and each published layout is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractors.foundation.errors import DataError
from extractors.words import as_words
from probes.corpora import Corpus, iob2, read_corpus

Entities = list[tuple[int, int, str]]


@st.composite
def tagged_sentence(draw: st.DrawFn) -> tuple[int, Entities]:
    """A length and entities (start, stop, type) in order, adjacent ones included."""
    entities: Entities = []
    position = 0
    for _ in range(draw(st.integers(0, 6))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 4))
        entities.append((start, position, draw(st.sampled_from(["PER", "LOC", "B-x", "O"]))))
    return position + draw(st.integers(0, 2)), entities


def encode(length: int, entities: Entities, scheme: str) -> list[str]:
    """The textbook definition of each scheme, one entity at a time."""
    tags = ["O"] * length
    end, kind_before = -1, ""
    for start, stop, kind in entities:
        letters = ["I"] * (stop - start)
        if scheme == "IOB2" or (scheme == "IOB1" and start == end and kind == kind_before):
            letters[0] = "B"
        elif scheme in ("BIOES", "BILOU", "BMES"):
            single, last, middle = {"BIOES": ("S", "E", "I"), "BILOU": ("U", "L", "I"), "BMES": ("S", "E", "M")}[scheme]
            letters = [single] if stop - start == 1 else ["B", *[middle] * (stop - start - 2), last]
        tags[start:stop] = [f"{letter}-{kind}" for letter in letters]
        end, kind_before = stop, kind
    return tags


def decode(tags: list[str]) -> Entities:
    """Entities of IOB2 tags."""
    entities: Entities = []
    for position, tag in enumerate(tags):
        letter, _, kind = tag.partition("-")
        if letter == "B":
            entities.append((position, position + 1, kind))
        elif letter == "I":
            start, stop, before = entities.pop()
            assert (stop, before) == (position, kind)
            entities.append((start, position + 1, kind))
    return entities


@given(tagged_sentence(), st.sampled_from(["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]))
def test_every_scheme_becomes_iob2_with_the_same_entities(sentence: tuple[int, Entities], scheme: str) -> None:
    length, entities = sentence
    converted = iob2(encode(length, entities, scheme))
    assert converted == encode(length, entities, "IOB2")
    assert decode(converted) == entities
    assert iob2(converted) == converted


def test_one_file_has_one_scheme(tmp_path: Path) -> None:
    # Alone, the second sentence is IOB2; in a file of BIOES its entity has no end.
    path = tmp_path / "bioes.conll"
    path.write_text("a S-PER\n\nb B-PER\nc I-PER\n")
    with pytest.raises(DataError, match=r"bioes.conll:4: I-PER leaves its entity without an end"):
        read_corpus(path)


def test_iob1_file(tmp_path: Path) -> None:
    path = tmp_path / "mixed.conll"
    path.write_text("a I-PER\nb O\n\nc I-PER\nd B-PER\n\ne I-PER\n")
    assert [s.columns["ner"] for s in read_corpus(path).sentences] == [("B-PER", "O"), ("B-PER", "B-PER"), ("B-PER",)]


def test_entities_do_not_cross_sentences(tmp_path: Path) -> None:
    path = tmp_path / "crossing.conll"
    path.write_text("a B-PER\n\nb I-PER\n")
    with pytest.raises(DataError, match=r"crossing.conll:3: I-PER continues no entity.*crossing.conll:1: B-PER"):
        read_corpus(path)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["B-PER", "O", "I-LOC"], "tag 3: I-LOC continues no entity.*tag 1: B-PER"),
        (["B-PER", "I-LOC", "B-LOC", "B-PER"], "tag 2.*tag 1"),
        (["B-PER", "S-PER"], "tag 1: B-PER leaves its entity without an end"),
        (["S-PER", "B-PER"], "tag 2: B-PER leaves"),
        (["S-PER", "I-PER"], "tag 2: I-PER continues no entity"),
        (["B-PER", "E-LOC"], "tag 2: E-LOC continues no entity"),
        (["B-PER", "E-PER", "U-PER"], "letters B, E, U belong to no one scheme"),
        (["PER"], "tag 1: 'PER' is not a tag"),
        (["B-"], "'B-' is not a tag"),
        ([""], "'' is not a tag"),
    ],
)
def test_impossible_tags(tags: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        iob2(tags)


CONLL2003 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O
# # I-NP O
Blackburn NNP B-NP I-PER
"""


def read(tmp_path: Path, text: str, name: str = "x.conll", columns: list[str] | None = None) -> Corpus:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_corpus(path, columns=columns)


@pytest.mark.parametrize("name", ["train.txt", "eng.testa", "x.conll", "x.iob", "x.tsv"])
def test_conll2003(tmp_path: Path, name: str) -> None:
    corpus = read(tmp_path, CONLL2003, name)
    first, second, third = corpus.sentences
    assert corpus.format == "columns"
    assert first.words == ("EU", "rejects", "German", "call")
    assert first.columns == {
        "column2": ("NNP", "VBZ", "JJ", "NN"),
        "column3": ("B-NP", "B-VP", "B-NP", "I-NP"),
        "ner": ("B-ORG", "O", "B-MISC", "O"),
    }
    assert third.words == ("#", "Blackburn")
    assert [s.document for s in corpus.sentences] == [f"{name} 1", f"{name} 1", f"{name} 2"]
    assert [s.where for s in corpus.sentences] == [f"{name}:3", f"{name}:8", f"{name}:11"]
    named = read(tmp_path, CONLL2003, columns=["word", "xpos", "_", "ner"]).sentences[1]
    assert named.columns == {"xpos": ("NNP",), "ner": ("B-PER",)}
    assert second.columns["ner"] == ("B-PER",)


def test_conll2000_and_runs_of_spaces(tmp_path: Path) -> None:
    sentence, _ = read(tmp_path, "Confidence  NN B-NP\nin  IN B-PP \n\nthe DT B-NP\npound NN I-NP\n").sentences
    assert sentence.words == ("Confidence", "in")
    assert sentence.columns["ner"] == ("B-NP", "B-PP")


UNER = """# newdoc id = d1
# sent_id = s1
# text = # Al Zaman
1\t#\tO\t-\tann
2-3\tAl Zaman\tO\t-\tann
2\tAl\u00a0X\tB-ORG\t-\tann
3\tZaman\tI-ORG\t-\tann

# sent_id = s2
1\tYes\tO\t-\t
"""


def test_universal_ner(tmp_path: Path) -> None:
    first, second = read(tmp_path, UNER, "x.iob2").sentences
    assert first.words == ("#", "Al\u00a0X", "Zaman")
    assert first.columns["ner"] == ("O", "B-ORG", "I-ORG")
    assert (first.id, first.document, second.id, second.document) == ("s1", "d1", "s2", "d1")


def test_a_word_may_be_a_number_sign(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, "#\tO\nBerlin\tB-LOC\n", "x.bio").sentences
    assert sentence.words == ("#", "Berlin")


def test_a_file_without_entities_still_has_tags(tmp_path: Path) -> None:
    assert read(tmp_path, "a X O\nb Y O\n").sentences[0].columns["ner"] == ("O", "O")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a X O\nb O\n", None, "x.conll:2: 2 columns, but line 1 has 3"),
        ("a\tO\n\tO\n", None, "x.conll:2: the word .column 1. is empty"),
        ("a\tO\n\u00a0\tO\n", None, "x.conll:2: the word .column 1. is empty"),
        ("1 a O\n3 b O\n", None, "x.conll:2: word number 3 where 2 was due"),
        ("1 a O\n\n2 b O\n", None, "x.conll:3: word number 2 where 1 was due"),
        ("a O\nb B_PER\nc B-PER\n", None, "x.conll:2: 'B_PER' is not a tag"),
        ("a O\nb PER\n", ["word", "ner"], "x.conll:2: 'PER' is not a tag"),
        ("a O\n", ["word", "pos", "ner"], "2 columns, but 3 names"),
        ("a O\n", ["form", "ner"], "exactly one column has to be called 'word'"),
        ("a O O\n", ["word", "ner", "ner"], "must differ"),
        ("# text = nothing\n", None, "holds no sentence"),
        ("-DOCSTART- O\n", None, "holds no sentence"),
    ],
)
def test_malformed(tmp_path: Path, text: str, columns: list[str] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, columns=columns)


@pytest.mark.parametrize(
    ("file", "split", "sentences", "words", "entities"),
    [
        ("en_ewt-ud-dev.iob2", "dev", 2001, 25149, 966),
        ("en_ewt-ud-test.iob2", "test", 2077, 25097, 1088),
        ("en_ewt-ud-train.draft-norm.iob2.gz", "train", 12543, 204579, 7005),
    ],
)
def test_real_uner(shared_data: Path, file: str, split: str, sentences: int, words: int, entities: int) -> None:
    corpus = read_corpus(shared_data / "ner" / "uner_en_ewt" / file)
    assert (corpus.format, corpus.split, len(corpus.sentences)) == ("columns", split, sentences)
    assert sum(len(as_words(sentence.words)) for sentence in corpus.sentences) == words
    tags = [tag for sentence in corpus.sentences for tag in sentence.columns["ner"]]
    assert sum(str(tag).startswith("B-") for tag in tags) == entities
    assert all(sentence.id and sentence.document for sentence in corpus.sentences)
