"""The models of a run: loaded once each, with names that are unique in the tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extractors import Extractor, load_extractor
from extractors.foundation.errors import UsageError
from extractors.foundation.progress import SILENT, Progress
from studies.config import RunConfig

_ALIAS = re.compile(r"([\w.+-]+)=(.+)")


def split_alias(specification: str) -> tuple[str | None, str]:
    """Read ``name=path`` or a bare path.

    Examples
    --------
    >>> split_alias("elmo=checkpoints/elmo")
    ('elmo', 'checkpoints/elmo')
    >>> split_alias("bert-base-cased")
    (None, 'bert-base-cased')
    """
    match = _ALIAS.fullmatch(specification)
    return (match[1], match[2]) if match and not Path(specification).exists() else (None, specification)


def load_models(config: RunConfig, progress: Progress = SILENT) -> list[Extractor]:
    """Load every model of the run and give each a name of its own.

    Raises
    ------
    UsageError
        If two models are given the same name.
    ModelError
        If a model cannot be loaded.
    """
    loaded = [_load(specification, config, progress=progress) for specification in config.model]
    names = [extractor.info.name for extractor in loaded]
    for position, extractor in enumerate(loaded):
        alias, source = split_alias(config.model[position])
        if alias is None and names.count(extractor.info.name) > 1:
            parent = Path(source).resolve().parent.name if Path(source).exists() else source
            extractor.info = replace(extractor.info, name=f"{parent}/{extractor.info.name}")
    _refuse_equal_names([extractor.info.name for extractor in loaded])
    return loaded


def load_untrained(config: RunConfig, position: int, name: str, seed: int) -> Extractor:
    """The untrained copy of a model: same architecture and tokenizer, weights drawn from `seed`."""
    extractor = _load(config.model[position], config, untrained=True, seed=seed)
    extractor.info = replace(extractor.info, name=name)
    return extractor


def _load(
    specification: str,
    config: RunConfig,
    *,
    untrained: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Extractor:
    alias, source = split_alias(specification)
    extractor = load_extractor(
        source,
        device=config.device,
        dtype=config.dtype,
        untrained=untrained,
        seed=seed,
        offline=config.offline,
        trust_remote_code=config.trust_remote_code,
        progress=progress,
    )
    if alias is not None:
        extractor.info = replace(extractor.info, name=alias)
    return extractor


def _refuse_equal_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two models are called {name}; tell them apart with --model NAME=PATH")
