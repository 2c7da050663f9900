"""Context reach: how far to the left and to the right the words lie that a word's vector depends on.

Two estimators for every layer, with or without attention: replacing one context word by another (substitution), and
the Jacobian with respect to its input vector (hidden token attribution, Brunner et al. 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.contexts import ContextSet, collect_contexts
from analyses.offset_profiles import SUMMARIES, rank_agreement, summarise
from analyses.reach_units import gradient_units, plan_sentences, substitution_units
from analyses.share_components import numerical_floor
from extractors.base import Extractor, Sentence
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
Key = tuple[int, str, str]

SUBSTITUTION, GRADIENT = "substitution", "gradient"
"""The two estimators, and the conditions of their rows."""

MEASURES: dict[str, str] = {"reach_influence": "ratio", **SUMMARIES, "reach_agreement": "rank correlation"}
"""Measure -> unit."""


@dataclass(frozen=True)
class ContextReach:
    """Influence of the words around a target on its vector, of one model, by layer and part.

    Conditions: ``substitution`` (1 is as much as another context altogether), ``gradient`` (1 is as much as all context
    words together). The two are different quantities: agreement in rank is what can be asked for.
    """

    info: ModelInfo
    """The model."""
    contexts: ContextSet
    """Targets and contexts that were measured."""
    statistics: Mapping[Key, Array]
    """(layer, part, condition) -> array of shape (targets, 2 K + 3), the units of the bootstrap. Columns 0 to 2 K:
    mean squared distance, or mean Jacobian norm, at the offsets -K..K. Column 2 K + 1, the denominator: mean
    squared distance of the target's vectors in unrelated contexts, or the sum of the norms at offsets other than 0.
    Column 2 K + 2, the scale for the numerical floor: mean |h|², or the sum of all norms."""
    notes: tuple[str, ...]
    """What was left out, and what a reader must know."""
    pooling: str
    """How the pieces of a word became one vector."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over targets."""
    seed: int
    """Seed of contexts, substitutes, projections and resampling."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """-K..K in words, K the words per side of the contexts."""
        return tuple(range(-self.contexts.side, self.contexts.side + 1))

    def profile(self, layer: int, part: str = "whole", condition: str = SUBSTITUTION) -> Interval:
        """Influence by offset with 95 % intervals over targets.

        Parameters
        ----------
        layer, part, condition
            A key of `statistics`.

        Returns
        -------
        Interval
            Arrays of shape (2 K + 1,), offsets as in `offsets`; NaN where the vector does not vary with the context.
        """
        return self._interval((layer, part, condition), _profile)

    def summary(self, layer: int, part: str = "whole", condition: str = SUBSTITUTION) -> Interval:
        """Left mass, right mass, mean distance and the radii holding 50 % and 90 %, with 95 % intervals over targets.

        Parameters
        ----------
        layer, part, condition
            A key of `statistics`.

        Returns
        -------
        Interval
            Arrays of shape (5,), see `analyses.offset_profiles.summarise`; NaN as for `profile`.
        """
        return self._interval((layer, part, condition), lambda sums: summarise(_profile(sums)))

    def agreement(self, layer: int, part: str = "whole") -> Interval | None:
        """Spearman's rank correlation over offsets between the two profiles, with 95 % interval over targets.

        Influences at the numerical floor count as ties. Noise in either profile lowers the correlation, and more so in a
        resample: the interval is on the low side.

        Parameters
        ----------
        layer, part
            As for `profile`.

        Returns
        -------
        Interval or None
            Arrays of shape (1,); None if only one of the two was measured.
        """
        keys = [(layer, part, condition) for condition in (SUBSTITUTION, GRADIENT)]
        if any(key not in self.statistics for key in keys):
            return None
        both = [self.statistics[key] for key in keys]
        width = both[0].shape[1]
        floors = [self._floor(condition) for _, _, condition in keys]

        def correlation(sums: Array) -> Array:
            profiles = []
            for floor, half in zip(floors, (sums[..., :width], sums[..., width:]), strict=True):
                values = half[..., :-2]
                profiles.append(np.where(values > floor * half[..., -1:], values, 0.0))
            return rank_agreement(*profiles)

        result = bootstrap(np.concatenate(both, axis=1), correlation, resamples=self.resamples, seed=self.seed)
        return _blank(result) if any(self._undefined(key) for key in keys) else result

    def _interval(self, key: Key, function: Any) -> Interval:
        result = bootstrap(self.statistics[key], function, resamples=self.resamples, seed=self.seed)
        return _blank(result) if self._undefined(key) else result

    def _undefined(self, key: Key) -> bool:
        sums = self.statistics[key].sum(axis=0)
        return bool(sums[-2] <= self._floor(key[2]) * sums[-1])

    def _floor(self, condition: str) -> float:
        """Relative size below which a column is rounding noise: of squares for the substitution, of norms for gradients."""
        floor = numerical_floor(self.info.dtype)
        return floor if condition == SUBSTITUTION else float(np.sqrt(floor))

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number, for `extractors.foundation.results.tidy`; `length` is K."""
        rows: list[dict[str, Any]] = []

        def add(measure: str, interval: Interval, column: int, **where: Any) -> None:
            rows.append(
                {
                    **where,
                    "measure": measure,
                    "value": float(interval.value[column]),
                    "low": float(interval.low[column]),
                    "high": float(interval.high[column]),
                    "unit": MEASURES[measure],
                    "n": interval.n,
                }
            )

        for layer, part, condition in self.statistics:
            where = {**self._context(layer, part), "condition": condition}
            profile, summary = self.profile(layer, part, condition), self.summary(layer, part, condition)
            for column, offset in enumerate(self.offsets):
                add("reach_influence", profile, column, offset=offset, **where)
            for column, measure in enumerate(SUMMARIES):
                add(measure, summary, column, **where)
        for layer, part in dict.fromkeys((layer, part) for layer, part, _ in self.statistics):
            agreement = self.agreement(layer, part)
            if agreement is not None:
                add("reach_agreement", agreement, 0, **self._context(layer, part))
        return rows

    def _context(self, layer: int, part: str) -> dict[str, Any]:
        return {
            "model": self.info.name,
            "family": self.info.family,
            "weights": self.info.weights,
            "layer": layer,
            "layer_name": self.info.layer_names[layer],
            "part": part,
            "kind": "analysis",
            "data": self.data,
            "length": self.contexts.side,
            "pooling": self.pooling,
            "seed": self.seed,
        }

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def plot(self) -> Figure:
        """Substitution profiles of the whole vectors by layer, a matplotlib figure; the word itself is left out."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        condition = next(condition for _, _, condition in self.statistics)
        for layer in sorted({layer for layer, _, _ in self.statistics}):
            values = self.profile(layer, condition=condition).value.copy()
            values[self.contexts.side] = np.nan
            axes.plot(self.offsets, values, marker="o", label=f"layer {layer}")
        axes.set(xlabel="offset in words", ylabel=f"influence ({condition})", title=self.info.name)
        axes.legend()
        return figure


def context_reach(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    contexts: ContextSet | None = None,
    side: int | None = None,
    targets: int = 20,
    estimators: Sequence[str] | None = None,
    bases: int = 4,
    draws: int = 2,
    projections: int = 8,
    layers: Layers = "all",
    pooling: str = "mean",
    sentence_start: bool = True,
    batch_size: int = 32,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> ContextReach:
    """Measure how much each word around a target influences the target's vector, by offset.

    A target word stands between K words on each side in several unrelated sentences (l_i, target, r_i), so that all windows
    are full and position and target are the same; l_i and r_i are of one sentence of the corpus unless `contexts` says
    otherwise. With h_i the target's vector in context i and h_i^k that after the word at offset k was replaced by another
    word of the corpus with as many pieces (see `Substitutes`),

        substitution:  I(k) = sum_targets mean_i |h_i - h_i^k|² / sum_targets mean_{i < j} |h_i - h_j|²,

    so 1 is as much as changing everything but target and position. With J_j = d h(t) / d x_j, x_j the input vector of the
    word at offset j (the sum over its pieces; ELMo: the token layer's vector),

        gradient:      G(k) = sum_targets mean_i |J_k| / sum_targets mean_i sum_{j != 0} |J_j|,

    Frobenius norms as in Brunner et al., who divide sentence by sentence; both here are ratios of sums. Random projections
    estimate |J|² without bias; the norm is its root, jackknifed over the projections (`jackknifed_norms`): from 2 on its bias
    is below 2 %, with one projection it can be a fifth. At offset 0 they say what the word itself does, on the same
    scale; the summaries leave it out. I is what a whole word does, G what an infinitesimal step does: rank agreement is
    reported, equality not expected. Special tokens and what is outside the window do not count. Intervals: bootstrap over
    targets.

    Costs per target: one sentence for each context, `bases` * (2 K + 1) * `draws` more for the substitution; for the
    gradient `bases` sentences once forward and `projections` times backward from every layer and half.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus: for substitutes, and for contexts if none are given.
    contexts : ContextSet, optional
        Give the same set to several models to compare them. Part i on the left is paired with part i on the right: in a
        set of mode ``natural`` these are sentences of the corpus, in one of mode ``crossed`` (or ``resampled``) every base is
        spliced from two sentences, which must read as one: fit for contexts written so that any pairing does. `notes` say
        so. By default collected for this model from `sentences`, mode ``natural``, with `seed`.
    side : int, optional
        K for contexts that are collected here; left open, as long as the corpus allows.
    targets : int
        Number of targets for contexts that are collected here.
    estimators : sequence of {"substitution", "gradient"}, optional
        Default: both, or the first alone for a model that cannot be differentiated.
    bases : int
        Contexts per target in which words are replaced and gradients taken; all serve as unrelated contexts.
    draws : int
        Substitutes per word.
    projections : int
        Random projections per context and layer; 2 or more, see above.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of the target become one vector.
    sentence_start : bool
        Read `extractor.with_sentence_start()`: the first word of a model that reads nothing before it (GPT-2) would else
        serve as attention sink.
    batch_size : int
        Sentences per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of contexts, substitutes, projections and resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence.

    Returns
    -------
    ContextReach
        Profiles with intervals for each layer, part and estimator. ELMo's halves at layer 0, the same context-free vector
        twice, are left out.

    Raises
    ------
    UsageError
        For an unknown estimator, layer or pooling, a size below 1, or gradients of a model that has none.
    DataError
        If the corpus holds fewer than two targets, or `contexts` do not have constant lengths in this model's pieces.

    References
    ----------
    Brunner, Liu, Pascual, Richter, Ciaramita and Wattenhofer (2020), On identifiability in Transformers.
    """
    for label, value in (("bases", bases), ("draws", draws), ("projections", projections), ("batch_size", batch_size)):
        if value < 1:
            raise UsageError(f"{label}={value} is not possible; give at least 1")
    reader = extractor.with_sentence_start() if sentence_start else extractor
    info = reader.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    notes: list[str] = []
    wanted = _estimators(reader, estimators, notes)
    if contexts is None:
        contexts = collect_contexts([reader], sentences, side=side, targets=targets, seed=seed, mode="natural")
        notes += contexts.notes
    if contexts.mode != "natural":
        notes.append(f"the sentences join left and right parts of different ones (contexts of mode {contexts.mode})")
    if reader is not extractor:
        notes.append(f"{info.note}, as its first word would else serve as attention sink")
    planned, contexts = plan_sentences(reader, sentences, contexts, bases, draws, seed, notes)
    for note in notes:
        progress.note(f"{info.name}: {note}")

    substituted = substitution_units(
        reader, planned, chosen, pooling, batch_size, progress, only_bases=SUBSTITUTION not in wanted
    )
    statistics: dict[Key, Array] = {}
    by_condition = {SUBSTITUTION: substituted.units} if SUBSTITUTION in wanted else {}
    if GRADIENT in wanted:
        by_condition[GRADIENT] = gradient_units(
            reader, planned, substituted.vectors, chosen, pooling, projections, batch_size, seed, progress
        )
    for number, layer in enumerate(chosen):
        for part in info.parts:
            if part == "whole" or layer > 0:
                for condition, units in by_condition.items():
                    statistics[layer, part, condition] = units[part][number]
    return ContextReach(info, contexts, statistics, tuple(notes), pooling, data, resamples, seed)


def _estimators(extractor: Extractor, asked: Sequence[str] | None, notes: list[str]) -> tuple[str, ...]:
    from extractors.input_gradients import can_trace

    if asked is None:
        if can_trace(extractor):
            return SUBSTITUTION, GRADIENT
        notes.append("no gradient attribution: the model cannot be differentiated")
        return (SUBSTITUTION,)
    if isinstance(asked, str) or not asked or not set(asked) <= {SUBSTITUTION, GRADIENT}:
        raise UsageError(
            f"estimators {asked!r} are not known; give a list of {SUBSTITUTION} and {GRADIENT}, or one of them"
        )
    if GRADIENT in asked and not can_trace(extractor):
        raise UsageError(
            f"{extractor.info.name} ({extractor.info.family}) cannot be differentiated; leave {GRADIENT} out of the estimators"
        )
    return tuple(dict.fromkeys(asked))


def _profile(sums: Array) -> Array:
    """Sums of statistics (..., 2 K + 3) -> influence by offset (..., 2 K + 1)."""
    return sums[..., :-2] / sums[..., -2:-1]


def _blank(interval: Interval) -> Interval:
    missing = np.full_like(interval.value, np.nan)
    return Interval(missing, missing, missing, interval.n)
