"""The bundled contexts are what their README says, and keep their lengths in the pieces of whatever model is given."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.contexts import PieceCounts, piece_counts
from analyses.direction_shares import direction_shares
from extractors import load_extractor
from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import DataError, UsageError
from extractors.representation import Alignment, ModelInfo
from studies.bundled_contexts import bundled_contexts

FOLDER = files("studies") / "data"
BUNDLE: dict[str, Any] = json.loads((FOLDER / "contexts.json").read_text(encoding="utf-8"))
TARGETS: list[dict[str, Any]] = BUNDLE["targets"]

# Fixtures that give the folder of a model whose tokenizer must read every part with one length.
TOKENIZERS = ["minilm_path"]


class Toy(Extractor):
    """A model with a special piece at each end whose word vectors are sums of what stands left and right.

    `split` says how many pieces a word has.
    """

    def __init__(self, split: Callable[[str], int], *, name: str = "toy", max_pieces: int | None = None) -> None:
        self.split = split
        self.info = ModelInfo(
            name=name,
            source="toy",
            family="toy",
            weights="trained",
            layer_names=("layer 0", "layer 1"),
            hidden_size=4,
            directionality="concatenated",
            max_pieces=max_pieces,
            dtype="float64",
        )

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        spans, start = [], 1
        for word in words:
            spans.append(tuple(range(start, start + self.split(word))))
            start += self.split(word)
        pieces = tuple("x" * (start + 1))
        alignment = Alignment(words=words, pieces=pieces, word_pieces=tuple(spans))
        return Prepared(alignment, (Window(0, len(words), (0, len(words)), len(words), words),))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        outputs = []
        for window in windows:
            own = np.array([[hash_of(word, axis) for axis in range(4)] for word in window.payload])
            left, right = np.cumsum(own, axis=0) - own, np.cumsum(own[::-1], axis=0)[::-1] - own
            outputs.append(WindowOutput(np.stack([own, own + left + 2 * right])[list(layers)]))
        return outputs


def hash_of(word: str, axis: int) -> float:
    return (sum((place + 3) ** (axis + 2) * ord(letter) for place, letter in enumerate(word)) % 997) / 997


def parts() -> list[tuple[str, str, str]]:
    return [(target["word"], side, part) for target in TARGETS for side in ("left", "right") for part in target[side]]


def test_as_many_targets_and_parts_as_promised() -> None:
    classes = Counter(target["word_class"] for target in TARGETS)
    assert classes.keys() == {"content", "function"}
    assert min(classes.values()) >= 20
    assert len({target["word"] for target in TARGETS}) == len(TARGETS) >= 40
    assert {"NOUN", "VERB", "ADJ", "ADV"} <= {t["upos"] for t in TARGETS if t["word_class"] == "content"}
    for target in TARGETS:
        for side in ("left", "right"):
            assert len(set(target[side])) == len(target[side]) == 24, target["word"]


def test_parts_have_one_length_and_the_looks_of_half_a_sentence() -> None:
    for _, side, part in parts():
        words = part.split(" ")
        assert len(words) == BUNDLE["side"], part
        assert all(re.fullmatch(r"[A-Za-z]+|[.,]", word) for word in words), part
        if side == "left":
            assert part[0].isupper(), part
            assert words[0].isalpha()
            assert words[-1] != ".", part
        else:
            assert words[-1] == ".", part
            assert not words[0][0].isupper() or words[0] in {"George", "London", "Rome", "I"}, part


def test_parts_differ_within_a_target_and_over_targets() -> None:
    assert max(Counter(part for _, _, part in parts()).values()) <= 3
    for target in TARGETS:
        for side in ("left", "right"):
            for one, other in combinations(target[side], 2):
                assert len(set(one.split()) - set(other.split())) >= 2, (one, other)
            overlap = [len(set(a.split()) & set(b.split())) / 6 for a, b in combinations(target[side], 2)]
            assert np.mean(overlap) < 0.4, (target["word"], side)


def test_no_article_disagrees_with_what_follows() -> None:
    # Both within parts and over the seam: "a" before a consonant, "an" before a vowel or a silent h.
    for target in TARGETS:
        for left, right in product(target["left"], target["right"]):
            words = [*left.split(), target["word"], *right.split()]
            for article, word in pairwise(words):
                if article.lower() in {"a", "an"}:
                    vowel = word[0].lower() in "aeiou" or word.startswith(("honest", "honor", "hour"))
                    assert (article.lower() == "an") == vowel, " ".join(words)


@pytest.fixture(scope="module", params=TOKENIZERS)
def model(request: pytest.FixtureRequest) -> Extractor:
    folder: Path = request.getfixturevalue(request.param)
    return load_extractor(str(folder))


def test_every_part_has_one_length_in_the_models_at_hand(model: Extractor) -> None:
    for target in TARGETS:
        pairs = [(left, target["right"][0]) for left in target["left"]]
        pairs += [(target["left"][0], right) for right in target["right"]]
        sentences = [[*left.split(), target["word"], *right.split()] for left, right in pairs]
        counts = {piece_counts(item, 6) for item in model.align(sentences)}
        assert counts == {PieceCounts(7, 1, 7)}, target["word"]  # one special piece at each end


def test_every_target_is_kept_by_the_models_at_hand(model: Extractor) -> None:
    contexts = bundled_contexts([model], grid=3)
    assert contexts.words == tuple(target["word"] for target in TARGETS)
    assert contexts.notes == ()


def test_all_parts_are_given_when_no_grid_is_asked_for() -> None:
    contexts = bundled_contexts([Toy(lambda word: 1)])
    assert (contexts.side, contexts.grid) == (6, 24)
    for target, entry in zip(contexts.targets, TARGETS, strict=True):
        assert [" ".join(part) for part in target.left] == entry["left"]
        assert [" ".join(part) for part in target.right] == entry["right"]
        assert len(set(target.sentences())) == 24 * 24


def test_lengths_stay_constant_where_words_are_split() -> None:
    models = [
        Toy(lambda word: 1 + (len(word) > 6), name="long words"),
        Toy(lambda word: 1 + ("oo" in word), name="double o"),
    ]
    contexts = bundled_contexts(models, grid=8)
    assert contexts.models == ("long words", "double o")
    assert 20 <= len(contexts.targets) <= len(TARGETS)
    split = 0
    for target in contexts.targets:
        assert len(target.left) == len(target.right) == 8
        for model in models:
            seen = {piece_counts(item, target.position) for item in model.align(target.sentences())}
            assert seen == {target.pieces[model.info.name]}
            split += target.pieces[model.info.name].before > 7
    assert split  # some grids do hold split words: parts are chosen by length, not by being whole


def test_a_strict_grid_drops_targets_and_says_so() -> None:
    contexts = bundled_contexts([Toy(lambda word: 1 + (word in {"king", "doctor"}))])
    missing = {target["word"] for target in TARGETS} - set(contexts.words)
    hit = {word for word, _, part in parts() if {"king", "doctor"} & set(part.split())}
    assert missing == hit
    (note,) = contexts.notes
    assert note.startswith(f"{len(hit)} bundled target words dropped")
    assert all(word in note for word in hit)


def test_what_cannot_be_constant_or_read_is_refused() -> None:
    with pytest.raises(DataError, match="2 are needed; give a smaller grid"):
        bundled_contexts([Toy(lambda word: 1 + len(word) % 3)])
    with pytest.raises(DataError, match="0 of 44"):
        bundled_contexts([Toy(lambda word: 1, max_pieces=14)])
    assert len(bundled_contexts([Toy(lambda word: 1, max_pieces=15)], grid=2).targets) == len(TARGETS)


def test_parts_are_drawn_by_seed_alone() -> None:
    model = Toy(lambda word: 1)
    first, same, other = (bundled_contexts([model], grid=4, seed=seed) for seed in (0, 0, 1))
    assert first == same
    assert first.seed == 0
    assert sum(a.left != b.left for a, b in zip(first.targets, other.targets, strict=True)) > 30
    for target, entry in zip(first.targets, TARGETS, strict=True):
        assert {" ".join(part) for part in target.left} < set(entry["left"])


def test_few_targets_hold_function_and_content_words() -> None:
    contexts = bundled_contexts([Toy(lambda word: 1)], grid=2, targets=10)
    assert Counter(target.word_class for target in contexts.targets) == {"function": 5, "content": 5}


@pytest.mark.parametrize("options", [{"grid": 1}, {"grid": 25}, {"grid": 0}, {"targets": 1}, {"targets": 45}])
def test_numbers_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"give 2 to \d\d"):
        bundled_contexts([Toy(lambda word: 1)], **options)


def test_models_need_names_of_their_own() -> None:
    model = Toy(lambda word: 1)
    for models in ([], [model, model]):
        with pytest.raises(UsageError, match="at least one model"):
            bundled_contexts(models)


def test_direction_shares_take_them() -> None:
    model = Toy(lambda word: 1)
    contexts = bundled_contexts([model], grid=4, targets=6)
    shares = direction_shares(model, [("a", "few", "words"), ("of", "some", "corpus")], contexts=contexts, resamples=20)
    left, right, interaction, _ = shares.interval(1).value
    assert left > 0.05
    assert right > left  # the right side counts twice in the toy
    assert abs(interaction) < 1e-12


def test_readme_gives_the_numbers() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    classes = Counter(target["word_class"] for target in TARGETS)
    assert f"{len(TARGETS)} target words, {classes['content']} content and {classes['function']} function" in readme
