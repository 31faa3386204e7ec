# pyright: basic, reportMissingImports=false
"""Hedera Agent Kit for Python: package ``hedera-agent-kit``, 3.0 and later.

The kit has tools, but no model and no turn: those are the agent framework's. Seats, outermost
first; a call passes those that lie on its way, and is judged at the first:

- ``HederaAgentKitTool._arun``: no call is judged here; the permit of langchain's seat, which is
  outside, is made one for the parameters as langchain has validated them.
- ``HederaAgentAPI.run``: the toolkits for langchain, Google's ADK and MCP, and programs.
- ``execute`` of every class of tools, defined before or later: tool objects that a program calls.
- ``normalize_params``, ``core_action``, ``secondary_action`` (3.4): the steps of the second
  generation of tools, for hooks between them.
- ``handle_error`` (3.4): the exception that becomes a tool's answer.

A deny is a ``ToolResponse`` with the reason as message and as error, the form in which the kit
tells a model of a tool's error; the tool's ``handle_error``, which could tell something else, is
not asked. Hooks see the response; one that they return goes on, a text becomes the message of one
that keeps only the ledger's receipt.

Not caught: a function that is set as ``execute`` on one tool object, or on a class after it was
defined, and is called there without the API; the steps of a tool, called one by one.
"""

from __future__ import annotations

import inspect
from typing import Any

from otelhooks.frameworks.hedera_agent_kit import results, steps
from otelhooks.frameworks.hedera_agent_kit.arguments import Given
from otelhooks.frameworks.hedera_agent_kit.seats import (
    BUILT_IN,
    FRAMEWORK,
    LANGCHAIN,
    MCP,
    ToolRun,
    calls_on,
    come_from_langchain,
    find,
    is_guarded,
    kind_of,
    lead_on,
    running,
)
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.leads import Lead, register
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_stages import Stopped

__all__ = ["ADAPTER", "FRAMEWORK", "SUPPORTED"]

SUPPORTED = ">=3.0,<4"


def run_method(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``HederaAgentAPI.run`` and what overrides it."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    method = args[0] if args else kwargs.get("method")
    given = Given(wrapped, 1, "arg", args, kwargs)
    kind = kind_of(find(instance, method))
    run = ToolRun(instance, str(method), given, steps.at_api(instance, method), kind)
    run.come_from_mcp(rt)

    def body(approved: dict[str, Any]) -> Any:
        written, next_tool = given.write(approved), find(instance, method)
        if calls_on(instance, "run", wrapped):
            lead_on(instance, run.call.name, written)
        elif is_guarded(next_tool):
            lead_on(next_tool, run.call.name, written)
        return _awaited(given.call(wrapped, written))

    return adrive(tool(rt, run, run.call), body)


def execute(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``Tool.execute``, of which every class of tools has its own."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    given = Given(wrapped, 2, "params", args, kwargs)
    name = str(getattr(instance, "method", type(instance).__name__))
    params = steps.at_tool(instance, name, args, kwargs)
    run = ToolRun(instance, name, given, params, kind_of(instance))

    async def body(approved: dict[str, Any]) -> Any:
        written = given.write(approved)
        if calls_on(instance, "execute", wrapped):
            lead_on(instance, run.call.name, written)
        with run.open(instance):
            try:
                return await _awaited(given.call(wrapped, written))
            except Stopped as stopped:  # the call is denied, whatever comes of this
                return results.refusal(instance, stopped.told)

    return adrive(tool(rt, run, run.call), body)


async def _awaited(value: Any) -> Any:
    """Wait for what is awaitable: a tool's method need not be a coroutine function."""
    return await value if inspect.isawaitable(value) else value


def from_langchain(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Lead a call that langchain's seat has judged on to the API."""
    if runtime.active() is not None:
        come_from_langchain(instance, kwargs)
    return wrapped(*args, **kwargs)


def note_error(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Keep the exception that a tool makes a response of."""
    run, error = running.get(), args[0] if args else kwargs.get("error")
    if run is not None and run.tool is instance and isinstance(error, Exception):
        run.exception = error
    return wrapped(*args, **kwargs)


async def refuse(error: Any, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Answer a call of a refused package in the kit's form of an error."""
    return results.refusal(instance, str(error))


register(
    "hedera_agent_kit.langchain.tool", "HederaAgentKitTool", Lead(LANGCHAIN, steps.behind_langchain)
)
register("hedera_agent_kit.mcp.toolkit", "", Lead(MCP, steps.behind_mcp))

_API, _TOOL = "hedera_agent_kit.shared.api", "hedera_agent_kit.shared.tool"
_TOOL_V2 = "hedera_agent_kit.shared.tool_v2"

SEATS = (
    Seat(_TOOL, "Tool.execute", execute, refuse=refuse, overrides=True),
    Seat(_API, "HederaAgentAPI.run", run_method, entry=True, overrides=True),
    Seat(_TOOL_V2, "BaseToolV2.handle_error", note_error, since="3.4", overrides=True),
    Seat(_TOOL_V2, "BaseToolV2.normalize_params", steps.normalize, since="3.4", overrides=True),
    Seat(_TOOL_V2, "BaseToolV2.core_action", steps.act, since="3.4", overrides=True),
    Seat(_TOOL_V2, "BaseToolV2.secondary_action", steps.commit, since="3.4", overrides=True),
    Seat(
        "hedera_agent_kit.langchain.tool",
        "HederaAgentKitTool._arun",
        from_langchain,
        required=False,
        overrides=True,
    ),
)

ADAPTER = Adapter(
    framework=FRAMEWORK,
    packages=(Package(("hedera-agent-kit",), SUPPORTED, "hedera_agent_kit", SEATS),),
    not_covered=(
        NotCovered(
            "a function that is set as `execute` on a tool object, or later on its class",
            "called there, it passes nothing of the kit; through the API it is guarded",
        ),
        NotCovered(
            "steps of a tool, called one by one",
            "they are judged as parts of `execute`",
        ),
    ),
    built_in=BUILT_IN,
    in_part=(
        (
            "turn.*, completion.*, delegation.*, agent.stop",
            "the kit has no agents: they fire with those of the framework or program around it",
        ),
        ("hide", "a tool is only denied: what a toolkit offers is not changed"),
    ),
)
