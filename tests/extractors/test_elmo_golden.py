"""ELMo against the outputs of the TensorFlow biLM, and against a slow independent implementation in NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from extractors.elmo import ElmoExtractor, find_elmo_files, load_elmo

Array = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def elmo(elmo_reference: Path) -> ElmoExtractor:
    return load_elmo(*find_elmo_files(elmo_reference), name="reference")


@pytest.fixture(scope="module")
def elmo64(elmo_reference: Path) -> ElmoExtractor:
    return load_elmo(*find_elmo_files(elmo_reference), name="reference", dtype="float64")


@pytest.fixture(scope="module")
def batches(elmo_reference: Path) -> list[list[list[str]]]:
    """Ten batches of three sentences, as the golden files were made."""
    lists = json.loads((elmo_reference / "sentences.json").read_text())
    return [[sentences[i].split() for sentences in lists] for i in range(len(lists[0]))]


@pytest.fixture(scope="module")
def golden(elmo_reference: Path, batches: list[list[list[str]]]) -> list[list[npt.NDArray[np.float32]]]:
    """For each batch and sentence the top layer (words, 2 * 16)."""
    files = [h5py.File(elmo_reference / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    return [[np.concatenate(file[str(i)][...], axis=-1) for file in files] for i in range(len(batches))]


def test_character_layer_equals_the_golden_vectors(elmo: ElmoExtractor, elmo_reference: Path) -> None:
    words = (elmo_reference / "vocab_test.txt").read_text().split("\n")
    with h5py.File(elmo_reference / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    np.testing.assert_allclose(elmo.token_vectors(words), expected, rtol=0, atol=2e-6)


def test_stateful_top_layer_equals_the_golden_vectors(elmo, batches, golden) -> None:
    results = list(elmo.extract_stateful(batches, layers="last"))
    assert len(results) == len(batches) == 10
    for batch, expected in zip(results, golden, strict=True):
        for sentence, vectors in zip(batch, expected, strict=True):
            assert sentence.layers == (2,)
            np.testing.assert_allclose(sentence.hidden[0], vectors, rtol=0, atol=2e-6)


def test_stateless_vectors_equal_the_first_golden_batch_and_leave_later_ones(elmo, batches, golden) -> None:
    results = [list(elmo.extract(batch, layers="last")) for batch in batches]
    for sentence, vectors in zip(results[0], golden[0], strict=True):
        np.testing.assert_allclose(sentence.hidden[0], vectors, rtol=0, atol=2e-6)
    # Later golden batches carry the state of earlier ones: there, independence must show.
    assert max(np.abs(s.hidden[0] - g).max() for s, g in zip(results[5], golden[5], strict=True)) > 0.1


def test_the_same_sentence_twice_gives_the_same_vectors(elmo, batches) -> None:
    sentence = batches[0][0]
    first, second = (next(elmo.extract([sentence])).hidden for _ in range(2))
    np.testing.assert_array_equal(first, second)
    inside = [result.hidden for result in elmo.extract([sentence, batches[1][0], sentence], batch_size=1)]
    np.testing.assert_array_equal(inside[0], inside[2])


def test_stateful_rows_follow_the_order_given_and_smaller_batches_keep_the_rest(elmo64, batches) -> None:
    a, b, c = (sentence[:5] for sentence in (batches[0][0], batches[0][1], batches[0][2]))
    longer, shorter = [*a, *a], [*b[:2]]
    # Row 0 reads a short then a long sentence, row 1 the reverse: sorting inside must not mix them up.
    both = list(elmo64.extract_stateful([[shorter, longer], [longer, shorter], [c], [c, c]]))
    alone0 = list(elmo64.extract_stateful([[shorter], [longer], [c], [c]]))
    alone1 = list(elmo64.extract_stateful([[longer], [shorter], [c]]))
    for i in range(4):
        np.testing.assert_allclose(both[i][0].hidden, alone0[i][0].hidden, rtol=0, atol=1e-12)
    np.testing.assert_allclose(both[0][1].hidden, alone1[0][0].hidden, rtol=0, atol=1e-12)
    np.testing.assert_allclose(both[1][1].hidden, alone1[1][0].hidden, rtol=0, atol=1e-12)
    # Row 1 was absent from the third batch and goes on in the fourth from where the second left it.
    np.testing.assert_allclose(both[3][1].hidden, alone1[2][0].hidden, rtol=0, atol=1e-12)


class SlowElmo:
    """The published equations, one word and one step at a time, in TensorFlow's own conventions."""

    def __init__(self, options: Path, weights: Path) -> None:
        self.options = json.loads(options.read_text())
        self.weights: dict[str, Array] = {}
        with h5py.File(weights) as file:
            file.visititems(
                lambda name, item: (
                    self.weights.update({name: item[...].astype(np.float64)})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
        self.clipped = 0

    def token(self, characters: list[int]) -> Array:
        w, cnn = self.weights, self.options["char_cnn"]
        embedded = w["char_embed"][characters + [260] * (cnn["max_characters_per_token"] - len(characters))]
        act = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[cnn["activation"]]
        features = []
        for i, (width, _) in enumerate(cnn["filters"]):
            kernel = w[f"CNN/W_cnn_{i}"][0]
            windows = [
                np.einsum("wi,wio->o", embedded[p : p + width], kernel) for p in range(len(embedded) - width + 1)
            ]
            features.append(act(np.max(windows, axis=0) + w[f"CNN/b_cnn_{i}"]))
        x = np.concatenate(features)
        for i in range(cnn["n_highway"]):
            group = f"CNN_high_{i}"
            carry = _sigmoid(x @ w[f"{group}/W_carry"] + w[f"{group}/b_carry"])
            x = carry * np.maximum(x @ w[f"{group}/W_transform"] + w[f"{group}/b_transform"], 0) + (1 - carry) * x
        vector: Array = x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]
        return vector

    def lstm(self, inputs: list[Array], direction: int, layer: int) -> list[Array]:
        options = self.options["lstm"]
        prefix = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        kernel, bias, project = (self.weights[f"{prefix}/{name}"] for name in ("W_0", "B", "W_P_0"))
        memory, hidden, outputs = np.zeros(options["dim"]), np.zeros(options["projection_dim"]), []
        for x in inputs:
            i, j, f, o = np.split(np.concatenate([x, hidden]) @ kernel + bias, 4)
            memory = _sigmoid(f + 1) * memory + _sigmoid(i) * np.tanh(j)
            memory = self.clip(memory, options.get("cell_clip"))
            hidden = self.clip((_sigmoid(o) * np.tanh(memory)) @ project, options.get("proj_clip"))
            outputs.append(hidden + x if layer and options.get("use_skip_connections") else hidden)
        return outputs

    def clip(self, values: Array, bound: float | None) -> Array:
        if bound is None:
            return values
        self.clipped += int((np.abs(values) > bound).sum())
        return np.clip(values, -bound, bound)

    def __call__(self, words: list[str]) -> Array:
        """(layers, words, dim)."""
        limit = self.options["char_cnn"]["max_characters_per_token"] - 2
        spelt = [[258, 256, 259], *([258, *word.encode()[:limit], 259] for word in words), [258, 257, 259]]
        tokens = [self.token(characters) for characters in spelt]
        layers, forward, backward = [np.concatenate([tokens, tokens], axis=1)], tokens, tokens[::-1]
        for layer in range(self.options["lstm"]["n_layers"]):
            forward, backward = self.lstm(forward, 0, layer), self.lstm(backward, 1, layer)
            layers.append(np.concatenate([forward, backward[::-1]], axis=1))
        return np.stack(layers)[:, 1:-1]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_all_layers_equal_an_independent_implementation(elmo64, batches, elmo_reference: Path) -> None:
    slow = SlowElmo(*find_elmo_files(elmo_reference))
    sentences = [*batches[0], *batches[1], ["x" * 60, "\U0001f600", "a\x00\u200b\x07", "été" * 20]]
    for result, words in zip(elmo64.extract(sentences), sentences, strict=True):
        expected = slow(words)
        assert result.hidden.dtype == np.float64
        assert result.hidden.shape == expected.shape == (3, len(words), 32)
        for layer in range(3):
            np.testing.assert_allclose(result.hidden[layer], expected[layer], rtol=0, atol=1e-10)
    assert slow.clipped > 0, "the clips never triggered: this test would not notice their absence"


@pytest.mark.parametrize(
    ("highway", "activation", "lstm"),
    [
        pytest.param(
            1, "relu", {"cell_clip": 3, "proj_clip": 3, "use_skip_connections": True}, id="as small and medium"
        ),
        pytest.param(2, "relu", {"cell_clip": 0.1, "proj_clip": 0.05, "use_skip_connections": True}, id="tight clips"),
        pytest.param(0, "tanh", {"cell_clip": None}, id="no clip, no skip, tanh"),
        pytest.param(1, "relu", {"n_layers": 3, "proj_clip": 3, "use_skip_connections": True}, id="three layers"),
    ],
)
def test_other_configurations_equal_the_independent_implementation(
    tmp_path: Path, highway: int, activation: str, lstm: dict[str, object]
) -> None:
    options, weights = write_random_elmo(tmp_path, highway=highway, activation=activation, lstm=lstm)
    slow = SlowElmo(options, weights)
    extractor = load_elmo(options, weights, name="random", dtype="float64")
    words = ["An", "apple", ",", "please", ",", "internationalisation"]
    expected = slow(words)
    np.testing.assert_allclose(next(extractor.extract([words])).hidden, expected, rtol=0, atol=1e-10)
    if lstm.get("cell_clip") == 0.1:
        assert slow.clipped > 0
    with h5py.File(weights) as file:
        sizes: list[int] = []
        file.visititems(lambda _, item: sizes.append(item.size) if isinstance(item, h5py.Dataset) else None)
    assert extractor.info.parameters == sum(sizes)


def write_random_elmo(folder: Path, *, highway: int, activation: str, lstm: dict[str, object]) -> tuple[Path, Path]:
    """A tiny ELMo of any configuration, in the official format, with random weights."""
    filters, cells, projection = [[1, 4], [2, 4], [3, 6]], 7, 5
    total = sum(number for _, number in filters)
    merged = {"dim": cells, "projection_dim": projection, "n_layers": 2, **lstm}
    options = {
        "bidirectional": True,
        "lstm": merged,
        "char_cnn": {
            "embedding": {"dim": 3},
            "filters": filters,
            "n_highway": highway,
            "activation": activation,
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, 3), "CNN_proj/W_proj": (total, projection)}
    shapes["CNN_proj/b_proj"] = (projection,)
    for i, (width, number) in enumerate(filters):
        shapes[f"CNN/W_cnn_{i}"], shapes[f"CNN/b_cnn_{i}"] = (1, width, 3, number), (number,)
    for i in range(highway):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{i}/W_{part}"], shapes[f"CNN_high_{i}/b_{part}"] = (total, total), (total,)
    for direction in range(2):
        for layer in range(int(str(merged["n_layers"]))):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{cell}/W_0"], shapes[f"{cell}/B"] = (2 * projection, 4 * cells), (4 * cells,)
            shapes[f"{cell}/W_P_0"] = (cells, projection)
    generator = np.random.default_rng(0)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file.create_dataset(name, data=generator.normal(0, 0.6, shape).astype(np.float32))
    return folder / "options.json", folder / "weights.hdf5"
