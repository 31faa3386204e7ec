"""Plain functions under the pipeline that return what is still to come."""

from __future__ import annotations

import asyncio
import functools
import gc
import io
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv

REDACTED = "redacted"


async def fetch(path: str) -> str:
    """Return a text."""
    await asyncio.sleep(0)
    if path == "bad":
        raise ValueError("boom")
    return f"text of {path}"


class Soon:
    """An awaitable that is no coroutine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __await__(self) -> Any:
        return fetch(self.path).__await__()


class Fetcher:
    """An object that is called like a coroutine function."""

    async def __call__(self, path: str) -> str:
        return await fetch(path)


async def _read(path: str) -> Any:
    yield f"text of {path}"


def _lines(path: str) -> Any:
    yield f"text of {path}"
    if path == "bad":
        raise ValueError("boom")


LATE: dict[str, Callable[..., Any]] = {
    "lambda": lambda path: fetch(path),
    "partial": functools.partial(fetch),
    "partial of a lambda": functools.partial(lambda path: fetch(path)),
    "awaitable": lambda path: Soon(path),
    "object": Fetcher(),
    "future": lambda path: asyncio.ensure_future(fetch(path)),
}


async def awaited(function: Any, *args: Any) -> Any:
    """Call a function in a loop, and await what it returns."""
    return await function(*args)


@pytest.mark.parametrize("kind", LATE)
def test_hooks_see_and_replace_what_a_plain_functions_awaitable_gives(
    governed: Any, kind: str
) -> None:
    seen: list[Any] = []

    @hooks.post_tool_call_transform
    def redact(data: types.ToolResult) -> str:
        seen.append(data.result)
        return REDACTED

    governed(hooks=[redact])
    read = otelhooks.tool(name="read")(LATE[kind])
    assert asyncio.run(awaited(read, "a")) == REDACTED
    assert seen == ["text of a"]


@pytest.mark.parametrize("kind", LATE)
def test_an_awaitables_failure_is_the_tools(governed: Any, kind: str) -> None:
    governed(hooks=[hooks.on_tool_error(lambda error: f"instead of {error}")])
    read = otelhooks.tool(name="read")(LATE[kind])
    assert asyncio.run(awaited(read, "bad")) == "instead of boom"
    span = governed.span("execute_tool read")
    assert span.attributes[semconv.ERROR_TYPE] == "ValueError"


@pytest.mark.parametrize("kind", LATE)
def test_what_runs_later_is_what_was_approved(governed: Any, kind: str) -> None:
    governed(
        policies=[policy.deny("read", when=lambda args: args["path"] == "secret")],
        hooks=[
            hooks.pre_tool_call_decide(
                lambda call: (
                    types.HookResult(modified_args={"path": "b"})
                    if call.args["path"] == "a"
                    else types.HookResult()
                )
            )
        ],
    )
    read = otelhooks.tool(name="read")(LATE[kind])
    assert asyncio.run(awaited(read, "a")) == "text of b"
    with pytest.raises(Denied):
        asyncio.run(awaited(read, "secret"))


def test_the_body_of_an_awaitable_runs_under_the_tools_span(governed: Any) -> None:
    @otelhooks.tool
    async def inner() -> None: ...

    async def work() -> None:
        await inner()

    governed()
    asyncio.run(awaited(otelhooks.tool(name="outer")(lambda: work())))
    outer, inside = governed.span("execute_tool outer"), governed.span("execute_tool inner")
    assert inside.parent.span_id == outer.context.span_id


@pytest.mark.parametrize(
    "function", [lambda path: _lines(path), functools.partial(_lines)], ids=["lambda", "partial"]
)
def test_items_of_a_generator_that_a_plain_function_returns_wait_for_hooks(
    governed: Any, function: Any
) -> None:
    read = otelhooks.tool(name="read")(function)
    handle = governed()
    assert list(read("a")) == ["text of a"]
    handle.register(hooks.on_tool_error(lambda error: [f"instead of {error}"]))
    assert list(read("bad")) == ["text of bad", "instead of boom"]
    handle.register(hooks.post_tool_call_transform(lambda data: [REDACTED] * len(data.result)))
    assert list(read("a")) == [REDACTED]


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_items_of_an_asynchronous_generator_that_is_returned_wait_for_hooks(
    governed: Any, is_coroutine: bool
) -> None:
    async def opened(path: str) -> Any:
        return _read(path)

    async def items() -> list[Any]:
        found = read("a")
        return [item async for item in (await found if is_coroutine else found)]

    read = otelhooks.tool(name="read")(opened if is_coroutine else lambda path: _read(path))
    handle = governed()
    assert asyncio.run(items()) == ["text of a"]
    handle.register(hooks.post_tool_call_transform(lambda data: [REDACTED]))
    assert asyncio.run(items()) == [REDACTED]
    handle.register(policy.deny("read"))
    with pytest.raises(Denied):
        asyncio.run(items())


def test_a_future_stays_one_that_can_be_cancelled(governed: Any) -> None:
    async def run() -> bool:
        task = otelhooks.tool(name="wait")(lambda: asyncio.ensure_future(asyncio.sleep(60)))()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    governed()
    assert asyncio.run(run())
    assert governed.span("execute_tool wait")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_result_that_is_never_awaited_ends_its_span(governed: Any) -> None:
    governed()
    otelhooks.tool(name="read")(lambda: fetch("a"))()
    gc.collect()
    assert governed.span("execute_tool read")


def test_a_model_call_and_an_agent_of_plain_functions_show_their_answer(governed: Any) -> None:
    seen: list[Any] = []
    ask = otelhooks.model_call(model="m")(lambda messages: fetch("model"))

    async def answer(message: str) -> str:
        return await ask([message])

    governed(
        hooks=[
            hooks.post_model_call(lambda data: seen.append(data.text)),
            hooks.post_turn(lambda data: seen.append(str(data))),
        ]
    )
    run = otelhooks.agent("ops")(lambda message: answer(message))
    assert asyncio.run(awaited(run, "hello")) == "text of model"
    assert seen == ["text of model"] * 2


def test_a_stop_hook_sends_an_agent_on_whose_function_returns_an_awaitable(governed: Any) -> None:
    asked: list[str] = []

    async def answer(message: str) -> str:
        asked.append(message)
        return message

    @hooks.stop
    def once(args: Any) -> Any:
        if len(asked) < 2:
            return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason="go on")
        return None

    governed(hooks=[once])
    assert asyncio.run(awaited(otelhooks.agent("ops")(lambda m: answer(m)), "begin")) == "go on"
    assert asked == ["begin", "go on"]


@pytest.mark.parametrize("make", [lambda: iter(["a"]), lambda: io.StringIO("a")])
def test_an_iterator_is_returned_as_it_is_where_no_hook_may_change_it(
    governed: Any, exporter: Any, make: Callable[[], Any]
) -> None:
    made = make()
    governed(policies=[policy.allow("*")])

    @otelhooks.tool
    def plain() -> Any:
        return made

    @otelhooks.tool
    async def later() -> Any:
        return made

    assert plain() is made
    assert asyncio.run(later()) is made
    assert len(exporter.get_finished_spans()) == 2
