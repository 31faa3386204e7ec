"""Which of the changes that a hook's answer asks for its point reads.

Not beside `HookResult`: the engine imports this, and pydantic only when a hook is called.
"""

from __future__ import annotations

from typing import Any

from otelhooks.records.failures import WrongAnswer

__all__ = ["refuse_decision", "refuse_unread"]


def refuse_unread(answer: Any, point: str) -> None:
    """Refuse an answer with a change that its point does not read, and that would change nothing.

    Args:
        answer: A hook's answer.
        point: Such as ``pre_tool_call``; any other than those that read changes passes.

    Raises:
        WrongAnswer: It has one.
    """
    read = _READ.get(point)
    if read is None:
        return
    for name in sorted(answer.changes().difference(read)):
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
    from otelhooks.records.hook_result import HookResult

    if isinstance(answer, HookResult) and (not answer.allow or answer.changes()):
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
