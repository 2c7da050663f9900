"""Cloze on languages whose conditional probabilities are known, and what is compared with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product as combinations
from typing import Any

import numpy as np
import pytest

from analyses import Cloze, cloze, collect_gaps, shared_candidates
from analyses.cloze import CONDITIONS, DIFFERENCES, MEASURES, WEIGHT
from analyses.gap_mixes import mixed, normalised, prediction_sums, refitted_weights, tuned_weights, weight_units
from analyses.gap_sets import GapSet
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.gaps import Gap, GapFiller
from extractors.representation import ModelInfo

Words = tuple[str, ...]


class FakeFiller(GapFiller):
    """Fills the gap at position 1 by functions `side -> (words) -> probabilities of the vocabulary`."""

    def __init__(
        self,
        vocabulary: Sequence[str],
        predict: dict[str, Callable[[Words], Any]],
        *,
        name: str = "fake",
        family: str = "fake",
        directionality: str = "bidirectional",
        place: int | None = 1,
    ) -> None:
        self.vocabulary, self.predict, self.place = tuple(vocabulary), predict, place
        self.sides = tuple(predict)
        self.info = ModelInfo(name, name, family, "trained", ("in", "out"), 4, directionality)
        self.asked: list[Gap] = []

    def words(self) -> Words:
        return self.vocabulary

    def entries(self, words: Sequence[str]) -> list[int | None]:
        return [self.vocabulary.index(word) if word in self.vocabulary else None for word in words]

    def refusal(self, gap: Gap) -> str | None:
        return None if self.place in (None, gap.position) else "only the second word is predicted"

    def _score(self, gaps: Sequence[Gap], entries: Any) -> dict[str, Any]:
        self.asked += gaps
        return {
            side: np.log(np.array([np.asarray(function(gap.words), dtype=float)[entries] for gap in gaps]))
            for side, function in self.predict.items()
        }


# A Markov chain a, b with stationary distribution (2/3, 1/3). Its 48 sentences of three words hold each combination exactly as
# often as it is probable; the fourth word makes them distinct.
START, STEP = np.array([2, 1]) / 3, np.array([[3, 1], [2, 2]]) / 4
JOINT = START[:, None, None] * STEP[:, :, None] * STEP[None]
"""P(first, second, third)."""


def sentences_of(joint: np.ndarray, size: int, name: str) -> list[Words]:
    found = []
    for x, y, z in combinations(range(2), repeat=3):
        count = joint[x, y, z] * size
        assert count == pytest.approx(round(count))
        found += [("ab"[x], "ab"[y], "ab"[z], f"{name}{x}{y}{z}-{i}") for i in range(round(count))]
    return found


def conditionals(joint: np.ndarray, power: float = 1.0) -> dict[str, Callable[[Words], Any]]:
    """P(second | first), P(second | third), P(second | both), each to a power."""

    def shares(table: np.ndarray) -> np.ndarray:
        raised = table**power
        return raised / raised.sum()

    return {
        "forward": lambda words: shares(joint["ab".index(words[0])].sum(axis=1)),
        "backward": lambda words: shares(joint[:, :, "ab".index(words[2])].sum(axis=0)),
        "joint": lambda words: shares(joint["ab".index(words[0]), :, "ab".index(words[2])]),
    }


def filler(joint: np.ndarray, *sides: str, power: float = 1.0, **options: Any) -> FakeFiller:
    predict = conditionals(joint, power)
    return FakeFiller("ab", {side: predict[side] for side in sides}, **options)


def entropy(joint: np.ndarray, *axes: int) -> float:
    """Conditional entropy in nats of the second word given the words at `axes`."""
    gone = tuple({0, 2} - set(axes))
    table = joint.sum(axis=gone, keepdims=True)
    given = table.sum(axis=1, keepdims=True)
    return float(-(table * np.log(table / given)).sum())


def test_the_markov_chain_has_its_entropies_and_the_product_is_exact() -> None:
    """Given the word between them, the neighbours of a Markov chain are independent: nothing is lost by two models."""
    pair = filler(JOINT, "forward", "backward", name="pair", directionality="concatenated")
    both = filler(JOINT, "joint", name="both")
    result = cloze(
        [pair, both], sentences_of(JOINT, 48, "test"), tuning=sentences_of(JOINT, 48, "tune"), candidates=["a", "b"]
    )
    assert len(result.gaps.test) == len(result.gaps.tuning) == 48
    nats = {name: float(result.interval("pair", name).value[0]) for name in result.models[0].conditions}
    assert list(nats) == ["unigram", "forward", "backward", "product", "tuned mix"]
    assert nats["unigram"] == pytest.approx(entropy(JOINT), abs=1e-12)
    assert nats["forward"] == pytest.approx(entropy(JOINT, 0), abs=1e-12)
    assert nats["backward"] == pytest.approx(entropy(JOINT, 2), abs=1e-12)
    assert nats["product"] == pytest.approx(entropy(JOINT, 0, 2), abs=1e-12)
    assert nats["tuned mix"] == pytest.approx(entropy(JOINT, 0, 2), abs=1e-9)
    np.testing.assert_allclose(result.models[0].weights, (1, 1, -1), atol=1e-4)
    assert float(result.interval("both").value[0]) == pytest.approx(entropy(JOINT, 0, 2), abs=1e-12)
    # The likeliest word given both neighbours is right in 18 + 6 + 6 + 4 of 48 sentences, and second in the others.
    assert float(result.interval("both", measure="cloze_top1").value[0]) == pytest.approx(34 / 48)
    assert float(result.interval("both", measure="cloze_reciprocal_rank").value[0]) == pytest.approx((34 + 14 / 2) / 48)


PARITY = np.array([[[0.45, 0.05], [0.05, 0.45]], [[0.05, 0.45], [0.45, 0.05]]]) / 2
"""The second word is a where both neighbours agree, nine times of ten: neither neighbour alone says anything."""


def test_a_parity_is_lost_on_two_models_and_not_on_one() -> None:
    pair = filler(PARITY, "forward", "backward", name="pair", directionality="concatenated")
    both = filler(PARITY, "joint", name="both")
    test, tune = (sentences_of(PARITY, 40, name) for name in ("test", "tune"))
    result = cloze([pair, both], test, tuning=tune)
    for name in ("unigram", "forward", "backward", "product", "tuned mix"):
        assert float(result.interval("pair", name).value[0]) == pytest.approx(np.log(2), abs=1e-9)
    noise = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    assert float(result.interval("both").value[0]) == pytest.approx(noise, abs=1e-12)
    gap = result.difference("both", "pair")
    assert float(gap.value[0]) == pytest.approx(noise - np.log(2), abs=1e-9)
    assert gap.high[0] < 0
    row = next(row for row in result.rows() if row["measure"] == "cloze_nats_difference")
    assert (row["model"], row["condition"], row["reference"]) == ("both", "joint", "pair")


def test_the_mix_repairs_models_that_are_too_sure() -> None:
    pair = filler(JOINT, "forward", "backward", power=3.0)
    counts = {"a": 2e9, "b": 1e9}
    result = cloze(pair, sentences_of(JOINT, 48, "test"), tuning=sentences_of(JOINT, 48, "tune"), counts=counts)
    (model,) = result.models
    np.testing.assert_allclose(model.weights, (1 / 3, 1 / 3, -1), atol=1e-4)
    assert float(result.interval(0, "tuned mix").value[0]) == pytest.approx(entropy(JOINT, 0, 2), abs=1e-8)
    assert float(result.interval(0, "product").value[0]) > entropy(JOINT, 0, 2) + 0.1
    assert model.tuning_nats["tuned mix"] == pytest.approx(entropy(JOINT, 0, 2), abs=1e-8)


def random_ingredients(seed: int, gaps: int, candidates: int) -> tuple[list[np.ndarray], np.ndarray]:
    generator = generator_for(seed, "ingredients")
    answers = generator.integers(candidates, size=gaps)
    parts = [normalised(generator.gumbel(size=(gaps, candidates))) for _ in range(2)]
    for part in parts:  # somewhat informative
        part[np.arange(gaps), answers] += generator.random(gaps)
    return [normalised(parts[0]), normalised(parts[1]), normalised(generator.gumbel(size=candidates))], answers


STARTS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, -1))


@pytest.mark.parametrize("seed", range(8))
def test_the_mix_is_never_worse_on_the_tuning_text(seed: int) -> None:
    ingredients, answers = random_ingredients(seed, 30 + 100 * (seed % 3), 7)
    weights = tuned_weights(ingredients, answers, starts=STARTS)

    def nats(w: Sequence[float]) -> float:
        return float(prediction_sums(mixed(ingredients, w), answers)[:, 0].mean())

    assert nats(weights) < min(map(nats, STARTS))
    # Nowhere near is better: it is the optimum, not merely a step on the way.
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 1e-3:
        assert nats(weights + step) > nats(weights)
    assert np.array_equal(weights, tuned_weights(ingredients, answers, starts=STARTS))


def test_the_mix_copes_with_ingredients_that_say_the_same() -> None:
    ingredients, answers = random_ingredients(3, 50, 5)
    same = [ingredients[0], ingredients[0], np.full(5, -np.log(5))]
    weights = tuned_weights(same, answers, starts=STARTS)
    assert np.isfinite(weights).all()
    alone = tuned_weights([ingredients[0]], answers, starts=[(1,)])
    assert weights[0] + weights[1] == pytest.approx(alone[0], abs=1e-4)


def test_weights_are_refitted_on_resampled_sentences() -> None:
    """One Newton step for every sample, against tuning anew on some of them."""
    ingredients, answers = random_ingredients(2, 400, 7)
    units = np.arange(400) // 2
    weights = tuned_weights(ingredients, answers, starts=STARTS)
    sums = weight_units(ingredients, answers, weights.tolist(), units)
    assert sums.shape == (200, 12)
    np.testing.assert_allclose(refitted_weights(weights.tolist(), sums.sum(axis=0)), weights, atol=1e-6)
    generator = np.random.default_rng(0)
    anew, steps = [], []
    for _ in range(60):
        counts = generator.multinomial(200, np.full(200, 1 / 200))
        chosen = np.repeat(np.arange(400), np.repeat(counts, 2))
        parts = [one[chosen] if one.ndim == 2 else one for one in ingredients]
        anew.append(tuned_weights(parts, answers[chosen], starts=[weights]))
        steps.append(refitted_weights(weights.tolist(), counts @ sums))
    moved, left = np.array(anew) - weights, np.array(steps) - np.array(anew)
    assert (left.std(axis=0) < 0.25 * moved.std(axis=0)).all()
    np.testing.assert_allclose(np.std(steps, axis=0), np.std(anew, axis=0), rtol=0.15)


def test_a_weight_has_an_interval_that_holds_the_true_one() -> None:
    """The Markov chain's own mix is (1, 1, -1); of models that are too sure (1/3, 1/3, -1)."""
    for power, truth in ((1.0, (1, 1, -1)), (3.0, (1 / 3, 1 / 3, -1))):
        pair = filler(JOINT, "forward", "backward", power=power)
        result = cloze(
            pair,
            sentences_of(JOINT, 96, "test"),
            tuning=sentences_of(JOINT, 480, "tune"),
            counts={"a": 2e9, "b": 1e9},
        )
        found = result.mix_weights(0)
        assert found.n == 480
        assert (found.low < np.array(truth)).all()
        assert (found.high > np.array(truth)).all()
        assert (found.high - found.low < 2).all()
    with pytest.raises(UsageError, match="no tuned mix"):
        cloze(random_filler("joint"), TEXT).mix_weights(0)


