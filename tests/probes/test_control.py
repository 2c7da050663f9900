import numpy as np
import pytest

from extractors.foundation.errors import DataError
from probes.control import control_labels, label_marginal

MARGINAL = {"NOUN": 0.5, "VERB": 0.3, "X": 0.2}


def types(n=30_000, distinct=5_000, seed=0):
    return np.array([f"w{i}" for i in np.random.default_rng(seed).integers(0, distinct, n)], dtype=object)


def test_a_type_has_one_label_in_every_split_and_order():
    words = types()
    labels = control_labels(words, marginal=MARGINAL, seed=0)
    of_type = dict(zip(words, labels, strict=True))
    assert [of_type[word] for word in words] == labels.tolist()
    shuffled = np.random.default_rng(1).permutation(words)[:1000]
    again = control_labels(shuffled, marginal=MARGINAL, seed=0)
    assert again.tolist() == [of_type[word] for word in shuffled]
    alone = control_labels(shuffled[:1], marginal=dict(reversed(MARGINAL.items())), seed=0)
    assert alone.tolist() == [of_type[shuffled[0]]]


def test_the_marginal_is_kept_over_types():
    words = np.array([f"w{i}" for i in range(20_000)], dtype=object)
    shares = label_marginal(control_labels(words, marginal=MARGINAL, seed=3))
    assert shares.keys() == MARGINAL.keys()
    for label, expected in MARGINAL.items():
        assert shares[label] == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 20_000))


def test_labels_are_drawn_and_not_shuffled():
    words = np.array([f"w{i}" for i in range(100)], dtype=object)
    counts = {
        tuple(sorted(label_marginal(control_labels(words, marginal=MARGINAL, seed=seed)).items())) for seed in range(10)
    }
    assert len(counts) > 1, "a shuffle would give the same counts for every seed"


def test_labels_of_types_are_independent_of_the_real_labels():
    words = np.array([f"w{i}" for i in range(5_000)], dtype=object)
    real = control_labels(words, marginal=MARGINAL, seed=1)
    control = control_labels(words, marginal=label_marginal(real), seed=0)
    by_chance = sum(share**2 for share in MARGINAL.values())
    assert (real == control).mean() == pytest.approx(by_chance, abs=0.03)


def test_seed_zero_is_a_seed():
    words = types()
    zero, again, one = (control_labels(words, marginal=MARGINAL, seed=seed) for seed in (0, 0, 1))
    assert (zero == again).all()
    assert (zero == one).mean() < 0.6


def test_counts_serve_as_a_marginal():
    words = types(1000)
    shares = control_labels(words, marginal=MARGINAL, seed=0)
    counts = control_labels(words, marginal={name: 1000 * share for name, share in MARGINAL.items()}, seed=0)
    assert (shares == counts).all()


def test_label_marginal():
    labels = np.array(["b", "a", "b", "b"], dtype=object)
    assert label_marginal(labels) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize("marginal", [{}, {"a": -1.0, "b": 2.0}, {"a": np.nan}, {"a": 0.0}])
def test_a_marginal_that_is_none_is_refused(marginal):
    with pytest.raises(DataError, match="not a distribution"):
        control_labels(types(10), marginal=marginal, seed=0)
