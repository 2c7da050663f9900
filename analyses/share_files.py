"""Direction shares on disk: one safetensors file with the sums of every target and all that belongs to them.

What a run keeps of a model, so that comparisons of models can be made later without reading any model again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from analyses.contexts import ContextSet, PieceCounts, TargetContexts
from analyses.direction_shares import Array, DirectionShares
from analyses.share_components import COMPONENTS, Key
from extractors.foundation.errors import StoreError
from extractors.foundation.files import written_whole
from extractors.representation import ModelInfo

FORMAT = "janus-direction-shares 1"
_PLAIN = ("pooling", "data", "resamples", "seed", "mode", "notes")


def save_shares(shares: DirectionShares, path: str | PathLike[str]) -> None:
    """Write direction shares with their components, contexts and model description.

    Parameters
    ----------
    shares : DirectionShares
        The result.
    path : path
        The file, e.g. ``unit.safetensors``: one float64 tensor (targets, 5) per key, named ``layer|part|condition``
        (``mix`` for the layer of a scalar mix), everything else as JSON in the metadata. Some ten kB per model.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    from safetensors.numpy import save

    tensors = {_name(key): np.ascontiguousarray(units, dtype="<f8") for key, units in shares.components.items()}
    about = {
        "components": COMPONENTS,
        "info": _info_to_json(shares.info),
        "contexts": asdict(shares.contexts),
        "keys": list(tensors),
        **{name: getattr(shares, name) for name in _PLAIN},
    }
    metadata = {"format": FORMAT, "checksum": _checksum(tensors), "about": json.dumps(about)}
    with written_whole(path) as temporary:
        temporary.write_bytes(save(tensors, metadata=metadata))


def load_shares(path: str | PathLike[str]) -> DirectionShares:
    """Read direction shares written by `save_shares`.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    DirectionShares
        Equal to what was saved, intervals included.

    Raises
    ------
    StoreError
        If the file is missing, damaged, or of another kind.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            raise StoreError(f"{path} does not hold direction shares ({FORMAT}); give a file written by save")
        about = json.loads(metadata["about"])
        if metadata.get("checksum") != _checksum(tensors) or about["components"] != list(COMPONENTS):
            raise StoreError(f"{path} is damaged: its sums do not match their checksum; measure again")
        return DirectionShares(
            info=_info_from_json(about["info"]),
            contexts=_contexts_from_json(about["contexts"]),
            components={_key(name): tensors[name] for name in about["keys"]},
            **{name: about[name] for name in _PLAIN if name != "notes"},
            notes=tuple(about["notes"]),
        )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"cannot read direction shares from {path}: {error}; measure again") from error


def _checksum(tensors: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f8").tobytes())
    return digest.hexdigest()


def _name(key: Key) -> str:
    layer, part, condition = key
    return f"{'mix' if layer is None else layer}|{part}|{condition}"


def _key(name: str) -> Key:
    layer, part, condition = name.split("|")
    return None if layer == "mix" else int(layer), part, condition


def _info_to_json(info: ModelInfo) -> dict[str, Any]:
    """The fields; mappings of names to slices become mappings of names to start and stop."""
    values = {field.name: getattr(info, field.name) for field in fields(info)}
    return {
        name: {part: [place.start, place.stop] for part, place in value.items()}
        if isinstance(value, Mapping)
        else value
        for name, value in values.items()
    }


def _info_from_json(values: dict[str, Any]) -> ModelInfo:
    slices = {
        name: MappingProxyType({part: slice(*ends) for part, ends in value.items()})
        for name, value in values.items()
        if isinstance(value, dict)
    }
    return ModelInfo(**{**values, **slices, "layer_names": tuple(values["layer_names"])})


def _contexts_from_json(values: dict[str, Any]) -> ContextSet:
    targets = tuple(
        TargetContexts(
            **{
                **target,
                "left": tuple(map(tuple, target["left"])),
                "right": tuple(map(tuple, target["right"])),
                "pieces": {model: PieceCounts(**counts) for model, counts in target["pieces"].items()},
            }
        )
        for target in values["targets"]
    )
    return ContextSet(
        **{**values, "targets": targets, "models": tuple(values["models"]), "notes": tuple(values["notes"])}
    )
