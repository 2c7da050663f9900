"""What each layer says about a word: vectors by layer, the pieces of a word and their pooling, the halves of an ELMo.

The same word after the same first word in two sentences: layer 0 cannot tell them apart, nor can an ELMo's forward half.
Offline on the packaged 6-layer BERT; any other model: python examples/layer_vectors.py elmo-small
"""

import sys

import numpy as np

from extractors import load_extractor


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two vectors."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


extractor = load_extractor(sys.argv[1] if len(sys.argv) > 1 else "minilm-l6")
info = extractor.info
print(
    f"{info.name}: {info.family}, {info.directionality}, layers 0 to {info.layers[-1]}, {info.hidden_size} dimensions"
)

# Words come in as lists; a plain string would be split by a documented rule.
money = ["The", "bank", "raised", "its", "rates", "again", "."]
river = ["The", "bank", "was", "overgrown", "with", "willows", "."]
first, second = extractor.extract([money, river])

# hidden has the axes (layers, words, dim); info.parts cuts the dimensions: whole, and in an ELMo forward and backward.
print("\nCosine of the two vectors of 'bank', by layer:")
print(f"{'layer':<12}" + "".join(f"{part:>10}" for part in info.parts))
for layer, name in zip(first.layers, first.layer_names, strict=True):
    cosines = [cosine(first.hidden[layer, 1, part], second.hidden[layer, 1, part]) for part in info.parts.values()]
    print(f"{name:<12}" + "".join(f"{value:>10.3f}" for value in cosines))

# A model of word pieces reads a word in one or more of them; pooling makes them one vector.
sentence = ["Unshakably", "bidirectional", "!"]
pooled = {
    pooling: next(iter(extractor.extract([sentence], layers="last", pooling=pooling))) for pooling in ("mean", "first")
}
alignment = pooled["mean"].alignment
print("\nWord, its pieces, and the cosine of the mean of their vectors with the first of them (last layer):")
for position, word in enumerate(sentence):
    pieces = [alignment.pieces[place] for place in alignment.word_pieces[position]]
    # layers="last" asked for one layer, so the first axis has length 1.
    print(f"{word:<15}{' '.join(pieces):<25}{cosine(*(one.hidden[0, position] for one in pooled.values())):.3f}")
