"""ELMo as the two language models that it is: their shared softmax, from files beside its weights.

The official files leave the softmax out. ``softmax.safetensors`` (``weight``, ``bias``) and ``vocabulary.txt``, as ``probe train``
writes them, bring it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from extractors.elmo.extractor import ElmoExtractor
from extractors.elmo.reading import encode_sentences
from extractors.foundation.errors import ModelError
from extractors.foundation.randomness import seed_for
from extractors.gaps import VOCABULARY_FILE, Array, Gap, GapFiller, WordVocabulary, log_softmax_at, no_head

if TYPE_CHECKING:
    from torch import Tensor

SOFTMAX_FILE = "softmax.safetensors"


class ElmoGapFiller(GapFiller):
    """P(w | L) from the top forward layer at the word before the gap, P(w | R) from the backward one at the word after it.

    Where no word is before or after the gap, the boundary word is.

    Parameters
    ----------
    extractor : ElmoExtractor
        The model.
    vocabulary : WordVocabulary
        Its output words.
    weight, bias : Tensor, shapes (words, projection_dim) and (words,)
        The softmax that both directions share.
    """

    sides = ("forward", "backward")

    def __init__(self, extractor: ElmoExtractor, vocabulary: WordVocabulary, weight: Tensor, bias: Tensor) -> None:
        self.info = extractor.info
        self.weight, self.bias = weight, bias
        self._extractor = extractor
        self._vocabulary = vocabulary

    def words(self) -> tuple[str, ...]:
        """See `GapFiller.words`."""
        return self._vocabulary.words

    def entries(self, words: Sequence[str]) -> list[int | None]:
        """See `GapFiller.entries`."""
        return self._vocabulary.numbers(words)

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        import torch

        sentences = list(dict.fromkeys(gap.words for gap in gaps))  # one pass serves all gaps of a sentence
        row = {words: i for i, words in enumerate(sentences)}
        rows = torch.tensor([row[gap.words] for gap in gaps])
        # In the framed sentence the word at `position` is step position + 1.
        before = torch.tensor([gap.position for gap in gaps])
        network = self._extractor.network
        limit = self._extractor.options.char_cnn.max_characters_per_token
        with torch.inference_mode():
            tokens, lengths = encode_sentences(network.tokens, sentences, limit)
            outputs, _ = network.bilm(tokens, lengths)
            top = outputs[-1]
            halves = dict(zip(self.sides, top.chunk(2, dim=-1), strict=True))
            steps = {"forward": before, "backward": before + 2}
            return {
                side: log_softmax_at(half[rows, steps[side]] @ self.weight.T + self.bias, entries)
                for side, half in halves.items()
            }


def elmo_gap_filler(extractor: ElmoExtractor) -> ElmoGapFiller:
    """Read the softmax beside the weights; of an untrained copy it is drawn anew, as before training.

    Raises
    ------
    UsageError
        If there is no softmax or vocabulary beside the weights.
    ModelError
        If a file is damaged or does not fit the network.
    """
    import torch

    info = extractor.info
    folder = Path(info.source).parent
    untrained = info.weights == "untrained"
    for name in (VOCABULARY_FILE, *(() if untrained else (SOFTMAX_FILE,))):
        if not (folder / name).is_file():
            raise no_head(
                info,
                f"its softmax is not there ({name} in {folder}; the official ELMo files leave it out, probe train writes it)",
            )
    width = extractor.options.lstm.projection_dim
    example = extractor.network.tokens.projection.weight
    if untrained:
        vocabulary = WordVocabulary(folder)
        generator = torch.Generator().manual_seed(seed_for(info.seed, "softmax"))
        weight = torch.empty(len(vocabulary.entries), width).normal_(0, width**-0.5, generator=generator)
        return ElmoGapFiller(extractor, vocabulary, weight.to(example), torch.zeros(len(weight)).to(example))
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / SOFTMAX_FILE
    try:
        tensors = load_file(path)
        weight, bias = tensors["weight"], tensors["bias"]
    except (SafetensorError, OSError, KeyError) as error:
        raise ModelError(f"cannot read the softmax {path}: {error}; fetch the model again") from error
    if weight.dim() != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
        raise ModelError(
            f"{path}: weight has shape {tuple(weight.shape)} and bias {tuple(bias.shape)}, but the network's vectors have "
            f"{width} dimensions; they are not of one model"
        )
    if not (weight.isfinite().all() and bias.isfinite().all()):
        raise ModelError(f"{path} holds values that are not finite; the file is damaged")
    vocabulary = WordVocabulary(folder, len(weight))
    return ElmoGapFiller(extractor, vocabulary, weight.to(example), bias.to(example))
