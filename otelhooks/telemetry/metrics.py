"""Counters, histograms and gauges that cost a governed call next to nothing.

Signatures that other modules use::

    instruments = Instruments(meter_provider, version)
    cell = instruments.decisions.cell(attributes)      # once per template, kept by the caller
    cell.add(1, span_context)                          # hot path; span_context or None
    cell = instruments.histogram(METRIC_...).cell(attributes)             # the same
    cell.record(seconds, span_context)                                    # hot path
    instruments.record(METRIC_..., seconds, attributes, span_context)     # where it is rare
    instruments.counter(METRIC_...).cell(attributes)   # by name: usage counters, flips, gaps
    instruments.set_gauge(METRIC_..., callback)        # callback() -> iterable of (value, attrs)
    instruments.rebind(meter_provider)                 # cells stay valid
    instruments.flush(); instruments.close()
    instruments.after_fork(reset="metrics" in providers.owned)

`decisions`, `denies`, `evaluations`, `evaluation_time`, `tool_calls`, `tool_time`, `coverage_gaps`,
`hook_errors`, `hook_queue_dropped` and `candidate_flips` are attributes; every counter is also
available by name.

Counts are integers of our own, one `Cell` per attribute set, read by observable counters when a
reader collects. Histogram values wait in a `HistogramCell` per attribute set and reach the SDK when
a reader collects (in that same collection), when half of `QUEUE_CAPACITY` waits in all cells
together (by a worker thread), when all of it does (at once, by the caller: nothing is lost) and at
`flush`. Both paths support exemplars: pass the `SpanContext` of a **sampled** span, None for any
other. It is a small tuple, so that a cell does not keep anything of the run alive.

Everything here is telemetry: it fails open, is logged once per cause, and never raises.

Source: semconv.md sections 5 and 9, design.md section 14 rules 3 to 5.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from opentelemetry.metrics import NoOpMeter, Observation, get_meter_provider

from otelhooks.records import semconv
from otelhooks.records.failures import outline
from otelhooks.telemetry.by_identity import ByIdentity
from otelhooks.telemetry.counters import CellCounter, exemplar_context
from otelhooks.telemetry.histograms import CellHistogram, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider
    from opentelemetry.trace import SpanContext

    from otelhooks.telemetry.counters import Attributes
    from otelhooks.telemetry.histograms import HistogramCell

    GaugeCallback: TypeAlias = Callable[[], Iterable[tuple[float, Attributes]]]

_log = logging.getLogger("otelhooks.telemetry")

QUEUE_CAPACITY = 2_048
"""Histogram values that wait for the worker or the next collection, in all cells together."""

_DURATION = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
    *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
_MCP = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_AGENT = tuple(round(0.1 * 2**i, 1) for i in range(13))
_WORKFLOW = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_EVALUATION = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_APPROVAL = (1, 5, 10, 30, 60, 300, 900, 1800, 3600, 14400, 86400)
_TOKENS = tuple(4**i for i in range(14))
_CALLS = tuple(2**i for i in range(8))


class _Spec(NamedTuple):
    unit: str
    description: str
    buckets: tuple[float, ...] = ()


_COUNTERS = {
    semconv.METRIC_POLICY_DECISIONS: _Spec("{decision}", "Verdicts of policies and hooks."),
    semconv.METRIC_POLICY_DENIES: _Spec("{decision}", "Denials by rule, from 0 at start."),
    semconv.METRIC_POLICY_EVALUATIONS: _Spec("{evaluation}", "Evaluations of the policy set."),
    semconv.METRIC_POLICY_EVALUATION_TIME: _Spec("s", "Time spent in evaluations."),
    semconv.METRIC_TOOL_CALLS: _Spec("{tool_call}", "Tool calls that ran."),
    semconv.METRIC_TOOL_TIME: _Spec("s", "Time spent in tools."),
    semconv.METRIC_COST_USD: _Spec("{USD}", "Cost of model calls, by the prices in force."),
    semconv.METRIC_COST_UNKNOWN: _Spec("{model_call}", "Model calls whose cost is not known."),
    semconv.METRIC_CANDIDATE_FLIPS: _Spec("{decision}", "Verdicts the candidate set would change."),
    semconv.METRIC_MCP_TOOLS_UNAPPROVED: _Spec(
        "{tool}", "Tools in lists of MCP servers that are not approved."
    ),
    semconv.METRIC_COVERAGE_GAPS: _Spec("{tool_call}", "Tool calls that no seat judged."),
    semconv.METRIC_HOOK_ERRORS: _Spec("{error}", "Hooks that raised."),
    semconv.METRIC_HOOK_QUEUE_DROPPED: _Spec("{item}", "Items dropped from background queues."),
    semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS: _Spec("{token}", "Input tokens."),
    semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS: _Spec("{token}", "Output tokens."),
    semconv.METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: _Spec("{token}", "Input read from cache."),
    semconv.METRIC_GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: _Spec("{token}", "Input put in cache."),
    semconv.METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: _Spec("{token}", "Reasoning tokens."),
}

_MODEL_CALLS = _Spec("s", "Model calls.", _DURATION)
_FIRST_CHUNK = _Spec("s", "Time to the first chunk of a streamed response.", _DURATION)

_HISTOGRAMS = {
    semconv.METRIC_POLICY_EVALUATION_DURATION: _Spec("s", "Slow policy evaluations.", _EVALUATION),
    semconv.METRIC_APPROVAL_WAIT_DURATION: _Spec("s", "Waiting for an approver.", _APPROVAL),
    semconv.METRIC_HOOK_DURATION: _Spec("s", "Duration of hooks.", _EVALUATION),
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: _MODEL_CALLS,
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: _FIRST_CHUNK,
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK: _Spec(
        "s", "Time from one chunk of a streamed response to the next.", _DURATION
    ),
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_INPUT_TOKENS: _Spec(
        "{token}", "Input tokens of a model call.", _TOKENS
    ),
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_OUTPUT_TOKENS: _Spec(
        "{token}", "Output tokens of a model call.", _TOKENS
    ),
    semconv.METRIC_GEN_AI_CLIENT_OPERATION_DURATION: _MODEL_CALLS,
    semconv.METRIC_GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK: _FIRST_CHUNK,
    semconv.METRIC_GEN_AI_CLIENT_TOKEN_USAGE: _Spec("{token}", "Tokens of a model call.", _TOKENS),
    semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION: _Spec("s", "Agent invocations.", _AGENT),
    semconv.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS: _Spec(
        "{inference_call}", "Model calls of an agent invocation.", _CALLS
    ),
    semconv.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS: _Spec(
        "{tool_call}", "Tool calls of an agent invocation.", _CALLS
    ),
    semconv.METRIC_GEN_AI_INVOKE_WORKFLOW_DURATION: _Spec("s", "Workflow runs.", _WORKFLOW),
    semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION: _Spec("s", "Tool executions.", _DURATION),
    semconv.METRIC_MCP_CLIENT_OPERATION_DURATION: _Spec("s", "MCP requests sent.", _MCP),
    semconv.METRIC_MCP_SERVER_OPERATION_DURATION: _Spec("s", "MCP requests served.", _MCP),
    semconv.METRIC_MCP_CLIENT_SESSION_DURATION: _Spec("s", "MCP client sessions.", _MCP),
    semconv.METRIC_MCP_SERVER_SESSION_DURATION: _Spec("s", "MCP server sessions.", _MCP),
}

_OLD_NAMES = {
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: (
        semconv.METRIC_GEN_AI_CLIENT_OPERATION_DURATION
    ),
    semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: (
        semconv.METRIC_GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK
    ),
}
"""Metrics of model calls, and what they were called before semantic-conventions-genai PR 521."""

_GAUGES = {
    semconv.METRIC_APPROVAL_PENDING: _Spec("{approval}", "Questions that wait for an answer."),
    semconv.METRIC_AUDIT_SPOOLED: _Spec("{record}", "Audit records not written yet."),
    semconv.METRIC_POLICY_RULES: _Spec("{rule}", "Rules in force, by whether any call met them."),
    semconv.METRIC_ADAPTER_INFO: _Spec("1", "Imported frameworks and how they are guarded."),
}


class _Hub:
    """The instruments registered with one meter provider.

    A provider keeps the callbacks of the first registration for good: registering again after
    `uninstrument` changes nothing. So callbacks belong to the hub and read the current instruments.
    """

    def __init__(self, meter_provider: MeterProvider, version: str) -> None:
        self.meter: Meter = meter_provider.get_meter(semconv.SCOPE_NAME, version)
        self.is_silent = isinstance(self.meter, NoOpMeter)
        self.current: Instruments | None = None
        self._histograms: dict[str, Histogram] = {}
        self._custom: dict[tuple[str, str], Any] = {}
        self._observed: list[Any] = []  # a meter may only refer to them weakly
        if self.is_silent:
            return
        for name, spec in _COUNTERS.items():
            counter = self.meter.create_observable_counter(
                name, [self._counter_callback(name)], unit=spec.unit, description=spec.description
            )
            self._observed.append(counter)
        for name, spec in _GAUGES.items():
            gauge = self.meter.create_observable_gauge(
                name, [self._gauge_callback(name)], unit=spec.unit, description=spec.description
            )
            self._observed.append(gauge)

    def histogram(self, name: str) -> Histogram:
        """Find or create a histogram."""
        histogram = self._histograms.get(name)
        if histogram is None:
            spec = _HISTOGRAMS[name]
            histogram = self._histograms[name] = self.meter.create_histogram(
                name,
                unit=spec.unit,
                description=spec.description,
                explicit_bucket_boundaries_advisory=spec.buckets,
            )
        return histogram

    def custom(self, kind: str, name: str) -> Any:
        """Find or create a counter or gauge of the user's own."""
        made = self._custom.get((kind, name))
        if made is None:
            make = self.meter.create_counter if kind == "counter" else self.meter.create_gauge
            made = self._custom[kind, name] = make(name)
        return made

    def _counter_callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            current = self.current
            if current is None:
                return []
            current.flush()
            return [cell.observe() for cell in current.counter(name).cells()]

        return observe

    def _gauge_callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            current = self.current
            return [] if current is None else current.read_gauge(name)

        return observe


