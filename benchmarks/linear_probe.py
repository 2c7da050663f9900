"""The linear probe's whole penalty path against scikit-learn's LogisticRegression on the same features, in one run.

Run with ``python benchmarks/linear_probe.py``; prints the ratio of wall times, and how far apart the objectives are.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from probes.linear import PENALTIES, fit_path


def correlated_features(n: int, dim: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features with a decaying spectrum, as vectors of language models have, and labels that a linear map gives."""
    generator = np.random.default_rng(seed)
    mixing = generator.standard_normal((dim, dim)) * (np.arange(1, dim + 1) ** -0.75)[:, None]
    features = (generator.standard_normal((n, dim)) @ mixing).astype(np.float32)
    logits = 3 * features @ generator.standard_normal((dim, classes)) / features.std() / np.sqrt(dim)
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return features, labels


def objective(probe: object, features: np.ndarray, labels: np.ndarray, penalty: float) -> float:
    """Mean negative log likelihood plus penalty / 2 * |W|^2, from coefficients on standardised features."""
    coefficients = np.asarray(probe.coef_, dtype=np.float64)  # type: ignore[attr-defined]
    log_p = log_softmax(features @ coefficients.T + probe.intercept_, axis=1)  # type: ignore[attr-defined]
    return float(-log_p[np.arange(len(labels)), labels].mean() + penalty / 2 * (coefficients**2).sum())


def main() -> None:
    """Time both on the same penalties; scikit-learn warm-started and cold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=25_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--classes", type=int, default=17)
    options = parser.parse_args()
    features, labels = correlated_features(options.items + 2_500, options.dim, options.classes, seed=0)
    train, dev = slice(0, options.items), slice(options.items, None)
    mean, scale = features[train].mean(axis=0), features[train].std(axis=0)
    features = (features - mean) / scale

    started = time.perf_counter()
    path = fit_path(features[train], labels[train], features[dev], labels[dev], standardize=False)
    ours = time.perf_counter() - started
    print(f"ours: {len(path.penalties)} of {len(PENALTIES)} penalties in {ours:.2f} s")

    for warm in (False, True):
        model = LogisticRegression(max_iter=2000, warm_start=warm)
        started = time.perf_counter()
        for penalty in path.penalties:
            model.set_params(C=1 / (options.items * penalty)).fit(features[train], labels[train])
        theirs = time.perf_counter() - started
        name = "warm-started" if warm else "cold"
        print(f"scikit-learn, {name}: {theirs:.2f} s, ratio {theirs / ours:.1f}")

    penalty = path.probe.penalty
    peer = LogisticRegression(C=1 / (options.items * penalty), max_iter=2000).fit(features[train], labels[train])
    a, b = (objective(one, features[train], labels[train], penalty) for one in (path.probe, peer))
    print(
        f"chosen penalty {penalty:g}: objective ours {a:.7f}, scikit-learn {b:.7f}, relative difference {(a - b) / b:+.1e}"
    )
    agree = np.mean(path.probe.predict(features[dev]) == peer.predict(features[dev]))
    print(f"predictions on held-out items agree in {100 * agree:.2f} %")


if __name__ == "__main__":
    main()
