"""Checkpoints of a training run: one safetensors file, written whole, with the rest of the state as JSON in its header.

Everything random in training follows from the seed and the step (see `extractors.foundation.randomness`), so the step stands
for the state of every random generator and a resumed run ends with the same bits as an undisturbed one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import OutputError
from extractors.foundation.files import written_whole

if TYPE_CHECKING:
    import torch

_STATE = "state"


def save_checkpoint(
    path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Write weights, the optimizer's moments and `state` (plain JSON values) to one file.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    from safetensors.torch import save

    tensors = {}
    for name, parameter in network.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach()
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer/{key}/{name}"] = value.detach()
    content = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    with written_whole(path) as temporary:
        temporary.write_bytes(save(content, metadata={_STATE: json.dumps(state)}))


def load_checkpoint(path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put a checkpoint's weights and moments back; gives its `state`.

    Raises
    ------
    OutputError
        If the file is damaged or of another network.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            names = list(file.keys())
            for name, parameter in network.named_parameters():
                parameter.copy_(file.get_tensor(f"weight/{name}"))
                moments = [key for key in names if key.startswith("optimizer/") and key.split("/", 2)[2] == name]
                for key in moments:
                    optimizer.state[parameter][key.split("/", 2)[1]] = file.get_tensor(key).to(parameter.device)
            state = json.loads(file.metadata()[_STATE])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise OutputError(
            f"the checkpoint {path} cannot be resumed ({error}); remove its folder or choose another with --out"
        ) from error
    if not isinstance(state, dict):
        raise OutputError(f"the checkpoint {path} holds no state; remove its folder or choose another with --out")
    return state