_hubs: ByIdentity[_Hub] = ByIdentity()
_hubs_lock = threading.Lock()


class Instruments:
    """All instruments of otelhooks on one meter provider.

    Args:
        meter_provider: Where values go; a no-op provider makes `record` free.
        version: Version of the instrumentation scope.
        token_histogram: Whether callers record tokens in histograms too.
        chunk_histogram: Whether they record the time between chunks of a stream.
        tool_histogram: Whether they record ``gen_ai.execute_tool.duration``.
        old_model_metrics: Whether metrics of model calls also have the names of before.

    Attributes:
        is_global: Whether values go to the provider that other libraries use unless told otherwise.
    """

    def __init__(
        self,
        meter_provider: MeterProvider,
        version: str,
        *,
        token_histogram: bool = False,
        chunk_histogram: bool = False,
        tool_histogram: bool = False,
        old_model_metrics: bool = False,
    ) -> None:
        self.token_histogram = token_histogram
        self.chunk_histogram = chunk_histogram
        self.tool_histogram = tool_histogram
        self.old_model_metrics = old_model_metrics
        self._version = version
        self._counters = {name: CellCounter(name) for name in _COUNTERS}
        self.decisions: CellCounter = self._counters[semconv.METRIC_POLICY_DECISIONS]
        self.denies: CellCounter = self._counters[semconv.METRIC_POLICY_DENIES]
        self.evaluations: CellCounter = self._counters[semconv.METRIC_POLICY_EVALUATIONS]
        self.evaluation_time: CellCounter = self._counters[semconv.METRIC_POLICY_EVALUATION_TIME]
        self.tool_calls: CellCounter = self._counters[semconv.METRIC_TOOL_CALLS]
        self.tool_time: CellCounter = self._counters[semconv.METRIC_TOOL_TIME]
        self.candidate_flips: CellCounter = self._counters[semconv.METRIC_CANDIDATE_FLIPS]
        self.coverage_gaps: CellCounter = self._counters[semconv.METRIC_COVERAGE_GAPS]
        self.hook_errors: CellCounter = self._counters[semconv.METRIC_HOOK_ERRORS]
        self.hook_queue_dropped: CellCounter = self._counters[semconv.METRIC_HOOK_QUEUE_DROPPED]
        self._gauges: dict[str, GaugeCallback] = {}
        self._logged: set[str] = set()
        self._waiting = Waiting(QUEUE_CAPACITY // 2, self._relieve)
        self._histograms = {
            name: CellHistogram(name, spec.buckets, self._waiting)
            for name, spec in _HISTOGRAMS.items()
        }
        self._make_worker_parts()
        self._hub: _Hub | None = None
        self.is_global: bool = False
        self.rebind(meter_provider)

    def _make_worker_parts(self) -> None:
        # Reentrant: a signal handler may run a governed call while this thread drains.
        self._drain_lock = threading.RLock()
        self._wake = threading.Event()
        self._worker: threading.Thread | None = None
        self._is_closed = False

    def counter(self, name: str) -> CellCounter:
        """Find a counter by its metric name; KeyError for an unknown name."""
        return self._counters[name]

    def custom(self, kind: str, name: str) -> Any:
        """Find or create an instrument of the user's own.

        Args:
            kind: ``counter`` or ``gauge``.
            name: Not one of ours.

        Returns:
            An instrument that takes values at once; None in a child that has no provider yet.
        """
        return self._hub.custom(kind, name) if self._hub is not None else None

    def histogram(self, name: str) -> CellHistogram:
        """Find a histogram by its metric name; KeyError for an unknown name."""
        return self._histograms[name]

    def record(
        self,
        name: str,
        value: float,
        attributes: Attributes,
        exemplar: SpanContext | None = None,
    ) -> None:
        """Queue a value for a histogram.

        Args:
            name: Metric name.
            value: Seconds, or tokens.
            attributes: Copied if they are new.
            exemplar: Context of the sampled span this belongs to, or None.
        """
        histogram = self._histograms.get(name)
        if histogram is None:
            self._log_once(name, "there is no histogram `%s`: its values are dropped")
        else:
            histogram.cell(attributes).record(value, exemplar)

    def _relieve(self, cell: HistogramCell) -> None:
        waiting = self._waiting
        if self._hub is None:  # in a forked child without a provider: keep the newest
            if waiting.number >= QUEUE_CAPACITY:
                cell.values.popleft()
                waiting.number -= 1
            return
        if waiting.number >= QUEUE_CAPACITY or self._is_closed:
            self.flush()
            return
        if self._worker is None:
            with self._drain_lock:
                if self._worker is None:
                    self._worker = threading.Thread(
                        target=self._work, name="otelhooks-metrics", daemon=True
                    )
                    try:
                        self._worker.start()
                    except RuntimeError:  # the interpreter is shutting down
                        self.flush()
                        return
        if not self._wake.is_set():
            self._wake.set()

    def _work(self) -> None:
        wake = self._wake
        while not self._is_closed and wake is self._wake:
            wake.wait()
            wake.clear()
            self.flush()

    def flush(self) -> None:
        """Pass the waiting values to the SDK, and wait for those that the worker is passing on."""
        hub = self._hub
        if hub is None:
            return
        with self._drain_lock:
            if not self._waiting.number:
                return
            self._waiting.number = 0  # first: what comes meanwhile counts
            for name, histogram in self._histograms.items():
                for cell in histogram.cells():
                    if cell.values:
                        self._hand_over(hub, name, cell)

    def _hand_over(self, hub: _Hub, name: str, cell: HistogramCell) -> None:
        old = _OLD_NAMES.get(name) if self.old_model_metrics else None
        for value, exemplar in cell.take():
            try:
                context = exemplar_context(exemplar)
                hub.histogram(name).record(value, cell.attributes, context=context)
                if old is not None:
                    hub.histogram(old).record(value, cell.attributes, context=context)
            except Exception as error:
                self._log_once(name, "recording into histogram `%s` failed", error)

    def set_gauge(self, name: str, callback: GaugeCallback | None) -> None:
        """Set the source of a gauge's values.

        Args:
            name: Metric name of a gauge.
            callback: Called at each collection, returns (value, attributes) pairs; None: no value.
        """
        if name not in _GAUGES:
            self._log_once(name, "there is no gauge `%s`: its values are dropped")
        elif callback is None:
            self._gauges.pop(name, None)
        else:
            self._gauges[name] = callback

    def read_gauge(self, name: str) -> list[Observation]:
        """Call a gauge's callback; a failing one gives no values."""
        callback = self._gauges.get(name)
        if callback is None:
            return []
        try:
            return [Observation(value, attributes) for value, attributes in callback()]
        except Exception as error:
            self._log_once(name, "reading gauge `%s` failed", error)
            return []

    def rebind(self, meter_provider: MeterProvider) -> None:
        """Move to another provider; sums continue, and cells that callers hold stay valid.

        Args:
            meter_provider: The new provider; the same one again changes nothing.
        """
        try:
            with _hubs_lock:
                hub = _hubs.get(meter_provider, lambda: _Hub(meter_provider, self._version))
        except Exception as error:
            self._log_once(
                "rebind", "no metrics (%s): the meter provider makes no instruments", error
            )
            return
        self.is_global = meter_provider is get_meter_provider()
        if hub is self._hub:
            return
        self.flush()
        if self._hub is not None:
            self._hub.current = None
        predecessor, hub.current = hub.current, self
        if predecessor is not None and predecessor is not self:
            predecessor.flush()
            for name, counter in self._counters.items():
                counter.take_over(predecessor.counter(name))
        self._hub = hub
        self._waiting.is_silent = hub.is_silent

    def after_fork(self, *, reset: bool = False) -> None:
        """Drop what the parent queued (it reports that itself) and renew locks and worker.

        Args:
            reset: Count from 0 again: right if the child gets a provider of its own (then call
                `rebind` when it exists). On an inherited provider sums continue, as those of the
                SDK's own counters do.
        """
        global _hubs_lock
        _hubs_lock = threading.Lock()
        self._waiting.number = 0
        self._make_worker_parts()
        for histogram in self._histograms.values():
            histogram.after_fork()
        for counter in self._counters.values():
            counter.after_fork(reset=reset)
        if reset and self._hub is not None:
            self._hub.current = None
            self._hub = None
            self._waiting.is_silent = False

    def close(self) -> None:
        """Pass on queued values, end the worker, clear the gauges; sums stay readable."""
        self.flush()
        self._is_closed = True
        self._wake.set()
        self._gauges.clear()

    def _log_once(self, name: str, message: str, error: Exception | None = None) -> None:
        if message not in self._logged:
            self._logged.add(message)
            cause = f": {outline(error)}" if error is not None else ""
            _log.error(f"{message}%s", name, cause)
