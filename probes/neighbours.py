"""Neighbour probes: what the vector of a word tells of the words around it, offset by offset, in bits.

Linear probes from the vector of word t to a property of word t + k (compare Klafka & Ettinger 2020, *Spying on your
neighbors*). A model that is trained to predict a neighbour holds bits about it without having seen it: bits are not access.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.base import Extractor
from extractors.foundation.bootstrap import Interval, bootstrap
from extractors.foundation.errors import DataError, UsageError
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import generator_for, seed_for
from extractors.foundation.results import tidy
from extractors.layers import Layers, select_layers
from extractors.representation import ModelInfo
from probes.control import control_labels, label_marginal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from probes.corpora import CorpusSentence
    from probes.linear import Design

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Labels = npt.NDArray[np.object_]

WordVectors = Callable[[int, str, str], npt.NDArray[Any]]
"""Layer number, part, split -> vectors of all words of the split, sentence by sentence, shape (words, dim)."""

MEASURES: dict[str, str] = {
    "neighbour_bits": "bits",
    "neighbour_accuracy": "proportion",
    "neighbour_gain": "bits",
    "neighbour_selectivity": "proportion",
    "neighbour_bits_left": "bits",
    "neighbour_bits_right": "bits",
    "neighbour_gain_left": "bits",
    "neighbour_gain_right": "bits",
    "neighbour_asymmetry": "bits",
}
"""Measure -> unit."""
PROPERTIES = ("upos", "feats:Number", "word")
"""The default properties: part of speech, number, and which of the most frequent words it is."""
WORD = "word"
"""The property that needs no labels."""
OFFSETS = tuple(range(-5, 6))
"""The default offsets k; 0 is the word itself."""
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
"""The default penalty path."""

_TOLERANCE = 1e-4
"""Of the fits, relative to the objective: finer than a thousandth of a bit."""
_SUMS = 6
"""Per test sentence and offset: bits gained over the training prior, items with a known label, items read right, items;
items read right and items of the control task."""
_SPLITS = ("train", "dev", "test")

Key = tuple[int, str, str]
"""Layer number, part, property."""


@dataclass(frozen=True)
class NeighbourProbes:
    """What vectors tell of neighbouring words, by layer, part, property and offset."""

    info: ModelInfo
    """The model."""
    offsets: Mapping[str, tuple[int, ...]]
    """Property -> the offsets measured, rising."""
    statistics: Mapping[Key, Array]
    """(layer, part, property) -> sums per test sentence and offset, shape (sentences, offsets, 6): bits gained over the
    training prior, items whose label occurs in training, items read right, items; items read right and items of the
    control task (0 without it). Sentences without an item are kept as zeros, so that rows are comparable."""
    notes: tuple[str, ...]
    """What was left out, and what a reader must know."""
    pooling: str
    """How pieces became words."""
    data: str
    """Name of the corpus."""
    resamples: int
    """Bootstrap samples over test sentences."""
    seed: int
    """Seed of the control labels, the choice of training words, and the resampling."""

    def interval(self, layer: int, part: str = "whole", name: str = "upos") -> dict[tuple[str, int | None], Interval]:
        """All measures of a layer, part and property, on common resamples of test sentences.

        Parameters
        ----------
        layer : int
            Layer number.
        part : str
            Part of the layer.
        name : str
            The property.

        Returns
        -------
        dict
            (measure, offset) -> interval with arrays of shape (1,); the offset is None for sums over a side. Accuracy on the
            control task is called ``control``.
        """
        key = (layer, part, name)
        if key not in self.statistics:
            raise UsageError(
                f"nothing was measured at layer {layer}, part {part!r}, property {name!r} of {self.info.name}; there are "
                f"{', '.join(map(str, self.statistics))}"
            )
        offsets = self.offsets[name]
        base = self.statistics.get((0, "whole", name)) if layer > 0 else None
        columns = [self.statistics[key], *([] if base is None else [base])]
        units = np.stack(columns, axis=1)
        units = units[units[:, 0, :, 3].sum(axis=1) > 0]
        controlled = bool(units[:, 0, :, 5].any())
        names = self._names(offsets, controlled=controlled, static=base is not None)

        def measures(sums: Array) -> Array:
            cells = sums.reshape(*sums.shape[:-1], len(columns), len(offsets), _SUMS)
            bits = cells[..., 0] / cells[..., 1]
            own = cells[..., 0, :, :]
            accuracy = own[..., 2] / own[..., 3]
            found = {"neighbour_bits": bits[..., 0, :], "neighbour_accuracy": accuracy}
            if controlled:
                found["control"] = own[..., 4] / own[..., 5]
                found["neighbour_selectivity"] = accuracy - found["control"]
            if base is not None:
                found["neighbour_gain"] = bits[..., 0, :] - bits[..., 1, :]
            places = np.array(offsets)
            for measure in ("neighbour_bits", "neighbour_gain"):
                if measure in found:
                    for side, on_side in (("left", places < 0), ("right", places > 0)):
                        found[f"{measure}_{side}"] = found[measure][..., on_side].sum(axis=-1, keepdims=True)
            found["neighbour_asymmetry"] = found["neighbour_bits_right"] - found["neighbour_bits_left"]
            return np.stack(
                [found[measure][..., 0 if k is None else offsets.index(k)] for measure, k in names], axis=-1
            )

        flat = bootstrap(
            units.reshape(len(units), -1),
            measures,
            resamples=self.resamples,
            seed=seed_for(self.seed, "neighbour intervals"),
        )
        return {
            which: Interval(flat.value[[i]], flat.low[[i]], flat.high[[i]], flat.n) for i, which in enumerate(names)
        }

    @staticmethod
    def _names(offsets: tuple[int, ...], *, controlled: bool, static: bool) -> list[tuple[str, int | None]]:
        """The measures that can be given; those of a side only where the offsets hold that side."""
        per_offset = ["neighbour_bits", "neighbour_accuracy"]
        per_offset += ["control", "neighbour_selectivity"] * controlled + ["neighbour_gain"] * static
        names: list[tuple[str, int | None]] = [(measure, k) for measure in per_offset for k in offsets]
        sides = [side for side, there in (("left", offsets[0] < 0), ("right", offsets[-1] > 0)) if there]
        for measure in ["neighbour_bits"] + ["neighbour_gain"] * static:
            names += [(f"{measure}_{side}", None) for side in sides]
        if len(sides) == 2 and sorted(-k for k in offsets) == list(offsets):
            names.append(("neighbour_asymmetry", None))
        return names

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per number; `task` is the property, `offset` k, `length` the farthest offset of a sum over a side."""
        rows: list[dict[str, Any]] = []
        for layer, part, name in self.statistics:
            for (measure, offset), one in self.interval(layer, part, name).items():
                control = measure == "control"
                known = "neighbour_accuracy" if control else measure
                rows.append(
                    {
                        "model": self.info.name,
                        "family": self.info.family,
                        "weights": self.info.weights,
                        "layer": layer,
                        "layer_name": self.info.layer_names[layer],
                        "part": part,
                        "kind": "analysis",
                        "measure": known,
                        "task": name,
                        "probe": "linear",
                        "data": self.data,
                        "split": "test",
                        "condition": "control" if control else None,
                        "offset": offset,
                        "length": max(map(abs, self.offsets[name])) if offset is None else None,
                        "pooling": self.pooling,
                        "value": float(one.value[0]),
                        "low": float(one.low[0]),
                        "high": float(one.high[0]),
                        "unit": MEASURES[known],
                        "n": one.n,
                        "seed": self.seed,
                    }
                )
        return rows

    def to_frame(self) -> pd.DataFrame:
        """The tidy table of this result."""
        return tidy(self.rows())

    def plot(self, name: str | None = None) -> Figure:
        """Bits by offset, one curve for each layer, whole vectors, as a matplotlib figure; default: the first property."""
        from matplotlib.figure import Figure

        name = next(iter(self.offsets)) if name is None else name
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        offsets = self.offsets[name]
        for layer, part, other in self.statistics:
            if (part, other) == ("whole", name):
                found = self.interval(layer, part, name)
                bits = [found["neighbour_bits", k] for k in offsets]
                low, high = [one.low[0] for one in bits], [one.high[0] for one in bits]
                axes.plot(
                    offsets,
                    [one.value[0] for one in bits],
                    marker="o",
                    label=f"layer {layer}",
                )
                axes.fill_between(offsets, low, high, alpha=0.15)
        axes.set(xlabel="offset in words", ylabel=f"bits about {name}", title=self.info.name, xticks=offsets)
        axes.legend()
        return figure


