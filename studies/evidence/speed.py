"""Training speed over row length: LSTM against Transformer, the same number of words a step and nearly the same parameters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from extractors.foundation.bootstrap import bootstrap, ratio_of_sums
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.results import tidy
from studies.training.recipe import Recipe, read_recipe
from studies.training.source import TrainingText

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (16, 32, 64, 128, 256, 512)
"""Words of a row."""
WORDS = 1024
"""Words of a step, at every length."""
STEPS, WARM_UP = 6, 2
"""Steps that are timed, and steps before them that are not."""
RECIPES = ("elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini")


def training_speed(
    text: TrainingText,
    *,
    lengths: Sequence[int] = LENGTHS,
    words: int = WORDS,
    steps: int = STEPS,
    recipes: Mapping[str, Recipe] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Time training steps of the four kinds at several row lengths.

    A step reads `words` words in rows of one length, and does everything that a step of a training does. Rows of piece models
    have as many pieces as that many words have on average. Softmax and masks are the recipe's own, as in the first part of a
    training. Intervals: bootstrap over steps.

    Parameters
    ----------
    text : TrainingText
        Text in whole documents; some must be longer than the longest row.
    lengths : sequence of int
        Words of a row.
    words : int
        Words of a step.
    steps : int
        Steps timed at each length.
    recipes : mapping of str to Recipe, optional
        Name -> recipe; default: the four bundled ones.
    resamples, seed : int
        Of the intervals.
    progress : Progress
        Receives one unit per kind and length.

    Returns
    -------
    pandas.DataFrame
        Tidy rows of ``training_words_per_second``; `length` is in words.

    Raises
    ------
    DataError
        If no document is long enough.
    """
    chosen = recipes or {name: read_recipe(name) for name in RECIPES}
    rows = []
    with progress.task("training speed", len(chosen) * len(lengths)) as task:
        for name, recipe in chosen.items():
            for length in lengths:
                timed = _time_steps(recipe, text, length, words, steps)
                interval = bootstrap(timed, ratio_of_sums(0, 1), resamples=resamples, seed=seed)
                rows.append(
                    {
                        "model": name,
                        "family": recipe.kind,
                        "weights": "trained",
                        "kind": "training",
                        "measure": "training_words_per_second",
                        "condition": "single steps",
                        "length": length,
                        "value": float(interval.value[0]),
                        "low": float(interval.low[0]),
                        "high": float(interval.high[0]),
                        "unit": "words/s",
                        "n": interval.n,
                        "seed": recipe.seed,
                        "source": "shipped",
                    }
                )
                task.advance()
    return tidy(rows)


def _time_steps(recipe: Recipe, text: TrainingText, length: int, words: int, steps: int) -> list[tuple[float, float]]:
    """Words and seconds of each timed step."""
    from studies.training.excerpts import Reading
    from studies.training.learner import learner_class
    from studies.training.loop import optimizer_of, training_step

    units = length
    if not recipe.reads_words:
        material = text.material(recipe)
        units = round(length * len(material.training.values) / len(material.text.training.words))
    # Rows that are longer than those of the recipe need documents that are long enough.
    sized = read_recipe(
        {
            **recipe.model_dump(),
            "length": units,
            "batch": max(1, round(words / length)),
            "text": {**recipe.text.model_dump(), "excerpt": max(4, length), "reach": max(4, units, length)},
        }
    )
    learner = learner_class(sized)(text.material(sized))
    optimizer = optimizer_of(learner.network, sized.optimizer)
    reading = Reading(
        learner.material.text.training, excerpt=sized.text.excerpt, reach=sized.text.reach, seed=sized.seed
    )
    full = sized.sampled_softmax is None
    timed = []
    for step in range(WARM_UP + steps):
        rows = learner.material.training.rows(reading.take(sized.batch), sized.length)
        began = time.perf_counter()
        training_step(learner, optimizer, rows, step, full=full)
        timed.append((float(rows.words), time.perf_counter() - began))
    return timed[WARM_UP:]
