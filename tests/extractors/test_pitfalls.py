"""Faults that users of earlier tools reported and that no other test of the extractors would notice."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import extractors.base
from extractors import load_extractor, write_store
from extractors.foundation.errors import AlignmentError, DataError
from extractors.huggingface.extractor import HuggingFaceExtractor

SENTENCES = [["the", "unbelievable", "fox", "don't", "look"], ["hello"], ["tokenisation", "papers", ",", "naïve"]]


@pytest.mark.parametrize(
    ("bad", "error"),
    [(["the", "x" * 500], AlignmentError), (["the", ""], DataError)],
    ids=["longer than the model", "empty"],
)
def test_a_fault_in_the_last_sentence_is_found_before_the_model_runs(
    bad: list[str],
    error: type[Exception],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extractor: Any = load_extractor(tiny_folder("roberta"))
    extractor._words._unknown = None  # else it would stand for the long word

    def run(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(HuggingFaceExtractor, "_forward", run)
    with pytest.raises(error, match="sentence 401"):
        write_store(extractor, [*SENTENCES[:1] * 400, bad], tmp_path / "store", batch_size=2)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "albert", "xlnet", "gpt2"])
def test_segment_ids_are_those_of_a_single_sentence(family: str, tiny_folder: Callable[[str], Path]) -> None:
    """Of a model with segments the words are in the first; a model without gets none (GPT-2 would add word vectors)."""
    extractor: Any = load_extractor(tiny_folder(family))
    seen: list[Any] = []
    original = extractor.model.forward

    def forward(*arguments: Any, **options: Any) -> Any:
        seen.append(options.get("token_type_ids"))
        return original(*arguments, **options)

    extractor.model.forward = forward
    list(extractor.extract(SENTENCES))
    (types,) = seen
    if family in ("roberta", "gpt2"):
        assert types is None
    elif family == "xlnet":
        assert [row.unique().tolist() for row in types] == [[0, 2]] * 3
    else:
        assert types is None or not types.any()


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "roberta"])
def test_every_position_is_the_one_of_the_sentence_alone(family: str, tiny_folder: Callable[[str], Path]) -> None:
    """Tokenizers that pad on the left, and position ids that are not passed, must not move words: layer 0 shows it."""
    extractor: Any = load_extractor(tiny_folder(family))
    assert (extractor.tokenizer.padding_side == "left") == (family in ("gpt2", "llama"))
    longest, shortest = ["the", "fox"] * 8, ["the", "fox"]
    together = list(extractor.extract([longest, shortest], batch_size=2))
    alone = next(extractor.extract([shortest]))
    np.testing.assert_allclose(together[1].hidden, alone.hidden, atol=1e-5)
    np.testing.assert_allclose(together[0].hidden[0, :2], alone.hidden[0], atol=1e-5)


def test_a_sentinel_as_the_longest_input_is_no_limit(tiny_folder: Callable[[str], Path]) -> None:
    for family, limit in (("xlnet", None), ("roberta", 40)):
        extractor: Any = load_extractor(tiny_folder(family))
        assert extractor.tokenizer.model_max_length > 10**20
        assert extractor.info.max_pieces == limit


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet", "roberta", "albert", "t5"])
def test_no_weight_of_an_untrained_copy_is_a_trained_one(family: str, tiny_folder: Callable[[str], Path]) -> None:
    """Embeddings included: every matrix is drawn anew; what starts constant (norms, biases) is constant again."""
    trained: Any = load_extractor(tiny_folder(family))
    copy: Any = load_extractor(tiny_folder(family), untrained=True)
    before, after = dict(trained.model.named_parameters()), dict(copy.model.named_parameters())
    assert before.keys() == after.keys()
    drawn = 0
    for name, weight in after.items():
        if weight.unique().numel() > 2:
            drawn += 1
            assert (weight == before[name]).float().mean() < 0.1, name
    assert drawn >= 8
    vectors = [next(extractor.extract(SENTENCES)).hidden for extractor in (trained, copy)]
    assert np.abs(vectors[0] - vectors[1]).max(axis=(1, 2)).min() > 1e-3, "some layer is still the trained one"


def test_maps_are_held_for_a_bounded_stretch_of_the_corpus(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps grow with the square of the length: long sentences are read few at a time, and given away are gone."""
    extractor = load_extractor(tiny_folder("bert"))
    corpus = [["the", "fox"] * 9] * 300
    one = 3 * 2 * 18 * 18 * 4
    monkeypatch.setattr(extractors.base, "_MAP_BYTES", 20 * one)
    read = 0

    def counted() -> Any:
        nonlocal read
        for words in corpus:
            read += 1
            yield words

    alive: list[weakref.ref[Any]] = []
    for number, item in enumerate(extractor.extract(counted(), attention=True, batch_size=8), start=1):
        assert item.attention is not None
        assert item.attention.nbytes == one
        assert read <= number + 20, "far more maps are held than are asked for"
        alive.append(weakref.ref(item))
    del item
    assert sum(reference() is not None for reference in alive) == 0
    assert read == 300
    read = 0
    next(extractor.extract(counted(), batch_size=8))
    assert read == 128, "without maps whole chunks are sorted by length"


def test_chunks_cut_by_their_maps_give_the_same(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    extractor = load_extractor(tiny_folder("bert"))
    corpus = [SENTENCES[i % 3] for i in range(20)]
    whole = list(extractor.extract(corpus, attention=True, batch_size=3))
    monkeypatch.setattr(extractors.base, "_MAP_BYTES", 1)
    for one, other in zip(whole, extractor.extract(corpus, attention=True, batch_size=3), strict=True):
        assert one.words == other.words
        np.testing.assert_allclose(one.hidden, other.hidden, atol=1e-5)
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)


def test_reading_configures_nothing(tiny_folder: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    import torch

    state, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    handlers = list(logging.getLogger().handlers)
    list(load_extractor(tiny_folder("gpt2"), dtype="float64", untrained=True).extract(SENTENCES, attention=True))
    assert torch.equal(state, torch.get_rng_state())
    assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())
    assert (numpy_state == np.random.get_state()[1]).all()  # noqa: NPY002
    assert logging.getLogger().handlers == handlers
    assert capfd.readouterr() == ("", "")
