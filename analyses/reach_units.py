"""What context reach is computed from, per target: the sentences read, squared distances, and Jacobian norms.

`analyses.context_reach` says what they mean; here is how they are read off a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analyses.contexts import ContextSet, TargetContexts, Words, piece_counts
from analyses.jacobians import jackknifed_norms, squared_jacobian_norms
from analyses.substitution import Substitutes
from extractors.base import Extractor, Sentence
from extractors.foundation.errors import DataError, ModelError
from extractors.foundation.progress import Progress
from extractors.representation import ModelInfo

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is read for one target."""

    target: TargetContexts
    contexts: tuple[Words, ...]
    """Sentences (l_i, target, r_i), all K of them; sentences of the corpus if the contexts are natural."""
    bases: tuple[int, ...]
    """Those in which words are replaced."""
    substitutes: tuple[tuple[tuple[Words, ...], ...], ...]
    """For each base and offset the sentences with another word there."""

    def sentences(self) -> Iterator[Words]:
        yield from self.contexts
        for by_offset in self.substitutes:
            for sentences in by_offset:
                yield from sentences


@dataclass(frozen=True)
class Substituted:
    units: Mapping[str, Array]
    """Part -> (layers, targets, 2 K + 3)."""
    vectors: tuple[Array, ...]
    """For each target the vectors of its bases, (layers, bases, dim)."""


def plan_sentences(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    contexts: ContextSet,
    bases: int,
    draws: int,
    seed: int,
    notes: list[str],
) -> tuple[list[Plan], ContextSet]:
    """Choose bases and substitutes; a context, or a target, without substitutes for one of its words is passed over."""
    supply = Substitutes(extractor, sentences, seed)
    planned: list[Plan] = []
    dropped: list[str] = []
    passed = 0
    for target in contexts.targets:
        if min(len(target.left), len(target.right)) < 2:
            raise DataError(f"{target.word!r} has one context only; two unrelated ones are needed to compare with")
        pairs = tuple((*left, target.word, *right) for left, right in zip(target.left, target.right, strict=False))
        found: dict[int, tuple[tuple[Words, ...], ...]] = {}
        for number, words in enumerate(pairs):
            if len(found) == bases:
                break
            by_offset = []
            for position in range(len(words)):
                others = supply.replace(words, position, draws, target.word, number, position - target.position)
                if others is None:
                    break
                by_offset.append(tuple(others))
            if len(by_offset) == len(words):
                found[number] = tuple(by_offset)
            else:
                passed += 1
        if found:
            planned.append(Plan(target, pairs, tuple(found), tuple(found.values())))
        else:
            dropped.append(target.word)
    if passed:
        notes.append(
            f"{passed} contexts passed over: for one of their words the corpus has no other with as many pieces"
        )
    if dropped:
        notes.append(f"dropped, as no context is left: {', '.join(dropped)}")
    if len(planned) < 2:
        raise DataError(
            f"context reach needs at least 2 target words with substitutes for all words around them, {len(planned)} found; "
            "give more sentences to draw words from"
        )
    return planned, replace(contexts, targets=tuple(plan.target for plan in planned))


def substitution_units(
    extractor: Extractor,
    planned: Sequence[Plan],
    layers: tuple[int, ...],
    pooling: str,
    batch_size: int,
    progress: Progress,
    *,
    only_bases: bool,
) -> Substituted:
    """Read all sentences in one stream, a target's vectors in memory at a time."""
    parts = extractor.info.parts
    listed = [list(plan.contexts if only_bases else plan.sentences()) for plan in planned]
    stream = extractor.extract(
        [words for sentences in listed for words in sentences],
        layers=layers,
        pooling=pooling,
        batch_size=batch_size,
        progress=progress,
    )
    units: dict[str, list[Array]] = {part: [] for part in parts}
    kept = []
    for plan, sentences in zip(planned, listed, strict=True):
        vectors: list[Array] = []
        lengths = set()
        for _ in sentences:
            item = next(stream)
            vectors.append(item.hidden[:, plan.target.position].astype(np.float64))
            lengths.add(piece_counts(item.alignment, plan.target.position))
            if len(lengths) > 1 or item.windows > 1:
                raise DataError(
                    f"the contexts of {plan.target.word!r} do not have one constant length in the pieces of "
                    f"{extractor.info.name}, or are longer than it reads; collect contexts for all models together: "
                    "collect_contexts([model, other_model], sentences)"
                )
        count = len(plan.contexts)
        read = np.stack(vectors, axis=1)
        base = read[:, :count]
        kept.append(base[:, list(plan.bases)])
        if only_bases:
            continue
        offsets = len(plan.contexts[0])
        changed = read[:, count:].reshape(len(layers), len(plan.bases), offsets, -1, read.shape[-1])
        # Each summed over the dimensions of a part later: (layers, offsets + 2, dim).
        moved = np.square(changed - kept[-1][:, :, None, None]).mean(axis=(1, 3))
        apart = 2 * np.square(base - base.mean(axis=1, keepdims=True)).sum(axis=1) / (count - 1)
        columns = np.concatenate([moved, apart[:, None], np.square(base).mean(axis=1)[:, None]], axis=1)
        for part, dimensions in parts.items():
            units[part].append(columns[..., dimensions].sum(axis=-1))
    next(stream, None)  # it is at its end: let it close its progress
    stacked = {part: np.stack(values, axis=1) for part, values in units.items() if values}
    return Substituted(stacked, tuple(kept))


def gradient_units(
    extractor: Extractor,
    planned: Sequence[Plan],
    vectors: Sequence[Array],
    layers: tuple[int, ...],
    pooling: str,
    projections: int,
    batch_size: int,
    seed: int,
    progress: Progress,
) -> Mapping[str, Array]:
    """Mean Jacobian norms by part, (layers, targets, 2 K + 3)."""
    reach = planned[0].target.position
    sentences = [plan.contexts[number] for plan in planned for number in plan.bases]
    expected = np.concatenate(vectors, axis=1)
    parts: dict[str, list[Array]] = {}
    with progress.task(f"{extractor.info.name}: gradients", len(sentences)) as task:
        for first in range(0, len(sentences), batch_size):
            batch = sentences[first : first + batch_size]
            squares, hidden = squared_jacobian_norms(
                extractor, batch, reach, layers=layers, pooling=pooling, projections=projections, seed=seed
            )
            _check_same(extractor.info, hidden, expected[:, first : first + batch_size])
            for part, values in squares.items():
                parts.setdefault(part, []).append(jackknifed_norms(values))
            task.advance(len(batch))
    stops = np.cumsum([len(plan.bases) for plan in planned])[:-1]
    units = {}
    for part, batches in parts.items():
        means = [values.mean(axis=1) for values in np.split(np.concatenate(batches, axis=1), stops, axis=1)]
        profile = np.stack(means, axis=1)
        around = np.delete(profile, reach, axis=-1).sum(axis=-1, keepdims=True)
        units[part] = np.concatenate([profile, around, profile.sum(axis=-1, keepdims=True)], axis=-1)
    return units


def _check_same(info: ModelInfo, hidden: Array, expected: Array) -> None:
    """The network run from its input vectors must be the network that was measured."""
    difference = np.linalg.norm(hidden - expected, axis=-1)
    allowed = 0.15 if info.dtype in ("float16", "bfloat16") else 1e-2
    if (difference > allowed * np.linalg.norm(expected, axis=-1)).any():
        raise ModelError(
            f"{info.name} ({info.family}) gives other vectors when it reads its own input vectors, so their gradients would "
            f"not be its own; measure the substitution alone"
        )
