"""What the numbers say: verdicts computed from the tidy table by stated rules, and the sentences that report them.

Nothing here is written by hand about a model: change the numbers, and the verdicts change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.definitions import measure_label
from reports.tables import Estimate, estimates, joined, named, number, pick, single, values_of

if TYPE_CHECKING:
    import pandas as pd

DELTA = 0.01
"""An interaction share that does not rise above this is not called an interaction."""

EXACT = 1e-10
"""Where the architecture makes a share exactly zero, its absolute upper bound has to be below this."""

CONTROL = "layer-normed additive"
"""The condition that holds the interaction which layer norm alone makes of purely additive features."""

ONE_SIDED = frozenset({"concatenated", "left-to-right", "right-to-left"})
"""Directionalities for which theory says that left and right never interact."""

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"

RULES = (
    f"Interaction at a layer: the lower bound of its interaction share is above {DELTA}, above the upper bound of the untrained copy at the "
    "same layer, and above that of layer norm over purely additive features (where the run has these controls; it says where not).",
    f"No interaction: the upper bound of its absolute value is below 10⁻¹⁰ where the architecture is one-directional or a "
    f"concatenation (theory says exactly 0), and below {DELTA} elsewhere.",
    "Anything else is undecided. A statement about all contextual layers (1 and up) is supported if every one of them agrees, refuted if one of "
    "them shows the opposite, and undecided otherwise.",
    "“Grows with depth”: the slope of the interaction share over the contextual layers; supported if its interval lies above 0, refuted if it lies "
    "below, undecided otherwise. Where one layer lies above the last one with its interval, the statement says so.",
    "“Above the word type” for a probe: its lower bound is above the upper bound of the word-type baseline.",
)


@dataclass(frozen=True)
class LayerVerdict:
    """Whether a share is there at one layer."""

    layer: int
    """1..L."""
    estimate: Estimate
    """The share."""
    verdict: str
    """``present``, ``none``, ``undecided`` or ``undefined``."""
    reason: str
    """Why, in a few words."""
    above: tuple[str, ...] = ()
    """Controls that a present share lies above."""
    missing: tuple[str, ...] = ()
    """Controls that were not measured."""


@dataclass(frozen=True)
class Statement:
    """One statement of the story about one model, with the number that decides it."""

    model: str
    """The model's name."""
    claim: str
    """The statement."""
    evidence: str
    """The numbers."""
    verdict: str
    """``supported``, ``refuted`` or ``undecided``."""
    reason: str
    """What decided it."""


@dataclass(frozen=True)
class ProbeSummary:
    """The best layer of a model on a task, beside the baselines."""

    task: str
    model: str
    weights: str
    part: str
    measure: str
    layer: int
    best: Estimate
    layers_above: int
    """Contextual layers whose lower bound is above the word-type baseline."""
    layers: int
    """Contextual layers with a value."""
    word_type: Estimate | None
    majority: Estimate | None
    verdict: str
    """Whether all contextual layers are above the word type; ``no baseline`` if the table has none."""


def layer_verdict(
    layer: int, share: Estimate, *, exact: bool, controls: Mapping[str, Estimate | None] | None = None
) -> LayerVerdict:
    """Decide whether a share is present at a layer.

    Parameters
    ----------
    layer : int
        The layer, 1..L.
    share : Estimate
        The share with its interval.
    exact : bool
        Whether theory says that it is exactly zero.
    controls : mapping, optional
        Name of a control -> the same share of the control at the same layer, None where it was not measured. The share has to lie
        above every one that was.
    """
    controls = controls or {}
    if not share.defined:
        return LayerVerdict(layer, share, "undefined", "no context variance to divide up")
    if not share.bounded:
        return LayerVerdict(layer, share, UNDECIDED, "no interval")
    bound = max(abs(share.low), abs(share.high))
    limit = EXACT if exact else DELTA
    if bound < limit:
        return LayerVerdict(layer, share, "none", f"|share| at most {number(bound)}, below {number(limit)}")
    if share.low > DELTA:
        bounds = {name: one.high for name, one in controls.items() if one is not None and one.bounded}
        reached = [name for name, high in bounds.items() if share.low <= high]
        if reached:
            return LayerVerdict(layer, share, UNDECIDED, f"not above {joined(reached)}")
        reason = f"lower bound above {joined([str(DELTA), *bounds])}"
        missing = tuple(name.removeprefix("the ") for name in controls if name not in bounds)
        if missing:
            reason += f"; no {joined(missing)} to compare with"
        return LayerVerdict(layer, share, "present", reason, tuple(bounds), missing)
    if exact and bound < DELTA:
        return LayerVerdict(layer, share, UNDECIDED, "small, but not an exact zero; measure it in float64")
    return LayerVerdict(layer, share, UNDECIDED, f"the interval reaches across {DELTA}")


