"""Captions and text alternatives of the figures: what is to be seen in them, with numbers computed from the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analyses.direction_shares import MIX, NORMED_MIX
from reports.definitions import measure_label
from reports.tables import Estimate, estimates, joined, named, number, pick, shortened, single, values_of

if TYPE_CHECKING:
    import pandas as pd

_DIRECTIONS = ("left", "right", "interaction")


def share_caption(
    part: pd.DataFrame, models: Sequence[str], *, control: bool, mixes: pd.DataFrame, onsets: pd.DataFrame
) -> str:
    """Caption of a direction-share figure: the top layer of every model, its mixing onset and mixes, and what the marks mean."""
    tops, mixed = [], []
    for model in models:
        rows = pick(part, model=model, part="whole", weights="trained")
        curve = _defined(estimates(pick(rows, measure="direction_share_interaction")))
        if not curve:
            continue
        top = max(curve)
        context = estimates(pick(rows, measure="contextual_share")).get(top)
        text = f"{named(model)} layer {top}: interaction {curve[top]}"
        if context is not None and context.defined:
            text += f", of a contextual share of {context}"
        onset = single(pick(onsets, model=model, part="whole"))
        if onset is not None:
            text += f", mixing onset at layer {onset.value:g}" if onset.defined else ", no mixing onset"
        tops.append(text)
        found = [
            single(pick(mixes, model=model, part="whole", condition=name, measure="direction_share_interaction"))
            for name in (MIX, NORMED_MIX)
        ]
        said = [str(one) for one in found if one is not None and one.defined]
        if len(said) == len(found):
            mixed.append(f"{named(model)} {said[0]}, layer-normed {said[1]}")
    lead = f"At the top layer: {'; '.join(tops)}. " if tops else ""
    right = (
        f" Right of the upright line: the scalar mix of all layers, and of layer-normed layers (LN); interaction: {'; '.join(mixed)}."
        if mixed
        else ""
    )
    counts = sorted({int(n) for n in part["n"].dropna()})
    targets = f" n = {_span(counts)} targets." if counts else ""
    marks = "; dashed, with open markers: the untrained copy" if "untrained" in values_of(part, "weights") else ""
    marks += "; dotted: what layer norm makes of purely additive features" if control else ""
    missing = part[part["value"].isna()]
    gaps = (
        " Hatched: undefined, because the vectors at that layer do not vary with the context (a gap, not a zero)."
        if not missing.empty
        else ""
    )
    return (
        f"{lead}Upper row: the three shares, which add up to 1. Middle row: the same with intervals{marks}. "
        f"Bottom row: how much of the vector's squared distance from the corpus mean is due to the context.{right}{gaps}{targets}"
    )


def share_alt(part: pd.DataFrame, model: str, half: str) -> str:
    """Text alternative of one direction-share panel: the shares at the first and last defined layer."""
    rows = pick(part, model=model, part=half, weights="trained")
    if rows.empty:
        rows = pick(part, model=model, part=half)
    curves = {name: _defined(estimates(pick(rows, measure=f"direction_share_{name}"))) for name in _DIRECTIONS}
    layers = sorted({layer for curve in curves.values() for layer in curve})
    what = f"Direction shares by layer of {named(model)}" + ("" if half == "whole" else f", {half} half")
    if not layers:
        return f"{what}: undefined at every layer."
    ends = []
    for layer in dict.fromkeys((layers[0], layers[-1])):
        shares = [f"{name} {number(curve[layer].value)}" for name, curve in curves.items() if layer in curve]
        ends.append(f"layer {layer}: {', '.join(shares)}")
    return f"{what}. {'; '.join(ends)}."


def task_caption(rows: pd.DataFrame, task: str, measures: Sequence[str]) -> str:
    """Caption of a task figure: best layers, baselines, and what the lines mean."""
    main = measures[0]
    bests = []
    found = pick(rows, measure=main, part="whole", weights="trained")
    found = found[found["layer"].notna()]
    for model in values_of(found, "model"):
        best = _best(estimates(pick(found, model=model)), main)
        if best:
            bests.append(f"{named(model)} {best[1]} at layer {best[0]}")
    text = f"{measure_label(main)} on {named(task)}"
    if bests:
        text += f", best layers: {'; '.join(bests)} (chosen on this same split, so slightly optimistic)"
    text += "."
    lines = [
        f"{label} {number(one.value, one.unit)}"
        for name, label in (("majority", "majority"), ("word_type", "word type"))
        if (one := single(pick(rows, measure=main, probe=name))) is not None and one.defined
    ]
    if lines:
        text += f" Horizontal lines: {joined(lines)}."
    untrained = pick(rows, measure=main, weights="untrained", part="whole")
    untrained = untrained[untrained["layer"].notna()]
    if not untrained.empty:
        best_copies = []
        for model in values_of(untrained, "model"):
            best = _best(estimates(pick(untrained, model=model)), main)
            if best:
                best_copies.append(f"{named(model)} {number(best[1].value, best[1].unit)}")
        text += f" Dashed, open markers: untrained copies, at best {joined(best_copies)}."
    if "selectivity" in measures:
        text += " Second panel: accuracy minus that on the control task (selectivity)."
    counts = sorted({int(n) for n in found["n"].dropna()})
    return (
        text
        + (f" n = {_span(counts)} test sentences or documents." if counts else "")
        + " The vertical axes do not start at 0."
    )


def task_alt(rows: pd.DataFrame, task: str, measure: str, labels: Mapping[str, str]) -> str:
    """Text alternative of one task panel: each model's first, best and last layer."""
    parts = []
    for model, label in labels.items():
        curve = _defined(estimates(pick(rows, measure=measure, model=model, weights="trained", part="whole")))
        best = _best(curve, measure)
        if best:
            first, last = min(curve), max(curve)
            parts.append(
                f"{label}: {number(curve[first].value)} at layer {first}, best {number(best[1].value)} at layer {best[0]}, "
                f"{number(curve[last].value)} at layer {last}"
            )
    return f"{measure_label(measure)} on {shortened(task, 60)} by layer. {'; '.join(parts)}."


