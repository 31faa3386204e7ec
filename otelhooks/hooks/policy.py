"""Alias of `otelhooks.policy`, under google-antigravity's path."""

from __future__ import annotations

import inspect

from otelhooks import policy as _policy
from otelhooks import types
from otelhooks.policy import *  # noqa: F403
from otelhooks.policy import Policy
from otelhooks.policy import PolicyHook as _PolicyDecideHook
from otelhooks.policy.asking import bind_handler
from otelhooks.policy.workspace import WORKSPACE_ONLY_POLICY_NAME

# Upstream's own tests use these two names as well.
__all__ = ["WORKSPACE_ONLY_POLICY_NAME", "_PolicyDecideHook", "_execute_ask_user"]
__all__ += _policy.__all__


async def _execute_ask_user(policy: Policy, tool_call: types.ToolCall, reason: str = "") -> bool:
    """Call a rule's handler; what it raises escapes."""
    if policy.ask_user is None:
        msg = f"rule `{policy.label}` has no handler"
        raise ValueError(msg)
    answer = bind_handler(policy.ask_user)(tool_call, reason)
    return (await answer if inspect.isawaitable(answer) else answer) is True
