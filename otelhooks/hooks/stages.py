"""The values of a tool's steps, for hooks that look at a call step by step.

A tool that sends a transaction normalizes its parameters, prepares, and commits; hooks of
`otelhooks.hooks.compat.tool_bound` run before and after each step. An adapter of such tools puts a
`StageParams` into the operation's context and runs `HookSet.in_stages`; any other tool is one step,
and the hooks of all steps run at pre_tool_call and post_tool_call.
"""

from __future__ import annotations

from typing import Any

__all__ = ["StageParams"]


class StageParams:
    """One call of a tool at its present stage; None for what has not happened yet.

    Args:
        method: Name of the tool.
        context: The framework's own context of the tool; without one, the `HookContext`.
        client: The framework's own client, or None.
        is_staged: Whether the tool has steps of its own, whose values an adapter fills in.

    Attributes:
        raw_params: Original arguments, a dict.
        normalized_params: Arguments as the tool has validated them; a dict like `raw_params` if the
            framework does not validate them separately.
        core_action_result: What the tool has prepared; its result if it has one step.
        tool_result: Its result.
        rewritten_by: Rule ids of the hooks that changed one of these, in order.
    """

    __slots__ = (
        "client",
        "context",
        "core_action_result",
        "is_staged",
        "method",
        "normalized_params",
        "raw_params",
        "rewritten_by",
        "tool_result",
    )

    def __init__(
        self, method: str, context: Any, *, client: Any = None, is_staged: bool = False
    ) -> None:
        self.method: str = method
        self.context: Any = context
        self.client: Any = client
        self.is_staged: bool = is_staged
        self.raw_params: Any = None
        self.normalized_params: Any = None
        self.core_action_result: Any = None
        self.tool_result: Any = None
        self.rewritten_by: list[str] = []
