"""The one registry under every way to write a hook."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import hooks, policy, types
from otelhooks.hooks.registry import EMPTY, HookSet, registrations


class Guard(hooks.PreToolCallDecideHook):
    async def run(self, context: hooks.HookContext, data: types.ToolCall) -> types.HookResult:
        return types.HookResult()


class Both(hooks.PreToolCallDecideHook, hooks.OnSessionStartHook):
    async def run(self, context: hooks.HookContext, data: Any) -> Any:
        return types.HookResult()


def test_a_hook_is_registered_at_each_of_its_points() -> None:
    assert [(r.point, r.kind) for r in registrations(Both())] == [
        ("session_start", "inspect"),
        ("pre_tool_call", "decide"),
    ]


@pytest.mark.parametrize("thing", [1, "x", object(), Guard, lambda data: None])
def test_what_is_not_a_hook_is_a_value_error(thing: Any) -> None:
    with pytest.raises(ValueError, match="Unknown hook type: "):
        registrations(thing)


def test_its_source_is_its_qualified_name_and_its_rule_the_same_unless_given() -> None:
    [by_class] = registrations(Guard())
    assert by_class.source == by_class.rule_id == "Guard"

    @hooks.pre_tool_call_decide(rule_id="r-1")
    def named(data: Any) -> types.HookResult:
        return types.HookResult()

    [by_function] = registrations(named)
    assert by_function.source.endswith("<locals>.named")
    assert by_function.rule_id == "r-1"


def test_only_a_synchronous_hook_that_does_not_wait_is_called_in_place() -> None:
    def f(data: Any) -> None: ...

    async def g(data: Any) -> None: ...

    plain = [
        registrations(hook)[0].plain
        for hook in (hooks.on_event(f), hooks.on_event(g), hooks.on_event(blocking=True)(f))
    ]
    assert plain == [True, False, False]


@pytest.mark.parametrize("decorator", [hooks.pre_tool_call_decide, hooks.post_tool_call_transform])
def test_only_an_inspector_can_run_in_the_background(decorator: Any) -> None:
    hook = decorator(background=True)(lambda data: None)
    with pytest.raises(TypeError, match="only a hook that inspects can run in the background"):
        registrations(hook)


def test_a_time_limit_on_a_synchronous_hook_needs_blocking() -> None:
    hook = hooks.pre_tool_call_decide(timeout=1)(lambda data: None)
    with pytest.raises(TypeError, match="needs blocking=True"):
        registrations(hook)
    hook.blocking = True
    assert registrations(hook)[0].timeout == 1


def test_rules_in_a_hook_are_found() -> None:
    [found] = registrations(policy.enforce([policy.deny("t")]))
    assert found.judge is not None


def test_a_set_orders_by_priority_then_registration() -> None:
    def hook(name: str, priority: int) -> Any:
        def f(data: Any) -> types.HookResult:
            return types.HookResult()

        f.__qualname__ = name
        return hooks.pre_tool_call_decide(priority=priority)(f)

    given = [hook("c", 100), hook("a", 1), hook("d", 100), hook("b", 50)]
    found = HookSet(r for h in given for r in registrations(h)).at("pre_tool_call")
    assert [r.source for r in found.deciders] == ["a", "b", "c", "d"]


def test_a_set_knows_what_is_in_it() -> None:
    inspector = hooks.on_event(background=True)(lambda data: None)
    found = HookSet(registrations(inspector))
    assert found
    assert found.has_events
    assert found.has_background
    assert not found.can_deny
    assert found.at("event").background
    assert not found.at("pre_turn")
    assert HookSet(registrations(Guard())).can_deny
    assert not EMPTY


def test_sets_add_up_and_stay_as_they_are() -> None:
    one, two = HookSet(registrations(Guard())), HookSet(registrations(Both()))
    assert [r.source for r in (one + two).all] == ["Guard", "Both", "Both"]
    assert one + EMPTY is one
    assert EMPTY + two is two
    assert len(one.all) == 1
