"""Measurements without labels: how much of a word's vector comes from its left, its right, and from both together."""

# `direction_shares` and `attention_distance` are modules and functions of the same name: importing the functions here,
# at once, makes the name on the package the function, whichever submodule is imported later.
from analyses.attention_distance import AttentionDistance, attention_distance
from analyses.cloze import Cloze, cloze
from analyses.configuration_cost import ConfigurationCost, configuration_cost, published_costs
from analyses.context_reach import ContextReach, context_reach
from analyses.context_variants import contexts_by_length, narrow_contexts, resample_contexts, shorten_contexts
from analyses.contexts import ContextSet, TargetContexts, collect_contexts
from analyses.cost import Cost, cost
from analyses.direction_shares import DirectionShares, direction_shares
from analyses.factorial import MainEffects, main_effects, paired_difference, spread_over_seeds
from analyses.gap_sets import GapSet, collect_gaps, shared_candidates
from analyses.mask_shift import MaskShift, mask_shift
from analyses.registry import ANALYSES, AnalysisInfo
from analyses.share_comparison import (
    ShareComparison,
    compare_shares,
    interaction_gap,
    mixing_onset,
    share_effects,
    two_by_two,
)
from analyses.share_components import NaturalStatistics, natural_statistics
from analyses.shares_by_length import SharesByLength, shares_by_length
from analyses.steps_to_loss import StepsToLoss, steps_to_loss
from analyses.surviving_states import SurvivingStates, surviving_states
from analyses.variance import VarianceComponents, two_way_effects, variance_components

__all__ = [
    "ANALYSES",
    "AnalysisInfo",
    "AttentionDistance",
    "Cloze",
    "ConfigurationCost",
    "ContextReach",
    "ContextSet",
    "Cost",
    "DirectionShares",
    "GapSet",
    "MainEffects",
    "MaskShift",
    "NaturalStatistics",
    "ShareComparison",
    "SharesByLength",
    "StepsToLoss",
    "SurvivingStates",
    "TargetContexts",
    "VarianceComponents",
    "attention_distance",
    "cloze",
    "collect_contexts",
    "collect_gaps",
    "compare_shares",
    "configuration_cost",
    "context_reach",
    "contexts_by_length",
    "cost",
    "direction_shares",
    "interaction_gap",
    "main_effects",
    "mask_shift",
    "mixing_onset",
    "narrow_contexts",
    "natural_statistics",
    "paired_difference",
    "published_costs",
    "resample_contexts",
    "share_effects",
    "shared_candidates",
    "shares_by_length",
    "shorten_contexts",
    "spread_over_seeds",
    "steps_to_loss",
    "surviving_states",
    "two_by_two",
    "two_way_effects",
    "variance_components",
]
