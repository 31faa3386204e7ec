"""Runs of real agents on a scripted model: what governing and tracing them adds to a tool call.

A run is 20 tool calls one after the other, each asked for by a model call of its own, and an
answer. Ours makes turn, model and tool spans, decides by one rule and keeps metrics; the peer is
the instrumentation of OpenTelemetry's own project for the same framework. All sides run in one
process, round about, ours and the peer switched on and off.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import otelhooks
from otelhooks import policy
from tests.bench.measure import Contender, Row, Sink, alternate, floor

CALLS = 20  # of tools in a run
ARGUMENTS = {"query": "weather in Rome", "limit": 5}
ANSWER = "It rains."

Run: TypeAlias = Callable[[int], str]  # with so many tool calls; returns the answer


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
    run: Run,
    instrumentor: Any,
    rounds: int,
    *,
    budget: float,
    beside_peer: float,
) -> list[Row]:
    """Measure one framework: bare, ours and, where it is installed, the peer."""

    def work(calls: int) -> None:
        assert run(calls) == ANSWER

    sink, other = Sink(), Sink()

    def ours_on() -> None:
        otelhooks.instrument(
            policies=[policy.deny("run_command"), policy.allow("search")],
            tracer_provider=sink.tracers,
            meter_provider=sink.meters,
            frameworks=(framework,),
            store=Path("/dev/null"),
        )

    def peer_on() -> None:
        instrumentor.instrument(tracer_provider=other.tracers, meter_provider=other.meters)

    contenders = {
        "floor": floor(),
        "bare": Contender(work, CALLS),
        "ours": Contender(work, CALLS, sink.flush, ours_on, otelhooks.uninstrument),
    }
    if instrumentor is not None:
        off = instrumentor.uninstrument
        contenders["peer"] = Contender(work, CALLS, other.flush, peer_on, off)
    times = alternate(contenders, rounds)
    note = f"{_spans_of_a_run(contenders['ours'], sink) / CALLS:.2f} spans a tool call"
    rows = [times.row(f"{framework} run, a tool call", budget, "ours", "floor", "bare", note)]
    if instrumentor is not None:
        name = type(instrumentor).__name__
        beside = f"  beside OTel GenAI's {name}"
        rows.append(times.row(beside, beside_peer, "ours", "peer", "bare"))
        rows.append(times.row(f"  {name}", None, "peer", "floor", "bare"))
    what = f"  bytes a span of a {framework} run, content off"
    rows.append(Row(what, sink.exporter.bytes_a_span, 500, "bytes"))
    return rows


def _spans_of_a_run(ours: Contender, sink: Sink) -> int:
    before = sink.exporter.spans
    ours.on()
    ours.work(ours.calls)
    ours.flush()
    ours.off()
    return sink.exporter.spans - before


# -- the agents -------------------------------------------------------------------------------


def _openai_agents() -> Run:
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

    def output(number: int, calls: int) -> Any:
        if number < calls:
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

        def __init__(self, calls: int) -> None:
            self.outputs = (output(number, calls) for number in range(calls + 1))

        async def get_response(self, *args: Any, **kwargs: Any) -> agents.ModelResponse:
            usage = agents.Usage(requests=1, input_tokens=120, output_tokens=20, total_tokens=140)
            found = [next(self.outputs)]
            return agents.ModelResponse(output=found, usage=usage, response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    tool = agents.function_tool(search)

    async def converse(calls: int) -> str:
        agent = agents.Agent(name="assistant", model=ScriptedModel(calls), tools=[tool])
        result = await agents.Runner.run(agent, "What is the weather?", max_turns=calls + 1)
        return str(result.final_output)

    return lambda calls: asyncio.run(converse(calls))


def _langchain() -> Run:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    class ScriptedModel(BaseChatModel):
        """Asks for one tool call after the other, then answers."""

        model: str = "scripted"
        left: int = 0

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            usage: Any = {"input_tokens": 120, "output_tokens": 20, "total_tokens": 140}
            if self.left:
                call = {"name": "search", "args": dict(ARGUMENTS), "id": f"call_{self.left}"}
                message = AIMessage(content="", tool_calls=[call], usage_metadata=usage)
            else:
                message = AIMessage(content=ANSWER, usage_metadata=usage)
            self.left -= 1
            return ChatResult(generations=[ChatGeneration(message=message)])

    model = ScriptedModel()
    agent = create_agent(model, [tool(search)], name="assistant")
    limit: Any = {"recursion_limit": 3 * CALLS}

    def run(calls: int) -> str:
        model.left = calls
        result = agent.invoke({"messages": [("user", "What is the weather?")]}, limit)
        return str(result["messages"][-1].content)

    return run
