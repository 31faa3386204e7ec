"""A server of its own process whose definitions change: run as a script, stdio or HTTP.

It is not instrumented. Each list is read from a file, so that a test can change it meanwhile: pages
of tools in the protocol's JSON. Each call appends the tool's name to another file; a call of
`announce` also sends ``notifications/tools/list_changed``.

Usage: mcp_changing.py NAME LISTS RAN [PORT]
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

sys.path = [
    entry for entry in sys.path if pathlib.Path(entry or ".") != pathlib.Path(__file__).parent
]

try:
    from mcp import types
    from mcp.server.mcpserver import MCPServer as HighLevel
except ModuleNotFoundError:
    from mcp import types
    from mcp.server.fastmcp import FastMCP as HighLevel

name, lists, ran = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
server = HighLevel(name)


def page(params: Any) -> Any:
    pages = json.loads(lists.read_text())
    number = int(getattr(params, "cursor", None) or 0)
    more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
    return types.ListToolsResult.model_validate({"tools": pages[number], **more})


def note(tool: str) -> None:
    with ran.open("a") as file:
        file.write(f"{tool}\n")


async def ran_by(params: Any, session: Any) -> Any:
    note(params.name)
    if params.name == "announce":
        await session.send_tool_list_changed()
    return types.CallToolResult.model_validate({"content": [{"type": "text", "text": "done"}]})


if hasattr(server, "_mcp_server"):
    handlers = server._mcp_server.request_handlers
    context = server._mcp_server

    async def listed(request: Any) -> Any:
        return types.ServerResult(page(request.params))

    async def called(request: Any) -> Any:
        return types.ServerResult(await ran_by(request.params, context.request_context.session))

    handlers[types.ListToolsRequest], handlers[types.CallToolRequest] = listed, called
else:
    low = server._lowlevel_server

    async def listed_2(context: Any, params: Any) -> Any:
        return page(params)

    async def called_2(context: Any, params: Any) -> Any:
        return await ran_by(params, context.session)

    low.add_request_handler("tools/list", types.PaginatedRequestParams, listed_2)
    low.add_request_handler("tools/call", types.CallToolRequestParams, called_2)


if __name__ == "__main__":
    if sys.argv[4:]:
        import uvicorn

        app = server.streamable_http_app()
        uvicorn.run(app, port=int(sys.argv[4]), log_level="error", ws="none")
    else:
        server.run()
