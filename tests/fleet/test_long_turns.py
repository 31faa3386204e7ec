"""Turns longer than ``decision_wait``: the verdict is there in any case, the rest may not be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otelhooks.records import semconv
from tests.e2e.asking import eventually, eventually_equal
from tests.e2e.fault_table import AddRow
from tests.e2e.sending import Sender, attributes_of
from tests.e2e.stack.build import ROOT
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import Fleet, metric, url
from tests.fleet.turns import DENY, make_turn, until_acknowledged


@pytest.fixture(scope="module")
def fleet(make_fleet: MakeFleet) -> Fleet:
    """Gateways that wait for three seconds, and keep no turn without a reason."""
    short = {"OTELCOL_DECISION_WAIT": "3s", "OTELCOL_SAMPLING_PERCENTAGE": "0"}
    fleet = make_fleet(settings=short, agents=1)
    fleet.start()
    return fleet


@pytest.mark.parametrize("denied", ["early", "late"])
def test_a_turn_longer_than_the_wait(denied: str, fleet: Fleet, row: AddRow) -> None:
    """Judged at three seconds; a deny before makes it whole, one after is there alone."""
    sender = Sender(url(fleet.agents[0], "OTELCOL_HTTP_PORT"), fleet.stack.token, f"long-{denied}")
    first, last, turn = make_turn(sender, is_denied=denied == "early")
    if denied == "late":
        root = last.resource_spans[0].scope_spans[0].spans[0]
        root.attributes.extend(attributes_of(DENY))
    before = fleet.judged()
    until_acknowledged(sender, first)
    eventually(lambda: fleet.judged() > before)
    assert fleet.judged(sampled="true") == 1, "the early one; the late one is judged without"
    received = spans_at_gateways(fleet)
    until_acknowledged(sender, last)
    eventually(lambda: spans_at_gateways(fleet) > received)
    fleet.settle()

    root_id = last.resource_spans[0].scope_spans[0].spans[0].span_id.hex()
    expected = turn.spans if denied == "early" else {root_id}
    eventually_equal(lambda: {s["id"] for s in fleet.store.trace(turn.trace_id)}, expected)

    row(
        f"turn longer than decision_wait, denied {denied}",
        "the deny; the whole turn if it was denied before the wait was over",
        f"a turn of {len(turn.spans)} spans",
        "whole" if denied == "early" else "the deny alone",
    )


def spans_at_gateways(fleet: Fleet) -> float:
    name = "otelcol_receiver_accepted_spans"
    return sum(metric(gateway, name) for gateway in fleet.gateways)


ASKS = """
import sys, time
from pathlib import Path
import otelhooks
from otelhooks import errors, policy

def approve(call):
    while not Path(sys.argv[1]).exists():
        time.sleep(0.05)
    return True

@otelhooks.tool
def send_email(to: str) -> str:
    return "sent"

@otelhooks.tool
def wipe() -> str:
    raise AssertionError("it ran")

otelhooks.instrument(
    policies=[policy.ask_user("send_email", id="mail"), policy.deny("wipe", id="no-wipe")],
    approvals=approve,
)
with otelhooks.turn("mail, then wipe", agent="assistant"):
    assert send_email("ada@example.com") == "sent"
    try:
        wipe()
    except errors.Denied:
        pass
otelhooks.uninstrument()
"""


def test_a_deny_after_an_approval_that_took_longer_than_the_wait(
    fleet: Fleet, tmp_path: Path, row: AddRow
) -> None:
    """A real agent; the person answers after its turn was judged."""
    answered = tmp_path / "answered"
    before = fleet.judged()
    with open(tmp_path / "log", "wb") as log:
        agent = subprocess.Popen(
            (sys.executable, "-c", ASKS, str(answered)),
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                **fleet.environment(0),
                "OTEL_SERVICE_NAME": "long-approval",
            },
            stdout=log,
            stderr=log,
        )
    eventually(lambda: fleet.judged() > before, 60)
    answered.touch()
    assert agent.wait(60) == 0, (tmp_path / "log").read_text()

    def verdicts() -> dict[str, str]:
        return {
            span["tags"][semconv.POLICY_DECISION]: span["tags"].get(semconv.POLICY_RULE_ID, "")
            for spans in fleet.store.find("long-approval", {}).values()
            for span in spans
            if semconv.POLICY_DECISION in span["tags"]
        }

    eventually_equal(verdicts, {"ask": "mail", "deny": "no-wipe"}, 60)
    eventually(lambda: "invoke_agent assistant" in names(fleet), 60)
    (spans,) = fleet.store.find("long-approval", {}).values()
    row(
        "deny after an approval longer than decision_wait",
        "both verdicts; the turn whole, because the question made it kept",
        "ask, approved late; deny",
        f"both verdicts, {len(spans)} spans of one trace, the turn's root with them",
    )


def names(fleet: Fleet) -> set[str]:
    return {s["name"] for spans in fleet.store.find("long-approval", {}).values() for s in spans}
