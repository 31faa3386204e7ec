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
from otelhooks.frameworks.langchain.events import aevents, events
from otelhooks.frameworks.langchain.listeners import Listeners
from otelhooks.frameworks.langchain.middleware import EDITORS, SHELLS
from otelhooks.frameworks.langchain.runs import GraphRun
from otelhooks.frameworks.langchain.tools import InvokeRun, ToolRun
from otelhooks.frameworks.langchain.uncovered import NOT_COVERED
from otelhooks.patching.patches import Adapter, Package, Seat
from otelhooks.patching.versions import at_least
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import agent_run
from otelhooks.pipeline.compaction import compaction
from otelhooks.pipeline.drivers import adrive, drive
from otelhooks.pipeline.model_call import model
from otelhooks.pipeline.model_seat import ModelRequest
from otelhooks.pipeline.streams import astream, stream

__all__ = ["ADAPTER"]

FRAMEWORK = "langchain"
SUPPORTED = ">=1.0,<2"

_CHAT_SEAT = models.ChatSeat()
_STREAM_SEAT = models.StreamSeat()


def _first(name: str, args: Any, kwargs: Any) -> Any:
    return args[0] if args else kwargs.get(name)


# -- chat models ------------------------------------------------------------------------------


def generate(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``BaseChatModel._generate_with_cache``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    request = _request(instance, args, kwargs)
    return drive(
        model(rt, _CHAT_SEAT, request),
        lambda approved: models.call(wrapped, approved, args, kwargs),
    )


async def agenerate(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``BaseChatModel._agenerate_with_cache``."""
    rt = runtime.active()
    if rt is None:
        return await wrapped(*args, **kwargs)
    request = _request(instance, args, kwargs)
    return await adrive(
        model(rt, _CHAT_SEAT, request),
        lambda approved: models.call(wrapped, approved, args, kwargs),
    )


def _request(instance: Any, args: Any, kwargs: Any) -> ModelRequest:
    manager = args[2] if len(args) > 2 else kwargs.get("run_manager")
    listened = models.is_listened_to(instance, manager, kwargs)
    metadata = getattr(manager, "metadata", None)
    messages = _first("messages", args, kwargs)
    return models.read(instance, messages, kwargs, metadata, stream=listened)


def stream_model(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``BaseChatModel.stream``, unless it leads to ``invoke`` anyway."""
    rt = runtime.active()
    if rt is None or not _can_stream(instance, kwargs, async_api=False):
        return wrapped(*args, **kwargs)
    if models.has_transform(rt):
        return _in_one_piece(instance, args, kwargs)
    request = _stream_request(instance, args, kwargs)
    return stream(
        model(rt, _STREAM_SEAT, request),
        lambda approved: models.call(wrapped, approved, *_streamed(approved, args, kwargs)),
        final=list,
        chunks=models.StreamSeat.chunks,
        on_first=request.note_first_chunk,
    )


def astream_model(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``BaseChatModel.astream``, unless it leads to ``ainvoke`` anyway."""
    rt = runtime.active()
    if rt is None or not _can_stream(instance, kwargs, async_api=True):
        return wrapped(*args, **kwargs)
    if models.has_transform(rt):
        return _ain_one_piece(instance, args, kwargs)
    request = _stream_request(instance, args, kwargs)
    return astream(
        model(rt, _STREAM_SEAT, request),
        lambda approved: models.call(wrapped, approved, *_streamed(approved, args, kwargs)),
        final=list,
        chunks=models.StreamSeat.chunks,
        on_first=request.note_first_chunk,
    )


def _can_stream(instance: Any, kwargs: Any, *, async_api: bool) -> bool:
    further = {**_without(kwargs, "input", "config"), "stream": True}
    return instance._should_stream(async_api=async_api, **further)


def _in_one_piece(instance: Any, args: Any, kwargs: Any) -> Any:
    """Do what langchain does for a model that cannot stream: the other seat guards the call."""
    yield instance.invoke(*args, **kwargs)


async def _ain_one_piece(instance: Any, args: Any, kwargs: Any) -> Any:
    yield await instance.ainvoke(*args, **kwargs)


def _stream_request(instance: Any, args: Any, kwargs: Any) -> ModelRequest:
    messages = instance._convert_input(_first("input", args, kwargs)).to_messages()
    further = _without(kwargs, "input", "config", "stop")
    told = instance._get_ls_params(stop=kwargs.get("stop"), **further)
    return models.read(instance, messages, kwargs, told, stream=True)


def _streamed(request: ModelRequest, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of ``stream`` with its first one by position."""
    if args:
        return args, kwargs
    return (kwargs["input"],), _without(kwargs, "input")


def _without(kwargs: Any, *names: str) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key not in names}


def model_events(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard the events of a model that user code pulls; an agent's lie below another seat."""
    rt = runtime.active()
    if rt is None or models.is_inside_model_call():
        return wrapped(*args, **kwargs)
    return events(rt, instance, wrapped, args, kwargs)


def amodel_events(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Do what `model_events` does, for an asynchronous generator."""
    rt = runtime.active()
    if rt is None or models.is_inside_model_call():
        return wrapped(*args, **kwargs)
    return aevents(rt, instance, wrapped, args, kwargs)


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
_MODELS = "langchain_core.language_models.chat_models"
_GRAPHS = "langgraph.pregel.main"
_NODES = "langgraph.prebuilt.tool_node"
_OWN_NODES = "langchain.tools.tool_node"
_SUMMARIES = "langchain.agents.middleware.summarization"


def _core_seats(version: str) -> tuple[Seat, ...]:
    has_events = at_least(version, "1.4.0") if version else False
    return (
        kit.seat(f"{_TOOLS}.run", ToolRun, overrides=True),
        kit.seat(f"{_TOOLS}.arun", ToolRun, kind="coroutine", overrides=True),
        kit.seat(f"{_TOOLS}.invoke", InvokeRun, overrides=True),
        kit.seat(f"{_TOOLS}.ainvoke", InvokeRun, kind="coroutine", overrides=True),
        Seat(_MODELS, "BaseChatModel._generate_with_cache", generate),
        Seat(_MODELS, "BaseChatModel._agenerate_with_cache", agenerate),
        Seat(_MODELS, "BaseChatModel.stream", stream_model, entry=True),
        Seat(_MODELS, "BaseChatModel.astream", astream_model, entry=True),
        Seat(_MODELS, "BaseChatModel._iter_v2_events", model_events, required=has_events),
        Seat(_MODELS, "BaseChatModel._aiter_v2_events", amodel_events, required=has_events),
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
