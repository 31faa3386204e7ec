"""Runs of real agents on a scripted model: what governing and tracing them adds to a tool call.

A run is 20 tool calls one after the other, each asked for by a model call of its own, and an
answer. Ours makes turn, model and tool spans, decides by one rule and keeps metrics; the peer is
the instrumentation of OpenTelemetry's own project for the same framework; what is by hand is in
`by_hand.py`. All sides run in one process, round about, each switched on and off.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import otelhooks
from otelhooks import policy
from tests.bench import by_hand
from tests.bench.measure import Contender, Encoding, Row, Sink, alternate, floor

CALLS = 20  # of tools in a run
ARGUMENTS = {"query": "weather in Rome", "limit": 5}
ANSWER = "It rains."

Run: TypeAlias = Callable[[int], str]  # with so many tool calls; returns the answer


@dataclass
class Scripted:
    """An agent with a scripted model.

    Attributes:
        run: Runs it.
        own_tracing: Switches the framework's own tracing: on for the peer, which makes its spans of
            it, and off for all others, which do without; the framework has it on by default.
    """

    run: Run
    own_tracing: Callable[[bool], None] | None = None


def search(query: str, limit: int = 5) -> str:
    """Search the web."""
    return f"{limit} results"


def measure_openai_agents(rounds: int) -> list[Row]:
    """Return the rows of openai-agents; none where it is not installed."""
    return _rows("openai_agents", openai_agents(), rounds, 3.5, 1.4, 0.96)


def measure_langchain(rounds: int) -> list[Row]:
    """Return the rows of langchain; none where it is not installed."""
    return _rows("langchain", langchain(), rounds, 3.8, 0.45, 0.29)


def openai_agents() -> dict[str, Contender]:
    """Return the sides of openai-agents; none where it is not installed."""
    try:
        agent = _openai_agents()
    except ImportError:
        return {}
    return _sides("openai_agents", agent, "OpenAIAgentsInstrumentor")


def langchain() -> dict[str, Contender]:
    """Return the sides of langchain; none where it is not installed."""
    try:
        agent = _langchain()
    except ImportError:
        return {}
    return _sides("langchain", agent, "LangChainInstrumentor")


def _sides(framework: str, agent: Scripted, instrumentor: str) -> dict[str, Contender]:
    """Return one framework bare, ours, by hand and, where it is installed, the peer.

    The peer is imported when its turn comes: where it is, ours tells it of each model call.
    """

    def work(calls: int) -> None:
        assert agent.run(calls) == ANSWER

    def ours(sink: Sink) -> Contender:
        def on() -> None:
            otelhooks.instrument(
                policies=[policy.deny("run_command"), policy.allow("search")],
                tracer_provider=sink.tracers,
                meter_provider=sink.meters,
                frameworks=(framework,),
                store=Path("/dev/null"),
            )

        return Contender(work, CALLS, sink.flush, on, otelhooks.uninstrument, sink)

    bare = Contender(work, CALLS)
    contenders = {
        "bare": bare,
        "ours": ours(Sink()),
        "on our provider": ours(Sink.as_built()),
        **by_hand.sides(bare, ours),
    }
    module = f"opentelemetry.instrumentation.genai.{framework}"
    if _is_there(module):
        other = Sink()

        def peer() -> Any:  # always the same one
            return getattr(importlib.import_module(module), instrumentor)()

        def on() -> None:
            peer().instrument(tracer_provider=other.tracers, meter_provider=other.meters)

        instrumented = Contender(work, CALLS, other.flush, on, lambda: peer().uninstrument(), other)
        contenders["peer"] = _with(agent.own_tracing, instrumented)
    if agent.own_tracing is not None:
        contenders["bare, own tracing"] = _with(agent.own_tracing, bare)
        contenders["ours, own tracing"] = _with(agent.own_tracing, ours(Sink()))
    return contenders


def _with(own_tracing: Callable[[bool], None] | None, side: Contender) -> Contender:
    """Return a side with the framework's own tracing on, if it has any."""
    if own_tracing is None:
        return side

    def on() -> None:
        own_tracing(True)
        side.on()

    def off() -> None:
        side.off()
        own_tracing(False)

    return replace(side, on=on, off=off)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # a package that it lies in is missing
        return False


def _rows(
    framework: str,
    sides: dict[str, Contender],
    rounds: int,
    budget: float,
    beside_peer: float,
    own_beside: float,
) -> list[Row]:
    """Measure one framework."""
    if not sides:
        return []
    contenders = {"floor": floor(), **sides}
    times = alternate(contenders, rounds)
    note = f"{_spans_of_a_run(sides['ours']) / CALLS:.2f} spans a tool call"
    rows = [times.row(f"{framework} run, a tool call", budget, "ours", "floor", "bare", note)]
    if "peer" in sides:
        rows.append(times.row("  beside OTel GenAI's", beside_peer, "ours", "peer", "bare"))
        rows.append(times.row("    on our provider", own_beside, "on our provider", "peer", "bare"))
        rows.append(times.row("  OTel GenAI's", None, "peer", "floor", "bare"))
    rows.append(times.row("  the same by hand", None, "by hand", "floor", "bare"))
    if "peer" in sides:
        rows.append(times.row("    beside OTel GenAI's", None, "by hand", "peer", "bare"))
    what = f"  bytes a span of a {framework} run, content off"
    rows.append(Row(what, _exporter(sides["ours"]).bytes_a_span, 500, "bytes"))
    return rows


def _exporter(contender: Contender) -> Encoding:
    assert contender.sink is not None
    return contender.sink.exporter


def _spans_of_a_run(ours: Contender) -> int:
    exporter = _exporter(ours)
    before = exporter.spans
    ours.on()
    ours.work(ours.calls)
    ours.flush()
    ours.off()
    return exporter.spans - before


# -- the agents -------------------------------------------------------------------------------


def _openai_agents() -> Scripted:
    import asyncio
    import json

    import agents
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    agents.set_trace_processors([])  # with nowhere to send to

    def own_tracing(is_on: bool) -> None:
        agents.set_tracing_disabled(not is_on)

    own_tracing(False)

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

    return Scripted(lambda calls: asyncio.run(converse(calls)), own_tracing)


def _langchain() -> Scripted:
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

    model, made = ScriptedModel(), tool(search)
    agent = create_agent(model, [made], name="assistant")
    limit: Any = {"recursion_limit": 3 * CALLS}

    def run(calls: int) -> str:
        model.left = calls
        result = agent.invoke({"messages": [("user", "What is the weather?")]}, limit)
        return str(result["messages"][-1].content)

    return Scripted(run)
