"""A tool that notes what it was run with."""

from __future__ import annotations

import asyncio
from typing import Any

import otelhooks
from otelhooks.errors import Denied

__all__ = ["Tool"]


class Tool:
    """One tool, to be called and to be awaited.

    Attributes:
        ran: What it was run with, in order.
        t: The tool; it returns its argument.
        later: The same as a coroutine, which lets others run before it does.
    """

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @otelhooks.tool
        def t(x: Any = 1) -> Any:
            self.ran.append(x)
            return x

        @otelhooks.tool
        async def later(x: Any = 1) -> Any:
            await asyncio.sleep(0)
            self.ran.append(x)
            return x

        self.t, self.later = t, later

    def told(self, *args: Any) -> str:
        """Call it; return the message to the model."""
        try:
            return str(self.t(*args))
        except Denied as denied:
            return str(denied)

    def runs(self, *args: Any) -> bool:
        """Call it; return whether that was allowed."""
        try:
            self.t(*args)
        except Denied:
            return False
        return True
