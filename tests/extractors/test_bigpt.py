"""The shallow Transformer cell: causal towers, reading order, pooling, windows, exact zeros."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.bigpt import BigptConfig
from extractors.foundation.errors import ModelError

SENTENCES = [
    ["fox"],
    ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"],
    ["She", "don't", "read", "unbelievable", "papers"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Callable[[str], Path]) -> Path:
    """A small network with larger weights than usual, so that context matters."""
    import torch

    from extractors.bigpt.network import build_network, draw_weights
    from extractors.native import write_model

    tokenizer = (tiny_folder("bert") / "tokenizer.json").read_text()
    size = len(json.loads(tokenizer)["model"]["vocab"])
    config = BigptConfig(vocab_size=size, hidden_size=12, n_layers=3, n_heads=2, intermediate_size=24, n_positions=24)
    path = tmp_path_factory.mktemp("bigpt")
    network = draw_weights(build_network(config), 3)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
    write_model(path, config, network.state_dict(), torch.float32)
    (path / "tokenizer.json").write_text(tokenizer)
    return path


def vectors(extractor: Any, sentences: Any, **options: Any) -> list[Any]:
    return [item.hidden for item in extractor.extract(sentences, **options)]


def test_shapes_parts_and_what_the_folder_says(folder: Path) -> None:
    extractor = load_extractor(folder)
    assert extractor.info.layer_names == ("embeddings", "layer 1", "layer 2", "layer 3")
    assert extractor.info.directionality == "concatenated"
    assert extractor.info.family == "bigpt"
    assert extractor.info.parts["backward"] == slice(12, 24)
    for sentence, hidden in zip(SENTENCES, vectors(extractor, SENTENCES), strict=True):
        assert hidden.shape == (4, len(sentence), 24)


def test_vectors_do_not_depend_on_the_batch(folder: Path) -> None:
    extractor = load_extractor(folder)
    for sentence, hidden in zip(SENTENCES, vectors(extractor, SENTENCES), strict=True):
        np.testing.assert_allclose(vectors(extractor, [sentence], batch_size=1)[0], hidden, atol=1e-5)
    np.testing.assert_allclose(
        vectors(extractor, SENTENCES, layers="1")[1][0], vectors(extractor, SENTENCES)[1][1], atol=1e-6
    )


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
def test_the_towers_are_causal_and_the_interaction_exactly_zero(folder: Path, pooling: str) -> None:
    extractor = load_extractor(folder, dtype="float64")
    # The parts of a side are the same words in another order: as many pieces, so that nothing shifts.
    lefts, rights = (["lazy", "the"], ["the", "lazy"]), (["over", "a"], ["a", "over"])
    grid = [[[*left, "jumps", *right] for right in rights] for left in lefts]
    corner = [[vectors(extractor, [sentence], pooling=pooling)[0][:, 2] for sentence in row] for row in grid]
    left, right = np.abs(corner[0][0] - corner[1][0]), np.abs(corner[0][0] - corner[0][1])
    assert right[:, :12].max() == 0, "the forward tower has read the right side"
    assert left[:, 12:].max() == 0, "the backward tower has read the left side"
    assert left[1:, :12].min(axis=1).max() > 1e-6
    assert right[1:, 12:].min(axis=1).max() > 1e-6
    interaction = np.abs(corner[0][0] - corner[0][1] - corner[1][0] + corner[1][1]).max()
    assert interaction < 1e-14


def test_the_backward_tower_reads_each_sentence_from_its_own_end(folder: Path) -> None:
    """By hand: reversed pieces behind [SEP], whatever else is in the batch."""
    import torch

    extractor: Any = load_extractor(folder)
    sentence = SENTENCES[2]
    alignment = next(extractor.align([sentence]))
    ids = extractor.tokenizer.convert_tokens_to_ids(list(alignment.pieces))
    with torch.no_grad():
        forward = extractor.network(torch.tensor([ids[:-1]]), "forward")
        backward = extractor.network(torch.tensor([ids[:0:-1]]), "backward")
    hidden = vectors(extractor, [SENTENCES[1], sentence], pooling="last")[1]
    for word, pieces in enumerate(alignment.word_pieces):
        for layer in range(4):
            np.testing.assert_allclose(hidden[layer, word, :12], forward[layer][0, pieces[-1]], atol=1e-5)
            # Piece p of the text is piece (count - 1 - p) of the reversed row, whose first entry is [SEP].
            place = len(ids) - 1 - pieces[0]
            np.testing.assert_allclose(hidden[layer, word, 12:], backward[layer][0, place], atol=1e-5)
    assert any(len(pieces) > 1 for pieces in alignment.word_pieces)


def test_the_last_layer_is_each_towers_own_norm(folder: Path) -> None:
    extractor: Any = load_extractor(folder)
    hidden = vectors(extractor, SENTENCES[:2], pooling="last")[1][-1]
    for half in (hidden[:, :12], hidden[:, 12:]):
        np.testing.assert_allclose(half.mean(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(half.std(axis=1), 1, atol=1e-2)


def test_long_sentences_are_read_in_windows_and_endless_words_stand_as_unknown(folder: Path) -> None:
    extractor = load_extractor(folder)
    long = SENTENCES[1] * 5
    item = next(iter(extractor.extract([long])))
    assert item.windows > 1
    assert item.hidden.shape == (4, len(long), 24)
    assert np.isfinite(item.hidden).all()
    endless, unknown = (next(iter(extractor.extract([["the", word, "oloa"]]))) for word in ("oloa" * 20, "\u2603"))
    assert endless.alignment is not None
    assert endless.alignment.replaced == (1,)
    assert len(endless.alignment.word_pieces[1]) == 1
    np.testing.assert_array_equal(endless.hidden, unknown.hidden)


def slow_tower(extractor: Any, ids: list[int], direction: str) -> tuple[np.ndarray, np.ndarray]:
    """Maps (layers, heads, pieces, pieces) of a tower in its reading order, plain and norm-weighted, written out."""
    import torch

    network = extractor.network
    plain, weighted = [], []
    with torch.no_grad():
        for state, block in zip(
            network(torch.tensor([ids]), direction)[:-1], network.tower(direction).blocks, strict=True
        ):
            normed = block.attention_norm(state[0])
            for head in range(2):
                place = slice(6 * head, 6 * head + 6)
                query, key, value = (linear(normed)[:, place] for linear in (block.query, block.key, block.value))
                weights = torch.zeros(len(ids), len(ids), dtype=torch.float64)
                for i in range(len(ids)):
                    weights[i, : i + 1] = torch.softmax(key[: i + 1] @ query[i] / 6**0.5, 0)
                norms = (value @ block.mix.weight[:, place].T).norm(dim=-1)
                plain.append(weights)
                weighted.append(weights * norms / (weights * norms).sum(-1, keepdim=True))
    return tuple(torch.stack(maps).unflatten(0, (3, 2)).numpy() for maps in (plain, weighted))  # type: ignore[return-value]


def test_attention_maps_are_those_of_each_tower_in_the_order_of_the_text(folder: Path) -> None:
    extractor: Any = load_extractor(folder, dtype="float64").with_attention_variants("rollout", "norm-weighted")
    assert extractor.info.heads == 4
    assert extractor.info.head_parts == {"forward": slice(0, 2), "backward": slice(2, 4)}
    items = list(extractor.extract(SENTENCES, attention=True, batch_size=2))
    for sentence, item in zip(SENTENCES, items, strict=True):
        n = len(sentence)
        ids = extractor.tokenizer.convert_tokens_to_ids(list(item.alignment.pieces))
        for tower, direction in enumerate(("forward", "backward")):
            order = ids[:-1] if tower == 0 else ids[:0:-1]
            # Positions of the text in the tower's reading order, whose first entry is the boundary piece.
            places = [[p if tower == 0 else len(ids) - 1 - p for p in pieces] for pieces in item.alignment.word_pieces]
            plain, weighted = slow_tower(extractor, order, direction)
            flow, flows = np.eye(len(order)), []
            for layer in plain:
                flow = (layer.mean(axis=0) + np.eye(len(order))) / 2 @ flow
                flows.append(flow)
            heads = slice(2 * tower, 2 * tower + 2)
            found = {
                "plain": (item.attention[:, heads], item.attention_special[:, heads], plain),
                **{
                    name: (maps.words[:, where], maps.special[:, where], expected)
                    for name, where, expected in (
                        ("rollout", slice(tower, tower + 1), np.array(flows)[:, None]),
                        ("norm-weighted", heads, weighted),
                    )
                    for maps in (item.attention_variants[name],)
                },
            }
            for name, (words, special, pieces) in found.items():
                for i in range(n):
                    rows = pieces[:, :, places[i]].mean(axis=2)
                    np.testing.assert_allclose(special[:, :, i], rows[:, :, 0], atol=1e-12, err_msg=name)
                    for j in range(n):
                        expected = rows[:, :, places[j]].sum(axis=2)
                        np.testing.assert_allclose(words[:, :, i, j], expected, atol=1e-12, err_msg=name)
                beyond = np.triu(np.ones((n, n), bool), 1)
                assert (words[:, :, beyond if tower == 0 else beyond.T] == 0).all(), name


def test_asking_for_maps_changes_no_vector(folder: Path) -> None:
    extractor = load_extractor(folder)
    plain, mapped = (vectors(extractor, SENTENCES, attention=attention) for attention in (False, True))
    for one, other in zip(plain, mapped, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)
    chosen = next(extractor.extract(SENTENCES, layers="0,2", attention=True))
    assert chosen.attention_layers == (2,)
    assert chosen.attention is not None
    assert chosen.attention.shape == (1, 4, 1, 1)
    none = next(extractor.extract(SENTENCES, layers=0, attention=True))
    assert none.attention is not None
    assert none.attention.shape == (0, 4, 1, 1)


def test_the_untrained_copy_follows_from_its_seed(folder: Path) -> None:
    one, same, other = (
        vectors(load_extractor(folder, untrained=True, seed=seed), SENTENCES[1:2])[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: (path / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda path: (path / "tokenizer.json").write_text("{}"), "cannot be read as a tokenizer"),
        (lambda path: (path / "model.safetensors").unlink(), "cannot read"),
        (lambda path: _change(path, "vocab_size", 20), "not of one model"),
        (lambda path: _change(path, "n_heads", 5), "do not divide"),
    ],
)
def test_damaged_folders_are_refused_in_plain_words(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    spoil(tmp_path)
    with pytest.raises(ModelError, match=said):
        load_extractor(tmp_path)


def _change(path: Path, field: str, value: Any) -> None:
    content = json.loads((path / "config.json").read_text())
    content[field] = value
    (path / "config.json").write_text(json.dumps(content))
