"""Two GPT-like towers (pre-norm causal Transformers; Radford et al. 2019), one for each reading direction.

Each tower reads its boundary piece and then the sentence, the backward tower in reverse; both number positions in their own
reading order. They share word and position vectors, and nothing that depends on context. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from extractors.bigpt.config import DIRECTIONS, BigptConfig

Observer = Callable[[Tensor, Tensor], None]
"""Is given the attention map of a block, (sentences, heads, pieces, pieces), and its values, (sentences, heads, pieces, head_dim)."""


class Block(torch.nn.Module):
    """Causal self-attention and a feed-forward part, each behind a layer norm and added to its input."""

    def __init__(self, config: BigptConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.n_heads
        self.attention_norm = torch.nn.LayerNorm(width, config.layer_norm_eps)
        self.query = torch.nn.Linear(width, width)
        self.key = torch.nn.Linear(width, width)
        self.value = torch.nn.Linear(width, width)
        self.mix = torch.nn.Linear(width, width)
        self.feed_norm = torch.nn.LayerNorm(width, config.layer_norm_eps)
        self.expand = torch.nn.Linear(width, config.intermediate_size)
        self.contract = torch.nn.Linear(config.intermediate_size, width)

    def forward(self, hidden: Tensor, observer: Observer | None = None) -> Tensor:
        """Map (sentences, pieces, dim) to the same shape; position t depends on positions up to t.

        The fused kernel computes no map: for an observer attention is written out.
        """
        normed = self.attention_norm(hidden)
        query, key, value = (
            linear(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        if observer is None:
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            weights = _causal_weights(query, key)
            observer(weights, value)
            attended = weights @ value
        hidden = hidden + self.mix(attended.transpose(1, 2).flatten(-2))
        fed: Tensor = self.contract(functional.gelu(self.expand(self.feed_norm(hidden))))
        return hidden + fed


def _causal_weights(query: Tensor, key: Tensor) -> Tensor:
    """Softmax over positions up to each one; exactly 0 beyond."""
    later = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).triu(1)
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    weights: Tensor = scores.masked_fill(later, -torch.inf).softmax(-1)
    return weights


class Tower(torch.nn.Module):
    """The blocks of one direction and its final layer norm."""

    def __init__(self, config: BigptConfig) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = torch.nn.LayerNorm(config.hidden_size, config.layer_norm_eps)


class Bigpt(torch.nn.Module):
    """Piece ids in reading order in, layers of one tower out. Its weights are not initialised; see `build_network`."""

    def __init__(self, config: BigptConfig) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = torch.nn.Embedding(config.n_positions, config.hidden_size)
        self.forward_tower, self.backward_tower = (Tower(config) for _ in DIRECTIONS)

    def tower(self, direction: str) -> Tower:
        """The tower that reads ``forward`` or ``backward``."""
        return {"forward": self.forward_tower, "backward": self.backward_tower}[direction]

    def forward(
        self, ids: Tensor, direction: str, *, depth: int | None = None, observer: Observer | None = None
    ) -> list[Tensor]:
        """Run one tower.

        Parameters
        ----------
        ids : Tensor of int64, shape (sentences, pieces)
            The boundary piece and the pieces of each sentence in the tower's reading order. Padding at the end needs no
            mask: nothing before it reads it.
        direction : {"forward", "backward"}
            Which tower.
        depth : int, optional
            Run layers 0..depth only; default all.
        observer : callable, optional
            Is called with the attention map and the values of each block that runs, from the first on.

        Returns
        -------
        list of Tensor, each (sentences, pieces, hidden_size)
            Layer 0 (word and position vector) to the last, which is the tower's final layer norm of its last block.
        """
        tower = self.tower(direction)
        total = len(tower.blocks)
        states = [self.words(ids) + self.positions.weight[: ids.shape[1]]]
        for block in tower.blocks[: total if depth is None else depth]:
            states.append(block(states[-1], observer))
        if len(states) == total + 1:
            states[-1] = tower.norm(states[-1])
        return states

    def scores(self, top: Tensor) -> Tensor:
        """Unnormalised log probabilities of the next piece in reading order, from a tower's top layer."""
        return functional.linear(top, self.words.weight)


def build_network(config: BigptConfig) -> Bigpt:
    """A network without weights, on the ``meta`` device."""
    with torch.device("meta"):
        return Bigpt(config)


def draw_weights(network: Bigpt, seed: int) -> Bigpt:
    """Give a network on the ``meta`` device fresh weights in float32, drawn as GPT-2's.

    Weights are normal with standard deviation 0.02, divided by the square root of the number of residual additions in the two
    maps that end in one; biases zero, layer norms one. The global random state is left as it was.
    """
    network = network.to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        for module in network.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1)
                module.bias.zero_()
            elif isinstance(module, torch.nn.Embedding):
                module.weight.normal_(0, 0.02)
            elif isinstance(module, torch.nn.Linear):
                module.weight.normal_(0, 0.02)
                module.bias.zero_()
        for tower in (network.forward_tower, network.backward_tower):
            for block in tower.blocks:
                assert isinstance(block, Block)
                block.mix.weight.div_((2 * len(tower.blocks)) ** 0.5)
                block.contract.weight.div_((2 * len(tower.blocks)) ** 0.5)
    return network
