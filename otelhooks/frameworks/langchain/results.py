# pyright: basic, reportMissingImports=false
"""What a tool returns: messages, alone or in a list, and in langgraph's commands."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from otelhooks.frameworks import kit

__all__ = ["messages_in", "told_in", "visited"]

_MESSAGE = "langchain_core.messages.base:BaseMessage"
_COMMAND, _SEND = "langgraph.types:Command", "langgraph.types:Send"
_OVERWRITE = "langgraph.types:Overwrite"


def told_in(raw: Any) -> list[Any]:
    """Return the messages that a tool's result puts into the state; none of any other result."""
    several = raw if isinstance(raw, list) else [raw]
    return messages_in(raw) if any(kit.is_a(one, _MESSAGE, _COMMAND) for one in several) else []


def messages_in(value: Any) -> list[Any]:
    """Return the messages in a result, or a state, at any depth."""
    found: list[Any] = []
    visited(value, found.append)
    return found


def visited(value: Any, visit: Callable[[Any], Any]) -> Any:
    """Return a result with other messages in it.

    Args:
        value: The result. Whatever langgraph will take for a message is one.
        visit: Returns what replaces a message; None leaves it out.
    """
    if kit.is_a(value, _MESSAGE):
        return visit(value)
    if kit.is_a(value, _COMMAND):
        update, goto = value.update, visited(value.goto, visit)
        if isinstance(update, list) and all(isinstance(each, tuple) for each in update):
            update = [(name, visited({name: item}, visit)[name]) for name, item in update]
        else:
            update = _said(update, visit)
        return dataclasses.replace(value, update=update, goto=goto)
    if kit.is_a(value, _SEND, _OVERWRITE):
        name = "arg" if kit.is_a(value, _SEND) else "value"
        new = copy.copy(value)
        object.__setattr__(new, name, _said(getattr(value, name), visit))
        return new
    if isinstance(value, dict):
        return {
            name: _said(item if isinstance(item, list) else [item], visit)
            if name == "messages" and not kit.is_a(item, _OVERWRITE)
            else visited(item, visit)
            for name, item in value.items()
        }
    if type(value) in (list, tuple):
        found = [(item, visited(item, visit)) for item in value]
        return type(value)(new for item, new in found if new is not None or item is None)
    return value


def _said(value: Any, visit: Callable[[Any], Any]) -> Any:
    """Return the same for what may also hold messages in the form of dicts, pairs and texts."""
    if isinstance(value, list):
        try:
            value = kit.native("langchain_core.messages:convert_to_messages")(value)
        except Exception:  # other things
            pass
    return visited(value, visit)
