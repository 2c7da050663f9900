"""Model folders of this project's own kinds: ``config.json`` with a ``model_type``, and ``model.safetensors``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from extractors.devices import usable_device
from extractors.foundation.errors import ModelError
from extractors.foundation.files import sha256_of_file, written_whole

if TYPE_CHECKING:
    import torch

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"

Config = TypeVar("Config", bound=BaseModel)
Module = TypeVar("Module", bound="torch.nn.Module")


def model_type_of(folder: Path) -> str | None:
    """The ``model_type`` that a folder's ``config.json`` names; None without one, or if it cannot be read."""
    try:
        content = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    kind = content.get("model_type") if isinstance(content, dict) else None
    return kind if isinstance(kind, str) else None


def read_config(folder: Path, kind: type[Config]) -> Config:
    """Read and check ``config.json``.

    Raises
    ------
    ModelError
        If it cannot be read or a field is missing or impossible; names file and field.
    """
    path = folder / CONFIG_FILE
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}" for fault in error.errors()
        )
        raise ModelError(f"{path} does not describe a model of its kind: {faults}; fetch the folder again") from error


def read_tensors(folder: Path, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Read ``model.safetensors``, checked against the shapes that the configuration asks for.

    Parameters
    ----------
    folder : Path
        The model folder.
    shapes : mapping of str to tuple of int
        Every tensor the network has.
    dtype : torch.dtype
        Precision of the tensors given.

    Raises
    ------
    ModelError
        If the file is missing or damaged, or a tensor is missing, of another shape, or not finite; names the tensor.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / WEIGHTS_FILE
    tensors = {}
    try:
        with safe_open(path, framework="pt") as file:
            present = set(file.keys())
            for name, shape in shapes.items():
                if name not in present:
                    raise ModelError(f"{path} has no tensor {name}; config and weights are not of one model")
                tensor = file.get_tensor(name)
                if tuple(tensor.shape) != tuple(shape):
                    raise ModelError(
                        f"{path}: tensor {name} has shape {tuple(tensor.shape)}, but config.json asks for {tuple(shape)}; "
                        "config and weights are not of one model"
                    )
                if not tensor.isfinite().all():
                    raise ModelError(f"{path}: tensor {name} holds values that are not finite; the file is damaged")
                tensors[name] = tensor.to(dtype)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"cannot read {path}: {error}; it is missing, damaged or cut short; fetch it again") from error
    return tensors


def write_model(folder: Path, config: BaseModel, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> None:
    """Write ``model.safetensors`` and ``config.json``, each whole or not at all.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    """
    from safetensors.torch import save

    content = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    with written_whole(folder / WEIGHTS_FILE) as temporary:
        temporary.write_bytes(save(content, metadata={"format": "pt"}))
    with written_whole(folder / CONFIG_FILE) as temporary:
        temporary.write_text(json.dumps(config.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")


def checksum_of(folder: Path, *names: str) -> str:
    """SHA-256 over the checksums of the named files of a folder, in the order given."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name} {sha256_of_file(folder / name)}\n".encode())
    return digest.hexdigest()


def load_network(
    folder: Path,
    network: Module,
    draw: Callable[[Module, int], Module],
    *,
    device: str,
    dtype: str,
    untrained: bool,
    seed: int,
) -> Module:
    """Fill a network built without weights from ``model.safetensors``, or draw them, and put it on its device.

    Parameters
    ----------
    folder : Path
        The model folder.
    network : torch.nn.Module
        On the device ``meta``.
    draw : callable
        Gives the network with weights drawn from a seed.
    device, dtype, untrained, seed
        As in `extractors.load_extractor`.

    Raises
    ------
    ModelError
        As `read_tensors`.
    UsageError
        If device or precision cannot be had here.
    """
    import torch

    place, precision = usable_device(device, dtype), getattr(torch, dtype)
    if untrained:
        network = draw(network, seed)
    else:
        shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        network.load_state_dict(read_tensors(folder, shapes, precision), assign=True)
    return network.to(device=place, dtype=precision)
