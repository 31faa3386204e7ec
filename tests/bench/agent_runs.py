"""Runs of real agents on a scripted model: what governing and tracing them adds to a tool call.

A run is 20 tool calls one after the other, each asked for by a model call of its own, and an
answer. Ours makes turn, model and tool spans, decides by one rule and keeps metrics; the peer is
the instrumentation of OpenTelemetry's own project for the same framework. All sides run in one
process, round about, ours and the peer switched on and off.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import otelhooks
from otelhooks import policy
from tests.bench.measure import Contender, Row, Sink, alternate, floor

CALLS = 20
RUNS = 10  # a round
ARGUMENTS = {"query": "weather in Rome", "limit": 5}
ANSWER = "It rains."


def search(query: str, limit: int = 5) -> str:
    """Search the web."""
    return f"{limit} results"


def measure_openai_agents(rounds: int) -> list[Row]:
    """Return the rows of openai-agents; none where it is not installed."""
    try:
        run = _openai_agents()
    except ImportError:
        return []
    try:
        from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor
    except ImportError:
        instrumentor = None
    else:
        instrumentor = OpenAIAgentsInstrumentor()
    return _rows("openai_agents", run, instrumentor, rounds, budget=3.5, beside_peer=1.0)


def measure_langchain(rounds: int) -> list[Row]:
    """Return the rows of langchain; none where it is not installed."""
    try:
        run = _langchain()
    except ImportError:
        return []
    try:
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
    except ImportError:
        instrumentor = None
    else:
        instrumentor = LangChainInstrumentor()
    return _rows("langchain", run, instrumentor, rounds, budget=3.8, beside_peer=0.4)


def _rows(
    framework: str,
    run: Callable[[], str],
    instrumentor: Any,
    rounds: int,
    *,
    budget: float,
    beside_peer: float,
) -> list[Row]:
    """Measure one framework: bare, ours and, where it is installed, the peer."""
    sink, calls = Sink(), RUNS * CALLS
    contenders = {"floor": floor(), "bare": Contender(functools.partial(_work, run))}
    contenders["ours"] = Contender(
        functools.partial(_work, run),
        sink.flush,
        functools.partial(_on, framework, run, sink),
        otelhooks.uninstrument,
    )
    if instrumentor is not None:
        contenders["peer"] = _peer(run, instrumentor)
    times = alternate(contenders, rounds)
    exporter = sink.exporter
    spans = exporter.spans / (rounds + 1) / (RUNS + 1) / CALLS
    note = f"{spans:.2f} spans a tool call"
    what = f"{framework} run, a tool call"
    rows = [times.row(what, budget, "ours", "floor", calls, "bare", note)]
    if instrumentor is not None:
        name = type(instrumentor).__name__
        beside = f"  beside OTel GenAI's {name}"
        rows.append(times.row(beside, beside_peer, "ours", "peer", calls, "bare"))
        rows.append(times.row(f"  {name}", None, "peer", "floor", calls, "bare"))
    what = f"  bytes a span of a {framework} run, content off"
    rows.append(Row(what, exporter.bytes_a_span, 500, "bytes"))
    return rows


def _work(run: Callable[[], str]) -> None:
    for _ in range(RUNS):
        assert run() == ANSWER


def _on(framework: str, run: Callable[[], str], sink: Sink) -> None:
    otelhooks.instrument(
        policies=[policy.deny("run_command"), policy.allow("search")],
        tracer_provider=sink.tracers,
        meter_provider=sink.meters,
        frameworks=(framework,),
        store=Path("/dev/null"),
    )
    run()
    sink.flush()


def _peer(run: Callable[[], str], instrumentor: Any) -> Contender:
    sink = Sink()

    def on() -> None:
        instrumentor.instrument(tracer_provider=sink.tracers, meter_provider=sink.meters)
        run()
        sink.flush()

    return Contender(functools.partial(_work, run), sink.flush, on, instrumentor.uninstrument)


# -- the agents -------------------------------------------------------------------------------


def _openai_agents() -> Callable[[], str]:
    import asyncio
    import json

    import agents
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    # The framework's own tracing stays on, as it is by default, with nowhere to send to.
    agents.set_trace_processors([])

    def output(number: int) -> Any:
        if number < CALLS:
            return ResponseFunctionToolCall(
                call_id=f"call_{number}",
                name="search",
                arguments=json.dumps(ARGUMENTS),
                type="function_call",
            )
        text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )

    class ScriptedModel(agents.Model):
        """Asks for one tool call after the other, then answers."""

        model = "scripted"

        def __init__(self) -> None:
            self.steps: Iterator[int] = iter(range(CALLS + 1))

        async def get_response(self, *args: Any, **kwargs: Any) -> agents.ModelResponse:
            usage = agents.Usage(requests=1, input_tokens=120, output_tokens=20, total_tokens=140)
            found = [output(next(self.steps))]
            return agents.ModelResponse(output=found, usage=usage, response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    tool = agents.function_tool(search)

    async def converse() -> str:
        agent = agents.Agent(name="assistant", model=ScriptedModel(), tools=[tool])
        result = await agents.Runner.run(agent, "What is the weather?", max_turns=CALLS + 1)
        return str(result.final_output)

    return lambda: asyncio.run(converse())


def _langchain() -> Callable[[], str]:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    class ScriptedModel(BaseChatModel):
        """Asks for one tool call after the other, then answers."""

        model: str = "scripted"
        asked: int = 0

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            usage: Any = {"input_tokens": 120, "output_tokens": 20, "total_tokens": 140}
            if self.asked < CALLS:
                call = {"name": "search", "args": dict(ARGUMENTS), "id": f"call_{self.asked}"}
                message = AIMessage(content="", tool_calls=[call], usage_metadata=usage)
            else:
                message = AIMessage(content=ANSWER, usage_metadata=usage)
            self.asked += 1
            return ChatResult(generations=[ChatGeneration(message=message)])

    model = ScriptedModel()
    agent = create_agent(model, [tool(search)], name="assistant")
    limit: Any = {"recursion_limit": 3 * CALLS}

    def run() -> str:
        model.asked = 0
        result = agent.invoke({"messages": [("user", "What is the weather?")]}, limit)
        return str(result["messages"][-1].content)

    return run
