"""The ground that all packages stand on: whole-file writes, intervals, the results table, seeds, errors, progress."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extractors.foundation import errors
from extractors.foundation.bootstrap import bootstrap, ratio_of_sums
from extractors.foundation.files import output_error, sha256_of_file, written_whole
from extractors.foundation.progress import SILENT
from extractors.foundation.randomness import generator_for, seed_for
from extractors.foundation.results import COLUMNS, VOCABULARY, tidy

# Files


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    with written_whole(path) as temporary:
        assert temporary.parent == path.parent, "only within one file system is renaming atomic"
        temporary.write_text("content")
        assert not path.exists()
    assert path.read_text() == "content"
    assert list(path.parent.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    with written_whole(tmp_path / "file") as temporary:
        temporary.write_text("x")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_keeps_the_old_content_and_leaves_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail_half_way() -> None:
        with written_whole(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(error), written_whole(tmp_path / "other"):
        raise error
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_plain_error(
    tmp_path: Path, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    refused = pytest.raises(errors.OutputError, match=r"cannot write .*file")
    with file_size_limit(1000), refused, written_whole(path) as temporary:
        temporary.write_bytes(bytes(2000))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_where_a_folder_is_needed_is_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("keep")
    with pytest.raises(errors.OutputError, match="choose another folder"), written_whole(tmp_path / "file" / "inner"):
        pytest.fail("there is nothing to write to")
    assert (tmp_path / "file").read_text() == "keep"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "no permission"),
        (errno.EROFS, "read-only"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_reasons_are_told_in_plain_words(number: int, reason: str) -> None:
    error = output_error(OSError(number, os.strerror(number)), "some/file")
    assert isinstance(error, errors.OutputError)
    assert "some/file" in str(error)
    assert reason in str(error)
    assert "--out" in str(error)


def test_checksum_of_a_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert sha256_of_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()


# Intervals


def mean(sums: np.ndarray) -> np.ndarray:
    return ratio_of_sums(0, 1)(sums)


def test_the_interval_of_a_mean_has_its_closed_form_width() -> None:
    """Normal values, known variance: the percentile interval tends to mean +- 1.96 s / sqrt(n)."""
    n = 1000
    values = np.random.default_rng(0).normal(3.0, 2.0, n)
    found = bootstrap(np.column_stack([values, np.ones(n)]), mean, resamples=4000)
    half = 1.959964 * values.std() / np.sqrt(n)
    assert found.value[0] == pytest.approx(values.mean(), rel=1e-12)
    assert found.low[0] == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high[0] == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert found.n == n
    narrow = bootstrap(np.column_stack([values, np.ones(n)]), mean, resamples=4000, level=0.68269)
    assert (narrow.high - narrow.low)[0] == pytest.approx(2 * values.std() / np.sqrt(n), rel=0.08)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """200 samples of 100 units with truth 1/2; coverage of a 90 % interval has standard error 2 %."""
    generator = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        hits = generator.integers(0, 2, 100)
        found = bootstrap(np.column_stack([hits, np.ones(100)]), mean, resamples=300, level=0.9, seed=trial)
        covered += bool(found.low[0] <= 0.5 <= found.high[0])
    assert 0.83 < covered / 200 < 0.97


def test_a_ratio_is_a_ratio_of_sums() -> None:
    """Sentences with 1 of 1 and 0 of 9 correct: .1 of all words, not the mean .5 of two ratios."""
    found = bootstrap([[1, 1], [0, 9]], ratio_of_sums(0, 1))
    assert found.value[0] == pytest.approx(0.1)
    assert (found.low[0], found.high[0]) == (0.0, 1.0)


def test_units_are_resampled_whole() -> None:
    """Equal units: however many words they hold, nothing varies between resamples."""
    found = bootstrap(np.tile([30.0, 40.0], (25, 1)), ratio_of_sums(0, 1))
    assert (found.value[0], found.low[0], found.high[0]) == (0.75, 0.75, 0.75)


def test_the_same_seed_gives_the_same_interval_and_touches_no_global_state() -> None:
    units = np.random.default_rng(2).random((50, 2))
    np.random.seed(7)  # noqa: NPY002 - the global state is what is tested
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (bootstrap(units, ratio_of_sums(0, 1), seed=seed) for seed in (0, 0, 1))
    assert (first.low[0], first.high[0]) == (again.low[0], again.high[0])
    assert first.low[0] != other.low[0]
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_several_estimates_share_their_resamples() -> None:
    """The difference of two columns that differ by a constant has no uncertainty."""
    values = np.random.default_rng(3).random(80)
    units = np.column_stack([values, values + 2, np.ones(80)])

    def both(sums: np.ndarray) -> np.ndarray:
        means = sums[..., :2] / sums[..., [2]]
        return np.concatenate([means, means[..., [1]] - means[..., [0]]], axis=-1)

    found = bootstrap(units, both)
    assert found.value.shape == found.low.shape == found.high.shape == (3,)
    np.testing.assert_allclose([found.low[2], found.high[2]], 2, atol=1e-9)
    assert found.low[0] < found.value[0] < found.high[0]


def test_what_is_undefined_is_missing() -> None:
    found = bootstrap([[1.0, 0.0], [2.0, 0.0]], ratio_of_sums(0, 1))
    assert np.isnan(found.low[0])
    assert np.isnan(found.high[0])
    single = bootstrap([[1.0, 2.0]], ratio_of_sums(0, 1))
    assert (single.value[0], single.n) == (0.5, 1)
    assert np.isnan([single.low[0], single.high[0]]).all()


def test_many_units_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resamples are drawn in chunks to bound memory; the chunks must not show."""
    from extractors.foundation import bootstrap as module

    units = np.random.default_rng(4).random((60, 2))
    whole = bootstrap(units, ratio_of_sums(0, 1), resamples=100)
    monkeypatch.setattr(module, "_chunks", lambda resamples, n: [7] * (resamples // 7) + [resamples % 7])
    parts = bootstrap(units, ratio_of_sums(0, 1), resamples=100)
    np.testing.assert_allclose([whole.low[0], whole.high[0]], [parts.low[0], parts.high[0]], rtol=1e-12)


@pytest.mark.parametrize("units", [np.ones(3), np.ones((0, 2)), np.ones((2, 2, 2)), 1.0])
def test_units_of_another_shape_are_refused(units: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"shape \(n_units >= 1, k\)"):
        bootstrap(units, ratio_of_sums(0, 1))


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        bootstrap(np.ones((3, 2)), ratio_of_sums(0, 1), level=level)


# The results table


def test_the_table_has_exactly_the_promised_columns_and_types() -> None:
    promised = (
        "model family weights layer layer_name part kind measure task probe data split condition offset head length "
        "reference pooling value "
        "low high unit n seed source"
    )
    assert list(COLUMNS) == promised.split()
    for rows in ([], [{"model": "a", "layer": 0, "value": 1.0}]):
        frame = tidy(rows)
        assert list(frame.columns) == promised.split()
        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == COLUMNS
        assert len(frame) == len(rows)


def test_layer_zero_is_a_layer_and_absent_is_missing() -> None:
    frame = tidy([{"layer": 0, "head": 0, "offset": -3, "value": 0.5, "low": np.nan}, {"value": 2}])
    assert frame["layer"].tolist() == [0, pd.NA]
    assert frame["head"].tolist() == [0, pd.NA]
    assert frame["offset"].tolist() == [-3, pd.NA]
    assert frame["model"].isna().all()
    assert np.isnan(frame["low"]).all()
    assert frame["source"].tolist() == ["measured", "measured"]


def test_the_table_survives_parquet(tmp_path: Path) -> None:
    frame = tidy(
        [{"model": "a", "layer": 3, "part": "whole", "value": 0.25, "n": 7, "source": "shipped"}, {"value": 1}]
    )
    frame.to_parquet(tmp_path / "results.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), frame)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown result columns \['accuracy'\]; valid columns: model, family"):
        tidy([{"accuracy": 0.5}])


@pytest.mark.parametrize("column", VOCABULARY)
def test_a_value_outside_a_vocabulary_is_refused(column: str) -> None:
    with pytest.raises(ValueError, match=f"{column}='nonsense' is not one of"):
        tidy([{column: "nonsense"}])
    for allowed in VOCABULARY[column]:
        assert tidy([{column: allowed}])[column].tolist() == [allowed]
    assert tidy([{column: None}])[column].isna().all()


# Seeds, errors, progress


def test_seeds_follow_from_their_names_alone() -> None:
    """Pinned: another value would silently change every published number."""
    assert seed_for(0, "control", "upos") == 1088998836
    names = [(0, "a"), (1, "a"), ("a", 0), ("0a",), (0, "a", ""), (0, "b")]
    assert len({seed_for(*name) for name in names}) == len(names)
    assert all(0 <= seed_for(*name) < 2**32 for name in names)


def test_generators_are_independent_of_each_other_and_of_order() -> None:
    first, second = generator_for(0, "split"), generator_for(0, "control")
    later, earlier = generator_for(0, "control").random(5), generator_for(0, "split").random(5)
    np.testing.assert_array_equal(first.random(5), earlier)
    np.testing.assert_array_equal(second.random(5), later)
    assert not np.array_equal(earlier, later)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("JanusError", 2),
        ("UsageError", 2),
        ("DataError", 3),
        ("AlignmentError", 3),
        ("ModelError", 4),
        ("DownloadError", 4),
        ("OutputError", 5),
        ("StoreError", 6),
    ],
)
def test_exit_codes(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.JanusError)
    assert kind("message").exit_code == code
    assert str(kind("message")) == "message"


def test_every_error_class_has_its_exit_code_tested() -> None:
    tested = {mark.args[1][i][0] for mark in test_exit_codes.pytestmark for i in range(len(mark.args[1]))}
    assert tested == {name for name, value in vars(errors).items() if isinstance(value, type)}


def test_the_default_reporter_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with SILENT.task("work", 3) as task:
        task.advance()
        task.advance(2)
    SILENT.note("something")
    assert capsys.readouterr() == ("", "")
