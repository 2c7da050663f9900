"""The Hugging Face extractor against the models' own forward passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.foundation.errors import UsageError
from extractors.representation import POOLINGS

FAMILIES = ("bert", "roberta", "gpt2", "xlnet", "distilbert", "albert", "electra", "t5", "llama", "qwen2")
SENTENCES = [
    ["the", "unbelievable", "fox", "don't", "look"],
    ["hello"],
    ["She", "said", "that", "they", "read", "tokenisation", ",", "naïve"],
    ["one", "two"],
]
CALLS = {"first": lambda x: x[0], "last": lambda x: x[-1], "mean": lambda x: x.mean(0), "max": lambda x: x.max(0)}


def reference(folder: Path, words: list[str]) -> tuple[np.ndarray, list[int | None], np.ndarray]:
    """The model's own layers for one sentence alone, the words of its pieces, and its own attention maps."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if getattr(tokenizer, "add_prefix_space", None) is False:
        tokenizer = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    family = model.config.model_type
    given = [f" {word}" for word in words] if family == "qwen2" else words
    encoded = tokenizer(given, is_split_into_words=True, return_tensors="pt")
    inputs: dict[str, Any] = dict(encoded)
    if family not in ("bert", "electra", "albert", "xlnet"):
        inputs.pop("token_type_ids", None)
    if family == "xlnet":  # trained with segments, <cls> in one of its own; the tokenizer of transformers 5 omits them
        inputs["token_type_ids"] = torch.tensor([[0] * (len(encoded["input_ids"][0]) - 1) + [2]])
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True, output_attentions=True)
    hidden = torch.stack(output.hidden_states)[:, 0].numpy()
    return hidden, encoded.word_ids(0), torch.stack(output.attentions)[:, 0].numpy()


