"""The analyses of a run: what each reads, how large it is, and which models it is asked of.

Analyses of one model are units of their own; those that compare models (cloze, gaps and effects of shares) come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analyses.registry import ANALYSES, AnalysisInfo
from extractors import Extractor
from extractors.foundation.errors import DataError, StoreError, UsageError
from extractors.foundation.progress import Progress
from extractors.foundation.randomness import generator_for
from extractors.foundation.results import tidy
from probes.conjunction import MEASURES as CONJUNCTION_MEASURES
from probes.neighbours import MEASURES as NEIGHBOUR_MEASURES
from studies.config import RunConfig
from studies.workspace import read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

    from analyses import ContextSet, NaturalStatistics
    from probes.corpora import CorpusSentence

Array = npt.NDArray[np.float64]

ALL_ANALYSES: dict[str, AnalysisInfo] = ANALYSES | {
    info.name: info
    for info in (
        AnalysisInfo(
            name="neighbour_probes",
            description="How much a word's vector tells of the words around it, by offset",
            needs="words with part-of-speech tags or other labels, in train, dev and test",
            measures=tuple(NEIGHBOUR_MEASURES),
        ),
        AnalysisInfo(
            name="conjunction_probe",
            description="Whether a linear reader gets the parity of a left and a right cue, which no concatenation can give it",
            needs="a model that can read new sentences; it brings English sentences of its own",
            measures=tuple(CONJUNCTION_MEASURES),
            needs_new_sentences=True,
        ),
    )
}
"""All that ``--analysis`` can name, those of `analyses` and those made of `probes`."""

OF_ALL_MODELS = ("cloze",)
"""Analyses that read all models of a run together."""

UNTRAINED_TOO = ("direction_shares", "attention_distance", "conjunction_probe")
"""Analyses that are also made of untrained copies, where the architecture alone says something."""


@dataclass(frozen=True)
class Measured:
    """What an analysis gives."""

    results: pd.DataFrame
    """Tidy rows."""
    timed: pd.DataFrame | None = None
    """Tidy rows that differ from run to run, for the costs."""


@dataclass
class Measurements:
    """The analyses of one run; every one is a method that its name finds."""

    config: RunConfig
    models: Sequence[Extractor]
    """The trained models."""
    sentences: Sequence[CorpusSentence]
    """All sentences of the data."""
    splits: Mapping[int, Mapping[str, Sequence[CorpusSentence]]]
    """Seed -> the sentences of train, dev and test; empty if the data were not split."""
    data: str
    """Name of the data."""
    note: Callable[[str], None]
    """Receives what a reader must know."""
    progress: Progress
    _contexts: dict[int, ContextSet | None] = field(default_factory=dict)
    _natural: dict[int, ContextSet] = field(default_factory=dict)

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The words of all sentences."""
        return [sentence.words for sentence in self.sentences]

    def measure(self, name: str, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        """Run an analysis of one model.

        Parameters
        ----------
        name : str
            One of `ALL_ANALYSES`, not of `OF_ALL_MODELS`.
        extractor : Extractor
            The model.
        seed : int
            The seed.
        keep : path
            File for what a comparison of models needs later.

        Returns
        -------
        Measured or None
            None if the data do not allow it; a note says why. If the analysis was asked for by name, the error is raised.
        """
        found: Callable[[Extractor, int, Path], Measured | None] = getattr(self, f"_{name}")
        try:
            return found(extractor, seed, keep)
        except DataError as error:
            if self.config.analysis is not None:
                raise
            self.note(f"{name} is left out for {extractor.info.name}: {error}")
            return None

    def _common(self, seed: int) -> dict[str, Any]:
        """The arguments that every analysis of one model takes."""
        config = self.config
        return {
            "layers": config.layer,
            "batch_size": config.batch_size,
            "resamples": config.resamples,
            "seed": seed,
            "progress": self.progress,
        }

    def _told(self, about: str, notes: Sequence[str]) -> None:
        for note in notes:
            self.note(f"{about}: {note}")

    def _drawn(self, number: int | None, seed: int, name: str) -> list[tuple[str, ...]]:
        """So many sentences, drawn by the seed, in their order."""
        words = self.words
        if number is None or number >= len(words):
            return words
        drawn = np.sort(generator_for(seed, name).choice(len(words), number, replace=False))
        self.note(f"{name} analyses read {number} of {len(words)} sentences, drawn by the seed")
        return [words[index] for index in drawn]

    def _direction_shares(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from analyses import direction_shares, natural_statistics, resample_contexts
        from analyses.direction_shares import target_notes

        contexts = self.contexts(seed)
        if contexts is None:
            return None
        settings, layers, pooling = self.config.direction_shares, self.config.layer, self.config.pooling
        common = {**self._common(seed), "pooling": pooling, "data": self.data}
        natural = natural_statistics(
            extractor,
            self.words,
            layers=layers,
            pooling=pooling,
            natural=settings.natural,
            batch_size=self.config.batch_size,
            seed=seed,
            progress=self.progress,
        )
        frames = []
        failures: dict[str, DataError] = {}
        for mode in settings.modes:
            try:
                chosen = contexts
                if mode == "resampled":
                    chosen = resample_contexts(self.models_for("direction_shares"), self.words, contexts, seed=seed)
                elif mode != "crossed":
                    chosen = self._natural_contexts(seed)
                found = direction_shares(
                    extractor, self.words, contexts=chosen, mode=mode, statistics=natural, **common
                )
            except DataError as error:
                failures[f"in mode {mode}"] = error
                continue
            if mode == "crossed":
                found.save(keep)
            of_all = target_notes(chosen, mode)
            self._told("direction shares" if mode == "crossed" else f"direction shares in mode {mode}", of_all)
            self._told(
                f"direction shares of {extractor.info.name}", [note for note in found.notes if note not in of_all]
            )
            frames.append(found.to_frame())
        if settings.window:
            try:
                frames.append(self._shares_by_length(extractor, contexts, natural, common))
            except DataError as error:
                failures["by context length"] = error
        if not frames:
            raise next(iter(failures.values()))
        for which, failure in failures.items():
            self.note(f"direction shares {which} are left out for {extractor.info.name}: {failure}")
        return Measured(_joined(frames))

    def _shares_by_length(
        self, extractor: Extractor, contexts: ContextSet, natural: NaturalStatistics, common: Mapping[str, Any]
    ) -> pd.DataFrame:
        """The contexts cut to each of the lengths, and as long as they are, for the same target words."""
        from analyses import narrow_contexts, shares_by_length, shorten_contexts

        window = set(self.config.direction_shares.window)
        if longer := sorted(side for side in window if side > contexts.side):
            self.note(
                f"direction shares by context length: none for {', '.join(map(str, longer))} words per side, the contexts have "
                f"{contexts.side}"
            )
        usable = self.models_for("direction_shares")
        small = narrow_contexts(contexts, min(4, contexts.grid))
        sets = [small]
        for side in sorted(side for side in window if side < contexts.side):
            try:
                sets.append(shorten_contexts(usable, small, side))
            except DataError as error:
                self.note(f"direction shares by context length: none for {side} words per side: {error}")
        found = shares_by_length(extractor, self.words, contexts=sets, statistics=natural, **common)
        self._told("direction shares by context length", [note for note in found.notes if note not in contexts.notes])
        return found.to_frame()

    def models_for(self, name: str) -> list[Extractor]:
        """The models that an analysis can be made of."""
        return [model for model in self.models if ALL_ANALYSES[name].applicable(model.info) is None]

    def contexts(self, seed: int) -> ContextSet | None:
        """Targets and contexts, the same for all models, lengths constant in the tokens of each.

        The bundled sample is too small to hold many: with it go contexts written for the purpose.
        """
        if seed not in self._contexts:
            from analyses import collect_contexts
            from studies.bundled_contexts import bundled_contexts

            usable = self.models_for("direction_shares")
            settings = self.config.direction_shares
            try:
                if self._bundled:
                    contexts = bundled_contexts(usable, grid=settings.grid or 8, targets=settings.targets, seed=seed)
                    self.note(
                        f"direction shares are measured on contexts written for the purpose, {contexts.side} words per side and "
                        f"{contexts.grid} x {contexts.grid} for each target, not on the sample"
                    )
                else:
                    contexts = collect_contexts(
                        usable,
                        self.words,
                        side=settings.side,
                        grid=settings.grid,
                        targets=settings.targets,
                        seed=seed,
                        upos=self._upos(),
                    )
                self._told("direction shares", contexts.notes)
                self._contexts[seed] = contexts
            except DataError as error:
                if self.config.analysis is not None:
                    raise
                self.note(f"direction_shares and context_reach are left out: {error}")
                self._contexts[seed] = None
        return self._contexts[seed]

    @property
    def _bundled(self) -> bool:
        """Whether contexts are those written for the purpose rather than taken from the data."""
        return not self.config.data and self.config.direction_shares.side is None

    def _natural_contexts(self, seed: int) -> ContextSet:
        """Pairs of sides from the same sentences of the data."""
        from analyses import collect_contexts

        settings = self.config.direction_shares
        if seed not in self._natural:
            self._natural[seed] = collect_contexts(
                self.models_for("direction_shares"),
                self.words,
                mode="natural",
                side=settings.side,
                grid=settings.grid,
                targets=settings.targets,
                seed=seed,
                upos=self._upos(),
            )
        return self._natural[seed]

    def _upos(self) -> list[list[str]] | None:
        """The tags of all words, if every word has one."""
        tags = [sentence.columns.get("upos") for sentence in self.sentences]
        if any(column is None or None in column for column in tags):
            return None
        return [[tag or "" for tag in column or ()] for column in tags]

    def _attention_distance(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from analyses import attention_distance

        settings = self.config.attention
        untrained = extractor.info.weights == "untrained"
        found = attention_distance(
            extractor,
            self._drawn(settings.sentences, seed, "attention"),
            variants=() if untrained else settings.variants,
            data=self.data,
            **self._common(seed),
        )
        self._told(f"attention of {extractor.info.name}", found.notes)
        return Measured(found.to_frame())

    def _context_reach(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from dataclasses import replace

        from analyses import context_reach

        settings = self.config.context_reach
        contexts = self.contexts(seed)
        if contexts is None:
            return None
        if contexts.mode != "natural" and not self._bundled:
            # Words are to be replaced in sentences that somebody wrote; where there are too few, the pairs have to do.
            with suppress(DataError):
                contexts = self._natural_contexts(seed)
        found = context_reach(
            extractor,
            self.words,
            contexts=replace(contexts, targets=contexts.targets[: settings.targets]),
            estimators=settings.estimators,
            bases=settings.bases,
            draws=settings.draws,
            projections=settings.projections,
            pooling=self.config.pooling,
            data=self.data,
            **self._common(seed),
        )
        self._told(f"context reach of {extractor.info.name}", found.notes)
        return Measured(found.to_frame())

    def _mask_shift(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from analyses import mask_shift

        found = mask_shift(
            extractor,
            self.words,
            number=self.config.mask_shift.sentences,
            pooling=self.config.pooling,
            data=self.data,
            **self._common(seed),
        )
        self._told(f"mask shift of {extractor.info.name}", found.notes)
        return Measured(found.to_frame())

    def _cost(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from analyses import cost, steps_to_loss
        from analyses.steps_to_loss import CURVE as LEARNING_CURVE

        settings = self.config.cost
        found = cost(
            extractor,
            self.words,
            lengths=settings.lengths,
            batch_sizes=settings.batch_sizes,
            repeats=settings.repeats,
            memory_words=settings.memory_words,
            edit_sentences=settings.edits,
            resamples=self.config.resamples,
            seed=seed,
            data=self.data,
            progress=self.progress,
        )
        self._told(f"cost of {extractor.info.name}", found.notes)
        frames = [found.to_frame()]
        source = Path(str(extractor.info.source))
        folder = source if source.is_dir() else source.parent  # of some kinds it is the file of the weights
        if (folder / LEARNING_CURVE).exists():
            frames.append(steps_to_loss(folder, name=extractor.info.name).to_frame())
        return Measured(_joined(frames), found.timed_frame())

    def _neighbour_probes(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from probes import neighbour_probes

        settings = self.config.neighbour_probes
        splits = self.splits.get(seed)
        if splits is None:
            raise DataError("the data are not split into train, dev and test, since they hold no labels")
        found = neighbour_probes(
            extractor,
            splits,
            properties=settings.properties,
            offsets=tuple(range(-settings.reach, settings.reach + 1)),
            penalties=settings.penalties,
            train_words=settings.train_words,
            control=settings.control,
            pooling=self.config.pooling,
            data=self.data,
            **self._common(seed),
        )
        self._told(f"neighbour probes of {extractor.info.name}", found.notes)
        return Measured(found.to_frame())

    def _conjunction_probe(self, extractor: Extractor, seed: int, keep: Path) -> Measured | None:
        from probes import conjunction_probe

        settings = self.config.conjunction_probe
        untrained = extractor.info.weights == "untrained"
        found = conjunction_probe(
            extractor,
            cue_types=settings.untrained_cue_types if untrained else settings.cue_types,
            train_items=settings.train_items,
            dev_items=settings.dev_items,
            test_items=settings.test_items,
            mlp_layers=None if untrained else settings.mlp_layers,
            pooling=self.config.pooling,
            **self._common(seed),
        )
        top = max(layer for layer, _, _ in found.statistics)
        _write_units(keep, found.unit_sums(top))
        self._told(f"conjunction probe of {extractor.info.name}", found.notes)
        return Measured(found.to_frame())

    def cloze(self, seed: int) -> Measured | None:
        """Fill gaps with all models that can, on the same gaps and candidates."""
        from analyses import cloze
        from extractors.gaps import GapFiller, gap_filler

        settings = self.config.cloze
        fillers: list[GapFiller] = []
        for model in self.models_for("cloze"):
            try:
                fillers.append(gap_filler(model, exact_ends=settings.exact_ends))
            except UsageError as error:
                self.note(f"cloze is left out for {model.info.name}: {error}")
        if not fillers:
            return None
        try:
            found = cloze(
                fillers,
                self.words,
                documents=[sentence.document for sentence in self.sentences],
                counts=self._word_counts(),
                targets=settings.targets,
                tuning_targets=settings.tuning_targets,
                batch_size=self.config.batch_size,
                resamples=self.config.resamples,
                seed=seed,
                data=self.data,
                progress=self.progress,
            )
        except DataError as error:
            if self.config.analysis is not None:
                raise
            self.note(f"cloze is left out: {error}")
            return None
        self._told("cloze", found.notes)
        return Measured(found.to_frame())

    def _word_counts(self) -> Mapping[str, float] | None:
        """Counts of the text that the bundled models were trained on, if all models are bundled ones."""
        from extractors.registry import BUNDLED_MODELS, bundled_word_counts

        if all(str(model.info.source).startswith(str(BUNDLED_MODELS)) for model in self.models):
            return bundled_word_counts()
        return None

    def published_costs(self) -> pd.DataFrame:
        """Sizes and operations of the published models of the story, from their configurations."""
        from analyses import published_costs

        return _joined([cost.to_frame() for cost in published_costs(lengths=self.config.cost.lengths)])

    def compare(self, shares: Sequence[Path], parities: Mapping[int, Path], seed: int) -> pd.DataFrame | None:
        """Gaps between models and effects in the 2 x 2, from what the units of single models have kept.

        Parameters
        ----------
        shares : sequence of path
            Direction shares of trained models and untrained copies.
        parities : mapping of int to path
            Number of a trained model -> bits of its parity probe at the top layer, per item.
        seed : int
            The seed.
        """
        from analyses import compare_shares, main_effects
        from analyses.factorial import CELLS, mean_of_units
        from analyses.share_comparison import two_by_two
        from analyses.share_files import load_shares

        frames = []
        if shares:
            compared = compare_shares([load_shares(path) for path in shares])
            self._told("direction shares", compared.notes)
            frames.append(compared.to_frame())
        cells = two_by_two([model.info for model in self.models])
        if cells is not None and all(cells[cell] in parities for cell in CELLS):
            units = {cell: _read_units(parities[cells[cell]]) for cell in CELLS}
            effects = main_effects(units, mean_of_units, resamples=self.config.resamples, seed=seed)
            rows = effects.rows(
                task="conjunction_bits",
                unit="bits",
                weights="trained",
                part="whole",
                data="controlled sentences",
                seed=seed,
            )
            frames.append(tidy(rows))
        frames = [frame for frame in frames if not frame.empty]
        return _joined(frames) if frames else None


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def is_readable(name: str, path: Path) -> bool:
    """Whether what an analysis has kept for comparisons can still be read; true if it has kept nothing."""
    from analyses.share_files import load_shares

    if not path.exists():
        return True
    try:
        load_shares(path) if name == "direction_shares" else _read_units(path)
    except StoreError:
        return False
    return True


def _write_units(path: Path, units: Array) -> None:
    """Write a total and a count for each unit, as a table, whose pages have checksums."""
    write_table(path, tidy({"value": total, "n": int(count)} for total, count in units))


def _read_units(path: Path) -> Array:
    try:
        return read_table(path)[["value", "n"]].to_numpy(dtype=np.float64)
    except Exception as error:  # Damaged Parquet raises a dozen kinds of error.
        raise StoreError(f"cannot read {path}: {error}") from error
