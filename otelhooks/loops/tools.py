"""Functions as tools: `@tool`, and `call_tool` for those that a loop looks up by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints, overload

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.loops.decorated import F, Open, Opened, name_of, wrap
from otelhooks.pipeline import runtime
from otelhooks.pipeline.frames import current_frame
from otelhooks.pipeline.offered_tools import DECORATED
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.script_services import TOOLS
from otelhooks.pipeline.sessions import Session
from otelhooks.pipeline.tool_call import tool as tool_operation
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.plain_text import without_credentials

__all__ = ["call_tool", "tool"]

T = TypeVar("T")


class _FunctionTool(ToolSeat):
    framework = "otelhooks"


_SEAT = _FunctionTool()
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Parameters:
    """Converts a function's arguments to a rule's dict, and the approved dict to arguments.

    Args:
        function: The tool.
        has_owner: Whether its first parameter is the object or class that it is a method of.
    """

    def __init__(self, function: Callable[..., Any], has_owner: bool = False) -> None:
        try:
            signature = inspect.signature(function)
        except ValueError as error:
            name = getattr(function, "__name__", repr(function))
            raise TypeError(f"Python knows no parameters of `{name}`: wrap it in a def") from error
        own = list(signature.parameters.values())[has_owner:]
        self.signature = signature.replace(parameters=own)
        try:
            hints = get_type_hints(function)
        except Exception:  # an annotation that cannot be resolved is not ToolContext
            hints = {}
        self.context = next(
            (name for name, hint in hints.items() if hint is types.ToolContext), None
        )
        parameters = self.signature.parameters
        by_kind = {p.kind: name for name, p in parameters.items()}
        self._open = by_kind.get(inspect.Parameter.VAR_KEYWORD)  # of `**kwargs`
        self.are_by_name: bool = self.context is None and all(
            p.kind in _BY_NAME for p in parameters.values()
        )
        self._names = frozenset(parameters) - {self.context}
        self.takes: frozenset[str] | None = self._names if self._open is None else None
        self._positional = tuple(n for n, p in parameters.items() if p.kind is _BY_NAME[0])
        self._defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        self._defaults.pop(self.context or "", None)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, defaults included, without the tool context.

        Arguments in `**kwargs` are merged with the others, except those with the name of a
        parameter (a positional one, or that of ``*args`` or ``**kwargs``), which stay in a dict of
        their own.

        Raises:
            TypeError: They do not fit the signature.
        """
        if self.are_by_name and len(args) <= len(self._positional):
            # Like `bind`, for the common case, at a tenth of its cost.
            found = dict(zip(self._positional, args, strict=False))
            if not kwargs and len(found) == len(self._names):
                return found
            if kwargs.keys().isdisjoint(found):
                found.update(kwargs)
                if len(found) < len(self._names):
                    for name, default in self._defaults.items():
                        found.setdefault(name, default)  # what was given comes first
                if found.keys() == self._names:
                    return found
        given = dict(kwargs)
        if self.context is not None:
            given.setdefault(self.context, None)
        bound = self.signature.bind(*args, **given)
        bound.apply_defaults()
        found = dict(bound.arguments)
        if self.context is not None:
            found.pop(self.context, None)
        if self._open is not None:
            own = self.signature.parameters
            further: dict[str, Any] = found.pop(self._open, {})
            found.update((name, value) for name, value in further.items() if name not in own)
            if kept := {name: value for name, value in further.items() if name in own}:
                found[self._open] = kept
        return found

    def misread(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that do not fit the signature, by name if they have one."""
        return {**dict(zip(self._positional, args, strict=False)), **kwargs}

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name that a caller wrote, without defaults."""
        bound = self.signature.bind_partial(*args, **kwargs).arguments
        further: dict[str, Any] = bound.pop(self._open, {}) if self._open is not None else {}
        bound.pop(self.context or "", None)
        return {**bound, **further}

    def write(self, args: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as the function takes them: positional ones, and by keyword.

        Raises:
            TypeError: A hook added arguments that the function has no parameter for.
        """
        given = dict(args)
        unknown = args.keys() - self.signature.parameters.keys()
        if self._open is not None:
            kept: Any = given.get(self._open, {})
            given[self._open] = {**kept, **{name: given.pop(name) for name in unknown}}
        elif unknown:
            msg = f"unexpected argument `{min(unknown)}`"
            raise TypeError(msg)
        if self.context is not None:
            given[self.context] = _tool_context()
        bound = inspect.BoundArguments(
            self.signature,
            {n: given[n] for n in self.signature.parameters if n in given},  # pyright: ignore[reportArgumentType]
        )
        return bound.args, bound.kwargs


def _tool_context() -> types.ToolContext:
    """Return the tool state of the current conversation."""
    frame = current_frame()
    rt = runtime.active()
    session = frame.session if frame is not None else rt.outside if rt is not None else Session()
    with session.lock:
        if session.tool_state is None:
            session.tool_state = types.ToolContext(session.id)
        return session.tool_state


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    function: None = None, *, name: str | None = None, server: str | None = None
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, *, name: str | None = None, server: str | None = None
) -> F | Callable[[F], F]:
    """Put a function under the pipeline as a tool.

    Args:
        function: Its arguments, by name, are what rules see. A parameter annotated
            `types.ToolContext` gets the conversation's tool state and is not shown; nor is ``self``
            or ``cls`` of a method.
        name: Name that rules see; the function's own by default.
        server: Name of a server that the tool belongs to. If it is a URL, without user, password,
            query and fragment.

    Raises:
        Denied: From the decorated function, when policy refuses the call.
        TypeError: It is not a function, or has no name.

    Example:
        >>> import otelhooks
        >>> @otelhooks.tool
        ... def add(a: int, b: int) -> int:
        ...     return a + b
        >>> add(1, b=2)
        3
    """
    shown = _shown(server)

    def decorate(function: F) -> F:
        called = name or name_of(function, "tool")
        has_owner = _is_method(function)
        opens = _opens(function, called, None, shown, has_owner=has_owner)
        DECORATED[called, shown] = Call(called, server=shown)
        wrapped = TOOLS[called] = wrap(function, opens)
        return wrapped

    return decorate if function is None else decorate(function)


def _is_method(function: Callable[..., Any]) -> bool:
    """Return whether a function was written in a class, and takes its object or the class."""
    scope = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not scope or scope.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def call_tool(
    name: str,
    args: Mapping[str, Any],
    fn: Callable[..., T],
    *,
    id: str | None = None,
    server: str | None = None,
) -> T:
    """Run one call of a tool through the pipeline, for a loop that looks tools up by name.

    Without `otelhooks.instrument()` it is ``fn(**args)``.

    Args:
        name: Name of the tool, as the model knows it; what rules see.
        args: The model's arguments, by name; rules also see the defaults of `fn`.
        fn: Runs with what was approved. It must not be under `tool`, or it would be judged twice.
        id: The model's id of the call, which links its answer and its result.
        server: Name of a server that the tool belongs to.

    Returns:
        What `fn` returns; await it if `fn` is asynchronous.

    Raises:
        Denied: Policy refuses the call.
        TypeError: `args` is not a mapping, or does not fit `fn` although policy allows it.

    Example:
        >>> import otelhooks
        >>> otelhooks.call_tool("add", {"a": 1, "b": 2}, lambda a, b: a + b, id="call_7")
        3
    """
    given: Any = args
    if not isinstance(given, Mapping):
        msg = f"arguments of `{name}` are not a mapping: {type(given).__name__}"
        raise TypeError(f"{msg}\nhint: decode the model's text with `json.loads` first")
    called: Any = fn
    if inspect.iscoroutinefunction(type(called).__call__):
        called = called.__call__  # an object with an asynchronous method
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        called = _at_once(called)
    return wrap(called, _opens(called, name, id, _shown(server)))(**args)


def _shown(server: str | None) -> str | None:
    """Return a server's name as it may be on spans and in records."""
    return without_credentials(server) if server is not None and "://" in server else server


def _at_once(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function that makes a generator, so that its call is judged when it is made.

    That of a generator function is judged under the rules in force where its first item is read.
    """

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> T:
        return function(*args, **kwargs)

    return make


def _opens(
    function: Callable[..., Any],
    called: str,
    id: str | None,
    server: str | None,
    *,
    has_owner: bool = False,
) -> Open:
    """Return a function that opens the operation of a function's call."""
    parameters = _Parameters(function, has_owner)
    description = inspect.getdoc(function)

    def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
        owner, args = (args[:1], args[1:]) if has_owner else ((), args)
        misfit: TypeError | None = None
        try:
            arguments = parameters.read(args, kwargs)
        except TypeError as error:  # judged as it was asked for; the tool then fails
            misfit, arguments = error, parameters.misread(args, kwargs)
        call = Call(called, arguments, id, server, description=description)
        call.takes = parameters.takes

        def body(approved: dict[str, Any]) -> Any:
            if misfit is not None and (args or not call.version):
                raise misfit
            if parameters.are_by_name:
                return function(*owner, **approved)
            positional, by_name = parameters.write(approved)
            return function(*owner, *positional, **by_name)

        given = None
        if rt.answers is not None:
            given = arguments if misfit is not None else parameters.given(args, kwargs)
        return tool_operation(rt, _SEAT, call, given=given), body, call

    return open_operation
