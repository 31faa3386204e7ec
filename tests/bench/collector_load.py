"""Turns of agents as OTLP requests that are made once, and sent again and again as new turns.

What takes time, encoding, is done before. A request is taken apart at its trace ids; sending puts
it together with fresh ones, which costs less than a microsecond a span.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelhooks.records import semconv
from tests.e2e.sending import attributes_of

CALLS = 9  # of tools in a turn
SPANS = 2 * CALLS + 2  # a model call before each and one at the end, and the root
TURNS = 25  # in a request: 500 spans, what SDKs send at once
MARK = b"bench-turn-%05d"  # in place of a trace id: 16 bytes
DENIED = 0  # one turn of each request
SENDERS = 4

ARGUMENTS = json.dumps(
    {
        "query": "opening hours of the museum, on public holidays too",
        "filters": {"language": "it", "after": "2026-10-01", "sources": ["web", "handbook"]},
        "limit": 5,
    }
)


@dataclass(frozen=True)
class Turns:
    """A request with so many turns.

    Attributes:
        parts: Its bytes between trace ids.
        order: For each gap which turn's id belongs there.
        turns: How many turns.
        spans: How many spans.
    """

    parts: tuple[bytes, ...]
    order: tuple[int, ...]
    turns: int
    spans: int

    def body(self) -> bytes:
        """Return the request with trace ids that were never used before."""
        ids = [os.urandom(16) for _ in range(self.turns)]
        gaps = zip(self.parts[:-1], self.order, strict=True)
        filled = [piece for part, turn in gaps for piece in (part, ids[turn])]
        return b"".join([*filled, self.parts[-1]])


def turns(count: int = TURNS, *, ended: bool = True) -> Turns:
    """Make a request.

    Args:
        count: Turns in it. The first has a deny.
        ended: Whether the root is there; without it the sampler holds a turn.
    """
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(attributes_of({semconv.SERVICE_NAME: "bench"}))
    spans = resource.scope_spans.add().spans
    for turn in range(count):
        made = list(_turn(denied=turn == DENIED))
        for number, (name, attributes) in enumerate(made if ended else made[:-1]):
            started = time.time_ns() + number * 1_000_000
            spans.add(
                trace_id=MARK % turn,
                span_id=(number + 1).to_bytes(8, "big"),
                # The root comes last: a span is sent when it has ended.
                parent_span_id=b"" if number == SPANS - 1 else SPANS.to_bytes(8, "big"),
                name=name,
                start_time_unix_nano=started,
                end_time_unix_nano=started + 900_000,
                attributes=attributes_of(attributes),
            )
    pieces = re.split(MARK.replace(b"%05d", rb"(\d{5})"), request.SerializeToString())
    order = tuple(int(piece) for piece in pieces[1::2])
    return Turns(tuple(pieces[::2]), order, count, len(order))


def _turn(*, denied: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and 8 attributes of each span of a turn, the root last."""
    about = {
        semconv.GEN_AI_PROVIDER_NAME: semconv.PROVIDER_OPENAI,
        semconv.GEN_AI_AGENT_NAME: "support-agent",
        semconv.GEN_AI_CONVERSATION_ID: "conv-5f2c9a7be1d04417",
    }
    model = {
        **about,
        semconv.GEN_AI_OPERATION_NAME: semconv.OP_CHAT,
        semconv.GEN_AI_REQUEST_MODEL: "gpt-5-mini",
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: ["tool_calls"],
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 1_204,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 87,
    }
    for call in range(CALLS):
        yield "chat gpt-5-mini", model
        refused = denied and call == CALLS - 1
        decision = semconv.DECISION_DENY if refused else semconv.DECISION_ALLOW
        yield (
            "execute_tool search_documents",
            {
                **about,
                semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
                semconv.GEN_AI_TOOL_NAME: "search_documents",
                semconv.GEN_AI_TOOL_CALL_ARGUMENTS: ARGUMENTS,
                semconv.POLICY_DECISION: decision,
                semconv.POLICY_RULE_ID: "search-only",
            },
        )
    yield "chat gpt-5-mini", model
    yield (
        "invoke_agent support-agent",
        {**model, semconv.GEN_AI_OPERATION_NAME: semconv.OP_INVOKE_AGENT},
    )


class Connection:
    """A connection over HTTP that stays open.

    Args:
        port: Of the receiver, on loopback.
        token: Shown as bearer.
    """

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "Authorization": f"Bearer {token}",
        }

    def post(self, body: bytes) -> None:
        """Send a request of traces.

        Raises:
            ConnectionError: It was not acknowledged.
        """
        self._connection.request("POST", "/v1/traces", body, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            msg = f"not acknowledged: {answer.status} {said!r}"
            raise ConnectionError(msg)

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def send(port: int, token: str, what: Turns, for_s: float) -> int:
    """Send for so many seconds, by all senders at once, each as fast as it is acknowledged.

    Returns:
        How many requests were acknowledged.

    Raises:
        ConnectionError: One was not.
    """
    until = time.monotonic() + for_s

    def work(_: int) -> int:
        sent = 0
        with closing(Connection(port, token)) as connection:
            while time.monotonic() < until:
                connection.post(what.body())
                sent += 1
        return sent

    with ThreadPoolExecutor(SENDERS) as pool:
        return sum(pool.map(work, range(SENDERS)))