def share_verdicts(
    results: pd.DataFrame, model: str, measure: str, *, part: str, exact: bool, controlled: bool = False
) -> list[LayerVerdict]:
    """Verdicts on a direction share at each contextual layer (1..L) of the trained model, mode ``crossed``.

    With `controlled` it has to lie above the untrained copy and the layer-normed additive control, where they were measured.
    """
    rows = pick(results, model=model, measure=measure, part=part)
    crossed = pick(rows, condition="crossed")
    untrained = estimates(pick(crossed, weights="untrained"))
    additive = estimates(pick(rows, weights="trained", condition=CONTROL))
    return [
        layer_verdict(
            layer,
            share,
            exact=exact,
            controls={"the untrained copy": untrained.get(layer), "the additive control": additive.get(layer)}
            if controlled
            else None,
        )
        for layer, share in estimates(pick(crossed, weights="trained")).items()
        if layer >= 1
    ]


def statements(results: pd.DataFrame, directionality: Mapping[str, str]) -> list[Statement]:
    """Decide the statements about directions that the table has numbers for, model by model.

    Parameters
    ----------
    results : pandas.DataFrame
        The tidy table, one row per number (seeds joined).
    directionality : mapping
        Model name -> one of the extractors' directionalities; models that are absent are held to the general rule.
    """
    shares = pick(results, measure="direction_share_interaction", condition="crossed", weights="trained")
    found: list[Statement] = []
    for model in values_of(shares, "model"):
        kind = directionality.get(model, "")
        whole = share_verdicts(
            results, model, "direction_share_interaction", part="whole", exact=kind in ONE_SIDED, controlled=True
        )
        if kind in ONE_SIDED:
            found.append(_absence(model, "Left and right do not interact in any contextual layer", whole))
        elif whole:
            found.append(_presence(model, whole))
            if len(whole) > 1:
                found.append(_growth(results, model, whole))
        onesided = [("right", "left", "forward")] * (kind == "concatenated") + [("left", "right", "backward")] * (
            kind == "concatenated"
        )
        onesided += [("right", "left", "whole")] * (kind == "left-to-right")
        onesided += [("left", "right", "whole")] * (kind == "right-to-left")
        for unseen, seen, part in onesided:
            verdicts = share_verdicts(results, model, f"direction_share_{unseen}", part=part, exact=True)
            if verdicts:
                who = "The model" if part == "whole" else f"The {part} half"
                found.append(_absence(model, f"{who} sees only the {seen} side (no {unseen} share)", verdicts))
    return found


def _layers(verdicts: list[LayerVerdict]) -> str:
    numbers = [verdict.layer for verdict in verdicts]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {numbers[0]}–{numbers[-1]}"
    return f"layer{'s' * (len(numbers) > 1)} {joined([str(layer) for layer in numbers])}"


