"""Conjunction probe: what a concatenation of two directions cannot put into the reach of a linear reader.

Sentences with two binary cues, one on each side of a target word, each balanced given everything else
(`probes.controlled`). From the target's vector a linear probe and a perceptron read the left cue, the right cue, both cues
(AND) and the parity of the two (XOR). If the vector is a sum (or a concatenation) of what the left and what the right side
contribute, no linear reader has any information about the parity (Minsky & Papert 1969, *Perceptrons*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import seed_for
from extractors.foundation.results import tidy
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo
from probes.controlled import CUE_TYPES, LABELS, SPLITS, ControlledSentences, controlled_sentences

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MEASURES: dict[str, str] = {"conjunction_bits": "bits", "conjunction_accuracy": "proportion"}
"""Measure -> unit."""
PROBES = ("linear", "mlp")
"""The two readers."""
TASKS = tuple(f"cues:{label}" for label in LABELS)
"""Names in the column ``task``: ``cues:left``, ``cues:right``, ``cues:and``, ``cues:xor``."""
PENALTIES = (10.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""The penalty path of the linear probe; the strongest leaves next to nothing of what is not there."""
DATA = "controlled sentences"
"""Name of the data in the table: the probe brings its own."""

_TOLERANCE = 1e-6
"""Of the linear fits, relative to the objective, in choosing the penalty too. Under a strong penalty a weak parity is worth little:
a coarser tolerance would take it for nothing. For the same reason the path goes on after a first penalty that is worse."""
_SUMS = 3
"""Per item and label: bits gained over the training prior, sentences read right, sentences."""

Key = tuple[int, str, str]
"""Layer number, part, probe."""


