"""Two thousand turns through two tiers, with and without Kafka between them: whole, and once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.asking import eventually_equal
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import Fleet, decisions_in, metric
from tests.fleet.kafka import AUDIT, Kafka
from tests.fleet.turns import Sent

TURNS, DENIED = 2000, 40
SHARE = range(115, 278)
"""A tenth of the turns without a deny, six standard deviations to either side."""


@pytest.fixture(scope="module", params=["load-balanced", "kafka"])
def broker(request: pytest.FixtureRequest) -> Kafka | None:
    """What is between the tiers; None: agents' collectors choose a gateway."""
    return request.getfixturevalue("kafka") if request.param == "kafka" else None


@pytest.fixture(scope="module")
def fleet(broker: Kafka | None, make_fleet: MakeFleet) -> Fleet:
    """Two collectors beside agents and two gateways, with every setting at its default."""
    fleet = make_fleet(kafka=broker.address if broker else None)
    fleet.start()
    return fleet


@pytest.fixture(scope="module")
def sent(fleet: Fleet) -> Sent:
    """What was sent, when every turn has been judged and all that was kept is in the store."""
    sent = fleet.send("tiers", TURNS, DENIED)
    eventually_equal(fleet.judged, TURNS, 60)
    fleet.settle()
    return sent


def test_every_turn_with_a_deny_is_whole(fleet: Fleet, sent: Sent) -> None:
    assert len(sent.denied) == DENIED

    def whole() -> int:
        stored = fleet.stored(sent)
        return sum(stored.get(key) == turn.spans for key, turn in sent.denied.items())

    eventually_equal(whole, DENIED, 120)


def test_a_tenth_of_the_rest_is_kept_and_no_turn_is_torn(fleet: Fleet, sent: Sent) -> None:
    kept = fleet.judged(sampled="true")

    eventually_equal(lambda: len(fleet.stored(sent)), kept, 120)
    assert kept - DENIED in SHARE
    eventually_equal(
        lambda: {key: sent.turns[key].spans for key in fleet.stored(sent)}, fleet.stored(sent), 120
    )


def test_each_span_reaches_the_store_once(fleet: Fleet, sent: Sent) -> None:
    """By the counters of who sent and of who took, since Jaeger shows a span once in any case."""
    kept = sum(map(len, fleet.stored(sent).values()))
    name, to_store = "otelcol_exporter_sent_spans", {"exporter": "otlp_grpc/traces"}

    by_agents = [int(metric(agent, name, **to_store)) for agent in fleet.agents]
    by_gateways = [int(metric(gateway, name, **to_store)) for gateway in fleet.gateways]

    assert sum(by_agents) == DENIED
    assert sum(by_agents) + sum(by_gateways) == kept
    eventually_equal(fleet.taken, kept)


def test_all_spans_of_a_trace_go_to_one_gateway_once(fleet: Fleet, sent: Sent) -> None:
    spans = {(key, span) for key, turn in sent.turns.items() for span in turn.spans}

    eventually_equal(lambda: fleet.given(0) + fleet.given(1), Counter(spans), 60)

    held = [fleet.held_by(gateway, sent) for gateway in range(2)]
    assert held[0] | held[1] == sent.turns.keys()
    assert held[0] & held[1] == set()
    assert min(map(len, held)) > TURNS / 8, "both work"


def test_the_events_are_in_the_audit_files_and_the_audit_topic(
    fleet: Fleet, sent: Sent, broker: Kafka | None
) -> None:
    denied = Counter(sent.denied.keys())

    eventually_equal(fleet.events, denied)
    if broker:
        eventually_equal(lambda: decisions_in(broker.read(AUDIT)), denied, 120)
