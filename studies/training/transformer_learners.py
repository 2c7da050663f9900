"""The two Transformer cells of the 2 x 2 in training: a pair of GPTs (Radford et al.) and BERT (Devlin et al. 2019). Imports torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from extractors.bigpt.config import DIRECTIONS, BigptConfig
from extractors.bigpt.network import Bigpt, Block
from extractors.bigpt.network import build_network as build_bigpt
from extractors.bigpt.network import draw_weights as draw_bigpt
from extractors.foundation.files import written_whole
from extractors.native import write_model
from studies.training.cross_entropy import SampledCrossEntropy, linear_cross_entropy
from studies.training.excerpts import Rows
from studies.training.learner import Learner, Material
from studies.training.masks import Masks
from studies.training.offset_heads import initialise
from studies.training.recipe import Recipe
from studies.training.vocabulary import CLS, MASK, PAD, PIECE_SPECIALS, SEP, write_tokenizer

_TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]


class BigptLearner(Learner):
    """Each tower predicts the next piece in its reading order; the loss is the mean of the two."""

    network: Bigpt
    embeddings = ("words.weight", "positions.weight")

    def __init__(self, material: Material, *, device: str = "cpu") -> None:
        super().__init__(material, device=device)
        # The text holds no boundary or mask pieces, but unknown characters.
        never = np.isin(np.arange(len(material.vocabulary)), [PAD, CLS, SEP, MASK])
        self._sampled = SampledCrossEntropy(material.unigram(), never, seed=self.recipe.seed)

    @staticmethod
    def build(recipe: Recipe, vocabulary: int, *, meta: bool = False) -> Bigpt:
        """See `Learner.build`."""
        network = build_bigpt(bigpt_config(recipe, vocabulary))
        if meta:
            return network
        network = draw_bigpt(network, recipe.seed)
        assert recipe.transformer is not None
        start = recipe.transformer.offset_heads
        if start is not None:
            words, positions = network.words.weight, network.positions.weight
            scale = words.std().item()
            for direction in DIRECTIONS:
                blocks = [block for block in network.tower(direction).blocks if isinstance(block, Block)]
                heads = [(block.query, block.key) for block in blocks]
                initialise(start, words=words, positions=positions, heads=heads, deviation=scale)
        return network

    def _tops(self, rows: Rows) -> tuple[Tensor, Tensor]:
        tops, targets = [], []
        for direction, edge in zip(DIRECTIONS, (CLS, SEP), strict=True):
            pieces = rows.units if direction == "forward" else rows.units[:, ::-1]
            read = np.concatenate([np.full((len(pieces), 1), edge), pieces[:, :-1]], axis=1)
            tops.append(self.network(self.tensor(read), direction)[-1].flatten(0, 1))
            targets.append(self.tensor(pieces).flatten())
        return torch.cat(tops), torch.cat(targets)

    def loss(self, rows: Rows, step: int, *, full: bool) -> Tensor:
        """See `Learner.loss`."""
        top, targets = self._tops(rows)
        weight, number = self.network.words.weight, self.recipe.sampled_softmax
        if full or number is None:
            return linear_cross_entropy(top, weight, None, targets)
        return self._sampled(top, weight, None, targets, number=number, step=step)

    def nats(self, rows: Rows, masks: Masks | None, name: str) -> tuple[float, int]:
        """See `Learner.nats`."""
        top, targets = self._tops(rows)
        return float(functional.cross_entropy(self.network.scores(top), targets, reduction="sum")), len(targets)

    def export(self, folder: Path, *, precision: str = "float16") -> list[str]:
        """``config.json``, ``model.safetensors`` and the tokenizer."""
        config = bigpt_config(self.recipe, len(self.material.vocabulary))
        write_model(folder, config, self.network.state_dict(), getattr(torch, precision))
        write_tokenizer(self.material.tokenizer, folder, config.n_positions + 1)
        return ["config.json", "model.safetensors", *_TOKENIZER_FILES]


def bigpt_config(recipe: Recipe, vocabulary: int) -> BigptConfig:
    """The configuration of a recipe's pair of towers; they read the boundary piece and `length` - 1 pieces."""
    sizes = recipe.transformer
    assert sizes is not None
    return BigptConfig(
        vocab_size=vocabulary,
        hidden_size=sizes.hidden_size,
        n_layers=sizes.n_layers,
        n_heads=sizes.n_heads,
        intermediate_size=sizes.intermediate_size,
        n_positions=recipe.length,
    )


