"""Which provider is used, what is built from variables, exchange, fork, and ending in time."""

from __future__ import annotations

import os
import sqlite3
import threading
import time

import opentelemetry._logs._internal as logs_api
import opentelemetry.metrics._internal as metrics_api
import opentelemetry.trace as trace_api
import pytest
from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracerProvider,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util._once import Once

from otelhooks.config import load
from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from otelhooks.telemetry import ending, sdk
from otelhooks.telemetry.providers import resolve

LOCAL = "http://127.0.0.1:9"
LOGS = "http://127.0.0.1:8"
PREFIX = "otlp http/protobuf"
OTLP = f"{PREFIX} http://localhost:4318"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No variables, no global providers, a store of its own."""
    for name in list(os.environ):
        if name.startswith(("OTEL", "OTELHOOKS")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTELHOOKS_STORE", str(tmp_path / "store.db"))
    for module, name in (
        (trace_api, "_TRACER_PROVIDER"),
        (metrics_api, "_METER_PROVIDER"),
        (logs_api, "_LOGGER_PROVIDER"),
    ):
        monkeypatch.setattr(module, name, None)
        monkeypatch.setattr(module, f"{name}_SET_ONCE", Once())


@pytest.fixture
def make():
    """Resolve with arguments; everything is shut down after the test."""
    made = []

    def build(**arguments):
        made.append(resolve(load(**arguments)))
        return made[-1]

    yield build
    for providers in made:
        providers.shutdown(2)


def sdk_providers() -> tuple:
    return (
        TracerProvider(shutdown_on_exit=False),
        MeterProvider(shutdown_on_exit=False),
        LoggerProvider(shutdown_on_exit=False),
    )


class TestChoice:
    def test_given_providers_are_used(self, make):
        tracers, meters, loggers = sdk_providers()
        providers = make(tracer_provider=tracers, meter_provider=meters, logger_provider=loggers)
        assert providers.tracer_provider is tracers
        assert providers.meter_provider is meters
        assert providers.logger_provider is loggers
        assert providers.owned == frozenset()
        assert providers.describe() == "traces, metrics and events to the provider given"

    def test_global_providers_are_used(self, make):
        tracers, meters, loggers = sdk_providers()
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
        _logs.set_logger_provider(loggers)
        providers = make()
        assert providers.tracer_provider is tracers
        assert providers.meter_provider is meters
        assert providers.logger_provider is loggers
        assert providers.describe().endswith("to the application's provider")

    @pytest.mark.parametrize("first", ["ours", "theirs"])
    def test_a_global_one_of_another_maker_counts_whatever_it_is_called(self, make, first):
        """OpenTelemetry calls its stand-ins Proxy..., and so does Logfire its real providers."""

        class ProxyMeterProvider(NoOpMeterProvider):
            """The name of Logfire's."""

        class ProxyTracerProvider(NoOpTracerProvider):
            """The name of Logfire's."""

        tracers, meters = ProxyTracerProvider(), ProxyMeterProvider()
        providers = make() if first == "ours" else None
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
        providers = providers or make()
        if first == "ours":
            assert providers.refresh()
        assert providers.tracer_provider is tracers
        assert providers.meter_provider is meters
        assert not providers.owned & {"traces", "metrics"}

    def test_a_given_one_wins_over_a_global_one(self, make):
        tracers, *_ = sdk_providers()
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        assert make(tracer_provider=tracers).tracer_provider is tracers

    def test_with_one_provider_the_missing_ones_do_nothing_rather_than_fill_a_store(
        self, make, tmp_path
    ):
        tracers, *_ = sdk_providers()
        providers = make(tracer_provider=tracers)
        assert isinstance(providers.meter_provider, NoOpMeterProvider)
        assert providers.logger_provider is None
        assert "metrics and events to nowhere" in providers.describe()
        assert not (tmp_path / "store.db").exists()

    def test_with_variables_only_the_missing_ones_are_built(self, make, monkeypatch):
        tracers, *_ = sdk_providers()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", LOCAL)
        providers = make(tracer_provider=tracers)
        assert providers.tracer_provider is tracers
        assert isinstance(providers.meter_provider, MeterProvider)
        assert providers.owned == {"metrics", "logs"}

    def test_a_disabled_sdk_means_no_telemetry_even_with_given_providers(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        providers = make(tracer_provider=sdk_providers()[0])
        assert isinstance(providers.tracer_provider, NoOpTracerProvider)
        assert providers.logger_provider is None
        assert "OTEL_SDK_DISABLED" in providers.describe()

    def test_nothing_here_sets_a_global_provider_unless_asked(self, make):
        providers = make()
        assert trace_api._TRACER_PROVIDER is None
        assert logs_api._LOGGER_PROVIDER is None
        assert metrics_api._METER_PROVIDER is None
        providers.set_global()
        assert trace.get_tracer_provider() is providers.tracer_provider
        assert _logs.get_logger_provider() is providers.logger_provider
        assert providers.refresh() is False
        assert providers.owned == {"traces", "metrics", "logs"}


class TestStore:
    def test_with_nothing_configured_traces_and_events_reach_the_local_store(self, make, tmp_path):
        providers = make()
        with providers.tracer_provider.get_tracer("t").start_as_current_span("hello"):
            providers.logger_provider.get_logger("t").emit(event_name="e", body="b")
        assert providers.force_flush(20)
        path = tmp_path / "store.db"
        assert (
            providers.describe() == f"traces and events to local store {path}, metrics to nowhere"
        )
        with sqlite3.connect(path) as store:
            [[name]] = store.execute("select name from spans").fetchall()
            [[count]] = store.execute("select count(*) from logs").fetchall()
        store.close()
        assert (name, count) == ("hello", 1)

    @pytest.mark.parametrize("kind", ["BSP", "BLRP"])
    @pytest.mark.parametrize("exporter", ["", "console"])
    def test_a_queue_smaller_than_its_batch_is_an_error_that_names_both(
        self, make, monkeypatch, kind, exporter
    ):
        monkeypatch.setenv(f"OTEL_{kind}_MAX_QUEUE_SIZE", "10")
        if exporter:
            monkeypatch.setenv("OTEL_TRACES_EXPORTER", exporter)
            monkeypatch.setenv("OTEL_LOGS_EXPORTER", exporter)
        with pytest.raises(ConfigError, match=f"OTEL_{kind}_MAX_EXPORT_BATCH_SIZE is 512"):
            make()

    def test_metrics_go_nowhere(self, make):
        assert isinstance(make().meter_provider, NoOpMeterProvider)


class TestVariables:
    @pytest.mark.parametrize(
        ("variables", "described"),
        [
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": LOCAL},
                f"traces, metrics and events to otlp http/protobuf {LOCAL}",
            ),
            (
                {"OTEL_TRACES_EXPORTER": "otlp"},
                "traces, metrics and events to otlp http/protobuf http://localhost:4318",
            ),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"},
                "traces, metrics and events to otlp grpc http://127.0.0.1:4317",
            ),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": LOCAL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
                f"traces, metrics and events to otlp grpc {LOCAL}",
            ),
            (
                {"OTEL_TRACES_EXPORTER": "otelhooks_otlp_http", "OTEL_LOGS_EXPORTER": "none"},
                f"traces and metrics to {OTLP}, events to nowhere",
            ),
            (
                {"OTEL_TRACES_EXPORTER": "console"},
                "traces to console, metrics and events to nowhere",
            ),
            (
                {"OTEL_TRACES_EXPORTER": "console,otlp", "OTEL_METRICS_EXPORTER": "none"},
                f"traces to console and {OTLP}, metrics to nowhere, events to {OTLP}",
            ),
            ({"OTEL_TRACES_EXPORTER": "none"}, "traces, metrics and events to nowhere"),
            (
                {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": LOCAL,
                    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://u:p@127.0.0.1:8/v1/logs?k=v",
                },
                f"traces and metrics to {PREFIX} {LOCAL}, events to {PREFIX} {LOGS}/v1/logs",
            ),
        ],
    )
    def test_exporters_follow_the_variables_and_credentials_are_not_shown(
        self, make, monkeypatch, variables, described, capfd
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        if "otlp" not in described:
            monkeypatch.delenv("OTEL_EXPORTER_OTLP_TIMEOUT")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert make().describe() == described

    @pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
    def test_the_exporter_is_that_of_the_protocol(self, monkeypatch, protocol):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
        built = sdk.from_environment(load().otel)
        [processor] = built.tracer_provider._active_span_processor._span_processors
        exporter = processor.span_exporter
        assert type(exporter).__module__.endswith(f".otlp_{protocol.partition('/')[0]}")
        assert type(exporter).__module__.startswith("otelhooks."), "with the faster encoder"
        assert isinstance(processor, BatchSpanProcessor)
        built.tracer_provider.shutdown()

    @pytest.mark.parametrize(
        ("variables", "said"),
        [
            ({"OTEL_TRACES_EXPORTER": "no_such"}, "OTEL_TRACES_EXPORTER names `no_such`"),
            (
                {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"},
                "OTEL_EXPORTER_OTLP_PROTOCOL cannot be `carrier-pigeon`",
            ),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"},
                "OTEL_EXPORTER_OTLP_ENDPOINT is `localhost:4318`, which is not an address",
            ),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": "user:password@host:4318"},
                "OTEL_EXPORTER_OTLP_ENDPOINT is `host:4318`, which is not an address",
            ),
            ({"OTEL_CONFIG_FILE": "none.yaml"}, "OTEL_CONFIG_FILE is `none.yaml`"),
        ],
    )
    def test_a_wrong_variable_is_an_error_that_names_it(self, monkeypatch, variables, said):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ConfigError) as caught:
            resolve(load())
        assert said in str(caught.value)
        assert "\nhint: " in str(caught.value)

    def test_console_is_the_exporter_of_the_sdk(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        [processor] = make().tracer_provider._active_span_processor._span_processors
        assert isinstance(processor.span_exporter, ConsoleSpanExporter)

    def test_each_process_has_an_instance_id_unless_the_user_sets_one(self, monkeypatch):
        one, two = sdk.make_resource({}), sdk.make_resource({})
        key = semconv.SERVICE_INSTANCE_ID
        assert one.attributes[key] != two.attributes[key]
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"{key}=mine,a=b")
        monkeypatch.setenv(semconv.SERVICE_NAME.upper().replace(".", "_"), "ignored")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        resource = sdk.make_resource(load().otel)
        assert resource.attributes[key] == "mine"
        assert resource.attributes[semconv.SERVICE_NAME] == "shop"
        assert isinstance(resource, Resource)

    def test_an_unknown_configurator_warns_and_the_default_is_used(
        self, make, monkeypatch, caplog, tmp_path
    ):
        monkeypatch.setenv("OTEL_PYTHON_TRACER_CONFIGURATOR", "no_such")
        providers = make()
        assert isinstance(providers.tracer_provider, TracerProvider)
        assert "`no_such`" in caplog.text

    def test_the_configuration_package_builds_the_providers(self, make, monkeypatch, tmp_path):
        pytest.importorskip("opentelemetry.configuration")
        path = tmp_path / "otel.yaml"
        path.write_text(
            'file_format: "1.0"\n'
            "tracer_provider:\n"
            "  processors: [{simple: {exporter: {console: {}}}}]\n"
            "  sampler: {trace_id_ratio_based: {ratio: 0.5}}\n"
        )
        monkeypatch.setenv("OTEL_CONFIG_FILE", str(path))
        providers = make()
        assert isinstance(providers.tracer_provider, TracerProvider)
        assert isinstance(providers.tracer_provider.sampler, sdk.KeepVerdicts)
        assert isinstance(providers.meter_provider, NoOpMeterProvider)
        assert providers.describe().endswith(f"to what {path} says")
        assert trace_api._TRACER_PROVIDER is None


