"""Hooks made of functions, by the decorators."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.errors import Denied
from otelhooks.hooks import HookContext, base
from otelhooks.records import semconv

CALL = types.ToolCall(name="t", args={"x": 1})


@pytest.mark.parametrize("hook_class", base.HOOK_CLASSES, ids=lambda c: c.__name__)
def test_every_class_has_a_decorator_of_its_name(hook_class: type[Any]) -> None:
    name = base.keyword(hook_class)
    decorator = getattr(hooks, name)
    assert decorator.__name__ == name

    @decorator
    async def f(context: HookContext) -> None: ...

    assert isinstance(f, hook_class)
    assert f.__name__ == "f"


class TestSignatures:
    @pytest.mark.anyio
    @pytest.mark.parametrize(
        ("function", "seen"),
        [
            (lambda data: [data], [CALL]),
            (lambda context: [context], ["C"]),
            (lambda context, data: [context, data], ["C", CALL]),
            (lambda data, context: [data, context], [CALL, "C"]),
            (lambda data, *, context: [data, context], [CALL, "C"]),
            (lambda data, extra=1: [data, extra], [CALL, 1]),
            (lambda *args: list(args), [CALL]),
        ],
    )
    async def test_the_context_is_found_by_name_at_any_place(
        self, function: Any, seen: list[Any]
    ) -> None:
        hook = hooks.post_tool_call(function)
        context = HookContext()
        expected = [context if value == "C" else value for value in seen]
        assert await hook.run(context, CALL) == expected

    @pytest.mark.anyio
    async def test_the_context_is_found_by_its_annotation(self) -> None:
        @hooks.post_tool_call
        def by_class(data: Any, where: HookContext) -> Any:
            return where

        def plain(data: Any, where: Any) -> Any:
            return where

        context = HookContext()
        assert await by_class.run(context, CALL) is context
        for text in ("HookContext", "hooks.HookContext", "'otelhooks.hooks.HookContext'"):
            plain.__annotations__["where"] = text
            assert await hooks.post_tool_call(plain).run(context, CALL) is context

    @pytest.mark.anyio
    async def test_keyword_only_context_first_is_given_by_name(self) -> None:
        @hooks.post_tool_call
        def f(*, context: HookContext) -> Any:
            return context

        context = HookContext()
        assert await f.run(context, CALL) is context

    @pytest.mark.anyio
    async def test_a_session_hook_takes_no_data_only_a_context(self) -> None:
        @hooks.on_session_start
        def nothing() -> str:
            return "n"

        @hooks.on_session_end
        async def only_context(ctx: HookContext) -> Any:
            return ctx

        context = HookContext()
        assert await nothing.run(context, None) == "n"
        assert await only_context.run(context, None) is context

    @pytest.mark.parametrize(
        "function",
        [
            lambda: None,
            lambda a, b: None,
            lambda context, a, b: None,
            lambda *, a: None,
            lambda a, b, context: None,
        ],
    )
    def test_a_wrong_signature_is_a_type_error_at_decoration(self, function: Any) -> None:
        with pytest.raises(TypeError, match="Invalid signature for hook '<lambda>': "):
            hooks.pre_tool_call_decide(function)

    def test_a_context_by_another_name_is_told_its_name(self) -> None:
        with pytest.raises(TypeError, match="only `context` gets the context"):
            hooks.pre_tool_call_decide(lambda ctx, call: None)

    def test_a_session_hook_that_wants_data_is_a_type_error(self) -> None:
        with pytest.raises(TypeError, match="Invalid signature for hook 'f': "):

            @hooks.on_session_start
            def f(data: Any) -> None: ...

    def test_an_object_without_a_name_is_named_by_its_text(self) -> None:
        class Callable:
            def __call__(self) -> None: ...

            def __repr__(self) -> str:
                return "<it>"

        with pytest.raises(TypeError, match="hook '<it>'"):
            hooks.pre_tool_call_decide(Callable())


class TestDecorated:
    @pytest.mark.anyio
    async def test_a_decorated_function_stays_callable_and_awaitable(self) -> None:
        @hooks.pre_tool_call_decide
        def sync(data: types.ToolCall) -> types.HookResult:
            """Say what it does."""
            return types.HookResult(message=str(data.name))

        @hooks.pre_tool_call_decide
        async def awaited(data: types.ToolCall) -> types.HookResult:
            return types.HookResult(message="async")

        assert (await sync(CALL)).message == "t"
        assert (await awaited(CALL)).message == "async"
        assert (await awaited.run(HookContext(), CALL)).message == "async"
        assert sync.__name__ == "sync"
        assert sync.__doc__ == "Say what it does."

    def test_options_are_given_to_the_decorator(self) -> None:
        @hooks.on_event(priority=3, timeout=1.0, blocking=True, background=True, rule_id="r")
        def f(data: Any) -> None: ...

        assert (f.priority, f.timeout, f.blocking, f.background, f.rule_id) == (
            3,
            1.0,
            True,
            True,
            "r",
        )
        assert hooks.on_event(inspect.getdoc).priority == 100


class Forgets(hooks.PreToolCallDecideHook):
    async def run(self, context: Any, data: Any) -> Any:
        """Decide nothing."""


def forgets(call: Any) -> None:
    """Decide nothing."""


@pytest.mark.parametrize(
    ("hook", "name", "function"),
    [
        (hooks.pre_tool_call_decide(forgets), "forgets", forgets),
        (Forgets(), "Forgets", Forgets.run),
        (hooks.pre_tool_call_decide(functools.partial(forgets)), "forgets", forgets),
        (hooks.pre_tool_call_decide([].append), "list.append", None),
    ],
    ids=["function", "class", "partial", "built-in"],
)
def test_a_forgotten_return_is_told_with_its_place_and_what_to_return(
    governed: Any, caplog: pytest.LogCaptureFixture, hook: Any, name: str, function: Any
) -> None:
    """In the log, on the span, and in the result of a dispatch; the model is told none of it."""

    @otelhooks.tool
    def act() -> str:
        return "done"

    code = function.__code__ if function is not None else None
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    said = (
        f"it returned None{place}: return types.HookResult() to allow, or "
        "types.HookResult(allow=False, message=...) to deny"
    )
    governed(hooks=[hook])
    with pytest.raises(Denied, match="a policy check failed") as caught:
        act()
    assert "returned" not in str(caught.value)
    assert f"hook `{name}` failed at pre_tool_call: TypeError: {said}" in caplog.text
    assert governed.attributes("execute_tool act")[semconv.POLICY_REASON] == f"{name}: {said}"
    runner = hooks.HookRunner([hook])
    result, *_ = asyncio.run(runner.dispatch_pre_tool_call(None, CALL))
    assert result.message == f"hook '{name}' failed: TypeError: {said}"
