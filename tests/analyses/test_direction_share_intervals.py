"""Intervals of direction shares hold the truth about as often as they say, and there are none where they would not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyses import (
    DirectionShares,
    collect_contexts,
    compare_shares,
    direction_shares,
    interaction_gap,
    paired_difference,
    share_effects,
)
from analyses.direction_shares import BY_CLASS, CROSSED, LEAST_TARGETS, target_notes
from analyses.factorial import CELLS
from analyses.variance import variance_components
from extractors.foundation.bootstrap import bootstrap

Corpus = list[tuple[str, ...]]
EXPERIMENTS, GRID, DIMENSIONS = 400, 4, 6
TRUTH = 1 / 3
"""Of all three shares of h = l + r + l r, independent signs l and r."""


def simulated(targets: int, *, grid: int = GRID, experiments: int = EXPERIMENTS, alike: bool = False) -> np.ndarray:
    """(experiments, targets, 5) components of h = s (l + r + l r), s the size of the target, one sign a part and dimension."""
    generator = np.random.default_rng(grid)
    number = experiments * targets
    size = 1.0 if alike else np.sqrt(generator.exponential(size=(number, 1)))
    left = generator.choice([-1.0, 1.0], (grid, 1, number, DIMENSIONS))
    right = generator.choice([-1.0, 1.0], (1, grid, number, DIMENSIONS))
    grids = size * (left + right + left * right)
    parts = variance_components(grids.reshape(grid, grid, -1))
    squares = np.square(grids).mean(axis=(0, 1)).ravel()
    columns = [parts.left, parts.right, parts.interaction, squares, squares]
    return np.stack([c.reshape(experiments, targets, DIMENSIONS).sum(axis=-1) for c in columns], axis=-1)


@pytest.fixture(scope="module")
def measured(sided: Any, part_vector: Any, corpus: Corpus) -> DirectionShares:
    """Shares of ten targets."""
    model = sided(lambda left, right: np.tanh(part_vector(left) + part_vector(("r", *right))))
    contexts = collect_contexts([model], corpus, side=2, grid=4)
    return direction_shares(model, corpus, contexts=contexts, natural=10)


@pytest.mark.parametrize(("targets", "least"), [(10, 0.8), (40, 0.9)])
def test_coverage(measured: DirectionShares, targets: int, least: float) -> None:
    held = []
    for seed, units in enumerate(simulated(targets)):
        experiment = replace(measured, components={(1, "whole", CROSSED): units}, resamples=500, seed=seed)
        interval = experiment.interval(1)
        held.append((interval.low[:3] <= TRUTH) & (interval.high[:3] >= TRUTH))
    coverage = np.mean(held, axis=0)
    assert np.all(coverage >= least)
    assert np.all(coverage < 0.99), "an interval that always holds the truth says nothing"


def test_over_few_targets_the_bootstrap_alone_would_be_far_too_narrow() -> None:
    """Why there is a least number of targets: coverage of the bare bootstrap over two of them."""

    def shares(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[..., :3] / sums[..., :3].sum(axis=-1, keepdims=True))

    found = [bootstrap(units, shares, resamples=500, seed=seed) for seed, units in enumerate(simulated(2))]
    coverage = np.mean([(one.low <= TRUTH) & (one.high >= TRUTH) for one in found], axis=0)
    assert np.all(coverage < 0.6)


@pytest.mark.parametrize("targets", [LEAST_TARGETS - 1, LEAST_TARGETS])
def test_below_the_least_number_of_targets_there_is_a_value_and_no_interval(
    measured: DirectionShares, targets: int
) -> None:
    few = measured.of_targets(range(targets))
    interval = few.interval(1)
    assert interval.n == targets
    assert np.isfinite(interval.value).all()
    for bound in (interval.low, interval.high):
        assert np.isfinite(bound).all() == (targets == LEAST_TARGETS)
        assert np.isnan(bound).all() == (targets < LEAST_TARGETS)
    rows = few.to_frame().query("layer == 1")
    assert rows["value"].notna().all()
    assert rows[["low", "high"]].notna().all(axis=None) == (targets == LEAST_TARGETS)
    assert rows[["low", "high"]].isna().all(axis=None) == (targets < LEAST_TARGETS)


def test_the_interval_shrinks_with_the_number_of_targets(measured: DirectionShares) -> None:
    """Like 1 / sqrt(n): mean widths of 40 and of 160 targets that are alike are as 2 to 1."""
    units = simulated(40, alike=True)
    widths = []
    for size in (40, 160):
        samples = units.reshape(-1, size, 5)[: EXPERIMENTS // 4]
        found = [
            replace(measured, components={(1, "whole", CROSSED): sample}, seed=seed).interval(1)
            for seed, sample in enumerate(samples)
        ]
        assert {one.n for one in found} == {size}
        widths.append(np.mean([one.high - one.low for one in found], axis=0)[:3])
    assert widths[0] / widths[1] == pytest.approx([2, 2, 2], rel=0.05)


def test_four_and_sixteen_contexts_a_side_cannot_be_told_apart() -> None:
    """The paired interval of their difference, over 40 targets, holds 0 as often as it should: neither drifts with K."""
    pairs = list(zip(*(simulated(40, grid=grid, experiments=100) for grid in (4, 16)), strict=True))
    for column in range(3):
        apart = [
            paired_difference(*pair, lambda sums, i=column: sums[..., i] / sums[..., :3].sum(axis=-1), resamples=300)
            for pair in pairs
        ]
        assert np.mean([one.low[0] <= 0 <= one.high[0] for one in apart]) >= 0.9
        mean, error = np.mean([one.value for one in apart]), np.std([one.value for one in apart]) / np.sqrt(len(apart))
        assert abs(mean) < 4 * error


def test_slopes_gaps_effects_and_onsets_of_few_targets(measured: DirectionShares) -> None:
    names = (*measured.info.layer_names, "layer 2")
    twice = {(2, part, how): units for (layer, part, how), units in measured.components.items() if layer == 1}
    two = replace(measured, info=replace(measured.info, layer_names=names), components={**measured.components, **twice})
    few = two.of_targets(range(LEAST_TARGETS - 1))
    for shares, defined in ((two, True), (few, False)):
        slope = shares.slope()
        assert slope is not None
        gap, effects = interaction_gap(shares, shares), share_effects(dict.fromkeys(CELLS, shares))
        for interval in (slope, gap, effects.effects, effects.cells):
            assert np.isfinite(interval.value).all()
            assert np.isfinite([interval.low, interval.high]).all() == defined
            assert np.isnan([interval.low, interval.high]).all() != defined
        comparison = compare_shares([shares])
        assert len(comparison.onsets) == defined
        assert any("no mixing onset" in note for note in comparison.notes) != defined


def test_word_classes_of_few_targets_have_no_rows_and_a_note(measured: DirectionShares) -> None:
    targets = tuple(
        replace(target, word_class="content", upos="NOUN" if number < LEAST_TARGETS else "VERB")
        for number, target in enumerate(measured.contexts.targets)
    )
    result = replace(measured, contexts=replace(measured.contexts, targets=targets))
    assert result.by_class()["VERB"].interval(1).n == 2
    rows = result.to_frame().query(f"condition == {BY_CLASS!r}")
    assert set(rows["task"]) == {"content", "NOUN"}
    assert rows["n"].min() == LEAST_TARGETS
    assert target_notes(result.contexts) == ("word classes with fewer than 8 target words have no rows: VERB (2)",)
    assert target_notes(result.contexts, "natural") == ()
    assert target_notes(measured.contexts) == ()


def test_a_measurement_of_few_targets_says_that_it_has_no_intervals(
    sided: Any, part_vector: Any, corpus: Corpus
) -> None:
    model = sided(lambda left, right: part_vector(left))
    contexts = collect_contexts([model], corpus, side=2, grid=2, targets=3)
    (note,) = direction_shares(model, corpus, contexts=contexts, natural=5).notes
    assert note == "no intervals, over 3 target words they would be too narrow; 8 are needed"
