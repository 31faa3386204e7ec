"""The three layers of state, and the branch of agents."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from otelhooks import hooks
from otelhooks.hooks import OperationContext, SessionContext, TurnContext
from otelhooks.hooks.context import HookContext, SpanNotes, Step


def layers() -> tuple[SessionContext, TurnContext, OperationContext]:
    session = SessionContext()
    turn = TurnContext(session)
    return session, turn, OperationContext(turn)


def test_reads_walk_from_operation_to_session() -> None:
    session, turn, operation = layers()
    session.set("a", 1)
    turn.set("b", 2)
    assert (operation.get("a"), operation.get("b")) == (1, 2)
    operation.set("a", 3)
    assert (session.get("a"), operation.get("a")) == (1, 3)
    assert operation.parent is turn
    assert turn.parent is session
    assert not session.has_parent()


def test_a_child_is_a_context_inside() -> None:
    session = SessionContext()
    child = session.child()
    session.set("a", 1)
    assert isinstance(child, HookContext)
    assert child.get("a") == 1
    assert child.parent is session


def test_a_local_set_shadows_what_is_prefilled() -> None:
    session, turn, operation = layers()
    session.know(session_id="s")
    turn.know(turn_number=3)
    operation.know(tool_name="t")
    assert [operation.get(k) for k in ("session_id", "turn_number", "tool_name")] == ["s", 3, "t"]
    turn.set("tool_name", "mine")
    assert operation.get("tool_name") == "t"
    operation.set("tool_name", "mine")
    assert operation.get("tool_name") == "mine"
    assert operation.known("tool_name") == "t"
    assert operation.known("session_id") == "s"
    assert operation.known("agent_name") == ""


def test_exported_values_are_those_of_this_layer_and_outside() -> None:
    session, turn, operation = layers()
    assert operation.exports() == {}
    session.set("team", "red", export=True)
    session.set("level", 1, export=True)
    turn.set("level", 2, export=True)
    turn.set("hidden", 3)
    assert operation.exports() == {"team": "red", "level": 2}
    assert session.exports() == {"team": "red", "level": 1}


@pytest.mark.parametrize("value", [None, [1], object()])
def test_only_plain_values_can_be_exported(value: Any) -> None:
    context = SessionContext()
    with pytest.raises(TypeError, match="cannot export `k`"):
        context.set("k", value, export=True)
    assert context.get("k", "absent") == "absent"


def test_steps_are_the_turns() -> None:
    session, turn, operation = layers()
    turn.steps.append(Step("t", "allow", "ok", "1" * 16))
    assert operation.steps is turn.steps
    assert session.steps == []
    assert repr(turn.steps[0]) == f"Step('t', 'allow', 'ok', '{'1' * 16}')"


def test_the_trace_is_that_of_the_nearest_layer_that_knows_one() -> None:
    session, turn, operation = layers()
    assert operation.trace_id == ""
    asked: list[int] = []

    def find() -> str:
        asked.append(1)
        return "a" * 32

    turn.know_trace(find)
    assert operation.trace_id == "a" * 32
    assert turn.trace_id == "a" * 32
    assert len(asked) == 1
    operation.know_trace("b" * 32)
    assert operation.trace_id == "b" * 32
    assert session.trace_id == ""


def test_a_conversation_is_asked_about_its_history_once() -> None:
    asked: list[int] = []
    session = SessionContext()
    session.meet(lambda: bool(asked.append(1)))
    session.meet(lambda: bool(asked.append(2)))
    assert asked == [1]


def test_what_hooks_write_before_the_span_opens_is_kept() -> None:
    context = SessionContext()
    context.set_attribute("app.a", 1)
    context.set_attribute("app.a", 2)
    context.event("app.first", {"x": 1})
    context.event("app.second")
    assert isinstance(context.span, SpanNotes)
    assert context.span.attributes == {"app.a": 2}
    assert context.span.events == [("app.first", {"x": 1}), ("app.second", {})]


class TestBranch:
    def test_scopes_nest_into_a_path(self) -> None:
        assert hooks.current_branch() == ""
        with hooks.agent_scope("orchestrator") as outer:
            assert outer == "orchestrator"
            with hooks.agent_scope("researcher"):
                assert hooks.current_branch() == "orchestrator/researcher"
            assert hooks.current_branch() == "orchestrator"
        assert hooks.current_branch() == ""

    def test_a_scope_ends_with_an_exception_too(self) -> None:
        with pytest.raises(ValueError, match="x"), hooks.agent_scope("a"):
            raise ValueError("x")
        assert hooks.current_branch() == ""

    def test_of_scope_and_run_the_inner_one_is_the_longer_path(self) -> None:
        with hooks.agent_scope("a"):
            assert hooks.current_branch("a/b") == "a/b"
            assert hooks.current_branch("") == "a"

    def test_tasks_and_threads_have_branches_of_their_own(self) -> None:
        seen: dict[str, str] = {}

        async def work(name: str) -> None:
            with hooks.agent_scope(name):
                await asyncio.sleep(0)
                seen[name] = hooks.current_branch()

        async def both() -> None:
            await asyncio.gather(work("one"), work("two"))

        with hooks.agent_scope("main"):
            thread = threading.Thread(
                target=lambda: seen.__setitem__("thread", hooks.current_branch())
            )
            thread.start()
            thread.join()
        asyncio.run(both())
        assert seen == {"one": "one", "two": "two", "thread": ""}
