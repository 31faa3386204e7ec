"""The kit: answers of people that a framework reports, and spans in place of a framework's own."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otelhooks
from otelhooks import hooks, policy
from otelhooks.frameworks.kit.telemetry import in_place_of_own
from otelhooks.pipeline.frames import current_frame
from otelhooks.records import semconv
from tests.unit import test_kit
from tests.unit.test_kit import Tool, guarded
from tests.unit.test_kit_delivery import Run

framework = test_kit.framework
ASK = policy.ask_user("safe", reason="Money leaves.")


class Paused(Exception):
    """What the framework raises to ask a person."""


class Asking(Tool):
    pauses = (f"{__name__}:Paused",)

    def read(self, tool: Any, /, x: Any, **further: Any) -> Any:
        super().read(tool, x, **further)
        self.id, self.is_approved = "call_1", tool.said

    def asks_framework(self, reason: str) -> Any:
        return Paused(reason)


def nobody(call: Any) -> Any:
    raise AssertionError("the framework asks")


def ask(tool: Any, said: bool | None, x: int = 1) -> Any:
    """Call the tool with what the framework reports; return its result, or why it paused."""
    tool.said = said
    try:
        return tool.plain(x)
    except Paused as paused:
        return paused


def test_a_yes_that_the_framework_reports_approves_the_call(
    framework: Any, exporter: Any, tracer_provider: Any
) -> None:
    settings = {"approvals": nobody, "tracer_provider": tracer_provider}
    with guarded(framework, "plain", Asking, ASK, **settings):
        tool = framework()
        assert str(ask(tool, None)) == "Money leaves."
        assert tool.ran == []
        assert ask(tool, True) == "got 1"
    attributes = exporter.get_finished_spans()[-1].attributes
    assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "service"
    assert attributes[semconv.APPROVAL_APPROVER_ID] == Asking.framework


def test_a_no_that_the_framework_reports_denies_the_call(framework: Any) -> None:
    with guarded(framework, "plain", Asking, ASK, approvals=nobody):
        tool = framework()
        ask(tool, None)
        assert ask(tool, False).startswith("denied: ")
        assert tool.ran == []


def test_a_limit_counts_a_call_that_was_approved_while_the_run_was_paused(framework: Any) -> None:
    limit = policy.RateLimit(tool_calls=1)
    with guarded(framework, "plain", Asking, ASK, limit, approvals=nobody):
        tool = framework()
        ask(tool, None)
        assert ask(tool, True) == "got 1"
        assert "1 of 1 tool calls" in str(ask(tool, None))
    assert tool.ran == [1]


def test_a_call_without_an_answer_is_asked_again(framework: Any) -> None:
    with guarded(framework, "plain", Asking, ASK, approvals=nobody):
        tool = framework()
        assert [type(ask(tool, None)) for _ in range(2)] == [Paused, Paused]
        assert tool.ran == []


@pytest.mark.parametrize("asked", [None, 2])
def test_a_yes_to_no_question_or_to_another_one_approves_nothing(
    framework: Any, asked: int | None
) -> None:
    with guarded(framework, "plain", Asking, ASK, approvals=nobody):
        tool = framework()
        if asked is not None:
            ask(tool, None, asked)
        assert type(ask(tool, True)) is Paused
        assert tool.ran == []


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (lambda: otelhooks.session("one"), lambda: otelhooks.session("two")),
        (lambda: otelhooks.session(), lambda: otelhooks.session()),
        (lambda: otelhooks.turn("mine"), lambda: otelhooks.turn("theirs")),
        (lambda: hooks.agent_scope("one"), lambda: hooks.agent_scope("two")),
    ],
    ids=["sessions", "nameless sessions", "turns", "agents"],
)
def test_a_yes_in_another_conversation_or_agent_approves_nothing(
    framework: Any, mine: Any, theirs: Any
) -> None:
    """Some models count the ids of calls from 1, in each conversation."""
    with guarded(framework, "plain", Asking, ASK, approvals=nobody):
        tool = framework()
        with mine():
            ask(tool, None)
        with theirs():
            assert type(ask(tool, True)) is Paused
        assert tool.ran == []


@pytest.mark.parametrize(
    ("ids", "is_approved"),
    [(("", ""), True), (("one", "one"), True), (("one", ""), False), (("", "two"), False)],
)
def test_a_yes_to_a_run_that_goes_on_without_its_conversation_counts(
    framework: Any, ids: tuple[str, str], is_approved: bool
) -> None:
    """A run that was stored while it waited, or has no history, cannot tell where it began."""
    with guarded(framework, "plain", Asking, ASK, approvals=nobody):
        tool = framework()
        with otelhooks.session(ids[0]), otelhooks.turn("begin"):
            ask(tool, None)
        with otelhooks.session(ids[1]), otelhooks.turn(""):
            frame = current_frame()
            assert frame is not None
            assert frame.turn is not None
            frame.turn.resumed = True
            answer = ask(tool, True)
        assert tool.ran == ([1] if is_approved else [])
        assert type(answer) is (str if is_approved else Paused)


@pytest.mark.parametrize(("spans", "is_replaced"), [("auto", True), ("own", False)])
def test_a_run_s_own_span_is_replaced_where_otelhooks_has_one(
    framework: Any, spans: str, is_replaced: bool
) -> None:
    provider, found = TracerProvider(), []

    def plain(self: Any, x: Any) -> str:
        found.append((trace.get_current_span(), in_place_of_own("fake")))
        with provider.get_tracer("app").start_as_current_span("inside"):
            found.append((None, in_place_of_own("fake")))
        return f"got {x}"

    framework.plain = plain
    with guarded(framework, "plain", Run, spans=spans, tracer_provider=provider):
        framework().plain("it")
        assert in_place_of_own("fake") is None
    (ours, own), (_, deeper) = found
    assert deeper is None
    assert (own is not None) is is_replaced
    if own is not None:
        assert own.get_span_context() == ours.get_span_context()
        assert not own.is_recording()
