"""A stacked bidirectional LSTM trained as a masked language model: the deep LSTM cell of the 2 x 2."""

from extractors.bilstm_mlm.config import MODEL_TYPE, BilstmMlmConfig
from extractors.bilstm_mlm.extractor import BilstmMlmExtractor, load_bilstm_mlm

__all__ = ["MODEL_TYPE", "BilstmMlmConfig", "BilstmMlmExtractor", "load_bilstm_mlm"]
