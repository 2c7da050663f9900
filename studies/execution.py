"""Run a study: read data and models, validate everything, compute unit by unit, write the folder and its report.

A unit is one task or one analysis of one model at one seed; finished units are kept, so an interrupted run resumes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from extractors import Extractor, RepresentationStore, select_layers, write_store
from extractors.foundation.errors import DataError, JanusError, UsageError
from extractors.foundation.files import written_whole
from extractors.foundation.progress import SILENT, Progress
from extractors.foundation.randomness import seed_for
from extractors.foundation.results import tidy
from studies.config import DEFAULT_FOLDER, QUICK_ANALYSES, SAMPLE_CORPUS, SAMPLE_DATA, RunConfig, make_config
from studies.costs import Stopwatch
from studies.measurements import ALL_ANALYSES, OF_ALL_MODELS, UNTRAINED_TOO, Measured, Measurements, is_readable
from studies.models import load_models, load_untrained
from studies.provenance import describe_corpus, describe_model, run_record, version
from studies.workspace import RUN_FILE, Workspace, read_json, read_table, workspace, write_json, write_table

if TYPE_CHECKING:
    import pandas as pd

    from probes.corpora import Corpus, CorpusSentence
    from probes.tasks import Task


@dataclass(frozen=True)
class RunResult:
    """What a finished run left behind."""

    folder: Path
    """Holds results.parquet, results.csv, costs.parquet, run.json, figures/ and report.html."""
    results: pd.DataFrame
    """The tidy table, see `extractors.foundation.results.COLUMNS`."""
    costs: pd.DataFrame
    """Times and memory, same columns."""
    record: Mapping[str, Any]
    """The content of run.json."""

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.folder / "report.html"


@dataclass(frozen=True)
class _Unit:
    kind: str
    name: str
    position: int
    untrained: bool
    seed: int

    @property
    def key(self) -> str:
        digest = seed_for(self.kind, self.name)
        return (
            f"{self.position:02d}-{'untrained' if self.untrained else 'trained'}-{self.seed}-{self.kind}-{digest:08x}"
        )


def run(
    *,
    out: str | Path | None = None,
    config: RunConfig | str | Path | None = None,
    command: str | None = None,
    progress: Progress = SILENT,
    **settings: Any,
) -> RunResult:
    """Compare models layer by layer on a corpus and write tables, figures and the report.

    Parameters
    ----------
    out : path, optional
        The output folder: new, empty, or holding the same run unfinished, which is then resumed. Default:
        ``janus-run`` in the current folder, with a number while that name is taken.
    config : RunConfig or path, optional
        All settings at once, or a YAML file of them.
    command : str, optional
        The command to record; default: the equivalent ``probe run`` command.
    progress : Progress
        Receives the progress.
    **settings
        Fields of `RunConfig`: `model`, `data`, `task`, `analysis`, `layer`, `pooling`, `seed`, ...; they win over `config`.

    Returns
    -------
    RunResult
        Folder, tables and record.

    Raises
    ------
    JanusError
        For anything wrong with settings, data, models or the folder; nothing half-written is left.

    Examples
    --------
    >>> import studies
    >>> result = studies.run(model=["minilm-l6"], layer="all", out="my-run")  # doctest: +SKIP
    >>> result.results.query("measure == 'direction_share_interaction'")  # doctest: +SKIP
    """
    if isinstance(config, RunConfig):
        chosen = make_config({**config.model_dump(), **settings})
    else:
        chosen = make_config(settings, config)
    folder = _choose_folder(out, chosen)
    with workspace(folder, {**chosen.measured(), "version": version()}) as space:
        return _Study(chosen, space, progress, command).run()


def render(folder: str | Path) -> Path:
    """Render the report of a finished run again.

    Parameters
    ----------
    folder : path
        The folder of a finished run.

    Returns
    -------
    Path
        The HTML report.

    Raises
    ------
    UsageError
        If the folder does not hold a finished run.
    """
    folder = Path(folder)
    # os.path, unlike Path, takes what cannot be looked at for absent.
    if not all(os.path.isfile(folder / name) for name in (RUN_FILE, "results.parquet")):
        raise UsageError(
            f"{folder} does not hold a finished run (no {RUN_FILE} and results.parquet); give a folder that "
            "probe run has written"
        )
    from reports import render_report

    costs = folder / "costs.parquet"
    try:
        tables = read_table(folder / "results.parquet"), read_table(costs) if costs.exists() else None
    except Exception as error:  # Damaged Parquet raises a dozen kinds of error.
        raise UsageError(f"cannot read the tables of {folder}: {error}; run it again into another folder") from error
    return render_report(tables[0], costs=tables[1], run=read_json(folder / RUN_FILE), folder=folder)


class _Study:
    """One run in progress."""

    def __init__(self, config: RunConfig, space: Workspace, progress: Progress, command: str | None) -> None:
        self._config, self._space, self._progress, self._command = config, space, progress, command
        self._notes_file = space.path("notes.json")
        self._started = datetime.now(UTC)
        self._splits: dict[int, dict[str, np.ndarray[Any, np.dtype[np.int64]]]] = {}
        self._tasks: dict[tuple[str, int], Task] = {}
        self._notes: list[str] = read_json(self._notes_file)["notes"] if self._notes_file.exists() else []

    def run(self) -> RunResult:
        config, space = self._config, self._space
        if space.resumed:
            self._progress.note(f"resuming the unfinished run in {space.folder}")
        self._corpora = self._read_data()
        self._sentences: list[CorpusSentence] = [s for corpus in self._corpora for s in corpus.sentences]
        self._words = [sentence.words for sentence in self._sentences]
        self._data = _joined_names(self._corpora)
        # Texts that were written around labelled spans repeat themselves: analyses read them only if there is nothing else.
        running = [corpus for corpus in self._corpora if not corpus.label_sets] or self._corpora
        text = {id(sentence) for corpus in running for sentence in corpus.sentences}
        self._corpus_of = np.repeat(np.arange(len(self._corpora)), [len(corpus.sentences) for corpus in self._corpora])
        tasks = self._plan_tasks()
        self._probed = self._sentences_of_tasks()
        self._models = load_models(config, self._progress)
        self._layers = [
            select_layers(config.layer, extractor.info.layer_names, model=extractor.info.name)
            for extractor in self._models
        ]
        for extractor in self._models:
            if extractor.info.note:
                self._note(f"{extractor.info.name}: {extractor.info.note}")
        space.pin("data", [describe_corpus(corpus) for corpus in self._corpora])
        space.pin("models", [describe_model(extractor.info) for extractor in self._models])
        analyses = self._plan_analyses()
        self._validate_alignment()
        self._measurements = Measurements(
            config=config,
            models=self._models,
            sentences=[sentence for sentence in self._sentences if id(sentence) in text],
            splits={
                seed: {
                    split: [sentence for sentence in sentences if id(sentence) in text]
                    for split, sentences in self._split_sentences(seed).items()
                }
                for seed in self._splits
            },
            data=_joined_names(running),
            note=self._note,
            progress=self._progress,
        )
        frames = [self._run_model(position, tasks, analyses) for position in range(len(self._models))]
        return self._write([*frames, self._run_comparisons(analyses)])

    def _note(self, message: str) -> None:
        if message not in self._notes:
            self._notes.append(message)
            write_json(self._notes_file, {"notes": self._notes})
            self._progress.note(f"note: {message}")

    def _read_data(self) -> list[Corpus]:
        from probes.corpora import read_corpora

        if not self._config.data:
            self._note("no --data given: the bundled data are read; they are for trying the tool, not for conclusions")
        with self._progress.task("reading data", None):
            # One task is quick, and the treebank alone holds the first.
            bundled = (SAMPLE_CORPUS,) if self._config.preset == "quick" and self._config.task is None else SAMPLE_DATA
            return read_corpora(self._config.data or bundled)

    def _plan_tasks(self) -> list[str]:
        """The tasks to run; building them for every seed now finds every fault in the data before any model runs."""
        from probes.tasks import available_tasks, build_task, default_tasks

        config = self._config
        wanted = config.task
        labelled = bool(available_tasks(self._sentences))
        if wanted is None and not labelled and config.analysis is None:
            self._note("the data hold no labels: only analyses are run")
        probing = config.analysis is not None and "neighbour_probes" in config.analysis
        if wanted is None and not (labelled and (config.analysis is None or probing)):
            return []
        self._splits = {seed: self._split(seed) for seed in config.seed}
        defaults = default_tasks(self._split_sentences(config.seed[0])) if wanted is None else ()
        names = list(defaults if wanted is None else dict.fromkeys(wanted))
        if wanted is None and config.analysis is not None:
            return []
        if wanted is None and config.preset == "quick":
            names = names[:1]
        kept = []
        for name in names:
            try:
                for seed in config.seed:
                    self._tasks[name, seed] = build_task(name, self._split_sentences(seed))
                kept.append(name)
            except DataError as error:
                if wanted is not None:
                    raise
                self._note(f"task {name} is left out: {error}")
        return kept

    def _split(self, seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """Split -> numbers of its sentences in the order of the store."""
        from probes.splits import split_corpora

        number = {id(sentence): index for index, sentence in enumerate(self._sentences)}
        return {
            split: np.array([number[id(sentence)] for sentence in sentences], dtype=np.int64)
            for split, sentences in split_corpora(self._corpora, seed=seed, by=self._config.split_by).items()
        }

    def _sentences_of_tasks(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers of the sentences that any task has an item of, ascending: only they need vectors on disk."""
        used = [
            self._splits[seed][split][items.sentence]
            for (_, seed), task in self._tasks.items()
            for split, items in task.splits.items()
        ]
        return np.unique(np.concatenate(used)) if used else np.empty(0, dtype=np.int64)

    def _split_sentences(self, seed: int) -> dict[str, list[CorpusSentence]]:
        return {split: [self._sentences[index] for index in indices] for split, indices in self._splits[seed].items()}

    def _plan_analyses(self) -> list[str]:
        config = self._config
        if config.analysis is None:
            everything = QUICK_ANALYSES if config.preset == "quick" else ALL_ANALYSES
            return [] if config.task is not None else list(everything)
        for name in config.analysis:
            if name not in ALL_ANALYSES:
                raise UsageError(f"there is no analysis {name!r}; choose from: {', '.join(ALL_ANALYSES)}")
            reasons = [
                ALL_ANALYSES[name].applicable(extractor.info, layers)
                for extractor, layers in zip(self._models, self._layers, strict=True)
            ]
            if all(reason is not None for reason in reasons):
                raise UsageError(f"analysis {name} fits none of the models: {'; '.join(filter(None, reasons))}")
        return list(dict.fromkeys(config.analysis))

    def _validate_alignment(self) -> None:
        """Bring every word of the corpus together with every model's pieces before anything expensive starts."""
        for extractor in self._models:
            replaced = 0
            with self._progress.task(f"{extractor.info.name}: aligning words", len(self._words)) as task:
                done = 0
                try:
                    for alignment in extractor.align(self._words):
                        replaced += len(alignment.replaced)
                        done += 1
                        task.advance()
                except DataError as error:
                    raise type(error)(f"{self._sentences[done].where}: {error} ({extractor.info.name})") from error
            if replaced:
                self._note(
                    f"{replaced} words stand as the unknown token of {extractor.info.name}, which has no pieces for them (control "
                    "characters) or more than it reads at once"
                )

    def _run_model(
        self, position: int, tasks: Sequence[str], analyses: Sequence[str]
    ) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
        units = [
            _Unit(kind, name, position, untrained, seed)
            for untrained in ((False, True) if self._has_untrained_copy(position) else (False,))
            for seed in self._config.seed
            for kind, names in (("task", tasks), ("analysis", analyses))
            for name in names
            if not untrained or (self._config.probe_untrained if kind == "task" else name in UNTRAINED_TOO)
            if kind == "task" or name not in OF_ALL_MODELS
        ]
        frames = []
        for untrained, seed in dict.fromkeys((unit.untrained, unit.seed) for unit in units):
            group = [unit for unit in units if (unit.untrained, unit.seed) == (untrained, seed)]
            missing = [unit for unit in group if not self._is_done(unit)]
            if missing:
                self._run_group(missing)
            frames += [self._space.load(unit.key) for unit in group if self._space.has(unit.key)]
        return frames

    def _is_done(self, unit: _Unit) -> bool:
        return self._space.has(unit.key) and is_readable(unit.name, self._kept(unit))

    def _has_untrained_copy(self, position: int) -> bool:
        return self._config.untrained and self._models[position].info.family != "layer-file"

    def _run_group(self, units: Sequence[_Unit]) -> None:
        """Units of one network: it is loaded once and, for all its tasks, read once."""
        first = units[0]
        extractor = self._models[first.position]
        if first.untrained:
            extractor = load_untrained(self._config, first.position, extractor.info.name, first.seed)
            self._space.pin(f"untrained copy {first.position}, seed {first.seed}", describe_model(extractor.info))
        tasks = [unit for unit in units if unit.kind == "task"]
        if tasks:
            with self._stored(extractor, first) as store:
                for unit in tasks:
                    self._run_task(unit, extractor, store)
        for unit in units:
            if unit.kind == "analysis":
                self._run_analysis(unit, extractor)

    @contextmanager
    def _stored(self, extractor: Extractor, unit: _Unit) -> Iterator[RepresentationStore]:
        """All selected layers of what the tasks read, on disk for as long as the tasks of one network run."""
        import shutil

        # Trained vectors do not depend on the seed: the store of the first seed serves all.
        weights = f"untrained-{unit.seed}" if unit.untrained else "trained"
        folder = self._space.path(f"store-{unit.position:02d}-{weights}")
        costs_file = self._space.path(f"extraction-{unit.position:02d}-{weights}.costs")
        if (folder / "manifest.json").exists():
            store = RepresentationStore.open(folder)
        else:
            watch = Stopwatch()
            read = [self._words[number] for number in self._probed]
            store = write_store(
                extractor,
                read,
                folder,
                layers=self._config.layer,
                pooling=self._config.pooling,
                batch_size=self._config.batch_size,
                progress=self._progress,
            )
            rows = watch.rows(
                words=sum(map(len, read)), condition="extraction", kind="analysis", **self._context(extractor)
            )
            write_table(costs_file, tidy(rows))
        try:
            yield store
        finally:
            if unit.untrained or unit.seed == self._config.seed[-1]:
                shutil.rmtree(folder, ignore_errors=True)

    def _run_task(self, unit: _Unit, extractor: Extractor, store: RepresentationStore) -> None:
        from probes.evaluation import evaluate_layers
        from probes.features import item_features

        task = self._tasks[unit.name, unit.seed]
        # A store holds the sentences of all tasks, and no others, in the order of the data.
        numbers = {split: self._splits[unit.seed][split][items.sentence] for split, items in task.splits.items()}
        corpus_items = {
            split: replace(items, sentence=np.searchsorted(self._probed, numbers[split]))
            for split, items in task.splits.items()
        }
        used = np.unique(self._corpus_of[np.concatenate(list(numbers.values()))])

        def features(layer: int, part: str, split: str) -> np.ndarray[Any, np.dtype[np.float32]]:
            return item_features(store.layer(layer, part), store.offsets, corpus_items[split])

        watch = Stopwatch()
        result = evaluate_layers(
            task,
            features,
            model=extractor.info,
            layers=store.layers,
            # An untrained copy is a baseline: its halves and what it can memorise say nothing more.
            parts=tuple(extractor.info.parts) if self._config.probe_halves and not unit.untrained else ("whole",),
            pooling=self._config.pooling,
            data=_joined_names([self._corpora[number] for number in used]),
            seed=unit.seed,
            control=self._config.control and not unit.untrained,
            control_parts=("whole",),
            baselines=not unit.untrained,
            resamples=self._config.resamples,
            progress=self._progress,
        )
        costs = watch.rows(kind="probe", task=unit.name, seed=unit.seed, **self._context(extractor))
        self._space.save(unit.key, result.to_frame(), tidy(costs))

    def _run_analysis(self, unit: _Unit, extractor: Extractor) -> None:
        reason = ALL_ANALYSES[unit.name].applicable(extractor.info, self._layers[unit.position])
        if reason is not None:
            self._note(f"{unit.name} is left out for {extractor.info.name}: {reason}")
            return
        watch = Stopwatch()
        measured = self._measurements.measure(unit.name, extractor, unit.seed, self._kept(unit))
        if measured is None:
            return
        costs = tidy(watch.rows(kind="analysis", condition=unit.name, seed=unit.seed, **self._context(extractor)))
        self._space.save(unit.key, measured.results, _joined(costs, measured.timed))

    def _kept(self, unit: _Unit) -> Path:
        """Where a unit keeps what comparisons of models need."""
        return self._space.path(f"{unit.key}.kept")

    def _run_comparisons(self, analyses: Sequence[str]) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
        """What is measured of all models together, and what compares their results."""
        frames = []
        for seed in self._config.seed:
            for name in (name for name in analyses if name in OF_ALL_MODELS):
                unit = _Unit("analysis", name, len(self._models), False, seed)
                if not self._space.has(unit.key):
                    watch = Stopwatch()
                    measured: Measured | None = getattr(self._measurements, name)(seed)
                    if measured is None:
                        continue
                    costs = tidy(watch.rows(kind="analysis", condition=name, seed=seed, data=self._data))
                    self._space.save(unit.key, measured.results, costs)
                frames.append(self._space.load(unit.key))
            kept = {
                (name, position, untrained): path
                for name in analyses
                for position in range(len(self._models))
                for untrained in (False, True)
                if (path := self._kept(_Unit("analysis", name, position, untrained, seed))).exists()
            }
            compared = self._measurements.compare(
                [path for (name, _, _), path in kept.items() if name == "direction_shares"],
                {
                    position: path
                    for (name, position, untrained), path in kept.items()
                    if name == "conjunction_probe" and not untrained
                },
                seed,
            )
            if compared is not None:
                frames.append((compared, tidy([])))
        if "cost" in analyses and not self._config.data:  # beside the bundled models, which are small, for scale
            frames.append((self._measurements.published_costs(), tidy([])))
        return frames

    def _context(self, extractor: Extractor) -> dict[str, Any]:
        info = extractor.info
        return {"model": info.name, "family": info.family, "weights": info.weights, "data": self._data}

    def _write(self, frames: Sequence[Sequence[tuple[pd.DataFrame, pd.DataFrame]]]) -> RunResult:
        import pandas as pd

        space = self._space
        pairs = [pair for model in frames for pair in model]
        if not pairs:
            raise JanusError(f"nothing could be run: {'; '.join(self._notes)}")
        results = pd.concat([results for results, _ in pairs], ignore_index=True)
        extraction = [read_table(path) for path in sorted(space.path("").glob("extraction-*.costs"))]
        costs = pd.concat([*extraction, *(costs for _, costs in pairs)], ignore_index=True)
        first = self._splits.get(self._config.seed[0], {})
        record = run_record(
            self._config,
            command=self._command,
            started=self._started,
            models=[*(describe_model(extractor.info) for extractor in self._models), *space.pinned("untrained copy")],
            corpora=self._corpora,
            splits={split: len(indices) for split, indices in first.items()},
            notes=self._notes,
        )
        write_table(space.folder / "results.parquet", results)
        with written_whole(space.folder / "results.csv") as temporary:
            results.to_csv(temporary, index=False)
        write_table(space.folder / "costs.parquet", costs)
        write_json(space.folder / RUN_FILE, record)
        with self._progress.task("rendering the report", None):
            render(space.folder)
        space.finish()
        return RunResult(space.folder, results, costs, record)


def _joined_names(corpora: Sequence[Corpus]) -> str:
    return " + ".join(corpus.name for corpus in corpora)


def _joined(first: pd.DataFrame, second: pd.DataFrame | None) -> pd.DataFrame:
    import pandas as pd

    return first if second is None else pd.concat([first, second], ignore_index=True)


def _choose_folder(out: str | Path | None, config: RunConfig) -> Path:
    if out is not None:
        if not str(out).strip():
            raise UsageError("the path of the output folder is empty; name a folder, or . for the current one")
        # os.path, unlike Path, leaves the home of an unknown user as it stands.
        return Path(os.path.expanduser(out))
    settings = {**config.measured(), "version": version()}
    number = 1
    while True:
        folder = Path(DEFAULT_FOLDER if number == 1 else f"{DEFAULT_FOLDER}-{number}")
        if Workspace.refusal(folder, settings) is None:
            return folder
        number += 1
