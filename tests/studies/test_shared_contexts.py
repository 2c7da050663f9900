"""Direction shares of several models and their untrained copies are measured on the very same contexts."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

import analyses
import studies
from extractors.foundation.errors import DataError


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
    assert shares[["low", "high"]].isna().all(axis=None)
    (few,) = (note for note in result.record["notes"] if "no intervals" in note)
    assert few == "direction shares: no intervals, over 3 target words they would be too narrow; 8 are needed"
    # Two equal checkpoints on equal contexts have equal shares, trained and untrained.
    for _, rows in shares.groupby("weights"):
        assert rows["value"].nunique() == 1


def test_reach_on_data_replaces_words_of_their_sentences(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []
    measure = analyses.context_reach

    def recorded(*arguments: Any, **options: Any) -> Any:
        modes.append(options["contexts"].mode)
        return measure(*arguments, **options)

    monkeypatch.setattr(analyses, "context_reach", recorded)
    settings: dict[str, Any] = {
        "model": [str(tiny_bert)],
        "data": [str(tiny_treebank)],
        "analysis": ["context_reach"],
        "direction_shares": {"side": 2, "grid": 2, "targets": 3},
        "layer": "last",
        "untrained": False,
    }
    studies.run(**settings, out=tmp_path / "a")
    collect = analyses.collect_contexts

    def no_natural_ones(*arguments: Any, mode: str = "crossed", **options: Any) -> Any:
        if mode == "natural":
            raise DataError("too few")
        return collect(*arguments, mode=mode, **options)

    monkeypatch.setattr(analyses, "collect_contexts", no_natural_ones)
    result = studies.run(**settings, out=tmp_path / "b")
    assert modes == ["natural", "crossed"]
    told = "the sentences join left and right parts of different ones (contexts of mode crossed)"
    assert any(told in note for note in result.record["notes"])


def test_a_mode_that_the_data_do_not_allow_leaves_the_others(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise DataError("no such words")

    monkeypatch.setattr(analyses, "resample_contexts", refuse)
    monkeypatch.setattr(analyses, "shares_by_length", refuse)
    settings = {
        "model": [str(tiny_bert)],
        "data": [str(tiny_treebank)],
        "analysis": ["direction_shares"],
        "layer": "last",
        "untrained": False,
    }
    shares = {"side": 2, "grid": 2, "targets": 3, "window": [1]}
    result = studies.run(**settings, direction_shares={**shares, "modes": ["crossed", "resampled"]}, out=tmp_path / "a")
    assert "crossed" in set(result.results["condition"])
    assert "resampled" not in set(result.results["condition"])
    for which in ("in mode resampled", "by context length"):
        assert f"direction shares {which} are left out for tiny-bert: no such words" in result.record["notes"]
    with pytest.raises(DataError, match="no such words"):
        studies.run(**settings, direction_shares={**shares, "modes": ["resampled"]}, out=tmp_path / "b")


def test_lengths_beyond_the_contexts_are_told_and_all_lengths_have_the_same_targets(
    tmp_path: Path, tiny_bert: Path, tiny_treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten = analyses.shorten_contexts

    def shorten_and_lose_one(*arguments: Any) -> Any:
        contexts = shorten(*arguments)
        return dataclasses.replace(contexts, targets=contexts.targets[1:])

    monkeypatch.setattr(analyses, "shorten_contexts", shorten_and_lose_one)
    result = studies.run(
        model=[str(tiny_bert)],
        data=[str(tiny_treebank)],
        analysis=["direction_shares"],
        direction_shares={"side": 2, "grid": 2, "targets": 4, "window": [1, 2, 5, 3]},
        layer="last",
        untrained=False,
        out=tmp_path / "out",
    )
    rows = result.results.query("condition == 'by context length'")
    assert set(rows["length"]) == {1, 2}
    assert set(rows["n"]) == {3}
    assert (
        "direction shares by context length: none for 3, 5 words per side, the contexts have 2"
        in result.record["notes"]
    )
    assert any("by context length: left out, as not every length" in note for note in result.record["notes"])
