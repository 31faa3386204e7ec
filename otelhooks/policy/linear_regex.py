r"""Regular expressions whose time grows only with the text, and within a bound.

Patterns are Python's, read by its own parser, without what an automaton cannot do: back-references,
look-around, and possessive repeats. A pattern becomes an automaton whose states are found while a
text is read, so no pattern and no text makes it backtrack.

The package `regex` with its `timeout=` would be shorter, and weaker. In its release 2026.11.15
`(?i:e)*[^]a]` does not match `A`, so a rule would miss calls; ten million characters hold
`[ab]+[xy]` up for 7 s at a limit of 0.1 s; `a{e}` is a fuzzy match, `[[:alpha:]]` a class of
letters, and `\w` takes characters that cannot be seen. Its limit counts the time of all threads.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from otelhooks.policy.thread_clock import thread_time, without_collections

__all__ = ["LIMIT_S", "Pattern"]

LIMIT_S: Final = 0.1
"""Longest match, in seconds of its thread."""

_MAX_NODES = 5_000
_MAX_PATTERN = 1_000
_MAX_STEPS = 20_000
"""Steps of the automaton that are remembered before it is built again."""

_CHECK_EVERY = 512
_IS_OLD = sys.version_info < (3, 11)
_compile: Any = importlib.import_module("sre_compile" if _IS_OLD else "re._compiler")
_sre: Any = importlib.import_module("sre_constants" if _IS_OLD else "re._constants")
_parse: Any = importlib.import_module("sre_parse" if _IS_OLD else "re._parser")

_ONE_CHARACTER = (_sre.ANY, _sre.IN, _sre.LITERAL, _sre.NOT_LITERAL)
_MORE = "x"
"""The rest of a text, for `$`, which matches before a line feed that ends it."""


class Pattern:
    """A pattern that was read.

    Args:
        text: Pattern in Python's syntax; flags as ``(?i)``.

    Raises:
        ValueError: It is not a pattern, too large, or of an unsupported kind.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = "re: the pattern is not text"
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
            msg = f"re: `{text}` is not a pattern: {error}"
            raise ValueError(msg) from None
        self._from_start = _Automaton(self._program, anywhere=False)
        self._anywhere = _Automaton(self._program, anywhere=True)

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(text: str) -> Pattern:
        """Return the pattern of a text, which is read once."""
        return Pattern(text)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches at the start of a text, like `re.match`.

        Raises:
            TimeoutError: The time was not enough.
        """
        return self._from_start.run(text)

    def is_in(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text, like `re.search`.

        Raises:
            TimeoutError: The time was not enough.
        """
        return self._anywhere.run(text)


_Fits = Callable[[str, int], object]


class _Program:
    """A pattern as nodes: what is read, where it splits, what must hold at a position.

    Attributes:
        start: Number of the first node.
        accept: Number of the node that is reached if the pattern matches.
        reads: For a node that reads a character: the test for it, and the next node.
        splits: For a node that reads none: the next nodes.
        asserts: For a node that only passes at some positions: the test, and the next node.
    """

    def __init__(self, tree: Any) -> None:
        self.accept = 0
        self.reads: dict[int, tuple[_Fits, int]] = {}
        self.splits: dict[int, list[int]] = {}
        self.asserts: dict[int, tuple[_Fits, int]] = {}
        self._items: dict[tuple[str, int], _Fits] = {}
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
            kept = flags & ~(re.ASCII | re.UNICODE) if added & (re.ASCII | re.UNICODE) else flags
            return self._sequence(list(inner), (kept | added) & ~removed, after)
        if kind is _sre.MAX_REPEAT or kind is _sre.MIN_REPEAT:
            least, most, inner = value
            return self._repeat(least, most, inner, flags, after)
        if kind is not _sre.AT and kind not in _ONE_CHARACTER:
            name = str(kind).lower().replace("_", " ")
            msg = f"{name} is not supported: it can run without end"
            raise re.error(msg)
        node, key = self._new(), (f"{kind} {value}", flags)
        if key not in self._items:
            self._items[key] = _fits(kind, value, flags)
        (self.asserts if kind is _sre.AT else self.reads)[node] = (self._items[key], after)
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


