# pyright: basic, reportMissingImports=false
"""Nodes of a graph, and tasks of the functional API, as spans inside that of the run.

Other tracers show them as well (LangSmith and OpenInference as runs of a chain). A node that only
calls the model or tools of an agent, or is a graph itself, has spans of its own already.
"""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks.kit.telemetry import inside_run, semconv

__all__ = ["MODEL_NODES", "anode", "node"]

_HIDDEN = "langsmith:hidden"
_EDGES = "branch:"
_AGENTS = ("langchain.agents.", "langgraph.prebuilt.")
MODEL_NODES = ("model", "agent")
"""Names of the node that calls the model, in the agents of langchain and langgraph."""


def node(wrapped: Any, owner: Any, task: Any, *rest: Any, **further: Any) -> Any:
    """Run a node."""
    if _is_seen_already(task):
        return wrapped(task, *rest, **further)
    with _span(task):
        return wrapped(task, *rest, **further)


async def anode(wrapped: Any, owner: Any, task: Any, *rest: Any, **further: Any) -> Any:
    """Run a node whose function may be a coroutine function."""
    if _is_seen_already(task):
        return await wrapped(task, *rest, **further)
    with _span(task):
        return await wrapped(task, *rest, **further)


def _span(task: Any) -> Any:
    attributes, pauses = {semconv.NODE_NAME: task.name}, ("langgraph.errors:GraphBubbleUp",)
    return inside_run(f"node {task.name}", attributes, task.input, lambda: _written(task), pauses)


def _is_seen_already(task: Any) -> bool:
    steps = getattr(task.proc, "steps", None) or (task.proc,)
    return (
        (task.name in MODEL_NODES and _is_of_agent(steps[0]))
        or hasattr(steps[0], "tools_by_name")
        or any(steps[0] is graph for graph in task.subgraphs)
        or _HIDDEN in (task.config.get("tags") or ())
    )


def _is_of_agent(bound: Any) -> bool:
    """Return whether a node's function is that of an agent of langchain or langgraph."""
    function = getattr(bound, "func", None) or getattr(bound, "afunc", None)
    return getattr(function, "__module__", "").startswith(_AGENTS)


def _written(task: Any) -> dict[str, Any]:
    """Return what a node wrote into the state."""
    return {name: value for name, value in task.writes if not name.startswith(_EDGES)}
