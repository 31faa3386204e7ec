"""What records and logs report of an exception without its text.

The text of an exception is content, like the arguments it is often made of: it is recorded only
where content is captured, and masked. The name of its class, and where it was raised, are always
recorded.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable

from otelhooks.errors import OtelHooksError

__all__ = [
    "FAILED",
    "OutOfTime",
    "WrongAnswer",
    "brief",
    "error_type",
    "is_own",
    "misnamed",
    "outline",
    "says_all",
]

FAILED = "tool_error"
"""Type of a tool's failure that is text, not an exception."""

_FRAMES = 30
"""Innermost frames of a traceback that an outline keeps."""


class WrongAnswer(TypeError):
    """A hook or an adapter gave an unusable answer. The text is our own, not content."""


class OutOfTime(Exception):
    """Code of a policy took longer than it may. The text is our own, not content."""


def misnamed(problem: str, name: str, known: Iterable[str], meant: str | None = None) -> TypeError:
    """Return the error for an unknown name.

    Only a name close to a known one is certainly not content, and may be logged: `WrongAnswer`.

    Args:
        problem: What is wrong.
        name: The unknown name.
        known: The names that exist.
        meant: The one that is meant; None for the closest.
    """
    from difflib import get_close_matches

    meant = meant or next(iter(get_close_matches(name, list(known), n=1)), None)
    return WrongAnswer(f"{problem}; did you mean `{meant}`?") if meant else TypeError(problem)


def error_type(error: BaseException) -> str:
    """Return the name of an exception's class, qualified except for builtins."""
    cls = TypeError if type(error) is WrongAnswer else type(error)
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def is_own(error: BaseException) -> bool:
    """Return whether otelhooks raised an exception on purpose, so that its text is not content."""
    if not isinstance(error, OtelHooksError):
        return False
    name = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
    return name.startswith("otelhooks.")


def brief(error: BaseException) -> str:
    """Return an exception's class, and what is known of it that cannot be content."""
    said = error_type(error)
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return f"{said} ({os.strerror(error.errno).lower()})"  # the system's text for a number
    return f"{said}: {error}" if says_all(error) else said


def says_all(error: BaseException) -> bool:
    """Return whether an exception is ours, with a text that cannot be content."""
    return type(error) is WrongAnswer or isinstance(error, OutOfTime)


def outline(error: BaseException) -> str:
    """Return an exception's class and traceback, without its text and without source lines.

    Returns:
        The class, then a line for each frame, the innermost last. Causes are left out.
    """
    places = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code, number) for frame, number in places][-_FRAMES:]
    lines = [
        f'  File "{code.co_filename}", line {number}, in {code.co_name}' for code, number in frames
    ]
    return "\n".join((brief(error), *lines))
