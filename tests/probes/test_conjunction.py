"""Conjunction probe: parity out of a linear reader's reach for sums, one bit for products; and the four kinds of models."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.foundation.results import COLUMNS
from extractors.representation import Alignment, ModelInfo
from probes import conjunction_probe, read_cues
from probes.conjunction import MEASURES, TASKS, ConjunctionProbe
from probes.controlled import LABELS
from probes.perceptron import cross_entropies, read_with_perceptron

AND_ENTROPY = 2 - 0.75 * np.log2(3)
"""Of a label that is 1 in a quarter of the cases: .811 bits."""


def vectors(kind: str, items: int, split: str, dim: int = 48, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Items of four: something of the item, plus what `kind` makes of the two cues in directions of their own."""
    generator = generator_for("item", kind, split)
    directions = generator_for("directions").standard_normal((3, dim))
    cues = np.array(list(product((0, 1), repeat=2)) * items)
    left, right = (2.0 * cues - 1).T[:, :, None]
    item = np.repeat(noise * generator.standard_normal((items, dim)), 4, axis=0)
    parts = {
        "nothing": 0 * left,
        "left": left * directions[0],
        "sum": left * directions[0] + right * directions[1],
        "product": left * right * directions[2],
        "both": left * directions[0] + right * directions[1] + left * right * directions[2],
    }
    labels = np.stack([cues[:, 0], cues[:, 1], cues[:, 0] & cues[:, 1], cues[:, 0] ^ cues[:, 1]], axis=1)
    return item + parts[kind], labels


def bits(kind: str, **options: Any) -> dict[str, dict[str, np.ndarray]]:
    """Probe -> label -> bits gained per test sentence."""
    sizes = {"train": 60, "dev": 25, "test": 60}
    made = {split: vectors(kind, items, split) for split, items in sizes.items()}
    read = read_cues(
        {split: one for split, (one, _) in made.items()},
        {split: labels for split, (_, labels) in made.items()},
        **options,
    )
    return {probe: dict(zip(LABELS, sums[:, :, 0].T, strict=True)) for probe, sums in read.items()}


def test_additive_vectors_hold_no_linear_parity_and_the_perceptron_reads_it() -> None:
    found = bits("sum")
    linear = {label: float(one.mean()) for label, one in found["linear"].items()}
    # Not small: zero. On balanced items the loss of an additive vector is flat at weight zero, in the sample itself.
    assert np.abs(found["linear"]["xor"]).max() < 1e-9
    assert linear["left"] > 0.95
    assert linear["right"] > 0.95
    assert AND_ENTROPY - 0.08 < linear["and"] <= AND_ENTROPY
    assert all(found["mlp"][label].mean() > 0.95 for label in ("left", "right", "xor"))
    assert AND_ENTROPY - 0.05 < found["mlp"]["and"].mean() <= AND_ENTROPY


def test_product_vectors_hold_one_linear_bit_of_parity_and_nothing_of_either_cue() -> None:
    found = bits("product")
    assert 0.95 < found["linear"]["xor"].mean() <= 1
    assert found["mlp"]["xor"].mean() > 0.95
    for label in ("left", "right"):
        assert np.abs(found["linear"][label]).max() < 1e-9
        assert found["mlp"][label].mean() < 0.02
    # AND is 1 in a quarter; given the parity it is left open in half of the cases.
    assert 0.25 < found["linear"]["and"].mean() < AND_ENTROPY - 0.5 + 0.02


def test_all_terms_and_none() -> None:
    found = bits("both")["linear"]
    assert all(found[label].mean() > 0.95 for label in ("left", "right", "xor"))
    assert AND_ENTROPY - 0.05 < found["and"].mean() <= AND_ENTROPY
    for of_label in bits("nothing").values():
        assert all(abs(one.mean()) < 0.02 for one in of_label.values())
    left = bits("left")["linear"]
    assert left["left"].mean() > 0.95
    # Half the conjunction: where the left cue is 0 it is known to be 0.
    assert left["and"].mean() == pytest.approx(AND_ENTROPY - 0.5, abs=0.03)
    assert abs(left["right"].mean()) < 0.02


