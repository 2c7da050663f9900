"""The official ELMo cell (LSTM with projection and clips; Peters et al. 2018) over whole sequences, fast in training.

Mathematically allennlp's `LstmCellWithProjection`, clips included and active, on sequences of equal length: the input
projections of all steps are one matrix product, both directions go side by side, and the backward pass is written out, so that
weight gradients are one product over all steps instead of one per step. Imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def run_cells(cells: Sequence[torch.nn.Module], inputs: Tensor) -> Tensor:
    """Run cells of one shape side by side, each over its own sequences in reading order.

    Parameters
    ----------
    cells : sequence of LstmCellWithProjection
        D cells of equal sizes and clips (the two directions of a layer). `go_forward` is not consulted: the caller turns
        sequences round.
    inputs : Tensor, shape (D, steps, sentences, input size)
        What each cell reads, step by step from a zero state.

    Returns
    -------
    Tensor, shape (D, steps, sentences, hidden size)
        The clipped projections.
    """
    directions, steps, sentences, _ = inputs.shape

    def stacked(name: str) -> Tensor:
        return torch.stack([cell.get_parameter(name) for cell in cells])

    weight = stacked("input_linearity.weight").transpose(1, 2)
    bias = stacked("state_linearity.bias").unsqueeze(1)
    projected = torch.baddbmm(bias, inputs.flatten(1, 2), weight).view(directions, steps, sentences, -1)
    first = cells[0]
    clips = [float(clip) if isinstance(clip, (int, float)) and clip else float("inf") for clip in _clips(first)]
    outputs: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        projected,
        stacked("state_linearity.weight").transpose(1, 2).contiguous(),
        stacked("state_projection.weight").transpose(1, 2).contiguous(),
        *clips,
    )
    return outputs


def _clips(cell: Any) -> tuple[Any, Any]:
    return cell.memory_cell_clip_value, cell.state_projection_clip_value


class _Recurrence(torch.autograd.Function):
    """The steps: gates in PyTorch's order (input, forget, candidate, output), clip of the cell, projection, clip of that."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, recurrent: Tensor, projection: Tensor, cell_clip: float, output_clip: float
    ) -> Tensor:
        """Compute (D, steps, sentences, hidden) from gate inputs (D, steps, sentences, 4 cells)."""
        directions, steps, sentences, width = projected.shape
        cells, hidden = width // 4, projection.shape[2]
        gates = torch.empty_like(projected)
        raw_memory = projected.new_empty(directions, steps, sentences, cells)
        raw_output = projected.new_empty(directions, steps, sentences, hidden)
        squashed = torch.empty_like(raw_memory)
        output = projected.new_zeros(directions, sentences, hidden)
        memory = projected.new_zeros(directions, sentences, cells)
        outputs = torch.empty_like(raw_output)
        for step in range(steps):
            now = torch.baddbmm(projected[:, step], output, recurrent)
            now[..., : 2 * cells].sigmoid_()
            now[..., 2 * cells : 3 * cells].tanh_()
            now[..., 3 * cells :].sigmoid_()
            gates[:, step] = now
            enter, keep, candidate, leave = now.chunk(4, dim=-1)
            raw = torch.addcmul(enter * candidate, keep, memory)
            raw_memory[:, step] = raw
            memory = raw.clamp_(-cell_clip, cell_clip)
            squash = memory.tanh()
            squashed[:, step] = squash
            projected_out = torch.bmm(leave * squash, projection)
            raw_output[:, step] = projected_out
            output = projected_out.clamp_(-output_clip, output_clip)
            outputs[:, step] = output
        ctx.save_for_backward(gates, raw_memory, raw_output, squashed, outputs, recurrent, projection)
        ctx.clips = cell_clip, output_clip
        return outputs

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Back-propagate through time; a clipped value passes no gradient."""
        gates, raw_memory, raw_output, squashed, outputs, recurrent, projection = ctx.saved_tensors
        cell_clip, output_clip = ctx.clips
        steps = raw_memory.shape[1]
        memory = raw_memory.clamp(-cell_clip, cell_clip)
        before = torch.cat([torch.zeros_like(memory[:, :1]), memory[:, :-1]], dim=1)
        enter, keep, candidate, leave = gates.chunk(4, dim=-1)
        unclipped_output = (raw_output.abs() <= output_clip).to(gates.dtype)
        # What a unit of gradient at the (unclipped) cell gives to each gate's input, for all steps at once.
        slopes = torch.empty_like(gates)
        into_enter, into_keep, into_candidate, into_leave = slopes.chunk(4, dim=-1)
        torch.mul(candidate, enter * (1 - enter), out=into_enter)
        torch.mul(before, keep * (1 - keep), out=into_keep)
        torch.mul(enter, 1 - candidate * candidate, out=into_candidate)
        torch.mul(squashed, leave * (1 - leave), out=into_leave)
        into_memory = leave * (1 - squashed * squashed)
        unclipped_memory = (raw_memory.abs() <= cell_clip).to(gates.dtype)
        grad_gates = torch.empty_like(gates)
        grad_projected = torch.empty_like(raw_output)
        back_recurrent, back_projection = (
            recurrent.transpose(1, 2).contiguous(),
            projection.transpose(1, 2).contiguous(),
        )
        grad_output = torch.zeros_like(grad_outputs[:, 0])
        grad_memory = torch.zeros_like(memory[:, 0])
        for step in range(steps - 1, -1, -1):
            grad_out = (grad_outputs[:, step] + grad_output) * unclipped_output[:, step]
            grad_projected[:, step] = grad_out
            grad_leave = torch.bmm(grad_out, back_projection)
            grad_cell = torch.addcmul(grad_memory, grad_leave, into_memory[:, step]) * unclipped_memory[:, step]
            grads = torch.cat([grad_cell, grad_cell, grad_cell, grad_leave], dim=-1) * slopes[:, step]
            grad_gates[:, step] = grads
            grad_memory = grad_cell * keep[:, step]
            grad_output = torch.bmm(grads, back_recurrent)
        flat_gates = grad_gates.flatten(1, 2)
        previous = torch.cat([torch.zeros_like(outputs[:, :1]), outputs[:, :-1]], dim=1).flatten(1, 2)
        grad_recurrent = torch.bmm(previous.transpose(1, 2), flat_gates)
        left = (leave * squashed).flatten(1, 2)
        grad_projection = torch.bmm(left.transpose(1, 2), grad_projected.flatten(1, 2))
        return grad_gates, grad_recurrent, grad_projection, None, None
