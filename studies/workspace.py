"""The folder of a run: refused when it holds something else, resumed when it holds the same run unfinished.

While a run goes on, every finished unit lies whole in ``.unfinished``; that folder goes away only after the last file of
the run is in place, so a run that was killed at any point is either finished or resumable. A lock in it keeps a second
process out for as long as the first one lives.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from extractors import RepresentationStore
from extractors.foundation.errors import OutputError, StoreError
from extractors.foundation.files import output_error, remove_empty, written_whole
from extractors.foundation.results import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

UNFINISHED = ".unfinished"
RUN_FILE = "run.json"
_LOCK = "lock"


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
        If the folder holds other files, a finished run, or an unfinished run with other settings; if another process is
        writing there, or nothing can be written.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.resumed = False
        self._work = folder / UNFINISHED
        self._identity_file = self._work / "identity.json"
        self._lock: IO[bytes] | None = None
        if (refusal := self.refusal(folder, settings)) is not None:
            raise OutputError(refusal)
        # Innermost first: what has to go again if nothing comes of the run.
        self._created = [path for path in (self._work, folder, *folder.parents) if not os.path.lexists(path)]
        try:
            self._open(settings)
        except BaseException:
            if self._work in self._created:
                self._remove_created()
            self.release()
            raise

    def _open(self, settings: Mapping[str, Any]) -> None:
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(self._work / _LOCK)
        except OSError as error:
            raise output_error(error, self.folder) from error
        # Another process may have begun, or finished, since the folder was looked at.
        refusal = _busy(self.folder) if self._lock is None else _refusal(self.folder, settings)
        if refusal is not None:
            raise OutputError(refusal)
        self.resumed = self._identity_file.exists()
        if self.resumed:
            self._drop_damaged()
            return
        # Whatever lies here belongs to a run whose settings nobody knows any more.
        for entry in self._work.iterdir():
            if entry.name != _LOCK:
                _remove(entry)
        write_json(self._identity_file, {"settings": dict(settings)})

    @staticmethod
    def refusal(folder: Path, settings: Mapping[str, Any]) -> str | None:
        """Why a run with these settings cannot go to `folder`; None if it can."""
        if _is_locked(folder / UNFINISHED / _LOCK):
            return _busy(folder)
        return _refusal(folder, settings)

    def pin(self, name: str, value: Any) -> None:
        """Record what an input turned out to be (checksums); on resumption refuse if it has changed.

        Raises
        ------
        OutputError
            If the unfinished run was started with another `value`.
        """
        identity = read_json(self._identity_file)
        plain = _plain(value)
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
        if self.resumed or any(self._work.glob("*.parquet")):
            return
        self._remove_created()

    def _remove_created(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        remove_empty(self._created)

    def release(self) -> None:
        """Let another process use the folder."""
        if self._lock is not None:
            self._lock.close()
        self._lock = None

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
        # First of all what makes the folder an unfinished one: the rest may take a while, and be interrupted.
        self._identity_file.unlink(missing_ok=True)
        for leftover in [*self.folder.glob(".*.part"), *self.folder.glob("figures/.*.part")]:
            leftover.unlink(missing_ok=True)
        shutil.rmtree(self._work, ignore_errors=True)

    def _drop_damaged(self) -> None:
        """Remove what a killed process left half-done and what cannot be read any more: it is computed again."""
        for part in self._work.glob(".*.part"):
            _remove(part)
        for store in self._work.glob("store-*"):
            try:
                RepresentationStore.open(store, verify=True)
            except StoreError:
                _remove(store)
        for table in [*self._work.glob("*.parquet"), *self._work.glob("*.costs")]:
            if not _is_readable(table):
                _remove(table)
        for unit in self._work.glob("*.parquet"):
            if not unit.with_suffix(".costs").exists():
                _remove(unit)


@contextmanager
def workspace(folder: Path, settings: Mapping[str, Any]) -> Iterator[Workspace]:
    """Open a `Workspace`; a failure before the first finished unit removes what was created."""
    space = Workspace(folder, settings)
    try:
        yield space
    except BaseException:
        space.abandon()
        raise
    finally:
        space.release()


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet, whole or not at all."""
    # Bytes: pyarrow cannot take a path that is no text in this locale, and pandas 2 gives it the path of an open file.
    with written_whole(path) as temporary:
        temporary.write_bytes(table.to_parquet(None, index=False, write_page_checksum=True))


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the tidy schema."""
    import pandas as pd

    with path.open("rb") as file:
        return pd.read_parquet(file, page_checksum_verification=True).astype(COLUMNS)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(_as_json(content), encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"cannot read {path}: {error}; choose another folder with --out") from error
    if not isinstance(content, dict):
        raise OutputError(f"{path} does not hold a JSON object; choose another folder with --out")
    return content


def _refusal(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """As `Workspace.refusal`, whoever holds the lock."""
    # os.path, unlike Path, takes what cannot be looked at for absent; making the folder then says why.
    if not os.path.exists(folder):
        return None
    if not os.path.isdir(folder):
        return f"{folder} is a file, not a folder; choose another folder with --out"
    try:
        content = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        return str(output_error(error, folder))
    identity_file = folder / UNFINISHED / "identity.json"
    if os.path.exists(identity_file):
        try:
            before = read_json(identity_file).get("settings")
        except OutputError as error:
            return str(error)
        if not isinstance(before, dict):
            return f"{identity_file} is damaged, so the run cannot be resumed; choose another folder with --out"
        changed = _differences(before, _plain(settings))
        if not changed:
            return None
        return (
            f"{folder} holds an unfinished run with other settings ({'; '.join(changed)}); "
            "repeat its command to resume it, or choose another folder with --out"
        )
    if RUN_FILE in content:
        return (
            f"{folder} holds a finished run; render it again with: probe report {folder}; "
            "or choose another folder with --out"
        )
    if content - {UNFINISHED}:
        return f"the output folder {folder} is not empty; choose a new or an empty folder with --out"
    return None


def _busy(folder: Path) -> str:
    return f"another process is writing to {folder}; wait until it has ended, or choose another folder with --out"


def _take_lock(path: Path) -> IO[bytes] | None:
    """Lock a file for as long as it stays open, where the system has locks; None if another process holds it."""
    file = path.open("ab")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except (ImportError, OSError):
        # Windows has no fcntl module, and some network file systems have no locks: do without.
        return file
    # The process that held it until now may have removed the file with its folder.
    if os.path.exists(path) and os.path.samestat(os.fstat(file.fileno()), path.stat()):
        return file
    file.close()
    return None


def _is_locked(path: Path) -> bool:
    try:
        file = _take_lock(path) if os.path.exists(path) else None
    except OSError:
        return False
    if file is None:
        return os.path.exists(path)
    file.close()
    return False


def _is_readable(table: Path) -> bool:
    try:
        read_table(table)
    except Exception:
        # Damaged Parquet raises a dozen kinds of error; whatever it is, these rows are lost.
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _as_json(content: Any) -> str:
    """JSON that UTF-8 can hold: bytes of file names that are no text in this locale are decoded as UTF-8."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """The value as it comes back from a JSON file."""
    return json.loads(_as_json(value))


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    keys = sorted(before.keys() | now.keys())
    return [f"{key}: {before.get(key)!r} then, {now.get(key)!r} now" for key in keys if before.get(key) != now.get(key)]
