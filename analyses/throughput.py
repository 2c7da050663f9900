"""How fast a model reads, and how much memory it takes, by sentence length and batch size.

Times are wall-clock times of `Extractor.extract`, words in and vectors out, and differ from run to run.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor
from extractors.foundation.bootstrap import Interval
from extractors.foundation.progress import SILENT, Progress
from extractors.representation import ModelInfo

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Throughput:
    """Times and memory of one model."""

    info: ModelInfo
    """The network that was timed; untrained where lengths go beyond what the model itself reads."""
    lengths: tuple[int, ...]
    """Words of a sentence."""
    batch_sizes: tuple[int, ...]
    """Sentences of one length that are read at once."""
    seconds: Array
    """(batch sizes, repeats, lengths): wall-clock seconds to read one batch."""
    memory: Array
    """(batch sizes, lengths): peak bytes of live tensors while a batch is read, weights not counted; NaN if not traced."""

    def speed(self, batch: int) -> Interval:
        """Words per second at each length: geometric mean over repeats, with 95 % intervals of Student's t over repeats.

        The intervals are those of the mean log speed, so that both ends are positive.
        """
        words = batch * np.array(self.lengths)
        logs = student_interval(np.log(words / self.seconds[self.batch_sizes.index(batch)]))
        return Interval(np.exp(logs.value), np.exp(logs.low), np.exp(logs.high), logs.n)

    def exponent(self, batch: int, *, start: int = 0) -> Interval:
        """Exponent a of seconds ~ length^a: least-squares slope of log seconds on log length, mean over repeats.

        Parameters
        ----------
        batch : int
            One of `batch_sizes`.
        start : int
            Fit the lengths from this one on.

        Returns
        -------
        Interval
            Shape (1,), 95 % interval of Student's t over repeats; each repeat gives one slope. Fixed costs of a pass make it
            smaller than what the operations grow by; 1 is as many seconds per word at every length.
        """
        place = self.batch_sizes.index(batch)
        columns = [column for column, length in enumerate(self.lengths) if length >= start]
        return student_interval(
            log_log_slope(np.array(self.lengths)[columns], self.seconds[place][:, columns])[:, None]
        )


def student_interval(units: npt.ArrayLike) -> Interval:
    """Mean over few independent units with a 95 % interval of Student's t distribution.

    Repeats are too few to resample: of three units the percentile bootstrap covers the mean in at most three of four cases,
    as it never leaves the range of what was seen.

    Parameters
    ----------
    units : array of shape (n_units, k)
        One row per unit, about normally distributed.

    Returns
    -------
    Interval
        `value`, `low`, `high` of shape (k,): mean +- t(n - 1) s / sqrt(n), s the standard deviation of the units; NaN ends
        for a single unit.
    """
    from scipy.special import stdtrit

    values = np.asarray(units, dtype=np.float64)
    n = len(values)
    mean = values.mean(axis=0)
    if n == 1:
        missing = np.full_like(mean, np.nan)
        return Interval(mean, missing, missing, n)
    half = stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def log_log_slope(lengths: npt.ArrayLike, values: npt.ArrayLike) -> Array:
    """Least-squares slope of log value on log length.

    Parameters
    ----------
    lengths : array of shape (k,)
        At least two different positive numbers.
    values : array of shape (..., k)
        Positive.

    Returns
    -------
    array of shape (...)
        The exponent a of value = c length^a.

    Examples
    --------
    >>> float(log_log_slope([1, 2, 4], [3, 12, 48]).round(6))
    2.0
    """
    x = np.log(np.asarray(lengths, dtype=np.float64))
    centred = x - x.mean()
    slopes: Array = np.log(np.asarray(values, dtype=np.float64)) @ centred / (centred @ centred)
    return slopes


def stretches(words: Sequence[str], length: int, number: int) -> list[tuple[str, ...]]:
    """So many sentences of so many words, cut from running text that starts again at its end."""
    text = islice(cycle(words), length * number)
    return [tuple(islice(text, length)) for _ in range(number)]


def measure_throughput(
    extractor: Extractor,
    words: Sequence[str],
    *,
    lengths: Sequence[int],
    batch_sizes: Sequence[int],
    repeats: int = 3,
    memory_words: int = 512,
    progress: Progress = SILENT,
) -> Throughput:
    """Time the top layer of sentences of each length, all lengths in turn and that several times over.

    Going through all lengths before any is repeated lets a machine that slows down slow all lengths down alike. The first
    pass is not timed.

    Parameters
    ----------
    extractor : Extractor
        The model.
    words : sequence of str
        Running text that sentences are cut from, see `stretches`.
    lengths, batch_sizes : sequence of int
        Words of a sentence, sentences of a batch.
    repeats : int
        Timed passes.
    memory_words : int
        Peak memory is traced for batches of at most so many words: tracing takes some hundredths of a millisecond for
        each operation of torch, of which an LSTM has many.
    progress : Progress
        Receives one unit per pass.

    Returns
    -------
    Throughput
        Seconds and bytes.
    """
    batches = {(b, n): stretches(words, n, b) for b in batch_sizes for n in lengths}
    seconds = np.empty((len(batch_sizes), repeats, len(lengths)))
    memory = np.full((len(batch_sizes), len(lengths)), np.nan)

    def read(batch: int, length: int) -> None:
        for _ in extractor.extract(batches[batch, length], layers="last", batch_size=batch):
            pass

    with progress.task(f"{extractor.info.name}: timing", (repeats + 1) * len(batches)) as task:
        for place, batch in enumerate(batch_sizes):
            for column, length in enumerate(lengths):
                read(batch, length)
                if batch * length <= memory_words:
                    memory[place, column] = peak_tensor_bytes(lambda b=batch, n=length: read(b, n))  # type: ignore[misc]
                task.advance()
        for repeat in range(repeats):
            for place, batch in enumerate(batch_sizes):
                for column, length in enumerate(lengths):
                    started = time.perf_counter()
                    read(batch, length)
                    seconds[place, repeat, column] = time.perf_counter() - started
                    task.advance()
    return Throughput(extractor.info, tuple(lengths), tuple(batch_sizes), seconds, memory)


def peak_tensor_bytes(function: Callable[[], object]) -> int:
    """Largest number of bytes held at one time by the tensors that a function makes.

    Every operation of torch is seen as it is dispatched; the storage of each result counts from then until it is freed. What
    existed before (weights) and what an operation needs inside (a fused kernel's scratch space) is not counted. Unlike the
    resident memory of the process this does not depend on what ran before.

    Parameters
    ----------
    function : callable
        Runs once.

    Returns
    -------
    int
        Bytes.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    def tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
        # Arguments and results of operations are tensors, numbers, and lists of them.
        for value in values:
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, list | tuple):
                yield from tensors(value)

    class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.live = self.peak = 0
            self.known: dict[int, int] = {}
            self.whole: set[object] = set()

        def see(self, tensor: torch.Tensor, *, new: bool) -> None:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.known:
                return
            size = storage.nbytes() if new else 0
            self.known[key] = size
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self.forget, key)

        def forget(self, key: int) -> None:
            self.live -= self.known.pop(key, 0)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            # In inference mode composite operations arrive whole: take them apart to see what they make on the way.
            if func not in self.whole:
                with self:
                    result = func.decompose(*args, **(kwargs or {}))
                if result is not NotImplemented:
                    return result
                self.whole.add(func)
            for leaf in tensors((*args, *(kwargs or {}).values())):
                self.see(leaf, new=False)  # a view of a weight shares its storage and is nothing new
            result = func(*args, **(kwargs or {}))
            for leaf in tensors((result,)):
                self.see(leaf, new=True)
            return result

    trace = Trace()
    with trace:
        function()
    return trace.peak
