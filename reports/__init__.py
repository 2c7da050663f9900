"""Tidy results in, figures and one self-contained HTML page out. Never computes a measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reports.render import render_report

__all__ = ["render_report"]


def __getattr__(name: str) -> Any:
    """Load `render_report` on first use, so that importing the package stays cheap."""
    if name == "render_report":
        from reports.render import render_report

        return render_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
