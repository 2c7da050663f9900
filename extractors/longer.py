"""A copy of a model that reads longer inputs, for timing: its weights are drawn anew, its sizes are the same.

How long a forward pass takes does not depend on the values of the weights; how long a sentence may be depends on the rows
of the position table, which take part in no matrix product.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from extractors.base import Extractor
from extractors.foundation.errors import UsageError


def with_longer_input(extractor: Extractor, pieces: int, *, seed: int = 0) -> Extractor:
    """The same architecture and tokenizer with a position table for at least so many pieces, and untrained weights.

    Parameters
    ----------
    extractor : Extractor
        The model.
    pieces : int
        Pieces that the copy has to read in one go, special tokens included.
    seed : int
        Seed of its weights; the global random state is left as it was.

    Returns
    -------
    Extractor
        The model itself if it reads so many pieces already, else an untrained copy; `info.note` says so.

    Raises
    ------
    UsageError
        If the model is of a kind that cannot be rebuilt.
    """
    limit = extractor.info.max_pieces
    if limit is None or pieces <= limit:
        return extractor
    from extractors.bigpt.extractor import BigptExtractor
    from extractors.huggingface.extractor import HuggingFaceExtractor

    if isinstance(extractor, BigptExtractor):
        return _longer_bigpt(extractor, pieces, seed)
    if isinstance(extractor, HuggingFaceExtractor):
        return _longer_huggingface(extractor, pieces - limit, seed)
    raise UsageError(f"{extractor.info.name} ({extractor.info.family}) cannot be rebuilt for inputs of {pieces} pieces")


def _described(extractor: Extractor, pieces: int, seed: int, parameters: int) -> dict[str, object]:
    note = f"untrained copy with positions for {pieces} pieces"
    info = extractor.info
    return {
        "weights": "untrained",
        "checksum": "",
        "seed": seed,
        "max_pieces": pieces,
        "parameters": parameters,
        "note": f"{info.note}; {note}" if info.note else note,
    }


def _longer_bigpt(extractor: Extractor, pieces: int, seed: int) -> Extractor:
    from extractors.bigpt.extractor import BigptExtractor
    from extractors.bigpt.network import build_network, draw_weights

    assert isinstance(extractor, BigptExtractor)
    # A tower reads all pieces but one of the two boundaries.
    config = extractor.config.model_copy(update={"n_positions": pieces - 1})
    like = extractor.network.words.weight
    network = draw_weights(build_network(config), seed).to(device=like.device, dtype=like.dtype)
    described = _described(extractor, pieces, seed, sum(parameter.numel() for parameter in network.parameters()))
    info = replace(extractor.info, **described)  # type: ignore[arg-type]
    return BigptExtractor(network, config, extractor.tokenizer, info, overlap=extractor.overlap)


def _longer_huggingface(extractor: Extractor, more: int, seed: int) -> Extractor:
    import torch
    from transformers import AutoModel

    from extractors.huggingface.extractor import HuggingFaceExtractor
    from extractors.huggingface.network import Network

    assert isinstance(extractor, HuggingFaceExtractor)
    assert extractor.info.max_pieces is not None
    pieces = extractor.info.max_pieces + more
    model = extractor.model
    if isinstance(getattr(model.config, "max_position_embeddings", None), int):
        config = deepcopy(model.config)
        # Added to what is there: RoBERTa and its relatives keep rows in front of the first position.
        config.max_position_embeddings += more
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            drawn = AutoModel.from_config(config, dtype=torch.float32)
        encoder = drawn.get_encoder() if getattr(config, "is_encoder_decoder", False) else drawn
        # `dtype` of a model is that of its first parameter.
        model = encoder.to(device=model.device, dtype=model.dtype).eval()
    words = extractor._words
    network = Network(model, extractor.tokenizer, words.type_ids)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    described = _described(extractor, pieces, seed, parameters)
    info = replace(extractor.info, **described)  # type: ignore[arg-type]
    return HuggingFaceExtractor(network, extractor.tokenizer, words, info, overlap=extractor.overlap)
