"""Checkpoints that are missing, incomplete, damaged or foreign, each refused in plain words; no contact with a hub."""

from __future__ import annotations

import json
import logging
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from extractors import load_extractor
from extractors.foundation.errors import ModelError, UsageError


@pytest.fixture
def copied(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A BERT folder that a test may spoil."""
    return shutil.copytree(tiny_folder("bert"), tmp_path / "model")


@pytest.fixture
def unplugged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to connect fails and is written down."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    attempts: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        attempts.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: refuse(None, a))  # type: ignore[arg-type]
    return attempts


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "xlnet", "t5", "llama"])
def test_a_folder_is_never_looked_up_on_the_hub(
    family: str, tiny_folder: Callable[[str], Path], unplugged: list[Any]
) -> None:
    extractor = load_extractor(tiny_folder(family))
    assert next(extractor.extract([["the", "fox"]])).hidden.shape == (4, 2, 16)
    assert unplugged == []


def test_loading_prints_nothing_and_restores_settings(
    tiny_folder: Callable[[str], Path], copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging as hf_logging

    hf_logging.set_verbosity(logging.INFO)
    hf_logging.enable_progress_bar()
    try:
        capfd.readouterr()
        extractor = load_extractor(copied)
        list(extractor.extract([["the", "fox"]], attention=True))
        captured = capfd.readouterr()
        assert (captured.out, captured.err) == ("", "")
        assert hf_logging.get_verbosity() == logging.INFO
        assert hf_logging.is_progress_bar_enabled()
    finally:
        hf_logging.set_verbosity(logging.WARNING)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        load_extractor(tmp_path / "nowhere")


def test_a_file_is_not_a_model(copied: Path) -> None:
    with pytest.raises(ModelError, match="is a file"):
        load_extractor(copied / "model.safetensors")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no config.json"),
        ("{", "cannot be read as JSON"),
        ("", "cannot be read as JSON"),
        ("[]", "no model_type"),
        ("{}", "no model_type"),
        ('{"model_type": "no-such-family"}', "another version of transformers"),
        ('{"model_type": "bert", "hidden_size": "wide"}', "cannot load"),
        ('{"model_type": "bert", "hidden_size": 15, "num_attention_heads": 2}', "cannot load"),
    ],
)
def test_damaged_configurations(content: str | None, message: str, copied: Path) -> None:
    (copied / "config.json").unlink()
    if content is not None:
        (copied / "config.json").write_text(content)
    with pytest.raises(ModelError, match=message):
        load_extractor(copied)


@pytest.mark.parametrize("size", [0, 4, 100, -50])
def test_truncated_weights(size: int, copied: Path) -> None:
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged or cut short"):
        load_extractor(copied)


def test_weights_as_a_pickle_are_refused(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"(?s)pytorch_model\.bin, a pickle.*use_safetensors=False.*save_pretrained"):
        load_extractor(copied)


def test_no_weights(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        load_extractor(copied)


def test_weights_in_shards(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    whole = load_extractor(copied)
    weights = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    index: dict[str, str] = {}
    for number, names in enumerate((sorted(weights)[:20], sorted(weights)[20:]), start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in names}, copied / file, metadata={"format": "pt"})
        index |= dict.fromkeys(names, file)
    (copied / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    sharded = load_extractor(copied)
    first, second = (next(extractor.extract([["the", "fox"]])).hidden for extractor in (whole, sharded))
    assert (first == second).all()
    assert len(sharded.info.checksum) == 64
    (copied / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match="is missing, though the index names it"):
        load_extractor(copied)
    (copied / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ModelError, match=r"index\.json cannot be read"):
        load_extractor(copied)


def test_weights_of_another_model(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    gone = "encoder.layer.1.attention.self.query.weight"
    save_file({k: v for k, v in weights.items() if k != gone}, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"lacks 1 weights .*{gone}"):
        load_extractor(copied)
    save_file(
        {k: v for k, v in weights.items() if not k.startswith("pooler")},
        copied / "model.safetensors",
        metadata={"format": "pt"},
    )
    assert load_extractor(copied).info.weights == "trained"


def test_no_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"has no tokenizer.*tokenizer\.json"):
        load_extractor(copied)


def test_damaged_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match="cannot load the tokenizer"):
        load_extractor(copied)


def test_slow_tokenizers_are_refused(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    (copied / "vocab.txt").write_text("a\nb\n")
    (copied / "tokenizer_config.json").write_text('{"tokenizer_class": "CanineTokenizer"}')
    with pytest.raises(ModelError, match=r"slow tokenizer \(CanineTokenizer\)"):
        load_extractor(copied)


def test_a_tokenizer_of_another_model_is_noticed(copied: Path) -> None:
    tokenizer = json.loads((copied / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["zebra"] = 4000
    (copied / "tokenizer.json").write_text(json.dumps(tokenizer))
    extractor = load_extractor(copied)
    with pytest.raises(ModelError, match=r"sentence 2: .*piece 4000.*not of one model"):
        list(extractor.extract([["the"], ["zebra"]]))


def test_code_of_a_checkpoint_is_not_run(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "own.py").write_text(f"open({str(copied / 'ran')!r}, 'w')\nclass Config: pass\n")
    with pytest.raises(ModelError, match="read that code, then allow it with trust_remote_code"):
        load_extractor(copied)
    assert not (copied / "ran").exists()


def test_unknown_id_without_a_network(tmp_path: Path, unplugged: list[Any]) -> None:
    with pytest.raises(ModelError, match=r"not in the local cache and Janus is offline.*hf download some/model"):
        load_extractor("some/model", cache_dir=tmp_path, offline=True)
    assert unplugged == []
    with pytest.raises(ModelError, match=r"some/model.*(cannot be reached|cannot be fetched)"):
        load_extractor("some/model", cache_dir=tmp_path)
    assert unplugged != []
    with pytest.raises(ModelError, match="neither an existing folder nor a Hugging Face id"):
        load_extractor("no such model!", cache_dir=tmp_path, offline=True)


def test_offline_follows_the_environment(tmp_path: Path, unplugged: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="Janus is offline"):
        load_extractor("some/model", cache_dir=tmp_path)
    assert unplugged == []


def test_a_cached_id_is_read_offline(tiny_folder: Callable[[str], Path], tmp_path: Path, unplugged: list[Any]) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some--model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(tiny_folder("bert"), repository / "snapshots" / commit)
    extractor = load_extractor("some/model", cache_dir=tmp_path, offline=True)
    assert (extractor.info.name, extractor.info.source, extractor.info.revision) == ("some/model", "some/model", commit)
    assert next(extractor.extract([["the", "fox"]])).hidden.shape == (4, 2, 16)
    assert unplugged == []
    with pytest.raises(ModelError, match="at revision v2 is not in the local cache"):
        load_extractor("some/model", cache_dir=tmp_path, offline=True, revision="v2")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("RepositoryNotFoundError", "there is no model 'some/model'"),
        ("GatedRepoError", "is gated"),
        ("RevisionNotFoundError", "has no revision 'main'"),
        ("LocalEntryNotFoundError", "huggingface.co cannot be reached"),
    ],
)
def test_answers_of_the_hub_in_plain_words(error: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    kind = getattr(huggingface_hub.errors, error)

    def answer(*given: Any, **options: Any) -> None:
        raise kind.__new__(kind)

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    with pytest.raises(ModelError, match=message):
        load_extractor("some/model", revision="main")


def test_impossible_options(copied: Path) -> None:
    with pytest.raises(UsageError, match="is for Hugging Face ids"):
        load_extractor(copied, revision="main")
    for device in ("cuda:7", "abacus"):
        with pytest.raises(UsageError, match=f"device '{device}' is not available"):
            load_extractor(copied, device=device)
