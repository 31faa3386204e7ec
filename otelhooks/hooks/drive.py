"""Running what the point generators ask for: a generator yields, a driver runs and sends back.

Generators know neither threads nor event loops. They yield a `Run` and get its value, or a
`Raised`. This module has two drivers: `run_sync` for seats that are plain functions, `run_async`
for coroutines on asyncio or trio.

In a synchronous seat, a hook coroutine that cannot suspend runs in place, without a loop. One that
can suspend runs on one background loop, so that what it keeps open between calls (a client, a pool)
stays on the loop that created it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dis
import functools
import inspect
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from otelhooks.hooks import own_threads
from otelhooks.hooks.background_loop import BackgroundLoop
from otelhooks.process import forks

__all__ = [
    "ESCAPING",
    "Raised",
    "Run",
    "Then",
    "aanswer",
    "adrive",
    "answer",
    "arun",
    "astep",
    "can_suspend",
    "drive",
    "escapes",
    "run",
    "step",
    "then",
]

T = TypeVar("T")

log: logging.Logger = logging.getLogger("otelhooks.hooks")

ESCAPING = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions that are not a hook's answer: the caller is being stopped."""

_TIDY_UP_S = 5.0
"""Longest run, in seconds, of each remaining hook once the caller is being cancelled."""

_INSIDE_LOOP_S = 5.0
"""Longest wait, in seconds, in a thread whose own event loop is running."""


