"""How the command line talks: bars with the remaining time on a terminal, plain lines in a pipe, silence on demand.

Everything that is not a result goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from extractors.foundation.progress import SILENT, Progress, ProgressTask

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 15.0


class _Bar:
    def __init__(self, progress: RichProgress, identity: TaskID) -> None:
        self._progress, self._identity = progress, identity

    def advance(self, amount: int = 1) -> None:
        self._progress.advance(self._identity, amount)


class Bars:
    """Progress bars with the remaining time, for a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._open = 0

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[ProgressTask]:
        """Show a bar while the work runs."""
        if self._open == 0:
            self._progress.start()
        self._open += 1
        identity = self._progress.add_task(description, total=total)
        try:
            yield _Bar(self._progress, identity)
        finally:
            self._progress.remove_task(identity)
            self._open -= 1
            if self._open == 0:
                self._progress.stop()

    def note(self, message: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(message, markup=False, highlight=False)


class _Line:
    def __init__(self, description: str, total: int | None) -> None:
        self._description, self._total, self._done = description, total, 0
        self._start = self._last = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            of = f"/{self._total}" if self._total else ""
            left = (now - self._start) / self._done * (self._total - self._done) if self._total and self._done else None
            remaining = f", about {left:.0f} s left" if left is not None else ""
            _write(f"{self._description}: {self._done}{of}{remaining}")


class Lines:
    """Plain lines, for a pipe or a log: at most one every fifteen seconds for each piece of work."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[ProgressTask]:
        """Print now and then while the work runs."""
        yield _Line(description, total)

    def note(self, message: str) -> None:
        """Print a line."""
        _write(message)


def reporter(*, quiet: bool) -> Progress:
    """The reporter that fits where standard error goes."""
    if quiet:
        return SILENT
    # A dumb terminal (an editor's shell, some batch systems) cannot draw over a line.
    drawable = sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return Bars() if drawable else Lines()


def _write(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
