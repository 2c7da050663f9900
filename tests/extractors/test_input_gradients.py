"""Graphs from input vectors to word vectors: the same vectors as `extract`, and gradients that finite differences confirm."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.foundation.errors import UsageError
from extractors.input_gradients import Trace, trace

SENTENCES = [
    ["fox"],
    ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"],
    ["She", "don't", "read", "unbelievable", "papers"],
]
KINDS = ("elmo", "bilstm-mlm", "bigpt", "bert", "roberta", "gpt2", "xlnet", "albert", "electra", "t5", "llama")


@pytest.fixture(scope="module")
def model(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Callable[[str], Path], elmo_reference: Path
) -> Callable[[str], Any]:
    """A function from a kind to a float64 extractor with weights so large that context matters."""

    @cache
    def load(kind: str) -> Any:
        if kind == "elmo":
            return load_extractor(elmo_reference, dtype="float64")
        if kind in ("bilstm-mlm", "bigpt"):
            return load_extractor(_native(kind, tmp_path_factory.mktemp(kind), tiny_folder), dtype="float64")
        return load_extractor(tiny_folder(kind), dtype="float64")

    return load


def _native(kind: str, folder: Path, tiny_folder: Callable[[str], Path]) -> Path:
    import torch

    from extractors import bigpt, bilstm_mlm
    from extractors.bigpt import network as bigpt_network
    from extractors.bilstm_mlm import network as bilstm_network
    from extractors.native import write_model

    if kind == "bigpt":
        tokenizer = (tiny_folder("bert") / "tokenizer.json").read_text()
        (folder / "tokenizer.json").write_text(tokenizer)
        vocabulary = len(json.loads(tokenizer)["model"]["vocab"])
        sizes = {"hidden_size": 12, "n_layers": 2, "n_heads": 2, "intermediate_size": 24, "n_positions": 40}
        config: Any = bigpt.BigptConfig(vocab_size=vocabulary, **sizes)
        network: Any = bigpt_network.draw_weights(bigpt_network.build_network(config), 3)
    else:
        cnn = {"embedding": {"dim": 4}, "filters": ((1, 6), (3, 8)), "n_highway": 1, "activation": "relu"}
        config = bilstm_mlm.BilstmMlmConfig(char_cnn=cnn, projection_dim=8, cells=12, vocabulary=20)
        network = bilstm_network.draw_weights(bilstm_network.build_network(config), 3)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
    write_model(folder, config, network.state_dict(), torch.float32)
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_the_word_vectors_are_those_of_extract(model: Any, kind: str, pooling: str) -> None:
    extractor = model(kind)
    traced = trace(extractor, SENTENCES, layers="all", pooling=pooling)
    for start, item in zip(traced.starts, extractor.extract(SENTENCES, pooling=pooling), strict=True):
        ours = traced.hidden[:, start : start + len(item.words)].detach().numpy()
        np.testing.assert_allclose(ours, item.hidden, rtol=1e-9, atol=1e-9)
    assert traced.inputs.is_leaf
    assert len(traced.inputs) == len(traced.owners)
    pieces = np.concatenate([list(map(len, a.word_pieces)) for a in extractor.align(SENTENCES)])
    np.testing.assert_array_equal(np.bincount(traced.owners.numpy()), pieces)


def forward_again(extractor: Any, moved: Any) -> np.ndarray:
    """Top-layer vectors of sentence 2 when its input vectors are `moved`: the same door, with another leaf put in."""
    import torch

    original = torch.Tensor.index_put
    try:
        torch.Tensor.index_put = lambda tensor, where, _: original(tensor, where, moved)  # type: ignore[method-assign]
        return trace(extractor, [SENTENCES[1]], layers="last").hidden[0].detach().numpy()
    finally:
        torch.Tensor.index_put = original  # type: ignore[method-assign]


# T5's rectifiers have kinks, and its norms compute in float32, which forbids steps too small to meet one.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "t5"])
def test_gradients_are_those_of_finite_differences(model: Any, kind: str) -> None:
    import torch

    extractor = model(kind)
    traced = trace(extractor, [SENTENCES[1]], layers="last")
    generator = np.random.default_rng(0)
    direction = generator.standard_normal(traced.hidden.shape[2])
    value = (traced.hidden[0, 4] * torch.from_numpy(direction)).sum()
    (gradient,) = torch.autograd.grad(value, traced.inputs, retain_graph=True)
    # Llama's norms compute in float32 whatever the network's precision.
    size, tolerance = (1e-4, 2e-2) if kind == "llama" else (1e-6, 1e-5)
    step = size * torch.from_numpy(generator.standard_normal(traced.inputs.shape))
    base = traced.inputs.detach()
    up, down = forward_again(extractor, base + step)[4], forward_again(extractor, base - step)[4]
    assert (up - down) @ direction / 2 == pytest.approx(float((gradient * step).sum()), rel=tolerance)
    squares = traced.squared_gradients(value).numpy()
    owners = traced.owners.numpy()
    expected = [float(gradient[owners == word].square().sum()) for word in range(len(SENTENCES[1]))]
    np.testing.assert_allclose(squares, expected, rtol=1e-12)


def squares(traced: Trace, sentence: int, word: int, layer: int, part: slice = slice(None)) -> np.ndarray:
    """Squared gradients of one random projection of one word, for the words of its sentence only."""
    import torch

    vector = traced.hidden[layer, traced.starts[sentence] + word, part]
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal(len(vector)))
    return traced.squared_gradients((vector * weights).sum()).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_other_sentences_have_no_influence_and_the_input_layer_no_context(model: Any, kind: str) -> None:
    traced = trace(model(kind), SENTENCES, layers="all")
    own = slice(traced.starts[1], traced.starts[2])
    found = squares(traced, 1, 4, -1)
    assert not np.delete(found, np.arange(own.start, own.stop)).any()
    assert found[own].any()
    at_input = squares(traced, 1, 4, 0)
    assert at_input[own.start + 4] > 0
    assert not np.delete(at_input, own.start + 4).any()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "elmo", "bigpt"])
def test_one_directional_networks_have_gradients_from_one_side_only(model: Any, kind: str) -> None:
    extractor = model(kind)
    traced = trace(extractor, SENTENCES, layers="all")
    start = traced.starts[1]
    for part, sign in (("forward", 1), ("backward", -1)) if kind in ("elmo", "bigpt") else (("whole", 1),):
        for layer in range(1, traced.hidden.shape[0]):
            found = squares(traced, 1, 4, layer, extractor.info.parts[part])[start : start + 9]
            unread, read = (found[5:], found[:4]) if sign > 0 else (found[:4], found[5:])
            assert not unread.any()
            assert read.all()


def test_gradients_do_not_depend_on_the_batch(model: Any) -> None:
    extractor = model("bert")
    together = squares(trace(extractor, SENTENCES, layers="all"), 2, 1, -1)
    alone = squares(trace(extractor, SENTENCES[2:], layers="all"), 0, 1, -1)
    np.testing.assert_allclose(together[-5:], alone, rtol=1e-9)


def test_nothing_is_left_behind(model: Any) -> None:
    import torch

    extractor = model("bigpt")
    before = [item.hidden for item in extractor.extract(SENTENCES)]
    with torch.no_grad():
        trace(extractor, SENTENCES, layers="all")
        assert not torch.is_grad_enabled()
    assert not extractor.network.words._forward_hooks
    for one, other in zip(before, extractor.extract(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, other.hidden)


def test_what_cannot_be_traced_is_refused(model: Any, tiny_folder: Callable[[str], Path]) -> None:
    bert = load_extractor(tiny_folder("bert"))
    with pytest.raises(UsageError, match="sentence 2 is longer"):
        trace(bert, [["a"], ["fox"] * 60], layers="all")
    with pytest.raises(UsageError, match="no sentence"):
        trace(bert, [], layers="all")
    with pytest.raises(UsageError, match="pooling"):
        trace(bert, [["a"]], layers="all", pooling="sum")

    class Stored:
        info = bert.info
        _prepare = bert._prepare

    with pytest.raises(UsageError, match="no network to differentiate"):
        trace(Stored(), [["a"]], layers="all")  # type: ignore[arg-type]