class Raised:
    """An exception as a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException = error


class Run:
    """A function that a driver must call.

    Args:
        fn: May return an awaitable.
        args: Its positional arguments.
        blocking: It waits; an asynchronous driver gives it a worker thread.
        is_question: It asks people. It runs on a thread of its own (see `own_threads`), and a plain
            function waits for it until `timeout`, even if that blocks a running event loop.
        timeout: Seconds, None for no limit. Expiry is a `TimeoutError`.
    """

    __slots__ = ("args", "blocking", "fn", "is_question", "timeout")

    def __init__(
        self,
        fn: Callable[..., Any],
        *args: Any,
        blocking: bool = False,
        is_question: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.fn: Callable[..., Any] = fn
        self.args: tuple[Any, ...] = args
        self.blocking: bool = blocking
        self.is_question: bool = is_question
        self.timeout: float | None = timeout


class Then:
    """An awaitable, and a function for its value.

    They are kept apart so that a coroutine that cannot suspend can still run in place.
    """

    __slots__ = ("awaitable", "read")

    def __init__(self, awaitable: Awaitable[Any], read: Callable[[Any], Any]) -> None:
        self.awaitable: Awaitable[Any] = awaitable
        self.read: Callable[[Any], Any] = read

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._value().__await__()

    async def _value(self) -> Any:
        return self.read(await self.awaitable)


def then(value: Any, read: Callable[[Any], Any]) -> Any:
    """Return `read` of a value; if the value is awaitable, an awaitable of that."""
    return Then(value, read) if inspect.isawaitable(value) else read(value)


def escapes(error: BaseException) -> bool:
    """Return whether an exception, alone or in a group, must propagate wherever it came from."""
    if isinstance(error, Exception):
        return False
    trio = sys.modules.get("trio")
    if isinstance(error, ESCAPING) or (trio is not None and isinstance(error, trio.Cancelled)):
        return True
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return any(map(escapes, inner))


@functools.lru_cache(maxsize=4096)
def _awaits(code: Any) -> bool:
    # Only running a coroutine would show whether it suspends, and then it cannot change loops.
    names = {"GET_AWAITABLE", "GET_AITER", "BEFORE_ASYNC_WITH", "GET_YIELD_FROM_ITER"}
    return any(instruction.opname in names for instruction in dis.get_instructions(code))


def can_suspend(awaitable: Any) -> bool:
    """Return whether an awaitable may suspend; a coroutine that awaits nothing cannot."""
    code = getattr(awaitable, "cr_code", None)
    return code is None or _awaits(code)


def drive(generator: Generator[Run, Any, T]) -> T:
    """Run a generator to its end from a plain function."""
    return step(generator, None)[1]


async def adrive(generator: Generator[Run, Any, T]) -> T:
    """Run a generator to its end from a coroutine."""
    return (await astep(generator, None))[1]


def step(generator: Generator[Any, Any, Any], value: Any) -> tuple[bool, Any]:
    """Send a value into a generator, and run what it asks for until it ends or wants more.

    Args:
        generator: Yields `Run` for what is run here, and anything else for the caller.
        value: What it waits for; None to start it.

    Returns:
        True and what it returned, or False and what it yielded other than a `Run`.
    """
    try:
        effect = generator.send(value)
    except StopIteration as stop:
        return True, stop.value
    return (False, effect) if type(effect) is not Run else answer(generator, effect)


def answer(generator: Generator[Any, Any, Any], effect: Run) -> tuple[bool, Any]:
    """Run what a generator has asked for, and what it asks for next; return as `step` does.

    If the caller is stopped while a hook runs, the generator receives the exception, so that it can
    close what it opened.
    """
    asked: Any = effect
    try:
        while type(asked) is Run:
            try:
                value = run(asked)
            except BaseException as error:  # raised again by the generator
                asked = generator.throw(error)
            else:
                asked = generator.send(value)
    except StopIteration as stop:
        return True, stop.value
    return False, asked


async def astep(generator: Generator[Any, Any, Any], value: Any) -> tuple[bool, Any]:
    """Like `step`, from a coroutine."""
    try:
        effect = generator.send(value)
    except StopIteration as stop:
        return True, stop.value
    if type(effect) is not Run:
        return False, effect
    return await aanswer(generator, effect, type(value) is Raised and escapes(value.error))


async def aanswer(
    generator: Generator[Any, Any, Any], effect: Run, is_stopping: bool
) -> tuple[bool, Any]:
    """Like `answer`, from a coroutine.

    Once the caller is being cancelled, what remains to run is shielded for a few seconds.

    Args:
        generator: As for `answer`.
        effect: As for `answer`.
        is_stopping: Whether the caller is already being cancelled.
    """
    asked: Any = effect
    try:
        while type(asked) is Run:
            try:
                value = await (_shielded(asked) if is_stopping else arun(asked))
            except GeneratorExit:  # this coroutine is being closed: it cannot await any more
                generator.close()
                raise
            except BaseException as error:  # raised again by the generator
                is_stopping = True
                asked = generator.throw(error)
            else:
                asked = generator.send(value)
    except StopIteration as stop:
        return True, stop.value
    return False, asked


async def _shielded(effect: Run) -> Any:
    import anyio

    value: Any = Raised(TimeoutError("no time left to clean up"))
    with anyio.move_on_after(_TIDY_UP_S, shield=True):
        value = await arun(effect)
    return value


def run(effect: Run) -> Any:
    """Run one effect in the calling thread; return its value or a `Raised`."""
    started = time.monotonic()
    try:
        if effect.is_question:
            value = _result(own_threads.start(effect.fn, *effect.args), _limit(effect))
        elif effect.blocking and effect.timeout is not None:
            value = _result(
                own_threads.spawn("otelhooks-hook", effect.fn, *effect.args), _limit(effect)
            )
        else:
            value = effect.fn(*effect.args)
        if inspect.isawaitable(value):
            value = _await(value, effect)
    except BaseException as error:
        if escapes(error):
            raise
        return Raised(error)
    limit = effect.timeout
    return value if limit is None or time.monotonic() - started < limit else _late(limit)


def _late(limit: float) -> Raised:
    """Return the failure of a value that comes too late.

    Its coroutine never suspended, or kept running after it was cancelled.
    """
    return Raised(TimeoutError(f"no answer within {limit:g} s"))


async def arun(effect: Run) -> Any:
    """Run one effect on the running loop; return its value or a `Raised`."""
    try:
        if effect.timeout is None:
            return await _arun(effect)
        import anyio

        with anyio.fail_after(effect.timeout) as scope:
            value = await _arun(effect)
        return value if anyio.current_time() < scope.deadline else _late(effect.timeout)
    except BaseException as error:
        if escapes(error):
            raise
        return Raised(error)


async def _arun(effect: Run) -> Any:
    if effect.is_question:
        return await _unless_cancelled(_asked(effect))
    if effect.blocking:
        import anyio.to_thread

        call = functools.partial(effect.fn, *effect.args)
        value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    else:
        value = effect.fn(*effect.args)
    return await _uncaught(value) if inspect.isawaitable(value) else value


async def _uncaught(awaitable: Awaitable[Any]) -> Any:
    """Return a value, unless what makes it caught, or failed at, the cancellation of the caller.

    It is made in the caller's task, so that hooks share context variables and their tokens. Before
    Python 3.11 asyncio keeps no trace of a cancellation that was caught.
    """
    if not can_suspend(awaitable.awaitable if type(awaitable) is Then else awaitable):
        return await awaitable
    before = _cancellations()
    try:
        value = await awaitable
    except Exception:
        await _stop_if_cancelled(before)
        raise
    await _stop_if_cancelled(before)
    return value


async def _stop_if_cancelled(before: int) -> None:
    import anyio.lowlevel

    await anyio.lowlevel.checkpoint_if_cancelled()
    if _cancellations() > before:
        raise asyncio.CancelledError


def _cancellations() -> int:
    """Return how often the running task of asyncio was cancelled; 0 without one."""
    try:
        task: Any = asyncio.current_task()
    except RuntimeError:  # trio
        return 0
    return task.cancelling() if hasattr(task, "cancelling") else 0


async def _asked(effect: Run) -> Any:
    future = own_threads.start(effect.fn, *effect.args)
    try:
        value = await own_threads.awaited(future)
    except BaseException:
        future.add_done_callback(_close)  # a coroutine that comes too late is not awaited
        raise
    return await value if inspect.isawaitable(value) else value


async def _unless_cancelled(answer: Awaitable[Any]) -> Any:
    """Return an answer, unless the approver caught that it was cancelled: then it is cancelled.

    It is asked in a task of its own. An approver in the caller's task can catch the cancellation of
    the caller. Before Python 3.11 asyncio keeps no trace of it; since then, the approver can take
    it back.
    """
    import anyio.lowlevel

    outcome: list[Any] = []

    async def ask() -> None:
        try:
            outcome.append(await answer)
        except BaseException as error:  # raised again below, and not as part of a group
            outcome.append(Raised(error))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
    await anyio.lowlevel.checkpoint_if_cancelled()
    if type(outcome[0]) is Raised:
        raise outcome[0].error
    return outcome[0]


def _close(future: concurrent.futures.Future[Any]) -> None:
    if future.exception() is None and inspect.iscoroutine(value := future.result()):
        value.close()


def _await(awaitable: Awaitable[Any], effect: Run) -> Any:
    """Wait for an awaitable from a plain function."""
    if type(awaitable) is Then:
        return awaitable.read(_await(awaitable.awaitable, effect))
    if effect.timeout is None and inspect.iscoroutine(awaitable) and not can_suspend(awaitable):
        try:
            awaitable.send(None)
        except StopIteration as stop:
            return stop.value
        awaitable.close()
        msg = "a coroutine suspended that awaits nothing"
        raise RuntimeError(msg)
    if _is_green():
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        msg = (
            "a hook that suspends cannot run under gevent or eventlet"
            " (hint: make it a synchronous function)"
        )
        raise RuntimeError(msg)
    if _background.runs_here():
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        msg = (
            "what suspends cannot be waited for by synchronous code that an asynchronous hook runs"
            " (hint: await the tool there, or call it with `asyncio.to_thread`)"
        )
        raise RuntimeError(msg)
    return _result(_background.submit(awaitable), _limit(effect))


def _limit(effect: Run) -> float | None:
    """Return how long a plain function may wait for an effect, in seconds."""
    if not _loop_is_running_here():
        return effect.timeout
    if effect.is_question:
        _log_once(
            "a question blocks the event loop of its thread until it is answered; a handler that"
            " needs this loop never answers\nhint: await the tool, or call it with"
            " `asyncio.to_thread`"
        )
        return effect.timeout
    return min(effect.timeout or _INSIDE_LOOP_S, _INSIDE_LOOP_S)


@functools.cache
def _log_once(message: str) -> None:
    log.warning("%s", message)


def _result(future: concurrent.futures.Future[Any], limit: float | None) -> Any:
    try:
        return future.result(limit)
    except concurrent.futures.TimeoutError as error:
        if future.done():
            raise  # the hook's own TimeoutError
        future.cancel()
        msg = f"no answer within {limit:g} s"
        raise TimeoutError(msg) from error
    except BaseException:
        future.cancel()  # the waiting thread is being stopped, by Ctrl-C for example
        raise


def _is_green() -> bool:
    """Return whether gevent or eventlet has replaced threads."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        return True
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched("thread"))


def _loop_is_running_here() -> bool:
    trio = sys.modules.get("trio")
    try:
        if trio is not None:
            trio.lowlevel.current_trio_token()
            return True
    except RuntimeError:
        pass  # not called from trio
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_background = BackgroundLoop()
forks.in_child(_background.forget, forks.Step.THREADS)
