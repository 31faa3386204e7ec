"""A tool that takes its call in steps: what a hook between them stops, and how the call ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive as ask
from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.frames import current_frame
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv
from tests.unit.test_recorders import Memory

BLOCKED = "Action blocked by policy: Guard (keeps the ledger clean)"


class Staged(ToolSeat):
    """A seat on a tool in steps; records the body's end."""

    def __init__(self) -> None:
        self.ended: list[str | None] = []

    def stages(self, call: Call) -> StageParams:
        return StageParams(call.name, None, is_staged=True)

    def finished(self, call: Call, seconds: float, failure: Any, span: Any) -> None:
        assert 0 <= seconds < 60
        self.ended.append(failure)


def guard(place: str) -> Any:
    async def should_block(self: Any, context: Any, params: Any, method: str) -> bool:
        return True

    described = {
        "name": "Guard",
        "description": "keeps the ledger clean",
        "relevant_tools": ("*",),
        f"should_block_{place}": should_block,
    }
    return type("Guard", (policy.AbstractPolicy,), described)()


def run(body: Any, seat: Staged) -> Any:
    rt = runtime.active()
    assert rt is not None
    return drive(tool(rt, seat, Call("t", {"x": 1})), body)


def steps() -> Any:
    frame: Any = current_frame()
    return frame.stages


def acts(log: list[str], commits: Any = None) -> Any:
    """Return a body that takes all steps, or stops at a given one."""

    def body(args: Any) -> str:
        ask(steps().normalized(dict(args)))
        log.append("act")
        ask(steps().acted("prepared", commits))
        log.append("commit")
        return "sent"

    return body


def swallowing(body: Any) -> Any:
    """Return a body that makes a result of everything that its steps raise."""

    def careless(args: Any) -> Any:
        try:
            return body(args)
        except BaseException:
            return "all is well"

    return careless


@pytest.mark.parametrize("wrap", [lambda body: body, swallowing])
def test_a_call_stopped_before_its_effect_is_denied_whatever_the_tool_makes_of_it(
    governed: Any, wrap: Any
) -> None:
    log, seat, memory = list[str](), Staged(), Memory(ends=True)
    governed(hooks=[guard("post_params_normalization"), memory])
    with pytest.raises(Denied) as caught:
        run(wrap(acts(log)), seat)
    assert str(caught.value) == BLOCKED
    assert (log, seat.ended) == ([], [])
    attributes = governed.attributes("execute_tool t")
    assert attributes[semconv.POLICY_DECISION] == "deny"
    assert semconv.WITHHELD not in attributes
    assert governed.points(semconv.METRIC_TOOL_CALLS) == []
    assert memory.told("decision", "outcome") == [("allow", None), ("deny", None)]


@pytest.mark.parametrize("wrap", [lambda body: body, swallowing])
def test_a_call_stopped_after_its_effect_has_run_and_its_result_is_withheld(
    governed: Any, wrap: Any
) -> None:
    log, seat, memory = list[str](), Staged(), Memory(ends=True)
    governed(hooks=[guard("post_core_action"), memory])
    assert run(wrap(acts(log)), seat) == BLOCKED
    assert (log, seat.ended) == (["act"], [None])
    assert governed.attributes("execute_tool t")[semconv.WITHHELD] is True
    assert len(governed.event(semconv.EVENT_WITHHELD)) == 1
    assert [end for (end,) in memory.told("outcome")] == [None, None, "ok"]


def test_a_seat_answers_for_a_call_that_was_stopped(governed: Any) -> None:
    class Answering(Staged):
        def denied(self, call: Call, reason: str) -> Any:
            return f"refused: {reason}"

    governed(hooks=[guard("post_params_normalization")])
    assert run(acts([]), Answering()) == f"refused: {BLOCKED}"


def test_a_call_stopped_before_the_step_that_commits_is_denied(governed: Any) -> None:
    log, seat = list[str](), Staged()
    governed(hooks=[guard("post_core_action")])
    with pytest.raises(Denied):
        run(acts(log, lambda: True), seat)
    assert (log, seat.ended) == (["act"], [])


def test_a_call_that_is_cancelled_after_a_stop_is_cancelled(governed: Any) -> None:
    def body(args: Any) -> None:
        try:
            ask(steps().normalized(dict(args)))
        except BaseException:
            raise asyncio.CancelledError from None

    governed(hooks=[guard("post_params_normalization")])
    with pytest.raises(asyncio.CancelledError):
        run(body, Staged())
    span = governed.span("execute_tool t")
    assert span.attributes[semconv.ERROR_TYPE] == "asyncio.exceptions.CancelledError"
    assert span.status.description == "cancelled"


@pytest.mark.parametrize("place", ["post_params_normalization", "post_core_action"])
def test_what_a_tool_did_not_ask_about_is_asked_at_its_end_and_withheld(
    governed: Any, place: str
) -> None:
    seat = Staged()
    governed(hooks=[guard(place)])
    assert run(lambda args: "sent", seat) == BLOCKED
    assert seat.ended == [None]
    attributes = governed.attributes("execute_tool t")
    assert (attributes[semconv.POLICY_DECISION], attributes[semconv.WITHHELD]) == ("deny", True)


def test_no_step_is_taken_out_of_order(governed: Any) -> None:
    """A tool that skips the step at which a hook could block cannot take the next one."""

    def body(args: Any) -> None:
        ask(steps().begin("post_params_normalization"))

    governed(hooks=[guard("post_params_normalization")])
    with pytest.raises(Denied, match="an unexpected order"):
        run(body, Staged())
    attributes = governed.attributes("execute_tool t")
    assert (attributes[semconv.POLICY_ID], attributes[semconv.POLICY_RULE_ID]) == (
        "hook",
        "steps out of order",
    )
