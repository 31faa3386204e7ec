"""Turns sent by hand to several collectors at once, as agents on several nodes send them.

The spans of one turn come in two requests, by two collectors: its calls, then its root. A request
that is refused is sent again, as every OpenTelemetry SDK does; what is returned was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelhooks.records import semconv
from tests.e2e.sending import Sender, attributes_of

SPANS = 6
"""Of a turn; the first is the root, the last is the one that is denied."""

DENY = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_MODE: semconv.MODE_ENFORCE,
    semconv.POLICY_RULE_ID: "fleet",
}


@dataclass(frozen=True)
class Turn:
    """A turn that was acknowledged.

    Attributes:
        trace_id: 32 digits.
        spans: Ids of its spans.
        deny: Id of the span that is a deny; None: there is none.
    """

    trace_id: str
    spans: frozenset[str]
    deny: str | None


@dataclass
class Sent:
    """What some senders sent.

    Attributes:
        services: Names of the senders.
        turns: What was acknowledged, by trace id.
        refusals: How many requests were refused, and sent again.
    """

    services: list[str] = field(default_factory=list[str])
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    refusals: int = 0

    @property
    def denied(self) -> dict[str, Turn]:
        """The turns with a deny."""
        return {key: turn for key, turn in self.turns.items() if turn.deny}

    @property
    def spans(self) -> int:
        return sum(len(turn.spans) for turn in self.turns.values())

    def add(self, other: Sent) -> None:
        """Take in what others sent."""
        self.services += other.services
        self.turns |= other.turns
        self.refusals += other.refusals

    def __str__(self) -> str:
        return f"{len(self.turns)} turns, {len(self.denied)} with a deny"


def send_turns(
    urls: Sequence[str], token: str, service: str, turns: int, denied: int, senders: int = 4
) -> Sent:
    """Send turns by several senders at once.

    Args:
        urls: Collectors; a turn's calls go to one, its root to the next.
        token: Shown to them.
        service: Start of the senders' ``service.name``.
        turns: How many; a multiple of `senders`, at most 1,000 for each.
        denied: How many of them have a deny and its event; a divisor of `turns`.
        senders: How many at once.
    """
    every = turns // denied if denied else turns + 1
    shares = [range(number, turns, senders) for number in range(senders)]

    def send(number: int) -> Sent:
        to = [Sender(url, token, f"{service}-{number}") for url in (*urls[number:], *urls[:number])]
        return _send_share(to, f"{service}-{number}", shares[number], every)

    sent = Sent()
    with ThreadPoolExecutor(senders) as pool:
        for share in pool.map(send, range(senders)):
            sent.add(share)
    return sent


def _send_share(to: Sequence[Sender], service: str, numbers: Iterable[int], every: int) -> Sent:
    sent = Sent([service])
    for number in numbers:
        first, last = to[number % len(to)], to[(number + 1) % len(to)]
        calls, root, turn = make_turn(first, is_denied=number % every == every - 1)
        sent.refusals += until_acknowledged(first, calls)
        sent.refusals += until_acknowledged(last, root)
        if turn.deny:
            first.log(semconv.EVENT_POLICY_DECISION, event_of(turn), "denied")
        sent.turns[turn.trace_id] = turn
    return sent


def event_of(turn: Turn) -> dict[str, str]:
    """Return attributes of the event of a deny; its decision id is the turn's trace id."""
    return {**DENY, semconv.DECISION_ID: turn.trace_id}


def make_turn(
    sender: Sender, is_denied: bool
) -> tuple[ExportTraceServiceRequest, ExportTraceServiceRequest, Turn]:
    """Return a turn as two requests, its calls and its root."""
    calls, trace_id = sender.request("execute_tool view_file", {"gen_ai.tool.name": "view"}, SPANS)
    spans = calls.resource_spans[0].scope_spans[0].spans
    spans[0].name = "invoke_agent assistant"
    if is_denied:
        spans[-1].attributes.extend(attributes_of(DENY))
    ids = [span.span_id.hex() for span in spans]
    root = ExportTraceServiceRequest()
    root.CopyFrom(calls)
    del spans[:1]
    del root.resource_spans[0].scope_spans[0].spans[1:]
    return calls, root, Turn(trace_id, frozenset(ids), ids[-1] if is_denied else None)


def until_acknowledged(
    sender: Sender, request: ExportTraceServiceRequest, timeout_s: float = 120
) -> int:
    """Send until it is acknowledged; return how often it was refused.

    Raises:
        AssertionError: Never, in that time, or with a status that tells a sender to give up.
    """
    body, refusals = request.SerializeToString(), 0
    deadline = time.monotonic() + timeout_s
    while (status := sender.post("/v1/traces", body)) != 200:
        assert status in RETRYABLE, status
        assert time.monotonic() < deadline, f"refused {refusals} times, at last with {status}"
        refusals += 1
        time.sleep(0.5)
    return refusals


RETRYABLE = {429, 502, 503, 504}
"""Statuses after which OTLP lets a sender try again; it drops the data after any other."""
