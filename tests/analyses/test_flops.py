"""Formulas for operations against torch's own counter on tiny networks, and against numbers worked out by hand."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from analyses.flops import (
    Flops,
    Lstm,
    Reading,
    Transformer,
    architecture_of,
    reading_without_tokenizer,
)
from extractors.bigpt.config import BigptConfig
from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.elmo.options import ElmoOptions
from extractors.foundation.errors import ModelError
from extractors.parameters import PUBLISHED, read_configuration

CHAR_CNN = {
    "embedding": {"dim": 4},
    "filters": ((1, 4), (3, 6)),
    "n_highway": 2,
    "activation": "relu",
    "max_characters_per_token": 20,
}
BERT_LIKE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
LLAMA_LIKE = {**BERT_LIKE, "num_key_value_heads": 1, "pad_token_id": None}
T5_LIKE = {"d_model": 16, "num_layers": 3, "num_heads": 2, "d_kv": 6, "d_ff": 24}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", BERT_LIKE),
    "roberta": ("roberta", BERT_LIKE),
    "electra": ("electra", {**BERT_LIKE, "embedding_size": 8}),
    "albert": ("albert", {**BERT_LIKE, "embedding_size": 8}),
    "distilbert": ("distilbert", {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 24}),
    "gpt2": ("gpt2", {"n_embd": 16, "n_layer": 3, "n_head": 2}),
    "openai-gpt": ("openai-gpt", {"n_embd": 16, "n_layer": 3, "n_head": 2}),
    "xlnet": ("xlnet", {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 24}),
    "xlnet uni": ("xlnet", {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 24, "attn_type": "uni"}),
    "t5": ("t5", T5_LIKE),
    "t5 gated": ("t5", {**T5_LIKE, "feed_forward_proj": "gated-gelu"}),
    "llama": ("llama", LLAMA_LIKE),
    "qwen2": ("qwen2", LLAMA_LIKE),
}


def counted(function: Any, *arguments: Any, **options: Any) -> int:
    """Operations as torch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function(*arguments, **options)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("inputs", [5, 12])
