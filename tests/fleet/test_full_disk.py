"""The queue's disk is full, the trace store away: what is taken is kept, and no more is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.asking import eventually, eventually_equal
from tests.e2e.fault_table import AddRow
from tests.e2e.sending import Sender
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import Fleet, metric, url
from tests.fleet.small_disk import NoSmallDiskError, SmallDisk
from tests.fleet.turns import DENY, RETRYABLE

BEFORE, REFUSALS = 200, 20
AT_MOST = 900
"""Fewer than Jaeger answers with at once."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        disk = SmallDisk(tmp_path / "disk", 24)
    except NoSmallDiskError as error:
        pytest.skip(f"no small disk here: {error}")
    yield disk
    disk.close()


@pytest.fixture
def fleet(make_own_fleet: MakeFleet, disk: SmallDisk, tmp_path: Path) -> Fleet:
    """One agent's collector that has its state on the small disk."""
    fleet = make_own_fleet(agents=1)
    (agent,) = fleet.agents
    agent.command = disk.command(agent.command)
    agent.environment["OTELCOL_STATE"] = str(tmp_path / "disk")
    fleet.start()
    return fleet


def test_the_disk_of_the_queue_is_full(fleet: Fleet, disk: SmallDisk, row: AddRow) -> None:
    (agent,) = fleet.agents
    sender = Sender(url(agent, "OTELCOL_HTTP_PORT"), fleet.stack.token, "full-disk")
    acknowledged: set[str] = set()
    refused = Counter[int]()

    def send() -> None:
        request, trace_id = sender.request("deny", {**DENY, "padding": "x" * 2000}, 1)
        if (status := sender.post("/v1/traces", request.SerializeToString())) == 200:
            acknowledged.add(trace_id)
        else:
            refused[status] += 1

    fleet.jaeger.kill()
    while len(acknowledged) < BEFORE:
        send()
    disk.fill()
    while refused.total() < REFUSALS and len(acknowledged) < AT_MOST:
        send()
    assert refused.total() == REFUSALS
    assert refused.keys() <= RETRYABLE
    assert metric(agent, "otelcol_process_uptime") > 0, "it answers"
    while_full = len(acknowledged)
    disk.make_room()
    eventually(lambda: (send(), len(acknowledged) > while_full)[1])
    agent.kill()
    agent.start()
    fleet.jaeger.start()

    eventually_equal(lambda: acknowledged - fleet.store.find("full-disk", {}).keys(), set(), 120)

    statuses = ", ".join(map(str, sorted(refused)))
    row(
        "disk of the queue full, trace store down; room made, collector killed with -9",
        "refused so that the sender tries again, or acknowledged and kept; the collector answers",
        f"{len(acknowledged)} denies acknowledged, {refused.total()} refused ({statuses})",
        f"{len(acknowledged)} denies; the collector took others again as soon as there was room",
    )
