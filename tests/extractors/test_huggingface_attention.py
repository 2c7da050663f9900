"""Word-level attention maps and their variants against the models' own piece-level maps and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.foundation.errors import UsageError
from extractors.huggingface.attention import norm_weighted, output_factors, rolled_out, value_norms
from extractors.huggingface.values import FAMILIES as WITH_VALUES
from extractors.huggingface.values import value_reader

FAMILIES = ("bert", "roberta", "gpt2", "xlnet", "distilbert", "albert", "electra", "t5", "llama", "qwen2")
SENTENCES = [["the", "unbelievable", "fox", "don't", "look"], ["hello"], ["tokenisation", "papers"]]


def slowly_reduced(maps: np.ndarray, owners: list[int | None], words: int) -> tuple[np.ndarray, np.ndarray]:
    result = np.zeros((*maps.shape[:2], words, words))
    special = np.zeros((*maps.shape[:2], words))
    for i, source in enumerate(owners):
        if source is None:
            continue
        for j, target in enumerate(owners):
            share = maps[:, :, i, j] / owners.count(source)
            if target is None:
                special[:, :, source] += share
            else:
                result[:, :, source, target] += share
    return result, special


def owners_of(alignment: Any) -> list[int | None]:
    owners: list[int | None] = [None] * len(alignment.pieces)
    for word, pieces in enumerate(alignment.word_pieces):
        for piece in pieces:
            owners[piece] = word
    return owners


def own_output(extractor: Any, alignment: Any) -> Any:
    """What the model itself gives for the pieces, with maps."""
    import torch

    ids = extractor.tokenizer.convert_tokens_to_ids(list(alignment.pieces))
    inputs = {"input_ids": torch.tensor([ids])}
    if extractor.info.family == "xlnet":
        inputs["token_type_ids"] = torch.tensor([[0] * (len(ids) - 1) + [2]])
    model = extractor.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True, output_hidden_states=True)
    model.set_attn_implementation(before)
    return output


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_are_the_models_own(family: str, tiny_folder: Callable[[str], Path]) -> None:
    import torch

    extractor: Any = load_extractor(tiny_folder(family)).with_attention_variants("rollout")
    for got in extractor.extract(SENTENCES, attention=True, batch_size=2):
        words, owners = len(got.words), owners_of(got.alignment)
        maps = torch.stack(own_output(extractor, got.alignment).attentions)[:, 0].numpy()
        expected, special = slowly_reduced(maps, owners, words)
        assert got.attention is not None
        assert got.attention_special is not None
        assert got.attention_layers == (1, 2, 3)
        assert got.attention.shape == (3, 2, words, words)
        np.testing.assert_allclose(got.attention, expected, atol=1e-5)
        np.testing.assert_allclose(got.attention_special, special, atol=1e-5)
        np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)

        flow, flows = np.eye(maps.shape[-1]), []
        for layer in maps.astype(np.float64):
            flow = (0.5 * layer.mean(axis=0) + 0.5 * np.eye(len(flow))) @ flow
            flows.append(flow)
        expected, special = slowly_reduced(np.array(flows)[:, None], owners, words)
        rollout = got.attention_variants["rollout"]
        assert rollout.words.shape == (3, 1, words, words)
        np.testing.assert_allclose(rollout.words, expected, atol=1e-5)
        np.testing.assert_allclose(rollout.special, special, atol=1e-5)


def test_rollout_of_two_layers_is_the_product() -> None:
    import torch

    maps = torch.rand(2, 4, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)
    first, second = rolled_out(maps)
    for i in range(5):
        for j in range(5):
            one = np.array([[0.5 * maps[0, :, a, b].mean() + 0.5 * (a == b) for b in range(5)] for a in range(5)])
            two = sum((0.5 * maps[1, :, i, k].mean().item() + 0.5 * (i == k)) * one[k, j] for k in range(5))
            assert first[i, j].item() == pytest.approx(one[i, j], abs=1e-14)
            assert second[i, j].item() == pytest.approx(two, abs=1e-14)


def test_norm_weighted_rows_are_whole_or_empty() -> None:
    """And zero exactly where attention is, or where nothing is read."""
    import torch

    maps = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]])
    got = norm_weighted(maps, torch.tensor([[0.0, 2.0, 1.0]]))[0]
    np.testing.assert_allclose(got, [[0, 0, 0], [0, 1, 0], [0, 6 / 11, 5 / 11]], rtol=1e-6)


@pytest.mark.parametrize("dim", [7, 4, 3])
def test_factors_keep_the_norms_of_projected_values(dim: int) -> None:
    """Also where a head is wider than the model, and where two heads share their values."""
    import torch

    generator = torch.Generator().manual_seed(dim)
    weight = torch.randn(4 * 5, dim, dtype=torch.float64, generator=generator)
    values = torch.randn(2, 2, 6, 5, dtype=torch.float64, generator=generator)
    got = value_norms(values, output_factors(weight, 4))
    for head in range(4):
        expected = (values[:, head // 2] @ weight[5 * head : 5 * head + 5]).norm(dim=-1)
        np.testing.assert_allclose(got[:, head], expected, rtol=1e-12)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family in WITH_VALUES])
def test_value_norms_are_those_of_the_models_own_output_projection(
    family: str, tiny_folder: Callable[[str], Path]
) -> None:
    """Values times maps are what the output module receives, and its answer to one head's value has the norm read."""
    import torch

    extractor: Any = load_extractor(tiny_folder(family), dtype="float64")
    model, heads = extractor.model, extractor.info.heads
    places = WITH_VALUES[family]
    given: dict[str, list[torch.Tensor]] = {"value": [], "output": []}
    modules: dict[str, list[Any]] = {"value": [], "output": []}

    def keep(kind: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            given[kind].append(output[0] if kind == "value" else inputs[0][0])
            modules[kind].append(module)

        return hook

    for path, module in model.named_modules():
        for kind in given:
            if path.endswith("." + getattr(places, kind)):
                module.register_forward_hook(keep(kind))
    alignment = next(iter(extractor.align(SENTENCES)))
    with value_reader(model, heads).reading() as norms:
        maps = own_output(extractor, alignment).attentions
    assert len(norms) == len(maps) == len(given["output"]) == 3
    for layer in range(3):
        values, received = given["value"][layer], given["output"][layer]
        if family == "gpt2":
            values = values[:, 2 * values.shape[1] // 3 :]
        width = received.shape[-1] // heads
        values = values.unflatten(-1, (-1, width))
        values = values.repeat_interleave(heads // values.shape[1], dim=1)
        read = torch.einsum("hij,jhd->ihd", maps[layer][0], values)
        np.testing.assert_allclose(read.flatten(1), received, atol=1e-12)
        output = modules["output"][layer]
        with torch.no_grad():
            for head in range(heads):
                alone = torch.zeros_like(received)
                alone[:, head * width : (head + 1) * width] = values[:, head]
                expected = (output(alone) - output(torch.zeros_like(alone))).norm(dim=-1)
                np.testing.assert_allclose(norms[layer][0, head], expected, rtol=1e-9)


def test_norm_weighted_maps_of_bert_by_a_slow_loop_over_its_weights(tiny_folder: Callable[[str], Path]) -> None:
    """Vectors f(x) = (x W_V + b_V) W_O written out from the layer's input, head by head and piece by piece."""
    import torch

    loaded: Any = load_extractor(tiny_folder("bert"), dtype="float64")
    with torch.no_grad():
        for block in loaded.model.encoder.layer:
            block.attention.self.value.bias += torch.linspace(-1, 1, 16)
    extractor = loaded.with_attention_variants("norm-weighted")
    apart = 0.0
    for got in extractor.extract(SENTENCES, attention=True, batch_size=3):
        output = own_output(extractor, got.alignment)
        count = len(got.alignment.pieces)
        weighted = np.zeros((3, 2, count, count))
        for layer, block in enumerate(extractor.model.encoder.layer):
            states = output.hidden_states[layer][0].numpy()
            own = (
                block.attention.self.value.weight,
                block.attention.self.value.bias,
                block.attention.output.dense.weight,
            )
            value, bias, out = (parameter.detach().numpy() for parameter in own)
            for head in range(2):
                place = slice(8 * head, 8 * head + 8)
                for i in range(count):
                    for j in range(count):
                        read = states[j] @ value[place].T + bias[place]
                        added = read @ out[:, place].T
                        weighted[layer, head, i, j] = output.attentions[layer][0, head, i, j] * np.linalg.norm(added)
        weighted /= weighted.sum(axis=-1, keepdims=True)
        expected, special = slowly_reduced(weighted, owners_of(got.alignment), len(got.words))
        maps = got.attention_variants["norm-weighted"]
        np.testing.assert_allclose(maps.words, expected, atol=1e-12)
        np.testing.assert_allclose(maps.special, special, atol=1e-12)
        assert got.attention is not None
        apart = max(apart, float(np.abs(maps.words - got.attention).max()))
    assert apart > 0.02, "plain maps would pass for weighted ones"


def test_variants_of_chosen_layers_in_batches_and_in_windows(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("gpt2"), dtype="float64")
    both: Any = extractor.with_attention_variants("norm-weighted", "rollout")
    assert extractor.attention_variants == ()
    assert both.attention_variants == ("norm-weighted", "rollout")
    long = ["fox"] * 60
    items = list(both.extract([*SENTENCES, long], attention=True, batch_size=3))
    again = list(both.extract([*SENTENCES, long], attention=True, batch_size=1, layers="0,2-3"))
    for item, other in zip(items, again, strict=True):
        assert set(item.attention_variants) == {"norm-weighted", "rollout"}
        for name, maps in item.attention_variants.items():
            assert maps.words.shape[1] == (1 if name == "rollout" else 2)
            np.testing.assert_allclose(other.attention_variants[name].words, maps.words[1:], atol=1e-12)
            np.testing.assert_allclose(maps.words.sum(-1) + maps.special, 1, atol=1e-12)
            assert (np.triu(maps.words, 1) == 0).all()
    assert items[-1].windows > 1
    assert all(not block.attn.c_attn._forward_hooks for block in both.model.h), "hooks are left behind"
    assert next(both.extract(SENTENCES)).attention_variants == {}
    none = next(both.extract(SENTENCES, attention=True, layers=0)).attention_variants
    assert none["rollout"].words.shape == (0, 1, 5, 5)
    assert none["norm-weighted"].special.shape == (0, 2, 5)


def test_families_whose_values_are_not_known_say_so(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("xlnet"))
    assert extractor.attention_gap("rollout") is None
    gap = extractor.attention_gap("norm-weighted")
    assert gap is not None
    assert "models of type xlnet keep their value and output weights is not known; known types: albert, bert" in gap
    with pytest.raises(UsageError, match="not available: where models of type xlnet"):
        extractor.with_attention_variants("norm-weighted")
    with pytest.raises(UsageError, match="'flow' is unknown; choose from rollout, norm-weighted"):
        extractor.with_attention_variants("flow")


def test_half_precision_maps_are_weighed_in_single(tiny_folder: Callable[[str], Path]) -> None:
    half, single = (
        next(
            load_extractor(tiny_folder("bert"), dtype=dtype)
            .with_attention_variants("rollout", "norm-weighted")
            .extract(SENTENCES, attention=True)
        )
        for dtype in ("bfloat16", "float32")
    )
    for name, maps in half.attention_variants.items():
        assert maps.words.dtype == np.float32
        np.testing.assert_allclose(maps.words.sum(-1) + maps.special, 1, atol=1e-5)
        np.testing.assert_allclose(maps.words, single.attention_variants[name].words, atol=0.1)


def test_real_bert_rows_are_whole(minilm_path: Path) -> None:
    got = next(load_extractor(minilm_path).extract(["The unscrewed tokenizer doesn't matter."], attention=True))
    assert got.attention is not None
    assert got.attention_special is not None
    assert got.attention.shape == (6, 12, 6, 6)
    np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)
    assert got.attention_special[3:].mean() > 0.3  # [CLS] and [SEP] soak up attention in the upper half of BERT


def test_maps_of_the_chosen_layers_only(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    everything = next(extractor.extract(SENTENCES, attention=True))
    got = next(extractor.extract(SENTENCES, attention=True, layers="0,2-3"))
    assert everything.attention is not None
    assert got.attention_layers == (2, 3)
    np.testing.assert_array_equal(got.attention, everything.attention[1:])
    none = next(extractor.extract(SENTENCES, attention=True, layers=0))
    assert none.attention is not None
    assert none.attention_special is not None
    assert (none.attention_layers, none.attention.shape) == ((), (0, 2, 5, 5))
    assert none.attention_special.shape == (0, 2, 5)


def test_causal_maps_are_empty_on_the_right(tiny_folder: Callable[[str], Path]) -> None:
    for family in ("gpt2", "llama"):
        got = next(load_extractor(tiny_folder(family)).extract([["one", "two", "three", "four"]], attention=True))
        assert got.attention is not None
        right = np.triu(np.ones((4, 4), bool), 1)
        assert (got.attention[:, :, right] == 0).all()
        assert got.attention[:, :, ~right].min() > 0


def test_asking_for_maps_changes_neither_vectors_nor_model(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    kernel = extractor.model.config._attn_implementation
    assert kernel == "sdpa"
    before = next(extractor.extract(SENTENCES))
    mapped = next(extractor.extract(SENTENCES, attention=True))
    after = next(extractor.extract(SENTENCES))
    assert extractor.model.config._attn_implementation == kernel
    assert before.attention is None
    np.testing.assert_allclose(mapped.hidden, before.hidden, atol=1e-5)
    np.testing.assert_array_equal(after.hidden, before.hidden)


def test_a_model_without_attention_refuses_maps(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    import shutil

    from transformers import MambaConfig, MambaModel

    folder = shutil.copytree(tiny_folder("gpt2"), tmp_path / "mamba")
    config = MambaConfig(
        vocab_size=330,
        hidden_size=16,
        num_hidden_layers=2,
        state_size=4,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    MambaModel(config).save_pretrained(folder)
    extractor = load_extractor(folder)
    assert (extractor.info.heads, extractor.info.directionality, extractor.info.max_pieces) == (
        None,
        "left-to-right",
        None,
    )
    assert next(extractor.extract(SENTENCES)).hidden.shape == (3, 5, 16)
    with pytest.raises(UsageError, match="has no attention"):
        extractor.extract(SENTENCES, attention=True)
    assert extractor.attention_gap("rollout") == "mamba (mamba) has no attention"


def test_maps_that_a_model_fails_to_give_are_an_error(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    # As transformers behaves with a fused kernel: the answer is an empty tuple.
    extractor.model.set_attn_implementation = lambda name: None
    extractor.model.encoder.layer[0].attention.self.register_forward_hook(
        lambda module, given, output: (output[0], None)
    )
    with pytest.raises(UsageError, match="give no attention maps"):
        next(extractor.extract(SENTENCES, attention=True))
