"""Providers of the OpenTelemetry SDK, built if the application has none.

Imports the SDK; `otelhooks.telemetry.providers` imports this module only when it has to build. The
SDK itself reads settings from its ``OTEL_*`` variables, except for the choice of exporters,
protocol and sampler, which it makes only under ``opentelemetry-instrument``.

Nothing here registers a global provider. The SDK does not shut providers down at exit: `Providers`
does.

Source: semconv.md section 10; specification, SDK environment variables.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import uuid
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from otelhooks.records.failures import outline
from otelhooks.telemetry.built import NOWHERE, SIGNALS, Built, no_providers
from otelhooks.telemetry.exporters import exporters
from otelhooks.telemetry.samplers import FollowParent, KeepVerdicts, ratio_of
from otelhooks.telemetry.spill import Spilling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
    from opentelemetry.sdk.metrics.export import MetricsData

_log = logging.getLogger("otelhooks.telemetry")

_RATIO_SAMPLERS = ("traceidratio", "parentbased_traceidratio")
_SDK_SAMPLERS = ("always_on", "always_off", "parentbased_always_off")


class _Reader(PeriodicExportingMetricReader):
    """A periodic reader that stays silent in forked children.

    The SDK restarts the inherited reader there, which would export the parent's sums a second
    time under the parent's identity; the child gets providers of its own.
    """

    def __init__(self, exporter: Any) -> None:
        self._pid = os.getpid()
        super().__init__(exporter)

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> None:
        if os.getpid() == self._pid:
            super()._receive_metrics(  # pyright: ignore[reportUnknownMemberType]
                metrics_data, timeout_millis, **kwargs
            )


# --- From variables -------------------------------------------------------------------------------


def from_environment(otel: Mapping[str, str], unsent: Path | None = None) -> Built:
    """Build what the ``OTEL_*`` variables request.

    Args:
        otel: The variables that are set.
        unsent: Folder for spans and events that a collector cannot take; None: they are lost.

    Raises:
        ConfigError: A name or protocol is unknown, or an exporter or queue cannot be created.
    """
    resource = make_resource(otel)
    targets: dict[str, str] = {}
    of_metrics = exporters("metrics", otel, targets)
    readers = [each if isinstance(each, MetricReader) else _Reader(each) for each in of_metrics]
    meters: MeterProvider = NoOpMeterProvider()
    if readers:
        meters = _make(
            SdkMeterProvider,
            metric_readers=readers,
            resource=resource,
            shutdown_on_exit=False,
            _meter_configurator=_configurator("meter", otel),
        )
    tracers: TracerProvider = NoOpTracerProvider()
    if span_exporters := exporters("traces", otel, targets, unsent):
        tracers = _tracer_provider(resource, otel, meters)
        for exporter in span_exporters:
            queue = _queue("BSP", BatchSpanProcessor, exporter, meter_provider=meters)
            tracers.add_span_processor(queue)
    loggers: SdkLoggerProvider | None = None
    if log_exporters := exporters("logs", otel, targets, unsent):
        loggers = _logger_provider(resource, otel, meters)
        for exporter in log_exporters:
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

            queue = _queue("BLRP", BatchLogRecordProcessor, exporter, meter_provider=meters)
            loggers.add_log_record_processor(queue)
    spilling = [e for e in (*span_exporters, *log_exporters) if isinstance(e, Spilling)]
    beside = [each for each in of_metrics if not isinstance(each, MetricReader)]
    for each in spilling:
        each.beside = beside
    return Built(tracers, meters, loggers, targets, [each.hurry for each in spilling])


def for_store(path: Path, otel: Mapping[str, str]) -> Built:
    """Build providers that write spans and events to the local store; metrics go nowhere.

    Args:
        path: File of the store.
        otel: The variables that are set.
    """
    from otelhooks.store.queues import LogQueue, SpanQueue

    resource = make_resource(otel)
    meters = NoOpMeterProvider()
    tracers = _tracer_provider(resource, otel, meters)
    spans, events = _queue("BSP", SpanQueue, path, otel), _queue("BLRP", LogQueue, path, otel)
    tracers.add_span_processor(spans)
    loggers = _logger_provider(resource, otel, meters)
    loggers.add_log_record_processor(events)
    store = f"local store {path}"
    targets = {"traces": store, "metrics": NOWHERE, "logs": store}
    return Built(tracers, meters, loggers, targets, [spans.hurry, events.hurry])


def from_file(path: str) -> Built:
    """Build what a declarative configuration file describes, through its own package.

    Args:
        path: Value of ``OTEL_CONFIG_FILE``.

    Raises:
        ConfigError: The package is missing, or it cannot use the file.
    """
    package = "opentelemetry.configuration"
    try:
        # The public function of the package sets global providers, which otelhooks never does.
        load: Any = importlib.import_module(package).load_config_file
        make: dict[str, Any] = {
            kind: getattr(importlib.import_module(f"{package}._{kind}"), f"create_{kind}")
            for kind in ("resource", "tracer_provider", "meter_provider", "logger_provider")
        }
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"OTEL_CONFIG_FILE is `{path}`, but package `opentelemetry-configuration` cannot be "
            f"used: {error}",
            hint="install opentelemetry-configuration in the version of the SDK, or unset the "
            "variable",
        ) from error
    try:
        model: Any = load(path)
        if model.disabled:
            return no_providers()
        resource = make["resource"](model.resource)
        limits = model.attribute_limits
        tracers: Any = NoOpTracerProvider()
        if model.tracer_provider is not None:
            tracers = make["tracer_provider"](model.tracer_provider, resource, limits)
            if ratio_of(tracers) is not None:
                tracers.sampler = KeepVerdicts(tracers.sampler)
        meters: Any = NoOpMeterProvider()
        if model.meter_provider is not None:
            meters = make["meter_provider"](model.meter_provider, resource)
        loggers: Any = None
        if model.logger_provider is not None:
            loggers = make["logger_provider"](model.logger_provider, resource, limits)
    except Exception as error:
        raise ConfigError(
            f"OTEL_CONFIG_FILE is `{path}`, which cannot be used: {error}",
            hint="correct the file, or unset the variable",
        ) from error
    target = f"what {path} says"
    return Built(tracers, meters, loggers, dict.fromkeys(SIGNALS, target))


def make_resource(otel: Mapping[str, str]) -> Resource:
    """Describe this process; ``service.instance.id`` is new for each, unless the user set one."""
    given = [pair.partition("=")[0] for pair in otel.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")]
    if semconv.SERVICE_INSTANCE_ID in (name.strip() for name in given):
        return Resource.create()
    return Resource.create({semconv.SERVICE_INSTANCE_ID: str(uuid.uuid4())})


def _tracer_provider(
    resource: Resource, otel: Mapping[str, str], meters: MeterProvider
) -> SdkTracerProvider:
    return _make(
        SdkTracerProvider,
        sampler=_sampler(otel),
        resource=resource,
        shutdown_on_exit=False,
        meter_provider=meters,
        _tracer_configurator=_configurator("tracer", otel),
    )


def _logger_provider(
    resource: Resource, otel: Mapping[str, str], meters: MeterProvider
) -> SdkLoggerProvider:
    # Imported here: an application without logs starts faster without it.
    from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider

    return _make(
        SdkLoggerProvider,
        resource=resource,
        shutdown_on_exit=False,
        meter_provider=meters,
        _logger_configurator=_configurator("logger", otel),
    )


def _make(factory: Any, *args: Any, **options: Any) -> Any:
    """Call with the options that this version of the SDK supports."""
    known = inspect.signature(factory).parameters
    return factory(*args, **{key: item for key, item in options.items() if key in known})


def _queue(prefix: str, factory: Any, *args: Any, **options: Any) -> Any:
    """Create a queue in front of an exporter.

    Raises:
        ConfigError: Variables of its size or delay do not go together.
    """
    try:
        return _make(factory, *args, **options)
    except ValueError as error:
        raise ConfigError(
            f"the variables OTEL_{prefix}_* cannot be used: {error}",
            hint=f"OTEL_{prefix}_MAX_EXPORT_BATCH_SIZE is 512 unless you set it; it may not exceed"
            f" OTEL_{prefix}_MAX_QUEUE_SIZE",
        ) from error


# --- Sampler and configurators --------------------------------------------------------------------


def _sampler(otel: Mapping[str, str]) -> Sampler | None:
    """Create the sampler if it needs us; None: the SDK reads its variable itself."""
    name = otel.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    argument = otel.get("OTEL_TRACES_SAMPLER_ARG")
    if name in ("", "parentbased_always_on"):
        return FollowParent()
    if name in _SDK_SAMPLERS:
        return None
    if name in _RATIO_SAMPLERS:
        try:
            ratio = TraceIdRatioBased(float(argument or ""))
        except ValueError:
            _log.warning("OTEL_TRACES_SAMPLER_ARG is `%s`, not from 0 to 1: 1 is used", argument)
            ratio = TraceIdRatioBased(1.0)
        return KeepVerdicts(ratio if name == "traceidratio" else ParentBased(ratio))
    return _load_entry_point("opentelemetry_traces_sampler", name, argument)


def _configurator(kind: str, otel: Mapping[str, str]) -> Any:
    name = otel.get(f"OTEL_PYTHON_{kind.upper()}_CONFIGURATOR", "").strip()
    return _load_entry_point(f"_opentelemetry_{kind}_configurator", name) if name else None


def _load_entry_point(group: str, name: str, *arguments: Any) -> Any:
    """Load, and call if there are arguments; None with a warning if that fails (fails open)."""
    try:
        for entry in entry_points(group=group, name=name):
            loaded: Any = entry.load()
            return loaded(*arguments) if arguments else loaded
        _log.warning("`%s` is not provided by any installed package, the default is used", name)
    except Exception as error:
        _log.warning("`%s` cannot be loaded, the default is used: %s", name, outline(error))
    return None
