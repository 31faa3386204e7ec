"""The keyboard and screen of this process, which belong to one conversation at a time.

Two questions at once would share one keyboard: an answer typed below the last one could answer the
other. So every conversation, a question and its answer, has the console for itself, and the next
one is not even printed before it ends. This applies to all threads and event loops of the process.

On a terminal, input that was typed before a prompt is discarded, so that a key pressed too early
answers nothing. A reader whose question was withdrawn stops reading: it checks that a line
is available before it takes one. When `input` reads from elsewhere (a pipe, a notebook, Windows),
it cannot be stopped: it keeps the console until its line comes, and drops that line.
"""

from __future__ import annotations

import builtins
import collections
import concurrent.futures
import os
import shutil
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import TypeVar

from otelhooks.hooks.own_threads import awaited, start
from otelhooks.process import forks

__all__ = ["Console", "converse"]

T = TypeVar("T")

_POLL_S = 0.05
"""Longest time, in seconds, until a reader notices that its question was withdrawn."""


_GRACE_S = 1.0
"""Seconds between a withdrawn question and the next: its answer may still be being typed."""


class _Withdrawn(Exception):
    """The caller no longer waits for an answer."""


class Console:
    """What one conversation prints and reads."""

    def __init__(self) -> None:
        self.is_withdrawn: bool = False

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines of the screen; 80 by 24 if unknown."""
        terminal = _terminal()
        # Ask the terminal itself: a stale variable `COLUMNS` may promise a wider screen, whose
        # lines would break where a model wants them to.
        if terminal is not None and all(size := os.get_terminal_size(terminal)):
            return size
        return shutil.get_terminal_size()

    @property
    def can_page(self) -> bool:
        """Whether a person sees the screen, and can be asked to turn the page."""
        return _terminal() is not None

    def say(self, text: str) -> None:
        """Print a line; characters that the screen cannot show become escapes."""
        print(self._shown(text))  # noqa: T201  # a console prints

    def ask(self, prompt: str) -> str:
        """Return the line that is typed after a prompt, without its end.

        Raises:
            EOFError: There is nothing more to read.
        """
        if self.is_withdrawn:
            raise _Withdrawn
        prompt, terminal = self._shown(prompt), _terminal()
        if terminal is None:
            _drop_typed_on_windows()
            return input(prompt)
        return self._read(terminal, prompt)

    def _read(self, terminal: int, prompt: str) -> str:
        import select
        import termios

        termios.tcflush(terminal, termios.TCIFLUSH)
        print(prompt, end="", flush=True)  # noqa: T201
        typed = b""
        while b"\n" not in typed and b"\r" not in typed:
            if self.is_withdrawn:
                self.say("\n(no answer is needed any more)")
                time.sleep(_GRACE_S)
                raise _Withdrawn
            if select.select([terminal], [], [], _POLL_S)[0]:
                typed += _piece(terminal)
        line = typed.splitlines()[0]
        return line.decode(getattr(sys.stdin, "encoding", None) or "utf-8", "replace")

    def _shown(self, text: str) -> str:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)


class _Line:
    """Conversations that wait for the console, first come, first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: collections.deque[Console] = collections.deque()

    def enter(self, console: Console) -> None:
        """Wait for the turn of a conversation."""
        with self._changed:
            self._waiting.append(console)
            self._changed.wait_for(lambda: self._waiting[0] is console or console.is_withdrawn)
        if console.is_withdrawn:
            raise _Withdrawn

    def leave(self, console: Console) -> None:
        """End a conversation, or stop waiting for its turn."""
        with self._changed:
            self._waiting.remove(console)
            self._changed.notify_all()

    def withdraw(self, console: Console) -> None:
        """Tell a conversation that its answer is no longer needed."""
        with self._changed:
            console.is_withdrawn = True
            self._changed.notify_all()


_line = _Line()


async def converse(conversation: Callable[[Console], T]) -> T:
    """Hold a conversation as soon as the console is free, without blocking the event loop.

    Args:
        conversation: Runs on a thread of its own, which does not keep the process alive.

    Raises:
        EOFError: There is nothing more to read.
    """
    line, console = _line, Console()

    def hold() -> T:
        try:
            line.enter(console)
            return conversation(console)
        finally:
            line.leave(console)

    future: concurrent.futures.Future[T] = start(hold)
    try:
        return await awaited(future)
    finally:
        line.withdraw(console)


def _terminal() -> int | None:
    """Return the file descriptor of the keyboard; None if `input` must read instead."""
    if sys.platform == "win32" or not isinstance(builtins.input, types.BuiltinFunctionType):
        return None  # a notebook, or a test, reads from elsewhere
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):  # it is missing, closed, or not a file
        return None


def _piece(terminal: int) -> bytes:
    try:
        piece = os.read(terminal, 4096)
    except OSError as error:  # the terminal was closed
        raise EOFError from error
    if not piece:
        raise EOFError
    return piece


def _drop_typed_on_windows() -> None:
    if sys.platform == "win32" and sys.stdin is not None and sys.stdin.isatty():
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()


def _forget() -> None:
    """Start afresh in a child process, without the parent's conversations."""
    global _line
    _line = _Line()


forks.in_child(_forget, forks.Step.THREADS)
