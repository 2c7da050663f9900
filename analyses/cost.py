"""What a model costs: parameters, operations per word, speed and memory by sentence length, and the price of one more word.

What follows from the architecture is exact and the same in every run; what was timed goes into a table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.flops import Architecture, Reading, architecture_of
from analyses.surviving_states import MEASURE as STATES_SURVIVING
from analyses.surviving_states import SurvivingStates, surviving_states, too_coarse
from analyses.throughput import Throughput, log_log_slope, measure_throughput, stretches
from extractors.base import Extractor, Sentence
from extractors.bilstm_mlm.config import BilstmMlmConfig
from extractors.elmo.characters import BEGIN_SENTENCE, END_SENTENCE, word_bytes
from extractors.elmo.options import ElmoOptions
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, ModelError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.longer import with_longer_input
from extractors.parameters import Configuration, ParameterCount, configuration_of, count_parameters
from extractors.representation import Alignment, ModelInfo
from extractors.words import as_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
"""Words of a sentence, by default."""

MEASURES: dict[str, str] = {
    "parameters": "parameters",
    "parameters_without_embeddings": "parameters",
    "flops_per_word": "operations",
    "flops_exponent": "exponent",
    "append_flops": "operations",
    "append_share": "share",
    STATES_SURVIVING: "share",
}
"""Measures that are the same in every run -> unit."""

TIMED: dict[str, str] = {
    "reading_speed": "words per second",
    "time_exponent": "exponent",
    "peak_tensor_memory": "bytes",
}
"""Measures that change from run to run -> unit."""

_TEXTS = 8
"""Stretches of text per length whose operations are counted."""


@dataclass(frozen=True)
class Cost:
    """What one model costs."""

    info: ModelInfo
    """The model."""
    parameters: ParameterCount | None
    """Counted from the configuration; None for a model without one."""
    lengths: tuple[int, ...]
    """Words of a sentence, second axis of the two arrays that follow."""
    flops: Array
    """(texts, lengths): operations of reading a sentence of so many words; NaN for a model without a configuration."""
    append: Array
    """(texts, lengths, 2): operations of adding one word to it, and of reading the longer sentence from nothing; NaN where
    there is no formula."""
    states: SurvivingStates | None
    """Which states survive an edit; None where the model's precision is too coarse to tell."""
    throughput: Throughput
    """Times and memory."""
    notes: tuple[str, ...]
    """What a reader must know."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples."""
    seed: int
    """Seed of edits and resampling."""

    def flops_per_word(self) -> Interval:
        """Operations per word at each length, with 95 % intervals over texts."""
        return self._over_texts(self.flops, lambda sums: sums / (len(self.flops) * np.array(self.lengths)))

    def flops_exponent(self) -> Interval:
        """Exponent a of operations ~ length^a over all lengths, shape (1,); undefined for a single length."""
        if len(self.lengths) < 2:
            missing = np.full(1, np.nan)
            return Interval(missing, missing, missing, len(self.flops))
        return self._over_texts(self.flops, lambda sums: log_log_slope(self.lengths, sums)[..., None])

    def append_flops(self) -> Interval:
        """Operations of one more word at each length, with 95 % intervals over texts."""
        return self._over_texts(self.append[..., 0], lambda sums: sums / len(self.append))

    def append_share(self) -> Interval:
        """The same over the operations of reading the longer sentence from nothing, a ratio of sums."""
        width = len(self.lengths)
        both = np.concatenate([self.append[..., 0], self.append[..., 1]], axis=1)
        return self._over_texts(both, lambda sums: sums[..., :width] / sums[..., width:])

    def _over_texts(self, units: Array, function: Any) -> Interval:
        return bootstrap(units, function, resamples=self.resamples, seed=self.seed)

    def rows(self) -> list[dict[str, Any]]:
        """The numbers that are the same in every run, one mapping each, for `extractors.foundation.results.tidy`."""
        base = self._base()
        rows: list[dict[str, Any]] = []
        if self.parameters is not None:
            sizes = self.parameters.total, self.parameters.without_embeddings
            for measure, size in zip(("parameters", "parameters_without_embeddings"), sizes, strict=True):
                rows.append({**base, "measure": measure, "value": float(size)})
        by_length = {
            "flops_per_word": self.flops_per_word(),
            "append_flops": self.append_flops(),
            "append_share": self.append_share(),
        }
        for measure, interval in by_length.items():
            for place, length in enumerate(self.lengths):
                if np.isfinite(interval.value[place]):
                    rows.append({**base, "measure": measure, "length": length, **_numbers(interval, place)})
        exponent = self.flops_exponent()
        if np.isfinite(exponent.value[0]):
            rows.append({**base, "measure": "flops_exponent", **_numbers(exponent, 0)})
        if self.states is not None:
            rows.extend(self.states.rows())
        return [{**row, "unit": MEASURES[str(row["measure"])]} for row in rows]

    def timed_rows(self) -> list[dict[str, Any]]:
        """The numbers that change from run to run, for the table of costs; the batch size is in `condition`.

        The weights are those of the network that was timed, which may be an untrained copy.
        """
        rows = []
        timed = self.throughput
        for batch in timed.batch_sizes:
            base = {**self._base(), "weights": timed.info.weights, "condition": f"batch {batch}"}
            speeds = timed.speed(batch)
            for place, length in enumerate(timed.lengths):
                rows.append({**base, "measure": "reading_speed", "length": length, **_numbers(speeds, place)})
            memory = timed.memory[timed.batch_sizes.index(batch)]
            for length, peak in zip(timed.lengths, memory, strict=True):
                if np.isfinite(peak):
                    rows.append({**base, "measure": "peak_tensor_memory", "length": length, "value": float(peak)})
            # From the shortest length on, and from the middle one on, where fixed costs of a pass weigh less.
            starts = dict.fromkeys((timed.lengths[0], timed.lengths[len(timed.lengths) // 2]))
            for start in starts:
                if sum(length >= start for length in timed.lengths) > 1:
                    exponent = timed.exponent(batch, start=start)
                    rows.append({**base, "measure": "time_exponent", "length": start, **_numbers(exponent, 0)})
        return [{**row, "unit": TIMED[str(row["measure"])]} for row in rows]

    def _base(self) -> dict[str, Any]:
        return {
            "model": self.info.name,
            "family": self.info.family,
            "weights": self.info.weights,
            "part": "whole",
            "kind": "analysis",
            "data": self.data,
            "seed": self.seed,
        }

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of what is the same in every run."""
        from extractors.foundation.results import tidy

        return tidy(self.rows())

    def timed_frame(self) -> pd.DataFrame:
        """The tidy table of what was timed."""
        from extractors.foundation.results import tidy

        return tidy(self.timed_rows())

    def plot(self) -> Figure:
        """Operations, states, speed and memory, what there is of them, with intervals, as a matplotlib figure.

        By words of a sentence: operations per word, operations of one more word, words per second and peak bytes of tensors
        by batch size. By layer: the share of states that survive an appended word.
        """
        from matplotlib.figure import Figure

        timed, batches = self.throughput, self.throughput.batch_sizes
        blank = np.full(len(timed.lengths), np.nan)
        peaks = [Interval(peak, blank, blank, 1) for peak in timed.memory]
        by_batch = [f"batch {batch}" for batch in batches]
        found: list[tuple[str, list[str], list[Interval]]] = [
            ("operations per word", [""], [self.flops_per_word()]),
            ("operations of one more word", [""], [self.append_flops()]),
            ("words per second", by_batch, [timed.speed(batch) for batch in batches]),
            ("peak bytes of tensors", by_batch, peaks),
        ]
        drawn = [one for one in found if any((interval.value > 0).any() for interval in one[2])]
        count = len(drawn) + (self.states is not None)
        figure = Figure(figsize=(3.2 * count, 3.2), layout="constrained")
        grid = figure.subplots(1, count, squeeze=False)[0]
        for axes, (label, names, intervals) in zip(grid, drawn, strict=False):
            for name, interval in zip(names, intervals, strict=True):
                (line,) = axes.plot(self.lengths, interval.value, marker="o", label=name)
                axes.vlines(self.lengths, interval.low, interval.high, color=line.get_color())
            axes.set(xscale="log", yscale="log", xlabel="words of a sentence", ylabel=label)
            if len(names) > 1:
                axes.legend()
        if self.states is not None:
            axes, layers = grid[-1], self.states.layers
            for half in self.states.halves:
                interval = self.states.share("append", half)
                (line,) = axes.plot(layers, interval.value[: len(layers)], marker="o", label=half)
                axes.vlines(layers, interval.low[: len(layers)], interval.high[: len(layers)], color=line.get_color())
            axes.set(xlabel="layer", ylabel="states that survive an appended word", xticks=layers, ylim=(-0.04, 1.04))
            if len(self.states.halves) > 1:
                axes.legend()
        figure.suptitle(self.info.name)
        return figure


def _numbers(interval: Interval, place: int) -> dict[str, Any]:
    return {
        "value": float(interval.value[place]),
        "low": float(interval.low[place]),
        "high": float(interval.high[place]),
        "n": interval.n,
    }


def cost(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    *,
    lengths: Sequence[int] = LENGTHS,
    batch_sizes: Sequence[int] = (1, 8),
    repeats: int = 3,
    beyond_limit: bool = True,
    memory_words: int = 512,
    edit_length: int = 12,
    edit_sentences: int = 24,
    tolerance: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> Cost:
    """Measure what a model costs.

    - **Parameters**: exact, from the configuration (`extractors.parameters`).
    - **Operations per word** by sentence length: the closed formulas of `analyses.flops`, for what the model reads of stretches
      of the corpus of that many words (its own pieces, special tokens included; for a character CNN every different word
      once). A model type without a formula is counted by torch while it reads. Parameters and operations are left out for a
      model without a configuration, such as an extractor of your own.
    - **One more word**: operations of adding a word to a sentence when everything that stays valid was kept, and their share of the
      operations of reading the longer sentence from nothing.
    - **States that survive** an edit: `analyses.surviving_states`, measured on the vectors themselves; left out for a model
      of half precision, whose rounding errors are as large as what it is to see, unless a tolerance is given.
    - **Speed, exponent, memory**: `analyses.throughput`, timed. Exponent a of seconds ~ length^a, one slope per repeat;
      intervals of Student's t over repeats.

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The corpus; for operations and times its sentences are run together and cut anew.
    lengths : sequence of int
        Words of a sentence, rising.
    batch_sizes : sequence of int
        Sentences of one length that are read at once.
    repeats : int
        Timed passes over all lengths.
    beyond_limit : bool
        Time lengths that the model cannot read in one go on an untrained copy with a longer position table, all lengths on
        the same copy (`extractors.longer`); False leaves those lengths out, as for a model that cannot be rebuilt.
    memory_words : int
        Trace peak memory for batches of at most so many words.
    edit_length, edit_sentences : int
        Words of a sentence before an edit, and number of sentences.
    tolerance : float, optional
        Movement up to which a state survives, see `surviving_states`.
    resamples, seed : int
        Of the intervals over texts and sentences; the seed also draws the edits.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives units of reading and timing.

    Returns
    -------
    Cost
        `to_frame()` for what is the same in every run, `timed_frame()` for what is not.

    Raises
    ------
    UsageError
        If lengths or numbers are impossible, none of the lengths can be read, or the model is a file of stored vectors.
    DataError
        If there is no text, or no sentence longer than `edit_length`.

    References
    ----------
    Kaplan et al. (2020), Scaling laws for neural language models (counting operations); Vaswani et al. (2017), table 1.
    """
    _check(lengths, batch_sizes, repeats)
    if extractor.info.family == "layer-file":
        raise UsageError(f"{extractor.info.name} holds stored vectors; only a model that can read has a cost")
    words = [
        word
        for number, sentence in enumerate(sentences, start=1)
        for word in as_words(sentence, where=f"sentence {number}")
    ]
    if not words:
        raise DataError("no sentence to cut stretches of text from; give at least one")
    notes: list[str] = []
    reader, kept = _within_limit(extractor, words, lengths, batch_sizes, beyond_limit, notes)
    parameters = None
    flops, append = np.full((_TEXTS, len(kept)), np.nan), np.full((_TEXTS, len(kept), 2), np.nan)
    configuration = _known_configuration(extractor)
    if configuration is None:
        notes.append(
            f"parameters and operations left out: {extractor.info.name} ({extractor.info.family}) has no configuration to "
            "count them from"
        )
    else:
        parameters = count_parameters(configuration, name=extractor.info.name)
        flops, append = _operations(reader, configuration, words, kept, notes)
    states = None
    reason = too_coarse(extractor.info)
    if tolerance is None and reason is not None:
        notes.append(f"surviving states left out: {reason}")
    else:
        states = surviving_states(
            extractor,
            sentences,
            length=edit_length,
            max_sentences=edit_sentences,
            tolerance=tolerance,
            resamples=resamples,
            seed=seed,
            data=data,
            progress=progress,
        )
    throughput = measure_throughput(
        reader,
        words,
        lengths=kept,
        batch_sizes=batch_sizes,
        repeats=repeats,
        memory_words=memory_words,
        progress=progress,
    )
    return Cost(
        extractor.info,
        parameters,
        kept,
        flops,
        append,
        states,
        throughput,
        tuple(notes),
        data,
        resamples,
        seed,
    )


def _check(lengths: Sequence[int], batch_sizes: Sequence[int], repeats: int) -> None:
    if not lengths or min(lengths) < 1 or list(lengths) != sorted(set(lengths)):
        raise UsageError(f"lengths {list(lengths)} must be rising and positive, such as 8, 16, 32")
    if not batch_sizes or min(batch_sizes) < 1 or len(set(batch_sizes)) != len(batch_sizes):
        raise UsageError(f"batch sizes {list(batch_sizes)} must be positive and different, such as 1, 8")
    if repeats < 1:
        raise UsageError(f"repeats={repeats} is not positive")


def _known_configuration(extractor: Extractor) -> Configuration | None:
    """A configuration that says what architecture it is of; an extractor of somebody's own may keep anything by that name."""
    found = configuration_of(extractor)
    return found if isinstance(found, ElmoOptions) or isinstance(getattr(found, "model_type", None), str) else None


def _within_limit(
    extractor: Extractor,
    words: Sequence[str],
    lengths: Sequence[int],
    batch_sizes: Sequence[int],
    beyond_limit: bool,
    notes: list[str],
) -> tuple[Extractor, tuple[int, ...]]:
    """What is to be timed, and the lengths it reads in one go."""
    limit = extractor.info.max_pieces
    if limit is None:
        return extractor, tuple(lengths)
    number = max(_TEXTS, *batch_sizes)
    # One word more than a length, for the sentence after the word was added.
    pieces = {
        length: max(len(one.pieces) for one in extractor.align(stretches(words, length + 1, number)))
        for length in lengths
    }
    fitting = tuple(length for length in lengths if pieces[length] <= limit)
    if len(fitting) == len(lengths):
        return extractor, fitting
    if beyond_limit:
        with suppress(UsageError):  # of a kind that cannot be rebuilt
            longer = with_longer_input(extractor, max(pieces.values()))
            notes.append(
                f"{extractor.info.name} reads at most {limit} pieces: timed on an untrained copy with a longer position table"
            )
            return longer, tuple(lengths)
    if not fitting:
        raise UsageError(f"{extractor.info.name} reads at most {limit} pieces, fewer than any of {list(lengths)} words")
    left_out = ", ".join(str(length) for length in lengths if length not in fitting)
    notes.append(f"lengths {left_out} left out: {extractor.info.name} reads at most {limit} pieces")
    return extractor, fitting


def _operations(
    extractor: Extractor,
    configuration: Configuration,
    words: Sequence[str],
    lengths: Sequence[int],
    notes: list[str],
) -> tuple[Array, Array]:
    """Operations (texts, lengths) of sentences, and (texts, lengths, 2) of one more word; see `Cost`."""
    architecture: Architecture | None
    try:
        architecture = architecture_of(configuration)
    except ModelError as error:
        architecture = None
        notes.append(f"{error}; counted by torch while it reads, and not for one more word")
    flops = np.empty((_TEXTS, len(lengths)))
    append = np.full((_TEXTS, len(lengths), 2), np.nan)
    for column, length in enumerate(lengths):
        texts = stretches(words, length + 1, _TEXTS)
        if architecture is None:
            flops[:, column] = [counted_flops(extractor, text[:length]) for text in texts]
            continue
        before = extractor.align([text[:length] for text in texts])
        for row, (short, long) in enumerate(zip(before, extractor.align(texts), strict=True)):
            readings = reading_of(configuration, short), reading_of(configuration, long)
            flops[row, column] = architecture.sentence(readings[0]).total
            append[row, column] = architecture.append(*readings).total, architecture.sentence(readings[1]).total
    return flops, append


def reading_of(configuration: Configuration, alignment: Alignment) -> Reading:
    """What a model reads for a sentence, from its own alignment.

    A model over characters computes every different word once, all padded to the longest of the sentence and one filter
    width, at most to the full length.
    """
    words = len(alignment.words)
    if not isinstance(configuration, ElmoOptions | BilstmMlmConfig):
        return Reading(words, len(alignment.pieces), 0, 0)
    cnn = configuration.char_cnn
    limit = cnn.max_characters_per_token
    types = {BEGIN_SENTENCE, END_SENTENCE, *alignment.words}
    spelt = [1 if word in (BEGIN_SENTENCE, END_SENTENCE) else len(word_bytes(word, limit)) for word in types]
    characters = min(limit, max(spelt) + 2 + max(width for width, _ in cnn.filters))
    return Reading(words, words + 2, len(types), characters)


def counted_flops(extractor: Extractor, sentence: Sequence[str]) -> int:
    """Operations of reading one sentence, counted by torch while it is read; slow, and for every kind of model."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

    def fused(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]

    # The counter of torch does not know the fused attention of CPUs.
    mapping = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: fused}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        for _ in extractor.extract([list(sentence)], batch_size=1):
            pass
    return int(counter.get_total_flops())
