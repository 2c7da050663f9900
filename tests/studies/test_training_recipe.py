"""Recipes: what is refused, and that the bundled ones are matched."""

from __future__ import annotations

from itertools import combinations
from types import ModuleType
from typing import Any

import pytest

from extractors.foundation.errors import UsageError
from studies.training.learner import count_parameters
from studies.training.recipe import bundled_recipes, read_recipe

MINIS = ("bert-mini", "bigpt-mini", "bilstm-mlm-mini", "elmo-mini")


def test_the_four_recipes_are_bundled() -> None:
    assert set(MINIS) <= set(bundled_recipes())


def test_the_four_models_are_matched_and_small() -> None:
    counts = {name: count_parameters(read_recipe(name)) for name in MINIS}
    for one, other in combinations(MINIS, 2):
        ratio = counts[one].without_embeddings / counts[other].without_embeddings
        assert 1 / 1.1 < ratio < 1.1, f"{one} / {other} = {ratio:.3f}"
    for name, count in counts.items():
        assert 2 * count.total <= 8_000_000, f"{name} does not fit 8 MB in fp16"
        assert count.without_embeddings > 2_000_000


def test_the_four_models_read_the_same_text() -> None:
    recipes = [read_recipe(name) for name in MINIS]
    assert all(recipe.text == recipes[0].text for recipe in recipes)
    assert len({(recipe.words, recipe.seed) for recipe in recipes}) == 1
    assert len({recipe.optimizer.model_copy(update={"learning_rate": 1.0}) for recipe in recipes}) == 1


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("elmo", {"lstm": None}, "needs the section lstm"),
        ("bert", {"sampled_softmax": 8}, "sampled_softmax is for the kinds that predict every unit"),
        ("bert", {"length": 400}, "exceeds text.reach"),
        ("bert", {"masks": {"masked": 0.8, "random": 0.4}}, "exceed 1"),
        ("bert", {"masks": {"rate": 0}}, "predicts nothing"),
        ("bert", {"speed": 3}, "speed"),
        ("elmo", {"words": -1}, "words"),
        ("gpt", {}, "kind"),
    ],
)
def test_impossible_recipes_are_refused_in_plain_words(
    training_examples: ModuleType, kind: str, change: dict[str, Any], said: str
) -> None:
    base = training_examples.tiny_recipe("bert" if kind == "gpt" else kind)
    with pytest.raises(UsageError, match=said):
        read_recipe({**base, "kind": kind, **change})


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("bigpt", {"offset_heads": {"frequencies": 8, "layers": [[-1, 1]]}}, "positive offsets"),
        ("bert", {"causal": True}, "positive offsets"),
        ("bigpt", {"causal": True}, "causal is for kind bert"),
        ("bert", {"n_heads": 3}, "do not divide"),
        ("bert", {"offset_heads": {"frequencies": 9, "layers": [[-1, 1]]}}, "need heads of 18"),
        ("bert", {"offset_heads": {"frequencies": 8, "layers": [[-1]]}}, "rows of 2 offsets"),
        ("bert", {"offset_heads": {"frequencies": 8, "layers": [[1, 2]], "position_table": False}}, "position_table"),
    ],
)
def test_impossible_transformers_are_refused(
    training_examples: ModuleType, kind: str, change: dict[str, Any], said: str
) -> None:
    recipe = training_examples.tiny_recipe(kind)
    recipe["transformer"].update(change)
    with pytest.raises(UsageError, match=said):
        read_recipe(recipe)


def test_an_unknown_recipe_lists_the_bundled_ones() -> None:
    with pytest.raises(UsageError, match=", ".join(MINIS)):
        read_recipe("bert-maxi")


def test_explicit_values_win() -> None:
    recipe = read_recipe("bert-mini", words=7, seed=0)
    assert (recipe.words, recipe.seed) == (7, 0)
    assert read_recipe(recipe, seed=3).seed == 3
