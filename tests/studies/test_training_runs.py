"""Whole trainings: loss falls, kills leave no trace, exports are what their readers read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

from extractors import load_extractor
from extractors.foundation.errors import DataError, OutputError, UsageError
from studies.training.loop import LOG_COLUMNS, train

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("elmo", "bilstm-mlm", "bigpt", "bert")
SENTENCE = ["The", "king", "sees", "one", "dog", "near", "it", "."]
COMPARED = [name for name in LOG_COLUMNS if name != "seconds"]


@pytest.mark.parametrize("kind", KINDS)
def test_loss_falls_below_the_unigram_entropy(tiny_trained: Callable[[str], Any], kind: str) -> None:
    result = tiny_trained(kind)
    log, record = result.log, result.record
    start, end = log["held_out_loss"].iloc[0], log["held_out_loss"].iloc[-1]
    assert end < start - 0.1
    if kind in ("bigpt", "bert"):  # recurrent models of this size need more text: see the next test
        assert record["held_out_loss"] < record["unigram_loss"] - 0.2
    assert record["words"] >= 3000
    assert log["learning_rate"].max() <= 0.01
    assert log["words"].is_monotonic_increasing


@pytest.mark.parametrize("kind", ["elmo", "bilstm-mlm"])
def test_a_longer_training_of_an_lstm_learns_the_planted_language(
    training_examples: ModuleType, planted: Path, tmp_path: Path, kind: str
) -> None:
    recipe = training_examples.tiny_recipe(kind, words=25_000, sampled_softmax=None)
    result = train(recipe, [planted], tmp_path / kind)
    assert result.record["held_out_loss"] < result.record["unigram_loss"] - 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_says_what_it_is(tiny_trained: Callable[[str], Any], kind: str) -> None:
    folder, record = tiny_trained(kind).folder, tiny_trained(kind).record
    assert not (folder / ".unfinished").exists()
    assert json.loads((folder / "training.json").read_text())["words"] == record["words"]
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["kind"] == kind
    card = (folder / "README.md").read_text()
    for fact in (f"{record['parameters']:,}", f"{record['held_out_loss']:.3f}", record["text"]["files"][0]["sha256"]):
        assert fact in card
    assert ("offsets" in card) == (kind in ("bigpt", "bert"))
    assert ("masked" in card.split("## Choices")[1]) == (kind in ("bilstm-mlm", "bert"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_model_loads_in_any_precision(tiny_trained: Callable[[str], Any], kind: str) -> None:
    folder = tiny_trained(kind).folder
    vectors = {}
    for dtype in ("float32", "float64"):
        extractor = load_extractor(folder, dtype=dtype)
        vectors[dtype] = next(iter(extractor.extract([SENTENCE]))).hidden
    np.testing.assert_allclose(vectors["float32"], vectors["float64"], atol=2e-5)
    family, directionality = extractor.info.family, extractor.info.directionality
    assert (family, directionality) == (
        kind,
        "concatenated" if kind in ("elmo", "bigpt") else "bidirectional",
    )
    untrained = load_extractor(folder, untrained=True, seed=1)
    other = next(iter(untrained.extract([SENTENCE]))).hidden
    assert np.abs(other - vectors["float32"]).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_fp16_changes_the_vectors_by_rounding_alone(
    training_examples: ModuleType, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The exported vectors are those of the trained float32 weights, within half precision."""
    from studies.training import learner as module

    kept: list[Any] = []
    original = module.Learner.__init__

    def remember(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        kept.append(self)

    monkeypatch.setattr(module.Learner, "__init__", remember)
    result = train(training_examples.tiny_recipe(kind, words=600), [planted], tmp_path / kind)
    extractor: Any = load_extractor(result.folder)
    before = next(iter(extractor.extract([SENTENCE]))).hidden
    trained = kept[0].network
    if kind == "bert":
        extractor.model.load_state_dict(trained.bert.state_dict(), strict=False)
    else:
        network = trained.network if kind == "elmo" else trained
        extractor.network.load_state_dict(network.state_dict())
    after = next(iter(extractor.extract([SENTENCE]))).hidden
    assert 0 < np.abs(before - after).max() < 0.02 * np.abs(after).max()


def test_elmo_through_plain_allennlp_cells_is_the_extractor(
    tiny_trained: Callable[[str], Any], plain_elmo: Callable[[Path, list[str]], Any]
) -> None:
    folder = tiny_trained("elmo").folder
    hidden = next(iter(load_extractor(folder).extract([SENTENCE]))).hidden[-1]
    np.testing.assert_allclose(plain_elmo(folder, SENTENCE), hidden, atol=1e-6)


def test_elmo_has_its_shared_softmax_beside_it(tiny_trained: Callable[[str], Any]) -> None:
    from safetensors.numpy import load_file

    folder = tiny_trained("elmo").folder
    vocabulary = (folder / "vocabulary.txt").read_text().splitlines()
    softmax = load_file(folder / "softmax.safetensors")
    assert vocabulary[:3] == ["<S>", "</S>", "<UNK>"]
    assert softmax["weight"].shape == (len(vocabulary), 16)
    assert softmax["bias"].shape == (len(vocabulary),)
    counts = [int(line) for line in (folder / "counts.txt").read_text().splitlines()]
    assert len(counts) == len(vocabulary)
    assert counts[:2] == [0, 0]
    assert counts[3:] == sorted(counts[3:], reverse=True)
    assert counts[3] > 0


def test_bert_through_transformers_alone_is_the_extractor(tiny_trained: Callable[[str], Any]) -> None:
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = tiny_trained("bert").folder
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.dtype == torch.float32
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer([SENTENCE], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states
    owners = encoded.word_ids(0)
    hidden = next(iter(load_extractor(folder).extract([SENTENCE], pooling="first"))).hidden
    for layer, state in enumerate(states):
        firsts = [state[0, owners.index(word)].numpy() for word in range(len(SENTENCE))]
        np.testing.assert_allclose(np.stack(firsts), hidden[layer], atol=1e-5)


def command(recipe: Path, text: Path, out: Path) -> list[str]:
    code = "from studies.cli import main; main()"
    return [sys.executable, "-c", code, "train", str(recipe), "--text", str(text), "--out", str(out), "--quiet"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["elmo", "bert"])
def test_a_training_killed_three_times_ends_with_the_same_bits(
    training_examples: ModuleType, planted: Path, tmp_path: Path, kind: str
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(training_examples.tiny_recipe(kind, words=12_000, checkpoint_every=600)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    checkpoint = killed / ".unfinished" / "checkpoint.safetensors"

    def stamp() -> int:
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    for _ in range(3):
        process = subprocess.Popen(command(recipe, planted, killed), cwd=ROOT, env=environment)
        before, deadline = stamp(), time.monotonic() + 120
        while stamp() == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.05)
        assert process.poll() is None, "the training ended before it could be killed; make it longer"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert checkpoint.exists()
    for out in (killed, whole):
        subprocess.run(command(recipe, planted, out), cwd=ROOT, env=environment, check=True)
    weights = "weights.hdf5" if kind == "elmo" else "model.safetensors"
    if kind == "elmo":
        import h5py

        def content(path: Path) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            with h5py.File(path, "r") as file:
                file.visititems(
                    lambda name, item: found.update({name: item[...].tobytes()} if hasattr(item, "shape") else {})
                )
            return found

        assert content(killed / weights) == content(whole / weights)
        assert (killed / "softmax.safetensors").read_bytes() == (whole / "softmax.safetensors").read_bytes()
    else:
        assert (killed / weights).read_bytes() == (whole / weights).read_bytes()
    import pandas as pd

    logs = [pd.read_parquet(out / "training.parquet")[COMPARED] for out in (killed, whole)]
    pd.testing.assert_frame_equal(logs[0], logs[1])


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_training_resumes_to_the_same_float32_weights(
    training_examples: ModuleType, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Before fp16 rounding, for every kind, through an exception in the middle of a step."""
    from safetensors.numpy import load_file

    from studies.training import excerpts, loop

    recipe = training_examples.tiny_recipe(kind, words=1500)
    original, calls = excerpts.Reading.take, 0

    def failing(self: Any, number: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == 11:
            raise KeyboardInterrupt
        return original(self, number)

    monkeypatch.setattr(loop, "_write", lambda folder, learner, log, record, space: (folder, log))
    train(recipe, [planted], tmp_path / "whole")
    monkeypatch.setattr(excerpts.Reading, "take", failing)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, [planted], tmp_path / "cut")
    assert calls == 11
    train(recipe, [planted], tmp_path / "cut")
    one, other = (load_file(tmp_path / name / ".unfinished" / "checkpoint.safetensors") for name in ("whole", "cut"))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_another_seed_gives_other_weights(training_examples: ModuleType, planted: Path, tmp_path: Path) -> None:
    recipe = training_examples.tiny_recipe("bigpt", words=300)
    folders = [train(recipe, [planted], tmp_path / str(seed), seed=seed).folder for seed in (0, 1)]
    files = [(folder / "model.safetensors").read_bytes() for folder in folders]
    assert files[0] != files[1]
    tokenizers = [(folder / "tokenizer.json").read_bytes() for folder in folders]
    assert tokenizers[0] == tokenizers[1], "the vocabulary must not depend on the training seed"


def test_a_budget_of_zero_words_exports_the_initialised_model(
    training_examples: ModuleType, planted: Path, tmp_path: Path
) -> None:
    result = train(training_examples.tiny_recipe("bert"), [planted], tmp_path / "bert", words=0)
    assert result.record["steps"] == 0
    from safetensors.numpy import load_file

    weights = load_file(result.folder / "model.safetensors")
    assert not weights["bert.embeddings.word_embeddings.weight"][:, -16:].any()


def test_variants_are_trained_under_one_evaluation(
    training_examples: ModuleType, planted: Path, tmp_path: Path
) -> None:
    losses = {}
    for name, masks in {"usual": {}, "copies": {"rate": 1.0, "masked": 0.0, "random": 0.0}}.items():
        recipe = training_examples.tiny_recipe("bilstm-mlm", words=12_000, masks=masks)
        losses[name] = train(recipe, [planted], tmp_path / name).record
    # Without masks the joint model copies its target: its own loss vanishes, and it has learnt to fill no gap.
    assert losses["copies"]["held_out_loss"] < 0.5
    assert losses["copies"]["held_out_masked_loss"] > losses["usual"]["held_out_masked_loss"]


def test_refusals_come_before_any_work(training_examples: ModuleType, planted: Path, tmp_path: Path) -> None:
    recipe = training_examples.tiny_recipe("bert", words=300)
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "thesis.txt").write_text("do not touch")
    with pytest.raises(OutputError, match="not empty"):
        train(recipe, [planted], occupied)
    with pytest.raises(UsageError, match="not available"):
        train(recipe, [planted], tmp_path / "new", device="cuda:77")
    with pytest.raises(DataError):
        train(recipe, [tmp_path / "none.txt"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    train(recipe, [planted], tmp_path / "done")
    with pytest.raises(OutputError, match="not empty"):
        train(recipe, [planted], tmp_path / "done")


def test_an_unfinished_folder_of_another_recipe_or_text_is_refused(
    training_examples: ModuleType, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studies.training import loop

    recipe = training_examples.tiny_recipe("bigpt", words=300)
    monkeypatch.setattr(loop, "_write", lambda *arguments: arguments)
    train(recipe, [planted], tmp_path / "open")
    with pytest.raises(OutputError, match="other settings"):
        train({**recipe, "seed": 5}, [planted], tmp_path / "open")
    changed = tmp_path / "changed.txt"
    changed.write_text(planted.read_text() + "The king sees one dog near it.\n")
    with pytest.raises(OutputError, match="text changed"):
        train(recipe, [changed], tmp_path / "open")


def test_a_training_that_diverges_says_so(training_examples: ModuleType, planted: Path, tmp_path: Path) -> None:
    recipe = training_examples.tiny_recipe("bigpt", optimizer={"learning_rate": 1e30, "warmup": 0.0})
    with pytest.raises(DataError, match=r"diverged at step 1 after 96 words .*learning_rate"):
        train(recipe, [planted], tmp_path / "wild")


def test_the_command_reports_plainly(planted: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "from studies.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, "train", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )

    missing = run("bert-maxi", "--text", str(planted), "--out", str(tmp_path / "x"))
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: there is no recipe bert-maxi")
    textless = run("bert-mini", "--text", str(tmp_path / "none.txt"), "--out", str(tmp_path / "x"))
    assert textless.returncode == 3
    assert textless.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_threads_give_the_same_bits_twice(
    training_examples: ModuleType, planted: Path, tmp_path: Path, kind: str
) -> None:
    """Batches large enough for torch's parallel kernels, whose sums must not depend on the timing of threads."""
    recipe = training_examples.tiny_recipe(kind, words=20_000, batch=128)
    section = "lstm" if kind in ("elmo", "bilstm-mlm") else "transformer"
    recipe[section].update(
        {"projection_dim": 64} if section == "lstm" else {"hidden_size": 64, "intermediate_size": 128}
    )
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    logs = []
    for name in ("one", "two"):
        environment = {**os.environ, "OMP_NUM_THREADS": "2"}
        subprocess.run(command(path, planted, tmp_path / name), cwd=ROOT, env=environment, check=True)
        import pandas as pd

        logs.append(pd.read_parquet(tmp_path / name / "training.parquet")[COMPARED])
    pd.testing.assert_frame_equal(logs[0], logs[1], check_exact=True)


def test_training_leaves_torchs_settings_alone(training_examples: ModuleType, planted: Path, tmp_path: Path) -> None:
    import torch
    from torch.utils import deterministic

    def settings() -> tuple[Any, ...]:
        return (
            torch.are_deterministic_algorithms_enabled(),
            deterministic.fill_uninitialized_memory,
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.random.get_rng_state().sum().item(),
        )

    before = settings()
    train(training_examples.tiny_recipe("bert", words=200), [planted], tmp_path / "bert")
    assert settings() == before
