"""The pair of causal Transformers as the two language models that they are, at words of one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from extractors.bigpt.extractor import BigptExtractor
from extractors.gaps import Array, Gap, GapFiller, add_ends, log_share, log_softmax_at
from extractors.huggingface.gap_pieces import PieceVocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from extractors.bigpt.network import Block


class BigptGapFiller(GapFiller):
    """P(w | L) from the forward tower, P(w | R) from the backward tower.

    From the left a word is its piece, and that the next piece does not carry it on. From the right it is its piece alone: the
    backward tower reads a word's last piece first, and a piece that starts a word ends it in that order.

    Parameters
    ----------
    extractor : BigptExtractor
        The model.
    exact_ends : int, optional
        See `extractors.gaps.gap_filler`.
    """

    sides = ("forward", "backward")

    def __init__(self, extractor: BigptExtractor, *, exact_ends: int | None = 16) -> None:
        self.info = extractor.info
        self._extractor = extractor
        self._exact = exact_ends
        self._pieces = PieceVocabulary(extractor.tokenizer, extractor._words, extractor.config.vocab_size)
        self._start_ends: dict[int, float] = {}
        self.note = "from the left, a word's probability includes that no piece carries it on"

    def words(self) -> tuple[str, ...]:
        """See `GapFiller.words`."""
        return self._pieces.words

    def entries(self, words: Sequence[str]) -> list[int | None]:
        """See `GapFiller.entries`."""
        return self._pieces.numbers(words)

    def refusal(self, gap: Gap) -> str | None:
        """See `GapFiller.refusal`: the sentence must fit into one window."""
        count = sum(map(len, self._extractor._words(gap.words, "the sentence").ids))
        if count > self._extractor.config.n_positions - 1:
            return f"the sentence has {count} pieces, but {self.info.name} reads at most {self._extractor.config.n_positions - 1}"
        return None

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        import torch

        words = self._extractor._words
        network = self._extractor.network
        device = network.words.weight.device
        sentences = {gap.words: words(gap.words, "the sentence").ids for gap in gaps}
        row = {key: i for i, key in enumerate(sentences)}
        counts = [[len(piece) for piece in pieces] for pieces in sentences.values()]
        longest = 1 + max(map(sum, counts))
        rows = torch.tensor([row[gap.words] for gap in gaps], device=device)
        found = {}
        for side, boundary in zip(self.sides, (words.prefix, words.suffix), strict=True):
            ids = np.zeros((len(sentences), longest), dtype=np.int64)
            ids[:, 0] = boundary
            for line, pieces in zip(ids, sentences.values(), strict=True):
                flat = [piece for word in pieces for piece in word]
                line[1 : 1 + len(flat)] = flat if side == "forward" else flat[::-1]
            # How many pieces, the boundary included, the tower has read when it comes to the gap.
            read = [
                1
                + sum(
                    counts[row[g.words]][: g.position] if side == "forward" else counts[row[g.words]][g.position + 1 :]
                )
                for g in gaps
            ]
            with torch.inference_mode():
                states = network(torch.from_numpy(ids).to(device), side)
                scores = network.scores(states[-1][rows, torch.tensor(read, device=device) - 1])
                values = log_softmax_at(scores, entries)
                if side == "forward":
                    below = [[state[r, :n] for state in states[:-1]] for r, n in zip(rows, read, strict=True)]
                    values = add_ends(values, entries, self._end, below, self._from_start(entries), self._exact)
            found[side] = values
        return found

    def _from_start(self, entries: npt.NDArray[np.int64]) -> Array:
        """Log-probability that a word which is each piece ends there, behind nothing but the boundary."""
        import torch

        network = self._extractor.network
        missing = np.array([entry for entry in entries.tolist() if entry not in self._start_ends], dtype=np.int64)
        boundary = torch.tensor([self._extractor._words.prefix], device=network.words.weight.device)
        below = [state[0] for state in network(boundary, "forward")[:-1]]
        for part in np.array_split(missing, -(-len(missing) // 512)) if len(missing) else ():
            self._start_ends.update(zip(part.tolist(), self._end(below, part).tolist(), strict=True))
        return np.array([self._start_ends[entry] for entry in entries.tolist()])

    def _end(self, below: Sequence[Tensor], pieces: npt.NDArray[np.int64]) -> Array:
        """Log-probability that no piece carries on each of `pieces`, alternatives at one place.

        `below` holds the inputs of the tower's blocks at the places before, each (places, dim). Keys and values are made of
        them once; each alternative is one more place that sees them and itself.
        """
        import torch

        network = self._extractor.network
        tower = network.tower("forward")
        device = network.words.weight.device
        hidden = network.words(torch.from_numpy(pieces).to(device)) + network.positions.weight[len(below[0])]
        for block, before in zip(tower.blocks, below, strict=True):
            hidden = _alternatives(cast("Block", block), before, hidden)
        return log_share(network.scores(tower.norm(hidden)), ~self._pieces.continues)


def _alternatives(block: Block, before: Tensor, hidden: Tensor) -> Tensor:
    """Run a block over alternatives (alternatives, dim), each of which sees the places before (places, dim) and itself."""
    import torch

    def heads(linear: torch.nn.Linear, vectors: Tensor) -> Tensor:
        return linear(vectors).unflatten(-1, (block.heads, -1))

    seen, own = block.attention_norm(before), block.attention_norm(hidden)
    query, key, value = (heads(linear, own) for linear in (block.query, block.key, block.value))
    scores = torch.cat(
        [torch.einsum("ahd,phd->ahp", query, heads(block.key, seen)), (query * key).sum(-1, keepdim=True)], dim=-1
    )
    weights = (scores / query.shape[-1] ** 0.5).softmax(dim=-1)
    read = torch.einsum("ahp,phd->ahd", weights[..., :-1], heads(block.value, seen)) + weights[..., -1:] * value
    hidden = hidden + block.mix(read.flatten(-2))
    fed: Tensor = block.contract(torch.nn.functional.gelu(block.expand(block.feed_norm(hidden))))
    return hidden + fed
