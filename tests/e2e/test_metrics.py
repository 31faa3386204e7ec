"""Prometheus counts what was decided, to the last one, and its exemplars lead to the denies."""

from __future__ import annotations

from collections import Counter

from otelhooks.records import semconv
from tests.e2e.agents import DECISIONS
from tests.e2e.asking import Jaeger, Prometheus, eventually, eventually_equal
from tests.e2e.conftest import TURNS, Traffic


def counted(prometheus: Prometheus, metric: str, *labels: str) -> Counter[tuple[str, ...]]:
    """Return the last sums of a counter, also of processes that have ended."""
    series = prometheus.query(f"sum by ({', '.join(labels)}) (last_over_time({metric}[1h]))")
    counts = {tuple(each.get(label, "") for label in labels): value for each, value in series}
    return Counter({key: int(value) for key, value in counts.items() if value})


def test_the_counter_equals_the_decisions_made(traffic: Traffic, prometheus: Prometheus) -> None:
    made = Counter(
        (agent.service, record["decision"], record["enforcement"], record.get("rule_id", ""))
        for agent in traffic.agents
        for record in agent.records
    )
    names = (
        "service_name",
        "otelhooks_policy_decision",
        "otelhooks_policy_enforcement",
        "otelhooks_policy_rule_id",
    )
    services = {agent.service for agent in traffic.agents}

    def seen() -> Counter[tuple[str, ...]]:
        counts = counted(prometheus, "otelhooks_policy_decisions_total", *names)
        return Counter({key: count for key, count in counts.items() if key[0] in services})

    eventually_equal(seen, made)

    by_decision = Counter[str]()
    for (_, decision, _, _), count in seen().items():
        by_decision[decision] += count
    turns = TURNS * len(traffic.agents)
    assert by_decision == {
        "allow": 4 * turns,
        **{decision: count * turns for decision, count in DECISIONS.items()},
    }


def test_denies_are_counted_by_rule_and_severity(traffic: Traffic, prometheus: Prometheus) -> None:
    made = Counter(
        (agent.service, record["rule_id"], "critical")
        for agent in traffic.agents
        for record in agent.records
        if record["decision"] == "deny"
    )
    names = ("service_name", "otelhooks_policy_rule_id", "otelhooks_policy_severity")

    eventually(
        lambda: made.items() <= counted(prometheus, "otelhooks_policy_denies_total", *names).items()
    )


def test_the_collector_counts_the_same_verdicts(traffic: Traffic, prometheus: Prometheus) -> None:
    """Its own count, made from spans, has the request of an ask beside the call."""
    made = Counter(
        (span["resource"]["attributes"][semconv.SERVICE_NAME], decision)
        for span in traffic.spans
        if (decision := span["attributes"].get(semconv.POLICY_DECISION)) not in (None, "allow")
    )
    names = ("service_name", "otelhooks_policy_decision")

    eventually(
        lambda: made.items() <= counted(prometheus, "otelhooks_verdict_calls_total", *names).items()
    )


def test_exemplars_of_denies_lead_to_their_traces(
    traffic: Traffic, prometheus: Prometheus, jaeger: Jaeger
) -> None:
    for agent in traffic.agents:
        query = (
            f'otelhooks_policy_decisions_total{{service_name="{agent.service}",'
            'otelhooks_policy_decision="deny"}'
        )
        exemplars = eventually(lambda query=query: prometheus.exemplars(query))

        for exemplar in exemplars:
            spans = jaeger.trace(exemplar["labels"]["trace_id"])
            (span,) = [each for each in spans if each["id"] == exemplar["labels"]["span_id"]]
            assert span["tags"][semconv.POLICY_DECISION] == semconv.DECISION_DENY


def test_the_collectors_own_metrics_are_scraped(prometheus: Prometheus) -> None:
    eventually_equal(
        lambda: [value for _, value in prometheus.query('up{job="collector"}')], [1.0], 60
    )
    for metric in ("otelcol_exporter_queue_size", "otelcol_exporter_queue_capacity"):
        exporters = {labels["exporter"] for labels, _ in prometheus.query(metric)}

        assert exporters == {"otlp_grpc/traces", "otlp_http/prometheus"}
