"""Per-layer representations of ELMo, BERT and their relatives: words in, vectors (and attention) out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extractors.base import Extractor
    from extractors.foundation.errors import JanusError
    from extractors.gaps import PairGapFiller
    from extractors.layers import select_layers
    from extractors.registry import KNOWN_MODELS, load_extractor
    from extractors.representation import Alignment, ModelInfo, SentenceRepresentation
    from extractors.store import RepresentationStore, write_store
    from extractors.words import split_words

_HOMES = {
    "Alignment": "extractors.representation",
    "Extractor": "extractors.base",
    "JanusError": "extractors.foundation.errors",
    "KNOWN_MODELS": "extractors.registry",
    "ModelInfo": "extractors.representation",
    "PairGapFiller": "extractors.gaps",
    "RepresentationStore": "extractors.store",
    "SentenceRepresentation": "extractors.representation",
    "load_extractor": "extractors.registry",
    "select_layers": "extractors.layers",
    "split_words": "extractors.words",
    "write_store": "extractors.store",
}

__all__ = [
    "KNOWN_MODELS",
    "Alignment",
    "Extractor",
    "JanusError",
    "ModelInfo",
    "PairGapFiller",
    "RepresentationStore",
    "SentenceRepresentation",
    "load_extractor",
    "select_layers",
    "split_words",
    "write_store",
]


def __getattr__(name: str) -> Any:
    """Load a public name where it lives, on first use, so that importing the package stays cheap."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
