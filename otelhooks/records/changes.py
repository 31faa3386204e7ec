"""The changes that a hook's answer may ask for, and which of them each point reads.

Not beside `HookResult`: the engine imports this, and pydantic only when a hook is called.
"""

from __future__ import annotations

from typing import Any

from otelhooks.records.failures import WrongAnswer

__all__ = ["CHANGES", "refuse_decision", "refuse_unread"]

CHANGES = frozenset(
    ("modified_args", "replace_args", "modified_prompt", "modified_messages", "modified_tools")
) | {"response", "input", "output", "messages", "tools"}
"""Fields of a `HookResult` that change something."""


def refuse_unread(answer: Any, point: str) -> None:
    """Refuse an answer with a change that its point does not read, and that would change nothing.

    Args:
        answer: A hook's answer.
        point: Such as ``pre_tool_call``; any other than those that read changes passes.

    Raises:
        WrongAnswer: It has one.
    """
    given, read = CHANGES & answer.model_fields_set, _READ.get(point)
    if not given or read is None:
        return
    for name in sorted(given.difference(read)):
        if getattr(answer, name) is not None:
            fields = " or ".join(f"`{each}`" for each in read)
            raise WrongAnswer(f"`{name}` changes nothing at {point}, which takes {fields}")


def refuse_decision(answer: Any) -> None:
    """Refuse what an inspector returned, if it denies or changes something: nothing would.

    Args:
        answer: What the hook returned; anything except a `HookResult` passes.

    Raises:
        WrongAnswer: It is a deny or a change.
    """
    if answer is None:
        return
    from otelhooks.types import HookResult

    if isinstance(answer, HookResult) and (
        not answer.allow
        or any(getattr(answer, name) is not None for name in CHANGES & answer.model_fields_set)
    ):
        raise WrongAnswer(
            "it only inspects: the deny or change that it returned has no effect; register it as "
            "a hook that decides or transforms"
        )


_READ = {
    "pre_turn": ("modified_prompt",),
    "pre_agent": ("response",),
    "pre_model_call": ("modified_messages", "modified_tools", "response"),
    "pre_tool_call": ("modified_args", "replace_args"),
    **dict.fromkeys(("post_model_call", "post_tool_call", "post_agent"), ("output",)),
}
"""The changes that each point reads."""