def _absence(model: str, claim: str, verdicts: list[LayerVerdict]) -> Statement:
    usable = [verdict for verdict in verdicts if verdict.verdict != "undefined"]
    present = [verdict for verdict in usable if verdict.verdict == "present"]
    unclear = [verdict for verdict in usable if verdict.verdict == UNDECIDED]
    bounds = [max(abs(v.estimate.low), abs(v.estimate.high)) for v in usable if v.estimate.bounded]
    evidence = f"|share| at most {number(max(bounds))} over {_layers(usable)}" if bounds else "no interval"
    if present:
        return Statement(model, claim, evidence, REFUTED, f"present at {_layers(present)}")
    if not usable:
        return Statement(model, claim, evidence, UNDECIDED, "no contextual layer has a value")
    if unclear:
        return Statement(model, claim, evidence, UNDECIDED, f"{_layers(unclear)}: {unclear[0].reason}")
    return Statement(model, claim, evidence, SUPPORTED, "upper bound below 10⁻¹⁰ at every one of these layers")


def _presence(model: str, verdicts: list[LayerVerdict]) -> Statement:
    claim = "Left and right interact in every contextual layer"
    usable = [verdict for verdict in verdicts if verdict.verdict != "undefined"]
    if not usable:
        return Statement(model, claim, "no contextual layer has a value", UNDECIDED, "nothing to decide on")
    absent = [verdict for verdict in usable if verdict.verdict == "none"]
    unclear = [verdict for verdict in usable if verdict.verdict == UNDECIDED]
    smallest = min(usable, key=lambda verdict: verdict.estimate.value)
    evidence = f"smallest share {smallest.estimate}, at layer {smallest.layer}"
    if absent:
        return Statement(model, claim, evidence, REFUTED, f"none at {_layers(absent)}")
    if unclear:
        return Statement(model, claim, evidence, UNDECIDED, f"{_layers(unclear)}: {unclear[0].reason}")
    return Statement(model, claim, evidence, SUPPORTED, usable[-1].reason)


def _growth(results: pd.DataFrame, model: str, verdicts: list[LayerVerdict]) -> Statement:
    claim = "The interaction grows with depth"
    rows = pick(results, model=model, weights="trained", part="whole", condition="crossed")
    slope = single(pick(rows, measure="direction_share_interaction_slope"))
    if slope is None or not slope.bounded:
        return Statement(model, claim, "no slope with an interval", UNDECIDED, "nothing to decide on")
    usable = [verdict for verdict in verdicts if verdict.estimate.defined]
    evidence = f"slope {slope} per layer over {_layers(usable)}" if usable else f"slope {slope} per layer"
    if usable:
        last, peak = usable[-1], max(usable, key=lambda verdict: verdict.estimate.value)
        if peak.estimate.bounded and last.estimate.bounded and peak.estimate.low > last.estimate.high:
            evidence += f"; highest at layer {peak.layer}: {peak.estimate}, above the last layer's {last.estimate}"
    if slope.low > 0:
        return Statement(model, claim, evidence, SUPPORTED, "the slope's interval lies above 0")
    if slope.high < 0:
        return Statement(model, claim, evidence, REFUTED, "the slope's interval lies below 0")
    return Statement(model, claim, evidence, UNDECIDED, "the slope's interval holds 0")


def main_measure(results: pd.DataFrame, task: str) -> str | None:
    """The measure that stands for a task: span F1 for span tasks, else accuracy, else what there is."""
    rows = pick(results, kind="probe", task=task, condition=None)
    present = values_of(rows[rows["layer"].notna()], "measure")
    return next((name for name in ("span_f1", "accuracy", "macro_f1", "cross_entropy") if name in present), None)


def baseline(results: pd.DataFrame, task: str, measure: str, name: str) -> Estimate | None:
    """A baseline's score (``majority`` or ``word_type``); it has no layer and does not depend on the model."""
    return single(pick(results, kind="probe", task=task, measure=measure, probe=name, condition=None))


