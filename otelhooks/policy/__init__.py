"""Policies: rules about tool calls, and the engine that evaluates them.

Rules are built with `allow`, `deny`, `ask_user`, `veto` and `hide`, or come as presets. They are
given to ``otelhooks.instrument(policies=[...])``, or made a hook of with `enforce`.
"""

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
    auto,
    confirm_run_command,
    deny_all,
    safe_defaults,
)
from otelhooks.policy.rules import (
    AskUserHandler,
    AutoPolicy,
    Decision,
    Policy,
    Predicate,
    Rule,
    flatten_policies,
)
from otelhooks.policy.workspace import PATH_ARGUMENTS, workspace_only

__all__ = [
    "PATH_ARGUMENTS",
    "AskUserHandler",
    "AutoPolicy",
    "Decision",
    "Policy",
    "PolicyHook",
    "PolicySet",
    "Predicate",
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
    "safe_defaults",
    "veto",
    "workspace_only",
]
