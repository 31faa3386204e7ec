"""A program with otelhooks and others that trace it: one agent, one allowed tool and one denied.

By hand: ``python -m tests.beside.play '{"framework": "langchain", "peers": ["otel"]}'``, which
prints one line of JSON: the spans, the metrics, what was logged, and which tools ran.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.beside import model_server

GENAI = "opentelemetry.instrumentation.genai"

# peer: framework: class that instruments it.
INSTRUMENTORS = {
    "openinference": {
        "openai_agents": "openinference.instrumentation.openai_agents.OpenAIAgentsInstrumentor",
        "langchain": "openinference.instrumentation.langchain.LangChainInstrumentor",
    },
    "traceloop": {
        "openai_agents": "opentelemetry.instrumentation.openai_agents.OpenAIAgentsInstrumentor",
        "langchain": "opentelemetry.instrumentation.langchain.LangchainInstrumentor",
    },
    "otel": {
        "openai_agents": f"{GENAI}.openai_agents.OpenAIAgentsInstrumentor",
        "langchain": f"{GENAI}.langchain.LangChainInstrumentor",
    },
    "otel_v2": {
        "openai_agents": "opentelemetry.instrumentation.openai_agents.OpenAIAgentsInstrumentor",
    },
    "otel_client": dict.fromkeys(
        ("openai_agents", "langchain"),
        f"{GENAI}.openai.OpenAIInstrumentor",
    ),
}

ran: list[str] = []


def search(query: str) -> str:
    """Search pages."""
    ran.append("search")
    return f"page about {query}"


def delete_page(title: str) -> str:
    """Delete a page."""
    ran.append("delete_page")
    return f"deleted {title}"


class Logged(logging.Handler):
    """Keeps what otelhooks logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def set_up(peers: list[str]) -> tuple[InMemorySpanExporter, InMemoryMetricReader]:
    """Make the application's providers: those of Logfire, where it is among the peers."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    processor = SimpleSpanProcessor(exporter)
    if "logfire" in peers:
        import logfire

        logfire.configure(
            send_to_logfire=False,
            console=False,
            inspect_arguments=False,
            additional_span_processors=[processor],
            metrics=logfire.MetricsOptions(additional_readers=[reader]),
        )
        return exporter, reader
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(processor)
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return exporter, reader


def instrument(peer: str, framework: str) -> None:
    """Switch on what a peer has for a framework."""
    if peer == "logfire":
        import logfire

        if framework == "openai_agents":
            logfire.instrument_openai_agents()
        return  # langchain sends its spans to it by itself, with LANGSMITH_OTEL_ENABLED
    module, _, name = INSTRUMENTORS[peer][framework].rpartition(".")
    getattr(importlib.import_module(module), name)().instrument()


def run_openai_agents(address: str) -> str:
    import agents
    import openai

    client = openai.AsyncOpenAI(base_url=address, api_key="none")
    agent = agents.Agent(
        name="assistant",
        instructions="Help.",
        model=agents.OpenAIResponsesModel(model=model_server.MODEL, openai_client=client),
        tools=[agents.function_tool(search), agents.function_tool(delete_page)],
    )

    async def run() -> str:
        async with client:
            return str((await agents.Runner.run(agent, "What are the limits?")).final_output)

    return asyncio.run(run())


def run_langchain(address: str) -> str:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=model_server.MODEL, base_url=address, api_key="none")
    graph = create_agent(model, [search, delete_page], name="assistant")
    state = graph.invoke({"messages": [{"role": "user", "content": "What are the limits?"}]})
    return str(state["messages"][-1].text)


RUN = {"openai_agents": run_openai_agents, "langchain": run_langchain}


def main(asked: dict[str, Any]) -> dict[str, Any]:
    import otelhooks
    from otelhooks import policy

    framework, peers = asked["framework"], asked["peers"]
    if framework == "openai_agents":
        import agents

        agents.set_trace_processors([])  # the SDK's own sends to its maker
    logged = Logged()
    logging.getLogger("otelhooks").addHandler(logged)
    logging.getLogger("otelhooks").setLevel(logging.INFO)

    def govern() -> None:
        rules = [policy.deny("delete_page"), policy.allow("search")]
        otelhooks.instrument(policies=rules, **asked.get("otelhooks", {}))

    def trace_too() -> tuple[InMemorySpanExporter, InMemoryMetricReader]:
        made = set_up(peers)
        for peer in peers:
            instrument(peer, framework)
        return made

    if asked.get("first") == "otelhooks":
        govern()
        exporter, reader = trace_too()
    else:
        exporter, reader = trace_too()
        govern()
    with model_server.served() as address:
        answer = RUN[framework](address)
    otelhooks.uninstrument()
    return {
        "answer": answer,
        "ran": ran,
        "log": logged.lines,
        "spans": [told(span) for span in exporter.get_finished_spans()],
        "metrics": counts(reader),
    }


def told(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "id": f"{span.context.span_id:x}",
        "parent": f"{span.parent.span_id:x}" if span.parent else "",
        "trace": f"{span.context.trace_id:x}",
        "status": span.status.status_code.name,
        "attributes": {key: str(value) for key, value in (span.attributes or {}).items()},
        "events": [{key: str(value) for key, value in e.attributes.items()} for e in span.events],
    }


def counts(reader: InMemoryMetricReader) -> list[dict[str, Any]]:
    """Return each point: its metric, its scope, its attributes, and its count or value."""
    data = reader.get_metrics_data()
    return [
        {
            "name": metric.name,
            "scope": scope.scope.name,
            "attributes": {key: str(value) for key, value in point.attributes.items()},
            "value": getattr(point, "count", None) or getattr(point, "value", None),
        }
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
