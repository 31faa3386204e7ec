"""What is left of turns and verdicts when a part of a fleet goes down, and what is there twice.

Every turn is kept here, so that each one that is missing, torn or double shows. Promised: a verdict
that was acknowledged is in the trace store, at once, whatever is between the tiers; a turn is whole
unless what held it in memory was killed.
"""

from __future__ import annotations

from collections import Counter

from tests.e2e.asking import eventually, eventually_equal
from tests.e2e.fault_table import AddRow
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import GATEWAYS_QUEUE, Fleet, decisions_in, metric
from tests.fleet.kafka import AUDIT, Kafka
from tests.fleet.turns import Sent

TURNS, DENIED, MANY = 200, 20, 16000
KEEP_ALL = {"OTELCOL_SAMPLING_PERCENTAGE": "100"}


def whole(fleet: Fleet, sent: Sent) -> set[str]:
    """Return the trace ids of turns with every span in the trace store."""
    return {key for key, spans in fleet.stored(sent).items() if spans == sent.turns[key].spans}


def denies(fleet: Fleet, sent: Sent) -> set[str]:
    """Return the trace ids of turns whose deny is in the trace store."""
    stored = fleet.stored(sent)
    return {key for key, turn in sent.denied.items() if turn.deny in stored.get(key, ())}


def each_once(sent: Sent) -> Counter[tuple[str, str]]:
    return Counter((key, span) for key, turn in sent.turns.items() for span in turn.spans)


def test_a_gateway_is_killed_and_started_again(make_own_fleet: MakeFleet, row: AddRow) -> None:
    """What it held is torn; what the other one held, and all that comes meanwhile, is not."""
    fleet = make_own_fleet(settings={**KEEP_ALL, "OTELCOL_WAIT_AFTER_ROOT": "30s"})
    fleet.start()
    before = fleet.send("before", TURNS, DENIED)
    eventually_equal(lambda: fleet.given(0) + fleet.given(1), each_once(before), 60)
    fleet.gateways[0].kill()
    meanwhile = fleet.send("meanwhile", TURNS, DENIED)

    eventually_equal(lambda: denies(fleet, meanwhile), {*meanwhile.denied})
    eventually(lambda: len(whole(fleet, meanwhile)) > TURNS / 8, 120)
    assert not fleet.gateways[0].is_running
    fleet.gateways[0].start()
    eventually_equal(lambda: whole(fleet, meanwhile), {*meanwhile.turns}, 120)

    held, other = fleet.held_by(0, before), fleet.held_by(1, before)
    eventually(lambda: other <= whole(fleet, before), 120)
    stored = fleet.stored(before)
    assert denies(fleet, before) == {*before.denied}
    gone = held - whole(fleet, before)
    assert gone
    assert {key: stored[key] for key in gone & stored.keys()} == {
        key: {before.turns[key].deny} for key in gone & before.denied.keys()
    }
    assert {*fleet.events()} == before.denied.keys() | meanwhile.denied.keys()
    fleet.settle()
    everything = {**stored, **fleet.stored(meanwhile)}
    assert fleet.taken() == sum(map(len, everything.values()))
    assert fleet.given(0) + fleet.given(1) == each_once(before) + each_once(meanwhile)
    row(
        "gateway killed with -9, started again",
        "every deny, at once; turns that it did not hold, whole; nothing twice",
        f"{before} before, {meanwhile} meanwhile",
        f"{len(before.denied)} + {len(meanwhile.denied)} denies; of the {len(held)} turns it held "
        f"{len(gone)} without what is no verdict; the other {len(other)} and all "
        f"{len(meanwhile.turns)} sent meanwhile whole; 0 spans twice",
    )


