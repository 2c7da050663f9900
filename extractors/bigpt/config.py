"""What ``config.json`` says about a pair of causal Transformers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, model_validator

MODEL_TYPE: Literal["janus-bigpt"] = "janus-bigpt"
DIRECTIONS = ("forward", "backward")
"""The left-to-right tower and the right-to-left tower."""


class BigptConfig(BaseModel):
    """The network: two towers of the same size that share word and position vectors and nothing else."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_type: Literal["janus-bigpt"] = MODEL_TYPE
    vocab_size: PositiveInt
    """Word pieces."""
    hidden_size: PositiveInt
    """Dimensions of each tower."""
    n_layers: PositiveInt
    """Blocks of each tower."""
    n_heads: PositiveInt
    """Attention heads of each block."""
    intermediate_size: PositiveInt
    """Dimensions between the two linear maps of a block's feed-forward part."""
    n_positions: PositiveInt
    """Pieces that a tower reads at most, the boundary piece it starts from included."""
    layer_norm_eps: PositiveFloat = 1e-5

    @model_validator(mode="after")
    def _heads_divide(self) -> BigptConfig:
        if self.hidden_size % self.n_heads:
            raise ValueError(f"{self.n_heads} heads do not divide {self.hidden_size} dimensions")
        return self
