"""Which gaps models are asked to fill, and with which words: the same gaps and candidates for all models compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from extractors.base import Sentence
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.gaps import Gap, GapFiller
from extractors.words import as_words

Words = tuple[str, ...]


@dataclass(frozen=True)
class GapSet:
    """Gaps and candidates."""

    candidates: tuple[str, ...]
    """The words to choose from, all of them one entry of every model's output vocabulary."""
    test: tuple[Gap, ...]
    """The gaps that are scored, in the order of the text. Their answers are candidates."""
    sentences: tuple[int, ...]
    """For each of these gaps the number of its sentence, from 0."""
    tuning: tuple[Gap, ...]
    """Gaps in other sentences, from which mixing weights are tuned."""
    counts: tuple[float, ...] | None
    """How often each candidate occurs in the text that unigram probabilities are taken from; None without one."""
    notes: tuple[str, ...]
    """How they were found."""


def shared_candidates(
    fillers: Sequence[GapFiller], words: Iterable[str] | None = None, *, punctuation: bool = False
) -> tuple[str, ...]:
    """Words that are one entry of the output vocabulary of every model.

    Parameters
    ----------
    fillers : sequence of GapFiller
        The models.
    words : iterable of str, optional
        Words to choose from; default: those of the first model, in the order of its vocabulary.
    punctuation : bool
        Keep words without a letter or digit too.

    Returns
    -------
    tuple of str
        In the order given. Of words that are one and the same entry of some model (``The`` and ``the`` of an uncased one)
        the first is kept.
    """
    found = list(dict.fromkeys(fillers[0].words() if words is None else words))
    found = [word for word in found if punctuation or any(map(str.isalnum, word))]
    for filler in fillers:
        first: dict[int, str] = {}
        for word, entry in zip(found, filler.entries(found), strict=True):
            if entry is not None:
                first.setdefault(entry, word)
        found = list(first.values())
    return tuple(found)


def collect_gaps(
    fillers: Sequence[GapFiller],
    sentences: Sequence[Sentence],
    *,
    tuning: Sequence[Sentence] | None = None,
    documents: Sequence[str | None] | None = None,
    candidates: int | Sequence[str] | None = None,
    counts: Mapping[str, float] | None = None,
    targets: int = 1000,
    tuning_targets: int = 500,
    seed: int = 0,
) -> GapSet:
    """Draw gaps whose words are candidates, from sentences that every model can read in one go.

    Parameters
    ----------
    fillers : sequence of GapFiller
        All models to be compared.
    sentences : sequence of str or of sequences of str
        The text.
    tuning : sequence of str or of sequences of str, optional
        Other text, for tuning. By default half of the documents of `sentences`, drawn by the seed, are kept for tuning alone
        and the gaps to be scored come from the other half. Sentences that occur in both are left out of the tuning.
    documents : sequence of str, optional
        The document of each sentence, for that; by default every sentence is one by itself.
    candidates : int or sequence of str, optional
        The candidates, or how many: of the words that all models share, the most frequent by `counts`, else the first in the
        vocabulary of the first model. Default: all that they share.
    counts : mapping of str to float, optional
        Word counts of a large text, best of that which the models were trained on.
    targets, tuning_targets : int
        Gaps at most to be scored, and to be tuned on.
    seed : int
        Of all that is drawn.

    Returns
    -------
    GapSet
        The same for the same arguments, whatever the models predict.

    Raises
    ------
    UsageError
        If a number is not positive, or the lengths of `documents` and `sentences` differ.
    DataError
        If the models share fewer than two candidates, or there are no gaps.
    """
    if targets < 1 or tuning_targets < 1:
        raise UsageError(f"targets={targets} and tuning_targets={tuning_targets} must be positive")
    chosen = _candidates(fillers, candidates, counts)
    texts = [as_words(sentence, where=f"sentence {number}") for number, sentence in enumerate(sentences, start=1)]
    notes = []
    if tuning is not None:
        other = [as_words(one, where=f"tuning sentence {number}") for number, one in enumerate(tuning, start=1)]
        numbers = list(range(len(texts)))
    else:
        numbers, kept = _halves(texts, documents, seed)
        other = [texts[number] for number in kept]
        unit = "sentences" if documents is None else "documents"
        notes.append(f"half of the {unit}, drawn by the seed, serve for tuning alone")
    scored = {texts[number] for number in numbers}
    apart = [words for words in other if words not in scored]
    if len(apart) < len(other):
        notes.append(f"{len(other) - len(apart)} tuning sentences left out: they are among those scored too")
    test, sources, refused = _draw(
        fillers, [(number, texts[number]) for number in numbers], chosen, targets, seed, "test"
    )
    tuned, _, _ = _draw(fillers, list(enumerate(apart)), chosen, tuning_targets, seed, "tuning")
    if not test or not tuned:
        raise DataError(
            f"no gaps to {'score' if not test else 'tune on'}: none of the words of {len(scored if not test else apart)} "
            f"sentences is one of {len(chosen)} candidates in a sentence that all models can read; give more text"
        )
    if refused:
        notes.append(f"{refused} gaps passed over: {refused_reason(fillers)}")
    frequencies = None if counts is None else tuple(float(counts.get(word, 0)) for word in chosen)
    return GapSet(chosen, test, sources, tuned, frequencies, tuple(notes))


