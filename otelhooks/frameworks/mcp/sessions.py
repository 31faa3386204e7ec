"""How long MCP sessions last, as metrics; no call passes these seats.

A session is a client's from entering to leaving it, and a server's likewise (1.x) or while it
serves one connection (2.x, whose server sessions last for a request). A client and a server of 2.x
in one process have no connection.
"""

from __future__ import annotations

import weakref
from collections.abc import Coroutine
from time import perf_counter
from typing import Any

from otelhooks.pipeline import runtime
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type

__all__ = ["entered", "left", "served"]

_entered: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


async def entered(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap ``__aenter__`` of a session."""
    session = await wrapped(*args, **kwargs)
    _entered[instance] = perf_counter()
    return session


async def left(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap ``__aexit__`` of a session."""
    error: BaseException | None = args[1] if len(args) > 1 else kwargs.get("exc_val")
    try:
        return await wrapped(*args, **kwargs)
    finally:
        started = _entered.pop(instance, None)
        if started is not None:
            _record(_metric_of(instance), started, error)


def served(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]:
    """Wrap what serves one connection."""
    return _serve(wrapped(*args, **kwargs))


async def _serve(running: Any) -> Any:
    started, error = perf_counter(), None
    try:
        return await running
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


@fails_open
def _record(metric: str, started: float, error: BaseException | None) -> None:
    rt = runtime.active()
    if rt is not None:
        attributes = {} if error is None else {semconv.ERROR_TYPE: error_type(error)}
        rt.instruments.record(metric, perf_counter() - started, attributes)
