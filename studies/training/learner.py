"""What a kind of model has to say for itself to be trained: its network, its loss, its evaluation, its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from studies.training.excerpts import Anchors, Rows, Units, anchors_of_pass
from studies.training.masks import EVALUATION, Masks
from studies.training.recipe import Recipe
from studies.training.text import DividedText, Text
from studies.training.vocabulary import UNKNOWN_WORD, frequent_words, piece_arrays, word_piece_tokenizer

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Material:
    """The text of a recipe in the units of its kind."""

    recipe: Recipe
    text: DividedText
    training: Units
    held_out: Units
    targets: npt.NDArray[np.int64]
    """Unit -> entry of the output vocabulary: for words (types,), for pieces the identity."""
    vocabulary: tuple[str, ...]
    """Entries of the output vocabulary."""
    tokenizer: Any = None
    """The word-piece tokenizer; None for words."""

    def over(self, training: Text) -> Material:
        """The same vocabulary and held-out text over another training text of the same files."""
        if self.recipe.reads_words:
            units = Units(training.words, np.arange(len(training.words) + 1))
        else:
            units = Units(*piece_arrays(training, self.tokenizer))
        return replace(self, text=DividedText(training, self.text.held_out), training=units)

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each entry of the vocabulary occurs in the training text."""
        return np.bincount(self.targets[self.training.values], minlength=len(self.vocabulary)).astype(np.int64)

    def unigram(self) -> npt.NDArray[np.float64]:
        """Probability of each entry of the vocabulary in the training text, one added to each count."""
        counts = self.counts() + 1.0
        return np.asarray(counts / counts.sum(), dtype=np.float64)

    def unigram_loss(self) -> float:
        """Nats per held-out unit under the unigram distribution of the training text."""
        return float(-np.log(self.unigram())[self.targets[self.held_out.values]].mean())

    def held_out_batches(self, words: int | None) -> Iterator[Rows]:
        """Held-out excerpts in an order of their own, about `words` words of them (None: all), in batches of the recipe."""
        settings, recipe = self.recipe.text, self.recipe
        anchors: Anchors = anchors_of_pass(
            self.text.held_out,
            excerpt=settings.excerpt,
            reach=settings.reach,
            names=(settings.held_out_seed, "held-out pass"),
        )
        number = len(anchors) if words is None else max(1, min(len(anchors), round(words / settings.excerpt)))
        for first in range(0, number, recipe.batch):
            yield self.held_out.rows(anchors[first : min(first + recipe.batch, number)], recipe.length)


def prepare(recipe: Recipe, text: DividedText) -> Material:
    """Bring a divided text into the units of a recipe's kind; vocabularies come from the training documents alone."""
    if recipe.reads_words:
        assert recipe.lstm is not None
        vocabulary = frequent_words(text.training, recipe.lstm.vocabulary)
        entry = {word: number for number, word in enumerate(vocabulary)}
        unknown = entry[UNKNOWN_WORD]
        targets = np.array([entry.get(word, unknown) for word in text.training.types], dtype=np.int64)
        training, held_out = (
            Units(part.words, np.arange(len(part.words) + 1)) for part in (text.training, text.held_out)
        )
        return Material(recipe, text, training, held_out, targets, vocabulary)
    assert recipe.transformer is not None
    tokenizer = word_piece_tokenizer(text.training, recipe.transformer.vocabulary)
    training, held_out = (Units(*piece_arrays(part, tokenizer)) for part in (text.training, text.held_out))
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    pieces = tuple(piece for piece, _ in ordered)
    return Material(recipe, text, training, held_out, np.arange(len(pieces)), pieces, tokenizer)


@dataclass(frozen=True)
class ParameterCounts:
    """Exact sizes of a recipe's network."""

    total: int
    """All trained numbers, tied ones once."""
    without_embeddings: int
    """Without word, piece, position and segment vectors, output vocabulary weights and biases; a character CNN counts."""


