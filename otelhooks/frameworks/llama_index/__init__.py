# pyright: basic
"""LlamaIndex (``llama-index-core``), 0.14: runs of agents, tool calls, model calls.

Seats: ``run`` and the steps of agents and of workflows of agents; ``__call__``, ``call`` and
``acall`` of every tool, from any caller; chats and completions of every model, plain and streamed;
what query engines and retrievers call behind a tool (`engines`). A denied call is a result with an
error, a refused run one with the reason.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.adapter import NotCovered
from otelhooks.frameworks.kit.streams.returned import returning
from otelhooks.frameworks.llama_index.engines import SubQuestion, route, route_retrievers
from otelhooks.frameworks.llama_index.passages import (
    Chat,
    Completion,
    Streamed,
    StreamedCompletion,
    Tool,
)
from otelhooks.frameworks.llama_index.runs import STEPS, Run, step, tell

__all__ = ["ADAPTER"]

_TYPES = "llama_index.core.tools.types"
_MODEL = "llama_index.core.base.llms.base:BaseLLM"
_ENGINES = "llama_index.core.query_engine"
_SUB = f"{_ENGINES}.sub_question_query_engine:SubQuestionQueryEngine"
_ROUTERS, _JOINS = f"{_ENGINES}.router_query_engine", f"{_ENGINES}.sql_join_query_engine"
_RETRIEVERS = "llama_index.core.retrievers.router_retriever"
_AGENTS = (
    "llama_index.core.agent.workflow."
    "(base_agent:BaseWorkflowAgent|multi_agent_workflow:AgentWorkflow)"
)

ADAPTER = kit.Adapter(
    "llama_index",
    kit.Package("llama-index-core", ">=0.14.8,<0.15", module="llama_index.core"),
    seats=(
        kit.seat(f"{_TYPES}:BaseTool.__call__", Tool, overrides=True),
        kit.seat(f"{_TYPES}:AsyncBaseTool.(|a)call", Tool, overrides=True),
        kit.seat(f"{_AGENTS}.run", Run, entry=True, overrides=True),
        kit.listen(f"{_AGENTS}.({'|'.join(STEPS)})", step, overrides=True),
        kit.listen("workflows.context.context:Context.write_event_to_stream", tell),
        kit.seat(f"{_SUB}.(_|_a)query_subq", SubQuestion),
        kit.listen(f"{_ROUTERS}:RouterQueryEngine.(_|_a)query", route, overrides=True),
        kit.listen(
            f"{_RETRIEVERS}:RouterRetriever.(_|_a)retrieve", route_retrievers, overrides=True
        ),
        kit.seat(f"{_MODEL}.(|a)chat", Chat, overrides=True),
        kit.seat(f"{_MODEL}.(|a)stream_chat", returning(Streamed), overrides=True),
        kit.seat(f"{_MODEL}.(|a)complete", Completion, overrides=True),
        kit.seat(f"{_MODEL}.(|a)stream_complete", returning(StreamedCompletion), overrides=True),
    ),
    not_covered={
        "`tool.fn`, `tool.async_fn`": "calling them is plain Python",
        "functions that a `CodeActAgent`'s executor holds": (
            "the tool `execute` is judged with the whole code"
        ),
        "tools of the provider": "they run at the provider",
        "runs of chat engines and of workflows of your own": (
            "what they call is guarded; `otelhooks.turn` around them gives them turns and sessions"
        ),
    },
    gaps=(
        NotCovered(
            "a `ToolRetrieverRouterQueryEngine`",
            "it calls what is behind the tools that it finds",
            module=_ROUTERS,
            seats=(kit.listen(f"{_ROUTERS}:ToolRetrieverRouterQueryEngine.(_|_a)query"),),
        ),
        NotCovered(
            "a `SQLJoinQueryEngine`",
            "it calls what is behind its tools",
            module=_JOINS,
            seats=(kit.listen(f"{_JOINS}:SQLJoinQueryEngine.(_|_a)query"),),
        ),
    ),
    options={"approvals": ("native", "in_place")},
)
