"""A training recipe: everything that decides the weights, as one YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from extractors.foundation.errors import UsageError

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
"""The recipes of the bundled models, ``NAME.yaml``."""

Share = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSettings(_Section):
    """How the text is divided; models to be compared must agree in all of it."""

    held_out: Annotated[float, Field(gt=0, lt=0.5)] = 0.02
    """Share of each file's words that is held out, in whole documents."""
    held_out_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of that choice; the training seed has no part in it, so that all seeds are tested on the same text."""
    excerpt: Annotated[int, Field(ge=4)] = 50
    """Words of an excerpt; one pass over the text tiles it with excerpts, each at least so far from the next."""
    reach: Annotated[int, Field(ge=4)] = 64
    """Words of its document that every excerpt is sure to have, so that pieces can fill a row too."""
    sources: dict[str, str] = {}
    """File name -> what it is, where it is from and its licence, for the card; without effect on the weights."""


class CharCnnSettings(_Section):
    """The character CNN of the LSTM kinds."""

    embedding: PositiveInt = 16
    filters: tuple[tuple[PositiveInt, PositiveInt], ...] = ((1, 16), (2, 32), (3, 64), (4, 64), (5, 64))
    n_highway: Annotated[int, Field(ge=0)] = 1
    activation: Literal["relu", "tanh"] = "relu"


class LstmSettings(_Section):
    """Sizes of the LSTM kinds."""

    projection_dim: PositiveInt
    cells: PositiveInt
    n_layers: PositiveInt = 2
    clip: PositiveFloat = 3.0
    """Clip of cells and projections, active in training and in use."""
    char_cnn: CharCnnSettings = CharCnnSettings()
    vocabulary: Annotated[int, Field(ge=4)] = 10_000
    """Words of the output vocabulary, ``<S>``, ``</S>`` and ``<UNK>`` included."""


class OffsetHeads(_Section):
    """Initialise the heads of the first layers so that each attends to one offset; a positional prior, see `offset_heads`."""

    position_table: bool = True
    """Positions as sine and cosine in a subspace of their own."""
    word_vectors_avoid: bool = True
    """Word vectors start at zero in that subspace."""
    frequencies: Annotated[int, Field(ge=1)] = 16
    """Frequencies; the subspace has twice so many dimensions."""
    sharpness: PositiveFloat = 8.0
    """Logit of the offset that a head attends to; other offsets have 0."""
    layers: tuple[tuple[int, ...], ...]
    """For each of the first layers the offset of each head, in the tower's reading order; empty: heads as usual."""


class TransformerSettings(_Section):
    """Sizes of the Transformer kinds."""

    hidden_size: PositiveInt
    n_layers: PositiveInt
    n_heads: PositiveInt
    intermediate_size: PositiveInt
    vocabulary: Annotated[int, Field(ge=32)] = 8192
    """Word pieces, the five special ones included."""
    causal: bool = False
    """``bert`` only: attention to the left alone (``is_decoder`` in the configuration), a control."""
    offset_heads: OffsetHeads | None = None

    @model_validator(mode="after")
    def _fits(self) -> TransformerSettings:
        if self.hidden_size % self.n_heads:
            raise ValueError(f"{self.n_heads} heads do not divide {self.hidden_size} dimensions")
        start = self.offset_heads
        if start is not None:
            if 2 * start.frequencies > self.hidden_size // self.n_heads:
                raise ValueError(f"{start.frequencies} frequencies need heads of {2 * start.frequencies} dimensions")
            if len(start.layers) > self.n_layers or any(len(row) != self.n_heads for row in start.layers):
                raise ValueError(f"offset_heads.layers must be at most {self.n_layers} rows of {self.n_heads} offsets")
            if start.layers and not start.position_table:
                raise ValueError("heads that attend by offset need position_table")
        return self


class MaskSettings(_Section):
    """The masked objective; without effect on ``elmo`` and ``bigpt``."""

    rate: Share = 0.15
    """Share of units that are predicted."""
    masked: Share = 0.8
    """Of these, the share that is replaced by the mask."""
    random: Share = 0.1
    """And the share that is replaced by a random unit; the rest stays as it is."""
    dynamic: bool = True
    """Draw anew each time; False: once for each place of the text, as in the first BERT."""

    @model_validator(mode="after")
    def _sums(self) -> MaskSettings:
        if self.masked + self.random > 1 + 1e-9:
            raise ValueError("masked and random together exceed 1")
        if self.rate == 0:
            raise ValueError("rate 0 predicts nothing")
        return self


class OptimizerSettings(_Section):
    """AdamW with warm-up, linear decay and gradient clipping, all by words seen."""

    learning_rate: PositiveFloat
    warmup: Share = 0.05
    """Share of the word budget over which the learning rate rises."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.01
    """On matrices only."""
    gradient_clip: PositiveFloat = 1.0
    """Largest norm of a step's gradient."""


