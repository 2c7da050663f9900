"""A text read once serves many trainings, and a slice of it is a slice of the whole: same vocabulary, same held-out text."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from extractors.foundation.errors import OutputError, UsageError
from studies.training import source as module
from studies.training.loop import train
from studies.training.recipe import read_recipe
from studies.training.source import TrainingText


def test_files_are_read_once_for_several_trainings(
    training_examples: ModuleType, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    original = module.read_text
    monkeypatch.setattr(module, "read_text", lambda *args, **options: calls.append(args) or original(*args, **options))
    text = TrainingText([planted])
    assert not calls
    shared = [
        train(training_examples.tiny_recipe("bert", words=200, masks=masks), text, tmp_path / f"shared-{number}")
        for number, masks in enumerate(({}, {"rate": 0.4}))
    ]
    assert len(calls) == 1
    alone = train(training_examples.tiny_recipe("bert", words=200), [planted], tmp_path / "alone")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (shared[0].folder / name).read_bytes() == (alone.folder / name).read_bytes()
    assert shared[1].record["recipe"]["masks"]["rate"] == 0.4


@pytest.mark.parametrize("kind", ["bilstm-mlm", "bert"])
def test_a_slice_keeps_vocabulary_and_held_out_text(training_examples: ModuleType, planted: Path, kind: str) -> None:
    recipe = read_recipe(training_examples.tiny_recipe(kind))
    text = TrainingText([planted])
    whole, part = text.material(recipe), text.limited(800).material(recipe)
    assert part.vocabulary == whole.vocabulary
    assert part.text.held_out is whole.text.held_out
    training = part.text.training
    assert 600 <= len(training.words) <= 1000
    assert len(part.training.offsets) == len(training.words) + 1
    assert len(training.documents) - 1 >= 8
    everything = " ".join(map(str, whole.text.training.words.tolist()))
    for first, stop in zip(training.documents, training.documents[1:], strict=False):
        assert " ".join(map(str, training.words[first:stop].tolist())) in everything
        assert first in training.starts
    assert np.array_equal(text.limited(800).material(recipe).training.values, part.training.values)
    assert text.limited(10**6).material(recipe).text.training is whole.text.training
    with pytest.raises(UsageError, match="at least 1"):
        text.limited(0)


def test_a_slice_is_recorded_and_not_mixed_up_with_the_whole(
    training_examples: ModuleType, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studies.training import excerpts

    text = TrainingText([planted])
    recipe = training_examples.tiny_recipe("bigpt", words=900)
    result = train(recipe, text.limited(400), tmp_path / "slice", held_out_words=100)
    assert result.record["text"]["limit"] == 400
    assert result.record["passes"] >= 1
    batches = result.record["held_out_batches"]["held_out_loss"]
    assert len(batches["nats"]) == 1
    assert sum(batches["nats"]) / sum(batches["predictions"]) == pytest.approx(result.record["held_out_loss"], abs=1e-4)

    original, calls = excerpts.Reading.take, 0

    def interrupted(self: excerpts.Reading, number: int) -> excerpts.Anchors:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return original(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(excerpts.Reading, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, text.limited(400), tmp_path / "cut")
    with pytest.raises(OutputError, match="text limit changed"):
        train(recipe, text, tmp_path / "cut")
