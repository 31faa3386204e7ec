# pyright: basic
"""Strands (``strands-agents``), 1.43 and newer.

Seats and what passes through them:

- ``AgentTool.stream``, and every method that overrides it: tool calls. It is the last point before
  a body, behind hooks, middleware and executors, which may all exchange the tool or its input.
- ``MCPClient.call_tool_async`` and ``call_tool_sync``: calls of MCP servers that a router tool or
  user code makes.
- ``DecoratedFunctionTool.__call__``, and what overrides it: tools that user code calls
  like functions.
- ``Model.stream``, and what overrides it: model calls.
- ``stream_async`` of ``Agent``, ``Graph`` and ``Swarm``: runs; all ways to start one end here.

The framework's own spans of tools and models get the verdicts. Its spans of runs are left out:
otelhooks has a span for each.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.strands.models import ModelCall
from otelhooks.frameworks.strands.runs import AgentRun, Workflow, native_span
from otelhooks.frameworks.strands.tools import BUILT_IN, ClientCall, FunctionCall, Tool

__all__ = ["ADAPTER"]

_CLIENT = "strands.tools.mcp.mcp_client:MCPClient"
_TRACER = "strands.telemetry.tracer:Tracer"

ADAPTER = kit.Adapter(
    "strands",
    kit.Package("strands-agents", ">=1.43,<2", module="strands"),
    seats=(
        kit.seat(
            "strands.types.tools:AgentTool.stream", Tool, overrides=True, kind="async generator"
        ),
        kit.seat(
            "strands.tools.decorator:DecoratedFunctionTool.__call__", FunctionCall, overrides=True
        ),
        kit.seat(f"{_CLIENT}.call_tool_(async|sync)", ClientCall),
        kit.seat(
            "strands.models.model:Model.stream", ModelCall, overrides=True, kind="async generator"
        ),
        kit.seat("strands.multiagent.(graph:Graph|swarm:Swarm).stream_async", Workflow, entry=True),
        kit.seat("strands.agent.agent:Agent.stream_async", AgentRun, entry=True, overrides=True),
        kit.listen(f"{_TRACER}.start_(|multi)agent_span", native_span),
    ),
    not_covered={
        "the function under `@tool`": "what is called is plain Python",
        "a function that is set as `stream` on one tool object": (
            "called there, it passes nothing of the framework"
        ),
        "tools whose class does not extend `AgentTool`: registered, or put in by a hook": (
            "a call of such an object passes nothing of the framework; it is counted as a gap"
        ),
        "tools of the provider": "they run there",
        "`A2AAgent`": "the agent runs on another machine",
        "`Model.structured_output`, and `Agent.structured_output`, which calls it": (
            "deprecated: where a provider does not stream, the call is not seen"
        ),
    },
    built_in=BUILT_IN,
    options={"approvals": ("native", "in_place")},
    in_part={
        "turn.*, completion.*": (
            "a bidirectional agent's tools are guarded; it has no runs, and its model is not seen"
        ),
    },
)
