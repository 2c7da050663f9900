"""The deep LSTM cell: alignment, independence of batches, one-sided halves at layer 1 and both-sided ones above, exact zeros."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.bilstm_mlm import BilstmMlmConfig, load_bilstm_mlm
from extractors.elmo.reading import encode_types
from extractors.foundation.errors import ModelError, UsageError

CONFIG = BilstmMlmConfig.model_validate_json(
    """{"char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 6], [3, 8]], "n_highway": 1, "activation": "relu"},
        "projection_dim": 8, "cells": 12, "vocabulary": 20}"""
)
SENTENCES = [
    ["One"],
    ["the", "cat", "sees", "a", "dog", "near", "the", "old", "house"],
    ["née", "<odd>", "[x]", "我"],
    ["a", "b", "c", "d", "e", "f", "g"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network with larger weights than usual, so that clips trigger and context matters."""
    import torch

    from extractors.bilstm_mlm.network import build_network, draw_weights
    from extractors.native import write_model

    path = tmp_path_factory.mktemp("bilstm")
    network = draw_weights(build_network(CONFIG), 3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 3
    write_model(path, CONFIG, network.state_dict(), torch.float32)
    return path


def vectors(extractor: Any, sentences: Any, **options: Any) -> list[Any]:
    return [item.hidden for item in extractor.extract(sentences, **options)]


def test_shapes_parts_and_what_the_folder_says(folder: Path) -> None:
    extractor = load_extractor(folder)
    assert extractor.info.layer_names == ("token", "biLSTM 1", "biLSTM 2")
    assert extractor.info.directionality == "bidirectional"
    assert extractor.info.family == "bilstm-mlm"
    assert list(extractor.info.parts) == ["whole", "forward", "backward"]
    for sentence, hidden in zip(SENTENCES, vectors(extractor, SENTENCES), strict=True):
        assert hidden.shape == (3, len(sentence), 16)
        assert np.array_equal(hidden[0, :, :8], hidden[0, :, 8:])


def test_vectors_do_not_depend_on_the_batch(folder: Path) -> None:
    extractor = load_extractor(folder)
    together = vectors(extractor, SENTENCES)
    for sentence, hidden in zip(SENTENCES, together, strict=True):
        np.testing.assert_allclose(vectors(extractor, [sentence], batch_size=1)[0], hidden, atol=1e-5)
    only = vectors(extractor, SENTENCES, layers="1")
    np.testing.assert_allclose(only[1][0], together[1][1], atol=1e-6)


def test_halves_see_one_side_at_layer_1_and_both_at_layer_2(folder: Path) -> None:
    extractor = load_extractor(folder, dtype="float64")
    base = ["a", "b", "c", "d", "e", "f", "g"]
    left, right = [*base], [*base]
    left[1], right[5] = "xyz", "xyz"
    one, changed_left, changed_right = vectors(extractor, [base, left, right])
    differs_left = np.abs(one - changed_left)[:, 3]
    differs_right = np.abs(one - changed_right)[:, 3]
    assert differs_left[1, 8:].max() == 0, "the right-to-left half of layer 1 has read the left side"
    assert differs_right[1, :8].max() == 0, "the left-to-right half of layer 1 has read the right side"
    assert differs_left[1, :8].min() > 0
    assert differs_right[1, 8:].min() > 0
    for differences in (differs_left[2], differs_right[2]):
        assert differences.min() > 0, "a half of layer 2 has read one side only"


def test_interaction_is_exactly_zero_at_layer_1_and_not_at_layer_2(folder: Path) -> None:
    extractor = load_extractor(folder, dtype="float64")
    grid = [[[*left, "cat", *right] for right in (["b", "c"], ["x", "y"])] for left in (["a", "o"], ["p", "q"])]
    corner = [[vectors(extractor, [sentence])[0][:, 2] for sentence in row] for row in grid]
    interaction = np.abs(corner[0][0] - corner[0][1] - corner[1][0] + corner[1][1]).max(axis=1)
    assert interaction[0] == 0
    assert interaction[1] < 1e-14
    assert interaction[2] > 1e-3


def test_layers_are_those_of_plain_cells_by_hand(folder: Path) -> None:
    """Layer 2 = cells over both halves of layer 1, plus layer 1 (skip connection)."""
    import torch

    extractor: Any = load_extractor(folder)
    network = extractor.network
    words = ["<S>", *SENTENCES[1], "</S>"]
    limit = extractor.config.char_cnn.max_characters_per_token
    tokens = encode_types(extractor.network.tokens, words, limit, masked=("[MASK]",))[None]
    with torch.no_grad():
        first = torch.cat([c[0](tokens, [len(words)])[0] for c in (network.forward_cells, network.backward_cells)], -1)
        second = torch.cat([c[1](first, [len(words)])[0] for c in (network.forward_cells, network.backward_cells)], -1)
    hidden = vectors(extractor, [SENTENCES[1]])[0]
    np.testing.assert_allclose(hidden[1], first[0, 1:-1], atol=1e-6)
    np.testing.assert_allclose(hidden[2], (first + second)[0, 1:-1], atol=1e-5)


def test_the_mask_word_has_no_characters(folder: Path) -> None:
    import torch

    extractor: Any = load_extractor(folder)
    hidden = vectors(extractor, [["a", "[MASK]", "b"], ["a", "other", "b"]])
    tokens = extractor.network.tokens
    expected = tokens(torch.zeros(1, 50, dtype=torch.int64))[0].detach().numpy()
    np.testing.assert_allclose(hidden[0][0, 1, :8], expected, atol=1e-6)
    assert np.abs(hidden[0][0, 1] - hidden[1][0, 1]).max() > 1e-3


def test_words_are_spelt_as_by_elmo(folder: Path) -> None:
    extractor: Any = load_extractor(folder)
    alignment = next(extractor.align([["a", "\ud800"]]))
    assert alignment.pieces == ("<S>", "a", "\ud800", "</S>")
    assert alignment.replaced == (1,)


def test_the_untrained_copy_follows_from_its_seed(folder: Path) -> None:
    one, same, other = (
        vectors(load_extractor(folder, untrained=True, seed=seed), SENTENCES[1:2])[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert load_extractor(folder, untrained=True, seed=1).info.checksum == ""


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: (path / "model.safetensors").unlink(), "cannot read"),
        (lambda path: (path / "model.safetensors").write_bytes(b"\x00" * 99), "cannot read"),
        (lambda path: _change(path, "cells", 11), "config and weights are not of one model"),
        (lambda path: _change(path, "n_layers", 3), "has no tensor"),
        (lambda path: _change(path, "projection_dim", "wide"), "projection_dim"),
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


def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="use float32 on cpu"):
        load_bilstm_mlm(folder, device="cuda:77")


def _change(path: Path, field: str, value: Any) -> None:
    content = json.loads((path / "config.json").read_text())
    content[field] = value
    (path / "config.json").write_text(json.dumps(content))
