"""A word spelt [MASK] is the model's own mask where that is asked for, and text like any other where it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractors import load_extractor
from extractors.foundation.errors import UsageError
from extractors.words import MASK_WORD

WORDS = ["the", "unbelievable", MASK_WORD, "don't", "look"]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_mask_word_is_the_tokenizers_mask_token(tiny_folder: Callable[[str], Path], family: str) -> None:
    import torch

    plain: Any = load_extractor(tiny_folder(family))
    assert plain.info.masks
    masked = plain.with_masks()
    (item,) = masked.extract([WORDS])
    (place,) = item.alignment.word_pieces[2]
    mask = plain.tokenizer.mask_token
    assert item.alignment.pieces[place] == mask
    ids = plain.tokenizer.convert_tokens_to_ids(list(item.alignment.pieces))
    with torch.no_grad():
        states = plain.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    np.testing.assert_allclose(item.hidden[:, 2], torch.stack(states)[:, 0, place].numpy(), atol=1e-5)
    (before,) = plain.align([WORDS])
    assert mask not in [before.pieces[i] for i in before.word_pieces[2]]
    assert len(before.word_pieces[2]) > 1


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_a_model_without_a_mask_says_so(tiny_folder: Callable[[str], Path], family: str) -> None:
    extractor = load_extractor(tiny_folder(family))
    assert not extractor.info.masks
    with pytest.raises(UsageError, match="has no mask"):
        extractor.with_masks()
