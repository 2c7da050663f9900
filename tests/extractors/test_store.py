"""The store: whole or absent, readable by others, and never taken for another model's, text's or pooling's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy

from extractors.base import Extractor, Prepared, Window, WindowOutput
from extractors.foundation.errors import DataError, ModelError, OutputError, StoreError, UsageError
from extractors.foundation.randomness import generator_for
from extractors.representation import Alignment, ModelInfo
from extractors.store import RepresentationStore, text_checksum, write_store

DIM = 6
TEXT = [["The", "bank", "closed"], ["Rain"], ["The", "river", "bank", "is", "steep"], ["Rain"]]


class FakeExtractor(Extractor):
    """Three layers of vectors that follow from word, layer and position; can fail or die at a given sentence."""

    def __init__(self, *, dim: int = DIM, scale: float = 1.0, at: str = "", action: object = None) -> None:
        self.info = ModelInfo(
            name="fake",
            source="nowhere",
            family="elmo",
            weights="trained",
            layer_names=("tokens", "first", "second"),
            hidden_size=dim,
            directionality="concatenated",
            parts=MappingProxyType(
                {"whole": slice(None), "forward": slice(0, dim // 2), "backward": slice(dim // 2, None)}
            ),
            checksum="c0ffee",
        )
        self.scale, self.at, self.action = scale, at, action
        self.runs = 0

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        n = len(words)
        alignment = Alignment(words, words, tuple((i,) for i in range(n)))
        return Prepared(alignment, (Window(0, n, (0, n), n, words),))

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        outputs = []
        for window in windows:
            self.runs += 1
            if self.at in window.payload:
                self.action()
            outputs.append(WindowOutput(self.vectors(window.payload)[list(layers)]))
        return outputs

    def vectors(self, words: Sequence[str]) -> np.ndarray:
        rows = [generator_for(word, i).standard_normal((3, self.info.hidden_size)) for i, word in enumerate(words)]
        return (self.scale * np.stack(rows, axis=1)).astype(np.float32)


def whole_layer(layer: int) -> np.ndarray:
    extractor = FakeExtractor()
    return np.concatenate([extractor.vectors(words)[layer] for words in TEXT])


def boom() -> None:
    raise RuntimeError("boom")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def store(tmp_path: Path) -> RepresentationStore:
    return write_store(FakeExtractor(), TEXT, tmp_path / "store", batch_size=2)


def test_what_was_extracted_is_what_is_read(store: RepresentationStore) -> None:
    again = RepresentationStore.open(store.folder, verify=True)
    for layer in (0, 1, 2):
        vectors = again.layer(layer)
        np.testing.assert_array_equal(vectors, whole_layer(layer))
        assert vectors.dtype == np.float32
        assert not vectors.flags.writeable
    np.testing.assert_array_equal(again.layer(-1), whole_layer(2))
    assert again.sentences == tuple(map(tuple, TEXT))
    np.testing.assert_array_equal(again.offsets, [0, 3, 4, 9, 10])
    assert (again.layers, again.layer_names) == ((0, 1, 2), ("tokens", "first", "second"))
    assert (again.model, again.family, again.weights) == ("fake", "elmo", "trained")
    assert (again.pooling, again.dtype, again.n_sentences, again.n_words) == ("mean", "float32", 4, 10)
    assert replace(again.info, parts={}) == replace(FakeExtractor().info, parts={})
    assert dict(again.parts) == {"whole": slice(0, 6), "forward": slice(0, 3), "backward": slice(3, 6)}


def test_parts_are_slices_of_the_dimensions(store: RepresentationStore) -> None:
    np.testing.assert_array_equal(store.layer(2, "forward"), whole_layer(2)[:, :3])
    np.testing.assert_array_equal(store.layer(2, "backward"), whole_layer(2)[:, 3:])
    with pytest.raises(UsageError, match="whole, forward, backward"):
        store.layer(2, "left")


def test_others_can_read_it_with_safetensors_and_pandas_alone(store: RepresentationStore) -> None:
    hidden = safetensors.numpy.load_file(store.folder / "layer_01.safetensors")["hidden"]
    np.testing.assert_array_equal(hidden, whole_layer(1))
    words = pd.read_parquet(store.folder / "words.parquet")
    assert list(words.columns) == ["sentence", "position", "word"]
    assert words["word"].tolist() == [word for sentence in TEXT for word in sentence]
    assert words["sentence"].tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2, 3]
    assert words["position"].tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4, 0]
    with safetensors.safe_open(store.folder / "layer_01.safetensors", "numpy") as file:
        assert file.metadata()["layer_name"] == "first"
        assert file.metadata()["model"] == "fake"
        assert file.metadata()["pooling"] == "mean"


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documentation = Path(__file__).resolve().parents[2] / "docs" / "representation-files.md"
    example = documentation.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert "janus" not in example
    assert "extractors" not in example
    write_store(FakeExtractor(), TEXT, tmp_path / "my-store")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"print": lambda *values: None}
    exec(example.replace("layer_06", "layer_01"), names)
    np.testing.assert_array_equal(names["third"], whole_layer(1)[4:9])
    np.testing.assert_array_equal(names["banks"], whole_layer(1)[[1, 6]])


def test_one_layer_is_readable_without_the_others(store: RepresentationStore) -> None:
    (store.folder / "layer_00.safetensors").unlink()
    (store.folder / "layer_02.safetensors").write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"layer_00\.safetensors"):
        RepresentationStore.open(store.folder)
    one = RepresentationStore.open(store.folder, layers=1, verify=True)
    np.testing.assert_array_equal(one.layer(1), whole_layer(1))
    assert one.layers == (1,)
    with pytest.raises(StoreError, match="holds layers 1 of fake, not 2"):
        one.layer(2)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2**-11), ("float32", 0), ("float64", 0)])
def test_precision_on_disk(tmp_path: Path, dtype: str, tolerance: float) -> None:
    store = write_store(FakeExtractor(), TEXT, tmp_path / "store", dtype=dtype)
    assert store.layer(2).dtype == dtype
    np.testing.assert_allclose(store.layer(2), whole_layer(2), rtol=tolerance, atol=1e-7 if tolerance else 0)
    loaded = safetensors.numpy.load_file(store.folder / "layer_02.safetensors")["hidden"]
    np.testing.assert_array_equal(loaded, store.layer(2))


def test_a_value_too_large_for_float16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"float16 cannot hold the vectors of sentence 1.*float32"):
        write_store(FakeExtractor(scale=1e6), TEXT, tmp_path / "store", dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_gives_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not finite for sentence 1"):
        write_store(FakeExtractor(scale=np.nan), TEXT, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_selected_layers_keep_their_numbers(tmp_path: Path) -> None:
    store = write_store(FakeExtractor(), TEXT, tmp_path / "store", layers="last")
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "layer_02.safetensors",
        "manifest.json",
        "words.parquet",
    ]
    assert (store.layers, store.layer_names) == ((2,), ("second",))
    np.testing.assert_array_equal(store.layer(2), whole_layer(2))
    with pytest.raises(StoreError, match="holds layers 2 of fake, not 0"):
        store.layer(0)
    with pytest.raises(UsageError, match="layer 3 does not exist"):
        store.layer(3)


@pytest.mark.parametrize(("action", "error"), [(boom, RuntimeError), (interrupt, KeyboardInterrupt)])
def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, action: object, error: type[BaseException]) -> None:
    with pytest.raises(error):
        write_store(FakeExtractor(at="steep", action=action), TEXT, tmp_path / "store", batch_size=1)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_store(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    script = (
        "import os, runpy, signal, sys\n"
        "here = runpy.run_path(sys.argv[1])\n"
        "die = lambda: os.kill(os.getpid(), signal.SIGKILL)\n"
        "text = [['a', 'b']] * 100 + [['steep']]\n"
        "fake = here['FakeExtractor'](at='steep', action=die)\n"
        "here['write_store'](fake, text, sys.argv[2], batch_size=1)\n"
    )
    target = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", script, __file__, str(target)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = tmp_path.iterdir()
    assert any(path.stat().st_size for path in left.glob("layer_*")), "the process died before it wrote vectors"
    for folder in (target, left):
        with pytest.raises(StoreError, match="no stored representations"):
            RepresentationStore.open(folder)
    store = write_store(FakeExtractor(), TEXT, target)
    np.testing.assert_array_equal(store.layer(1), whole_layer(1))


def test_a_full_disk_is_a_plain_error_and_leaves_nothing(
    tmp_path: Path, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    with file_size_limit(20_000), pytest.raises(OutputError, match=r"cannot write .*store: "):
        write_store(FakeExtractor(), TEXT * 200, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_too_little_space_is_noticed_before_the_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 50, 50))
    extractor = FakeExtractor()
    with pytest.raises(OutputError, match="free some space"):
        write_store(extractor, TEXT, tmp_path / "store")
    assert extractor.runs == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_permission_is_a_plain_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="permission"):
        write_store(FakeExtractor(), TEXT, tmp_path / "store")


def test_a_file_in_the_way_is_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("keep")
    with pytest.raises(OutputError, match="file"):
        write_store(FakeExtractor(), TEXT, tmp_path / "file" / "store")
    assert (tmp_path / "file").read_text() == "keep"


def test_a_folder_in_use_is_left_alone(store: RepresentationStore, tmp_path: Path) -> None:
    extractor = FakeExtractor(scale=2.0)
    with pytest.raises(OutputError, match="holds stored representations already"):
        write_store(extractor, TEXT, store.folder)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(OutputError, match="not empty"):
        write_store(extractor, TEXT, tmp_path / "notes", overwrite=True)
    with pytest.raises(OutputError, match="is a file"):
        write_store(extractor, TEXT, tmp_path / "notes" / "mine.txt", overwrite=True)
    assert extractor.runs == 0
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep"
    np.testing.assert_array_equal(RepresentationStore.open(store.folder, verify=True).layer(1), whole_layer(1))
    (tmp_path / "empty").mkdir()
    assert write_store(extractor, TEXT, tmp_path / "empty").n_words == 10


def test_overwriting_swaps_whole_stores(store: RepresentationStore, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_store(FakeExtractor(at="steep", action=boom), TEXT, store.folder, overwrite=True)
    np.testing.assert_array_equal(RepresentationStore.open(store.folder, verify=True).layer(1), whole_layer(1))
    new = write_store(FakeExtractor(scale=2.0), TEXT, store.folder, layers=[1], overwrite=True)
    np.testing.assert_array_equal(new.layer(1), 2 * whole_layer(1))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    (store.folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        write_store(FakeExtractor(), TEXT, store.folder, overwrite=True)


def test_check_refuses_another_model_text_pooling_or_layer(store: RepresentationStore) -> None:
    same = FakeExtractor()
    store.check(extractor=same, sentences=TEXT, pooling="mean", layers="0,last")
    other = FakeExtractor()
    other.info = replace(other.info, name="other", checksum="decaf")
    with pytest.raises(StoreError, match=r"checksum 'c0ffee', asked for other .* checksum 'decaf'"):
        store.check(extractor=other)
    with pytest.raises(StoreError, match=r"another text: 4 sentences, 10 words.*asked for 3 sentences, 9 words"):
        store.check(sentences=TEXT[:3])
    with pytest.raises(StoreError, match="another text"):
        store.check(sentences=[TEXT[1], TEXT[0], *TEXT[2:]])
    with pytest.raises(StoreError, match="pooled by 'mean', asked for 'first'"):
        store.check(pooling="first")


def test_untrained_weights_are_told_apart_by_their_seed(tmp_path: Path) -> None:
    drawn = FakeExtractor()
    drawn.info = replace(drawn.info, weights="untrained", checksum="", seed=1)
    store = write_store(drawn, TEXT, tmp_path / "store")
    assert RepresentationStore.open(store.folder).info.seed == 1
    store.check(extractor=drawn)
    again = FakeExtractor()
    again.info = replace(drawn.info, seed=2)
    with pytest.raises(StoreError, match=r"seed 1, asked for fake .* seed 2"):
        store.check(extractor=again)


def test_the_checksum_of_a_text_depends_on_its_division() -> None:
    texts = [[["a", "b"]], [["a"], ["b"]], [["a b"]], [["b", "a"]], [["ab"]], [["é"]], [["e\u0301"]]]
    assert len({text_checksum(text) for text in texts}) == len(texts)
    assert text_checksum(iter(TEXT)) == text_checksum(map(tuple, TEXT))


def test_damage_is_named(store: RepresentationStore) -> None:
    layer = store.folder / "layer_01.safetensors"
    content = bytearray(layer.read_bytes())
    layer.write_bytes(content[:-4])
    with pytest.raises(StoreError, match=rf"layer_01\.safetensors has {len(content) - 4} bytes"):
        RepresentationStore.open(store.folder)
    content[-1] ^= 1
    layer.write_bytes(content)
    RepresentationStore.open(store.folder)
    with pytest.raises(StoreError, match=r"layer_01\.safetensors has changed"):
        RepresentationStore.open(store.folder, verify=True)
    content[40:60] = b"#" * 20
    layer.write_bytes(content)
    with pytest.raises(StoreError, match=r"layer_01\.safetensors is missing or damaged"):
        RepresentationStore.open(store.folder).layer(1)


def test_words_of_another_text_are_refused(store: RepresentationStore) -> None:
    path = store.folder / "words.parquet"
    words = pd.read_parquet(path)
    words.loc[0, "word"] = "A"
    words.to_parquet(path)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    manifest["files"]["words.parquet"]["bytes"] = path.stat().st_size
    (store.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="does not hold the text"):
        _ = RepresentationStore.open(store.folder).sentences


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest.pop("text_sha256"), "damaged"),
        (lambda manifest: manifest.update(version=99), "version 99"),
        (lambda manifest: manifest.update(format="other"), "format 'other'"),
        (lambda manifest: manifest.update(files=[]), "damaged"),
        (lambda manifest: manifest["files"].pop("layer_00.safetensors"), "contradicts"),
        (lambda manifest: manifest["layers"][0].update(file="../../secret"), "contradicts"),
        (lambda manifest: manifest.update(dtype="object"), "contradicts"),
        (lambda manifest: manifest["model"].pop("layer_names"), "damaged"),
    ],
)
def test_a_damaged_manifest_is_refused(store: RepresentationStore, change: object, message: str) -> None:
    path = store.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=message):
        RepresentationStore.open(store.folder)
    path.write_text(path.read_text()[:50])
    with pytest.raises(StoreError, match="damaged"):
        RepresentationStore.open(store.folder)
    path.unlink()
    with pytest.raises(StoreError, match="no stored representations"):
        RepresentationStore.open(store.folder)


def test_bad_requests_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    extractor = FakeExtractor()
    for error, arguments in (
        (UsageError, {"dtype": "int8"}),
        (UsageError, {"layers": 7}),
        (UsageError, {"pooling": "middle"}),
        (UsageError, {"batch_size": 0}),
        (DataError, {"sentences": []}),
        (DataError, {"sentences": [["a"], []]}),
        (DataError, {"sentences": [["a", " "]]}),
        (DataError, {"sentences": [["\ud800"]]}),
    ):
        with pytest.raises(error):
            write_store(extractor, folder=tmp_path / "store", **{"sentences": TEXT, **arguments})
    assert extractor.runs == 0
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    class Constant(FakeExtractor):
        def vectors(self, words: Sequence[str]) -> np.ndarray:
            return np.ones((3, len(words), self.info.hidden_size), np.float32)

    def peak(n: int) -> int:
        text = [["word"] * 10] * n
        tracemalloc.start()
        write_store(Constant(dim=256), text, tmp_path / str(n), batch_size=2)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(40)
    small, large = peak(200), peak(1000)
    on_disk = 3 * 800 * 10 * 256 * 4
    assert large - small < on_disk / 20
