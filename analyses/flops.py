"""Floating-point operations of reading a sentence, and of one more word: closed formulas per architecture.

Counted as Kaplan et al. (2020) and torch's own counter do: 2 for each multiplication and addition of a matrix product or
a convolution; what grows only with the size of a vector (layer norm, softmax, gates, look-ups) is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from extractors.bigpt.config import BigptConfig
from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.elmo.options import CharacterCnnOptions, ElmoOptions
from extractors.foundation.errors import ModelError
from extractors.parameters import Configuration

_PLAIN = (
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "electra",
    "albert",
    "distilbert",
    "gpt2",
    "openai-gpt",
    "xlnet",
)
_GATED = ("llama", "mistral", "qwen2")
TRANSFORMERS = (*_PLAIN, "t5", *_GATED)
"""Model types of transformers that have a formula."""
_CAUSAL = ("gpt2", "openai-gpt", *_GATED)


@dataclass(frozen=True)
class Reading:
    """What a model reads for a sentence."""

    words: int
    """Words of the sentence."""
    inputs: int
    """Steps of the network: word pieces, special tokens and boundary words included."""
    types: int
    """Different words among those whose vectors are computed from characters, boundary words included."""
    characters: int
    """Characters that each of them is spelt with, padding included."""


@dataclass(frozen=True)
class Flops:
    """Operations, apart by what they are for."""

    tokens: int
    """Context-free vectors: character CNN, highway and projection, or the projection of small word vectors."""
    layers: int
    """The contextual layers 1..L."""

    @property
    def total(self) -> int:
        """Both together."""
        return self.tokens + self.layers


class Architecture(ABC):
    """The sizes of a network that its operations follow from."""

    @abstractmethod
    def sentence(self, reading: Reading) -> Flops:
        """Operations of reading a sentence from nothing."""

    @abstractmethod
    def append(self, before: Reading, after: Reading) -> Flops:
        """Operations of bringing every word's vector up to date after words were added at the end.

        Whatever of the sentence before can still be used has been kept: context-free vectors of words already read, keys and
        values of a causal Transformer, the last state of a left-to-right LSTM. Each direction or layer that reads to the
        right is run again.
        """


@dataclass(frozen=True)
class Transformer(Architecture):
    """A Transformer, or several of one size side by side.

    With N inputs, width d, attention width a (all heads together; b for keys and values), feed-forward width f, a layer takes

        N (4 d a + 4 d b + 2 m d f) + 4 N N a

    operations: query and output map, key and value map, the m = 2 (gated: 3) maps of the feed-forward part; scores and sums over
    N x N pairs of positions. The square is computed in full in causal models too, where half of it is masked. For
    XLNet's relative positions a layer takes 2 R d a (map of R relative positions) + 2 N R a (scores) + 4 N a + 4 N N h
    (segments, h heads) more, with R = 2 N, or N + 1 for its left-to-right kind.
    """

    layers: int
    """Layers of each tower."""
    width: int
    """d, dimensions of a layer."""
    attention: int
    """a, dimensions of all heads together."""
    keys: int
    """b, the same for keys and values, which heads may share."""
    feed: int
    """f, dimensions inside the feed-forward part."""
    maps: int
    """m, matrices of the feed-forward part."""
    heads: int
    """h, attention heads of a layer."""
    causal: tuple[bool, ...] = (False,)
    """For each tower whether it reads left to right only, so that keys and values survive what follows."""
    embedding: int | None = None
    """Dimensions of word vectors that are projected to the width; None if they have the width."""
    relative: str | None = None
    """XLNet's relative positions: ``bi``, or ``uni`` if it reads left to right."""
    tower_inputs: int = 0
    """Inputs that a tower does not read: 1 for a pair of towers, each of which leaves out the boundary before which it ends."""

    def sentence(self, reading: Reading) -> Flops:
        """See `Architecture.sentence`."""
        steps = reading.inputs - self.tower_inputs
        return Flops(self._projection(reading.inputs), len(self.causal) * self._layers(steps, steps))

    def append(self, before: Reading, after: Reading) -> Flops:
        """See `Architecture.append`."""
        steps, new = after.inputs - self.tower_inputs, after.inputs - before.inputs
        layers = sum(self._layers(new if causal else steps, steps) for causal in self.causal)
        return Flops(self._projection(new), layers)

    def _projection(self, pieces: int) -> int:
        return 0 if self.embedding is None else 2 * pieces * self.embedding * self.width

    def _layers(self, queries: int, keys: int) -> int:
        """All layers of a tower, for so many positions that attend to so many."""
        maps = 4 * self.width * (self.attention + self.keys) + 2 * self.maps * self.width * self.feed
        layer = queries * maps + 4 * queries * keys * self.attention
        if self.relative is not None:
            positions = queries + keys if self.relative == "bi" else keys + 1
            layer += 2 * positions * self.width * self.attention + 2 * queries * positions * self.attention
            layer += 4 * queries * self.attention + 4 * queries * keys * self.heads
        return self.layers * layer


