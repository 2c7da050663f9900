"""One meaning of layer selections everywhere: ``all``, ``last``, ``0,3``, ``2-5``, ``-1``, or a list of numbers.

Layer 0 is the context-free input layer; 1..L are the contextual layers. Zero is a layer, never "unset".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from extractors.foundation.errors import UsageError

Layers = str | int | Sequence[int]
"""What a user may write for a selection of layers."""


def select_layers(selection: Layers, layer_names: Sequence[str], *, model: str = "the model") -> tuple[int, ...]:
    """Resolve a selection of layers to layer numbers.

    Parameters
    ----------
    selection : str, int or sequence of int
        ``all``; ``last``; comma-separated numbers and ranges such as ``0,3``, ``2-5`` (both ends included) or ``1,last``;
        a number; a list of numbers. Negative numbers count from the end: -1 is the last layer.
    layer_names : sequence of str
        Names of layers 0..L.
    model : str
        How an error calls the model.

    Returns
    -------
    tuple of int
        Layer numbers in rising order, without repetition.

    Raises
    ------
    UsageError
        If the selection cannot be read or a layer does not exist; the message lists what exists.

    Examples
    --------
    >>> select_layers("0,2-3,last", ["embeddings", "1", "2", "3", "4"])
    (0, 2, 3, 4)
    """
    last = len(layer_names) - 1
    chosen: set[int] = set()
    for number in _numbers(selection, last):
        resolved = number + last + 1 if number < 0 else number
        if not 0 <= resolved <= last:
            raise UsageError(
                f"layer {number} does not exist in {model}; it has layers 0 to {last} "
                f"({', '.join(layer_names)}); choose all, last, 0,{last} or 0-{last}"
            )
        chosen.add(resolved)
    if not chosen:
        raise UsageError(f"no layer selected; {model} has layers 0 to {last}; write all, last, 0,{last} or 0-{last}")
    return tuple(sorted(chosen))


def _numbers(selection: Layers, last: int) -> list[int]:
    if isinstance(selection, bool):
        raise UsageError(f"layers {selection!r} is not a number, a list, or a string such as all, last, 0,3 or 2-5")
    if isinstance(selection, int):
        return [selection]
    if not isinstance(selection, str):
        numbers = list(selection)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int):
                raise UsageError(f"layer {number!r} is not a whole number")
        return numbers
    numbers = []
    for part in selection.split(","):
        text = part.strip().lower()
        if text == "all":
            numbers.extend(range(last + 1))
        elif text == "last":
            numbers.append(last)
        elif re.fullmatch(r"-?\d+", text):
            numbers.append(int(text))
        elif match := re.fullmatch(r"(\d+)\s*-\s*(\d+|last)", text):
            low, high = int(match[1]), last if match[2] == "last" else int(match[2])
            if low > high:
                raise UsageError(f"layer range {part!r} runs backwards; write {high}-{low}")
            if high > last:
                numbers.append(high)
                continue
            numbers.extend(range(low, high + 1))
        else:
            raise UsageError(f"cannot read layer selection {selection!r}; write all, last, 0,3 or 2-5")
    return numbers
