"""The application's own hooks before a tool call, which run before ours.

The CLI shows the same arguments to all hooks at once, and of two that change them takes one: rules
would judge other arguments than those that run. So the application's hooks of this event leave the
CLI's list, run here as the CLI would run them, and rules judge what they made of the call.
"""
# pyright: basic

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import anyio

from otelhooks.frameworks.kit import telemetry

__all__ = ["ask", "denied", "verdict"]

_TIMEOUT_S = 60.0
"""The CLI's own limit for a hook without one."""
_STRICTEST = ("deny", "defer", "ask", "allow", None)
_FIELDS: dict[str, type] = {
    **dict.fromkeys(("continue", "continue_", "suppressOutput"), bool),
    **dict.fromkeys(("decision", "reason", "stopReason", "systemMessage"), str),
}
_DECISION = ("permissionDecision", "permissionDecisionReason")
_SPECIFIC: dict[str, type] = {
    **dict.fromkeys((*_DECISION, "additionalContext"), str),
    "updatedInput": dict,
}
_OLD_NAMES = {"Agent": ("Agent", "Task")}


def verdict(event: str, /, **fields: Any) -> dict[str, Any]:
    """Return a hook's answer."""
    return {"hookSpecificOutput": {**fields, "hookEventName": event}}


def denied(reason: str) -> dict[str, Any]:
    """Return the answer that denies a call."""
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return verdict("PreToolUse", **decision)


async def ask(
    matchers: Sequence[dict[str, Any]], given: dict[str, Any], id: str | None, context: Any
) -> dict[str, Any]:
    """Return what the application's hooks answer together; empty if none says anything.

    Decision code: a hook that takes too long denies, as in the CLI; one that raises denies if it is
    to block, and is left out otherwise.

    Args:
        matchers: For ``PreToolUse``, as in ``Query.hooks``.
        given: What the CLI reports about the call.
        id: The call's.
        context: Goes to the hooks.
    """
    found: dict[str, Any] = {}
    for matcher in matchers:
        if not _matches(matcher.get("matcher"), given["tool_name"]):
            continue
        for hook in matcher.get("hooks", ()):
            limit = matcher.get("timeout") or _TIMEOUT_S
            said: Any = denied("A hook took too long.")
            with anyio.move_on_after(limit):
                try:
                    said = await hook(copy.deepcopy(given), id, context)
                except Exception as error:
                    telemetry.failed("a hook of the application's for PreToolUse failed", error)
                    blocks = matcher.get("on_failure") not in (None, "continue")
                    said = denied("A hook failed.") if blocks else {}
            found = _together(found, _readable(said))
    return found


def _readable(said: Any) -> dict[str, Any]:
    """Return what the CLI can read of an answer: one odd field makes it drop the whole.

    Beside ``async`` it reads nothing else. A decision that it does not know denies.
    """
    if not isinstance(said, dict) or said.get("async") or said.get("async_"):
        return {}
    found = _typed(said, _FIELDS)
    theirs = said.get("hookSpecificOutput")
    theirs = theirs if isinstance(theirs, dict) else {}
    if theirs.get("permissionDecision") not in _STRICTEST:
        return denied("A hook decided what the CLI does not know.")
    specific = _typed(theirs, _SPECIFIC)
    return {**found, **verdict("PreToolUse", **specific)} if specific else found


def _typed(given: dict[str, Any], types: dict[str, type]) -> dict[str, Any]:
    return {name: one for name, one in given.items() if isinstance(one, types.get(name, ()))}


def _matches(pattern: Any, name: str) -> bool:
    """Return whether a matcher is for a tool: a name, several with ``|``, or an expression."""
    if pattern in (None, "", "*"):
        return True
    names = _OLD_NAMES.get(name, (name,))
    if re.fullmatch(r"[\w|, ]+", pattern):
        return not {one.strip() for one in re.split("[|,]", pattern)}.isdisjoint(names)
    try:
        return any(re.search(pattern, one) for one in names)
    except re.error:
        return False


def _together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return two answers as one: the stricter decision, the later arguments, all remarks."""
    one, two = first.get("hookSpecificOutput") or {}, second.get("hookSpecificOutput") or {}
    strict = min(one, two, key=lambda each: _STRICTEST.index(each.get("permissionDecision")))
    both = {name: each for name, each in {**one, **two}.items() if name not in _DECISION}
    both |= {name: strict[name] for name in _DECISION if name in strict}
    remarks = [each["additionalContext"] for each in (one, two) if each.get("additionalContext")]
    if remarks:
        both["additionalContext"] = "\n".join(remarks)
    found = {**first, **second}
    if "block" in (first.get("decision"), second.get("decision")):
        found["decision"] = "block"
    return {**found, "hookSpecificOutput": both} if both else found
