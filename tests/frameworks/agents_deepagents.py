"""Paths through what is built on langchain's graphs: deep agents, supervisors and swarms."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from importlib import metadata
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from otelhooks.patching.versions import at_least
from tests.frameworks.agents_langchain import (
    RAISED,
    ScriptedModel,
    StreamingModel,
    agent,
    begin,
    said,
    tools_of,
)
from tests.frameworks.contract import Chunks, Path, Run, World

__all__ = ["PATHS", "Relay"]


class Relay(BaseChatModel):
    """A model that asks for one tool, then repeats the last message."""

    ask: Any
    """Name and arguments of the tool."""

    @property
    def _llm_type(self) -> str:
        return "relay"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        definitions = [t if isinstance(t, dict) else convert_to_openai_tool(t) for t in tools]
        return self.bind(tools=definitions, **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        has_asked = any(isinstance(message, ToolMessage) for message in messages)
        if has_asked:
            texts = [str(m.text) for m in messages if not _is_of_a_hand_off(m)]
            message = AIMessage(texts[-1])
        else:
            name, args = self.ask
            call: Any = {"name": name, "args": args, "id": "outer"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def _is_of_a_hand_off(message: Any) -> bool:
    text = str(message.text)
    return not text or text.startswith(("Transferring back", "Successfully transferred"))


def _deep_agent(world: World) -> Any:
    from deepagents import create_deep_agent

    return create_deep_agent(model=ScriptedModel(world=world), tools=tools_of(world))


def _deep_stream(world: World) -> Any:
    from deepagents import create_deep_agent

    return create_deep_agent(model=StreamingModel(world=world), tools=tools_of(world))


def _deep_middleware(world: World) -> Any:
    from deepagents.middleware.filesystem import FilesystemMiddleware

    return agent(world, middleware=[FilesystemMiddleware()])


def _deep_sub_agent(world: World) -> Any:
    from deepagents import create_deep_agent

    worker: Any = {
        "name": "worker",
        "description": "Works.",
        "system_prompt": "Work.",
        "tools": tools_of(world),
        "model": ScriptedModel(world=world),
    }
    ask = ("task", {"description": "please begin", "subagent_type": "worker"})
    return create_deep_agent(model=Relay(ask=ask), subagents=[worker])


def _supervisor(world: World) -> Any:
    from langgraph_supervisor import create_supervisor

    boss = Relay(ask=("transfer_to_worker", {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it still calls `create_react_agent`
        return create_supervisor([agent(world, name="worker")], model=boss).compile()


def _swarm(world: World) -> Any:
    from langgraph_swarm import create_handoff_tool, create_swarm

    hand_off = create_handoff_tool(agent_name="worker")
    alice = create_agent(Relay(ask=("transfer_to_worker", {})), [hand_off], name="alice")
    swarm: Any = create_swarm([alice, agent(world, name="worker")], default_active_agent="alice")
    return swarm.compile()


def _invoked(make: Callable[[World], Any]) -> Callable[[World], Run]:
    def build(world: World) -> Run:
        graph = make(world)
        return lambda prompt: said(graph.invoke(begin(prompt)))

    return build


def _ainvoked(make: Callable[[World], Any]) -> Callable[[World], Run]:
    def build(world: World) -> Run:
        graph = make(world)

        async def run(prompt: str) -> str:
            return said(await graph.ainvoke(begin(prompt)))

        return run

    return build


def _events(make: Callable[[World], Any], version: Any) -> Callable[[World], Run]:
    """Build an agent whose answer is taken out of a version of its events."""

    def build(world: World) -> Run:
        graph = make(world)

        async def run(prompt: str) -> str:
            last: Any = None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the first version is deprecated
                async for event in graph.astream_events(begin(prompt), version=version):
                    if event["event"] == "on_chain_end" and event["name"] == graph.get_name():
                        last = event["data"]["output"]
            while "messages" not in last:  # the first version has the last update
                (last,) = last.values()
            return said(last)

        return run

    return build


def _streaming(world: World) -> Any:
    return agent(world, StreamingModel, name="worker")


def stream_tokens(world: World) -> Chunks:
    """Stream the tokens of a deep agent."""
    graph = _deep_stream(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        stream = graph.astream(begin(prompt), stream_mode="messages")
        try:
            async for message, _ in stream:
                if not isinstance(message, ToolMessage) and message.text:
                    yield str(message.text)
        finally:
            await stream.aclose()

    return chunks


SUB_AGENT: Any = {"around": ("task",), "subagent": "task"}
OLD = (
    ""
    if at_least(metadata.version("langchain"), "1.0.3")
    else "langchain has an `InjectedState` of its own, which the tool for hand-offs does not use"
)
HANDED: Any = {"around": ("transfer_to_worker",)}

PATHS = (
    Path("deep-agent", _invoked(_deep_agent), chunks=stream_tokens, **RAISED),
    Path("deep-agent-async", _ainvoked(_deep_agent), **RAISED),
    Path("deep-agent-events", _events(_deep_stream, "v2"), **RAISED),
    Path("events-v1", _events(_streaming, "v1"), **RAISED),
    Path("deep-middleware", _invoked(_deep_middleware), **RAISED),
    Path("deep-sub-agent", _invoked(_deep_sub_agent), **SUB_AGENT, **RAISED),
    Path("deep-sub-agent-async", _ainvoked(_deep_sub_agent), **SUB_AGENT, **RAISED),
    Path("supervisor", _invoked(_supervisor), **HANDED, **RAISED),
    Path("swarm", _ainvoked(_swarm), skip=OLD, **HANDED, **RAISED),
)
