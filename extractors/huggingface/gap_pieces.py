"""Which word pieces are whole words, and which ones carry on the word before them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.huggingface.alignment import WordTokenizer


class PieceVocabulary:
    """The pieces of a tokenizer as an output vocabulary.

    Parameters
    ----------
    tokenizer : transformers tokenizer
        A fast tokenizer.
    words : WordTokenizer
        How the extractor tokenises words.
    size : int
        Entries of the model's output layer.
    """

    def __init__(self, tokenizer: Any, words: WordTokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self._size = min(size, len(tokenizer))
        self.size = size

    def numbers(self, words: Sequence[str]) -> list[int | None]:
        """The one piece that is each word; None for words of several pieces and for what the tokenizer does not know."""
        # Some tokenizers spell the first word of a text without its space: these are words inside a sentence.
        sentence = self._words(("a", *words), "the list of candidates")
        special = {*self._tokenizer.all_special_ids, self._tokenizer.unk_token_id}
        return [
            ids[0] if len(ids) == 1 and ids[0] not in special and ids[0] < self._size else None
            for ids in sentence.ids[1:]
        ]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The pieces that are words, in the order of their numbers."""
        # What a piece spells is a word if the tokenizer makes that piece, and no other, of it.
        found = [(number, text) for number, (text, _) in enumerate(self._spellings) if text and not _has_space(text)]
        numbers = self.numbers([text for _, text in found])
        return tuple(text for (number, text), made in zip(found, numbers, strict=True) if made == number)

    @cached_property
    def spells_first_otherwise(self) -> bool:
        """Whether a text starts with another piece than that of the same word inside it (GPT-2: one without a space).

        The extractor gives such tokenizers a space before the first word too: what its pieces spell tells them apart.
        """
        backend = self._tokenizer.backend_tokenizer
        for word in ("the", "a", "1", "of"):
            inside = list(self._words(("a", word), "the trial sentence").ids[1])
            bare = backend.encode(f"{word} {word}", add_special_tokens=False).ids[: len(inside)]
            if bare != inside or backend.decode(inside, skip_special_tokens=False).startswith(" "):
                return True
        return False

    @cached_property
    def continues(self) -> npt.NDArray[np.bool_]:
        """For each piece, shape (size,), whether it carries on the word before it.

        A piece does so if the tokenizer writes it to the piece before it without a space and it starts with a letter, a digit,
        or a part of a character; punctuation starts a word of its own.
        """
        special = set(self._tokenizer.all_special_ids)
        flags = np.zeros(self.size, dtype=bool)
        for number, (text, glued) in enumerate(self._spellings):
            flags[number] = glued and number not in special and (text[:1].isalnum() or text[:1] == "\ufffd")
        return flags

    @cached_property
    def _spellings(self) -> list[tuple[str, bool]]:
        """What each piece spells, and whether it is written to the piece before it without a space."""
        backend = self._tokenizer.backend_tokenizer
        tokens = self._tokenizer.convert_ids_to_tokens(list(range(self._size)))
        prefix = getattr(backend.model, "continuing_subword_prefix", None)
        if prefix:  # WordPiece: "##"
            return [(token.removeprefix(prefix), token.startswith(prefix)) for token in tokens]
        anchor = list(self._words(("a", "the"), "the trial sentence").ids[1])
        if backend.decoder is None:
            # The mark of a space is whatever stands before the first letter of a word.
            first = tokens[anchor[0]]
            mark = first[: first.index("t")] if "t" in first else first
            return [(token.removeprefix(mark), bool(mark) and not token.startswith(mark)) for token in tokens]
        lead = len(backend.decode(anchor, skip_special_tokens=False))
        texts = backend.decode_batch([[*anchor, number] for number in range(self._size)], skip_special_tokens=False)
        added = [text[lead:] for text in texts]
        return [(text.removeprefix(" "), not text.startswith(" ")) for text in added]


def _has_space(text: str) -> bool:
    return any(map(str.isspace, text))
