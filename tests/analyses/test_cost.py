"""Costs: planted models whose states survive or not, planted times, and tiny models of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.configuration_cost import CONDITION, configuration_cost, published_costs
from analyses.cost import MEASURES, TIMED, Cost, cost, counted_flops, reading_of
from analyses.flops import architecture_of
from analyses.surviving_states import EDITS, edits_of, surviving_states
from analyses.throughput import Throughput, log_log_slope, measure_throughput, peak_tensor_bytes, stretches
from extractors import Extractor, load_extractor
from extractors.foundation.errors import DataError, ModelError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.parameters import PUBLISHED, configuration_of

Sentences = list[tuple[str, ...]]
WORDS = [f"{a}{b}" for a in ("ba", "lo", "mi", "tu", "se") for b in ("ra", "no", "ki", "pe", "du")]
POSITIONS = 40
SMALL: dict[str, Any] = {
    "lengths": (2, 4, 8),
    "batch_sizes": (1, 3),
    "repeats": 2,
    "edit_length": 6,
    "edit_sentences": 5,
    "resamples": 50,
}


@pytest.fixture(scope="module")
def text() -> Sentences:
    generator = generator_for("text for costs")
    return [tuple(generator.choice(WORDS, size=12).tolist()) for _ in range(20)]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(word[:2] for word in WORDS)]
    pieces += [f"##{ending}" for ending in dict.fromkeys(word[2:] for word in WORDS)]
    found = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return found


CHAR_CNN = {
    "embedding": {"dim": 4},
    "filters": [[1, 4], [2, 6]],
    "n_highway": 1,
    "activation": "relu",
    "max_characters_per_token": 20,
}
BERT_LIKE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def _elmo(folder: Path) -> Extractor:
    from extractors.elmo import load_elmo

    lstm = {"dim": 12, "projection_dim": 8, "n_layers": 2, "use_skip_connections": True}
    (folder / "options.json").write_text(json.dumps({"lstm": lstm, "char_cnn": CHAR_CNN}))
    return load_elmo(folder / "options.json", folder / "absent.hdf5", name="tiny-elmo", untrained=True)


def _bilstm(folder: Path) -> Extractor:
    config = {"model_type": "janus-bilstm-mlm", "char_cnn": CHAR_CNN, "projection_dim": 8, "cells": 12}
    (folder / "config.json").write_text(json.dumps({**config, "vocabulary": 30}))
    return load_extractor(folder, untrained=True)


def _bigpt(folder: Path) -> Extractor:
    tokenizer().save(str(folder / "tokenizer.json"))
    config = {"model_type": "janus-bigpt", "vocab_size": 20, "hidden_size": 16, "n_layers": 2, "n_heads": 2}
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 24, "n_positions": POSITIONS}))
    return load_extractor(folder, untrained=True)


def _transformers(folder: Path, family: str, **settings: Any) -> Extractor:
    from transformers import AutoConfig, PreTrainedTokenizerFast

    special = {name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "mask_token")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **special).save_pretrained(folder)
    AutoConfig.for_model(family, vocab_size=20, **settings).save_pretrained(folder)
    return load_extractor(folder, untrained=True)


def _bert(folder: Path) -> Extractor:
    return _transformers(folder, "bert", **BERT_LIKE, max_position_embeddings=POSITIONS)


def _gpt2(folder: Path) -> Extractor:
    return _transformers(
        folder, "gpt2", n_embd=16, n_layer=2, n_head=2, n_positions=POSITIONS, bos_token_id=2, eos_token_id=3
    )


def _xlnet(attention: str) -> Callable[[Path], Extractor]:
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}
    return lambda folder: _transformers(folder, "xlnet", **sizes, attn_type=attention)


def _t5(folder: Path) -> Extractor:
    return _transformers(folder, "t5", d_model=16, num_layers=2, num_heads=2, d_kv=6, d_ff=24)


def _albert(folder: Path) -> Extractor:
    return _transformers(folder, "albert", **BERT_LIKE, embedding_size=8, max_position_embeddings=POSITIONS)


BUILDERS = {"elmo": _elmo, "bilstm-mlm": _bilstm, "bigpt": _bigpt, "bert": _bert, "gpt2": _gpt2}
MORE = {"xlnet bi": _xlnet("bi"), "xlnet uni": _xlnet("uni"), "t5": _t5, "albert": _albert}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Extractor]:
    """Tiny models of all kinds, with weights large enough for every layer to matter."""
    import torch

    built: dict[str, Extractor] = {}

    def build(kind: str) -> Extractor:
        if kind not in built:
            built[kind] = {**BUILDERS, **MORE}[kind](tmp_path_factory.mktemp(kind))
            module: Any = getattr(built[kind], "network", None) or built[kind].model  # type: ignore[attr-defined]
            generator = torch.Generator().manual_seed(4)
            for parameter in module.parameters():
                if parameter.dim() > 1:
                    parameter.data.normal_(0, 0.4, generator=generator)
        return built[kind]

    return build


@pytest.fixture(scope="module")
def costs(tiny: Callable[[str], Extractor], text: Sentences) -> Callable[[str], Cost]:
    found: dict[str, Cost] = {}
    return lambda kind: found.setdefault(kind, cost(tiny(kind), text, **SMALL)) if kind not in found else found[kind]


# --- states that survive -----------------------------------------------------------------------------------------------------


def _layers(words: tuple[str, ...], function: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    own = np.stack([generator_for("vector", word).standard_normal(4) for word in words])
    return np.stack([own, np.stack([function(own, i) for i in range(len(words))])])


def test_a_state_of_a_left_to_right_model_survives_what_comes_behind_it(fake, text: Sentences) -> None:
    model = fake(lambda words: _layers(words, lambda own, i: own[: i + 1].sum(axis=0)))
    result = surviving_states(model, text, length=6, max_sentences=8)
    assert result.share("append").value.tolist() == [1, 1, 1]
    others = sorted({word for words in text[:8] for word in words})
    edits = [edits_of(words, 6, others, generator_for(0, "edit", i)) for i, words in enumerate(text[:8])]
    # A word survives if it stands before the first place that differs.
    for edit, compared in (("insert", 6), ("replace", 5)):
        kept = 0
        for words, made in zip(text[:8], edits, strict=True):
            after = made[edit].words
            first = next(i for i in range(6) if words[i] != after[i])
            kept += sum(old < first for old, _ in made[edit].kept)
        assert result.share(edit).value[1] == pytest.approx(kept / (8 * compared))
        assert 0 < result.share(edit).value[1] < 1


def test_one_half_of_a_concatenation_survives(fake, text: Sentences) -> None:
    parts = {"whole": slice(None), "forward": slice(0, 4), "backward": slice(4, 8)}

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        left = _layers(words, lambda own, i: own[: i + 1].sum(axis=0))
        right = _layers(words, lambda own, i: own[i:].sum(axis=0))
        return np.concatenate([left, right], axis=-1)

    result = surviving_states(fake(hidden, parts=parts, directionality="concatenated"), text, length=6, max_sentences=8)
    shares = {part: float(result.share("append", part).value[1]) for part in ("forward", "backward", "whole")}
    assert shares == {"forward": 1, "backward": 0, "whole": 0.5}
    # What is lost on one side of an inserted word is kept on the other.
    inserted = [float(result.share("insert", part).value[1]) for part in ("forward", "backward")]
    assert sum(inserted) == pytest.approx(1)


def test_only_what_reads_the_new_word_is_lost(fake, text: Sentences) -> None:
    """A model that reads one word on each side: appending a word changes one state, replacing one changes its neighbours."""
    model = fake(lambda words: _layers(words, lambda own, i: own[max(0, i - 1) : i + 2].sum(axis=0)))
    result = surviving_states(model, text, length=6, max_sentences=8)
    assert result.share("append").value[1] == pytest.approx(5 / 6)
    survive, compared = result.units("replace", "whole")
    assert set(compared[:, 1]) == {5}
    assert set(survive[:, 1]) <= {3, 4}  # two neighbours, or one for a word at an end


def test_nothing_survives_in_a_model_that_reads_everything(fake, text: Sentences) -> None:
    model = fake(lambda words: _layers(words, lambda own, i: own.sum(axis=0) + own[i]))
    result = surviving_states(model, text, length=6, max_sentences=8)
    for edit in EDITS:
        assert result.share(edit).value.tolist() == [1, 0, 0], edit


def test_the_tolerance_decides_what_moved(fake, text: Sentences) -> None:
    model = fake(lambda words: _layers(words, lambda own, i: own[i] + 1e-6 * own.sum(axis=0)))
    assert surviving_states(model, text, length=6, tolerance=1e-4).share("append").value[1] == 1
    assert surviving_states(model, text, length=6, tolerance=1e-9).share("append").value[1] == 0
    assert surviving_states(model, text, length=6).share("append").value[1] == 0  # float64: 2e-14


def test_a_word_replaced_by_what_reads_the_same_is_no_edit(tiny, text: Sentences) -> None:
    """Words outside the vocabulary are all one piece: nothing could move, and that would pass for surviving."""
    unknown = [tuple(f"{word[0]}{word[0]}q{i}" for i, word in enumerate(words)) for words in text[:4]]
    states = surviving_states(tiny("bert"), unknown, length=6)
    assert {edit: len(arrays) for edit, arrays in states.moved.items()} == {"append": 4, "insert": 4, "replace": 0}
    mixed = surviving_states(tiny("bert"), [*unknown, text[5]], length=6)
    assert len(mixed.moved["replace"]) >= 1
    assert mixed.share("replace").value[1] == 0
    frame = cost(tiny("bert"), unknown, **{**SMALL, "lengths": (2,), "repeats": 1}).to_frame()
    assert "replace" not in set(frame["condition"].dropna())


def test_places_do_not_depend_on_other_sentences(fake, text: Sentences) -> None:
    model = fake(lambda words: _layers(words, lambda own, i: own[: i + 1].sum(axis=0)))
    few, many = (surviving_states(model, text, length=6, max_sentences=number) for number in (4, 8))
    assert np.array_equal(few.units("insert", "whole")[0], many.units("insert", "whole")[0][:4])
    again = surviving_states(model, text, length=6, max_sentences=8, batch_size=3)
    assert all(
        np.allclose(a, b, atol=1e-12)
        for edit in EDITS
        for a, b in zip(many.moved[edit], again.moved[edit], strict=True)
    )


def test_too_short_sentences_are_refused(fake, text: Sentences) -> None:
    model = fake(lambda words: _layers(words, lambda own, i: own[i]))
    with pytest.raises(DataError, match=r"more than 12 words \(the longest has 12\)"):
        surviving_states(model, text, length=12)
    with pytest.raises(DataError, match="replaced by another"):
        surviving_states(model, [("a",) * 9], length=3)
    with pytest.raises(UsageError, match="at least 2"):
        surviving_states(model, text, length=1)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("elmo", {"forward": (1, 1), "backward": (0, 0), "whole": (0.5, 0.5)}),
        ("bigpt", {"forward": (1, 1), "backward": (0, 0), "whole": (0.5, 0.5)}),
        ("bilstm-mlm", {"forward": (1, 0), "backward": (0, 0), "whole": (0.5, 0)}),
        ("bert", {"whole": (0, 0)}),
        ("gpt2", {"whole": (1, 1)}),
    ],
)
def test_what_survives_an_appended_word_in_each_kind_of_model(costs, kind: str, expected: dict[str, Any]) -> None:
    states = costs(kind).states
    found = {part: tuple(states.share("append", part).value[1:3]) for part in expected}
    assert found == expected
    assert states.share("append").value[-1] == pytest.approx(np.mean(expected["whole"]))


@pytest.mark.parametrize(
    ("kind", "kept"), [("xlnet bi", 0), ("xlnet uni", 1), ("t5", 0), ("albert", 0)], ids=lambda value: str(value)
)
def test_what_survives_in_relatives_of_the_transformer(tiny, text: Sentences, kind: str, kept: int) -> None:
    # One by one: XLNet's left-to-right mask does not go with the padding of a batch in transformers.
    states = surviving_states(tiny(kind), text, length=6, max_sentences=4, batch_size=1)
    assert states.share("append").value.tolist() == [1, kept, kept, kept]
    for edit in ("insert", "replace"):
        shares = states.share(edit).value[1:]
        # What reads to the left only keeps the words before the edit, whatever reads both sides keeps nothing.
        assert (shares == 0).all() if not kept else (shares > 0).all() and (shares < 1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_cannot_tell_what_survives(tmp_path: Path, text: Sentences, dtype: str) -> None:
    """Nothing survives in a BERT; with a tolerance of a tenth of a vector or more, much would seem to."""
    import torch

    _bert(tmp_path)
    model = load_extractor(tmp_path, untrained=True, dtype=dtype)
    for parameter in model.model.parameters():  # type: ignore[attr-defined]
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.2, generator=torch.Generator().manual_seed(4))
    with pytest.raises(UsageError, match=f"{dtype}.*float32"):
        surviving_states(model, text, length=6)
    seeming = surviving_states(model, text, length=6, tolerance={"float16": 0.098, "bfloat16": 0.78}[dtype])
    assert seeming.share("append").value[-1] > 0.05
    result = cost(model, text, **{**SMALL, "lengths": (2, 4), "repeats": 1})
    assert result.states is None
    (note,) = result.notes
    assert "surviving states left out" in note
    assert dtype in note
    assert set(result.to_frame()["measure"]) == set(MEASURES) - {"states_surviving"}
    assert "states that survive an appended word" not in [axes.get_ylabel() for axes in result.plot().axes]
    given = cost(model, text, **{**SMALL, "lengths": (2, 4), "repeats": 1}, tolerance=1e-12)
    assert given.states is not None
    assert given.states.share("append").value[-1] == 0


def test_surviving_states_have_a_table_and_a_drawing(tiny, text: Sentences) -> None:
    states = surviving_states(tiny("elmo"), text, length=6, max_sentences=5, data="words")
    frame = states.to_frame()
    assert len(frame) == 3 * 3 * 4  # edits, parts, and layers 0 to 2 with all contextual ones together
    assert set(frame["data"]) == {"words"}
    assert set(frame["unit"]) == {"share"}
    rows = frame[(frame["condition"] == "insert") & (frame["part"] == "forward")]
    interval = states.share("insert", "forward")
    for column, numbers in (("value", interval.value), ("low", interval.low), ("high", interval.high)):
        np.testing.assert_allclose(rows[column].to_numpy(), numbers)
    axes = states.plot().axes
    assert [one.get_title() for one in axes] == list(EDITS)
    forward, backward = (line.get_ydata() for line in axes[0].lines)
    assert (list(forward), list(backward)) == ([1, 1, 1], [1, 0, 0])
    ends = np.array([segment[:, 1] for segment in axes[1].collections[0].get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([interval.low, interval.high])[:3])


# --- times and memory --------------------------------------------------------------------------------------------------------


def _planted_times(exponent: float, noise: float = 0.0, repeats: int = 40, draw: int = 0) -> Throughput:
    lengths = np.array([8, 16, 32, 64, 128])
    spread = np.exp(noise * generator_for("times", draw).standard_normal((2, repeats, 5)))
    seconds = np.array([1.0, 3.0])[:, None, None] * 1e-3 * lengths**exponent * spread
    return Throughput(None, tuple(lengths.tolist()), (1, 4), seconds, np.zeros((2, 5)))  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [0.7, 1.0, 2.0])
def test_the_exponent_of_planted_times_is_found(exponent: float) -> None:
    exact = _planted_times(exponent)
    assert exact.exponent(1).value[0] == pytest.approx(exponent)
    assert exact.exponent(4, start=32).value[0] == pytest.approx(exponent)
    noisy = [_planted_times(exponent, 0.2, 20, draw).exponent(4) for draw in range(100)]
    assert np.mean([one.value[0] for one in noisy]) == pytest.approx(exponent, abs=0.01)
    assert noisy[0].n == 20


@pytest.mark.parametrize("repeats", [2, 3, 20])
def test_intervals_over_few_repeats_cover_what_they_say(repeats: int) -> None:
    """A bootstrap over three repeats would cover the exponent in three of four draws at most."""
    draws = [_planted_times(1.5, 0.2, repeats, draw) for draw in range(800)]
    exponents = [one.exponent(4) for one in draws]
    assert np.mean([one.low[0] < 1.5 < one.high[0] for one in exponents]) == pytest.approx(0.95, abs=0.03)
    truth = 4 * 64 / (3e-3 * 64**1.5)
    speeds = [one.speed(4) for one in draws]
    assert np.mean([one.low[3] < truth < one.high[3] for one in speeds]) == pytest.approx(0.95, abs=0.03)
    assert min(one.low.min() for one in speeds) > 0


def test_one_repeat_has_no_interval() -> None:
    one = _planted_times(1, 0.2, repeats=1)
    for found in (one.speed(1), one.exponent(1)):
        assert np.isfinite(found.value).all()
        assert np.isnan([*found.low, *found.high]).all()


def test_the_interval_of_the_exponent_shrinks_with_the_root_of_the_repeats() -> None:
    widths = [float(np.ptp([(i := _planted_times(1, 0.2, n).exponent(1)).low[0], i.high[0]])) for n in (10, 160)]
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.5)


def test_speed_is_words_over_seconds_with_the_interval_of_student() -> None:
    from scipy.stats import ttest_1samp

    one = _planted_times(1, 0.3, repeats=5)
    logs = np.log(4 * 32 / one.seconds[1, :, 2])
    speed = one.speed(4)
    assert speed.value[2] == pytest.approx(np.exp(logs.mean()))
    expected = ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (speed.low[2], speed.high[2]) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


def test_the_slope_is_that_of_least_squares() -> None:
    values = generator_for("slope").uniform(1, 2, size=(3, 4))
    expected = [np.polyfit(np.log([1, 2, 5, 9]), np.log(row), 1)[0] for row in values]
    assert log_log_slope([1, 2, 5, 9], values) == pytest.approx(expected)


def test_stretches_go_on_where_the_last_one_ended_and_start_again() -> None:
    assert stretches(["a", "b", "c"], 2, 4) == [("a", "b"), ("c", "a"), ("b", "c"), ("a", "b")]


def test_peak_memory_counts_what_lives_at_one_time() -> None:
    import torch

    weight = torch.zeros(100, 100)

    def freed() -> None:
        first = torch.zeros(1000)
        first = torch.relu(first)
        torch.relu(first)  # 4,000 bytes each, the first is gone by now

    def linear() -> None:
        with torch.inference_mode():
            inputs = torch.ones(10, 100)
            torch.nn.functional.linear(inputs, weight).view(-1)  # views and the weight are nothing new

    def kept() -> None:
        states = [torch.zeros(1000)]
        for _ in range(4):
            states.append(torch.relu(states[-1]))

    assert peak_tensor_bytes(freed) == 8000
    assert peak_tensor_bytes(linear) == 8000
    assert peak_tensor_bytes(kept) == 20_000
    assert peak_tensor_bytes(lambda: weight.t()) == 0


def test_memory_grows_with_length_and_batch(tiny, text: Sentences) -> None:
    words = [word for sentence in text for word in sentence]
    timed = measure_throughput(tiny("bert"), words, lengths=(4, 8, 16), batch_sizes=(1, 4), repeats=1, memory_words=32)
    assert np.isnan(timed.memory).tolist() == [[False, False, False], [False, False, True]]
    assert (np.diff(timed.memory[0]) > 0).all()
    assert timed.memory[1, 0] > timed.memory[0, 0]
    assert (timed.seconds > 0).all()
    assert timed.seconds.shape == (2, 1, 3)


# --- the whole ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["elmo", "bilstm-mlm", "bigpt"])
def test_formula_and_torch_count_the_same_for_a_sentence(tiny, text: Sentences, kind: str) -> None:
    model = tiny(kind)
    configuration = configuration_of(model)
    sentence = text[0][:7]
    reading = reading_of(configuration, next(model.align([sentence])))
    assert counted_flops(model, sentence) == architecture_of(configuration).sentence(reading).total


def test_fused_attention_is_counted_too(tiny, text: Sentences) -> None:
    model = tiny("bert")
    reading = reading_of(configuration_of(model), next(model.align([text[0]])))
    assert reading.inputs == 2 * 12 + 2
    pooler = 2 * 16 * 16
    assert counted_flops(model, text[0]) == architecture_of(configuration_of(model)).sentence(reading).total + pooler


@pytest.mark.parametrize("kind", list(BUILDERS))
def test_every_kind_of_model_has_its_rows(costs, tiny, kind: str) -> None:
    result = costs(kind)
    frame, timed = result.to_frame(), result.timed_frame()
    assert set(frame["measure"]) == set(MEASURES)
    assert set(timed["measure"]) == set(TIMED)
    assert frame["value"].notna().all()
    assert timed["value"].notna().all()
    keys = ["measure", "layer", "part", "condition", "length"]
    assert not frame.duplicated(keys).any()
    assert not timed.duplicated(keys).any()
    total = frame.loc[frame["measure"] == "parameters", "value"].item()
    assert total == tiny(kind).info.parameters
    by_length = frame[frame["measure"] == "flops_per_word"].set_index("length")["value"]
    assert by_length.index.tolist() == [2, 4, 8]
    # Two operations for each parameter and input: less for biases and tables, more for scores and sums of attention.
    inputs = {"elmo": lambda n: n + 2, "bilstm-mlm": lambda n: n + 2, "bigpt": lambda n: 2 * n + 1}
    for length, operations in by_length.items():
        read = inputs.get(kind, lambda n: 2 * n + 2)(length)
        expected = 2 * result.parameters.without_embeddings * read / length
        assert 0.8 < operations / expected < 1.2, (length, operations / expected)
    assert result.notes == ()


def test_the_drawing_shows_everything_with_intervals(costs) -> None:
    result = costs("elmo")
    axes = {one.get_ylabel(): one for one in result.plot().axes}
    assert list(axes) == [
        "operations per word",
        "operations of one more word",
        "words per second",
        "peak bytes of tensors",
        "states that survive an appended word",
    ]
    shown = {
        "operations per word": result.flops_per_word(),
        "operations of one more word": result.append_flops(),
        "words per second": result.throughput.speed(1),
    }
    for label, interval in shown.items():
        np.testing.assert_allclose(axes[label].lines[0].get_ydata(), interval.value)
        ends = np.array([segment[:, 1] for segment in axes[label].collections[0].get_segments()])
        np.testing.assert_allclose(ends, np.column_stack([interval.low, interval.high]))
    memory = axes["peak bytes of tensors"].lines
    np.testing.assert_allclose([line.get_ydata() for line in memory], result.throughput.memory)
    states = axes["states that survive an appended word"].lines
    assert [list(line.get_ydata()) for line in states] == [[1, 1, 1], [1, 0, 0]]


def test_what_one_more_word_costs_in_each_kind(costs) -> None:
    shares = {kind: float(costs(kind).append_share().value[-1]) for kind in BUILDERS}
    assert shares["bert"] == pytest.approx(1)
    assert shares["gpt2"] < 0.2
    assert shares["gpt2"] < shares["elmo"] < shares["bilstm-mlm"] < 1
    assert 0.5 < shares["bigpt"] < 0.7


def test_operations_of_attention_bend_the_curve(tiny, text: Sentences) -> None:
    """Word pieces at any length: 2 x (2 n) + specials; exponents between 1 and 2, and an LSTM's below 1 by its boundaries."""
    slopes = {}
    for kind in ("bert", "elmo"):
        result = cost(tiny(kind), text, **{**SMALL, "lengths": (4, 16), "repeats": 1})
        slopes[kind] = float(result.flops_exponent().value[0])
    assert slopes["elmo"] < 1 < slopes["bert"] < 2