def test_a_weak_interaction_is_not_lost() -> None:
    """Parity at a tenth of the cues' size is read from few sentences once its noise allows."""
    made = {
        split: vectors("sum", items, split, noise=0.05) for split, items in (("train", 80), ("dev", 30), ("test", 80))
    }
    direction = generator_for("directions").standard_normal((3, 48))[2]
    mixed = {split: one + 0.1 * (1 - 2 * labels[:, [3]]) * direction for split, (one, labels) in made.items()}
    read = read_cues(mixed, {split: labels for split, (_, labels) in made.items()}, probes=("linear",))
    assert read["linear"][:, 3, 0].mean() > 0.8


def test_a_weak_interaction_is_not_lost_beside_large_differences_of_items() -> None:
    """Vectors of a model differ most in directions that have nothing to do with the cues; under strong penalties the parity, at a
    twenty-fifth of the cues' size, is worth less than a rough fit sees, and the path must go on to weaker ones."""
    directions = np.random.default_rng(0).standard_normal((15, 128))
    made, labels = {}, {}
    for number, (split, items) in enumerate((("train", 48), ("dev", 16), ("test", 40))):
        generator = np.random.default_rng(number + 1)
        cues = np.tile(list(product((0, 1), repeat=2)), (items, 1))
        left, right = (2.0 * cues - 1).T[:, :, None]
        item = generator.standard_normal((items, 12)) @ directions[3:] + 0.1 * generator.standard_normal((items, 128))
        mixed = 0.5 * (left * directions[0] + right * directions[1]) + 0.02 * left * right * directions[2]
        made[split] = np.repeat(item, 4, axis=0) + mixed + 0.01 * generator.standard_normal((4 * items, 128))
        labels[split] = np.stack([*cues.T, cues[:, 0] & cues[:, 1], cues[:, 0] ^ cues[:, 1]], axis=1)
    read = read_cues(made, labels, probes=("linear",))
    assert read["linear"][:, 3, 0].mean() > 0.2


def test_vectors_that_are_not_finite_are_refused() -> None:
    one, labels = vectors("sum", 4, "train")
    bad = one.copy()
    bad[0, 0] = np.nan
    with pytest.raises(DataError, match="vectors of dev hold NaN"):
        read_cues({"train": one, "dev": bad, "test": one}, dict.fromkeys(("train", "dev", "test"), labels))


def test_perceptron_starts_at_the_prior_and_stops_where_dev_is_best() -> None:
    generator = np.random.default_rng(0)
    train, dev, test = (generator.standard_normal((n, 10)) for n in (80, 60, 30))
    labels = np.stack([train[:, 0] > 0.5, generator.random(80) < 0.3], axis=1).astype(int)
    dev_labels = np.stack([dev[:, 0] > 0.5, generator.random(60) < 0.3], axis=1).astype(int)
    read = read_with_perceptron(train, labels, dev, dev_labels, test, seed=1)
    again = read_with_perceptron(train, labels, dev, dev_labels, test, seed=1)
    assert np.array_equal(read.logits, again.logits)
    assert not np.array_equal(read.logits, read_with_perceptron(train, labels, dev, dev_labels, test, seed=2).logits)
    prior = np.log(labels.mean(axis=0) / (1 - labels.mean(axis=0)))
    at_prior = cross_entropies(np.tile(prior, (60, 1)), dev_labels)
    assert read.steps[0] > 0
    assert read.dev_cross_entropy[0] < 0.6 * at_prior[0]
    assert (np.array(read.dev_cross_entropy) <= at_prior + 1e-6).all()
    nothing = read_with_perceptron(0 * train, labels, 0 * dev, 1 - labels[:60], 0 * test, seed=1)
    # Rounding noise may carry the biases a little; nothing else can.
    assert np.allclose(nothing.logits, prior, atol=2e-3)
    with pytest.raises(UsageError, match="needs both labels"):
        read_with_perceptron(train, 0 * labels, dev, dev_labels, test)
    with pytest.raises(UsageError, match="hidden=0"):
        read_with_perceptron(train, labels, dev, dev_labels, test, hidden=0)


@cache
def word_vector(side: str, word: str, dim: int = 24) -> np.ndarray:
    return generator_for("vector", side, word).standard_normal(dim) * (
        3 if word in ("never", "nobody", "No", "no") else 1
    )


