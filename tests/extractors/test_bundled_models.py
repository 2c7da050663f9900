"""The four models that come with the project: matched, trained enough, disclosed, and read alike by others' code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from extractors import load_extractor
from extractors.base import Extractor
from extractors.registry import BUNDLED_MODELS, KNOWN_MODELS, bundled_word_counts

NAMES = [name for name, model in KNOWN_MODELS.items() if model.kind == "bundled"]
SENTENCES = [
    ["The", "old", "captain", "sold", "his", "ship", "to", "a", "Dutchman", "."],
    ["Prices", "rose", "."],
    ["Nobody", "in", "the", "unhurried", "crowd", "knew", "whether", "it", "had", "been", "raining", "."],
]


@pytest.fixture(scope="module")
def bundled() -> Callable[..., Extractor]:
    loaded: dict[Any, Extractor] = {}

    def load(name: str, **options: Any) -> Extractor:
        key = (name, *sorted(options.items()))
        if key not in loaded:
            loaded[key] = load_extractor(name, **options)
        return loaded[key]

    return load


def record(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((BUNDLED_MODELS / name / "training.json").read_text(encoding="utf-8"))
    return content


def test_there_are_four() -> None:
    assert NAMES == ["elmo-mini", "bilstm-mlm-mini", "bigpt-mini", "bert-mini"]
    assert {path.name for path in BUNDLED_MODELS.iterdir() if path.is_dir()} - {"evidence"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_fits_its_place_and_says_what_it_is(name: str) -> None:
    folder, about = BUNDLED_MODELS / name, record(name)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8_000_000
    assert about["words"] >= 7_000_000
    assert about["recipe"]["words"] == 7_000_000
    for file, size in about["files"].items():
        assert (folder / file).stat().st_size == size
    card = (folder / "README.md").read_text(encoding="utf-8")
    for said in (f"{about['words']:,}", "public domain", "CC BY 4.0", about["command"], "not part of this folder"):
        assert said in card
    for one in about["text"]["files"]:
        assert one["sha256"] in card
        assert "masc" not in one["name"]


@pytest.mark.parametrize("name", NAMES)
def test_each_has_learnt_and_its_curve_still_falls_or_is_flat(name: str) -> None:
    about = record(name)
    assert about["held_out_loss"] < about["unigram_loss"] - 1.5
    log = pd.read_parquet(BUNDLED_MODELS / name / "training.parquet")
    curve = log["held_out_loss"].dropna().to_numpy()
    assert curve[-1] <= curve[-4:].min() + 0.02
    assert curve[-1] < curve[len(curve) // 2]


def test_all_read_the_same_text_and_are_of_one_size() -> None:
    records = [record(name) for name in NAMES]
    for about in records[1:]:
        assert about["text"]["files"] == records[0]["text"]["files"]
        assert about["text"]["training_words"] == records[0]["text"]["training_words"]
        assert about["recipe"]["seed"] == records[0]["recipe"]["seed"]
    # The last batch may overshoot the budget by its own size.
    assert max(about["words"] for about in records) - min(about["words"] for about in records) < 2000
    sizes = [about["parameters_without_embeddings"] for about in records]
    assert max(sizes) / min(sizes) < 1.1
    for name, about in zip(NAMES, records, strict=True):
        assert load_extractor(name).info.parameters is not None
        assert about["recipe"]["name"] == name


def test_word_counts_are_those_of_a_large_text() -> None:
    counts = bundled_word_counts()
    assert counts["the"] > 300_000
    assert counts["the"] > counts["of"] > counts["professor"] > 0
    assert counts["<S>"] == 0
    assert sum(counts.values()) == record("elmo-mini")["text"]["training_words"]


@pytest.mark.parametrize("name", ["elmo-mini", "bigpt-mini"])
def test_in_the_shallow_models_no_side_reaches_the_other_half(bundled: Callable[..., Extractor], name: str) -> None:
    extractor = bundled(name, dtype="float64")
    sentence = SENTENCES[0]
    (base,) = extractor.extract([sentence])
    (other,) = extractor.extract([[*sentence[:5], "wept", *sentence[6:]]])
    forward, backward = extractor.info.parts["forward"], extractor.info.parts["backward"]
    for layer in extractor.info.layers[1:]:
        # Another word may have another number of pieces, and matrices of another shape add in another order.
        np.testing.assert_allclose(base.hidden[layer][4, forward], other.hidden[layer][4, forward], atol=1e-12)
        assert not np.allclose(base.hidden[layer][4, backward], other.hidden[layer][4, backward])
        assert not np.allclose(base.hidden[layer][6, forward], other.hidden[layer][6, forward])


def test_bert_mini_through_transformers_alone_gives_the_same_vectors(bundled: Callable[..., Extractor]) -> None:
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = BUNDLED_MODELS / "bert-mini"
    model = AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for sentence, item in zip(SENTENCES, bundled("bert-mini").extract(SENTENCES), strict=True):
        encoded = tokenizer([sentence], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            states = torch.stack(model(**encoded, output_hidden_states=True).hidden_states)[:, 0].numpy()
        words = encoded.word_ids()
        for place in range(len(sentence)):
            pieces = [i for i, word in enumerate(words) if word == place]
            np.testing.assert_allclose(item.hidden[:, place], states[:, pieces].mean(1), atol=1e-5)


def test_bert_mini_fills_a_plain_gap() -> None:
    from transformers import pipeline

    fill = pipeline("fill-mask", model=str(BUNDLED_MODELS / "bert-mini"))
    found = [one["token_str"] for one in fill("He went out of the house and closed the [MASK] .", top_k=20)]
    assert "door" in found


def test_elmo_mini_through_plain_cells_gives_the_same_vectors(
    bundled: Callable[..., Extractor], plain_elmo: Callable[[Path, list[str]], np.ndarray[Any, np.dtype[np.float32]]]
) -> None:
    for sentence, item in zip(SENTENCES, bundled("elmo-mini").extract(SENTENCES), strict=True):
        np.testing.assert_allclose(plain_elmo(BUNDLED_MODELS / "elmo-mini", sentence), item.hidden[-1], atol=1e-5)