@dataclass(frozen=True)
class ConjunctionProbe:
    """What readers get of cues and their combinations, by layer, part and cue type."""

    info: ModelInfo
    """The model."""
    units: tuple[tuple[str, int], ...]
    """Cue type and item of each test item: the units of the intervals. Four sentences each, the same for every model that
    is given the same cue types, sizes and seed."""
    statistics: Mapping[Key, Array]
    """(layer, part, probe) -> sums per test item and label, shape (units, 4, 3): bits gained over the training prior,
    sentences read right, number of sentences; labels in the order of `probes.controlled.LABELS`."""
    sizes: Mapping[str, int]
    """Split -> items per cue type."""
    notes: tuple[str, ...]
    """What a reader must know."""
    pooling: str
    """How pieces became words."""
    data: str
    """Name of the sentences in the table."""
    resamples: int
    """Bootstrap samples over items."""
    seed: int
    """Seed of sentences, perceptrons and resampling."""

    @property
    def cue_types(self) -> tuple[str, ...]:
        """The cue types, in the order of `units`."""
        return tuple(dict.fromkeys(cue_type for cue_type, _ in self.units))

    def unit_sums(self, layer: int, label: str = "xor", *, part: str = "whole", probe: str = "linear") -> Array:
        """Bits gained and number of sentences per test item, for comparisons that are paired over items.

        Parameters
        ----------
        layer : int
            Layer number.
        label : {"left", "right", "and", "xor"}
            What is read.
        part, probe : str
            Part of the layer and reader.

        Returns
        -------
        array of shape (units, 2)
            Row i belongs to ``units[i]``; the ratio of the column sums is the measure ``conjunction_bits``.

        Raises
        ------
        UsageError
            If nothing was measured there.
        """
        if (layer, part, probe) not in self.statistics or label not in LABELS:
            raise UsageError(
                f"no {label!r} at layer {layer}, part {part!r}, probe {probe!r} of {self.info.name}; there are labels "
                f"{', '.join(LABELS)} and layers, parts, probes {', '.join(map(str, self.statistics))}"
            )
        return self.statistics[layer, part, probe][:, LABELS.index(label)][:, [0, 2]]

    def intervals(self, cue_type: str | None = None) -> dict[Key, Interval]:
        """Bits and accuracy of every layer, part and probe, on common resamples of items.

        Parameters
        ----------
        cue_type : str, optional
            One cue type; without it all together.

        Returns
        -------
        dict
            Key -> arrays of shape (4, 2): labels in the order of `LABELS`; bits and accuracy, with 95 % intervals.
        """
        chosen = [place for place, (kind, _) in enumerate(self.units) if cue_type in (None, kind)]
        if not chosen:
            raise UsageError(f"cue type {cue_type!r} was not measured; there are {', '.join(self.cue_types)}")
        shape = (len(self.statistics), len(LABELS), _SUMS)
        units = np.stack([sums[chosen] for sums in self.statistics.values()], axis=1)

        def ratios(sums: Array) -> Array:
            cells = sums.reshape(*sums.shape[:-1], *shape)
            return np.asarray((cells[..., :2] / cells[..., 2:]).reshape(*sums.shape[:-1], -1))

        seed = seed_for(self.seed, "conjunction intervals", cue_type)
        found = bootstrap(units.reshape(len(chosen), -1), ratios, resamples=self.resamples, seed=seed)
        value, low, high = (one.reshape(*shape[:2], 2) for one in (found.value, found.low, found.high))
        return {
            key: Interval(value[place], low[place], high[place], found.n) for place, key in enumerate(self.statistics)
        }

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number; `condition` is the cue type, and missing for all of them together."""
        conditions = (None, *self.cue_types) if len(self.cue_types) > 1 else self.cue_types
        return [
            {
                "model": self.info.name,
                "family": self.info.family,
                "weights": self.info.weights,
                "layer": layer,
                "layer_name": self.info.layer_names[layer],
                "part": part,
                "kind": "analysis",
                "measure": measure,
                "task": task,
                "probe": probe,
                "data": self.data,
                "split": "test",
                "condition": condition,
                "pooling": self.pooling,
                "value": float(interval.value[row, column]),
                "low": float(interval.low[row, column]),
                "high": float(interval.high[row, column]),
                "unit": unit,
                "n": interval.n,
                "seed": self.seed,
            }
            for condition in conditions
            for (layer, part, probe), interval in self.intervals(condition).items()
            for row, task in enumerate(TASKS)
            for column, (measure, unit) in enumerate(MEASURES.items())
        ]

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        return tidy(self.rows())

    def plot(self) -> Figure:
        """Bits by layer, whole vectors, one axes for each reader, as a matplotlib figure."""
        from matplotlib.figure import Figure

        intervals = self.intervals()
        probes = [probe for probe in PROBES if any(key[1:] == ("whole", probe) for key in intervals)]
        figure = Figure(figsize=(4 * len(probes), 3.6), layout="constrained")
        for axes, probe in zip(figure.subplots(1, len(probes), sharey=True, squeeze=False)[0], probes, strict=True):
            curve = {layer: one for (layer, part, own), one in intervals.items() if (part, own) == ("whole", probe)}
            layers = sorted(curve)
            for row, label in enumerate(LABELS):
                axes.plot(layers, [curve[layer].value[row, 0] for layer in layers], marker="o", label=label)
                bounds = ([one[layer][row, 0] for layer in layers] for one in _ends(curve))
                axes.fill_between(layers, *bounds, alpha=0.2)
            axes.set(xlabel="layer", ylabel="bits", title=f"{self.info.name}, {probe}", xticks=layers)
        axes.legend()
        return figure


def conjunction_probe(
    extractor: Extractor,
    *,
    cue_types: Sequence[str] = CUE_TYPES,
    train_items: int = 100,
    dev_items: int = 40,
    test_items: int = 100,
    layers: Layers = "all",
    mlp_layers: Layers | None = "all",
    parts: Sequence[str] | None = None,
    pooling: str = "mean",
    penalties: Sequence[float] = PENALTIES,
    hidden: int = 32,
    batch_size: int = 32,
    resamples: int = 1000,
    seed: int = 0,
    data: str = DATA,
    progress: Progress = SILENT,
) -> ConjunctionProbe:
    """Read two cues and their combinations from the vector of the word between them.

    For each layer, part and cue type, and for the labels left cue, right cue, AND and XOR (different cues):

        bits = mean over test sentences of (-log2 prior(label) + log2 probe(label)),

    the prior being the label's share in training: at most 1 bit for left, right and XOR, .811 for AND; negative where a
    probe does worse than knowing nothing. `linear` is a logistic regression (`LinearProbe`), its penalty chosen on dev; `mlp`
    is the same reader of all four labels with one hidden layer, stopped on dev (`read_with_perceptron`). So the
    perceptron says what is present, the linear probe what is already combined.

    Train, dev and test have disjoint lexicons of content words and the same frames. Items are balanced: a vector that is
    additive in the two sides, h = a + l(left cue) + r(right cue) within an item, has a linear XOR optimum of weight zero
    on any training set, and so 0 bits; so has, at a strong penalty, a vector whose parity is too weak for the solver to
    leave zero (a gain under 1e-6 nats). The number of a cue's word pieces may tell of it too (a longer left side shifts
    the target's position): that is information of its own side, never of the other, and `notes` counts such items.

    Intervals: bootstrap over test items (four sentences each); frames, shared by train and test, are held fixed.

    Parameters
    ----------
    extractor : Extractor
        A model that reads new sentences.
    cue_types : sequence of str
        From `probes.controlled.CUE_TYPES`.
    train_items, dev_items, test_items : int
        Items per cue type; four sentences each.
    layers : str, int or sequence of int
        Which layers, see `select_layers`.
    mlp_layers : str, int, sequence of int, or None
        Which of them the perceptron reads too; None: none.
    parts : sequence of str, optional
        Parts of a layer; all by default. Layer 0 is read whole only.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of the target become one vector.
    penalties : sequence of float
        Penalties of the linear probe to choose from.
    hidden : int
        Hidden units of the perceptron.
    batch_size : int
        Sentences per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of the sentences, the perceptrons' first weights and the resampling.
    data : str
        Name of the sentences, for the table.
    progress : Progress
        Receives one unit per sentence, then one per layer and part.

    Returns
    -------
    ConjunctionProbe
        Bits and accuracies with intervals, and their sums per test item.

    Raises
    ------
    UsageError
        For an unknown cue type, layer, part or pooling, a number of items that the lexicon cannot fill, or a model that
        holds stored vectors.
    """
    info = extractor.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    with_mlp = () if mlp_layers is None else select_layers(mlp_layers, info.layer_names, model=info.name)
    wanted = tuple(info.parts) if parts is None else tuple(parts)
    _check(info, cue_types, wanted)
    sizes = dict(zip(SPLITS, (train_items, dev_items, test_items), strict=True))
    # Checked for all cue types before any is read.
    sets = {
        (cue_type, split): controlled_sentences(cue_type, split=split, items=items, seed=seed)
        for cue_type in dict.fromkeys(cue_types)
        for split, items in sizes.items()
    }
    vectors: dict[tuple[str, str], npt.NDArray[Any]] = {}
    shifted: dict[str, list[bool]] = {"left": [], "right": []}
    for key, sentences in sets.items():
        vectors[key] = _target_vectors(extractor, sentences, chosen, pooling, batch_size, shifted, progress)
    places = [(layer, part) for layer in chosen for part in wanted if part == "whole" or layer > 0]
    statistics: dict[Key, Array] = {}
    with progress.task(f"{info.name}: conjunction probe", len(places)) as running:
        for layer, part in places:
            probes = PROBES if layer in with_mlp else PROBES[:1]
            found: dict[str, list[Array]] = {probe: [] for probe in probes}
            for cue_type in dict.fromkeys(cue_types):
                matrices = {
                    split: vectors[cue_type, split][chosen.index(layer)][:, info.parts[part]] for split in SPLITS
                }
                labels = {split: label_matrix(sets[cue_type, split]) for split in SPLITS}
                for probe, gained in read_cues(
                    matrices, labels, probes=probes, penalties=penalties, hidden=hidden, seed=seed
                ).items():
                    # Four sentences an item, side by side.
                    found[probe].append(gained.reshape(-1, 4, len(LABELS), _SUMS).sum(axis=1))
            statistics |= {(layer, part, probe): np.concatenate(sums) for probe, sums in found.items()}
            running.advance()
    return ConjunctionProbe(
        info=info,
        units=tuple((cue_type, item) for cue_type in dict.fromkeys(cue_types) for item in range(test_items)),
        statistics=statistics,
        sizes=sizes,
        notes=_notes(info, shifted),
        pooling=pooling,
        data=data,
        resamples=resamples,
        seed=seed,
    )


def read_cues(
    features: Mapping[str, npt.NDArray[Any]],
    labels: Mapping[str, Integers],
    *,
    probes: Sequence[str] = PROBES,
    penalties: Sequence[float] = PENALTIES,
    hidden: int = 32,
    seed: int = 0,
) -> dict[str, Array]:
    """Read binary labels from vectors, linearly and through a hidden layer.

    Parameters
    ----------
    features : mapping
        ``train``, ``dev``, ``test`` -> arrays of shape (sentences, dim).
    labels : mapping
        Split -> int arrays of shape (sentences, labels), 0 or 1.
    probes : sequence of {"linear", "mlp"}
        The readers.
    penalties : sequence of float
        Penalties of the linear probe, one chosen on dev for each label.
    hidden : int
        Hidden units of the perceptron.
    seed : int
        Seed of its first weights.

    Returns
    -------
    dict
        Probe -> array of shape (test sentences, labels, 3): bits gained over the training prior, whether it was read right,
        and 1.

    Raises
    ------
    DataError
        If features are not finite.
    """
    for split, matrix in features.items():
        if not np.isfinite(matrix).all():
            raise DataError(f"the vectors of {split} hold NaN or infinity; extract them again, in float32 or float64")
    gold = labels["test"]
    share = labels["train"].mean(axis=0)
    prior = np.where(gold == 1, np.log2(share), np.log2(1 - share))
    found = {}
    for probe in probes:
        if probe == "linear":
            logits = _linear_logits(features, labels, penalties)
        else:
            logits = _perceptron_logits(features, labels, hidden, seed_for(seed, "conjunction"))
        cost = np.logaddexp(0, np.where(gold == 1, -logits, logits)) / np.log(2)
        right = (logits > 0) == (gold == 1)
        found[probe] = np.stack([-prior - cost, right, np.ones_like(cost)], axis=-1)
    return found


def label_matrix(sentences: ControlledSentences) -> Integers:
    """All four labels of controlled sentences, shape (sentences, 4), in the order of `LABELS`."""
    return np.stack([sentences.labels(label) for label in LABELS], axis=1)


def _linear_logits(
    features: Mapping[str, npt.NDArray[Any]], labels: Mapping[str, Integers], penalties: Sequence[float]
) -> Array:
    from probes.linear import Design, fit_path

    design = Design.of(features["train"])
    columns = []
    for column in range(labels["train"].shape[1]):
        path = fit_path(
            design,
            labels["train"][:, column],
            features["dev"],
            labels["dev"][:, column],
            penalties=penalties,
            tol=_TOLERANCE,
            rough=_TOLERANCE,
            patience=2,
        )
        columns.append(path.probe.decision_function(features["test"]))
    return np.stack(columns, axis=1)


def _perceptron_logits(
    features: Mapping[str, npt.NDArray[Any]], labels: Mapping[str, Integers], hidden: int, seed: int
) -> Array:
    from probes.perceptron import read_with_perceptron

    train, dev = ((features[split], labels[split]) for split in SPLITS[:2])
    return read_with_perceptron(*train, *dev, features["test"], hidden=hidden, seed=seed).logits


def _target_vectors(
    extractor: Extractor,
    sentences: ControlledSentences,
    layers: tuple[int, ...],
    pooling: str,
    batch_size: int,
    shifted: dict[str, list[bool]],
    progress: Progress,
) -> npt.NDArray[Any]:
    """Vectors of the targets, shape (layers, sentences, dim); notes in `shifted` whether a side's cue changes its pieces."""
    found: npt.NDArray[Any] | None = None
    words = [sentence.words for sentence in sentences.sentences]
    counts = np.empty((len(words), 2), dtype=np.int64)
    stream = extractor.extract(words, layers=layers, pooling=pooling, batch_size=batch_size, progress=progress)
    for place, (item, sentence) in enumerate(zip(stream, sentences.sentences, strict=True)):
        if found is None:
            found = np.empty((len(layers), len(words), item.hidden.shape[2]), dtype=item.hidden.dtype)
        found[:, place] = item.hidden[:, sentence.target]
        pieces = item.alignment.word_pieces[sentence.target]
        counts[place] = pieces[0], len(item.alignment.pieces) - pieces[-1]
    assert found is not None
    items = counts.reshape(-1, 4, 2)
    shifted["left"] += (np.ptp(items[:, :, 0], axis=1) > 0).tolist()
    shifted["right"] += (np.ptp(items[:, :, 1], axis=1) > 0).tolist()
    return found