def probe_summaries(results: pd.DataFrame) -> list[ProbeSummary]:
    """For every task, model and part: the best layer on the task's main measure, and how it stands to the word type."""
    found = []
    for task in values_of(pick(results, kind="probe"), "task"):
        measure = main_measure(results, task)
        if measure is None:
            continue
        sign = -1.0 if measure == "cross_entropy" else 1.0
        word_type = baseline(results, task, measure, "word_type")
        majority = baseline(results, task, measure, "majority")
        rows = pick(results, kind="probe", task=task, measure=measure, condition=None)
        rows = rows[rows["layer"].notna()]
        for key, group in rows.groupby(["model", "weights", "part"], sort=False, dropna=False):
            model, weights, part = (value if isinstance(value, str) else "" for value in key)
            layers = {layer: estimate for layer, estimate in estimates(group).items() if estimate.defined}
            if not layers:
                continue
            best = max(layers, key=lambda layer: sign * layers[layer].value)
            contextual = [estimate for layer, estimate in layers.items() if layer >= 1]
            above, below = [], []
            if word_type is not None and word_type.defined:
                above = [one for one in contextual if _apart(one, word_type, sign)]
                below = [one for one in contextual if _apart(word_type, one, sign)]
            verdict = "no baseline"
            if word_type is not None and contextual:
                verdict = SUPPORTED if len(above) == len(contextual) else REFUTED if below else UNDECIDED
            found.append(
                ProbeSummary(
                    task,
                    model,
                    weights,
                    part,
                    measure,
                    best,
                    layers[best],
                    len(above),
                    len(contextual),
                    word_type,
                    majority,
                    verdict,
                )
            )
    return found


def _apart(upper: Estimate, lower: Estimate, sign: float) -> bool:
    """Whether the interval of `upper` lies wholly on the better side of that of `lower` (a missing baseline bound is its value)."""
    if not upper.bounded and not lower.bounded:
        return False
    bounds_up = (upper.low, upper.high) if upper.bounded else (upper.value, upper.value)
    bounds_low = (lower.low, lower.high) if lower.bounded else (lower.value, lower.value)
    return min(sign * bound for bound in bounds_up) > max(sign * bound for bound in bounds_low)


def summary_paragraphs(results: pd.DataFrame, directionality: Mapping[str, str]) -> list[str]:
    """The report's opening in plain words, every number computed from the table: directions, tasks, attention (plain text)."""
    groups = (_direction_sentences(results, directionality), _probe_sentences(results), _attention_sentences(results))
    paragraphs = [" ".join(sentences) for sentences in groups if sentences]
    return paragraphs or ["The table holds no measurement that this summary covers; the full table is below."]


def _direction_sentences(results: pd.DataFrame, directionality: Mapping[str, str]) -> list[str]:
    found = []
    for model in values_of(
        pick(results, measure="direction_share_interaction", condition="crossed", weights="trained"), "model"
    ):
        exact = directionality.get(model, "") in ONE_SIDED
        verdicts = share_verdicts(
            results, model, "direction_share_interaction", part="whole", exact=exact, controlled=True
        )
        usable = [verdict for verdict in verdicts if verdict.verdict != "undefined"]
        name = named(model)
        if not usable:
            found.append(f"In {name} no contextual layer has a defined interaction share.")
        elif all(verdict.verdict == "none" for verdict in usable):
            bound = max(max(abs(v.estimate.low), abs(v.estimate.high)) for v in usable)
            limit = "10⁻¹⁰" if exact else str(DELTA)
            found.append(
                f"In {name} left and right context do not interact: the interaction share is at most {number(bound)} in absolute value "
                f"at {_layers(usable)}, below {limit}{_context(results, model, usable[-1].layer)}."
            )
        else:
            found.append(_course(name, usable, _context(results, model, usable[-1].layer)))
    return _first(found, 4, "more models are in the table below")


def _context(results: pd.DataFrame, model: str, layer: int) -> str:
    """The contextual share at a layer, as an aside: shares of a tiny variance mean little."""
    rows = pick(results, model=model, weights="trained", part="whole", condition="crossed", measure="contextual_share")
    found = estimates(rows).get(layer)
    if found is None or not found.defined:
        return ""
    return f" (contextual share at layer {layer}: {number(found.value, found.unit)})"


