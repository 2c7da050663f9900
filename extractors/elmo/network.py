"""ELMo's network: a character CNN for words and two one-directional LSTM language models over them (Peters et al. 2018).

Assembled from allennlp-light's `Highway` and `LstmCellWithProjection`. It has no hidden state: what the LSTMs remember
goes in and comes out as a value. Importing this module imports torch and allennlp-light, so import it where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from allennlp_light.modules.highway import Highway
from allennlp_light.modules.lstm_cell_with_projection import LstmCellWithProjection
from torch import Tensor

from extractors.elmo.characters import MASK, PAD
from extractors.elmo.options import CharacterCnnOptions, ElmoOptions, LstmOptions
from extractors.elmo.weights import DIRECTIONS


@dataclass(frozen=True)
class BilmState:
    """What the LSTMs remember after a batch; immutable, given back by `BiLM` and handed in again by the caller."""

    hidden: Tensor
    """(layers, 2 directions, sentences, projection_dim); outputs before the skip connection."""
    memory: Tensor
    """(layers, 2 directions, sentences, cells)."""

    @property
    def sentences(self) -> int:
        """Number of rows."""
        return self.hidden.shape[2]

    def select(self, rows: Sequence[int]) -> BilmState:
        """The state of some rows, in the order given; rows that do not exist yet are zero."""
        missing = max(0, max(rows) + 1 - self.sentences)
        # Padding pairs count from the last axis: features, then sentences.
        hidden = torch.nn.functional.pad(self.hidden, (0, 0, 0, missing))
        memory = torch.nn.functional.pad(self.memory, (0, 0, 0, missing))
        return BilmState(hidden[:, :, list(rows)], memory[:, :, list(rows)])

    def append(self, other: BilmState) -> BilmState:
        """Rows of this state followed by those of `other`."""
        return BilmState(torch.cat([self.hidden, other.hidden], 2), torch.cat([self.memory, other.memory], 2))


class CharacterEncoder(torch.nn.Module):
    """Words as characters in, context-free token vectors out: convolutions, maximum, highway layers, projection."""

    def __init__(self, options: CharacterCnnOptions, projection_dim: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(PAD + 1, options.embedding.dim, padding_idx=MASK)
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv1d(options.embedding.dim, number, width) for width, number in options.filters
        )
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        self.highway = Highway(options.total_filters, options.n_highway, torch.relu)
        self.projection = torch.nn.Linear(options.total_filters, projection_dim)
        self._widest = max(width for width, _ in options.filters)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode words.

        Parameters
        ----------
        ids : Tensor of int64, shape (words, max_characters)
            From `character_ids`.

        Returns
        -------
        Tensor, shape (words, projection_dim)
        """
        # Beyond the longest word plus one filter width there are only windows of nothing but padding, which repeat one
        # that is kept; the maximum does not change when they are cut off.
        longest = int((ids != PAD).sum(dim=1).max())
        characters = self.embedding(ids[:, : longest + self._widest]).transpose(1, 2)
        features = [self.activation(convolve(characters).amax(dim=-1)) for convolve in self.convolutions]
        encoded: Tensor = self.projection(self.highway(torch.cat(features, dim=-1)))
        return encoded


