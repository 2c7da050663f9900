"""The one evaluation of all variants: held-out losses, cloze, direction shares, mask shift, and a probe, as tidy rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors import Extractor, load_extractor
from extractors.foundation.bootstrap import Interval, bootstrap, ratio_of_sums
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for
from extractors.foundation.results import tidy
from studies.evidence.variants import Variant
from studies.training.recipe import Recipe
from studies.training.source import TrainingText

if TYPE_CHECKING:
    import pandas as pd

    from analyses import ContextSet
    from analyses.gap_sets import GapSet
    from probes.corpora import Corpus, CorpusSentence
    from probes.tasks import Task
    from studies.training.text import Text

Array = npt.NDArray[np.float64]
Rows = list[dict[str, Any]]

_SENTENCE = (6, 40)
"""Words of a sentence with a gap: long enough to say something, short enough for every model to read in one go."""

LOSSES = ("held_out_loss", "held_out_masked_loss")


@dataclass(frozen=True)
class EvaluationSettings:
    """Sizes of the evaluation; everything it depends on beside model and text."""

    held_out_words: int = 30_000
    """Held-out words (about) of the losses."""
    targets: int = 24
    """Target words of the direction shares, from the bundled contexts."""
    grid: int = 6
    """Left and right parts of each."""
    natural: int = 200
    """Sentences of the bundled sample for the corpus mean."""
    mask_shift: int = 200
    """Sentences of the mask shift."""
    gaps: int = 400
    """Gaps in held-out text that are filled."""
    tuning_gaps: int = 200
    """Gaps in other held-out documents, for the weights of tuned mixes."""
    candidates: int = 2000
    """Words to choose from, the most frequent ones that are one entry of every vocabulary."""
    sentences: int | None = None
    """Sentences of the bundled sample that are read at all; None: all."""
    resamples: int = 1000
    """Bootstrap samples."""
    seed: int = 0
    """Seed of contexts, sentences, splits and resampling."""


class Evaluation:
    """What all variants are evaluated on, made once.

    Parameters
    ----------
    text : TrainingText
        The training text: the contexts have constant lengths in the pieces that come from it.
    pieces : Recipe
        A recipe of kind ``bert``, for those pieces. Models over words read one unit a word, so that contexts that suit the
        pieces suit every variant.
    settings : EvaluationSettings
        Sizes.
    progress : Progress
        Receives the progress.
    """

    def __init__(
        self,
        text: TrainingText,
        pieces: Recipe,
        *,
        settings: EvaluationSettings | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.settings = settings or EvaluationSettings()
        self._text, self._pieces, self._progress = text, pieces, progress

    def rows(self, variant: Variant, folder: Path, record: Mapping[str, Any]) -> pd.DataFrame:
        """Evaluate a trained variant.

        Parameters
        ----------
        variant : Variant
            What it is.
        folder : Path
            Its model folder.
        record : mapping
            The content of its ``training.json``.

        Returns
        -------
        pandas.DataFrame
            Tidy rows; `seed` is the seed of the training, `source` is ``shipped``.
        """
        # Float64, so that what theory says is zero comes out as zero.
        extractor = load_extractor(folder, dtype="float64")
        extractor.info = replace(extractor.info, name=variant.model)
        found = loss_rows(record, self.settings)
        for measure in MEASURES.values():
            found += measure(self, extractor)
        known = {
            "model": variant.model,
            "family": extractor.info.family,
            "weights": "untrained" if variant.untrained else "trained",
            "seed": variant.seed,
            "source": "shipped",
        }
        return tidy({**row, **known} for row in found)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self.settings)

    @cached_property
    def piece_reader(self) -> Extractor:
        """An untrained model over pieces. Only its tokenizer matters, and that follows from the text."""
        from studies.training.loop import train

        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name) / "pieces"
        train(self._pieces, self._text, folder, words=0, held_out_words=1)
        return load_extractor(folder)

    @cached_property
    def contexts(self) -> ContextSet:
        """Contexts of the direction shares, the same for all variants."""
        from studies.bundled_contexts import bundled_contexts

        settings = self.settings
        return bundled_contexts([self.piece_reader], grid=settings.grid, targets=settings.targets, seed=settings.seed)

    @cached_property
    def gaps(self) -> GapSet:
        """Gaps in held-out text, the same for all variants.

        Candidates are frequent words that are one piece; among the most frequent words they are entries of word
        vocabularies too.
        """
        from analyses.gap_sets import collect_gaps
        from extractors.gaps import gap_filler

        settings, material = self.settings, self._text.material(self._pieces)
        counts, types = material.text.training.counts(), material.text.training.types
        pieces = set(material.vocabulary)
        frequent = [types[i] for i in np.argsort(-counts, kind="stable") if counts[i]]
        words = [word for word in frequent if word in pieces and any(map(str.isalnum, word))][: settings.candidates]
        sentences, documents = _sentences(material.text.held_out)
        # Every kind reads as many pieces in one go, two of them for its own markers.
        pieces_of = (len(alignment.pieces) for alignment in self.piece_reader.align(sentences))
        fits = [count <= self._pieces.length - 2 for count in pieces_of]
        sentences, documents = list(compress(sentences, fits)), list(compress(documents, fits))
        return collect_gaps(
            [gap_filler(self.piece_reader)],
            sentences,
            documents=documents if len(set(documents)) > 1 else None,
            candidates=words,
            counts=dict(zip(types, counts.tolist(), strict=True)),
            targets=settings.gaps,
            tuning_targets=settings.tuning_gaps,
            seed=settings.seed,
        )

    @cached_property
    def corpus(self) -> Corpus:
        """The bundled sample, or as much of it as is read."""
        from probes import read_corpora
        from studies.config import SAMPLE_CORPUS

        (corpus,) = read_corpora([SAMPLE_CORPUS])
        limit = self.settings.sentences
        if limit is not None and limit < len(corpus.sentences):
            drawn = np.sort(generator_for(self.settings.seed, "sample").permutation(len(corpus.sentences))[:limit])
            corpus = replace(corpus, sentences=tuple(corpus.sentences[i] for i in drawn))
        return corpus

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The words of its sentences."""
        return [tuple(sentence.words) for sentence in self.corpus.sentences]

    @cached_property
    def upos(self) -> tuple[Task, Mapping[str, tuple[CorpusSentence, ...]]]:
        """The probing task, and its sentences in train, dev and test."""
        from probes import build_task, split_corpora

        splits = split_corpora([self.corpus], seed=self.settings.seed)
        return build_task("upos", splits), splits

    def direction_shares(self, extractor: Extractor) -> Rows:
        """Left, right and interaction share and contextual share at every layer, with their controls."""
        from analyses import direction_shares

        settings = self.settings
        return direction_shares(
            extractor,
            self.words,
            contexts=self.contexts,
            natural=settings.natural,
            resamples=settings.resamples,
            seed=settings.seed,
            data="bundled contexts",
            progress=self._progress,
        ).rows()

    def cloze(self, extractor: Extractor) -> Rows:
        """Filling gaps in held-out text, from one side, from both combined, or jointly, whichever the model can."""
        from analyses import cloze

        settings = self.settings
        return cloze(
            extractor,
            gaps=self.gaps,
            resamples=settings.resamples,
            seed=settings.seed,
            data="held-out text",
            progress=self._progress,
        ).rows()

    def mask_shift(self, extractor: Extractor) -> Rows:
        """How far hidden and replaced words move, for the masked kinds."""
        from analyses import mask_shift

        if not extractor.info.masks:
            return []
        settings = self.settings
        return mask_shift(
            extractor,
            self.words,
            number=settings.mask_shift,
            resamples=settings.resamples,
            seed=settings.seed,
            data=self.corpus.name,
            progress=self._progress,
        ).rows()

    def probe(self, extractor: Extractor) -> Rows:
        """UPOS at every layer, beside majority and word type."""
        from probes import evaluate_layers, task_features

        task, splits = self.upos
        return evaluate_layers(
            task,
            task_features(task, splits, extractor, progress=self._progress),
            model=extractor.info,
            layers=extractor.info.layers,
            pooling="mean",
            data=self.corpus.name,
            seed=self.settings.seed,
            control=False,
            resamples=self.settings.resamples,
            progress=self._progress,
        ).rows()


