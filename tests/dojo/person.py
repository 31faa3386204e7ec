"""Who is asked: a user who knows what their task needs, and reads each question."""

from __future__ import annotations

from typing import Any

from otelhooks import types

Wanted = tuple[str, dict[str, Any]]


class Person:
    """Approves the calls that the user's task needs, and refuses all others.

    What counts is the call, not who makes it. Each is approved as often as the task makes it.

    Attributes:
        asked: Number of questions so far.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._needed: list[Wanted] = []

    def needs(self, calls: list[Wanted]) -> None:
        """Begin a task that makes these calls, given as tool and arguments, defaults included."""
        self._needed = list(calls)

    def __call__(self, call: types.ToolCall) -> bool:
        """Answer a question."""
        self.asked += 1
        wanted = (call.name, call.args)
        if wanted not in self._needed:
            return False
        self._needed.remove(wanted)
        return True
