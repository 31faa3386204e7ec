"""One passage through a seat: the class is the adapter's, the object lives as long as the call.

`Guarded` is the kit's `Seat.guard`: it examines the function that is found, reports what is wrong
with class or function, and creates the wrapper for its kind. An invalid class is refused when its
seat is written; a class that does not fit the real function is refused with the whole package when
it is patched. A `read` that fails for one call denies that call, unless nothing decides at all.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from opentelemetry.context import Context, attach, detach

from otelhooks.errors import ConfigError, Denied, SeatError
from otelhooks.frameworks.kit.objects.functions import (
    ASYNC_CONTEXT,
    ASYNC_GENERATOR,
    COROUTINE,
    EITHER,
    GENERATOR,
    KINDS,
    PLAIN,
    checked,
    kind_of,
    mismatch,
    renaming,
)
from otelhooks.frameworks.kit.objects.mistakes import (
    clash,
    missing,
    mistake,
    place,
)
from otelhooks.frameworks.kit.objects.standins import stand_in
from otelhooks.frameworks.kit.streams import delivery
from otelhooks.frameworks.kit.streams.contexts import noted, opened
from otelhooks.hooks.chain import CHECK_FAILED
from otelhooks.hooks.verdict import refusal
from otelhooks.patching.seats import GUARD, PASS, Switch, Wrapper
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Operation, adrive, drive
from otelhooks.pipeline.frames import current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.streams import astream, stream
from otelhooks.records.failures import WrongAnswer, outline

__all__ = ["SKIP", "Guarded", "Listening", "Passage"]

SKIP: Any = object()
"""Returned by `read` for a call that its class ignores: the seat's next class reads the call.

