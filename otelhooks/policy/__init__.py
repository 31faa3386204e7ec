"""Policies: rules about tool calls, and the engine that evaluates them.

Rules are built with `allow`, `deny`, `ask_user`, `veto` and `hide`, or come as presets. Pass them
to ``otelhooks.instrument(policies=[...])``, or turn them into a hook with `enforce`. `RateLimit`,
`Repeat`, `Budget` and `label` remember what has happened before; they are used like rules. So is
`AbstractPolicy`, for policies that are code.
"""

from typing import TYPE_CHECKING

from otelhooks.policy.builders import (
    allow,
    allow_mcp,
    ask_user,
    ask_user_mcp,
    deny,
    deny_mcp,
    hide,
    veto,
)
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.hook import PolicyHook, enforce
from otelhooks.policy.presets import (
    allow_all,
    confirm_run_command,
    deny_all,
    safe_defaults,
)
from otelhooks.policy.rules import (
    AskUserHandler,
    Decision,
    Policy,
    Predicate,
    Rule,
    flatten_policies,
)
from otelhooks.process.late import late_names

if TYPE_CHECKING:
    from otelhooks.hooks.compat.tool_bound import AbstractPolicy
    from otelhooks.hooks.compat.tool_policies import MaxRecipientsPolicy, RejectToolPolicy
    from otelhooks.policy.auto_policy import AutoPolicy, auto
    from otelhooks.policy.labels import Label, label
    from otelhooks.policy.limits.budgets import Budget
    from otelhooks.policy.limits.quotas import RateLimit, Repeat
    from otelhooks.policy.shells.rules import shell_only
    from otelhooks.policy.workspace import PATH_ARGUMENTS, workspace_only

__all__ = [
    "PATH_ARGUMENTS",
    "AbstractPolicy",
    "AskUserHandler",
    "AutoPolicy",
    "Budget",
    "Decision",
    "Label",
    "MaxRecipientsPolicy",
    "Policy",
    "PolicyHook",
    "PolicySet",
    "Predicate",
    "RateLimit",
    "RejectToolPolicy",
    "Repeat",
    "Rule",
    "allow",
    "allow_all",
    "allow_mcp",
    "ask_user",
    "ask_user_mcp",
    "auto",
    "confirm_run_command",
    "deny",
    "deny_all",
    "deny_mcp",
    "enforce",
    "flatten_policies",
    "hide",
    "label",
    "safe_defaults",
    "shell_only",
    "veto",
    "workspace_only",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks.hooks.compat.tool_bound": "AbstractPolicy",
            "otelhooks.hooks.compat.tool_policies": "MaxRecipientsPolicy RejectToolPolicy",
            "otelhooks.policy.auto_policy": "AutoPolicy auto",
            "otelhooks.policy.labels": "Label label",
            "otelhooks.policy.limits.budgets": "Budget",
            "otelhooks.policy.limits.quotas": "RateLimit Repeat",
            "otelhooks.policy.shells.rules": "shell_only",
            "otelhooks.policy.workspace": "PATH_ARGUMENTS workspace_only",
        },
    )
