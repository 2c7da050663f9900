"""On real models: concatenation has no interaction; a deep bidirectional model has, more with depth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analyses import (
    ContextSet,
    DirectionShares,
    attention_distance,
    collect_contexts,
    direction_shares,
    mixing_onset,
    natural_statistics,
    paired_difference,
    resample_contexts,
)
from analyses.direction_shares import CONTROL, CROSSED, MIX, NORMED_MIX, STANDARDISED
from extractors import Extractor, load_extractor

Sentences = list[tuple[str, ...]]


@pytest.fixture(scope="module")
def ewt(shared_data: Path) -> Sentences:
    """The words of EWT's development sentences."""
    text = (shared_data / "ud/en_ewt/en_ewt-ud-dev.conllu").read_text(encoding="utf-8")
    sentences = []
    for block in text.strip().split("\n\n"):
        fields = [line.split("\t") for line in block.splitlines()]
        sentences.append(tuple(field[1] for field in fields if field[0].isdigit()))
    return sentences


@pytest.fixture(scope="module")
def elmo(elmo_reference: Path) -> Extractor:
    return load_extractor(elmo_reference, dtype="float64")


@pytest.fixture(scope="module")
def bert(minilm_path: Path) -> Extractor:
    return load_extractor(minilm_path, dtype="float64")


@pytest.fixture(scope="module")
def contexts(elmo: Extractor, bert: Extractor, ewt: Sentences) -> ContextSet:
    """The same contexts for both models, of constant length in the tokens of both."""
    return collect_contexts([elmo, bert], ewt, side=8, grid=4)


def test_elmo_has_no_interaction_and_one_sided_halves(elmo: Extractor, ewt: Sentences, contexts: ContextSet) -> None:
    result = direction_shares(elmo, ewt, contexts=contexts, natural=200)
    assert np.isnan(result.interval(0).value[:3]).all()
    assert result.interval(0).value[3] == 0
    for layer in (1, 2):
        whole, forward, backward = (result.interval(layer, part) for part in ("whole", "forward", "backward"))
        assert np.abs([whole.low[2], whole.value[2], whole.high[2]]).max() < 1e-10
        assert np.abs([*forward.value[1:3], forward.value[0] - 1]).max() < 1e-10
        assert np.abs([backward.value[0], backward.value[2], backward.value[1] - 1]).max() < 1e-10
        assert whole.low[0] > 0.1
        assert whole.low[1] > 0.1
        assert whole.low[3] > 0.05  # not the shares of a variance that is nearly nothing
        # Normalising the concatenation would make an interaction that the model does not have.
        assert result.interval(layer, condition="layer-normed additive").low[2] > 1e-4


def one_sided(result: DirectionShares, layer: int | None, condition: str) -> None:
    """Exact zeros of a concatenation: no interaction, and halves that know of one side."""
    interval = result.interval(layer, condition=condition)
    assert np.abs([interval.low[2], interval.value[2], interval.high[2]]).max() < 1e-10
    assert interval.low[:2].min() > 0.02, "shares of something"
    for part, own in (("forward", 0), ("backward", 1)):
        half = result.interval(layer, part, condition)
        other = [1 - own, 2]
        assert np.abs([half.low[other], half.value[other], half.high[other]]).max() < 1e-10
        assert half.value[own] == pytest.approx(1, abs=1e-10)


def test_elmo_has_exact_zeros_standardised_and_mixed_and_none_with_normalised_layers(
    elmo: Extractor, ewt: Sentences, contexts: ContextSet
) -> None:
    few = ContextSet(contexts.targets[:8], contexts.side, contexts.grid, contexts.models, contexts.seed)
    result = direction_shares(elmo, ewt, contexts=few, natural=100)
    for layer in (1, 2):
        one_sided(result, layer, STANDARDISED)
    one_sided(result, None, MIX)
    normed = result.interval(None, condition=NORMED_MIX)
    assert normed.low[2] > 1e-7, "the deviation of a sentence depends on both of its sides"
    assert result.interval(None, "forward", NORMED_MIX).low[1] > 1e-7


@pytest.mark.parametrize("mode", ["natural", "resampled", "masked"])
def test_elmo_has_exact_zeros_in_every_mode(
    elmo: Extractor, bert: Extractor, ewt: Sentences, contexts: ContextSet, mode: str
) -> None:
    if mode == "resampled":
        chosen = resample_contexts([elmo, bert], ewt, contexts)
    else:
        chosen = collect_contexts([elmo], ewt, side=8, grid=4, targets=8, mode="natural")
    chosen = replace(chosen, targets=chosen.targets[:8])
    result = direction_shares(elmo, ewt, contexts=chosen, mode=mode, natural=100)
    assert len(chosen.targets) == 8
    for layer in (1, 2):
        one_sided(result, layer, mode)