def _course(name: str, verdicts: list[LayerVerdict], context: str) -> str:
    first, last = verdicts[0], verdicts[-1]
    if first is last:
        text = f"In {name} the interaction share at layer {first.layer} is {first.estimate}"
    else:
        verb = "goes"
        if first.estimate.bounded and last.estimate.bounded:
            if last.estimate.low > first.estimate.high:
                verb = "rises"
            elif last.estimate.high < first.estimate.low:
                verb = "falls"
        peak = max(verdicts, key=lambda verdict: verdict.estimate.value)
        by_way = ""
        if peak.estimate.bounded and last.estimate.bounded and peak.estimate.low > last.estimate.high:
            by_way = f", with its peak of {peak.estimate} at layer {peak.layer}"
        text = f"In {name} the interaction share {verb} from {first.estimate} at layer {first.layer} to {last.estimate} at layer {last.layer}{by_way}"
    present = [verdict for verdict in verdicts if verdict.verdict == "present"]
    if not present:
        return f"{text}{context}; by the rules below no layer shows an interaction for certain."
    where = "every contextual layer" if len(present) == len(verdicts) else _layers(present)
    last_present = present[-1]
    caveat = f", beyond {joined(last_present.above)}" if last_present.above else ""
    if last_present.missing:
        caveat += f" (no {joined(last_present.missing)} was measured)"
    return f"{text}{context}; left and right interact in {where}{caveat}."


def _probe_sentences(results: pd.DataFrame) -> list[str]:
    summaries = [one for one in probe_summaries(results) if one.weights == "trained" and one.part == "whole"]
    tasks = list(dict.fromkeys(one.task for one in summaries))
    found = []
    for task in tasks[:3]:
        here = [one for one in summaries if one.task == task]
        best = [f"{one.best} in {named(one.model)} (layer {one.layer})" for one in here[:4]]
        if len(here) > 4:
            best.append(f"others in {len(here) - 4} more models")
        label = measure_label(here[0].measure).lower().replace("f1", "F1")
        against = ""
        if here[0].word_type is not None and here[0].word_type.defined:
            against = (
                f"; the word alone, without context, gives {number(here[0].word_type.value, here[0].word_type.unit)}"
            )
        found.append(f"A linear probe for {named(task)} reaches {label} {joined(best)}{against}.")
    if tasks:
        found.append("The layers named are the best on the test split itself, so slightly optimistic.")
    if len(tasks) > 3:
        more = len(tasks) - 3
        found.append(f"{more} more task{'s are' if more > 1 else ' is'} below.")
    return found


def _attention_sentences(results: pd.DataFrame) -> list[str]:
    found = []
    rows = pick(results, measure="attention_distance", head=None, part="whole", weights="trained")
    for model in values_of(rows, "model"):
        plain = estimates(pick(rows, model=model, condition="plain"))
        uniform = estimates(pick(rows, model=model, condition="uniform"))
        plain = {layer: one for layer, one in plain.items() if one.defined}
        if not plain:
            continue
        near, far = (choose(plain, key=lambda layer: plain[layer].value) for choose in (min, max))
        reached = [
            f"{number(plain[layer].value, 'words')} words at layer {layer}"
            + (f" (spread evenly: {number(uniform[layer].value, 'words')})" if layer in uniform else "")
            for layer in dict.fromkeys((near, far))
        ]
        text = f"Attention in {named(model)} reaches {joined(reached)} on average"
        found.append(text + ".")
    return _first(found, 3, "more models are below")


def _first(sentences: list[str], limit: int, rest: str) -> list[str]:
    """At most `limit` sentences, and one that counts the others."""
    if len(sentences) <= limit + 1:
        return sentences
    return [*sentences[:limit], f"{len(sentences) - limit} {rest}."]
