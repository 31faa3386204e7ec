"""Where content is recorded."""

from __future__ import annotations

from enum import Enum

__all__ = ["CaptureMode"]


class CaptureMode(str, Enum):
    """Where content is recorded; the default records none."""

    NO_CONTENT = "NO_CONTENT"
    SPAN_ONLY = "SPAN_ONLY"
    EVENT_ONLY = "EVENT_ONLY"
    SPAN_AND_EVENT = "SPAN_AND_EVENT"

    @property
    def on_span(self) -> bool:
        """True if spans carry content."""
        return self in (CaptureMode.SPAN_ONLY, CaptureMode.SPAN_AND_EVENT)

    @property
    def on_event(self) -> bool:
        """True if log records carry content."""
        return self in (CaptureMode.EVENT_ONLY, CaptureMode.SPAN_AND_EVENT)
