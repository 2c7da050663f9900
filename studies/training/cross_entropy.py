"""Mean cross-entropy of a linear softmax: in full without ever holding all scores, and estimated from sampled negatives.

With 10,000 words the scores of a batch and their gradient are 128 MB each, and moving them costs as much as the matrix
products. Imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from extractors.foundation.randomness import generator_for

_ROWS = 256
"""Rows whose scores are held at once (10 MB at 10,000 words)."""


def linear_cross_entropy(inputs: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Mean negative log probability of `targets` under softmax(inputs @ weight.T + bias), a few rows at a time.

    The value is `torch.nn.functional.cross_entropy`'s.

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


class SampledCrossEntropy:
    """The same loss with its normaliser estimated from random negatives that all rows of a batch share.

    Each negative counts for 1 / (expected number of its draws) of itself (importance sampling, Bengio & Senecal 2003), so that
    the estimate of the normaliser has no bias; the true unit counts as it is, and where it was drawn too it is left out.

    Parameters
    ----------
    unigram : array, shape (units,)
        Probabilities in the training text. Negatives follow them to the power 0.75: flatter than the text, so that rare
        units are learnt to be unlikely too.
    never : array of bool, shape (units,)
        Units that are never predicted and never drawn.
    seed : int
        Of the draws.
    """

    def __init__(self, unigram: npt.NDArray[np.float64], never: npt.NDArray[np.bool_], *, seed: int) -> None:
        share = np.where(never, 0.0, unigram**0.75)
        self._share = share / share.sum()
        self._edges = np.cumsum(self._share)
        self._seed = seed

    def __call__(
        self, inputs: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, number: int, step: int
    ) -> Tensor:
        """Mean loss in nats, see `linear_cross_entropy`, with `number` negatives drawn for `step`."""
        drawn = generator_for(self._seed, "negatives", step).random(number)
        chosen = np.minimum(np.searchsorted(self._edges, drawn), len(self._edges) - 1)
        negatives = torch.from_numpy(chosen).to(inputs.device)
        expected = np.log(number * np.maximum(self._share[chosen], 1e-30)).astype(np.float32)
        corrected = -torch.from_numpy(expected).to(inputs)
        # Embedding lookups: the backward pass of plain indexing adds in an order that depends on thread timing.
        true = (inputs * functional.embedding(targets, weight)).sum(-1)
        if bias is not None:
            corrected = bias.index_select(0, negatives) + corrected
            true = true + bias.index_select(0, targets)
        others = functional.linear(inputs, functional.embedding(negatives, weight), corrected)
        others = others.masked_fill(negatives == targets[:, None], float("-inf"))
        return (torch.logaddexp(true, others.logsumexp(-1)) - true).mean()


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
