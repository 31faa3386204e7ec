"""How many spans a second the local store takes, on one core, in the thread of its exporter.

Spans look like those of an agent: per turn one `invoke_agent`, and twenty pairs of a model and a
tool call with about eight attributes. They are made before the clock starts; what is measured is
the CPU time of `export`, encoding and SQLite included, in batches of 512 as the batch processor
gives them. The best of some rounds counts: the others tell how busy the machine is.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otelhooks.records import semconv
from otelhooks.store.writer import SqliteSpanExporter
from tests.bench.measure import Row, empty_call, scaled

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

TURNS = 500
CALLS = 20
BATCH = 512
BUDGET = 20_000  # spans a second

CHAT = {
    semconv.GEN_AI_OPERATION_NAME: semconv.OP_CHAT,
    semconv.GEN_AI_PROVIDER_NAME: semconv.PROVIDER_OPENAI,
    semconv.GEN_AI_REQUEST_MODEL: "gpt-5",
    semconv.GEN_AI_RESPONSE_ID: "chatcmpl-A1b2C3d4E5f6G7h8",
    semconv.GEN_AI_RESPONSE_FINISH_REASONS: ("tool_call",),
    semconv.GEN_AI_USAGE_INPUT_TOKENS: 820,
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 96,
    semconv.GEN_AI_CONVERSATION_ID: "conversation-7",
}
TOOL = {
    semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
    semconv.GEN_AI_TOOL_NAME: "view_file",
    semconv.GEN_AI_TOOL_TYPE: semconv.TOOL_TYPE_FUNCTION,
    semconv.GEN_AI_TOOL_CALL_ID: "call_A1b2C3d4E5f6",
    semconv.GEN_AI_AGENT_NAME: "ops",
    semconv.GEN_AI_CONVERSATION_ID: "conversation-7",
    semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
    semconv.POLICY_RULE_ID: "safe-reads",
}


def make_spans() -> tuple[ReadableSpan, ...]:
    """Return the finished spans of `TURNS` turns."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer(semconv.SCOPE_NAME)
    for _ in range(TURNS):
        with tracer.start_as_current_span("invoke_agent ops"):
            for _ in range(CALLS):
                tracer.start_span("chat gpt-5", attributes=CHAT).end()
                tracer.start_span("execute_tool view_file", attributes=TOOL).end()
    return kept.get_finished_spans()


def export(spans: tuple[ReadableSpan, ...]) -> tuple[float, float]:
    """Return spans a second of CPU time, and bytes a span in the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        exporter = SqliteSpanExporter(path)
        started = time.process_time()
        for first in range(0, len(spans), BATCH):
            exporter.export(spans[first : first + BATCH])
        took_s = time.process_time() - started
        exporter.shutdown()
        assert exporter.dropped == 0
        return len(spans) / took_s, path.stat().st_size / len(spans)


def encode(spans: tuple[ReadableSpan, ...]) -> float:
    """Return spans a second of CPU time that are encoded as OTLP protobuf."""
    started = time.process_time()
    for first in range(0, len(spans), BATCH):
        encode_spans(spans[first : first + BATCH]).SerializeToString()
    return len(spans) / (time.process_time() - started)


def measure(rounds: int) -> list[Row]:
    """Return the row of this file."""
    spans, empty = make_spans(), empty_call()
    found = [export(spans) for _ in range(max(3, rounds // 3))]
    rate, size = max(rate for rate, _ in found), found[0][1]
    otlp = max(encode(spans) for _ in range(3))
    here = f"measured {rate:,.0f}; {size:.0f} bytes a span; OTLP encoding alone {otlp:,.0f}"
    figure = 1 / scaled(1 / rate, empty)
    return [Row("local store", figure, BUDGET, "spans/s*", here, at_least=True)]
