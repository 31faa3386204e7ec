"""Prove a deny with the real langchain: tools called directly, a graph, and an agent."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.langchain.models import ChatCall

__all__ = ["ScriptedModel", "prove"]


class ScriptedModel(BaseChatModel):
    """A model that answers with what a function returns, in one piece or as a stream."""

    next_step: trials.NextStep

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Offer tools to the model."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        message = AIMessage(**self._step(messages))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(**self._step(messages)))

    def _step(self, messages: Any) -> dict[str, Any]:
        step = self.next_step("\n".join(str(message.content) for message in messages))
        if isinstance(step, str):
            return {"content": step}
        return {"content": "", "tool_calls": trials.parts(step, ChatCall)}


_INPUT: Any = {"messages": [("user", "begin")]}


def _tools(trial: trials.Trial) -> list[Any]:
    return [StructuredTool.from_function(body) for body in (trial.danger, trial.safe)]


def _agent(trial: trials.Trial) -> Any:
    from langchain.agents import create_agent

    return create_agent(ScriptedModel(next_step=trial.next_step), _tools(trial))


def _graph(trial: trials.Trial) -> Any:
    """Return a graph with one node that itself calls tools as the model asks for them."""
    from langgraph.graph import START, MessagesState, StateGraph

    tools = {tool.name: tool for tool in _tools(trial)}
    model = ScriptedModel(next_step=trial.next_step).bind_tools(tools.values())

    def loop(state: Any) -> Any:
        messages = state["messages"]
        while calls := (reply := model.invoke(messages)).tool_calls:
            messages = [*messages, reply, *(tools[call["name"]].invoke(call) for call in calls)]
        return {"messages": [reply]}

    return StateGraph(MessagesState).add_node(loop).add_edge(START, "loop").compile()


def _run(trial: trials.Trial) -> str:
    danger, safe = _tools(trial)
    trial.shown = danger.run({"path": "/"}) + safe.run({"x": 1})
    return "done"


async def _arun(trial: trials.Trial) -> str:
    danger, safe = _tools(trial)
    trial.shown = await danger.arun({"path": "/"}) + await safe.arun({"x": 1})
    return "done"


async def _ainvoke(trial: trials.Trial) -> str:
    return _said(await _agent(trial).ainvoke(_INPUT))


def _stream(trial: trials.Trial) -> str:
    told = _agent(trial).stream(_INPUT, stream_mode="messages")
    return [message.content for message, _ in told if message.content][-1]


async def _astream(trial: trials.Trial) -> str:
    modes = ["messages", "values"]
    *_, (_, state) = [item async for item in _agent(trial).astream(_INPUT, stream_mode=modes)]
    return _said(state)


def _said(state: Any) -> str:
    return state["messages"][-1].content


_PATHS: dict[str, dict[str, Callable[[trials.Trial], Any]]] = {
    "langchain_core": {"tool.run": _run, "tool.arun": _arun},
    "langgraph": {"graph": lambda trial: _said(_graph(trial).invoke(_INPUT))},
    "langchain": {
        "agent.invoke": lambda trial: _said(_agent(trial).invoke(_INPUT)),
        "agent.ainvoke": _ainvoke,
        "agent.stream": _stream,
        "agent.astream": _astream,
    },
}
"""The module that paths need -> name of a path, and its function."""


_INSTALLED = [paths for module, paths in _PATHS.items() if importlib.util.find_spec(module)]
prove = trials.Proving(
    "langchain", {name: run for each in _INSTALLED for name, run in each.items()}
)
