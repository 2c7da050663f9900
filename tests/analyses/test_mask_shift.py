"""Mask shift on models whose vectors are known, and on a tiny BERT against its own network."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses import ANALYSES, mask_shift
from analyses.mask_shift import AS_MASK, AS_RANDOM
from extractors import Extractor, load_extractor
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.words import MASK_WORD

DIM = 40
LETTERS = [f"{chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(10)]
SENTENCES = [
    tuple(np.random.default_rng(number).choice(LETTERS, size=6, replace=False).tolist()) for number in range(400)
]


def vector(word: str) -> np.ndarray:
    return generator_for("word", word).standard_normal(DIM)


def of_words(function: Callable[[str], np.ndarray]) -> Callable[[tuple[str, ...]], np.ndarray]:
    """Layer 0: independent word vectors; layer 1: `function(word)`; layer 2: one vector for all."""

    def hidden(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([vector(word) for word in words])
        return np.stack([own, np.stack([function(word) for word in words]), np.ones_like(own)])

    return hidden


@pytest.fixture
def masking(fake: Callable[..., Any]) -> Callable[..., Any]:
    """A fake model with a mask."""

    def build(function: Callable[[str], np.ndarray], **options: Any) -> Any:
        extractor = fake(of_words(function), masks=True, **options)
        extractor.with_masks = lambda: extractor
        return extractor

    return build


def test_independent_vectors_are_one_apart(masking: Callable[..., Any]) -> None:
    result = mask_shift(masking(vector), SENTENCES, number=400)
    interval = result.interval(0)
    # The mask's vector is one draw, so that its own length counts: E |h' - h|^2 = |mask|^2 + D, against 2 D.
    own = (np.square(vector(MASK_WORD) - np.mean([vector(w) for w in LETTERS], axis=0)).sum() / DIM + 1) / 2
    np.testing.assert_allclose(interval.value[0], own, rtol=0.03)
    np.testing.assert_allclose(interval.value[1], 1, rtol=0.03)
    assert interval.low[1] < 1 < interval.high[1]
    assert interval.n == 400


def test_a_mask_at_a_known_distance(masking: Callable[..., Any]) -> None:
    """The mask is given the corpus mean, so it is half as far (in squares) from a word as another word is."""
    centre = np.mean([vector(word) for word in LETTERS], axis=0)
    result = mask_shift(masking(lambda word: centre if word == MASK_WORD else vector(word)), SENTENCES, number=400)
    np.testing.assert_allclose(result.interval(1).value, [0.5, 1], rtol=0.04)


def test_a_model_that_ignores_the_target_does_not_move(masking: Callable[..., Any]) -> None:
    def by_place(words: tuple[str, ...]) -> np.ndarray:
        own = np.stack([vector(word) for word in words])
        left = np.stack([vector(words[i - 1]) if i else np.zeros(DIM) for i in range(len(words))])
        return np.stack([own, left])

    extractor = masking(vector)
    extractor.hidden = by_place
    result = mask_shift(extractor, SENTENCES, number=50, layers=[0, 1])
    assert (result.interval(1).value == 0).all()
    assert (result.interval(0).value > 0.5).all()


def test_vectors_that_are_all_the_same_have_no_shift(masking: Callable[..., Any]) -> None:
    interval = mask_shift(masking(vector), SENTENCES, number=20).interval(2)
    assert np.isnan([*interval.value, *interval.low, *interval.high]).all()


def test_only_words_of_one_piece_with_letters_take_part(masking: Callable[..., Any]) -> None:
    sentences = [(*sentence, ",", "12") for sentence in SENTENCES]
    extractor = masking(vector, pieces=lambda words: [2 if word.startswith("a") else 1 for word in words])
    read: list[tuple[str, ...]] = []
    plain = extractor.hidden
    extractor.hidden = lambda words: (read.append(words), plain(words))[1]
    result = mask_shift(extractor, sentences, number=100)
    assert not any(word.startswith("a") or word in (",", "12") for word in result.targets)
    assert len(set(result.targets)) > 50
    shown, hidden, replaced = (sorted(read[i : i + 100]) for i in (0, 100, 200))
    assert set(shown) <= set(sentences)
    assert all(words.count(MASK_WORD) == 1 for words in hidden)
    for words in replaced:
        (change,) = [
            (one, other)
            for sentence in shown
            if sum(map(str.__ne__, sentence, words)) == 1
            for one, other in zip(sentence, words, strict=True)
            if one != other
        ]
        assert not any(word.startswith("a") for word in change)
    with pytest.raises(DataError, match="one piece"):
        mask_shift(masking(vector, pieces=lambda words: [2] * len(words)), sentences)
    with pytest.raises(DataError, match="give more text"):
        mask_shift(extractor, [("bb", "bb")])


def test_rows_are_tidy_and_follow_from_the_seed(masking: Callable[..., Any]) -> None:
    extractor = masking(vector)
    frames = [mask_shift(extractor, SENTENCES, number=30, seed=seed, data="x").to_frame() for seed in (0, 0, 1)]
    assert frames[0].equals(frames[1])
    assert not np.allclose(frames[0]["value"][:2], frames[2]["value"][:2])
    assert set(frames[0]["condition"]) == {AS_MASK, AS_RANDOM}
    assert set(frames[0]["measure"]) <= set(ANALYSES["mask_shift"].measures)
    batched = mask_shift(extractor, SENTENCES, number=30, batch_size=7, data="x").to_frame()
    np.testing.assert_allclose(batched["value"].to_numpy(), frames[0]["value"].to_numpy(), atol=1e-12)
    assert mask_shift(extractor, SENTENCES, number=10).plot().axes


def test_intervals_shrink_with_more_sentences(masking: Callable[..., Any]) -> None:
    widths = []
    for number in (50, 200):
        interval = mask_shift(masking(vector), SENTENCES, number=number).interval(0)
        widths.append(interval.high[1] - interval.low[1])
    assert 1.3 < widths[0] / widths[1] < 3.0


def test_a_model_without_a_mask_is_refused(fake: Callable[..., Any]) -> None:
    extractor = fake(of_words(vector))
    with pytest.raises(UsageError, match="no mask"):
        mask_shift(extractor, SENTENCES)
    reason = ANALYSES["mask_shift"].applicable(extractor.info)
    assert reason is not None
    assert "no mask" in reason
    with pytest.raises(UsageError, match="number=0"):
        mask_shift(extractor, SENTENCES, number=0)


def test_what_was_passed_over_is_told_by_a_run(masking: Callable[..., Any], tmp_path: Path) -> None:
    from extractors.foundation.progress import SILENT
    from probes.corpora import CorpusSentence
    from studies.config import RunConfig
    from studies.measurements import Measurements

    told: list[str] = []
    sentences = [CorpusSentence(words, {}) for words in [*SENTENCES[:5], ("1", "2"), ("3",)]]
    measurements = Measurements(RunConfig(), [masking(vector)], sentences, {}, "x", told.append, SILENT)
    measured = measurements.measure("mask_shift", masking(vector), 0, tmp_path / "nothing")
    assert measured is not None
    assert set(measured.results["n"]) == {5}
    assert told == ["mask shift of fake: 2 sentences without a word that is one piece of fake passed over"]


SINGLE = ("vela", "tolu", "seba", "noki", "padu")
SPLIT = [f"{a}{b}" for a in ("ba", "lo", "mi", "tu") for b in ("ra", "no", "ki")]


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Extractor:
    """Words of one piece and of two, weights large enough for every layer to matter."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("mask shift") / "bert"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SINGLE]
    pieces += [*dict.fromkeys(word[:2] for word in SPLIT), *dict.fromkeys(f"##{word[2:]}" for word in SPLIT)]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    BertConfig(vocab_size=len(pieces), max_position_embeddings=40, **sizes).save_pretrained(folder)
    model = load_extractor(folder, untrained=True, dtype="float64")
    generator = torch.Generator().manual_seed(4)
    for parameter in model.model.parameters():  # type: ignore[attr-defined]
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.4, generator=generator)
    return model


