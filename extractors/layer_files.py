"""HDF5 files of vectors in the layouts of other tools: written for them, and read so that existing vectors can be probed.

AllenNLP's ``elmo`` command (Peters et al. 2018) and structural-probes (Hewitt & Manning 2019) both keep one dataset per
sentence, named by its number from 0, of shape (layers, words, dim). See ``docs/representation-files.md``.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from extractors.base import Extractor, Prepared, Sentence, Window, WindowOutput
from extractors.foundation.errors import DataError, ModelError, StoreError, UsageError
from extractors.foundation.files import sha256_of_file, written_whole
from extractors.foundation.progress import Progress
from extractors.representation import Alignment, ModelInfo, SentenceRepresentation
from extractors.store import info_from_json, info_to_json
from extractors.words import as_words

LAYOUTS = ("allennlp", "structural-probes")
INDEX = "sentence_to_index"
"""The dataset in which AllenNLP keeps ``{sentence: number}``; the last of equal sentences wins."""

_OURS = "janus"
"""HDF5 attribute of the file in which we say what no layout has room for; other tools do not look at it."""

Words = tuple[str, ...]


def write_layer_file(
    path: str | os.PathLike[str],
    representations: Iterable[SentenceRepresentation],
    *,
    layout: str = "allennlp",
    info: ModelInfo | None = None,
    pooling: str | None = None,
    gzip: bool = False,
) -> int:
    """Write vectors in another tool's layout, the file whole or not at all.

    Parameters
    ----------
    path : path
        The HDF5 file; an existing one is replaced.
    representations : iterable of SentenceRepresentation
        What `Extractor.extract` yields; sentence i becomes dataset ``str(i)``, float32, (layers, words, dim). Taken one by
        one: memory does not grow with the text, except for the sentences that ``allennlp`` lists.
    layout : {"allennlp", "structural-probes"}
        ``allennlp`` adds the dataset ``sentence_to_index``.
    info : ModelInfo, optional
        The model, to be recorded in an HDF5 attribute that other tools ignore.
    pooling : str, optional
        The pooling, to be recorded likewise; leave out for models that read whole words.
    gzip : bool
        Compress. All HDF5 readers undo it by themselves.

    Returns
    -------
    int
        Number of sentences written.

    Raises
    ------
    UsageError
        For an unknown layout.
    DataError
        Without any sentence, or if ``allennlp`` is to hold a word with white space inside.
    ModelError
        For vectors that are not finite, or not of one shape.
    OutputError
        If the file cannot be written.
    """
    import h5py

    if layout not in LAYOUTS:
        raise UsageError(f"layout {layout!r} is unknown; choose one of {', '.join(LAYOUTS)}")
    options = {"compression": "gzip"} if gzip else {}
    index: dict[str, str] = {}
    first: SentenceRepresentation | None = None
    number = -1
    with written_whole(path) as temporary, _new_hdf5(temporary) as (file, disk):
        for number, item in enumerate(representations):
            first = first or item
            where = f"sentence {number + 1}"
            if item.layers != first.layers or item.hidden.shape[2] != first.hidden.shape[2]:
                raise ModelError(
                    f"{where} has layers {item.layers} of {item.hidden.shape[2]} dimensions, unlike sentence 1"
                )
            hidden = item.hidden.astype(np.float32)
            if not np.isfinite(hidden).all():
                raise ModelError(f"the vectors of {where} are not finite in float32")
            if layout == "allennlp":
                text = " ".join(item.words)
                if tuple(text.split()) != item.words:
                    spaced = next(word for word in item.words if word.split() != [word])
                    raise DataError(
                        f"{where} has the word {spaced!r} with white space inside, which the layout allennlp would read as "
                        "several words; choose the layout structural-probes"
                    )
                index[text] = str(number)
            file.create_dataset(str(number), data=hidden, **options)
            disk.check()
        if first is None:
            raise DataError("there are no sentences to write; give at least one")
        if layout == "allennlp":
            dataset = file.create_dataset(INDEX, (1,), dtype=h5py.string_dtype())
            dataset[0] = json.dumps(index)
        model = info_to_json(info) if info is not None else None
        record = {"layers": first.layers, "layer_names": first.layer_names, "pooling": pooling, "model": model}
        file.attrs[_OURS] = json.dumps(record)
    return number + 1


def is_layer_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an HDF5 file of vectors: everything at its top level is numbered from 0, or the sentence index.

    ELMo's weight files (``char_embed``, ``RNN_0``, ...), other files, folders and paths that do not exist are not.
    """
    path = Path(path)
    if not path.is_file():
        return False
    import h5py

    if not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            names = set(file) - {INDEX}
            return "0" in names and all(_is_number(name) for name in names) and isinstance(file["0"], h5py.Dataset)
    except (OSError, RuntimeError, KeyError):
        return False