class BertLearner(Learner):
    """A plain `BertForMaskedLM`; scores are computed at the predicted pieces only."""

    embeddings = (
        "bert.embeddings.word_embeddings.weight",
        "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight",
        "cls.predictions.bias",
    )

    @staticmethod
    def build(recipe: Recipe, vocabulary: int, *, meta: bool = False) -> Any:
        """See `Learner.build`."""
        from transformers import BertForMaskedLM

        config = bert_config(recipe, vocabulary)
        if meta:
            with torch.device("meta"):
                return BertForMaskedLM(config)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(recipe.seed)
            model = BertForMaskedLM(config)
        assert recipe.transformer is not None
        start = recipe.transformer.offset_heads
        if start is not None:
            embeddings = model.bert.embeddings
            words = embeddings.word_embeddings.weight
            initialise(
                start,
                words=words,
                positions=embeddings.position_embeddings.weight,
                heads=[(layer.attention.self.query, layer.attention.self.key) for layer in model.bert.encoder.layer],
                others=[embeddings.token_type_embeddings.weight],
                deviation=words.std().item(),
            )
        return model

    def _scores(self, rows: Rows, masks: Masks, step: int | str) -> tuple[Tensor, Tensor]:
        masked = masks(rows, step)
        special = len(PIECE_SPECIALS)
        chosen = special + (masked.draw * (len(self.material.vocabulary) - special)).astype(np.int64)
        pieces = np.where(masked.hidden, MASK, np.where(masked.replaced, chosen, rows.units))
        framed = np.pad(pieces, ((0, 0), (1, 1)))
        framed[:, 0], framed[:, -1] = CLS, SEP
        network: Any = self.network
        hidden = network.bert(input_ids=self.tensor(framed)).last_hidden_state[:, 1:-1]
        return network.cls(self.rows_at(hidden, masked.predicted)), self.tensor(rows.units[masked.predicted])

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
        """``config.json``, ``model.safetensors`` and the tokenizer, as `save_pretrained` lays them out."""
        from safetensors.torch import save

        network: Any = self.network
        # Tied weights are stored once; transformers ties them again when it reads the folder.
        dtype = getattr(torch, precision)
        stored = {name: tensor.detach().cpu().to(dtype).contiguous() for name, tensor in network.named_parameters()}
        with written_whole(folder / "model.safetensors") as temporary:
            temporary.write_bytes(save(stored, metadata={"format": "pt"}))
        # The configuration names the precision to compute in, not that of the file: readers shall use float32 by default.
        content = {**network.config.to_diff_dict(), "architectures": ["BertForMaskedLM"], "torch_dtype": "float32"}
        content.pop("dtype", None)
        with written_whole(folder / "config.json") as temporary:
            temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        write_tokenizer(self.material.tokenizer, folder, self.recipe.length + 2)
        return ["config.json", "model.safetensors", *_TOKENIZER_FILES]


def bert_config(recipe: Recipe, vocabulary: int) -> Any:
    """The configuration of a recipe's BERT: no dropout, as many positions as it is trained on."""
    from transformers import BertConfig

    sizes = recipe.transformer
    assert sizes is not None
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.n_layers,
        num_attention_heads=sizes.n_heads,
        intermediate_size=sizes.intermediate_size,
        max_position_embeddings=recipe.length + 2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        is_decoder=sizes.causal,
        use_cache=False,
    )
