"""Load a Hugging Face checkpoint as an extractor: tokenizer, network, and what there is to say about them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.devices import usable_device
from extractors.foundation.errors import JanusError, ModelError, UsageError
from extractors.huggingface.alignment import WordTokenizer
from extractors.huggingface.checkpoint import Checkpoint, find_checkpoint
from extractors.huggingface.extractor import HuggingFaceExtractor
from extractors.huggingface.network import Network
from extractors.representation import ModelInfo

if TYPE_CHECKING:
    import torch

_SENTINEL = 10**9
"""Tokenizers without a limit say 1e30."""


def load_huggingface(
    source: Path | str,
    *,
    name: str | None = None,
    note: str = "",
    device: str = "cpu",
    dtype: str = "float32",
    untrained: bool = False,
    seed: int = 0,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool | None = None,
    trust_remote_code: bool = False,
) -> HuggingFaceExtractor:
    """Load a Hugging Face encoder, decoder, or the encoder of an encoder-decoder model.

    Parameters
    ----------
    source : Path or str
        An existing folder, which is never looked up on the hub, or a Hugging Face id.
    name, note : str
        How tables call the model (default: the id or the folder's name), and what a reader must know about it.
    device, dtype, untrained, seed, revision, cache_dir, offline, trust_remote_code
        As in `extractors.load_extractor`.

    Returns
    -------
    HuggingFaceExtractor
        Ready to `extract`. Trained weights are read from safetensors only. An untrained copy is drawn in float32 on the
        CPU, so that it is the same for every device and, rounding apart, every precision; the global random state is
        left as it was.

    Raises
    ------
    ModelError
        If the checkpoint is missing, gated, incomplete, damaged, a pickle, without a fast tokenizer, or needs code of its
        own that is not trusted.
    UsageError
        For a device that is not there, or a revision of a folder.
    """
    place = usable_device(device)
    with _quiet():
        checkpoint = find_checkpoint(
            source,
            weights=not untrained,
            revision=revision,
            cache_dir=cache_dir,
            offline=offline,
            trust_remote_code=trust_remote_code,
        )
        tokenizer = _load_tokenizer(checkpoint, trust_remote_code)
        with _plain_errors(checkpoint, "the model"):
            model = _load_model(checkpoint, dtype, seed if untrained else None, trust_remote_code)
        model = model.to(place).eval()
        with _plain_errors(checkpoint, "the model"):
            words = WordTokenizer(tokenizer)
            network = Network(model, tokenizer, words.type_ids)
            layers, hidden_size, heads = _measure(network, words)
        max_pieces = _max_pieces(model, tokenizer)
        if max_pieces is not None and max_pieces <= len(words.prefix) + len(words.suffix):
            raise ModelError(f"{checkpoint.source} claims to read at most {max_pieces} pieces, too few for one word")
    info = ModelInfo(
        name=name or checkpoint.name,
        source=checkpoint.source,
        family=model.config.model_type,
        weights="untrained" if untrained else "trained",
        layer_names=("embeddings", *(f"layer {number}" for number in range(1, layers + 1))),
        hidden_size=hidden_size,
        directionality=_directionality(model.config),
        heads=heads,
        max_pieces=max_pieces,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        dtype=dtype,
        checksum="" if untrained else checkpoint.checksum(),
        revision=checkpoint.revision,
        note=note,
        masks=_has_mask(tokenizer, network),
        seed=seed if untrained else None,
    )
    return HuggingFaceExtractor(network, tokenizer, words, info)


def _load_tokenizer(checkpoint: Checkpoint, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    def load(**options: Any) -> Any:
        with _plain_errors(checkpoint, "the tokenizer"):
            return AutoTokenizer.from_pretrained(
                checkpoint.folder, local_files_only=True, trust_remote_code=trust_remote_code, **options
            )

    tokenizer = load()
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{checkpoint.source} has only a slow tokenizer ({type(tokenizer).__name__}), which cannot say which piece "
            "belongs to which word; give a model with a tokenizer.json"
        )
    if getattr(tokenizer, "add_prefix_space", None) is False:
        # Families such as RoBERTa and GPT-2 refuse pre-split words without this, and it works at load time only.
        tokenizer = load(add_prefix_space=True)
    return tokenizer


def _load_model(checkpoint: Checkpoint, dtype: str, seed: int | None, trust_remote_code: bool) -> Any:
    """Load the trained network, or draw a new one from `seed`; only the encoder of an encoder-decoder model."""
    import torch
    from transformers import AutoConfig, AutoModel

    folder = checkpoint.folder
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            model = AutoModel.from_config(config, trust_remote_code=trust_remote_code, dtype=torch.float32)
        else:
            model, report = AutoModel.from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                dtype=getattr(torch, dtype),
            )
            _refuse_missing(report["missing_keys"], checkpoint, bool(getattr(config, "is_encoder_decoder", False)))
    _cast(model, getattr(torch, dtype))
    return model.get_encoder() if getattr(config, "is_encoder_decoder", False) else model


def _cast(model: Any, dtype: torch.dtype) -> None:
    """Bring the parameters that loading left in another precision (XLNet's, all of an untrained copy) to `dtype`.

    For half precision the family's own exceptions and all buffers (rotary frequencies) stay in float32.
    """
    import torch

    if dtype == torch.float64:
        model.to(dtype)
        return
    spared = set(getattr(model, "_keep_in_fp32_modules", None) or ())
    for path, parameter in model.named_parameters():
        if parameter.is_floating_point() and not spared & set(path.split(".")):
            parameter.data = parameter.data.to(dtype)


def _refuse_missing(missing: Any, checkpoint: Checkpoint, encoder_decoder: bool) -> None:
    """Weights that a file lacks are drawn at random by transformers; only those that no layer uses may be."""
    unused = ("pooler", "position_ids", *(("decoder",) if encoder_decoder else ()))
    needed = sorted(key for key in missing if not any(part in unused for part in key.split(".")))
    if needed:
        raise ModelError(
            f"the weight file of {checkpoint.source} lacks {len(needed)} weights of the model that config.json describes "
            f"({', '.join(needed[:3])}{', ...' if len(needed) > 3 else ''}); config and weights are not of one model"
        )


def _measure(network: Network, words: WordTokenizer) -> tuple[int, int, int | None]:
    """Number of layers, dimensions and attention heads, as the model's own forward pass has them."""
    import torch

    piece = words(("a",), "the trial sentence").ids[0][0]
    row = [*words.prefix, piece, piece, piece, *words.suffix]
    before = len(words.prefix)
    types = [*words.type_ids[:before], *[words.type_ids[before]] * 3, *words.type_ids[before + 1 :]]
    device = network.model.device
    ids = torch.tensor([row], device=device)
    arguments = ids, torch.ones_like(ids), torch.tensor([types], device=device)
    states, _ = network(*arguments)
    shapes = {tuple(state.shape) for state in states}
    if len(shapes) != 1 or len(states) < 2:
        raise ModelError(
            f"models of type {network.model.config.model_type} do not give one vector of one size per piece and layer; "
            "Janus cannot read them"
        )
    heads: int | None = None
    try:
        _, maps = network(*arguments, attention=True)
        heads = int(maps[0].shape[1])
    except (UsageError, TypeError, ValueError, NotImplementedError):
        pass  # no attention (state-space models), or none that the family shows: a property, not a fault
    return len(states) - 1, int(states[0].shape[-1]), heads


def _directionality(config: Any) -> str:
    """What the configuration declares; nothing is measured here."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    if getattr(config, "is_encoder_decoder", False) or getattr(config, "use_bidirectional_attention", False):
        return "bidirectional"
    if config.model_type == "xlnet":  # a left-to-right class for generation, but both sides in every layer
        return "left-to-right" if config.attn_type == "uni" else "bidirectional"
    causal_only = (
        config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys() - MODEL_FOR_MASKED_LM_MAPPING_NAMES.keys()
    )
    causal = causal_only or getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    return "left-to-right" if causal else "bidirectional"


def _has_mask(tokenizer: Any, network: Network) -> bool:
    """Whether the tokenizer has a mask token that the network has a vector for."""
    mask = tokenizer.mask_token_id
    return isinstance(mask, int) and 0 <= mask < network.vocabulary


def _max_pieces(model: Any, tokenizer: Any) -> int | None:
    """Longest input that both the positions and the tokenizer allow; None if neither has a limit."""
    import torch

    limits = []
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its relatives count positions from behind the padding id: 514 rows are 512 pieces.
        reserved = max(
            (
                module.padding_idx + 1
                for path, module in model.named_modules()
                if path.endswith("position_embeddings")
                and isinstance(module, torch.nn.Embedding)
                and module.padding_idx is not None
            ),
            default=0,
        )
        limits.append(positions - reserved)
    if tokenizer.model_max_length < _SENTINEL:
        limits.append(int(tokenizer.model_max_length))
    return min(limits, default=None)


@contextmanager
def _plain_errors(checkpoint: Checkpoint, what: str) -> Iterator[None]:
    """A checkpoint made by strangers can fail in any way: say which one it was and what can be done."""
    try:
        yield
    except JanusError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if "trust_remote_code" in str(error):
            advice = "it needs code that comes with it: read that code, then allow it with trust_remote_code"
        else:
            advice = "the files are damaged, not of one model, or need another version of transformers"
        raise ModelError(f"cannot load {what} of {checkpoint.source}: {advice} ({reason})") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers and the hub client from printing while loading; their settings are put back afterwards."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    level, hub_level = logging.get_verbosity(), hub_logging.get_verbosity()
    bars, hub_bars = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    logging.set_verbosity_error()
    hub_logging.set_verbosity(ERROR)
    logging.disable_progress_bar()
    disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        hub_logging.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()  # enables the hub's bars too
        (enable_progress_bars if hub_bars else disable_progress_bars)()
