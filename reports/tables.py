"""Selecting, averaging over seeds, and formatting rows of the tidy table; text made safe to show."""

from __future__ import annotations

import base64
import gzip
import io
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extractors.foundation.errors import DataError
from extractors.foundation.results import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

MISSING = "–"
"""Shown where a value is undefined or absent."""

_EMBED_LIMIT = 2 * 1024 * 1024
_JOINERS = frozenset("\u200c\u200d")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Estimate:
    """One number with its interval, as the table holds it."""

    value: float
    low: float
    high: float
    unit: str
    """Unit of all three."""
    n: int | None
    """Number of targets or sentences behind it."""

    @property
    def defined(self) -> bool:
        """Whether there is a value at all."""
        return not math.isnan(self.value)

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.defined and not math.isnan(self.low) and not math.isnan(self.high)

    def __str__(self) -> str:
        """Value and interval, e.g. ``0.123 [0.101, 0.145]``."""
        text = number(self.value, self.unit)
        if self.bounded:
            text += f" [{number(self.low, self.unit)}, {number(self.high, self.unit)}]"
        return text


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    caption: str
    """What it holds."""
    headers: Sequence[str]
    """Column titles."""
    rows: Sequence[Sequence[str]]
    """Cells as plain text; escaped when rendered."""
    key: int = 1
    """How many leading columns are text; the others are numbers, up to `tail`."""
    tail: int = 0
    """How many columns at the end are text again."""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For every column, whether it holds numbers."""
        return tuple(self.key <= index < len(self.headers) - self.tail for index in range(len(self.headers)))


@dataclass(frozen=True)
class Download:
    """A file embedded in the page."""

    name: str
    """File name to save it as."""
    uri: str
    """Its bytes as a ``data:`` URI."""
    size: int
    """Bytes."""


def checked(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """Check that a frame is a tidy table and give it the schema's types.

    Raises
    ------
    DataError
        If columns are missing or unknown, or a column cannot be read as its type.
    """
    missing = [column for column in COLUMNS if column not in frame.columns]
    unknown = [str(column) for column in frame.columns if column not in COLUMNS]
    if missing or unknown:
        raise DataError(
            f"{what} is not a tidy result table: missing columns {missing}, unknown columns {unknown}; "
            f"valid columns: {', '.join(COLUMNS)}"
        )
    try:
        return frame[list(COLUMNS)].astype(COLUMNS).reset_index(drop=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} does not hold the types of the result schema: {error}") from error


def over_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """Join the rows that differ in nothing but the seed.

    Returns
    -------
    pandas.DataFrame
        The same columns: `value` is the mean over seeds, `low` and `high` the lowest and highest bound of any seed (so an
        interval never looks narrower than that of a single seed), `n` the smallest, `seed` the first. Order of first appearance.
    """
    if frame.empty:
        return frame
    keys = [column for column in COLUMNS if column not in ("value", "low", "high", "n", "seed")]
    grouped = frame.groupby(keys, dropna=False, sort=False)
    joined = grouped.agg(
        value=("value", "mean"), low=("low", "min"), high=("high", "max"), n=("n", "min"), seed=("seed", "first")
    ).reset_index()
    return joined[list(COLUMNS)].astype(COLUMNS)


def pick(frame: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """Rows whose columns equal the given values; None asks for a missing value, a list for any of its members."""
    keep = np.ones(len(frame), dtype=np.bool_)
    for column, value in wanted.items():
        # One selection at the end: taking rows costs far more than comparing.
        values = frame[column]
        if value is None:
            found = values.isna()
        elif isinstance(value, list | tuple):
            found = values.isin(list(value))
        else:
            found = (values == value).fillna(False)
        keep &= found.to_numpy(dtype=np.bool_)
    return frame[keep]


def trained_or_all(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of trained weights, or all rows where there are none."""
    trained = pick(frame, weights="trained")
    return frame if trained.empty else trained


def offset_profile(frame: pd.DataFrame) -> dict[int, Estimate]:
    """Offset -> estimate, in order; the word itself (offset 0) and undefined values are left out."""
    found = {}
    for offset in values_of(frame, "offset"):
        one = single(pick(frame, offset=int(offset)))
        if offset and one is not None and one.defined:
            found[int(offset)] = one
    return dict(sorted(found.items()))


