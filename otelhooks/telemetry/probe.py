"""A test verdict that is sent like real ones, and followed from hop to hop.

::

    for hop in follow(config, trace_store="http://localhost:16686"):
        hop.name, hop.is_reached, hop.detail

The verdict is a deny in monitor mode by policy ``doctor``: samplers keep it, no alert counts it.

Source: trace by id, Jaeger 1.76 and Tempo 3: ``/api/traces/ID`` answers 404 until it is there;
OpenTelemetry collector 0.158, ``otelcol_exporter_queue_size``.
"""

from __future__ import annotations

import contextlib
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.records import semconv
from otelhooks.telemetry.events import WARN, EventLog
from otelhooks.telemetry.masking import Redactor
from otelhooks.telemetry.providers import Providers, resolve
from otelhooks.version import __version__

if TYPE_CHECKING:
    from otelhooks.config import Config

RULE = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_OBSERVED,
    semconv.POLICY_MODE: semconv.MODE_MONITOR,
    semconv.POLICY_ID: "doctor",
    semconv.POLICY_RULE_ID: "test",
    semconv.HOOK_POINT: semconv.POINT_PRE_TOOL_CALL,
    semconv.GEN_AI_TOOL_NAME: "otelhooks_doctor",
}
"""Marks of the test verdict, the same on span, event and metric."""

WAIT_S = 20.0
"""Longest time, in seconds, for which a trace store is polled."""

_REASON = "A test verdict of `otelhooks doctor`."


class Hop(NamedTuple):
    """One station on the way of the test verdict.

    Attributes:
        name: ``this process``, ``collector: SIGNAL`` or ``trace store``.
        is_reached: Whether the verdict arrived there.
        detail: Where that is, or why not, and after a line ``hint:`` what to do.
    """

    name: str
    is_reached: bool
    detail: str


def follow(
    config: Config,
    trace_store: str | None = None,
    collector_metrics: str | None = None,
) -> Iterator[Hop]:
    """Send a test verdict and follow it; ends at the first hop of the trace that it does not reach.

    Args:
        config: Says where telemetry goes, as for `otelhooks.instrument`.
        trace_store: Address of Jaeger's or Tempo's HTTP API; None: skipped.
        collector_metrics: Address of the collector's own metrics, which show why something did not
            get through; None: skipped.

    Raises:
        ConfigError: A variable of OpenTelemetry has a value that cannot be used.
    """
    if not config.exporters_configured and config.config_file is None:
        yield Hop(
            "this process",
            False,
            "no exporter is configured, telemetry stays in the local store\n"
            "hint: set OTEL_EXPORTER_OTLP_ENDPOINT to the address of the collector",
        )
        return
    providers = resolve(config.replace(keep_unsent=False))
    try:
        span = _emit(providers)
        if not span.is_recording():
            yield Hop(
                "this process",
                False,
                "the sampler dropped the span of a deny\nhint: unset OTEL_TRACES_SAMPLER",
            )
            return
        yield Hop("this process", True, f"sends {providers.describe()}")
        span.end()
        traces = _flush("traces", providers.tracer_provider)
        yield traces
        if not traces.is_reached:
            return
        yield _flush("events", providers.logger_provider)
        yield _flush("metrics", providers.meter_provider)
        if trace_store is not None:
            trace_id = f"{span.get_span_context().trace_id:032x}"
            yield _find(trace_store.rstrip("/"), trace_id, collector_metrics)
    finally:
        with _heard():
            providers.shutdown()


def _emit(providers: Providers) -> Any:
    """Start the span, and emit event and metric below it."""
    from opentelemetry import trace

    tracer = providers.tracer_provider.get_tracer(semconv.SCOPE_NAME, __version__)
    span = tracer.start_span(
        f"{semconv.OP_EXECUTE_TOOL} {RULE[semconv.GEN_AI_TOOL_NAME]}",
        attributes={
            **RULE,
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
            semconv.POLICY_REASON: _REASON,
        },
    )
    context = trace.set_span_in_context(span)
    events = EventLog(providers.logger_provider, __version__)
    events.emit(
        semconv.EVENT_POLICY_DECISION,
        WARN,
        {**RULE, semconv.POLICY_REASON: _REASON},
        context=context,
    )
    meter = providers.meter_provider.get_meter(semconv.SCOPE_NAME, __version__)
    meter.create_counter(semconv.METRIC_POLICY_DECISIONS).add(1, RULE, context)
    return span


_WORDS = {"traces": ("trace", "span"), "events": ("log",), "metrics": ("metric",)}