def neighbour_probes(
    extractor: Extractor,
    splits: Mapping[str, Sequence[CorpusSentence]],
    *,
    properties: Sequence[str] = PROPERTIES,
    offsets: Sequence[int] = OFFSETS,
    layers: Layers = "all",
    parts: Sequence[str] | None = None,
    vectors: WordVectors | None = None,
    pooling: str = "mean",
    penalties: Sequence[float] = PENALTIES,
    train_words: int | None = None,
    frequent: int = 50,
    control: bool = True,
    sentence_start: bool = True,
    batch_size: int = 32,
    resamples: int = 1000,
    seed: int = 0,
    data: str = "",
    progress: Progress = SILENT,
) -> NeighbourProbes:
    """Probe the vector of every word for properties of the words around it.

    For each layer, part, property and offset k, a multinomial logistic regression (`LinearProbe`, penalty chosen on dev) is
    fitted from the vector of word t to the property of word t + k, over all pairs within a sentence:

        bits = mean over test pairs of (-log2 prior(label) + log2 probe(label)),

    the prior being the label's share in training; negative where the probe does worse than knowing nothing. ``gain`` is
    bits minus those of layer 0, which knows the word and no context, paired over sentences. Left and right sums are over
    the offsets of a side, the asymmetry is right minus left. With -k and +k the pairs are the same, read from either end,
    those drawn for `train_words` too, where every word has a label; else they are those whose end asked about has one. A pair whose label is not in training counts as an error and is left out of the bits.

    Control task: every word type has a random label drawn from the label distribution, and the probe is asked for that of
    the *neighbour*; selectivity is accuracy minus accuracy there (Hewitt & Liang 2019). Intervals: bootstrap over test
    sentences.

    Parameters
    ----------
    extractor : Extractor
        The model.
    splits : mapping
        The sentences of ``train``, ``dev`` and ``test``, as `probes.split_corpora` gives them.
    properties : sequence of str
        Columns of word labels (``upos``, ``feats:Number``, ...), or ``word``: which of the most frequent words of train it is,
        case aside; other words are not asked about.
    offsets : sequence of int
        The offsets k; 0 asks for the property of the word itself.
    layers : str, int or sequence of int
        Which layers, see `select_layers`. Without layer 0 there is no gain.
    parts : sequence of str, optional
        Parts of a layer; all by default. Layer 0 is read whole only.
    vectors : callable, optional
        ``vectors(layer, part, split)`` gives the vectors of all words of a split, in order; without it they are extracted
        here and held in memory.
    pooling : {"first", "last", "mean", "max"}
        How the pieces of a word become one vector.
    penalties : sequence of float
        Penalties to choose from.
    train_words : int, optional
        At most so many training pairs for each offset and property, drawn at random by the seed; the time is in proportion.
    frequent : int
        How many words the property ``word`` tells apart.
    control : bool
        Whether to run the control task.
    sentence_start : bool
        Read `extractor.with_sentence_start()`: the first word of a model that reads nothing before it (GPT-2) serves as
        attention sink, with a vector many times as long as others, which would decide how all are standardised. Vectors
        that are given are taken as they are.
    batch_size : int
        Sentences per forward pass.
    resamples : int
        Bootstrap samples.
    seed : int
        Seed of the control labels, the choice of training pairs and the resampling.
    data : str
        Name of the corpus, for the table.
    progress : Progress
        Receives one unit per sentence read, then one per layer and part.

    Returns
    -------
    NeighbourProbes
        Bits, accuracies and sums with intervals. Properties and offsets that the data do not allow are left out and named in
        `notes`, as is what was not asked for of the full measure: `PROPERTIES`, `OFFSETS` and the control task.

    Raises
    ------
    UsageError
        For an unknown layer, part or pooling, no offset, or a size that is not positive.
    DataError
        If a split is missing or empty, no property can be probed, or vectors do not fit the sentences.
    """
    from probes.linear import Design

    reader = extractor.with_sentence_start() if sentence_start and vectors is None else extractor
    info = reader.info
    chosen = select_layers(layers, info.layer_names, model=info.name)
    wanted = tuple(info.parts) if parts is None else tuple(parts)
    _check(info, splits, properties, offsets, wanted, train_words, frequent)
    pairs, notes = _collect(splits, properties, sorted(set(offsets)), train_words, frequent, control, seed)
    notes += _not_asked(properties, offsets, control)
    if reader is not extractor:
        notes.append(f"{info.note}, as its first word would else serve as attention sink")
    if vectors is None:
        vectors = _extracted(reader, splits, chosen, pooling, batch_size, progress)
    sizes = {split: sum(len(sentence.words) for sentence in splits[split]) for split in _SPLITS}
    places = [(layer, part) for layer in chosen for part in wanted if part == "whole" or layer > 0]
    statistics: dict[Key, Array] = {}
    with progress.task(f"{info.name}: neighbour probes", len(places)) as running:
        for layer, part in places:
            matrices = {split: np.asarray(vectors(layer, part, split)) for split in _SPLITS}
            _check_vectors(matrices, sizes, f"layer {layer} ({part}) of {info.name}")
            # Standardised once for all offsets, over all words of train: every offset then means the same by a penalty.
            design = Design.of(matrices["train"])
            for name, of_offset in pairs.items():
                sums = [_probe(design, matrices, pair, penalties, len(splits["test"])) for pair in of_offset.values()]
                statistics[layer, part, name] = np.stack(sums, axis=1)
            running.advance()
    return NeighbourProbes(
        info=info,
        offsets={name: tuple(of_offset) for name, of_offset in pairs.items()},
        statistics=statistics,
        notes=tuple(notes),
        pooling=pooling,
        data=data,
        resamples=resamples,
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class _Items:
    """Pairs of one split: row of word t among the split's words, sentence, and label and type of word t + k."""

    rows: Integers
    sentence: Integers
    labels: Labels
    types: Labels

    def at(self, chosen: Integers) -> _Items:
        return _Items(self.rows[chosen], self.sentence[chosen], self.labels[chosen], self.types[chosen])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of one property and offset, with the control labels if they are asked for."""

    items: Mapping[str, _Items]
    control: Mapping[str, Labels] | None


def _collect(
    splits: Mapping[str, Sequence[CorpusSentence]],
    properties: Sequence[str],
    offsets: Sequence[int],
    train_words: int | None,
    frequent: int,
    control: bool,
    seed: int,
) -> tuple[dict[str, dict[int, _Pairs]], list[str]]:
    """Property -> offset -> pairs, and notes on what the data do not allow."""
    found: dict[str, dict[int, _Pairs]] = {}
    notes = []
    for name in dict.fromkeys(properties):
        labels = {split: _labels(name, splits[split], splits["train"], frequent) for split in _SPLITS}
        missing = []
        for offset in offsets:
            items = {split: _items(splits[split], labels[split], offset) for split in _SPLITS}
            if not _probeable(items):
                missing.append(offset)
                continue
            train = items["train"]
            if train_words is not None and train_words < len(train.rows):
                order = generator_for(seed, "neighbour pairs", name, abs(offset)).permutation(len(train.rows))
                items["train"] = train.at(np.sort(order[:train_words]))
                if not _probeable(items):
                    missing.append(offset)
                    continue
            found.setdefault(name, {})[offset] = _Pairs(items, _control(items, name, offset, seed) if control else None)
        if missing:
            notes.append(
                f"neighbour property {name} is left out at offsets {', '.join(map(str, missing))}: too few labelled pairs "
                "in train, dev or test"
            )
    if not found:
        raise DataError(
            f"none of the properties {', '.join(properties)} can be probed at any offset: train, dev and test must hold pairs "
            "of words with at least two labels; give more sentences, or ask for the property 'word', which needs no labels"
        )
    return found, notes


def _not_asked(properties: Sequence[str], offsets: Sequence[int], control: bool) -> list[str]:
    """A note on what the settings leave out of the full measure, if they do."""
    absent = [name for name in PROPERTIES if name not in properties]
    far = [str(offset) for offset in OFFSETS if offset not in offsets]
    missing = []
    if absent:
        missing.append(f"the {'property' if len(absent) == 1 else 'properties'} {', '.join(absent)}")
    if far:
        missing.append(f"the {'offset' if len(far) == 1 else 'offsets'} {', '.join(far)}")
    if not control:
        missing.append("the control task (so there is no selectivity)")
    return [f"of the full measure the settings leave out {'; '.join(missing)}"] if missing else []


def _labels(
    name: str, sentences: Sequence[CorpusSentence], train: Sequence[CorpusSentence], frequent: int
) -> list[Sequence[str | None]]:
    """The label of every word of every sentence; None where it has none."""
    if name != WORD:
        return [sentence.columns.get(name, (None,) * len(sentence.words)) for sentence in sentences]
    counts = Counter(word.lower() for sentence in train for word in sentence.words)
    kept = {word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:frequent]}
    return [[lower if (lower := word.lower()) in kept else None for word in sentence.words] for sentence in sentences]


def _items(sentences: Sequence[CorpusSentence], labels: Sequence[Sequence[str | None]], offset: int) -> _Items:
    rows: list[int] = []
    owners: list[int] = []
    found: list[str] = []
    types: list[str] = []
    first = 0
    for number, (sentence, own) in enumerate(zip(sentences, labels, strict=True)):
        n = len(sentence.words)
        for t in range(max(0, -offset), min(n, n - offset)):
            label = own[t + offset]
            if label is not None:
                rows.append(first + t)
                owners.append(number)
                found.append(label)
                types.append(sentence.words[t + offset])
        first += n
    return _Items(
        np.array(rows, dtype=np.int64),
        np.array(owners, dtype=np.int64),
        np.array(found, dtype=object),
        np.array(types, dtype=object),
    )


def _probeable(items: Mapping[str, _Items]) -> bool:
    """Whether train has two labels, dev one of them, and test any."""
    known = set(items["train"].labels.tolist())
    return len(known) > 1 and len(items["test"].rows) > 0 and not known.isdisjoint(items["dev"].labels.tolist())


def _control(items: Mapping[str, _Items], name: str, offset: int, seed: int) -> dict[str, Labels] | None:
    """Random labels by type of the neighbour, the same for a type wherever it occurs; None if train gets one label only."""
    marginal = label_marginal(items["train"].labels)
    drawn = seed_for(seed, "neighbour control", name, offset)
    labels = {split: control_labels(items[split].types, marginal=marginal, seed=drawn) for split in _SPLITS}
    known = set(labels["train"].tolist())
    return labels if len(known) > 1 and not known.isdisjoint(labels["dev"].tolist()) else None


def _probe(
    design: Design,
    matrices: Mapping[str, npt.NDArray[Any]],
    pairs: _Pairs,
    penalties: Sequence[float],
    sentences: int,
) -> Array:
    """The sums of one property and offset, shape (test sentences, 6)."""
    items = pairs.items
    own = replace(design, features=design.features[items["train"].rows])
    features = {split: matrices[split][items[split].rows] for split in ("dev", "test")}
    gained, known, right = _read(own, features, {split: items[split].labels for split in _SPLITS}, penalties)
    columns = [gained, known, right, np.ones(len(known))]
    if pairs.control is None:
        columns += [np.zeros(len(known))] * 2
    else:
        columns += [_read(own, features, pairs.control, penalties)[2], np.ones(len(known))]
    return np.stack(
        [np.bincount(items["test"].sentence, weights=column, minlength=sentences) for column in columns], axis=1
    )


def _read(
    design: Design, features: Mapping[str, npt.NDArray[Any]], labels: Mapping[str, Labels], penalties: Sequence[float]
) -> tuple[Array, Array, Array]:
    """Per test item: bits gained (0 for an unknown label), whether the label is known, whether it was read right."""
    from probes.linear import fit_path, known_codes

    names, codes = np.unique(labels["train"], return_inverse=True)
    dev_known, dev_codes = known_codes(labels["dev"], names)
    probe = fit_path(design, codes, features["dev"][dev_known], dev_codes, penalties=penalties, tol=_TOLERANCE).probe
    logarithms = probe.predict_log_proba(features["test"])
    known, gold = known_codes(labels["test"], names)
    prior = np.log(np.bincount(codes, minlength=len(names)) / len(codes))
    gained = np.zeros(len(known))
    gained[known] = (logarithms[known, gold] - prior[gold]) / np.log(2)
    right = np.zeros(len(known))
    right[known] = logarithms[known].argmax(axis=1) == gold
    return gained, known.astype(np.float64), right


def _extracted(
    extractor: Extractor,
    splits: Mapping[str, Sequence[CorpusSentence]],
    layers: tuple[int, ...],
    pooling: str,
    batch_size: int,
    progress: Progress,
) -> WordVectors:
    matrices = {}
    for split in _SPLITS:
        words = [sentence.words for sentence in splits[split]]
        stream = extractor.extract(words, layers=layers, pooling=pooling, batch_size=batch_size, progress=progress)
        matrices[split] = np.concatenate([item.hidden for item in stream], axis=1)
    parts = extractor.info.parts

    def vectors(layer: int, part: str, split: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = matrices[split][layers.index(layer)][:, parts[part]]
        return found

    return vectors


def _check(
    info: ModelInfo,
    splits: Mapping[str, Sequence[CorpusSentence]],
    properties: Sequence[str],
    offsets: Sequence[int],
    parts: Sequence[str],
    train_words: int | None,
    frequent: int,
) -> None:
    if isinstance(properties, str) or not properties:
        raise UsageError(f"properties {properties!r} are not a list of names; give for example ['upos', 'word']")
    if not offsets:
        raise UsageError("no offset given; give for example range(-3, 4)")
    if absent := [part for part in parts if part not in info.parts]:
        raise UsageError(f"{info.name} has no part {', '.join(absent)}; its parts are {', '.join(info.parts)}")
    if train_words is not None and train_words < 2:
        raise UsageError(f"train_words={train_words} cannot hold two labels; give more, or leave it out to use all")
    if frequent < 2:
        raise UsageError(f"frequent={frequent} words leave nothing to tell apart; give 2 or more")
    for split in _SPLITS:
        if not splits.get(split):
            raise DataError(f"there are no sentences for {split}; give train, dev and test, as split_corpora does")


def _check_vectors(matrices: Mapping[str, npt.NDArray[Any]], sizes: Mapping[str, int], where: str) -> None:
    for split, matrix in matrices.items():
        if matrix.ndim != 2 or len(matrix) != sizes[split] or matrix.shape[1] == 0:
            raise DataError(f"{where}, {split}: vectors have shape {matrix.shape}, expected ({sizes[split]}, dim)")
        if not np.isfinite(matrix).all():
            raise DataError(
                f"{where}, {split}: vectors hold NaN or infinity; extract them again, in float32 or float64"
            )
