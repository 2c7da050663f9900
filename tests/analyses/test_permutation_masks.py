"""XLNet read under its own permutation masks: left to right it has exactly no right share, in other orders it has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses import ContextSet, attention_distance, collect_contexts, context_reach, direction_shares
from extractors import load_extractor
from extractors.foundation.randomness import generator_for

Sentences = list[tuple[str, ...]]
SIDE = 3
TARGET = SIDE
"""Place of the target in a composed sentence: one piece a word, nothing before the first."""
LENGTH = 2 * SIDE + 1


@pytest.fixture(scope="module")
def text() -> Sentences:
    generator = generator_for("permuted text")
    words = [f"w{number}" for number in range(40)]
    return [
        (*generator.choice(words, 3).tolist(), f"t{i % 8}", *generator.choice(words, 3).tolist()) for i in range(120)
    ]


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory, text: Sentences) -> Any:
    """Three layers, words as pieces, ``<sep> <cls>`` behind a sentence, weights large enough for every layer to matter."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoModel, PreTrainedTokenizerFast, XLNetConfig

    folder: Path = tmp_path_factory.mktemp("permuted") / "xlnet"
    known = ["<unk>", "<pad>", "<sep>", "<cls>", *sorted({word for words in text for word in words})]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2", special_tokens=[("<sep>", 2), ("<cls>", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", sep_token="<sep>", cls_token="<cls>"
    ).save_pretrained(folder)
    config = XLNetConfig(vocab_size=len(known), d_model=16, n_layer=3, n_head=2, d_inner=24, dropout=0.0)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = AutoModel.from_config(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return load_extractor(folder, dtype="float64")


@pytest.fixture(scope="module")
def contexts(xlnet: Any, text: Sentences) -> ContextSet:
    return collect_contexts([xlnet], text, side=SIDE, grid=3, targets=8)


@contextmanager
def read_in_order(model: Any, order: np.ndarray) -> Iterator[None]:
    """Piece i may look at piece j only if j comes before it in `order` (ranks of the words; <sep> and <cls> come last)."""
    import torch

    def mask(module: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        batch, pieces = options["input_ids"].shape
        rank = torch.tensor([*order, *range(len(order), pieces)])
        hidden = (rank[None, :] > rank[:, None]).to(torch.float64)
        return arguments, {**options, "perm_mask": hidden.expand(batch, pieces, pieces)}

    handle = model.register_forward_pre_hook(mask, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def test_left_to_right_there_is_no_right_share_and_no_interaction(
    xlnet: Any, text: Sentences, contexts: ContextSet
) -> None:
    with read_in_order(xlnet.model, np.arange(LENGTH)):
        result = direction_shares(xlnet, text, contexts=contexts, natural=5)
    for layer in (1, 2, 3):
        interval = result.interval(layer)
        for bound in (interval.low, interval.value, interval.high):
            assert np.abs(bound[1:3]).max() < 1e-10
        assert interval.value[3] > 0.05, "no shares of a variance that is nearly nothing"


def right_masses(xlnet: Any, text: Sentences, contexts: ContextSet) -> tuple[np.ndarray, np.ndarray]:
    """Right mass of the reach by substitution, and of the attention (heads and layers), layers 1..3."""
    reach = context_reach(xlnet, text, contexts=contexts, estimators=("substitution",), bases=2).to_frame()
    attention = attention_distance(xlnet, text[:10]).to_frame().query("condition == 'plain'")
    return (
        reach.query("measure == 'reach_mass_right' and layer > 0")["value"].to_numpy(),
        attention.query("measure == 'attention_mass_right'")["value"].to_numpy(),
    )


def test_left_to_right_nothing_reaches_from_the_right(xlnet: Any, text: Sentences, contexts: ContextSet) -> None:
    with read_in_order(xlnet.model, np.arange(LENGTH)):
        reach, attention = right_masses(xlnet, text, contexts)
    assert len(reach) == 3
    assert len(attention) == 3 * (2 + 1)
    assert (reach == 0).all()
    assert (attention == 0).all()


def test_right_to_left_it_is_the_other_way_round(xlnet: Any, text: Sentences, contexts: ContextSet) -> None:
    with read_in_order(xlnet.model, np.arange(LENGTH)[::-1].copy()):
        result = direction_shares(xlnet, text, contexts=contexts, natural=5)
    for layer in (1, 2, 3):
        assert np.abs(result.interval(layer).value[[0, 2]]).max() < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_in_random_orders_both_sides_and_their_interaction_come_back(
    xlnet: Any, text: Sentences, contexts: ContextSet, seed: int
) -> None:
    generator = generator_for("order", seed)
    while True:
        order = generator.permutation(LENGTH)
        earlier = np.flatnonzero(order < order[TARGET])
        if (earlier < TARGET).any() and (earlier > TARGET).any():
            break  # else the target has read one side only
    with read_in_order(xlnet.model, order):
        result = direction_shares(xlnet, text, contexts=contexts, natural=5)
        reach, attention = right_masses(xlnet, text, contexts)
    for layer in (1, 2, 3):
        assert result.interval(layer).low[0] > 1e-3
        assert result.interval(layer).low[1] > 1e-3
    assert result.interval(3).low[2] > 1e-3
    assert (reach > 1e-3).all()
    assert (attention > 1e-3).all()


def test_without_a_mask_it_reads_both_sides(xlnet: Any, text: Sentences, contexts: ContextSet) -> None:
    assert xlnet.info.directionality == "bidirectional"
    assert direction_shares(xlnet, text, contexts=contexts, natural=5).interval(3).low[2] > 1e-3
