"""Regular expressions in time that grows with the text only, and within a bound.

Patterns are Python's, read by its own parser, without what no automaton can do: references to
groups, looking around, and repeats that keep what they took. A pattern becomes an automaton whose
states are found while a text is read, so no pattern and no text makes it backtrack.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LIMIT_S", "Pattern"]

LIMIT_S: Final = 0.1
"""Longest match, in seconds of its thread."""

_MAX_NODES = 5_000
_MAX_PATTERN = 1_000
_MAX_STEPS = 20_000
"""How many steps of the automaton are remembered, before it is built anew."""

_CHECK_EVERY = 512
_IS_OLD = sys.version_info < (3, 11)
_sre: Any = importlib.import_module("sre_constants" if _IS_OLD else "re._constants")
_parse: Any = importlib.import_module("sre_parse" if _IS_OLD else "re._parser")

# What stands before a place, as far as assertions look.
_BEGIN, _WORD, _NEWLINE, _OTHER = range(4)
_LAST_NEWLINE = "\n$"
"""A line feed that ends the text: `$` holds before it."""
_END = ""


class Pattern:
    """A pattern that was read.

    Args:
        text: Python's syntax; flags as ``(?i)``.

    Raises:
        ValueError: It is no pattern, too large, or of a kind that is not known here.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = "re: the pattern is no text"
            raise TypeError(msg)
        if len(text) > _MAX_PATTERN:
            msg = f"re: the pattern is longer than {_MAX_PATTERN} characters"
            raise ValueError(msg)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = _parse.parse(text)
            self._program = _Program(tree)
        except (re.error, OverflowError, RecursionError) as error:
            msg = f"re: `{text}` is no pattern: {error}"
            raise ValueError(msg) from None
        self._from_start = _Automaton(self._program, anywhere=False)
        self._anywhere = _Automaton(self._program, anywhere=True)

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(text: str) -> Pattern:
        """Return the pattern of a text, read once."""
        return Pattern(text)

    def matches(self, text: str) -> bool:
        """Say whether the pattern fits the start of a text, as `re.match` does.

        Raises:
            TimeoutError: It cannot be said in time.
        """
        return self._from_start.run(text)

    def is_in(self, text: str) -> bool:
        """Say whether the pattern fits anywhere in a text, as `re.search` does.

        Raises:
            TimeoutError: It cannot be said in time.
        """
        return self._anywhere.run(text)


class _Program:
    """A pattern as nodes: what is read, where it splits, what must hold at a place.

    Attributes:
        start: Number of the first node.
        accept: Number of the node that says that the pattern fits.
        reads: For a node that reads a character: which ones, and the node after it.
        splits: For a node that reads none: the nodes after it.
        asserts: For a node that only passes in some places: which, and the node after it.
    """

    def __init__(self, tree: Any) -> None:
        self.accept = 0
        self.reads: dict[int, tuple[Callable[[str], bool], int]] = {}
        self.splits: dict[int, list[int]] = {}
        self.asserts: dict[int, tuple[Callable[[int, str], bool], int]] = {}
        self._count = 0
        self.start: int = self._sequence(list(tree), tree.state.flags, 0)

    def _new(self) -> int:
        self._count += 1
        if self._count > _MAX_NODES:
            msg = "it stands for too many characters"
            raise re.error(msg)
        return self._count

    def _split(self, *after: int) -> int:
        node = self._new()
        self.splits[node] = list(after)
        return node

    def _sequence(self, items: list[Any], flags: int, after: int) -> int:
        for item in reversed(items):
            after = self._item(item[0], item[1], flags, after)
        return after

    def _item(self, kind: Any, value: Any, flags: int, after: int) -> int:
        if kind is _sre.BRANCH:
            return self._split(*(self._sequence(list(each), flags, after) for each in value[1]))
        if kind is _sre.SUBPATTERN:
            _, added, removed, inner = value
            return self._sequence(list(inner), (flags | added) & ~removed, after)
        if kind is _sre.MAX_REPEAT or kind is _sre.MIN_REPEAT:
            least, most, inner = value
            return self._repeat(least, most, inner, flags, after)
        if kind is _sre.AT:
            node = self._new()
            self.asserts[node] = (_assertion(value, flags), after)
            return node
        node = self._new()
        self.reads[node] = (_reader(kind, value, flags), after)
        return node

    def _repeat(self, least: int, most: Any, inner: Any, flags: int, after: int) -> int:
        items = list(inner)
        if most is _sre.MAXREPEAT:
            loop = self._split(after)
            self.splits[loop].append(self._sequence(items, flags, loop))
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._split(self._sequence(items, flags, after), end)
        for _ in range(least):
            after = self._sequence(items, flags, after)
        return after


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _assertion(kind: Any, flags: int) -> Callable[[int, str], bool]:
    """Return what must hold between what was read before and the next character."""
    many = bool(flags & re.MULTILINE)
    if kind is _sre.AT_BEGINNING_STRING or (kind is _sre.AT_BEGINNING and not many):
        return lambda before, _: before == _BEGIN
    if kind is _sre.AT_BEGINNING:
        return lambda before, _: before in (_BEGIN, _NEWLINE)
    if kind is _sre.AT_END_STRING:
        return lambda _, after: after == _END
    if kind is _sre.AT_END and many:
        return lambda _, after: after in (_END, "\n", _LAST_NEWLINE)
    if kind is _sre.AT_END:
        return lambda _, after: after in (_END, _LAST_NEWLINE)
    wanted = kind is _sre.AT_BOUNDARY
    if wanted or kind is _sre.AT_NON_BOUNDARY:
        if flags & re.ASCII:
            msg = "`\\b` cannot be combined with `(?a)`"
            raise re.error(msg)

        def holds(before: int, after: str) -> bool:
            is_empty = before == _BEGIN and after == _END  # of which `\\B` does not hold either
            return not is_empty and ((before == _WORD) != _is_word(after[:1])) is wanted

        return holds
    msg = f"{str(kind).lower()} is not supported"
    raise re.error(msg)


