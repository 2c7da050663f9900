"""Direction shares on models whose answer is known."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses import DirectionShares, collect_contexts, direction_shares, natural_statistics
from analyses.direction_shares import CONTROL, CROSSED, STANDARDISED, numerical_floor
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.results import COLUMNS

Corpus = list[tuple[str, ...]]


def shares(result: DirectionShares, layer: int = 1, part: str = "whole", condition: str = CROSSED) -> np.ndarray:
    return result.interval(layer, part, condition).value[:3]


def test_the_name_is_the_function() -> None:
    import analyses.attention_distance
    import analyses.direction_shares  # imports the modules of the same names, which must not hide the functions

    assert isinstance(analyses.direction_shares, types.FunctionType)
    assert isinstance(analyses.attention_distance, types.FunctionType)


def test_an_additive_model_has_no_interaction(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    model = sided(lambda left, right: part_vector(left) + 2 * part_vector(("r", *right)))
    result = direction_shares(model, corpus)
    left, right, both = shares(result)
    assert abs(both) < 1e-14
    assert left + right + both == pytest.approx(1, abs=1e-14)
    interval = result.interval(1)
    assert interval.low[0] < 0.2 < interval.high[0]  # variances 1 : 4
    assert interval.n == 10
    assert result.interval(1, condition=CONTROL).value[2] > 1e-3  # layer norm alone makes some


@pytest.mark.parametrize(
    ("form", "truth"), [("sum", (0.5, 0.5, 0)), ("product", (0, 0, 1)), ("both", (1 / 3, 1 / 3, 1 / 3))]
)
def test_sign_factors(sided: Any, part_sign: Any, corpus: Corpus, form: str, truth: tuple[float, ...]) -> None:
    forms = {"sum": lambda a, b: a + b, "product": lambda a, b: a * b, "both": lambda a, b: a + b + a * b}

    def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
        """Six dimensions, each with independent signs of its own."""
        return np.array([forms[form](part_sign("l", str(d), *left), part_sign("r", str(d), *right)) for d in range(6)])

    interval = direction_shares(sided(vector), corpus, natural=20).interval(1)
    wide = 1.5 * (interval.high - interval.low)
    assert np.all(np.abs(interval.value[:3] - truth) <= wide[:3] + 1e-12)
    assert interval.value[:3] == pytest.approx(truth, abs=0.12)
    assert interval.value[:3].sum() == pytest.approx(1, abs=1e-12)


def test_a_causal_model_has_left_share_one_and_a_pair_of_them_has_exact_halves(
    fake: Any, part_vector: Any, corpus: Corpus
) -> None:
    def two_towers(words: tuple[str, ...]) -> np.ndarray:
        forward = np.stack([part_vector(words[: i + 1]) for i in range(len(words))])
        backward = np.stack([part_vector(("b", *words[i:])) for i in range(len(words))])
        own = np.stack([part_vector((word,)) for word in words])
        return np.stack([np.hstack([own, own]), np.hstack([forward, backward])])

    parts = types.MappingProxyType({"whole": slice(None), "forward": slice(0, 6), "backward": slice(6, 12)})
    result = direction_shares(fake(two_towers, parts=parts, directionality="concatenated"), corpus)
    assert shares(result, part="forward") == pytest.approx([1, 0, 0], abs=1e-14)
    assert shares(result, part="backward") == pytest.approx([0, 1, 0], abs=1e-14)
    assert abs(shares(result)[2]) < 1e-14
    assert 0.3 < shares(result)[0] < 0.7
    assert {key[1] for key in result.components if key[0] == 0} == {"whole"}


def test_ratio_of_sums_by_a_slow_loop(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    """Pair estimators, summed over dimensions and targets first, in plain loops over the sentences themselves."""

    def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
        a, b = part_vector(left), part_vector(right)
        return np.tanh(a + b) * np.array([1, 1, 1, 1, 1, 30]) + 7

    model = sided(vector)
    contexts = collect_contexts([model], corpus, side=4, grid=3, targets=4)
    result = direction_shares(model, corpus, contexts=contexts, natural=1000)
    words = [model.hidden(tuple(sentence))[1] for sentence in corpus]
    mean = np.concatenate(words).mean(axis=0)
    deviation = np.concatenate(words).std(axis=0)
    for condition, scale in ((CROSSED, 1.0), (STANDARDISED, deviation)):
        crossed, same_right, moment = 0.0, 0.0, 0.0
        for target in contexts.targets:
            h = {
                (i, j): model.hidden((*left, target.word, *right))[1, 4] / scale
                for i, left in enumerate(target.left)
                for j, right in enumerate(target.right)
            }
            n = range(3)
            d = [h[a, r] - h[b, r] - h[a, s] + h[b, s] for a in n for b in n for r in n for s in n if a != b and r != s]
            e = [h[a, r] - h[b, r] for a in n for b in n for r in n if a != b]
            f = [h[a, r] - h[a, s] for a in n for r in n for s in n if r != s]
            crossed += np.mean([x @ x for x in d]) / 4
            same_right += np.mean([x @ x for x in e]) / 2
            moment += np.mean([x @ x for x in f]) / 2
        left, right, both = same_right - crossed, moment - crossed, crossed
        expected = np.array([left, right, both]) / (left + right + both)
        assert shares(result, condition=condition) == pytest.approx(expected, rel=1e-10)
        distance = [
            np.mean([np.sum(((model.hidden(s)[1, 4] - mean) / scale) ** 2) for s in target.sentences()])
            for target in contexts.targets
        ]
        contextual = result.interval(1, condition=condition).value[3]
        assert contextual == pytest.approx((left + right + both) / sum(distance), rel=1e-10)


def test_a_rogue_dimension_decides_raw_and_not_standardised(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    scale = np.array([1, 1, 1, 1, 1, 1000.0])

    def vector(left: tuple[str, ...], right: tuple[str, ...]) -> np.ndarray:
        own = part_vector(left)
        return scale * np.where(scale == 1, part_vector(right), own)  # the huge dimension alone sees the left side

    result = direction_shares(sided(vector), corpus)
    assert shares(result)[0] > 0.99
    assert shares(result, condition=STANDARDISED)[0] == pytest.approx(1 / 6, abs=0.1)


def test_a_dimension_under_the_floor_is_left_out_of_the_standardised_shares(
    fake: Any, part_vector: Any, corpus: Corpus
) -> None:
    """Rounding noise in natural sentences (13 words), a huge function of the left side in composed ones (9 words)."""

    def hidden(words: tuple[str, ...], *, last: bool) -> np.ndarray:
        own = np.stack([part_vector((word,)) for word in words])
        sides = np.stack([part_vector(("r", *words[i + 1 :])) for i in range(len(words))])
        noise = [100 + (1e-14 if len(words) > 9 else 50) * part_vector(("n", *words[:i]))[0] for i in range(len(words))]
        vectors = own + sides
        if last:
            vectors[:, 5] = noise
        return np.stack([own, vectors] if last else [own[:, :5], vectors[:, :5]])

    model, rest = (fake(lambda words, last=last: hidden(words, last=last)) for last in (True, False))
    contexts = collect_contexts([model], corpus, side=4, grid=4)
    result, without = (direction_shares(one, corpus, contexts=contexts) for one in (model, rest))
    weight = natural_statistics(model, corpus).weight[1]
    assert weight[5] == 0
    assert weight[:5].min() > 0
    assert shares(result)[0] > 0.9, "as they are, the dimension decides"
    assert result.interval(1, condition=STANDARDISED).value == pytest.approx(
        without.interval(1, condition=STANDARDISED).value, rel=1e-12, abs=1e-14
    )
    assert shares(result, condition=STANDARDISED) == pytest.approx([0, 1, 0], abs=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_at_the_numerical_floor_shares_are_missing(sided: Any, part_vector: Any, corpus: Corpus, dtype: str) -> None:
    """Noise of a few eps, relative to the vectors' size, is no contextual variance; ten thousand times as much is."""
    eps = 2.0**-52 if dtype == "float64" else 2.0**-23

    def model(size: float) -> Any:
        return sided(lambda left, right: 100 + 100 * size * part_vector((*left, "|", *right)), dtype=dtype)

    noise = direction_shares(model(2 * eps), corpus)
    for condition in (CROSSED, CONTROL):
        interval = noise.interval(1, condition=condition)
        assert np.isnan([*interval.value[:3], *interval.low[:3], *interval.high[:3]]).all()
    assert 0 <= noise.interval(1).value[3] < 1e-8
    signal = direction_shares(model(2e4 * eps), corpus)
    assert np.isfinite(signal.interval(1, condition=CONTROL).value[2])
    assert shares(signal)[2] > 0.8
    assert numerical_floor(dtype) == (32 * eps) ** 2


