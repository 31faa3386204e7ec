"""Handlers of ask rules: what they are called with, and which answer approves."""

from __future__ import annotations

import asyncio
import functools
from typing import Any
from unittest import mock

import pytest

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.drive import run
from otelhooks.policy.asking import ask_handler, ask_run, bind_handler, is_async

CALL = types.ToolCall(name="a", args={"x": 1})


class Handler:
    async def __call__(self, call: types.ToolCall) -> bool:
        return True


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (lambda call: (call,), (CALL,)),
        (lambda call, reason: (call, reason), (CALL, "why")),
        (lambda call, reason="": (call, reason), (CALL, "why")),
        (lambda call, *, reason: (call, reason), (CALL, "why")),
        (lambda call, **kw: (call, kw), (CALL, {"reason": "why"})),
        (lambda call, r: (call, r), (CALL, "why")),
        (lambda call, r, /: (call, r), (CALL, "why")),
        (lambda *args: args, (CALL, "why")),
        (lambda call, *, other=1: (call, other), (CALL, 1)),
        (functools.partial(lambda x, call: (x, call), 7), (7, CALL)),
    ],
)
def test_a_handler_gets_the_reason_if_its_signature_takes_it(handler: Any, expected: Any) -> None:
    assert bind_handler(handler)(CALL, "why") == expected


@pytest.mark.parametrize("handler", [lambda: True, lambda a, b, c: True, lambda *, call: True])
def test_a_handler_that_cannot_be_called_is_an_error_at_load(handler: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be called with a tool call"):
        policy.enforce([policy.ask_user("a", handler)])


def test_a_callable_object_is_named_by_its_class() -> None:
    class Useless:
        def __call__(self) -> bool:
            return True

    with pytest.raises(ConfigError, match="Useless"):
        bind_handler(Useless())


def test_a_handler_without_a_signature_gets_the_call_alone() -> None:
    handler = mock.Mock(return_value=True)
    with mock.patch("inspect.signature", side_effect=TypeError("none")):
        bound = bind_handler(handler)
    assert bound(CALL, "why") is True
    handler.assert_called_once_with(CALL)


def test_the_signature_is_read_once() -> None:
    rules = policy.PolicySet([policy.ask_user("a", lambda call: True)])
    with mock.patch("inspect.signature", side_effect=AssertionError("read again")):
        assert ask_handler(rules.rules[0], CALL) is True  # type: ignore[arg-type]


def test_coroutine_functions_and_objects_are_told_apart_from_functions() -> None:
    async def handler(call: types.ToolCall) -> bool:
        return True

    assert is_async(handler)
    assert is_async(functools.partial(handler))
    assert is_async(Handler())
    assert not is_async(lambda call: True)


def test_a_sync_handler_is_a_blocking_effect_an_async_one_is_not() -> None:
    sync, asynchronous = policy.PolicySet(
        [
            policy.ask_user("a", lambda call, reason: reason, reason="why"),
            policy.ask_user("a", Handler()),
        ]
    ).rules
    effect = ask_run(sync, CALL)  # type: ignore[arg-type]
    assert (effect.blocking, effect.human) == (True, True)
    assert run(effect) == "why"
    effect = ask_run(asynchronous, CALL)  # type: ignore[arg-type]
    assert (effect.blocking, effect.human) == (False, True)
    assert asyncio.run(effect.fn(*effect.args)) is True