@dataclass(frozen=True)
class Lstm(Architecture):
    """LSTMs with projection over a character CNN: ELMo, or a stack whose layers read both directions.

    With c cells and outputs of width p, one step of one direction that reads vectors of width i takes

        2 (4 c (i + p) + c p)

    operations: four gates from input and output, and the projection. Steps are the words and two boundary words. A word spelt with C
    characters of dimension e takes, with k filters of width w, K filters in all and H highway layers,

        sum over filters of 2 (C - w + 1) w e k,   + H 4 K K + 2 K p

    for its context-free vector.
    """

    characters: CharacterCnnOptions
    """The character CNN."""
    projection: int
    """p."""
    cells: int
    """c."""
    layers: int
    """Layers of each direction."""
    joint: bool
    """Whether layers from the second on read both directions of the layer below."""

    def word(self, characters: int) -> int:
        """Operations of one word's context-free vector, spelt with so many characters."""
        cnn = self.characters
        filters = sum(
            2 * (characters - width + 1) * width * cnn.embedding.dim * number for width, number in cnn.filters
        )
        total = cnn.total_filters
        return filters + cnn.n_highway * 4 * total * total + 2 * total * self.projection

    def step(self, layer: int) -> int:
        """Operations of one step of one direction at a layer, counting from 1."""
        entering = 2 * self.projection if self.joint and layer > 1 else self.projection
        return 2 * (4 * self.cells * (entering + self.projection) + self.cells * self.projection)

    def sentence(self, reading: Reading) -> Flops:
        """See `Architecture.sentence`."""
        layers = sum(2 * self.step(layer) * reading.inputs for layer in range(1, self.layers + 1))
        return Flops(reading.types * self.word(reading.characters), layers)

    def append(self, before: Reading, after: Reading) -> Flops:
        """See `Architecture.append`; a direction that goes on reads the new words and the end of the sentence again."""
        new = after.words - before.words
        layers = 0
        for layer in range(1, self.layers + 1):
            goes_on = new + 1 if layer == 1 or not self.joint else after.inputs
            layers += self.step(layer) * (goes_on + after.inputs)
        return Flops(max(0, after.types - before.types) * self.word(after.characters), layers)


def architecture_of(configuration: Configuration) -> Architecture:
    """The sizes that the formulas need, from a configuration.

    Parameters
    ----------
    configuration : ElmoOptions, BilstmMlmConfig, BigptConfig or transformers.PretrainedConfig
        See `extractors.parameters.read_configuration`.

    Returns
    -------
    Architecture
        A `Transformer` or an `Lstm`.

    Raises
    ------
    ModelError
        For a model type without a formula; the message lists those that have one.
    """
    if isinstance(configuration, ElmoOptions):
        lstm = configuration.lstm
        return Lstm(configuration.char_cnn, lstm.projection_dim, lstm.dim, lstm.n_layers, joint=False)
    if isinstance(configuration, BilstmMlmConfig):
        config = configuration
        return Lstm(config.char_cnn, config.projection_dim, config.cells, config.n_layers, joint=True)
    if isinstance(configuration, BigptConfig):
        width = configuration.hidden_size
        return Transformer(
            configuration.n_layers,
            width,
            width,
            width,
            configuration.intermediate_size,
            2,
            configuration.n_heads,
            causal=(True, False),
            tower_inputs=1,
        )
    return _of_transformers(configuration)


def _of_transformers(config: Any) -> Transformer:
    family = config.model_type
    if family not in TRANSFORMERS:
        raise ModelError(
            f"there is no formula for the operations of a model of type {family!r}; there is one for elmo, bilstm-mlm, "
            f"bigpt, {', '.join(TRANSFORMERS)}"
        )
    # Configurations of all these families answer to the names of BERT's, T5's feed-forward part and XLNet's heads apart.
    width, layers, heads = config.hidden_size, config.num_hidden_layers, config.num_attention_heads
    attention = keys = width
    relative = embedding = None
    maps = 2
    match family:
        case "t5":
            feed, attention = config.d_ff, config.d_kv * heads
            keys, maps = attention, 3 if config.is_gated_act else 2
        case "xlnet":
            feed, relative = config.d_inner, config.attn_type
        case "gpt2":
            feed = config.n_inner or 4 * width
        case "openai-gpt":
            feed = 4 * width
        case "distilbert":
            feed = config.hidden_dim
        case _:
            feed = config.intermediate_size
    if family in _GATED:
        size = getattr(config, "head_dim", None) or width // heads
        attention, keys, maps = heads * size, config.num_key_value_heads * size, 3
    if family == "albert" or (family == "electra" and config.embedding_size != width):
        embedding = config.embedding_size
    causal = family in _CAUSAL or relative == "uni" or bool(getattr(config, "is_decoder", False))
    return Transformer(
        layers, width, attention, keys, feed, maps, heads, causal=(causal,), embedding=embedding, relative=relative
    )


def reading_without_tokenizer(configuration: Configuration, words: int, *, pieces_per_word: float = 1.0) -> Reading:
    """What a model would read for a sentence of so many different words, when there is no tokenizer to ask.

    Parameters
    ----------
    configuration
        As for `architecture_of`.
    words : int
        Words of the sentence.
    pieces_per_word : float
        Word pieces per word of a Transformer's tokenizer; 1 is the least, English text takes 1.1 to 1.4.

    Returns
    -------
    Reading
        Two special tokens where the family has them (BERT, RoBERTa, XLNet, a pair of towers) or boundary words, none for GPT and
        GPT-2, one for T5 and Llama. Models over characters read every word at full length, as the published code does.
    """
    if isinstance(configuration, ElmoOptions | BilstmMlmConfig):
        return Reading(words, words + 2, words + 2, configuration.char_cnn.max_characters_per_token)
    special = {"gpt2": 0, "openai-gpt": 0, "qwen2": 0, "t5": 1, "llama": 1, "mistral": 1}
    return Reading(words, round(words * pieces_per_word) + special.get(configuration.model_type, 2), 0, 0)
