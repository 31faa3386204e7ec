"""Three ways to drive an operation: from a plain function, from a coroutine, and split in two.

An operation is a generator. It yields `Run` for hooks and `Body` for the framework's own call, and
returns what the seat is to return, or a `Raised`. A body that raises comes back to the generator as
a `Raised`, never as an exception thrown into it: this adds none of our frames to the user's
traceback and also works for exception classes that escape ``except Exception``.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Protocol, TypeAlias

from opentelemetry.context import Context, attach, detach

from otelhooks.hooks.drive import Raised, Run, aanswer, answer, astep, escapes, step

__all__ = ["Body", "Closed", "HoldsBack", "Operation", "Split", "Unrun", "adrive", "drive"]


class Body:
    """The framework's own call runs now.

    Attributes:
        context: Context that is current while it runs.
        value: The approved arguments, which the call gets.
    """

    __slots__ = ("context", "value")

    def __init__(self, context: Context, value: Any) -> None:
        self.context = context
        self.value = value


class Closed:
    """A stream that its consumer closed before its end.

    Attributes:
        value: The result, or the part that came.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Unrun:
    """An approved call that the framework did not run after all.

    Args:
        reason: The known cause, as one sentence.
        is_refused: Whether otelhooks refused it in the end; otherwise someone else did, or the
            cause is unknown.
    """

    __slots__ = ("is_refused", "reason")

    def __init__(self, reason: str, *, is_refused: bool = True) -> None:
        self.reason = reason
        self.is_refused = is_refused


class HoldsBack(Protocol):
    """A call or request that knows, once decided, whether hooks may change its result."""

    holds_back: bool


Operation: TypeAlias = Generator[Run | Body, Any, Any]

_HERE = frozenset((str, int, float, bool, type(None), dict, list, tuple, Raised))
"""Types of most results: whether one of another type can be awaited is expensive to find out."""


def drive(
    operation: Operation,
    body: Callable[[Any], Any],
    later: Callable[[Split, Any], Any] | None = None,
    subject: HoldsBack | None = None,
) -> Any:
    """Run an operation from a plain function.

    Args:
        operation: Not started.
        body: The framework's own call; takes what was approved.
        later: Called if the body returned an awaitable or a generator, whose result is still to
            come. Takes the operation, which it must end, and that; returns what the caller gets.
        subject: What is decided about; if hooks may change its result, any iterator is as a
            generator is.

    Raises:
        BaseException: What the body raised, if no hook recovered from it.
    """
    value: Any = None
    while True:
        try:
            effect: Any = operation.send(value)
        except StopIteration as stop:
            result = stop.value
            break
        if type(effect) is Run:
            ended, effect = answer(operation, effect)
            if ended:
                result = effect
                break
        token = attach(effect.context)
        try:
            value = body(effect.value)
        except BaseException as error:  # handed to the operation, see above
            value = Raised(error)
        finally:
            detach(token)
        if later is not None and type(value) not in _HERE and _is_to_come(value, subject):
            return later(Split.of(operation, effect), value)
    if type(result) is Raised:
        raise result.error
    return result


async def adrive(
    operation: Operation,
    body: Callable[[Any], Awaitable[Any]],
    later: Callable[[Split, Any], Any] | None = None,
    subject: HoldsBack | None = None,
) -> Any:
    """Run an operation from a coroutine, on asyncio or trio; as `drive` otherwise."""
    value: Any = None
    while True:
        try:
            effect: Any = operation.send(value)
        except StopIteration as stop:
            result = stop.value
            break
        if type(effect) is Run:
            is_stopping = type(value) is Raised and escapes(value.error)
            ended, effect = await aanswer(operation, effect, is_stopping)
            if ended:
                result = effect
                break
        token = attach(effect.context)
        try:
            value = await body(effect.value)
        except GeneratorExit:  # the coroutine is being closed: it cannot await anything any more
            operation.close()
            raise
        except BaseException as error:  # handed to the operation
            value = Raised(error)
        finally:
            detach(token)
        if later is not None and type(value) not in _HERE and _is_to_come(value, subject):
            return later(Split.of(operation, effect), value)
    if type(result) is Raised:
        raise result.error
    return result


def _is_to_come(value: Any, subject: HoldsBack | None) -> bool:
    """Return whether a value stands for a result that does not exist yet."""
    if isinstance(value, (GeneratorType, AsyncGeneratorType)) or inspect.isawaitable(value):
        return True
    is_held = subject is not None and subject.holds_back
    return is_held and isinstance(value, (Iterator, AsyncIterator))  # such as an open file


class Split:
    """An operation whose start and end happen in different places.

    After `begin` or `abegin`, `proceeds` says whether the framework's own call runs, with `value`,
    in `context`; if it does not run, `result` is what the seat returns. Exactly one of `finish`,
    `fail` and `abandon` (or their asynchronous forms) ends an operation that proceeds; later calls
    are ignored.

    Args:
        operation: Not started.
    """

    __slots__ = ("_operation", "context", "proceeds", "result", "value")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.proceeds = False
        self.value: Any = None
        self.context: Context | None = None
        self.result: Any = None

    @classmethod
    def of(cls, operation: Operation, body: Body) -> Split:
        """Return an operation that has begun, and whose body runs now."""
        split = cls(operation)
        split._go_on(False, body)
        return split

    def begin(self) -> Split:
        """Decide, from a plain function."""
        self._drive(None)
        return self

    async def abegin(self) -> Split:
        """Decide, from a coroutine."""
        await self._adrive(None)
        return self

    def finish(self, value: Any) -> Any:
        """Hand in the call's result; return what the seat is to return.

        Raises:
            BaseException: The operation ends with a failure.
        """
        return self._end(value, self._drive)

    def fail(self, error: BaseException) -> Any:
        """Hand in the call's failure; return a value if a hook recovered from it.

        Raises:
            BaseException: The failure, if no hook recovered from it.
        """
        return self._end(Raised(error), self._drive)

    async def afinish(self, value: Any) -> Any:
        """Do what `finish` does, from a coroutine."""
        await self._adrive(value) if self.proceeds else None
        return self._outcome()

    async def afail(self, error: BaseException) -> Any:
        """Do what `fail` does, from a coroutine."""
        await self._adrive(Raised(error)) if self.proceeds else None
        return self._outcome()

    def abandon(self) -> None:
        """Close what is open, because the call's end will not be seen."""
        self.proceeds = False
        self._operation.close()

    def _end(self, value: Any, drive: Callable[[Any], None]) -> Any:
        if self.proceeds:
            drive(value)
        return self._outcome()

    def _outcome(self) -> Any:
        if type(self.result) is not Raised:
            return self.result
        error = self.result.error
        context = error.__context__
        try:
            raise error
        finally:
            if error.__suppress_context__:  # it is not to show what is handled here
                error.__context__ = context

    def _drive(self, value: Any) -> None:
        self.proceeds = False
        self._go_on(*step(self._operation, value))

    async def _adrive(self, value: Any) -> None:
        self.proceeds = False
        self._go_on(*await astep(self._operation, value))

    def _go_on(self, ended: bool, result: Any) -> None:
        if ended:
            self.result = result
            return
        self.proceeds = True
        self.value = result.value
        self.context = result.context
