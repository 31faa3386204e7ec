"""Rules that ask several people about one call."""

import json

import pytest

import otelhooks
from otelhooks import policy
from otelhooks.approvals import Approval
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime as runtimes
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv


@pytest.fixture
def transfer():
    ran = []

    @otelhooks.tool
    def transfer(amount):
        ran.append(amount)

    def call(first, second):
        otelhooks.instrument(
            frameworks=[],
            policies=[policy.ask_user("transfer", handler=second)],
            hooks=[policy.enforce([policy.ask_user("transfer", handler=first)])],
        )
        transfer(10)
        return ran

    yield call
    otelhooks.uninstrument()


def test_each_of_them_must_approve(transfer):
    with pytest.raises(otelhooks.errors.Denied):
        transfer(lambda call: True, lambda call: False)


def test_all_of_them_approve_and_the_call_runs(transfer):
    assert transfer(lambda call: True, lambda call: True) == [10]


def test_an_edit_is_shown_to_the_other(transfer):
    """What runs is what was approved: both have to approve the amount that runs."""

    def edit(call):
        return Approval("approved", edit={"amount": 1_000_000})

    assert transfer(edit, lambda call: call.args["amount"] == 1_000_000) == [1_000_000]
    otelhooks.uninstrument()
    with pytest.raises(otelhooks.errors.Denied):
        transfer(edit, lambda call: call.args["amount"] == 10)


def _approve(who, edit=None):
    return lambda call: Approval("approved", approver_id=who, edit=edit)


def test_each_answer_is_recorded_with_what_it_is_about(governed, tmp_path):
    """Also the first of two, though the call goes on in the name of the last."""
    governed(
        policies=[
            policy.ask_user(
                "t", when=lambda args: args["x"] == 1, handler=_approve("ann", {"x": 2}), id="a"
            ),
            policy.ask_user("t", when=lambda args: args["x"] == 2, handler=_approve("bob"), id="b"),
        ],
        audit=tmp_path / "audit.jsonl",
    )

    @otelhooks.tool
    def t(x):
        return x

    assert t(1) == 2
    told = [
        (event[semconv.POLICY_RULE_ID], event[semconv.APPROVAL_APPROVER_ID])
        for event in governed.event(semconv.EVENT_POLICY_DECISION)
        if event[semconv.APPROVAL_STATUS] == "approved"
    ]
    assert told == [("a", "ann"), ("b", "bob")]
    waits = [s for s in governed.spans if s.name == "otelhooks.approval.wait t"]
    assert [s.attributes[semconv.APPROVAL_APPROVER_ID] for s in waits] == ["ann", "bob"]
    assert governed.attributes("execute_tool t")[semconv.POLICY_RULE_ID] == "b"
    otelhooks.uninstrument()
    lines = [t for f in tmp_path.glob("audit*") for t in f.read_text().splitlines()]
    records = [record for record in map(json.loads, lines) if "decision" in record]
    found = [(r["rule_id"], r["approver_id"], r["arguments"]) for r in records]
    assert found == [("a", "ann", {"x": 2}), ("b", "bob", {"x": 2})]


def test_an_answer_before_a_pause_is_not_recorded_again_when_another_rule_asks(tmp_path):
    class Pausing(ToolSeat):
        def is_paused(self, call, raw):
            return raw == "come back"

    looked = []

    def is_late(args):  # on the second look after the pause, when "a" is answered again
        looked.append(1)
        return len(looked) > 3

    enforced = policy.ask_user("t", when=is_late, handler=_approve("bob"), id="b")
    otelhooks.instrument(
        frameworks=[],
        policies=[policy.ask_user("t", handler=_approve("ann"), id="a")],
        hooks=[policy.enforce([enforced])],
        audit=tmp_path / "audit.jsonl",
    )
    runtime = runtimes.active()
    for answer in ("come back", "done"):
        drive(tool(runtime, Pausing(), Call("t", {}, id="1")), lambda _, answer=answer: answer)
    otelhooks.uninstrument()
    lines = [t for f in tmp_path.glob("audit*") for t in f.read_text().splitlines()]
    records = [record for record in map(json.loads, lines) if "decision" in record]
    assert [r["approver_id"] for r in records] == ["ann", "bob"]
