"""Output vocabularies from training text: frequent words, and word pieces (Schuster & Nakajima 2012; Devlin et al. 2019)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import DataError
from extractors.foundation.files import written_whole
from studies.training.text import Text

UNKNOWN_WORD = "<UNK>"
WORD_SPECIALS = ("<S>", "</S>", UNKNOWN_WORD)
"""First lines of ``vocabulary.txt``, as in the vocabularies of bilm-tf."""
PIECE_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(5)

_ALPHABET = 1000
"""Characters at most that word pieces are made of, the most frequent ones."""


def frequent_words(text: Text, size: int) -> tuple[str, ...]:
    """The special entries and the most frequent words, ties in alphabetical order; at most `size` entries."""
    counts = text.counts()
    ordered = sorted(np.flatnonzero(counts), key=lambda i: (-counts[i], text.types[i]))
    found = [text.types[i] for i in ordered[: size - len(WORD_SPECIALS)] if text.types[i] not in WORD_SPECIALS]
    return (*WORD_SPECIALS, *found)


def word_piece_tokenizer(text: Text, size: int) -> Any:
    """Train a cased word-piece tokenizer.

    The trainer of the tokenizers library numbers continuation characters in the order of a hash table with random seeds, and
    so breaks ties differently in every process. Here it is given words whose later characters are other symbols already, with
    the whole alphabet in a fixed order, which leaves nothing to chance: same text, same pieces, same numbers.

    Parameters
    ----------
    text : Text
        Training text.
    size : int
        Pieces at most, special ones included.

    Returns
    -------
    tokenizers.Tokenizer
        With BERT's normalisation (cased), pre-tokenisation, and ``[CLS]`` and ``[SEP]`` around a sentence.

    Raises
    ------
    DataError
        If the text has more distinct characters than `size` has room for.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for word, count in zip(text.types, text.counts().tolist(), strict=True):
        if count:
            for part, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
                counts[part] += count
    pieces = _pieces(counts, size - len(PIECE_SPECIALS))
    vocabulary = {piece: number for number, piece in enumerate((*PIECE_SPECIALS, *pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    tokenizer.add_special_tokens(list(PIECE_SPECIALS))
    return tokenizer


def _pieces(counts: Counter[str], size: int) -> list[str]:
    from tokenizers import Tokenizer, models, trainers

    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    kept = sorted(sorted(letters, key=lambda letter: (-letters[letter], letter))[:_ALPHABET])
    if 2 * len(kept) > size:
        raise DataError(
            f"the text has {len(kept)} distinct characters, too many for {size} word pieces; raise transformer.vocabulary"
        )
    # Two planes of private-use characters stand for "letter that starts a word" and "letter that continues one".
    first = {letter: chr(0xF0000 + number) for number, letter in enumerate(kept)}
    later = {letter: chr(0x100000 + number) for number, letter in enumerate(kept)}
    meaning = {symbol: letter for table in (first, later) for letter, symbol in table.items()}
    words: list[str] = []
    for word in sorted(counts):
        if all(letter in first for letter in word):
            spelt = first[word[0]] + "".join(later[letter] for letter in word[1:])
            words.extend([spelt] * counts[word])
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=[*first.values(), *later.values()], show_progress=False
    )
    tokenizer.train_from_iterator(words, trainer)
    learnt = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    named = []
    for symbols, _ in learnt:
        spelling = "".join(meaning[symbol] for symbol in symbols)
        named.append(spelling if symbols[0] in first.values() else f"##{spelling}")
    return named


def piece_arrays(text: Text, tokenizer: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The pieces of a text, each word tokenised by itself as the extractors do.

    Returns
    -------
    pieces : array of int32, shape (pieces,)
        Piece ids, word after word. A word that maps to nothing is ``[UNK]``.
    offsets : array of int64, shape (words + 1,)
        Where each word's pieces start.
    """
    used = np.flatnonzero(text.counts())
    encodings = tokenizer.encode_batch([[text.types[i]] for i in used], is_pretokenized=True, add_special_tokens=False)
    by_type = {int(i): encoding.ids or [UNK] for i, encoding in zip(used, encodings, strict=True)}
    lengths = np.zeros(len(text.types), dtype=np.int64)
    begin = np.zeros(len(text.types), dtype=np.int64)
    flat: list[int] = []
    for i, ids in by_type.items():
        begin[i], lengths[i] = len(flat), len(ids)
        flat.extend(ids)
    offsets = np.concatenate([[0], np.cumsum(lengths[text.words])])
    inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths[text.words])
    pieces = np.array(flat, dtype=np.int32)[np.repeat(begin[text.words], lengths[text.words]) + inside]
    return pieces, offsets


def write_tokenizer(tokenizer: Any, folder: Path, longest: int) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``vocab.txt``, as transformers reads them."""
    with written_whole(folder / "tokenizer.json") as temporary:
        tokenizer.save(str(temporary))
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": False,
        "strip_accents": False,
        "tokenize_chinese_chars": True,
        "model_max_length": longest,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    }
    with written_whole(folder / "tokenizer_config.json") as temporary:
        temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with written_whole(folder / "vocab.txt") as temporary:
        temporary.write_text("".join(f"{piece}\n" for piece, _ in ordered), encoding="utf-8")
