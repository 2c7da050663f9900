"""Text, vocabularies, excerpts and masks: nothing lost, nothing leaked, everything reproducible."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from extractors.foundation.errors import DataError
from extractors.words import split_words
from studies.training.excerpts import Reading, Units, anchors_of_pass
from studies.training.masks import Masks
from studies.training.recipe import MaskSettings
from studies.training.text import Text, divide, read_text, sentence_starts
from studies.training.vocabulary import frequent_words, piece_arrays, word_piece_tokenizer

ROOT = Path(__file__).resolve().parents[2]


def words_of(text: Text) -> list[str]:
    return [text.types[i] for i in text.words]


def test_reading_loses_no_word(planted: Path) -> None:
    text, files = read_text([planted])
    assert words_of(text) == split_words(planted.read_text())
    assert len(text.documents) - 1 == 16 == len(files)
    assert text.documents[-1] == len(text.words)


def test_gzip_and_plain_are_the_same_text(planted: Path, tmp_path: Path) -> None:
    packed = tmp_path / "planted.txt.gz"
    packed.write_bytes(gzip.compress(planted.read_bytes()))
    (one, _), (other, _) = read_text([planted]), read_text([packed])
    assert np.array_equal(one.words, other.words)
    assert np.array_equal(one.starts, other.starts)


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("He came. She left.", ["He came .", "She left ."]),
        ("Mr. Hale came in. It rained.", ["Mr . Hale came in .", "It rained ."]),
        ("He met J. Smith, and left.", ["He met J . Smith , and left ."]),
        ("“Go!” said she. “Why?” He went.", ["“ Go ! ” said she .", "“ Why ? ”", "He went ."]),
        ('"Stop!" he said. "No." They ran.', ['" Stop ! " he said .', '" No . "', "They ran ."]),
        ("What?! Never... again. 3 came.", ["What ? !", "Never . . . again .", "3 came ."]),
        ("no end", ["no end"]),
    ],
)
def test_sentences_start_where_a_reader_starts_them(line: str, sentences: list[str]) -> None:
    words = split_words(line)
    starts = sentence_starts(words)
    assert [" ".join(words[a:b]) for a, b in zip(starts, [*starts[1:], len(words)], strict=True)] == sentences


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\n\n  \n", "no words"), (b"caf\xe9 au lait", "not UTF-8"), (b"one sentence", "single sentence")],
)
def test_a_useless_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        divide(*read_text([path]), share=0.1, seed=0)


def test_missing_damaged_and_doubled_files_are_refused(planted: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "cut.txt.gz"
    damaged.write_bytes(gzip.compress(planted.read_bytes())[:-200])
    for files in ([tmp_path / "none.txt"], [damaged], [planted, planted], []):
        with pytest.raises(DataError):
            read_text(files)


def test_held_out_documents_are_whole_and_never_in_training(planted: Path, tmp_path: Path) -> None:
    # Every document gets a word of its own, so that a leak would show.
    blocks = [f"mark{number} {block}" for number, block in enumerate(planted.read_text().split("\n\n"))]
    marked = tmp_path / "marked.txt"
    marked.write_text("\n\n".join(blocks))
    text, files = read_text([marked])
    divided = divide(text, files, share=0.15, seed=3)
    marks = [
        {word for word in words_of(part) if word.startswith("mark")} for part in (divided.training, divided.held_out)
    ]
    assert marks[0] | marks[1] == {f"mark{number}" for number in range(len(blocks))}
    assert not marks[0] & marks[1]
    assert len(divided.training.words) + len(divided.held_out.words) == len(text.words)
    assert 0.15 <= len(divided.held_out.words) / len(text.words) <= 0.3
    again = divide(text, files, share=0.15, seed=3)
    assert np.array_equal(again.held_out.words, divided.held_out.words)
    others = [divide(text, files, share=0.15, seed=seed).held_out.words for seed in range(6)]
    assert any(not np.array_equal(other, divided.held_out.words) for other in others)


def test_a_file_of_one_document_gives_its_last_sentences(planted: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text(planted.read_text().replace("\n\n", "\n"))
    text, files = read_text([path])
    divided = divide(text, files, share=0.1, seed=0)
    assert words_of(divided.training) + words_of(divided.held_out) == words_of(text)
    assert 0 < len(divided.held_out.words) <= 0.11 * len(text.words)
    assert words_of(divided.held_out)[0] == "The"


def test_vocabularies_come_from_training_text_alone(planted: Path) -> None:
    text, files = read_text([planted])
    divided = divide(text, files, share=0.1, seed=0)
    vocabulary = frequent_words(divided.training, 12)
    assert vocabulary[:3] == ("<S>", "</S>", "<UNK>")
    assert len(vocabulary) == 12
    counts = dict(zip(text.types, divided.training.counts(), strict=True))
    kept = [counts[word] for word in vocabulary[3:]]
    assert kept == sorted(counts.values(), reverse=True)[:9]


def test_the_word_piece_tokenizer_is_the_same_in_every_process(planted: Path) -> None:
    code = (
        "import sys, hashlib, json\n"
        "from studies.training.text import read_text\nfrom studies.training.vocabulary import word_piece_tokenizer\n"
        f"text, _ = read_text([{str(planted)!r}])\n"
        "print(hashlib.sha256(word_piece_tokenizer(text, 90).to_str().encode()).hexdigest())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(digests) == 1


def test_word_pieces_spell_the_words(planted: Path) -> None:
    text, _ = read_text([planted])
    tokenizer = word_piece_tokenizer(text, 70)
    assert tokenizer.get_vocab_size() == 70
    pieces, offsets = piece_arrays(text, tokenizer)
    assert offsets[-1] == len(pieces)
    for place in range(0, len(text.words), 97):
        ids = pieces[offsets[place] : offsets[place + 1]].tolist()
        spelt = "".join(tokenizer.id_to_token(i).removeprefix("##") for i in ids)
        assert spelt == text.types[text.words[place]]


def test_an_alphabet_too_large_for_the_vocabulary_is_refused(planted: Path) -> None:
    text, _ = read_text([planted])
    with pytest.raises(DataError, match="distinct characters"):
        word_piece_tokenizer(text, 40)


def test_excerpts_tile_a_pass_and_start_or_end_at_sentences(planted: Path) -> None:
    text, _ = read_text([planted])
    anchors = anchors_of_pass(text, excerpt=12, reach=16, names=(0, "pass", 0))
    rows = Units(text.words, np.arange(len(text.words) + 1)).rows(anchors, 12)
    read = np.bincount(rows.places.ravel(), minlength=len(text.words))
    assert read.max() == 1, "a word is read twice in one pass"
    assert read.mean() > 0.6
    bounds = {*text.starts.tolist(), *text.documents.tolist()}
    assert set(anchors.places.tolist()) <= bounds
    assert 0.3 < anchors.ends_here.mean() < 0.7
    document = np.searchsorted(text.documents, rows.places, side="right")
    assert (document == document[:, :1]).all(), "an excerpt runs over the end of its document"
    assert rows.words == 12 * len(anchors)


def test_word_and_piece_models_read_the_same_excerpts_in_the_same_order(planted: Path) -> None:
    text, _ = read_text([planted])
    words = Units(text.words, np.arange(len(text.words) + 1))
    tokenizer = word_piece_tokenizer(text, 70)
    pieces = Units(*piece_arrays(text, tokenizer))
    reading = [Reading(text, excerpt=12, reach=16, seed=5) for _ in range(2)]
    for _ in range(40):  # several passes
        one, other = reading[0].take(19), reading[1].take(19)
        assert np.array_equal(one.places, other.places)
        by_word, by_piece = words.rows(one, 12), pieces.rows(other, 14)
        for left, right, ends in zip(by_word.units, by_piece.units, one.ends_here, strict=True):
            spelt = "".join(tokenizer.id_to_token(int(i)).removeprefix("##") for i in right)
            whole = "".join(text.types[i] for i in left)
            # The shorter of the two is an end of the longer, on the side of the anchor.
            short, long = sorted((spelt, whole), key=len)
            assert long.endswith(short) if ends else long.startswith(short)
    assert reading[0].position[0] >= 1


def test_reading_resumes_where_it_stood(planted: Path) -> None:
    text, _ = read_text([planted])
    whole = Reading(text, excerpt=12, reach=16, seed=1)
    for _ in range(23):
        whole.take(9)
    resumed = Reading(text, excerpt=12, reach=16, seed=1, position=whole.position)
    for _ in range(30):
        assert np.array_equal(whole.take(9).places, resumed.take(9).places)
    passes = [anchors_of_pass(text, excerpt=12, reach=16, names=(1, "pass", i)).places for i in range(2)]
    assert not np.array_equal(np.sort(passes[0]), np.sort(passes[1])), "every pass cuts the text at the same places"


def test_documents_too_short_for_an_excerpt_are_refused(planted: Path) -> None:
    text, _ = read_text([planted])
    with pytest.raises(DataError, match="no document of the text has 5000 words"):
        anchors_of_pass(text, excerpt=12, reach=5000, names=(0,))


def test_masks_are_dynamic_or_static_as_configured(planted: Path) -> None:
    text, _ = read_text([planted])
    units = Units(text.words, np.arange(len(text.words) + 1))
    rows = units.rows(anchors_of_pass(text, excerpt=12, reach=16, names=(0,)), 12)
    dynamic = Masks(MaskSettings(rate=0.2), seed=0, places=len(text.words))
    static = Masks(MaskSettings(rate=0.2, dynamic=False), seed=0, places=len(text.words))
    first, second = dynamic(rows, 0), dynamic(rows, 1)
    assert not np.array_equal(first.predicted, second.predicted)
    assert np.array_equal(first.predicted, dynamic(rows, 0).predicted), "the same step draws other masks"
    assert np.array_equal(static(rows, 0).predicted, static(rows, 1).predicted)
    assert np.array_equal(static(rows, 0).draw, static(rows, 1).draw)
    for masked in (first, static(rows, 0)):
        assert abs(masked.predicted.mean() - 0.2) < 0.03
        assert abs(masked.hidden.sum() / masked.predicted.sum() - 0.8) < 0.06
        assert abs(masked.replaced.sum() / masked.predicted.sum() - 0.1) < 0.05
        assert not (masked.hidden & masked.replaced).any()
        assert not ((masked.hidden | masked.replaced) & ~masked.predicted).any()


@pytest.mark.parametrize(("masked", "random"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_variants_mask_all_replace_all_or_leave_all(planted: Path, masked: float, random: float) -> None:
    text, _ = read_text([planted])
    rows = Units(text.words, np.arange(len(text.words) + 1)).rows(
        anchors_of_pass(text, excerpt=12, reach=16, names=(0,)), 12
    )
    drawn = Masks(MaskSettings(masked=masked, random=random), seed=0, places=0)(rows, 0)
    assert drawn.hidden.sum() == (drawn.predicted.sum() if masked else 0)
    assert drawn.replaced.sum() == (drawn.predicted.sum() if random else 0)
