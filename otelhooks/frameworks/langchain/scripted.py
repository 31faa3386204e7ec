"""Prove a deny with the real langchain: tools called directly, a graph, and an agent."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.proof import Proof
from otelhooks.frameworks.trial import REASON, Trial

__all__ = ["ScriptedModel", "prove"]

_ids = itertools.count(1)


class ScriptedModel(BaseChatModel):
    """A model that says what a function says, in one piece or as a stream.

    Attributes:
        next_step: Function of all that the model is shown, as one text; returns a final text, or
            the tool calls to ask for: pairs of name and arguments.
    """

    next_step: Callable[[str], Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Offer tools to the model."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        text, calls = self._step(messages)
        message = AIMessage(text, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        text, calls = self._step(messages)
        yield ChatGenerationChunk(message=AIMessageChunk(text, tool_calls=calls))

    def _step(self, messages: Any) -> tuple[str, list[Any]]:
        step = self.next_step("\n".join(str(message.content) for message in messages))
        if isinstance(step, str):
            return step, []
        calls = [
            {"name": name, "args": args, "id": f"call_{next(_ids)}", "type": "tool_call"}
            for name, args in step
        ]
        return "", calls


class _Trial(Trial):
    """A trial with tools and a model, and an agent of both.

    Attributes:
        tools: The two tools.
        model: The script as a model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tools = [StructuredTool.from_function(body) for body in (self.danger, self.safe)]
        self.model = ScriptedModel(next_step=self.next_step)

    @property
    def agent(self) -> Any:
        """An agent with the two tools."""
        from langchain.agents import create_agent

        return create_agent(self.model, self.tools)

    def outcome(self, *, went_on: bool = True) -> tuple[bool, str]:
        """Return whether the deny held, and what was seen; a run that broke off has raised."""
        held, _ = super().outcome(went_on=went_on)
        if held:
            return True, "the denied body did not run, the reason was read, the run went on"
        return False, f"ran {self.ran}, reason {'read' if self.is_told else 'not read'}"


_INPUT: Any = {"messages": [("user", "begin")]}


def _run(trial: _Trial) -> None:
    for tool, args in zip(trial.tools, ({"path": "/"}, {"x": 1}), strict=True):
        trial.shown += str(tool.run(args))


def _arun(trial: _Trial) -> None:
    async def both() -> None:
        for tool, args in zip(trial.tools, ({"path": "/"}, {"x": 1}), strict=True):
            trial.shown += str(await tool.arun(args))

    asyncio.run(both())


def _graph(trial: _Trial) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    tools = {tool.name: tool for tool in trial.tools}
    model = trial.model.bind_tools(trial.tools)

    def act(state: Any) -> Any:
        return {"messages": [tools[c["name"]].invoke(c) for c in state["messages"][-1].tool_calls]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("act", act)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "act" if state["messages"][-1].tool_calls else END, ["act", END]
    )
    graph.add_edge("act", "model")
    graph.compile().invoke(_INPUT)


def _stream(trial: _Trial) -> None:
    list(trial.agent.stream(_INPUT, stream_mode="messages"))


def _astream(trial: _Trial) -> None:
    async def consume() -> None:
        async for _ in trial.agent.astream(_INPUT, stream_mode=["messages", "values"]):
            pass

    asyncio.run(consume())


_PATHS: tuple[tuple[str, str, Callable[[_Trial], Any]], ...] = (
    ("tool.run", "langchain_core", _run),
    ("tool.arun", "langchain_core", _arun),
    ("graph", "langgraph", _graph),
    ("agent.invoke", "langchain", lambda trial: trial.agent.invoke(_INPUT)),
    ("agent.ainvoke", "langchain", lambda trial: asyncio.run(trial.agent.ainvoke(_INPUT))),
    ("agent.stream", "langchain", _stream),
    ("agent.astream", "langchain", _astream),
)
"""Name of a path, the module that it needs, and what takes it."""


def prove() -> Proof:
    """Run every path of what is installed, with a deny for one of two tools."""
    paths: list[tuple[str, bool, str]] = []
    for name, module, take in _PATHS:
        if importlib.util.find_spec(module) is None:
            continue
        trial = _Trial()
        with otelhooks.scope(policies=[policy.deny("danger", reason=REASON)]):
            try:
                take(trial)
            except Exception as error:
                paths.append((name, False, repr(error)))
                continue
        paths.append((name, *trial.outcome()))
    return Proof.of("langchain", importlib.metadata.version("langchain-core"), paths)
