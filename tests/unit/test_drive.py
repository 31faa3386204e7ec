"""Running what generators ask for: in place, on a loop, in a thread, within a time."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import sys
import threading
import time
import types as module_types
from collections.abc import Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from otelhooks.hooks import drive
from otelhooks.hooks.background_loop import BackgroundLoop
from otelhooks.hooks.drive import Raised, Run, adrive, arun, escapes, run

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="")


class Escaped(BaseException):
    """Represents classes that `except Exception` does not catch."""


async def suspending(value: Any = 1) -> Any:
    await asyncio.sleep(0)
    return value


async def plain(value: Any = 1) -> Any:
    return value


def raising(error: BaseException) -> Any:
    raise error


class TestEscapes:
    @pytest.mark.parametrize(
        "error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError(), GeneratorExit()]
    )
    def test_stopping_the_caller_always_escapes(self, error: BaseException) -> None:
        assert escapes(error)
        with pytest.raises(type(error)):
            run(Run(raising, error))

    def test_other_classes_are_answers_of_the_hook(self) -> None:
        assert not escapes(Escaped())
        value = run(Run(raising, Escaped()))
        assert type(value) is Raised
        assert isinstance(value.error, Escaped)

    def test_a_group_escapes_if_one_of_it_does(self) -> None:
        class Group(BaseException):
            def __init__(self, *inner: BaseException) -> None:
                self.exceptions = inner

        assert escapes(Group(ValueError(), Group(KeyboardInterrupt())))
        assert not escapes(Group(ValueError()))

    def test_cancellation_of_trio_escapes(self) -> None:
        seen: list[BaseException] = []

        async def main() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except BaseException as error:
                    seen.append(error)
                    raise

        trio.run(main)
        assert escapes(seen[0])


class TestSync:
    def test_a_coroutine_that_awaits_nothing_runs_in_place(self) -> None:
        seen: list[threading.Thread] = []

        async def hook() -> int:
            seen.append(threading.current_thread())
            return 7

        assert run(Run(hook)) == 7
        assert seen == [threading.current_thread()]

    def test_one_that_suspends_runs_on_one_background_loop_with_the_callers_context(self) -> None:
        loops: list[Any] = []

        async def hook() -> str:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            return VARIABLE.get()

        token = VARIABLE.set("mine")
        try:
            assert [run(Run(hook)), run(Run(hook))] == ["mine", "mine"]
        finally:
            VARIABLE.reset(token)
        assert loops[0] is loops[1]

    def test_exceptions_of_a_coroutine_are_values(self) -> None:
        async def hook() -> None:
            await asyncio.sleep(0)
            raise Escaped

        value = run(Run(hook))
        assert isinstance(value.error, Escaped)

    def test_a_time_that_is_over_counts_as_raising(self) -> None:
        async def hook() -> None:
            await asyncio.sleep(30)

        started = time.monotonic()
        value = run(Run(hook, timeout=0.02))
        assert isinstance(value.error, TimeoutError)
        assert time.monotonic() - started < 10

    def test_a_hooks_own_timeout_error_is_passed_on(self) -> None:
        async def hook() -> None:
            await asyncio.sleep(0)
            raise TimeoutError("own")

        assert str(run(Run(hook, timeout=5)).error) == "own"

    def test_a_blocking_hook_with_a_time_runs_in_a_thread_that_keeps_nothing_alive(self) -> None:
        release = threading.Event()
        seen: list[threading.Thread] = []

        def hook() -> None:
            seen.append(threading.current_thread())
            release.wait(10)

        value = run(Run(hook, blocking=True, timeout=0.02))
        release.set()
        assert isinstance(value.error, TimeoutError)
        assert seen[0].daemon

    def test_a_blocking_hook_gives_its_value_or_its_error(self) -> None:
        assert run(Run(lambda: 3, blocking=True, timeout=5)) == 3
        assert isinstance(
            run(Run(raising, ValueError(), blocking=True, timeout=5)).error, ValueError
        )
        assert run(Run(lambda: 4, blocking=True)) == 4

    def test_system_exit_in_a_suspended_hook_reaches_the_caller_and_the_loop_lives_on(
        self,
    ) -> None:
        async def hook() -> None:
            await asyncio.sleep(0)
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            run(Run(hook))
        assert run(Run(suspending, 5)) == 5

    def test_a_hook_that_cancels_itself_has_failed(self) -> None:
        async def hook() -> None:
            await asyncio.sleep(0)
            raise asyncio.CancelledError

        assert "cancelled" in str(run(Run(hook)).error)

    def test_an_awaitable_of_another_loop_is_an_error_not_a_standstill(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            value = run(Run(loop.create_future))
        finally:
            loop.close()
        assert isinstance(value.error, RuntimeError)

    def test_inside_a_running_loop_the_wait_is_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(drive, "_INSIDE_LOOP_S", 0.02)

        async def hook() -> None:
            await asyncio.sleep(30)

        async def notebook() -> Any:
            return run(Run(hook)), run(Run(suspending, 6))

        late, in_time = asyncio.run(notebook())
        assert isinstance(late.error, TimeoutError)
        assert in_time == 6

        async def trio_notebook() -> Any:
            return run(Run(hook))

        assert isinstance(trio.run(trio_notebook).error, TimeoutError)

    @pytest.mark.parametrize("is_question", [True, False])
    def test_a_wait_of_the_background_loop_for_itself_is_refused_at_once(
        self, is_question: bool
    ) -> None:
        """An asynchronous hook calls a synchronous tool, which asks, or has such a hook, again."""
        inner: list[Any] = []

        async def hook() -> None:
            await asyncio.sleep(0)
            inner.append(run(Run(suspending, is_question=is_question, timeout=30)))
            inner.append(run(Run(asyncio.get_running_loop().create_future)))

        run(Run(hook))
        assert ["asyncio.to_thread" in str(each.error) for each in inner] == [True, True]

    def test_a_question_is_waited_for_until_its_own_time_is_over_in_a_running_loop_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(drive, "_INSIDE_LOOP_S", 0.0)
        never = threading.Event()

        async def notebook() -> Any:
            late = run(Run(never.wait, 30, is_question=True, timeout=0.02))
            return late, run(Run(lambda: 7, is_question=True, timeout=None))

        late, answered = asyncio.run(notebook())
        never.set()
        assert str(late.error) == "no answer within 0.02 s"
        assert answered == 7

    @pytest.mark.parametrize(
        ("module", "function"),
        [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")],
    )
    def test_under_green_threads_a_hook_that_suspends_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, module: str, function: str
    ) -> None:
        fake = module_types.ModuleType(module)
        setattr(fake, function, lambda _: True)
        monkeypatch.setitem(sys.modules, module, fake)
        assert "gevent or eventlet" in str(run(Run(suspending)).error)
        assert run(Run(plain, 3)) == 3

        class Awaitable:
            def __await__(self) -> Generator[Any, None, None]:
                yield

        assert "gevent or eventlet" in str(run(Run(Awaitable)).error)

    def test_green_threads_that_are_not_in_use_change_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake = module_types.ModuleType("gevent.monkey")
        fake.is_module_patched = lambda _: False  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "gevent.monkey", fake)
        assert run(Run(suspending, 3)) == 3

    def test_a_coroutine_that_looks_plain_and_suspends_is_an_error(self) -> None:
        @module_types.coroutine
        def generator_based() -> Generator[None, None, None]:
            yield

        class Odd:
            cr_code = plain.__code__

        assert drive.can_suspend(generator_based())
        assert not drive.can_suspend(Odd())


class Fruitless:
    """Functions that answer, but not within their time."""

    @staticmethod
    async def ignoring_the_cancellation() -> str:
        with contextlib.suppress(BaseException):
            await anyio.sleep(30)
        return "allow"

    @staticmethod
    async def never_suspending() -> str:
        return Fruitless.busy()

    @staticmethod
    async def busy_in_the_end() -> str:
        await anyio.lowlevel.checkpoint()
        return Fruitless.busy()

    @staticmethod
    def busy() -> str:
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        return "allow"


LATE = [
    *((fn, {}) for fn in vars(Fruitless).values() if isinstance(fn, staticmethod)),
    (Fruitless.ignoring_the_cancellation, {"is_question": True}),
    (Fruitless.busy, {"is_question": True}),
    (Fruitless.busy, {"blocking": True}),
]


ASKED = pytest.mark.parametrize("how", [{"is_question": True}, {}])
KEEPS_TRACES = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio keeps no trace of it")


class TestCancelled:
    """What caught that it was cancelled, a question, hook or condition, has not answered."""

    @ASKED
    @pytest.mark.anyio
    async def test_the_callers_scope_stays_cancelled(self, how: Any) -> None:
        with anyio.move_on_after(0.02) as scope:
            pytest.fail(str(await arun(Run(Fruitless.ignoring_the_cancellation, **how))))
        assert scope.cancelled_caught

    @staticmethod
    async def taking_the_cancellation_back() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            task: Any = asyncio.current_task()
            if hasattr(task, "uncancel"):  # Python 3.11 and newer
                task.uncancel()
        return "allow"

    @staticmethod
    async def turning_the_cancellation_into_a_failure() -> str:
        try:
            await asyncio.sleep(30)
        except BaseException as error:
            raise RuntimeError("no connection") from error
        return "allow"

    @pytest.mark.parametrize(
        ("approve", "how"),
        [
            (Fruitless.ignoring_the_cancellation, {"is_question": True}),
            (taking_the_cancellation_back, {"is_question": True}),
            pytest.param(Fruitless.ignoring_the_cancellation, {}, marks=KEEPS_TRACES),
            pytest.param(turning_the_cancellation_into_a_failure, {}, marks=KEEPS_TRACES),
        ],
    )
    def test_so_does_the_callers_task(self, approve: Any, how: Any) -> None:
        async def caller() -> Any:
            return await arun(Run(approve, **how))

        async def main() -> None:
            task = asyncio.create_task(caller())
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())

    @pytest.mark.anyio
    async def test_hooks_share_context_variables_and_their_tokens(self) -> None:
        async def before() -> contextvars.Token[str]:
            await anyio.lowlevel.checkpoint()
            return mark.set("set by a hook")

        async def after() -> str:
            await anyio.lowlevel.checkpoint()
            seen = mark.get()
            mark.reset(token)
            return seen

        mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")
        token = await arun(Run(before))
        assert await arun(Run(after)) == "set by a hook"
        assert mark.get() == ""

    @ASKED
    @pytest.mark.anyio
    async def test_it_may_have_a_limit_of_its_own(self, how: Any) -> None:
        async def approve() -> str:
            with anyio.move_on_after(0.01):
                await anyio.sleep(30)
            return "allow"

        assert await arun(Run(approve, **how)) == "allow"

    @ASKED
    @pytest.mark.anyio
    async def test_what_it_raises_arrives_as_it_is(self, how: Any) -> None:
        async def approve() -> str:
            await anyio.lowlevel.checkpoint()
            raise error

        error: BaseException = ValueError("no")
        raised = await arun(Run(approve, **how))
        assert raised.error is error
        error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            await arun(Run(approve, **how))

    @ASKED
    @pytest.mark.anyio
    async def test_it_may_still_tidy_up(self, how: Any) -> None:
        async def approve() -> str:
            try:
                await anyio.sleep(30)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.01)
                    tidied.append(True)
            return "allow"

        tidied: list[bool] = []
        with anyio.move_on_after(0.2):
            await arun(Run(approve, **how))
        assert tidied == [True]


class TestLate:
    """The class: what answers after its time has not answered, whatever it did with that time."""

    @pytest.mark.anyio
    @pytest.mark.parametrize(("fn", "how"), LATE)
    async def test_an_answer_that_comes_too_late_counts_as_raising(self, fn: Any, how: Any) -> None:
        value = await arun(Run(fn, timeout=0.02, **how))
        assert isinstance(value.error, TimeoutError)

    @pytest.mark.parametrize(("fn", "how"), LATE)
    def test_so_it_does_in_a_plain_function(self, fn: Any, how: Any) -> None:
        value = run(Run(fn, timeout=0.02, **how))
        assert isinstance(value.error, TimeoutError)

    @pytest.mark.anyio
    async def test_a_coroutine_that_comes_too_late_is_closed(self) -> None:
        answered, made = threading.Event(), []

        def question() -> Any:
            answered.wait(30)
            made.append(asking())
            return made[0]

        async def asking() -> str:
            return "allow"

        value = await arun(Run(question, timeout=0.02, is_question=True))
        assert isinstance(value.error, TimeoutError)
        answered.set()
        while not made or inspect.getcoroutinestate(made[0]) != inspect.CORO_CLOSED:  # noqa: ASYNC110
            await anyio.sleep(0.01)

    @pytest.mark.anyio
    async def test_an_error_that_comes_too_late_is_dropped(self) -> None:
        asked = threading.Event()

        def question() -> None:
            asked.wait(30)
            raising(ValueError("late"))

        value = await arun(Run(question, timeout=0.02, is_question=True))
        asked.set()
        assert isinstance(value.error, TimeoutError)


class TestAsync:
    @pytest.mark.anyio
    async def test_functions_and_coroutines_give_their_values(self) -> None:
        assert await arun(Run(lambda: 1)) == 1
        assert await arun(Run(plain, 2)) == 2
        assert isinstance((await arun(Run(raising, Escaped()))).error, Escaped)

    @pytest.mark.anyio
    async def test_a_blocking_function_gets_a_worker_thread(self) -> None:
        thread = await arun(Run(threading.current_thread, blocking=True))
        assert thread is not threading.current_thread()

    @pytest.mark.anyio
    async def test_a_time_that_is_over_counts_as_raising(self) -> None:
        import anyio

        value = await arun(Run(anyio.sleep, 30, timeout=0.02))
        assert isinstance(value.error, TimeoutError)

    @pytest.mark.anyio
    async def test_a_generator_is_driven_to_its_value(self) -> None:
        def generator() -> Generator[Run, Any, Any]:
            first = yield Run(plain, 1)
            second = yield Run(lambda: 2)
            return first + second

        assert await adrive(generator()) == 3
        assert drive.drive(generator()) == 3


class TestStopped:
    """A generator whose caller is stopped while a hook runs gets its end."""

    def steps(self, log: list[str], hook: Any) -> Generator[Run, Any, None]:
        try:
            yield Run(hook)
        except BaseException as error:
            log.append(type(error).__name__)
            yield Run(log.append, "tidied")
            raise

    def test_a_plain_function_tells_the_generator(self) -> None:
        log: list[str] = []
        with pytest.raises(KeyboardInterrupt):
            drive.drive(self.steps(log, lambda: raising(KeyboardInterrupt())))
        assert log == ["KeyboardInterrupt", "tidied"]

    @pytest.mark.anyio
    async def test_a_cancelled_coroutine_tells_the_generator_and_tidies_up_shielded(self) -> None:
        import anyio

        log: list[str] = []

        async def tidy() -> None:
            await anyio.sleep(0.01)
            log.append("tidied")

        def steps() -> Generator[Run, Any, None]:
            try:
                yield Run(anyio.sleep, 30)
            finally:
                yield Run(tidy)

        with anyio.move_on_after(0.02) as scope:
            await adrive(steps())
        assert scope.cancelled_caught
        assert log == ["tidied"]

    @pytest.mark.anyio
    async def test_tidying_up_takes_its_time_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import anyio

        monkeypatch.setattr(drive, "_TIDY_UP_S", 0.02)
        seen: list[Any] = []

        def steps() -> Generator[Run, Any, None]:
            try:
                yield Run(anyio.sleep, 30)
            finally:
                seen.append((yield Run(anyio.sleep, 30)))

        with anyio.move_on_after(0.02):
            await adrive(steps())
        assert isinstance(seen[0].error, TimeoutError)

    def test_a_coroutine_that_is_closed_awaits_nothing_more(self) -> None:
        log: list[str] = []

        async def forever() -> None:
            await asyncio.get_running_loop().create_future()

        def steps() -> Generator[Run, Any, None]:
            try:
                yield Run(forever)
            except GeneratorExit:
                log.append("closed")
                raise

        async def main() -> None:
            coroutine = adrive(steps())
            coroutine.send(None)
            coroutine.close()

        asyncio.run(main())
        assert log == ["closed"]


class TestEdges:
    def test_what_is_not_an_effect_is_handed_back(self) -> None:
        def generator() -> Generator[Any, Any, Any]:
            first = yield Run(lambda: 1)
            second = yield "body"
            return first + second

        async def main() -> Any:
            other = generator()
            assert await drive.astep(other, None) == (False, "body")
            return await drive.astep(other, 2)

        running = generator()
        assert drive.step(running, None) == (False, "body")
        assert drive.step(running, 2) == (True, 3)
        assert asyncio.run(main()) == (True, 3)

    def test_a_coroutine_that_suspends_although_it_must_not_is_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @module_types.coroutine
        def pause() -> Generator[None, None, None]:
            yield

        async def suspends() -> None:
            await pause()

        monkeypatch.setattr(drive, "can_suspend", lambda awaitable: False)
        assert "suspended" in str(run(Run(suspends)).error)

    def test_without_trio_there_is_asyncio_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "trio")
        assert run(Run(suspending, 4)) == 4
        assert not escapes(Escaped())

    def test_a_loop_that_was_forgotten_is_started_again(self) -> None:
        loop = BackgroundLoop()
        assert loop.submit(suspending(1)).result(10) == 1
        first = loop._loop
        assert first is not None
        self.stop(first)
        loop.forget()
        assert loop.submit(suspending(2)).result(10) == 2
        second = loop._loop
        assert second is not None
        assert second is not first
        self.stop(second)

    @staticmethod
    def stop(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(loop.stop)
        while loop.is_running():
            time.sleep(0.001)
        loop.close()
