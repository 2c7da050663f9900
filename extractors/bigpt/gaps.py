"""The pair of causal Transformers as the two language models that they are, at words of one piece."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from extractors.bigpt.extractor import BigptExtractor
from extractors.gaps import Array, Gap, GapFiller, WordEnds, log_share, log_softmax_at
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
        self._pieces = PieceVocabulary(extractor.tokenizer, extractor._words, extractor.config.vocab_size)
        self._word_ends = WordEnds(exact_ends)
        self.note = self._word_ends.note

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

        network = self._extractor.network
        device = network.words.weight.device
        sentences = {gap.words: self._extractor._words(gap.words, "the sentence").ids for gap in gaps}
        row = {words: i for i, words in enumerate(sentences)}
        rows = torch.tensor([row[gap.words] for gap in gaps], device=device)
        found = {}
        with torch.inference_mode():
            for side in self.sides:
                states = self._read(list(sentences.values()), side)
                before = [
                    sentences[gap.words][: gap.position]
                    if side == "forward"
                    else sentences[gap.words][gap.position + 1 :]
                    for gap in gaps
                ]
                # How many places the tower has read when it comes to the gap, that of the boundary included.
                read = torch.tensor([1 + sum(map(len, pieces)) for pieces in before], device=device)
                values = log_softmax_at(network.scores(states[-1][rows, read - 1]), entries)
                if side == "forward":
                    ends = partial(self._ends, [state[rows] for state in states[:-1]], read)
                    standing = self.entries([gap.answer for gap in gaps])
                    values = self._word_ends.add(values, entries, standing, ends, self._at_start)
                    self.note = self._word_ends.note
                found[side] = values
        return found

    def _read(self, sentences: Sequence[Sequence[Sequence[int]]], side: str) -> list[Tensor]:
        """All layers of a tower, each (sentences, places, dim), for the pieces of the words of each sentence."""
        import torch

        words = self._extractor._words
        forward = side == "forward"
        lines = [[piece for word in pieces for piece in word] for pieces in sentences]
        ids = np.zeros((len(lines), 1 + max(map(len, lines))), dtype=np.int64)
        ids[:, 0] = words.prefix if forward else words.suffix
        for into, line in zip(ids, lines, strict=True):
            into[1 : 1 + len(line)] = line if forward else line[::-1]
        network = self._extractor.network
        states: list[Tensor] = network(torch.from_numpy(ids).to(network.words.weight.device), side)
        return states

    def _at_start(self, pieces: npt.NDArray[np.int64]) -> Array:
        """As `_ends`, behind nothing but the boundary."""
        import torch

        network = self._extractor.network
        boundary = torch.tensor([self._extractor._words.prefix], device=network.words.weight.device)
        below = network(boundary, "forward")[:-1]
        return self._ends(below, torch.ones_like(boundary[0]), pieces)

    def _ends(self, below: Sequence[Tensor], lengths: Tensor, pieces: npt.NDArray[np.int64]) -> Array:
        """Log-probability that no piece carries on each of `pieces` (gaps, alternatives), alternatives at the place of a gap.

        `below` holds the inputs of the tower's blocks at the places of the text, each (gaps, places, dim), of which each gap
        sees the first `lengths`. Every alternative is one more place that sees those and itself.
        """
        import torch

        network = self._extractor.network
        tower = network.tower("forward")
        places = int(lengths.max())
        seen = torch.arange(places, device=lengths.device) < lengths[:, None]
        hidden = network.words(torch.from_numpy(pieces).to(lengths.device)) + network.positions(lengths)[:, None]
        for block, before in zip(tower.blocks, below, strict=True):
            hidden = _alternatives(cast("Block", block), before[:, :places], seen, hidden)
        scores = network.scores(tower.norm(hidden)).flatten(0, 1)
        return log_share(scores, ~self._pieces.continues).reshape(pieces.shape)


def _alternatives(block: Block, before: Tensor, seen: Tensor, hidden: Tensor) -> Tensor:
    """Run a block over alternatives (gaps, alternatives, dim) that see the places before (gaps, places, dim) and themselves."""
    import torch

    def heads(linear: torch.nn.Linear, vectors: Tensor) -> Tensor:
        apart: Tensor = linear(vectors).unflatten(-1, (block.heads, -1))
        return apart

    read, own = block.attention_norm(before), block.attention_norm(hidden)
    query, key, value = (heads(linear, own) for linear in (block.query, block.key, block.value))
    scores = torch.einsum("gahd,gphd->gahp", query, heads(block.key, read))
    scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
    scores = torch.cat([scores, (query * key).sum(-1, keepdim=True)], dim=-1)
    weights = (scores / query.shape[-1] ** 0.5).softmax(dim=-1)
    mixed = torch.einsum("gahp,gphd->gahd", weights[..., :-1], heads(block.value, read)) + weights[..., -1:] * value
    hidden = hidden + block.mix(mixed.flatten(-2))
    fed: Tensor = block.contract(torch.nn.functional.gelu(block.expand(block.feed_norm(hidden))))
    return hidden + fed
