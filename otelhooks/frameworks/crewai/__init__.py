# pyright: basic
"""CrewAI (``crewai``): crews, agents, and the tools and models that they call.

Seats and what passes through them:

- ``BaseTool.run`` and ``arun``, and every method that overrides them: native tool calls, and
  tools that user code calls.
- ``CrewStructuredTool.invoke`` and ``ainvoke``: the text format ("Action: ...").
- ``BaseLLM.call`` and ``acall``, and every method that overrides them: model calls. Functions
  that a client runs itself (``available_functions``) are tool calls there.
- The executors of agents, and ``LiteAgent.kickoff``: runs. ``Crew.kickoff``, ``akickoff`` and
  ``replay``, ``Flow.kickoff_async`` and ``resume_async``: workflows.
- The prompts of ``SyncHumanInputProvider``, and of ``@human_feedback`` in the console: questions
  to the user.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.crewai.models import Compaction, ModelCall, note_usage
from otelhooks.frameworks.crewai.runs import (
    CrewRun,
    Feedback,
    FlowResume,
    FlowRun,
    LiteRun,
    Replay,
    Review,
    Run,
    note_request,
)
from otelhooks.frameworks.crewai.tools import (
    Structured,
    Tool,
    forget,
    go_on,
    note_call,
    note_first,
    note_step,
)

__all__ = ["ADAPTER"]

_TOOL = "crewai.tools.base_tool:BaseTool"
_STRUCTURED = "crewai.tools.structured_tool:CrewStructuredTool"
_MODEL = "crewai.llms.base_llm:BaseLLM"
_ITSELF = "crewai.agents.agent_executor:AgentExecutor"
_BEFORE = "crewai.experimental.agent_executor:AgentExecutor"
_FIRST = "crewai.agents.crew_agent_executor:CrewAgentExecutor"
_ASKING = "crewai.core.providers.human_input:SyncHumanInputProvider"
_MOVED = "1.15.29"

ADAPTER = kit.Adapter(
    "crewai",
    kit.Package("crewai", ">=1.15.18,<2", module="crewai"),
    seats=(
        kit.seat(f"{_TOOL}.(|a)run", Tool, overrides=True),
        kit.seat(f"{_STRUCTURED}.(|a)invoke", Structured, overrides=True),
        kit.listen(f"{_ITSELF}._execute_single_native_tool_call", note_call, since=_MOVED),
        kit.listen(f"{_BEFORE}._execute_single_native_tool_call", note_call, until=_MOVED),
        kit.listen(f"{_FIRST}._execute_single_native_tool_call", note_first, until=_MOVED),
        kit.listen(
            "crewai.utilities.agent_utils:execute_single_native_tool_call", note_step, copies=True
        ),
        kit.listen("crewai.agents.cache.cache_handler:CacheHandler.read", forget),
        kit.listen("crewai.tools.tool_failure:handle_tool_failure", go_on, copies=True),
        kit.seat(f"{_MODEL}.(|a)call", ModelCall, overrides=True),
        kit.listen(f"{_MODEL}._emit_call_completed_event", note_usage),
        kit.seat(f"{_MODEL}.summarize_messages", Compaction, since=_MOVED),
        kit.seat(
            "crewai.utilities.agent_utils:summarize_messages",
            Compaction,
            until=_MOVED,
            copies=True,
        ),
        kit.seat(f"{_ITSELF}.invoke", Run, since=_MOVED, kind="plain"),
        kit.seat(f"{_ITSELF}.invoke_async", Run, since=_MOVED),
        kit.seat(f"{_BEFORE}.invoke", Run, until=_MOVED, kind="plain"),
        kit.seat(f"{_BEFORE}.invoke_async", Run, until=_MOVED),
        kit.seat(f"{_FIRST}.(|a)invoke", Run, until=_MOVED),
        kit.listen("crewai.agent.core:Agent._prepare_kickoff", note_request),
        kit.seat("crewai.lite_agent:LiteAgent.kickoff", LiteRun, entry=True),
        kit.seat("crewai.crew:Crew.(|a)kickoff", CrewRun, entry=True),
        kit.seat("crewai.crew:Crew.replay", Replay, entry=True),
        kit.seat("crewai.flow.runtime:Flow.kickoff_async", FlowRun, entry=True),
        kit.seat("crewai.flow.runtime:Flow.resume_async", FlowResume, entry=True),
        kit.seat("crewai.flow.runtime:Flow._request_human_feedback", Review),
        kit.seat(f"{_ASKING}._prompt_input(|_async)", Feedback),
    ),
    not_covered={
        "`tool._run`, `tool.func`": "calling them is plain Python",
        "text that a crew or a model streams": "it is on the event bus while the model speaks",
        "remote agents (A2A), tools of the provider": "they run elsewhere",
        "agents of other frameworks (`agent_adapters`)": "their adapters guard them",
    },
    in_part={
        "turn.*": "the prompt of a crew is its inputs: one text, or JSON of all of them",
        "tool.*": "results are not taken from CrewAI's own cache: each call is judged, and runs",
    },
)
