"""Calls of tools that take arguments as Python functions do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from otelhooks.frameworks.kit.tools import ToolCall

__all__ = ["PositionalCall"]


class PositionalCall(ToolCall):
    """A call with arguments by position, by name, or both; rules see all of them by name."""

    must = ("read", "denied")
    _positional: Sequence[str] = ()

    def take_call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        given: Mapping[str, Any],
        hidden: Collection[str] = (),
    ) -> None:
        """Take the arguments; `call` passes them on as they came.

        Args:
            function: Names the arguments by position; further ones are ``argument_0`` and so on.
            args: Arguments by position.
            given: Arguments by name.
            hidden: Names of those that the framework fills in, and rules do not see.
        """
        names = [*inspect.signature(function).parameters]
        names += [f"argument_{at}" for at in range(len(args))]
        self._positional = names[: len(args)]
        self.take({**dict(zip(self._positional, args, strict=True)), **given}, hidden)

    def call(self, wrapped: Callable[..., Any], args: Any) -> Any:
        if not args.keys() >= set(self._positional):
            return wrapped(**args)  # a hook took one away
        given = [args[name] for name in self._positional]
        rest = {name: value for name, value in args.items() if name not in self._positional}
        return wrapped(*given, **rest)
