"""Files written whole or not at all, and their checksums."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from extractors.foundation.errors import OutputError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file beside `path`; on success it is flushed and renamed over `path`, else removed.

    Parameters
    ----------
    path : path
        The final file. Its folder is created if need be.

    Yields
    ------
    Path
        The temporary file to write; it exists and is empty.

    Raises
    ------
    OutputError
        If the folder cannot be written or the disk is full.
    """
    path = Path(path)
    try:
        with folder_made(path.parent):
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
            temporary = Path(name)
            try:
                os.close(descriptor)
                temporary.chmod(0o666 & ~_umask())
                yield temporary
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise output_error(error, path) from error


@contextmanager
def folder_made(folder: Path) -> Iterator[None]:
    """Make a folder and those above it as far as they are missing; on failure remove what was made, if it is empty."""
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        remove_empty(missing)
        raise


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, innermost first, up to one that is not empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


def output_error(error: OSError, path: str | os.PathLike[str]) -> OutputError:
    """Turn an operating-system error met while writing `path` into a plain sentence."""
    reasons = {
        errno.ENOSPC: "the disk is full; free some space or choose another folder with --out",
        errno.EDQUOT: "the disk quota is used up; free some space or choose another folder with --out",
        errno.EACCES: "no permission to write there; choose a folder of your own with --out",
        errno.EPERM: "no permission to write there; choose a folder of your own with --out",
        errno.EROFS: "the file system is read-only; choose another folder with --out",
        errno.EFBIG: "the file would be larger than allowed here (see ulimit -f); raise the limit or choose fewer layers",
        errno.ENOTDIR: "a part of the path is a file, not a folder; choose another folder with --out",
        errno.EEXIST: "there is a file where a folder is needed; choose another folder with --out",
    }
    reason = reasons.get(error.errno or 0, f"{error.strerror or error}; choose another folder with --out")
    return OutputError(f"cannot write {os.fspath(path)}: {reason}")


def sha256_of_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