def test_a_transformer_takes_what_torch_counts(name: str, inputs: int) -> None:
    import torch
    from transformers import AutoConfig, AutoModel

    family, settings = CONFIGS[name]
    config = AutoConfig.for_model(family, vocab_size=30, **settings)
    with torch.random.fork_rng(devices=[]):
        # The counter does not know the fused attention of CPUs.
        model = AutoModel.from_config(config, attn_implementation="eager").eval()
    ids = torch.zeros((1, inputs), dtype=torch.long)
    if family == "t5":
        model = model.get_encoder()
    options = {"use_mems": False, "token_type_ids": torch.zeros_like(ids)} if family == "xlnet" else {}
    found = counted(model, input_ids=ids, **options)
    if family in ("bert", "roberta", "albert"):
        found -= 2 * 16 * 16  # the pooler, which no word vector comes from
    expected = architecture_of(config).sentence(Reading(inputs, inputs, 0, 0)).total
    # Versions differ on whether the angles of rotary positions are a matrix product.
    angles = 2 * (16 // 2 // 2) * inputs if family in ("llama", "qwen2") else 0
    assert found in (expected, expected + angles)


@pytest.mark.parametrize("words", [3, 9])
def test_a_pair_of_gpts_takes_what_torch_counts(words: int) -> None:
    import torch

    from extractors.bigpt.network import build_network

    config = BigptConfig(vocab_size=30, hidden_size=16, n_layers=3, n_heads=2, intermediate_size=24, n_positions=16)
    network = build_network(config)
    ids = torch.zeros((1, words + 1), dtype=torch.long, device="meta")
    found = sum(counted(network, ids, direction) for direction in ("forward", "backward"))
    reading = reading_without_tokenizer(config, words)
    assert reading.inputs == words + 2
    assert architecture_of(config).sentence(reading) == Flops(0, found)


@pytest.mark.parametrize("joint", [False, True])
def test_an_lstm_takes_what_torch_counts(joint: bool) -> None:
    import torch

    from extractors.bilstm_mlm.network import build_network as build_joint
    from extractors.bilstm_mlm.network import draw_weights as draw_joint
    from extractors.elmo.network import build_network, draw_weights

    sizes = {"char_cnn": CHAR_CNN}
    if joint:
        config: Any = BilstmMlmConfig.model_validate({**sizes, "projection_dim": 8, "cells": 12, "vocabulary": 30})
        network: Any = draw_joint(build_joint(config), 0)
        layers = network
    else:
        config = ElmoOptions.model_validate({**sizes, "lstm": {"dim": 12, "projection_dim": 8, "n_layers": 2}})
        network = draw_weights(build_network(config), 0)
        layers = network.bilm
    architecture = architecture_of(config)
    assert isinstance(architecture, Lstm)
    ids = torch.full((7, 20), 261)  # seven words of nothing but padding and one character
    ids[:, 0] = 5
    characters = 1 + 3
    steps = 9
    tokens = torch.zeros((1, steps, 8))
    found = Flops(counted(network.tokens, ids), counted(layers, tokens, [steps]))
    assert architecture.sentence(Reading(7, steps, 7, characters)) == found


def test_elmo_by_hand() -> None:
    """Two directions of two layers of 4,096 cells projected to 512, and 2,048 filters over 50 characters of 16 dimensions."""
    architecture = architecture_of(read_configuration("elmo-original"))
    cell = 2 * (4 * 4096 * 1024 + 4096 * 512)
    filters = sum(
        2 * (51 - w) * w * 16 * k for w, k in ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    )
    word = filters + 2 * 2 * 2048 * 4096 + 2 * 2048 * 512
    reading = reading_without_tokenizer(read_configuration("elmo-original"), 10)
    assert reading == Reading(10, 12, 12, 50)
    assert architecture.sentence(reading) == Flops(12 * word, 12 * 4 * cell)


def test_bert_by_hand_grows_by_the_square_of_the_length() -> None:
    architecture = architecture_of(read_configuration("bert-base-uncased"))

    def total(n: int) -> int:
        return architecture.sentence(Reading(n, n, 0, 0)).total

    assert total(128) == 12 * (128 * (8 * 768**2 + 4 * 768 * 3072) + 4 * 128**2 * 768)
    # Twice the length: twice the maps and four times the attention.
    assert total(256) - 2 * total(128) == 12 * 2 * 4 * 128**2 * 768


@pytest.mark.parametrize(
    "published", [model for model in PUBLISHED.values() if model.family != "elmo"], ids=lambda model: model.name
)
def test_a_short_sentence_takes_about_two_operations_for_each_parameter_and_input(published: Any) -> None:
    """Every weight of a Transformer's maps is used once per input (Kaplan et al. 2020): a check on sizes read wrongly."""
    from extractors.parameters import count_parameters

    configuration = read_configuration(published.name)
    per_input = architecture_of(configuration).sentence(Reading(1, 1, 0, 0)).total
    expected = 2 * count_parameters(configuration).without_embeddings
    # XLNet maps two relative positions for one input with a fifth of its matrices of attention.
    assert 0.97 < per_input / expected < (1.10 if published.family == "xlnet" else 1.0)


def test_appending_to_a_causal_model_reads_the_new_word_only() -> None:
    architecture = Transformer(2, 8, 8, 8, 16, 2, 2, causal=(True,))
    before, after = Reading(10, 10, 0, 0), Reading(11, 11, 0, 0)
    per_input = 4 * 8 * 16 + 2 * 2 * 8 * 16
    assert architecture.append(before, after) == Flops(0, 2 * (per_input + 4 * 11 * 8))


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2"])
@pytest.mark.parametrize("prefix", [4, 11])
def test_a_model_with_a_cache_takes_what_torch_counts_for_one_more_word(family: str, prefix: int) -> None:
    """Keys and values of the prefix are kept from reading it, then the next piece alone is read."""
    import torch
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(family, vocab_size=30, **CONFIGS[family][1])
    with torch.random.fork_rng(devices=[]):
        model = AutoModel.from_config(config, attn_implementation="eager").eval()
    ids = torch.arange(prefix + 1)[None]
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"  # by version
    with torch.no_grad():
        whole = model(ids).last_hidden_state[:, -1]
        kept = {name: model(ids[:, :prefix], use_cache=True)[name]}
    states = []
    found = counted(lambda: states.append(model(ids[:, prefix:], use_cache=True, **kept).last_hidden_state[:, -1]))
    torch.testing.assert_close(states[0], whole)
    before, after = (Reading(n, n, 0, 0) for n in (prefix, prefix + 1))
    expected = architecture_of(config).append(before, after).total
    angles = 2 * (16 // 2 // 2) if family != "gpt2" else 0  # as for a whole sentence
    assert found in (expected, expected + angles)


def test_appending_to_a_bidirectional_model_reads_everything_again() -> None:
    architecture = Transformer(2, 8, 8, 8, 16, 2, 2)
    before, after = Reading(10, 12, 0, 0), Reading(11, 13, 0, 0)
    assert architecture.append(before, after) == architecture.sentence(after)


def test_appending_to_a_pair_of_towers_saves_the_left_to_right_one() -> None:
    towers = Transformer(2, 8, 8, 8, 16, 2, 2, causal=(True, False), tower_inputs=1)
    one, both = (Transformer(2, 8, 8, 8, 16, 2, 2, causal=(causal,)) for causal in (True, False))
    before, after = Reading(10, 12, 0, 0), Reading(11, 13, 0, 0)
    inner = Reading(10, 11, 0, 0), Reading(11, 12, 0, 0)
    assert towers.append(before, after).layers == one.append(*inner).layers + both.append(*inner).layers


def test_appending_to_an_elmo_saves_half_and_to_a_joint_lstm_a_quarter() -> None:
    cnn = ElmoOptions.model_validate(
        {"char_cnn": CHAR_CNN, "lstm": {"dim": 12, "projection_dim": 8, "n_layers": 2}}
    ).char_cnn
    before, after = Reading(1000, 1002, 900, 20), Reading(1001, 1003, 901, 20)
    elmo, joint = (Lstm(cnn, 8, 12, 2, joint) for joint in (False, True))
    assert elmo.append(before, after) == Flops(elmo.word(20), 2 * elmo.step(1) * (2 + 1003))
    assert elmo.append(before, after).layers / elmo.sentence(after).layers == pytest.approx(0.5, abs=0.002)
    first, second = joint.step(1), joint.step(2)
    assert joint.append(before, after).layers == first * (2 + 1003) + second * 2 * 1003
    assert second > first


def test_a_type_without_a_formula_is_refused() -> None:
    from transformers import AutoConfig

    with pytest.raises(ModelError, match=r"no formula for .*'mamba'.*bert"):
        architecture_of(AutoConfig.for_model("mamba"))
