"""The sections of the page that hold figures: their order, titles and what a reader must know before looking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section of figures."""

    name: str
    """Its `id`, and what a figure names."""
    title: str
    lead: str
    """Plain text."""
    limit: str = ""
    """What its numbers do not show, for the list of limits; plain text."""


_ALL = (
    Section(
        "directions",
        "Direction shares",
        "How much of what the context does to a word’s vector comes from its left side alone, from its right side alone, and from the "
        "two together. A concatenation of two one-directional models can only add; interaction takes a layer that reads both sides.",
        "Shares divide up the contextual part of a vector. Where the contextual share is small they describe little.",
    ),
    Section(
        "conjunction",
        "Two cues at once",
        "Whether a linear reader finds, in the vector of the word between them, what only a left and a right cue together say. All four "
        "combinations of the cues come equally often. Then whether the two cues differ (their parity) cannot be read "
        "linearly from two one-sided summaries side by side, whatever they hold.",
        "The sentences with two cues are made by rule, in English.",
    ),
    Section(
        "gaps",
        "Filling gaps",
        "How well the word in a gap is predicted from the left, from the right, from both predictions combined, and by a model that "
        "reads both sides at once.",
        "Gaps are scored among words that all models have; rarer words are not asked for.",
    ),
    Section(
        "reach",
        "Context reach",
        "How far away the words lie that a word’s vector depends on, and on which side.",
    ),
    Section(
        "neighbours",
        "Neighbours in the vector",
        "What can be read about the words around a word from its own vector. Bits are not access: a language model is trained to predict "
        "the next word, so its forward half tells of a word that it has not read.",
    ),
    Section(
        "masks",
        "Masks",
        "How far a word’s vector moves when the word is hidden by the mask, or another word stands in its place.",
    ),
    Section(
        "tasks",
        "Probes",
        "How well a linear classifier reads a label from the vectors of each layer, beside what it could do without the model.",
        "A probe shows what can be read from a vector, not what the model uses.",
    ),
    Section(
        "attention",
        "Attention",
        "How far away and to which side attention looks, between words.",
        "Attention weights show where a head looks, not how much of what it finds there it uses.",
    ),
    Section(
        "cost",
        "Cost",
        "What the models take to run.",
    ),
)

SECTIONS: dict[str, Section] = {section.name: section for section in _ALL}
"""Sections by name, in the order of the page."""
