"""`enforce`: rules as a hook, for use with a hand-driven runner or beside other hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import PreToolCallDecideHook
from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Raised, Run, adrive, arun
from otelhooks.hooks.tool_chain import MAX_ROUNDS, NEVER_SETTLED
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, Approval, Ruling, told
from otelhooks.policy.evaluate import PolicySet, failure
from otelhooks.policy.rules import Policy, flatten_policies

__all__ = ["PolicyHook", "enforce"]


class PolicyHook(PreToolCallDecideHook):
    """Decides about tool calls by rules.

    Args:
        judge: The rules.

    Attributes:
        judge: The rules; a dispatch of `HookRunner` puts calls to them directly.
    """

    def __init__(self, judge: PolicySet) -> None:
        self.judge = judge

    async def run(self, context: HookContext | None, data: types.ToolCall) -> types.HookResult:
        """Decide about a call, and ask if the rules say so; fails closed.

        Never suspends if predicates and handlers are synchronous.

        Args:
            context: Not needed.
            data: Passed unchanged to predicates that take a `ToolCall`, and to handlers.
        """
        if type(data) is types.ToolCall:
            constant = self.judge.constant_for(data)
            if constant is not None and constant.decision == ALLOW:
                return types.HookResult.allowed()
        approval: Approval | None = None
        for _ in range(MAX_ROUNDS):
            call = Call.of(data)
            ruling = await adrive(self.judge.evaluate(call, context))
            if ruling.decision == DENY:
                # A hook that passes this result on has its message recorded as the reason.
                return _denied(ruling, ruling.reason or ruling.message)
            rule: Any = ruling.rule
            if ruling.decision != ASK or (approval and approval.covers(rule, call.args)):
                return types.HookResult.allowed()
            answer = await arun(Run(rule.ask, data, told(rule, rule.reason, data)))
            if type(answer) is Raised:
                return _denied(ruling, failure(rule, answer.error))
            if answer is not True:
                return _denied(ruling, ruling.message)
            # Time has passed, and the handler could have changed the call.
            before, approval = approval, Approval("approved")
            approval.rules, approval.args = (rule,), copy_json(Call.of(data).args)
            approval.join(before)
        return types.HookResult(allow=False, message=NEVER_SETTLED)


def _denied(ruling: Ruling, message: str) -> types.HookResult:
    rule = ruling.rule
    return types.HookResult.model_validate(
        {
            "allow": False,
            "message": message,
            "rule_id": None if rule is None else rule.id,
            "severity": None if rule is None else rule.severity,
        }
    )


def enforce(
    policies: Sequence[Policy | Sequence[Policy]],
    *,
    mcp_servers: Sequence[types.BaseMcpServerConfig] | None = None,
) -> PolicyHook:
    """Return rules as a hook.

    Args:
        policies: Rules, and lists of rules as builders for servers and presets return them.
        mcp_servers: Configurations of the servers that rules may name; ``[]`` if unknown.

    Raises:
        ConfigError: A rule cannot be understood, asks without an approver, or names a server's tool
            without `mcp_servers`.

    Example:
        >>> hook = enforce([deny("run_command")])
    """
    flat = flatten_policies(policies)
    if mcp_servers is None and any("/" in policy.tool for policy in flat):
        raise ConfigError(
            "MCP policies (containing '/') were detected, but 'mcp_servers' was not provided to"
            " enforce(). You must pass the registered MCP servers to enable secure policy matching"
            " and prevent silent bypasses."
        )
    return PolicyHook(PolicySet(flat, mcp_servers=mcp_servers))
