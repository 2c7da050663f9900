"""What ``config.json`` says about a bidirectional LSTM masked language model."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from extractors.elmo.options import CharacterCnnOptions

MODEL_TYPE: Literal["janus-bilstm-mlm"] = "janus-bilstm-mlm"


class BilstmMlmConfig(BaseModel):
    """The network, in the terms of ELMo's ``options.json``."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_type: Literal["janus-bilstm-mlm"] = MODEL_TYPE
    char_cnn: CharacterCnnOptions
    """How a word's characters become its context-free vector; as in ELMo."""
    projection_dim: PositiveInt
    """Dimensions of the token vector and of each direction of each layer."""
    cells: PositiveInt
    """Cells of each LSTM."""
    n_layers: PositiveInt = 2
    """Layers; from the second on both directions read both directions of the layer below."""
    cell_clip: PositiveFloat | None = 3.0
    """Cells are clipped to +- this value."""
    proj_clip: PositiveFloat | None = 3.0
    """Projected outputs are clipped to +- this value."""
    use_skip_connections: bool = True
    """Whether layers from the second on add their input to their output."""
    vocabulary: PositiveInt
    """Words of the output vocabulary (``vocabulary.txt``, one a line)."""
