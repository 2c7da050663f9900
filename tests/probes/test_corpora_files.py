"""Files: formats and splits are told from name and contents, and what cannot be read is refused in plain words."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractors.foundation.errors import DataError, UsageError
from extractors.words import as_words
from probes.corpora import FORMATS, read_corpora, read_corpus

CONLLU = "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n"
COLUMNS = "a O\nb B-PER\n"
EDGES = '{"text": "a b", "targets": [{"span1": [0, 1], "label": "A"}]}\n'


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("a.conllu", CONLLU, "conllu"),
        ("a.CONLLU", CONLLU, "conllu"),
        ("a.conll", CONLLU, "conllu"),
        ("a.conll", COLUMNS, "columns"),
        ("a.iob2", COLUMNS, "columns"),
        ("a.bio", COLUMNS, "columns"),
        ("a.jsonl", EDGES, "edge-probing"),
        ("a.json", EDGES, "edge-probing"),
        ("a.txt", "A plain sentence.\n", "text"),
        ("a.txt", COLUMNS, "columns"),
        ("a", CONLLU, "conllu"),
        ("a", "# sent_id = 1\n" + CONLLU, "conllu"),
        ("a", COLUMNS, "columns"),
        ("a.data", EDGES, "edge-probing"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_format_from_name_and_contents(tmp_path: Path, name: str, text: str, format: str, compressed: bool) -> None:
    data = gzip.compress(text.encode()) if compressed else text.encode()
    path = tmp_path / (name + ".gz" * compressed)
    path.write_bytes(data)
    corpus = read_corpus(path)
    assert (corpus.format, corpus.name, corpus.path) == (format, name if name == "a.data" else "a", path)
    assert corpus.checksum == hashlib.sha256(data).hexdigest()
    assert corpus.sentences[0].words[0] in ("a", "A")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("en_ewt-ud-train.conllu", "train"),
        ("en_ewt-ud-dev.conllu.gz", "dev"),
        ("test.conllu", "test"),
        ("valid.conllu", "dev"),
        ("development.conllu", "dev"),
        ("eng.testb.conllu", "test"),
        ("eng.testa.conllu", "dev"),
        ("contest-devices.conllu", None),
        ("my.conllu", None),
    ],
)
def test_split_from_name(tmp_path: Path, name: str, split: str | None) -> None:
    (tmp_path / name).write_bytes(gzip.compress(CONLLU.encode()) if name.endswith("gz") else CONLLU.encode())
    assert read_corpus(tmp_path / name).split == split


def test_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\nIt's one.\n我喜欢。\n\n \n\u2028Two\n", encoding="utf-8")
    first, second, third = read_corpus(path).sentences
    assert first.words == ("It's", "one", ".")
    assert second.words == ("我", "喜", "欢", "。")
    assert [s.document for s in (first, second, third)] == ["a.txt 1", "a.txt 1", "a.txt 2"]
    assert [s.where for s in (first, second, third)] == ["a.txt:2", "a.txt:3", "a.txt:6"]
    assert (first.columns, first.spans) == ({}, ())


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.conllu", b"", "is empty"),
        ("a.conllu", b" \n\r\n", "is empty"),
        ("a.txt", b"\xef\xbb\xbf\n", "is empty"),
        ("a.conllu.gz", b"", "is empty"),
        ("a.conllu.gz", gzip.compress(b""), "is empty"),
        ("a.conllu.gz", CONLLU.encode(), "not a gzip file"),
        ("a.conllu.gz", gzip.compress(CONLLU.encode())[:-9], "ends too early"),
        ("a.conllu.gz", gzip.compress(CONLLU.encode())[:-8] + b"\0" * 8, "damaged"),
        ("a.conllu.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\xff" * 30, "damaged"),
        ("a.txt", b"fine\nna\xefve\n", r"a.txt:2: not UTF-8: byte 0xef at offset 7"),
        ("a.conllu", CONLLU.encode("utf-16"), "a.conllu:1: not UTF-8: byte 0xff at offset 0"),
        ("a.data", b"Just a sentence.\n", "cannot tell the format"),
        ("a", b"{}\n", "conllu.*columns.*edge-probing.*text"),
    ],
)
def test_unreadable_contents(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_corpus(tmp_path / name)


def test_unreadable_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"no.conllu: no such file"):
        read_corpus(tmp_path / "no.conllu")
    with pytest.raises(DataError, match="is a folder"):
        read_corpus(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        read_corpus(tmp_path / ("x" * 5000))
    with pytest.raises(DataError, match="cannot be read"):
        read_corpus("a\0b")
    (tmp_path / "a.txt").write_text("a")

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(DataError, match="no permission"):
        read_corpus(tmp_path / "a.txt")


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(COLUMNS)
    assert read_corpus(path, format="text").sentences[1].words == ("b", "B-PER")
    assert read_corpus(path, columns=["word", "tag"]).sentences[0].columns == {"tag": ("O", "B-PER")}
    with pytest.raises(UsageError, match="belong to the format 'columns'"):
        read_corpus(path, format="text", columns=["word", "tag"])
    with pytest.raises(DataError, match=r"unknown format 'conll'.*edge-probing") as caught:
        read_corpus(path, format="conll")
    assert all(name in str(caught.value) for name in FORMATS)


def test_read_corpora(tmp_path: Path) -> None:
    for name in ("b-dev.conllu", "a-train.conllu", "c.conllu"):
        (tmp_path / name).write_text(CONLLU)
    (tmp_path / "README.txt").write_text("Read me.")
    (tmp_path / "notes.txt").write_text("Raw text beside a treebank is no corpus of its own.")
    (tmp_path / "stats.xml").write_text("<xml/>")
    (tmp_path / "sub").mkdir()
    assert [(c.name, c.split) for c in read_corpora([tmp_path])] == [
        ("a-train", "train"),
        ("b-dev", "dev"),
        ("c", None),
    ]
    files: list[str | Path] = [
        f"test={tmp_path / 'c.conllu'}",
        tmp_path / "b-dev.conllu",
        f"train={tmp_path / 'b-dev.conllu'}",
    ]
    assert [(c.name, c.split) for c in read_corpora(files)] == [("c", "test"), ("b-dev", "dev"), ("b-dev", "train")]
    (tmp_path / "sub" / "LICENSE.txt").write_text("Free.")
    with pytest.raises(DataError, match="holds no corpus file"):
        read_corpora([str(tmp_path / "sub")])
    (tmp_path / "sub" / "only.txt").write_text("Text.")
    assert [c.name for c in read_corpora([str(tmp_path / "sub")])] == ["only"]
    (tmp_path / "x=y.conllu").write_text(CONLLU)
    assert read_corpora([f"{tmp_path}/x=y.conllu"])[0].name == "x=y"
    wrong: list[list[str | Path]] = [[], ["train="], [f"valid={tmp_path / 'c.conllu'}"]]
    for bad in wrong:
        with pytest.raises(DataError, match=r"no corpus|no file|no such file"):
            read_corpora(bad)


CHARACTERS = [*"\t\n\r\xa0\u2028 #_120=|Oaé", "1-2", "1.1", "B-X", "I-X", "S-X"]
FRAGMENTS = [
    CONLLU,
    COLUMNS,
    EDGES,
    '{"text": ',
    '"targets": []}',
    "[0, 1]",
    "# newdoc",
    "-DOCSTART-",
    "1\ta" + 8 * "\t_",
]
PIECES = st.sampled_from([*CHARACTERS, *FRAGMENTS])


@given(
    st.lists(PIECES, max_size=30).map("".join).map(str.encode) | st.binary(max_size=50),
    st.sampled_from([None, *FORMATS]),
)
def test_any_bytes_are_a_valid_corpus_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, format: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    try:
        corpus = read_corpus(path, format=format)
    except DataError:
        return
    assert corpus.sentences
    for sentence in corpus.sentences:
        assert as_words(sentence.words) == sentence.words
        assert all(len(labels) == len(sentence.words) for labels in sentence.columns.values())
        assert all(0 <= start < stop <= len(sentence.words) for span in sentence.spans for start, stop in span.spans)
