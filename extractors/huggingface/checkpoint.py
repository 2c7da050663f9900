"""Where a Hugging Face checkpoint lies and whether it is whole, checked before anything is loaded.

A folder is never looked up on the hub. An id is fetched (or found in the cache) as a snapshot and is a folder from then on.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from extractors.foundation.errors import ModelError, UsageError
from extractors.foundation.files import sha256_of_file

_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "*.tiktoken")
_PICKLES = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    """Folder with configuration, tokenizer and, unless only the architecture was asked for, weights."""
    source: str
    """The id or path that was asked for."""
    name: str
    """Name for tables: the id, or the folder's own name."""
    weight_files: tuple[Path, ...]
    """The safetensors files; empty when no weights were asked for."""
    revision: str | None
    """Commit on the hub; None for a folder."""

    def checksum(self) -> str:
        """SHA-256 over the checksums of the configuration and of every weight file, in order of their names."""
        digest = hashlib.sha256()
        for path in sorted({self.folder / "config.json", *self.weight_files}):
            digest.update(f"{path.name} {sha256_of_file(path)}\n".encode())
        return digest.hexdigest()


def find_checkpoint(
    source: Path | str,
    *,
    weights: bool = True,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool | None = None,
    trust_remote_code: bool = False,
) -> Checkpoint:
    """Find a checkpoint and check that its files are there.

    Parameters
    ----------
    source : Path or str
        An existing folder, or a Hugging Face id.
    weights : bool
        Whether weight files are needed; an untrained copy needs none.
    revision, cache_dir, offline, trust_remote_code
        As in `load_extractor`; the first three are for ids only.

    Returns
    -------
    Checkpoint
        With every file that loading needs.

    Raises
    ------
    ModelError
        If it cannot be found or fetched, or a file is missing, damaged or a pickle.
    UsageError
        If a revision is given for a folder.
    """
    path = Path(source).expanduser()
    if path.exists():
        if not path.is_dir():
            raise ModelError(
                f"{source} is a file; give the folder that holds config.json, the weights and the tokenizer"
            )
        if revision is not None:
            raise UsageError(f"revision {revision!r} is for Hugging Face ids, but {source} is a folder; leave it out")
        folder, name, commit = path, path.resolve().name, None
    elif isinstance(source, Path):
        raise ModelError(f"there is no folder {source}; give an existing folder or a Hugging Face id")
    else:
        folder = _fetch(source, weights, revision, cache_dir, offline, trust_remote_code)
        name, commit = source, folder.name
    _check_config(folder, source)
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise ModelError(
            f"{source} has no tokenizer: none of {', '.join(_TOKENIZER_FILES)} is in {folder}; "
            "copy the tokenizer's files beside config.json"
        )
    files = _find_weights(folder, source) if weights else ()
    return Checkpoint(folder, str(source), name, files, commit)


def _check_config(folder: Path, source: Path | str) -> None:
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{source} is not a Hugging Face model: there is no config.json in {folder}; "
            "give the folder written by save_pretrained"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}); fetch the model again") from error
    if not isinstance(config, dict) or not config.get("model_type"):
        raise ModelError(f"{path} does not say which kind of model it is (no model_type); fetch the model again")


def _find_weights(folder: Path, source: Path | str) -> tuple[Path, ...]:
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        files = [folder / "model.safetensors"]
    elif index.is_file():
        try:
            files = sorted({folder / str(name) for name in json.loads(index.read_text("utf-8"))["weight_map"].values()})
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelError(f"{index} cannot be read ({error!r}); fetch the model again") from error
    else:
        pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
        if pickles:
            raise ModelError(
                f"{source} has its weights only as {pickles[0]}, a pickle, which can run code when opened and is not "
                "read here. If you trust its origin, convert it once: "
                f"AutoModel.from_pretrained({str(source)!r}, use_safetensors=False).save_pretrained(NEW_FOLDER), "
                "save the tokenizer there too, and give NEW_FOLDER"
            )
        raise ModelError(
            f"{source} has no weights: there is no model.safetensors in {folder}; fetch the model again. A checkpoint "
            "published only as pytorch_model.bin has to be converted first: "
            f"AutoModel.from_pretrained({str(source)!r}, use_safetensors=False).save_pretrained(NEW_FOLDER)"
        )
    for file in files:
        _check_safetensors(file)
    return tuple(files)


def _check_safetensors(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt"):
            pass
    except FileNotFoundError as error:
        if os.path.exists(file):
            raise ModelError(f"no permission to read the weight file {file}; change its permissions") from error
        raise ModelError(f"weight file {file} is missing, though the index names it; fetch the model again") from error
    except (SafetensorError, OSError) as error:
        raise ModelError(f"weight file {file} is damaged or cut short ({error}); fetch the model again") from error


def _fetch(
    source: str,
    weights: bool,
    revision: str | None,
    cache_dir: str | Path | None,
    offline: bool | None,
    trust_remote_code: bool,
) -> Path:
    from huggingface_hub import constants, errors, snapshot_download

    if offline is None:
        offline = constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    wanted = ["*.json", "*.txt", "*.model", "*.tiktoken"]
    wanted += ["model*.safetensors"] if weights else []
    wanted += ["*.py"] if trust_remote_code else []
    advice = "check the spelling, or give the path of a folder that holds the model"
    at = f" at revision {revision}" if revision else ""
    try:
        return Path(
            snapshot_download(
                source,
                revision=revision,
                cache_dir=cache_dir,
                local_files_only=offline,
                allow_patterns=wanted,
                ignore_patterns=["*/*"],
            )
        )
    except errors.HFValidationError as error:
        raise ModelError(f"{source!r} is neither an existing folder nor a Hugging Face id; {advice}") from error
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{source} is gated: its owner grants access on huggingface.co; ask there, run 'hf auth login', try again"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"{source} has no revision {revision!r}; leave it out or give an existing one") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"there is no model {source!r} on huggingface.co, or it is private; {advice}; for a private model run "
            "'hf auth login' first"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = "Janus is offline" if offline else "huggingface.co cannot be reached"
        raise ModelError(
            f"{source}{at} is not in the local cache and {reason}; copy the model's folder to this machine and give its "
            f"path, or, on a machine with a connection, run: hf download {source}"
        ) from error
    except Exception as error:  # the hub's client passes on errors of whatever HTTP library it stands on
        raise ModelError(
            f"{source}{at} cannot be fetched from huggingface.co ({error}); try again or {advice}"
        ) from error
