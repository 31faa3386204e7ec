"""Handlers of ask rules: what they are called with, and which answer approves."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import pytest

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.policy.asking import bind_handler

CALL = types.ToolCall(name="a", args={"x": 1})


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


@pytest.mark.parametrize("handler", [False, True, "yes", 3])
def test_what_is_not_a_function_is_an_error_at_load(handler: Any) -> None:
    with pytest.raises(ConfigError, match="is not a handler"):
        bind_handler(handler)


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
        assert rules.rules[0].ask is not None
        assert rules.rules[0].ask(CALL, "") is True