def test_the_same_command_gives_the_same_table(tiny, text: Sentences, costs) -> None:
    import pandas as pd

    pd.testing.assert_frame_equal(cost(tiny("elmo"), text, **SMALL).to_frame(), costs("elmo").to_frame())


@pytest.mark.parametrize("kind", ["bert", "bigpt", "gpt2"])
def test_lengths_beyond_the_position_table(tiny, text: Sentences, kind: str) -> None:
    """40 positions hold no 20 words of two pieces: timed on a longer copy, or left out."""
    options = {**SMALL, "lengths": (4, 8, 20, 32), "batch_sizes": (2,), "repeats": 1}
    longer = cost(tiny(kind), text, **options)
    assert longer.throughput.info.max_pieces >= 2 * 33
    assert longer.throughput.info.weights == "untrained"
    assert longer.info.weights == tiny(kind).info.weights
    trained = copy(tiny(kind))
    trained.info = replace(trained.info, weights="trained")
    mixed = cost(trained, text, **options)
    assert set(mixed.to_frame()["weights"]) == {"trained"}
    assert set(mixed.timed_frame()["weights"]) == {"untrained"}  # what was timed is the copy
    assert set(cost(trained, text, **{**options, "lengths": (4, 8)}).timed_frame()["weights"]) == {"trained"}
    assert longer.lengths == (4, 8, 20, 32)
    assert any("longer position table" in note for note in longer.notes)
    short = cost(tiny(kind), text, **options, beyond_limit=False)
    assert short.lengths == (4, 8)
    assert any("20, 32 left out" in note for note in short.notes)
    assert short.flops_per_word().value == pytest.approx(longer.flops_per_word().value[:2])
    with pytest.raises(UsageError, match="fewer than any"):
        cost(tiny(kind), text, **{**options, "lengths": (32,)}, beyond_limit=False)


