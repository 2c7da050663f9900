"""Direction shares of several models and their untrained copies are measured on the very same contexts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import analyses
import studies


def test_all_models_of_a_run_share_targets_and_contexts(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.copytree(tiny_bert, tmp_path / "other")
    seen: list[tuple[str, str, Any]] = []
    measure = analyses.direction_shares

    def recorded(extractor: Any, *arguments: Any, **options: Any) -> Any:
        seen.append((extractor.info.name, extractor.info.weights, options["contexts"]))
        return measure(extractor, *arguments, **options)

    monkeypatch.setattr(analyses, "direction_shares", recorded)
    result = studies.run(
        model=[str(tiny_bert), str(other)],
        data=[str(tiny_treebank)],
        analysis=["direction_shares"],
        direction_shares={"side": 2, "grid": 2, "targets": 3},
        layer="last",
        out=tmp_path / "out",
    )
    assert [(name, weights) for name, weights, _ in seen] == [
        (name, weights) for name in ("tiny-bert", "other") for weights in ("trained", "untrained")
    ]
    contexts = seen[0][2]
    assert all(given is contexts for _, _, given in seen)
    assert contexts.models == ("tiny-bert", "other")
    assert set(contexts.targets[0].pieces) == {"tiny-bert", "other"}
    shares = result.results.query("measure == 'direction_share_interaction' and condition == 'crossed'")
    assert set(shares["n"]) == {3}
    # Two equal checkpoints on equal contexts have equal shares, trained and untrained.
    for _, rows in shares.groupby("weights"):
        assert rows["value"].nunique() == 1
