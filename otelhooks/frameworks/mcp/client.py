"""The client's wrappers: calls, their rounds, and the requests that they become."""
# pyright: basic

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as otel_context

from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import Peer, peer_of
from otelhooks.frameworks.mcp.seats import (
    ROUND,
    Host,
    Request,
    Round,
    Session,
    client_call_of,
    or_none,
)
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.frames import Op, current_frame
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.telemetry import semconv

__all__ = ["client_call", "send_request", "session_call"]


def _call_tool(
    seat: Callable[[Peer], ToolSeat],
    session: Any,
    wrapped: Any,
    args: Any,
    kwargs: Any,
) -> Any:
    rt = runtime.active()
    given = dict(zip(("name", "arguments"), args, strict=False)) | kwargs
    if rt is None or "name" not in given:
        return wrapped(*args, **kwargs)
    name, arguments, rest = given.pop("name"), given.pop("arguments", None), args[2:]
    peer = peer_of(session) if session is not None else Peer()
    call = client_call_of(rt, peer, session, name, arguments)
    return adrive(
        tool(rt, seat(peer), call),
        lambda approved: wrapped(name, or_none(arguments, approved), *rest, **given),
    )


def client_call(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap `Client.call_tool` of 2.x."""
    return _call_tool(Host, instance._session, wrapped, args, kwargs)


def session_call(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap `ClientSession.call_tool`."""
    answers = kwargs.get("input_responses") is not None or kwargs.get("request_state") is not None
    return _call_tool(_seat_of_round if answers else Session, instance, wrapped, args, kwargs)


def _seat_of_round(peer: Peer) -> ToolSeat:
    """Return the seat of a call with answers: a round of an open call, or one of its own."""
    frame = current_frame()
    goes_on = type(frame) is Op and frame.permits.holds(ROUND)
    return Round(peer) if goes_on else Session(peer)


def send_request(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap `send_request` of 2.x, and of sessions of both sides in 1.x."""
    rt = runtime.active()
    request, rest = (args[0], args[1:]) if args else (kwargs["request"], ())
    kwargs = {key: value for key, value in kwargs.items() if key != "request"}
    params = wire.params_of(request)
    peer = peer_of(instance)
    if rt is None or params is None:
        sent = request if rt is None or _is_2(instance) else wire.with_trace(request)
        return wrapped(sent, *rest, **kwargs)
    arguments = wire.field(params, "arguments")
    call = client_call_of(rt, peer, instance, wire.field(params, "name"), arguments)
    seat = Request(peer, rest[0] if rest else kwargs.get("result_type"))

    def send(approved: dict[str, Any]) -> Awaitable[Any]:
        # The name too: whoever holds the request may have written another one meanwhile.
        changes = {"name": call.name, "arguments": or_none(arguments, approved)}
        written = wire.copy_request(request, **changes)
        return _send(peer, instance, wrapped, written, rest, kwargs)

    return adrive(tool(rt, seat, call), send)


def _is_2(session: Any) -> bool:
    return hasattr(session, "dispatch_input_request")


async def _send(
    peer: Peer, session: Any, wrapped: Any, request: Any, rest: Any, kwargs: Any
) -> Any:
    """Send a call; while it is open, what the server asks belongs to it."""
    context = otel_context.get_current()
    number = None
    if not _is_2(session):
        request = wire.with_trace(request)
        number = getattr(session, "_request_id", None)  # taken before anything else runs
        frame = current_frame()
        if number is not None and type(frame) is Op and frame.span is not None:
            frame.span.set_attribute(semconv.JSONRPC_REQUEST_ID, str(number))
    link = peer.link if number is not None else None
    if link is not None:
        link.sent[number] = context
    peer.calls.append(context)
    try:
        return await wrapped(request, *rest, **kwargs)
    finally:
        peer.calls.remove(context)
        if link is not None:
            link.sent.pop(number, None)