def read_layer_file(
    path: str | os.PathLike[str],
    sentences: Sequence[Sentence] | None = None,
    *,
    layer_names: Sequence[str] | None = None,
    name: str | None = None,
    halves: bool = False,
) -> LayerFileExtractor:
    """Open a file of vectors as an extractor.

    Parameters
    ----------
    path : path
        An HDF5 file with datasets ``"0"``, ``"1"``, ... of shape (layers, words, dim), or (words, dim) for one layer, and
        perhaps ``sentence_to_index``.
    sentences : sequence of str or of sequences of str, optional
        The sentences that the file was made from, all of them, in order. Needed where the file does not hold the text (as
        structural-probes' do not) and something other than the whole text is to be extracted.
    layer_names : sequence of str, optional
        Names of the file's layers; default: those our own files record, else ``index 0``, ``index 1``... Layer numbers are
        positions in the file, whatever the model called them: position 0 of structural-probes' BERT files is BERT's layer 1.
    name : str, optional
        Name of the model; default: the recorded one, else the name of the file.
    halves : bool
        The vectors are [forward; backward], as ELMo's: offer the parts ``forward`` and ``backward``.

    Returns
    -------
    LayerFileExtractor
        Its shapes are checked; vectors are read, and checked to be finite, when they are extracted.

    Raises
    ------
    StoreError
        If the file is missing, is no HDF5 file, has gaps or datasets of other shapes (named), or does not belong to
        `sentences` (named, with both numbers of words).
    UsageError
        For the wrong number of layer names, or halves of an odd number of dimensions.
    """
    path = Path(path)
    contents = _read_contents(path)
    record = contents.record
    recorded = record.model
    names = tuple(layer_names or record.layer_names or [f"index {i}" for i in range(contents.n_layers)])
    if len(names) != contents.n_layers:
        raise UsageError(f"{len(names)} layer names were given for {path}, which has {contents.n_layers} layers")
    if halves and contents.dim % 2:
        raise UsageError(f"the vectors of {path} have {contents.dim} dimensions, which cannot be two equal halves")
    half = contents.dim // 2
    parts: Mapping[str, slice] = {"whole": slice(None)}
    if halves:
        parts = {"whole": slice(None), "forward": slice(0, half), "backward": slice(half, None)}
    elif recorded is not None:
        parts = recorded.parts
    info = ModelInfo(
        name=name or (recorded.name if recorded else path.stem),
        source=str(path),
        family="layer-file",
        weights=recorded.weights if recorded else "trained",
        layer_names=names,
        hidden_size=contents.dim,
        directionality="concatenated" if halves else recorded.directionality if recorded else "unknown",
        parts=MappingProxyType(dict(parts)),
        dtype=contents.dtype,
        checksum=sha256_of_file(path),
        revision=recorded.revision if recorded else None,
        note=("; ".join(filter(None, ["vectors read from a file", recorded.note if recorded else ""]))),
        seed=recorded.seed if recorded else None,
    )
    extractor = LayerFileExtractor(path, info, contents.lengths, contents.texts, record.pooling)
    return extractor if sentences is None else extractor.bound_to(sentences)


