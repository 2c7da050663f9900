"""Time and memory of each piece of a run, kept apart from the results so that those are reproducible."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stopwatch:
    """Measures wall time from its creation."""

    started: float = field(default_factory=time.perf_counter)

    def rows(self, *, words: int | None = None, **columns: Any) -> list[dict[str, Any]]:
        """Rows of the costs table: ``seconds``, ``peak_memory``, and with `words` also ``words_per_second``."""
        seconds = time.perf_counter() - self.started
        rows = [
            {**columns, "measure": "seconds", "value": seconds, "unit": "seconds"},
            {**columns, "measure": "peak_memory", "value": float(peak_memory()), "unit": "bytes"},
        ]
        if words is not None:
            rows.append(
                {
                    **columns,
                    "measure": "words_per_second",
                    "value": words / max(seconds, 1e-9),
                    "unit": "words per second",
                    "n": words,
                }
            )
        return rows


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    try:
        import resource
    except ImportError:  # Windows has no resource module.
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
