"""Models compared on the same contexts: closed forms, files that comparisons start from, and the four kinds of small models."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from analyses import (
    ContextSet,
    DirectionShares,
    collect_contexts,
    compare_shares,
    direction_shares,
    interaction_gap,
    mixing_onset,
    share_effects,
    two_by_two,
)
from analyses.direction_shares import CONTROL, CROSSED, MIX, NORMED_MIX, STANDARDISED
from analyses.factorial import CELLS
from analyses.masking import side_masks
from extractors import Extractor, load_extractor
from extractors.foundation.errors import StoreError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.words import MASK_WORD

Sentences = list[tuple[str, ...]]
KINDS = {
    "elmo": ("LSTM", "shallow"),
    "bilstm-mlm": ("LSTM", "deep"),
    "bigpt": ("Transformer", "shallow"),
    "bert": ("Transformer", "deep"),
}


@pytest.fixture(scope="module")
def made_up(sided: Any, part_sign: Any, corpus: Sentences) -> Callable[..., DirectionShares]:
    """Shares of a model l + r + w l r of independent signs, with interaction share w^2 / (2 + w^2), on common contexts."""
    contexts = collect_contexts([sided(lambda left, right: np.zeros(1))], corpus, side=2, grid=8)

    @cache
    def build(weight: float, name: str = "fake", directionality: str = "bidirectional") -> DirectionShares:
        def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
            a, b = (
                np.array([part_sign(side, str(d), *words) for d in range(6)])
                for side, words in (("l", left), ("r", right))
            )
            return a + b + weight * a * b

        model = sided(vector, name=name, directionality=directionality)
        return direction_shares(model, corpus, contexts=contexts, natural=5)

    return build


def four(made_up: Any, names: dict[str, str] | None = None) -> dict[tuple[str, str], DirectionShares]:
    weights = {"elmo": 0.0, "bilstm-mlm": 0.5, "bigpt": 0.0, "bert": 2.0}
    kinds = {"shallow": "concatenated", "deep": "bidirectional"}
    return {KINDS[kind]: made_up(weight, kind, kinds[KINDS[kind][1]]) for kind, weight in weights.items()}


def test_the_gap_in_closed_form(made_up: Any) -> None:
    deep, shallow = made_up(2.0, "deep"), made_up(0.0, "shallow", "concatenated")
    gap = interaction_gap(deep, shallow)
    assert gap.low[0] - 0.03 < 4 / 6 < gap.high[0] + 0.03
    assert gap.n == 10
    assert gap.value[0] == pytest.approx(deep.interval(1).value[2] - shallow.interval(1).value[2], abs=1e-15)
    same = interaction_gap(deep, deep)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_a_paired_interval_is_narrower_than_two_apart(made_up: Any) -> None:
    """Two nearly equal models differ by nearly nothing on every target, however much targets differ."""
    one, other = made_up(1.0, "one"), made_up(1.05, "other")
    gap = interaction_gap(other, one)
    apart = np.hypot(*(shares.interval(1).high[2] - shares.interval(1).low[2] for shares in (one, other)))
    assert gap.low[0] > 0
    assert gap.high[0] - gap.low[0] < 0.2 * apart


def test_the_two_by_two_in_closed_form(made_up: Any) -> None:
    cells = four(made_up)
    found = share_effects(cells)
    top = {cell: shares.interval(1).value[2] for cell, shares in cells.items()}
    assert found.cells.value == pytest.approx([top[cell] for cell in CELLS], abs=1e-15)
    lstm, transformer = (top[name, "deep"] - top[name, "shallow"] for name in ("LSTM", "Transformer"))
    assert found.effects.value[0] == pytest.approx((lstm + transformer) / 2)
    assert found.effects.value[2] == pytest.approx(transformer - lstm)
    truth = [(0.25 / 2.25 + 4 / 6) / 2, (4 / 6 - 0.25 / 2.25) / 2, 4 / 6 - 0.25 / 2.25]
    assert np.all(found.effects.low - 0.03 < truth)
    assert np.all(truth < found.effects.high + 0.03)


def test_the_four_are_found_by_family_and_directionality(made_up: Any) -> None:
    cells = four(made_up)
    infos = [replace(cells[cell].info, family=kind) for kind, cell in KINDS.items()]
    assert two_by_two(infos) == {cell: number for number, cell in enumerate(KINDS.values())}
    assert two_by_two(infos[:3]) is None
    assert two_by_two([*infos, replace(infos[3], name="another")]) is None
    causal = replace(infos[3], name="gpt2", family="gpt2", directionality="left-to-right")
    assert two_by_two([*infos, causal]) == two_by_two(infos)


def test_rows_of_a_comparison(made_up: Any) -> None:
    cells = four(made_up)
    results = [replace(cells[cell], info=replace(cells[cell].info, family=kind)) for kind, cell in KINDS.items()]
    copies = [
        replace(
            made_up(0.3, kind, "concatenated" if CELL[1] == "shallow" else "bidirectional"),
            info=replace(results[number].info, weights="untrained"),
        )
        for number, (kind, CELL) in enumerate(KINDS.items())
    ]
    comparison = compare_shares([*results, *copies])
    frame = comparison.to_frame()
    gaps = frame[(frame["measure"] == "interaction_gap") & (frame["condition"] == CROSSED)]
    trained = gaps[gaps["weights"] == "trained"]
    assert set(zip(trained["model"], trained["reference"], strict=True)) == {
        (deep, shallow) for deep in ("bilstm-mlm", "bert") for shallow in ("elmo", "bigpt")
    }
    assert set(trained["layer"]) == {1}
    assert len(gaps) == 8
    effects = frame[frame["measure"].str.contains("effect")]
    assert set(effects["weights"]) == {"trained", "untrained"}
    assert set(effects["condition"]) == {CROSSED, STANDARDISED}
    assert set(effects["task"]) == {"direction_share_interaction"}
    assert effects["model"].isna().all()
    assert len(effects) == 3 * 2 * 2
    onsets = frame[frame["measure"] == "mixing_onset"].set_index("model")["value"]
    assert onsets["bert"] == 1
    assert np.isnan(onsets["elmo"])
    assert comparison.notes == ()
    assert comparison.plot().axes[0].get_xlabel().startswith("difference")
    alone = compare_shares(results, design={cell: kind for kind, cell in KINDS.items()})
    assert len(alone.effects) == 2
    assert len(alone.notes) == 4
    assert (
        "no main effects" in compare_shares(results[:3], design={cell: kind for kind, cell in KINDS.items()}).notes[-1]
    )


def test_other_contexts_are_never_compared(made_up: Any, sided: Any, corpus: Sentences) -> None:
    one = made_up(1.0, "one")
    model = sided(lambda left, right: np.ones(6) * len(left), name="other")
    other = direction_shares(
        model, corpus, contexts=collect_contexts([model], corpus, side=2, grid=8, seed=1), natural=5
    )
    with pytest.raises(UsageError, match="not measured on the same contexts"):
        interaction_gap(one, other)
    with pytest.raises(UsageError, match="needs the cells"):
        share_effects({CELLS[0]: one})
    assert compare_shares([one, replace(other, info=replace(other.info, directionality="concatenated"))]).gaps == ()


def test_an_undefined_share_gives_no_gap(made_up: Any) -> None:
    deep = made_up(1.0, "deep")
    flat = {key: units * np.array([0, 0, 0, 1, 1]) for key, units in deep.components.items()}
    shallow = replace(deep, components=flat)
    gap = interaction_gap(deep, shallow)
    assert np.isnan([gap.value, gap.low, gap.high]).all()
    assert gap.n == 10


def test_the_onset_is_above_all_bars(made_up: Any) -> None:
    shares = made_up(1.0, "deep")
    assert mixing_onset(shares) == 1
    assert mixing_onset(shares, delta=0.9) is None
    assert mixing_onset(shares, untrained=made_up(0.3, "copy")) == 1
    assert mixing_onset(shares, untrained=made_up(2.0, "copy")) is None
    bar = {**shares.components, (1, "whole", CONTROL): shares.components[1, "whole", CROSSED]}
    assert mixing_onset(replace(shares, components=bar)) is None
    later = {(layer + 1, part, how): units for (layer, part, how), units in shares.components.items() if layer == 1}
    names = (*shares.info.layer_names, "layer 2")
    flat = {key: units for key, units in made_up(0.0).components.items() if key[0] is not None}
    two = replace(shares, info=replace(shares.info, layer_names=names), components={**flat, **later})
    assert mixing_onset(two) == 2
    with pytest.raises(UsageError, match="mode crossed"):
        mixing_onset(replace(shares, mode="natural"))


def test_a_file_gives_back_what_was_saved(made_up: Any, tmp_path: Path) -> None:
    shares = replace(made_up(1.0, "deep"), notes=("a note",))
    shares.save(tmp_path / "unit.safetensors")
    again = DirectionShares.load(tmp_path / "unit.safetensors")
    assert again.info == shares.info
    assert again.contexts == shares.contexts
    assert list(again.components) == list(shares.components)
    for key, units in shares.components.items():
        np.testing.assert_array_equal(again.components[key], units)
    assert str(again.rows()) == str(shares.rows())
    assert again.notes == ("a note",)
    assert (tmp_path / "unit.safetensors").stat().st_size < 100_000


def test_a_damaged_file_is_refused(made_up: Any, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "unit.safetensors"
    made_up(1.0, "deep").save(path)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-3] ^= 1
    for wrong in (content[:-10], bytes(flipped), b"no such format", b""):
        path.write_bytes(wrong)
        with pytest.raises(StoreError, match="measure again"):
            DirectionShares.load(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(StoreError, match="does not hold direction shares"):
        DirectionShares.load(path)
    with pytest.raises(StoreError, match="cannot read"):
        DirectionShares.load(tmp_path / "missing.safetensors")


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    """The tiny recipes of tests/studies."""
    path = Path(__file__).parents[1] / "studies" / "training_examples.py"
    spec = importlib.util.spec_from_file_location("training_examples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def minis(examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Extractor]:
    """The four kinds, hardly trained, in float64."""
    from studies.training.loop import train

    folder = tmp_path_factory.mktemp("minis")
    text = examples.write_text(folder)
    return {
        kind: load_extractor(
            train(examples.tiny_recipe(kind, words=300), [text], folder / kind).folder, dtype="float64"
        )
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def text() -> Sentences:
    """Random sentences of words that are in the planted language."""
    words = ["the", "cat", "dog", "bird", "house", "tree", "boy", "girl", "king", "sees", "likes", "one", "near", "it"]
    generator = generator_for("planted words")
    return [tuple(generator.choice(words, size=9).tolist()) for _ in range(400)]


@pytest.fixture(scope="module")
def shared(minis: dict[str, Extractor], text: Sentences) -> ContextSet:
    return collect_contexts(list(minis.values()), text, side=3, grid=3, targets=8)


@pytest.fixture(scope="module")
def measured(minis: dict[str, Extractor], text: Sentences, shared: ContextSet) -> dict[str, DirectionShares]:
    return {
        kind: direction_shares(model, text, contexts=shared, pooling="last", natural=10)
        for kind, model in minis.items()
    }


@pytest.mark.parametrize("kind", ["elmo", "bigpt"])
def test_the_shallow_kinds_have_exactly_no_interaction(measured: dict[str, DirectionShares], kind: str) -> None:
    shares = measured[kind]
    for layer in shares.layers[1:]:
        for condition in (CROSSED, STANDARDISED):
            interval = shares.interval(layer, "whole", condition)
            assert np.abs([interval.low[2], interval.value[2], interval.high[2]]).max() < 1e-10
        assert np.abs(shares.interval(layer, "forward").value[1:3]).max() < 1e-10
        assert np.abs(shares.interval(layer, "backward").value[[0, 2]]).max() < 1e-10
        assert shares.interval(layer).value[:2].min() > 0.05
    mixed = shares.interval(None, condition=MIX)
    assert np.abs([mixed.low[2], mixed.high[2]]).max() < 1e-10
    assert shares.interval(None, condition=NORMED_MIX).value[2] > 1e-9, "layer norm of the layers mixes both sides"


@pytest.mark.parametrize("kind", ["bilstm-mlm", "bert"])
def test_the_deep_kinds_have_some_at_the_top(measured: dict[str, DirectionShares], kind: str) -> None:
    shares = measured[kind]
    assert shares.interval(shares.layers[-1]).low[2] > 1e-7
    if kind == "bilstm-mlm":
        assert np.abs(shares.interval(1).value[2]) < 1e-10, "layer 1 is still two one-sided halves"
        assert np.abs(shares.interval(1, "forward").value[1:3]).max() < 1e-10
        assert shares.interval(2, "forward").value[1] > 1e-3, "the forward half of layer 2 knows the right side"


def test_the_four_kinds_compared_from_files(measured: dict[str, DirectionShares], tmp_path: Path) -> None:
    for kind, shares in measured.items():
        shares.save(tmp_path / f"{kind}.safetensors")
    loaded = [DirectionShares.load(tmp_path / f"{kind}.safetensors") for kind in reversed(KINDS)]
    comparison = compare_shares(loaded)
    (four_models, condition, effects), _ = comparison.effects
    assert [shares.info.family for shares in four_models] == ["elmo", "bilstm-mlm", "bigpt", "bert"]
    assert condition == CROSSED
    direct = share_effects({KINDS[kind]: shares for kind, shares in measured.items()})
    np.testing.assert_array_equal(effects.effects.value, direct.effects.value)
    np.testing.assert_array_equal(effects.effects.low, direct.effects.low)
    assert len(comparison.gaps) == 4 * 2
    json.dumps([str(row) for row in comparison.rows()])


@pytest.mark.parametrize("kind", KINDS)
def test_masked_sides_of_the_four_kinds(
    minis: dict[str, Extractor], text: Sentences, shared: ContextSet, kind: str
) -> None:
    """Exact zeros hold for squared effects too: a half that does not read a side does not see it masked."""
    model = minis[kind]
    masks = side_masks(model)
    assert masks.word == (MASK_WORD if model.info.masks else "zqxjk")
    (alignment,) = masks.reader.align([(masks.word, "cat")])
    piece = alignment.pieces[alignment.word_pieces[0][0]]
    assert piece == {"elmo": "zqxjk", "bigpt": "[UNK]"}.get(kind, MASK_WORD)
    assert len(alignment.word_pieces[0]) == 1
    result = direction_shares(model, text, contexts=shared, mode="masked", pooling="last", natural=10)
    assert [masks.word in note for note in result.notes] == [True] * (not model.info.masks)
    for layer in result.layers[1:]:
        interval = result.interval(layer)
        assert interval.value[:3].sum() == pytest.approx(1)
        assert interval.value[3] > 1e-6
        if kind in ("elmo", "bigpt"):
            assert np.abs(interval.value[2]) < 1e-10
            assert np.abs(result.interval(layer, "forward").value[1:3]).max() < 1e-10
            assert np.abs(result.interval(layer, "backward").value[[0, 2]]).max() < 1e-10
    if kind in ("bilstm-mlm", "bert"):
        assert result.interval(result.layers[-1]).value[2] > 1e-7
