"""Calls of tools that take arguments as Python functions do."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from otelhooks.frameworks.kit.tools import ToolCall

__all__ = ["PositionalCall"]


class PositionalCall(ToolCall):
    """A call with arguments by position, by name, or both; rules see all of them by name."""

    must = ("read", "denied")
    _positional: Sequence[str] = ()
    _rest: str | None = None

    def take_call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        given: Mapping[str, Any],
        hidden: Collection[str] = (),
    ) -> None:
        """Take the arguments; `call` passes them on as they came.

        Args:
            function: Names the arguments by position; those that it has no name for are a list,
                under the name of its own ``*args``.
            args: Arguments by position.
            given: Arguments by name.
            hidden: Names of those that the framework fills in, and rules do not see.

        Raises:
            TypeError: The list has the name of another argument.
        """
        names, rest = _positions(function)
        self._positional = [*itertools.takewhile(lambda one: one not in given, names[: len(args)])]
        more = args[len(self._positional) :]
        self._rest = rest if more else None
        if self._rest in given:
            raise TypeError(f"`{rest}` is the name of two arguments")
        by_name = {**dict(zip(self._positional, args, strict=False)), **given}
        self.take({**by_name, rest: [*more]} if more else by_name, hidden)

    def call(self, wrapped: Callable[..., Any], args: Any) -> Any:
        if not args.keys() >= set(self._positional):
            return wrapped(**args)  # a hook took one away
        named = dict(args)
        by_position = [named.pop(name) for name in self._positional]
        return wrapped(*by_position, *named.pop(self._rest, ()), **named)


def _positions(function: Callable[..., Any]) -> tuple[list[str], str]:
    """Return the names of arguments by position, and the name for a list of further ones.

    A function of `functools.wraps` has the parameters of what it wraps only where its own are
    `*args`: it may take others as well, so what does not fit these can still run.
    """
    own = inspect.signature(function, follow_wrapped=False).parameters.values()
    names = _by_position(own)
    rest = next((each.name for each in own if each.kind is each.VAR_POSITIONAL), "")
    if rest:
        names += _by_position(inspect.signature(function).parameters.values())[len(names) :]
    return names, rest or "args"


def _by_position(parameters: Iterable[inspect.Parameter]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds]
