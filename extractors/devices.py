"""Which torch device a name stands for, and whether it can be used here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractors.foundation.errors import UsageError

if TYPE_CHECKING:
    import torch


def usable_device(name: str, dtype: str = "float32") -> torch.device:
    """The torch device of that name, after trying to put a number of that precision on it.

    Parameters
    ----------
    name : str
        A torch device, e.g. ``cpu`` or ``cuda:0``.
    dtype : str
        Name of a floating-point precision of torch.

    Raises
    ------
    UsageError
        If device or precision cannot be had here.
    """
    import torch

    try:
        device = torch.device(name)
        # The device "meta" has no memory and can hold no number.
        torch.empty(1, device=device, dtype=getattr(torch, dtype)).fill_(1).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).strip().splitlines()[0][:150]
        raise UsageError(f"device {name!r} is not available here ({reason}); use float32 on cpu") from error
    return device
