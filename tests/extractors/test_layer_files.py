"""HDF5 files of other tools: written exactly as they write, read only where they belong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from extractors.foundation.errors import DataError, ModelError, OutputError, StoreError, UsageError
from extractors.layer_files import LayerFileExtractor, is_layer_file, read_layer_file, write_layer_file
from extractors.representation import Alignment, ModelInfo, SentenceRepresentation
from extractors.store import write_store

DIM = 6
TEXT = [("The", "bank", "closed"), ("Rain",), ("The", "river", "bank"), ("Rain",)]
INFO = ModelInfo(
    name="fake",
    source="nowhere",
    family="bert",
    weights="untrained",
    layer_names=("embeddings", "block 1", "block 2"),
    hidden_size=DIM,
    directionality="bidirectional",
    seed=3,
)


def stored_vectors(place: int) -> np.ndarray:
    """Other vectors at each place, so that equal sentences can be told apart."""
    return np.random.default_rng(place).standard_normal((3, len(TEXT[place]), DIM)).astype(np.float32)


def representation(words: Sequence[str], hidden: np.ndarray, layers: tuple[int, ...]) -> SentenceRepresentation:
    words = tuple(words)
    return SentenceRepresentation(
        words=words,
        hidden=hidden,
        layers=layers,
        layer_names=tuple(INFO.layer_names[layer] for layer in layers),
        alignment=Alignment(words, words, tuple((i,) for i in range(len(words)))),
    )


def representations(layers: tuple[int, ...] = (0, 1, 2)) -> Iterator[SentenceRepresentation]:
    for place, words in enumerate(TEXT):
        yield representation(words, stored_vectors(place)[list(layers)], layers)


def raw_file(path: Path, datasets: dict[str, object]) -> Path:
    with h5py.File(path, "w") as file:
        for key, value in datasets.items():
            file.create_dataset(key, data=value)
    return path


def extracted(extractor: LayerFileExtractor, sentences: object, **options: object) -> list[np.ndarray]:
    return [item.hidden for item in extractor.extract(sentences, **options)]


def assert_places(found: list[np.ndarray], places: Sequence[int]) -> None:
    assert len(found) == len(places)
    for vectors, place in zip(found, places, strict=True):
        np.testing.assert_array_equal(vectors, stored_vectors(place))


@pytest.fixture(params=["allennlp", "structural-probes"])
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def allennlp_file(tmp_path: Path) -> Path:
    """As the elmo command writes: numbers in the index are strings, of equal sentences the last one counts."""
    path = raw_file(tmp_path / "elmo.hdf5", {str(i): stored_vectors(i) for i in range(4)})
    index: dict[str, str] = {}
    for place, words in enumerate(TEXT):
        index[" ".join(words)] = str(place)
    with h5py.File(path, "a") as file:
        dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.special_dtype(vlen=str))
        dataset[0] = json.dumps(index)
    return path


@pytest.fixture
def plain_file(tmp_path: Path) -> Path:
    return raw_file(tmp_path / "plain.hdf5", {str(i): stored_vectors(i) for i in range(4)})


def test_what_is_written_is_what_others_expect(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "vectors.hdf5"
    assert write_layer_file(path, representations(), layout=layout) == 4
    with h5py.File(path) as file:
        for place in range(4):
            assert file[str(place)].dtype == np.float32
            np.testing.assert_array_equal(file[str(place)], stored_vectors(place))
        if layout == "structural-probes":
            assert set(file) == {"0", "1", "2", "3"}
        else:
            assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
            assert file["sentence_to_index"].shape == (1,)
            index = json.loads(file["sentence_to_index"][0])
            assert index == {"The bank closed": "0", "Rain": "3", "The river bank": "2"}


@pytest.mark.parametrize("gzip", [False, True])
def test_round_trip(tmp_path: Path, layout: str, gzip: bool) -> None:
    path = tmp_path / "vectors.hdf5"
    write_layer_file(path, representations(), layout=layout, info=INFO, pooling="first", gzip=gzip)
    assert is_layer_file(path)
    extractor = read_layer_file(path, TEXT)
    assert extractor.sentences == tuple(TEXT)
    assert_places(extracted(extractor, TEXT, pooling="first", batch_size=3), range(4))
    info = extractor.info
    assert (info.name, info.family, info.weights, info.seed) == ("fake", "layer-file", "untrained", 3)
    assert (info.layer_names, info.hidden_size) == (INFO.layer_names, DIM)
    assert info.directionality == "bidirectional"
    assert len(info.checksum) == 64
    with pytest.raises(StoreError, match="pooled by 'first', asked for 'mean'"):
        extracted(extractor, TEXT)


def test_names_of_selected_layers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    write_layer_file(path, representations((0, 2)), info=INFO)
    extractor = read_layer_file(path)
    assert extractor.info.layer_names == ("embeddings", "block 2")
    (item,) = extractor.extract([TEXT[2]], layers="last")
    assert (item.layers, item.layer_names) == ((1,), ("block 2",))
    np.testing.assert_array_equal(item.hidden, stored_vectors(2)[[2]])


def test_sentences_are_found_by_their_words_in_any_order(allennlp_file: Path) -> None:
    extractor = read_layer_file(allennlp_file)
    assert_places(extracted(extractor, [TEXT[2], TEXT[0], "Rain"]), [2, 0, 3])
    items = list(extractor.extract(iter([TEXT[2]]), layers=[0, 2]))
    np.testing.assert_array_equal(items[0].hidden, stored_vectors(2)[[0, 2]])
    assert items[0].words == TEXT[2]
    assert items[0].alignment.word_pieces == ((0,), (1,), (2,))
    with pytest.raises(StoreError, match=r"no vectors for sentence 2, 'The river closed'"):
        extracted(extractor, [TEXT[0], ("The", "river", "closed")])
    with pytest.raises(StoreError, match="no vectors for sentence 1"):
        next(iter(extractor.align([("Snow",)])))


def test_equal_sentences_take_their_turns(allennlp_file: Path) -> None:
    # AllenNLP's index knows the last of the two; the list brings back the first.
    assert read_layer_file(allennlp_file).sentences is None
    extractor = read_layer_file(allennlp_file, TEXT)
    assert_places(extracted(extractor, TEXT, batch_size=1), [0, 1, 2, 3])
    assert_places(extracted(extractor, TEXT), [0, 1, 2, 3])
    rain = ("Rain",)
    assert_places(extracted(extractor, [rain, rain, rain, TEXT[0]]), [1, 3, 1, 0])


def test_without_words_only_the_whole_list_is_served(plain_file: Path) -> None:
    extractor = read_layer_file(plain_file)
    assert extractor.sentences is None
    assert_places(extracted(extractor, TEXT), range(4))
    assert_places(extracted(extractor, iter(TEXT)), range(4))
    assert len(list(extractor.align(TEXT))) == 4
    for wrong in (TEXT[:3], [*TEXT, ("Snow",)], []):
        with pytest.raises(StoreError, match=r"holds 4 sentences without their words.*read_layer_file"):
            extracted(extractor, wrong)
        with pytest.raises(StoreError, match="holds 4 sentences without their words"):
            extracted(extractor, iter(wrong))
    with pytest.raises(StoreError, match=r"sentence 3 has 3 vectors.*but 2 words.*word pieces"):
        extracted(extractor, [*TEXT[:2], ("The", "bank"), TEXT[3]])
    assert_places(extracted(extractor.bound_to(TEXT), [TEXT[2], TEXT[1]]), [2, 1])


def test_a_list_that_does_not_fit_is_refused(allennlp_file: Path, plain_file: Path) -> None:
    with pytest.raises(StoreError, match="holds 4 sentences, 3 were given"):
        read_layer_file(plain_file, TEXT[:3])
    with pytest.raises(StoreError, match=r"sentence 2 has 1 vectors in the file .*'1'.* but 2 words"):
        read_layer_file(plain_file, [TEXT[0], ("Rain", "!"), *TEXT[2:]])
    with pytest.raises(StoreError, match="sentence 1 is 'The bank closed' in the file, 'The bank opened' was given"):
        read_layer_file(allennlp_file, [("The", "bank", "opened"), *TEXT[1:]])
    with pytest.raises(DataError, match="sentence 2"):
        read_layer_file(plain_file, [TEXT[0], [], *TEXT[2:]])


def test_golden_vectors_of_the_reference_bilm(elmo_reference: Path) -> None:
    path = elmo_reference / "lm_embeddings_0.hdf5"
    lists = json.loads((elmo_reference / "sentences.json").read_text(encoding="utf-8"))
    sentences = [sentence.split() for sentence in lists[0]]
    assert is_layer_file(path)
    extractor = read_layer_file(path, sentences, layer_names=["forward", "backward"])
    assert (extractor.info.layer_names, extractor.info.hidden_size) == (("forward", "backward"), 16)
    found = extracted(extractor, sentences)
    with h5py.File(path) as file:
        for place, vectors in enumerate(found):
            assert vectors.shape == (2, len(sentences[place]), 16)
            np.testing.assert_array_equal(vectors, file[str(place)])
    with pytest.raises(StoreError, match="sentence 1 has 50 vectors"):
        read_layer_file(path, [sentence.split() for sentence in lists[1]])


def test_elmo_weights_and_other_files_are_not_layer_files(elmo_reference: Path, tmp_path: Path) -> None:
    assert not is_layer_file(elmo_reference / "lm_weights.hdf5")
    assert not is_layer_file(elmo_reference / "options.json")
    assert not is_layer_file(elmo_reference)
    assert not is_layer_file(tmp_path / "absent.hdf5")
    assert not is_layer_file(raw_file(tmp_path / "empty.hdf5", {}))
    assert not is_layer_file(raw_file(tmp_path / "mixed.hdf5", {"0": np.ones((1, 1, 2)), "weights": np.ones(2)}))
    assert not is_layer_file(raw_file(tmp_path / "group.hdf5", {"0/a": np.ones((1, 1, 2))}))


def test_halves_of_a_bilm(plain_file: Path) -> None:
    extractor = read_layer_file(plain_file, halves=True)
    assert extractor.info.directionality == "concatenated"
    assert dict(extractor.info.parts) == {"whole": slice(None), "forward": slice(0, 3), "backward": slice(3, None)}
    assert dict(read_layer_file(plain_file).info.parts) == {"whole": slice(None)}
    assert read_layer_file(plain_file).info.directionality == "unknown"


def test_halves_are_recorded_in_our_own_files(tmp_path: Path) -> None:
    parts = {"whole": slice(None), "forward": slice(0, 3), "backward": slice(3, None)}
    path = tmp_path / "vectors.hdf5"
    write_layer_file(path, representations(), info=replace(INFO, parts=parts, directionality="concatenated"))
    info = read_layer_file(path).info
    assert info.directionality == "concatenated"
    assert info.parts["backward"] == slice(3, 6)


def test_one_vector_per_word_is_one_layer(tmp_path: Path) -> None:
    """The options --top and --average of the elmo command."""
    path = raw_file(tmp_path / "top.hdf5", {str(i): stored_vectors(i)[2] for i in range(4)})
    extractor = read_layer_file(path)
    assert extractor.info.layer_names == ("index 0",)
    for place, vectors in enumerate(extracted(extractor, TEXT, layers=0)):
        np.testing.assert_array_equal(vectors, stored_vectors(place)[[2]])


@pytest.mark.parametrize(("stored", "given"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64")])
def test_precision_is_at_least_float32(tmp_path: Path, stored: str, given: str) -> None:
    path = raw_file(tmp_path / "vectors.hdf5", {str(i): stored_vectors(i).astype(stored) for i in range(4)})
    extractor = read_layer_file(path)
    assert extractor.info.dtype == given
    for place, vectors in enumerate(extracted(extractor, TEXT)):
        assert vectors.dtype == given
        np.testing.assert_array_equal(vectors, stored_vectors(place).astype(stored))


def test_many_sentences_keep_their_numeric_order(tmp_path: Path) -> None:
    """HDF5 sorts names as strings: '10' comes before '2'."""
    text = [(f"word{i}",) for i in range(25)]
    path = raw_file(tmp_path / "vectors.hdf5", {str(i): np.full((1, 1, 2), i, np.float32) for i in range(25)})
    found = extracted(read_layer_file(path), text, batch_size=4)
    assert [int(vectors[0, 0, 0]) for vectors in found] == list(range(25))


def test_a_store_can_be_made_of_a_layer_file(plain_file: Path, tmp_path: Path) -> None:
    store = write_store(read_layer_file(plain_file, halves=True), TEXT, tmp_path / "store")
    expected = np.concatenate([stored_vectors(place)[1] for place in range(4)])
    np.testing.assert_array_equal(store.layer(1, "backward"), expected[:, 3:])


def set_value(key: str, value: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        if key in file:
            del file[key]
        file.create_dataset(key, data=value)

    return change


def delete(key: str) -> Callable[[h5py.File], None]:
    return lambda file: file.__delitem__(key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (delete("2"), "has 3 sentences but no dataset '2'"),
        (set_value("1", np.ones(4)), "dataset '1' is float64 of shape"),
        (set_value("1", np.ones((3, 1, 1, 6))), "dataset '1' is float64 of shape"),
        (set_value("1", np.ones((3, 1, DIM), int)), "dataset '1' is int64 of shape"),
        (set_value("1", np.ones((3, 1, DIM + 1))), r"dataset '1' has shape \(3, 1, 7\).*\(3, 3, 6\)"),
        (set_value("1", np.ones((2, 1, DIM))), r"dataset '1' has shape \(2, 1, 6\)"),
        (set_value("1", np.ones((1, DIM))), r"dataset '1' has shape \(1, 6\)"),
        (set_value("1", np.ones((3, 0, DIM))), "dataset '1' is empty"),
        (set_value("07", np.ones((3, 1, DIM))), "dataset '07'"),
        (set_value("weights", np.ones(3)), "dataset 'weights'"),
        (set_value("4/a", np.ones(3)), "dataset '4' is a group"),
        (set_value("sentence_to_index", "no json"), "'sentence_to_index' is not a JSON object"),
        (set_value("sentence_to_index", "[1]"), "'sentence_to_index' is not a JSON object"),
        (set_value("sentence_to_index", '{"The bank": "0"}'), "dataset '0' has 3 vectors, its text .* has 2 words"),
        (set_value("sentence_to_index", '{"Rain": "9"}'), "names sentence 9"),
    ],
)
def test_malformed_files_are_refused_by_name(plain_file: Path, change: Callable, message: str) -> None:
    with h5py.File(plain_file, "a") as file:
        change(file)
    with pytest.raises(StoreError, match=message) as caught:
        read_layer_file(plain_file)
    assert str(plain_file) in str(caught.value)


def test_a_file_that_is_no_hdf5_or_cut_short_is_refused(plain_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no file of vectors"):
        read_layer_file(tmp_path / "absent.hdf5")
    (tmp_path / "text.hdf5").write_text("hello")
    with pytest.raises(StoreError, match="no HDF5 file"):
        read_layer_file(tmp_path / "text.hdf5")
    with pytest.raises(StoreError, match="holds no sentences"):
        read_layer_file(raw_file(tmp_path / "empty.hdf5", {}))
    plain_file.write_bytes(plain_file.read_bytes()[:-500])
    with pytest.raises(StoreError, match="cut short"):
        read_layer_file(plain_file)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_by_name(plain_file: Path, value: float) -> None:
    bad = stored_vectors(2)
    bad[1, 0, 0] = value
    with h5py.File(plain_file, "a") as file:
        file["2"][...] = bad
    with pytest.raises(StoreError, match=r"plain\.hdf5: dataset '2' has values that are not finite"):
        extracted(read_layer_file(plain_file), TEXT)


def test_damaged_compressed_data_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("0", data=np.arange(3000, dtype=np.float32).reshape(3, 10, 100), compression="gzip")
        place = data.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place : place + 20] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"dataset '0' cannot be read"):
        extracted(read_layer_file(path), [("w",) * 10])


def test_a_damaged_record_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    write_layer_file(path, representations(), info=INFO)
    with h5py.File(path, "a") as file:
        file.attrs["janus"] = file.attrs["janus"].replace('"hidden_size": 6', '"hidden_size": 5')
    with pytest.raises(StoreError, match="attribute 'janus' is damaged"):
        read_layer_file(path)


def test_bad_requests(plain_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 layer names"):
        read_layer_file(plain_file, layer_names=["a", "b"])
    odd = raw_file(tmp_path / "odd.hdf5", {"0": np.ones((1, 1, 5))})
    with pytest.raises(UsageError, match="5 dimensions"):
        read_layer_file(odd, halves=True)
    with pytest.raises(UsageError, match="layer 3 does not exist"):
        extracted(read_layer_file(plain_file), TEXT, layers=3)
    with pytest.raises(UsageError, match="no attention"):
        extracted(read_layer_file(plain_file), TEXT, attention=True)
    with pytest.raises(UsageError, match="layout 'numpy'"):
        write_layer_file(tmp_path / "new.hdf5", representations(), layout="numpy")


def spoiled(place: int, change: Callable[[SentenceRepresentation], SentenceRepresentation]) -> Iterator:
    for i, item in enumerate(representations()):
        yield change(item) if i == place else item


def boom(item: SentenceRepresentation) -> SentenceRepresentation:
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (lambda: iter(()), DataError, "no sentences"),
        (lambda: spoiled(2, boom), RuntimeError, "boom"),
        (lambda: spoiled(2, lambda item: replace(item, hidden=item.hidden * np.nan)), ModelError, "sentence 3"),
        (lambda: spoiled(2, lambda item: replace(item, hidden=item.hidden[..., :4])), ModelError, "sentence 3"),
        (lambda: spoiled(1, lambda item: replace(item, words=("1 000",))), DataError, "'1 000'.*structural-probes"),
    ],
)
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, source: Callable, error: type, message: str) -> None:
    path = tmp_path / "vectors.hdf5"
    write_layer_file(path, representations())
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        write_layer_file(path, source())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_words_with_white_space_survive_in_the_layout_without_text(tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    text = [("1 000", "francs")]
    write_layer_file(
        path, [representation(text[0], np.ones((1, 2, DIM), np.float32), (0,))], layout="structural-probes"
    )
    assert extracted(read_layer_file(path, text), text)[0].shape == (1, 2, DIM)


@pytest.mark.parametrize("limit", [200_000, 3_000])
def test_a_full_disk_is_a_plain_error_and_leaves_nothing(
    tmp_path: Path, limit: int, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    """Full while vectors are written, or only when HDF5 writes its tables at the end."""
    dim = 4000 if limit > 100_000 else 1
    some = [*representations()] * 9
    many = (replace(item, hidden=np.ones((3, len(item.words), dim), np.float32)) for item in some)
    with file_size_limit(limit), pytest.raises(OutputError, match=r"cannot write .*vectors\.hdf5"):
        write_layer_file(tmp_path / "vectors.hdf5", many)
    assert list(tmp_path.iterdir()) == []
