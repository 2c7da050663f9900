"""What attention distance costs beside the model's own forward pass with attention maps, on the same sentences.

Run with ``python benchmarks/attention_distance.py`` (``--layers 4 --dim 192 --heads 4`` for a small model). Prints CPU seconds, which
other jobs on the machine disturb less than wall time, of a BERT drawn at random: what a forward pass costs does not depend on
the weights. The interval's resampling is timed apart: its cost does not depend on the model's size.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from analyses import attention_distance
from extractors import load_extractor

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def save_bert(folder: Path, vocabulary: int, layers: int, dim: int, heads: int) -> None:
    """A BERT folder whose words are its pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    known = [*SPECIAL, *(f"w{number}" for number in range(vocabulary))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(known),
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * dim,
    )
    BertModel(config).save_pretrained(folder)


def forward_alone(extractor: Any, sentences: list[list[str]], batch_size: int) -> None:
    """The model's own forward pass with written-out attention over batches of like lengths, padded, results thrown away."""
    import torch

    model, tokenizer = extractor.model, extractor.tokenizer
    ordered = sorted(sentences, key=len, reverse=True)
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        for first in range(0, len(ordered), batch_size):
            rows = [[2, *tokenizer.convert_tokens_to_ids(words), 3] for words in ordered[first : first + batch_size]]
            longest = max(map(len, rows))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
            model(ids, attention_mask=(ids > 0).long(), output_attentions=True, output_hidden_states=True)
    model.set_attn_implementation(before)


def cpu_seconds(function: Callable[[], object]) -> float:
    """CPU time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def main() -> None:
    """Time the forward pass, plain attention distance and all variants in turn; the least of some rounds each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {
        "layers": 12, "dim": 768, "heads": 12, "sentences": 64, "words": 25, "batch-size": 16, "rounds": 3
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    lengths = generator.integers(options.words // 2, options.words * 3 // 2 + 1, size=options.sentences)
    sentences = [[f"w{number}" for number in generator.integers(1000, size=length)] for length in lengths]
    with tempfile.TemporaryDirectory() as folder:
        save_bert(Path(folder), 1000, options.layers, options.dim, options.heads)
        extractor = load_extractor(folder)

        def measure(*variants: str) -> Any:
            return attention_distance(extractor, sentences, variants=variants, batch_size=options.batch_size)

        jobs: dict[str, Callable[[], object]] = {
            "forward pass": lambda: forward_alone(extractor, sentences, options.batch_size),
            "plain": measure,
            "plain, rollout": lambda: measure("rollout"),
            "plain, rollout, norm-weighted": lambda: measure("rollout", "norm-weighted"),
        }
        for job in jobs.values():
            job()
        least = {name: min(cpu_seconds(job) for _ in range(options.rounds)) for name, job in jobs.items()}
        result = measure("rollout", "norm-weighted")
        print(f"{options.sentences} sentences, {sum(lengths)} words, {options.layers} layers, {options.heads} heads")
        for name, seconds in least.items():
            print(f"{name}: {seconds:.2f} s, {seconds / least['forward pass']:.2f} of the forward pass")
        print(f"intervals of all conditions, heads and layers: {cpu_seconds(result.rows):.2f} s")


if __name__ == "__main__":
    main()
