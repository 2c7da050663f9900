"""Cloze: how well a gap is filled from the left, from the right, from both predictions combined, and by one joint model.

Two one-directional models can only be combined after the fact, each blind to what the other has read; a masked language model
reads both sides at once. Both are asked for the same words among the same candidates (cloze: Taylor 1953).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.factorial import CELLS, MainEffects, main_effects, mean_of_units, paired_difference
from analyses.gap_mixes import mixed, normalised, prediction_sums, refitted_weights, tuned_weights, weight_units
from analyses.gap_sets import GapSet, collect_gaps
from analyses.share_comparison import two_by_two
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.gaps import BACKWARD, FORWARD, JOINT, Gap, GapFiller, gap_filler
from extractors.representation import ModelInfo

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

UNIGRAM, PRODUCT, MIX = "unigram", "product", "tuned mix"
CONDITIONS = (UNIGRAM, FORWARD, BACKWARD, PRODUCT, MIX, JOINT)
"""What a prediction is made from; see `cloze`."""

MEASURES = {"cloze_nats": "nats", "cloze_top1": "proportion", "cloze_reciprocal_rank": "reciprocal rank"}
"""Measure -> unit, in the order of the columns of `ModelCloze.sums`."""
DIFFERENCES = {f"{measure}_difference": unit for measure, unit in MEASURES.items()}
WEIGHT = "cloze_mix_weight"

_INGREDIENTS = (FORWARD, BACKWARD, UNIGRAM)
_STARTS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, -1), (0.5, 0.5, 0))
"""Forward alone, backward alone, the unigram, the corrected product, the geometric mean."""
_GAPS_AT_ONCE = 1000


@dataclass(frozen=True)
class ModelCloze:
    """What one model scored."""

    info: ModelInfo
    """The model."""
    conditions: tuple[str, ...]
    """What was predicted from, of `CONDITIONS`."""
    sums: Array
    """Sums over the gaps of each sentence, shape (sentences, conditions, 3): nats, answers ranked first, reciprocal ranks."""
    weights: tuple[float, float, float] | None
    """Weights of forward, backward and unigram log-probabilities in the tuned mix; None without two directions."""
    weight_units: Array | None
    """What intervals of the weights are computed from, by sentence of the tuning text; see `analyses.gap_mixes.weight_units`."""
    tuning_nats: Mapping[str, float]
    """Nats per gap on the tuning text, for two directions; empty else."""
    note: str
    """How the probability of a word is defined, where that needs saying."""

    @property
    def best(self) -> str:
        """The condition that makes use of all the model has read: joint, else the tuned mix, else forward."""
        return next(name for name in (JOINT, MIX, FORWARD) if name in self.conditions)


@dataclass(frozen=True)
class Cloze:
    """Cloze scores of one or more models on the same gaps and candidates; see `cloze`."""

    models: tuple[ModelCloze, ...]
    """What each model scored."""
    gaps: GapSet
    """What they were asked."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over sentences."""
    seed: int
    """Seed of the gaps and of the resampling."""

    @property
    def notes(self) -> tuple[str, ...]:
        """How gaps were found, and what a reader must know."""
        unigrams = (
            "unigram probabilities are each model's own mean prediction over the tuning gaps, as no word counts were given"
            if self.gaps.counts is None
            else "unigram probabilities are from word counts, one added to each"
        )
        of_models = [f"{model.info.name}: {model.note}" for model in self.models if model.note]
        size = f"{len(self.gaps.test)} gaps, {len(self.gaps.tuning)} to tune on, {len(self.gaps.candidates)} candidates"
        return (size, *self.gaps.notes, unigrams, *dict.fromkeys(of_models))

    @property
    def per_sentence(self) -> Array:
        """Number of gaps of each sentence that has any, shape (sentences,)."""
        return np.unique(np.array(self.gaps.sentences), return_counts=True)[1].astype(np.float64)

    def units(self, model: str | int, condition: str | None = None, measure: str = "cloze_nats") -> Array:
        """Sum and number of gaps of each sentence, shape (sentences, 2), for `analyses.factorial`.

        Parameters
        ----------
        model : str or int
            Its name (the trained one, if both are there), or its number in `models`.
        condition : str, optional
            One of its conditions; default: its best.
        measure : str
            One of `MEASURES`.

        Raises
        ------
        UsageError
            If there is no such model, condition or measure.
        """
        found = self._found(model)
        condition = found.best if condition is None else condition
        if condition not in found.conditions:
            raise UsageError(
                f"{found.info.name} was not asked for {condition!r}; choose from {', '.join(found.conditions)}"
            )
        if measure not in MEASURES:
            raise UsageError(f"measure {measure!r} is unknown; choose from {', '.join(MEASURES)}")
        column = found.sums[:, found.conditions.index(condition), tuple(MEASURES).index(measure)]
        return np.stack([column, self.per_sentence], axis=1)

    def _found(self, name: str | int) -> ModelCloze:
        if isinstance(name, int):
            return self.models[name]
        named = [model for model in self.models if model.info.name == name]
        if not named:
            raise UsageError(
                f"there is no model {name!r} here; choose from {', '.join(model.info.name for model in self.models)}"
            )
        return min(named, key=lambda model: model.info.weights != "trained")

    def interval(self, model: str | int, condition: str | None = None, measure: str = "cloze_nats") -> Interval:
        """A score per gap with its 95 % interval over sentences; parameters as for `units`."""

        def mean(sums: Array) -> Array:
            return mean_of_units(sums)[..., None]

        return bootstrap(self.units(model, condition, measure), mean, resamples=self.resamples, seed=self.seed)

    def difference(
        self,
        model: str | int,
        reference: str | int,
        *,
        condition: str | None = None,
        reference_condition: str | None = None,
        measure: str = "cloze_nats",
    ) -> Interval:
        """Score of a model minus that of another on the same gaps, with a paired 95 % interval over sentences.

        Parameters
        ----------
        model, reference : str or int
            Models, see `units`; they may be the same.
        condition, reference_condition : str, optional
            Conditions; by default each model's best.
        measure : str
            One of `MEASURES`. Nats below 0 say that `model` is better.
        """
        pair = self.units(model, condition, measure), self.units(reference, reference_condition, measure)
        return paired_difference(*pair, mean_of_units, resamples=self.resamples, seed=self.seed)

    def mix_weights(self, model: str | int) -> Interval:
        """Weights of forward, backward and unigram in a model's tuned mix, with 95 % intervals over sentences of the tuning text.

        In every bootstrap sample the mix is refitted by one Newton step (`analyses.gap_mixes.refitted_weights`).

        Parameters
        ----------
        model : str or int
            See `units`.

        Raises
        ------
        UsageError
            If there is no such model, or it has no mix.
        """
        found = self._found(model)
        if found.weights is None or found.weight_units is None:
            raise UsageError(f"{found.info.name} has no tuned mix: it does not predict from two sides apart")
        weights = found.weights

        def refitted(sums: Array) -> Array:
            return refitted_weights(weights, sums)

        return bootstrap(found.weight_units, refitted, resamples=self.resamples, seed=self.seed)

    def effects(self) -> MainEffects | None:
        """Main effects of directionality and architecture on nats, each model at its best; None without a trained 2 x 2."""
        trained = [i for i, model in enumerate(self.models) if model.info.weights == "trained"]
        cells = two_by_two([self.models[i].info for i in trained])
        if cells is None:
            return None
        units = {cell: self.units(trained[cells[cell]]) for cell in CELLS}
        return main_effects(units, mean_of_units, resamples=self.resamples, seed=self.seed)

    def joined(self, other: Cloze) -> Cloze:
        """Both results in one, if they are of the same gaps, e.g. found by two processes.

        Raises
        ------
        UsageError
            If gaps or candidates differ.
        """
        if self.gaps != other.gaps:
            raise UsageError("the results are not of the same gaps; give cloze the same gaps for both")
        return Cloze((*self.models, *other.models), self.gaps, self.data, self.resamples, self.seed)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`.

        Scores by model and condition; the weights of tuned mixes, with the ingredient as condition and the number of sentences
        tuned on as `n`; differences between the
        best conditions of two models, of which `reference` names the second: a joint model minus a pair where there are both,
        else the later model minus the earlier one; main effects where there is a 2 x 2.
        """
        rows: list[dict[str, Any]] = []
        for number, model in enumerate(self.models):
            for condition in model.conditions:
                for measure, unit in MEASURES.items():
                    estimate = self.interval(number, condition, measure)
                    rows.append(self._row(model, condition, measure, unit, estimate))
            if model.weights is not None:
                weights = self.mix_weights(number)
                for i, ingredient in enumerate(_INGREDIENTS):
                    rows.append(self._row(model, ingredient, WEIGHT, "weight", weights, i))
        for first, second in self._pairs():
            for measure, unit in DIFFERENCES.items():
                estimate = self.difference(first, second, measure=measure.removesuffix("_difference"))
                row = self._row(self.models[first], self.models[first].best, measure, unit, estimate)
                rows.append({**row, "reference": self.models[second].info.name})
        effects = self.effects()
        if effects is not None:
            shared = {"weights": "trained", "part": "whole", "data": self.data, "seed": self.seed}
            rows += effects.rows(task="cloze_nats", unit="nats", **shared)
        return rows

    def _pairs(self) -> list[tuple[int, int]]:
        pairs = []
        for second in range(len(self.models)):
            for first in range(second + 1, len(self.models)):
                one, other = self.models[first], self.models[second]
                if one.info.weights == other.info.weights:
                    turned = other.best == JOINT and one.best != JOINT
                    pairs.append((second, first) if turned else (first, second))
        return pairs

    def _columns(self, model: ModelCloze) -> dict[str, Any]:
        return {
            "model": model.info.name,
            "family": model.info.family,
            "weights": model.info.weights,
            "part": "whole",
            "kind": "analysis",
            "data": self.data,
            "seed": self.seed,
        }

    def _row(
        self, model: ModelCloze, condition: str, measure: str, unit: str, estimate: Interval, place: int = 0
    ) -> dict[str, Any]:
        return {
            **self._columns(model),
            "measure": measure,
            "condition": condition,
            "value": float(estimate.value[place]),
            "low": float(estimate.low[place]),
            "high": float(estimate.high[place]),
            "unit": unit,
            "n": estimate.n,
        }

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Nats per gap by model and condition with intervals, a matplotlib figure; less is better."""
        from matplotlib.figure import Figure

        lines = [(model, condition) for model in self.models for condition in model.conditions]
        figure = Figure(figsize=(6, 0.8 + 0.28 * len(lines)), layout="constrained")
        axes = figure.add_subplot()
        for place, (model, condition) in enumerate(lines):
            estimate = self.interval(self.models.index(model), condition)
            colour = f"C{self.models.index(model) % 10}"
            axes.plot([estimate.low[0], estimate.high[0]], [place, place], color=colour)
            axes.plot(estimate.value, [place], "o", color=colour)
        axes.set_yticks(range(len(lines)), labels=[f"{model.info.name}, {condition}" for model, condition in lines])
        axes.invert_yaxis()
        axes.set_xlabel("nats per gap")
        return figure


def cloze(
    models: Extractor | GapFiller | Sequence[Extractor | GapFiller],
    sentences: Sequence[Sentence] | None = None,
    *,
    gaps: GapSet | None = None,
    tuning: Sequence[Sentence] | None = None,
    documents: Sequence[str | None] | None = None,
    candidates: int | Sequence[str] | None = None,
    counts: Mapping[str, float] | None = None,
    targets: int = 1000,
    tuning_targets: int = 500,
    exact_ends: int | None = 16,
    batch_size: int = 64,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> Cloze:
    """Measure how well models fill gaps in text.

    With L and R the words to the left and right of the gap in its sentence, w a candidate, and all distributions renormalised
    over the candidates:

        unigram         P(w)
        forward         P(w | L)                 of a left-to-right model
        backward        P(w | R)                 of a right-to-left model
        product         proportional to P(w | L) P(w | R) / P(w): exact if L and R are independent given w
        tuned mix       proportional to P(w | L)^a P(w | R)^b P(w)^c, a, b and c tuned on other text
        joint           P(w | L, R)              of a masked language model

    Each model is asked for what it has (`extractors.gaps`). Nats per gap are the mean of -log P(answer), lower is better;
    top-1 is the share of gaps whose answer is the likeliest candidate; the reciprocal rank is the mean of 1 / rank of the answer.
    Candidates are words that are one entry of every model's output vocabulary, so that word and word-piece models choose from
    the same. A left-to-right model over word pieces must also say that the word ends (see `extractors.gaps.gap_filler`); a
    right-to-left one sees its beginning in the piece; a masked one sees both ends.

    P(w) comes from `counts`, with one added to each count; without them it is each model's own mean prediction over its sides
    and the tuning gaps.

    Parameters
    ----------
    models : Extractor, GapFiller or sequence of them
        What to measure.
    sentences : sequence of str or of sequences of str, optional
        The text; leave it out if `gaps` are given.
    gaps : GapSet, optional
        Gaps found before, by `collect_gaps` for all models that are to be compared.
    tuning, documents, candidates, counts, targets, tuning_targets
        As for `collect_gaps`.
    exact_ends : int, optional
        As for `extractors.gaps.gap_filler`.
    batch_size : int
        Gaps per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Of the gaps drawn and of the resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per gap.

    Returns
    -------
    Cloze
        Scores with intervals over sentences, and paired differences between models.

    Raises
    ------
    UsageError
        If a model has no output layer, there is no model, or not exactly one of `sentences` and `gaps` is given.
    DataError
        If there are no gaps, or a candidate is not one entry of some model's vocabulary.

    References
    ----------
    Taylor (1953), "Cloze procedure"; Devlin et al. (2019), section 3.1, on why two directions are not trained in one.
    """
    given = [models] if isinstance(models, Extractor | GapFiller) else list(models)
    if not given:
        raise UsageError("there is no model to measure; give at least one")
    if (sentences is None) == (gaps is None):
        raise UsageError("give either sentences or gaps found in them before, not both")
    fillers = [one if isinstance(one, GapFiller) else gap_filler(one, exact_ends=exact_ends) for one in given]
    if gaps is None:
        assert sentences is not None
        gaps = collect_gaps(
            fillers,
            sentences,
            tuning=tuning,
            documents=documents,
            candidates=candidates,
            counts=counts,
            targets=targets,
            tuning_targets=tuning_targets,
            seed=seed,
        )
    found = tuple(_measure(filler, gaps, batch_size, progress) for filler in fillers)
    return Cloze(found, gaps, data, resamples, seed)


def _measure(filler: GapFiller, gaps: GapSet, batch_size: int, progress: Progress) -> ModelCloze:
    number = {word: i for i, word in enumerate(gaps.candidates)}

    def answers(asked: Sequence[Gap]) -> npt.NDArray[np.int64]:
        return np.array([number[gap.answer] for gap in asked])

    def predict(asked: Sequence[Gap]) -> dict[str, Array]:
        found = filler.log_probabilities(asked, gaps.candidates, batch_size=batch_size, progress=progress)
        return {side: normalised(values) for side, values in found.items()}

    pair = FORWARD in filler.sides and BACKWARD in filler.sides
    tuned = predict(gaps.tuning) if pair or gaps.counts is None else {}
    if gaps.counts is None:
        unigram = normalised(np.logaddexp.reduce(np.concatenate(list(tuned.values())), axis=0))
    else:
        unigram = normalised(np.log(np.array(gaps.counts) + 1))
    weights: tuple[float, float, float] | None = None
    units: Array | None = None
    tuning_nats: dict[str, float] = {}
    if pair:
        ingredients = [tuned[FORWARD], tuned[BACKWARD], unigram]
        right = answers(gaps.tuning)
        a, b, c = tuned_weights(ingredients, right, starts=_STARTS).tolist()
        weights = (a, b, c)
        places = {words: i for i, words in enumerate(dict.fromkeys(gap.words for gap in gaps.tuning))}
        units = weight_units(ingredients, right, weights, np.array([places[gap.words] for gap in gaps.tuning]))
        predictions = _predictions(tuned, unigram, weights, len(right))
        tuning_nats = {name: float(prediction_sums(p, right)[:, 0].mean()) for name, p in predictions.items()}
    parts = []
    for first in range(0, len(gaps.test), _GAPS_AT_ONCE):
        asked = gaps.test[first : first + _GAPS_AT_ONCE]
        predictions = _predictions(predict(asked), unigram, weights, len(asked))
        parts.append(np.stack([prediction_sums(p, answers(asked)) for p in predictions.values()], axis=1))
    by_gap = np.concatenate(parts)
    _, place = np.unique(np.array(gaps.sentences), return_inverse=True)
    sums = np.zeros((int(place.max()) + 1, *by_gap.shape[1:]))
    np.add.at(sums, place, by_gap)
    return ModelCloze(filler.info, tuple(predictions), sums, weights, units, tuning_nats, filler.note)


def _predictions(
    sides: Mapping[str, Array], unigram: Array, weights: tuple[float, float, float] | None, number: int
) -> dict[str, Array]:
    """Normalised log-probabilities (gaps, candidates) by condition, in the order of `CONDITIONS`."""
    found = {UNIGRAM: np.broadcast_to(unigram, (number, len(unigram))), **sides}
    if weights is not None:
        ingredients = [sides[FORWARD], sides[BACKWARD], unigram]
        found[PRODUCT] = mixed(ingredients, (1, 1, -1))
        found[MIX] = mixed(ingredients, weights)
    return {name: found[name] for name in CONDITIONS if name in found}
