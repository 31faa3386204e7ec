"""A scripted chat model for langchain, and the paths on which its agents reach their tools."""

from __future__ import annotations

import functools
import inspect
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import metadata
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph

from otelhooks.patching.versions import at_least
from tests.frameworks.contract import Chunks, Path, Run, World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langgraph 1.0 warns of its own names as it is imported
    from langgraph.prebuilt import ToolNode, create_react_agent

CORE = metadata.version("langchain-core")


# -- scripted -------------------------------------------------------------------------------------


class ScriptedModel(BaseChatModel):
    """A chat model that says what a world's script says."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        definitions = [t if isinstance(t, dict) else convert_to_openai_tool(t) for t in tools]
        return self.bind(tools=definitions, **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._say(messages))])

    def _say(self, messages: Any) -> AIMessage:
        step = self.world.next("\n".join(str(message.content) for message in messages))
        turn = len(self.world.shown)
        usage: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        if isinstance(step, str):
            return AIMessage(step, usage_metadata=usage)
        calls: Any = [
            {"name": ask.tool, "args": ask.args, "id": f"call_{turn}_{index}", "type": "tool_call"}
            for index, ask in enumerate(step)
        ]
        return AIMessage("", tool_calls=calls, usage_metadata=usage)


class StreamingModel(ScriptedModel):
    """The same, in chunks of one word."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._say(messages)
        if not message.tool_calls:
            words = str(message.content).split(" ")
            for index, word in enumerate(words):
                text = word if index == len(words) - 1 else f"{word} "
                yield ChatGenerationChunk(message=AIMessageChunk(text))
            return
        pieces: Any = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": index}
            for index, c in enumerate(message.tool_calls)
        ]
        chunk = AIMessageChunk("", tool_call_chunks=pieces, usage_metadata=message.usage_metadata)
        yield ChatGenerationChunk(message=chunk)


def tools_of(world: World, *, is_async: bool = False) -> list[BaseTool]:
    """Make the world's tools: functions, or coroutine functions."""
    made = [_tool(getattr(world, name), is_async) for name in ("danger", "safe", "broken")]
    return [*made, StructuredTool.from_function(coroutine=world.slow)]


