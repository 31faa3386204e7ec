"""Names as Prometheus and TraceQL have them, and the queries that panels are made of.

Counts are those of `count`: exact, also for an agent that lived for seconds, of which Prometheus
has one sample; ``increase`` and ``rate`` need two and see nothing of it.
"""

from __future__ import annotations

import re

from otelhooks.records import semconv

# --- Names, as Prometheus and TraceQL have them ---------------------------------------------------


def name(otel: str) -> str:
    """Return a metric's or label's name as Prometheus translates it, without suffixes."""
    return re.sub(r"[^A-Za-z0-9_]", "_", otel)


def counter(metric: str, unit: str = "") -> str:
    """Return the series of a counter."""
    return f"{name(metric)}{unit}_total"


def histogram(metric: str) -> str:
    """Return the series of a histogram of seconds, without ``_bucket``, ``_sum``, ``_count``."""
    return f"{name(metric)}_seconds"


SERVICE = name(semconv.SERVICE_NAME)
INSTANCE = name(semconv.SERVICE_INSTANCE_ID)
AGENT = name(semconv.GEN_AI_AGENT_NAME)
TOOL = name(semconv.GEN_AI_TOOL_NAME)
MODEL = name(semconv.GEN_AI_REQUEST_MODEL)
DECISION = name(semconv.POLICY_DECISION)
ENFORCEMENT = name(semconv.POLICY_ENFORCEMENT)
POLICY = name(semconv.POLICY_ID)
RULE = name(semconv.POLICY_RULE_ID)
SEVERITY = name(semconv.POLICY_SEVERITY)
MODE = name(semconv.POLICY_MODE)
CHANGE = name(semconv.MCP_TOOL_CHANGE)
ERROR = name(semconv.ERROR_TYPE)
STATUS = name(semconv.APPROVAL_STATUS)
POINT, HOOK = name(semconv.HOOK_POINT), name(semconv.HOOK_NAME)
FRAMEWORK = name(semconv.ADAPTER_FRAMEWORK)
VERSION = name(semconv.ADAPTER_VERSION)
STATE = name(semconv.ADAPTER_STATE)

DECISIONS = counter(semconv.METRIC_POLICY_DECISIONS)
EVALUATIONS = counter(semconv.METRIC_POLICY_EVALUATIONS)
FLIPS = counter(semconv.METRIC_CANDIDATE_FLIPS)
UNAPPROVED = counter(semconv.METRIC_MCP_TOOLS_UNAPPROVED)
GAPS = counter(semconv.METRIC_COVERAGE_GAPS)
HOOK_ERRORS = counter(semconv.METRIC_HOOK_ERRORS)
QUEUE_DROPPED = counter(semconv.METRIC_HOOK_QUEUE_DROPPED)
INPUT_TOKENS = counter(semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS)
OUTPUT_TOKENS = counter(semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS)
PENDING = name(semconv.METRIC_APPROVAL_PENDING)
SPOOLED = name(semconv.METRIC_AUDIT_SPOOLED)
ADAPTERS = name(semconv.METRIC_ADAPTER_INFO) + "_ratio"  # what becomes of the unit `1`
WAITS = histogram(semconv.METRIC_APPROVAL_WAIT_DURATION)
POLICY_TIME = histogram(semconv.METRIC_POLICY_EVALUATION_DURATION)
HOOK_TIME = histogram(semconv.METRIC_HOOK_DURATION)
TURNS = histogram(semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION)
TOOL_CALLS = counter(semconv.METRIC_TOOL_CALLS)
TOOL_TIME = counter(semconv.METRIC_TOOL_TIME, "_seconds")
TOOLS = histogram(semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION)  # only with `tool_histogram`
MODELS = histogram(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION)
OLD_MODELS = histogram(semconv.METRIC_GEN_AI_CLIENT_OPERATION_DURATION)

# Of the SDK, with OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED=true.
SDK_SPANS = "otel_sdk_processor_span_processed_total"

# Not names of otelhooks: the SDK's own metrics, the collector's, and labels they have.
FOREIGN_METRICS = re.compile(r"otel_sdk_\w+|otelcol_\w+|up|ALERTS")
FOREIGN_LABELS = {
    *("le", "job", "exporter", "receiver", "processor", "policy", "decision", "data_type"),
    *("sampled", "alertname", "alertstate", "severity"),
}

