"""Functions as tools: `@tool`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints, overload

from otelhooks import types
from otelhooks._decorators.functions import F, Opened, wrap
from otelhooks.hooks.calls import Call
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._frames import Session, current_frame
from otelhooks.instrumentation._runtime import Runtime
from otelhooks.instrumentation._script_host import TOOLS
from otelhooks.instrumentation._tool import tool as tool_operation
from otelhooks.instrumentation._tool_seat import ToolSeat

__all__ = ["tool"]


class _FunctionTool(ToolSeat):
    framework = "otelhooks"


_SEAT = _FunctionTool()
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Parameters:
    """How a function's arguments become a rule's dict, and the approved dict arguments again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        try:
            hints = get_type_hints(function)
        except Exception:  # an annotation that cannot be resolved is no ToolContext
            hints = {}
        self.context = next(
            (name for name, hint in hints.items() if hint is types.ToolContext), None
        )
        parameters = self.signature.parameters
        self.are_by_name: bool = self.context is None and all(
            p.kind in _BY_NAME for p in parameters.values()
        )
        self._names = frozenset(parameters) - {self.context}
        self._positional = tuple(n for n, p in parameters.items() if p.kind is _BY_NAME[0])
        self._defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        self._defaults.pop(self.context or "", None)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, defaults included, without the tool context.

        Raises:
            TypeError: They do not fit the signature.
        """
        if self.are_by_name and len(args) <= len(self._positional):
            # What `bind` does, for the common case, at a tenth of its cost.
            found = dict(zip(self._positional, args, strict=False))
            if len(found) == len(self._names) and not kwargs:
                return found
            found = {**self._defaults, **found}
            if not kwargs:
                if len(found) == len(self._names):
                    return found
            elif kwargs.keys().isdisjoint(self._positional[: len(args)]):
                found.update(kwargs)
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
        return found

    def write(self, args: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as the function takes them: positional ones, and by keyword.

        Raises:
            TypeError: A hook made arguments that the function has no parameter for.
        """
        unknown = args.keys() - self.signature.parameters.keys()
        if unknown:
            msg = f"unexpected argument `{min(unknown)}`"
            raise TypeError(msg)
        given = dict(args)
        if self.context is not None:
            given[self.context] = _tool_context()
        bound = inspect.BoundArguments(
            self.signature,
            {n: given[n] for n in self.signature.parameters if n in given},  # pyright: ignore[reportArgumentType]
        )
        return bound.args, bound.kwargs


def _tool_context() -> types.ToolContext:
    """Return the tools' state of the conversation that the code runs in."""
    frame = current_frame()
    rt = _runtime.active()
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
            `types.ToolContext` is filled with the conversation's tool state and not shown.
        name: Name that rules see; the function's own by default.
        server: Name of a server that the tool belongs to.

    Raises:
        Denied: From the decorated function, when policy refuses the call.

    Example:
        >>> import otelhooks
        >>> @otelhooks.tool
        ... def add(a: int, b: int) -> int:
        ...     return a + b
        >>> add(1, b=2)
        3
    """

    def decorate(function: F) -> F:
        parameters = _Parameters(function)
        called = name or function.__name__
        description = inspect.getdoc(function)

        def body(approved: dict[str, Any]) -> Any:
            if parameters.are_by_name:
                return function(**approved)
            positional, by_name = parameters.write(approved)
            return function(*positional, **by_name)

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
            arguments = parameters.read(args, kwargs)
            call = Call(called, arguments, server=server, description=description)
            return tool_operation(rt, _SEAT, call), body, call

        wrapped = TOOLS[called] = wrap(function, open_operation)
        return wrapped

    return decorate if function is None else decorate(function)
