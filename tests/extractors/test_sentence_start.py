"""A start token for left-to-right models whose tokenizer puts nothing before a sentence; never a second one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor

SENTENCES = [["the", "unbelievable", "fox", "don't", "look"], ["hello"], ["tokenisation", "papers"]]


def test_vectors_and_maps_are_those_of_the_model_behind_its_start_token(tiny_folder: Callable[[str], Path]) -> None:
    import torch

    plain: Any = load_extractor(tiny_folder("gpt2"))
    started = plain.with_sentence_start()
    model = plain.model
    for got in started.extract(SENTENCES, attention=True, batch_size=2):
        words = list(got.words)
        own = plain.tokenizer(words, is_split_into_words=True)
        ids, owners = own["input_ids"], own.word_ids()
        assert got.alignment.pieces == ("<|endoftext|>", *own.tokens())
        kernel = model.config._attn_implementation
        model.set_attn_implementation("eager")
        with torch.no_grad():
            output = model(torch.tensor([[0, *ids]]), output_hidden_states=True, output_attentions=True)
        model.set_attn_implementation(kernel)
        hidden = torch.stack(output.hidden_states)[:, 0].numpy()
        expected = [hidden[:, [i + 1 for i, o in enumerate(owners) if o == w]].mean(1) for w in range(len(words))]
        np.testing.assert_allclose(got.hidden, np.stack(expected, axis=1), atol=1e-5)
        maps = torch.stack(output.attentions)[:, 0].numpy()
        to_start = [maps[:, :, [i + 1 for i, o in enumerate(owners) if o == w], 0].mean(-1) for w in range(len(words))]
        assert got.attention is not None
        assert got.attention_special is not None
        np.testing.assert_allclose(got.attention_special, np.stack(to_start, axis=-1), atol=1e-5)
        np.testing.assert_allclose(got.attention.sum(-1) + got.attention_special, 1, atol=1e-5)
        assert (got.attention[:, :, np.triu(np.ones((len(words), len(words)), bool), 1)] == 0).all()


def test_the_model_without_it_stays_as_it_was(tiny_folder: Callable[[str], Path]) -> None:
    plain = load_extractor(tiny_folder("gpt2"))
    before = [item.hidden for item in plain.extract(SENTENCES)]
    started = plain.with_sentence_start()
    changed = [item.hidden for item in started.extract(SENTENCES)]
    for one, other, again in zip(before, changed, plain.extract(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, again.hidden)
        assert np.abs(one - other).max() > 1e-3
    assert plain.info.note == ""
    assert started.info.note == "read with <|endoftext|> before every sentence"
    assert started.info.checksum == plain.info.checksum


def test_there_is_never_a_second_one(tiny_folder: Callable[[str], Path]) -> None:
    """Llama's tokenizer adds its start token itself; Qwen's has none; the others are not left-to-right."""
    for family in ("llama", "qwen2", "bert", "roberta", "xlnet", "t5"):
        extractor = load_extractor(tiny_folder(family))
        assert extractor.with_sentence_start() is extractor, family
    pieces = next(load_extractor(tiny_folder("llama")).align([["the", "fox"]])).pieces
    assert pieces.count("<s>") == 1
    started = load_extractor(tiny_folder("gpt2")).with_sentence_start()
    assert started.with_sentence_start() is started
    assert next(started.align([["the", "<|endoftext|>", "fox"]])).pieces.count("<|endoftext|>") == 1


def test_every_window_of_a_long_sentence_starts_with_it(tiny_folder: Callable[[str], Path]) -> None:
    started: Any = load_extractor(tiny_folder("gpt2")).with_sentence_start()
    words = ["the", "fox", "hello", "one"] * 30
    got = next(started.extract([words], attention=True))
    windows = started._prepare(tuple(words), "here").windows
    assert len(windows) == got.windows > 2
    assert max(window.length for window in windows) <= started.info.max_pieces
    for window in windows:
        assert window.payload[0][0] == 0
        direct = next(started.extract([words[window.start : window.stop]], attention=True))
        kept, local = slice(*window.keep), slice(window.keep[0] - window.start, window.keep[1] - window.start)
        np.testing.assert_allclose(got.hidden[:, kept], direct.hidden[:, local], atol=1e-5)
        np.testing.assert_allclose(got.attention_special[..., kept], direct.attention_special[..., local], atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_batches_change_nothing(batch_size: int, tiny_folder: Callable[[str], Path]) -> None:
    started = load_extractor(tiny_folder("gpt2")).with_sentence_start()
    alone = [next(started.extract([words])).hidden for words in SENTENCES]
    for one, other in zip(alone, started.extract(SENTENCES, batch_size=batch_size), strict=True):
        np.testing.assert_allclose(one, other.hidden, atol=1e-5)
