"""Jacobian norms |d h(t) / d x_j| of a word's vector with respect to the input vectors, by random projections.

For a random vector v of independent signs, E |J^T v|² = |J|², the squared Frobenius norm (Hutchinson 1989): one backward
pass gives an unbiased estimate for all words of a batch of sentences. The root of the mean over P of them is a norm too small, by a
share of about 1 / (4 P r) at most, with r = (tr M)² / |M|², M = J J^T, the effective rank of the Jacobian; a jackknife over the
projections takes that away. Hidden token attribution: Brunner et al. (2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from analyses.contexts import Words
from extractors.base import Extractor
from extractors.foundation.randomness import generator_for

Array = npt.NDArray[np.float64]


def squared_jacobian_norms(
    extractor: Extractor,
    sentences: Sequence[Words],
    position: int,
    *,
    layers: tuple[int, ...],
    pooling: str,
    projections: int,
    seed: int,
) -> tuple[Mapping[str, Array], Array]:
    """Estimate |d h_l(t) / d x_j|², once with every random vector, for one word t of each sentence and all words j, in one batch.

    Parameters
    ----------
    extractor : Extractor
        A model that `extractors.input_gradients.trace` can run.
    sentences : sequence of tuples of str
        Sentences of equally many words.
    position : int
        The word t, from 0.
    layers : tuple of int
        Layer numbers.
    pooling : str
        How the word's pieces become h(t).
    projections : int
        Random vectors per sentence; the same ones at every layer.
    seed : int
        With the sentence itself the seed of its random vectors, so that they do not depend on the batch.

    Returns
    -------
    squares : mapping of part to array of shape (projections, layers, sentences, words)
        |J^T v|² for each random vector v, summed over the pieces of word j.
    hidden : array of shape (layers, sentences, dim)
        h(t) as computed here.
    """
    import torch

    from extractors.input_gradients import trace

    traced = trace(extractor, sentences, layers=layers, pooling=pooling)
    parts = extractor.info.parts
    projected = _projected(parts, extractor.info.hidden_size)
    words = len(sentences[0])
    targets = traced.hidden[:, [start + position for start in traced.starts]]
    signs = np.stack(
        [
            generator_for(seed, "projections", *sentence).choice([-1.0, 1.0], (projections, targets.shape[-1]))
            for sentence in sentences
        ],
        axis=1,
    )
    vectors = torch.from_numpy(signs).to(device=targets.device, dtype=targets.dtype)
    squares = {part: np.zeros((projections, len(layers), len(sentences), words)) for part in projected}
    for number in range(len(layers)):
        for part in projected:
            for place, vector in enumerate(vectors):
                value = (targets[number][:, parts[part]] * vector[:, parts[part]]).sum()
                found = traced.squared_gradients(value).cpu().numpy()
                squares[part][place, number] = found.reshape(len(sentences), words)
    if "whole" not in squares:
        # Rows of the whole Jacobian are the rows of its halves.
        squares["whole"] = np.sum(list(squares.values()), axis=0)
    return squares, targets.detach().double().cpu().numpy()


def jackknifed_norms(squares: Array) -> Array:
    """Norms from estimates of their squares, one for each projection.

    With s_p the P estimates, P root(mean s) - (P - 1) mean_p root(mean of all s but s_p): the bias of the root is of the order
    1 / P² instead of 1 / P. Never below root(mean s), which it is for P = 1.

    Parameters
    ----------
    squares : array of shape (projections, ...)
        As from `squared_jacobian_norms`.

    Returns
    -------
    array of shape (...)
        0 where all estimates are.
    """
    count = len(squares)
    root: Array = np.sqrt(squares.mean(axis=0))
    if count == 1:
        return root
    others = [np.sqrt(np.delete(squares, place, axis=0).mean(axis=0)) for place in range(count)]
    others = [np.sqrt(np.delete(squares, place, axis=0).mean(axis=0)) for place in range(count)]
    norms: Array = count * root - (count - 1) * np.mean(others, axis=0)
    return norms


def _projected(parts: Mapping[str, slice], size: int) -> list[str]:
    """The parts to project: halves that divide the dimensions give the whole for nothing."""
    halves = [part for part in parts if part != "whole"]
    covered = sorted(number for part in halves for number in range(size)[parts[part]])
    return halves if halves and covered == list(range(size)) else list(parts)
