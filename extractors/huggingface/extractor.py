"""The extractor over a Hugging Face model: pieces and windows in, word vectors and word-level attention out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import ModelError
from extractors.huggingface.alignment import WordTokenizer, divide_into_windows
from extractors.huggingface.network import Network
from extractors.huggingface.reduction import PLAIN, batch_word_maps
from extractors.huggingface.values import ValueReader, missing_values, value_reader
from extractors.pooling import pool_pieces
from extractors.representation import ModelInfo


class HuggingFaceExtractor(Extractor):
    """Per-layer vectors of any encoder or decoder of Hugging Face transformers; made by `load_huggingface`.

    Layers are the model's own ``hidden_states``: layer 0 is the input of its first block (word vectors, with positions
    where the family adds them there), layer l the output of block l. Families that end in a final layer norm (GPT-2,
    Llama, T5) apply it to the last of these, so that their last layer is the normalised one and the only one that is.
    Special tokens are added as the tokenizer adds them (GPT-2's adds none, see `with_sentence_start`) and removed, padding
    is on the right and masked. float16 and bfloat16 networks give float32 vectors.

    Attributes
    ----------
    info : ModelInfo
        What the model is.
    tokenizer : transformers tokenizer
        The fast tokenizer of the checkpoint.
    overlap : float
        Share of a window that is read again by the next one, for sentences beyond the longest input.
    """

    def __init__(
        self, network: Network, tokenizer: Any, words: WordTokenizer, info: ModelInfo, *, overlap: float = 0.5
    ) -> None:
        self.info = info
        self.tokenizer = tokenizer
        self.overlap = overlap
        self._network = network
        self._words = words
        self._values: ValueReader | None = None

    @property
    def model(self) -> Any:
        """The network itself, in evaluation mode."""
        return self._network.model

    def with_sentence_start(self) -> HuggingFaceExtractor:
        """The same model, reading the tokenizer's own start token (GPT-2: ``<|endoftext|>``) before every sentence.

        For left-to-right models whose tokenizer has such a token and puts no special token before a sentence: GPT-2,
        GPT-Neo, GPT-NeoX, BLOOM and others. Their first word, preceded by nothing, gets most of the attention of all
        later words and a vector many times as long as others; behind the start token it is a word like others. Every
        window of a long sentence starts with the token, `max_pieces` counts it, and attention to it is attention to a
        special token. Any other model is returned as it is.

        Returns
        -------
        HuggingFaceExtractor
            Shares network and tokenizer with this one; `info.note` says what it reads.
        """
        start = self.tokenizer.bos_token_id
        known = isinstance(start, int) and 0 <= start < self._network.vocabulary
        if self.info.directionality != "left-to-right" or self._words.prefix or not known:
            return self
        other = copy(self)
        other._words = self._words.starting_with(start)
        note = f"read with {self.tokenizer.bos_token} before every sentence"
        other.info = replace(self.info, note=f"{self.info.note}; {note}" if self.info.note else note)
        return other

    def with_masks(self) -> HuggingFaceExtractor:
        """See `Extractor.with_masks`: the word ``[MASK]`` becomes the tokenizer's mask token, whatever that is called."""
        if not self.info.masks:
            super().with_masks()
        other = copy(self)
        other._words = self._words.reading_mask(self.tokenizer.mask_token_id)
        return other

    def attention_gap(self, variant: str) -> str | None:
        """Say why the model cannot give a variant of its attention maps; None if it can.

        Rollout can be had wherever there are maps. Norm-weighted attention needs to know where a family keeps its value and
        output weights: `extractors.huggingface.values.FAMILIES`.
        """
        if self.info.heads is None:
            return super().attention_gap(variant)
        if variant == "norm-weighted" and (reason := missing_values(self.model)):
            return f"{variant} attention of {self.info.name} is not available: {reason}"
        return None

    def with_attention_variants(self, *variants: str) -> HuggingFaceExtractor:
        """The same model, giving variants of its attention maps too; see `Extractor.with_attention_variants`."""
        other = super().with_attention_variants(*variants)
        assert isinstance(other, HuggingFaceExtractor)
        if "norm-weighted" in variants:
            other._values = value_reader(self.model, self.info.heads or 0)
        return other

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        around = len(self._words.prefix) + len(self._words.suffix)
        limit = None if self.info.max_pieces is None else self.info.max_pieces - around
        sentence = self._words(words, where, limit)
        lengths = [len(ids) for ids in sentence.ids]
        capacity = sum(lengths) if limit is None else limit
        if max(map(max, sentence.ids)) >= self._network.vocabulary:
            raise ModelError(
                f"{where}: the tokenizer of {self.info.name} gives piece {max(map(max, sentence.ids))}, but the model has "
                f"{self._network.vocabulary} word vectors; tokenizer and weights are not of one model"
            )
        windows = []
        for span in divide_into_windows(lengths, capacity, overlap=self.overlap):
            ids = [*self._words.prefix]
            for word in range(span.start, span.stop):
                ids.extend(sentence.ids[word])
            ids.extend(self._words.suffix)
            payload = (np.array(ids), np.array(lengths[span.start : span.stop]))
            windows.append(Window(span.start, span.stop, span.keep, len(ids), payload))
        return Prepared(sentence.alignment, tuple(windows))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        import torch

        prefix = len(self._words.prefix)
        ids = np.full((len(windows), max(window.length for window in windows)), self._network.pad_id)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        of_words = np.zeros(ids.shape, dtype=bool)
        for row, window in enumerate(windows):
            pieces, lengths = window.payload
            ids[row, : window.length] = pieces
            mask[row, : window.length] = 1
            types[row, : window.length] = self._segments(window.length)
            of_words[row, prefix : prefix + lengths.sum()] = True
        device = self._network.model.device
        inputs = [torch.from_numpy(array).to(device) for array in (ids, mask, types)]
        reading: AbstractContextManager[list[torch.Tensor]] = nullcontext([])
        if attention and self._values is not None:
            reading = self._values.reading()
        with reading as norms:
            hidden_states, maps = self._network(*inputs, attention=attention)

        # Row after row, the pieces of words follow one another, so a word is a run of pieces in the flattened batch.
        positions = torch.from_numpy(np.flatnonzero(of_words)).to(device)
        lengths = torch.from_numpy(np.concatenate([window.payload[1] for window in windows])).to(device)
        pooled = torch.stack(
            [pool_pieces(hidden_states[layer].flatten(0, 1)[positions], lengths, pooling) for layer in layers]
        )
        hidden = pooled.cpu().numpy()
        # A view would keep the whole batch alive.
        stops = np.cumsum([window.stop - window.start for window in windows])
        vectors = [part.copy() for part in np.split(hidden, stops[:-1], axis=1)]
        if not attention:
            return [WindowOutput(part) for part in vectors]
        reduced = batch_word_maps(
            maps,
            norms,
            layers,
            [self._owners(window) for window in windows],
            heads=self.info.heads or 0,
            dtype=self.info.dtype,
            variants=self.attention_variants,
        )
        outputs = []
        for part, variants in zip(vectors, reduced, strict=True):
            plain = variants.pop(PLAIN)
            outputs.append(WindowOutput(part, plain.words, plain.special, variants))
        return outputs

    def _segments(self, length: int) -> npt.NDArray[np.int64]:
        before, after, types = len(self._words.prefix), len(self._words.suffix), self._words.type_ids
        inside = [types[before]] * (length - before - after)
        return np.array([*types[:before], *inside, *types[before + 1 :]])

    def _owners(self, window: Window) -> npt.NDArray[np.int64]:
        """The word of each piece of a window, -1 for special tokens."""
        lengths = window.payload[1]
        owners = np.full(window.length, -1)
        prefix = len(self._words.prefix)
        owners[prefix : prefix + lengths.sum()] = np.repeat(np.arange(len(lengths)), lengths)
        return owners
