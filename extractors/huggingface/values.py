"""Where the families keep the value and output weights of their attention, and the norms of what heads read from pieces.

A family is added here with the ends of two module paths; its own test (tests/extractors/test_huggingface_attention.py)
then holds the norms against the model's own output projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import ModelError
from extractors.huggingface.attention import output_factors, value_norms

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Places:
    """Module paths within one attention module: their ends, after the part that both have in common."""

    value: str
    """Gives x W_V + b_V."""
    output: str
    """Multiplies the concatenated heads by W_O."""
    fused: bool = False
    """The value module gives queries, keys and values in a row, each of the width that the output module takes."""


_BERT = Places("attention.self.value", "attention.output.dense")
_LLAMA = Places("self_attn.v_proj", "self_attn.o_proj")

FAMILIES: dict[str, Places] = {
    "albert": Places("attention.value", "attention.dense"),
    "bert": _BERT,
    "camembert": _BERT,
    "distilbert": Places("attention.v_lin", "attention.out_lin"),
    "electra": _BERT,
    "gpt2": Places("attn.c_attn", "attn.c_proj", fused=True),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "roberta": _BERT,
    "t5": Places("SelfAttention.v", "SelfAttention.o"),
    "xlm-roberta": _BERT,
}
"""Model type -> where its weights are."""


@dataclass(frozen=True)
class ValueReader:
    """Reads the value norms of every layer in passing, during a forward pass.

    Attributes
    ----------
    modules : tuple of (module, factors)
        Each value module once, with the factors of its output projection (`output_factors`).
    fused : bool
        See `Places.fused`.
    """

    modules: tuple[tuple[Any, torch.Tensor], ...]
    fused: bool

    @contextmanager
    def reading(self) -> Iterator[list[torch.Tensor]]:
        """Collect norms of shape (batch, heads, pieces), in the order in which the layers run."""
        found: list[torch.Tensor] = []

        def reader(factors: torch.Tensor) -> Any:
            def read(module: Any, given: Any, output: torch.Tensor) -> None:
                width = factors.shape[1]
                values = output[..., -factors.shape[0] * width :] if self.fused else output
                of_heads = values.reshape(*values.shape[:-1], -1, width).transpose(1, 2)
                found.append(value_norms(of_heads, factors))

            return read

        handles = [module.register_forward_hook(reader(factors)) for module, factors in self.modules]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()


def missing_values(model: Any) -> str | None:
    """Say why `value_reader` cannot read a model; None if it can.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The network.

    Returns
    -------
    str or None
        The reason, in plain words.
    """
    family = model.config.model_type
    places = FAMILIES.get(family)
    if places is None:
        return (
            f"where models of type {family} keep their value and output weights is not known; "
            f"known types: {', '.join(FAMILIES)}"
        )
    if not any(_is(path, places.value) for path, _ in model.named_modules()):
        return f"this model of type {family} has no modules named {places.value}"
    return None


def value_reader(model: Any, heads: int) -> ValueReader:
    """Find the value and output weights of a model.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A network for which `missing_values` is None.
    heads : int
        Heads of each layer.

    Returns
    -------
    ValueReader
        Holds one small factor per head, computed here once.

    Raises
    ------
    ModelError
        If the shapes are not those of that number of heads.
    """
    from torch.nn import Linear

    places = FAMILIES[model.config.model_type]
    modules = []
    for path, module in model.named_modules():  # a module that several layers share comes once
        if not _is(path, places.value):
            continue
        output = model.get_submodule(path[: -len(places.value)] + places.output)
        # GPT-2's modules hold their weights the other way round.
        weight = output.weight.T if isinstance(output, Linear) else output.weight
        if weight.shape[0] % heads:
            raise ModelError(f"{path}: {heads} heads do not divide {weight.shape[0]} dimensions")
        modules.append((module, output_factors(weight, heads)))
    return ValueReader(tuple(modules), places.fused)


def _is(path: str, end: str) -> bool:
    return path == end or path.endswith("." + end)
