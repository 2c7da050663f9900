"""Representations on disk: one safetensors file per layer, the words as Parquet, a manifest that says what they are.

A store is written beside its final place and renamed when complete, the manifest last: what can be opened is whole. The
format is documented in ``docs/representation-files.md`` and can be read with safetensors and pandas alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError, ModelError, OutputError, StoreError, UsageError
from extractors.foundation.files import folder_made, output_error, sha256_of_file
from extractors.foundation.progress import SILENT, Progress
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo, SentenceRepresentation
from extractors.words import as_words

FORMAT = "janus-representations"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
WORDS = "words.parquet"
DTYPES = {"float16": "F16", "float32": "F32", "float64": "F64"}
"""Precision of the stored arrays -> its name in safetensors. All are little-endian."""

_INFO_FIELDS = (
    "name", "source", "family", "weights", "seed", "revision", "checksum", "layer_names", "hidden_size", "directionality",
    "dtype", "heads", "max_pieces", "parameters", "note",
)  # fmt: skip
_IDENTITY = ("checksum", "weights", "seed", "family", "layer_names", "hidden_size")
"""What must agree for two models to be the same. The seed stands in for the checksum where weights are untrained."""


@dataclass(frozen=True)
class RepresentationStore:
    """Stored representations of one text by one model; build it with `write_store` or `RepresentationStore.open`."""

    folder: Path
    """Where the files lie."""
    info: ModelInfo
    """The model that was run, all its layers included, stored or not."""
    layers: tuple[int, ...]
    """Numbers of the layers that are stored (and were opened), in rising order."""
    pooling: str
    """How pieces became words."""
    dtype: str
    """Precision of the arrays."""
    text_sha256: str
    """`text_checksum` of the sentences."""
    n_sentences: int
    """Number of sentences."""
    n_words: int
    """Number of words: rows of every array."""
    files: Mapping[str, Mapping[str, Any]]
    """File name -> ``{"bytes": size, "sha256": checksum}``."""

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], *, layers: Layers = "all", verify: bool = False
    ) -> RepresentationStore:
        """Open a store.

        Parameters
        ----------
        folder : path
            The folder given to `write_store`.
        layers : str, int or sequence of int
            Open only these layers (numbers of the model's layers, see `select_layers`); the files of the others are not
            looked at and may be absent. ``all`` means all that are stored.
        verify : bool
            Also compare the SHA-256 of each file, which reads them in full.

        Returns
        -------
        RepresentationStore
            Nothing but the manifest has been read.

        Raises
        ------
        StoreError
            If there is no complete store, or a file is missing or has another size (or checksum) than the manifest says.
        UsageError
            If `layers` names a layer that the model does not have.
        """
        folder = Path(folder)
        manifest = _read_manifest(folder)
        try:
            info = info_from_json(manifest["model"])
            held = {int(layer["number"]): str(layer["file"]) for layer in manifest["layers"]}
            files = {str(name): dict(entry) for name, entry in manifest["files"].items()}
            store = cls(
                folder=folder,
                info=info,
                layers=tuple(sorted(held)),
                pooling=str(manifest["pooling"]),
                dtype=str(manifest["dtype"]),
                text_sha256=str(manifest["text_sha256"]),
                n_sentences=int(manifest["sentences"]),
                n_words=int(manifest["words"]),
                files=files,
            )
            sound = store.dtype in DTYPES and bool(held) and held == {layer: layer_file(layer) for layer in held}
            sound = sound and {WORDS, *held.values()} == files.keys() and max(held) < len(info.layer_names)
            sizes = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{folder / MANIFEST} is damaged ({error!r}); extract the representations again"
            ) from error
        if not sound:
            raise StoreError(f"{folder / MANIFEST} contradicts itself; extract the representations again")
        if layers != "all":
            store.check(layers=layers)
            chosen = select_layers(layers, info.layer_names, model=info.name)
            store = replace(store, layers=chosen)
        for name in (WORDS, *map(layer_file, store.layers)):
            _check_file(folder / name, *sizes[name], verify=verify)
        return store

    def layer(self, number: int, part: str = "whole") -> npt.NDArray[np.floating[Any]]:
        """The vectors of one layer, mapped from its file; no other file is touched.

        Parameters
        ----------
        number : int
            Layer number of the model; negative numbers count from its last layer.
        part : str
            A name in `parts`, e.g. ``forward`` for the forward half of ELMo.

        Returns
        -------
        array of shape (words, dim)
            Read-only, in the stored precision; row i belongs to row i of ``words.parquet``.

        Raises
        ------
        StoreError
            If the layer is not stored, or its file is damaged.
        UsageError
            If the model has no such layer or part.
        """
        (chosen,) = select_layers(number, self.info.layer_names, model=self.info.name)
        self.check(layers=chosen)
        if part not in self.parts:
            raise UsageError(f"part {part!r} is unknown; the vectors of {self.model} have: {', '.join(self.parts)}")
        path = self.folder / layer_file(chosen)
        shape = (self.n_words, self.info.hidden_size)
        expected = {
            "dtype": DTYPES[self.dtype],
            "shape": list(shape),
            "data_offsets": [0, _nbytes(shape, self.dtype)],
        }
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, 100_000_000)))
            if header.get("hidden") != expected:
                raise ValueError("its header does not describe the array that the manifest promises")
            array = np.memmap(path, dtype=_numpy_dtype(self.dtype), mode="r", offset=8 + length, shape=shape)
        except (OSError, ValueError, AttributeError) as error:
            raise StoreError(f"{path} is missing or damaged ({error}); extract the representations again") from error
        return array[:, self.parts[part]]

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Names of the stored layers, in the order of `layers`."""
        return tuple(self.info.layer_names[layer] for layer in self.layers)

    @property
    def parts(self) -> Mapping[str, slice]:
        """Part name -> slice of the dimensions."""
        return self.info.parts

    @property
    def model(self) -> str:
        """Short name of the model."""
        return self.info.name

    @property
    def family(self) -> str:
        """Family of the model."""
        return self.info.family

    @property
    def weights(self) -> str:
        """``trained`` or ``untrained``."""
        return self.info.weights

    @cached_property
    def sentences(self) -> tuple[tuple[str, ...], ...]:
        """The words of every sentence, in order.

        Raises
        ------
        StoreError
            If ``words.parquet`` is damaged or holds another text than the manifest says.
        """
        import pyarrow.parquet

        path = self.folder / WORDS
        try:
            # An open file: pyarrow cannot take a path that is no text in this locale.
            with path.open("rb") as file:
                table = pyarrow.parquet.read_table(file)
            numbers, words = table["sentence"].to_numpy(), table["word"].to_pylist()
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{path} is missing or damaged ({error}); extract the representations again") from error
        starts = np.searchsorted(numbers, np.arange(self.n_sentences + 1)).tolist()
        sentences = tuple(tuple(words[a:b]) for a, b in pairwise(starts))
        if len(words) != self.n_words or text_checksum(sentences) != self.text_sha256:
            raise StoreError(
                f"{path} does not hold the text that the manifest names; extract the representations again"
            )
        return sentences

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Shape (sentences + 1,): sentence i has the rows ``offsets[i]`` to ``offsets[i + 1]`` (excluded)."""
        return np.cumsum([0, *map(len, self.sentences)], dtype=np.int64)

    def check(
        self,
        extractor: Extractor | None = None,
        sentences: Sequence[Sentence] | None = None,
        pooling: str | None = None,
        layers: Layers | None = None,
    ) -> None:
        """Refuse to be taken for something else: only what is given is compared.

        Parameters
        ----------
        extractor : Extractor, optional
            The model that the vectors should come from: same weights (by checksum; by seed if untrained), same layers.
        sentences : sequence of sentences, optional
            The text they should belong to.
        pooling : str, optional
            The pooling they should have.
        layers : str, int or sequence of int, optional
            Layers of the model that should be stored.

        Raises
        ------
        StoreError
            Says what the store holds and what was asked.
        """
        if extractor is not None:
            for field in _IDENTITY:
                held, asked = getattr(self.info, field), getattr(extractor.info, field)
                if held != asked:
                    raise StoreError(
                        f"{self.folder} holds vectors of {self.model} ({self.info.source}) with {field} {held!r}, asked for "
                        f"{extractor.info.name} ({extractor.info.source}) with {field} {asked!r}; extract again into "
                        "another folder"
                    )
        if sentences is not None:
            text = [as_words(sentence, where=f"sentence {i}") for i, sentence in enumerate(sentences, start=1)]
            if text_checksum(text) != self.text_sha256:
                raise StoreError(
                    f"{self.folder} holds another text: {self.n_sentences} sentences, {self.n_words} words, SHA-256 "
                    f"{self.text_sha256[:12]}...; asked for {len(text)} sentences, {sum(map(len, text))} words, SHA-256 "
                    f"{text_checksum(text)[:12]}...; extract again into another folder"
                )
        if pooling is not None and pooling != self.pooling:
            raise StoreError(
                f"{self.folder} holds vectors pooled by {self.pooling!r}, asked for {pooling!r}; extract again into another "
                "folder"
            )
        if layers is not None:
            chosen = select_layers(layers, self.info.layer_names, model=self.model)
            lacking = [layer for layer in chosen if layer not in self.layers]
            if lacking:
                raise StoreError(
                    f"{self.folder} holds layers {', '.join(map(str, self.layers))} of {self.model}, not "
                    f"{', '.join(map(str, lacking))}; extract these into another folder"
                )


def write_store(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    folder: str | os.PathLike[str],
    *,
    layers: Layers = "all",
    pooling: str = "mean",
    batch_size: int = 32,
    dtype: str = "float32",
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> RepresentationStore:
    """Run a model over a text and store the vectors, whole or not at all.

    Words and pieces of the whole text are aligned before the model is run. Sentences are streamed: memory does not grow
    with the text, apart from the words themselves. On any failure or interruption nothing is left behind (a killed process
    leaves a hidden ``.NAME.*.part`` folder beside `folder`, which is never read and can be deleted).

    Parameters
    ----------
    extractor : Extractor
        The model.
    sentences : sequence of str or of sequences of str
        The text; a plain string is split by `split_words`.
    folder : path
        Where the store will be; must not exist, or be empty.
    layers, pooling, batch_size, progress
        As in `Extractor.extract`.
    dtype : {"float32", "float16", "float64"}
        Precision of the stored arrays. float16 halves the size and keeps three significant digits.
    overwrite : bool
        Replace a store at `folder` once the new one is complete. Other files are never deleted.

    Returns
    -------
    RepresentationStore
        The new store, opened.

    Raises
    ------
    UsageError
        For an unknown layer, pooling or precision, or vectors too large for float16.
    DataError, AlignmentError
        If a sentence or word is empty or cannot be aligned, by position.
    ModelError
        If the model gives a vector that is not finite.
    OutputError
        If `folder` is in use, cannot be written, or the disk is too small.
    """
    target = Path(folder).resolve()
    if dtype not in DTYPES:
        raise UsageError(f"precision {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    text = [as_words(sentence, where=f"sentence {number}") for number, sentence in enumerate(sentences, start=1)]
    if not text:
        raise DataError("there are no sentences to extract; give at least one")
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    stream = extractor.extract(text, layers=chosen, pooling=pooling, batch_size=batch_size, progress=progress)
    with _writing(target):
        _check_target(target, overwrite)
    words = _word_table(text)
    for _ in extractor.align(text):
        pass
    shape = (sum(map(len, text)), info.hidden_size)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    with ExitStack() as stack:
        with _writing(target):
            stack.enter_context(folder_made(target.parent))
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            _check_space(target, len(chosen) * _nbytes(shape, dtype))
            temporary.mkdir()
            _write_words(temporary / WORDS, words)
        files = {WORDS: _entry(temporary / WORDS)}
        headers = {layer: _header(info, layer, shape, pooling, dtype) for layer in chosen}
        files |= _write_layers(temporary, target, info, zip(stream, text, strict=True), headers, dtype)
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "written_by": f"janus-probe {_own_version()}",
            "model": info_to_json(info),
            "layers": [
                {"number": layer, "name": info.layer_names[layer], "file": layer_file(layer)} for layer in chosen
            ],
            "pooling": pooling,
            "dtype": dtype,
            "sentences": len(text),
            "words": shape[0],
            "text_sha256": text_checksum(text),
            "files": files,
        }
        with _writing(target):
            with (temporary / MANIFEST).open("w", encoding="utf-8") as file:
                file.write(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
                _flush_to_disk(file)
            _move_into_place(temporary, target, overwrite)
    return RepresentationStore.open(folder)


def text_checksum(sentences: Iterable[Sequence[str]]) -> str:
    """SHA-256 of a text: over each sentence's words as a JSON array in ASCII (``json.dumps``), with a line feed behind."""
    digest = hashlib.sha256()
    for words in sentences:
        digest.update(json.dumps(list(words)).encode() + b"\n")
    return digest.hexdigest()


def layer_file(number: int) -> str:
    """Name of a layer's file in a store, ``layer_07.safetensors``."""
    return f"layer_{number:02d}.safetensors"


def info_to_json(info: ModelInfo) -> dict[str, Any]:
    """A model's description as JSON values; slices become [start, stop]."""
    values = {field: getattr(info, field) for field in _INFO_FIELDS}
    values["layer_names"] = list(info.layer_names)
    values["parts"] = {name: list(part.indices(info.hidden_size)[:2]) for name, part in info.parts.items()}
    return values


def info_from_json(values: Mapping[str, Any]) -> ModelInfo:
    """The inverse of `info_to_json`; raises KeyError, TypeError or ValueError for anything else."""
    fields = {field: values[field] for field in _INFO_FIELDS}
    fields["layer_names"] = tuple(map(str, values["layer_names"]))
    fields["hidden_size"] = int(values["hidden_size"])
    fields["parts"] = {name: slice(*map(int, ends)) for name, ends in values["parts"].items()}
    return ModelInfo(**fields)


def _write_layers(
    folder: Path,
    target: Path,
    info: ModelInfo,
    stream: Iterable[tuple[SentenceRepresentation, tuple[str, ...]]],
    headers: Mapping[int, bytes],
    dtype: str,
) -> dict[str, dict[str, Any]]:
    """Append each sentence to every layer's file; the headers come first, for the number of words is known."""
    names = [layer_file(layer) for layer in headers]
    digests = [hashlib.sha256() for _ in names]
    with ExitStack() as stack:
        with _writing(target):
            # Unbuffered, so that closing a file on a full disk has nothing left to write and to fail with.
            opened = [stack.enter_context((folder / name).open("wb", buffering=0)) for name in names]

        def append(blocks: Iterable[bytes | memoryview]) -> None:
            with _writing(target):
                for file, digest, block in zip(opened, digests, blocks, strict=True):
                    digest.update(block)
                    rest = memoryview(block)
                    while rest:
                        rest = rest[file.write(rest) :]

        append(headers.values())
        for number, (representation, words) in enumerate(stream, start=1):
            hidden = representation.hidden
            expected = (len(names), len(words), info.hidden_size)
            if representation.words != words or hidden.shape != expected:
                raise ModelError(f"{info.name} gave {hidden.shape} for sentence {number}, expected {expected}")
            with np.errstate(over="ignore"):
                stored = np.ascontiguousarray(hidden, dtype=_numpy_dtype(dtype))
            if not np.isfinite(stored).all():
                if np.isfinite(hidden).all():
                    raise UsageError(
                        f"{dtype} cannot hold the vectors of sentence {number}: values up to {np.abs(hidden).max():.3g}; "
                        "store them as float32"
                    )
                layer = next(layer for layer, rows in zip(headers, hidden, strict=True) if not np.isfinite(rows).all())
                raise ModelError(
                    f"{info.name} gives values that are not finite for sentence {number} at layer {layer} "
                    f"({info.layer_names[layer]}): its weights are damaged, or too large for {info.dtype}; fetch it again, or "
                    "try float64"
                )
            append(memoryview(layer).cast("B") for layer in stored)
        with _writing(target):
            for file in opened:
                _flush_to_disk(file)
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": digest.hexdigest()}
        for name, digest in zip(names, digests, strict=True)
    }


