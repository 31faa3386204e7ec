"""The variables of a command: every value that each may have where it is read.

A variable has one known value, or a few, only where the same text has set it on every way to that
place: not in a branch, after ``||``, in a subshell or for one program. Elsewhere it may also have
the value that the command inherits; if it inherits none, or the shell provides it, it is unknown.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import NamedTuple

__all__ = ["MOST", "NUMBER", "UNKNOWN", "Variables"]

UNKNOWN = "\ufffc"
"""In words: a text that is only known when the command runs."""
NUMBER = "\ufffb"
"""In words: a number that is only known when the command runs."""

MOST = 64
"""Most ways to read a word, and most values of a variable, before it counts as unknown."""

_NUMBERS = frozenset("# ? $ ! RANDOM SRANDOM SECONDS LINENO BASHPID PPID UID EUID SHLVL".split())
_MADE_UP = re.compile(r"[\W\d].*|_|BASH_\w+|DIRSTACK|FUNCNAME|OPT(?:ARG|IND)|PIPESTATUS|REPLY")
_SLICE = re.compile(r":\s*(0|[1-9]\d{0,3})(?::\s*(0|[1-9]\d{0,3}))?")


class _Block(NamedTuple):
    names: set[str]  # that are certainly set in it
    kind: str  # "&&", "||", or empty


class Variables:
    """What a text sets and inherits."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._blocks: list[_Block] = []
        self._certain = Counter[str]()  # in how many blocks a name is certainly set
        self._floor = 0

    def enter(self) -> int:
        """Begin a text or a subshell; return what `leave` needs."""
        before, self._floor = self._floor, len(self._blocks) + 1
        self._blocks.append(_Block(set(), ""))
        return before

    def leave(self, before: int) -> None:
        """End what `enter` began: what it set may not be set."""
        self._drop(self._floor - 1)
        self._floor = before

    def _drop(self, first: int) -> None:
        for block in self._blocks[first:]:
            self._certain.subtract(block.names)
        del self._blocks[first:]

    def begin(self, kind: str = "") -> None:
        """Begin a block that may not run: of a compound command, or after ``&&`` or ``||``."""
        if not kind or kind != self._blocks[-1].kind:
            self._blocks.append(_Block(set(), kind))

    def end_chain(self) -> None:
        """End the blocks after ``&&`` or ``||``."""
        while self._blocks[-1].kind:
            self._drop(-1)

    def end(self) -> None:
        """End the last block of a compound command: what it set may not be set."""
        self.end_chain()
        if len(self._blocks) > self._floor:
            self._drop(-1)

    def keep(self, names: set[str]) -> None:
        """Treat names as set on every way that continues from here."""
        if self._blocks[-1].kind != "||":
            new = names - self._blocks[-1].names
            self._blocks[-1].names.update(new)
            self._certain.update(new)

    def doubt(self) -> None:
        """Treat nothing as set that was set in this text."""
        for block in self._blocks[self._floor - 1 :]:
            self._certain.subtract(block.names)
            block.names.clear()

    def assign(self, name: str, *values: str) -> None:
        """Add values that a variable may have from here on."""
        known = self._values.setdefault(name, [])
        for value in values:
            if value not in known and len(known) <= MOST:
                known.append(value if len(known) < MOST else UNKNOWN)

    def sizes(self) -> dict[str, int]:
        """Return how many values each set name has."""
        return {name: len(values) for name, values in self._values.items()}

    def widen(self, sizes: dict[str, int]) -> None:
        """Make names with more values than before unknown: each turn of a loop may add one."""
        for name, values in self._values.items():
            if len(values) > sizes.get(name, 0):
                self.assign(name, UNKNOWN)

    def is_set(self, name: str) -> bool:
        """Return whether a name has a value, by the text or before it."""
        return self.is_assigned(name) or _inherited(name, "") != ""

    def is_assigned(self, name: str) -> bool:
        """Return whether the text gives a name a value."""
        return name in self._values

    def values(self, name: str) -> list[str]:
        """Return all values a variable may have; ``.`` for the current folder, whichever it is."""
        if name in _NUMBERS:
            return [NUMBER]
        if _MADE_UP.fullmatch(name):
            return [UNKNOWN]
        if name == "IFS" and not self.is_assigned(name):  # not inherited
            return [" "]
        found = list(self._values.get(name, ()))
        if name == "PWD":  # every shell sets it
            found += [".", _inherited(name, ".")]
        elif not self._certain[name]:
            found.append(_inherited(name, UNKNOWN))
        return list(dict.fromkeys(found))

    def sliced(self, name: str, part: str) -> list[str]:
        """Return the values of ``${name:1:2}``."""
        found = _SLICE.fullmatch(part)
        if found is None or name in {"PWD", "OLDPWD"}:
            return [UNKNOWN]
        start, end = int(found[1]), None if found[2] is None else int(found[1]) + int(found[2])
        values = self.values(name)
        if any(sign in value for value in values for sign in (UNKNOWN, NUMBER)):
            return [UNKNOWN]
        return [value[start:end] for value in values]


def _inherited(name: str, otherwise: str) -> str:
    """Return a variable as the command inherits it."""
    text = f"${{{name}}}"
    value = os.path.expandvars(text)
    return otherwise if value == text else value