def units_counted(frame: pd.DataFrame, unit: str) -> str:
    """How many units the rows stand on, for a caption: `` n = 38 to 40 targets.``, or nothing if they do not say."""
    counts = sorted({int(n) for n in frame["n"].dropna()})
    if not counts:
        return ""
    return f" n = {counts[0]}" + (f" to {counts[-1]}" if counts[-1] != counts[0] else "") + f" {unit}."


def values_of(frame: pd.DataFrame, column: str) -> list[Any]:
    """The distinct values of a column that are not missing, in order of appearance."""
    return list(frame[column].dropna().unique())


def estimates(frame: pd.DataFrame) -> dict[int, Estimate]:
    """Layer -> estimate, in the order of layers; rows without a layer are left out, the first row of a layer counts."""
    found: dict[int, Estimate] = {}
    rows = frame[frame["layer"].notna()]
    for layer, estimate in zip(rows["layer"], _estimates(rows), strict=True):
        found.setdefault(int(layer), estimate)
    return dict(sorted(found.items()))


def single(frame: pd.DataFrame) -> Estimate | None:
    """The first row as an estimate, or None of an empty frame."""
    return next(iter(_estimates(frame.head(1))), None)


def _estimates(frame: pd.DataFrame) -> list[Estimate]:
    return [
        Estimate(float(value), float(low), float(high), unit if isinstance(unit, str) else "", _integer(n))
        for value, low, high, unit, n in zip(
            frame["value"], frame["low"], frame["high"], frame["unit"], frame["n"], strict=True
        )
    ]


def _integer(value: Any) -> int | None:
    import pandas as pd

    return None if value is None or pd.isna(value) else int(value)


def number(value: float, unit: str = "") -> str:
    """Format a number for people: three decimals, powers of ten for what would round to nothing, bytes in MiB."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if unit == "bytes":
        mebibytes = value / 2**20
        return f"{mebibytes / 1024:.2f} GiB" if mebibytes >= 1024 else f"{mebibytes:.1f} MiB"
    if value == 0:
        return "0"
    if abs(value) < 5e-4:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}\u00a0×\u00a010{str(int(exponent)).translate(_SUPERSCRIPT)}".replace("-", "−", 1)
    if abs(value) >= 1000:
        text = f"{value:,.0f}".replace(",", "\u202f")
    elif abs(value) >= 100:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}" if unit in ("words", "seconds") else f"{value:.3f}"
    return text.replace("-", "−", 1)


def integer(value: Any) -> str:
    """Format a count with thin spaces between thousands; text is passed on."""
    if value is None:
        return MISSING
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def visible(text: str, *, keep: str = "") -> str:
    """Make control characters, bidirectional marks and unassigned characters visible as their code point.

    They could be lost, refused by XML, or turn the text around them. The joiners that scripts and emoji need stay.
    """
    return "".join(
        character
        if character in keep
        or character in _JOINERS
        or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else f"⟨U+{ord(character):04X}⟩"
        for character in text
    )


def shortened(text: str, limit: int) -> str:
    """Text on one line, made visible and at most `limit` characters: the middle gives way to an ellipsis."""
    text = " ".join(visible(text).split()) or "(no name)"
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def named(text: str) -> str:
    """A model, task or data name for prose and tables; the table of models shows it in full."""
    return shortened(text, 48)


def joined(items: Sequence[str]) -> str:
    """List items in words: ``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def data_uri(content: bytes, media_type: str) -> str:
    """Bytes as a base64 ``data:`` URI."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def downloads(frame: pd.DataFrame, stem: str) -> list[Download]:
    """A table as CSV (compressed when over 2 MiB) and Parquet, embedded."""
    text = frame.to_csv(index=False, lineterminator="\n").encode("utf-8", errors="backslashreplace")
    if len(text) > _EMBED_LIMIT:
        packed = gzip.compress(text, mtime=0)
        csv = Download(f"{stem}.csv.gz", data_uri(packed, "application/gzip"), len(packed))
    else:
        csv = Download(f"{stem}.csv", data_uri(text, "text/csv"), len(text))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False, compression="zstd")
    content = buffer.getvalue()
    return [csv, Download(f"{stem}.parquet", data_uri(content, "application/vnd.apache.parquet"), len(content))]
