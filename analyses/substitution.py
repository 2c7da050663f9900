"""Sentences in which one word is replaced by another word of the corpus that has as many of a model's pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from analyses.contexts import Words
from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError
from extractors.foundation.randomness import generator_for
from extractors.words import as_words

_SAMPLE = 1000
"""Corpus sentences whose words stand for the corpus."""
_TRIALS = 64
"""Words drawn from the whole corpus before the choice is narrowed to those of the right kind."""


class Substitutes:
    """Words of a corpus to put in place of others, drawn in proportion to their frequency.

    A word is replaced by a word, a punctuation mark by a punctuation mark (what holds no letter or digit is one), never by
    itself whatever its case. Only words that leave the number of pieces of every word of the sentence as it was are taken,
    so that all positions stay. For models that split the same words alike, the same seed gives the same words.

    Parameters
    ----------
    extractor : Extractor
        The model; only its alignment is used.
    sentences : sequence of str or of sequences of str
        The corpus; of more than a thousand sentences a thousand are drawn.
    seed : int
        Seed of all choices.

    Raises
    ------
    DataError
        If the corpus is empty.
    """

    def __init__(self, extractor: Extractor, sentences: Sequence[Sentence], seed: int) -> None:
        if not sentences:
            raise DataError("the corpus is empty: its words are needed to take the place of others; give sentences")
        self._extractor = extractor
        self._seed = seed
        drawn = generator_for(seed, "substitutes").permutation(len(sentences))[:_SAMPLE]
        sample = [as_words(sentences[i], where=f"sentence {i + 1}") for i in sorted(drawn)]
        self._words: list[str] = []
        self._kinds: list[tuple[bool, int]] = []
        for words, alignment in zip(sample, extractor.align(sample), strict=True):
            self._words += words
            self._kinds += [
                (_is_word(word), len(pieces)) for word, pieces in zip(words, alignment.word_pieces, strict=True)
            ]
        self._types: dict[tuple[bool, int], dict[str, None]] = defaultdict(dict)
        for word, kind in zip(self._words, self._kinds, strict=True):
            self._types[kind][word] = None

    def replace(self, words: Words, position: int, draws: int, *name: object) -> list[Words] | None:
        """Sentences with another word at `position`.

        Parameters
        ----------
        words : tuple of str
            The sentence.
        position : int
            Which word to replace, from 0.
        draws : int
            Number of sentences wanted; a word may be drawn twice.
        *name
            Names the draw: the same name and seed give the same words.

        Returns
        -------
        list of tuples of str, or None
            None if the corpus holds no word that fits.
        """
        before = self._piece_counts(words)
        kind = _is_word(words[position]), before[position]
        generator = generator_for(self._seed, "substitute", *name)
        found: list[Words] = []
        for word in self._candidates(kind, generator):
            if word.casefold() == words[position].casefold():
                continue
            sentence = (*words[:position], word, *words[position + 1 :])
            if self._piece_counts(sentence) == before:
                found.append(sentence)
                if len(found) == draws:
                    return found
        # A rare length in pieces: what there is stands for what is missing.
        return [found[i % len(found)] for i in range(draws)] if found else None

    def _candidates(self, kind: tuple[bool, int], generator: np.random.Generator) -> Iterator[str]:
        for place in generator.integers(len(self._words), size=_TRIALS):
            if self._kinds[place] == kind:
                yield self._words[place]
        types = list(self._types.get(kind, ()))
        for place in generator.permutation(len(types)):
            yield types[place]

    def _piece_counts(self, words: Words) -> list[int]:
        return [len(pieces) for pieces in next(iter(self._extractor.align([words]))).word_pieces]


def _is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)
