"""How long work reports itself: one small protocol, injected, silent by default.

Library code never prints; the command line passes a reporter that draws bars or writes plain lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class ProgressTask(Protocol):
    """One running piece of work."""

    def advance(self, amount: int = 1) -> None:
        """Report that `amount` more units are done."""


class Progress(Protocol):
    """Something that shows progress."""

    def task(self, description: str, total: int | None = None) -> AbstractContextManager[ProgressTask]:
        """Open a piece of work of `total` units (None: unknown)."""

    def note(self, message: str) -> None:
        """Say something worth knowing: what was skipped, resumed or dropped, and why."""


class _SilentTask:
    def advance(self, amount: int = 1) -> None:
        pass


class Silent:
    """The default reporter: says nothing."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[ProgressTask]:
        """Accept and ignore a piece of work."""
        yield _SilentTask()

    def note(self, message: str) -> None:
        """Ignore a message."""


SILENT = Silent()
