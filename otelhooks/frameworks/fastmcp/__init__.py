# pyright: basic, reportMissingImports=false
"""FastMCP, servers and clients: package ``fastmcp``, 3.0 and later, 4.x.

The package is built on ``mcp``, whose seats see a request first: a client's call, and the server's
handler. Seats here, outermost first; a call passes those on its way, and is judged at the first:

- ``FastMCP.call_tool``: requests and programs; once before the middleware, once after it.
- ``run`` of every class of tools, defined before or later: tool objects that a program runs.
- ``SamplingTool.run`` (3.x): tools of a model call that a server borrows from its client.

Each seat leaves one permit for the next one, so what middleware changes is judged again, and so is
what a tool's body calls. A proxy's tool leads to the seat of mcp's client. A mounted server judges
under its own name, and its tools under theirs. A tool that a namespace renames has both names.

A deny is a ``ToolError`` with the reason, the form in which FastMCP reports a tool's error: on the
wire it becomes a result with ``isError``, even if the server masks the details of errors.
"""

from __future__ import annotations

import contextlib
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents, telemetry
from otelhooks.frameworks.kit.objects import overrides

__all__ = ["ADAPTER"]

_CLIENT, _TOOL = "mcp.client", "mcp.tool"
"""Seats of mcp's adapter: where a proxy's call goes, and where its server leads a call."""

_BASE, _BASE_3_1 = "fastmcp.tools.base", "fastmcp.tools.tool"
_RESULTS = tuple(f"{module}:ToolResult" for module in (_BASE, _BASE_3_1))
_UNFINISHED = f"{_BASE}:InputRequiredToolResult"
_PROVIDER = "fastmcp.server.providers.fastmcp_provider"
_TRANSFORMED = "fastmcp.tools.tool_transform:TransformedTool"
_PROXY = "fastmcp.server.providers.proxy:ProxyTool"
_NAMESPACE = "fastmcp.server.transforms.namespace:Namespace"
_NAMES = "_otelhooks_names"


class _Call(kit.ToolCall):
    """A call that raises its refusal; its result is content, and often the same structured."""

    tool: Any = None

    def denied(self, reason: str) -> Any:
        return self.raised(_tool_error(reason))

    def failed(self, error: BaseException, message: str) -> Any:
        replaced = _tool_error(message)
        replaced.__cause__ = error
        return self.raised(replaced)

    def is_paused(self, raw: Any) -> bool:
        """Return whether the body has not finished: it asks the client, or runs in background."""
        if kit.is_a(raw, *_RESULTS):
            return kit.is_a(raw, _UNFINISHED)
        return kit.is_a(raw, "pydantic.main:BaseModel")

    def value(self, raw: Any) -> Any:
        return contents.value_of(raw) if kit.is_a(raw, *_RESULTS) else raw

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return a result with another value, also in its structured form; raise if none fits."""
        if not kit.is_a(raw, *_RESULTS):  # of a tool's own `run`, which may return anything
            return _result({"content": contents.blocks_of(value)})
        fields = contents.replaced(raw, value, keeps_schema=True)
        if fields["isError"]:
            return self.raised(_tool_error(self.text_of(value)))
        meta = {key: each for key, each in (raw.meta or {}).items() if key == "fastmcp"}
        return _result(fields, meta or None)

    def error(self, raw: Any) -> str | None:
        return contents.error_of(raw) if kit.is_a(raw, *_RESULTS) else None

    def recovered(self, value: Any) -> Any:
        """Return a value as the tool would: its clients check the result against its schema."""
        if self.tool is not None:
            return self.tool.convert_result(value)
        return _result({"content": contents.blocks_of(value)})


class ServerCall(_Call):
    """``FastMCP.call_tool``, which calls itself after the middleware."""

    group = _TOOL

    def read(self, server: Any, name: str, arguments: Any = None, **further: Any) -> None:
        self.app, self.name, self.further = server, name, further
        self.take(dict(arguments or {}))
        self.is_served_by(server.name)

    async def call(self, wrapped: Any, args: Any) -> Any:
        """Call it without FastMCP's own spans, which ours replace, and find out what failed."""
        try:
            with _without_spans():
                return await wrapped(self.name, args, **self.further)
        except Exception:
            with contextlib.suppress(Exception):  # it may be an unknown tool
                self.tool = await self.app.get_tool(self.name, self.further.get("version"))
            raise

    def next_seat(self) -> Any:
        return self.at(_TOOL)


