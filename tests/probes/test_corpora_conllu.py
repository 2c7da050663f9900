"""CoNLL-U: what the format says is read, what it forbids is refused with its line, and real treebanks count right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from extractors.foundation.errors import DataError
from extractors.words import as_words
from probes.corpora import CorpusSentence, read_corpus


def row(identifier: str, form: str = "w", head: str = "0", **fields: str) -> str:
    values = {"lemma": "l", "upos": "X", "xpos": "_", "feats": "_", "deprel": "dep", "deps": "_", "misc": "_"} | fields
    middle = (values[name] for name in ("lemma", "upos", "xpos", "feats"))
    return "\t".join([identifier, form, *middle, head, *(values[name] for name in ("deprel", "deps", "misc"))])


GOLDEN = "\n".join(
    [
        "# newdoc id = doc-a",
        "# sent_id = a-1",
        "# text = Don't go_there _",
        row("1-2", "Don't", "_", lemma="_", upos="_", deprel="_", misc="SpaceAfter=No"),
        row("1", "Do", "3", lemma="do", upos="AUX", xpos="VB", feats="Mood=Imp|VerbForm=Fin", deprel="aux"),
        row("2", "n't", "3", lemma="not", upos="PART", feats="Polarity=Neg", deprel="advmod"),
        row(
            "3",
            "go",
            "0",
            lemma="go",
            upos="VERB",
            xpos="VB",
            feats="VerbForm=Inf",
            deprel="root",
            misc="A=1|free|B=x=y",
        ),
        row("3.1", "went", "_", lemma="go", upos="VERB", deprel="_", deps="1:dep"),
        row("4", "New York", "3", lemma="_", upos="_", deprel="obl:npmod"),
        row("5", "_", "3", lemma="_", upos="SYM", deprel="_"),
        "",
        "",
        "# newdoc",
        row("1", "Yes", lemma="yes", upos="INTJ", deprel="root"),
    ]
)


def read(tmp_path: Path, text: str) -> tuple[CorpusSentence, ...]:
    path = tmp_path / "mini.conllu"
    path.write_bytes(text.encode())
    return read_corpus(path).sentences


def test_golden_file(tmp_path: Path) -> None:
    first, second = read(tmp_path, GOLDEN + "\n\n")
    assert first.words == ("Do", "n't", "go", "New York", "_")
    assert first.columns == {
        "upos": ("AUX", "PART", "VERB", None, "SYM"),
        "xpos": ("VB", None, "VB", None, None),
        "lemma": ("do", "not", "go", None, "_"),
        "deprel": ("aux", "advmod", "root", "obl", None),
        "deprel_full": ("aux", "advmod", "root", "obl:npmod", None),
        "feats:Mood": ("Imp", None, None, None, None),
        "feats:VerbForm": ("Fin", None, "Inf", None, None),
        "feats:Polarity": (None, "Neg", None, None, None),
        "misc:A": (None, None, "1", None, None),
        "misc:B": (None, None, "x=y", None, None),
    }
    assert (first.id, first.document, first.where) == ("a-1", "doc-a", "mini.conllu:5")
    assert (second.id, second.document, second.where) == (None, "mini.conllu 2", "mini.conllu:14")


@pytest.mark.parametrize(
    "written",
    [
        GOLDEN,
        GOLDEN + "\n",
        GOLDEN + "\n\n\n",
        "\ufeff" + GOLDEN,
        GOLDEN.replace("\n", "\r\n") + "\r\n",
        "\n\n" + GOLDEN,
    ],
)
def test_line_ends_marks_and_final_blank_lines_do_not_matter(tmp_path: Path, written: str) -> None:
    expected = read(tmp_path, GOLDEN + "\n\n")
    found = read(tmp_path, written)
    assert [s.words for s in found] == [s.words for s in expected]
    assert [s.columns for s in found] == [s.columns for s in expected]


def test_unicode_line_separators_do_not_end_a_line(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, row("1", "a\u2028b") + "\n" + row("2", "c\x85d", "1"))
    assert sentence.words == ("a\u2028b", "c\x85d")


ONE = row("1") + "\n"
MALFORMED = {
    "nine columns": (ONE + row("2", "w", "1").rsplit("\t", 1)[0], 2, "9 columns"),
    "eleven columns": (row("1") + "\t_", 1, "11 columns"),
    "spaces": (row("1").replace("\t", " "), 1, "1 columns"),
    "id gap": (ONE + row("3", "w", "1"), 2, "bad id '3': word 2 is due"),
    "id repeated": (ONE + row("1"), 2, "bad id '1'"),
    "id from zero": (row("0"), 1, "bad id '0'"),
    "id a word": (row("one"), 1, "bad id 'one'"),
    "id empty": (row(""), 1, "bad id ''"),
    "id padded": (row("01"), 1, "bad id '01'"),
    "id in other digits": (row("１"), 1, "bad id '１'"),
    "id of five thousand digits": (row("1" * 5000 + "-" + "2" * 5000), 1, "bad id"),
    "range backwards": (row("2-1", head="_") + "\n" + ONE, 1, "backwards"),
    "range overlapping": (
        "\n".join([row("1-2", head="_"), row("1"), row("2-3", head="_"), row("2", head="1"), row("3", head="1")]),
        3,
        "overlaps the one on line 1",
    ),
    "range twice": ("\n".join([row("1-2", head="_"), row("1-2", head="_"), ONE, row("2", head="1")]), 2, "overlaps"),
    "range late": (ONE + row("1-2", head="_") + "\n" + row("2", head="1"), 2, "out of place"),
    "range early": (row("2-3", head="_") + "\n" + ONE, 1, "out of place"),
    "range beyond": (row("1-3", head="_") + "\n" + ONE + row("2", head="1"), 1, "has 2 words"),
    "empty node early": (row("1.1", head="_") + "\n" + ONE, 1, "0.1 could be here"),
    "empty node gap": (ONE + row("1.2", head="_"), 2, "1.1 could be here"),
    "empty node in a range": (ONE + row("2-3", head="_") + "\n" + row("1.1", head="_"), 3, "out of place"),
    "comments only": (ONE + "\n# sent_id = x\n# text = y\n\n" + ONE, 3, "empty sentence"),
    "comments at the end": (ONE + "\n# text = y", 3, "empty sentence"),
    "only a range": (ONE + "\n" + row("1-2", head="_"), 3, "empty sentence"),
    "comment inside": (ONE + "# late\n" + row("2", head="1"), 2, "comment inside"),
    "empty form": (row("1", ""), 1, "FORM is empty"),
    "blank form": (ONE + row("2", "\u00a0", "1"), 2, "white space"),
    "missing form": (row("1", "_", lemma="thing"), 1, "FORM is missing"),
    "empty column": (row("1", upos=""), 1, "UPOS is empty"),
    "head beyond": (row("1", head="2"), 1, "HEAD '2'"),
    "head negative": (row("1", head="-1"), 1, "HEAD '-1'"),
    "head itself": (row("1", head="1"), 1, "HEAD '1'"),
    "head a word": (row("1", head="root"), 1, "HEAD 'root'"),
    "feature without value": (row("1", feats="Case"), 1, "Name=Value"),
    "feature empty": (row("1", feats="Case=Nom|"), 1, "Name=Value"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_lines_are_named(tmp_path: Path, kind: str) -> None:
    text, line, message = MALFORMED[kind]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'mini.conllu'}:{line}: ")


def test_comments_only_hold_no_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="empty sentence"):
        read(tmp_path, "# just a comment\n")


def test_withheld_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="withheld"):
        read(tmp_path, "\n".join([row("1", "_", lemma="_"), row("2", "_", "1", lemma="_")]))


@pytest.mark.parametrize(
    ("file", "split", "sentences", "words", "documents"),
    [
        ("en_ewt/en_ewt-ud-train.conllu.gz", "train", 12544, 204577, 540),
        ("en_ewt/en_ewt-ud-dev.conllu", "dev", 2001, 25147, 318),
        ("en_ewt/en_ewt-ud-test.conllu", "test", 2077, 25094, 316),
        ("en_gum/en_gum-ud-dev.conllu", "dev", 1575, 28119, 30),
        ("en_gum/en_gum-ud-test.conllu", "test", 1464, 28397, 30),
        ("zh_gsdsimp/zh_gsdsimp-ud-dev.conllu", "dev", 500, 12663, 0),
        ("zh_gsdsimp/zh_gsdsimp-ud-test.conllu", "test", 500, 12012, 0),
        ("zh_gsd_v1/zh_gsd_r1.4-ud-train.conllu", "train", 3997, 98608, 0),
        ("zh_hk/zh_hk-ud-test.conllu", "test", 1004, 9874, 0),
    ],
)
def test_real_treebanks(shared_data: Path, file: str, split: str, sentences: int, words: int, documents: int) -> None:
    start = time.process_time()
    corpus = read_corpus(shared_data / "ud" / file)
    assert time.process_time() - start < 15
    assert (corpus.format, corpus.split, len(corpus.sentences)) == ("conllu", split, sentences)
    assert sum(len(sentence.words) for sentence in corpus.sentences) == words
    assert len({sentence.document for sentence in corpus.sentences} - {None}) == documents
    for sentence in corpus.sentences:
        # The extractors must accept every word, or labels and vectors would part.
        assert as_words(sentence.words) == sentence.words
        assert all(len(labels) == len(sentence.words) for labels in sentence.columns.values())


def test_agrees_with_the_general_parser(shared_data: Path) -> None:
    conllu = pytest.importorskip("conllu")
    path = shared_data / "ud" / "en_gum" / "en_gum-ud-dev.conllu"
    ours = read_corpus(path).sentences
    theirs = conllu.parse(path.read_text(encoding="utf-8"))
    assert len(ours) == len(theirs)
    for sentence, other in zip(ours, theirs, strict=True):
        tokens = [token for token in other if isinstance(token["id"], int)]
        assert sentence.id == other.metadata["sent_id"]
        assert sentence.words == tuple(token["form"] for token in tokens)
        assert sentence.columns["upos"] == tuple(token["upos"] for token in tokens)
        assert sentence.columns["deprel_full"] == tuple(token["deprel"] for token in tokens)
        numbers = tuple((token["feats"] or {}).get("Number") for token in tokens)
        assert sentence.columns.get("feats:Number", (None,) * len(tokens)) == numbers
        entities = tuple((token["misc"] or {}).get("Entity") for token in tokens)
        assert sentence.columns.get("misc:Entity", (None,) * len(tokens)) == entities


def test_entity_tags_in_misc_are_the_task_ner(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(
        "1\tMaren\t_\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n2\tslept\t_\tVERB\t_\t_\t1\tdep\t_\tNER=O|X=y\n\n"
    )
    (sentence,) = read_corpus(file).sentences
    assert sentence.columns["ner"] == ("B-PER", "O")
    assert sentence.columns["misc:X"] == (None, "y")