def attention_caption(rows: pd.DataFrame) -> str:
    """Caption of an attention figure: the extreme heads, how many look nearer than uniform attention, and the sides."""
    plain = pick(rows, condition="plain", weights="trained")
    heads = pick(plain, measure="attention_distance").dropna(subset=["head", "value"])
    uniform = pick(rows, condition="uniform", measure="attention_distance", weights="trained").dropna(
        subset=["head", "value"]
    )
    text = ""
    if not heads.empty:
        ordered = heads.sort_values("value", kind="stable")
        (near, far) = ((single(row), row.iloc[0]) for row in (ordered.head(1), ordered.tail(1)))
        text += (
            f"Of {len(heads)} heads the nearest looks {near[0]} words away (layer {near[1]['layer']}, head {near[1]['head']}), the "
            f"farthest {far[0]} (layer {far[1]['layer']}, head {far[1]['head']})."
        )
        compared = heads.merge(uniform, on=["layer", "head"], suffixes=("", "_uniform"))
        if not compared.empty:
            nearer = int((compared["high"] < compared["low_uniform"]).sum())
            text += (
                f" Attention spread evenly over the same sentences looks up to {number(float(compared['value_uniform'].max()), 'words')} words away; "
                f"{nearer} of {len(compared)} heads look nearer than that, intervals apart."
            )
    left, right = (
        _defined(estimates(pick(plain, measure=f"attention_mass_{side}", head=None, part="whole")))
        for side in ("left", "right")
    )
    if left and right:
        top = max(left)
        if top in right:
            text += f" At layer {top}, {left[top]} of the attention between words goes left and {right[top]} right."
    entropies = [
        _defined(estimates(pick(one, measure="attention_entropy", head=None, part="whole")))
        for one in (plain, pick(rows, condition="uniform", weights="trained"))
    ]
    if entropies[0]:
        top = max(entropies[0])
        text += f" The entropy of attention, in bits, is {entropies[0][top]} at layer {top}"
        text += f" (spread evenly: {entropies[1][top]})." if top in entropies[1] else "."
    return (
        text
        + " Heat maps: one cell per head, layers from bottom to top; the two masses share one scale from 0 to 1, the distance scale is the same for "
        "all models. Layer means: dotted lines are the baseline of uniform attention."
    ).strip()


def attention_alt(rows: pd.DataFrame, measure: str) -> str:
    """Text alternative of an attention panel: its layer means from the first to the last layer."""
    curve = _defined(
        estimates(pick(rows, condition="plain", weights="trained", measure=measure, head=None, part="whole"))
    )
    means = ", ".join(f"layer {layer} {number(one.value, one.unit)}" for layer, one in curve.items())
    return f"{measure_label(measure)} by layer and head" + (f". Layer means: {means}." if means else ".")


def _defined(curve: Mapping[int, Estimate]) -> dict[int, Estimate]:
    return {layer: one for layer, one in curve.items() if one.defined}


def _best(curve: Mapping[int, Estimate], measure: str) -> tuple[int, Estimate] | None:
    curve = _defined(curve)
    if not curve:
        return None
    sign = -1.0 if measure == "cross_entropy" else 1.0
    layer = max(curve, key=lambda one: sign * curve[one].value)
    return layer, curve[layer]


def _span(counts: Sequence[int]) -> str:
    return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