class SidesExtractor(Extractor):
    """Layer 0: the word. Layer 1: the sums over its left and over its right side, side by side. Layer 2: also their product."""

    def __init__(self, name: str = "sides", pieces: Callable[[str], int] = lambda word: 1) -> None:
        self.pieces = pieces
        self.info = ModelInfo(
            name=name,
            source=name,
            family="fake",
            weights="trained",
            layer_names=("words", "concatenated", "multiplied"),
            hidden_size=48,
            directionality="bidirectional",
            parts={"whole": slice(None), "forward": slice(0, 24), "backward": slice(24, None)},
            dtype="float64",
        )

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        ends = np.cumsum([1, *(self.pieces(word) for word in words)])
        spans = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
        alignment = Alignment(words, tuple("x" for _ in range(ends[-1] + 1)), spans)
        return Prepared(alignment, (Window(0, len(words), (0, len(words)), len(words), words),))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        outputs = []
        for window in windows:
            words: tuple[str, ...] = window.payload
            own = np.stack([np.tile(word_vector("own", word), 2) for word in words])
            sides = np.stack([self._sides(words, t) for t in range(len(words))])
            cues = [np.array([[self._cue(words[:t]) * self._cue(words[t + 1 :])] for t in range(len(words))])]
            hidden = np.stack([own, sides, sides + 4 * cues[0] * word_vector("both", "", 48)])
            outputs.append(WindowOutput(hidden[list(layers)]))
        return outputs

    @staticmethod
    def _cue(words: tuple[str, ...]) -> int:
        return -1 if {"never", "nobody", "Nobody", "No", "None", "no", "without"} & set(words) else 1

    def _sides(self, words: tuple[str, ...], t: int) -> np.ndarray:
        left = [2 * self._cue(words[:t]) * word_vector("cue", "left"), *(word_vector("left", w) for w in words[:t])]
        right = [
            2 * self._cue(words[t + 1 :]) * word_vector("cue", "right"),
            *(word_vector("right", w) for w in words[t + 1 :]),
        ]
        return np.concatenate([np.sum(left, axis=0), np.sum(right, axis=0)])


SIZES = {"train_items": 24, "dev_items": 12, "test_items": 20, "resamples": 100}


@pytest.fixture(scope="module")
def measured() -> ConjunctionProbe:
    return conjunction_probe(SidesExtractor(), cue_types=("polarity",), **SIZES)


def test_layers_and_halves_of_a_model(measured: ConjunctionProbe) -> None:
    found = {
        key: {label: (one.value[row, 0], one.low[row, 0], one.high[row, 0]) for row, label in enumerate(LABELS)}
        for key, one in measured.intervals().items()
    }
    assert {key[:2] for key in found} == {(0, "whole")} | set(product((1, 2), ("whole", "forward", "backward")))
    # The word itself, the same in all four sentences of an item.
    assert all(abs(value) < 1e-9 for probe in ("linear", "mlp") for value, *_ in [found[0, "whole", probe]["xor"]])
    one = {part: found[1, part, "linear"] for part in ("whole", "forward", "backward")}
    for part in one:
        assert max(map(abs, one[part]["xor"])) < 1e-9
    assert one["whole"]["left"][1] > 0.3
    assert one["whole"]["right"][1] > 0.3
    assert one["whole"]["and"][1] > 0.2
    assert one["forward"]["left"][1] > 0.3
    assert abs(one["forward"]["right"][0]) < 1e-9
    assert abs(one["backward"]["left"][0]) < 1e-9
    assert one["backward"]["right"][1] > 0.3
    assert found[1, "whole", "mlp"]["xor"][1] > 0.1
    assert found[2, "whole", "linear"]["xor"][1] > 0.8


def test_rows_follow_the_schema(measured: ConjunctionProbe) -> None:
    frame = measured.to_frame()
    assert list(frame.columns) == list(COLUMNS)
    keys = ["layer", "part", "measure", "task", "probe", "condition"]
    assert not frame.duplicated(keys).any()
    assert set(frame["measure"]) == set(MEASURES)
    assert set(frame["task"]) == set(TASKS)
    assert set(frame["condition"]) == {"polarity"}
    assert set(frame["n"]) == {20}
    assert (frame["low"] <= frame["value"]).all()
    assert (frame["value"] <= frame["high"]).all()
    accuracy = frame[(frame["measure"] == "conjunction_accuracy") & (frame["layer"] == 2) & (frame["part"] == "whole")]
    assert accuracy.loc[accuracy["task"] == "cues:xor", "value"].min() > 0.95
    assert measured.plot().axes


