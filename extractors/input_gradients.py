"""Hidden states as torch tensors that can be differentiated with respect to the input vectors, for every kind of network.

An input vector is what a network looks up for a piece, before positions are added: the word-piece vector of a Transformer,
the token layer's vector of ELMo. Import this module where it is used; it imports torch when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from extractors.base import Extractor, Sentence, Window
from extractors.bigpt.config import DIRECTIONS
from extractors.bigpt.extractor import BigptExtractor
from extractors.bilstm_mlm.extractor import BilstmMlmExtractor
from extractors.elmo.extractor import ElmoExtractor
from extractors.elmo.reading import encode_sentences
from extractors.foundation.errors import UsageError
from extractors.huggingface.extractor import HuggingFaceExtractor
from extractors.layers import Layers, select_layers
from extractors.pooling import pool_pieces
from extractors.representation import POOLINGS
from extractors.words import MASK_WORD, as_words

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Trace:
    """Word vectors of a batch of sentences, with the graph that leads back to the input vectors."""

    hidden: Tensor
    """(layers, words, dim); the words of all sentences one after the other."""
    inputs: Tensor
    """The leaf of the graph, (pieces, input dim): the input vectors of the words' pieces, special tokens left out."""
    owners: Tensor
    """int64 (pieces,): to which word, a place on axis 1 of `hidden`, each input vector belongs."""
    starts: tuple[int, ...] = (0,)
    """Place of each sentence's first word."""

    def squared_gradients(self, value: Tensor) -> Tensor:
        """Squared length of the gradient of a scalar with respect to the input vectors of each word.

        Parameters
        ----------
        value : Tensor
            A scalar computed from `hidden`. As sentences of a batch do not see each other, a sum over sentences gives
            each sentence's own gradients.

        Returns
        -------
        Tensor, shape (words,), float64
            |d value / d x|² summed over the pieces of each word; exactly 0 where there is no path.
        """
        import torch

        squares = torch.zeros(self.hidden.shape[1], dtype=torch.float64, device=self.hidden.device)
        if not value.requires_grad:
            return squares
        (gradient,) = torch.autograd.grad(value, self.inputs, retain_graph=True, allow_unused=True)
        if gradient is None:
            return squares
        return squares.index_add_(0, self.owners, gradient.double().square().sum(dim=-1))


def trace(extractor: Extractor, sentences: Sequence[Sentence], *, layers: Layers, pooling: str = "mean") -> Trace:
    """Run sentences in one batch and keep the graph from their input vectors to their word vectors.

    The word vectors are those of `Extractor.extract`, up to float noise. The graph of a batch is in memory until the
    result is dropped: give some tens of sentences at a time.

    Parameters
    ----------
    extractor : Extractor
        An ELMo, a bidirectional LSTM, a pair of GPTs or a Hugging Face model. Other classes register a function with
        `trace_windows`.
    sentences : sequence of str or of sequences of str
        Sentences that the model reads in one window.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    pooling : {"first", "last", "mean", "max"}
        How the vectors of a word's pieces become the word's.

    Returns
    -------
    Trace
        In the order of the sentences given.

    Raises
    ------
    UsageError
        If the model has no network to differentiate, a sentence is longer than it reads in one go, there is no
        sentence, or an option is unknown.
    DataError, AlignmentError
        As `Extractor.extract`.
    """
    import torch

    chosen = select_layers(layers, extractor.info.layer_names, model=extractor.info.name)
    if pooling not in POOLINGS:
        raise UsageError(f"pooling {pooling!r} is unknown; choose one of {', '.join(POOLINGS)}")
    if not sentences:
        raise UsageError("there is no sentence to trace; give at least one")
    windows = []
    for number, sentence in enumerate(sentences, start=1):
        where = f"sentence {number}"
        found = extractor._prepare(as_words(sentence, where=where), where).windows
        if len(found) > 1:
            raise UsageError(
                f"{where} is longer than {extractor.info.name} reads in one go, and gradients do not pass from one window "
                "to another; give shorter sentences"
            )
        windows.append(found[0])
    order = sorted(range(len(windows)), key=lambda i: -windows[i].length)
    with torch.enable_grad():
        traced = trace_windows(extractor, [windows[i] for i in order], chosen, pooling)
        # Back to the order given: where each word stands in the batch sorted by length, and the reverse.
        sizes = np.array([window.stop - window.start for window in windows])
        first = np.zeros(len(windows), dtype=np.int64)
        first[order] = np.cumsum(sizes[order]) - sizes[order]
        places = torch.from_numpy(np.concatenate([np.arange(a, a + n) for a, n in zip(first, sizes, strict=True)]))
        places = places.to(traced.owners.device)
        starts = tuple(int(stop - size) for stop, size in zip(np.cumsum(sizes), sizes, strict=True))
        return Trace(traced.hidden[:, places], traced.inputs, places.argsort()[traced.owners], starts)


def can_trace(extractor: Extractor) -> bool:
    """Whether `trace` can run an extractor: a network is there, and its class is known."""
    return trace_windows.dispatch(type(extractor)) is not trace_windows.dispatch(object)


@singledispatch
def trace_windows(extractor: Extractor, windows: Sequence[Window], layers: tuple[int, ...], pooling: str) -> Trace:
    """Run a batch of windows, sorted by falling length, with gradients switched on; `Trace.starts` may be left out.

    The door for other classes of extractors: ``@trace_windows.register``.

    Raises
    ------
    UsageError
        For a class that nothing is registered for.
    """
    raise UsageError(
        f"{extractor.info.name} ({extractor.info.family}) has no network to differentiate; gradients need an ELMo, a "
        "bidirectional LSTM, a pair of GPTs or a Hugging Face model"
    )


