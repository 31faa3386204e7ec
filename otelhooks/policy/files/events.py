"""The events that hook files subscribe to, and the points of the pipeline at which they fire."""

from __future__ import annotations

import dataclasses

from otelhooks.errors import ConfigError

__all__ = ["EVENTS", "Event", "canonical", "check_event"]


@dataclasses.dataclass(frozen=True)
class Event:
    """One event.

    Attributes:
        name: Name in front matter.
        point: Point where the pipeline fires it; empty for events of the application or another
            harness.
        payload: Keys of its payload, besides those of every event.
        block: What `block(reason)` does, in words.
    """

    name: str
    point: str
    payload: tuple[str, ...]
    block: str


COMMON = ("session", "turn", "agent", "branch", "trace_id", "labels")
"""Keys of every payload."""

EVENTS: dict[str, Event] = {
    event.name: event
    for event in (
        Event("session.start", "session_start", (), "every turn of the session is refused"),
        Event("session.end", "session_end", (), "nothing: it is logged"),
        Event("turn.start", "pre_turn", ("prompt",), "the turn is refused"),
        Event("turn.end", "post_agent", ("text", "logs"), "the answer is withheld"),
        Event(
            "completion.pre",
            "pre_model_call",
            ("messages", "tools", "model"),
            "the model call is refused",
        ),
        Event(
            "completion.post",
            "post_model_call",
            ("content", "tool_calls", "usage"),
            "the answer is withheld",
        ),
        Event(
            "tool.pre",
            "pre_tool_call",
            ("id", "name", "args", "arguments", "arguments_json", "server", "kind", "canonical"),
            "the tool does not run; the model sees the reason",
        ),
        Event(
            "tool.post",
            "post_tool_call",
            ("call_id", "name", "content", "is_error", "result"),
            "the result is withheld",
        ),
        Event("delegation.pre", "pre_tool_call", ("agent", "task"), "the sub-agent is not started"),
        Event("delegation.post", "post_tool_call", ("agent", "content"), "its answer is withheld"),
        Event(
            "delegation.post_verify",
            "stop",
            ("agent", "content", "attempt"),
            "the sub-agent is sent on with the reason, twice at most; then its answer is withheld",
        ),
        Event(
            "agent.stop",
            "stop",
            ("text", "continuation_count"),
            "the agent is sent on with the reason, `max_continuations` times at most",
        ),
        Event(
            "error",
            "on_tool_error, on_model_error",
            ("error", "message"),
            "the failure is raised, with the reason as its text",
        ),
    )
}
"""The events that the pipeline fires, by name."""

_ALIAS = ("delegate.", "delegation.")
_FREE = ("custom.", "meta.")


def canonical(name: str) -> str:
    """Return an event's name without its alias: ``delegate.pre`` is ``delegation.pre``."""
    alias, real = _ALIAS
    return real + name.removeprefix(alias) if name.startswith(alias) else name


def check_event(name: str) -> str:
    """Return the canonical name of an event.

    Args:
        name: One of `EVENTS`, or ``custom.`` or ``meta.`` and a name.

    Raises:
        ConfigError: The event does not exist.
    """
    found = canonical(name)
    if found in EVENTS or any(found.startswith(each) and found != each for each in _FREE):
        return found
    from otelhooks.policy.files.kinds import nearest

    hint = nearest(found, [*EVENTS, *(f"{each}*" for each in _FREE)])
    raise ConfigError(f"unknown event `{name}`", hint=hint)
