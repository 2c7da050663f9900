"""``probe extract``: the representations of a corpus on disk, in our store or in the HDF5 layouts of others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extractors import load_extractor, write_store
from extractors.foundation.errors import DataError, OutputError, UsageError
from extractors.foundation.progress import SILENT, Progress
from studies.config import SAMPLE_CORPUS

LAYOUTS = ("store", "allennlp", "structural-probes")


def extract(
    *,
    model: str,
    data: Sequence[str | Path],
    out: str | Path,
    layout: str = "store",
    layer: str = "all",
    pooling: str = "mean",
    storage: str = "float32",
    untrained: bool = False,
    seed: int = 0,
    device: str = "cpu",
    batch_size: int = 32,
    dtype: str = "float32",
    offline: bool | None = None,
    trust_remote_code: bool = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write the representations of a corpus.

    Parameters
    ----------
    model, device, dtype, untrained, seed, offline, trust_remote_code
        As for `extractors.load_extractor`.
    data : sequence of paths
        Corpora; empty: the bundled sample. All their sentences are written, in order.
    out : path
        A folder for ``store``, a file for the HDF5 layouts; must not exist.
    layout : {"store", "allennlp", "structural-probes"}
        What to write; see docs/representation-files.md.
    layer, pooling, batch_size
        As for `Extractor.extract`.
    storage : {"float32", "float16"}
        Precision on disk, for ``store``.
    progress : Progress
        Receives the progress.

    Returns
    -------
    dict
        Path, model, layers and counts.

    Raises
    ------
    JanusError
        For anything wrong with options, data, model or output.
    """
    from extractors.layer_files import write_layer_file
    from probes.corpora import read_corpora

    out = Path(os.path.expanduser(out))
    if layout not in LAYOUTS:
        raise UsageError(f"format {layout!r} is unknown; choose one of {', '.join(LAYOUTS)}")
    if storage not in ("float32", "float16"):
        raise UsageError(f"store dtype {storage!r} is unknown; choose float32 or float16")
    # os.path, unlike Path, takes what cannot be looked at for absent; writing it then says why.
    if os.path.lexists(out) and (not os.path.isdir(out) or layout != "store" or any(out.iterdir())):
        raise OutputError(f"{out} exists already; choose a new path with --out")
    corpora = read_corpora(data or [SAMPLE_CORPUS])
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    words = [sentence.words for sentence in sentences]
    extractor = load_extractor(
        model,
        device=device,
        dtype=dtype,
        untrained=untrained,
        seed=seed,
        offline=offline,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    done = 0
    try:
        for _ in extractor.align(words):
            done += 1
    except DataError as error:
        raise type(error)(f"{sentences[done].where}: {error}") from error
    if layout == "store":
        layers = write_store(
            extractor,
            words,
            out,
            layers=layer,
            pooling=pooling,
            batch_size=batch_size,
            dtype=storage,
            progress=progress,
        ).layers
    else:
        from extractors import select_layers

        layers = select_layers(layer, extractor.info.layer_names, model=extractor.info.name)
        write_layer_file(
            out,
            extractor.extract(words, layers=layer, pooling=pooling, batch_size=batch_size, progress=progress),
            layout=layout,
            info=extractor.info,
            pooling=None if extractor.info.family == "elmo" else pooling,
        )
    return {
        "path": str(out),
        "model": extractor.info.name,
        "format": layout,
        "layers": list(layers),
        "sentences": len(words),
        "words": sum(map(len, words)),
    }
