"""Missing, malformed and mismatched ELMo files: each is refused with the file and the field or array it is about."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from extractors import load_extractor
from extractors.elmo import find_elmo_files, load_elmo, read_options
from extractors.foundation.errors import ModelError


@pytest.fixture
def copy(elmo_reference: Path, tmp_path: Path) -> Path:
    """A folder of one's own with the two files of the reference ELMo."""
    shutil.copy(elmo_reference / "options.json", tmp_path / "options.json")
    shutil.copy(elmo_reference / "lm_weights.hdf5", tmp_path / "weights.hdf5")
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    return tmp_path


def _edit(section: str | None, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda options: (options[section] if section else options).update(fields)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda options: options.pop("char_cnn"), "char_cnn: Field required"),
        (lambda options: options["lstm"].pop("dim"), "lstm.dim: Field required"),
        (lambda options: options["char_cnn"].pop("filters"), "char_cnn.filters"),
        (_edit("lstm", dim=0), "lstm.dim"),
        (_edit("lstm", dim="64"), "lstm.dim"),
        (_edit("lstm", projection_dim=True), "lstm.projection_dim"),
        (_edit("lstm", cell_clip=-3), "lstm.cell_clip"),
        (_edit("lstm", use_skip_connections="yes"), "lstm.use_skip_connections"),
        (_edit("char_cnn", activation="gelu"), "char_cnn.activation: .*'relu' or 'tanh'"),
        (_edit("char_cnn", filters=[]), "char_cnn.filters"),
        (_edit("char_cnn", filters=[[1, 4], [2]]), r"char_cnn.filters.1"),
        (_edit("char_cnn", filters=[[1, 4], [2, 0]]), r"char_cnn.filters.1.1"),
        (_edit("char_cnn", filters=[[60, 4]]), "60 characters wide"),
        (_edit("char_cnn", n_characters=300), "char_cnn.n_characters"),
        (_edit("char_cnn", n_highway=-1), "char_cnn.n_highway"),
    ],
)
def test_impossible_options_name_file_and_field(copy: Path, change: Callable[[Any], None], named: str) -> None:
    options = json.loads((copy / "options.json").read_text())
    change(options)
    (copy / "options.json").write_text(json.dumps(options))
    with pytest.raises(ModelError, match=rf"(?s)options\.json.*{named}"):
        load_extractor(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"<html></html>"])
def test_files_that_are_no_options_are_refused(copy: Path, content: bytes) -> None:
    (copy / "options.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"options\.json is not the options file"):
        load_extractor(copy)


def test_unknown_keys_and_training_options_are_ignored(copy: Path) -> None:
    options = json.loads((copy / "options.json").read_text())
    options.update(dropout=0.1, n_train_tokens=768648884, unroll_steps=20)
    options["char_cnn"]["n_characters"] = 261
    (copy / "options.json").write_text(json.dumps(options))
    assert read_options(copy / "options.json").lstm.dim == 64


@pytest.mark.parametrize(
    ("section", "fields", "array"),
    [
        ("lstm", {"projection_dim": 32}, r"CNN_proj/W_proj has shape \(124, 16\).*\(124, 32\)"),
        ("lstm", {"dim": 32}, r"Cell0/LSTMCell/W_0 has shape \(32, 256\).*\(32, 128\)"),
        ("lstm", {"n_layers": 3}, "no array RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0"),
        ("char_cnn", {"n_highway": 3}, "no array CNN_high_2/W_transform"),
        ("char_cnn", {"embedding": {"dim": 16}}, r"char_embed has shape \(261, 4\).*\(261, 16\)"),
        ("char_cnn", {"filters": [[1, 4], [2, 8], [3, 16], [4, 32], [6, 64]]}, r"W_cnn_4 has shape \(1, 5, 4, 64\)"),
    ],
)
def test_weights_of_another_model_name_the_array(copy: Path, section: str, fields: dict[str, Any], array: str) -> None:
    options = json.loads((copy / "options.json").read_text())
    options[section].update(fields)
    (copy / "options.json").write_text(json.dumps(options))
    with pytest.raises(ModelError, match=rf"weights\.hdf5.*{array}"):
        load_extractor(copy)


def _drop(file: h5py.File) -> None:
    del file["CNN/b_cnn_2"]


def _group(file: h5py.File) -> None:
    del file["char_embed"]
    file.create_group("char_embed")


def _integers(file: h5py.File) -> None:
    del file["CNN_proj/b_proj"]
    file["CNN_proj/b_proj"] = np.zeros(16, dtype=np.int64)


def _not_finite(file: h5py.File) -> None:
    file["CNN_high_1/b_carry"][3] = np.nan


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop, "no array CNN/b_cnn_2"),
        (_group, "no array char_embed"),
        (_integers, "CNN_proj/b_proj .*int64"),
        (_not_finite, "CNN_high_1/b_carry holds values that are not finite"),
    ],
)
def test_damaged_arrays_are_named(copy: Path, damage: Callable[[h5py.File], None], message: str) -> None:
    with h5py.File(copy / "weights.hdf5", "r+") as file:
        damage(file)
    with pytest.raises(ModelError, match=message):
        load_extractor(copy)


@pytest.mark.parametrize("keep", [0, 100, 200_000, 450_000])
def test_files_cut_short_are_refused(copy: Path, keep: int) -> None:
    weights = copy / "weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"weights\.hdf5.*cut short"):
        load_extractor(copy)


def test_a_file_that_is_not_hdf5_is_refused(copy: Path) -> None:
    (copy / "weights.hdf5").write_text("<html>404</html>")
    with pytest.raises(ModelError, match=r"weights\.hdf5.*not HDF5"):
        load_extractor(copy)


def test_finding_the_files(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    options, weights = copy / "options.json", copy / "weights.hdf5"
    assert find_elmo_files(copy) == find_elmo_files(weights) == (options, weights)
    # Vectors beside the weights: the file called so is taken.
    shutil.copy(weights, copy / "vectors.hdf5")
    assert find_elmo_files(copy) == (options, weights)
    # Published names: each weight file finds its own options.
    for name in ("elmo_a_", "elmo_b_"):
        shutil.copy(options, copy / f"{name}options.json")
        shutil.copy(weights, copy / f"{name}weights.hdf5")
    expected = (copy / "elmo_b_options.json", copy / "elmo_b_weights.hdf5")
    assert find_elmo_files(copy / "elmo_b_weights.hdf5") == expected
    assert find_elmo_files(copy / "vectors.hdf5", options) == (options, copy / "vectors.hdf5")
    with pytest.raises(ModelError, match=r"4 candidates .*elmo_a_weights\.hdf5.*vectors\.hdf5, weights\.hdf5"):
        find_elmo_files(copy)
    with pytest.raises(ModelError, match=r"3 candidates .*elmo_a_options\.json"):
        find_elmo_files(copy / "vectors.hdf5")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(ModelError, match="no weight file"):
        find_elmo_files(empty)
    shutil.copy(weights, empty / "weights.hdf5")
    with pytest.raises(ModelError, match="no options file"):
        find_elmo_files(empty)
    for path, given in ((copy / "absent", None), (weights, copy / "absent.json")):
        with pytest.raises(ModelError, match="absent"):
            find_elmo_files(path, given)
    with pytest.raises(ModelError, match="cannot read ELMo's weight file"):
        load_elmo(options, copy / "absent.hdf5", name="x")