@pytest.mark.parametrize("model", ["elmo", "bert"])
def test_batch_size_changes_nothing(
    model: str, elmo: Extractor, bert: Extractor, ewt: Sentences, contexts: ContextSet
) -> None:
    extractor = {"elmo": elmo, "bert": bert}[model]
    # Sentences of different lengths, so that batches are padded.
    mixed = replace(contexts, targets=contexts.targets[:3])
    one, many = (direction_shares(extractor, ewt[:40], contexts=mixed, natural=40, batch_size=size) for size in (1, 16))
    for key, units in one.components.items():
        np.testing.assert_allclose(many.components[key], units, rtol=1e-12, atol=1e-12 * units[:, 4].max())


def test_the_mixing_onset_of_bert(bert: Extractor, minilm_path: Path, ewt: Sentences, contexts: ContextSet) -> None:
    few = replace(contexts, targets=contexts.targets[:10])
    copy = load_extractor(minilm_path, dtype="float64", untrained=True)
    trained, untrained = (direction_shares(one, ewt, contexts=few, natural=50) for one in (bert, copy))
    onset = mixing_onset(trained, untrained=untrained)
    assert onset is not None
    bars = [
        max(0.01, untrained.interval(layer).high[2], trained.interval(layer, condition=CONTROL).high[2])
        for layer in range(1, 7)
    ]
    lows = [trained.interval(layer).low[2] for layer in range(1, 7)]
    assert onset == 1 + next(i for i, (low, bar) in enumerate(zip(lows, bars, strict=True)) if low > bar)
    assert mixing_onset(untrained, untrained=trained) is None


def test_bert_interacts_more_with_depth(bert: Extractor, ewt: Sentences, contexts: ContextSet) -> None:
    result = direction_shares(bert, ewt, contexts=contexts, natural=200)
    assert len(contexts.targets) == 20
    intervals = [result.interval(layer) for layer in range(7)]
    assert np.isnan(intervals[0].value[:3]).all()
    assert intervals[0].value[3] == 0
    interaction = [interval.value[2] for interval in intervals]
    assert interaction[1] < interaction[2] < interaction[3] < interaction[4]
    assert intervals[6].low[2] > 0.1
    for layer in range(1, 7):
        control = result.interval(layer, condition="layer-normed additive")
        assert intervals[layer].low[2] > max(0.01, control.high[2])
        assert intervals[layer].value[:3].sum() == pytest.approx(1, abs=1e-12)


def test_bert_in_float32_gives_the_same(
    minilm_path: Path, ewt: Sentences, contexts: ContextSet, bert: Extractor
) -> None:
    few = ContextSet(contexts.targets[:4], contexts.side, contexts.grid, contexts.models, contexts.seed)
    single = direction_shares(load_extractor(minilm_path), ewt, contexts=few, natural=50)
    double = direction_shares(bert, ewt, contexts=few, natural=50)
    assert np.isnan(single.interval(0).value[:3]).all()
    for layer in range(1, 7):
        assert single.interval(layer).value == pytest.approx(double.interval(layer).value, abs=1e-4)


@pytest.mark.slow
def test_estimates_do_not_drift_with_the_size_of_the_grid(bert: Extractor, ewt: Sentences) -> None:
    """Other contexts, four and sixteen a side, of the same target words: the paired difference cannot be told from 0."""
    wide = collect_contexts([bert], ewt, side=4, grid=16, seed=16)
    narrow = collect_contexts([bert], ewt, side=4, grid=4, seed=4, words=wide.words)
    assert narrow.words == wide.words
    assert len(wide.words) >= 8
    statistics = natural_statistics(bert, ewt, natural=200)
    small, large = (
        direction_shares(bert, ewt, contexts=contexts, statistics=statistics) for contexts in (narrow, wide)
    )
    for layer in range(1, 7):
        units = [result.components[layer, "whole", CROSSED] for result in (small, large)]
        for column in range(3):
            apart = paired_difference(*units, lambda sums, i=column: sums[..., i] / sums[..., :3].sum(axis=-1))
            assert apart.low[0] <= 0 <= apart.high[0], (layer, column)


def test_bert_attends_nearer_than_uniform_and_no_mass_is_lost(bert: Extractor, ewt: Sentences) -> None:
    frame = attention_distance(bert, ewt, max_sentences=200).to_frame()
    table = frame[frame["head"].isna()].pivot(index=["layer", "condition"], columns="measure", values="value")
    sides = table[["attention_mass_left", "attention_mass_self", "attention_mass_right"]].sum(axis=1)
    assert sides.to_numpy() == pytest.approx(1, abs=1e-12)
    distance = table["attention_distance"].unstack()
    assert (distance["plain"] < distance["uniform"]).all()
    assert table.xs("plain", level="condition")["attention_mass_special"].between(0.1, 0.9).all()


def test_importing_the_package_is_cheap() -> None:
    heavy = "{'torch', 'transformers', 'pandas', 'sklearn', 'matplotlib', 'scipy'}"
    code = f"import sys, analyses; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
