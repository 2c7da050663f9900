"""Variance components against closed forms, exact expectations, and a slow obvious loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest

from analyses.variance import two_way_effects, variance_components

FORMS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], tuple[float, float, float]]] = {
    "l + r": (lambda left, right: left + right, (1, 1, 0)),
    "l * r": (lambda left, right: left * right, (0, 0, 1)),
    "l + r + l * r": (lambda left, right: left + right + left * right, (1, 1, 1)),
}


def estimates(grids: np.ndarray) -> np.ndarray:
    """(draws, K_L, K_R) -> (draws, 3): a draw is a dimension, so all are estimated at once."""
    parts = variance_components(np.moveaxis(grids, 0, -1))
    return np.stack([parts.left, parts.right, parts.interaction], axis=1)


@pytest.mark.parametrize("form", FORMS)
def test_population_variances_of_sign_factors(form: str) -> None:
    function, truth = FORMS[form]
    signs = np.array([-1.0, 1.0])
    effects = two_way_effects(function(signs[:, None, None], signs[None, :, None]))
    found = [np.square(part).mean() for part in (effects.left, effects.right, effects.interaction)]
    assert np.array(found) / sum(found) == pytest.approx(np.array(truth) / sum(truth), abs=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 5), (4, 3)])
def test_expectation_over_all_draws_is_exact(form: str, rows: int, columns: int) -> None:
    """All 2^(K_L + K_R) equally likely samples of contexts: their mean is the expectation, with no sampling error."""
    function, truth = FORMS[form]
    draws = np.array(list(product([-1.0, 1.0], repeat=rows + columns)))
    grids = function(draws[:, :rows, None], draws[:, None, rows:])
    assert estimates(grids).mean(axis=0) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
@pytest.mark.parametrize("form", FORMS)
def test_unbiased_for_every_grid_size(form: str, size: int) -> None:
    """No drift with K, for skewed factors of unequal variance; |z| < 4.5 in 36 comparisons."""
    function, _ = FORMS[form]
    generator = np.random.default_rng(size)
    draws = 4000
    left = generator.exponential(size=(draws, size, 1)) - 1
    right = 2 * (generator.random((draws, 1, size)) < 0.2) - 0.4
    found = estimates(function(left, right))
    spread = 4 * 0.2 * 0.8
    truth = {"l + r": (1, spread, 0), "l * r": (0, 0, spread), "l + r + l * r": (1, spread, spread)}[form]
    error = found.std(axis=0, ddof=1) / np.sqrt(draws)
    assert np.all(np.abs(found.mean(axis=0) - truth) < 4.5 * error + 1e-12)


def test_rectangular_grids_need_their_own_sizes() -> None:
    """Rows and columns swapped give left and right swapped."""
    grid = np.random.default_rng(0).standard_normal((3, 7, 4))
    parts, swapped = variance_components(grid), variance_components(grid.transpose(1, 0, 2))
    assert swapped.left == pytest.approx(parts.right, rel=1e-12)
    assert swapped.right == pytest.approx(parts.left, rel=1e-12)
    assert swapped.interaction == pytest.approx(parts.interaction, rel=1e-12)


def test_equal_to_the_pair_estimators() -> None:
    grid = np.random.default_rng(1).standard_normal((4, 3, 5))
    rows, columns, _ = grid.shape
    same_right = [
        np.sum((grid[a, r] - grid[b, r]) ** 2)
        for a in range(rows)
        for b in range(rows)
        if a != b
        for r in range(columns)
    ]
    same_left = [
        np.sum((grid[x, a] - grid[x, b]) ** 2)
        for a in range(columns)
        for b in range(columns)
        if a != b
        for x in range(rows)
    ]
    crossed = [
        np.sum((grid[a, r] - grid[b, r] - grid[a, s] + grid[b, s]) ** 2)
        for a in range(rows)
        for b in range(rows)
        if a != b
        for r in range(columns)
        for s in range(columns)
        if r != s
    ]
    parts = variance_components(grid)
    assert 4 * parts.interaction.sum() == pytest.approx(np.mean(crossed), rel=1e-12)
    assert 2 * (parts.left + parts.interaction).sum() == pytest.approx(np.mean(same_right), rel=1e-12)
    assert 2 * (parts.right + parts.interaction).sum() == pytest.approx(np.mean(same_left), rel=1e-12)


def test_a_large_grid_is_the_mean_of_its_small_grids() -> None:
    """So the estimate cannot drift with K: all 2 x 3 subgrids of a 5 x 6 grid give its estimates on average."""
    grid = np.random.default_rng(4).standard_normal((5, 6, 3))
    small = [
        variance_components(grid[np.ix_(rows, columns)])
        for rows in combinations(range(5), 2)
        for columns in combinations(range(6), 3)
    ]
    large = variance_components(grid)
    assert np.mean([parts.left for parts in small], axis=0) == pytest.approx(large.left, abs=1e-12)
    assert np.mean([parts.right for parts in small], axis=0) == pytest.approx(large.right, abs=1e-12)
    assert np.mean([parts.interaction for parts in small], axis=0) == pytest.approx(large.interaction, abs=1e-12)


def test_equal_cells_have_exactly_no_variance() -> None:
    parts = variance_components(np.full((3, 4, 2), 0.1) + np.array([1e8, 0.3]))
    assert not parts.left.any()
    assert not parts.right.any()
    assert not parts.interaction.any()


def test_negative_estimates_are_kept() -> None:
    """l * r on the full +-1 square: rows do not differ at all, so the estimate of V_L is below zero."""
    signs = np.array([-1.0, 1.0])
    parts = variance_components((signs[:, None] * signs)[..., None])
    assert (parts.left, parts.right, parts.interaction) == (-2, -2, 4)
    assert parts.total == 0


def test_natural_pairs_on_the_diagonal_bias_the_estimate() -> None:
    """Why left and right parts come from disjoint sentences: a topic that natural pairs share raises the diagonal.

    A diagonal of variance 1 has K ((K - 1) / K)^2 expected sum of squares, over (K - 1)^2: 1 / K.
    """
    generator = np.random.default_rng(2)
    size, draws = 4, 20_000
    crossed = generator.standard_normal((draws, size, 1)) + generator.standard_normal((draws, 1, size))
    natural = crossed + generator.standard_normal((draws, size, 1)) * np.eye(size)
    assert estimates(crossed)[:, 2].mean() == pytest.approx(0, abs=1e-12)
    assert estimates(natural)[:, 2].mean() == pytest.approx(1 / size, abs=0.01)


@pytest.mark.parametrize(("correlation", "expected"), [(0.0, 1.0), (0.7, 1.327), (1.0, 5 / 3)])
def test_correlated_natural_pairs_bias_the_estimate_of_a_product(correlation: float, expected: float) -> None:
    """h = l r of normal factors, V_LR = 1, K = 4: |l - mean|^2 |r - mean|^2 / 9 expects 1 + 2 / 3 of the squared correlation."""
    generator = np.random.default_rng(5)
    left, own = generator.standard_normal((2, 200_000, 4))
    right = correlation * left + np.sqrt(1 - correlation**2) * own
    found = estimates(left[:, :, None] * right[:, None, :])[:, 2]
    assert expected == pytest.approx(1 + 2 / 3 * correlation**2, abs=1e-3)
    assert found.mean() == pytest.approx(expected, abs=4.5 * found.std() / np.sqrt(len(found)))
    assert found.std() / np.sqrt(len(found)) < 0.01


def test_float32_is_accumulated_in_float64() -> None:
    left = np.random.default_rng(3).standard_normal((8, 1, 3)).astype(np.float32)
    grid = np.float32(1000) + left + np.zeros((1, 8, 1), dtype=np.float32)
    assert np.abs(variance_components(grid).interaction).max() < 1e-20


@pytest.mark.parametrize("shape", [(4, 4), (1, 4, 2), (4, 1, 2)])
def test_what_is_no_grid_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="K_L >= 2"):
        variance_components(np.zeros(shape))
