"""The variants: each a bundled recipe with a few stated fields changed, and the question that the change answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from extractors.foundation.errors import UsageError
from studies.training.recipe import Recipe, read_recipe

Change = Any | Callable[[Any], Any]
"""A field's new value, or a function that makes it from the recipe's own."""

_ROWS, _EVALUATIONS = 40, 8
"""Rows of a learning curve, and evaluations on held-out text among them."""


@dataclass(frozen=True)
class Variant:
    """A model to be trained."""

    name: str
    """Its name on the command line and its folder."""
    recipe: str
    """The bundled recipe that it changes."""
    question: str
    """What it is trained for."""
    claims: tuple[str, ...]
    """The claims of the report that it bears on."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Field of the recipe, sections joined by dots, and what it becomes; budget, name, description and seed apart."""
    seed: int = 0
    """Seed of weights, order and masks."""
    passes: int | None = None
    """Read a slice of the text so many times over; None: the text as it is."""
    untrained: bool = False
    """Export the initialised model."""
    times: float | None = 1.0
    """Its budget as a multiple of the budget of all; None: the recipe's own."""
    reference: str | None = None
    """The variant that its losses are compared with: trained on the same text, with other settings."""

    @property
    def model(self) -> str:
        """What tables call it: further seeds are told apart by the column `seed` alone."""
        return self.name.partition("-seed-")[0]

    def build(self, words: int, recipe: Recipe | None = None) -> Recipe:
        """The recipe.

        Parameters
        ----------
        words : int
            Word budget of all variants (of those that say so, a multiple of it or the recipe's own).
        recipe : Recipe, optional
            Stands in for the bundled recipe.

        Returns
        -------
        Recipe
            Checked; differs from the bundled one in `changes`, seed, name, description, budget, and how often it logs.

        Raises
        ------
        UsageError
            If a change does not fit the recipe.
        """
        values = (recipe or read_recipe(self.recipe)).model_dump()
        size = "its own budget" if self.times is None else "a small budget"
        budget = values["words"] if self.times is None else round(self.times * words)
        for path, change in self.changes.items():
            _set(values, path.split("."), change)
        values.update(
            name=self.name,
            description=f"A variant of {self.recipe} at {size}. {self.question}",
            seed=self.seed,
            words=0 if self.untrained else budget,
            log_every=max(1, budget // _ROWS),
            evaluate_every=max(1, budget // _EVALUATIONS),
            evaluate_words=5000,
            checkpoint_every=max(1, budget // 2),
        )
        return read_recipe(values)

    def slice(self, words: int) -> int | None:
        """Words of the slice of training text that it reads again and again; None: all of the text."""
        return None if self.passes is None else max(1, words // self.passes)


def _set(values: dict[str, Any], path: Sequence[str], change: Change) -> None:
    for section in path[:-1]:
        if not isinstance(values.get(section), dict):
            raise UsageError(f"the recipe has no section {section}, so {'.'.join(path)} cannot be changed")
        values = values[section]
    if path[-1] not in values:
        raise UsageError(f"the recipe has no field {'.'.join(path)}")
    values[path[-1]] = change(values[path[-1]]) if callable(change) else change


def leftward(layers: Iterable[Iterable[int]]) -> list[list[int]]:
    """Offsets of attention heads, those to the right turned to the left.

    Examples
    --------
    >>> leftward([[-1, 1, -2, 2]])
    [[-1, -1, -2, -2]]
    """
    return [[-abs(offset) for offset in row] for row in layers]


_START = "transformer.offset_heads"
_PASSES = 8


def _bert(name: str, question: str, claims: Iterable[str], changes: Mapping[str, Change], **options: Any) -> Variant:
    return Variant(
        f"bert-{name}",
        "bert-mini",
        question,
        tuple(claims),
        changes,
        **{"reference": "bert", **options},
    )


def _seeds(base: str, recipe: str) -> list[Variant]:
    return [
        Variant(
            f"{base}-seed-{seed}", recipe, "How much do the numbers of this cell vary over seeds?", ("C3",), seed=seed
        )
        for seed in (1, 2)
    ]


def _equal_time(base: str, recipe: str, seconds: float) -> Variant:
    return Variant(
        f"{base}-equal-time",
        recipe,
        "What does this cell reach in the time in which bigpt, the slowest, reads the budget?",
        ("C19",),
        times=round(_SECONDS_OF_BIGPT / seconds, 2),
    )


_SECONDS_OF_BIGPT = 246.7
"""Seconds of training that 500,000 words took `bigpt` on one core; those of the other cells stand below."""

_VARIANTS = (
    Variant(
        "bert",
        "bert-mini",
        "The deep Transformer cell: 15 % of the pieces predicted, 80/10/10, dynamic masks.",
        ("C3", "C6", "C19", "C21"),
    ),
    _bert(
        "all-masked",
        "What if every predicted piece is masked?",
        ("C6",),
        {"masks.masked": 1.0, "masks.random": 0.0},
    ),
    _bert(
        "all-random",
        "What if every predicted piece is replaced at random, and the mask is never seen?",
        ("C6",),
        {"masks.masked": 0.0, "masks.random": 1.0},
    ),
    _bert("rate-20", "Does predicting 20 % of the pieces change anything?", ("C21",), {"masks.rate": 0.20}),
    _bert("rate-40", "And 40 %?", ("C21",), {"masks.rate": 0.40}),
    _bert(
        "slice-dynamic",
        f"Masks drawn anew in each of {_PASSES} passes over a slice of the text.",
        ("C11",),
        {},
        passes=_PASSES,
        reference=None,
    ),
    _bert(
        "slice-static",
        f"The same masks in each of {_PASSES} passes over the same slice.",
        ("C11",),
        {"masks.dynamic": False},
        passes=_PASSES,
        reference="bert-slice-dynamic",
    ),
    _bert(
        "causal",
        "A masked objective without a right side: is it the mask of attention, or the objective, that mixes both sides?",
        ("C3",),
        {"transformer.causal": True, f"{_START}.layers": leftward},
    ),
    _bert("vanilla", "What does the usual initialisation reach?", ("C3",), {_START: None}),
    _bert(
        "vanilla-full",
        "Does it get there with the whole budget of the bundled model?",
        ("C3",),
        {_START: None},
        times=None,
        reference=None,
    ),
    _bert(
        "positions-alone",
        "Positions as sines and cosines, and nothing else of the positional prior.",
        ("C3",),
        {f"{_START}.layers": [], f"{_START}.word_vectors_avoid": False},
    ),
    _bert(
        "subspace-alone",
        "Word vectors that start at zero in the subspace, and nothing else of the prior.",
        ("C3",),
        {f"{_START}.layers": [], f"{_START}.position_table": False},
    ),
    _bert("no-heads", "The prior without its heads.", ("C3",), {f"{_START}.layers": []}),
    _bert(
        "no-subspace",
        "The prior with word vectors everywhere: heads and positions alone.",
        ("C3",),
        {f"{_START}.word_vectors_avoid": False},
    ),
    _bert("untrained", "What does the prior do without training?", ("C3",), {}, untrained=True),
    Variant("bilstm-mlm", "bilstm-mlm-mini", "The deep LSTM cell: stacked, masked words.", ("C3", "C14", "C19")),
    Variant(
        "bilstm-joint",
        "bilstm-mlm-mini",
        "Both directions trained jointly without masks: does it copy the word that it sees?",
        ("C14",),
        {"masks.rate": 1.0, "masks.masked": 0.0, "masks.random": 0.0},
        reference="bilstm-mlm",
    ),
    Variant("elmo", "elmo-mini", "The shallow LSTM cell: two language models, concatenated.", ("C3", "C14", "C19")),
    Variant("bigpt", "bigpt-mini", "The shallow Transformer cell: two causal towers, concatenated.", ("C3", "C19")),
    _equal_time("bert", "bert-mini", 148.4),
    _equal_time("bilstm-mlm", "bilstm-mlm-mini", 176.9),
    _equal_time("elmo", "elmo-mini", 206.6),
    *_seeds("bert", "bert-mini"),
    *_seeds("bilstm-mlm", "bilstm-mlm-mini"),
    *_seeds("elmo", "elmo-mini"),
    *_seeds("bigpt", "bigpt-mini"),
)

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in _VARIANTS}
"""Variants by name."""

SPEED = "speed"
"""The name under which the measurement of training speed is asked for."""


def select_variants(patterns: Sequence[str] | None) -> list[str]:
    """Names of variants, and `SPEED`, that match any of the patterns; all without patterns.

    Parameters
    ----------
    patterns : sequence of str, optional
        Names, or shell patterns such as ``bert-rate-*``.

    Returns
    -------
    list of str
        In the order of `VARIANTS`, `SPEED` last.

    Raises
    ------
    UsageError
        If a pattern matches nothing.
    """
    names = [*VARIANTS, SPEED]
    if patterns is None:
        return names
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"no variant is called {pattern!r}; choose from: {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