After the last one ``function`` runs unchanged.
"""

_STREAMS = {GENERATOR: stream, ASYNC_GENERATOR: astream, ASYNC_CONTEXT: opened}
_DELIVERIES = {
    PLAIN: delivery.result,
    COROUTINE: delivery.aresult,
    EITHER: delivery.aresult,
    GENERATOR: delivery.items,
    ASYNC_GENERATOR: delivery.aitems,
}

_log = logging.getLogger("otelhooks")


class Passage:
    """What all kinds of passages share; adapters subclass those.

    Attributes:
        framework: Adapter's name; by default the package's name under ``otelhooks.frameworks``.
        function: The framework's bound function; `read` may set what runs instead if it skips.
        is_over: Set by `deliver` if nothing comes after an item: the call ends before the consumer
            gets that one.
        stream: Whether a model call's function returns a stream; set before `read`.
        is_unsupported: Whether the package is refused: `read` only tells which calls are meant.
        serves_others: Whether the function also serves others, whose calls a refused package lets
            through: those that `read` skips.
        items: Method that gives the items of the value of the framework's context manager.
        must: Methods that an adapter's class must write.
        words: Names that adapters may define or set; all others here are the kit's.
    """

    framework: ClassVar[str] = ""
    function: Any
    stream: bool
    is_over = False
    is_unsupported = False
    serves_others: ClassVar[bool] = False
    items: ClassVar[str] = ""
    context: Context | None = None
    must: ClassVar[tuple[str, ...]] = ("read", "call")
    words: ClassVar[str] = (
        "framework function read call whole told holds items late deliver delivered is_over "
        "refused is_result stream"
    )

    def __init_subclass__(cls) -> None:
        _, _, rest = cls.__module__.partition("otelhooks.frameworks.")
        package = rest.partition(".")[0]
        if package != "kit":
            cls.framework = cls.framework or package
            if found := clash(cls):
                raise mistake(cls, f" {found[0]}", found[1])

    # -- what an adapter writes ---------------------------------------------------------------

    def read(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Read a call of the framework's function; the signature is that function's own.

        Args:
            owner: The object or class whose method it is; None for a function.
            *args: Positional arguments of the function.
            **kwargs: Keyword arguments of the function.

        Returns:
            None, or `SKIP`.
        """
        raise NotImplementedError

    def whole(self, seen: Any) -> Any:
        """Return the result of a stream that was read.

        Args:
            seen: All items of a generator, or the value of the framework's context manager.
        """
        raise NotImplementedError

    def told(self, result: Any) -> Any:
        """Return a result that hooks made in the consumer's form: items, or a stream."""
        raise NotImplementedError

    def is_result(self, item: Any) -> bool:
        """Return whether an item of a generator may be its result, which waits for the verdict."""
        return False

    def holds(self) -> bool:
        """Return whether a stream's consumer gets its items only when the whole is decided.

        By default, if hooks may change the result. A function that streams in form only can always
        wait; the consumer of an endless stream cannot.
        """
        return self.holds_back

    def late(self, result: Any) -> None:
        """Set a result that hooks made after the consumer had seen the framework's."""

    def deliver(self, item: Any) -> Any:
        """Return a list of what the consumer gets for a result (one), or for an item of a stream.

        A generator function may yield awaitables if the framework's function is asynchronous; each
        yield returns the value.
        """
        raise NotImplementedError

    def delivered(self) -> Any:
        """Do the rest when the consumer has got everything; as `deliver`."""

    @classmethod
    def option(cls, name: str) -> str:
        """Return the application's value for one of the adapter's ``options``."""
        rt = runtime.active()
        return rt.option(cls.framework, name) if rt is not None else ""

    # -- what an adapter uses -----------------------------------------------------------------

    @property
    def is_async(self) -> bool:
        """Whether the framework's function is a coroutine function, or an asynchronous stream."""
        return kind_of(self.function) not in (PLAIN, GENERATOR)

    def runs_in(self, context: Context | None) -> None:
        """Run a coroutine function in another context than its caller's; None for the caller's."""
        self.context = context

    def exception(self, reason: str) -> Exception:
        """Return the exception for a refusal if the framework has no form for one."""
        of: Any = getattr(self, "op", None) or self
        return refusal(reason, getattr(of, "verdict", None))

    stand_in = staticmethod(stand_in)

    # -- what the kit makes of it -------------------------------------------------------------

    @classmethod
    def needs(cls, kind: str) -> tuple[str, ...]:
        """Return the methods that a class must write for functions of a kind of streams."""
        return ("whole", "told")

    def driver(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return the driver for a stream's operation: a function of operation and body."""
        self.stream = True
        shared: Any = {
            "final": self.whole,
            "chunks": self.told,
            "holds_back": self.holds,
        }
        if run is opened:
            return functools.partial(run, **shared, on_first=self.watch, late=self.late)
        return functools.partial(
            run, **shared, on_first=self.note_first_chunk, waits=self.is_result
        )

    holds_back: bool

    def watch(self, stream: Any) -> None:
        """Note the items of what the framework's context manager returned."""
        if self.items:
            noted(stream, self.items, self.note_first_chunk)

    def steps(self, rt: Runtime) -> Operation:
        """Return the operation of this passage.

        Raises:
            Exception: `read` did not set what is needed.
        """
        raise NotImplementedError

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        """Call the framework's function with what was approved."""
        raise NotImplementedError

    def refused(self, error: Exception) -> Any:
        """Answer a call of a refused package; raise if there is no form for that."""
        raise error

    def note_first_chunk(self) -> Callable[[], None] | None:
        """Note when the first item of a stream came; return what notes the others, if anything."""
        return None

    async def inside(
        self, run: Callable[..., Any], operation: Operation, body: Callable[[Any], Any]
    ) -> Any:
        """Drive the operation in `context`, which is not its caller's."""
        token = attach(self.context or Context())
        try:
            return await run(operation, body)
        finally:
            detach(token)

    def unread(self, rt: Runtime, error: Exception) -> Operation:
        """Return the operation of a passage that could not be read, if anything decides."""
        raise Denied(CHECK_FAILED) from error
        yield

    @classmethod
    def through(
        cls, kind: str, function: Callable[..., Any], owner: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function through this class, from a stand-in for an object of the framework.

        Args:
            kind: One of `KINDS`.
            function: The framework's bound function.
            owner: First argument of `read`.
            *args: Further arguments of `read`, and of the function by `call`.
            **kwargs: Keyword arguments of both.
        """
        return cls.wrapper(kind, function)(function, owner, args, kwargs)

    @classmethod
    def wrapper(cls, kind: str, function: Callable[..., Any]) -> Wrapper:
        """Return what calls functions of a kind through this class; one of them is given."""
        found = _THROUGH.get((cls, kind))
        if found is None:
            found = _THROUGH[cls, kind] = Guarded(cls, "", kind).bind(function, _ON)
        return found


_THROUGH: dict[tuple[type[Passage], str], Wrapper] = {}
_ON = Switch(lambda: SeatError("", "", "", "", ""))  # its mode never changes
_ON.mode = GUARD


class Guarded:
    """How a seat treats the functions that it is found at.

    Args:
        cls: The adapter's class.
        target: Module and name of the function.
        kind: Required kind; empty for any.
        in_field: Whether instances hold the function in a field.
        others: Classes for calls that this one skips, tried in order.

    Raises:
        ConfigError: The class is invalid.
    """

    def __init__(
        self,
        cls: type[Passage],
        target: str,
        kind: str = "",
        *,
        in_field: bool = False,
        others: Sequence[type[Passage]] = (),
    ) -> None:
        self.cls, self.target, self.kind, self.in_field = cls, target, kind, in_field
        self.next: Guarded | None = None
        if others:
            further = others[1:]
            self.next = Guarded(others[0], target, kind, in_field=in_field, others=further)
        given: Any = cls
        if not (inspect.isclass(given) and issubclass(given, Passage)):
            problem = f"{cls!r} is not a class of `kit.ToolCall`, `kit.ModelCall` or `kit.Run`"
            raise ConfigError(f"the seat of `{target}`: {problem}", hint="give a class, no object")
        if kind and kind not in KINDS:
            raise self._error(f"`{kind}` is not a kind of function", f"use one of {KINDS}")
        if found := missing(cls, cls.must):
            raise self._error(f"it {found[0]}", found[1])
        for name in cls.must:
            if inspect.iscoroutinefunction(getattr(cls, name)) and name != "call":
                raise self._error(f"`{name}` is a coroutine function", "make it a plain one")
        if not cls.framework:
            hint = "write `framework = ...` into the class, or into one that it derives from"
            raise self._error("it does not name its framework", hint)

    def _error(self, problem: str, hint: str) -> ConfigError:
        return mistake(self.cls, f", for `{self.target}`: {problem}", hint)

    def problem(self, function: Any) -> str:
        """Return why calls of a function cannot be guarded; empty if they can."""
        kind = kind_of(function)
        if self.kind and kind != self.kind and kind != PLAIN:
            hint = f"write `kind={kind!r}` in its seat, and what that needs"
            return str(
                self._error(f"written for a function of kind {self.kind}, it is {kind}", hint)
            )
        if (self.kind or kind) in _STREAMS:
            if found := missing(self.cls, self.cls.needs(self.kind or kind)):
                return str(
                    self._error(f"the function is of kind {kind}, and it {found[0]}", found[1])
                )
        if wrong := mismatch(self.cls.read, function):
            return str(self._error(wrong, "give `read` the parameters of the function"))
        return self.next.problem(function) if self.next is not None else ""

    def bind(self, function: Any, switch: Switch) -> Wrapper:
        """Return the wrapper of a function, which reads the switch first."""
        cls, kind = self.cls, self.kind or kind_of(function)
        drives = {PLAIN: _drive_plain, COROUTINE: adrive, EITHER: _drive_either}.get(kind)
        deliver = _DELIVERIES.get(kind) if cls.deliver is not Passage.deliver else None
        read = renaming(cls.read, function) if self.target else cls.read
        skipped = self.next.bind(function, switch) if self.next is not None else None

        check = switch.check

        def call(wrapped: Any, owner: Any, args: Any, kwargs: Any) -> Any:
            check()
            if switch.mode != GUARD:
                return self._off(kind, switch, wrapped, owner, args, kwargs)
            rt = runtime.active()
            if rt is None:
                return wrapped(*args, **kwargs)
            passage = cls()
            passage.function = wrapped
            run = drives or passage.driver(_STREAMS[kind])
            if deliver is not None:
                run = functools.partial(deliver, passage, run)
            try:
                found = read(passage, owner, *args, **kwargs)
                operation = passage.steps(rt) if found is None else None
            except Exception as error:
                return self._unread(rt, run, passage, error, wrapped, args, kwargs)
            if operation is not None:
                if passage.context is not None:
                    run = functools.partial(passage.inside, run)
                return run(operation, functools.partial(passage.run, wrapped))
            if found is SKIP:
                if skipped is not None:
                    return skipped(passage.function, owner, args, kwargs)
                return passage.function(*args, **kwargs)
            error = WrongAnswer(f"`read` returned {type(found).__name__}, not None or kit.SKIP")
            return self._unread(rt, run, passage, error, wrapped, args, kwargs)

        return call

    def _unread(
        self,
        rt: Runtime,
        run: Callable[..., Any],
        passage: Passage,
        error: Exception,
        wrapped: Any,
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Deny a call that could not be read; let it run if nothing decides.

        Raises:
            TypeError: The function itself does not take these arguments, or it is one in a field
                and called in a way that its framework never uses.
        """
        wanted = len(inspect.signature(self.cls.read).parameters) - 2
        if self.in_field and len(args) != wanted:
            problem = f"takes {wanted} arguments by position here, not {len(args)}"
            raise TypeError(f"a tool's function {problem}") from None
        inspect.signature(wrapped).bind(*args, **kwargs)
        message = "%s: `read` failed for a call of `%s`: %s"
        _log.error(message, place(self.cls), self.target, outline(error))
        scope, loaded = current_scope(), rt.loaded
        decides = loaded.hooks.all or loaded.judges or (scope is not None and scope.widens)
        if loaded.monitor or not (decides or rt.audit is not None):
            return wrapped(*args, **kwargs)
        return run(passage.unread(rt, error), _never)

    def _off(
        self, kind: str, switch: Switch, wrapped: Any, owner: Any, args: Any, kwargs: Any
    ) -> Any:
        """Pass through, or answer in the framework's own form if the package is refused."""
        if switch.mode == PASS:
            return wrapped(*args, **kwargs)
        error, passage = switch.error(), self.cls()
        passage.function, passage.is_unsupported = wrapped, True
        try:
            found = passage.read(owner, *args, **kwargs)
        except Exception:
            raise error from None
        if found is SKIP and self.next is not None:
            return self.next._off(kind, switch, wrapped, owner, args, kwargs)
        if found is SKIP and self.cls.serves_others:
            return wrapped(*args, **kwargs)
        if kind in _STREAMS:
            raise error
        answer = passage.refused(error)
        return _given(answer) if kind == COROUTINE else answer


async def _given(value: Any) -> Any:
    return value


def _drive_plain(operation: Operation, body: Callable[[Any], Any]) -> Any:
    return drive(operation, lambda approved: checked(body(approved)))


def _drive_either(operation: Operation, body: Callable[[Any], Any]) -> Any:
    async def awaited(approved: Any) -> Any:
        value = body(approved)
        return await value if inspect.isawaitable(value) else value

    return adrive(operation, awaited)


class Listening:
    """A seat with a function of the adapter that observes.

    Args:
        function: The adapter's function; see `adapter.listen`.
        watches: Whether a call first looks after the other seats of its package.
    """

    def __init__(self, function: Callable[..., Any], *, watches: bool) -> None:
        self._function, self._watches = function, watches

    def problem(self, function: Any) -> str:
        """Return how the parameters differ from the function's; empty if they match."""
        wrong, ours = mismatch(self._function, function), self._function
        return f"{ours.__module__}.{ours.__qualname__}: {wrong}" if wrong else ""

    def bind(self, function: Any, switch: Switch) -> Wrapper:
        """Return the wrapper of a function, which reads the switch first."""
        listen, watches = self._function, self._watches

        def call(wrapped: Any, owner: Any, args: Any, kwargs: Any) -> Any:
            if watches:
                switch.check()
            if switch.mode == GUARD:
                return listen(wrapped, owner, *args, **kwargs)
            if switch.mode == PASS:
                return wrapped(*args, **kwargs)
            raise switch.error()

        return call


def _never(approved: Any) -> Any:
    raise AssertionError("a call that could not be read was let through")