def of_one_piece_each(number: int) -> tuple[list[tuple[str, ...]], list[int]]:
    """Sentences of one to nine words, in which one word is one piece and all others are two; and its place."""
    generator = generator_for("one piece each")
    sentences, places = [], []
    for length in generator.integers(1, 10, size=number).tolist():
        words = generator.choice(SPLIT, size=length).tolist()
        places.append(int(generator.integers(length)))
        words[places[-1]] = str(generator.choice(SINGLE))
        sentences.append(tuple(words))
    return sentences, places


def test_bert_moves_as_far_as_its_own_network_says(tiny_bert: Any) -> None:
    """Ids and vectors straight from transformers, one sentence at a time."""
    import torch

    sentences, places = of_one_piece_each(25)
    result = mask_shift(tiny_bert, sentences)
    assert sorted(result.targets) == sorted(words[place] for words, place in zip(sentences, places, strict=True))
    moved, vectors = [], []
    for words, place in zip(sentences, places, strict=True):
        ids = torch.tensor([tiny_bert.tokenizer(" ".join(words))["input_ids"]])
        at = 1 + 2 * place  # all words before it are two pieces
        hidden = ids.clone()
        hidden[0, at] = tiny_bert.tokenizer.mask_token_id
        with torch.no_grad():
            both = [
                torch.stack(tiny_bert.model(input_ids=one, output_hidden_states=True).hidden_states)[:, 0].numpy()
                for one in (ids, hidden)
            ]
        moved.append(np.square(both[1][:, at] - both[0][:, at]).sum(axis=-1))
        pieces = np.cumsum([1, *(1 if i == place else 2 for i in range(len(words)))])
        vectors.extend(both[0][:, a:b].mean(axis=1) for a, b in pairwise(pieces))
    spread = np.var(np.stack(vectors), axis=0).sum(axis=-1)
    expected = np.mean(moved, axis=0) / (2 * spread)
    found = [result.interval(layer).value[0] for layer in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert min(found) > 0.05


def test_bert_does_not_care_for_the_size_of_a_batch(tiny_bert: Any) -> None:
    """Sentences of 3 to 19 pieces, so that most are padded when read together."""
    sentences, _ = of_one_piece_each(25)
    frames = [mask_shift(tiny_bert, sentences, batch_size=size).to_frame() for size in (1, 4, 32)]
    for frame in frames[1:]:
        for column in ("value", "low", "high"):
            np.testing.assert_allclose(frame[column].to_numpy(), frames[0][column].to_numpy(), rtol=1e-9)
