"""The layout of a question about a call: nothing in it can look like another question.

A model chose the arguments. Each takes one line, which begins with two blanks and does not reach
the last column; longer ones are cut in the middle, and marked. Everything together fits on the
screen. The full call is shown page by page, each line behind a margin.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pydantic

from otelhooks import types
from otelhooks.plain_text import columns_of, disguise, one_line, pieces, sanitize

__all__ = ["argument", "as_json", "block", "full", "mark", "named", "summary"]

_NAME = 40
"""Most columns of a name."""

_REST = 7
"""Lines that are not arguments: blank, title, reason, omissions, prompt of up to three."""

_MANY_BLANKS = re.compile(" {9,}")
_SOME_BLANKS = re.compile(" {2,}")


def summary(title: str, call: types.ToolCall, reason: str, size: os.terminal_size) -> list[str]:
    """Return the lines of a question, except the answer's own line.

    Args:
        title: What is being asked.
        call: What the model wants to call.
        reason: Reason of the rule; may be empty.
        size: Size of the screen.
    """
    columns, room = _columns(size), max(size.lines - _REST, 4)
    lines = ["", _cut(f"{title} {sanitize(call.name)}", columns)]  # the prompt spells it out
    if reason:
        lines.append(_cut(f"Reason: {sanitize(reason)}", columns))
    args = list(call.args.items())
    shown = args if len(args) <= room else args[: room - 1]
    lines += [
        _cut(f"{argument(key)}{mark(key, value)} = {_json(value)}", columns, "  ")
        for key, value in shown
    ]
    if len(shown) < len(args):
        lines.append(f"  ... and {len(args) - len(shown)} more arguments")
    return lines


def named(call: types.ToolCall, rule: str) -> str:
    """Return which tool is called, each character of its name spelled out, and which rule asks."""
    by = f" (rule `{one_line(rule, _NAME)}`)" if rule else ""
    name = f"{call.server_name}/{call.name}" if call.server_name else call.name
    return f"`{one_line(name, _NAME)}`{by}"


def full(call: types.ToolCall, reason: str, size: os.terminal_size) -> Iterator[str]:
    """Yield everything that was cut from a question, line by line.

    Args:
        call: What the model wants to call.
        reason: Reason of the rule; may be empty.
        size: Size of the screen.
    """
    facts = {"server": call.server_name, "tool": call.name, "agent": call.branch, "reason": reason}
    for fact, text in facts.items():
        if text:
            yield from block(f"  {fact}: ", text, size)
    for key, value in call.args.items():
        yield from block("  argument ", f"{_json(key)}{mark(key, value)}", size)
        yield from block("    | ", value if isinstance(value, str) else _json(value, 2), size)


def block(margin: str, text: str, size: os.terminal_size) -> Iterator[str]:
    """Yield a text of any length behind a margin that every line has.

    Args:
        margin: The first columns of each line.
        text: Untrusted text; long runs of blanks become their number.
        size: Size of the screen.
    """
    room = _columns(size) - len(margin)
    for part in text.split("\n"):
        line = ""
        for piece in pieces(_MANY_BLANKS.sub(_counted, part)):
            if columns_of(line) + columns_of(piece) > room:
                yield margin + line
                line = ""
            line += piece
        yield margin + line


def _counted(blanks: re.Match[str]) -> str:
    return f" [{len(blanks[0])} blanks] "


def _columns(size: os.terminal_size) -> int:
    return max(size.columns - 1, 40)  # text in the last column starts a new line


def _cut(text: str, columns: int, indent: str = "") -> str:
    return indent + one_line(_SOME_BLANKS.sub(" ", text), columns - len(indent))


def argument(name: object) -> str:
    """Return the name of an argument, quoted if it could look like more than a name."""
    return one_line(name if isinstance(name, str) and name.isidentifier() else _json(name), _NAME)


def mark(name: object, value: Any) -> str:
    """Return why an argument may be another than it looks like, behind its name; or nothing."""
    why = disguise(f"{_json(name)} {_json(value)}")
    return f" ({why})" if why else ""


def as_json(value: Any) -> Any:
    """Return what stands for a value that JSON does not know: all that it holds, hidden or not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, pydantic.BaseModel):
        return dict(value)
    if isinstance(value, (pydantic.SecretStr, pydantic.SecretBytes)):
        return {"secret": value.get_secret_value()}  # a key that webhooks mask
    return repr(value)


def _json(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=as_json)
    except (TypeError, ValueError, RecursionError):  # keys that are not texts, or a circle
        return repr(value)
