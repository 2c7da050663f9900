"""The bidirectional LSTM masked language model as an extractor; the halves of layer 1 are one-sided, those above are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.elmo.reading import encode_sentences, prepare_words
from extractors.native import CONFIG_FILE, WEIGHTS_FILE, checksum_of, load_network, read_config
from extractors.representation import ModelInfo
from extractors.words import MASK_WORD

if TYPE_CHECKING:
    from extractors.bilstm_mlm.network import BilstmMlm


class BilstmMlmExtractor(Extractor):
    """A stacked bidirectional LSTM whose layers from the second on read both directions of the layer below.

    Layer 0 is the context-free token vector, duplicated to the width of the others. Layers 1..L hold the outputs of the
    left-to-right cells (part ``forward``) and of the right-to-left cells (part ``backward``). At layer 1 each half has read
    one side only, as in ELMo; from layer 2 on both halves have read both sides, which is the point of this model. Words are
    read as characters with the boundary words ``<S>`` and ``</S>``, exactly as by `extractors.elmo`; besides, a word spelt
    ``[MASK]`` is the masked word, whose characters are all the mask (id 0, a vector of zeros).

    Attributes
    ----------
    info : ModelInfo
        What the model is.
    config : BilstmMlmConfig
        The checked configuration.
    network : BilstmMlm
        The torch module; `network.scores` gives word scores.
    """

    def __init__(self, network: BilstmMlm, config: BilstmMlmConfig, info: ModelInfo) -> None:
        self.network = network.eval().requires_grad_(False)
        self.config = config
        self.info = info

    def with_masks(self) -> BilstmMlmExtractor:
        """The model itself, since it always reads masks."""
        return self

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        return prepare_words(words, self.config.char_cnn.max_characters_per_token)

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        import torch

        sentences = [window.payload for window in windows]
        limit = self.config.char_cnn.max_characters_per_token
        with torch.inference_mode():
            tokens, lengths = encode_sentences(self.network.tokens, sentences, limit, masked=(MASK_WORD,))
            outputs = [torch.cat([tokens, tokens], dim=-1), *self.network(tokens, lengths, depth=max(layers))]
            chosen = torch.stack([outputs[layer] for layer in layers])
            exact = torch.float64 if chosen.dtype == torch.float64 else torch.float32
            hidden = chosen.to("cpu", exact).numpy()
        return [WindowOutput(hidden[:, i, 1 : length - 1].copy()) for i, length in enumerate(lengths)]


def load_bilstm_mlm(
    folder: Path,
    *,
    name: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    untrained: bool = False,
    seed: int = 0,
) -> BilstmMlmExtractor:
    """Load a folder with ``config.json`` and ``model.safetensors``.

    Parameters
    ----------
    folder : Path
        The model folder.
    name : str, optional
        Short name for tables; default: the folder's name.
    device, dtype, untrained, seed
        As in `extractors.load_extractor`.

    Returns
    -------
    BilstmMlmExtractor
        Ready to `extract`.

    Raises
    ------
    ModelError
        If a file is missing or damaged, or they are not of one model.
    UsageError
        If device or precision cannot be had here.
    """
    config = read_config(folder, BilstmMlmConfig)

    from extractors.bilstm_mlm.network import build_network, draw_weights

    network = load_network(
        folder, build_network(config), draw_weights, device=device, dtype=dtype, untrained=untrained, seed=seed
    )
    width = config.projection_dim
    info = ModelInfo(
        name=name or folder.resolve().name,
        source=str(folder),
        family="bilstm-mlm",
        weights="untrained" if untrained else "trained",
        layer_names=("token", *(f"biLSTM {layer}" for layer in range(1, config.n_layers + 1))),
        hidden_size=2 * width,
        directionality="bidirectional",
        parts=MappingProxyType({"whole": slice(None), "forward": slice(0, width), "backward": slice(width, 2 * width)}),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        dtype=dtype,
        checksum="" if untrained else checksum_of(folder, CONFIG_FILE, WEIGHTS_FILE),
        masks=True,
        note="forward and backward halves are one-sided at layer 1 only",
        seed=seed if untrained else None,
    )
    return BilstmMlmExtractor(network, config, info)
