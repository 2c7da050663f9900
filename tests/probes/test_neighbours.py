"""Neighbour probes on made-up models whose vectors hold exactly one neighbour, and on the reference ELMo and a real BERT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.foundation.results import COLUMNS
from extractors.representation import Alignment, ModelInfo
from probes import neighbour_probes
from probes.corpora import CorpusSentence, read_corpus
from probes.neighbours import MEASURES, OFFSETS, PROPERTIES, _collect

TAGS = ("ADJ", "DET", "NOUN", "VERB")
WORDS = [f"{tag.lower()}{number}" for tag in TAGS for number in range(6)]
"""24 words, six to a tag; all equally frequent and independent of each other, so a tag is worth two bits."""


def tag_of(word: str) -> str:
    return word.rstrip("0123456789").upper()


def sentences(count: int, split: str, length: int = 12) -> tuple[CorpusSentence, ...]:
    generator = generator_for("neighbour test", split)
    made = []
    for number in range(count):
        words = tuple(WORDS[i] for i in generator.integers(len(WORDS), size=length))
        columns = {
            "upos": tuple(map(tag_of, words)),
            "feats:Number": tuple(("Sing", "Plur")[int(w[-1]) % 2] if tag_of(w) == "NOUN" else None for w in words),
        }
        made.append(CorpusSentence(words=words, columns=columns, where=f"{split} {number + 1}"))
    return tuple(made)


@pytest.fixture(scope="module")
def splits() -> dict[str, tuple[CorpusSentence, ...]]:
    return {split: sentences(count, split) for split, count in (("train", 90), ("dev", 30), ("test", 60))}


def one_hot(value: str, values: Sequence[str]) -> np.ndarray:
    return np.array([float(value == other) for other in values])


class Neighbours(Extractor):
    """Layer 0: the word. Layer 1: `left` of the word before (forward half) and `right` of the word after (backward half)."""

    def __init__(
        self, left: Callable[[str], np.ndarray], right: Callable[[str], np.ndarray], name: str = "neighbours"
    ) -> None:
        self.sides = left, right
        half = len(left(WORDS[0]))
        self.info = ModelInfo(
            name=name,
            source=name,
            family="fake",
            weights="trained",
            layer_names=("words", "neighbours"),
            hidden_size=2 * half,
            directionality="concatenated",
            parts={"whole": slice(None), "forward": slice(0, half), "backward": slice(half, None)},
            dtype="float64",
        )

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        ends = range(1, len(words) + 2)
        alignment = Alignment(words, ("x",) * (len(words) + 2), tuple((a,) for a, _ in pairwise(ends)))
        return Prepared(alignment, (Window(0, len(words), (0, len(words)), len(words), words),))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        outputs = []
        for window in windows:
            words: tuple[str, ...] = window.payload
            left, right = self.sides
            own = np.stack([np.concatenate([left(word), right(word)]) for word in words])
            zero = np.zeros(len(left(words[0])))
            before = np.stack([zero, *(left(word) for word in words[:-1])])
            after = np.stack([*(right(word) for word in words[1:]), zero])
            hidden = np.stack([own, np.concatenate([before, after], axis=1)])
            outputs.append(WindowOutput(hidden[list(layers)]))
        return outputs


def by_tag(word: str) -> np.ndarray:
    return one_hot(tag_of(word), TAGS)


def by_word(word: str) -> np.ndarray:
    return one_hot(word, WORDS)


def nothing(word: str) -> np.ndarray:
    return np.zeros(len(TAGS))


OPTIONS: dict[str, Any] = {"offsets": range(-2, 3), "resamples": 200, "penalties": (1.0, 0.1, 1e-2, 1e-3, 1e-4)}


def test_each_half_tells_two_bits_of_its_own_neighbour_and_nothing_of_others(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    result = neighbour_probes(Neighbours(by_tag, by_tag), splits, properties=("upos",), control=False, **OPTIONS)
    told = {"whole": {-1, 1}, "forward": {-1}, "backward": {1}}
    for part, known in told.items():
        found = result.interval(1, part)
        for k in (-2, -1, 0, 1, 2):
            bits, right = found["neighbour_bits", k], found["neighbour_accuracy", k]
            if k in known:
                assert bits.value[0] == pytest.approx(2, abs=0.03), (part, k)
                assert right.value[0] == 1
            else:
                assert bits.high[0] < 0.02, (part, k)
                assert right.value[0] < 0.4
    static = result.interval(0)
    assert static["neighbour_bits", 0].value[0] == pytest.approx(2, abs=0.03)
    assert ("neighbour_gain", 0) not in static
    found = result.interval(1)
    gain = found["neighbour_gain", -1].value[0]
    assert gain == pytest.approx(
        found["neighbour_bits", -1].value[0] - static["neighbour_bits", -1].value[0], abs=1e-12
    )
    assert gain > 1.9
    assert found["neighbour_gain", 0].value[0] == pytest.approx(-2, abs=0.1)


def test_sides_and_asymmetry(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    only_left = neighbour_probes(Neighbours(by_tag, nothing), splits, properties=("upos",), control=False, **OPTIONS)
    found = only_left.interval(1)
    assert found["neighbour_bits_left", None].value[0] == pytest.approx(
        sum(found["neighbour_bits", k].value[0] for k in (-2, -1)), abs=1e-12
    )
    assert found["neighbour_bits_left", None].value[0] == pytest.approx(2, abs=0.1)
    assert abs(found["neighbour_bits_right", None].value[0]) < 0.1
    assert found["neighbour_asymmetry", None].high[0] < -1.9
    both = neighbour_probes(
        Neighbours(by_tag, by_tag), splits, properties=("upos",), control=False, **OPTIONS
    ).interval(1)
    balance = both["neighbour_asymmetry", None]
    assert balance.low[0] < 0 < balance.high[0] or abs(balance.value[0]) < 0.05
    lopsided = neighbour_probes(
        Neighbours(by_tag, by_tag), splits, properties=("upos",), control=False, **{**OPTIONS, "offsets": (-2, -1, 1)}
    )
    assert ("neighbour_asymmetry", None) not in lopsided.interval(1)
    assert ("neighbour_bits_right", None) in lopsided.interval(1)


def test_control_task_is_read_from_identity_and_not_from_tags(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    options = {**OPTIONS, "offsets": (-1,)}
    tags = neighbour_probes(Neighbours(by_tag, by_tag), splits, properties=("upos",), **options).interval(1)
    words = neighbour_probes(Neighbours(by_word, by_word), splits, properties=("upos",), **options).interval(1)
    for found in (tags, words):
        assert found["neighbour_accuracy", -1].value[0] == 1
        difference = found["neighbour_accuracy", -1].value[0] - found["control", -1].value[0]
        assert found["neighbour_selectivity", -1].value[0] == pytest.approx(difference, abs=1e-12)
    assert tags["control", -1].value[0] < 0.6
    assert words["control", -1].value[0] == 1
    assert words["neighbour_selectivity", -1].value[0] == 0


def test_word_identity_and_number(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    result = neighbour_probes(
        Neighbours(by_word, by_word),
        splits,
        properties=("word", "feats:Number"),
        frequent=8,
        control=False,
        layers="1",
        **OPTIONS,
    )
    # Eight words of nearly equal frequency are worth nearly three bits, the number of a noun one.
    assert result.interval(1, name="word")["neighbour_bits", 1].value[0] == pytest.approx(3, abs=0.1)
    assert result.interval(1, name="feats:Number")["neighbour_bits", -1].value[0] == pytest.approx(1, abs=0.1)
    assert result.interval(1, name="feats:Number")["neighbour_bits", 2].high[0] < 0.03
    assert not any(measure == "neighbour_gain" for measure, _ in result.interval(1, name="word"))


def test_rows_follow_the_schema(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    result = neighbour_probes(Neighbours(by_tag, by_tag), splits, properties=("upos",), data="made up", **OPTIONS)
    frame = result.to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert not frame.duplicated(["layer", "part", "measure", "task", "condition", "offset"]).any()
    assert set(frame["measure"]) == set(MEASURES)
    sides = frame[frame["offset"].isna()]
    assert set(sides["length"]) == {2}
    assert set(sides["measure"]) == {m for m in MEASURES if m.endswith(("left", "right", "asymmetry"))}
    assert frame.loc[frame["offset"].notna(), "length"].isna().all()
    assert set(frame["n"]) == {60}
    assert (frame["low"] <= frame["value"] + 1e-12).all()
    assert (frame["value"] <= frame["high"] + 1e-12).all()
    assert set(frame.loc[frame["condition"] == "control", "measure"]) == {"neighbour_accuracy"}
    assert result.plot().axes
    with pytest.raises(UsageError, match="nothing was measured at layer 1, part 'whole', property 'xpos'"):
        result.interval(1, name="xpos")


def test_vectors_may_come_from_elsewhere_and_batches_do_not_matter(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    model = Neighbours(by_tag, by_tag)
    options = {**OPTIONS, "offsets": (-1, 1), "properties": ("upos",), "train_words": 300}
    result = neighbour_probes(model, splits, **options)
    again = neighbour_probes(model, splits, batch_size=3, **options)

    def vectors(layer: int, part: str, split: str) -> np.ndarray:
        words = [sentence.words for sentence in splits[split]]
        hidden = np.concatenate([item.hidden[layer] for item in model.extract(words)])
        return hidden[:, model.info.parts[part]]

    given = neighbour_probes(model, splits, vectors=vectors, **options)
    assert result.rows() == again.rows()
    for key, sums in result.statistics.items():
        assert np.allclose(sums, given.statistics[key], atol=1e-9)
    other = neighbour_probes(model, splits, seed=1, **options)
    assert not np.array_equal(other.statistics[1, "whole", "upos"], result.statistics[1, "whole", "upos"])
    with pytest.raises(DataError, match=r"layer 0 \(whole\) of neighbours, train: vectors have shape"):
        neighbour_probes(model, splits, vectors=lambda *_: np.zeros((3, 2)), **options)


def test_intervals_shrink_with_the_number_of_sentences(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    """A noisy neighbour: four times the test sentences, half the interval."""

    def noisy(word: str) -> np.ndarray:
        return by_tag(word if int(word[-1]) < 3 else "noun0")

    widths = []
    for count in (30, 120):
        more = {**splits, "test": sentences(count, "more")}
        options = {**OPTIONS, "offsets": (-1,), "resamples": 1000}
        one = neighbour_probes(
            Neighbours(noisy, noisy), more, properties=("upos",), control=False, layers="1", **options
        )
        interval = one.interval(1)["neighbour_bits", -1]
        widths.append(interval.high[0] - interval.low[0])
    assert 1.4 < widths[0] / widths[1] < 2.8


def test_what_the_data_do_not_allow_is_left_out_and_said(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    model = Neighbours(by_tag, by_tag)
    short = {split: tuple(sentences(20, split, length=3)) for split in splits}
    result = neighbour_probes(
        model, short, properties=("upos", "xpos"), control=False, **{**OPTIONS, "offsets": range(-3, 4)}
    )
    assert result.offsets == {"upos": (-2, -1, 0, 1, 2)}
    assert [note[:60] for note in result.notes[:2]] == [
        "neighbour property upos is left out at offsets -3, 3: too few"[:60],
        "neighbour property xpos is left out at offsets -3, -2, -1, 0, 1, 2, 3"[:60],
    ]
    assert len(result.notes) == 3
    with pytest.raises(DataError, match="none of the properties xpos can be probed"):
        neighbour_probes(model, short, properties=("xpos",), **OPTIONS)


def test_what_the_settings_leave_out_of_the_full_measure_is_said(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    few = {split: sentences[:12] for split, sentences in splits.items()}
    common: dict[str, Any] = {"layers": "0", "penalties": (0.1,), "resamples": 10}
    small = neighbour_probes(
        Neighbours(by_tag, by_tag), few, properties=("upos",), offsets=range(-4, 5), control=False, **common
    )
    assert small.notes == (
        "of the full measure the settings leave out the properties feats:Number, word; the offsets -5, 5; "
        "the control task (so there is no selectivity)",
    )
    nearer = neighbour_probes(
        Neighbours(by_tag, by_tag), few, properties=(*PROPERTIES, "xpos"), offsets=OFFSETS[:-1], **common
    )
    assert nearer.notes[-1] == "of the full measure the settings leave out the offset 5"
    assert not any("full measure" in n for n in neighbour_probes(Neighbours(by_tag, by_tag), few, **common).notes)


def test_the_pairs_drawn_for_an_offset_are_those_of_the_opposite_one(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    pairs, _ = _collect(splits, ("upos",), (-3, -2, 2, 3), 200, 50, False, 0)
    drawn = {k: pairs["upos"][k].items["train"] for k in (-3, -2, 2, 3)}
    for k in (2, 3):
        assert len(drawn[k].rows) == 200
        # The word at t asked about t + k, the one at t + k about t.
        np.testing.assert_array_equal(drawn[-k].rows, drawn[k].rows + k)
        np.testing.assert_array_equal(drawn[-k].sentence, drawn[k].sentence)
    assert not np.array_equal(drawn[2].rows, drawn[3].rows)
    other, _ = _collect(splits, ("upos",), (2,), 200, 50, False, 1)
    assert not np.array_equal(other["upos"][2].items["train"].rows, drawn[2].rows)


class Sink(Neighbours):
    """The first word, unless a start token is before it, has a vector a thousand times as long, in one direction."""

    def with_sentence_start(self) -> Extractor:
        started = Neighbours(*self.sides)
        started.info = replace(started.info, note="read with a start token")
        return started

    def _forward(self, windows: Sequence[Window], **options: Any) -> list[WindowOutput]:
        outputs = super()._forward(windows, **options)
        for output in outputs:
            output.hidden[:, 0] = 1000
        return outputs


def test_a_first_word_that_serves_as_sink_is_read_behind_a_start_token(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    options: dict[str, Any] = {**OPTIONS, "offsets": (-1, 1), "properties": ("upos",), "control": False, "layers": "1"}
    plain = neighbour_probes(Neighbours(by_tag, by_tag), splits, **options)
    behind = neighbour_probes(Sink(by_tag, by_tag), splits, **options)
    bare = neighbour_probes(Sink(by_tag, by_tag), splits, sentence_start=False, **options)
    for key, sums in plain.statistics.items():
        np.testing.assert_array_equal(behind.statistics[key], sums)
    assert behind.notes[-1] == "read with a start token, as its first word would else serve as attention sink"
    assert behind.info.note == "read with a start token"
    assert not any("sink" in note for note in (*plain.notes, *bare.notes))
    # Standardised with the sink among them, all other words are nearly alike.
    lost = plain.interval(1)["neighbour_bits", -1].low[0] - bare.interval(1)["neighbour_bits", -1].high[0]
    assert lost > 0.5


@pytest.fixture(scope="module")
def treebank(shared_data: Path) -> dict[str, tuple[CorpusSentence, ...]]:
    """Short sentences of a treebank, of many lengths, so that batches are padded."""
    corpus = read_corpus(shared_data / "ud" / "en_ewt" / "en_ewt-ud-dev.conllu")
    chosen = [sentence for sentence in corpus.sentences if 4 <= len(sentence.words) <= 16]
    return {"train": tuple(chosen[:100]), "dev": tuple(chosen[100:140]), "test": tuple(chosen[140:220])}


@pytest.mark.parametrize("model", ["elmo_reference", "minilm_path"])
def test_real_networks_give_bits_with_intervals_whatever_the_batch(
    model: str, treebank: dict[str, tuple[CorpusSentence, ...]], request: pytest.FixtureRequest
) -> None:
    extractor = load_extractor(request.getfixturevalue(model), dtype="float64")
    options: dict[str, Any] = {
        "properties": ("upos",),
        "offsets": (-1, 0, 1),
        "layers": (0, extractor.info.layers[-2]),
        "penalties": (0.1,),
        "train_words": 500,
        "control": False,
        "resamples": 100,
    }
    one, eight = (neighbour_probes(extractor, treebank, batch_size=size, **options) for size in (1, 8))
    assert len({len(sentence.words) for sentence in treebank["test"]}) > 8
    numbers = ["value", "low", "high"]
    frames = [result.to_frame() for result in (one, eight)]
    np.testing.assert_allclose(frames[0][numbers], frames[1][numbers], atol=1e-5)
    assert np.isfinite(frames[0][numbers]).all(axis=None)
    assert (frames[0]["low"] < frames[0]["high"]).all()
    layer = extractor.info.layers[-2]
    for part in extractor.info.parts:
        found = one.interval(layer, part)
        # The forward half of ELMo among them: it has not read the next word, and its bits about it are reported.
        for k in (-1, 0, 1):
            bits = found["neighbour_bits", k]
            assert bits.low[0] < bits.value[0] < bits.high[0]
            assert bits.n == len(treebank["test"])
    whole = one.interval(layer)
    assert whole["neighbour_bits", 0].low[0] > 0.5
    if model == "minilm_path":
        assert whole["neighbour_gain_left", None].low[0] > 0


def test_labels_that_train_lacks_have_no_bits_and_count_as_errors(
    splits: dict[str, tuple[CorpusSentence, ...]],
) -> None:
    test = tuple(
        CorpusSentence(
            words=s.words, columns={"upos": tuple("X" if w == "noun0" else tag_of(w) for w in s.words)}, where=s.where
        )
        for s in splits["test"]
    )
    options = {**OPTIONS, "offsets": (-1,)}
    found = neighbour_probes(
        Neighbours(by_tag, by_tag), {**splits, "test": test}, properties=("upos",), control=False, layers="1", **options
    ).interval(1)
    share = np.mean([w == "noun0" for s in test for w in s.words[:-1]])
    assert found["neighbour_accuracy", -1].value[0] == pytest.approx(1 - share, abs=1e-12)
    assert found["neighbour_bits", -1].value[0] == pytest.approx(2, abs=0.05)


def test_wrong_options_are_refused(splits: dict[str, tuple[CorpusSentence, ...]]) -> None:
    model = Neighbours(by_tag, by_tag)
    for options, message in (
        ({"properties": "upos"}, "not a list of names"),
        ({"offsets": ()}, "no offset given"),
        ({"parts": ("upper",)}, "no part upper"),
        ({"train_words": 1}, "train_words=1"),
        ({"frequent": 1}, "frequent=1"),
    ):
        with pytest.raises(UsageError, match=message):
            neighbour_probes(model, splits, **{**OPTIONS, **options})
    with pytest.raises(DataError, match="no sentences for dev"):
        neighbour_probes(model, {**splits, "dev": ()}, **OPTIONS)