class Recipe(_Section):
    """Everything that decides the weights."""

    kind: Literal["elmo", "bilstm-mlm", "bigpt", "bert"]
    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Seed of weights, order and masks."""
    words: Annotated[int, Field(ge=0)]
    """Word budget: words read in training; 0 exports the initialised model."""
    length: Annotated[int, Field(ge=2)]
    """Units of a row between the boundary marks: words for the LSTM kinds, pieces for the Transformer kinds."""
    batch: PositiveInt
    """Rows of a step."""
    text: TextSettings = TextSettings()
    lstm: LstmSettings | None = None
    transformer: TransformerSettings | None = None
    masks: MaskSettings = MaskSettings()
    sampled_softmax: PositiveInt | None = None
    """``elmo`` and ``bigpt``: negative units of the sampled softmax; None: full softmax throughout."""
    full_softmax_from: Share = 0.7
    """Share of the word budget after which the softmax is full."""
    optimizer: OptimizerSettings
    log_every: PositiveInt = 50_000
    """Words between rows of the log."""
    evaluate_every: PositiveInt = 250_000
    """Words between evaluations on held-out text."""
    evaluate_words: PositiveInt = 10_000
    """Held-out words of each of them (about); the last one reads all."""
    checkpoint_every: PositiveInt = 250_000
    """Words between checkpoints; without effect on the weights."""

    @model_validator(mode="after")
    def _section_of_the_kind(self) -> Recipe:
        needed, other = ("lstm", "transformer") if self.reads_words else ("transformer", "lstm")
        if getattr(self, needed) is None or getattr(self, other) is not None:
            raise ValueError(f"kind {self.kind} needs the section {needed}, and no section {other}")
        if self.length > self.text.reach:
            raise ValueError(f"length {self.length} exceeds text.reach {self.text.reach}")
        if self.sampled_softmax is not None and self.masks_units:
            raise ValueError("sampled_softmax is for the kinds that predict every unit, elmo and bigpt")
        if self.transformer is not None and self.transformer.causal and self.kind != "bert":
            raise ValueError("transformer.causal is for kind bert; bigpt is causal by construction")
        if self.transformer is not None and self.transformer.offset_heads is not None:
            causal = self.kind == "bigpt" or self.transformer.causal
            if causal and any(offset > 0 for row in self.transformer.offset_heads.layers for offset in row):
                raise ValueError("a causal tower cannot attend to positive offsets")
        return self

    @property
    def reads_words(self) -> bool:
        """Whether the units are words (LSTM kinds) or word pieces (Transformer kinds)."""
        return self.kind in ("elmo", "bilstm-mlm")

    @property
    def masks_units(self) -> bool:
        """Whether the objective is a masked one."""
        return self.kind in ("bilstm-mlm", "bert")


def read_recipe(recipe: str | Path | Mapping[str, Any] | Recipe, **changes: Any) -> Recipe:
    """Read and check a recipe.

    Parameters
    ----------
    recipe : str, Path, mapping or Recipe
        A YAML file, the name of a bundled recipe (``bert-mini``), or its content.
    **changes
        Fields that win over the recipe's; None means "not given".

    Returns
    -------
    Recipe
        The checked recipe.

    Raises
    ------
    UsageError
        If the file cannot be read, or a field is unknown or has an invalid value; every fault is listed.
    """
    if isinstance(recipe, Recipe):
        values, origin = recipe.model_dump(), "the recipe"
    elif isinstance(recipe, Mapping):
        values, origin = dict(recipe), "the recipe"
    else:
        path = _find(recipe)
        values, origin = _read_yaml(path), f"the recipe {path}"
    values.update({key: value for key, value in changes.items() if value is not None})
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'recipe'}: {fault['msg'][0].lower() + fault['msg'][1:]}"
            for fault in error.errors()
        )
        raise UsageError(f"{origin} is not valid: {faults}; valid fields: {', '.join(Recipe.model_fields)}") from error


def bundled_recipes() -> list[str]:
    """Names of the bundled recipes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def _find(recipe: str | Path) -> Path:
    path = Path(recipe).expanduser()
    bundled = RECIPES / f"{recipe}.yaml"
    if path.is_file():
        return path
    if bundled.is_file():
        return bundled
    raise UsageError(
        f"there is no recipe {recipe}; give a YAML file or one of the bundled recipes {', '.join(bundled_recipes())}"
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"the recipe {path} cannot be read as YAML: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UsageError(f"the recipe {path} must be a mapping; valid fields: {', '.join(Recipe.model_fields)}")
    return cast("dict[str, Any]", content)
