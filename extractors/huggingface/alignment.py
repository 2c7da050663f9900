"""Words to pieces by the tokenizer's own word numbers on pre-split input, and windows over long sentences.

Every word is tokenised as the tokenizer would inside running text: tokenizers whose pieces carry the space before a
word (GPT-2, RoBERTa, Qwen...) see every word, the first included, with that space. Text that looks like a special token
(``[SEP]``) is ordinary text, unless it is itself an entry of the vocabulary of a sentencepiece model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from extractors.foundation.errors import AlignmentError, ModelError
from extractors.representation import Alignment
from extractors.words import MASK_WORD

_PROBES = ("the", "a", "1", "of")


@dataclass(frozen=True)
class WordPieces:
    """A sentence in pieces, special tokens apart."""

    alignment: Alignment
    """Words and pieces, special tokens included."""
    ids: tuple[tuple[int, ...], ...]
    """Piece ids of each word."""


class WordTokenizer:
    """Tokenises words and knows the special tokens around a sentence.

    Attributes
    ----------
    prefix, suffix : tuple of int
        Ids of the special tokens before and after a sentence: ``[CLS]`` and ``[SEP]`` for BERT, nothing for GPT-2, ``<sep>
        <cls>`` after the sentence for XLNet.
    type_ids : tuple of int
        Segment id of each prefix token, of all words, and of each suffix token, as the tokenizer's template has them.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._unknown: int | None = tokenizer.unk_token_id
        self._mask: int | None = None
        self._space = ""
        self._reset()
        self.prefix, self.suffix, self.type_ids = self._template()
        self._edges = self._tokens_of(self.prefix), self._tokens_of(self.suffix)
        self._space = " " if self._space_belongs_to_words() else ""

    def __call__(self, words: Sequence[str], where: str, longest: int | None = None) -> WordPieces:
        """Tokenise a sentence.

        Parameters
        ----------
        words : sequence of str
            Words, none of them empty.
        where : str
            How an error calls the sentence.
        longest : int, optional
            Pieces at most that the model reads in one go.

        Returns
        -------
        WordPieces
            At least one piece for every word, at most `longest`: a word that the tokenizer maps to nothing, or to more than
            the model reads (a line of asterisks, say), is its unknown token.

        Raises
        ------
        AlignmentError
            If there is no unknown token for such a word, or a word is not valid Unicode.
        """
        ids: list[list[int]] = [[] for _ in words]
        tokens: list[list[str]] = [[] for _ in words]
        encoding = self._encode(words, where)
        for piece, token, word in zip(encoding.ids, encoding.tokens, encoding.word_ids, strict=True):
            ids[word].append(piece)
            tokens[word].append(token)
        if self._mask is not None:
            for position, word in enumerate(words):
                if word == MASK_WORD:
                    ids[position], tokens[position] = [self._mask], list(self._tokens_of([self._mask]))
        most = max(map(len, ids), default=0) if longest is None else longest
        replaced = tuple(position for position, pieces in enumerate(ids) if not 0 < len(pieces) <= most)
        for position in replaced:
            if self._unknown is None:
                word = f"{where}: word {position + 1} ({words[position][:40]!r})"
                if not ids[position]:
                    raise AlignmentError(
                        f"{word} has no pieces and the tokenizer has no unknown token to stand for it; remove the word from the "
                        "input, together with its label"
                    )
                raise AlignmentError(
                    f"{word} has {len(ids[position])} pieces, the model reads at most {most}, and the tokenizer has no unknown token "
                    "to stand for it; shorten or remove the word, together with its label"
                )
            ids[position] = [self._unknown]
            tokens[position] = [self._tokenizer.convert_ids_to_tokens(self._unknown)]
        before, after = self._edges
        pieces = [*before, *(token for word_tokens in tokens for token in word_tokens), *after]
        positions, start = [], len(before)
        for word_ids in ids:
            positions.append(tuple(range(start, start + len(word_ids))))
            start += len(word_ids)
        alignment = Alignment(tuple(words), tuple(pieces), tuple(positions), replaced)
        return WordPieces(alignment, tuple(map(tuple, ids)))

    def starting_with(self, token: int) -> WordTokenizer:
        """The same tokenizer with one more special token before every sentence, in the segment of the words."""
        other = copy(self)
        other.prefix = (token, *self.prefix)
        other.type_ids = (self.type_ids[len(self.prefix)], *self.type_ids)
        other._edges = self._tokens_of(other.prefix), self._edges[1]
        return other

    def reading_mask(self, token: int) -> WordTokenizer:
        """The same tokenizer to which the word `MASK_WORD` is the special token of that id."""
        other = copy(self)
        other._mask = token
        return other

    def _tokens_of(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._tokenizer.convert_ids_to_tokens(list(ids)))

    def _encode(self, words: Sequence[str], where: str) -> Any:
        self._reset()
        texts = [word if word.startswith(" ") else self._space + word for word in words]
        try:
            return self._backend.encode(texts, is_pretokenized=True, add_special_tokens=False)
        except (TypeError, UnicodeError) as error:
            for position, word in enumerate(words, start=1):
                try:
                    word.encode("utf-8")
                except UnicodeError:
                    raise AlignmentError(
                        f"{where}: word {position} ({word!r}) is not valid Unicode; repair the encoding of the input"
                    ) from error
            raise

    def _reset(self) -> None:
        """Undo what the tokenizer's file or another caller has set: the backend is shared with `tokenizer`."""
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True

    def _template(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        for probe in _PROBES:
            encoding = self._backend.encode([probe], is_pretokenized=True)
            inside = [i for i, word in enumerate(encoding.word_ids) if word is not None]
            if inside:
                start, stop = inside[0], inside[-1] + 1
                types = (*encoding.type_ids[: start + 1], *encoding.type_ids[stop:])
                return tuple(encoding.ids[:start]), tuple(encoding.ids[stop:]), types
        raise ModelError(f"the tokenizer maps plain words ({', '.join(_PROBES)}) to nothing; it is damaged")

    def _space_belongs_to_words(self) -> bool:
        """Whether a word inside running text has other pieces than the bare word, namely those of " word"."""

        def pieces(text: str | list[str]) -> list[int]:
            ids: list[int] = self._backend.encode(
                text, is_pretokenized=isinstance(text, list), add_special_tokens=False
            ).ids
            return ids

        for probe in _PROBES:
            inside = pieces(f"{probe} {probe}")[len(pieces(probe)) :]
            if pieces([probe]) != inside and pieces([" " + probe]) == inside:
                return True
        return False


@dataclass(frozen=True)
class Span:
    """A window over the words of a sentence, before it becomes model input."""

    start: int
    """First word."""
    stop: int
    """One past the last word."""
    keep: tuple[int, int]
    """Words [from, to) whose vectors this window gives."""


def divide_into_windows(lengths: Sequence[int], capacity: int, *, overlap: float = 0.5) -> list[Span]:
    """Divide a sentence into overlapping windows at word boundaries.

    A window takes as many words as fit. The next one starts so that at most the share `overlap` of the capacity is read
    again, and always reaches at least one word further; the last one is filled up towards the left. A word is kept from
    the window in which it has most pieces between itself and the nearest edge that is not an edge of the sentence; the
    earlier window wins a tie.

    Parameters
    ----------
    lengths : sequence of int
        Pieces of each word.
    capacity : int
        Most pieces that fit into one window, special tokens not counted.
    overlap : float
        Share of the capacity that two neighbouring windows may have in common, from 0 to under 1.

    Returns
    -------
    list of Span
        In order; their `keep` ranges divide the words. One window if the sentence fits.

    Raises
    ------
    ValueError
        If a word is longer than the capacity; callers refuse such words by name before.
    """
    count = len(lengths)
    if max(lengths) > capacity:
        raise ValueError(f"a word of {max(lengths)} pieces does not fit into a window of {capacity}")
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    if offsets[-1] <= capacity:
        return [Span(0, count, (0, count))]
    bounds: list[tuple[int, int]] = []
    start = stop = 0
    while True:
        while stop < count and offsets[stop + 1] - offsets[start] <= capacity:
            stop += 1
        if stop == count:
            while start > 0 and offsets[count] - offsets[start - 1] <= capacity:
                start -= 1
            bounds.append((start, count))
            break
        bounds.append((start, stop))
        while offsets[stop] - offsets[start] > overlap * capacity or offsets[stop + 1] - offsets[start] > capacity:
            start += 1
    margins = [
        [
            min(
                offsets[word] - offsets[start] if start > 0 else offsets[count],
                offsets[stop] - offsets[word + 1] if stop < count else offsets[count],
            )
            if start <= word < stop
            else -1
            for start, stop in bounds
        ]
        for word in range(count)
    ]
    best = [row.index(max(row)) for row in margins]
    spans = []
    for number, (start, stop) in enumerate(bounds):
        kept = [word for word in range(start, stop) if best[word] == number]
        if kept:
            spans.append(Span(start, stop, (kept[0], kept[-1] + 1)))
    return spans