class _Ears(logging.Handler):
    """Collects complaints while one signal is exported.

    Metrics are exported at times of their own, so a line that names only another signal is ignored;
    a line that names none counts, since a failure must not be taken for a success.
    """

    def __init__(self, signal: str) -> None:
        super().__init__(logging.WARNING)
        self.complaints: list[str] = []
        self._own = _WORDS.get(signal, ())
        self._others = [word for name in _WORDS if name != signal for word in _WORDS[name]]

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            line = f"{line} {record.exc_info[1]}"
        text = f"{record.name} {line}".lower()
        is_own = any(word in text for word in self._own)
        if is_own or not any(word in text for word in self._others):
            self.complaints.append(Redactor().mask_text(line))


@contextlib.contextmanager
def _heard(signal: str = "") -> Generator[list[str]]:
    """Collect the log lines of exporters, which report their failures nowhere else."""
    names, ears = ("opentelemetry", "otelhooks"), _Ears(signal)
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(ears)
        logger.propagate = False
    try:
        yield ears.complaints
    finally:
        for logger, propagates in zip(loggers, before, strict=True):
            logger.removeHandler(ears)
            logger.propagate = propagates


def _flush(signal: str, provider: Any) -> Hop:
    """Export one signal now; the first complaint has the cause, later ones only give up."""
    name = f"collector: {signal}"
    flush = getattr(provider, "force_flush", None)
    if flush is None:
        return Hop(name, False, f"no exporter for {signal}\nhint: {_exporter_hint(signal)}")
    with _heard(signal) as complaints:
        is_done = flush() is not False
    if is_done and not complaints:
        return Hop(name, True, "taken")
    cause = complaints[0] if complaints else "no answer in time"
    return Hop(name, False, f"{cause}\nhint: {_hint(cause)}")


def _exporter_hint(signal: str) -> str:
    variable = {"events": "OTEL_LOGS_EXPORTER"}.get(signal, f"OTEL_{signal.upper()}_EXPORTER")
    return f"set {variable}=otlp"


_HINTS = (
    (
        ("401", "UNAUTHENTICATED", "403", "PERMISSION_DENIED"),
        "give the collector's token: OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20TOKEN",
    ),
    (
        ("CERTIFICATE", "SSL", "certificate"),
        "name the collector's authority in OTEL_EXPORTER_OTLP_CERTIFICATE, and your certificate",
    ),
    (
        ("refused", "resolve", "Unreachable", "unreachable"),
        "check OTEL_EXPORTER_OTLP_ENDPOINT, and that the collector runs there",
    ),
    (
        ("404", "UNIMPLEMENTED", "405"),
        "the address is not an OTLP receiver, or has no pipeline for this signal",
    ),
    (("429", "503", "UNAVAILABLE", "RESOURCE_EXHAUSTED"), "the collector is full, see its log"),
)


def _hint(cause: str) -> str:
    for words, hint in _HINTS:
        if any(word in cause for word in words):
            return hint
    return "see the collector's log"


def _find(store: str, trace_id: str, collector_metrics: str | None) -> Hop:
    """Poll the trace store for the trace until it has it."""
    started = time.monotonic()
    url = f"{store}/api/traces/{trace_id}"
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            waited = time.monotonic() - started
            return Hop("trace store", True, f"has it after {waited:.1f} s: {url}")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                return Hop(
                    "trace store",
                    False,
                    f"{url} answers {error.code} {error.reason}\n"
                    "hint: give the address of Jaeger's or Tempo's HTTP API",
                )
        except (OSError, ValueError) as error:
            cause = getattr(error, "reason", error)
            return Hop(
                "trace store",
                False,
                f"{store} cannot be asked: {cause}; whether the verdict is there is not known\n"
                "hint: check the address, and that the trace store runs there",
            )
        if time.monotonic() - started > WAIT_S:
            cause = _queued(collector_metrics) if collector_metrics else None
            return Hop(
                "trace store",
                False,
                f"the collector took it, {store} does not have it after {WAIT_S:g} s"
                + (f": {cause}" if cause else "")
                + "\nhint: check OTEL_EXPORTER_OTLP_ENDPOINT, and the collector's TRACES_ENDPOINT",
            )
        time.sleep(0.2)


def _queued(collector_metrics: str) -> str | None:
    """Return which exporters of the collector hold something back; None if unknown."""
    try:
        with urllib.request.urlopen(collector_metrics, timeout=5) as answer:
            lines: list[str] = answer.read().decode("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        return f"its metrics cannot be read: {getattr(error, 'reason', error)}"
    waiting: list[str] = []
    for line in lines:
        if line.startswith("otelcol_exporter_queue_size{") and not line.endswith(" 0"):
            exporter = line.partition('exporter="')[2].partition('"')[0]
            waiting.append(f"{line.rpartition(' ')[2]} waiting in the queue of `{exporter}`")
    return ", ".join(waiting) or None