def slowly_pooled(hidden: np.ndarray, word_ids: list[int | None], n_words: int, pooling: str) -> np.ndarray:
    result = np.empty((len(hidden), n_words, hidden.shape[2]), np.float32)
    for layer in range(len(hidden)):
        for word in range(n_words):
            pieces = [hidden[layer, i] for i, owner in enumerate(word_ids) if owner == word]
            result[layer, word] = CALLS[pooling](np.array(pieces))
    return result


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_is_the_models_own(family: str, tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder(family)
    extractor = load_extractor(folder)
    expected = [reference(folder, words) for words in SENTENCES]
    assert any(word_ids.count(0) > 1 for _, word_ids, _ in expected), "no word of several pieces: pooling is not tested"
    for pooling in POOLINGS:
        for got, words, (hidden, word_ids, _) in zip(
            extractor.extract(SENTENCES, pooling=pooling, batch_size=3), SENTENCES, expected, strict=True
        ):
            assert got.words == tuple(words)
            assert got.hidden.dtype == np.float32
            assert got.windows == 1
            assert len(got.alignment.pieces) == hidden.shape[1]
            np.testing.assert_allclose(got.hidden, slowly_pooled(hidden, word_ids, len(words), pooling), atol=1e-5)


def test_real_bert_equals_its_own_forward(minilm_path: Path) -> None:
    sentences = [
        ["The", "researchers", "unscrewed", "an", "unbelievably", "large", "tokenizer", "."],
        ["It", "doesn't", "matter", ",", "does", "it", "?"],
    ]
    extractor = load_extractor(minilm_path)
    assert extractor.info.layer_names == ("embeddings", *(f"layer {number}" for number in range(1, 7)))
    for got, words in zip(extractor.extract(sentences), sentences, strict=True):
        hidden, word_ids, _ = reference(minilm_path, words)
        np.testing.assert_allclose(got.hidden, slowly_pooled(hidden, word_ids, len(words), "mean"), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_do_not_depend_on_batch_order_or_padding(family: str, tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder(family))
    alone = [next(extractor.extract([words], attention=True)) for words in SENTENCES]
    for batch_size in (1, 2, 32):
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
            shuffled = [SENTENCES[i] for i in order]
            for i, got in zip(order, extractor.extract(shuffled, batch_size=batch_size, attention=True), strict=True):
                assert got.words == tuple(SENTENCES[i])
                np.testing.assert_allclose(got.hidden, alone[i].hidden, atol=1e-5)
                np.testing.assert_allclose(got.attention, alone[i].attention, atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_causal_models_know_nothing_of_the_right(family: str, tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder(family), dtype="float64")
    assert extractor.info.directionality == "left-to-right"
    left = ["the", "unbelievable", "fox"]
    one, other = extractor.extract([[*left, "jumps", "over"], [*left, "don't", "two"]])
    assert one.hidden.dtype == np.float64
    assert np.abs(one.hidden[:, :3] - other.hidden[:, :3]).max() < 1e-12
    assert np.abs(one.hidden[1:, 3:] - other.hidden[1:, 3:]).max() > 1e-3


@pytest.mark.parametrize("family", ["bert", "xlnet", "t5"])
def test_bidirectional_models_see_both_sides(family: str, tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder(family), dtype="float64")
    assert extractor.info.directionality == "bidirectional"
    one, right, left = extractor.extract([["the", "fox", "one"], ["the", "fox", "two"], ["hello", "fox", "one"]])
    for other in (right, left):
        assert np.abs(one.hidden[1:, 1] - other.hidden[1:, 1]).max(-1).min() > 1e-4
    np.testing.assert_array_equal(one.hidden[0, 1], right.hidden[0, 1])


def test_layer_selection_takes_the_same_vectors(tiny_folder: Callable[[str], Path]) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    everything = next(extractor.extract(SENTENCES))
    for selection, numbers in ((0, [0]), (-1, [3]), ("last", [3]), ("0,2-3", [0, 2, 3]), ([2], [2])):
        got = next(extractor.extract(SENTENCES, layers=selection))
        assert got.layers == tuple(numbers)
        assert got.layer_names == tuple(["embeddings", "layer 1", "layer 2", "layer 3"][n] for n in numbers)
        np.testing.assert_array_equal(got.hidden, everything.hidden[numbers])
    with pytest.raises(UsageError, match="layers 0 to 3"):
        extractor.extract(SENTENCES, layers=4)


def test_info_says_what_the_model_is(tiny_folder: Callable[[str], Path]) -> None:
    limits = {"bert": 40, "roberta": 40, "gpt2": 40, "xlnet": None, "t5": None, "llama": 40}
    for family, limit in limits.items():
        info = load_extractor(tiny_folder(family)).info
        assert info.family == family
        assert info.max_pieces == limit
        assert (info.hidden_size, info.heads, len(info.layer_names), info.weights) == (16, 2, 4, "trained")
        assert len(info.checksum) == 64


def test_checksum_follows_the_weights(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(tiny_folder("bert"), tmp_path / "copy")
    before = load_extractor(tiny_folder("bert")).info.checksum
    assert load_extractor(copy).info.checksum == before
    weights = load_file(copy / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][7, 7] += 1
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert load_extractor(copy).info.checksum != before


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet"])
def test_untrained_copy_follows_from_the_seed_alone(family: str, tiny_folder: Callable[[str], Path]) -> None:
    import torch

    folder = tiny_folder(family)
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    first = load_extractor(folder, untrained=True, seed=0)
    trained = load_extractor(folder)
    assert torch.equal(torch.rand(4), expected), "loading moved the global random state"
    again, other = load_extractor(folder, untrained=True), load_extractor(folder, untrained=True, seed=1)
    double = load_extractor(folder, untrained=True, dtype="float64")
    assert (first.info.weights, first.info.checksum, first.info.seed) == ("untrained", "", 0)
    assert trained.info.seed is None
    assert first.info.parameters == trained.info.parameters
    vectors = [next(e.extract(SENTENCES)).hidden for e in (first, again, other, trained, double)]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3
    assert np.abs(vectors[0] - vectors[3]).max() > 1e-3
    np.testing.assert_allclose(vectors[0], vectors[4], atol=1e-5)
    assert next(first.align(SENTENCES)) == next(trained.align(SENTENCES))


def test_untrained_copy_needs_no_weights(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(tiny_folder("bert"), tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    assert next(load_extractor(copy, untrained=True).extract(SENTENCES)).hidden.shape == (4, 5, 16)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_precisions(dtype: str, family: str, tiny_folder: Callable[[str], Path]) -> None:
    exact = next(load_extractor(tiny_folder(family)).extract(SENTENCES)).hidden
    extractor = load_extractor(tiny_folder(family), dtype=dtype)
    got = next(extractor.extract(SENTENCES, attention=True))
    assert extractor.info.dtype == dtype
    assert got.hidden.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_allclose(got.hidden, exact, atol=1e-5 if dtype == "float64" else 0.15)
    assert got.attention is not None
    assert got.attention_special is not None
    np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)


def test_sentences_do_not_keep_their_batch_alive(tiny_folder: Callable[[str], Path]) -> None:
    got = list(load_extractor(tiny_folder("bert")).extract(SENTENCES, attention=True))
    assert all(sentence.hidden.base is None for sentence in got)
    assert all(sentence.attention.base is None for sentence in got)


def test_pooling_refuses_what_it_does_not_know(tiny_folder: Callable[[str], Path]) -> None:
    import torch

    from extractors.pooling import pool_pieces

    with pytest.raises(UsageError, match="first, last, mean, max"):
        load_extractor(tiny_folder("bert")).extract(SENTENCES, pooling="sum")
    with pytest.raises(UsageError, match="median"):
        pool_pieces(torch.zeros(2, 3), torch.tensor([1, 1]), "median")