def _notes(info: ModelInfo, shifted: Mapping[str, Sequence[bool]]) -> tuple[str, ...]:
    total = len(shifted["left"])
    left, right = sum(shifted["left"]), sum(shifted["right"])
    if not left and not right:
        return ()
    return (
        f"the number of pieces in {info.name} changes with the left cue in {left} and with the right cue in {right} of "
        f"{total} items: where positions count, a cue's own side can be told from the target's position, at layer 0 too",
    )


def _ends(curve: Mapping[int, Interval]) -> tuple[dict[int, Array], dict[int, Array]]:
    return {layer: one.low for layer, one in curve.items()}, {layer: one.high for layer, one in curve.items()}


def _check(info: ModelInfo, cue_types: Sequence[str], parts: Sequence[str]) -> None:
    if isinstance(cue_types, str) or not cue_types or set(cue_types) - set(CUE_TYPES):
        raise UsageError(f"cue types {cue_types!r} are not a list of known ones; choose from {', '.join(CUE_TYPES)}")
    if absent := [part for part in parts if part not in info.parts]:
        raise UsageError(f"{info.name} has no part {', '.join(absent)}; its parts are {', '.join(info.parts)}")
    if info.family == "layer-file":
        raise UsageError(f"{info.name} holds stored vectors and cannot read new sentences; give the model itself")
