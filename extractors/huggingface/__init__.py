"""Hugging Face encoders and decoders as extractors: checkpoint, tokenizer alignment, network, word-level attention."""

from extractors.huggingface.extractor import HuggingFaceExtractor
from extractors.huggingface.loading import load_huggingface

__all__ = ["HuggingFaceExtractor", "load_huggingface"]
