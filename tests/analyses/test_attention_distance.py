"""Attention distance against closed forms and a slow obvious loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyses import ANALYSES, attention_distance
from analyses.attention_distance import MEASURES
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for

Words = tuple[str, ...]


def flat(words: Words) -> np.ndarray:
    return np.zeros((3, len(words), 4))


def sentence(words: int) -> Words:
    return tuple("abcdefghijklmnopqrstuvwxyz"[:words])


def heads(*kinds: str, keep: float = 1.0) -> Any:
    """Two layers of heads of known kinds; `keep` of the attention goes to words, the rest to special tokens."""

    def attention(words: Words) -> np.ndarray:
        n = len(words)
        maps = {
            "uniform": np.full((n, n), 1 / n),
            "diagonal": np.eye(n),
            "previous": np.eye(n, k=-1) + np.eye(n) * (np.arange(n) == 0),
            "next": np.eye(n, k=1) + np.eye(n) * (np.arange(n) == n - 1),
            "causal": np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None],
            "random": generator_for("maps", *words).dirichlet(np.ones(n), size=n),
        }
        return keep * np.stack([np.stack([maps[kind] for kind in kinds])] * 2)

    return attention


def values(result: Any, head: int | None, condition: str = "plain", layer: int = 1) -> dict[str, float]:
    return {
        row["measure"]: row["value"]
        for row in result.rows()
        if row["head"] == head and row["condition"] == condition and row["layer"] == layer
    }


@pytest.mark.parametrize("n", [1, 2, 7])
def test_closed_forms(fake: Any, n: int) -> None:
    model = fake(flat, attention=heads("uniform", "diagonal", "previous", "next"))
    result = attention_distance(model, [sentence(n)])
    uniform, diagonal, previous, following = (values(result, head) for head in range(4))
    assert uniform["attention_distance"] == pytest.approx((n**2 - 1) / (3 * n), abs=1e-14)
    assert uniform["attention_entropy"] == pytest.approx(np.log2(n), abs=1e-12)
    assert uniform["attention_mass_left"] == pytest.approx((n - 1) / (2 * n), abs=1e-14)
    assert uniform["attention_signed_distance"] == pytest.approx(0, abs=1e-14)
    assert diagonal["attention_mass_self"] == 1
    assert diagonal["attention_distance"] == diagonal["attention_entropy"] == 0
    for item, side, direction in ((previous, "left", -1), (following, "right", 1)):
        # The word without a neighbour looks at itself.
        assert item[f"attention_mass_{side}"] == pytest.approx((n - 1) / n, abs=1e-14)
        assert item["attention_mass_self"] == pytest.approx(1 / n, abs=1e-14)
        assert item["attention_distance"] == pytest.approx((n - 1) / n, abs=1e-14)
        assert item["attention_signed_distance"] == pytest.approx(direction * (n - 1) / n, abs=1e-14)
    for item in (uniform, diagonal, previous, following):
        assert sum(item[f"attention_mass_{side}"] for side in ("left", "self", "right")) == pytest.approx(1, abs=1e-14)


def test_the_baseline_is_what_a_uniform_head_has(fake: Any) -> None:
    corpus = [sentence(n) for n in (3, 9, 4)]
    both = attention_distance(fake(flat, attention=heads("uniform", "diagonal")), corpus)
    for head in (0, 1, None):
        baseline = values(both, head, "uniform")
        assert set(baseline) == set(MEASURES) - {"attention_mass_special"}
        for measure, value in baseline.items():
            assert value == pytest.approx(values(both, 0)[measure], abs=1e-13)
    causal = attention_distance(
        fake(flat, attention=heads("causal", "diagonal"), directionality="left-to-right"), corpus
    )
    assert values(causal, 1, "uniform") == pytest.approx(
        {m: v for m, v in values(causal, 0).items() if m != "attention_mass_special"}, abs=1e-13
    )
    assert values(causal, 0)["attention_mass_right"] == 0
    assert values(causal, 0, "uniform")["attention_mass_right"] == 0
    assert "first word" in causal.notes[0]


def piece_uniform(counts: dict[str, int], *, causal: bool) -> Any:
    """One layer of a head that attends evenly from each piece to all pieces, or to those up to itself, special ones too."""

    def attention(words: Words) -> np.ndarray:
        owners = [None, *(i for i, word in enumerate(words) for _ in range(counts[word])), None]
        maps = np.zeros((2, 1, len(words), len(words)))
        for piece, owner in enumerate(owners):
            reach = owners[: piece + 1] if causal else owners
            for other in reach:
                if owner is not None and other is not None:
                    maps[:, 0, owner, other] += 1 / len(reach) / counts[words[owner]]
        return maps

    return attention


@pytest.mark.parametrize("way", ["bidirectional", "left-to-right"])
def test_a_head_that_is_uniform_over_pieces_equals_its_baseline(fake: Any, way: str) -> None:
    """Words of several pieces are several places to attend to, special tokens take their share: nothing is left over."""
    counts = {"a": 1, "b": 1, "c": 6, "d": 3, "e": 2}
    model = fake(
        flat,
        attention=piece_uniform(counts, causal=way == "left-to-right"),
        pieces=lambda words: [counts[word] for word in words],
        directionality=way,
    )
    found = attention_distance(model, [tuple("abc")])
    if way == "bidirectional":
        assert values(found, 0)["attention_distance"] == pytest.approx(23 / 24, abs=1e-14)  # even over words: 8/9
    found = attention_distance(model, [tuple("abc"), tuple("cadeb"), tuple("ed")])
    measured = values(found, 0)
    assert 0 < measured.pop("attention_mass_special") < 1
    assert values(found, 0, "uniform") == pytest.approx(measured, abs=1e-14)


def noisy_heads(words: Words) -> np.ndarray:
    """Two heads whose sharpness and side differ from sentence to sentence."""
    n = len(words)
    generator = generator_for("noisy heads", *words)
    away = np.subtract.outer(np.arange(n), np.arange(n))
    kinds = []
    for _ in range(2):
        scores = -generator.uniform(0.5, 1) * np.abs(away) + generator.uniform(-0.5, 0.5) * np.sign(away)
        weights = np.exp(scores + generator.normal(0, 0.5, (n, n)))
        kinds.append(generator.uniform(0.3, 1) * weights / weights.sum(axis=1, keepdims=True))
    return np.stack([np.stack(kinds)] * 2)


def test_intervals_shrink_with_the_root_of_the_sentences_and_the_estimate_does_not_drift(fake: Any) -> None:
    generator = generator_for("sentences of many lengths")
    corpus = [
        tuple(f"w{number}x{k}" for k in range(length)) for number, length in enumerate(generator.integers(4, 15, 640))
    ]
    model = fake(flat, attention=noisy_heads)
    # 16 disjoint samples of 20 sentences, against 320 other sentences.
    few = [attention_distance(model, corpus[320 + 20 * i : 340 + 20 * i], layers=1).interval(1) for i in range(16)]
    many = attention_distance(model, corpus[:320], layers=1).interval(1)
    measures = range(len(MEASURES))
    widths = np.mean([one.high - one.low for one in few], axis=0)[:, measures]
    ratios = widths / (many.high - many.low)[:, measures]
    assert np.all((ratios > 3) & (ratios < 5)), ratios
    assert ratios.mean() == pytest.approx(4, rel=0.15)
    # The mean over samples of 20 is as precise as one sample of 320: neither may be off by more than both allow.
    means = np.mean([one.value for one in few], axis=0)[:, measures]
    spread = np.std([one.value for one in few], axis=0, ddof=1)[:, measures] / 4
    errors = np.hypot(spread, (many.high - many.low)[:, measures] / 3.92)
    assert np.all(np.abs(means - many.value[:, measures]) <= 3.5 * errors)
    # Most intervals of 20 sentences hold the value of 320, the rest is the bootstrap's shortness at n = 20.
    covered = [(one.low <= many.value) & (many.value <= one.high) for one in few]
    assert np.mean([inside[:, measures] for inside in covered]) > 0.85


def test_mass_on_special_tokens_changes_nothing_else(fake: Any) -> None:
    corpus = [sentence(n) for n in (3, 9, 4)]
    kinds = ("random", "causal", "uniform")
    full = attention_distance(fake(flat, attention=heads(*kinds)), corpus)
    half = attention_distance(fake(flat, attention=heads(*kinds, keep=0.5)), corpus)
    for head in (0, 1, 2, None):
        for condition in ("plain", "uniform"):
            expected, found = values(full, head, condition), values(half, head, condition)
            if condition == "plain":
                assert expected.pop("attention_mass_special") == pytest.approx(0, abs=1e-12)
                assert found.pop("attention_mass_special") == pytest.approx(0.5, abs=1e-12)
            assert found == pytest.approx(expected, abs=1e-12)


def test_ratio_of_sums_over_unequal_sentences_by_a_slow_loop(fake: Any) -> None:
    """Rows keep different amounts for words, sentences have different lengths: every cell weighs by its attention."""

    def attention(words: Words) -> np.ndarray:
        generator = generator_for("uneven", *words)
        maps = generator.dirichlet(np.ones(len(words) + 1), size=(2, 3, len(words)))
        return maps[..., :-1]

    corpus = [sentence(n) for n in (2, 11, 5)]
    result = attention_distance(fake(flat, attention=attention), corpus)
    for head in (0, 2, None):
        mass = distance = signed = left = special = words = entropy = uniform = 0.0
        for item in corpus:
            n = len(item)
            for h in range(3) if head is None else (head,):
                a = attention(item)[1, h]
                for i in range(n):
                    row = a[i].sum()
                    special += 1 - row
                    words += 1
                    for j in range(n):
                        mass += a[i, j]
                        distance += a[i, j] * abs(i - j)
                        signed += a[i, j] * (j - i)
                        left += a[i, j] if j < i else 0
                        entropy -= row * (a[i, j] / row) * np.log2(a[i, j] / row)
                        uniform += row * abs(i - j) / n
        found = values(result, head, layer=2)
        assert found["attention_distance"] == pytest.approx(distance / mass, rel=1e-12)
        assert found["attention_signed_distance"] == pytest.approx(signed / mass, rel=1e-12)
        assert found["attention_mass_left"] == pytest.approx(left / mass, rel=1e-12)
        assert found["attention_entropy"] == pytest.approx(entropy / mass, rel=1e-12)
        assert found["attention_mass_special"] == pytest.approx(special / words, rel=1e-12)
        assert values(result, head, "uniform", layer=2)["attention_distance"] == pytest.approx(
            uniform / mass, rel=1e-12
        )


def test_intervals_are_over_sentences(fake: Any) -> None:
    corpus = [sentence(n) for n in (3, 9, 4, 6, 12)]
    model = fake(flat, attention=heads("random", "uniform"))
    frame = attention_distance(model, corpus).to_frame()
    assert set(frame["n"]) == {5}
    inside = frame[frame["measure"] == "attention_distance"]
    assert ((inside["low"] < inside["value"]) & (inside["value"] < inside["high"])).all()
    assert set(frame["head"].dropna()) == {0, 1}
    assert (frame["head"].isna() & (frame["measure"] == "attention_distance")).sum() == 4  # 2 layers x 2 conditions
    again = attention_distance(model, corpus, batch_size=1)
    assert again.rows() == attention_distance(model, corpus).rows()
    assert set(attention_distance(model, corpus, max_sentences=2).to_frame()["n"]) == {2}


def test_layers_are_chosen_by_their_numbers(fake: Any) -> None:
    def attention(words: Words) -> np.ndarray:
        return np.stack([heads("diagonal")(words)[0], heads("uniform")(words)[0]])

    model = fake(flat, attention=attention)
    assert values(attention_distance(model, [sentence(4)], layers="0,2"), 0, layer=2)["attention_distance"] == 1.25
    assert {row["layer"] for row in attention_distance(model, [sentence(4)], layers="last").rows()} == {2}
    with pytest.raises(UsageError, match="layer 0 of fake has no attention"):
        attention_distance(model, [sentence(4)], layers=0)


def test_sentences_read_in_windows_are_left_out_and_counted(fake: Any) -> None:
    model = fake(flat, attention=heads("uniform"), windows=lambda words: 2 if len(words) > 8 else 1, max_pieces=10)
    result = attention_distance(model, [sentence(4), sentence(9)])
    assert result.notes[0] == "1 of 2 sentences left out: longer than 10 pieces"
    assert values(result, 0)["attention_distance"] == pytest.approx(1.25)
    with pytest.raises(DataError, match="1 of them longer"):
        attention_distance(model, [sentence(9)])


def test_towers_whose_heads_are_not_told_apart_have_no_baseline(fake: Any) -> None:
    model = fake(flat, attention=heads("causal"), directionality="concatenated")
    result = attention_distance(model, [sentence(4), sentence(3)])
    assert {row["condition"] for row in result.rows()} == {"plain"}
    assert "no uniform baseline" in result.notes[0]


def test_each_towers_heads_stand_beside_their_own_baseline(fake: Any) -> None:
    """Uniform heads of both towers: each equals its own baseline, and the layer is the sum over both."""
    n = 5

    def attention(words: Words) -> np.ndarray:
        forward, diagonal = heads("causal", "diagonal")(words)[0]
        return np.stack([np.stack([forward, diagonal, forward[::-1, ::-1], diagonal])] * 2)

    model = fake(
        flat,
        attention=attention,
        directionality="concatenated",
        head_parts={"forward": slice(0, 2), "backward": slice(2, 4)},
    )
    result = attention_distance(model, [sentence(n)])
    assert result.lines()[:4] == (("forward", 0), ("forward", 1), ("backward", 2), ("backward", 3))
    forward, backward = (values(result, head) for head in (0, 2))
    for head, measured in ((0, forward), (2, backward)):
        even = values(result, head, "uniform")
        assert even == pytest.approx({measure: measured[measure] for measure in even}, abs=1e-14)
    # Word i looks i / 2 words back on average.
    assert forward["attention_distance"] == pytest.approx((n - 1) / 4, abs=1e-14)
    assert forward["attention_signed_distance"] == pytest.approx(-(n - 1) / 4, abs=1e-14)
    assert backward["attention_signed_distance"] == pytest.approx((n - 1) / 4, abs=1e-14)
    assert forward["attention_mass_right"] == backward["attention_mass_left"] == 0
    assert values(result, 1, "uniform")["attention_mass_right"] == 0
    assert values(result, 3, "uniform")["attention_mass_left"] == 0
    frame = result.to_frame()
    layer = frame[frame["head"].isna() & (frame["layer"] == 1) & (frame["condition"] == "plain")]
    means = layer[layer["measure"] == "attention_distance"].set_index("part")["value"]
    assert means["forward"] == pytest.approx((n - 1) / 8, abs=1e-14)
    assert means["whole"] == pytest.approx((means["forward"] + means["backward"]) / 2, abs=1e-14)
    right = layer[layer["measure"] == "attention_mass_right"].set_index("part")["value"]
    assert right["forward"] == 0
    assert 0 < right["whole"] < right["backward"]


def test_without_attention_or_sentences(fake: Any) -> None:
    model = fake(flat)
    with pytest.raises(UsageError, match="has no attention"):
        attention_distance(model, [sentence(4)])
    assert ANALYSES["attention_distance"].applicable(model.info) == "fake (fake) has no attention"
    assert ANALYSES["direction_shares"].applicable(model.info) is None
    with_attention = fake(flat, attention=heads("uniform"))
    assert ANALYSES["attention_distance"].applicable(with_attention.info) is None
    assert ANALYSES["attention_distance"].applicable(with_attention.info, (0, 1)) is None
    assert ANALYSES["attention_distance"].applicable(with_attention.info, (0,)) == "layer 0 of fake has no attention"
    stored = replace(model.info, family="layer-file")
    assert "stored vectors" in (ANALYSES["direction_shares"].applicable(stored) or "")
    with pytest.raises(DataError, match="no sentence"):
        attention_distance(with_attention, [])
    with pytest.raises(UsageError, match="'rolout' is unknown; choose from rollout, norm-weighted"):
        attention_distance(with_attention, [sentence(4)], variants=("rolout",))
    with pytest.raises(UsageError, match="max_sentences=0"):
        attention_distance(with_attention, [sentence(4)], max_sentences=0)


def test_the_registry_names_what_the_rows_hold(fake: Any) -> None:
    result = attention_distance(fake(flat, attention=heads("uniform")), [sentence(4), sentence(3)])
    assert {row["measure"] for row in result.rows()} == set(ANALYSES["attention_distance"].measures)


def test_plot(fake: Any) -> None:
    figure = attention_distance(fake(flat, attention=heads("uniform", "diagonal")), [sentence(4)]).plot()
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), [[1.25, 0], [1.25, 0]])