class BiLM(torch.nn.Module):
    """Token vectors in, layers 1..L of both directions out. The directions share nothing and never meet."""

    def __init__(self, options: LstmOptions) -> None:
        super().__init__()
        self.skip_connections = options.use_skip_connections
        self.forward_cells, self.backward_cells = (
            torch.nn.ModuleList(
                LstmCellWithProjection(
                    options.projection_dim,
                    options.projection_dim,
                    options.dim,
                    go_forward=direction == "forward",
                    memory_cell_clip_value=options.cell_clip,
                    state_projection_clip_value=options.proj_clip,
                )
                for _ in range(options.n_layers)
            )
            for direction in DIRECTIONS
        )

    def forward(
        self, tokens: Tensor, lengths: Sequence[int], *, depth: int | None = None, state: BilmState | None = None
    ) -> tuple[list[Tensor], BilmState | None]:
        """Run both language models over a batch of sentences.

        Parameters
        ----------
        tokens : Tensor, shape (sentences, steps, projection_dim)
            Token vectors with the boundary words, left-aligned; what lies beyond a sentence's length is not read.
        lengths : sequence of int
            Steps of each sentence, in falling order (the cells need that and do not complain otherwise).
        depth : int, optional
            Run layers 1..depth only; default all.
        state : BilmState, optional
            Where the LSTMs stand before the first step; default zero, which makes each sentence independent. Needs all
            layers.

        Returns
        -------
        outputs : list of Tensor, each (sentences, steps, 2 * projection_dim)
            Layers 1..depth, the forward half first.
        state : BilmState or None
            Where the LSTMs stand afterwards; None at depth 0.

        Raises
        ------
        ValueError
            If `lengths` do not fall, or with a state and less than the full depth.
        """
        lengths = list(lengths)
        total = len(self.forward_cells)
        depth = total if depth is None else depth
        if lengths != sorted(lengths, reverse=True):
            raise ValueError(f"sentences must be sorted by falling length, got {lengths}")
        if state is not None and depth != total:
            raise ValueError(f"a state holds all {total} layers, but depth is {depth}")
        outputs: list[Tensor] = []
        hidden: list[Tensor] = []
        memory: list[Tensor] = []
        halves = [tokens, tokens]
        for layer in range(depth):
            for direction, cells in enumerate((self.forward_cells, self.backward_cells)):
                before = None
                if state is not None:
                    before = (state.hidden[layer, direction][None], state.memory[layer, direction][None])
                output, after = cells[layer](halves[direction], lengths, before)
                hidden.append(after[0].squeeze(0))
                memory.append(after[1].squeeze(0))
                halves[direction] = output + halves[direction] if layer > 0 and self.skip_connections else output
            outputs.append(torch.cat(halves, dim=-1))
        if not outputs:
            return outputs, None
        return outputs, BilmState(*(torch.stack(part).reshape(depth, 2, *part[0].shape) for part in (hidden, memory)))


class ElmoNetwork(torch.nn.Module):
    """The whole network. Its weights are not initialised: build it on the ``meta`` device and give it some."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.tokens = CharacterEncoder(options.char_cnn, options.lstm.projection_dim)
        self.bilm = BiLM(options.lstm)


def build_network(options: ElmoOptions) -> ElmoNetwork:
    """A network without weights, on the ``meta`` device: takes no time, no memory and no random numbers."""
    with torch.device("meta"):
        return ElmoNetwork(options)


def draw_weights(network: ElmoNetwork, seed: int) -> ElmoNetwork:
    """Give a network on the ``meta`` device fresh weights in float32; the global random state is left as it was.

    The token layer is drawn as bilm-tf draws it: character vectors uniform in [-1, 1], convolutions uniform in
    [-0.05, 0.05] for relu and normal with variance 1 / fan-in for tanh, highway and projection weights normal with variance
    1 / fan-in, and highway biases that carry the input (2 on the carrying gate); other biases zero. The LSTM cells are drawn as
    allennlp-light draws them: orthogonal blocks, forget-gate bias 1, and PyTorch's own linear initialisation for the
    output projection.

    Parameters
    ----------
    network : ElmoNetwork
        From `build_network`.
    seed : int
        Same seed, same weights.

    Returns
    -------
    ElmoNetwork
        The same network, on the CPU.
    """
    network = network.to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also reseed the GPUs
        draw_token_weights(network.tokens)
        for cell in (*network.bilm.forward_cells, *network.bilm.backward_cells):
            cell.state_projection.reset_parameters()
            cell.reset_parameters()
    return network


def draw_token_weights(encoder: CharacterEncoder) -> None:
    """Draw the token layer's weights in place, from torch's default generator; see `draw_weights`."""
    with torch.no_grad():
        encoder.embedding.weight.uniform_(-1, 1)
        encoder.embedding.weight[MASK] = 0
        for convolution in encoder.convolutions:
            assert isinstance(convolution, torch.nn.Conv1d)
            if encoder.activation is torch.relu:
                convolution.weight.uniform_(-0.05, 0.05)
            else:
                convolution.weight.normal_(0, (convolution.in_channels * convolution.kernel_size[0]) ** -0.5)
            assert convolution.bias is not None
            convolution.bias.zero_()
        for linear in (*encoder.highway._layers, encoder.projection):
            linear.weight.normal_(0, linear.in_features**-0.5)
            linear.bias.zero_()
        for linear in encoder.highway._layers:
            linear.bias[linear.in_features :] = 2