def drawn_sentences(size: int, seed: int) -> list[Words]:
    """Sentences of the Markov chain; the words beyond the third make them distinct."""
    generator = generator_for("drawn", size, seed)
    places = generator.choice(8, p=JOINT.ravel(), size=size)
    return [("ab"[p >> 2], "ab"[p >> 1 & 1], "ab"[p & 1], f"{seed}-{i}") for i, p in enumerate(places.tolist())]


def test_intervals_shrink_with_the_root_of_n_and_estimates_do_not_drift() -> None:
    """Means over 20 draws of 100 and of 1600 sentences each, of models without weights to tune."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    models = [filler(JOINT, "forward", name="one"), filler(JOINT, "joint", name="both")]
    for size in (100, 1600):
        for seed in range(20):
            result = cloze(
                models, drawn_sentences(size, seed), tuning=sentences_of(JOINT, 48, "tune"), targets=size, resamples=200
            )
            assert len(result.gaps.test) == size
            estimates = {
                **{measure: result.interval("both", measure=measure) for measure in MEASURES},
                "difference": result.difference("both", "one"),
            }
            for name, one in estimates.items():
                found.setdefault((size, name), []).append((float(one.value[0]), float(one.high[0] - one.low[0])))
    truth = {
        "cloze_nats": entropy(JOINT, 0, 2),
        "cloze_top1": 34 / 48,
        "cloze_reciprocal_rank": 41 / 48,
        "difference": entropy(JOINT, 0, 2) - entropy(JOINT, 0),
    }
    for name, value in truth.items():
        widths = {}
        for size in (100, 1600):
            values, widths[size] = np.array(found[size, name]).T
            error = values.std(ddof=1) / len(values) ** 0.5
            assert abs(values.mean() - value) < 3.5 * error, (name, size)
            # The interval is as wide as the estimates differ.
            assert widths[size].mean() == pytest.approx(2 * 1.96 * values.std(ddof=1), rel=0.5)
        assert widths[100].mean() / widths[1600].mean() == pytest.approx(4, rel=0.1)


def test_mixes_sum_to_one_over_the_candidates() -> None:
    ingredients, _ = random_ingredients(1, 20, 9)
    for weights in ((1, 1, -1), (0.3, 2.0, -0.7), (0, 0, 0)):
        np.testing.assert_allclose(np.exp(mixed(ingredients, weights)).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(normalised(ingredients[0] - 900), ingredients[0], atol=1e-12)


def test_ranks_count_ties_by_half() -> None:
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    sums = prediction_sums(np.log(shares), np.array([0, 1, 2]))
    np.testing.assert_allclose(sums[:, 0], -np.log([0.5, 0.4, 1 / 3]))
    assert sums[:, 1].tolist() == [1, 0, 0]
    np.testing.assert_allclose(sums[:, 2], [1, 1 / 1.5, 1 / 2])


def anything(words: Words, size: int, name: str) -> np.ndarray:
    """Some distribution that follows from the words."""
    values = generator_for(name, *words).random(size) + 0.05
    return values / values.sum() / 2


VOCABULARY = ("the", "cat", "dog", "sees", "1", ".", "The")
TEXT = [
    tuple(VOCABULARY[i] for i in generator_for("text", number).integers(len(VOCABULARY), size=6))
    for number in range(60)
]


def random_filler(*sides: str, name: str = "random", **options: Any) -> FakeFiller:
    predict = {side: lambda words, side=side: anything(words, len(VOCABULARY), f"{name} {side}") for side in sides}
    return FakeFiller(VOCABULARY, predict, name=name, place=None, **options)


def test_gaps_are_drawn_by_the_seed_and_tuning_text_is_apart() -> None:
    fillers = [random_filler("forward", "backward"), random_filler("joint", name="other")]
    documents = [f"document {number // 6}" for number in range(len(TEXT))]
    one, same, other = (
        collect_gaps(fillers, TEXT, documents=documents, targets=40, tuning_targets=30, seed=seed) for seed in (0, 0, 1)
    )
    assert one == same
    assert one.test != other.test
    assert len(one.test) == 40
    assert len(one.tuning) == 30
    assert {gap.words for gap in one.test}.isdisjoint(gap.words for gap in one.tuning)
    assert all(TEXT[number] == gap.words for number, gap in zip(one.sentences, one.test, strict=True))
    scored = {documents[number] for number in one.sentences}
    tuned = {documents[TEXT.index(gap.words)] for gap in one.tuning}
    assert scored.isdisjoint(tuned)
    assert len(scored) == len(tuned) == 5
    assert "." not in one.candidates
    assert all(gap.answer in one.candidates for gap in (*one.test, *one.tuning))
    places = [(number, gap.position) for number, gap in zip(one.sentences, one.test, strict=True)]
    assert places == sorted(places)


def test_sentences_in_both_texts_are_not_tuned_on() -> None:
    gaps = collect_gaps([random_filler("joint")], TEXT[:30], tuning=TEXT[20:])
    assert {gap.words for gap in gaps.tuning} <= set(TEXT[30:])
    assert any("10 tuning sentences left out" in note for note in gaps.notes)


def test_candidates_are_shared_by_all_models() -> None:
    one = random_filler("joint")
    few = FakeFiller(("dog", "cat", "."), {"joint": lambda words: np.ones(3) / 3}, name="few", place=None)

    class Uncased(FakeFiller):
        def entries(self, words: Sequence[str]) -> list[int | None]:
            return super().entries([word.lower() for word in words])

    uncased = Uncased(VOCABULARY, {"joint": lambda words: np.ones(7) / 7}, place=None)
    assert shared_candidates([one]) == ("the", "cat", "dog", "sees", "1", "The")
    assert shared_candidates([one, few]) == ("cat", "dog")
    assert shared_candidates([one, few], punctuation=True) == ("cat", "dog", ".")
    assert shared_candidates([one, uncased]) == ("the", "cat", "dog", "sees", "1")
    assert shared_candidates([one], ["dog", "bird", "dog"]) == ("dog",)
    assert collect_gaps([one], TEXT, candidates=2).candidates == ("the", "cat")
    counts = {"sees": 5.0, "dog": 9.0}
    gaps = collect_gaps([one], TEXT, candidates=3, counts=counts)
    assert gaps.candidates == ("dog", "sees", "the")
    assert gaps.counts == (9, 5, 0)


def test_what_a_model_cannot_read_is_passed_over_for_all() -> None:
    class Short(FakeFiller):
        def refusal(self, gap: Gap) -> str | None:
            return "too long" if gap.position > 2 else None

    short = Short(VOCABULARY, {"joint": lambda words: np.ones(7) / 7})
    gaps = collect_gaps([random_filler("joint"), short], TEXT)
    assert {gap.position for gap in gaps.test} == {0, 1, 2}
    assert any("gaps passed over" in note for note in gaps.notes)


def test_unigrams_come_from_counts_or_from_the_models_own_mean() -> None:
    pair = random_filler("forward", "backward")
    gaps = collect_gaps([pair], TEXT, counts={"the": 7, "cat": 3}, candidates=["the", "cat", "dog"])
    counted = cloze(pair, gaps=gaps)
    assert counted.notes[-1].startswith("unigram probabilities are from word counts")
    log = dict(zip(gaps.candidates, np.log(np.array([8, 4, 1]) / 13), strict=True))
    wanted = -np.mean([log[gap.answer] for gap in gaps.test])
    assert float(counted.interval(0, "unigram").value[0]) == pytest.approx(wanted)
    own = cloze(pair, gaps=replace(gaps, counts=None))
    shares = [
        values[list(map(VOCABULARY.index, gaps.candidates))]
        for gap in gaps.tuning
        for values in (anything(gap.words, 7, "random forward"), anything(gap.words, 7, "random backward"))
    ]
    mean = np.mean([values / values.sum() for values in shares], axis=0)
    wanted = -np.mean([np.log(mean)[gaps.candidates.index(gap.answer)] for gap in gaps.test])
    assert float(own.interval(0, "unigram").value[0]) == pytest.approx(wanted)


def test_a_masked_model_does_not_read_the_tuning_text_if_there_are_counts() -> None:
    both = random_filler("joint")
    gaps = collect_gaps([both], TEXT, counts={"the": 1})
    cloze(both, gaps=gaps)
    assert sorted(map(repr, both.asked)) == sorted(map(repr, gaps.test))


def models_of_the_study() -> list[FakeFiller]:
    pair, one = ("forward", "backward"), ("joint",)
    return [
        random_filler(*pair, name="elmo", family="elmo", directionality="concatenated"),
        random_filler(*one, name="bilstm", family="bilstm-mlm"),
        random_filler(*pair, name="bigpt", family="bigpt", directionality="concatenated"),
        random_filler(*one, name="bert", family="bert"),
    ]


def test_rows_hold_scores_weights_differences_and_main_effects() -> None:
    result = cloze(models_of_the_study(), TEXT, targets=80, data="text", seed=3)
    frame = result.to_frame()
    scores = frame[frame["measure"].isin(list(MEASURES)) & frame["reference"].isna()]
    assert len(scores) == 3 * (2 * 5 + 2 * 2)
    assert set(scores["condition"]) == set(CONDITIONS)
    assert set(scores["n"]) == {len(set(result.gaps.sentences))}
    assert (scores["low"] <= scores["value"]).all()
    assert (scores["value"] <= scores["high"]).all()
    weights = frame[frame["measure"] == WEIGHT]
    assert list(weights["condition"]) == ["forward", "backward", "unigram"] * 2
    assert set(weights["n"]) == {len({gap.words for gap in result.gaps.tuning})}
    assert (weights["low"] < weights["value"]).all()
    assert (weights["value"] < weights["high"]).all()
    for measure in MEASURES:
        compared = frame[frame["measure"] == f"{measure}_difference"]
        assert len(compared) == 6
        for row in compared.itertuples():
            estimate = result.difference(row.model, row.reference, measure=measure)
            assert (row.value, row.low, row.high) == (estimate.value[0], estimate.low[0], estimate.high[0])
            assert row.unit == MEASURES[measure]
    differences = frame[frame["measure"] == "cloze_nats_difference"]
    assert len(differences) == 6
    assert set(frame["measure"]) == {
        *MEASURES,
        *DIFFERENCES,
        WEIGHT,
        "main_effect_directionality",
        "main_effect_architecture",
        "effect_interaction",
    }
    pairs = set(zip(differences["model"], differences["reference"], strict=True))
    assert {("bilstm", "elmo"), ("bilstm", "bigpt"), ("bert", "elmo"), ("bert", "bigpt")} <= pairs
    value = {model.info.name: float(result.interval(model.info.name).value[0]) for model in result.models}
    for row in differences.itertuples():
        assert row.value == pytest.approx(value[row.model] - value[row.reference])
    effect = frame[frame["measure"] == "main_effect_directionality"].iloc[0]
    assert effect["value"] == pytest.approx((value["bilstm"] + value["bert"] - value["elmo"] - value["bigpt"]) / 2)
    assert set(frame["data"]) == {"text"}
    assert result.plot().axes


def test_intervals_are_paired_over_sentences() -> None:
    result = cloze(models_of_the_study()[:2], TEXT, targets=80)
    same = result.difference("elmo", "elmo")
    assert float(same.value[0]) == float(same.low[0]) == float(same.high[0]) == 0
    within = result.difference("elmo", "elmo", reference_condition="unigram")
    wanted = result.interval("elmo").value - result.interval("elmo", "unigram").value
    assert float(within.value[0]) == pytest.approx(float(wanted[0]))
    assert within.n == len(set(result.gaps.sentences))
    assert within.low[0] < within.value[0] < within.high[0]
    assert result.per_sentence.sum() == len(result.gaps.test)


def test_results_of_the_same_gaps_can_be_joined() -> None:
    models = models_of_the_study()
    gaps = collect_gaps(models, TEXT, targets=50)
    together = cloze(models, gaps=gaps)
    parts: list[Cloze] = [cloze(model, gaps=gaps) for model in models]
    joined = parts[0].joined(parts[1]).joined(parts[2]).joined(parts[3])
    assert joined.rows() == together.rows()
    with pytest.raises(UsageError, match="not of the same gaps"):
        parts[0].joined(cloze(models[1], TEXT, seed=5))


def test_results_do_not_depend_on_the_batch() -> None:
    one, other = (cloze(models_of_the_study(), TEXT, targets=50, batch_size=size) for size in (1, 64))
    assert one.rows() == other.rows()


def test_impossible_requests_are_refused(fake: Any, corpus: Any) -> None:
    both = random_filler("joint")
    with pytest.raises(UsageError, match="no model"):
        cloze([], TEXT)
    with pytest.raises(UsageError, match="either sentences or gaps"):
        cloze(both)
    with pytest.raises(UsageError, match="either sentences or gaps"):
        cloze(both, TEXT, gaps=collect_gaps([both], TEXT))
    with pytest.raises(DataError, match=r"'xyzzy'.* leave them out"):
        cloze(both, TEXT, candidates=["the", "xyzzy"])
    with pytest.raises(UsageError, match="got the string"):
        cloze(both, TEXT, candidates="the")
    with pytest.raises(UsageError, match="candidates=1 is not enough"):
        cloze(both, TEXT, candidates=1)
    with pytest.raises(UsageError, match="must be positive"):
        cloze(both, TEXT, targets=0)
    with pytest.raises(UsageError, match="2 documents were given for 60"):
        cloze(both, TEXT, documents=["a", "b"])
    with pytest.raises(DataError, match="no gaps to score"):
        cloze(both, [("nothing", "here")], tuning=TEXT)
    with pytest.raises(DataError, match="no gaps to tune on"):
        cloze(both, TEXT, tuning=TEXT)
    with pytest.raises(DataError, match="share 0 candidates"):
        cloze([both, FakeFiller(["x", "y"], {"joint": lambda words: [0.5, 0.5]})], TEXT)
    with pytest.raises(UsageError, match="cannot fill gaps"):
        cloze(fake(lambda words: np.zeros((2, len(words), 3))), corpus)
    result = cloze(both, TEXT)
    with pytest.raises(UsageError, match=r"no model 'elmo' here; choose from random"):
        result.interval("elmo")
    with pytest.raises(UsageError, match=r"was not asked for 'forward'"):
        result.interval(0, "forward")
    with pytest.raises(UsageError, match="'cloze_bits' is unknown"):
        result.interval(0, measure="cloze_bits")


def test_a_gap_set_is_what_it_says() -> None:
    gaps = collect_gaps([random_filler("joint")], TEXT, targets=10)
    assert isinstance(gaps, GapSet)
    assert gaps.test[0].answer == gaps.test[0].words[gaps.test[0].position]
