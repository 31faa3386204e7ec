"""Tool calls: what the CLI asks before and after each, and the tools that run in this process.

The CLI runs its own tools and those of external servers. What hooks make of their results reaches
the model where the CLI takes it; elsewhere the turn is halted before the model sees the result.
"""
# pyright: basic

from __future__ import annotations

import copy
import json
from typing import Any

from otelhooks.errors import Denied
from otelhooks.frameworks import kit
from otelhooks.frameworks.claude_agent_sdk.chained import denied, verdict
from otelhooks.frameworks.claude_agent_sdk.sessions import TABLE, Claude, SubRun
from otelhooks.frameworks.kit import contents, telemetry
from otelhooks.frameworks.kit.crossings import crossing, origin
from otelhooks.frameworks.kit.mcp.results import ResultCall
from otelhooks.frameworks.kit.remote import asked

__all__ = [
    "FromSession",
    "Handled",
    "Served",
    "after_call",
    "after_error",
    "before_call",
    "permission",
    "requested",
]

_BODY = "claude_agent_sdk.body"
_SERVED, _TOOL = "mcp.server", "mcp.tool"
"""Seats of the mcp package, which a call passes on its way to a handler if they are guarded."""

_PATHS = ("file_path", "notebook_path", "path")
_CHANGED = "The arguments were changed after they had been judged."
_ENDED = "The turn was stopped, since a tool's result was taken back."


# -- what the CLI asks ------------------------------------------------------------------------


class _Asked(asked.AskedCall):
    """A call as the CLI asks about it; this one is of a tool in this process."""

    def of(self, given: dict[str, Any], args: dict[str, Any], session: Any, place: Any) -> None:
        """Read it."""
        self.full_name, (server, self.name) = place, place
        self.loop, self.id, self.key = session, given["tool_use_id"], given.get("agent_id") or ""
        self.question, self.args = given, dict(args)
        if server is not None:
            is_named = server in session.named
            self.named_at(server if is_named else None, session.places.get(server))
            if not is_named:
                self.server_says = server
            self.tool_type = "extension"
            self.is_also(given["tool_name"])
        elif (found := TABLE.get(f"claude_agent_sdk:{self.name}")) is not None:
            self.canonical, self.kind, self.tool_type = found.canonical, found.kind, "extension"
            self.work_dir = given.get("cwd")
            self.path = next(
                (args[name] for name in _PATHS if isinstance(args.get(name), str)), None
            )
        if not self.is_remote:
            self.goes_to(_BODY, self.name, self.server)


class _CliCall(asked.RemoteCall, _Asked):
    """A call of a built-in tool, or of an external server's."""

    shown: Any = None

    def value(self, raw: Any) -> Any:
        return contents.content_value(raw) if _is_content(raw) else raw

    def with_value(self, raw: Any, value: Any) -> Any:
        super().with_value(raw, value)
        self.shown = _written(self.name, raw, value)
        return raw

    def starts(self) -> list[Any]:
        """Return the run of the agent that it starts."""
        if self.name != "Agent" or self.server_says or self.server:
            return []
        kind = self.approved.get("subagent_type") or "general-purpose"
        return [SubRun.of(str(kind), str(self.approved.get("prompt") or ""), self.key)]


def _is_content(raw: Any) -> bool:
    return isinstance(raw, list) and all(contents.field(one, "type") for one in raw)


def _written(name: str, raw: Any, value: Any) -> Any:
    """Return a value in the form of a tool's result; None if the CLI would not take it."""
    text = contents.as_text(value)
    if not isinstance(raw, dict):
        return value if isinstance(value, list) else text
    if isinstance(value, dict) and value.keys() == raw.keys():
        return value
    if name in ("Bash", "PowerShell"):
        blank = {key: "" if isinstance(one, str) else one for key, one in raw.items()}
        return {**blank, "stdout": text}
    if name == "Read" and isinstance(raw.get("file"), dict):
        return {**raw, "file": {**raw["file"], "content": text}}
    return None