def test_layer_zero_is_missing_and_its_rows_are_there(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    result = direction_shares(sided(lambda left, right: part_vector(left)), corpus, data="made up", layers=0)
    frame = result.to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert set(frame["layer"]) == {0}
    plain = frame[frame["condition"] == CROSSED].set_index("measure")
    assert plain.loc["direction_share_left":"direction_share_interaction", "value"].isna().all()
    assert len(plain) == 4
    assert plain.loc["contextual_share", "value"] == 0
    assert set(frame[frame["condition"] == CONTROL]["measure"]) == {"direction_share_interaction"}
    assert set(frame["data"]) == {"made up"}
    assert set(frame["n"]) == {10}


def test_missing_layers_do_not_hide_the_others(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    frame = direction_shares(sided(lambda left, right: part_vector(left)), corpus).to_frame()
    left = frame[(frame["measure"] == "direction_share_left") & (frame["condition"] == CROSSED)].set_index("layer")
    assert np.isnan(left.loc[0, "value"])
    assert left.loc[1, "value"] == pytest.approx(1, abs=1e-14)
    assert left.loc[1, "low"] <= left.loc[1, "value"] <= left.loc[1, "high"] + 1e-12


def test_batch_size_changes_nothing_and_the_seed_is_used(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    model = sided(lambda left, right: np.tanh(part_vector(left) + part_vector(right)))
    one = direction_shares(model, corpus, batch_size=1)
    many = direction_shares(model, corpus, batch_size=50)
    pd.testing.assert_frame_equal(one.to_frame(), many.to_frame())
    assert not np.allclose(shares(direction_shares(model, corpus, seed=1)), shares(one))


def test_contexts_of_another_model_are_refused(fake: Any, corpus: Corpus) -> None:
    def flat(words: tuple[str, ...]) -> np.ndarray:
        return np.zeros((2, len(words), 3))

    contexts = collect_contexts([fake(flat)], corpus, side=4, grid=4)
    with pytest.raises(DataError, match="collect contexts for all models together"):
        direction_shares(fake(flat, pieces=lambda words: [len(word) for word in words]), corpus, contexts=contexts)


def test_wrong_options_are_refused(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    model = sided(lambda left, right: part_vector(left))
    with pytest.raises(UsageError, match="crossed"):
        direction_shares(model, corpus, mode="sideways")
    with pytest.raises(UsageError, match="layers 0 to 1"):
        direction_shares(model, corpus, layers=2)
    with pytest.raises(UsageError, match="natural=0"):
        direction_shares(model, corpus, natural=0)


def test_plot(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    figure = direction_shares(sided(lambda left, right: part_vector(left)), corpus).plot()
    assert [line.get_label() for line in figure.axes[0].lines] == ["left", "right", "interaction"]


def test_slope_of_planted_curves(sided: Any, part_vector: Any, corpus: Corpus) -> None:
    """Interaction shares 0, 1/3, 1 over layers 1..3 have slope 1/2, layer 0 taking no part; equal targets, no spread."""
    planted = [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0), (0.0, 0.0, 1.0)]
    model = direction_shares(sided(lambda left, right: part_vector(left)), corpus)
    components = {
        (layer, "whole", CROSSED): np.tile([*effects, 1.0, 1.0], (8, 1)) for layer, effects in enumerate(planted)
    }
    info = dataclasses.replace(model.info, layer_names=("0", "1", "2", "3"))
    result = dataclasses.replace(model, info=info, components=components)
    slope = result.slope()
    assert slope is not None
    assert (slope.value[0], slope.low[0], slope.high[0]) == pytest.approx((0.5, 0.5, 0.5))
    row = result.to_frame().query("measure == 'direction_share_interaction_slope'")
    assert row["value"].item() == pytest.approx(0.5)
    assert row["layer"].isna().all()
    assert model.slope() is None
