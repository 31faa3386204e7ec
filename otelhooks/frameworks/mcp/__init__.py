"""MCP, client and server: package ``mcp``, 1.22 and later, 2.x.

Seats, outermost first; a call passes those in its process, and is judged at the first:

- ``Client.call_tool`` (2.x): the call with all the rounds in which the server asks back.
- ``ClientSession.call_tool``: every client, ``ClientSessionGroup`` and framework above it.
- ``send_request``: requests that skip ``call_tool``; in 1.x it also sends the trace context.
- the server's handler of ``tools/call``: every server, whatever the client is.
- ``Tool.run``: tools of ``FastMCP`` and ``MCPServer`` that are called without a request.
- what a server asks of its client: see `questions`.

A deny is a result with ``isError``, the form in which MCP reports a tool's error to a model;
``Tool.run`` raises the package's ``ToolError``. A request for another kind of result gets a
JSON-RPC error.

**Server identity.** On the client, the server's name is that of the entry of ``mcp_servers=`` with
the same command and arguments, or the same address, or that of the framework above (its permit has
it). A server's own name for itself proves nothing. In the server's own process its name is the one
that its code gave it, unless ``mcp_servers=`` gives that name to something else.
"""

from __future__ import annotations

import functools
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.mcp import client, connections, questions, server

__all__ = ["ADAPTER"]

_CLIENT, _SHARED, _SERVER = "mcp.client", "mcp.shared", "mcp.server"
_SESSION, _HANDLERS = f"{_CLIENT}.session:ClientSession", f"{_SERVER}.lowlevel.server:Server"
_EARLIER = f"{_SHARED}.session:BaseSession"

_look: Any = functools.partial(kit.listen, required=False)
_in_1: Any = functools.partial(_look, until="2")
_in_2: Any = functools.partial(_look, since="2")

_CALLS = (
    kit.seat(f"{_CLIENT}.client:Client.call_tool", client.HostCall, since="2", entry=True),
    kit.seat(f"{_SESSION}.call_tool", client.RoundCall, client.SessionCall, entry=True),
    kit.seat(f"{_SESSION}.send_request", client.RequestCall, since="2"),
    kit.listen(f"{_EARLIER}.send_request", client.send_with_trace, until="2"),
    kit.listen(f"{_HANDLERS}.get_request_handler", server.request_handler, since="2", entry=True),
    kit.seat(
        f"{_HANDLERS}.request_handlers",
        server.EarlierHandlerCall,
        kind="coroutine",
        item="CallToolRequest",
        until="2",
        entry=True,
    ),
    kit.seat(f"{_SERVER}.mcpserver.tools.base:Tool.run", server.ToolRun, since="2", overrides=True),
    kit.seat(f"{_SERVER}.fastmcp.tools.base:Tool.run", server.ToolRun, until="2", overrides=True),
    kit.listen(f"{_SESSION}.dispatch_input_request", questions.asked, since="2"),
    kit.listen(f"{_SESSION}.__init__", questions.made_client, until="2"),
)

_STREAMS, _HTTP = connections.connected_memory, f"{_CLIENT}.streamable_http"
_TRANSPORTS = (
    _look(f"{_CLIENT}.stdio:stdio_client", connections.connected_stdio, copies=True),
    _look(f"{_CLIENT}.sse:sse_client", connections.connected_url, copies=True),
    _in_1(f"{_HTTP}:streamablehttp_client", connections.connected_url, copies=True),
    _look(f"{_HTTP}:streamable_http_client", connections.connected_url, copies=True),
    _in_1(f"{_SHARED}.memory:create_client_server_memory_streams", _STREAMS, copies=True),
    _in_1(f"{_EARLIER}.__init__", connections.made_session),
    _in_2(f"{_SESSION}.__init__", connections.made_session),
    _in_2(f"{_SHARED}.jsonrpc_dispatcher:JSONRPCDispatcher.__init__", connections.made_dispatcher),
    _in_1(f"{_SESSION}.initialize", connections.initialized),
)
"""Seats that see what an application connects to; calls do not pass them."""

_SESSIONS = (
    _in_1(f"{_EARLIER}.__aenter__", connections.entered),
    _in_1(f"{_EARLIER}.__aexit__", connections.left),
    _in_2(f"{_SESSION}.__aenter__", connections.entered),
    _in_2(f"{_SESSION}.__aexit__", connections.left),
    _in_2(f"{_SERVER}.runner:serve_(|dual_era_)loop", connections.served, copies=True),
)
"""Seats that see how long sessions last."""

ADAPTER = kit.Adapter(
    "mcp",
    kit.Package("mcp", ">=1.22,<3", module="mcp"),
    seats=(*_CALLS, *_TRANSPORTS, *_SESSIONS),
    not_covered={
        "plain functions": "`@server.tool()` gives the decorated function back unchanged",
        "messages written to a transport's streams": "only requests of a client session are read",
    },
    in_part={
        "turn.*, completion.*, delegation.*, agent.stop": (
            "MCP has no agents: they fire where the program opens turns and agents itself"
        ),
        "hide": "a tool is only denied: lists of tools are not changed",
    },
)
