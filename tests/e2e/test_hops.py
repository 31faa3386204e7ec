"""What each hop has of the agents' traffic, beside what the agents say themselves, as a table.

An ask is one decision, and two spans and events: the question, and its outcome.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, Prometheus, eventually_equal
from tests.e2e.conftest import Traffic
from tests.e2e.stack.stack import Stack
from tests.e2e.test_audit import events
from tests.e2e.test_metrics import counted

SPANS = "spans"
VERDICTS = (semconv.DECISION_DENY, semconv.DECISION_ASK, semconv.DECISION_MODIFY)
COLUMNS = (SPANS, semconv.DECISION_ALLOW, *VERDICTS)


def test_all_hops_agree_to_the_last_one(
    traffic: Traffic,
    stack: Stack,
    jaeger: Jaeger,
    prometheus: Prometheus,
    capsys: pytest.CaptureFixture[str],
) -> None:
    services = {agent.service for agent in traffic.agents}
    decided = Counter(record["decision"] for record in traffic.records)
    made = Counter({SPANS: len(traffic.spans)}) + verdicts(
        [span["attributes"] for span in traffic.spans]
    )

    def count(metric: str) -> Counter[str]:
        names = ("service_name", "otelhooks_policy_decision")
        found = Counter[str]()
        for (service, decision), value in counted(prometheus, metric, *names).items():
            found[decision] += value if service in services else 0
        return +found

    def stored() -> Counter[str]:
        spans = [span for trace_id in traces for span in jaeger.trace(trace_id)]
        return Counter({SPANS: len(spans)}) + verdicts([span["tags"] for span in spans])

    def copied() -> Counter[str]:
        kept = events(Path(stack.settings["OTELCOL_STATE"]))
        return verdicts([event for trace_id, event in kept if trace_id in traces])

    traces = {trace_id for agent in traffic.agents for trace_id in agent.traces}
    of_verdicts = Counter({key: value for key, value in made.items() if key != SPANS})
    eventually_equal(stored, made)
    eventually_equal(copied, of_verdicts)
    eventually_equal(lambda: count("otelhooks_policy_decisions_total"), decided)
    eventually_equal(lambda: count("otelhooks_verdict_calls_total"), of_verdicts)
    assert (traffic.accepted, traffic.sent) == (made[SPANS], made[SPANS])

    rows = {
        "agents: audit trails": decided,
        "Prometheus: their counter": count("otelhooks_policy_decisions_total"),
        "agents: spans": made,
        "collector: taken": {SPANS: int(traffic.accepted)},
        "collector: sent on": {SPANS: int(traffic.sent)},
        "trace store": stored(),
        "Prometheus: collector's count": count("otelhooks_verdict_calls_total"),
        "collector: file of events": copied(),
    }
    with capsys.disabled():
        print(f"\n{'':<32}" + "".join(f"{column:>8}" for column in COLUMNS))
        for hop, found in rows.items():
            print(f"{hop:<32}" + "".join(f"{found.get(column, ''):>8}" for column in COLUMNS))


def verdicts(attributes: list[dict[str, Any]]) -> Counter[str]:
    """Return how many there are of each decision other than a plain allow."""
    found = Counter(each.get(semconv.POLICY_DECISION) for each in attributes)
    return Counter({decision: found[decision] for decision in VERDICTS})
