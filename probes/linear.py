"""The linear probe: multinomial logistic regression with an L2 penalty, solved fast and to a stated optimum.

A preconditioned L-BFGS: the Hessian at the start is close to (class covariance) x (feature covariance), a Kronecker product
whose eigenbasis is cheap (compare Böhning 1992; Martens & Grosse 2015). The basis changes the path, never the objective.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from extractors.foundation.errors import DataError, UsageError
from probes.lbfgs import minimise

Floats = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""The default penalty path, strongest first."""

_SAME = 1e-9
"""Losses that differ by less, relatively, are the same: fits that stay where they began differ by rounding."""
_CHUNK_BYTES = 4_000_000
"""Rows are visited in blocks of about this size, so that a block is still in cache for the gradient."""
_COVARIANCE_ROWS = 20_000
"""The covariance only steers the solver; so many rows (or 4 per dimension) give it well enough."""


@dataclass(frozen=True)
class Design:
    """Features made ready to fit any labels and any penalty on: centred, scaled, their covariance factorised."""

    features: Floats
    """(n, dim), C-ordered, centred and, if asked for, divided by `scale`; float32 or float64 as given."""
    mean: Array
    """(dim,) training mean."""
    scale: Array
    """(dim,) training standard deviation; 1 for constant features and where features are not standardised."""
    eigenvalues: Array
    """(rank,) eigenvalues of the covariance of `features` (estimated on evenly spaced rows when there are many)."""
    eigenvectors: Array
    """(dim, rank) its eigenvectors, one per column, without the directions in which the features do not vary."""

    @classmethod
    def of(cls, features: npt.ArrayLike, *, standardize: bool = True) -> Design:
        """Prepare a matrix of features.

        Parameters
        ----------
        features : array of shape (n, dim)
            Float32 stays float32 (the fast way); anything else becomes float64.
        standardize : bool
            Divide each dimension by its standard deviation. Centring is always done: the intercept is free, so it changes
            nothing but the numbers' size.

        Raises
        ------
        ValueError
            If the matrix is empty, not two-dimensional, or holds NaN or infinity.
        """
        given = check_array(features, dtype=[np.float64, np.float32], input_name="features")
        # Centring twice takes away the rounding of the first mean, which may exceed a small deviation.
        rough = given.mean(axis=0, dtype=np.float64).astype(given.dtype)
        matrix = np.ascontiguousarray(given - rough)
        rest = matrix.mean(axis=0, dtype=np.float64)
        matrix -= rest.astype(given.dtype)
        mean = rough.astype(np.float64) + rest
        deviation = np.sqrt(np.einsum("ij,ij->j", matrix, matrix, dtype=np.float64) / len(matrix))
        # A constant column leaves rounding noise after centring; dividing by it would make a feature of the noise.
        constant = deviation <= 10 * np.finfo(matrix.dtype).eps * np.abs(mean)
        matrix[:, constant] = 0
        scale = np.where(constant, 1.0, deviation) if standardize else np.ones_like(mean)
        if standardize:
            matrix /= scale.astype(matrix.dtype)
        step = max(1, len(matrix) // max(_COVARIANCE_ROWS, 4 * matrix.shape[1]))
        values, vectors = np.linalg.eigh(_covariance(matrix[::step]))
        # Where no item varies, the optimum has no weight, and rounding noise must not lead the solver there. (Rows outside
        # a sample may vary where those in it do not.)
        varying = values > 1e-12 * values[-1] if step == 1 else np.ones(len(values), dtype=np.bool_)
        return cls(matrix, mean, scale, np.maximum(values[varying], 0), vectors[:, varying])


@dataclass(frozen=True)
class _Solution:
    """An optimum in the coordinates of a design: logits are features @ weights.T + intercept."""

    weights: Array
    intercept: Array
    objective: float
    iterations: int
    gap: float
    converged: bool


class LinearProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Multinomial logistic regression with an L2 penalty.

    Minimises ``mean_i -log p(y_i | x_i) + penalty / 2 * |W|^2`` over the weights W and a free intercept, on features
    centred and divided by their training standard deviation. It is the optimum of scikit-learn's
    ``LogisticRegression(C=1 / (n * penalty))`` on the same standardised features; like there, two classes share one
    weight vector (W has one row), more classes have one each.

    Parameters
    ----------
    penalty : float
        Strength of the penalty, not negative, in the convention of the mean: it means the same for every n.
    standardize : bool
        Divide each feature by its training standard deviation first (the penalty then treats all alike).
    tol : float
        Stop when the estimated height above the optimal objective (half the squared gradient in the quasi-Newton metric)
        falls under `tol` times the objective.
    max_iter : int
        Most iterations; reaching it warns with ``ConvergenceWarning``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (n_classes, dim), or (1, dim) for two classes
        Weights for the features as given (the standardisation is folded in), float64.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        Intercepts for the features as given.
    objective_ : float
        The penalised objective reached, in nats.
    n_iter_ : int
        Iterations used.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Float32 features are multiplied in float32, the loss and the gradient are summed up in float64.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> LinearProbe(penalty=0.1).fit(X, ["a", "a", "b", "b"]).predict([[-3.0], [3.0]]).tolist()
    ['a', 'b']
    """

    def __init__(
        self, penalty: float = 1e-3, *, standardize: bool = True, tol: float = 1e-6, max_iter: int = 1000
    ) -> None:
        self.penalty = penalty
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the probe.

        Parameters
        ----------
        X : array of shape (n, dim)
            Features.
        y : array of shape (n,)
            Labels, strings or integers.

        Raises
        ------
        ValueError
            If the data are not finite, do not match, or hold one class only; or the penalty is negative.
        """
        matrix, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        design = Design.of(matrix, standardize=self.standardize)
        self._fit_design(design, classes, codes.astype(np.int64), None)
        return self

    def decision_function(self, X: npt.ArrayLike) -> Array:
        """Logits, shape (n, n_classes); for two classes the log odds of the second, shape (n,)."""
        check_is_fitted(self)
        matrix = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        scores: Array = matrix.astype(np.float64, copy=False) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_log_proba(self, X: npt.ArrayLike) -> Array:
        """Log probabilities in nats, shape (n, n_classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """Probabilities, shape (n, n_classes)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable label of each row, shape (n,)."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def _fit_design(
        self, design: Design, classes: npt.NDArray[Any], codes: Codes, start: _Solution | None
    ) -> _Solution:
        if len(classes) < 2:
            raise ValueError(f"the labels hold one class only ({classes[0]!r}); a probe needs at least two")
        if not (np.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty must be finite and not negative, got {self.penalty!r}")
        solution = _solve(design, codes, len(classes), self.penalty, self.tol, self.max_iter, start)
        if not solution.converged:
            warnings.warn(
                f"the linear probe stopped after {solution.iterations} iterations, an estimated {solution.gap:.1e} above the "
                f"optimum of {solution.objective:.4g}; raise max_iter (now {self.max_iter}) or the penalty "
                f"(now {self.penalty:g})",
                ConvergenceWarning,
                stacklevel=3,
            )
        weights, intercept = solution.weights, solution.intercept
        if len(classes) == 2:
            weights, intercept = weights[1:] - weights[:1], intercept[1:] - intercept[:1]
        self.classes_ = classes
        self.coef_ = weights / design.scale
        self.intercept_ = intercept - self.coef_ @ design.mean
        self.objective_ = solution.objective
        self.n_iter_ = max(1, solution.iterations)
        self.n_features_in_ = design.features.shape[1]
        return solution


@dataclass(frozen=True)
class PenaltyPath:
    """What `fit_path` tried and what it chose."""

    probe: LinearProbe
    """The probe with the lowest cross-entropy on the development set."""
    penalties: tuple[float, ...]
    """The penalties tried, strongest first."""
    dev_cross_entropy: tuple[float, ...]
    """Their cross-entropy on the development set, in nats per item with a known label; of those not chosen roughly."""


def fit_path(
    X: npt.ArrayLike | Design,
    y: npt.ArrayLike,
    X_dev: npt.ArrayLike,
    y_dev: npt.ArrayLike,
    *,
    penalties: Sequence[float] = PENALTIES,
    standardize: bool = True,
    tol: float = 1e-6,
    rough: float = 1e-3,
    patience: int | None = 1,
    max_iter: int = 1000,
) -> PenaltyPath:
    """Choose the penalty on a development set, from strong to weak, each fit starting from the one before.

    Along the path the development cross-entropy falls and then rises, so the path ends once it has got worse. (A fit that stays
    at zero weights under a strong penalty is not worse, it is the same, and the path goes on.) Choosing needs no exact
    optima: each fit goes within `rough` of its own, and only that of the chosen penalty goes on to `tol`.

    Parameters
    ----------
    X : array of shape (n, dim), or Design
        Training features; give a `Design` to fit several label sets on the same features (`standardize` then has no
        effect).
    y : array of shape (n,)
        Training labels.
    X_dev, y_dev : arrays of shape (n_dev, dim) and (n_dev,)
        Development set; items whose label does not occur in `y` are left out, since no probe could give them a code.
    penalties : sequence of float
        In any order; sorted to run from strong to weak.
    standardize, tol, max_iter
        See `LinearProbe`.
    rough : float
        As `tol`, for the choice of the penalty.
    patience : int or None
        Penalties that may be worse than the best one before the path ends; None: try them all.

    Returns
    -------
    PenaltyPath
        The chosen probe, converged to `tol` as if fitted alone, and the path.

    Raises
    ------
    UsageError
        If no penalty is given.
    DataError
        If no development item has a label that occurs in training.
    ValueError
        As `LinearProbe.fit`.
    """
    if len(penalties) == 0:
        raise UsageError("no penalty given; give at least one, such as 1e-3")
    design = X if isinstance(X, Design) else Design.of(X, standardize=standardize)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(codes) != len(design.features):
        raise ValueError(f"{len(design.features)} rows of features but {len(codes)} labels")
    labels = np.asarray(y_dev)
    known, gold = known_codes(labels, classes)
    if not known.any():
        raise DataError(
            f"none of the {len(labels)} development items has a label that occurs in training; "
            "the penalty cannot be chosen: check that both splits carry the same labels"
        )
    features = np.asarray(X_dev)[known]
    codes = codes.astype(np.int64)
    ordered = sorted(set(penalties), reverse=True)
    first_tol = max(rough, tol) if len(ordered) > 1 else tol
    best, worse, solutions, losses = 0, 0, list[_Solution](), list[float]()
    for place, penalty in enumerate(ordered):
        probe = LinearProbe(penalty, standardize=standardize, tol=first_tol, max_iter=max_iter)
        solutions.append(probe._fit_design(design, classes, codes, solutions[-1] if solutions else None))
        losses.append(float(-probe.predict_log_proba(features)[np.arange(len(gold)), gold].mean()))
        if losses[-1] < losses[best]:
            best = place
        elif losses[-1] > losses[best] * (1 + _SAME):
            worse += 1
            if worse == patience:
                break
    if len(ordered) > 1:
        probe = LinearProbe(ordered[best], standardize=standardize, tol=tol, max_iter=max_iter)
        probe._fit_design(design, classes, codes, solutions[best])
        losses[best] = float(-probe.predict_log_proba(features)[np.arange(len(gold)), gold].mean())
    return PenaltyPath(probe, tuple(ordered[: len(losses)]), tuple(losses))


def known_codes(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], Codes]:
    """Which labels occur in `classes` (sorted), shape (n,), and the positions of those that do, shape (n_known,)."""
    if len(labels) == 0:
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    position = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    known = np.asarray(classes[position] == labels, dtype=np.bool_)
    return known, position[known].astype(np.int64)