def test_a_gateway_is_away_for_longer_than_memory_lasts(
    make_own_fleet: MakeFleet, row: AddRow
) -> None:
    """Then all turns wait on disk; none is sent twice for that."""
    fleet = make_own_fleet(agents=1)
    (agent,) = fleet.agents
    fleet.start()
    fleet.gateways[0].kill()
    sent = fleet.send("long-away", MANY, MANY // 100, senders=8)

    eventually_equal(lambda: denies(fleet, sent), {*sent.denied})
    waiting = metric(agent, "otelcol_exporter_queue_size", **GATEWAYS_QUEUE)
    assert waiting > 0
    assert sum(fleet.given(1).values()) < sent.spans / 2
    fleet.gateways[0].start()
    spans = each_once(sent)
    eventually_equal(
        lambda: len((fleet.given(0) + fleet.given(1)).keys() & spans.keys()), len(spans), 240
    )
    given = fleet.given(0) + fleet.given(1)
    assert sum(given.values()) == len(given) == len(spans), "each once"
    row(
        "gateway away for longer than 20,000 of its spans last",
        "every deny, at once; then all turns wait on disk; nothing lost, nothing twice",
        str(sent),
        f"{len(sent.denied)} denies; {waiting:,.0f} spans waited; afterwards each of "
        f"{sent.spans:,} spans at one gateway, once",
    )


def test_kafka_is_killed_and_started_again(
    make_own_fleet: MakeFleet, kafka: Kafka, row: AddRow
) -> None:
    fleet = make_own_fleet(kafka=kafka.address, settings=KEEP_ALL)
    fleet.start()
    before = fleet.send("before", TURNS, DENIED)
    kafka.process.kill()
    meanwhile = fleet.send("meanwhile", TURNS, DENIED)

    eventually_equal(lambda: denies(fleet, meanwhile), {*meanwhile.denied})
    only = {key: frozenset({turn.deny}) for key, turn in meanwhile.denied.items()}
    assert fleet.stored(meanwhile) == only
    kafka.process.start()

    for sent in (before, meanwhile):
        eventually_equal(lambda sent=sent: whole(fleet, sent), {*sent.turns}, 300)
    fleet.settle()
    denied = {*before.denied, *meanwhile.denied}
    eventually(lambda: denied <= decisions_in(kafka.read(AUDIT)).keys(), 120)
    events = {key: n for key, n in decisions_in(kafka.read(AUDIT)).items() if key in denied}
    given = fleet.given(0) + fleet.given(1)
    twice = sum(given[key] - 1 for sent in (before, meanwhile) for key in each_once(sent))
    assert max(events[key] for key in meanwhile.denied) == 1, (
        "no crash forced these to be sent again"
    )
    assert all(given[key] == 1 for key in each_once(meanwhile))
    assert {*fleet.events()} == denied
    row(
        "Kafka killed with -9, started again",
        "every deny, at once; every turn whole; every event in the topic; "
        "twice only what was under way",
        f"{before} before, {meanwhile} meanwhile",
        f"{len(denied)} denies, {len(meanwhile.denied)} of them while it was down; "
        f"{len(before.turns) + len(meanwhile.turns)} turns whole; {len(events)} events; "
        f"{twice} spans and {sum(events.values()) - len(events)} events twice",
    )


def test_a_gateway_behind_kafka_is_killed(
    make_own_fleet: MakeFleet, kafka: Kafka, row: AddRow
) -> None:
    """The other one takes over its partitions, with all that it had not read."""
    fleet = make_own_fleet(
        kafka=kafka.address, settings={**KEEP_ALL, "OTELCOL_WAIT_AFTER_ROOT": "30s"}
    )
    fleet.start()
    before = fleet.send("killed", TURNS, DENIED)
    eventually(lambda: each_once(before) <= fleet.given(0) + fleet.given(1), 120)
    held, other = fleet.held_by(0, before), fleet.held_by(1, before)
    fleet.gateways[0].kill()
    meanwhile = fleet.send("taken-over", TURNS, DENIED)

    eventually_equal(lambda: denies(fleet, meanwhile), {*meanwhile.denied})
    eventually_equal(lambda: whole(fleet, meanwhile), {*meanwhile.turns}, 180)
    eventually(lambda: other <= whole(fleet, before), 120)
    assert denies(fleet, before) == {*before.denied}
    assert held
    fleet.settle()
    stored = {**fleet.stored(before), **fleet.stored(meanwhile)}
    assert fleet.taken() == sum(map(len, stored.values()))
    row(
        "gateway behind Kafka killed with -9, not started again",
        "every deny, at once; turns that it had not read, whole; nothing twice",
        f"{before} before, {meanwhile} meanwhile",
        f"{len(before.denied)} + {len(meanwhile.denied)} denies; of the {len(held)} turns it held "
        f"{len(held - whole(fleet, before))} without what is no verdict; the other {len(other)} "
        f"and all {len(meanwhile.turns)} sent meanwhile whole; 0 spans twice",
    )


def test_an_agents_collector_is_killed_while_the_store_is_down(
    make_own_fleet: MakeFleet, row: AddRow
) -> None:
    """The gateways had taken the turns before; what they had not taken is on disk."""
    fleet = make_own_fleet(settings=KEEP_ALL)
    fleet.start()
    fleet.jaeger.kill()
    sent = fleet.send("store-down", TURNS, DENIED)
    eventually(lambda: each_once(sent).keys() <= (fleet.given(0) + fleet.given(1)).keys())
    fleet.agents[0].kill()
    fleet.agents[0].start()
    fleet.jaeger.start()

    eventually_equal(lambda: denies(fleet, sent), {*sent.denied}, 120)
    eventually_equal(lambda: whole(fleet, sent), {*sent.turns}, 120)
    row(
        "trace store down, an agent's collector killed with -9, both up",
        "every acknowledged deny; every turn that the gateways had, whole",
        str(sent),
        f"{len(denies(fleet, sent))} denies; {len(whole(fleet, sent))} turns whole; "
        f"{len(fleet.events())} of the events copied to files",
    )


def test_an_agents_collector_is_killed_while_a_gateway_is_away(
    make_own_fleet: MakeFleet, row: AddRow
) -> None:
    """What waited in its memory for that gateway is lost; no verdict, no turn of the other's."""
    fleet = make_own_fleet(settings=KEEP_ALL)
    fleet.start()
    fleet.gateways[0].kill()
    sent = fleet.send("gateway-away", TURNS, DENIED)
    eventually(lambda: len(whole(fleet, sent)) > TURNS / 8, 120)
    fleet.agents[0].kill()
    fleet.agents[0].start()
    fleet.gateways[0].start()

    late = fleet.send("late", TURNS, DENIED)
    eventually_equal(lambda: whole(fleet, late), {*late.turns}, 120)
    eventually(lambda: each_once(sent).keys() & fleet.given(0).keys(), 120)
    fleet.settle()
    other = fleet.held_by(1, sent)
    eventually(lambda: other <= whole(fleet, sent), 120)
    assert denies(fleet, sent) == {*sent.denied}
    complete = whole(fleet, sent)
    row(
        "gateway away, an agent's collector killed with -9, both up",
        "every deny; the other gateway's turns whole; lost is what waited in memory",
        f"{sent} before, {late} after",
        f"{len(denies(fleet, sent))} + {len(late.denied)} denies; the other gateway's {len(other)} "
        f"whole, of the {len(sent.turns) - len(other)} for the one away "
        f"{len(complete - other)}; all {len(late.turns)} after it",
    )
