"""Paired differences and main effects on units whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from analyses.factorial import (
    CELLS,
    EFFECTS,
    main_effects,
    mean_of_units,
    paired_difference,
    seed_range,
    spread_over_seeds,
)
from extractors.foundation.bootstrap import bootstrap
from extractors.foundation.results import tidy

N = 400
MEANS = {("LSTM", "shallow"): 0.1, ("LSTM", "deep"): 0.4, ("Transformer", "shallow"): 0.2, ("Transformer", "deep"): 0.9}


def units(mean: float, noise: np.ndarray) -> np.ndarray:
    return np.stack([mean + noise, np.ones_like(noise)], axis=1)


def four(generator: np.random.Generator, *, shared: float, own: float, n: int = N) -> dict[tuple[str, str], np.ndarray]:
    """Cells with the means above; each unit is hard or easy for all models alike (`shared`), and varies besides (`own`)."""
    common = shared * generator.standard_normal(n)
    return {cell: units(mean, common + own * generator.standard_normal(n)) for cell, mean in MEANS.items()}


def test_effects_are_the_contrasts_of_the_cells() -> None:
    flat = {cell: units(mean, np.zeros(5)) for cell, mean in MEANS.items()}
    found = main_effects(flat, mean_of_units)
    assert found.cells.value == pytest.approx([0.1, 0.4, 0.2, 0.9])
    directionality, architecture, interaction = (0.3 + 0.7) / 2, (0.1 + 0.5) / 2, 0.7 - 0.3
    assert found.effects.value == pytest.approx([directionality, architecture, interaction])
    assert found.effects.high - found.effects.low == pytest.approx(0, abs=1e-12)
    assert tuple(MEANS) == CELLS


def test_what_units_share_cancels() -> None:
    """Hard and easy units move all four models together: intervals of effects are as narrow as without them."""
    plain = main_effects(four(np.random.default_rng(0), shared=0, own=0.1), mean_of_units)
    hard = main_effects(four(np.random.default_rng(0), shared=5, own=0.1), mean_of_units)
    widths = [one.effects.high - one.effects.low for one in (plain, hard)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert (hard.cells.high - hard.cells.low).min() > 10 * widths[1].max()


def test_intervals_are_those_of_theory_and_shrink_with_n() -> None:
    """Independent cells of standard deviation s: the standard errors are s / sqrt(n) times 1, 1 and 2."""
    for n in (100, 1600):
        found = main_effects(four(np.random.default_rng(n), shared=0, own=1, n=n), mean_of_units, resamples=4000)
        width = found.effects.high - found.effects.low
        assert width == pytest.approx(2 * 1.96 * np.array([1, 1, 2]) / np.sqrt(n), rel=0.2)


def test_coverage_of_the_true_effect() -> None:
    hits = np.zeros(3)
    for seed in range(120):
        found = main_effects(four(np.random.default_rng(seed), shared=1, own=1, n=60), mean_of_units, resamples=300)
        hits += (found.effects.low <= [0.5, 0.3, 0.4]) & (found.effects.high >= [0.5, 0.3, 0.4])
    assert np.all(hits / 120 > 0.87)


def test_a_paired_difference_of_a_model_with_itself_is_exactly_nothing() -> None:
    generator = np.random.default_rng(1)
    one = units(0.3, generator.standard_normal(50))
    same = paired_difference(one, one, mean_of_units)
    assert (same.value, same.low, same.high, same.n) == (0, 0, 0, 50)
    other = units(0.3, generator.standard_normal(50))
    difference = paired_difference(one, other, mean_of_units)
    assert difference.value == pytest.approx(one[:, 0].mean() - other[:, 0].mean())
    direct = bootstrap((one - other)[:, :1] / 50, lambda sums: sums)
    assert (difference.low, difference.high) == (pytest.approx(direct.low), pytest.approx(direct.high))


def test_the_estimate_is_a_ratio_of_sums() -> None:
    first = np.array([[1.0, 1.0], [10.0, 100.0]])
    second = np.array([[1.0, 2.0], [1.0, 2.0]])
    found = paired_difference(first, second, mean_of_units)
    assert found.value == pytest.approx(11 / 101 - 1 / 2)


def test_rows_and_spread_over_seeds() -> None:
    results = [main_effects(four(np.random.default_rng(seed), shared=0, own=1), mean_of_units) for seed in range(3)]
    frame = tidy(results[0].rows(task="parity_bits", condition="linear", unit="bits"))
    assert list(frame["measure"]) == list(EFFECTS)
    assert set(frame["task"]) == {"parity_bits"}
    assert frame["value"].to_numpy() == pytest.approx(results[0].effects.value)
    spread = tidy(spread_over_seeds(results, task="parity_bits", condition="linear", unit="bits"))
    values = np.array([one.effects.value for one in results])
    assert set(spread["condition"]) == {"over seeds"}
    assert spread["value"].to_numpy() == pytest.approx(values.mean(axis=0))
    assert spread["low"].to_numpy() == pytest.approx(values.min(axis=0))
    assert spread["high"].to_numpy() == pytest.approx(values.max(axis=0))
    assert set(spread["n"]) == {3}


def test_what_does_not_fit_is_refused() -> None:
    cells = four(np.random.default_rng(0), shared=0, own=1)
    with pytest.raises(ValueError, match="needs the cells"):
        main_effects({cell: cells[cell] for cell in CELLS[:3]}, mean_of_units)
    with pytest.raises(ValueError, match="the same units"):
        main_effects({**cells, CELLS[0]: cells[CELLS[0]][:-1]}, mean_of_units)
    with pytest.raises(ValueError, match="the same units"):
        paired_difference(np.zeros((3, 2)), np.zeros((4, 2)), mean_of_units)
    with pytest.raises(ValueError, match="at least two"):
        seed_range([[1.0]])
