"""The pair of causal Transformers as an extractor: both towers side by side, halves addressable at every layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.bigpt.config import DIRECTIONS, BigptConfig
from extractors.foundation.errors import ModelError
from extractors.huggingface.alignment import WordTokenizer, divide_into_windows
from extractors.huggingface.attention import output_factors, value_norms
from extractors.huggingface.reduction import PLAIN, batch_word_maps
from extractors.native import CONFIG_FILE, WEIGHTS_FILE, checksum_of, load_network, read_config
from extractors.pooling import pool_pieces
from extractors.representation import AttentionMaps, FloatArray, ModelInfo

if TYPE_CHECKING:
    import torch

    from extractors.bigpt.network import Bigpt

TOKENIZER_FILE = "tokenizer.json"
_TURNED = {"first": "last", "last": "first"}


class BigptExtractor(Extractor):
    """A left-to-right and a right-to-left causal Transformer, concatenated.

    Layer l holds layer l of the forward tower (part ``forward``) and of the backward tower (part ``backward``). Layer 0 is word
    vector plus position vector; positions count in each tower's reading order, so that the backward half of layer 0 depends
    on how many pieces follow. The last layer is each tower's own final layer norm. The forward tower reads ``[CLS]`` and the
    pieces, the backward tower ``[SEP]`` and the pieces in reverse, each sentence from its own end.

    Pooling works within each half, in the order in which its tower reads: with ``last`` the vector of a word is the last piece
    that each tower reads (the word's first piece for the backward tower), at which the tower has read the whole word.

    Attention maps hold the heads of the forward tower and then those of the backward tower (`info.head_parts`), both in the order
    of the text. Each tower's boundary piece counts as a special token.

    Attributes
    ----------
    info : ModelInfo
        What the model is.
    config : BigptConfig
        The checked configuration.
    network : Bigpt
        The torch module; `network.scores` gives word-piece scores.
    tokenizer : transformers.PreTrainedTokenizerFast
        Its word-piece tokenizer.
    overlap : float
        Share of a window that is read again by the next one, for sentences beyond the longest input.
    """

    def __init__(
        self, network: Bigpt, config: BigptConfig, tokenizer: Any, info: ModelInfo, *, overlap: float = 0.5
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.config = config
        self.tokenizer = tokenizer
        self.info = info
        self.overlap = overlap
        self._words = WordTokenizer(tokenizer)
        if len(self._words.prefix) != 1 or len(self._words.suffix) != 1:
            raise ModelError(f"the tokenizer of {info.source} must put one boundary piece on each side of a sentence")

    def attention_gap(self, variant: str) -> str | None:
        """None: each tower gives its own rollout, and norm-weighted maps of its heads."""
        return None

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        capacity = self.config.n_positions - 1
        sentence = self._words(words, where, capacity)
        lengths = [len(ids) for ids in sentence.ids]
        windows = []
        for span in divide_into_windows(lengths, capacity, overlap=self.overlap):
            ids = [piece for word in sentence.ids[span.start : span.stop] for piece in word]
            payload = (np.array(ids), np.array(lengths[span.start : span.stop]))
            windows.append(Window(span.start, span.stop, span.keep, len(ids) + 1, payload))
        return Prepared(sentence.alignment, tuple(windows))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        import torch

        longest = max(window.length for window in windows)
        lengths = torch.from_numpy(np.concatenate([window.payload[1] for window in windows]))
        halves: list[FloatArray] = []
        maps: list[list[dict[str, AttentionMaps]]] = []
        for direction, boundary in zip(DIRECTIONS, (self._words.prefix, self._words.suffix), strict=True):
            forward = direction == "forward"
            ids = np.zeros((len(windows), longest), dtype=np.int64)
            ids[:, 0] = boundary
            places = []
            for row, window in enumerate(windows):
                pieces = window.payload[0]
                ids[row, 1 : window.length] = pieces if forward else pieces[::-1]
                read = np.arange(1, window.length)
                places.append(row * longest + (read if forward else read[::-1]))
            device = self.network.words.weight.device
            chosen = torch.from_numpy(np.concatenate(places)).to(device)
            how = pooling if forward else _TURNED.get(pooling, pooling)
            seen = _Observed(self.network.tower(direction).blocks, "norm-weighted" in self.attention_variants)
            with torch.inference_mode():
                states = self.network(
                    torch.from_numpy(ids).to(device),
                    direction,
                    depth=max(layers),
                    observer=seen.add if attention else None,
                )
                pooled = [pool_pieces(states[layer].flatten(0, 1)[chosen], lengths.to(device), how) for layer in layers]
            halves.append(torch.stack(pooled).cpu().numpy())
            if attention:
                maps.append(
                    batch_word_maps(
                        seen.maps,
                        seen.norms,
                        layers,
                        [_owners(window, forward) for window in windows],
                        heads=self.config.n_heads,
                        dtype=self.info.dtype,
                        variants=self.attention_variants,
                    )
                )
        hidden = np.concatenate(halves, axis=-1)
        stops = np.cumsum([window.stop - window.start for window in windows])
        vectors = [part.copy() for part in np.split(hidden, stops[:-1], axis=1)]
        if not attention:
            return [WindowOutput(part) for part in vectors]
        outputs = []
        for part, *towers in zip(vectors, *maps, strict=True):
            both = {name: _side_by_side([tower[name] for tower in towers]) for name in towers[0]}
            plain = both.pop(PLAIN)
            outputs.append(WindowOutput(part, plain.words, plain.special, both))
        return outputs


class _Observed:
    """Attention maps of a tower's blocks, and the norms of what its heads read if asked for, as a forward pass goes by."""

    def __init__(self, blocks: Iterable[Any], norms: bool) -> None:
        self.maps: list[torch.Tensor] = []
        self.norms: list[torch.Tensor] = []
        self._factors = [output_factors(block.mix.weight.T, block.heads) for block in blocks] if norms else []

    def add(self, weights: torch.Tensor, values: torch.Tensor) -> None:
        if self._factors:
            self.norms.append(value_norms(values, self._factors[len(self.norms)]))
        self.maps.append(weights)


def _owners(window: Window, forward: bool) -> npt.NDArray[np.int64]:
    """The word of each piece in a tower's reading order, -1 for the boundary piece."""
    words = np.repeat(np.arange(window.stop - window.start), window.payload[1])
    return np.concatenate([[-1], words if forward else words[::-1]])


def _side_by_side(towers: Sequence[AttentionMaps]) -> AttentionMaps:
    words = np.concatenate([tower.words for tower in towers], axis=1)
    return AttentionMaps(words, np.concatenate([tower.special for tower in towers], axis=1))


def load_bigpt(
    folder: Path,
    *,
    name: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    untrained: bool = False,
    seed: int = 0,
) -> BigptExtractor:
    """Load a folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

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
    BigptExtractor
        Ready to `extract`.

    Raises
    ------
    ModelError
        If a file is missing or damaged, or they are not of one model.
    UsageError
        If device or precision cannot be had here.
    """
    config = read_config(folder, BigptConfig)

    from extractors.bigpt.network import build_network, draw_weights

    tokenizer = _load_tokenizer(folder, config)
    network = load_network(
        folder, build_network(config), draw_weights, device=device, dtype=dtype, untrained=untrained, seed=seed
    )
    width = config.hidden_size
    info = ModelInfo(
        name=name or folder.resolve().name,
        source=str(folder),
        family="bigpt",
        weights="untrained" if untrained else "trained",
        layer_names=("embeddings", *(f"layer {layer}" for layer in range(1, config.n_layers + 1))),
        hidden_size=2 * width,
        directionality="concatenated",
        parts=MappingProxyType({"whole": slice(None), "forward": slice(0, width), "backward": slice(width, 2 * width)}),
        heads=2 * config.n_heads,
        head_parts=MappingProxyType(
            {"forward": slice(0, config.n_heads), "backward": slice(config.n_heads, 2 * config.n_heads)}
        ),
        max_pieces=config.n_positions + 1,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        dtype=dtype,
        checksum="" if untrained else checksum_of(folder, CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE),
        seed=seed if untrained else None,
    )
    return BigptExtractor(network, config, tokenizer, info)


def _load_tokenizer(folder: Path, config: BigptConfig) -> Any:
    from transformers import PreTrainedTokenizerFast

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise ModelError(f"there is no {TOKENIZER_FILE} in {folder}; copy the tokenizer's file beside config.json")
    try:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), unk_token="[UNK]", pad_token="[PAD]")
    except Exception as error:  # the tokenizers library raises bare Exception for files that it cannot read
        raise ModelError(f"{path} cannot be read as a tokenizer ({error}); fetch the folder again") from error
    if len(tokenizer) > config.vocab_size:
        raise ModelError(
            f"the tokenizer in {folder} has {len(tokenizer)} pieces, but the model has {config.vocab_size} word vectors; "
            "tokenizer and weights are not of one model"
        )
    return tokenizer
