# pyright: basic, reportMissingImports=false
"""langchain-core, langgraph and langchain, ``>=1.0,<2`` each: tools, chat models and graphs.

langchain-core owns `BaseTool` and `BaseChatModel`, langgraph the engine of graphs (`Pregel`);
``create_agent`` of langchain and most packages above it only create such graphs. The two lower
layers are patched, so agents that were created before `otelhooks.instrument` are guarded as well.

- Tool: ``BaseTool.run`` and ``arun``, and every override in a subclass. All calls of a tool reach
  one of them once: agent and ToolNode in ``invoke``, ``stream``, ``batch`` and their asynchronous
  forms, parallel calls, retries, sub-agents, MCP tools, and direct calls. A subclass that overrides
  ``invoke`` or ``ainvoke`` is guarded there; what it passes on unchanged is not judged again.
- Model: ``_generate_with_cache`` (``invoke``, ``batch``, agents, even where tokens are streamed),
  ``stream`` and ``astream`` where user code streams a model itself, and the generator below
  ``stream_events(version="v3")``.
- Run: ``Pregel.stream`` and ``astream``, to which ``invoke``, ``batch`` and ``stream_events`` lead.
  A graph with tools or a model node is ``invoke_agent``, any other ``invoke_workflow``; in a run it
  is a sub-agent. ``configurable.thread_id`` is the conversation. A ``Command`` that resumes a run
  is not a message of the user. Nodes are spans inside that of the run, and nothing decides on them.
- Compaction: ``SummarizationMiddleware``.

A denied tool call is a ``ToolMessage`` with status ``error``, which the model reads, or the reason
as text for a caller without a call id: an exception would end the run. A refused message or agent
is answered with the reason, in the requested stream modes; a graph without messages raises
`errors.Denied`. An answer that a hook may still change is not streamed before the hook has run.

``ADAPTER.not_covered`` lists what no seat guards.
"""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.adapter import NotCovered
from otelhooks.frameworks.kit.compaction import Compaction
from otelhooks.frameworks.langchain import models
from otelhooks.frameworks.langchain.arguments import note
from otelhooks.frameworks.langchain.builtin import TABLE
from otelhooks.frameworks.langchain.chains import ChainRun
from otelhooks.frameworks.langchain.runs import GraphRun, anode, node
from otelhooks.frameworks.langchain.tools import EditorRun, InvokeRun, ShellRun, ToolRun

__all__ = ["ADAPTER"]

SUPPORTED = ">=1.0,<2"


_TOOL = "langchain_core.tools.base:BaseTool"
_MODEL = "langchain_core.language_models.chat_models:BaseChatModel"
_EVENTS = f"{_MODEL}.(_|_a)iter_v2_events"
_RUNNER = "langgraph.pregel._runner"
_EARLIER_NODE = "langchain.tools.tool_node:_ToolNode"
_SUMMARY = "langchain.agents.middleware.summarization:SummarizationMiddleware"
_SHELL = "langchain.agents.middleware.shell_tool:ShellToolMiddleware._run_shell_tool"
_EDITS = (
    "langchain_anthropic.middleware.anthropic_tools:_(State|Filesystem)ClaudeFileToolMiddleware"
    "._handle_(view|create|str_replace|insert|delete|rename)"
)
_REMOTE, _CODE = "langgraph.pregel.remote", "langchain_quickjs.middleware"

_CORE = (
    kit.seat(f"{_TOOL}.run", ToolRun, overrides=True),
    kit.seat(f"{_TOOL}.arun", ToolRun, kind="coroutine", overrides=True),
    kit.seat(f"{_TOOL}.invoke", InvokeRun, overrides=True),
    kit.seat(f"{_TOOL}.ainvoke", InvokeRun, kind="coroutine", overrides=True),
    kit.seat(f"{_MODEL}.(_|_a)generate_with_cache", models.ChatCall),
    kit.seat(f"{_MODEL}.(|a)stream", models.StreamedCall, entry=True),
    kit.seat(_EVENTS, models.EventsCall, since="1.4.0"),
    kit.seat(_EVENTS, models.EventsCall, required=False, until="1.4.0"),
)