MEASURES: dict[str, Callable[[Evaluation, Extractor], Rows]] = {
    "direction_shares": Evaluation.direction_shares,
    "cloze": Evaluation.cloze,
    "mask_shift": Evaluation.mask_shift,
    "upos": Evaluation.probe,
}
"""What is measured on every variant; one more entry is one more measure."""


def _sentences(text: Text) -> tuple[list[tuple[str, ...]], list[str]]:
    """The sentences of a text that are neither short nor long, and the document of each."""
    low, high = _SENTENCE
    ends = np.append(text.starts[1:], len(text.words))
    kept = [(start, end) for start, end in zip(text.starts, ends, strict=True) if low <= end - start <= high]
    numbers = np.searchsorted(text.documents, [start for start, _ in kept], side="right")
    sentences = [tuple(text.types[i] for i in text.words[start:end]) for start, end in kept]
    return sentences, [str(number) for number in numbers]


def loss_rows(record: Mapping[str, Any], settings: EvaluationSettings) -> Rows:
    """Losses, budget and speed of a training as rows.

    Parameters
    ----------
    record : mapping
        The content of ``training.json``.
    settings : EvaluationSettings
        For the intervals, which are over batches of held-out text.

    Returns
    -------
    list of dict
        Without the columns that say which model it is.
    """
    unit = f"nats per {record['unit']}"
    rows: Rows = []
    for measure in LOSSES:
        if measure in record:
            interval = bootstrap(
                held_out_batches(record, measure), ratio_of_sums(0, 1), resamples=settings.resamples, seed=settings.seed
            )
            rows.append({"measure": measure, "unit": unit, **_numbers(interval)})
    rows.append({"measure": "unigram_loss", "unit": unit, "value": record["unigram_loss"]})
    for measure, value, name in (
        ("training_words", record["words"], "words"),
        ("training_passes", _passes(record), "passes"),
        ("training_seconds", record["seconds"], "seconds"),
        ("training_words_per_second", record["words_per_second"], "words/s"),
    ):
        if value is not None:
            rows.append({"measure": measure, "unit": name, "value": float(value)})
    return [{"kind": "training", "split": "held out" if "loss" in row["measure"] else None, **row} for row in rows]


