"""Gates on counts: what one request through a raw client may make, whatever the machine's speed.

Times are in `make bench-adapters`. A client's test gives its limits.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import Histogram as SdkHistogram

import otelhooks
from otelhooks import hooks, policy
from otelhooks.records import semconv
from tests.frameworks.canned import CALLS, CLIENTS, TEXT, Client, Wire

__all__ = ["Costs", "Limits"]

OURS = str(Path(otelhooks.__file__).parent)
SIGNALS = str(Path(otelhooks.__file__).parent / "process")
"""What is not counted: unless a process ignores SIGINT, as jobs in the background do, `asyncio.run`
sets a handler of it."""
RULES = [policy.deny("run_command"), policy.allow("search")]
TIMES = 20
ATTRIBUTES, BYTES_A_SPAN = 13, 600
FIRST_CHUNK = {semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: TIMES}


@hooks.post_model_call_transform
def unchanged(answer: object) -> object:
    """Leave an answer as it is, which is known when it is whole."""
    return answer


HELD = [
    ("text", {}, False),
    ("text", {"policies": RULES}, False),
    ("text", {"hooks": [unchanged]}, True),
    ("call", {}, False),
    ("call", {"policies": RULES}, True),
]
"""What a stream shows first, under which settings, and whether it waits for the end."""


class Limits(NamedTuple):
    """The most Python calls in our own code, without rules and with two of them.

    Attributes:
        request: A request for a text.
        message: A message of its history.
        call: A tool call in the answer.
        chunk: A chunk of a streamed text.
    """

    request: tuple[int, int]
    message: tuple[int, int]
    call: tuple[int, int]
    chunk: tuple[int, int]


class Costs:
    """The gates of a client; `limits` are those of `client`."""

    limits: ClassVar[dict[str, Limits]]

    @pytest.fixture(params=[0, 1], ids=["without rules", "with rules"])
    def rules(self, request: pytest.FixtureRequest, client: str, providers: Any) -> Iterator[int]:
        policies = RULES if request.param else []
        otelhooks.instrument(policies=policies, frameworks=[client], **providers)
        yield request.param
        otelhooks.uninstrument()

    def test_a_request_keeps_to_its_number_of_calls(self, client: str, rules: int) -> None:
        asking = CLIENTS[client](Wire(TEXT))
        assert frames(asking.create) <= self.limits[client].request[rules]

    def test_so_does_each_message_before_it(self, client: str, rules: int) -> None:
        asking = CLIENTS[client](Wire(TEXT))
        history = [{"role": "user", "content": "x"}] * 10
        added = frames(lambda: asking.create(*history)) - frames(asking.create)
        assert added / len(history) <= self.limits[client].message[rules]

    def test_so_does_each_call_in_the_answer(self, client: str, rules: int) -> None:
        one, two = (CLIENTS[client](Wire(calls)) for calls in (CALLS[:1], CALLS))
        assert frames(two.create) - frames(one.create) <= self.limits[client].call[rules]

    def test_so_does_each_chunk_of_a_stream(self, client: str, rules: int) -> None:
        some, more = (CLIENTS[client](Wire(text)) for text in (TEXT, TEXT * 2))
        chunks = len(list(more.stream())) - len(list(some.stream()))
        added = frames(lambda: list(more.stream())) - frames(lambda: list(some.stream()))
        assert added / chunks <= self.limits[client].chunk[rules]

    @pytest.mark.parametrize("way", ["create", "stream"])
    def test_a_request_makes_one_small_span(
        self, client: str, rules: int, way: str, exporter: Any
    ) -> None:
        asking = CLIENTS[client](Wire(TEXT))
        for _ in range(TIMES):
            ask(asking, way)
        spans = exporter.get_finished_spans()
        assert len(spans) == TIMES
        assert max(len(span.attributes) for span in spans) <= ATTRIBUTES
        assert len(encode_spans(spans).SerializeToString()) / TIMES <= BYTES_A_SPAN

    @pytest.mark.parametrize(("way", "further"), [("create", {}), ("stream", FIRST_CHUNK)])
    def test_and_a_record_for_each_of_its_histograms(
        self,
        client: str,
        rules: int,
        way: str,
        further: dict[str, int],
        metrics_reader: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        made: Counter[str] = Counter()
        record = SdkHistogram.record

        def counted(histogram: Any, *args: Any, **kwargs: Any) -> None:
            made[histogram.name] += 1
            record(histogram, *args, **kwargs)

        monkeypatch.setattr(SdkHistogram, "record", counted)
        asking = CLIENTS[client](Wire(TEXT))
        for _ in range(TIMES):
            ask(asking, way)
        assert not made, "nothing of the SDK runs in the request itself"
        metrics_reader.get_metrics_data()
        made.pop(semconv.METRIC_POLICY_EVALUATION_DURATION, None)  # slow ones, on a busy machine
        assert made == {semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: TIMES, **further}

    def test_chunks_of_a_stream_are_timed_on_request(
        self, client: str, providers: Any, metrics_reader: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTELHOOKS_CHUNK_HISTOGRAM", "1")
        otelhooks.instrument(frameworks=[client], **providers)
        chunks = list(CLIENTS[client](Wire(TEXT)).stream())
        name = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK
        [point] = [
            point
            for resource in metrics_reader.get_metrics_data().resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        assert point.count == len(chunks) - 1

    @pytest.mark.parametrize(("shown", "settings", "is_held"), HELD)
    def test_a_stream_waits_only_for_what_may_not_be_shown(
        self, client: str, shown: str, settings: dict[str, Any], is_held: bool
    ) -> None:
        wire = Wire(TEXT if shown == "text" else CALLS)
        asking = CLIENTS[client](wire)
        bare = sent_at_first(shown, asking, wire)
        otelhooks.instrument(frameworks=[client], **settings)
        first = sent_at_first(shown, asking, wire)
        assert bare < wire.sent
        assert first == (wire.sent if is_held else bare)


def ask(asking: Client, way: str) -> None:
    """Ask once, and read the answer."""
    asking.create() if way == "create" else list(asking.stream())


def sent_at_first(shown: str, asking: Client, wire: Wire) -> int:
    """Return how many events of a stream were sent when it first showed something."""
    return next(
        sent for what, sent in [(what, wire.sent) for what in asking.stream()] if what == shown
    )


def frames(work: Callable[[], object]) -> int:
    """Return how often functions of ours are entered, or generators of ours gone on with.

    Of several times the least: an evaluation that a busy machine makes slow is recorded, which is
    a call more.
    """
    return min(_frames_once(work) for _ in range(TIMES))


def _frames_once(work: Callable[[], object]) -> int:
    found = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        file = frame.f_code.co_filename
        found += event == "call" and file.startswith(OURS) and not file.startswith(SIGNALS)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found
