"""Fetch the official ELMo files into the user's cache: resumable, whole or not at all, and the same files ever after.

A cache holds one folder per model. Beside each file lies ``<file>.download.json`` with the SHA-256 seen on first use; a file
that no longer matches is refused. ``<file>.part`` is an unfinished download, which the next run continues.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import DownloadError, OutputError
from extractors.foundation.files import sha256_of_file, written_whole
from extractors.foundation.progress import SILENT, Progress

if TYPE_CHECKING:
    import requests

    from extractors.registry import KnownModel

_ATTEMPTS = 4
"""Attempts at a file within one call; each continues where the one before it stopped."""
_PAUSE = 1.0
"""Seconds to wait after the first failed attempt; twice that after the second, and so on."""
_TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes."""
_BLOCK = 1 << 16
"""Bytes per read; at most this much is fetched twice after an interruption."""


def fetch_elmo(
    known: KnownModel,
    *,
    cache_dir: str | Path | None = None,
    offline: bool | None = None,
    progress: Progress = SILENT,
) -> tuple[Path, Path]:
    """Give the files of a published ELMo, downloading what the cache does not hold.

    Parameters
    ----------
    known : KnownModel
        A model of kind ``elmo``, with the URLs of its options file and its weight file, and the published size of the
        weight file where there is one.
    cache_dir : str or Path, optional
        Where downloads are kept; default: the environment variable ``JANUS_CACHE``, else the user's cache folder for
        ``janus-probe``. The files lie in a subfolder called after the model, under their published names; files put
        there by hand are taken as they are.
    offline : bool, optional
        Never contact a server. Default: the environment variable ``HF_HUB_OFFLINE``.
    progress : Progress
        Receives one unit per byte downloaded.

    Returns
    -------
    tuple of Path
        Options file and weight file, complete and verified.

    Raises
    ------
    DownloadError
        If a file is absent and cannot be fetched (offline, no connection, cut short, refused by the server, no space), has
        not the published size, or differs from what was recorded on first use. Says what to do.
    """
    folder = _cache_root(cache_dir) / known.name
    options_url, weights_url = known.urls
    options, weights = (folder / url.rsplit("/", 1)[-1] for url in known.urls)
    wanted = ((options_url, options, None), (weights_url, weights, known.size))
    if not (options.exists() and weights.exists()):
        if _is_offline(offline):
            missing = [f"{url} -> {target}" for url, target, _ in wanted if not target.exists()]
            raise DownloadError(
                f"{known.name} is not complete in the cache and downloading is switched off (offline); fetch these files on "
                f"a connected machine and put them there: {'; '.join(missing)}; or allow downloads (unset HF_HUB_OFFLINE)"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder / ".lock"):
                for url, target, size in wanted:
                    if not target.exists():  # another process may have fetched it while this one waited
                        _fetch(url, target, size, progress)
        except OSError as error:
            raise DownloadError(
                f"cannot write to the cache folder {folder}: {error.strerror or error}; "
                "free some space there, or choose another folder with JANUS_CACHE or cache_dir"
            ) from error
    for url, target, size in wanted:
        _verify(url, target, size)
    return options, weights


