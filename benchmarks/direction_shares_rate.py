"""Direction shares against the bare forward pass of the same token batches, both measured in one run.

Run with ``python benchmarks/direction_shares_rate.py``; prints sentences per second of both and their ratio, and how full the
batches were. Exits with status 1 if the ratio of wall time is below ``--least`` (default .8). Targets go in blocks, first
measured, then replayed bare, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from typing import Any

import numpy as np

from analyses import ContextSet, TargetContexts, direction_shares, natural_statistics
from extractors import load_extractor


def whole_words(extractor: Any) -> list[str]:
    """Words of letters that the tokenizer reads as one piece."""
    words = sorted(word for word in extractor.tokenizer.get_vocab() if word.isascii() and word.isalpha())
    return [item.words[0] for item in extractor.align([word] for word in words) if len(item.word_pieces[0]) == 1]


def random_contexts(extractor: Any, *, targets: int, grid: int, side: int, seed: int = 0) -> ContextSet:
    """Random words around random words, one piece each: speed does not depend on what they mean."""
    generator = np.random.default_rng(seed)
    words = generator.permutation(whole_words(extractor)).tolist()

    def parts() -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(generator.choice(words, size=side).tolist()) for _ in range(grid))

    chosen = tuple(TargetContexts(word, parts(), parts(), {}) for word in islice(words, targets))
    return ContextSet(chosen, side, grid, (extractor.info.name,), seed)


class Recorder:
    """Keeps the inputs of every forward pass of the network."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.inputs: list[dict[str, Any]] = []
        self._handle = network.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _keep(self, module: Any, arguments: Any, options: dict[str, Any]) -> None:
        self.inputs.append(options)

    def stop(self) -> list[dict[str, Any]]:
        """The inputs so far; nothing is recorded any more."""
        self._handle.remove()
        return self.inputs


def main() -> int:
    """Measure block after block; 1 if direction shares are too slow, else 0."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--grid", type=int, default=8)
    parser.add_argument("--side", type=int, default=6, help="words of context per side")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--block", type=int, default=20, help="targets measured before their batches are replayed")
    parser.add_argument("--least", type=float, default=0.8, help="lowest ratio of wall time that passes")
    options = parser.parse_args()

    extractor: Any = load_extractor(options.model)
    contexts = random_contexts(extractor, targets=options.targets, grid=options.grid, side=options.side)
    natural = [next(target.sentences()) for target in contexts.targets]
    statistics = natural_statistics(extractor, natural, natural=20)

    ours = bare = ours_cpu = bare_cpu = 0.0
    sentences = rows = batches = 0
    for first in range(0, options.targets, options.block):
        block = contexts.targets[first : first + options.block]
        chosen = ContextSet(block, contexts.side, contexts.grid, contexts.models, contexts.seed)
        recorder = Recorder(extractor.model)
        started, started_cpu = time.perf_counter(), time.process_time()
        direction_shares(
            extractor, natural, contexts=chosen, statistics=statistics, batch_size=options.batch_size, resamples=100
        )
        ours, ours_cpu = ours + time.perf_counter() - started, ours_cpu + time.process_time() - started_cpu
        inputs = recorder.stop()
        started, started_cpu = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            for batch in inputs:
                extractor.model(**batch)
        bare, bare_cpu = bare + time.perf_counter() - started, bare_cpu + time.process_time() - started_cpu
        sentences += sum(len(target.left) * len(target.right) for target in block)
        rows += sum(len(batch["input_ids"]) for batch in inputs)
        batches += len(inputs)
    assert rows == sentences, "a sentence was read twice, or not at all"
    print(
        f"{extractor.info.name}: {options.targets} targets, {options.grid} x {options.grid} contexts, {sentences} sentences"
    )
    print(f"batches: {batches}, {rows / batches:.1f} of {options.batch_size} sentences each on average")
    print(
        f"direction shares: {sentences / ours:.1f} sentences/s; bare forward pass: {sentences / bare:.1f} sentences/s"
    )
    print(
        f"ratio {bare / ours:.3f} of wall time (asked for: at least {options.least:g}), {bare_cpu / ours_cpu:.3f} of "
        "processor time"
    )
    return int(bare / ours < options.least)


if __name__ == "__main__":
    sys.exit(main())
