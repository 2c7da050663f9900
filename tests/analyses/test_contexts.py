"""Crossed contexts: disjoint sentences, constant lengths in every model's pieces, and honest shortage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyses.contexts import collect_contexts, piece_counts
from extractors.foundation.errors import DataError, UsageError


def flat(words: tuple[str, ...]) -> np.ndarray:
    return np.zeros((2, len(words), 3))


def uneven(words: tuple[str, ...]) -> list[int]:
    """Words of three letters and more are two pieces: left and right parts differ in length."""
    return [2 if word[0] in "abcde" else 1 for word in words]


def test_parts_are_disjoint_natural_and_of_constant_length(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    models = [fake(flat, pieces=uneven, name="pieces"), fake(flat, name="words")]
    contexts = collect_contexts(models, corpus, side=4, grid=4, targets=5)
    assert len(contexts.targets) == 5
    assert contexts.models == ("pieces", "words")
    assert (contexts.side, contexts.grid) == (4, 4)
    for target in contexts.targets:
        where = {}
        for number, words in enumerate(corpus):
            if words[6] == target.word:
                where[words[2:6]] = where[words[7:11]] = number
        sources = [where[part] for part in (*target.left, *target.right)]
        assert len(set(sources)) == len(sources) == 8
        for model in models:
            counts = {piece_counts(a, target.position) for a in model.align(target.sentences())}
            assert counts == {target.pieces[model.info.name]}
    assert contexts.targets[0].pieces["words"].before == 5


def test_without_the_grouping_lengths_would_differ(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    """The corpus can fail the test above: contexts made for a word model are uneven in pieces."""
    contexts = collect_contexts([fake(flat)], corpus, side=4, grid=4, targets=5)
    model = fake(flat, pieces=uneven)
    counts = {piece_counts(a, 4) for a in model.align(contexts.targets[0].sentences())}
    assert len(counts) > 1


def test_sentences_are_composed_left_part_by_left_part(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    target = collect_contexts([fake(flat)], corpus, side=3, grid=4, targets=2).targets[0]
    sentences = list(target.sentences())
    assert len(sentences) == 16
    assert sentences[4 * 2 + 1] == (*target.left[2], target.word, *target.right[1])


def test_the_seed_decides(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    first, again, other = (collect_contexts([fake(flat)], corpus, side=4, grid=4, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.targets[0].left != other.targets[0].left


def test_repeated_sentences_and_parts_count_once(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    with pytest.raises(DataError, match="0 found in 10 different sentences"):
        collect_contexts([fake(flat)], corpus[:10] * 40, side=4, grid=4)
    same_left = [("p", "q", *words[2:]) if words[6] == "t0" else words for words in corpus]
    same_left = [(*words[:2], *"rstu", *words[6:]) if words[6] == "t0" else words for words in same_left]
    contexts = collect_contexts([fake(flat)], same_left, side=4, grid=4)
    assert "t0" not in contexts.words
    assert "t1" in contexts.words


def test_parts_that_occur_again_never_meet_their_other_side(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    """Forty left and forty right parts in random pairs: a part that is kept for one sentence has partners in others."""
    generator = np.random.default_rng(0)
    text = []
    for words in corpus:
        left, right = generator.integers(40, size=2)
        text.append((*words[:4], f"l{left}", "x", words[6], "y", f"r{right}", *words[9:], str(len(text))))
    natural = {(words[i - 2 : i], words[i], words[i + 1 : i + 3]) for words in text for i in range(2, len(words) - 2)}
    contexts = collect_contexts([fake(flat)], text, side=2, grid=6, words={f"t{number}" for number in range(10)})
    assert len(contexts.targets) == 10
    for target in contexts.targets:
        cells = {(left, target.word, right) for left in target.left for right in target.right}
        assert len(cells) == 36
        assert not cells & natural


def test_a_word_whose_parts_cannot_be_kept_apart_is_passed_over(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    """Of t0 every left part meets every right part in the corpus."""
    text = list(corpus)
    places = [number for number, words in enumerate(corpus) if words[6] == "t0"]
    for which, number in enumerate(places[:25]):
        words = corpus[number]
        text[number] = (*words[:4], "x", f"l{which % 5}", "t0", f"r{which // 5}", "y", *words[9:])
    text = [words for number, words in enumerate(text) if number not in places[25:]]
    contexts = collect_contexts([fake(flat)], text, side=2, grid=2)
    assert "t0" not in contexts.words
    assert "t1" in contexts.words
    assert any("passed over" in note and "apart from each other" in note for note in contexts.notes)


def test_a_word_whose_pieces_follow_the_words_around_it_is_dropped(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    def contextual(words: tuple[str, ...]) -> list[int]:
        counts = [1] * len(words)
        for i in range(1, len(words)):
            if words[i] == "t0":  # in two pieces after some words and in one after others
                counts[i] = 1 + sum(map(ord, words[i - 1])) % 2
        return counts

    contexts = collect_contexts([fake(flat, pieces=contextual)], corpus, side=4, grid=4)
    assert "t0" not in contexts.words
    assert any("'t0' dropped" in note for note in contexts.notes)


def test_too_long_for_the_model_is_dropped_with_a_note(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    with pytest.raises(DataError):
        collect_contexts([fake(flat, max_pieces=10)], corpus, side=4, grid=4)
    assert len(collect_contexts([fake(flat, max_pieces=11)], corpus, side=4, grid=4).targets) == 10


def test_left_open_the_setting_goes_down_the_ladder(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    contexts = collect_contexts([fake(flat)], corpus)
    assert (contexts.side, contexts.grid) == (6, 8)
    assert "6 words per side and 8 x 8 contexts used: with 8 words" in contexts.notes[0]
    contexts = collect_contexts([fake(flat)], corpus[:100])
    assert (contexts.side, contexts.grid) == (6, 4)
    assert not collect_contexts([fake(flat)], corpus, side=6, grid=8).notes


def test_shortage_says_what_was_found_and_what_is_needed(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    with pytest.raises(DataError, match=r"0 found in 300 different sentences.* 8 words on both sides \(no word has"):
        collect_contexts([fake(flat)], corpus, side=8, grid=4)
    with pytest.raises(DataError, match="direction shares need at least 2 target words"):
        collect_contexts([fake(flat)], corpus[:5])


def test_content_words_come_in_turn(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    frequent = [words for words in corpus if words[6] in ("t0", "t1", "t2", "t3", "t4")]
    rarer = [words for words in corpus if words[6] not in ("t0", "t1", "t2", "t3", "t4")][:-30]
    text = frequent + rarer
    tags = [["NOUN" if word > "t4" else "DET" for word in words] for words in text]
    contexts = collect_contexts([fake(flat)], text, side=4, grid=4, targets=6, upos=tags)
    assert [target.word_class for target in contexts.targets] == ["function", "content"] * 3
    plain = collect_contexts([fake(flat)], text, side=4, grid=4, targets=6)
    assert len({"t5", "t6", "t7", "t8", "t9"} & set(plain.words)) == 3
    with pytest.raises(DataError, match=r"sentence 1: 1 tags for 13 words"):
        collect_contexts([fake(flat)], text, upos=[["X"], *tags[1:]])


def test_impossible_settings_are_refused(fake: Any, corpus: list[tuple[str, ...]]) -> None:
    model = fake(flat)
    for options in ({"side": 0}, {"grid": 1}, {"targets": 1}):
        with pytest.raises(UsageError, match="too small"):
            collect_contexts([model], corpus, **options)
    with pytest.raises(UsageError, match="different names"):
        collect_contexts([model, model], corpus)
    with pytest.raises(UsageError, match="at least one model"):
        collect_contexts([], corpus)