_GRAPHS = (
    kit.seat("langgraph.pregel.main:Pregel.(|a)stream", GraphRun, entry=True),
    # without them, a trace has no nodes
    kit.listen(f"{_RUNNER}:run_with_retry", node, required=False),
    kit.listen(f"{_RUNNER}:arun_with_retry", anode, required=False),
    # without it, filled-in plain data is shown to rules
    kit.listen("langgraph.prebuilt.tool_node:ToolNode.(|_)inject_tool_args", note, required=False),
)


class _Summary(Compaction):
    """The summary that replaces a history."""


_AGENTS = (
    kit.seat(f"{_SUMMARY}.(_|_a)create_summary", _Summary, required=False),
    kit.listen(f"{_EARLIER_NODE}._inject_tool_args", note, required=False, until="1.0.3"),
    kit.seat(_SHELL, ShellRun, required=False, until="1.0.6"),
)

_EDITORS = (kit.seat(_EDITS, EditorRun, until="1.0.4"),)

_CHAINS = (
    kit.seat("langchain_classic.chains.base:Chain.(|a)invoke", ChainRun, entry=True),
    kit.seat("langchain_classic.agents.agent:AgentExecutor.(|a)stream", ChainRun, entry=True),
)


def _built_on(distribution: str, supported: str, *targets: str) -> Any:
    """Return a package built on guarded ones, which refuses in other versions."""
    module = distribution.replace("-", "_")
    seats = tuple(kit.listen(f"{module}.{target}", copies=True) for target in targets)
    return kit.Package(distribution, supported, module=module, seats=seats)


ADAPTER = kit.Adapter(
    "langchain",
    kit.Package("langchain-core", SUPPORTED, module="langchain_core"),
    kit.Package("langgraph", SUPPORTED, module="langgraph.pregel", seats=_GRAPHS),
    kit.Package("langchain", SUPPORTED, module="langchain", seats=_AGENTS),
    kit.Package("langchain-anthropic", SUPPORTED, module="langchain_anthropic", seats=_EDITORS),
    kit.Package("langchain-classic", SUPPORTED, module="langchain_classic", seats=_CHAINS),
    _built_on(
        "deepagents",
        ">=0.2,<1",
        "graph:create_deep_agent",
        "middleware.filesystem:FilesystemMiddleware.__init__",
        "middleware.subagents:SubAgentMiddleware.__init__",
    ),
    _built_on("langgraph-supervisor", ">=0.0.30,<1", "supervisor:create_supervisor"),
    _built_on("langgraph-swarm", ">=0.1,<1", "swarm:create_swarm"),
    seats=_CORE,
    not_covered={
        "`tool.func(...)` and `tool._run(...)`": (
            "user code that calls a tool's function itself calls a plain function"
        ),
        "provider-side tools": (
            "web search and the like run at the provider: those that a rule denies are not "
            "offered to models, except those in a Google definition that also declares functions"
        ),
        "completion models": "only chat models have a seat; they ask for no tools",
    },
    gaps=(
        NotCovered(
            "what a chain does by itself, such as the requests of `APIChain`",
            "only its model calls and its tools are calls that a seat sees",
            distribution="langchain-classic",
        ),
        NotCovered(
            "an agent behind `RemoteGraph`",
            "its tools run on a server",
            distribution="langgraph",
            module=_REMOTE,
            seats=(kit.listen(f"{_REMOTE}:RemoteGraph.(|a)(stream|invoke)"),),
        ),
        NotCovered(
            "the code interpreter",
            "code that a model writes is not judged yet, only the tools that it calls",
            distribution="langchain-quickjs",
            module=_CODE,
            seats=(kit.listen(f"{_CODE}:CodeInterpreterMiddleware.__init__"),),
        ),
    ),
    built_in=TABLE,
    in_part={
        "agent.stop, delegation.post_verify": (
            "a run is not sent on; a result that is not accepted is withheld"
        ),
        "hide": "in Google's form, which holds many tools in one definition, a tool is only denied",
    },
)
