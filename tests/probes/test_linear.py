import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from extractors.foundation.errors import DataError, UsageError
from probes.linear import Design, LinearProbe, fit_path


@parametrize_with_checks([LinearProbe()])
def test_is_a_scikit_learn_classifier(estimator, check):
    check(estimator)


def planted(n=600, dim=12, classes=5, seed=0, noise=1.0):
    """Correlated features of unequal scale and mean; labels from a noisy linear rule with unequal classes."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, dim)) @ generator.normal(size=(dim, dim))
    features = features * 10 ** generator.uniform(-2, 2, dim) + generator.normal(size=dim)
    standard = StandardScaler().fit_transform(features)
    logits = standard @ generator.normal(size=(dim, classes)) + np.log(1 / np.arange(1, classes + 1))
    return features, (logits + noise * generator.gumbel(size=(n, classes))).argmax(axis=1)


def objective(log_proba, weights, labels, penalty):
    return -log_proba[np.arange(len(labels)), labels].mean() + penalty / 2 * (weights**2).sum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("penalty", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("standardize", [True, False])
def test_reaches_the_optimum_of_scikit_learn(dtype, penalty, classes, standardize):
    features, labels = planted(classes=classes)
    features = features.astype(dtype)
    if not standardize:
        features = features / np.abs(features).max(axis=0) * 3
    probe = LinearProbe(penalty, standardize=standardize).fit(features, labels)
    scaler = StandardScaler(with_std=standardize).fit(features.astype(np.float64))
    standard = scaler.transform(features.astype(np.float64))
    reference = LogisticRegression(C=1 / (len(labels) * penalty), tol=1e-9, max_iter=20_000).fit(standard, labels)
    best = objective(reference.predict_log_proba(standard), reference.coef_, labels, penalty)
    scale = scaler.scale_ if standardize else 1.0
    reached = objective(probe.predict_log_proba(features), probe.coef_ * scale, labels, penalty)
    assert reached == pytest.approx(best, rel=2e-5)
    assert probe.objective_ == pytest.approx(reached, rel=1e-5)
    assert (probe.predict(features) == reference.predict(standard)).mean() > 0.99


def test_tightening_the_tolerance_approaches_the_optimal_weights():
    features, labels = planted(noise=3.0)
    standard = StandardScaler().fit_transform(features)
    reference = LogisticRegression(C=1 / (len(labels) * 0.01), tol=1e-10, max_iter=20_000).fit(standard, labels)
    probe = LinearProbe(0.01, tol=1e-13).fit(standard, labels)
    np.testing.assert_allclose(probe.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(probe.intercept_ - probe.intercept_.mean(), reference.intercept_, atol=1e-4)


def test_probabilities_do_not_depend_on_scale_and_shift_of_the_features():
    features, labels = planted()
    moved = features * np.geomspace(1e-3, 1e3, features.shape[1]) + 50
    first, second = LinearProbe(1e-2, tol=1e-10), LinearProbe(1e-2, tol=1e-10)
    first.fit(features, labels), second.fit(moved, labels)
    np.testing.assert_allclose(first.predict_proba(features), second.predict_proba(moved), atol=1e-4)


def test_the_intercept_is_free():
    labels = np.repeat([0, 1, 2], [70, 20, 10])
    probe = LinearProbe(1e6).fit(np.random.default_rng(0).normal(size=(100, 3)), labels)
    np.testing.assert_allclose(probe.predict_proba(np.zeros((1, 3)))[0], [0.7, 0.2, 0.1], atol=1e-3)


@pytest.mark.parametrize("labels", [["b", "a", "b", "a"], [7, -3, 7, -3], [True, False, True, False]])
def test_labels_of_any_kind(labels):
    features = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    probe = LinearProbe(1e-2).fit(features, labels)
    assert probe.predict(features).tolist() == labels
    assert probe.classes_.tolist() == sorted(set(labels))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constant_and_duplicated_features_are_harmless(dtype):
    features, labels = planted()
    features = StandardScaler().fit_transform(features).astype(dtype)
    constant = np.full((len(features), 1), 0.1, dtype=dtype)
    probe = LinearProbe(1e-3).fit(np.hstack([features, constant, features]), labels)
    assert np.abs(probe.coef_[:, features.shape[1]]).max() < 1e-12
    np.testing.assert_allclose(probe.coef_[:, :12], probe.coef_[:, 13:], atol=1e-4)
    # Two copies share the weight, w = w/2 + w/2, which halves its squared norm: twice the penalty on one copy.
    alone = LinearProbe(5e-4).fit(features, labels)
    assert probe.objective_ == pytest.approx(alone.objective_, rel=1e-5)


def test_only_constant_features_give_the_prior():
    probe = LinearProbe().fit(np.ones((10, 2)), np.repeat([0, 1], [7, 3]))
    np.testing.assert_allclose(probe.predict_proba(np.ones((1, 2)))[0], [0.7, 0.3], atol=1e-3)


def test_fewer_items_than_classes_or_dimensions():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(6, 40)).astype(np.float32)
    probe = LinearProbe(1e-4).fit(features, np.arange(6))
    assert (probe.predict(features) == np.arange(6)).all()


def test_a_tiny_standard_deviation_beside_a_large_mean_is_not_noise():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 500)
    features = 100.0 + 1e-3 * (labels + 0.1 * generator.normal(size=500))
    assert LinearProbe(1e-3).fit(features[:, None], labels).score(features[:, None], labels) > 0.99


def test_many_rows_use_a_sample_for_the_covariance_and_still_reach_the_optimum(monkeypatch):
    features, labels = planted(n=2000)
    exact = LinearProbe(1e-3, tol=1e-8).fit(features, labels)
    monkeypatch.setattr("probes.linear._COVARIANCE_ROWS", 100)
    assert not np.allclose(Design.of(features).eigenvalues, np.linalg.eigvalsh(np.corrcoef(features.T)))
    sampled = LinearProbe(1e-3, tol=1e-8).fit(features, labels)
    assert sampled.objective_ == pytest.approx(exact.objective_, rel=1e-7)


def test_blocks_of_rows_sum_to_the_whole(monkeypatch):
    features, labels = planted(n=2000)
    whole = LinearProbe(1e-3, tol=1e-10).fit(features, labels)
    monkeypatch.setattr("probes.linear._CHUNK_BYTES", 1)
    blocks = LinearProbe(1e-3, tol=1e-10).fit(features, labels)
    np.testing.assert_allclose(blocks.coef_, whole.coef_, rtol=1e-4, atol=1e-5)


def test_too_few_iterations_warn():
    features, labels = planted()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        LinearProbe(1e-5, max_iter=2).fit(features, labels)


@pytest.mark.parametrize("penalty", [0.0, 1e-8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_separable_data_without_a_penalty_end_quietly(penalty, dtype):
    features = np.random.default_rng(0).normal(size=(300, 20)).astype(dtype)
    labels = features[:, :4].argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LinearProbe(penalty).fit(features, labels).score(features, labels) == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(bad):
    features, labels = planted()
    features[3, 4] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        LinearProbe().fit(features, labels)


def test_one_class_and_bad_penalties_are_refused():
    with pytest.raises(ValueError, match="one class only"):
        LinearProbe().fit(np.eye(3), ["a", "a", "a"])
    for penalty in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="penalty must be"):
            LinearProbe(penalty).fit(np.eye(3), ["a", "b", "a"])


def test_the_path_chooses_the_penalty_that_is_best_on_dev():
    features, labels = planted(n=900, dim=60, noise=1.0)
    train, dev = slice(0, 250), slice(250, 900)
    penalties = tuple(10.0**power for power in range(0, -6, -1))
    alone = {}
    for penalty in penalties:
        probe = LinearProbe(penalty, tol=1e-9).fit(features[train], labels[train])
        alone[penalty] = -probe.predict_log_proba(features[dev])[np.arange(650), labels[dev]].mean()
    best = min(alone, key=alone.get)
    assert penalties[0] > best > penalties[-1], "the data must have their optimum inside the path"
    path = fit_path(features[train], labels[train], features[dev], labels[dev], penalties=penalties[::-1], tol=1e-9)
    assert path.probe.penalty == best
    assert path.penalties == penalties[: penalties.index(best) + 2], "it stops one after the best"
    np.testing.assert_allclose(path.dev_cross_entropy, [alone[penalty] for penalty in path.penalties], rtol=5e-3)
    assert min(path.dev_cross_entropy) == pytest.approx(alone[best], rel=1e-4)


def test_a_warm_start_changes_nothing_but_the_way():
    features, labels = planted()
    path = fit_path(features, labels, features, labels, penalties=[1.0, 1e-2, 1e-4])
    alone = LinearProbe(1e-4).fit(features, labels)
    assert path.probe.penalty == 1e-4
    assert path.probe.objective_ == pytest.approx(alone.objective_, rel=1e-5)


def test_one_design_serves_several_label_sets():
    features, labels = planted()
    design = Design.of(features)
    for some in (labels, labels[::-1]):
        shared = fit_path(design, some, features, some, penalties=[1e-2])
        own = LinearProbe(1e-2).fit(features, some)
        np.testing.assert_array_equal(shared.probe.coef_, own.coef_)


def test_dev_labels_that_train_lacks():
    features, labels = planted(classes=4)
    names = np.array(["a", "b", "c", "d"], dtype=object)[labels]
    train = names != "b"
    path = fit_path(features[train], names[train], features, names, penalties=[1e-2])
    only_known = fit_path(features[train], names[train], features[train], names[train], penalties=[1e-2])
    assert path.dev_cross_entropy == only_known.dev_cross_entropy
    with pytest.raises(DataError, match="none of the"):
        fit_path(features[train], names[train], features[~train], names[~train])


def test_a_path_needs_penalties_and_matching_lengths():
    features, labels = planted()
    with pytest.raises(UsageError, match="no penalty"):
        fit_path(features, labels, features, labels, penalties=[])
    with pytest.raises(ValueError, match="600 rows of features but 10 labels"):
        fit_path(features, labels[:10], features, labels)


def test_the_path_goes_on_where_a_strong_penalty_leaves_the_weights_at_zero() -> None:
    # What is worth less than the rough tolerance under the strongest penalties gives the same loss again and again, not a worse one.
    generator = np.random.default_rng(0)
    y = np.tile([0, 1], 200)
    X = generator.standard_normal((400, 5))
    X[:, 0] += 0.8 * (2 * y - 1)
    path = fit_path(X[:200], y[:200], X[200:], y[200:], standardize=False, penalties=(1e6, 1e5, 1.0, 0.1))
    assert path.dev_cross_entropy[0] == pytest.approx(path.dev_cross_entropy[1], abs=1e-9)
    assert path.probe.penalty <= 1.0
    assert min(path.dev_cross_entropy) < 0.6


def test_patience_is_how_many_worse_penalties_are_tried() -> None:
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((200, 40)), np.tile([0, 1], 100)
    penalties = (1.0, 0.1, 0.01, 0.001, 0.0001)
    tried = {
        patience: len(fit_path(X[:100], y[:100], X[100:], y[100:], penalties=penalties, patience=patience).penalties)
        for patience in (1, 2, None)
    }
    assert tried == {1: 2, 2: 3, None: 5}
