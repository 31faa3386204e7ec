# pyright: basic, reportMissingImports=false
"""langchain-core, langgraph and langchain, ``>=1.0,<2`` each: tools, chat models and graphs.

langchain-core owns `BaseTool` and `BaseChatModel`, langgraph the engine of graphs (`Pregel`);
``create_agent`` of langchain and most that builds on it only make such graphs. The first two layers
are patched, so agents that were made before `otelhooks.instrument` are guarded as well.

- Tool: ``BaseTool.run`` and ``arun``, and every override in a subclass. All calls of a tool reach
  one of them once: agent and ToolNode in ``invoke``, ``stream``, ``batch`` and their asynchronous
  forms, parallel calls, retries, sub-agents, MCP tools, and direct calls. A subclass that overrides
  ``invoke`` or ``ainvoke`` is guarded there; what it hands on unchanged is not judged again.
- Model: ``_generate_with_cache`` (``invoke``, ``batch``, agents, also where tokens are streamed),
  ``stream`` and ``astream`` where user code streams a model itself, and the generator below
  ``stream_events(version="v3")``.
- Run: ``Pregel.stream`` and ``astream``, to which ``invoke``, ``batch`` and ``stream_events`` lead.
  A graph with tools or a model node is ``invoke_agent``, any other ``invoke_workflow``; in a run it
  is a sub-agent. ``configurable.thread_id`` is the conversation. A ``Command`` that resumes a run
  is no message of the user.
- Compaction: ``SummarizationMiddleware``.

A denied tool call is a ``ToolMessage`` with status ``error``, which the model reads, or the reason
as a text for a caller without a call id: an exception would end the run. A refused message or agent
is answered with the reason, in the stream modes that were asked for; a graph without messages
raises `errors.Denied`. What a hook may still change is not streamed before.

What no seat guards is in ``ADAPTER.not_covered``.
"""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.langchain import models
from otelhooks.frameworks.langchain.arguments import note
from otelhooks.frameworks.langchain.builtin import TABLE
from otelhooks.frameworks.langchain.chains import CHAINS
from otelhooks.frameworks.langchain.events import EventsCall
from otelhooks.frameworks.langchain.listeners import Listeners
from otelhooks.frameworks.langchain.middleware import EDITORS, SHELLS
from otelhooks.frameworks.langchain.runs import GraphRun
from otelhooks.frameworks.langchain.tools import InvokeRun, ToolRun
from otelhooks.frameworks.langchain.uncovered import NOT_COVERED
from otelhooks.patching.patches import Adapter, Package, Seat
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import agent_run
from otelhooks.pipeline.compaction import compaction
from otelhooks.pipeline.drivers import adrive, drive
from otelhooks.pipeline.streams import astream, stream

__all__ = ["ADAPTER"]

FRAMEWORK = "langchain"
SUPPORTED = ">=1.0,<2"


# -- graphs -----------------------------------------------------------------------------------


