"""What `make bench-collector` sends, and what it makes of what it measured."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelhooks.records import semconv
from tests.bench.collector import BARE, CHAINS, HOLDING, WITH_KAFKA, Burst, table
from tests.bench.collector_load import SPANS, TURNS, Turns, turns
from tests.e2e.sending import attributes_of
from tests.e2e.stack.stack import FILES

DENY = attributes_of({semconv.POLICY_DECISION: semconv.DECISION_DENY})[0]


def spans_of(request: Turns):
    """Put the request together, and read it."""
    read = ExportTraceServiceRequest.FromString(request.body())
    return [
        span
        for resource in read.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_a_request_has_whole_turns_of_spans_with_8_attributes():
    spans = spans_of(turns())

    for first in range(0, len(spans), SPANS):
        *calls, root = spans[first : first + SPANS]
        assert len({span.trace_id for span in (*calls, root)}) == 1
        assert len({span.span_id for span in (*calls, root)}) == SPANS
        assert {span.parent_span_id for span in calls} == {root.span_id}
        assert root.parent_span_id == b""
    assert len(spans) == turns().spans == TURNS * SPANS
    assert {len(span.attributes) for span in spans} == {8}


def test_one_turn_of_a_request_has_a_deny():
    denied = [span.trace_id for span in spans_of(turns()) if DENY in span.attributes]

    assert len(denied) == 1


def test_the_same_request_sent_twice_is_of_other_turns():
    request = turns()

    ids = {span.trace_id for _ in range(2) for span in spans_of(request)}

    assert len(ids) == 2 * TURNS
    assert {len(each) for each in ids} == {16}


def test_an_open_turn_lacks_its_root():
    spans = spans_of(turns(ended=False))

    assert len(spans) == TURNS * (SPANS - 1)
    assert all(span.parent_span_id for span in spans)


def test_every_file_that_is_measured_is_there():
    kinds = (*CHAINS, WITH_KAFKA, HOLDING)
    files = {FILES / file for kind in kinds for files in kind.values() for file in files}

    assert [file for file in files if not file.is_file()] == []


def test_figures_are_medians_and_ratios_those_within_a_round():
    """The machine is ten times as slow in the second round: no ratio changes."""
    slow = (1, 10, 1)
    bursts = {
        BARE: [Burst(1_000, 1_000, 0.5, 0.25, 0.007 * by) for by in slow],
        "single": [Burst(2_000, 260, 0.5, 0.4, 0.07 * by) for by in slow],
    }

    head, bare, single = table(bursts)

    assert bare.removeprefix(BARE).split() == [
        *("7.0", "1.00", "1.00", "to", "1.00", "142,857", "2,000", "0.50", "100.0%"),
    ]
    assert single.removeprefix("single").split() == [
        *("35.0", "5.00", "5.00", "to", "5.00", "28,571", "4,000", "0.80", "13.0%"),
    ]
    assert len(head) == len(bare) == len(single)


def test_a_collector_that_reads_what_another_wrote_takes_nothing_itself():
    bursts = {
        BARE: [Burst(1_000, 1_000, 0.5, 0.25, 0.007)] * 2,
        "behind": [Burst(1_000, 130, 0, 0, 0.021)] * 2,
    }

    *_, behind = table(bursts)

    assert behind.split() == ["behind", "21.0", "3.00", "3.00", "to", "3.00", "47,619", "13.0%"]
