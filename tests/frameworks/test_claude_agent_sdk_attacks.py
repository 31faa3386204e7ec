"""Claude Agent SDK: hooks and callbacks of the application that change calls, with the CLI."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk

from otelhooks import hooks, policy, types
from tests.frameworks.claude_world import converse
from tests.frameworks.contract import ANSWER, REASON

pytestmark = pytest.mark.timeout(120)

Instrument = Callable[..., Any]

_IS_OLD = importlib.metadata.version("claude-agent-sdk") == "0.2.144"


class Marks:
    """Two commands, one of which a rule denies, and what has run of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.good, self.bad = f"touch {folder}/good", f"touch {folder}/bad"
        self.rule = policy.deny("Bash", when=lambda args: "/bad" in args["command"], reason=REASON)

    @property
    def ran(self) -> list[str]:
        """What has run."""
        return [one.name for one in self._folder.iterdir()]


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    """Return commands in a folder of the test's own."""
    return Marks(tmp_path)


def ask_for(command: str, **settings: Any) -> str:
    """Have the model ask for a command; return what it was shown."""
    step = (("Bash", {"command": command, "description": "Run."}),)
    _, shown = converse(step, ANSWER, **settings)
    return shown


def hooked(event: str, hook: Any) -> Any:
    """Return the setting for a hook of the application's."""
    return {event: [sdk.HookMatcher(hooks=[hook])]}


async def allow(name: str, args: Any, context: Any) -> Any:
    """Allow everything."""
    return sdk.PermissionResultAllow()


def test_a_permission_request_hook_cannot_change_what_was_judged(
    with_rules: Instrument, marks: Marks
) -> None:
    async def change(given: Any, id: Any, context: Any) -> Any:
        decision = {"behavior": "allow", "updatedInput": {"command": marks.bad}}
        said = {"hookEventName": "PermissionRequest", "decision": decision}
        return {"hookSpecificOutput": said}

    with_rules(marks.rule)
    request: Any = hooked("PermissionRequest", change)
    ask_for(marks.good, hooks=request, permission_mode="default")
    assert "bad" not in marks.ran


@pytest.mark.skipif(_IS_OLD, reason="this CLI does not ask such hooks")
def test_what_a_permission_request_hook_changes_runs_if_rules_allow_it(
    with_rules: Instrument, marks: Marks
) -> None:
    async def change(given: Any, id: Any, context: Any) -> Any:
        given["tool_input"]["command"] = marks.good
        decision = {"behavior": "allow", "updatedInput": given["tool_input"]}
        said = {"hookEventName": "PermissionRequest", "decision": decision}
        return {"hookSpecificOutput": said}

    judged: list[str] = []

    @hooks.pre_tool_call_decide
    def note(call: types.ToolCall) -> types.HookResult:
        judged.append(call.args["command"])
        return types.HookResult()

    with_rules(marks.rule, hooks=[note])
    request: Any = hooked("PermissionRequest", change)
    ask_for(marks.good + "-not", hooks=request, permission_mode="default")
    assert judged == [marks.good + "-not", marks.good]
    assert marks.ran == ["good"]


@pytest.mark.parametrize("returns_it", [False, True])
def test_a_permission_callback_cannot_change_arguments_in_place(
    with_rules: Instrument, marks: Marks, returns_it: bool
) -> None:
    async def change(name: str, args: Any, context: Any) -> Any:
        args["command"] = marks.bad
        return sdk.PermissionResultAllow(updated_input=args if returns_it else None)

    with_rules(marks.rule)
    shown = ask_for(marks.good, can_use_tool=change, permission_mode="default")
    assert marks.ran == []
    assert REASON in shown


def test_a_hook_cannot_show_rules_other_arguments_by_a_change_in_place(
    with_rules: Instrument, marks: Marks
) -> None:
    async def change(given: Any, id: Any, context: Any) -> Any:
        given["tool_input"]["command"] = marks.good
        return {}

    with_rules(marks.rule)
    shown = ask_for(marks.bad, hooks=hooked("PreToolUse", change))
    assert marks.ran == []
    assert REASON in shown


@pytest.mark.parametrize("reason", [{}, {"permissionDecisionReason": 5}], ids=["none", "number"])
def test_a_deny_of_the_applications_that_the_cli_cannot_read_still_denies(
    with_rules: Instrument, marks: Marks, reason: Any
) -> None:
    """An older CLI runs the call."""

    async def deny(given: Any, id: Any, context: Any) -> Any:
        return {"hookSpecificOutput": {"permissionDecision": "deny", **reason}}

    with_rules(policy.deny("something_else"))
    ask_for(marks.bad, hooks=hooked("PreToolUse", deny))
    assert not marks.ran


def test_a_rewrite_is_not_lost_beside_a_hook_that_answers_later(
    with_rules: Instrument, marks: Marks
) -> None:
    async def later(given: Any, id: Any, context: Any) -> Any:
        return {"async_": True}

    @hooks.pre_tool_call_decide
    def other(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"command": marks.good})

    with_rules(hooks=[other])
    ask_for(marks.bad, hooks=hooked("PreToolUse", later))
    assert marks.ran == ["good"]


@pytest.mark.parametrize(
    "field",
    [
        {"systemMessage": 5},
        {"hookSpecificOutput": {"additionalContext": 5}},
        {"hookSpecificOutput": {"permissionDecision": "perhaps"}},
        {"hookSpecificOutput": []},
    ],
    ids=["remark", "context", "decision", "list"],
)
def test_a_rewrite_is_not_lost_beside_a_field_that_the_cli_cannot_read(
    with_rules: Instrument, marks: Marks, field: Any
) -> None:
    """It leaves out the whole answer, and an older one runs the call as the model wrote it."""

    async def odd(given: Any, id: Any, context: Any) -> Any:
        return field

    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"command": marks.good})

    with_rules(hooks=[rewrite])
    ask_for(marks.bad, hooks=hooked("PreToolUse", odd))
    assert "bad" not in marks.ran


@pytest.mark.parametrize("decision", ["deny", None])
def test_what_a_hook_says_beside_async_is_not_judged(
    with_rules: Instrument, marks: Marks, decision: str | None
) -> None:
    async def later(given: Any, id: Any, context: Any) -> Any:
        said = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        said = {**said, "updatedInput": {"command": marks.good}}
        return {"async_": True, "hookSpecificOutput": said}

    with_rules(marks.rule)
    shown = ask_for(marks.bad, hooks=hooked("PreToolUse", later))
    assert marks.ran == []
    assert REASON in shown


@pytest.mark.parametrize("decision", ["allow", "ask", None])
@pytest.mark.parametrize("is_named", [True, False])
def test_what_a_hook_of_the_applications_changes_is_judged_and_runs(
    with_rules: Instrument, marks: Marks, decision: str | None, is_named: bool
) -> None:
    async def change(given: Any, id: Any, context: Any) -> Any:
        said = {"hookEventName": "PreToolUse"} if is_named else {}
        said |= {"permissionDecision": decision} if decision else {}
        return {"hookSpecificOutput": {**said, "updatedInput": {"command": marks.good}}}

    with_rules(marks.rule)
    settings = {"can_use_tool": allow, "permission_mode": "default"}
    ask_for(marks.bad, hooks=hooked("PreToolUse", change), **settings)
    assert marks.ran == ["good"]
