"""The settings of a run: one pydantic model, filled from the command line, from YAML, or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from extractors.foundation.errors import UsageError

DEFAULT_MODELS = ("elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini")
"""What ``probe run`` reads without ``--model``."""

SAMPLE_CORPUS = Path(__file__).parent / "data" / "sample.conllu"
"""The bundled original treebank."""

SAMPLE_DATA = (
    SAMPLE_CORPUS,
    *(SAMPLE_CORPUS.parent / f"{name}.jsonl" for name in ("pronouns", "relations", "entailment")),
)
"""What ``probe run`` reads without ``--data``: the treebank, and small sets for tasks that need both sides of a word."""

DEFAULT_FOLDER = "janus-run"
"""Where ``probe run`` writes without ``--out`` (a number is added while the name is taken)."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Count = Annotated[int, Field(ge=1)]
CueType = Literal["agreement", "sense", "polarity", "coreference"]


class DirectionShareSettings(_Section):
    """How direction shares are sampled; see `analyses.direction_shares` and `analyses.collect_contexts`."""

    modes: tuple[Literal["crossed", "natural", "resampled", "masked"], ...] = ("crossed",)
    """How contexts are put together; comparisons of models need ``crossed``."""
    side: Annotated[int, Field(ge=1, le=64)] | None = None
    """Words of context on each side; None: the longest that the corpus allows."""
    grid: Annotated[int, Field(ge=2, le=64)] | None = None
    """Left parts and right parts per target (K of the K x K grid); None: the largest that the corpus allows."""
    targets: Annotated[int, Field(ge=2, le=10_000)] = 40
    """Target words at most."""
    natural: Count = 200
    """Sentences of the data that give the corpus mean and the standard deviations."""
    window: tuple[Annotated[int, Field(ge=1, le=64)], ...] = ()
    """Also measure with so many words on each side, on 4 x 4 grids, beside `side`."""


class AttentionSettings(_Section):
    """Size of the attention analyses."""

    sentences: Count | None = 200
    """Sentences at most, drawn by the seed; None: all."""
    variants: tuple[Literal["rollout", "norm-weighted"], ...] = ("rollout", "norm-weighted")
    """What is measured besides plain attention; see `analyses.attention_distance`."""


class ContextReachSettings(_Section):
    """Size of the context reach; see `analyses.context_reach`. Contexts are those of the direction shares."""

    targets: Annotated[int, Field(ge=2)] = 20
    """Target words at most."""
    estimators: tuple[Literal["substitution", "gradient"], ...] | None = None
    """Estimators; None: all that the model allows."""
    bases: Count = 2
    """Contexts per target in which words are replaced."""
    draws: Count = 1
    """Substitutes per word."""
    projections: Count = 2
    """Random projections per context and layer, for gradients."""


class MaskShiftSettings(_Section):
    """Size of the mask shift; see `analyses.mask_shift`."""

    sentences: Count = 200
    """Sentences at most."""


class ClozeSettings(_Section):
    """Size of the cloze test; see `analyses.cloze`."""

    targets: Count = 800
    """Gaps at most that are scored."""
    tuning_targets: Count = 300
    """Gaps at most to tune on."""
    exact_ends: Count | None = 16
    """For how many candidates, the likeliest by their piece, a left-to-right model over word pieces is asked in the context whether
    the word ends, beside the word in the gap; None: for all."""


class CostSettings(_Section):
    """What is timed; see `analyses.cost`."""

    lengths: tuple[Count, ...] = (8, 32, 128, 512)
    """Words of a sentence."""
    batch_sizes: tuple[Count, ...] = (4,)
    """Sentences read at once."""
    repeats: Annotated[int, Field(ge=2)] = 3
    """Timed passes over all lengths."""
    memory_words: Count = 512
    """Memory is traced for batches of at most so many words."""
    edits: Count = 16
    """Sentences that are edited to see which states survive."""