class LayerFileExtractor(Extractor):
    """Stored vectors as an extractor: it can give the sentences of its file and no others.

    Which stored vectors a sentence gets:

    - Where the words of the file's sentences are known (from `bound_to`, else from ``sentence_to_index``), by its words, in
      any order and selection. Of equal sentences in the file, the first one asked for in a call gets the first, the second
      the second, and so on, beginning again when all have had their turn; so the file's own list gets every vector in its
      place. (AllenNLP's index keeps only the last of equal sentences; `bound_to` brings back the others.)
    - Where they are not known, by position: the whole list, in order, with the file's number of words in each sentence.

    Attributes
    ----------
    path : Path
        The file.
    lengths : tuple of int
        Words of each sentence in the file.
    """

    def __init__(
        self, path: Path, info: ModelInfo, lengths: tuple[int, ...], texts: Mapping[int, Words], pooling: str | None
    ) -> None:
        self.path = path
        self.info = info
        self.lengths = lengths
        self._texts = texts
        self._pooling = pooling
        self._places: dict[Words, list[int]] = {}
        for place, words in sorted(texts.items()):
            self._places.setdefault(words, []).append(place)

    @property
    def sentences(self) -> tuple[Words, ...] | None:
        """The words of all sentences, or None as long as some are not known."""
        if len(self._texts) < len(self.lengths):
            return None
        return tuple(self._texts[place] for place in range(len(self.lengths)))

    def bound_to(self, sentences: Sequence[Sentence]) -> LayerFileExtractor:
        """The same vectors, with the words they belong to.

        Parameters
        ----------
        sentences : sequence of str or of sequences of str
            All sentences of the file, in order.

        Raises
        ------
        StoreError
            If their number, the words of one, or its text (where the file holds it) differ from the file's.
        """
        text = [as_words(sentence, where=f"sentence {number}") for number, sentence in enumerate(sentences, start=1)]
        if len(text) != len(self.lengths):
            raise StoreError(
                f"{self.path} holds {len(self.lengths)} sentences, {len(text)} were given; give those it was made from"
            )
        for place, words in enumerate(text):
            self._check_length(place, words)
            known = self._texts.get(place, words)
            if known != words:
                raise StoreError(
                    f"{self.path}: sentence {place + 1} is {_excerpt(known)} in the file, {_excerpt(words)} was given; give "
                    "the sentences it was made from, in order"
                )
        return LayerFileExtractor(self.path, self.info, self.lengths, dict(enumerate(text)), self._pooling)

    def align(self, sentences: Iterable[Sentence]) -> Iterator[Alignment]:
        """Give each word as its own piece, after checking that the file has the sentences; see `Extractor.align`."""
        for prepared in self._locate(sentences):
            yield prepared.alignment

    def _stream(
        self,
        sentences: Iterable[Sentence],
        layers: tuple[int, ...],
        pooling: str,
        attention: bool,
        batch_size: int,
        progress: Progress,
    ) -> Iterator[SentenceRepresentation]:
        if self._pooling is not None and pooling != self._pooling:
            raise StoreError(
                f"{self.path} holds vectors pooled by {self._pooling!r}, asked for {pooling!r}; ask for {self._pooling!r}"
            )
        total = len(sentences) if isinstance(sentences, Sequence) else None
        located = self._locate(sentences)
        with progress.task(f"{self.info.name}: reading vectors", total) as task:
            while batch := list(islice(located, batch_size)):
                windows = [prepared.windows[0] for prepared in batch]
                outputs = self._forward(windows, layers=layers, pooling=pooling, attention=attention)
                for prepared, output in zip(batch, outputs, strict=True):
                    yield self._stitch(prepared, [output], layers)
                    task.advance()

    def _locate(self, sentences: Iterable[Sentence]) -> Iterator[Prepared]:
        if self._texts:
            asked: Counter[Words] = Counter()
            for number, sentence in enumerate(sentences, start=1):
                words = as_words(sentence, where=f"sentence {number}")
                yield self._at(self._place(words, f"sentence {number}", asked[words]), words)
                asked[words] += 1
            return
        count, stored = 0, len(self.lengths)
        if not isinstance(sentences, Sequence) or len(sentences) == stored:
            for count, sentence in enumerate(sentences, start=1):
                if count > stored:
                    break
                words = as_words(sentence, where=f"sentence {count}")
                self._check_length(count - 1, words)
                yield self._at(count - 1, words)
        if count != stored:
            raise StoreError(
                f"{self.path} holds {stored} sentences without their words and serves only the whole list it was made from, "
                "in order; to take some of them, open it with read_layer_file(path, sentences)"
            )

    def _place(self, words: Words, where: str, turn: int = 0) -> int:
        places = self._places.get(words)
        if places is None:
            raise StoreError(
                f"{self.path} has no vectors for {where}, {_excerpt(words)}; stored vectors serve only the sentences they were "
                "made from (measures that change sentences need the model itself)"
            )
        return places[turn % len(places)]

    def _at(self, place: int, words: Words) -> Prepared:
        n = len(words)
        alignment = Alignment(words=words, pieces=words, word_pieces=tuple((i,) for i in range(n)))
        return Prepared(alignment, (Window(start=0, stop=n, keep=(0, n), length=n, payload=place),))

    def _check_length(self, place: int, words: Words) -> None:
        stored = self.lengths[place]
        if len(words) != stored:
            hint = "; it may hold word pieces, which must be pooled to words first" if stored > len(words) else ""
            raise StoreError(
                f"{self.path}: sentence {place + 1} has {stored} vectors in the file (dataset {str(place)!r}) but {len(words)} "
                f"words in the text, {_excerpt(words)}{hint}; give the sentences the file was made from, in order"
            )

    def _prepare(self, words: Words, where: str) -> Prepared:
        return self._at(self._place(words, where), words)

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        import h5py

        outputs = []
        with _reading(self.path), h5py.File(self.path, "r") as file:
            for window in windows:
                key = str(window.payload)
                with _reading(self.path, key):
                    dataset = file[key]
                    stored = dataset[list(layers)] if dataset.ndim == 3 else dataset[()][np.newaxis]
                hidden = stored.astype(self.info.dtype)
                if hidden.shape != (len(layers), window.length, self.info.hidden_size):
                    raise StoreError(
                        f"{self.path}: dataset {key!r} has changed since the file was opened; open it again"
                    )
                if not np.isfinite(hidden).all():
                    raise StoreError(
                        f"{self.path}: dataset {key!r} has values that are not finite; make the file again"
                    )
                outputs.append(WindowOutput(hidden=hidden))
        return outputs


