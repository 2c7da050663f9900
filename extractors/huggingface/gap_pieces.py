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
        backend = self._tokenizer.backend_tokenizer
        spelt = backend.decode_batch([[number] for number in range(self._size)], skip_special_tokens=False)
        # What a piece spells is a word if the tokenizer makes that piece, and no other, of it.
        found = [(number, text.strip()) for number, text in enumerate(spelt)]
        found = [(number, text) for number, text in found if text and "\ufffd" not in text and not _has_space(text)]
        numbers = self.numbers([text for _, text in found])
        return tuple(text for (number, text), made in zip(found, numbers, strict=True) if made == number)

    @cached_property
    def continues(self) -> npt.NDArray[np.bool_]:
        """For each piece, shape (size,), whether it carries on the word before it.

        A piece does so if it bears the prefix that the tokenizer's model has for that (WordPiece: ``##``), or, in models without
        one, if the tokenizer writes it to the piece before it without a space; in either case it must start with a letter, a
        digit, or a part of a character, since punctuation starts a word of its own.
        """
        backend = self._tokenizer.backend_tokenizer
        prefix = getattr(backend.model, "continuing_subword_prefix", None)
        if prefix:
            tokens = self._tokenizer.convert_ids_to_tokens(list(range(self._size)))
            added = [token[len(prefix) :][:1] if token.startswith(prefix) else "" for token in tokens]
        else:
            anchor = list(self._words(("a", "the"), "the trial sentence").ids[1])
            lead = len(backend.decode(anchor, skip_special_tokens=False))
            texts = backend.decode_batch([[*anchor, number] for number in range(self._size)], skip_special_tokens=False)
            added = [text[lead : lead + 1] for text in texts]
        special = set(self._tokenizer.all_special_ids)
        flags = np.zeros(self.size, dtype=bool)
        for number, character in enumerate(added):
            flags[number] = number not in special and (character.isalnum() or character == "\ufffd")
        return flags


def _has_space(text: str) -> bool:
    return any(map(str.isspace, text))