def stream_graph(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``Pregel.stream``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    run = GraphRun(instance, args, kwargs)
    items = stream(
        agent_run(rt, run, run.request),
        run.inner(wrapped, Listeners.steps),
        final=list,
        chunks=run.chunks,
        holds_back=lambda: run.holds_back(rt),
    )
    return run.deliver(items)


def astream_graph(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``Pregel.astream``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    run = GraphRun(instance, args, kwargs)
    items = astream(
        agent_run(rt, run, run.request),
        run.inner(wrapped, Listeners.asteps),
        final=list,
        chunks=run.chunks,
        holds_back=lambda: run.holds_back(rt),
    )
    return run.adeliver(items)


def summarize(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Show the summary that takes the place of a history."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    return drive(compaction(rt, str), lambda _: wrapped(*args, **kwargs))


async def asummarize(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Do what `summarize` does, for a coroutine."""
    rt = runtime.active()
    if rt is None:
        return await wrapped(*args, **kwargs)
    return await adrive(compaction(rt, str), lambda _: wrapped(*args, **kwargs))


# -- the table --------------------------------------------------------------------------------

_TOOLS = "langchain_core.tools.base:BaseTool"
_MODELS = "langchain_core.language_models.chat_models:BaseChatModel"
_GRAPHS = "langgraph.pregel.main"
_NODES = "langgraph.prebuilt.tool_node"
_OWN_NODES = "langchain.tools.tool_node"
_SUMMARIES = "langchain.agents.middleware.summarization"


_MODEL_SEATS = (
    kit.seat(f"{_MODELS}._generate_with_cache", models.ChatCall),
    kit.seat(f"{_MODELS}._agenerate_with_cache", models.ChatCall),
    kit.seat(f"{_MODELS}.stream", models.StreamedCall, entry=True),
    kit.seat(f"{_MODELS}.astream", models.StreamedCall, entry=True),
    *(
        kit.seat(f"{_MODELS}.{name}", EventsCall, required=must, since=since, until=until)
        for name in ("_iter_v2_events", "_aiter_v2_events")
        for must, since, until in ((True, "1.4.0", None), (False, None, "1.4.0"))
    ),
)


def _core_seats(version: str) -> tuple[Seat, ...]:
    return (
        kit.seat(f"{_TOOLS}.run", ToolRun, overrides=True),
        kit.seat(f"{_TOOLS}.arun", ToolRun, kind="coroutine", overrides=True),
        kit.seat(f"{_TOOLS}.invoke", InvokeRun, overrides=True),
        kit.seat(f"{_TOOLS}.ainvoke", InvokeRun, kind="coroutine", overrides=True),
        *_MODEL_SEATS,
    )


def _graph_seats(version: str) -> tuple[Seat, ...]:
    # Without it, what is filled in and is plain data is shown to rules.
    inject_seats = (
        kit.listen(f"{_NODES}:ToolNode.{name}", note, required=False)
        for name in ("_inject_tool_args", "inject_tool_args")
    )
    return (
        Seat(_GRAPHS, "Pregel.stream", stream_graph, entry=True),
        Seat(_GRAPHS, "Pregel.astream", astream_graph, entry=True),
        *inject_seats,
    )


def _agent_seats(version: str) -> tuple[Seat, ...]:
    summaries = "SummarizationMiddleware._create_summary"
    asummaries = "SummarizationMiddleware._acreate_summary"
    return (
        Seat(_SUMMARIES, summaries, summarize, required=False),
        Seat(_SUMMARIES, asummaries, asummarize, required=False),
        kit.listen(
            f"{_OWN_NODES}:_ToolNode._inject_tool_args", note, required=False, until="1.0.3"
        ),
        *SHELLS,
    )


def _built_on(distribution: str, supported: str, module: str, *targets: str) -> Package:
    """Return a package made of what is guarded already, which refuses in other versions.

    Args:
        distribution: Its name.
        supported: Versions whose tools are known.
        module: Its import name.
        targets: What user code begins with: the module below `module`, and the name in it.
    """
    seats = (target.split(":") for target in targets)
    places = tuple(Seat(f"{module}.{place}", name, copies=True) for place, name in seats)
    return Package((distribution,), supported, module, places)


ADAPTER = Adapter(
    framework=FRAMEWORK,
    packages=(
        Package(("langchain-core",), SUPPORTED, "langchain_core", _core_seats),
        Package(("langgraph",), SUPPORTED, "langgraph.pregel", _graph_seats),
        Package(("langchain",), SUPPORTED, "langchain", _agent_seats),
        Package(("langchain-anthropic",), SUPPORTED, "langchain_anthropic", EDITORS),
        CHAINS,
        _built_on(
            "deepagents",
            ">=0.2,<1",
            "deepagents",
            "graph:create_deep_agent",
            "middleware.filesystem:FilesystemMiddleware.__init__",
            "middleware.subagents:SubAgentMiddleware.__init__",
        ),
        _built_on(
            "langgraph-supervisor",
            ">=0.0.30,<1",
            "langgraph_supervisor",
            "supervisor:create_supervisor",
        ),
        _built_on("langgraph-swarm", ">=0.1,<1", "langgraph_swarm", "swarm:create_swarm"),
    ),
    not_covered=NOT_COVERED,
    built_in=TABLE,
    in_part=(
        (
            "agent.stop, delegation.post_verify",
            "a run is not sent on; a result that is not accepted is withheld",
        ),
        (
            "hide",
            "in Google's form, which holds many tools in one definition, a tool is only denied",
        ),
    ),
)
