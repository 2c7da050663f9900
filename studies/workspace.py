"""The folder of a run: refused when it holds something else, resumed when it holds the same run unfinished.

While a run goes on, every finished unit lies whole in ``.unfinished``; that folder goes away only after the last file of
the run is in place, so a run that was killed at any point is either finished or resumable.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import OutputError
from extractors.foundation.files import output_error, written_whole
from extractors.foundation.results import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

UNFINISHED = ".unfinished"
RUN_FILE = "run.json"


class Workspace:
    """The output folder of one run.

    Parameters
    ----------
    folder : Path
        Where the run's files go.
    settings : mapping
        Everything the numbers depend on and that is known before models and data are read.

    Raises
    ------
    OutputError
        If the folder holds other files, a finished run, or an unfinished run with other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.resumed = False
        self._identity: dict[str, Any] = {"settings": dict(settings)}
        self._work = folder / UNFINISHED
        self._identity_file = self._work / "identity.json"
        if (refusal := self.refusal(folder, settings)) is not None:
            raise OutputError(refusal)
        self.resumed = self._identity_file.exists()
        self._created = not folder.exists()
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(error, folder) from error
        if not self.resumed:
            write_json(self._identity_file, self._identity)

    @staticmethod
    def refusal(folder: Path, settings: Mapping[str, Any]) -> str | None:
        """Why a run with these settings cannot go to `folder`; None if it can."""
        if not folder.exists():
            return None
        if not folder.is_dir():
            return f"{folder} is a file, not a folder; choose another folder with --out"
        try:
            content = {entry.name for entry in folder.iterdir()}
        except OSError as error:
            return str(output_error(error, folder))
        identity_file = folder / UNFINISHED / "identity.json"
        if UNFINISHED in content and identity_file.exists():
            changed = _differences(read_json(identity_file).get("settings", {}), settings)
            if not changed:
                return None
            return (
                f"{folder} holds an unfinished run with other settings ({'; '.join(changed)}); "
                "repeat its command to resume it, or choose another folder with --out"
            )
        if RUN_FILE in content and UNFINISHED not in content:
            return (
                f"{folder} holds a finished run; render it again with: probe report {folder}; "
                "or choose another folder with --out"
            )
        if content - {UNFINISHED}:
            return f"the output folder {folder} is not empty; choose a new or an empty folder with --out"
        return None

    def pin(self, name: str, value: Any) -> None:
        """Record what an input turned out to be (checksums); on resumption refuse if it has changed.

        Raises
        ------
        OutputError
            If the unfinished run was started with another `value`.
        """
        identity = read_json(self._identity_file)
        plain = json.loads(json.dumps(value))
        if name in identity and identity[name] != plain:
            raise OutputError(
                f"the {name} changed since the unfinished run in {self.folder} was started; "
                "choose another folder with --out to start anew"
            )
        if name not in identity:
            write_json(self._identity_file, {**identity, name: plain})

    def pinned(self, prefix: str) -> list[Any]:
        """What was recorded with `pin` under names that begin with `prefix`, in the order of recording."""
        return [value for name, value in read_json(self._identity_file).items() if name.startswith(prefix)]

    def abandon(self) -> None:
        """Remove what this object created, if no unit was finished: a run that failed at once leaves no trace."""
        if any(self._work.glob("*.parquet")) or self.resumed:
            return
        shutil.rmtree(self._work, ignore_errors=True)
        if self._created and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def path(self, name: str) -> Path:
        """A place for intermediate files, removed when the run is finished."""
        return self._work / name

    def has(self, unit: str) -> bool:
        """Whether a unit's rows are there."""
        return self.path(f"{unit}.parquet").exists()

    def save(self, unit: str, results: pd.DataFrame, costs: pd.DataFrame) -> None:
        """Keep the rows of a finished unit; the results come last, since they say that the unit is done."""
        write_table(self.path(f"{unit}.costs"), costs)
        write_table(self.path(f"{unit}.parquet"), results)

    def load(self, unit: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows and costs of a finished unit."""
        return read_table(self.path(f"{unit}.parquet")), read_table(self.path(f"{unit}.costs"))

    def finish(self) -> None:
        """Remove the intermediate files: from here on the folder is a finished run."""
        shutil.rmtree(self._work, ignore_errors=True)


@contextmanager
def workspace(folder: Path, settings: Mapping[str, Any]) -> Iterator[Workspace]:
    """Open a `Workspace`; a failure before the first finished unit removes what was created."""
    space = Workspace(folder, settings)
    try:
        yield space
    except BaseException:
        space.abandon()
        raise


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet, whole or not at all."""
    with written_whole(path) as temporary:
        table.to_parquet(temporary, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the tidy schema."""
    import pandas as pd

    return pd.read_parquet(path).astype(COLUMNS)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"cannot read {path}: {error}; choose another folder with --out") from error
    if not isinstance(content, dict):
        raise OutputError(f"{path} does not hold a JSON object; choose another folder with --out")
    return content


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    keys = sorted(before.keys() | now.keys())
    return [f"{key}: {before.get(key)!r} then, {now.get(key)!r} now" for key in keys if before.get(key) != now.get(key)]
