"""The two LSTM cells of the 2 x 2 in training: ELMo (Peters et al. 2018) and the bidirectional masked LM. Imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.bilstm_mlm.network import BilstmMlm
from extractors.bilstm_mlm.network import build_network as build_bilstm
from extractors.bilstm_mlm.network import draw_weights as draw_bilstm
from extractors.elmo.characters import BEGIN_SENTENCE, END_SENTENCE, character_ids
from extractors.elmo.characters import MASK as MASKED_CHARACTER
from extractors.elmo.network import CharacterEncoder, ElmoNetwork
from extractors.elmo.network import build_network as build_elmo
from extractors.elmo.network import draw_weights as draw_elmo
from extractors.elmo.options import CharacterCnnOptions, CharacterEmbeddingOptions, ElmoOptions, LstmOptions
from extractors.elmo.writing import write_elmo
from extractors.foundation.files import written_whole
from extractors.foundation.randomness import seed_for
from extractors.native import write_model
from studies.training.cross_entropy import SampledCrossEntropy, linear_cross_entropy
from studies.training.excerpts import Rows
from studies.training.learner import Learner, Material, arrays_of
from studies.training.masks import Masks
from studies.training.recipe import Recipe
from studies.training.recurrence import run_cells
from studies.training.vocabulary import WORD_SPECIALS

SOFTMAX_FILE, VOCABULARY_FILE, COUNTS_FILE = "softmax.safetensors", "vocabulary.txt", "counts.txt"


class _Speller:
    """Word types as characters, each distinct word of a batch encoded once. Three more rows: <S>, </S>, the mask."""

    def __init__(self, types: tuple[str, ...], limit: int) -> None:
        self.begin, self.end, self.mask = len(types), len(types) + 1, len(types) + 2
        self._table = character_ids([*types, BEGIN_SENTENCE, END_SENTENCE], limit).astype(np.int16)

    def __call__(self, encoder: CharacterEncoder, rows: npt.NDArray[np.int64]) -> Tensor:
        """Token vectors, shape (*rows.shape, projection_dim)."""
        found, place = np.unique(rows, return_inverse=True)
        device = encoder.projection.weight.device
        words = found[found != self.mask]
        parts = []
        if len(words):
            parts.append(encoder(torch.from_numpy(self._table[words].astype(np.int64)).to(device)))
        if len(words) < len(found):  # its number is the largest; apart, since all its characters count as read
            mask = torch.full((1, 1), MASKED_CHARACTER, device=device)
            parts.append(encoder(functional.pad(mask, (0, self._table.shape[1] - 1), value=MASKED_CHARACTER)))
        vectors = torch.cat(parts)
        return functional.embedding(torch.from_numpy(place.reshape(rows.shape)).to(device), vectors)


def _cnn(recipe: Recipe) -> CharacterCnnOptions:
    assert recipe.lstm is not None
    settings = recipe.lstm.char_cnn
    return CharacterCnnOptions(
        embedding=CharacterEmbeddingOptions(dim=settings.embedding),
        filters=settings.filters,
        n_highway=settings.n_highway,
        activation=settings.activation,
    )


def elmo_options(recipe: Recipe) -> ElmoOptions:
    """The official options of a recipe's ELMo."""
    assert recipe.lstm is not None
    lstm = LstmOptions(
        dim=recipe.lstm.cells,
        projection_dim=recipe.lstm.projection_dim,
        n_layers=recipe.lstm.n_layers,
        cell_clip=recipe.lstm.clip,
        proj_clip=recipe.lstm.clip,
        use_skip_connections=True,
    )
    return ElmoOptions(lstm=lstm, char_cnn=_cnn(recipe))


class ElmoInTraining(torch.nn.Module):
    """The official network and the softmax that both directions share, as they share the character CNN."""

    def __init__(self, network: ElmoNetwork, softmax: torch.nn.Linear) -> None:
        super().__init__()
        self.network = network
        self.softmax = softmax


