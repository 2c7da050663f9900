"""Two one-directional Transformers, concatenated: the shallow Transformer cell of the 2 x 2."""

from extractors.bigpt.config import MODEL_TYPE, BigptConfig
from extractors.bigpt.extractor import BigptExtractor, load_bigpt

__all__ = ["MODEL_TYPE", "BigptConfig", "BigptExtractor", "load_bigpt"]
