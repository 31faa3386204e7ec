"""MCP, client and server: package ``mcp``, 1.22 and later, 2.x.

Seats, outermost first; a call passes those that lie in its process, and is judged at the first:

- ``Client.call_tool`` (2.x): the call with all the rounds in which the server asks back.
- ``ClientSession.call_tool``: every client, ``ClientSessionGroup`` and framework above it.
- ``send_request``: requests that skip ``call_tool``; in 1.x it also sends the trace context.
- the server's handler of ``tools/call``: every server, whatever the client is.
- ``Tool.run``: tools of ``FastMCP`` and ``MCPServer`` that are called without a request.
- what a server asks of its client: see `questions`.

A deny is a result that says ``isError``, the form in which MCP tells a model of a tool's error;
``Tool.run`` raises the package's ``ToolError``. A request for another kind of result gets a
JSON-RPC error. Hooks see a result's text, or its content as JSON where that is not all text; what
they return takes the place of content and structured content.

**Server identity.** On the client the server's name is that of the entry of ``mcp_servers=`` with
the same command and arguments, or the same address, or that of the framework above (its permit
names it). What a server says of itself is only that. In the server's own process its name is the
one its code gave it, unless ``mcp_servers=`` gives that name to something else.

Not caught: what ``@server.tool()`` gives back is the plain function; messages that are written to
a transport's streams by hand; a server in another process that is not instrumented, for which the
client's seats decide.
"""

from __future__ import annotations

from otelhooks.frameworks.mcp import client, connections, questions, server, sessions
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat

__all__ = ["ADAPTER", "FRAMEWORK", "SUPPORTED"]

FRAMEWORK = "mcp"
SUPPORTED = ">=1.22,<3"


def _transports() -> tuple[Seat, ...]:
    """Return the seats that learn what an application connects to; no call passes them."""
    stdio, url = connections.connected_stdio, connections.connected_url
    memory = connections.connected_memory
    functions = (
        ("mcp.client.stdio", "stdio_client", stdio, None),
        ("mcp.client.sse", "sse_client", url, None),
        ("mcp.client.streamable_http", "streamablehttp_client", url, "2"),
        ("mcp.client.streamable_http", "streamable_http_client", url, None),
        ("mcp.shared.memory", "create_client_server_memory_streams", memory, "2"),
    )
    session, dispatcher = connections.made_session, connections.made_dispatcher
    initialized = connections.initialized
    dispatchers = "mcp.shared.jsonrpc_dispatcher"
    methods = (
        ("mcp.shared.session", "BaseSession.__init__", session, None, "2"),
        ("mcp.client.session", "ClientSession.__init__", session, "2", None),
        (dispatchers, "JSONRPCDispatcher.__init__", dispatcher, "2", None),
        ("mcp.client.session", "ClientSession.initialize", initialized, None, "2"),
    )
    return tuple(
        Seat(module, target, wrapper, required=False, until=until, copies=True)
        for module, target, wrapper, until in functions
    ) + tuple(
        Seat(module, target, wrapper, required=False, since=since, until=until)
        for module, target, wrapper, since, until in methods
    )


def _sessions() -> tuple[Seat, ...]:
    """Return the seats that see how long sessions last."""
    entered, left, served = sessions.entered, sessions.left, sessions.served
    seats = (
        ("mcp.shared.session", "BaseSession.__aenter__", entered, None, "2"),
        ("mcp.shared.session", "BaseSession.__aexit__", left, None, "2"),
        ("mcp.client.session", "ClientSession.__aenter__", entered, "2", None),
        ("mcp.client.session", "ClientSession.__aexit__", left, "2", None),
    )
    return tuple(
        Seat(module, target, wrapper, required=False, since=since, until=until)
        for module, target, wrapper, since, until in seats
    ) + tuple(
        Seat("mcp.server.runner", loop, served, required=False, since="2", copies=True)
        for loop in ("serve_loop", "serve_dual_era_loop")
    )


SEATS = (
    Seat("mcp.client.client", "Client.call_tool", client.client_call, since="2", entry=True),
    Seat("mcp.client.session", "ClientSession.call_tool", client.session_call, entry=True),
    Seat("mcp.client.session", "ClientSession.send_request", client.send_request, since="2"),
    Seat("mcp.shared.session", "BaseSession.send_request", client.send_request, until="2"),
    Seat(
        "mcp.server.lowlevel.server",
        "Server.get_request_handler",
        server.request_handler,
        since="2",
        entry=True,
    ),
    Seat(
        "mcp.server.lowlevel.server",
        "Server.request_handlers",
        server.handle,
        until="2",
        entry=True,
        install=server.install_handlers,
    ),
    Seat(
        "mcp.server.mcpserver.tools.base",
        "Tool.run",
        server.run_tool,
        since="2",
        overrides=True,
    ),
    Seat("mcp.server.fastmcp.tools.base", "Tool.run", server.run_tool, until="2", overrides=True),
    Seat(
        "mcp.client.session",
        "ClientSession.dispatch_input_request",
        questions.asked,
        since="2",
    ),
    Seat("mcp.client.session", "ClientSession.__init__", questions.made_client, until="2"),
    *_transports(),
    *_sessions(),
)

ADAPTER = Adapter(
    framework=FRAMEWORK,
    packages=(Package(("mcp",), SUPPORTED, "mcp", SEATS),),
    not_covered=(
        NotCovered(
            "plain functions", "`@server.tool()` gives the decorated function back unchanged"
        ),
        NotCovered(
            "messages written to a transport's streams",
            "only requests of a client session are read",
        ),
    ),
    in_part=(
        (
            "turn.*, completion.*, delegation.*, agent.stop",
            "MCP has no agents: they fire where the program opens turns and agents itself",
        ),
        ("hide", "a tool is only denied: lists of tools are not changed"),
    ),
)