def _fits(kind: Any, value: Any, flags: int) -> _Fits:
    """Return how Python's own engine tests one item of a pattern at a position in a text."""
    state = _parse.State()
    state.flags = flags
    return _compile.compile(_parse.SubPattern(state, [(kind, value)]), flags).match


def _sample(char: str) -> str:
    """Return a representative character that assertions cannot distinguish from this one."""
    if char == "_" or char.isalnum():
        return "a" if char.isascii() else "\u00e9"
    return "\n" if char == "\n" else " "


_Key = tuple[frozenset[int], str]


class _State:
    """A state of an automaton: the nodes it has reached, and what it read last.

    Attributes:
        after: The state after each character that was read here before; True if it matches.
    """

    __slots__ = ("after", "before", "nodes")

    def __init__(self, nodes: frozenset[int], before: str) -> None:
        self.nodes = nodes
        self.before = before
        self.after: dict[str, _State | bool] = {}


class _Automaton:
    """Reads texts character by character, and remembers what it has computed for a state.

    Args:
        program: The pattern.
        anywhere: Whether it may match anywhere, not only at the start.
    """

    def __init__(self, program: _Program, *, anywhere: bool) -> None:
        self._program = program
        self._anywhere = anywhere
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._states: dict[_Key, _State] = {}
        self._steps = 0
        self._start = self._state(frozenset((self._program.start,)), "")

    def _state(self, nodes: frozenset[int], before: str) -> _State:
        key = (nodes, before)
        if key not in self._states:
            self._states[key] = _State(nodes, before)
        return self._states[key]

    def run(self, text: str) -> bool:
        """Return whether the pattern matches.

        Raises:
            TypeError: The argument is not text.
            TimeoutError: The time was not enough.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = "re: only a text can be matched"
            raise TypeError(msg)
        with without_collections(), self._lock:
            end = thread_time() + LIMIT_S
            state: _State | bool = self._start
            for start in range(0, max(len(text) - 1, 0), _CHECK_EVERY):
                for char in text[start : min(start + _CHECK_EVERY, len(text) - 1)]:
                    found = state.after.get(char)
                    if found is None:
                        found = state.after[char] = self._step(state, char + _MORE, end)
                    state = found
                    if state is True or state is False:
                        return state
                _check_time(end)
            for rest in (text[-1], "") if text else ("",):
                state = self._step(state, rest, end)
                if state is True or state is False:
                    return state
        return False

    def _step(self, state: _State, rest: str, end: float) -> _State | bool:
        """Return where a character leads: True if the pattern matches before it, False if nowhere.

        Args:
            state: State of the automaton.
            rest: The character and, if more follows it, `_MORE`; empty at the end of the text.
            end: When to give up, in the thread's time.
        """
        _check_time(end)
        self._steps += 1
        if self._steps > _MAX_STEPS:
            self._forget()
        program = self._program
        reached = self._reached(state, rest)
        if program.accept in reached:
            return True
        reads = [program.reads[node] for node in reached if node in program.reads]
        nodes = {after for fits, after in reads if fits(rest, 0)}
        if self._anywhere:
            nodes.add(program.start)
        return self._state(frozenset(nodes), _sample(rest[:1])) if nodes else False

    def _reached(self, state: _State, rest: str) -> set[int]:
        """Return the nodes that are reached without reading, with this rest of the text."""
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
                fits, after = program.asserts[node]
                if fits(state.before + rest, len(state.before)):
                    pending.append(after)
        return reached


def _check_time(end: float) -> None:
    if thread_time() > end:
        msg = f"re: no answer within {LIMIT_S:g} s"
        raise TimeoutError(msg)
