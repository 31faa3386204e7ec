"""``--since``: how far back a command looks."""

from __future__ import annotations

import re
import time
from datetime import datetime

from otelhooks.errors import ConfigError

__all__ = ["since_ns"]

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def since_ns(text: str) -> int:
    """Return the time that a text names, in nanoseconds since the Unix epoch.

    Args:
        text: ``90m``, ``24h`` or ``7d`` ago, or an ISO date or time of this machine's zone.

    Raises:
        ConfigError: It is neither.
    """
    if found := re.fullmatch(r"(\d{1,6})([smhd])", text):
        return time.time_ns() - int(found[1]) * _UNITS_S[found[2]] * 10**9
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e9)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"`{text}` is neither a duration nor a time", hint="write 90m, 24h, 7d or 2026-11-25"
        ) from None