async def before_call(session: Any, given: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Answer ``PreToolUse``, after the application's own hooks.

    Args:
        session: The connection.
        given: What the CLI reports about the call.
        said: What those hooks answered together; empty without any.
    """
    theirs = said.get("hookSpecificOutput") or {}
    if theirs.get("permissionDecision") == "deny" or said.get("decision") == "block":
        session.denied(given["tool_use_id"], given.get("agent_id") or "")
        return denied(theirs.get("permissionDecisionReason") or said.get("reason") or "")
    args = theirs.get("updatedInput")
    args = given["tool_input"] if args is None else args
    if given["tool_name"] == "StructuredOutput" and session.turn is not None:
        session.turn.value = dict(args)
    call = await _call_of(session, given, args)
    reason = await call.ask()
    if reason is not None:
        return denied(reason)
    if call.version or args is not given["tool_input"]:
        theirs = {**theirs, "updatedInput": dict(call.approved)}
        return {**said, **verdict("PreToolUse", **theirs)}
    return said


async def _call_of(session: Any, given: dict[str, Any], args: Any, place: Any = None) -> Any:
    place = place or await session.place_of(given)
    call: Any = _Asked() if place[0] in session.servers else _CliCall()
    call.of(given, args, session, place)
    return call


async def permission(session: Any, ask: Any, name: str, args: Any, context: Any) -> Any:
    """Ask the application's ``can_use_tool``; arguments that it changes are judged once more."""
    shown = copy.deepcopy(args)
    found = await ask(name, shown, context)
    if not hasattr(found, "updated_input"):
        return found
    changed = shown if found.updated_input is None else found.updated_input
    given = {"tool_name": name, "tool_input": args, "tool_use_id": context.tool_use_id}
    given["agent_id"] = context.agent_id
    denial, found.updated_input = await _judged_again(session, given, changed)
    if denial is not None:
        return kit.native("claude_agent_sdk:PermissionResultDeny")(message=denial)
    return found


async def requested(session: Any, hook: Any, given: dict[str, Any], id: Any, context: Any) -> Any:
    """Ask a ``PermissionRequest`` hook of the application's, as `permission` does."""
    said = await hook(copy.deepcopy(given), id, context)
    theirs = (said.get("hookSpecificOutput") or {}) if isinstance(said, dict) else {}
    decision = theirs.get("decision") or {}
    if decision.get("behavior") != "allow" or decision.get("updatedInput") is None:
        return said
    changed = decision["updatedInput"]
    denial, approved = await _judged_again(session, {**given, "tool_use_id": id}, changed)
    if denial is not None:
        decision = {"behavior": "deny", "message": denial}
        return verdict("PermissionRequest", decision=decision)
    return {**said, **verdict("PermissionRequest", decision={**decision, "updatedInput": approved})}


async def _judged_again(
    session: Any, given: dict[str, Any], changed: Any
) -> tuple[str | None, dict[str, Any]]:
    """Return why a call may not run with other arguments, or None, and those that may run.

    Decision code: what cannot be judged is denied.
    """
    args, id = given["tool_input"], given["tool_use_id"]
    before = session.calls.get(id)
    try:
        if json.dumps(changed, sort_keys=True) == json.dumps(args, sort_keys=True):
            return None, args
        known = (given, None) if before is None else (before.question, before.full_name)
        again = await _call_of(session, known[0], changed, known[1])
        if not again.is_remote:
            return None, changed  # the seat at the tool's body judges what arrives there
        await session.not_run(id, _CHANGED)
        reason = await again.ask()
        return reason, dict(changed if again.approved is None else again.approved)
    except Denied as refusal:
        return refusal.reason, {}
    except Exception as error:
        telemetry.failed("arguments that were changed could not be judged", error)
        return "The changed arguments could not be judged.", {}


async def after_call(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``PostToolUse``: the model gets what hooks leave of the result, or nothing at all."""
    call = await session.returned(given["tool_use_id"], given.get("tool_response"))
    if call is None:
        return {}
    if call.shown is not None:
        return verdict("PostToolUse", updatedToolOutput=call.shown)
    session.closed = session.halted = _ENDED
    return {"continue": False, "stopReason": _ENDED}


async def after_error(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``PostToolUseFailure``: a hook's text is added, and the call stays a failure."""
    text = await session.failed(given["tool_use_id"], RuntimeError(given.get("error") or ""))
    return {} if text is None else verdict("PostToolUseFailure", additionalContext=text)


# -- what runs in this process ----------------------------------------------------------------


class Served(asked.OwnCall, ResultCall):
    """A call of a tool of a server in this process: ``Query._handle_sdk_mcp_request``.

    Its result is the answer to a JSON-RPC request.
    """

    group = _BODY

    def read(self, query: Any, server_name: str, message: dict[str, Any]) -> Any:
        """Read it."""
        session, self.message = Claude.of(query), message
        if message.get("method") != "tools/call":
            return kit.SKIP
        params = message["params"]
        self.name, self.server = params["name"], server_name
        self.tool_type = "extension"
        id = (params.get("_meta") or {}).get("claudecode/toolUseId") or ""
        self.take_for(session, params.get("arguments") or {}, id)
        self.goes_to(_SERVED, self.name, server_name)
        return None

    async def call(self, wrapped: Any, args: Any) -> Any:
        """Run the tool: its handler finds our context by the message."""
        params = self.message["params"]
        with crossing(params.get("_meta")) as meta:
            sent = {**params, "name": self.name, "arguments": args, "_meta": meta}
            return await wrapped(self.server, {**self.message, "params": sent})

    def made(self, **result: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result}

    def inner(self, raw: Any) -> Any:
        """Return the result; an error of the protocol is one as well."""
        if "result" in raw:
            return raw["result"]
        return {"content": contents.blocks_of(raw["error"]["message"]), "isError": True}


class Handled(ResultCall):
    """A call of a tool's handler: the last step of one above, or the application's own."""

    group = _TOOL
    comes_by = ""

    def read(self, tool: Any, args: Any, /) -> Any:
        """Read it."""
        self.runs_in(_origin())
        if self.comes_by and not self.is_on_its_way(self.comes_by):
            return kit.SKIP
        self.name, self.description, self.claimed_server = tool.name, tool.description, True
        self.take(args)
        return None

    def call(self, wrapped: Any, args: Any) -> Any:
        """Run the tool."""
        return wrapped(args)

    failed = kit.ToolCall.failed

    def made(self, **result: Any) -> dict[str, Any]:
        return {**result, "is_error": result.pop("isError", False)}


class FromSession(Handled):
    """One that comes from the CLI by no seat of the mcp package."""

    group = comes_by = _SERVED


def _origin() -> Any:
    """Return the context of the request that is served, if mcp 1.x does so in another task."""
    try:
        request = kit.native("mcp.server.lowlevel.server:request_ctx").get(None)
    except (AttributeError, KeyError):  # 2.x, where it arrives by itself
        return None
    return origin(request.meta) if request is not None else None