def _header(info: ModelInfo, layer: int, shape: tuple[int, int], pooling: str, dtype: str) -> bytes:
    """The head of a safetensors file with one array: 8 bytes of length, then JSON padded to a multiple of 8."""
    header = {
        "__metadata__": {
            "format": FORMAT,
            "model": info.name,
            "checksum": info.checksum,
            "layer": str(layer),
            "layer_name": info.layer_names[layer],
            "pooling": pooling,
        },
        "hidden": {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [0, _nbytes(shape, dtype)]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _word_table(text: Sequence[tuple[str, ...]]) -> Any:
    import pyarrow

    lengths = [len(words) for words in text]
    try:
        words = pyarrow.array([word for words in text for word in words], pyarrow.string())
    except UnicodeEncodeError as error:
        raise DataError(
            f"a word cannot be written as UTF-8 ({error}); read the text with its right encoding"
        ) from error
    return pyarrow.table(
        {
            "sentence": np.repeat(np.arange(len(text)), lengths),
            "position": np.concatenate([np.arange(length) for length in lengths]),
            "word": words,
        }
    )


def _write_words(path: Path, table: Any) -> None:
    import pyarrow.parquet

    with path.open("wb") as file:
        pyarrow.parquet.write_table(table, file)
        _flush_to_disk(file)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise StoreError(
            f"there are no stored representations in {folder}: it has no {MANIFEST}; run the extraction (again)"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kind, number = manifest["format"], manifest["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error!r}); extract the representations again") from error
    if kind != FORMAT or number != FORMAT_VERSION:
        raise StoreError(
            f"{path} is of format {kind!r} version {number!r}, this program reads {FORMAT!r} version {FORMAT_VERSION}; "
            "update janus-probe or extract the representations again"
        )
    assert isinstance(manifest, dict)
    return manifest


def _check_file(path: Path, size: int, sha256: str, *, verify: bool) -> None:
    try:
        found = path.stat().st_size
        if found != size:
            raise StoreError(f"{path} has {found} bytes, the manifest says {size}; extract the representations again")
        if verify and sha256_of_file(path) != sha256:
            raise StoreError(f"{path} has changed since it was written (SHA-256); extract the representations again")
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); extract the representations again") from error


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse a folder in use before any work is done; only a complete store, and nothing beside it, may be replaced."""
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{target} is a file; give the name of a folder")
    present = {entry.name for entry in target.iterdir()}
    if not present:
        return
    if MANIFEST not in present:
        raise OutputError(f"{target} is not empty and holds no stored representations; choose another folder")
    if not overwrite:
        raise OutputError(f"{target} holds stored representations already; choose another folder or allow overwriting")
    try:
        known = {MANIFEST, *_read_manifest(target)["files"]}
    except (StoreError, KeyError, TypeError) as error:
        raise OutputError(
            f"{target} holds a damaged store, which is not overwritten ({error}); delete it first"
        ) from error
    foreign = sorted(present - known)
    if foreign:
        raise OutputError(
            f"{target} also holds {foreign[0]}, which overwriting would delete; move it or choose another folder"
        )


def _check_space(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise OutputError(
            f"cannot write {target}: the vectors take {needed / 1e6:,.1f} MB and {free / 1e6:,.1f} MB are free; free some "
            "space, choose fewer layers, or store them as float16"
        )


def _move_into_place(temporary: Path, target: Path, overwrite: bool) -> None:
    _check_target(target, overwrite)
    if not target.exists() or not any(target.iterdir()):
        os.replace(temporary, target)
        return
    old = target.parent / f"{temporary.name}.old"
    os.replace(target, old)
    try:
        os.replace(temporary, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn errors of our own writing into plain ones; errors that the model meets while reading stay what they are."""
    try:
        yield
    except OSError as error:
        raise output_error(error, target) from error


def _flush_to_disk(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _entry(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


def _nbytes(shape: tuple[int, int], dtype: str) -> int:
    return shape[0] * shape[1] * np.dtype(dtype).itemsize


def _own_version() -> str:
    try:
        return version("janus-probe")
    except PackageNotFoundError:
        return "(not installed)"
