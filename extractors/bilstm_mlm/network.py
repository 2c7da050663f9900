"""The network: ELMo's character CNN, then LSTM layers whose second and later ones read both directions of the one below.

Imports torch and allennlp-light, so import it where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from allennlp_light.modules.lstm_cell_with_projection import LstmCellWithProjection
from torch import Tensor

from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.elmo.network import CharacterEncoder, draw_token_weights


class BilstmMlm(torch.nn.Module):
    """Character ids in, layers and word scores out. Its weights are not initialised; see `build_network`."""

    def __init__(self, config: BilstmMlmConfig) -> None:
        super().__init__()
        width = config.projection_dim
        self.skip_connections = config.use_skip_connections
        self.tokens = CharacterEncoder(config.char_cnn, width)
        self.forward_cells, self.backward_cells = (
            torch.nn.ModuleList(
                LstmCellWithProjection(
                    width if layer == 0 else 2 * width,
                    width,
                    config.cells,
                    go_forward=forward,
                    memory_cell_clip_value=config.cell_clip,
                    state_projection_clip_value=config.proj_clip,
                )
                for layer in range(config.n_layers)
            )
            for forward in (True, False)
        )
        self.output = torch.nn.Linear(2 * width, width)
        self.softmax = torch.nn.Linear(width, config.vocabulary)

    def forward(self, tokens: Tensor, lengths: Sequence[int], *, depth: int | None = None) -> list[Tensor]:
        """Run the layers over a batch of sentences.

        Parameters
        ----------
        tokens : Tensor, shape (sentences, steps, projection_dim)
            Token vectors with the boundary words, left-aligned; what lies beyond a sentence's length is not read.
        lengths : sequence of int
            Steps of each sentence, in falling order.
        depth : int, optional
            Run layers 1..depth only; default all.

        Returns
        -------
        list of Tensor, each (sentences, steps, 2 * projection_dim)
            Layers 1..depth; the outputs of the left-to-right cells come first.

        Raises
        ------
        ValueError
            If `lengths` do not fall.
        """
        lengths = list(lengths)
        if lengths != sorted(lengths, reverse=True):
            raise ValueError(f"sentences must be sorted by falling length, got {lengths}")
        outputs: list[Tensor] = []
        below = tokens
        for layer, cells in enumerate(zip(self.forward_cells, self.backward_cells, strict=True)):
            if depth is not None and layer == depth:
                break
            both = torch.cat([cell(below, lengths)[0] for cell in cells], dim=-1)
            below = both + below if layer > 0 and self.skip_connections else both
            outputs.append(below)
        return outputs

    def scores(self, top: Tensor) -> Tensor:
        """Unnormalised log probabilities of the words of the vocabulary, from the top layer."""
        scores: Tensor = self.softmax(self.output(top))
        return scores


def build_network(config: BilstmMlmConfig) -> BilstmMlm:
    """A network without weights, on the ``meta`` device."""
    with torch.device("meta"):
        return BilstmMlm(config)


def draw_weights(network: BilstmMlm, seed: int) -> BilstmMlm:
    """Give a network on the ``meta`` device fresh weights in float32, drawn as ELMo's (`extractors.elmo.network`).

    The output layer is drawn normal with variance 1 / fan-in, biases zero. The global random state is left as it was.
    """
    network = network.to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        draw_token_weights(network.tokens)
        for cell in (*network.forward_cells, *network.backward_cells):
            cell.state_projection.reset_parameters()
            cell.reset_parameters()
        for linear in (network.output, network.softmax):
            linear.weight.normal_(0, linear.in_features**-0.5)
            linear.bias.zero_()
    return network
