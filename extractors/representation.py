"""What an extractor gives for a sentence, and what it says about its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

POOLINGS = ("first", "last", "mean", "max")
"""How the vectors of a word's pieces become the word's vector."""

DIRECTIONALITIES = ("bidirectional", "left-to-right", "right-to-left", "concatenated", "unknown")
"""``concatenated``: two one-directional models side by side, as in ELMo. ``unknown``: vectors of a file that does not say
which model made them."""

ATTENTION_VARIANTS = ("rollout", "norm-weighted")
"""Attention maps beside the plain ones: ``rollout`` follows attention through all layers up to one (Abnar & Zuidema 2020),
``norm-weighted`` weighs it by the size of what is read (Kobayashi et al. 2020)."""

FloatArray = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class ModelInfo:
    """Everything a result has to say about the model it was measured on."""

    name: str
    """Short name for tables and figures."""
    source: str
    """The id or path it was loaded from."""
    family: str
    """``elmo``, or the model type of its configuration: ``bert``, ``gpt2``, ``xlnet``, ..."""
    weights: str
    """``trained`` or ``untrained`` (same architecture and tokenizer, weights drawn anew from a seed)."""
    layer_names: tuple[str, ...]
    """Names of layers 0..L; layer 0 is the context-free input layer."""
    hidden_size: int
    """Dimensions of one layer (for ELMo both halves together)."""
    directionality: str
    """What the architecture declares, one of `DIRECTIONALITIES`."""
    parts: Mapping[str, slice] = field(default_factory=lambda: MappingProxyType({"whole": slice(None)}))
    """Part name -> slice of the dimensions: ``whole``, and for ELMo ``forward`` and ``backward``. At layer 0 of ELMo the
    two halves are the same context-free vector and say nothing about direction."""
    heads: int | None = None
    """Attention heads per layer, of both models where two stand side by side; None without attention."""
    max_pieces: int | None = None
    """Longest input in pieces, special tokens included; None without a limit."""
    parameters: int = 0
    """Number of parameters of the loaded network."""
    dtype: str = "float32"
    """Precision of the network and of the vectors."""
    checksum: str = ""
    """SHA-256 over the weight files; empty for untrained weights."""
    revision: str | None = None
    """Revision on the hub, when loaded from one."""
    note: str = ""
    """What a reader must know, e.g. that the checkpoint is a sentence encoder without a masked-LM head."""
    masks: bool = False
    """Whether the model has a mask that stands for a word, so that `Extractor.with_masks` works."""
    seed: int | None = None
    """Seed that untrained weights were drawn from; None for trained weights."""
    head_parts: Mapping[str, slice] = field(default_factory=lambda: MappingProxyType({}))
    """``forward`` and ``backward`` -> slice of a layer's heads, where two one-directional models stand side by side."""

    @property
    def layers(self) -> tuple[int, ...]:
        """All layer numbers, 0..L."""
        return tuple(range(len(self.layer_names)))


@dataclass(frozen=True)
class Alignment:
    """Which of the model's pieces belong to which word."""

    words: tuple[str, ...]
    """The words as given."""
    pieces: tuple[str, ...]
    """All pieces the model reads for the sentence, special tokens included, in reading order."""
    word_pieces: tuple[tuple[int, ...], ...]
    """For each word the positions of its pieces in `pieces`; never empty."""
    replaced: tuple[int, ...] = ()
    """Words (0-based) that stand as the unknown token, because the tokenizer maps them to nothing (control characters, say) or to
    more pieces than the model reads (a line of asterisks)."""


@dataclass(frozen=True)
class AttentionMaps:
    """Attention of one sentence between words, of one variant."""

    words: FloatArray
    """Shape (attention layers, heads, words, words), see `SentenceRepresentation.attention`. Rollout joins the heads: its second
    axis has one entry, or one for each of two models side by side."""
    special: FloatArray
    """What goes to special tokens, shape (attention layers, heads, words)."""


@dataclass(frozen=True)
class SentenceRepresentation:
    """The vectors of one sentence."""

    words: tuple[str, ...]
    """The words as given."""
    hidden: FloatArray
    """Vectors, shape (layers, words, dim), in the order of `layers`."""
    layers: tuple[int, ...]
    """Layer numbers of the first axis."""
    layer_names: tuple[str, ...]
    """Names of those layers."""
    alignment: Alignment
    """Word-to-piece alignment."""
    attention: FloatArray | None = None
    """Attention between words, shape (attention layers, heads, words, words); entry [i, j] is the attention of word i *to*
    word j: summed over the pieces of j, averaged over the pieces of i. None unless asked for."""
    attention_special: FloatArray | None = None
    """Attention of each word to special tokens, shape (attention layers, heads, words). With `attention` summed over its
    last axis it makes 1."""
    attention_layers: tuple[int, ...] = ()
    """Layer numbers of the first axis of `attention`; layer l's heads compute layer l (1..L) from layer l - 1."""
    windows: int = 1
    """How many windows the sentence was read in (more than 1 only beyond the model's longest input)."""
    attention_variants: Mapping[str, AttentionMaps] = field(default_factory=lambda: MappingProxyType({}))
    """Variant -> its maps, those asked for by `Extractor.with_attention_variants`."""
