"""Tiny GPT-2 and BERT built from configurations: exact zeros of the causal one, and both against independent code.

Weights are random and large, so that nothing is nearly zero by being small.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses import ContextSet, attention_distance, collect_contexts, direction_shares
from analyses.direction_shares import STANDARDISED
from extractors import Extractor, load_extractor
from extractors.foundation.errors import DataError
from extractors.foundation.randomness import generator_for

Sentences = list[tuple[str, ...]]
SYLLABLES = ("ba", "lo", "mi", "tu", "se", "ra", "no", "ki")
START = "<|endoftext|>"


@pytest.fixture(scope="module")
def text() -> Sentences:
    """240 sentences of nine words of one to three syllables; eight target words in the middle."""
    generator = generator_for("tiny transformers")
    words = ["".join(generator.choice(SYLLABLES, size=length)) for length in [1, 1, 2, 2, 3] * 30]
    return [
        (*generator.choice(words, size=4).tolist(), f"{SYLLABLES[number % 8]}x", *generator.choice(words, 4).tolist())
        for number in range(240)
    ]


def save(folder: Path, tokenizer: Any, config: Any, **special: str) -> Path:
    """An ordinary Hugging Face folder with random weights, large enough for every layer to matter."""
    import torch
    from transformers import AutoModel, PreTrainedTokenizerFast

    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = AutoModel.from_config(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory, text: Sentences) -> Path:
    """Like the published one: byte-level pieces, a start token that the tokenizer does not add by itself."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(vocab_size=62, special_tokens=[START], show_progress=False)
    # A tilde is one piece, as in the published one: it stands for a masked word.
    tokenizer.train_from_iterator([*(" ".join(words) for words in text), " ~" * 2000], trainer)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_embd=16,
        n_layer=3,
        n_head=2,
        n_positions=40,
        bos_token_id=0,
        eos_token_id=0,
    )
    return save(tmp_path_factory.mktemp("tiny") / "gpt2", tokenizer, config, bos_token=START, eos_token=START)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, text: Sentences) -> Path:
    """Words as pieces, [CLS] and [SEP] around a sentence."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    known = [*special, *sorted({word for words in text for word in words})]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = BertConfig(
        vocab_size=len(known),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=24,
    )
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    return save(folder, tokenizer, config, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")


def own_forward(extractor: Any, words: tuple[str, ...], *, start: bool = False) -> Any:
    """The model's own output for one sentence, its pieces put together by its tokenizer's ordinary call."""
    import torch

    encoded = extractor.tokenizer(list(words), is_split_into_words=True)
    ids, owners = encoded["input_ids"], encoded.word_ids()
    if start:
        ids, owners = [extractor.tokenizer.bos_token_id, *ids], [None, *owners]
    with torch.no_grad():
        return extractor.model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True), owners


def own_word_vectors(extractor: Any, words: tuple[str, ...]) -> np.ndarray:
    """(words, layers, dim) means over the pieces of each word."""
    output, owners = own_forward(extractor, words)
    states = np.stack([state[0].numpy() for state in output.hidden_states])
    places = [[i for i, owner in enumerate(owners) if owner == word] for word in range(len(words))]
    return np.stack([states[:, pieces].mean(axis=1) for pieces in places])


@pytest.fixture(scope="module")
def models(gpt2: Path, bert: Path) -> tuple[Extractor, Extractor]:
    return load_extractor(gpt2, dtype="float64"), load_extractor(bert, dtype="float64")


@pytest.fixture(scope="module")
def contexts(models: tuple[Extractor, Extractor], text: Sentences) -> ContextSet:
    """The same for both models, of constant length in the pieces of each."""
    return collect_contexts(models, text, side=3, grid=3, targets=8)


def test_a_causal_transformer_has_exactly_no_right_and_no_interaction_share(
    models: tuple[Extractor, Extractor], text: Sentences, contexts: ContextSet
) -> None:
    causal, deep = (direction_shares(model, text, contexts=contexts, natural=50) for model in models)
    assert causal.info.directionality == "left-to-right"
    assert np.isnan(causal.interval(0).value[:3]).all(), "constant positions leave layer 0 without contextual variance"
    for layer in (1, 2, 3):
        interval = causal.interval(layer)
        standardised = causal.interval(layer, condition=STANDARDISED)
        for one in (interval, standardised):
            for bound in (one.low, one.value, one.high):
                assert np.abs(bound[1:3]).max() < 1e-10
                assert bound[0] == pytest.approx(1, abs=1e-10)
            assert one.value[3] > 0.05, "no shares of a variance that is nearly nothing"
        assert deep.interval(layer).low[1] > 0.05
        assert deep.interval(layer).low[2] > 1e-3, "the zeros above must be able to fail"


def test_a_causal_transformer_does_not_see_the_right_side_masked(
    models: tuple[Extractor, Extractor], text: Sentences, contexts: ContextSet
) -> None:
    causal, deep = (direction_shares(model, text, contexts=contexts, mode="masked", natural=50) for model in models)
    for layer in (1, 2, 3):
        interval = causal.interval(layer)
        for bound in (interval.low, interval.value, interval.high):
            assert np.abs(bound[1:3]).max() < 1e-10
            assert bound[0] == pytest.approx(1, abs=1e-10)
        assert interval.value[3] > 0.05
        assert deep.interval(layer).low[1] > 0.05
        assert deep.interval(layer).low[2] > 1e-3


def test_one_word_sentences_give_a_causal_model_no_corpus_mean(
    models: tuple[Extractor, Extractor], contexts: ContextSet
) -> None:
    with pytest.raises(DataError, match="all 2 natural sentences have one word only"):
        direction_shares(models[0], [("ba",), ("lo",)], contexts=contexts)
    direction_shares(models[1], [("ba",), ("lo",)], contexts=contexts)


def test_pooling_changes_shares_and_is_told_in_every_row(
    models: tuple[Extractor, Extractor], text: Sentences, contexts: ContextSet
) -> None:
    assert any(target.pieces["gpt2"].target > 1 for target in contexts.targets)
    first, mean = (
        direction_shares(models[0], text, contexts=contexts, pooling=pooling, natural=20).to_frame()
        for pooling in ("first", "mean")
    )
    assert set(first["pooling"]) == {"first"}
    assert set(mean["pooling"]) == {"mean"}
    last = [table.query("measure == 'contextual_share' and layer == 3")["value"].to_numpy() for table in (first, mean)]
    assert abs(last[0] - last[1]).min() > 1e-3


def test_contexts_of_two_models_have_constant_lengths_in_the_pieces_of_both(
    models: tuple[Extractor, Extractor], contexts: ContextSet, text: Sentences
) -> None:
    own = collect_contexts([models[1]], text, side=3, grid=3, targets=8)
    varied = set()
    for chosen, seen in ((contexts, set()), (own, varied)):
        for target in chosen.targets:
            lengths = {
                tuple(len(pieces) for pieces in alignment.word_pieces)
                for alignment in models[0].align(target.sentences())
            }
            sides = {(sum(counts[:3]), counts[3], sum(counts[4:])) for counts in lengths}
            seen.add(len(sides))
        if chosen is contexts:
            assert seen == {1}
    assert max(varied) > 1, "contexts made for the word model alone would not be constant in pieces"


def test_shares_equal_pair_estimators_on_the_models_own_forward(
    models: tuple[Extractor, Extractor], text: Sentences, contexts: ContextSet
) -> None:
    for extractor in models:
        result = direction_shares(extractor, text[:40], contexts=contexts)
        # GPT-2's first word is its attention sink: left out, or it would decide mean and deviation.
        first = 1 if extractor.info.directionality == "left-to-right" else 0
        natural = np.concatenate([own_word_vectors(extractor, words)[first:] for words in text[:40]])
        mean, deviation = natural.mean(axis=0), natural.std(axis=0)
        for condition, scale in (("crossed", np.ones_like(deviation)), ("crossed standardised", deviation)):
            sums = np.zeros((4, 4))
            for target in contexts.targets:
                grid = np.array(
                    [
                        [own_word_vectors(extractor, (*left, target.word, *right))[3] / scale for right in target.right]
                        for left in target.left
                    ]
                )
                pairs = list(combinations(range(3), 2))
                both = np.mean(
                    [(grid[a, r] - grid[b, r] - grid[a, s] + grid[b, s]) ** 2 for a, b in pairs for r, s in pairs],
                    axis=0,
                )
                left = np.mean([(grid[a, r] - grid[b, r]) ** 2 for a, b in pairs for r in range(3)], axis=0)
                right = np.mean([(grid[a, r] - grid[a, s]) ** 2 for a in range(3) for r, s in pairs], axis=0)
                distance = np.mean((grid - mean / scale) ** 2, axis=(0, 1))
                parts = (left / 2 - both / 4, right / 2 - both / 4, both / 4, distance)
                sums += np.stack([part.sum(axis=-1) for part in parts], axis=1)
            for layer in (1, 2, 3):
                total = sums[layer, :3].sum()
                expected = [*(sums[layer, :3] / total), total / sums[layer, 3]]
                assert result.interval(layer, condition=condition).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("start", [True, False])
def test_attention_distance_of_gpt2_equals_a_slow_loop(
    models: tuple[Extractor, Extractor], text: Sentences, start: bool
) -> None:
    """With the start token, which is the usual way, and without; the uniform baseline is over pieces, taken to words alike."""
    causal: Any = models[0]
    corpus = text[:4]
    result = attention_distance(causal, corpus, sentence_start=start)
    causal.model.set_attn_implementation("eager")
    sums = np.zeros((3, 2, 6))
    for words in corpus:
        output, owners = own_forward(causal, words, start=start)
        owned = np.array([[owner == word for owner in owners] for word in range(len(words))], dtype=float)
        special = np.array([owner is None for owner in owners], dtype=float)
        for layer in range(3):
            rows = owned / owned.sum(axis=1, keepdims=True) @ output.attentions[layer][0].numpy()
            between, elsewhere = rows @ owned.T, rows @ special
            place = np.arange(len(words))
            away = np.abs(place[:, None] - place)
            allowed = np.tril(np.ones((len(owners), len(owners))))
            even = owned / owned.sum(axis=1, keepdims=True) @ (allowed / allowed.sum(axis=1, keepdims=True)) @ owned.T
            even = away * even / even.sum(axis=1, keepdims=True)
            mass = between.sum(axis=-1)
            columns = [
                mass.sum(-1),
                (between * away).sum((-1, -2)),
                (between * (place < place[:, None])).sum((-1, -2)),
                elsewhere.sum(-1),
                np.full(2, len(words)),
                (mass * even.sum(axis=1)).sum(-1),
            ]
            sums[layer] += np.stack(columns, axis=1)
    for layer in (1, 2, 3):
        mass, distance, left, special, words, uniform = sums[layer - 1].T
        interval = result.interval(layer)
        names = {
            "distance": distance / mass,
            "left": left / mass,
            "special": special / words,
            "uniform": uniform / mass,
        }
        columns = {"distance": 0, "left": 2, "special": 6, "uniform": 7}
        for name, expected in names.items():
            assert interval.value[:2, columns[name]] == pytest.approx(expected, abs=1e-12), name
        assert (interval.value[:, 4] == 0).all(), "right mass of a causal model is exactly 0"
        assert (interval.high[:, 4] == 0).all()
        assert (interval.value[:, 6] > 0.02).all() == start
    assert any(START in note for note in result.notes) == start
    assert any("first word takes" in note for note in result.notes) == (not start)


def test_a_sink_on_the_first_word_goes_to_the_start_token(gpt2: Path, text: Sentences) -> None:
    """A head that puts all its weight on the first position: with a start token, words keep what is left for words."""
    import torch

    extractor: Any = load_extractor(gpt2, dtype="float64")
    with torch.no_grad():
        # Position 0 alone has a large constant feature; queries and keys of head 0 in block 1 read just that feature.
        embedding, block = extractor.model.wpe.weight, extractor.model.h[0]
        embedding[:, 0] = 0
        extractor.model.wte.weight[:, 0] = 0
        embedding[0, 0] = 60
        block.attn.c_attn.weight[:, :8] = 0
        block.attn.c_attn.bias[:8] = 5
        block.attn.c_attn.weight[:, 16:24] = 0
        block.attn.c_attn.weight[0, 16:24] = 5
    plain = attention_distance(extractor, text[:20], sentence_start=False).interval(1).value[0]
    behind = attention_distance(extractor, text[:20]).interval(1).value[0]
    assert plain[0] == pytest.approx(4, abs=1e-6), "every word of nine looks at the first: (0 + ... + 8) / 9"
    assert plain[6] == 0
    assert behind[6] > 0.999
    assert behind[0] < 0.9 * plain[0]


def test_models_that_have_a_start_token_already_are_read_as_they_are(
    models: tuple[Extractor, Extractor], text: Sentences
) -> None:
    deep = models[1]
    assert deep.with_sentence_start() is deep
    assert attention_distance(deep, text[:5]).notes == ()


FakeModel = Callable[..., Extractor]


def test_a_model_of_two_towers_is_read_as_it_is(fake: FakeModel) -> None:
    tower = fake(lambda words: np.zeros((2, len(words), 3)), directionality="concatenated")
    assert tower.with_sentence_start() is tower
