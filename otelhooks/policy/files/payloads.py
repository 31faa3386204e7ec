"""What scripts see of an operation, and how their changes are put back into it.

A value that a script leaves unchanged stays the very same object: what a script cannot receive in
full (bytes, models, a framework's own messages) is not turned into text on the way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

import pydantic

from otelhooks import types
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.context import HookContext, OperationContext, TurnContext
from otelhooks.policy.scripting.plain_values import plain

__all__ = [
    "as_text",
    "common",
    "is_own_turn",
    "put_back",
    "subagent",
    "task_key",
    "with_aliases",
]


def common(context: HookContext) -> dict[str, Any]:
    """Return what every payload says about where the operation runs."""
    return {
        "session": context.known("session_id"),
        "turn": context.known("turn_number") or 0,
        "agent": context.known("agent_name"),
        "branch": context.known("branch"),
        "trace_id": context.trace_id,
        "labels": sorted(context.labels),
        "prompt": context.prompt,
        "prompts": list(context.prompts),
        "user": None if context.user is None else context.user.model_dump(mode="json"),
    }


def turn_of(context: HookContext) -> TurnContext | None:
    """Return the innermost turn of a context."""
    found: HookContext | None = context
    while found is not None and not isinstance(found, TurnContext):
        found = found.parent
    return found


def is_own_turn(context: HookContext) -> bool:
    """Return whether a run is a user's turn, not a sub-agent's work inside one."""
    turn = turn_of(context)
    outer = turn.parent if turn is not None else None
    return not isinstance(outer, (OperationContext, TurnContext))


def is_delegated(context: HookContext) -> bool:
    """Return whether a run is the work of a sub-agent that a tool call started."""
    turn = turn_of(context)
    return turn is not None and isinstance(turn.parent, OperationContext)


def with_aliases(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload that has the arguments under all of their names."""
    args = payload["args"] if "args" in payload else payload.get("arguments")
    if args is None and "args" not in payload and "arguments" not in payload:
        return dict(payload)
    text = json.dumps(plain(args), ensure_ascii=False, separators=(",", ":"))
    return {**payload, "args": args, "arguments": args, "arguments_json": text}


def without_aliases(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes that have the arguments under one name.

    Args:
        before: The payload that the script got.
        changes: What it wants to change.

    Raises:
        ValueError: Two names of the arguments changed, to different values.
    """
    kept = {key: value for key, value in changes.items() if key not in _ALIASES}
    new = [
        changes[key]
        for key in ("args", "arguments")
        if key in changes and not (key in before and same_json(changes[key], before[key]))
    ]
    text = changes.get("arguments_json")
    if text is not None and text != before.get("arguments_json"):
        new.append(json.loads(text))
    if not new:
        return kept
    if not all(same_json(each, new[0]) for each in new):
        msg = "modify: `args` and `arguments` differ"
        raise ValueError(msg)
    return {**kept, "args": new[0]}


_ALIASES = frozenset(("args", "arguments", "arguments_json"))


def subagent(call: types.ToolCall, context: HookContext) -> dict[str, Any] | None:
    """Return agent and task of a call that starts a sub-agent; None for any other call."""
    starts = getattr(context, "starts_agent", "")
    if call.name != types.BuiltinTools.INVOKE_SUBAGENT.value and not starts:
        return None
    agent = next((call.args[key] for key in _AGENT_KEYS if call.args.get(key)), starts or call.name)
    key = task_key(call.args)
    return {"agent": agent, "task": call.args if key is None else call.args[key]}


_AGENT_KEYS = ("agent", "subagent_type")
_TASK_KEYS = ("task", "input", "description", "prompt")


def task_key(args: Mapping[str, Any]) -> str | None:
    """Return the argument that holds the task of a sub-agent."""
    return next((key for key in _TASK_KEYS if key in args), None)


def as_text(value: Any) -> str:
    """Return a result as text: a text unchanged, plain values as JSON, anything else by `str`."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(plain(value), ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def shown(value: Any) -> Any:
    """Return a result as a script sees it; values without a plain form become text."""
    try:
        return plain(value)
    except (TypeError, ValueError):
        return str(value)


def message(value: Any) -> Any:
    """Return a message, or a tool's definition, as a script sees it.

    Raises:
        TypeError: It has neither a plain form nor a name, role or content.
    """
    try:
        return plain(value)
    except (TypeError, ValueError):
        found = {
            name: shown(getattr(value, name))
            for name in ("role", "type", "name", "description", "content")
            if not callable(getattr(value, name, None)) and hasattr(value, name)
        }
        if not found:
            raise
        return found


def put_back(original: Any, before: Any, after: Any) -> Any:
    """Return a value as a script changed it, keeping the objects that it left unchanged.

    Args:
        original: The value.
        before: What the script saw of it.
        after: What the script wants instead.
    """
    if same_json(before, after):
        return original
    if isinstance(after, dict) and isinstance(before, dict):
        return _put_back_fields(
            original, cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        )
    if isinstance(after, list) and isinstance(before, list) and isinstance(original, (list, tuple)):
        originals = list(cast("list[Any]", original))
        return _put_back_items(originals, cast("list[Any]", before), cast("list[Any]", after))
    return cast("Any", after)


def _put_back_fields(original: Any, before: dict[str, Any], after: dict[str, Any]) -> Any:
    if isinstance(original, Mapping):
        given = cast("Mapping[Any, Any]", original)
        return {
            key: put_back(given[key], before[key], value)
            if key in given and key in before
            else value
            for key, value in after.items()
        }
    changed = {key: value for key, value in after.items() if not same_json(before.get(key), value)}
    is_model = isinstance(original, pydantic.BaseModel)
    is_data = dataclasses.is_dataclass(original) and not isinstance(original, type)
    if not (is_model or is_data) or not changed.keys() <= before.keys() <= after.keys():
        return after
    update = {
        key: put_back(getattr(original, key), before[key], value) for key, value in changed.items()
    }
    if isinstance(original, pydantic.BaseModel):
        return original.model_copy(update=update)
    return dataclasses.replace(cast("Any", original), **update)


def _put_back_items(originals: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Put items back by position if their number is unchanged, else by their content."""
    if len(after) == len(before) == len(originals):
        return [put_back(*each) for each in zip(originals, before, after, strict=True)]
    left = list(zip(originals, before, strict=False))
    items: list[Any] = []
    for item in after:
        found = next((n for n, each in enumerate(left) if same_json(each[1], item)), None)
        items.append(item if found is None else left.pop(found)[0])
    return items