@dataclass(frozen=True)
class _Record:
    """What our own files say besides."""

    layer_names: tuple[str, ...] = ()
    pooling: str | None = None
    model: ModelInfo | None = None


@dataclass(frozen=True)
class _Contents:
    """What can be known of a file without reading vectors."""

    n_layers: int
    dim: int
    lengths: tuple[int, ...]
    dtype: str
    texts: Mapping[int, Words]
    record: _Record


def _read_contents(path: Path) -> _Contents:
    import h5py

    if not path.is_file():
        raise StoreError(f"there is no file of vectors at {path}; give the path of an HDF5 file")
    if not h5py.is_hdf5(path):
        raise StoreError(
            f"{path} is no HDF5 file; give a file made by AllenNLP's elmo command, structural-probes or probe extract"
        )
    with _reading(path), h5py.File(path, "r") as file:
        names = set(file) - {INDEX}
        strange = sorted(name for name in names if not _is_number(name))
        if strange:
            raise StoreError(
                f"{path} has a dataset {strange[0]!r}; in a file of vectors every dataset is named by the number of its "
                f"sentence ('0', '1', ...) or is {INDEX!r}"
            )
        if not names:
            raise StoreError(f"{path} holds no sentences; a file of vectors has datasets '0', '1', ...")
        missing = next((str(i) for i in range(len(names)) if str(i) not in names), None)
        if missing is not None:
            raise StoreError(
                f"{path} has {len(names)} sentences but no dataset {missing!r}; it was not written to its end, or cut"
            )
        shapes = []
        kinds = set()
        for place in range(len(names)):
            key = str(place)
            with _reading(path, key):
                dataset = file[key]
                if not isinstance(dataset, h5py.Dataset) or dataset.ndim not in (2, 3) or dataset.dtype.kind != "f":
                    what = (
                        f"{dataset.dtype} of shape {dataset.shape}" if isinstance(dataset, h5py.Dataset) else "a group"
                    )
                    raise StoreError(
                        f"{path}: dataset {key!r} is {what}; expected floating-point (layers, words, dim) or (words, dim)"
                    )
                shape = dataset.shape if dataset.ndim == 3 else (1, *dataset.shape)
                if 0 in shape:
                    raise StoreError(
                        f"{path}: dataset {key!r} is empty, of shape {dataset.shape}; remove that sentence"
                    )
                kinds.add(dataset.dtype)
            shapes.append((dataset.ndim, shape[0], shape[2], shape[1]))
            if shapes[-1][:3] != shapes[0][:3]:
                raise StoreError(
                    f"{path}: dataset {key!r} has shape {dataset.shape}, which does not agree with dataset '0', {file['0'].shape}; "
                    "all sentences need the same layers and dimensions"
                )
        lengths = tuple(shape[3] for shape in shapes)
        n_layers, dim = shapes[0][1:3]
        dtype = "float64" if any(kind.itemsize > 4 for kind in kinds) else "float32"
        return _Contents(
            n_layers, dim, lengths, dtype, _read_texts(path, file, lengths), _read_record(path, file, n_layers, dim)
        )