def refused_reason(fillers: Sequence[GapFiller]) -> str:
    """Why gaps are passed over, for a note."""
    names = ", ".join(filler.info.name for filler in fillers if filler.info.max_pieces is not None)
    return f"sentences longer than {names or 'some model'} reads in one go, or a first word that a model cannot predict"


def _candidates(
    fillers: Sequence[GapFiller], wanted: int | Sequence[str] | None, counts: Mapping[str, float] | None
) -> tuple[str, ...]:
    if isinstance(wanted, str):
        raise UsageError(f"candidates must be a list of words or a number, got the string {wanted!r}")
    if wanted is None or isinstance(wanted, int):
        found = shared_candidates(fillers)
        if wanted is not None:
            if wanted < 2:
                raise UsageError(f"candidates={wanted} is not enough to choose from; give 2 or more")
            if counts is not None:
                found = tuple(sorted(found, key=lambda word: -counts.get(word, 0)))
            found = found[:wanted]
    else:
        found = tuple(wanted)
        for filler in fillers:
            filler.check(found)
    if len(found) < 2:
        names = ", ".join(filler.info.name for filler in fillers)
        raise DataError(f"{names} share {len(found)} candidates; at least 2 are needed: give models of one language")
    return found


def _halves(texts: Sequence[Words], documents: Sequence[str | None] | None, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of the sentences to score, and of those to tune on."""
    if documents is not None and len(documents) != len(texts):
        raise UsageError(f"{len(documents)} documents were given for {len(texts)} sentences; give one for each")
    keys: list[object] = [
        number if documents is None or documents[number] is None else documents[number] for number in range(len(texts))
    ]
    distinct = list(dict.fromkeys(keys))
    order = generator_for(seed, "cloze", "halves").permutation(len(distinct))
    kept = {distinct[number] for number in order[: len(distinct) // 2]}
    return (
        [number for number, key in enumerate(keys) if key not in kept],
        [number for number, key in enumerate(keys) if key in kept],
    )


def _draw(
    fillers: Sequence[GapFiller],
    texts: Sequence[tuple[int, Words]],
    candidates: Sequence[str],
    number: int,
    seed: int,
    name: str,
) -> tuple[tuple[Gap, ...], tuple[int, ...], int]:
    """Gaps with the numbers of their sentences, in the order of the text, and how many were passed over."""
    known = set(candidates)
    places = [
        (i, position) for i, (_, words) in enumerate(texts) for position, word in enumerate(words) if word in known
    ]
    drawn: list[tuple[int, int]] = []
    refused = 0
    for place in generator_for(seed, "cloze", name).permutation(len(places)).tolist():
        if len(drawn) == number:
            break
        i, position = places[place]
        gap = Gap(texts[i][1], position)
        if any(filler.refusal(gap) for filler in fillers):
            refused += 1
        else:
            drawn.append((i, position))
    drawn.sort()
    gaps = tuple(Gap(texts[i][1], position) for i, position in drawn)
    return gaps, tuple(texts[i][0] for i, _ in drawn), refused
