"""How much of what a layer knows about a word's context comes from the left, from the right, and from both together.

Left and right contexts of frequent words of the bundled sample are crossed, and the variance of the vectors is divided up.
Offline on the packaged 6-layer BERT; any other model: python examples/direction_shares.py elmo-small
"""

import math
import sys
import tempfile
from pathlib import Path

from analyses import direction_shares
from extractors import load_extractor
from probes import read_corpus
from studies import SAMPLE_CORPUS

extractor = load_extractor(sys.argv[1] if len(sys.argv) > 1 else "minilm-l6")

# Your own text: read_corpus("my.txt") with one sentence a line, or any list of sentences; two thousand are plenty.
sentences = [sentence.words for sentence in read_corpus(SAMPLE_CORPUS).sentences]
shares = direction_shares(extractor, sentences, natural=100, data="sample")

contexts = shares.contexts
print(f"{extractor.info.name}: {len(contexts.targets)} target words ({', '.join(contexts.words)}),")
print(f"{contexts.grid} x {contexts.grid} contexts of {contexts.side} words on each side; shares with 95 % intervals\n")
print(f"{'layer':<12}" + "".join(f"{name:>19}" for name in ("left", "right", "interaction", "contextual")))
layers = [layer for layer in extractor.info.layers if (layer, "whole", "crossed") in shares.components]
for layer in layers:
    # left, right and interaction add up to 1; "contextual" is how much of the vector depends on context at all.
    found = shares.interval(layer)
    cells = [
        f"{value:.2f} [{low:.2f}, {high:.2f}]" if math.isfinite(value) else "undefined"
        for value, low, high in zip(found.value, found.low, found.high, strict=True)
    ]
    print(f"{extractor.info.layer_names[layer]:<12}" + "".join(f"{cell:>19}" for cell in cells))

# Every result has to_frame(), the tidy table that `probe run` writes, and plot(), a matplotlib figure.
folder = Path(tempfile.mkdtemp(prefix="janus-"))
shares.to_frame().to_csv(folder / "shares.csv", index=False)
shares.plot().savefig(folder / "shares.png")
print(f"\ntable and plot: {folder}")
