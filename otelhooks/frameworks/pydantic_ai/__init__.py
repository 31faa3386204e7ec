# pyright: basic
"""Pydantic AI (``pydantic-ai-slim``), 1.99 and newer.

Seats and what passes through them:

- ``ToolManager._raw_execute``: every tool call of an agent, after everything that may still change
  it: run, run_sync, streams, iter, parallel calls, MCP and other toolsets, calls that a tool
  dispatches itself, realtime sessions. It is private, and the only function that all of them pass.
- ``ToolManager.resolve_deferred_tool_calls``: calls that wait for a person, or that the application
  makes itself.
- ``FunctionToolset.call_tool``: tools that user code calls.
- ``MCPToolset.call_tool_for_app``: tools that the page of an MCP app calls.
- ``Agent.iter``: runs; all ways to run an agent end here. A capability that is added to each run
  sees its result, its model calls, and functions that make its output.
- ``AgentRealtime.session``: realtime sessions.

The model learns of a denied call as if a person had denied it, and no retry is used up; of a denied
output function by a retry. A refused run answers with the reason, without its model; if its answer
has a type of the user's own, it raises `otelhooks.errors.Denied`.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.pydantic_ai import passages

__all__ = ["ADAPTER"]

_MANAGED = "pydantic_ai.tool_manager:ToolManager._raw_execute"
_DEFERRED = "pydantic_ai.tool_manager:ToolManager.resolve_deferred_tool_calls"
_DIRECT = "pydantic_ai.toolsets.function:FunctionToolset.call_tool"
_REALTIME = "pydantic_ai.agent.abstract:AgentRealtime.session"

ADAPTER = kit.Adapter(
    "pydantic_ai",
    kit.Package(("pydantic-ai-slim", "pydantic-ai"), ">=1.99,<3", module="pydantic_ai"),
    seats=(
        kit.seat(_DIRECT, passages.DirectCall, overrides=True),
        kit.seat("pydantic_ai.mcp:MCPToolset.call_tool_for_app", passages.AppCall, required=False),
        kit.seat(_MANAGED, passages.EarlierCall, until="2.32"),
        kit.seat(_MANAGED, passages.ManagedCall, since="2.32"),
        kit.listen(_DEFERRED, passages.resolved),
        kit.seat(_REALTIME, passages.Session, required=False, entry=True),
        kit.seat("pydantic_ai.agent:Agent.iter", passages.AgentRun, entry=True),
    ),
    not_covered=(
        kit.NotCovered("native tools of the provider", "they run at the provider"),
        kit.NotCovered("the function under `@agent.tool`", "the decorator returns it unchanged"),
        kit.NotCovered(
            "`pydantic_ai.direct`, embeddings and batches",
            "a model call is seen where an agent's run makes it",
        ),
    ),
    options={"approvals": ("native", "in_place")},
    in_part=(
        ("agent.stop", "a streamed run is not sent on: its consumer has its end already"),
        ("turn.*, completion.*", "a realtime session is one run, and its model calls are not seen"),
    ),
)