@pytest.mark.parametrize("kind", ["bert", "bigpt", "gpt2"])
def test_a_longer_copy_reads_a_long_sentence_in_one_go(tiny, kind: str) -> None:
    from extractors.longer import with_longer_input

    sentence = tuple(WORDS * 2)
    longer = with_longer_input(tiny(kind), 2 * len(sentence) + 2)
    (item,) = longer.extract([sentence])
    (cut,) = tiny(kind).extract([sentence])
    assert (item.windows, item.hidden.shape) == (1, cut.hidden.shape)
    assert cut.windows > 1
    assert with_longer_input(tiny(kind), POSITIONS) is tiny(kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": ()}, "rising and positive"),
        ({"lengths": (8, 4)}, "rising and positive"),
        ({"lengths": (0, 4)}, "rising and positive"),
        ({"batch_sizes": (0,)}, "positive and different"),
        ({"batch_sizes": (2, 2)}, "positive and different"),
        ({"repeats": 0}, "repeats=0"),
    ],
)
def test_impossible_options_are_refused(tiny, text: Sentences, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cost(tiny("bert"), text, **{**SMALL, **options})


def test_no_text_and_stored_vectors_are_refused(tiny, text: Sentences, tmp_path: Path) -> None:
    from extractors.layer_files import read_layer_file, write_layer_file

    with pytest.raises(DataError, match="no sentence"):
        cost(tiny("bert"), [], **SMALL)
    write_layer_file(tmp_path / "stored.hdf5", tiny("bert").extract(text))
    with pytest.raises(UsageError, match="stored holds stored vectors"):
        cost(read_layer_file(tmp_path / "stored.hdf5"), text, **SMALL)


@pytest.mark.parametrize("config", [None, {"layers": 2}])
def test_an_extractor_of_ones_own_has_states_and_times(fake, text: Sentences, config: Any) -> None:
    """It reads, and nothing says how many parameters it has: what it keeps as its `config` may be anything."""
    model = fake(lambda words: _layers(words, lambda own, i: own[: i + 1].sum(axis=0)), max_pieces=8)
    model.config = config
    result = cost(model, text, **SMALL, data="words")
    assert (result.parameters, result.lengths) == (None, (2, 4))  # with the word that is appended, eight are too many
    assert [note.split(":")[0] for note in result.notes] == ["lengths 8 left out", "parameters and operations left out"]
    frame, timed = result.to_frame(), result.timed_frame()
    assert set(frame["measure"]) == {"states_surviving"}
    assert set(timed["measure"]) == set(TIMED)
    appended = frame[(frame["condition"] == "append") & (frame["layer"] == 1)]
    assert appended["value"].item() == 1
    assert (timed.loc[timed["measure"] == "reading_speed", "value"] > 0).all()
    assert [axes.get_ylabel() for axes in result.plot().axes][:1] == ["words per second"]


def test_a_type_without_a_formula_is_counted_while_it_reads(tmp_path: Path, text: Sentences) -> None:
    model = _transformers(tmp_path, "ernie", **BERT_LIKE, max_position_embeddings=POSITIONS)
    result = cost(model, text, **{**SMALL, "lengths": (4, 8), "repeats": 1, "batch_sizes": (1,)})
    assert any("counted by torch" in note for note in result.notes)
    frame = result.to_frame()
    assert not (frame["measure"] == "append_flops").any()
    assert (frame.loc[frame["measure"] == "flops_per_word", "value"] > 0).all()


# --- from a configuration alone ----------------------------------------------------------------------------------------------


def test_published_models_are_counted_without_being_here() -> None:
    found = {one.parameters.name: one for one in published_costs(("elmo-original", "bert-base-uncased", "gpt2"))}
    bert = found["bert-base-uncased"]
    assert bert.lengths[-1] == 512
    assert bert.flops[0] == 12 * (10 * (8 * 768**2 + 4 * 768 * 3072) + 4 * 100 * 768)
    assert bert.append[0][0] == bert.append[0][1]
    assert found["gpt2"].append[0][0] < found["gpt2"].append[0][1] / 8
    elmo = found["elmo-original"]
    assert (
        0.5 < elmo.append[-1][0] / elmo.append[-1][1] * 204 / 151 < 0.51
    )  # without the context-free vectors: one half
    frame = bert.to_frame()
    assert set(frame["condition"]) == {CONDITION}
    assert frame["low"].isna().all()
    per_word, append = bert.plot().axes
    np.testing.assert_allclose(per_word.lines[0].get_ydata(), np.array(bert.flops) / bert.lengths)
    np.testing.assert_allclose(append.lines[0].get_ydata(), np.array(bert.append)[:, 0])
    assert set(PUBLISHED) >= set(found)


def test_more_pieces_cost_more() -> None:
    one, more = (configuration_cost("bert-base-uncased", pieces_per_word=ratio) for ratio in (1, 1.25))
    assert more.flops[3] / one.flops[3] == pytest.approx(1.25, rel=0.02)
    with pytest.raises(UsageError, match="below 1"):
        configuration_cost("gpt2", pieces_per_word=0.5)
    with pytest.raises(UsageError, match="positive"):
        configuration_cost("gpt2", lengths=())
    with pytest.raises(ModelError, match="no configuration"):
        configuration_cost("bert-gigantic")
