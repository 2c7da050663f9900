"""The one tidy table every number travels in: one row per number, the same columns everywhere.

Nothing has to be parsed out of a string: what a number is about is in its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: dict[str, str] = {
    "model": "string",
    "family": "string",
    "weights": "string",
    "layer": "Int64",
    "layer_name": "string",
    "part": "string",
    "kind": "string",
    "measure": "string",
    "task": "string",
    "probe": "string",
    "data": "string",
    "split": "string",
    "condition": "string",
    "offset": "Int64",
    "head": "Int64",
    "length": "Int64",
    "reference": "string",
    "pooling": "string",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "unit": "string",
    "n": "Int64",
    "seed": "Int64",
    "source": "string",
}
"""Column name -> pandas dtype, in order. Every column but `value`, `low`, `high` may be missing (<NA>)."""

VOCABULARY: dict[str, frozenset[str]] = {
    "weights": frozenset({"trained", "untrained"}),
    "part": frozenset({"whole", "forward", "backward"}),
    "kind": frozenset({"probe", "analysis", "training"}),
    "source": frozenset({"measured", "shipped", "literature"}),
}
"""The closed vocabularies; a value outside them is a programming error and is refused."""


def tidy(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Build the tidy table from rows given as mappings; absent columns become missing values.

    Parameters
    ----------
    rows : iterable of mappings
        Keys are column names of `COLUMNS`; `source` defaults to ``measured``.

    Returns
    -------
    pandas.DataFrame
        Exactly the columns of `COLUMNS`, in order and with their dtypes.

    Raises
    ------
    ValueError
        For a column or a value outside the schema.
    """
    import pandas as pd

    records = [{"source": "measured", **row} for row in rows]
    for record in records:
        unknown = record.keys() - COLUMNS.keys()
        if unknown:
            raise ValueError(f"unknown result columns {sorted(unknown)}; valid columns: {', '.join(COLUMNS)}")
        for column, allowed in VOCABULARY.items():
            if record.get(column) is not None and record[column] not in allowed:
                raise ValueError(f"{column}={record[column]!r} is not one of {sorted(allowed)}")
    frame = pd.DataFrame.from_records(records, columns=list(COLUMNS))
    return frame.astype(COLUMNS)