class ToolRun(_Call):
    """``run`` of a tool."""

    group = _TOOL

    def read(self, tool: Any, arguments: Any, *rest: Any, **further: Any) -> Any:
        if self.function.__module__ == _PROVIDER:  # it calls the mounted server, which has a seat
            return kit.SKIP
        self.tool = self.owner = tool
        self.name, self.description = tool.name, tool.description
        self.rest, self.further = rest, further
        self.take(dict(arguments or {}))
        context = kit.native("fastmcp.server.context:_current_context").get(None)
        self.is_served_by(context.fastmcp.name if context is not None else None)
        self.is_also(*getattr(tool, _NAMES, ()))
        return None

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args, *self.rest, **self.further)

    def next_seat(self) -> Any:
        """Continue to another method or tool of this name, a proxy's client, or a function.

        Under another name it is judged again: a rule may name either.
        """
        if kit.is_a(self.tool, _PROXY):
            return self.at(_CLIENT)
        is_made_of = kit.is_a(self.tool, _TRANSFORMED)
        if is_made_of or overrides.Method(self.tool, "run").calls_on(self.function):
            below = self.tool.parent_tool if is_made_of else self.tool
            return self.at(_TOOL)._replace(owner=below)
        return self.at_seat_of(getattr(self.tool, "fn", None))

    def stages(self) -> Any:
        return self.stages_of(getattr(self.tool, "fn", None))


class SamplingRun(kit.ToolCall):
    """``SamplingTool.run``, of the loop that a server of 3.x runs with its client's model."""

    def read(self, tool: Any, arguments: Any = None) -> None:
        self.name, self.description = tool.name, tool.description
        self.take(dict(arguments or {}))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args)

    def denied(self, reason: str) -> Any:
        return self.raised(_tool_error(reason))


async def keep_names(wrapped: Any, namespace: Any, *args: Any, **given: Any) -> Any:
    """Note in the copies of tools that get a prefix the names that they had without it."""
    found = await wrapped(*args, **given)
    for tool in found if isinstance(found, list) else filter(None, [found]):
        names = getattr(tool, _NAMES, ())
        setattr(tool, _NAMES, (*names, namespace._reverse_name(tool.name)))
    return found


def _tool_error(reason: str) -> Exception:
    return kit.native("fastmcp.exceptions:ToolError")(reason)


def _result(fields: dict[str, Any], meta: Any = None) -> Any:
    """Return a tool's result from the JSON of MCP's."""
    content = kit.native("mcp.types:CallToolResult").model_validate(fields).content
    structured = fields.get("structuredContent")
    made = kit.native("fastmcp.tools:ToolResult")
    return made(content=content, structured_content=structured, meta=meta)


def _without_spans() -> Any:
    try:
        suppress = kit.native("fastmcp.telemetry:suppress_fastmcp_telemetry")
    except AttributeError:  # 3.x
        return contextlib.nullcontext()
    return suppress() if telemetry.replaces_spans("fastmcp") else contextlib.nullcontext()


def _run(module: str, **versions: Any) -> Any:
    return kit.seat(f"{module}:Tool.run", ToolRun, kind="coroutine", overrides=True, **versions)


ADAPTER = kit.Adapter(
    "fastmcp",
    kit.Package(("fastmcp", "fastmcp-slim"), ">=3.0,<5", module="fastmcp"),
    seats=(
        kit.seat(
            "fastmcp.server.server:FastMCP.call_tool",
            ServerCall,
            kind="coroutine",
            overrides=True,
            entry=True,
        ),
        _run(_BASE, since="3.2"),
        _run(_BASE_3_1, until="3.2"),
        kit.listen(f"{_NAMESPACE}.get_tool", keep_names),
        kit.listen(f"{_NAMESPACE}.list_tools", keep_names),
        kit.seat(
            "fastmcp.server.sampling.sampling_tool:SamplingTool.run",
            SamplingRun,
            until="4",
            required=False,
        ),
    ),
    not_covered={
        "plain functions": "`@server.tool` gives the decorated function back unchanged",
        "results of background tasks": (
            "a task is judged before it is stored; a worker runs it later, without a seat"
        ),
        "model calls that a server borrows from its client": (
            "the client's model answers; only the tools that a server of 3.x runs are judged"
        ),
    },
    in_part={
        "turn.*, completion.*, delegation.*, agent.stop": (
            "MCP has no agents: they fire where the program opens turns and agents itself"
        ),
        "hide": "a tool is only denied: lists of tools are not changed",
    },
)
