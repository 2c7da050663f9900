"""A tiny BERT folder and a tiny treebank, so that whole runs take seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sees",
    "likes",
    "hears",
    "one",
    "two",
    "red",
    "old",
    "small",
    "house",
    "tree",
    "and",
    "but",
    "in",
    "on",
    "near",
    ".",
    ",",
    "not",
    "never",
]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 2-layer BERT of width 16 with random weights and a word-level vocabulary, as a Hugging Face folder."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *("##" + letter for letter in letters)]
    vocabulary.write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(vocabulary), vocab_file=str(vocabulary), do_lower_case=True)
    config = BertConfig(
        vocab_size=len(dict.fromkeys(pieces)),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def treebank(sentences: int, *, documents: int = 12) -> str:
    """CoNLL-U text with planted tags: nouns, verbs, determiners, in varied order."""
    import numpy as np

    generator = np.random.default_rng(1)
    nouns = ["cat", "dogs", "bird", "houses", "tree", "cats"]
    verbs, determiners = ["sees", "likes", "hears"], ["the", "a"]
    adjectives, adpositions = ["red", "old", "small"], ["in", "on", "near"]
    blocks = []
    for number in range(sentences):
        words: list[tuple[str, str]] = []
        for group in range(3):
            words.append((str(generator.choice(determiners)), "DET"))
            if generator.random() < 0.5:
                words.append((str(generator.choice(adjectives)), "ADJ"))
            words.append((str(generator.choice(nouns)), "NOUN"))
            if group == 0:
                words.append((str(generator.choice(verbs)), "VERB"))
            elif group == 1:
                words.append((str(generator.choice(adpositions)), "ADP"))
        words.append((".", "PUNCT"))
        lines = [f"# newdoc id = d{number}"] if number % max(1, sentences // documents) == 0 else []
        lines.append(f"# sent_id = s{number}")
        for position, (word, tag) in enumerate(words, start=1):
            feats = "_" if tag != "NOUN" else "Number=Plur" if word.endswith("s") else "Number=Sing"
            lines.append(f"{position}\t{word}\t{word}\t{tag}\t_\t{feats}\t{position - 1}\tdep\t_\t_")
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


@pytest.fixture(scope="session")
def tiny_treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 sentences in 12 documents."""
    path = tmp_path_factory.mktemp("data") / "tiny.conllu"
    path.write_text(treebank(120))
    return path


@pytest.fixture(scope="session")
def training_examples() -> ModuleType:
    """The module training_examples.py beside this file."""
    spec = importlib.util.spec_from_file_location("training_examples", Path(__file__).with_name("training_examples.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory, training_examples: ModuleType) -> Path:
    """A text file in the planted language: 16 documents."""
    path: Path = training_examples.write_text(tmp_path_factory.mktemp("text"))
    return path


@pytest.fixture(scope="session")
def tiny_trained(
    tmp_path_factory: pytest.TempPathFactory, training_examples: ModuleType, planted: Path
) -> Callable[[str], Any]:
    """A function from a kind to its finished training, run once."""

    @cache
    def trained(kind: str) -> Any:
        from studies.training.loop import train

        return train(training_examples.tiny_recipe(kind), [planted], tmp_path_factory.mktemp("trained") / kind)

    return trained