class ElmoLearner(Learner):
    """Forward and backward language models; the loss is the mean of the two directions."""

    network: ElmoInTraining
    embeddings = ("softmax.weight", "softmax.bias")

    def __init__(self, material: Material, *, device: str = "cpu") -> None:
        super().__init__(material, device=device)
        options = elmo_options(self.recipe)
        self._spell = _Speller(material.text.training.types, options.char_cnn.max_characters_per_token)
        never = np.arange(len(material.vocabulary)) < len(WORD_SPECIALS) - 1  # all but <UNK>
        self._sampled = SampledCrossEntropy(material.unigram(), never, seed=self.recipe.seed)

    @staticmethod
    def build(recipe: Recipe, vocabulary: int, *, meta: bool = False) -> ElmoInTraining:
        """See `Learner.build`: the official network and a softmax normal with variance 1 / fan-in."""
        network = build_elmo(elmo_options(recipe))
        with torch.device("meta"):
            softmax = torch.nn.Linear(network.tokens.projection.out_features, vocabulary)
        if meta:
            return ElmoInTraining(network, softmax)
        network = draw_elmo(network, recipe.seed)
        softmax = softmax.to_empty(device="cpu")
        generator = torch.Generator().manual_seed(seed_for(recipe.seed, "softmax"))
        with torch.no_grad():
            softmax.weight.normal_(0, softmax.in_features**-0.5, generator=generator)
            softmax.bias.zero_()
        return ElmoInTraining(network, softmax)

    def _top(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Top-layer vectors (2 directions * length * rows, dim) and the words to be predicted from them."""
        words = rows.units.T
        edge = np.ones((1, words.shape[1]), dtype=np.int64)
        read = np.stack(
            [
                np.concatenate([edge * self._spell.begin, words[:-1]]),
                np.concatenate([edge * self._spell.end, words[:0:-1]]),
            ]
        )
        network = self.network.network
        below = self._spell(network.tokens, read)
        for layer in range(len(network.bilm.forward_cells)):
            output = run_cells([network.bilm.forward_cells[layer], network.bilm.backward_cells[layer]], below)
            below = output + below if layer > 0 and network.bilm.skip_connections else output
        targets = self.material.targets[np.stack([words, words[::-1]])]
        return below.flatten(0, 2), self.tensor(targets).flatten()

    def loss(self, rows: Rows, step: int, *, full: bool) -> Tensor:
        """See `Learner.loss`."""
        top, targets = self._top(rows)
        softmax, number = self.network.softmax, self.recipe.sampled_softmax
        if full or number is None:
            return linear_cross_entropy(top, softmax.weight, softmax.bias, targets)
        return self._sampled(top, softmax.weight, softmax.bias, targets, number=number, step=step)

    def nats(self, rows: Rows, masks: Masks | None, name: str) -> tuple[float, int]:
        """See `Learner.nats`."""
        top, targets = self._top(rows)
        return float(functional.cross_entropy(self.network.softmax(top), targets, reduction="sum")), len(targets)

    def export(self, folder: Path, *, precision: str = "float16") -> list[str]:
        """``options.json``, ``weights.hdf5``, and beside them ``softmax.safetensors``, ``vocabulary.txt`` and ``counts.txt``."""
        from safetensors.torch import save

        arrays = arrays_of(self.network.network.state_dict().items())
        options, weights = write_elmo(folder, elmo_options(self.recipe), arrays, dtype=precision)
        state = self.network.softmax.state_dict()
        with written_whole(folder / SOFTMAX_FILE) as temporary:
            temporary.write_bytes(
                save({key: value.cpu().to(getattr(torch, precision)).contiguous() for key, value in state.items()})
            )
        return [options.name, weights.name, SOFTMAX_FILE, *_write_vocabulary(folder, self.material)]


class BilstmMlmLearner(Learner):
    """Masked words are predicted from the top layer, which has read both sides."""

    network: BilstmMlm
    embeddings = ("softmax.weight", "softmax.bias")

    def __init__(self, material: Material, *, device: str = "cpu") -> None:
        super().__init__(material, device=device)
        types = material.text.training.types
        self._config = bilstm_config(self.recipe, len(material.vocabulary))
        self._spell = _Speller(types, self._config.char_cnn.max_characters_per_token)
        number = {word: i for i, word in enumerate(types)}
        self._random_words = np.array([number[word] for word in material.vocabulary[len(WORD_SPECIALS) :]])

    @staticmethod
    def build(recipe: Recipe, vocabulary: int, *, meta: bool = False) -> BilstmMlm:
        """See `Learner.build`."""
        network = build_bilstm(bilstm_config(recipe, vocabulary))
        return network if meta else draw_bilstm(network, recipe.seed)

    def _scores(self, rows: Rows, masks: Masks, step: int | str) -> tuple[Tensor, Tensor]:
        masked = masks(rows, step)
        chosen = self._random_words[(masked.draw * len(self._random_words)).astype(np.int64)]
        words = np.where(masked.hidden, self._spell.mask, np.where(masked.replaced, chosen, rows.units))
        framed = np.pad(words, ((0, 0), (1, 1)))
        framed[:, 0], framed[:, -1] = self._spell.begin, self._spell.end
        network = self.network
        below = self._spell(network.tokens, framed.T)
        cells: Any
        for layer, cells in enumerate(zip(network.forward_cells, network.backward_cells, strict=True)):
            output = run_cells(cells, torch.stack([below, below.flip(0)]))
            both = torch.cat([output[0], output[1].flip(0)], dim=-1)
            below = both + below if layer > 0 and network.skip_connections else both
        top = self.rows_at(below[1:-1].transpose(0, 1), masked.predicted)
        return network.scores(top), self.tensor(self.material.targets[rows.units[masked.predicted]])

    def loss(self, rows: Rows, step: int, *, full: bool) -> Tensor:
        """See `Learner.loss`; the softmax is always full."""
        assert self._masks is not None
        return functional.cross_entropy(*self._scores(rows, self._masks, step))

    def nats(self, rows: Rows, masks: Masks | None, name: str) -> tuple[float, int]:
        """See `Learner.nats`."""
        assert masks is not None
        scores, targets = self._scores(rows, masks, name)
        return float(functional.cross_entropy(scores, targets, reduction="sum")), len(targets)

    def export(self, folder: Path, *, precision: str = "float16") -> list[str]:
        """``config.json``, ``model.safetensors``, ``vocabulary.txt`` and ``counts.txt``."""
        write_model(folder, self._config, self.network.state_dict(), getattr(torch, precision))
        return ["config.json", "model.safetensors", *_write_vocabulary(folder, self.material)]


def bilstm_config(recipe: Recipe, vocabulary: int) -> BilstmMlmConfig:
    """The configuration of a recipe's bidirectional LSTM."""
    assert recipe.lstm is not None
    return BilstmMlmConfig(
        char_cnn=_cnn(recipe),
        projection_dim=recipe.lstm.projection_dim,
        cells=recipe.lstm.cells,
        n_layers=recipe.lstm.n_layers,
        cell_clip=recipe.lstm.clip,
        proj_clip=recipe.lstm.clip,
        vocabulary=vocabulary,
    )


def _write_vocabulary(folder: Path, material: Material) -> list[str]:
    """The output words and how often each occurs in the training text, one a line."""
    with written_whole(folder / VOCABULARY_FILE) as temporary:
        temporary.write_text("".join(f"{word}\n" for word in material.vocabulary), encoding="utf-8")
    with written_whole(folder / COUNTS_FILE) as temporary:
        temporary.write_text("".join(f"{count}\n" for count in material.counts()), encoding="utf-8")
    return [VOCABULARY_FILE, COUNTS_FILE]
