"""The dashboard *Coverage and health*: what is guarded, and what was lost on the way."""

from __future__ import annotations

from dashboards.panels import (
    HEALTH,
    JSON,
    chart,
    metric,
    number,
    page,
    row,
    table,
)
from dashboards.queries import (
    ADAPTERS,
    BY_SERVICE,
    ERROR,
    EVALUATIONS,
    FRAMEWORK,
    GAPS,
    HOOK,
    HOOK_ERRORS,
    INSTANCE,
    POINT,
    QUEUE_DROPPED,
    RANGE,
    SDK_SPANS,
    SERVICE,
    SPOOLED,
    STATE,
    STEP,
    VERSION,
    collector_rate,
    or_zero,
    total,
)
from otelhooks.records import semconv

ITEMS = {"spans": "spans", "metric_points": "metrics", "log_records": "events"}


def health() -> JSON:
    """Whether everything is guarded, and whether what is seen is all there is."""
    sampled = "otelcol_processor_tail_sampling"
    lost = f'{SDK_SPANS}{{{BY_SERVICE},{ERROR}!=""}}'
    adapters = f"last_over_time({ADAPTERS}{{{BY_SERVICE},{STATE}"
    patched = f'{adapters}="{semconv.ADAPTER_PATCHED}"}}[{RANGE}])'
    # An adapter is patched step by step while its framework is being imported: what it was before
    # in the same process does not count.
    process = f"{INSTANCE}, {FRAMEWORK}, {VERSION}"
    before = f"unless on ({process}) {patched}"
    others = f'({adapters}!="{semconv.ADAPTER_PATCHED}"}}[{RANGE}]) {before})'
    guarded = f'"{semconv.ADAPTER_PATCHED}|{semconv.ADAPTER_PARTIAL}"}}[{RANGE}])'
    not_covered = f"({adapters}!~{guarded} {before})"
    return page(
        HEALTH,
        "otelhooks / Coverage and health",
        "What is guarded, and what was lost on the way here.",
        [
            row("Coverage"),
            number(
                "Coverage gaps",
                "Tool calls that a model asked for and no seat judged. Any is a hole in the guard.",
                or_zero(total(f"{GAPS}{{{BY_SERVICE}}}", RANGE), RANGE),
                bad=1,
            ),
            number(
                "Frameworks not covered",
                "Imported frameworks that are unguarded, refused or off, in any process.",
                f"count(count by ({FRAMEWORK}, {VERSION}) ({not_covered}))"
                f" or 0 * count({adapters}=~{guarded})",
                bad=1,
            ),
            number(
                "Hook errors",
                "Hooks that raised. One that decides denies then.",
                or_zero(total(f"{HOOK_ERRORS}{{{BY_SERVICE}}}", RANGE), RANGE),
                bad=1,
            ),
            number(
                "Dropped from hook queues",
                "Background hooks that were too slow for what came in.",
                or_zero(total(f"{QUEUE_DROPPED}{{{BY_SERVICE}}}", RANGE), RANGE),
                bad=1,
            ),
            number(
                "Audit records not written",
                "They wait in memory: the disk is full or not writable.",
                or_zero(f"sum({SPOOLED}{{{BY_SERVICE}}})", RANGE),
                bad=1,
            ),
            number(
                "Spans lost in agents",
                "Dropped by the SDK before they left; needs "
                "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED=true.",
                or_zero(total(lost, RANGE), RANGE),
                bad=1,
            ),
            table(
                "Adapters",
                "Frameworks that were imported, and how they are guarded; the count is processes.",
                {SERVICE: "Service", FRAMEWORK: "Framework", VERSION: "Version", STATE: "State"},
                f"count by ({SERVICE}, {FRAMEWORK}, {VERSION}, {STATE}) ({patched} or {others})",
            ),
            chart(
                "Coverage gaps by framework",
                "Dots are turns with a gap: a click opens the trace.",
                "short",
                [
                    metric(
                        or_zero(total(f"{GAPS}{{{BY_SERVICE}}}", STEP, FRAMEWORK), STEP),
                        f"{{{{{FRAMEWORK}}}}}",
                        dots=True,
                    )
                ],
                bars=True,
            ),
            chart(
                "Hook errors",
                "By hook and point.",
                "short",
                [
                    metric(
                        or_zero(total(f"{HOOK_ERRORS}{{{BY_SERVICE}}}", STEP, HOOK, POINT), STEP),
                        f"{{{{{HOOK}}}}} {{{{{POINT}}}}}",
                    )
                ],
                bars=True,
            ),
            chart(
                "Evaluations by service",
                "Rules and hooks that ran: a service that stops here is gone, or is not governed.",
                "short",
                [
                    metric(
                        total(f"{EVALUATIONS}{{{BY_SERVICE}}}", STEP, SERVICE), f"{{{{{SERVICE}}}}}"
                    )
                ],
                bars=True,
            ),
            row("Collector"),
            chart(
                "Spans in and out",
                "Out is less than in: sampling. A verdict is never sampled away.",
                "short",
                [
                    metric(collector_rate("otelcol_receiver_accepted_spans"), "accepted a second"),
                    metric(collector_rate("otelcol_exporter_sent_spans"), "sent a second"),
                ],
                width=8,
            ),
            chart(
                "Refused and lost",
                "Refused: senders keep it and try again. Lost: the queue did not take it.",
                "short",
                [
                    *(
                        metric(
                            collector_rate(f"otelcol_receiver_refused_{what}"), f"{words} refused"
                        )
                        for what, words in ITEMS.items()
                    ),
                    *(
                        metric(
                            f"{collector_rate(f'otelcol_exporter_enqueue_failed_{what}')} or "
                            f"0 * {collector_rate(f'otelcol_receiver_accepted_{what}')}",
                            f"{words} lost",
                        )
                        for what, words in ITEMS.items()
                    ),
                ],
                width=8,
            ),
            chart(
                "Queues",
                "Share of each queue that is taken; full, new data is refused.",
                "percentunit",
                [
                    metric(
                        "max by (exporter, data_type) "
                        "(otelcol_exporter_queue_size / otelcol_exporter_queue_capacity)",
                        "{{exporter}} {{data_type}}",
                    )
                ],
                line=0.8,
                width=8,
            ),
            chart(
                "Sampling, traces a second",
                "What each rule of the sampler said of traces.",
                "short",
                [
                    metric(
                        collector_rate(f"{sampled}_count_traces_sampled", "policy", "decision"),
                        "{{policy}}: {{decision}}",
                    )
                ],
                width=8,
            ),
            chart(
                "Traces in the sampler's memory",
                "Turns in flight. Dropped too early: more turns than OTELCOL_NUM_TRACES.",
                "short",
                [
                    metric(f"sum({sampled}_sampling_traces_on_memory)", "in memory"),
                    metric(
                        collector_rate(f"{sampled}_sampling_trace_dropped_too_early"),
                        "dropped too early a second",
                    ),
                ],
                width=8,
            ),
            chart(
                "Collector memory",
                "Resident; the memory limiter refuses before the container's limit.",
                "bytes",
                [metric("sum by (job) (otelcol_process_memory_rss)", "{{job}}")],
                width=8,
            ),
        ],
    )
