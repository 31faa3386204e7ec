"""Own sums behind observable counters, deferred histograms, gauges, change of provider, fork."""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import threading
import weakref

import opentelemetry.metrics
import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import TracerProvider

from otelhooks.records import semconv
from otelhooks.telemetry import counters, metrics
from otelhooks.telemetry.metrics import Instruments

ALLOW = {semconv.POLICY_DECISION: semconv.DECISION_ALLOW}
DENY = {semconv.POLICY_DECISION: semconv.DECISION_DENY}
TOOL = {semconv.GEN_AI_TOOL_NAME: "run_command"}
DURATION = semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION

CUMULATIVE = AggregationTemporality.CUMULATIVE
DELTA = AggregationTemporality.DELTA


def make_reader(temporality: AggregationTemporality = CUMULATIVE) -> InMemoryMetricReader:
    kinds = (Counter, Histogram, ObservableCounter)
    return InMemoryMetricReader(preferred_temporality=dict.fromkeys(kinds, temporality))


class RecordingExporter(MetricExporter):
    """Keep the names of what is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        for resource in metrics_data.resource_metrics:
            for scope in resource.scope_metrics:
                self.names |= {metric.name for metric in scope.metrics}
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **kwargs):
        pass


def collect(reader: InMemoryMetricReader) -> dict:
    """Collect once: metric name to metric."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def waiting(instruments: Instruments) -> int:
    """Count the values that were not handed to the SDK yet."""
    cells = [cell for name in metrics._HISTOGRAMS for cell in instruments.histogram(name).cells()]
    return sum(len(cell.values) for cell in cells)


def points(reader: InMemoryMetricReader, name: str) -> list:
    metric = collect(reader).get(name)
    return [] if metric is None else list(metric.data.data_points)


@pytest.fixture(params=[CUMULATIVE, DELTA], ids=["cumulative", "delta"])
def reader(request):
    return make_reader(request.param)


@pytest.fixture
def provider(reader):
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


@pytest.fixture
def instruments(provider):
    instruments = Instruments(provider, "1")
    yield instruments
    instruments.close()


@pytest.fixture
def span_context():
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
    span.end()
    return span.get_span_context()


