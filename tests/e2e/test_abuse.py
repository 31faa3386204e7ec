"""Hostile and broken requests, and more than fits: the collector answers, stays up, loses nothing.

The senders here show the token: they are ours, and broken or taken over. Each runs against a
collector of its own with little memory, so that a crash would be seen and harm no other test.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import urllib.error
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, eventually, own_metric
from tests.e2e.sending import Sender
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import Stack

MIB = 1 << 20
DENY = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_MODE: semconv.MODE_ENFORCE,
    semconv.POLICY_RULE_ID: "abuse",
}


@pytest.fixture(scope="module")
def small(stack: Stack) -> Iterator[Process]:
    """A collector that refuses from some 100 MiB on, and sends to the stack's trace store."""
    settings = {
        "OTELCOL_MEMORY_MIB": "140",
        "OTELCOL_MEMORY_SPIKE_MIB": "40",
        "OTELCOL_SAMPLING_PERCENTAGE": "0",
        "GOMEMLIMIT": "140MiB",
    }
    collector = stack.collector("otelcol-small", settings=settings)
    collector.start()
    yield collector
    collector.stop()


@pytest.fixture
def sender(small: Process, stack: Stack, jaeger: Jaeger) -> Iterator[Sender]:
    """A sender with the token; afterwards the same collector still takes a deny."""
    pid = small.pid
    url = f"http://127.0.0.1:{small.environment['OTELCOL_HTTP_PORT']}"
    sender = Sender(url, stack.token, "abuse")
    yield sender
    assert small.pid == pid, small.last_words()
    afterwards = eventually(lambda: acknowledged(sender, "afterwards"))
    eventually(lambda: jaeger.trace(afterwards))


def acknowledged(sender: Sender, name: str) -> str | None:
    """Send a deny; return its trace id if the collector says that it has it."""
    try:
        return sender.span(name, DENY)
    except OSError:
        return None


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (os.urandom(4096), {}),
        (b"{" * 4096, {"Content_Type": "application/json"}),
        (b"\x0a\xff\xff\xff\xff\x0f", {}),
        (b"not gzip", {"Content_Encoding": "gzip"}),
        (b"x", {"Content_Encoding": "no-such"}),
    ],
    ids=["noise", "open braces", "a length beyond the end", "no gzip", "unknown encoding"],
)
def test_garbage_is_a_bad_request(body: bytes, headers: dict[str, str], sender: Sender) -> None:
    assert 400 <= sender.post("/v1/traces", body, **headers) < 500


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_not_unpacked(encoding: str, sender: Sender, small: Process) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = pack(bytes(1 << 30), 6)
    before = peak_bytes(small)

    assert 400 <= sender.post("/v1/traces", bomb, Content_Encoding=encoding) < 500
    assert peak_bytes(small) - before < 200 * MIB


def test_an_oversized_request_is_refused(sender: Sender) -> None:
    try:
        assert sender.post("/v1/traces", bytes(21 * MIB)) in (400, 413)
    except (BrokenPipeError, ConnectionResetError, urllib.error.URLError):
        pass  # it hung up before all was sent


def test_an_oversized_grpc_message_is_refused(sender: Sender, small: Process, stack: Stack) -> None:
    request, _ = sender.request("large", {"text": "x" * 17 * MIB}, 1)
    address = f"127.0.0.1:{small.environment['OTELCOL_GRPC_PORT']}"
    token = (("authorization", f"Bearer {stack.token}"),)

    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
        TraceServiceStub(channel).Export(request, metadata=token, timeout=30)

    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("levels", [1_000, 100_000])
def test_values_nested_deeply_do_no_harm(levels: int, sender: Sender) -> None:
    assert sender.post("/v1/traces", nested(levels)) in (200, 400)


def test_a_request_that_breaks_the_collector_takes_no_acknowledged_deny_with_it(
    stack: Stack, jaeger: Jaeger
) -> None:
    """A million levels are more than Go's stack holds: a known limit of the collector 0.158.

    Only a sender with the token can do it. What was acknowledged lies on disk.
    """
    victim = stack.collector("otelcol-victim")
    victim.start()
    try:
        url = f"http://127.0.0.1:{victim.environment['OTELCOL_HTTP_PORT']}"
        sender = Sender(url, stack.token, "abuse")
        taken = [sender.span(f"before {number}", DENY) for number in range(20)]
        with contextlib.suppress(OSError):
            sender.post("/v1/traces", nested(1_000_000))
        if not victim.is_running:
            victim.start()

        for trace_id in taken:
            eventually(lambda trace_id=trace_id: jaeger.trace(trace_id))
    finally:
        victim.stop()


def test_every_acknowledged_deny_of_a_flood_arrives(
    sender: Sender, small: Process, jaeger: Jaeger
) -> None:
    """Sixteen senders with some 400 MiB in all, beyond the memory; denies go between."""
    request, _ = sender.request("flood", {"text": "x" * 1024}, 3000)
    flood = request.SerializeToString()
    answers: list[int] = []

    def send(number: int) -> str | None:
        answers.extend(sender.post("/v1/traces", flood) for _ in range(2))
        return acknowledged(sender, f"deny {number}")

    with ThreadPoolExecutor(16) as pool:
        taken = [trace_id for trace_id in pool.map(send, range(64)) if trace_id]

    assert set(answers) >= {200, 503}
    assert set(answers) <= {200, 429, 503}
    for trace_id in taken:
        eventually(lambda trace_id=trace_id: jaeger.trace(trace_id), 120)
    url = f"http://127.0.0.1:{small.environment['OTELCOL_METRICS_PORT']}"
    assert own_metric(url, "otelcol_processor_memory_limiter_refused_spans") or own_metric(
        url, "otelcol_processor_refused_spans"
    )


def nested(levels: int) -> bytes:
    """Return a request with one attribute whose lists lie in lists, so many times."""
    prefixes: list[bytes] = []
    length = 0
    for _ in range(levels):
        inner = b"\x0a" + varint(length)  # ArrayValue.values
        outer = b"\x2a" + varint(len(inner) + length)  # AnyValue.array_value
        prefixes.append(outer + inner)
        length += len(outer) + len(inner)
    value = b"".join(reversed(prefixes))
    attribute = field(1, b"deep") + field(2, value)
    span = field(1, os.urandom(16)) + field(2, os.urandom(8)) + field(9, attribute)
    return field(1, field(2, field(2, span)))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def peak_bytes(process: Process) -> int:
    """Return the most memory that a process has held."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
