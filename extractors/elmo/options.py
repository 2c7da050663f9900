"""The ``options.json`` of an ELMo checkpoint, checked before anything is built (Peters et al. 2018; bilm-tf).

Only what determines the network is read; what describes its training (dropout, batch size, ...) is ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from extractors.foundation.errors import ModelError

Filter = tuple[PositiveInt, PositiveInt]


class _Section(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class CharacterEmbeddingOptions(_Section):
    """Section ``char_cnn.embedding``."""

    dim: PositiveInt
    """Dimensions of a character's vector."""


class CharacterCnnOptions(_Section):
    """Section ``char_cnn``: how a word's characters become its context-free vector."""

    embedding: CharacterEmbeddingOptions
    filters: Annotated[tuple[Filter, ...], Field(min_length=1)]
    """(width in characters, number of filters), in the order of the weight file."""
    n_highway: Annotated[int, Field(ge=0)]
    """Highway layers after the convolutions; 1 in the small and medium official models, 2 in the others."""
    activation: Literal["relu", "tanh"]
    """Activation after the convolutions; highway layers always use relu."""
    n_characters: Literal[261, 262] = 262
    """256 bytes and 5 marks, with (262) or without (261, as in training) the mask; both mean the same weights."""
    max_characters_per_token: Annotated[int, Field(ge=3)] = 50
    """Characters read per word, the two marks of its ends included."""

    @model_validator(mode="after")
    def _filters_fit_words(self) -> CharacterCnnOptions:
        widest = max(width for width, _ in self.filters)
        if widest > self.max_characters_per_token:
            raise ValueError(
                f"a filter is {widest} characters wide, but words have {self.max_characters_per_token} characters"
            )
        return self

    @property
    def total_filters(self) -> int:
        """Number of filters of all widths together."""
        return sum(number for _, number in self.filters)


class LstmOptions(_Section):
    """Section ``lstm``: the two one-directional language models."""

    dim: PositiveInt
    """Cells of each LSTM."""
    projection_dim: PositiveInt
    """Dimensions of the token vector and of each direction of each layer."""
    n_layers: PositiveInt
    """Layers of each direction; 2 in all official models."""
    cell_clip: PositiveFloat | None = None
    """Cells are clipped to +- this value; None: not clipped."""
    proj_clip: PositiveFloat | None = None
    """Projected outputs are clipped to +- this value; None: not clipped."""
    use_skip_connections: bool = False
    """Whether layers from the second on add their input to their output."""


class ElmoOptions(_Section):
    """What ``options.json`` says about the network."""

    lstm: LstmOptions
    char_cnn: CharacterCnnOptions


def read_options(path: Path) -> ElmoOptions:
    """Read and check an options file.

    Parameters
    ----------
    path : Path
        The file, usually called ``..._options.json``.

    Returns
    -------
    ElmoOptions
        Unknown keys are ignored.

    Raises
    ------
    ModelError
        If the file cannot be read, is not JSON, or a field is missing or impossible; names file and field.
    """
    try:
        return ElmoOptions.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read ELMo's options file {path}: {error.strerror or error}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}" for problem in error.errors()
        )
        raise ModelError(
            f"{path} is not the options file of a character-based ELMo: {problems}; "
            "give the options.json that was published together with the weight file"
        ) from error