def _solve(
    design: Design, codes: Codes, n_classes: int, penalty: float, tol: float, max_iter: int, start: _Solution | None
) -> _Solution:
    """Minimise the objective by L-BFGS in coordinates in which its Hessian at the start is nearly the identity.

    Class scores that all rise together change nothing, so the class axis has n_classes - 1 coordinates: the eigenvectors of
    the mean class covariance E[diag(p) - p p'], whose null vector (1, ..., 1) is left out.
    """
    n, dim = design.features.shape
    rank = len(design.eigenvalues)
    # Symmetric weights (-w/2, w/2) have half the squared norm of scikit-learn's single w.
    strength = 2 * penalty if n_classes == 2 else penalty
    prior = np.bincount(codes, minlength=n_classes) / n
    if start is None:
        log_prior = np.log(prior)
        weights, intercept = np.zeros((n_classes, dim)), log_prior - log_prior.mean()
    else:
        weights, intercept = start.weights, start.intercept
    class_values, class_vectors = np.linalg.eigh(np.diag(prior) - np.outer(prior, prior))
    class_values, class_vectors = class_values[1:], class_vectors[:, 1:]
    size = np.sqrt(np.outer(class_values, design.eigenvalues) + strength)
    stretch = 1 / np.maximum(size, 1e-8)
    intercept_stretch = 1 / np.sqrt(class_values)
    cut = (n_classes - 1) * rank

    def unpack(point: Array) -> tuple[Array, Array]:
        inner = point[:cut].reshape(n_classes - 1, rank) * stretch
        return class_vectors @ (inner @ design.eigenvectors.T), class_vectors @ (point[cut:] * intercept_stretch)

    def objective(point: Array) -> tuple[float, Array]:
        weights, intercept = unpack(point)
        loss, slope, intercept_slope = _loss_and_gradient(design.features, codes, weights, intercept)
        loss += strength / 2 * float(np.vdot(weights, weights))
        slope += strength * weights
        turned = (class_vectors.T @ slope) @ design.eigenvectors * stretch
        return loss, np.concatenate([turned.ravel(), class_vectors.T @ intercept_slope * intercept_stretch])

    turned = (class_vectors.T @ weights) @ design.eigenvectors / stretch
    first = np.concatenate([turned.ravel(), class_vectors.T @ intercept / intercept_stretch])
    minimum = minimise(objective, first, tol=tol, max_iter=max_iter)
    weights, intercept = unpack(minimum.point)
    return _Solution(weights, intercept, minimum.value, minimum.iterations, minimum.gap, minimum.converged)