def _reader(kind: Any, value: Any, flags: int) -> Callable[[str], bool]:
    """Return which characters a node reads: what Python's own engine says of a single one."""
    if kind is _sre.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda char: char != "\n")
    if kind is _sre.LITERAL or kind is _sre.NOT_LITERAL:
        items = [(_sre.LITERAL, value)]
        text = _class(items if kind is _sre.LITERAL else [(_sre.NEGATE, None), *items])
    elif kind is _sre.IN:
        text = _class(value)
    else:
        msg = f"{str(kind).lower().replace('_', ' ')} is not supported, since it can take for ever"
        raise re.error(msg)
    fits = re.compile(text, flags & (re.IGNORECASE | re.ASCII)).fullmatch
    return lambda char: fits(char) is not None


def _class(items: list[Any]) -> str:
    """Return a class of characters as a pattern."""
    parts: list[str] = []
    for kind, value in items:
        if kind is _sre.NEGATE:
            parts.append("^")
        elif kind is _sre.LITERAL:
            parts.append(f"\\U{value:08x}")
        elif kind is _sre.RANGE:
            parts.append(f"\\U{value[0]:08x}-\\U{value[1]:08x}")
        else:
            parts.append(_CATEGORIES[value])
    return f"[{''.join(parts)}]"


_CATEGORIES: dict[Any, str] = {
    _sre.CATEGORY_DIGIT: r"\d",
    _sre.CATEGORY_NOT_DIGIT: r"\D",
    _sre.CATEGORY_SPACE: r"\s",
    _sre.CATEGORY_NOT_SPACE: r"\S",
    _sre.CATEGORY_WORD: r"\w",
    _sre.CATEGORY_NOT_WORD: r"\W",
}

_Key = tuple[frozenset[int], int]


class _State:
    """Where an automaton can be: the nodes it has reached, and what it read last.

    Attributes:
        after: The state after each character that was read here before; True where it fits.
    """

    __slots__ = ("after", "before", "nodes")

    def __init__(self, nodes: frozenset[int], before: int) -> None:
        self.nodes = nodes
        self.before = before
        self.after: dict[str, _State | bool] = {}


class _Automaton:
    """Reads texts character by character; what it found out about a state it remembers.

    Args:
        program: The pattern.
        anywhere: Whether it may fit anywhere, and not only at the start.
    """

    def __init__(self, program: _Program, *, anywhere: bool) -> None:
        self._program = program
        self._anywhere = anywhere
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._states: dict[_Key, _State] = {}
        self._steps = 0
        self._start = self._state(frozenset((self._program.start,)), _BEGIN)

    def _state(self, nodes: frozenset[int], before: int) -> _State:
        key = (nodes, before)
        if key not in self._states:
            self._states[key] = _State(nodes, before)
        return self._states[key]

    def run(self, text: str) -> bool:
        """Say whether the pattern fits.

        Raises:
            TypeError: The text is none.
            TimeoutError: It cannot be said in time.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = "re: only a text can be matched"
            raise TypeError(msg)
        last = _LAST_NEWLINE if text.endswith("\n") else text[-1:]
        end = time.thread_time() + LIMIT_S
        with self._lock:
            state: _State | bool = self._start
            for start in range(0, max(len(text) - 1, 0), _CHECK_EVERY):
                for char in text[start : min(start + _CHECK_EVERY, len(text) - 1)]:
                    found = state.after.get(char)
                    state = self._step(state, char, end) if found is None else found
                    if state is True or state is False:
                        return state
                _check_time(end)
            for char in (last, _END) if last else (_END,):
                state = self._step(state, char, end)
                if state is True or state is False:
                    return state
        return False

    def _step(self, state: _State, char: str, end: float) -> _State | bool:
        """Return where a character leads: True where the pattern fits before it, False nowhere."""
        _check_time(end)
        self._steps += 1
        if self._steps > _MAX_STEPS:
            self._forget()
        program = self._program
        reached = self._reached(state, char)
        found: _State | bool
        if program.accept in reached:
            found = True
        else:
            read = char[:1]
            nodes = {
                program.reads[node][1]
                for node in reached
                if node in program.reads and read and program.reads[node][0](read)
            }
            if self._anywhere:
                nodes.add(program.start)
            before = _WORD if read and _is_word(read) else _NEWLINE if read == "\n" else _OTHER
            found = self._state(frozenset(nodes), before) if nodes else False
        state.after[char] = found
        return found

    def _reached(self, state: _State, char: str) -> set[int]:
        """Return the nodes that are reached without reading, with this character next."""
        program = self._program
        reached: set[int] = set()
        pending = list(state.nodes)
        while pending:
            node = pending.pop()
            if node in reached:
                continue
            reached.add(node)
            pending += program.splits.get(node, ())
            if node in program.asserts:
                holds, after = program.asserts[node]
                if holds(state.before, char):
                    pending.append(after)
        return reached


def _check_time(end: float) -> None:
    if time.thread_time() > end:
        msg = f"re: no answer within {LIMIT_S:g} s"
        raise TimeoutError(msg)
