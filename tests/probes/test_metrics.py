import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from probes.metrics import accuracy, cross_entropy, difference, is_iob2, macro_f1, scores, span_f1


def value(measure):
    (score,) = scores([measure], resamples=2)
    return score.value


def random_labels(n=400, seed=0):
    generator = np.random.default_rng(seed)
    gold = generator.choice(list("abcd"), n, p=[0.6, 0.3, 0.09, 0.01]).astype(object)
    predicted = np.where(generator.random(n) < 0.6, gold, generator.choice(list("abce"), n)).astype(object)
    return gold, predicted, generator.integers(0, 40, n)


def test_accuracy_and_macro_f1_are_those_of_scikit_learn():
    gold, predicted, units = random_labels()
    assert value(accuracy(gold, predicted, units)) == pytest.approx(accuracy_score(gold, predicted))
    assert value(macro_f1(gold, predicted, units)) == pytest.approx(f1_score(gold, predicted, average="macro"))


def test_resampling_a_measure_equals_computing_it_on_the_resampled_items():
    gold, predicted, units = random_labels()
    measure = macro_f1(gold, predicted, units)
    generator = np.random.default_rng(1)
    for _ in range(5):
        drawn = generator.integers(0, 40, 40)
        rows = np.concatenate([np.flatnonzero(units == unit) for unit in drawn])
        sums = np.bincount(drawn, minlength=40).astype(float) @ measure.statistics
        expected = f1_score(gold[rows], predicted[rows], average="macro")
        assert measure.function(sums)[0] == pytest.approx(expected)


def test_cross_entropy_in_bits_without_items_that_have_no_code():
    logs = np.log([0.5, 0.25, np.nan, 0.125])
    assert value(cross_entropy(logs, np.array([0, 0, 1, 1]))) == pytest.approx(2.0)
    assert np.isnan(value(cross_entropy(np.full(2, np.nan), np.array([0, 1]))))


def spans_by_hand(tags):
    """Entities of one unbroken sentence as (begin, end, type), word by word as in conlleval."""
    found, begin, kind = [], None, None
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if begin is not None and (prefix in ("B", "O") or name != kind):
            found.append((begin, position, kind))
            begin = None
        if begin is None and prefix != "O":
            begin, kind = position, name
    return set(found)


def test_span_f1_by_hand_on_random_tags():
    generator = np.random.default_rng(0)
    tags = np.array(["O", "B-P", "I-P", "B-L", "I-L"], dtype=object)
    gold, predicted = (tags[generator.integers(0, 5, 600)] for _ in range(2))
    predicted = np.where(generator.random(600) < 0.7, gold, predicted)
    sentence, position = np.divmod(np.arange(600), 12)
    right = entities = 0
    for first in range(0, 600, 12):
        ours, theirs = (spans_by_hand(row[first : first + 12]) for row in (gold, predicted))
        right += len(ours & theirs)
        entities += len(ours) + len(theirs)
    expected = 2 * right / entities
    assert 0.2 < expected < 0.9
    assert value(span_f1(gold, predicted, sentence, position, sentence)) == pytest.approx(expected)
    order = generator.permutation(600)
    shuffled = span_f1(gold[order], predicted[order], sentence[order], position[order], sentence[order])
    assert value(shuffled) == pytest.approx(expected)


def test_entities_end_at_sentences_and_gaps():
    gold = np.array(["B-P", "I-P", "I-P", "I-P"], dtype=object)
    split = np.array(["B-P", "B-P", "B-P", "B-P"], dtype=object)
    sentence, position = np.array([0, 1, 1, 1]), np.array([5, 6, 8, 9])
    # gold: [5] | [6] | [8, 9]; predicted: [5] | [6] | [8] | [9]
    assert value(span_f1(gold, split, sentence, position, sentence)) == pytest.approx(2 * 2 / 7)
    outside = np.array(["O"] * 4, dtype=object)
    assert np.isnan(value(span_f1(outside, outside, sentence, position, sentence)))


def test_which_labels_are_iob2():
    assert is_iob2(["B-PER", "I-PER", "O"])
    assert not is_iob2(["O"])
    assert not is_iob2(["B-PER", "NOUN", "O"])


def test_differences_are_paired():
    gold, predicted, units = random_labels(4000)
    worse = predicted.copy()
    worse[:200] = "z"
    first, second = accuracy(gold, predicted, units), accuracy(gold, worse, units)
    gain, alone, other = scores([difference("gain", first, second), first, second], seed=3)
    assert gain.value == pytest.approx(alone.value - other.value)
    assert gain.low > 0
    assert gain.high - gain.low < 0.7 * (alone.high - alone.low)
    assert (gain.measure, gain.unit, gain.n) == ("gain", "proportion", 40)


def test_intervals_are_over_units_and_not_over_items():
    """Items of a unit are all right or all wrong: the interval must be as wide as for one item per unit."""
    generator = np.random.default_rng(0)
    right = generator.random(100) < 0.5
    gold = np.zeros(100)
    single = accuracy(gold, 1.0 - right, np.arange(100))
    repeated = accuracy(np.repeat(gold, 50), np.repeat(1.0 - right, 50), np.repeat(np.arange(100), 50))
    (one,), (many,) = scores([single], seed=1), scores([repeated], seed=1)
    assert (one.value, one.low, one.high) == (many.value, many.low, many.high)
    assert 0.15 < one.high - one.low < 0.25
    assert many.n == 100


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Sentences with a common difficulty each: 95 % intervals of accuracy over 300 simulated corpora."""
    generator = np.random.default_rng(0)
    units, truth, covered = np.repeat(np.arange(80), 6), 0.7, 0
    for trial in range(300):
        difficulty = generator.beta(7, 3, 80)[units]
        right = (generator.random(480) < difficulty).astype(float)
        (score,) = scores([accuracy(np.ones(480), right, units)], resamples=300, seed=trial)
        covered += score.low <= truth <= score.high
    # 0.95 less a little for the percentile interval at 80 units; three binomial deviations are 0.04.
    assert 0.90 <= covered / 300 <= 0.985


def test_one_sentence_has_no_interval():
    (score,) = scores([accuracy(np.array([1, 2]), np.array([1, 1]), np.array([5, 5]))])
    assert score.value == 0.5
    assert np.isnan([score.low, score.high]).all()
    assert score.n == 1
