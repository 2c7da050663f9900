"""Mean cross-entropy of a linear softmax without ever holding all scores: loss and gradients, a few rows at a time.

With 10,000 words the scores of a batch and their gradient are 128 MB each, and moving them costs as much as the matrix
products. The value is `torch.nn.functional.cross_entropy`'s. Imports torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_ROWS = 256
"""Rows whose scores are held at once (10 MB at 10,000 words)."""


def linear_cross_entropy(inputs: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Mean negative log probability of `targets` under softmax(inputs @ weight.T + bias).

    Parameters
    ----------
    inputs : Tensor, shape (rows, dim)
        What is scored.
    weight : Tensor, shape (words, dim)
        Output vectors.
    bias : Tensor of shape (words,), optional
        Output biases.
    targets : Tensor of int64, shape (rows,)
        The words.

    Returns
    -------
    Tensor
        A scalar in nats.
    """
    loss: Tensor = _LinearCrossEntropy.apply(inputs, weight, bias, targets)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        """Compute the loss and, since the scores are at hand, its gradients."""
        grad_inputs = torch.empty_like(inputs)
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        loss = inputs.new_zeros(())
        parts = (torch.split(tensor, _ROWS) for tensor in (inputs, targets, grad_inputs))
        for rows, chosen, into in zip(*parts, strict=True):
            scores = rows @ weight.T if bias is None else torch.addmm(bias, rows, weight.T)
            place = chosen[:, None]
            true = scores.gather(1, place).squeeze(1)
            total = scores.logsumexp(1)
            loss += (total - true).sum()
            shares = scores.sub_(total[:, None]).exp_()
            shares.scatter_add_(1, place, shares.new_full(place.shape, -1.0))
            torch.mm(shares, weight, out=into)
            grad_weight.addmm_(shares.T, rows)
            if grad_bias is not None:
                grad_bias += shares.sum(0)
        ctx.save_for_backward(grad_inputs, grad_weight, grad_bias)
        ctx.rows = len(targets)
        return loss / len(targets)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients."""
        scale = grad / ctx.rows
        return (*(None if part is None else part * scale for part in ctx.saved_tensors), None)