def difference_row(
    measure: str, record: Mapping[str, Any], reference: Mapping[str, Any], settings: EvaluationSettings
) -> dict[str, Any]:
    """Held-out loss of one model minus that of another on the same batches, with a paired interval.

    Raises
    ------
    UsageError
        If the two were not evaluated on the same batches.
    """
    one, other = (held_out_batches(each, measure) for each in (record, reference))
    if len(one) != len(other) or not np.array_equal(one[:, 1], other[:, 1]):
        raise UsageError(
            f"{record['name']} and {reference['name']} were not evaluated on the same held-out batches; train both with the "
            "same text, length and batch"
        )

    def difference(sums: Array) -> Array:
        return sums[..., :1] / sums[..., 1:2] - sums[..., 2:3] / sums[..., 3:4]

    interval = bootstrap(np.hstack([one, other]), difference, resamples=settings.resamples, seed=settings.seed)
    unit = f"nats per {record['unit']}"
    return {"kind": "training", "split": "held out", "measure": measure, "unit": unit, **_numbers(interval)}


def held_out_batches(record: Mapping[str, Any], measure: str) -> Array:
    """Summed nats and predictions of each held-out batch, shape (batches, 2)."""
    batches = record["held_out_batches"][measure]
    return np.column_stack([batches["nats"], batches["predictions"]]).astype(np.float64)


def _passes(record: Mapping[str, Any]) -> float:
    return float(record["words"] / record["text"]["training_words"])


def _numbers(interval: Interval) -> dict[str, Any]:
    value, low, high = (float(array[0]) for array in (interval.value, interval.low, interval.high))
    return {"value": value, "low": low, "high": high, "n": interval.n}
