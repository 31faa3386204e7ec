"""Rules that most agents start with."""

from __future__ import annotations

from otelhooks import types
from otelhooks.policy.builders import allow, ask_user, deny
from otelhooks.policy.rules import AskUserHandler, Policy

__all__ = ["allow_all", "confirm_run_command", "deny_all", "safe_defaults"]

_ALL = "*"


def allow_all() -> Policy:
    """Let every call run that no other rule stops."""
    return allow(_ALL, name="allow_all")


def deny_all() -> Policy:
    """Refuse every call that no more specific rule allows."""
    return deny(_ALL, name="deny_all")


def confirm_run_command(handler: AskUserHandler | None = None) -> list[Policy]:
    """Refuse ``run_command``, or with a handler ask for it; let the rest run.

    Args:
        handler: As for `ask_user`.
    """
    name, tool = "confirm_run_command", types.BuiltinTools.RUN_COMMAND.value
    command = deny(tool, name=name) if handler is None else ask_user(tool, handler, name=name)
    return [command, allow(_ALL, name=name)]


def safe_defaults(handler: AskUserHandler | None) -> list[Policy]:
    """Let tools run that only read, and ask for the rest.

    Args:
        handler: As for `ask_user`; None leaves the question to the approval channel.
    """
    reading = [*types.BuiltinTools.read_only(), *types.BuiltinTools.deprecated()]
    return [*(allow(tool.value) for tool in reading), ask_user(_ALL, handler=handler)]
