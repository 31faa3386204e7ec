"""Telemetry fails open: what goes wrong in it is logged once per cause, and the call continues."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from otelhooks.records.failures import outline

__all__ = ["fails_open", "report"]

log: logging.Logger = logging.getLogger("otelhooks.telemetry")

F = TypeVar("F", bound=Callable[..., Any])
_logged: set[tuple[str, type[Exception]]] = set()


def fails_open(function: F) -> F:
    """Make a function of telemetry return None instead of raising.

    Args:
        function: Its name and the exception's class are the cause that is logged once.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            report(function.__qualname__, error)
            return None

    return cast("F", guarded)


def report(where: str, error: Exception) -> None:
    """Log a failure of telemetry, once for each place and class; for ``except`` clauses.

    Prefer `fails_open`; code for which a further call costs too much catches by itself.
    """
    cause = (where, type(error))
    if cause not in _logged:
        _logged.add(cause)
        log.error("telemetry failed in `%s`; calls continue without it: %s", where, outline(error))
