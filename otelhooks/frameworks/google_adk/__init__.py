# pyright: basic
"""Google's Agent Development Kit (``google-adk``), 2.7 and newer.

Seats and what passes through them:

- ``BaseTool.run_async`` and every override: all tools on all paths: run, run_async, live runs,
  parallel calls, agents as tools, transfers, MCP tools, workflows, confirmations and their
  resumption, and user code that calls it.
- ``PreloadMemoryTool.process_llm_request``: searches of the memory before model calls.
- ``_dispatch_task_fc``: tasks that are handed over to sub-agents with ``mode="task"``.
- ``BaseCodeExecutor.execute_code``: code that a model wrote.
- ``BaseLlm.generate_content_async`` and every override: model calls, but those of live runs.
- ``Runner.run_async`` and ``run_live``: runs. ``BaseAgent.run_async`` and ``run_live``: the agents
  inside them.

The model learns of a denied call from a result ``{"error": reason}``, the framework's own form. A
refused run answers with the reason, without its model.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_adk import tools
from otelhooks.frameworks.google_adk.models import ModelCall
from otelhooks.frameworks.google_adk.runs import AgentRun, LiveRun, SubAgent, in_context
from otelhooks.frameworks.kit import telemetry

__all__ = ["ADAPTER"]

_BASE, _AGENT = "google.adk.tools.base_tool", "google.adk.agents.base_agent"
_EXECUTOR = "google.adk.code_executors.base_code_executor:BaseCodeExecutor"
_PLUGINS = "google.adk.plugins.plugin_manager:PluginManager"
_TRACING = "google.adk.telemetry.tracing:trace_(tool_call|merged_tool_calls|call_llm|send_data)"

ADAPTER = kit.Adapter(
    "google_adk",
    kit.Package("google-adk", ">=2.7,<3", module="google.adk"),
    seats=(
        kit.seat(f"{_BASE}:BaseTool.run_async", tools.ToolCall, kind="coroutine", overrides=True),
        kit.seat(f"{_EXECUTOR}.execute_code", tools.Code, overrides=True),
        kit.seat(
            "google.adk.tools.preload_memory_tool:PreloadMemoryTool.process_llm_request",
            tools.Preload,
        ),
        kit.seat("google.adk.workflow._llm_agent_wrapper:_dispatch_task_fc", tools.TaskCall),
        kit.listen(f"{_PLUGINS}.run_before_tool_callback", tools.guard_late),
        kit.listen(f"{_PLUGINS}.run_on_tool_error_callback", tools.answer_paused),
        kit.seat(
            "google.adk.models.base_llm:BaseLlm.generate_content_async",
            ModelCall,
            kind="async generator",
            overrides=True,
        ),
        kit.seat(f"{_AGENT}:BaseAgent.run_(async|live)", SubAgent),
        kit.seat("google.adk.runners:Runner.run_async", AgentRun, entry=True),
        kit.seat("google.adk.runners:Runner.run_live", LiveRun, entry=True),
        kit.listen(
            "google.adk.platform.thread:create_thread", in_context, required=False, copies=True
        ),
        kit.listen(_TRACING, telemetry.not_on_ours, required=False, copies=True),
    ),
    not_covered={
        "tools of Gemini (search, URL context, code execution, file search, computer use)": (
            "they run at the provider; those that a rule is against are not offered to models, "
            "but in live runs"
        ),
        "the function that a tool was made of, and functions that are nodes of a workflow": (
            "calling them is plain Python; no model chooses them"
        ),
        "a `run_async` that your code sets on a tool object, or later on its class": (
            "an agent's calls of it are judged, but your own code's run unjudged, and before 2.13 "
            "those of a workflow's node; define it in a class"
        ),
        (
            "what a streaming tool (an asynchronous generator) yields in a live run, or where your "
            "code calls its `run_async`"
        ): "the call is judged, but `post_tool_call` hooks get the generator, not what it yields",
        "agents reached over A2A, and a `ManagedAgent`": "their models and tools run elsewhere",
    },
    built_in=tools.TABLE,
    options={"approvals": ("native", "in_place")},
    in_part={
        "completion.*": "the model calls of a live run are not seen; its tools are guarded",
        "turn.*": "a live run is one run, without a message of its own",
    },
)