ALLOW = {semconv.POLICY_DECISION: semconv.DECISION_ALLOW, semconv.POLICY_RULE_ID: "r"}
DENY = {semconv.POLICY_DECISION: semconv.DECISION_DENY}


class TestSampling:
    @pytest.mark.parametrize(
        ("attributes", "is_kept"),
        [
            (None, False),
            ({}, False),
            ({"a": 1}, False),
            (ALLOW, False),
            (DENY, True),
            ({**ALLOW, semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_OBSERVED}, True),
            ({**ALLOW, semconv.CANDIDATE_DECISION: semconv.DECISION_DENY}, True),
        ],
    )
    @pytest.mark.parametrize("is_child", [False, True])
    def test_spans_with_a_verdict_are_kept_and_a_plain_allow_is_not(
        self, attributes, is_kept, is_child
    ):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(
            sampler=sdk.KeepVerdicts(ParentBased(ALWAYS_OFF)), shutdown_on_exit=False
        )
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("t")
        if is_child:
            with tracer.start_as_current_span("turn"):
                tracer.start_span("tool", attributes=attributes).end()
        else:
            tracer.start_span("tool", attributes=attributes).end()
        kept = [(span.name, dict(span.attributes)) for span in exporter.get_finished_spans()]
        assert kept == ([("tool", attributes)] if is_kept else [])

    @pytest.mark.parametrize("name", ["traceidratio", "parentbased_traceidratio"])
    def test_a_ratio_sampler_that_we_build_keeps_verdicts(self, make, monkeypatch, name):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
        tracer = make().tracer_provider.get_tracer("t")
        assert not tracer.start_span("a", attributes=ALLOW).is_recording()
        assert tracer.start_span("d", attributes=DENY).is_recording()

    @pytest.mark.parametrize("text", ["", "many", "7"])
    def test_a_wrong_ratio_warns_and_keeps_everything(self, make, monkeypatch, caplog, text):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", text)
        assert make().tracer_provider.get_tracer("t").start_span("a").is_recording()
        assert "OTEL_TRACES_SAMPLER_ARG" in caplog.text

    @pytest.mark.parametrize("name", ["", "parentbased_always_on"])
    def test_the_default_sampler_decides_as_that_of_the_sdk(self, make, monkeypatch, name):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
        ours, theirs = make().tracer_provider.sampler, ParentBased(ALWAYS_ON)
        assert ours.get_description() == theirs.get_description()
        state = TraceState([("a", "b")])
        parents = [
            NonRecordingSpan(SpanContext(trace_id, 2, is_remote, TraceFlags(flags), state))
            for trace_id in (0, 1)
            for is_remote in (False, True)
            for flags in (0, 1, 2, 3)
        ]
        for context in (Context(), *map(set_span_in_context, parents)):
            for attributes in (None, {"a": 1}):
                mine, its = (
                    each.should_sample(context, 1, "s", SpanKind.CLIENT, attributes, ())
                    for each in (ours, theirs)
                )
                assert mine.decision is its.decision
                assert mine.attributes == its.attributes
                assert mine.trace_state == its.trace_state

    def test_other_samplers_are_those_of_the_sdk(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        tracer = make().tracer_provider.get_tracer("t")
        assert not tracer.start_span("d", attributes=DENY).is_recording()

    @pytest.mark.parametrize(
        ("sampler", "has_warning"),
        [
            (TraceIdRatioBased(0.25), True),
            (ParentBased(TraceIdRatioBased(0.25)), True),
            (TraceIdRatioBased(1.0), False),
            (sdk.KeepVerdicts(TraceIdRatioBased(0.25)), False),
            (None, False),
        ],
    )
    def test_a_foreign_ratio_sampler_is_warned_about_once(self, make, caplog, sampler, has_warning):
        make(tracer_provider=TracerProvider(sampler=sampler, shutdown_on_exit=False))
        warnings = [r for r in caplog.records if "samples 0.25 of all traces" in r.getMessage()]
        assert len(warnings) == has_warning


class TestShutDownProviders:
    @pytest.mark.parametrize("kind", ["batch", "simple"])
    def test_a_tracer_provider_that_is_shut_down_is_warned_about(self, make, caplog, kind):
        provider = TracerProvider(shutdown_on_exit=False)
        make_processor = BatchSpanProcessor if kind == "batch" else SimpleSpanProcessor
        provider.add_span_processor(make_processor(InMemorySpanExporter()))
        make(tracer_provider=provider)
        assert caplog.text == ""
        provider.shutdown()
        make(tracer_provider=provider)
        assert "the tracer_provider is shut down" in caplog.text
        assert "hint: " in caplog.text

    def test_a_meter_provider_that_is_shut_down_is_warned_about(self, make, caplog):
        provider = MeterProvider(shutdown_on_exit=False)
        provider.shutdown()
        make(meter_provider=provider)
        assert "the meter_provider is shut down" in caplog.text


class TestExchange:
    def test_private_providers_are_exchanged_for_global_ones_signal_by_signal(self, make):
        providers = make()
        calls = []
        providers.on_change(lambda changed: calls.append(changed.tracer_provider))
        assert providers.refresh() is False
        tracers, meters, _ = sdk_providers()
        trace.set_tracer_provider(tracers)
        assert providers.refresh() is True
        assert providers.refresh() is False
        assert providers.tracer_provider is tracers
        assert calls == [tracers]
        assert providers.owned == {"metrics", "logs"}
        metrics.set_meter_provider(meters)
        assert providers.refresh() is True
        assert providers.meter_provider is meters
        assert len(calls) == 2

    def test_events_leave_the_store_with_the_spans_in_whatever_order_it_is_set_up(self, make):
        late = make()
        tracers, *_ = sdk_providers()
        trace.set_tracer_provider(tracers)
        late.refresh()
        assert late.logger_provider is None
        assert late.describe() == make().describe()

    def test_events_stay_where_variables_send_them(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "console")
        providers = make()
        events = providers.logger_provider
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        providers.refresh()
        assert providers.logger_provider is events

    def test_spans_of_running_turns_still_arrive_at_the_old_provider(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        providers = make()
        exporter = InMemorySpanExporter()
        providers.tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
        running = providers.tracer_provider.get_tracer("t").start_span("turn")
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        providers.refresh()
        running.end()
        assert [span.name for span in exporter.get_finished_spans()] == ["turn"]

    def test_a_given_provider_is_not_exchanged(self, make):
        tracers, meters, loggers = sdk_providers()
        providers = make(tracer_provider=tracers, meter_provider=meters, logger_provider=loggers)
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        assert providers.refresh() is False
        assert providers.tracer_provider is tracers

    def test_a_failing_callback_is_logged_and_the_others_run(self, make, caplog):
        providers = make()
        calls = []

        def fail(_):
            raise RuntimeError("boom")

        providers.on_change(fail)
        providers.on_change(calls.append)
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        assert providers.refresh() is True
        assert calls == [providers]
        assert "callback" in caplog.text

    def test_threads_of_a_forked_child_wait_until_what_uses_the_providers_has_new_ones(self, make):
        providers = make()
        inherited, seen = providers.tracer_provider, []
        used, began = [inherited], threading.Event()

        def use(changed):
            began.set()
            assert changed.refresh() is False  # no deadlock
            time.sleep(0.1)
            used[:] = [changed.tracer_provider]

        def call():
            providers.refresh()
            seen.extend(used)

        providers.on_change(use)
        providers.after_fork()
        threads = [threading.Thread(target=call) for _ in range(4)]
        threads[0].start()
        assert began.wait(10)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert seen == [providers.tracer_provider] * 4
        assert providers.tracer_provider is not inherited

    def test_the_api_without_the_known_variable_is_asked_in_public(self, make, monkeypatch):
        from otelhooks.telemetry import providers as module

        monkeypatch.setitem(module._VARIABLES, "traces", ("opentelemetry.trace", "_RENAMED"))
        providers = make()
        assert providers.refresh() is False
        tracers, *_ = sdk_providers()
        trace.set_tracer_provider(tracers)
        assert providers.refresh() is True
        assert providers.tracer_provider is tracers


class SlowExporter(SpanExporter):
    def export(self, spans):
        time.sleep(30)

    def shutdown(self):
        pass


class TestEnding:
    def test_flush_keeps_its_time(self, make, caplog):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(SlowExporter()))
        provider.get_tracer("t").start_span("s").end()
        providers = make(tracer_provider=provider)
        started = time.monotonic()
        assert providers.force_flush(0.2) is False
        assert time.monotonic() - started < 10
        assert "not handed over within 0.2 s" in caplog.text

    def test_shutdown_ends_what_we_built_and_only_flushes_the_rest(self, make, monkeypatch):
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "console")
        tracers, *_ = sdk_providers()
        exporter = InMemorySpanExporter()
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        providers = make(tracer_provider=tracers)
        assert providers.shutdown(10) is True
        assert providers.meter_provider._shutdown is True
        tracers.get_tracer("t").start_span("after").end()
        assert len(exporter.get_finished_spans()) == 1
        assert providers.shutdown() is True

    def test_an_action_that_fails_is_logged_and_counts_as_not_done(self, caplog):
        def fail():
            raise RuntimeError("boom")

        assert ending.in_time([fail, lambda: True], 5) is False
        assert "could not be flushed" in caplog.text

    def test_without_new_threads_actions_run_in_place(self, monkeypatch):
        class NoThread:
            def __init__(self, **_):
                pass

            def start(self):
                raise RuntimeError("can't start new thread at interpreter shutdown")

        monkeypatch.setattr(ending.threading, "Thread", NoThread)
        calls = []
        assert ending.in_time([lambda: not calls.append(1)], 5) is True
        assert calls == [1]
