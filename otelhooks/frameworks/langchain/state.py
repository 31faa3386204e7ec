# pyright: basic, reportMissingImports=false
"""Messages in a graph's input and output, and in what its tools return: states and commands.

Everything here is a function of its arguments; the application's inputs are never changed.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field
from otelhooks.frameworks.kit.values import with_fields

__all__ = [
    "COMMAND",
    "is_same",
    "leaves",
    "messages_in",
    "prompt_of",
    "replace",
    "thread_of",
    "told_in",
    "tool_names",
    "update_of",
    "visited",
    "with_prompt",
]

_MESSAGE = "langchain_core.messages.base:BaseMessage"
COMMAND, _SEND = "langgraph.types:Command", "langgraph.types:Send"
_OVERWRITE = "langgraph.types:Overwrite"

# -- the graph and its input ------------------------------------------------------------------


def tool_names(graph: Any) -> list[str]:
    """Return the names of the tools that the graph's own nodes run."""
    found: list[str] = []
    for node in graph.nodes.values():
        bound = getattr(node, "bound", None)
        for part in (bound, *getattr(bound, "steps", ())):
            found += getattr(part, "tools_by_name", None) or ()
    return found


def update_of(value: Any) -> Any:
    """Return what an input puts into the state; a command has it in an attribute."""
    return value.update if kit.is_a(value, COMMAND) else value


def thread_of(*configs: Any) -> str:
    """Return the conversation of the first configuration with a thread; empty for none."""
    for config in configs:
        configurable = (config or {}).get("configurable") or {}
        if "thread_id" in configurable:
            return "" if configurable["thread_id"] is None else str(configurable["thread_id"])
    return ""


def _role(message: Any) -> Any:
    if isinstance(message, str):
        return "user"
    if isinstance(message, tuple):
        return message[0] if message else None
    if isinstance(message, Mapping):
        return message.get("role") or message.get("type")
    return getattr(message, "type", None)


def _last_of_user(given: Any) -> tuple[list[Any], int | None]:
    """Return the messages in an input, and the position of the user's last one."""
    messages = field(given, "messages")
    if not isinstance(messages, list):
        messages = [] if messages is None else [messages]
    for index in range(len(messages) - 1, -1, -1):
        if _role(messages[index]) in ("user", "human"):
            return messages, index
    return messages, None


def prompt_of(given: Any) -> tuple[bool, Any]:
    """Return whether an input contains a message of the user, and its text."""
    messages, index = _last_of_user(given)
    if index is None:
        return False, given
    item = messages[index]
    if isinstance(item, (str, tuple)):
        return True, item if isinstance(item, str) else item[1]
    return True, field(item, "content")


def with_prompt(given: Any, prompt: Any) -> Any:
    """Return an input whose last message of the user has another text."""
    inside = update_of(given)
    messages, index = _last_of_user(inside)
    if index is None:
        return prompt
    if kit.is_a(given, COMMAND):
        return dataclasses.replace(given, update=with_prompt(inside, prompt))
    item = messages[index]
    if isinstance(item, (str, tuple)):
        new = prompt if isinstance(item, str) else (item[0], prompt)
    else:
        new = with_fields(item, content=prompt)
    if isinstance(field(inside, "messages"), list):
        new = [*messages[:index], new, *messages[index + 1 :]]
    return with_fields(inside, messages=new)


# -- messages in what is streamed -------------------------------------------------------------


def is_same(message: Any, old: Any) -> bool:
    if not hasattr(message, "content") or not hasattr(message, "type"):
        return False
    if message.id is not None and message.id == old.id:
        return True
    return bool(old.content) and message.content == old.content and message.type == old.type


def replace(value: Any, old: Any, new: Any) -> Any:
    """Return the same with one message replaced, at any depth."""
    if isinstance(value, dict):
        return {key: replace(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [replace(item, old, new) for item in value]
    if type(value) is tuple:
        return tuple(replace(item, old, new) for item in value)
    if is_same(value, old):
        return value.model_copy(update={"content": new.content})
    return value


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in dicts, lists and tuples at any depth, last ones first."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, (list, tuple)):
            stack.extend(value)
        else:
            yield value


# -- messages in what a tool returns: alone or in a list, and in langgraph's commands ---------


def told_in(raw: Any) -> list[Any]:
    """Return the messages that a tool's result puts into the state; none of any other result."""
    several = raw if isinstance(raw, list) else [raw]
    return messages_in(raw) if any(kit.is_a(one, _MESSAGE, COMMAND) for one in several) else []


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
    if kit.is_a(value, COMMAND):
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
