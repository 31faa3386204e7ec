"""Calls whose run pauses until people have answered, and may continue in another process.

Decision code: only the queue's answer approves, whatever the framework reports of its own.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.verdict import RuleLike
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.pauses import key_of

if TYPE_CHECKING:
    from otelhooks.approvals.queue import Parked, Queue

__all__ = ["parked", "parking"]


def parking(channel: Callable[..., Any] | None) -> Queue | None:
    """Return the approval channel if it is a queue that parks calls."""
    queue: Any = inspect.unwrap(channel) if channel is not None else None
    return queue if getattr(queue, "parks", False) is True else None


def parked(queue: Queue, rules: Sequence[RuleLike], op: Op, decision_id: str) -> Parked | None:
    """Return what asks the queue about a call without waiting for the answer.

    Args:
        queue: Where the question is kept.
        rules: Rules that said ask.
        op: The call's frame.
        decision_id: Id of the question, if it is asked now.

    Returns:
        None if the call must wait: nothing identifies it, or a tool makes it, whose body would get
        the framework's exception, and run twice.
    """
    key = None if isinstance(op.outer, Op) else key_of(op)
    if key is None:
        return None
    session = key[0] if isinstance(key[0], str) else ""  # another process numbers them otherwise
    asking = sorted([rule.policy_id, rule.identity] for rule in rules)
    text = json.dumps([session, *key[1:], asking])
    return queue.parked(hashlib.sha256(text.encode()).hexdigest(), decision_id)
