"""Tiny models of several families, with tokenizers trained on the spot, written as ordinary Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TEXT = [
    "the quick brown fox jumps over the lazy dog and does not look back",
    "She said that they don't read unbelievable tokenisation papers in the U.S. any more",
    "hello world , this is a test of words and pieces , left and right",
    "one two three four five six seven eight nine ten 1 2 3",
] * 4
MAX_POSITIONS = 40
"""Longest input of the tiny models that have a limit."""
FAMILIES = ("bert", "roberta", "gpt2", "xlnet", "distilbert", "albert", "electra", "t5", "llama", "qwen2")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a family's name to a folder with a tiny model of it."""

    @cache
    def build(family: str) -> Path:
        import torch
        from transformers import AutoConfig, AutoModel

        folder = tmp_path_factory.mktemp(family)
        tokenizer, settings = TOKENIZERS[family]()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        config = AutoConfig.for_model(family, vocab_size=tokenizer.get_vocab_size(), **SIZES[family])
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = AutoModel.from_config(config)
            for parameter in model.parameters():  # the usual start is so small that many faults would not show
                if parameter.dim() > 1:
                    torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
        return folder

    return build


_MODEL = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": MAX_POSITIONS,
}
_ROTARY = {**_MODEL, "num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
SIZES: dict[str, dict[str, Any]] = {
    "bert": _MODEL,
    "electra": {**_MODEL, "embedding_size": 8},
    "albert": {**_MODEL, "embedding_size": 8, "num_hidden_groups": 1},
    "roberta": {
        **_MODEL,
        "max_position_embeddings": MAX_POSITIONS + 2,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "type_vocab_size": 1,
    },
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": MAX_POSITIONS},
    "gpt2": {
        "n_embd": 16,
        "n_layer": 3,
        "n_head": 2,
        "n_positions": MAX_POSITIONS,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "xlnet": {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 24},
    "t5": {"d_model": 16, "num_layers": 3, "num_heads": 2, "d_kv": 8, "d_ff": 24},
    "llama": _ROTARY,
    "qwen2": _ROTARY,
}


def _wordpiece(settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer, settings


def _bytes(special: list[str], settings: dict[str, Any], *, split: bool = False) -> tuple[Any, dict[str, Any]]:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if split:
        pattern = Regex(r"'t|'s| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(pattern, "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    if "<s>" in special:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer, settings


def _sentencepiece(
    special: list[str], template: str, settings: dict[str, Any], *, prepend: str = "always"
) -> tuple[Any, dict[str, Any]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    tokenizer.train_from_iterator(
        TEXT,
        trainers.UnigramTrainer(vocab_size=100, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    used = [(token, special.index(token)) for token in special if f"{token}:" in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, pair=None, special_tokens=used)
    return tokenizer, settings


_XLNET = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
_ALBERT = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
_GENERIC = "PreTrainedTokenizerFast"
TOKENIZERS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "bert": lambda: _wordpiece({"tokenizer_class": "BertTokenizer", "do_lower_case": False}),
    "electra": lambda: _wordpiece({"tokenizer_class": "ElectraTokenizer", "do_lower_case": False}),
    "distilbert": lambda: _wordpiece({"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}),
    "roberta": lambda: _bytes(
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"tokenizer_class": "RobertaTokenizer", "model_max_length": 10**30}
    ),
    "gpt2": lambda: _bytes(["<|endoftext|>"], {"tokenizer_class": "GPT2Tokenizer", "padding_side": "left"}),
    "qwen2": lambda: _bytes(["<|endoftext|>"], {"tokenizer_class": _GENERIC}, split=True),
    "xlnet": lambda: _sentencepiece(_XLNET, "$A:0 <sep>:0 <cls>:2", {"tokenizer_class": "XLNetTokenizer"}),
    "albert": lambda: _sentencepiece(
        _ALBERT,
        "[CLS]:0 $A:0 [SEP]:0",
        {
            "tokenizer_class": _GENERIC,
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
        },
    ),
    "t5": lambda: _sentencepiece(
        ["<pad>", "</s>", "<unk>"],
        "$A:0 </s>:0",
        {"tokenizer_class": _GENERIC, "unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"},
    ),
    "llama": lambda: _sentencepiece(
        ["<unk>", "<s>", "</s>"],
        "<s>:0 $A:0",
        {"tokenizer_class": _GENERIC, "unk_token": "<unk>", "bos_token": "<s>", "padding_side": "left"},
        prepend="first",
    ),
}
