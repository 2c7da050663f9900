"""Word-level attention maps against the models' own piece-level maps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from extractors import load_extractor
from extractors.foundation.errors import UsageError

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


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_are_the_models_own(family: str, tiny_folder: Callable[[str], Path]) -> None:
    import torch

    extractor = load_extractor(tiny_folder(family))
    for got in extractor.extract(SENTENCES, attention=True, batch_size=2):
        words, alignment = len(got.words), got.alignment
        owners: list[int | None] = [None] * len(alignment.pieces)
        for word, pieces in enumerate(alignment.word_pieces):
            for piece in pieces:
                owners[piece] = word
        ids = extractor.tokenizer.convert_tokens_to_ids(list(alignment.pieces))
        inputs = {"input_ids": torch.tensor([ids])}
        if family == "xlnet":
            inputs["token_type_ids"] = torch.tensor([[0] * (len(ids) - 1) + [2]])
        model = extractor.model
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        with torch.no_grad():
            maps = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0].numpy()
        model.set_attn_implementation(before)
        expected, special = slowly_reduced(maps, owners, words)
        assert got.attention is not None
        assert got.attention_special is not None
        assert got.attention_layers == (1, 2, 3)
        assert got.attention.shape == (3, 2, words, words)
        np.testing.assert_allclose(got.attention, expected, atol=1e-5)
        np.testing.assert_allclose(got.attention_special, special, atol=1e-5)
        np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)


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


def test_maps_that_a_model_fails_to_give_are_an_error(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    # As transformers behaves with a fused kernel: the answer is an empty tuple.
    extractor.model.set_attn_implementation = lambda name: None
    extractor.model.encoder.layer[0].attention.self.register_forward_hook(
        lambda module, given, output: (output[0], None)
    )
    with pytest.raises(UsageError, match="give no attention maps"):
        next(extractor.extract(SENTENCES, attention=True))