class TestCounters:
    def test_a_count_is_collected_with_its_attributes(self, instruments, reader):
        instruments.decisions.cell(ALLOW).add()
        instruments.decisions.cell(DENY).add(2)
        found = {
            point.attributes[semconv.POLICY_DECISION]: point.value
            for point in points(reader, semconv.METRIC_POLICY_DECISIONS)
        }
        assert found == {semconv.DECISION_ALLOW: 1, semconv.DECISION_DENY: 2}

    def test_the_second_collection_follows_the_temporality(self, instruments, reader, request):
        cell = instruments.decisions.cell(ALLOW)
        cell.add(3)
        collect(reader)
        cell.add(4)
        is_delta = "delta" in request.node.name
        [point] = points(reader, semconv.METRIC_POLICY_DECISIONS)
        assert point.value == (4 if is_delta else 7)

    def test_a_cell_that_was_never_added_to_is_reported_as_zero(self, instruments, reader):
        instruments.denies.cell({semconv.POLICY_RULE_ID: "r1"})
        [point] = points(reader, semconv.METRIC_POLICY_DENIES)
        assert point.value == 0

    def test_a_sampled_span_becomes_the_exemplar(self, instruments, reader, span_context):
        instruments.decisions.cell(DENY).add(1, span_context)
        [point] = points(reader, semconv.METRIC_POLICY_DECISIONS)
        [exemplar] = point.exemplars
        assert exemplar.trace_id == span_context.trace_id
        assert exemplar.span_id == span_context.span_id

    def test_an_exemplar_is_handed_out_once(self, instruments, reader, span_context):
        instruments.decisions.cell(DENY).add(1, span_context)
        collect(reader)
        for point in points(reader, semconv.METRIC_POLICY_DECISIONS):
            assert not point.exemplars

    def test_the_span_of_the_collecting_thread_is_not_an_exemplar(self, instruments, reader):
        """The SDK would take the current span for an observation without a context."""
        instruments.decisions.cell(DENY).add(1)
        instruments.record(DURATION, 0.1, TOOL)
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
        with tracer.start_as_current_span("flushing"):
            found = collect(reader)
        for name in (semconv.METRIC_POLICY_DECISIONS, DURATION):
            assert not found[name].data.data_points[0].exemplars

    def test_the_same_attributes_in_another_order_are_the_same_cell(self, instruments):
        one = instruments.decisions.cell({**ALLOW, **TOOL})
        assert one is instruments.decisions.cell({**TOOL, **ALLOW})

    def test_attributes_are_copied(self, instruments):
        given = dict(ALLOW)
        cell = instruments.decisions.cell(given)
        given["x"] = "y"
        assert cell.attributes == ALLOW

    def test_beyond_the_limit_all_new_sets_share_the_overflow_cell(
        self, instruments, reader, monkeypatch, caplog
    ):
        monkeypatch.setattr(counters, "MAX_SERIES", 4)
        for number in range(10):
            instruments.decisions.cell({semconv.POLICY_RULE_ID: str(number)}).add()
        found = points(reader, semconv.METRIC_POLICY_DECISIONS)
        overflow = [point for point in found if semconv.METRIC_OVERFLOW in point.attributes]
        assert len(found) == 4
        assert [point.value for point in overflow] == [7]
        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    def test_as_many_series_as_the_sdk_holds_are_not_cut_by_it(self, instruments, reader):
        for number in range(counters.MAX_SERIES + 5):
            instruments.decisions.cell({semconv.POLICY_RULE_ID: str(number)}).add()
        found = points(reader, semconv.METRIC_POLICY_DECISIONS)
        assert len(found) == counters.MAX_SERIES
        assert sum(point.value for point in found) == counters.MAX_SERIES + 5

    def test_concurrent_additions_are_all_counted(self, instruments):
        cell = instruments.decisions.cell(ALLOW)

        def add() -> None:
            for _ in range(5_000):
                cell.add()

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cell.value == 20_000

    @pytest.mark.parametrize(
        ("attribute", "name"),
        [
            ("decisions", semconv.METRIC_POLICY_DECISIONS),
            ("denies", semconv.METRIC_POLICY_DENIES),
            ("evaluations", semconv.METRIC_POLICY_EVALUATIONS),
            ("evaluation_time", semconv.METRIC_POLICY_EVALUATION_TIME),
            ("tool_calls", semconv.METRIC_TOOL_CALLS),
            ("tool_time", semconv.METRIC_TOOL_TIME),
            ("candidate_flips", semconv.METRIC_CANDIDATE_FLIPS),
            ("coverage_gaps", semconv.METRIC_COVERAGE_GAPS),
            ("hook_errors", semconv.METRIC_HOOK_ERRORS),
            ("hook_queue_dropped", semconv.METRIC_HOOK_QUEUE_DROPPED),
        ],
    )
    def test_named_counters_are_the_metrics_of_their_name(self, instruments, attribute, name):
        assert getattr(instruments, attribute) is instruments.counter(name)


