"""What a type checker knows of the public API; checked by pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from typing_extensions import assert_type

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.approvals import Terminal
from otelhooks.audit import Audit
from otelhooks.config import Config
from otelhooks.hooks import HookContext, HookRunner, OperationContext, TurnContext
from otelhooks.policy import AutoPolicy, Policy, PolicyHook

# -- instrument -------------------------------------------------------------------------------

handle = otelhooks.instrument(
    policies=[policy.deny("run_command"), policy.workspace_only(["."])],
    frameworks={"mcp": "off", "langchain": {"spans": "own"}},
    mode="monitor",
    approvals=Terminal(),
    audit=Audit("audit"),
    strict=None,
)
assert_type(handle, otelhooks.Handle)
assert_type(handle.config, Config)
assert_type(handle.force_flush(1.5), bool)
assert_type(handle.register(policy.allow_all()), None)
assert_type([row.framework for row in handle.coverage], list[str])
assert_type([seat.required for row in handle.coverage for seat in row.seats], list[bool])
assert_type(otelhooks.uninstrument(), None)
assert_type(otelhooks.__version__, str)

otelhooks.instrument(mode="observe")  # pyright: ignore[reportArgumentType]
otelhooks.instrument(policy=[])  # pyright: ignore[reportCallIssue]


# -- decorators keep the function's own type ----------------------------------------------------


@otelhooks.tool
def add(a: int, b: int) -> int:
    return a + b


@otelhooks.tool(name="fetch_page", server="web")
async def fetch(url: str) -> bytes:
    return url.encode()


@otelhooks.tool
def lines(path: str) -> Iterator[str]:
    yield path


@otelhooks.agent("ops")
async def ops(message: str) -> str:
    return message


@otelhooks.model_call(model="m", provider="openai")
async def ask(messages: list[str]) -> AsyncIterator[str]:
    for message in messages:
        yield message


assert_type(add(1, b=2), int)
assert_type(otelhooks.call_tool("add", {"a": 1, "b": 2}, add, id="call_7"), int)
otelhooks.call_tool("add", "{}", add)  # pyright: ignore[reportArgumentType]
assert_type(lines("a"), Iterator[str])
add("1", 2)  # pyright: ignore[reportArgumentType]


async def calls() -> None:
    assert_type(await fetch("u"), bytes)
    assert_type(await ops("hello"), str)
    async for part in ask(["hello"]):
        assert_type(part, str)


# -- session, turn, scope -----------------------------------------------------------------------

with otelhooks.session("conversation-7", user="u-1", trace="single") as session:
    assert_type(session, hooks.SessionContext)
    with otelhooks.turn("hello", agent="ops") as turn:
        assert_type(turn, otelhooks.turn)
        assert_type(turn.answer("done"), None)
    with otelhooks.scope(agent="researcher", policies=[policy.deny("send_email")]) as nothing:
        assert_type(nothing, None)


async def a_turn() -> None:
    async with otelhooks.turn("hello") as turn:
        assert_type(turn, otelhooks.turn)


assert_type(otelhooks.current_context(), HookContext | None)
assert_type(otelhooks.emit("custom.deploy", {"to": "prod"}), tuple[str, dict[str, Any], str])


# -- rules --------------------------------------------------------------------------------------


def is_dangerous(args: dict[str, Any]) -> bool:
    return "rm -rf" in args["CommandLine"]


async def approve(call: types.ToolCall, reason: str) -> bool:
    return call.name == "send_email" and bool(reason)


server = types.McpStdioServer(name="github", command="github-mcp")
assert_type(policy.allow("view_file"), Policy)
assert_type(policy.deny("run_command", when=is_dangerous, severity="high"), Policy)
assert_type(policy.ask_user("send_email", approve), Policy)
assert_type(policy.veto("run_command"), Policy)
assert_type(policy.hide("run_command"), Policy)
assert_type(policy.deny(server, ["delete_repo"]), list[Policy])
assert_type(policy.ask_user(server), list[Policy])
assert_type(policy.deny(["run_command", "edit_file"], when='"x" in args'), list[Policy])
assert_type(policy.allow_all(), Policy)
assert_type(policy.confirm_run_command(), list[Policy])
assert_type(policy.workspace_only(["."], {"render": "template"}), list[Policy])
assert_type(policy.auto(), AutoPolicy)
assert_type(policy.auto().only_when(lambda: True), AutoPolicy)
assert_type(policy.enforce([policy.deny_all()], mcp_servers=[server]), PolicyHook)
assert_type(policy.flatten_policies([policy.allow_all(), [policy.deny_all()]]), list[Policy])

policy.deny("run_command", ["a"])  # pyright: ignore[reportCallIssue, reportArgumentType]
policy.veto("run_command", mode="monitor")  # pyright: ignore[reportCallIssue]
policy.allow("view_file", wen=is_dangerous)  # pyright: ignore[reportCallIssue]
policy.deny("view_file", mode="observe")  # pyright: ignore[reportArgumentType, reportCallIssue]
policy.deny("view_file", handler=approve)  # pyright: ignore[reportCallIssue]
policy.hide(server, when=is_dangerous)  # pyright: ignore[reportCallIssue]


# -- hooks --------------------------------------------------------------------------------------


class Guard(hooks.PreToolCallDecideHook):
    priority = 1

    async def run(self, context: HookContext, data: types.ToolCall) -> types.HookResult:
        assert_type(context.get("calls", 0), Any)
        assert_type(context.trace_id, str)
        assert_type(data.args["path"], Any)
        return types.HookResult(allow=False, message="no", severity="low")


class Mask(hooks.PostToolCallTransformHook):
    async def run(self, context: HookContext, data: types.ToolResult) -> str | None:
        assert_type(data.error, str | None)
        assert_type(data.duration, float | None)
        return None


async def dispatch(runner: HookRunner) -> None:
    result, turn = await runner.dispatch_pre_turn("hello")
    assert_type(result, types.HookResult)
    assert_type(turn, TurnContext)
    call = types.ToolCall(name="run_command", args={"CommandLine": "ls"})
    decided = await runner.dispatch_pre_tool_call(turn, call)
    assert_type(decided, tuple[types.HookResult, types.ToolCall, OperationContext])
    stop = await runner.dispatch_stop(turn, types.StopArgs())
    assert_type(stop, types.StopHookResult)


assert_type(hooks.current_branch(), str)
with hooks.agent_scope("researcher") as branch:
    assert_type(branch, str)


# -- errors -------------------------------------------------------------------------------------

try:
    add(1, 2)
except errors.Denied as denied:
    assert_type(denied.reason, str)
    assert_type(denied.rule_id, str)
except errors.SeatError as error:
    assert_type(error.supported, str)
except errors.PolicyFileError as error:
    assert_type(error.line, int)
except errors.ConfigError as error:
    assert_type(error.hint, str)