def _read_texts(path: Path, file: Any, lengths: tuple[int, ...]) -> dict[int, Words]:
    """Number -> words, as far as AllenNLP's index tells; its numbers are strings."""
    if INDEX not in file:
        return {}
    texts: dict[int, Words] = {}
    with _reading(path, INDEX):
        try:
            value = np.ravel(file[INDEX][()])[0]
            index = json.loads(value)
            texts = {int(number): tuple(text.split()) for text, number in index.items()}
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise StoreError(
                f"{path}: dataset {INDEX!r} is not a JSON object of sentence and number ({error})"
            ) from error
    for place, words in texts.items():
        if not 0 <= place < len(lengths):
            raise StoreError(f"{path}: {INDEX!r} names sentence {place}, which the file does not have")
        if len(words) != lengths[place]:
            raise StoreError(
                f"{path}: dataset {str(place)!r} has {lengths[place]} vectors, its text in {INDEX!r} has {len(words)} words, "
                f"{_excerpt(words)}"
            )
    return texts


def _read_record(path: Path, file: Any, n_layers: int, dim: int) -> _Record:
    if _OURS not in file.attrs:
        return _Record()
    try:
        values = json.loads(file.attrs[_OURS])
        model = info_from_json(values["model"]) if values["model"] is not None else None
        names, pooling = tuple(map(str, values["layer_names"])), values["pooling"]
        if len(names) != n_layers or (model is not None and model.hidden_size != dim):
            raise ValueError("it contradicts the datasets")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path}: attribute {_OURS!r} is damaged ({error!r}); write the file again") from error
    return _Record(names, pooling, model)


@contextmanager
def _reading(path: Path, key: str | None = None) -> Iterator[None]:
    """Turn what h5py raises for damaged files into a plain sentence."""
    try:
        yield
    except (OSError, RuntimeError, KeyError) as error:
        where = f"{path}: dataset {key!r}" if key is not None else f"{path}"
        raise StoreError(
            f"{where} cannot be read ({error}); the file is damaged or cut short, make or copy it again"
        ) from error


@contextmanager
def _new_hdf5(path: Path) -> Iterator[tuple[Any, _Disk]]:
    """Create an HDF5 file; a write that failed is raised by ``_Disk.check`` and, at the latest, at the end."""
    import h5py

    with _Disk(path, "w+") as disk:
        with h5py.File(disk, "w") as file:
            yield file, disk
        disk.check()


class _Disk(io.FileIO):
    """A file that keeps its first failed write to itself and pretends that all later ones succeed.

    HDF5 cannot let go of a file that it could not write: it complains at every object it closes, and crashes at exit.
    """

    _failure: OSError | None = None

    def write(self, block: Any, /) -> int:
        rest = memoryview(block).cast("B")
        size = len(rest)
        try:
            while rest and self._failure is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self._failure = error
        return size

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self._failure = self._failure or error
            return size or 0

    def check(self) -> None:
        """Raise what went wrong."""
        if self._failure is not None:
            raise self._failure


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name


def _excerpt(words: Words) -> str:
    return repr(" ".join(words[:6]) + (" ..." if len(words) > 6 else ""))