class Learner(ABC):
    """A network in training.

    Attributes
    ----------
    recipe : Recipe
        What it is built from.
    network : torch.nn.Module
        Everything that is trained.
    """

    recipe: Recipe
    network: torch.nn.Module
    embeddings: tuple[str, ...] = ()
    """Names of parameters that `ParameterCounts.without_embeddings` leaves out."""

    def __init__(self, material: Material, *, device: str = "cpu") -> None:
        import torch

        self.recipe = material.recipe
        self.material = material
        self.device = torch.device(device)
        self._masks = (
            Masks(self.recipe.masks, seed=self.recipe.seed, places=len(material.training.values))
            if self.recipe.masks_units
            else None
        )
        self.network = self.build(self.recipe, len(material.vocabulary)).to(self.device)

    @staticmethod
    @abstractmethod
    def build(recipe: Recipe, vocabulary: int, *, meta: bool = False) -> torch.nn.Module:
        """The network with its initial weights, which follow from the recipe's seed; without weights on ``meta``."""

    @abstractmethod
    def loss(self, rows: Rows, step: int, *, full: bool) -> torch.Tensor:
        """Mean loss of a training batch in nats per predicted unit; with `full` from the full softmax."""

    @abstractmethod
    def nats(self, rows: Rows, masks: Masks | None, name: str) -> tuple[float, int]:
        """Summed held-out loss of a batch and number of predictions, full softmax; `name` identifies the batch."""

    @abstractmethod
    def export(self, folder: Path, *, precision: str = "float16") -> list[str]:
        """Write the model in the format of its kind, in ``float16`` or ``float32``; gives the names of the files."""

    def held_out(self, words: int | None) -> dict[str, npt.NDArray[np.float64]]:
        """Held-out loss batch by batch, about `words` words of it (None: all): what intervals and paired comparisons start from.

        Returns
        -------
        dict
            As `evaluate`, each an array (batches, 2): summed loss in nats, and number of predictions. Recipes of one kind that
            agree in text, length and batch have the same batches and, under ``held_out_masked_loss``, the same masks.
        """
        import torch

        own = self.recipe.masks.model_copy(update={"dynamic": True})
        evaluations: dict[str, Masks | None] = {"held_out_loss": None}
        if self.recipe.masks_units:
            evaluations = {
                "held_out_loss": Masks(own, seed=0, places=0),
                "held_out_masked_loss": Masks(EVALUATION, seed=0, places=0),
            }
        sums: dict[str, list[tuple[float, int]]] = {name: [] for name in evaluations}
        self.network.eval()
        with torch.no_grad():
            for number, rows in enumerate(self.material.held_out_batches(words)):
                for name, masks in evaluations.items():
                    sums[name].append(self.nats(rows, masks, f"held-out {number}"))
        self.network.train()
        return {name: np.array(batches, dtype=np.float64) for name, batches in sums.items()}

    def evaluate(self, words: int | None) -> dict[str, float]:
        """Held-out loss in nats per predicted unit.

        Returns
        -------
        dict
            ``held_out_loss`` under the recipe's own objective (masks drawn by a seed of their own), and for masked models
            ``held_out_masked_loss`` under `studies.training.masks.EVALUATION`.
        """
        return mean_losses(self.held_out(words))

    @classmethod
    def count_parameters(cls, recipe: Recipe, vocabulary: int) -> ParameterCounts:
        """Sizes of the network, without building or training it."""
        sizes = {name: tensor.numel() for name, tensor in cls.build(recipe, vocabulary, meta=True).named_parameters()}
        return ParameterCounts(sum(sizes.values()), sum(sizes[name] for name in sizes if name not in cls.embeddings))

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """An array on the device."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def rows_at(self, vectors: torch.Tensor, chosen: npt.NDArray[np.bool_]) -> torch.Tensor:
        """The vectors (chosen, dim) at some places of (rows, length, dim).

        As an embedding lookup, since the backward pass of plain indexing adds in an order that depends on thread timing.
        """
        from torch.nn import functional

        return functional.embedding(self.tensor(np.flatnonzero(chosen)), vectors.flatten(0, 1))


def mean_losses(batches: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    """Nats per prediction over all batches of `Learner.held_out`."""
    return {name: float(sums[:, 0].sum() / sums[:, 1].sum()) for name, sums in batches.items()}


def learner_class(recipe: Recipe) -> type[Learner]:
    """The class that trains a recipe's kind."""
    if recipe.reads_words:
        from studies.training.lstm_learners import BilstmMlmLearner, ElmoLearner

        return ElmoLearner if recipe.kind == "elmo" else BilstmMlmLearner
    from studies.training.transformer_learners import BertLearner, BigptLearner

    return BigptLearner if recipe.kind == "bigpt" else BertLearner


def count_parameters(recipe: Recipe) -> ParameterCounts:
    """Exact number of parameters of a recipe's network, from the configuration alone (full vocabulary assumed)."""
    section = recipe.lstm or recipe.transformer
    assert section is not None
    return learner_class(recipe).count_parameters(recipe, section.vocabulary)


def arrays_of(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Any]:
    """Parameters as NumPy arrays by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors}
