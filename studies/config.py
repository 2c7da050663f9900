"""The settings of a run: one pydantic model, filled from the command line, from YAML, or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from extractors.foundation.errors import UsageError

DEFAULT_MODELS = ("minilm-l6",)
"""What ``probe run`` reads without ``--model``."""

SAMPLE_CORPUS = Path(__file__).parent / "data" / "sample.conllu"
"""What ``probe run`` reads without ``--data``: the bundled original sample."""

DEFAULT_FOLDER = "janus-run"
"""Where ``probe run`` writes without ``--out`` (a number is added while the name is taken)."""


class DirectionShareSettings(BaseModel):
    """How direction shares are sampled; see `analyses.collect_contexts`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    side: Annotated[int, Field(ge=1, le=64)] | None = None
    """Words of context on each side; None: the longest that the corpus allows."""
    grid: Annotated[int, Field(ge=2, le=64)] | None = None
    """Left parts and right parts per target (K of the K x K grid); None: the largest that the corpus allows."""
    targets: Annotated[int, Field(ge=2, le=10_000)] = 40
    """Target words at most."""


class AttentionSettings(BaseModel):
    """How many sentences the attention analyses read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sentences: Annotated[int, Field(ge=1)] | None = 500
    """Sentences at most, drawn by the seed; None: all."""


class RunConfig(BaseModel):
    """Everything that decides what a run computes, and where it goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
