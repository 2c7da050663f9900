"""Two-way analysis of variance of a grid of vectors: left context x right context, one vector per cell.

The functional ANOVA h = h_0 + h_L + h_R + h_LR of a function of two independent inputs (Hoeffding 1948; Sobol 1993),
its variances estimated from a grid by expected mean squares (Searle, Casella & McCulloch 1992, ch. 4); for vectors the
variances are traces, i.e. sums over dimensions (Gamboa et al. 2014, generalised Sobol indices).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Effects:
    """The additive decomposition of a grid; ``grand + left + right + interaction`` broadcasts to the grid itself."""

    grand: Array
    """Mean over all cells, shape (1, 1, dim)."""
    left: Array
    """Row means minus grand mean, shape (K_L, 1, dim)."""
    right: Array
    """Column means minus grand mean, shape (1, K_R, dim)."""
    interaction: Array
    """What is left over, shape (K_L, K_R, dim)."""

    @property
    def additive(self) -> Array:
        """The grid without its interaction, shape (K_L, K_R, dim)."""
        return self.grand + self.left + self.right


@dataclass(frozen=True)
class VarianceComponents:
    """Unbiased estimates per dimension; single estimates may be negative and are kept so."""

    left: Array
    """V_L, shape (dim,)."""
    right: Array
    """V_R, shape (dim,)."""
    interaction: Array
    """V_LR, shape (dim,)."""

    @property
    def total(self) -> Array:
        """V_L + V_R + V_LR, the variance over independent contexts, shape (dim,)."""
        return self.left + self.right + self.interaction


def two_way_effects(grid: npt.ArrayLike) -> Effects:
    """Decompose a grid into grand mean, row, column and interaction effects.

    Parameters
    ----------
    grid : array of shape (K_L, K_R, dim)
        Vector for left context l and right context r.

    Returns
    -------
    Effects
        In float64. If the grid lists *all* equally likely left and right contexts, the mean squares of the effects are
        the exact variances V_L, V_R, V_LR; for a sample of contexts use `variance_components`.

    Raises
    ------
    ValueError
        If the grid is not three-dimensional or has fewer than two rows or columns.
    """
    values = np.asarray(grid, dtype=np.float64)
    if values.ndim != 3 or min(values.shape[:2]) < 2:
        raise ValueError(f"a grid has shape (K_L >= 2, K_R >= 2, dim), got {values.shape}")
    # Differences from one cell first: cells that are equal bit for bit give effects of exactly zero.
    first = values[:1, :1]
    differences = values - first
    mean = differences.mean(axis=(0, 1), keepdims=True)
    left = differences.mean(axis=1, keepdims=True) - mean
    right = differences.mean(axis=0, keepdims=True) - mean
    return Effects(first + mean, left, right, differences - mean - left - right)


def variance_components(grid: npt.ArrayLike) -> VarianceComponents:
    r"""Estimate V_L, V_R and V_LR from a crossed grid of sampled contexts, one vector per cell.

    With K_L left and K_R right contexts drawn independently, h[l, r] = mu + a_l + b_r + g_lr, where the effects have
    mean zero, variances V_L, V_R, V_LR and are uncorrelated. The sums of squares of the grid's own effects
    (`two_way_effects`)

        SS_L = K_R sum_l (h[l, .] - h[., .])^2,   SS_R = K_L sum_r (h[., r] - h[., .])^2,
        SS_LR = sum_lr (h[l, r] - h[l, .] - h[., r] + h[., .])^2

    have the expectations

        E SS_LR = (K_L - 1)(K_R - 1) V_LR,
        E SS_L = (K_L - 1)(V_LR + K_R V_L),   E SS_R = (K_R - 1)(V_LR + K_L V_R):

    a row mean h[l, .] is a_l plus the mean of K_R interactions g_lr (plus terms that all rows share), so row means vary
    by V_L + V_LR / K_R; among residuals (K_L - 1)(K_R - 1) are free. Solved for the variances:

        V_LR = SS_LR / ((K_L - 1)(K_R - 1)),
        V_L = (SS_L / (K_L - 1) - V_LR) / K_R,   V_R = (SS_R / (K_R - 1) - V_LR) / K_L,

    which are unbiased for every K_L, K_R >= 2, whatever the distributions. They equal the averages over all pairs of
    the pair estimators E|h(l,r) - h(l',r)|^2 = 2 (V_L + V_LR) and E|h(l,r) - h(l',r) - h(l,r') + h(l',r')|^2 = 4 V_LR.

    Parameters
    ----------
    grid : array of shape (K_L, K_R, dim)
        Vector for left context l and right context r; the two sides must be drawn independently of each other.

    Returns
    -------
    VarianceComponents
        Three arrays of shape (dim,), float64; squared units of the vectors. Negative estimates are kept: clipping them
        would bias every sum over dimensions and targets.

    Raises
    ------
    ValueError
        If the grid is not three-dimensional or has fewer than two rows or columns.

    Examples
    --------
    >>> parts = variance_components([[[0.0], [1.0]], [[2.0], [3.0]]])
    >>> parts.left, parts.right, parts.interaction
    (array([2.]), array([0.5]), array([0.]))
    """
    effects = two_way_effects(grid)
    rows, columns = effects.interaction.shape[:2]
    interaction = np.square(effects.interaction).sum(axis=(0, 1)) / ((rows - 1) * (columns - 1))
    mean_square_left = columns * np.square(effects.left).sum(axis=(0, 1)) / (rows - 1)
    mean_square_right = rows * np.square(effects.right).sum(axis=(0, 1)) / (columns - 1)
    return VarianceComponents(
        left=(mean_square_left - interaction) / columns,
        right=(mean_square_right - interaction) / rows,
        interaction=interaction,
    )


def presence_effects(cells: npt.ArrayLike) -> VarianceComponents:
    r"""Squared effects of the presence of a left and a right context, from 2 x 2 cells: each side present or masked.

    The functional ANOVA of one sentence over the four equally likely cells, which are all there are: the mean squares of
    its effects are exact, not estimates, and add up to the mean squared distance of the cells from their mean. With
    main effect E_L = (h[1, 0] + h[1, 1] - h[0, 0] - h[0, 1]) / 2 and d = h[1, 1] - h[1, 0] - h[0, 1] + h[0, 0],

        Q_L = E_L^2 / 4,   Q_R = E_R^2 / 4,   Q_LR = d^2 / 16.

    Parameters
    ----------
    cells : array of shape (..., 2, 2, dim)
        ``cells[..., l, r, :]``: left side masked (0) or present (1), right side likewise.

    Returns
    -------
    VarianceComponents
        Three arrays of shape (..., dim), float64.

    Raises
    ------
    ValueError
        If the cells are not 2 x 2.

    Examples
    --------
    >>> parts = presence_effects([[[0.0], [0.0]], [[0.0], [4.0]]])
    >>> parts.left, parts.right, parts.interaction
    (array([1.]), array([1.]), array([1.]))
    """
    values = np.asarray(cells, dtype=np.float64)
    if values.ndim < 3 or values.shape[-3:-1] != (2, 2):
        raise ValueError(f"cells have shape (..., 2, 2, dim), got {values.shape}")
    neither, right, left, both = (values[..., i, j, :] for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)))
    # Differences first: a constant that all cells share cancels exactly.
    with_left, alone_left, with_right, alone_right = both - right, left - neither, both - left, right - neither
    return VarianceComponents(
        left=np.square(with_left + alone_left) / 16,
        right=np.square(with_right + alone_right) / 16,
        interaction=np.square(with_left - alone_left) / 16,
    )
