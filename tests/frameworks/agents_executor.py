"""Paths through langchain-classic's `AgentExecutor`."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

from langchain_core.prompts import ChatPromptTemplate

from tests.frameworks.agents_langchain import ScriptedModel, StreamingModel, tools_of
from tests.frameworks.contract import Chunks, Path, Run, World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langchain-community, where it is installed, is being sunset
    from langchain_classic.agents import AgentExecutor, create_tool_calling_agent

__all__ = ["PATHS", "executor"]

_PROMPT = ChatPromptTemplate.from_messages(
    [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)


def executor(world: World, model: type[ScriptedModel] = ScriptedModel, **settings: Any) -> Any:
    """Make an executor with the world's tools."""
    tools = tools_of(world, is_async=settings.pop("is_async", False))
    planner = create_tool_calling_agent(model(world=world), tools, _PROMPT)
    return AgentExecutor(agent=planner, tools=tools, name="worker", **settings)


def _invoked(world: World) -> Run:
    made = executor(world)
    return lambda prompt: str(made.invoke({"input": prompt})["output"])


def _ainvoked(world: World) -> Run:
    made = executor(world, is_async=True)

    async def run(prompt: str) -> str:
        return str((await made.ainvoke({"input": prompt}))["output"])

    return run


def _streamed(world: World) -> Run:
    made = executor(world, StreamingModel)
    return lambda prompt: str(list(made.stream({"input": prompt}))[-1]["output"])


def _astreamed(world: World) -> Run:
    made = executor(world, StreamingModel, is_async=True)

    async def run(prompt: str) -> str:
        return str([item async for item in made.astream({"input": prompt})][-1]["output"])

    return run


def _events(world: World) -> Run:
    made = executor(world, StreamingModel)

    async def run(prompt: str) -> str:
        last: Any = None
        async for event in made.astream_events({"input": prompt}, version="v2"):
            if event["event"] == "on_chain_end" and not event["parent_ids"]:
                last = event["data"]["output"]
        return str(last["output"])

    return run


def stream_outputs(world: World) -> Chunks:
    """Stream what an executor says at its end."""
    made = executor(world, StreamingModel)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        stream = made.astream({"input": prompt})
        try:
            async for item in stream:
                yield str(item.get("output", ""))
        finally:
            await stream.aclose()

    return chunks


def _path(name: str, build: Callable[[World], Run], **settings: Any) -> Path:
    return Path(name, build, errors="raised", **settings)


PATHS = (
    _path("executor", _invoked),
    _path("executor-async", _ainvoked),
    _path("executor-stream", _streamed, chunks=stream_outputs),
    _path("executor-astream", _astreamed),
    _path("executor-events", _events),
)
