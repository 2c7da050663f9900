"""What ELMo's vectors depend on and what not; nasty words; untrained copies; what it says about itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from extractors import load_extractor
from extractors.elmo import ElmoExtractor, find_elmo_files, load_elmo
from extractors.elmo.characters import PAD, character_ids
from extractors.elmo.options import ElmoOptions
from extractors.elmo.weights import count_parameters
from extractors.foundation.errors import DataError, UsageError


@pytest.fixture(scope="module")
def elmo(elmo_reference: Path) -> ElmoExtractor:
    return load_elmo(*find_elmo_files(elmo_reference), name="reference")


@pytest.fixture(scope="module")
def elmo64(elmo_reference: Path) -> ElmoExtractor:
    return load_elmo(*find_elmo_files(elmo_reference), name="reference", dtype="float64")


SENTENCES = [
    ["Short", "."],
    ["A", "rather", "longer", "sentence", "than", "the", "others", ",", "which", "makes", "them", "wait", "."],
    ["One"],
    ["The", "bank", "of", "the", "river", "was", "steep", "."],
    ["Internationalisation", "internationalisation"],
    ["x" * 60, "ok"],
]


def test_vectors_do_not_depend_on_batch_order_or_padding(elmo: ElmoExtractor) -> None:
    alone = [next(elmo.extract([sentence])).hidden for sentence in SENTENCES]
    for batch_size in (1, 2, 6, 32):
        together = [result.hidden for result in elmo.extract(SENTENCES, batch_size=batch_size)]
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    reverse = [result.hidden for result in elmo.extract(SENTENCES[::-1])][::-1]
    for one, other in zip(alone, reverse, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_layers_chosen_equal_the_same_layers_of_all(elmo: ElmoExtractor) -> None:
    everything = next(elmo.extract([SENTENCES[1]]))
    assert everything.layers == (0, 1, 2)
    assert everything.layer_names == ("token", "biLSTM 1", "biLSTM 2")
    for layers, rows in (("0", [0]), ("1", [1]), ("0,2", [0, 2]), ("last", [2])):
        part = next(elmo.extract([SENTENCES[1]], layers=layers))
        np.testing.assert_array_equal(part.hidden, everything.hidden[rows])


def test_layer_0_is_the_token_vector_twice(elmo: ElmoExtractor) -> None:
    result = next(elmo.extract([SENTENCES[3]]))
    forward, backward = (result.hidden[..., elmo.info.parts[part]] for part in ("forward", "backward"))
    np.testing.assert_array_equal(forward[0], backward[0])
    assert np.abs(forward[1] - backward[1]).max() > 0.1
    np.testing.assert_allclose(forward[0], elmo.token_vectors(SENTENCES[3]), rtol=0, atol=1e-6)
    # "the" twice: context-free at layer 0, contextual above.
    twice = next(elmo.extract([["the", "bank", "of", "the"]])).hidden
    np.testing.assert_array_equal(twice[0, 0], twice[0, 3])
    assert np.abs(twice[1, 0] - twice[1, 3]).max() > 0.01


@pytest.mark.parametrize("layer", [1, 2])
def test_each_half_sees_one_side_exactly(elmo64: ElmoExtractor, layer: int) -> None:
    left, right = ["the", "old", "bank"], ["near", "my", "river"]
    base = next(elmo64.extract([[*left, "target", *right]])).hidden[layer]
    other_right = next(elmo64.extract([[*left, "target", *right[::-1]]])).hidden[layer]
    other_left = next(elmo64.extract([[*left[::-1], "target", *right]])).hidden[layer]
    forward, backward = elmo64.info.parts["forward"], elmo64.info.parts["backward"]
    assert np.abs(base[:4, forward] - other_right[:4, forward]).max() == 0
    assert np.abs(base[3:, backward] - other_left[3:, backward]).max() == 0
    # The side that a half does see must show, or the zeros above mean nothing.
    assert np.abs(base[3, backward] - other_right[3, backward]).max() > 1e-3
    assert np.abs(base[3, forward] - other_left[3, forward]).max() > 1e-3


@pytest.mark.parametrize("layer", [1, 2])
def test_new_words_and_lengths_on_one_side_leave_the_other_half_alone(elmo64: ElmoExtractor, layer: int) -> None:
    left = ["the", "old", "bank", "target"]
    forward = elmo64.info.parts["forward"]
    contexts = [["a"], ["something", "altogether", "different", ",", "and", "longer"], ["y" * 70]]
    vectors = [next(elmo64.extract([left + right])).hidden[layer, :4, forward] for right in contexts]
    for other in vectors[1:]:
        assert np.abs(vectors[0] - other).max() < 1e-14


NASTY = [
    "a",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\x00",
    "\x07\u200b",
    "\u00ad",
    "é" * 24,
    "é" * 25,
    "x" * 48,
    "x" * 60,
]


def test_nasty_words_are_one_piece_each(elmo: ElmoExtractor) -> None:
    result = next(elmo.extract([NASTY]))
    assert result.words == tuple(NASTY)
    assert result.hidden.shape == (3, len(NASTY), 32)
    assert np.isfinite(result.hidden).all()
    alignment = next(elmo.align([NASTY]))
    assert alignment == result.alignment
    assert alignment.pieces == ("<S>", *NASTY, "</S>")
    assert alignment.word_pieces == tuple((i,) for i in range(1, len(NASTY) + 1))
    assert alignment.replaced == ()
    # Beyond 48 bytes nothing counts; up to 48 everything does.
    one, two, three = elmo.token_vectors(["x" * 48, "x" * 60, "x" * 47])
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - three).max() > 1e-4


def test_words_without_bytes_are_reported_and_shift_nothing(elmo: ElmoExtractor) -> None:
    result = next(elmo.extract([["a", "\ud800", "b"]]))
    assert result.alignment.replaced == (1,)
    assert result.hidden.shape[1] == 3


@pytest.mark.parametrize("words", [[], ["a", "", "b"], ["a", " "], ["a", 3]])
def test_empty_words_are_refused_by_position(elmo: ElmoExtractor, words: list[str]) -> None:
    with pytest.raises(DataError, match=r"sentence 2"):
        list(elmo.extract([["fine"], words]))
    with pytest.raises(DataError):
        elmo.token_vectors(words)


def test_character_ids_follow_the_published_scheme() -> None:
    ids = character_ids(["<S>", "</S>", "é", "x" * 60])
    assert ids.shape == (4, 50)
    assert ids[0, :4].tolist() == [259, 257, 260, PAD]
    assert ids[1, :4].tolist() == [259, 258, 260, PAD]
    assert ids[2, :5].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260, PAD]
    assert ids[3].tolist() == [259, *[ord("x") + 1] * 48, 260]
    assert (ids > 0).all()


def test_a_longer_neighbour_does_not_change_a_word(elmo64: ElmoExtractor) -> None:
    # Alone, the padding tail of a short word is cut; beside a long word it is convolved in full.
    short = ["a", "of", "cat"]
    alone = elmo64.token_vectors(short)
    beside = elmo64.token_vectors([*short, "x" * 60])[:3]
    np.testing.assert_allclose(alone, beside, rtol=0, atol=1e-13)


def test_more_types_than_one_pass_holds(elmo: ElmoExtractor) -> None:
    words = [f"word{i}" for i in range(600)]
    vectors = elmo.token_vectors([*words, *words[::-1]])
    np.testing.assert_array_equal(vectors[:600], vectors[600:][::-1])
    for i in (0, 255, 256, 599):
        np.testing.assert_allclose(vectors[i], elmo.token_vectors([words[i]])[0], rtol=0, atol=1e-5)


def test_untrained_copies_follow_from_the_seed_alone(elmo_reference: Path, elmo: ElmoExtractor) -> None:
    import torch

    files = find_elmo_files(elmo_reference)
    before = torch.get_rng_state()
    copies = [load_elmo(*files, name="reference", untrained=True, seed=seed) for seed in (1, 1, 2)]
    load_elmo(*files, name="reference")
    assert torch.equal(before, torch.get_rng_state()), "the global random state was touched"
    first, again, other = (next(copy.extract([SENTENCES[1]])).hidden for copy in copies)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert np.isfinite(first).all()
    assert first.std(axis=1).max() > 1e-3, "all words look alike"
    info = copies[0].info
    assert (info.weights, info.checksum, info.seed) == ("untrained", "", 1)
    trained = {key: value.shape for key, value in elmo.network.state_dict().items()}
    assert {key: value.shape for key, value in copies[0].network.state_dict().items()} == trained


def test_info_says_what_the_model_is(elmo: ElmoExtractor, elmo_reference: Path) -> None:
    info, (options, weights) = elmo.info, find_elmo_files(elmo_reference)
    assert (info.family, info.weights, info.directionality) == ("elmo", "trained", "concatenated")
    assert (info.hidden_size, info.heads, info.max_pieces, info.dtype) == (32, None, None, "float32")
    assert info.parts == {"whole": slice(None), "forward": slice(0, 16), "backward": slice(16, 32)}
    assert info.checksum == hashlib.sha256(options.read_bytes() + weights.read_bytes()).hexdigest()
    # The zero row in front of the character vectors is a constant.
    assert info.parameters == sum(p.numel() for p in elmo.network.parameters()) - 4


@pytest.mark.parametrize(
    ("highway", "cells", "projection", "published"),
    [(1, 1024, 128, 13.6), (1, 2048, 256, 28.0), (2, 4096, 512, 93.6)],
)
def test_official_sizes_have_their_published_parameters(
    highway: int, cells: int, projection: int, published: float
) -> None:
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    char_cnn = {"embedding": {"dim": 16}, "n_highway": highway, "activation": "relu"}
    options = ElmoOptions.model_validate(
        {
            "lstm": {"dim": cells, "projection_dim": projection, "n_layers": 2},
            "char_cnn": {**char_cnn, "filters": tuple(map(tuple, filters))},
        }
    )
    assert round(count_parameters(options) / 1e6, 1) == published


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.02), ("bfloat16", 0.15)])
def test_half_precision_comes_near_and_as_float32(
    elmo_reference: Path, elmo: ElmoExtractor, dtype: str, tolerance: float
) -> None:
    half = load_elmo(*find_elmo_files(elmo_reference), name="reference", dtype=dtype)
    exact, rough = (next(extractor.extract([SENTENCES[3]])).hidden for extractor in (elmo, half))
    assert half.info.dtype == dtype
    assert rough.dtype == np.float32
    assert 0 < np.abs(exact - rough).max() < tolerance * np.abs(exact).max()


def test_the_door_finds_a_folder_or_a_weight_file(elmo_reference: Path) -> None:
    folder = load_extractor(elmo_reference)
    file = load_extractor(elmo_reference / "lm_weights.hdf5", options_file=elmo_reference / "options.json")
    assert folder.info.name == "elmo_reference"
    assert file.info.name == "lm_weights"
    assert folder.info.checksum == file.info.checksum


def test_what_elmo_does_not_have_is_refused(elmo: ElmoExtractor, elmo_reference: Path) -> None:
    with pytest.raises(UsageError, match="no attention"):
        elmo.extract([["a"]], attention=True)
    with pytest.raises(UsageError, match=r"layer 3 does not exist.*biLSTM 2"):
        elmo.extract([["a"]], layers=3)
    for device in ("abacus", "cuda:99"):
        with pytest.raises(UsageError, match=device):
            load_elmo(*find_elmo_files(elmo_reference), name="reference", device=device)
    with pytest.raises(ValueError, match="falling length"):
        elmo.network.bilm(elmo.network.tokens.projection.weight.new_zeros(2, 3, 16), [2, 3])
