"""The door to models says which registered name was probably meant."""

from __future__ import annotations

import pytest

from extractors import load_extractor
from extractors.foundation.errors import ModelError


def test_a_misspelt_registered_name_is_named() -> None:
    with pytest.raises(ModelError, match="if a registered model is meant: elmo-original"):
        load_extractor("elmo-orignal", offline=True)


def test_another_name_is_left_alone() -> None:
    with pytest.raises(ModelError) as caught:
        load_extractor("no-such-organisation/no-such-model", offline=True)
    assert "registered model" not in str(caught.value)
