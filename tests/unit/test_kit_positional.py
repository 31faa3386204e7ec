"""Calls with arguments by position: what rules see of them, and how they are passed on."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.frameworks.kit.positional import PositionalCall


class Called(PositionalCall):
    framework = "fake"

    def read(self, function: Any, /, *args: Any, **given: Any) -> None:
        self.name = "tool"
        self.take_call(function, args, given)

    def denied(self, reason: str) -> Any:
        return reason


def called(*args: Any, **given: Any) -> tuple[Any, ...]:
    return args, given


def plain(a: Any, b: Any = None) -> None:
    """Take two arguments."""


def several(a: Any, *items: Any, **more: Any) -> None:
    """Take any arguments."""


def only(a: Any, /, **more: Any) -> None:
    """Take one argument by position only, and any by name."""


@functools.wraps(plain)
def wrapped(*args: Any, **more: Any) -> None:
    """Take what `plain` takes, and more."""


@pytest.mark.parametrize(
    ("function", "args", "given", "shown"),
    [
        (plain, (1,), {"b": 2}, {"a": 1, "b": 2}),
        (plain, (1, 2, 3), {}, {"a": 1, "b": 2, "args": [3]}),
        (several, (1, 2, 3), {"b": 4}, {"a": 1, "items": [2, 3], "b": 4}),
        (only, (1,), {"a": 2}, {"args": [1], "a": 2}),
        (wrapped, (1, 2, 3), {"c": 4}, {"a": 1, "b": 2, "args": [3], "c": 4}),
    ],
)
def test_all_arguments_are_seen_by_name_and_passed_on_as_they_came(
    function: Any, args: Any, given: Any, shown: Any
) -> None:
    seen = []

    @hooks.pre_tool_call_decide
    def see(call: types.ToolCall) -> types.HookResult:
        seen.append(dict(call.args))
        return types.HookResult()

    otelhooks.instrument(hooks=[see], frameworks=[])
    assert Called.through("plain", called, function, *args, **given) == (args, given)
    assert seen == [shown]


def test_a_list_of_arguments_does_not_hide_one_of_the_same_name() -> None:
    with pytest.raises(TypeError, match="`items` is the name of two arguments"):
        Called().read(several, 1, 2, items=3)


def test_what_a_hook_writes_is_passed_on_in_its_place() -> None:
    @hooks.pre_tool_call_decide
    def write(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"a": 7, "items": [8, 9]})

    otelhooks.instrument(hooks=[write], frameworks=[])
    assert Called.through("plain", called, several, 1, 2, b=3) == ((7, 8, 9), {"b": 3})