# --- Queries --------------------------------------------------------------------------------------

BY_SERVICE = f'{SERVICE}=~"$service"'
BY_AGENT = f'{BY_SERVICE},{AGENT}=~"$agent"'
BY_RULE = f'{BY_AGENT},{POLICY}=~"$policy",{RULE}=~"$rule",{MODE}=~"$mode"'
DENIED = f'{DECISION}="{semconv.DECISION_DENY}"'


def count(series: str, window: str) -> str:
    """Count what happened within a window, each series for itself.

    The last value, minus the one before the window; a counter that was born in it was 0. A process
    has series of its own (``service.instance.id``), so there is a reset only where that id is
    pinned: then it is what `increase` estimates.
    """
    return (
        f"((increase({series}[{window}]) and resets({series}[{window}]) > 0) "
        f"or (last_over_time({series}[{window}]) - "
        f"(last_over_time({series}[5m] offset {window}) "
        f"or 0 * last_over_time({series}[{window}]))))"
    )


def total(series: str, window: str, *labels: str, before: str = "") -> str:
    """Sum `count` by labels.

    Args:
        series: What is counted.
        window: How far back.
        labels: Labels of the sums.
        before: The same by the name that it had before: counted of processes that do not send
            `series`, so never twice.
    """
    by = f" by ({', '.join(labels)})" if labels else ""
    counted = count(series, window)
    if before:
        counted = f"{counted} or on ({SERVICE}, {INSTANCE}) {count(before, window)}"
    return f"sum{by} ({counted})"


def or_zero(query: str, window: str, *labels: str) -> str:
    """Show 0 where agents report and the counted thing never happened: it has no series then."""
    return f"{query} or 0 * {total(f'{EVALUATIONS}{{{BY_SERVICE}}}', window, *labels)}"


def quantile(share: float, metric: str, selector: str, *labels: str) -> str:
    """Estimate a quantile of a histogram's values within each step."""
    buckets = total(f"{metric}_bucket{{{selector}}}", STEP, "le", *labels)
    return f"histogram_quantile({share}, {buckets})"


def model_calls(window: str, *labels: str, part: str = "count") -> str:
    """Sum the durations of model calls by labels, also those that still have the old name."""
    old = f"{OLD_MODELS}_{part}{{{BY_SERVICE},{INFERENCE}}}"
    return total(f"{MODELS}_{part}{{{BY_SERVICE}}}", window, *labels, before=old)


def own(metric: str, selector: str = "") -> str:
    """Select a counter of the collector, which ends in ``_total`` or not, by version and path."""
    return f'{{__name__=~"{metric}(_total)?"{"," if selector else ""}{selector}}}'


def collector_rate(metric: str, *labels: str, selector: str = "") -> str:
    """Return how fast a counter of the collector grows."""
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({own(metric, selector)}[$__rate_interval]))"


# The old name was for other operations as well, such as embeddings of other instrumentations.
INFERENCE = (
    f'{name(semconv.GEN_AI_OPERATION_NAME)}=~"'
    f'{semconv.OP_CHAT}|{semconv.OP_GENERATE_CONTENT}|{semconv.OP_TEXT_COMPLETION}"'
)
STEP, RANGE = "$__rate_interval", "$__range"
DECISIONS_SHOWN = f"{DECISIONS}{{{BY_RULE}}}"
DENIES_SHOWN = f"{DECISIONS}{{{BY_RULE},{DENIED}}}"

# --- TraceQL: each was run against Tempo 3, but for attribute names and values --------------------

SPAN_DECISION = f"span.{semconv.POLICY_DECISION}"
NEWEST_DENIES = (
    f'{{ {SPAN_DECISION} =~ "deny|ask" }} | select(span.{semconv.GEN_AI_TOOL_NAME}, '
    f"span.{semconv.POLICY_RULE_ID}, statusMessage)"
)
DENIES_BY_AGENT = (
    f'{{ {SPAN_DECISION} = "deny" }} | count_over_time() '
    f"by (span.{semconv.GEN_AI_AGENT_NAME}) | topk(10)"
)
TOOL_P95 = (
    '{ name =~ "execute_tool.*" } | quantile_over_time(duration, .95) '
    f"by (span.{semconv.GEN_AI_TOOL_NAME}) with (exemplars=true)"
)
