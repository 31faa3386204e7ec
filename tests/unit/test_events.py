"""Events as log records; without a provider, with a broken one, and with the oldest API."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from otelhooks.records import semconv
from otelhooks.telemetry.events import DEBUG, ERROR, INFO, WARN, EventLog
from tests.logs import InMemoryLogRecordExporter

NAME = semconv.EVENT_POLICY_DECISION
ATTRIBUTES = {semconv.POLICY_DECISION: semconv.DECISION_DENY}


@pytest.fixture
def exporter():
    return InMemoryLogRecordExporter()


@pytest.fixture
def provider(exporter):
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return provider


def records(exporter) -> list:
    return [item.log_record for item in exporter.get_finished_logs()]


def test_an_event_has_its_name_severity_body_and_attributes(exporter, provider):
    EventLog(provider, "1.0").emit(NAME, WARN, ATTRIBUTES, body={"nested": [1, {"a": "b"}]})
    [record] = records(exporter)
    assert record.event_name == NAME
    assert record.severity_number.value == WARN
    assert dict(record.attributes) == ATTRIBUTES
    assert record.body == {"nested": [1, {"a": "b"}]}


def test_the_scope_is_ours(exporter, provider):
    EventLog(provider, "1.0", {"k": "v"}).emit(NAME, WARN, ATTRIBUTES)
    [item] = exporter.get_finished_logs()
    scope = item.instrumentation_scope
    assert (scope.name, scope.version, dict(scope.attributes)) == ("otelhooks", "1.0", {"k": "v"})


def test_an_event_may_have_no_severity(exporter, provider):
    EventLog(provider, "1.0").emit(NAME, None, {})
    [record] = records(exporter)
    assert record.severity_number is None


def test_severities_are_those_of_the_specification():
    assert (DEBUG, INFO, WARN, ERROR) == (5, 9, 13, 17)


def test_the_context_given_wins_over_the_current_one(exporter, provider):
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
    events = EventLog(provider, "1.0")
    given = tracer.start_span("given")
    with tracer.start_as_current_span("current") as current:
        events.emit(NAME, INFO, {}, context=trace.set_span_in_context(given))
        events.emit(NAME, INFO, {})
    found = [record.span_id for record in records(exporter)]
    assert found == [given.get_span_context().span_id, current.get_span_context().span_id]


def test_the_attributes_of_the_caller_are_not_kept(exporter, provider):
    given = dict(ATTRIBUTES)
    EventLog(provider, "1.0").emit(NAME, WARN, given)
    given["later"] = 1
    [record] = records(exporter)
    assert "later" not in record.attributes


@pytest.mark.parametrize("nobody", [None, NoOpLoggerProvider()])
def test_without_a_provider_nothing_happens_and_it_says_so(nobody):
    events = EventLog(nobody, "1.0")
    assert not events.is_enabled
    events.emit(NAME, WARN, ATTRIBUTES)


def test_a_provider_can_be_exchanged(exporter, provider):
    events = EventLog(None, "1.0")
    events.rebind(provider)
    events.rebind(provider)
    assert events.is_enabled
    events.emit(NAME, WARN, ATTRIBUTES)
    events.rebind(None)
    events.emit(NAME, WARN, ATTRIBUTES)
    assert len(records(exporter)) == 1


def test_a_failing_logger_is_logged_once_per_cause(provider, caplog, monkeypatch):
    events = EventLog(provider, "1.0")

    def fail(**_):
        raise RuntimeError("boom")

    monkeypatch.setattr(events._logger, "emit", fail)
    for _ in range(3):
        events.emit(NAME, WARN, ATTRIBUTES)
    assert len(caplog.records) == 1


def test_a_provider_that_gives_no_logger_is_logged_and_ignored(caplog):
    class Broken:
        def get_logger(self, *args, **kwargs):
            raise RuntimeError("boom")

    events = EventLog(Broken(), "1.0")
    events.emit(NAME, WARN, ATTRIBUTES)
    assert not events.is_enabled
    assert len(caplog.records) == 1
