"""One meaning of layer selections everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractors import select_layers
from extractors.foundation.errors import UsageError

NAMES = ("embeddings", "layer 1", "layer 2", "layer 3", "layer 4")


@pytest.mark.parametrize(
    ("selection", "layers"),
    [
        ("all", (0, 1, 2, 3, 4)),
        ("last", (4,)),
        ("0", (0,)),
        (0, (0,)),
        ([0], (0,)),
        (-1, (4,)),
        ("-1", (4,)),
        ("-5", (0,)),
        ("0,3", (0, 3)),
        ("3,0,3", (0, 3)),
        ("2-4", (2, 3, 4)),
        ("3-last", (3, 4)),
        ("2-2", (2,)),
        (" ALL ", (0, 1, 2, 3, 4)),
        ("1, last", (1, 4)),
        ((4, -5), (0, 4)),
    ],
)
def test_what_may_be_written(selection: Any, layers: tuple[int, ...]) -> None:
    assert select_layers(selection, NAMES) == layers


@pytest.mark.parametrize("selection", [5, -6, "5", "2-7", "0,9", [1, 5], [-6]])
def test_a_layer_that_does_not_exist_is_refused_with_what_exists(selection: Any) -> None:
    with pytest.raises(UsageError, match=r"does not exist in bert; it has layers 0 to 4 \(embeddings, .*layer 4\)"):
        select_layers(selection, NAMES, model="bert")


@pytest.mark.parametrize("selection", ["", "first", "1;2", "1-", "2.5", True, [True], [1.0], ["1"], "0--1"])
def test_what_cannot_be_read_is_refused(selection: Any) -> None:
    with pytest.raises(UsageError):
        select_layers(selection, NAMES)


def test_a_range_that_runs_backwards_is_refused_with_the_right_one() -> None:
    with pytest.raises(UsageError, match="write 2-4"):
        select_layers("4-2", NAMES)


def test_nothing_selected_is_refused() -> None:
    with pytest.raises(UsageError, match="no layer selected"):
        select_layers([], NAMES)


@given(st.lists(st.integers(-5, 4), min_size=1))
def test_lists_and_strings_mean_the_same(numbers: list[int]) -> None:
    chosen = select_layers(numbers, NAMES)
    assert chosen == select_layers(",".join(map(str, numbers)), NAMES)
    assert chosen == tuple(sorted({number % 5 for number in numbers}))
