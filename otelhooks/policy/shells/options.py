"""Takes the arguments of a program apart, as its entry in the table says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.table import Entry, Value

__all__ = [
    "COMMIT",
    "FOUND",
    "GLOBS",
    "NUMBER",
    "PIPE",
    "TOP",
    "UNKNOWN",
    "Argument",
    "Reading",
    "read",
]

UNKNOWN = "\ue000"
"""What is only known when the command runs."""
PIPE = "\ue001"
"""The file that `<(...)` is."""
FOUND = "\ue002"
"""A path that `find` prints; what it can be was judged with `find`."""
TOP = "\ue006"
"""The top of the repository that git works in."""
NUMBER = "\ue007"
"""A number that is only known when the command runs, or none: `$?`, `$(wc -l < x)`."""
COMMIT = "\ue008"
"""The hash of a commit, or nothing, as a whole word in quotes: `"$(git rev-parse HEAD)"`."""
GLOBS = {"*": "\ue003", "?": "\ue004"}
"""Signs of patterns for names, where they are not in quotes."""

_OPEN = frozenset((UNKNOWN, COMMIT, *GLOBS.values()))
_BEHIND_NUMBER = re.compile(f"{NUMBER}+-")
_LIKE_OPTION = re.compile(r"-(?![0-9]*$)")
_ANY_VALUE = frozenset("-e --regexp -m --message -name -iname".split())
"""Options whose value is the next word in all programs that have them, whatever it is."""
_NUMBERS = frozenset(("number", "word"))
"""Kinds of values that may be a number: the command is judged without the next word too."""
_COUNTED = ([("test", "*")], [("number", "+")], [("number", "*")], [("target", "*")])
"""Operands that mean the same whichever of them is missing."""


class Argument(NamedTuple):
    """A word of a command, in which signs of this module mark what is not known.

    Attributes:
        text: The word.
        splits: Whether what is not known may make it several words, or none.
        many: Whether it may be several words, for that reason or as a pattern.
    """

    text: str
    splits: bool = False
    many: bool = False


class Reading(NamedTuple):
    """The arguments of a command.

    Attributes:
        name: The program, with subcommands.
        entries: Its entry, and those of its subcommands.
        options: Its options.
        operands: Kind and text of each operand.
        given: The same, and those of the values of options.
        args: All of them, as they are.
        taken: Words that an option takes for its value if the number in front of them is nothing
            when the command runs, counted from the end.
    """

    name: str
    entries: list[Entry]
    options: set[str]
    operands: list[tuple[str, Argument]]
    given: list[tuple[str, Argument]]
    args: Sequence[Argument] = ()
    taken: Sequence[int] = ()


def read(name: str, entry: Entry, args: Sequence[Argument]) -> Reading:
    """Return what arguments are.

    Raises:
        Refused: One is not on the list.
    """
    reader = _Reader(name, entry, args)
    return reader.whole()


class _Reader:
    def __init__(self, name: str, entry: Entry, args: Sequence[Argument], depth: int = 0) -> None:
        self.name = name
        self.entry = entry
        self.args = list(args)
        self.at = 0
        self.depth = depth
        self.options: set[str] = set()
        self.operands: list[Argument] = []
        self.given: list[tuple[str, Argument]] = []
        self.taken: list[int] = []

    def _refuse(self, why: str) -> Refused:
        return Refused("program", f"{why} is not on the list for `{self.name}`")

    def whole(self) -> Reading:
        entry = self.entry
        if entry.free:
            operands = [("any", each) for each in self.args]
            if any(each.many for _, each in operands):
                raise self._refuse("an argument that may be several words")
            return Reading(self.name, [entry], set(), operands, operands)
        if entry.required and all(each.text == "--" for each in self.args):
            raise self._refuse("a call without arguments")
        self._words()
        if entry.subcommands:
            return self._subcommand()
        if entry.needs and entry.needs.isdisjoint(self.options):
            raise self._refuse("a call without one of its options")
        operands = self._used(list(self._kinds()))
        longer = [
            (kind, Argument(value.text + end))
            for kind, value in operands
            for end in entry.suffixes
            if kind != "any"
        ]
        given = self.given + operands + longer
        return Reading(self.name, [entry], self.options, operands, given, taken=self.taken)

    def _used(self, operands: list[tuple[str, Argument]]) -> list[tuple[str, Argument]]:
        """Return operands with what options make of them, and the directory that is not named."""
        entry, here = self.entry, self.entry.here
        if not entry.trees.isdisjoint(self.options):
            here = "tree"
            operands = [(here if kind in {"read", entry.here} else kind, v) for kind, v in operands]
        if not entry.edits.isdisjoint(self.options):
            operands = [("write" if kind == "read" else kind, value) for kind, value in operands]
        if here and not any(kind == here for kind, _ in operands):
            is_whole = self.name.startswith("git ") and here in {"tracked", "tree"}
            operands.append((here, Argument(TOP if is_whole else ".")))
        return operands

    def _words(self) -> None:
        """Sort options and operands."""
        entry, only_operands = self.entry, False
        while self.at < len(self.args):
            arg = self.args[self.at]
            if only_operands or arg.text == "-" or not self._is_option(arg):
                if entry.subcommands:
                    return
                only_operands = only_operands or entry.stops
                self.operands.append(arg)
                self.at += 1
                continue
            self.at += 1
            if arg.text == "--" and entry.style == "getopt":
                only_operands = True
            elif arg.many:
                raise self._refuse(f"`{arg.text}`, an option that is only known when it runs,")
            else:
                self._option(arg.text)

    def _is_option(self, arg: Argument) -> bool:
        is_open = arg.text[:1] in _OPEN or _BEHIND_NUMBER.match(arg.text)
        if is_open and arg.text != COMMIT and not self.entry.harmless:
            raise self._refuse(f"`{arg.text}`, which could be an option (write `--` or `./*`),")
        return arg.text.startswith("-")

    def _option(self, text: str) -> None:
        entry = self.entry
        if any(form.fullmatch(text) for form in entry.words):
            return
        name, equals, rest = text.partition("=")
        if entry.style == "word" or text.startswith("--"):
            self.options.add(name)
            if not equals and name in entry.flags:
                return
            value = entry.values.get(name)
            if value is None:
                self._glued(text)
            else:
                self._value(name, value, rest if equals else None)
            return
        for index, letter in enumerate(text[1:], 2):
            self.options.add(f"-{letter}")
            value = entry.values.get(f"-{letter}")
            if value is not None:
                self._value(f"-{letter}", value, text[index:] or None)
                return
            if f"-{letter}" not in entry.flags:
                raise self._refuse(f"option `-{letter}`")

    def _glued(self, text: str) -> None:
        """Read an option such as ``-Ifolder``."""
        value = self.entry.values.get(text[:2])
        if value is None or value.how != "+" or len(text) < 3:
            raise self._refuse(f"option `{text}`")
        self._value(text[:2], value, text[2:])

    def _value(self, option: str, value: Value, rest: str | None) -> None:
        if rest is not None and value.how == "!":
            raise self._refuse(f"`{rest}` in the word of an option")
        if (
            rest is not None
            and not rest.strip(UNKNOWN + NUMBER)
            and len(option) == 2
            and value.how != "?"
            and self.at < len(self.args)
        ):
            if value.kind not in _NUMBERS or rest.strip(NUMBER):
                raise self._refuse(f"`{option}{rest}`, maybe without its value (write two words),")
            self._may_take(value)
        if rest is not None:
            self.given.append((value.kind, Argument(rest)))
        elif value.how != "?":
            if self.at == len(self.args) or not self._is_one(self.args[self.at], value):
                raise self._refuse("an option without a value, or with several")
            text = self.args[self.at].text
            if _LIKE_OPTION.match(text.lstrip(NUMBER)) and option not in _ANY_VALUE:
                raise self._refuse(f"an option behind `{option}`, which may take no value,")
            if text.startswith("@") and value.kind != "text":
                raise self._refuse(f"`{text}`, which may be a file of options,")
            self.given.append((value.kind, self.args[self.at]))
            if self.args[self.at].many:
                self._may_take(value, 1)
            is_getopt = self.entry.style == "getopt" and not self.depth
            if value.kind == "text" and self.operands and is_getopt:
                # Where options end at the first operand, as in BSD, this is one more operand.
                self.given.append(("any", self.args[self.at]))
            self.at += 1
        if value.kind == "pair":
            if any(each.many for each in self.args[self.at : self.at + 1]):
                raise self._refuse("a value that may be several words")
            self.at += 1
        if value.kind == "module":
            self.given += [("module", each) for each in self.args[self.at :]]
            self.at = len(self.args)

    def _is_one(self, arg: Argument, value: Value) -> bool:
        """Return whether a word is one, or a number that may be none where that does no harm."""
        return not arg.many or (value.kind in _NUMBERS and not arg.text.strip(NUMBER))

    def _may_take(self, value: Value, behind: int = 0) -> None:
        """Note that an option takes the next word, if the number that it has is nothing."""
        for arg in self.args[self.at + behind :][:1]:
            self.taken.append(len(self.args) - self.at - behind)
            if value.kind != "number":  # what is not a number is an error, or does nothing
                self.given.append((value.kind, arg))

    def _subcommand(self) -> Reading:
        word = self.args[self.at].text if self.at < len(self.args) else ""
        entry = self.entry.subcommands.get(word) or self.entry.subcommands.get("*")
        if entry is None:
            raise self._refuse(f"subcommand `{word}`" if word else "a call without a subcommand")
        rest = self.args[self.at + (word in self.entry.subcommands and word != "") :]
        below = _Reader(f"{self.name} {word}".strip(), entry, rest, self.depth + 1)
        found = below.whole()
        return found._replace(
            entries=[self.entry, *found.entries],
            given=[*self.given, *found.given],
            taken=[*self.taken, *found.taken],
        )

    def _kinds(self) -> Iterator[tuple[str, Argument]]:
        """Yield operands with their kinds: from the left, from the right, and what repeats."""
        kinds = list(self.entry.operands)
        if not self.entry.unless.isdisjoint(self.options):
            kinds = kinds[1:]
        operands = self.operands
        left = next((i for i, (_, how) in enumerate(kinds) if how), len(kinds))
        how = kinds[left][1] if left < len(kinds) else ""
        right = 0 if how in {"", "?"} else len(kinds) - left - 1
        if len(operands) < left + right + (how == "+"):
            raise self._refuse("a call with so few arguments")
        is_counted = kinds in _COUNTED
        splitting = next(
            (e.text for e in operands if e.splits and (e.text.strip(NUMBER) or not is_counted)),
            None,
        )
        if splitting is not None and not (self.entry.harmless and kinds == [("text", "*")]):
            raise self._refuse(f"`{splitting}`, maybe several words (put it in quotes),")
        for index, arg in enumerate(operands):
            from_end = len(operands) - index
            if how in {"*", "+"} and left <= index and from_end > right:
                yield kinds[left][0], arg
                continue
            place = len(kinds) - from_end if how in {"*", "+"} and index >= left else index
            if place >= len(kinds):
                raise self._refuse(f"argument `{arg.text}`")
            if arg.many:
                raise self._refuse(f"the pattern `{arg.text}` (write `./*`, or put it in quotes)")
            yield kinds[place][0], arg
