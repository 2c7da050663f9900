"""The bidirectional LSTM as the masked language model that it is: the word at a gap is replaced by the mask and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from extractors.bilstm_mlm.extractor import BilstmMlmExtractor
from extractors.elmo.reading import encode_sentences
from extractors.gaps import VOCABULARY_FILE, Array, Gap, GapFiller, WordVocabulary, log_softmax_at, no_head
from extractors.words import MASK_WORD


class BilstmMlmGapFiller(GapFiller):
    """P(w | L, R) from the top layer at the masked word.

    Parameters
    ----------
    extractor : BilstmMlmExtractor
        The model; ``vocabulary.txt`` lies in its folder.
    """

    sides = ("joint",)

    def __init__(self, extractor: BilstmMlmExtractor) -> None:
        self.info = extractor.info
        self._extractor = extractor
        folder = Path(self.info.source)
        if not (folder / VOCABULARY_FILE).is_file():
            raise no_head(self.info, f"its output words are not there ({VOCABULARY_FILE} in {folder})")
        self._vocabulary = WordVocabulary(folder, extractor.config.vocabulary)

    def words(self) -> tuple[str, ...]:
        """See `GapFiller.words`."""
        return self._vocabulary.words

    def entries(self, words: Sequence[str]) -> list[int | None]:
        """See `GapFiller.entries`."""
        return self._vocabulary.numbers(words)

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        import torch

        network = self._extractor.network
        limit = self._extractor.config.char_cnn.max_characters_per_token
        masked = [(*gap.words[: gap.position], MASK_WORD, *gap.words[gap.position + 1 :]) for gap in gaps]
        places = torch.tensor([gap.position + 1 for gap in gaps])
        with torch.inference_mode():
            tokens, lengths = encode_sentences(network.tokens, masked, limit, masked=(MASK_WORD,))
            top = network(tokens, lengths)[-1]
            scores = network.scores(top[torch.arange(len(gaps)), places])
            return {"joint": log_softmax_at(scores, entries)}
