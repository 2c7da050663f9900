"""Which analyses exist, what each needs and gives: what ``probe analyses`` lists and a run chooses from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyses.attention_distance import MEASURES
from analyses.cloze import DIFFERENCES as CLOZE_DIFFERENCES
from analyses.cloze import MEASURES as CLOZE_MEASURES
from analyses.cloze import WEIGHT as CLOZE_WEIGHT
from analyses.context_reach import MEASURES as REACH_MEASURES
from analyses.cost import MEASURES as COST_MEASURES
from analyses.cost import TIMED as TIMED_MEASURES
from analyses.steps_to_loss import MEASURES as TRAINING_MEASURES
from extractors.representation import ModelInfo


@dataclass(frozen=True)
class AnalysisInfo:
    """An analysis that can be asked for by name."""

    name: str
    """Its name; the function of that name in `analyses` runs it."""
    description: str
    """One sentence for a list."""
    needs: str
    """What model and data must have, in plain words."""
    measures: tuple[str, ...]
    """The names in the column ``measure`` of its rows."""
    needs_attention: bool = False
    """Whether it reads attention maps."""
    needs_new_sentences: bool = False
    """Whether it composes sentences of its own, which a file of stored vectors cannot read."""

    needs_mask: bool = False
    """Whether it hides words behind the model's mask."""

    def applicable(self, info: ModelInfo, layers: Sequence[int] | None = None) -> str | None:
        """Say why the analysis cannot be run on a model; None if it can.

        Parameters
        ----------
        info : ModelInfo
            The model.
        layers : sequence of int, optional
            The layer numbers asked for; default: all.

        Returns
        -------
        str or None
            The reason, e.g. ``elmo-small (elmo) has no attention``.
        """
        if self.needs_attention and info.heads is None:
            return f"{info.name} ({info.family}) has no attention"
        if self.needs_attention and layers is not None and not any(layer > 0 for layer in layers):
            return f"layer 0 of {info.name} has no attention"
        if self.needs_new_sentences and info.family == "layer-file":
            return f"{info.name} holds stored vectors and cannot read new sentences"
        if self.needs_mask and not info.masks:
            return f"{info.name} ({info.family}) has no mask"
        return None


ANALYSES: dict[str, AnalysisInfo] = {
    analysis.name: analysis
    for analysis in (
        AnalysisInfo(
            name="direction_shares",
            description="How much of a word's contextual variance is due to its left, its right, and their interaction",
            needs="a model that can read new sentences; sentences in which some words recur (two thousand are plenty)",
            measures=(
                "direction_share_left",
                "direction_share_right",
                "direction_share_interaction",
                "direction_share_interaction_slope",
                "contextual_share",
                "interaction_gap",
                "main_effect_directionality",
                "main_effect_architecture",
                "effect_interaction",
                "mixing_onset",
            ),
            needs_new_sentences=True,
        ),
        AnalysisInfo(
            name="attention_distance",
            description="How far and to which side each attention head looks, plainly, weighted by what it reads, and over layers",
            needs="a model with attention; any sentences",
            measures=tuple(MEASURES),
            needs_attention=True,
        ),
        AnalysisInfo(
            name="mask_shift",
            description="How far a word's vector moves when the word is given as the mask, or as a random word, instead of itself",
            needs="a model with a mask that can read new sentences; any sentences",
            measures=("mask_shift",),
            needs_new_sentences=True,
            needs_mask=True,
        ),
        AnalysisInfo(
            name="context_reach",
            description="How far to the left and right the words lie that a word's vector depends on, by substitution and by gradients",
            needs="a model that can read new sentences; sentences in which some words recur (two thousand are plenty)",
            measures=tuple(REACH_MEASURES),
            needs_new_sentences=True,
        ),
        AnalysisInfo(
            name="cloze",
            description="How well gaps are filled from the left, from the right, from both predictions combined, and by one joint model",
            needs="language models with their output layer; sentences whose words are in the output vocabularies of all of them",
            measures=(*CLOZE_MEASURES, *CLOZE_DIFFERENCES, CLOZE_WEIGHT),
            needs_new_sentences=True,
        ),
        AnalysisInfo(
            name="cost",
            description="Parameters, operations, speed and memory by sentence length, what one more word costs, and how long training took",
            needs="a model that can read new sentences; any sentences, some of more than a dozen words",
            measures=(*COST_MEASURES, *TIMED_MEASURES, *TRAINING_MEASURES),
            needs_new_sentences=True,
        ),
    )
}
"""Analyses by name."""
