"""Hook classes, and the aliases under google-antigravity's paths."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import hooks, types
from otelhooks.hooks import HookContext, base

CALL = types.ToolCall(name="t", args={"x": 1})


def test_a_hook_without_run_cannot_be_made() -> None:
    class Empty(hooks.PreToolCallDecideHook):
        pass

    with pytest.raises(TypeError, match="run"):
        Empty()  # type: ignore[abstract]


@pytest.mark.parametrize("hook_class", base.HOOK_CLASSES, ids=lambda c: c.__name__)
@pytest.mark.anyio
async def test_the_run_of_every_base_class_returns_none(hook_class: type[Any]) -> None:
    async def run(self: Any, context: HookContext, data: Any) -> Any:
        return await super(made, self).run(context, data)

    made: Any = type("Made", (hook_class,), {"run": run})
    assert await made().run(HookContext(), None) is None


def test_the_names_of_the_decorators_are_the_published_ones() -> None:
    assert [base.keyword(c) for c in base.HOOK_CLASSES] == [
        "on_session_start",
        "on_session_end",
        "on_run_start",
        "on_run_end",
        "pre_turn",
        "post_turn",
        "pre_agent",
        "post_agent_transform",
        "pre_model_call",
        "post_model_call_transform",
        "post_model_call",
        "on_model_error",
        "pre_tool_call_decide",
        "post_tool_call_transform",
        "post_tool_call",
        "on_tool_error",
        "on_interaction",
        "on_compaction",
        "stop",
        "on_subagent_start",
        "on_subagent_stop",
        "on_event",
    ]


def test_the_aliases_have_upstreams_names() -> None:
    from otelhooks.hooks import hooks as alias

    for name in alias.__all__:
        assert hasattr(alias, name)
    assert alias.PreTurnHook is hooks.PreTurnHook


@pytest.mark.anyio
async def test_the_policy_alias_asks_a_rules_handler() -> None:
    from otelhooks.hooks import policy as alias

    seen: list[Any] = []

    async def later(call: Any, reason: str) -> bool:
        seen.append(reason)
        return True

    assert await alias._execute_ask_user(alias.ask_user("t", handler=later), CALL, "why")
    assert not await alias._execute_ask_user(alias.ask_user("t", handler=lambda c: 1), CALL)
    with pytest.raises(ValueError, match="no handler"):
        await alias._execute_ask_user(alias.deny("t"), CALL)
    assert seen == ["why"]