@trace_windows.register
def _(extractor: ElmoExtractor, windows: Sequence[Window], layers: tuple[int, ...], pooling: str) -> Trace:
    import torch

    with torch.no_grad():
        limit = extractor.options.char_cnn.max_characters_per_token
        tokens, lengths = encode_sentences(extractor.network.tokens, [window.payload for window in windows], limit)
    inputs, tokens, rows, columns, owners = _leaves(tokens, lengths)
    outputs = [torch.cat([tokens, tokens], dim=-1), *extractor.network.bilm(tokens, lengths, depth=max(layers))[0]]
    return Trace(torch.stack([outputs[layer][rows, columns] for layer in layers]), inputs, owners)


@trace_windows.register
def _(extractor: BilstmMlmExtractor, windows: Sequence[Window], layers: tuple[int, ...], pooling: str) -> Trace:
    import torch

    with torch.no_grad():
        limit = extractor.config.char_cnn.max_characters_per_token
        sentences = [window.payload for window in windows]
        tokens, lengths = encode_sentences(extractor.network.tokens, sentences, limit, masked=(MASK_WORD,))
    inputs, tokens, rows, columns, owners = _leaves(tokens, lengths)
    outputs = [torch.cat([tokens, tokens], dim=-1), *extractor.network(tokens, lengths, depth=max(layers))]
    return Trace(torch.stack([outputs[layer][rows, columns] for layer in layers]), inputs, owners)


def _leaves(tokens: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Cut token vectors (sentences, steps, dim) at the words: the leaf, the tokens made of it, and where the words are."""
    import torch

    device = tokens.device
    rows = torch.cat([torch.full((length - 2,), row) for row, length in enumerate(lengths)]).to(device)
    columns = torch.cat([torch.arange(1, length - 1) for length in lengths]).to(device)
    inputs = tokens[rows, columns].requires_grad_()
    return inputs, tokens.index_put((rows, columns), inputs), rows, columns, torch.arange(len(rows), device=device)


@trace_windows.register
def _(extractor: BigptExtractor, windows: Sequence[Window], layers: tuple[int, ...], pooling: str) -> Trace:
    import torch

    network, device = extractor.network, extractor.network.words.weight.device
    longest = max(window.length for window in windows)
    pieces = torch.from_numpy(np.concatenate([window.payload[0] for window in windows])).to(device)
    lengths = torch.from_numpy(np.concatenate([window.payload[1] for window in windows])).to(device)
    inputs = network.words.weight.detach()[pieces].requires_grad_()
    halves = []
    for direction, boundary in zip(DIRECTIONS, (extractor._words.prefix, extractor._words.suffix), strict=True):
        forward = direction == "forward"
        ids = torch.zeros((len(windows), longest), dtype=torch.int64, device=device)
        ids[:, 0] = boundary[0]
        # Pieces in the order of the sentence; the backward tower reads the last one first.
        places = [torch.arange(1, w.length) if forward else torch.arange(1, w.length).flip(0) for w in windows]
        rows = torch.cat([torch.full((w.length - 1,), row) for row, w in enumerate(windows)]).to(device)
        columns = torch.cat(places).to(device)
        ids[rows, columns] = pieces
        # Both towers read the same vectors: they are put in behind the lookup.
        hook = network.words.register_forward_hook(
            lambda _, __, looked_up, where=(rows, columns): looked_up.detach().index_put(where, inputs)
        )
        try:
            states = network(ids, direction, depth=max(layers))
        finally:
            hook.remove()
        how = pooling if forward else {"first": "last", "last": "first"}.get(pooling, pooling)
        halves.append(torch.stack([pool_pieces(states[layer][rows, columns], lengths, how) for layer in layers]))
    owners = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
    return Trace(torch.cat(halves, dim=-1), inputs, owners)


@trace_windows.register
def _(extractor: HuggingFaceExtractor, windows: Sequence[Window], layers: tuple[int, ...], pooling: str) -> Trace:
    import torch

    network, prefix = extractor._network, len(extractor._words.prefix)
    device = network.model.device
    ids = np.full((len(windows), max(window.length for window in windows)), network.pad_id)
    mask, types, of_words = np.zeros_like(ids), np.zeros_like(ids), np.zeros(ids.shape, dtype=bool)
    for row, window in enumerate(windows):
        ids[row, : window.length] = window.payload[0]
        mask[row, : window.length] = 1
        types[row, : window.length] = extractor._segments(window.length)
        of_words[row, prefix : prefix + window.payload[1].sum()] = True
    where = tuple(torch.from_numpy(axis).to(device) for axis in np.nonzero(of_words))
    lengths = torch.from_numpy(np.concatenate([window.payload[1] for window in windows])).to(device)
    with torch.no_grad():
        vectors = network.model.get_input_embeddings()(torch.from_numpy(ids).to(device))
    inputs = vectors[where].requires_grad_()
    options = {"token_type_ids": torch.from_numpy(types).to(device)} if network.takes_types else {}
    states = network.model(
        inputs_embeds=vectors.index_put(where, inputs),
        attention_mask=torch.from_numpy(mask).to(device),
        output_hidden_states=True,
        return_dict=True,
        **options,
        **network._options,
    ).hidden_states
    hidden = torch.stack([pool_pieces(states[layer][where], lengths, pooling) for layer in layers])
    owners = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
    return Trace(hidden, inputs, owners)