def _covariance(matrix: Floats) -> Array:
    """The second moment of centred rows, shape (dim, dim), in float64 block by block."""
    dim = matrix.shape[1]
    total = np.zeros((dim, dim))
    for first in range(0, len(matrix), 4096):
        block = matrix[first : first + 4096].astype(np.float64)
        total += block.T @ block
    return total / len(matrix)


def _loss_and_gradient(features: Floats, codes: Codes, weights: Array, intercept: Array) -> tuple[float, Array, Array]:
    """Mean negative log likelihood in nats and its gradient for weights (classes, dim) and intercept (classes,)."""
    n, dim = features.shape
    kernel = weights.astype(features.dtype)
    offset = intercept.astype(features.dtype)[:, None]
    loss, slope, intercept_slope = 0.0, np.zeros_like(weights), np.zeros_like(intercept)
    rows = max(256, _CHUNK_BYTES // (dim * features.itemsize))
    for first in range(0, n, rows):
        block, gold = features[first : first + rows], codes[first : first + rows]
        # Classes lie on the first axis: sums over classes then run along memory, many items at a time.
        scores = kernel @ block.T
        scores += offset
        scores -= scores.max(axis=0)
        items = np.arange(len(gold))
        loss -= float(scores[gold, items].sum(dtype=np.float64))
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        loss += float(np.log(total).sum(dtype=np.float64))
        scores /= total
        scores[gold, items] -= 1
        slope += scores @ block
        intercept_slope += scores.sum(axis=1, dtype=np.float64)
    return loss / n, slope / n, intercept_slope / n
