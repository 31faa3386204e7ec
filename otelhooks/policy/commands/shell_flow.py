"""Which commands of a text certainly run, so that what they set is certainly set afterwards."""

from __future__ import annotations

import re

from otelhooks.policy.commands.shell_variables import UNKNOWN, Variables

__all__ = ["ASSIGNED", "DECLARING", "KEYWORDS", "Flow", "Words"]

ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\[.*?\])?(\+?)=(.*)", re.DOTALL)
"""A word that sets a variable: its name, an index, a plus, the value."""
DECLARING = frozenset("declare export local readonly typeset".split())
"""Programs that set variables."""

_OPENING = frozenset("elif else for if select then until while {".split())
_CLOSING = frozenset("done elif else fi then }".split())
KEYWORDS = (_OPENING | _CLOSING | {"do", "time"}) - {"for", "select"}
"""Words that a command may follow at once."""
_REPEATING = frozenset("for function select trap until while".split())
_UNCLEAR = frozenset("alias case coproc enable function".split())  # blocks in them are not read
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
_BEHIND = re.compile("(?<!&)&(?!&)")  # in the background
_SIGN = re.compile(r"&&|\|\||[;&()]|(?<![&|])\n")


class Words(list[str]):
    """The words of a simple command that is still being read; they are only added to.

    Attributes:
        leading: Those at its beginning that may be keywords: not quoted, not expanded.
        unknown: Those that have an unknown part.
    """

    __slots__ = ("_keywords", "_sets", "leading", "unknown")

    def __init__(self) -> None:
        self.leading: list[str] = []
        self.unknown: set[str] = set()
        self._keywords = 0  # how many of the first words are
        self._sets = 0  # the place after the keywords and what sets variables

    def only_sets(self) -> bool:
        """Return whether all that the command does so far is to set variables."""
        leading = self.leading
        while self._keywords < len(leading) and _is_before_command(leading[self._keywords]):
            self._keywords += 1
        self._sets = max(self._sets, self._keywords)
        while self._sets < len(self) and ASSIGNED.match(self[self._sets]):
            self._sets += 1
        return self._sets >= len(self) or self[self._keywords] in DECLARING


def _is_before_command(word: str) -> bool:
    return word in KEYWORDS or word == "!"


class Flow:
    """The way through one text.

    Args:
        variables: Variables that commands set.

    Attributes:
        repeats: Whether a part of the text may run more than once.
    """

    def __init__(self, variables: Variables) -> None:
        self.repeats: bool = False
        self._variables = variables
        self._is_clear = True
        self._before = ""  # the sign before the command

    def keep(self, names: set[str]) -> None:
        """Treat names as set on every way that continues from here."""
        if self._is_clear:
            self._variables.keep(names)

    def begin(self, words: Words, counted: set[str]) -> None:
        """Begin and end the compound commands whose keywords are at the beginning of a command.

        Args:
            words: Words of the command.
            counted: Names that ``for ((x=0;;))`` sets.
        """
        for place, word in enumerate(words.leading):
            self.repeats |= word in _REPEATING
            if word in _UNCLEAR and self._is_clear:
                self._is_clear = False
                self._variables.doubt()
            if word in _CLOSING:
                self._variables.end()
            if word in _OPENING:
                self._variables.begin()
            if word == "for" and words[place + 1 :]:
                name, *rest = words[place + 1 :]
                self._variables.assign(name, *(rest[1:] if rest[:1] == ["in"] else [UNKNOWN]))
                self.keep({name})
            elif word == "for":
                self.keep(counted)
            if not _is_before_command(word):
                break

    def end(self, names: set[str], sign: str) -> None:
        """End a command.

        Args:
            names: Names that it sets, if it does nothing else.
            sign: The sign after it, which determines whether the next one runs.
        """
        before, self._before = self._before, sign
        if not (_PIPE.search(before) or _PIPE.search(sign) or _BEHIND.search(sign)):
            self.keep(names)
        for each in _SIGN.findall(sign):
            if each in {"&&", "||"}:
                self._variables.begin(each)
            elif each == "(":
                self._variables.begin()
            elif each == ")":
                self._variables.end()
            else:
                self._variables.end_chain()
