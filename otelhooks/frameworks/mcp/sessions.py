"""How long MCP sessions last, as metrics; no call passes these seats.

A session is a client's from entering to leaving it, and a server's likewise (1.x) or while it
serves one connection (2.x, whose server sessions last for a request). A client and a server of 2.x
in one process have no connection.
"""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.telemetry import record, semconv

__all__ = ["entered", "left", "served"]

_entered: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


async def entered(wrapped: Any, session: Any) -> Any:
    """Listen to ``__aenter__`` of a session."""
    given = await wrapped()
    _entered[session] = perf_counter()
    return given


async def left(wrapped: Any, session: Any, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
    """Listen to ``__aexit__`` of a session."""
    try:
        return await wrapped(exc_type, exc_val, exc_tb)
    finally:
        started = _entered.pop(session, None)
        if started is not None:
            _record(_metric_of(session), started, exc_val)


async def served(wrapped: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
    """Listen to what serves one connection."""
    started, error = perf_counter(), None
    try:
        return await wrapped(*args, **kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        _record(semconv.METRIC_MCP_SERVER_SESSION_DURATION, started, error)


def _metric_of(session: Any) -> str:
    is_server = any(cls.__name__ == "ServerSession" for cls in type(session).__mro__)
    if is_server:
        return semconv.METRIC_MCP_SERVER_SESSION_DURATION
    return semconv.METRIC_MCP_CLIENT_SESSION_DURATION


def _record(metric: str, started: float, error: BaseException | None) -> None:
    attributes = {} if error is None else {semconv.ERROR_TYPE: kit.ToolCall.error_type(error)}
    record(metric, perf_counter() - started, attributes)
