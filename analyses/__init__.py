"""Measurements without labels: how much of a word's vector comes from its left, its right, and from both together."""

# `direction_shares` and `attention_distance` are modules and functions of the same name: importing the functions here,
# at once, makes the name on the package the function, whichever submodule is imported later.
from analyses.attention_distance import AttentionDistance, attention_distance
from analyses.contexts import ContextSet, TargetContexts, collect_contexts
from analyses.direction_shares import DirectionShares, direction_shares
from analyses.mask_shift import MaskShift, mask_shift
from analyses.registry import ANALYSES, AnalysisInfo
from analyses.variance import VarianceComponents, two_way_effects, variance_components

__all__ = [
    "ANALYSES",
    "AnalysisInfo",
    "AttentionDistance",
    "ContextSet",
    "DirectionShares",
    "MaskShift",
    "TargetContexts",
    "VarianceComponents",
    "attention_distance",
    "collect_contexts",
    "direction_shares",
    "mask_shift",
    "two_way_effects",
    "variance_components",
]