def _tool(body: Callable[..., Any], is_async: bool) -> StructuredTool:
    if not is_async:
        return StructuredTool.from_function(body)

    @functools.wraps(body)
    async def later(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    return StructuredTool.from_function(coroutine=later, name=body.__name__)


def said(state: Any) -> str:
    """Return the text of the last message of a graph's state."""
    return str(state["messages"][-1].text).strip()


def begin(prompt: str) -> dict[str, Any]:
    """Return the input of a graph."""
    return {"messages": [{"role": "user", "content": prompt}]}


def agent(
    world: World,
    model: type[ScriptedModel] = ScriptedModel,
    *,
    is_async: bool = False,
    **settings: Any,
) -> Any:
    """Make an agent with the world's tools."""
    return create_agent(model(world=world), tools_of(world, is_async=is_async), **settings)


# -- paths of one agent ---------------------------------------------------------------------------


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


def _named(world: World) -> Any:
    return agent(world, name="worker")


def _with_coroutines(world: World) -> Any:
    return agent(world, is_async=True)


def build_stream(world: World) -> Run:
    graph = agent(world, StreamingModel)

    def run(prompt: str) -> str:
        return said(list(graph.stream(begin(prompt), stream_mode="values"))[-1])

    return run


def build_stream_updates(world: World) -> Run:
    graph = agent(world, StreamingModel)

    def run(prompt: str) -> str:
        last = list(graph.stream(begin(prompt), stream_mode="updates", subgraphs=True))[-1]
        (update,) = last[1].values()
        return said(update)

    return run


def build_astream(world: World) -> Run:
    graph = agent(world, StreamingModel, is_async=True)

    async def run(prompt: str) -> str:
        last: Any = None
        async for mode, payload in graph.astream(begin(prompt), stream_mode=["messages", "values"]):
            last = payload if mode == "values" else last
        return said(last)

    return run


def build_astream_events(world: World) -> Run:
    graph = agent(world, StreamingModel)

    async def run(prompt: str) -> str:
        last: Any = None
        async for event in graph.astream_events(begin(prompt), version="v2"):
            if event["event"] == "on_chain_end" and not event["parent_ids"]:
                last = event["data"]["output"]
        return said(last)

    return run


def build_events_v3(world: World) -> Run:
    graph = agent(world, StreamingModel)

    def run(prompt: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is beta
            return said(graph.stream_events(begin(prompt), version="v3").output)

    return run


def build_batch(world: World) -> Run:
    graph = agent(world)

    def run(prompt: str) -> str:
        (state,) = graph.batch([begin(prompt)])
        return said(state)

    return run


def stream_tokens(world: World) -> Chunks:
    """Stream the tokens that the model says."""
    graph = agent(world, StreamingModel)

    def chunks(prompt: str) -> Iterator[str]:
        for message, _ in graph.stream(begin(prompt), stream_mode="messages"):
            if not isinstance(message, ToolMessage) and message.text:
                yield str(message.text)

    return chunks


def astream_tokens(world: World) -> Chunks:
    """Stream the tokens, with coroutine functions."""
    graph = agent(world, StreamingModel, is_async=True)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        stream = graph.astream(begin(prompt), stream_mode=["messages", "updates"])
        try:
            async for mode, payload in stream:
                if mode == "messages" and not isinstance(payload[0], ToolMessage):
                    if payload[0].text:
                        yield str(payload[0].text)
        finally:
            await stream.aclose()

    return chunks


def astream_event_tokens(world: World) -> Chunks:
    """Stream the tokens out of the second version of events."""
    graph = agent(world, StreamingModel)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        stream = graph.astream_events(begin(prompt), version="v2")
        try:
            async for event in stream:
                found = event["data"].get("chunk")
                if event["event"] == "on_chat_model_stream" and found.text:
                    yield str(found.text)
                if event["event"] == "on_chat_model_end" and event["data"]["output"].text:
                    yield str(event["data"]["output"].text)
        finally:
            await stream.aclose()

    return chunks


def event_v3_tokens(world: World) -> Chunks:
    """Stream the tokens out of the third version of events."""
    graph = agent(world, StreamingModel)

    def chunks(prompt: str) -> Iterator[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is beta
            run = graph.stream_events(begin(prompt), version="v3")
        try:
            for message in run.messages:
                yield from (text for text in message.text if text)
        finally:
            run.abort()

    return chunks


# -- agents in other shapes -----------------------------------------------------------------------


def build_agent_as_tool(world: World) -> Run:
    worker = agent(world, name="worker")

    def ask_worker(question: str) -> str:
        """Ask the worker."""
        return said(worker.invoke(begin(question)))

    outer = World((("ask_worker", {"question": "please begin"}),), "")  # type: ignore[arg-type]
    boss = create_agent(
        _Relay(world=outer), [StructuredTool.from_function(ask_worker)], name="boss"
    )
    return lambda prompt: said(boss.invoke(begin(prompt)))


def build_agent_as_async_tool(world: World) -> Run:
    worker = agent(world, name="worker", is_async=True)

    async def ask_worker(question: str) -> str:
        """Ask the worker."""
        return said(await worker.ainvoke(begin(question)))

    outer = World((("ask_worker", {"question": "please begin"}),), "")  # type: ignore[arg-type]
    tool = StructuredTool.from_function(coroutine=ask_worker)
    boss = create_agent(_Relay(world=outer), [tool], name="boss")

    async def run(prompt: str) -> str:
        return said(await boss.ainvoke(begin(prompt)))

    return run


class _Relay(BaseChatModel):
    """A model that asks for one tool, then says what it said."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "relay"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(t) for t in tools], **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            message = AIMessage(last.text)
        else:
            call: Any = {"name": "ask_worker", "args": {"question": "please begin"}, "id": "outer"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def _as_node(world: World) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("worker", agent(world, name="worker"))
    graph.add_edge(START, "worker")
    graph.add_edge("worker", END)
    return graph.compile(name="flow")


def _by_hand(world: World) -> Any:
    """Make a graph with a model node and a `ToolNode` of its own."""
    tools = tools_of(world)
    model = ScriptedModel(world=world).bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node("llm", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("act", ToolNode(tools, handle_tool_errors=True))
    graph.add_edge(START, "llm")
    graph.add_conditional_edges(
        "llm", lambda state: "act" if state["messages"][-1].tool_calls else END, ["act", END]
    )
    graph.add_edge("act", "llm")
    return graph.compile()


def _react(world: World) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and in use
        return create_react_agent(ScriptedModel(world=world), tools_of(world))


def _with_middleware(world: World) -> Any:
    from langchain.agents.middleware import ToolRetryMiddleware

    return agent(world, middleware=[ToolRetryMiddleware(max_retries=0)])


def build_functional(world: World) -> Run:
    tools = {tool.name: tool for tool in tools_of(world)}
    model = ScriptedModel(world=world).bind_tools(list(tools.values()))

    @task
    def think(messages: list[Any]) -> Any:
        return model.invoke(messages)

    @task
    def act(call: Any) -> Any:
        return tools[call["name"]].invoke(call)

    @entrypoint()
    def flow(prompt: str) -> str:
        messages: list[Any] = [("user", prompt)]
        while True:
            message = think(messages).result()
            messages.append(message)
            if not message.tool_calls:
                return str(message.text)
            futures = [act(call) for call in message.tool_calls]
            messages += [future.result() for future in futures]

    return flow.invoke


# -- calls without an agent -----------------------------------------------------------------------


def _told(result: Any) -> str:
    return str(getattr(result, "content", result))


def _direct(call: Callable[[BaseTool, dict[str, Any]], Any]) -> Callable[[World], Run]:
    def build(world: World) -> Run:
        tools = {tool.name: tool for tool in tools_of(world)}
        return lambda prompt: world.play(lambda name, args: _told(call(tools[name], args)), prompt)

    return build


def _adirect(call: Callable[[BaseTool, dict[str, Any]], Any]) -> Callable[[World], Run]:
    def build(world: World) -> Run:
        tools = {tool.name: tool for tool in tools_of(world, is_async=True)}

        async def run(prompt: str) -> str:
            async def one(name: str, args: dict[str, Any]) -> str:
                return _told(await call(tools[name], args))

            return await world.aplay(one, prompt)

        return run

    return build


def as_call(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call in the form in which models ask for it."""
    return {"name": tool.name, "args": args, "id": "call_1", "type": "tool_call"}


def _subclassed(world: World, kind: type[BaseTool]) -> list[BaseTool]:
    made: list[BaseTool] = []
    for tool in tools_of(world):
        fields = {"description": tool.description, "args_schema": tool.args_schema}
        made.append(kind(name=tool.name, inner=tool, **fields))  # type: ignore[call-arg]
    return made


class Plain(BaseTool):
    """A tool with a body of its own in ``_run`` and ``_arun``."""

    inner: Any

    def _run(self, **kwargs: Any) -> Any:
        return self.inner.func(**kwargs)

    async def _arun(self, **kwargs: Any) -> Any:
        body = self.inner.coroutine or self.inner.func
        result = body(**kwargs)
        return await result if self.inner.coroutine else result


class OverridesRun(Plain):
    """A tool that overrides ``run`` and ``arun``, and goes on to what they override."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return super().run(*args, **kwargs)

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        return await super().arun(*args, **kwargs)


class OverridesInvoke(Plain):
    """A tool whose ``invoke`` never reaches ``run``."""

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        content = self._run(**input["args"])
        return ToolMessage(content, tool_call_id=input["id"], name=self.name)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        content = await self._arun(**input["args"])
        return ToolMessage(content, tool_call_id=input["id"], name=self.name)


def _with_tools_of(kind: type[BaseTool]) -> Callable[[World], Any]:
    return lambda world: create_agent(ScriptedModel(world=world), _subclassed(world, kind))


# -- all of them ----------------------------------------------------------------------------------

RAISED: Any = {"errors": "raised"}
DIRECT: Any = {"errors": "raised", "has_run": False, "has_model": False}
NO_SLOW = {"cancelled": "the tools of this path are functions"}
WORKER: Any = {"around": ("ask_worker",), "subagent": "ask_worker", "errors": "raised"}
TELLS_ALL = inspect.signature(ToolNode.__init__).parameters["handle_tool_errors"].default is True
REACT_ERRORS = "told" if TELLS_ALL else "raised"  # the default changed within 1.0
NO_MESSAGES = {
    "ready_answer_at_pre_agent": "a graph without messages has no form for it",
    "deny_at_pre_model_call": "the refusal of a model call is an answer here, that of a run is not",
}
NO_V3 = "" if at_least(CORE, "1.4.0") else "the third version of events came with core 1.4"

PATHS = (
    Path("invoke", _invoked(_named), **RAISED),
    Path("ainvoke", _ainvoked(_with_coroutines), **RAISED),
    Path("ainvoke-functions", _ainvoked(agent), **RAISED),
    Path("stream", build_stream, chunks=stream_tokens, **RAISED),
    Path("stream-updates", build_stream_updates, **RAISED),
    Path("astream", build_astream, chunks=astream_tokens, **RAISED),
    Path(
        "astream-events",
        build_astream_events,
        chunks=astream_event_tokens,
        cancels="langchain cancels the task in which the run goes on, as others may",
        **RAISED,
    ),
    Path("events-v3", build_events_v3, chunks=event_v3_tokens, skip=NO_V3, **RAISED),
    Path("batch", build_batch, **RAISED),
    Path("agent-as-tool", build_agent_as_tool, **WORKER),
    Path("agent-as-async-tool", build_agent_as_async_tool, **WORKER),
    Path("agent-as-node", _invoked(_as_node), **RAISED),
    Path("tool-node", _invoked(_by_hand)),
    Path("tool-node-async", _ainvoked(_by_hand)),
    Path("react-agent", _invoked(_react), errors=REACT_ERRORS),
    Path("retry-middleware", _invoked(_with_middleware)),
    Path("functional", build_functional, refusals="raised", lacks=NO_MESSAGES, **RAISED),
    Path("subclass", _invoked(_with_tools_of(Plain)), **RAISED),
    Path("override-run", _invoked(_with_tools_of(OverridesRun)), **RAISED),
    Path("override-arun", _ainvoked(_with_tools_of(OverridesRun)), **RAISED),
    Path("override-invoke", _invoked(_with_tools_of(OverridesInvoke)), **RAISED),
    Path("override-ainvoke", _ainvoked(_with_tools_of(OverridesInvoke)), **RAISED),
    Path("direct-invoke", _direct(lambda tool, args: tool.invoke(args)), **DIRECT),
    Path("direct-call", _direct(lambda tool, args: tool.invoke(as_call(tool, args))), **DIRECT),
    Path("direct-run", _direct(lambda tool, args: tool.run(args)), **DIRECT),
    Path("direct-ainvoke", _adirect(lambda tool, args: tool.ainvoke(args)), **DIRECT),
    Path("direct-arun", _adirect(lambda tool, args: tool.arun(args)), **DIRECT),
)