def _cache_root(cache_dir: str | Path | None) -> Path:
    chosen = cache_dir or os.environ.get("JANUS_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("janus-probe"))


def _is_offline(offline: bool | None) -> bool:
    if offline is not None:
        return offline
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def _fetch(url: str, target: Path, size: int | None, progress: Progress) -> None:
    """Download one file; it appears at `target` when it is complete, in one step."""
    import pooch

    with _quiet(pooch.get_logger()):
        pooch.retrieve(
            url,
            known_hash=None,
            fname=target.name,
            path=target.parent,
            downloader=ResumableDownloader(target, size, progress),
        )


def _verify(url: str, target: Path, size: int | None) -> None:
    """Check a complete file against the published size and the checksum of its first use, which is recorded if new."""
    again = f"to fetch it again, delete {target}"
    try:
        actual, digest = target.stat().st_size, sha256_of_file(target)
    except OSError as error:
        raise DownloadError(f"cannot read {target}: {error.strerror or error}; {again}") from error
    if size is not None and actual != size:
        raise DownloadError(f"{target} has {actual:,} bytes, but {size:,} were published; it is damaged; {again}")
    record = target.with_name(f"{target.name}.download.json")
    again = f"{again} and {record.name} beside it, and run the command once more"
    if not record.exists():
        # A cache that others filled may be read-only; its files can be used all the same.
        with suppress(OutputError), written_whole(record) as file:
            file.write_text(json.dumps({"url": url, "size": actual, "sha256": digest}, indent=2) + "\n")
        return
    try:
        recorded = json.loads(record.read_text())["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DownloadError(f"cannot read the checksum in {record}; {again}") from error
    if digest != recorded:
        raise DownloadError(
            f"{target} has changed since it was first used: its SHA-256 is {digest}, recorded was {recorded}; {again}"
        )


class _Interrupted(Exception):
    """An attempt failed in a way that another attempt may mend."""


class ResumableDownloader:
    """A downloader for pooch that continues unfinished downloads (HTTP range requests, RFC 9110 section 14).

    What has arrived is kept in ``<target>.part``. The server is asked to continue there if the file is still the same (by
    its ETag or date, kept in ``<target>.part.validator``); a server that cannot, or whose file has changed, sends the whole
    file, and the download starts again.

    Parameters
    ----------
    target : Path
        Where the file will finally be; the unfinished one lies beside it.
    size : int, optional
        Published size in bytes; anything else is refused.
    progress : Progress
        Receives one unit per byte, those of an earlier try included.
    """

    def __init__(self, target: Path, size: int | None = None, progress: Progress = SILENT) -> None:
        self.target = target
        self.size = size
        self.progress = progress
        self.part = target.with_name(f"{target.name}.part")
        self.validator = target.with_name(f"{target.name}.part.validator")

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Download `url` to `output_file`, which appears whole; called by pooch.

        Raises
        ------
        DownloadError
            If the file cannot be had; what has arrived is kept.
        """
        import requests

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._continue(url)
                break
            except (
                _Interrupted,
                requests.ConnectionError,
                requests.Timeout,
                requests.exceptions.ChunkedEncodingError,
            ) as e:
                if attempt == _ATTEMPTS:
                    raise DownloadError(self._advice(url, _reason(e))) from e
                time.sleep(_PAUSE * attempt)
            except requests.RequestException as error:
                raise DownloadError(self._advice(url, _reason(error))) from error
        os.replace(self.part, output_file)
        self.validator.unlink(missing_ok=True)

    def _continue(self, url: str) -> None:
        """Fetch what is missing of the part file; return when it is complete."""
        import requests

        have = self._have()
        headers = {"Accept-Encoding": "identity"}  # sizes and ranges are about the file, not its compressed form
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.validator.exists():
                headers["If-Range"] = self.validator.read_text()
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            total = self._total(response, url, have)
            if total is not None and self.size is not None and total != self.size:
                self._discard()
                raise DownloadError(
                    f"{url} has {total:,} bytes, but {self.size:,} were published; the server holds another file; "
                    f"get the published one elsewhere and save it as {self.target}"
                )
            if response.status_code != 416:
                resumed = response.status_code == 206
                with (
                    self.part.open("ab" if resumed else "wb") as file,
                    self.progress.task(f"downloading {self.target.name} (bytes)", total) as task,
                ):
                    if resumed:
                        task.advance(have)
                    else:
                        self._remember(response)
                    for block in response.iter_content(_BLOCK):
                        file.write(block)
                        task.advance(len(block))
                    file.flush()
                    os.fsync(file.fileno())
        have = self._have()
        complete = total if total is not None else self.size
        if complete is not None and have < complete:
            raise _Interrupted(f"the connection ended after {have:,} of {complete:,} bytes")
        if complete is not None and have > complete:
            self._discard()
            raise _Interrupted(f"{have:,} bytes arrived where {complete:,} were announced")

    def _total(self, response: requests.Response, url: str, have: int) -> int | None:
        """The size of the whole file as the answer announces it; refuses answers that are not (the rest of) the file."""
        status = response.status_code
        answer = f"{status} {response.reason}"
        if status == 429 or status >= 500:
            raise _Interrupted(f"the server answered {answer}")
        if status not in (200, 206, 416):
            raise DownloadError(self._advice(url, f"the server answered {answer}"))
        content_range = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", content_range.strip())
        total = int(match[2]) if match and match[2] != "*" else None
        # A range answer must continue where the part file ends; 416 means that there is nothing after it.
        fits = (match and match[1] == str(have)) if status == 206 else total == have
        if status != 200:
            if not fits:
                self._discard()
                raise _Interrupted(f"the server cannot continue after {have:,} bytes (it answered {answer})")
            return total
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise DownloadError(self._advice(url, "a web page came instead of the file (a login page of the network?)"))
        length = response.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None

    def _remember(self, response: requests.Response) -> None:
        etag = response.headers.get("ETag", "")
        # A weak ETag does not promise equal bytes and is not allowed in If-Range.
        validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        if validator:
            self.validator.write_text(validator)
        else:
            self.validator.unlink(missing_ok=True)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.validator.unlink(missing_ok=True)

    def _advice(self, url: str, reason: str) -> str:
        have = self._have()
        kept = f" ({have:,} bytes are kept, the next run continues there)" if have else ""
        return (
            f"cannot download {url}: {reason}{kept}; check the connection and run the command again, "
            f"or fetch the file by other means and save it as {self.target}"
        )


def _reason(error: Exception) -> str:
    """What went wrong, in plain words; the libraries' own messages are nested representations of objects."""
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return "no secure connection (the server's certificate was not accepted)"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy of this machine's settings cannot be used"
    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the server"
    return str(error)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Pooch's logger writes to standard error by itself; library code says nothing."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes: of two that want the same model, the second waits and finds it fetched.

    The lock goes with its process, however that ends; the empty lock file stays.
    """
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                with suppress(OSError):
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # tries for ten seconds
                    break
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