class TestHistograms:
    def test_a_recorded_value_lands_in_the_same_collection(self, instruments, reader):
        instruments.record(DURATION, 0.3, TOOL)
        [point] = points(reader, DURATION)
        assert (point.count, point.sum, dict(point.attributes)) == (1, 0.3, TOOL)

    def test_every_collection_gets_what_came_since(self, instruments, reader, request):
        instruments.record(DURATION, 1.0, TOOL)
        collect(reader)
        instruments.record(DURATION, 2.0, TOOL)
        [point] = points(reader, DURATION)
        assert point.count == (1 if "delta" in request.node.name else 2)

    def test_a_sampled_span_becomes_the_exemplar(self, instruments, reader, span_context):
        instruments.record(DURATION, 0.3, TOOL, span_context)
        [point] = points(reader, DURATION)
        assert [exemplar.trace_id for exemplar in point.exemplars] == [span_context.trace_id]

    def test_the_buckets_are_those_of_the_conventions(self, instruments, reader):
        for name in metrics._HISTOGRAMS:
            instruments.record(name, 1, {})
        found = collect(reader)
        for name, spec in metrics._HISTOGRAMS.items():
            assert found[name].unit == spec.unit
            assert tuple(found[name].data.data_points[0].explicit_bounds) == spec.buckets

    def test_beyond_the_capacity_nothing_is_lost(self, instruments, reader):
        instruments._waiting.limit = metrics.QUEUE_CAPACITY  # no worker: the caller must drain
        number = metrics.QUEUE_CAPACITY * 2 + 10
        for _ in range(number):
            instruments.record(DURATION, 0.1, TOOL)
        assert waiting(instruments) == 10
        [point] = points(reader, DURATION)
        assert point.count == number

    def test_the_capacity_is_that_of_all_cells_together(self, instruments):
        instruments._waiting.limit = metrics.QUEUE_CAPACITY
        for number in range(metrics.QUEUE_CAPACITY + 1):
            instruments.record(DURATION, 0.1, {semconv.GEN_AI_TOOL_NAME: str(number % 100)})
        assert waiting(instruments) == 1

    def test_the_worker_drains_when_half_of_the_capacity_waits(self, instruments):
        for _ in range(metrics.QUEUE_CAPACITY // 2):
            instruments.record(DURATION, 0.1, TOOL)
        worker = instruments._worker
        assert worker is not None
        assert worker.daemon
        for _ in range(200):
            if not waiting(instruments):
                break
            worker.join(0.05)
        assert not waiting(instruments)

    def test_values_of_many_threads_are_all_counted_during_a_collection(
        self, instruments, reader, request
    ):
        cell = instruments.histogram(DURATION).cell(TOOL)

        def record() -> None:
            for _ in range(3_000):
                cell.record(0.1)

        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        counts = [sum(point.count for point in points(reader, DURATION)) for _ in range(5)]
        for thread in threads:
            thread.join()
        counts.append(sum(point.count for point in points(reader, DURATION)))
        is_delta = "delta" in request.node.name
        assert (sum(counts) if is_delta else counts[-1]) == 12_000

    def test_a_collection_waits_for_values_that_the_worker_is_passing_on(
        self, instruments, reader, monkeypatch
    ):
        began, go_on, hand_over = threading.Event(), threading.Event(), instruments._hand_over

        def slow(*args):
            began.set()
            go_on.wait(10)
            hand_over(*args)

        instruments.record(DURATION, 0.1, TOOL)
        monkeypatch.setattr(instruments, "_hand_over", slow)
        worker = threading.Thread(target=instruments.flush)
        worker.start()
        assert began.wait(10)
        threading.Timer(0.1, go_on.set).start()
        [point] = points(reader, DURATION)
        assert point.count == 1
        worker.join()

    def test_the_newest_exemplar_of_each_bucket_is_kept(self, instruments, reader, monkeypatch):
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
        spans = [tracer.start_span("s").get_span_context() for _ in range(4)]
        for span, seconds in zip(spans, (0.011, 0.3, 0.012, 0.31), strict=True):
            instruments.record(DURATION, seconds, TOOL, span)
        [point] = points(reader, DURATION)
        found = {(exemplar.span_id, exemplar.value) for exemplar in point.exemplars}
        assert found == {(spans[2].span_id, 0.012), (spans[3].span_id, 0.31)}

    def test_beyond_the_limit_all_new_sets_share_the_overflow_cell(self, instruments, monkeypatch):
        monkeypatch.setattr(counters, "MAX_SERIES", 4)
        for number in range(10):
            instruments.record(DURATION, 0.1, {semconv.GEN_AI_TOOL_NAME: str(number)})
        cells = instruments.histogram(DURATION).cells()
        assert [len(cell.values) for cell in cells] == [1, 1, 1, 7]
        assert cells[-1].attributes == {semconv.METRIC_OVERFLOW: True}

    def test_close_ends_the_worker_and_later_values_are_not_lost(self, instruments, reader):
        for _ in range(metrics.QUEUE_CAPACITY // 2):
            instruments.record(DURATION, 0.1, TOOL)
        worker = instruments._worker
        instruments.close()
        worker.join(5)
        assert not worker.is_alive()
        instruments.record(DURATION, 0.1, TOOL)
        [point] = points(reader, DURATION)
        assert point.count == metrics.QUEUE_CAPACITY // 2 + 1

    def test_the_last_collection_at_shutdown_gets_what_waits(self):
        exporter = RecordingExporter()
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
        provider = MeterProvider([reader], shutdown_on_exit=False)
        Instruments(provider, "1").record(DURATION, 0.1, TOOL)
        provider.shutdown()
        assert DURATION in exporter.names

    def test_an_unknown_name_is_logged_once_and_dropped(self, instruments, caplog):
        for _ in range(3):
            instruments.record("no.such", 1, {})
            instruments.flush()
        assert [record.getMessage() for record in caplog.records] == [
            "there is no histogram `no.such`: its values are dropped"
        ]

    def test_a_failing_histogram_is_logged_once(self, instruments, caplog, monkeypatch):
        def fail(name):
            raise RuntimeError("boom")

        monkeypatch.setattr(instruments._hub, "histogram", fail)
        for _ in range(3):
            instruments.record(DURATION, 1, {})
            instruments.flush()
        assert len(caplog.records) == 1


class TestGauges:
    def test_a_gauge_shows_what_its_callback_gives(self, instruments, reader):
        name = semconv.METRIC_ADAPTER_INFO
        attributes = {semconv.ADAPTER_FRAMEWORK: "mcp"}
        instruments.set_gauge(name, lambda: [(1, attributes)])
        [point] = points(reader, name)
        assert (point.value, dict(point.attributes)) == (1, attributes)
        instruments.set_gauge(name, None)
        assert points(reader, name) == []

    def test_a_failing_callback_gives_nothing_and_is_logged_once(self, instruments, reader, caplog):
        def fail():
            raise RuntimeError("boom")

        instruments.set_gauge(semconv.METRIC_APPROVAL_PENDING, fail)
        assert points(reader, semconv.METRIC_APPROVAL_PENDING) == []
        assert points(reader, semconv.METRIC_APPROVAL_PENDING) == []
        assert len(caplog.records) == 1

    def test_an_unknown_gauge_is_logged(self, instruments, caplog):
        instruments.set_gauge("no.such", list)
        assert len(caplog.records) == 1


class TestProviders:
    def test_without_an_sdk_counts_go_on_and_records_are_free(self):
        instruments = Instruments(NoOpMeterProvider(), "1")
        cell = instruments.decisions.cell(ALLOW)
        cell.add()
        instruments.record(DURATION, 1, TOOL)
        instruments.flush()
        assert cell.value == 1
        assert not waiting(instruments)

    def test_a_provider_that_cannot_make_a_meter_is_logged_and_ignored(self, caplog):
        class Broken:
            def get_meter(self, *args, **kwargs):
                raise RuntimeError("boom")

        instruments = Instruments(Broken(), "1")
        instruments.decisions.cell(ALLOW).add()
        instruments.record(DURATION, 1, TOOL)
        assert len(caplog.records) == 1

    def test_cells_stay_valid_when_the_provider_is_exchanged(self, reader, provider):
        instruments = Instruments(NoOpMeterProvider(), "1")
        cell = instruments.decisions.cell(ALLOW)
        cell.add(2)
        instruments.rebind(provider)
        cell.add(1)
        instruments.record(DURATION, 0.1, TOOL)
        found = collect(reader)
        assert [p.value for p in found[semconv.METRIC_POLICY_DECISIONS].data.data_points] == [3]
        assert DURATION in found

    def test_the_old_provider_reports_nothing_after_the_exchange(self, instruments, reader):
        instruments.decisions.cell(ALLOW).add()
        instruments.rebind(NoOpMeterProvider())
        assert points(reader, semconv.METRIC_POLICY_DECISIONS) == []

    def test_a_successor_on_the_same_provider_goes_on_with_the_sums(self, reader, request):
        """The SDK keeps the callbacks of the first registration; sums must not fall or stop."""
        provider = MeterProvider([reader], shutdown_on_exit=False)
        first = Instruments(provider, "1")
        first.decisions.cell(ALLOW).add(5)
        first.record(DURATION, 0.1, TOOL)
        collect(reader)
        first.close()
        second = Instruments(provider, "1")
        second.decisions.cell(ALLOW).add(1)
        second.record(DURATION, 0.1, TOOL)
        found = collect(reader)
        is_delta = "delta" in request.node.name
        [decisions] = found[semconv.METRIC_POLICY_DECISIONS].data.data_points
        [duration] = found[DURATION].data.data_points
        assert decisions.value == (1 if is_delta else 6)
        assert duration.count == (1 if is_delta else 2)
        provider.shutdown()

    def test_an_overflow_sum_is_taken_over_too(self, reader, monkeypatch):
        monkeypatch.setattr(counters, "MAX_SERIES", 2)
        provider = MeterProvider([reader], shutdown_on_exit=False)
        first = Instruments(provider, "1")
        for number in range(4):
            first.decisions.cell({semconv.POLICY_RULE_ID: str(number)}).add()
        second = Instruments(provider, "1")
        assert [cell.value for cell in second.decisions.cells()] == [1, 3]
        provider.shutdown()


@dataclasses.dataclass
class Wrapping(opentelemetry.metrics.MeterProvider):
    """Compares by value, so it cannot be hashed: the shape of Logfire's provider."""

    inner: opentelemetry.metrics.MeterProvider = dataclasses.field(compare=False)

    def get_meter(self, name, version=None, schema_url=None, attributes=None):
        return WeakMeter(self.inner.get_meter(name, version, schema_url, attributes))


class Slotted:
    """Takes no weak reference."""

    __slots__ = ("inner",)

    def __init__(self, inner) -> None:
        self.inner = inner

    def get_meter(self, *args, **kwargs):
        return self.inner.get_meter(*args, **kwargs)


class WeakMeter:
    """Knows only instruments that are held elsewhere, as Logfire's, which makes them again."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.instruments = weakref.WeakSet()

    def create_observable_counter(self, *args, **kwargs):
        self.inner.create_observable_counter(*args, **kwargs)
        return self._note()

    def create_observable_gauge(self, *args, **kwargs):
        self.inner.create_observable_gauge(*args, **kwargs)
        return self._note()

    def create_histogram(self, *args, **kwargs):
        return self.inner.create_histogram(*args, **kwargs)

    def _note(self):
        held = Held()
        self.instruments.add(held)
        return held


class Held:
    """Replaces an instrument."""


class TestProvidersOfOthers:
    """The class of the fault: a meter provider need be neither hashable nor one of a kind."""

    @pytest.mark.parametrize("wrap", [Wrapping, Slotted])
    def test_values_reach_a_provider_that_can_be_no_key(self, provider, reader, wrap, caplog):
        wrapping = wrap(provider)
        instruments = Instruments(wrapping, "1")
        instruments.decisions.cell(ALLOW).add(3)
        instruments.record(DURATION, 0.1, TOOL)
        found = collect(reader)
        assert [p.value for p in found[semconv.METRIC_POLICY_DECISIONS].data.data_points] == [3]
        assert found[DURATION].data.data_points[0].count == 1
        again = Instruments(wrapping, "1")
        again.decisions.cell(ALLOW).add(1)
        assert points(reader, semconv.METRIC_POLICY_DECISIONS)[0].value in {1, 4}
        assert caplog.text == ""

    def test_two_providers_that_compare_equal_are_two(self, provider, reader):
        first, second = Wrapping(NoOpMeterProvider()), Wrapping(provider)
        assert first == second
        Instruments(first, "1").decisions.cell(ALLOW).add(1)
        Instruments(second, "1").decisions.cell(ALLOW).add(2)
        assert [p.value for p in points(reader, semconv.METRIC_POLICY_DECISIONS)] == [2]

    def test_instruments_are_held_for_a_meter_that_holds_them_weakly(self, provider):
        instruments = Instruments(Wrapping(provider), "1")
        gc.collect()
        assert len(instruments._hub.meter.instruments) == len(metrics._COUNTERS) + len(
            metrics._GAUGES
        )

    def test_a_provider_that_goes_takes_its_instruments_along(self):
        before = len(metrics._hubs)
        provider = Wrapping(NoOpMeterProvider())
        instruments = Instruments(provider, "1")
        assert len(metrics._hubs) == before + 1
        del provider, instruments
        gc.collect()
        assert len(metrics._hubs) <= before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestFork:
    def test_a_child_drops_the_queue_and_may_count_from_zero(self, provider, reader):
        instruments = Instruments(provider, "1")
        cell = instruments.denies.cell(DENY)
        cell.add(3)
        instruments.record(DURATION, 0.1, TOOL)
        instruments.after_fork(reset=True)  # called in this process: the parts are the same
        assert cell.value == 0
        assert not waiting(instruments)
        fresh_reader = make_reader()
        fresh = MeterProvider([fresh_reader], shutdown_on_exit=False)
        instruments.record(DURATION, 0.1, TOOL)
        instruments.rebind(fresh)
        cell.add()
        found = collect(fresh_reader)
        assert [p.value for p in found[semconv.METRIC_POLICY_DENIES].data.data_points] == [1]
        assert found[DURATION].data.data_points[0].count == 1
        assert points(reader, semconv.METRIC_POLICY_DENIES) == []
        fresh.shutdown()

    def test_a_child_without_a_provider_keeps_the_newest_values(self, instruments):
        instruments.after_fork(reset=True)
        for number in range(metrics.QUEUE_CAPACITY * 2):
            instruments.record(DURATION, number, TOOL)
        assert waiting(instruments) < metrics.QUEUE_CAPACITY
        assert instruments.histogram(DURATION).cell(TOOL).values[-1] == number
        assert instruments._worker is None

    def test_on_an_inherited_provider_sums_go_on(self, instruments, reader):
        cell = instruments.denies.cell(DENY)
        cell.add(3)
        instruments.after_fork()
        cell.add()
        [point] = points(reader, semconv.METRIC_POLICY_DENIES)
        assert point.value == 4
