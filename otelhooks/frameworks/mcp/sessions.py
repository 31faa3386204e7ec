"""How long MCP sessions last, as metrics; calls do not pass these seats.

A client's session lasts from entering to leaving it, and so does a server's in 1.x; in 2.x a
server's lasts while it serves one connection (its session objects last for a request). A client and
a server of 2.x in one process have no connection.
"""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.telemetry import record, semconv

__all__ = ["entered", "left", "served"]

_CLIENT = semconv.METRIC_MCP_CLIENT_SESSION_DURATION
_SERVER = semconv.METRIC_MCP_SERVER_SESSION_DURATION

_entered: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


async def entered(wrapped: Any, session: Any) -> Any:
    """Listen to ``__aenter__`` of a session."""
    given = await wrapped()
    _entered[session] = perf_counter()
    return given


async def left(wrapped: Any, session: Any, *failure: Any) -> Any:
    """Listen to ``__aexit__`` of a session."""
    try:
        return await wrapped(*failure)
    finally:
        if (started := _entered.pop(session, None)) is not None:
            is_server = any(cls.__name__ == "ServerSession" for cls in type(session).__mro__)
            _record(_SERVER if is_server else _CLIENT, started, failure[1])


async def served(wrapped: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
    """Listen to the function that serves one connection."""
    started, failure = perf_counter(), None
    try:
        return await wrapped(*args, **kwargs)
    except BaseException as error:
        failure = error
        raise
    finally:
        _record(_SERVER, started, failure)


def _record(metric: str, started: float, error: BaseException | None) -> None:
    attributes = {} if error is None else {semconv.ERROR_TYPE: kit.ToolCall.error_type(error)}
    record(metric, perf_counter() - started, attributes)