class NeighbourProbeSettings(_Section):
    """Size of the neighbour probes; see `probes.neighbour_probes`."""

    properties: tuple[str, ...] = ("upos",)
    """Columns of labels, or ``word``."""
    reach: Annotated[int, Field(ge=1, le=32)] = 3
    """Offsets from -reach to +reach."""
    penalties: tuple[Annotated[float, Field(gt=0)], ...] = (1.0, 0.1, 0.01)
    """Penalties of the probe to choose from."""
    train_words: Count | None = 2000
    """Training pairs at most for each offset and property; None: all."""
    control: bool = False
    """Also run the control task."""


class ConjunctionProbeSettings(_Section):
    """Size of the conjunction probe; see `probes.conjunction_probe`."""

    cue_types: tuple[CueType, ...] = ("agreement", "sense", "polarity", "coreference")
    """Types of cue."""
    untrained_cue_types: tuple[CueType, ...] = ("agreement", "polarity")
    """Types of cue for untrained copies, which are there as a baseline."""
    train_items: Count = 48
    """Items of four sentences to train on, for each type of cue."""
    dev_items: Count = 16
    """Items to choose the penalty on."""
    test_items: Count = 40
    """Items to score."""
    mlp_layers: str | None = "last"
    """Layers that the perceptron reads too, as for ``layer``; None: none."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "quick": {
        "control": False,
        "probe_halves": False,
        "probe_untrained": False,
        "resamples": 500,
        "direction_shares": {"grid": 5, "targets": 16, "natural": 60},
    },
}
"""Settings that go together; what is given explicitly wins over them."""

QUICK_ANALYSES = ("direction_shares",)
"""What the preset ``quick`` runs where no analysis is named, besides the first task that the data allow."""


class RunConfig(BaseModel):
    """Everything that decides what a run computes, and where it goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Literal["default", "quick"] = "default"
    """A set of other settings, see `PRESETS`: ``quick`` takes under a minute on the bundled models and data."""
    model: tuple[str, ...] = DEFAULT_MODELS
    """Registered names, folders or Hugging Face ids; ``name=path`` chooses the name used in tables."""
    data: tuple[str, ...] = ()
    """Corpus files or folders; ``train=``, ``dev=`` or ``test=`` before a path says which split it is. Empty: the sample."""
    task: tuple[str, ...] | None = None
    """Probing tasks; None: all that the data allow, or none if only analyses are asked for."""
    analysis: tuple[str, ...] | None = None
    """Analyses; None: all that the models allow, or none if only tasks are asked for."""
    layer: str = "all"
    """Layers: all, last, 0,3 or 2-5."""
    pooling: Literal["first", "last", "mean", "max"] = "mean"
    """How the pieces of a word become one vector."""
    seed: tuple[Annotated[int, Field(ge=0, le=2**31 - 1)], ...] = (0,)
    """Seeds of splits, control tasks, contexts and untrained weights; several repeat the run for each."""
    untrained: bool = True
    """Also run an untrained copy of every model, the baseline that architecture alone explains."""
    control: bool = True
    """Also run the control task of every task (Hewitt & Liang 2019)."""
    probe_halves: bool = True
    """Also probe each half of a model that is two models side by side."""
    probe_untrained: bool = True
    """Also probe the untrained copies; False leaves them to the analyses."""
    split_by: Literal["document", "sentence"] = "document"
    """The unit that a seeded split keeps together."""
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Bootstrap samples of each interval."""
    device: str = "cpu"
    """Torch device."""
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    """Precision of the models; float64 to check exact zeros."""
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 32
    """Sentences per forward pass."""
    offline: bool | None = None
    """Never contact a server; None: as HF_HUB_OFFLINE says."""
    trust_remote_code: bool = False
    """Allow code that comes with a checkpoint."""
    direction_shares: DirectionShareSettings = DirectionShareSettings()
    """Sampling of direction shares."""
    attention: AttentionSettings = AttentionSettings()
    """Size of the attention analyses."""
    context_reach: ContextReachSettings = ContextReachSettings()
    """Size of the context reach."""
    mask_shift: MaskShiftSettings = MaskShiftSettings()
    """Size of the mask shift."""
    cloze: ClozeSettings = ClozeSettings()
    """Size of the cloze test."""
    cost: CostSettings = CostSettings()
    """What is timed."""
    neighbour_probes: NeighbourProbeSettings = NeighbourProbeSettings()
    """Size of the neighbour probes."""
    conjunction_probe: ConjunctionProbeSettings = ConjunctionProbeSettings()
    """Size of the conjunction probe."""

    def measured(self) -> dict[str, Any]:
        """The settings that numbers depend on, for telling whether a started run may be resumed."""
        return self.model_dump(mode="json", exclude={"device", "batch_size", "offline"})


def make_config(settings: Mapping[str, Any], file: str | Path | None = None) -> RunConfig:
    """Build the settings from a YAML file and from explicit values, which win.

    Parameters
    ----------
    settings : mapping
        Explicit values by field name; None means "not given".
    file : path, optional
        YAML file with the fields of `RunConfig`.

    Returns
    -------
    RunConfig
        The checked settings.

    Raises
    ------
    UsageError
        If the file cannot be read, or a field is unknown or has an invalid value; every fault is listed.
    """
    values: dict[str, Any] = {}
    if file is not None:
        values = {key: value for key, value in _read_yaml(Path(file)).items() if value is not None}
    values.update({key: value for key, value in settings.items() if value is not None})
    values = _with_preset(values)
    for key in ("model", "data", "task", "analysis", "seed"):
        if isinstance(values.get(key), (str, int)) and not isinstance(values.get(key), bool):
            values[key] = (values[key],)
    if "layer" in values and not isinstance(values["layer"], str):
        layers = values["layer"]
        values["layer"] = ",".join(map(str, layers)) if isinstance(layers, (list, tuple)) else str(layers)
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {_in_yaml_terms(fault['msg'])} (given: {fault['input']!r})"
            for fault in error.errors()
        )
        origin = f" in {file}" if file is not None else ""
        raise UsageError(
            f"invalid settings{origin}: {faults}; valid fields: {', '.join(RunConfig.model_fields)}"
        ) from error
    for field in ("model", "seed"):
        chosen = getattr(config, field)
        if not chosen:
            raise UsageError(f"no {field} given; leave the option out for the default")
        if len(set(chosen)) < len(chosen):
            raise UsageError(f"the same {field} is given twice: {', '.join(map(str, chosen))}; give each once")
    for field in ("model", "data", "task", "analysis"):
        if not all(name.strip() for name in getattr(config, field) or ()):
            raise UsageError(f"an empty name under {field}: {list(getattr(config, field))}; remove it")
    if (config.task, config.analysis) in (((), ()), ((), None), (None, ())):
        raise UsageError("neither a task nor an analysis is asked for; leave both out to run all that the data allow")
    return config


def _with_preset(values: dict[str, Any]) -> dict[str, Any]:
    """Put a preset's settings under those that are given; of a section, field by field."""
    preset = PRESETS.get(values.get("preset", "default"))
    if preset is None:
        raise UsageError(f"there is no preset {values['preset']!r}; choose from: {', '.join(PRESETS)}")
    merged = {**preset, **values}
    for key, section in preset.items():
        if isinstance(section, dict) and isinstance(values.get(key), Mapping):
            merged[key] = {**section, **values[key]}
    return merged


def _in_yaml_terms(message: str) -> str:
    return message[0].lower() + message[1:].replace("valid tuple", "list").replace(
        "valid dictionary or instance of", "mapping of"
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the configuration {path} is not UTF-8 text: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"the configuration {path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UsageError(
            f"the configuration {path} must be a mapping of settings; valid fields: {', '.join(RunConfig.model_fields)}"
        )
    return content