def test_unit_sums_are_what_the_intervals_are_made_of(measured: ConjunctionProbe) -> None:
    sums = measured.unit_sums(2, "xor")
    assert sums.shape == (20, 2)
    assert (sums[:, 1] == 4).all()
    assert len(measured.units) == 20
    value = measured.intervals()[2, "whole", "linear"].value[3, 0]
    assert sums[:, 0].sum() / sums[:, 1].sum() == pytest.approx(value, rel=1e-12)
    with pytest.raises(UsageError, match="no 'xor' at layer 9"):
        measured.unit_sums(9)


def test_cue_types_are_probed_apart_and_joined() -> None:
    kinds = ("polarity", "coreference")
    result = conjunction_probe(
        SidesExtractor(), cue_types=kinds, layers="2", parts=("whole",), mlp_layers=None, **SIZES
    )
    frame = result.to_frame()
    assert set(frame["condition"].dropna()) == set(kinds)
    assert set(frame["n"]) == {20, 40}
    assert set(frame["probe"]) == {"linear"}
    apart = [result.intervals(kind)[2, "whole", "linear"].value for kind in kinds]
    assert np.allclose(result.intervals()[2, "whole", "linear"].value, np.mean(apart, axis=0))
    alone = conjunction_probe(
        SidesExtractor(), cue_types=kinds[:1], layers="2", parts=("whole",), mlp_layers=None, **SIZES
    )
    assert np.allclose(alone.intervals()[2, "whole", "linear"].value, apart[0])
    with pytest.raises(UsageError, match="was not measured"):
        result.intervals("sense")


def test_items_whose_pieces_change_are_counted() -> None:
    options = {"cue_types": ("agreement",), "layers": "0", "mlp_layers": None, **SIZES}
    assert conjunction_probe(SidesExtractor(), **options).notes == ()
    plural = SidesExtractor(pieces=lambda word: 2 if word.endswith("s") and len(word) > 4 and word != "lives" else 1)
    (note,) = conjunction_probe(plural, **options).notes
    assert "with the left cue in 56 and with the right cue in 56 of 56 items" in note


def test_wrong_options_are_refused() -> None:
    model = SidesExtractor()
    with pytest.raises(UsageError, match="choose from agreement"):
        conjunction_probe(model, cue_types=("colour",))
    with pytest.raises(UsageError, match="choose from agreement"):
        conjunction_probe(model, cue_types="polarity")
    with pytest.raises(UsageError, match="no part upper"):
        conjunction_probe(model, parts=("upper",))
    with pytest.raises(UsageError, match="items=0"):
        conjunction_probe(model, test_items=0)
    with pytest.raises(UsageError):
        conjunction_probe(model, layers="7")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Extractor]:
    """The four kinds with weights as drawn: no word is read in training."""
    path = Path(__file__).resolve().parents[1] / "studies" / "training_examples.py"
    spec = importlib.util.spec_from_file_location("training_examples", path)
    assert spec is not None
    assert spec.loader is not None
    examples: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(examples)
    text = examples.write_text(tmp_path_factory.mktemp("text"), documents=4)

    def built(kind: str) -> Extractor:
        from extractors import load_extractor
        from studies.training.loop import train

        folder = tmp_path_factory.mktemp("tiny") / kind
        train(examples.tiny_recipe(kind, words=0), [text], folder)
        return load_extractor(str(folder), dtype="float64")

    return built


@pytest.mark.parametrize("kind", ["elmo", "bilstm-mlm", "bigpt", "bert"])
def test_the_four_kinds(tiny: Callable[[str], Extractor], kind: str) -> None:
    """What theory says of two one-directional models holds exactly, for the halves too, at every layer."""
    model = tiny(kind)
    options = {"cue_types": ("polarity",), "train_items": 6, "dev_items": 4, "test_items": 6, "resamples": 100}
    result = conjunction_probe(model, mlp_layers="last", **options)
    other = conjunction_probe(model, mlp_layers="last", batch_size=5, **options)
    for key, sums in result.statistics.items():
        assert np.isfinite(sums).all()
        assert np.allclose(sums, other.statistics[key], atol=1e-4)
    for (layer, part, probe), one in result.intervals().items():
        if probe != "linear" or kind not in ("elmo", "bigpt"):
            continue
        exact = {"whole": ("xor",), "forward": ("right", "xor"), "backward": ("left", "xor")}[part]
        if layer > 0:
            for label in exact:
                assert np.abs([one.low[LABELS.index(label), 0], one.high[LABELS.index(label), 0]]).max() < 1e-6, (
                    layer,
                    part,
                )
