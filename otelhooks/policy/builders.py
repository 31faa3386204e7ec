"""Builders of rules, one a decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast, overload

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.policy.rules import (
    AskUserHandler,
    Decision,
    Mode,
    Policy,
    Predicate,
    Severity,
)

__all__ = [
    "allow",
    "allow_mcp",
    "ask_user",
    "ask_user_mcp",
    "deny",
    "deny_mcp",
    "hide",
    "veto",
]


def _build(decision: Decision, tool: Any, mcp_tools: Any, **fields: Any) -> Any:
    """Return one rule for a tool name, a list of rules for a server."""
    if isinstance(tool, str) or not isinstance(tool, types.BaseMcpServerConfig):
        if mcp_tools is not None:
            raise ConfigError("mcp_tools cannot be specified when tool is a string.")
        return Policy(tool, decision, **fields)
    if isinstance(mcp_tools, str):
        msg = (
            f"mcp_tools must be a sequence of strings (e.g., ['{mcp_tools}']), not a single string."
        )
        raise ConfigError(msg)
    prefix = f"{decision.value.lower()}_{tool.name}"
    if mcp_tools is None:
        fields["name"] = fields["name"] or f"{prefix}_all"
        return [Policy(f"{tool.name}/*", decision, **fields)]
    rules: list[Policy] = []
    for name in mcp_tools:
        if not isinstance(name, str):
            raise ConfigError(f"mcp_tools must be a sequence of strings, not of {type(name)}")
        own: dict[str, Any] = {"name": f"{fields['name'] or prefix}_{name}"}
        if fields["id"] is not None:
            own["id"] = f"{fields['id']}_{name}"
        rules.append(Policy(f"{tool.name}/{name}", decision, **{**fields, **own}))
    return rules


@overload
def allow(
    tool: str,
    mcp_tools: None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy: ...


@overload
def allow(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> list[Policy]: ...


def allow(
    tool: str | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy | list[Policy]:
    """Let calls run.

    Args:
        tool: Name, ``server/tool``, glob, ``kind:shell``, ``*``, or a server's configuration.
        mcp_tools: Tools of that server; None for all of them.
        when: Predicate on the call; None for always.
        name: What messages call the rule; for a server's tools each one's name is added.
        reason: For span, event and audit record.
        id: Stable name in telemetry; a hash of the rule if None.
        severity: For alerts.
        mode: ``monitor`` records and does not enforce; None takes the mode of the set.
        agent: Glob on the branch of agents that the rule is for; None for every agent.
        when_labels: One of these labels must be in force, see `label`; None for any. Rules that do
            not allow hold as well where nobody has seen the conversation's history.

    Returns:
        One rule, or for a server a list of them.

    Raises:
        ConfigError: Something it says is not understood.

    Example:
        >>> allow("view_file").decision
        <Decision.APPROVE: 'APPROVE'>
    """
    return _build(
        Decision.APPROVE,
        tool,
        mcp_tools,
        when=when,
        name=name,
        reason=reason,
        id=id,
        severity=severity,
        mode=mode,
        agent=agent,
        when_labels=when_labels,
    )


@overload
def deny(
    tool: str,
    mcp_tools: None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy: ...


@overload
def deny(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> list[Policy]: ...


def deny(
    tool: str | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy | list[Policy]:
    """Refuse calls; parameters, return value and errors as for `allow`.

    Args:
        tool: As for `allow`.
        mcp_tools: As for `allow`.
        when: As for `allow`; one that raises denies.
        name: As for `allow`.
        reason: What the model is told, in place of ``Denied by policy 'LABEL'.``
        id: As for `allow`.
        severity: As for `allow`.
        mode: As for `allow`.
        agent: As for `allow`.
        when_labels: As for `allow`.

    Example:
        >>> deny("run_command", when=lambda args: "rm -rf" in args["CommandLine"]).label
        'run_command'
    """
    return _build(
        Decision.DENY,
        tool,
        mcp_tools,
        when=when,
        name=name,
        reason=reason,
        id=id,
        severity=severity,
        mode=mode,
        agent=agent,
        when_labels=when_labels,
    )


@overload
def ask_user(
    tool: str,
    mcp_tools: AskUserHandler | None = None,
    *,
    handler: AskUserHandler | None = None,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy: ...


@overload
def ask_user(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | AskUserHandler | None = None,
    *,
    handler: AskUserHandler | None = None,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> list[Policy]: ...


def ask_user(
    tool: str | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | AskUserHandler | None = None,
    *,
    handler: AskUserHandler | None = None,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy | list[Policy]:
    """Ask a human before calls run; parameters, return value and errors as for `allow`.

    Args:
        tool: As for `allow`.
        mcp_tools: As for `allow`; a handler may stand in its place.
        handler: Gets the `ToolCall`, and the reason if it takes one; only ``True`` approves. None
            leaves the question to the approval channel.
        when: As for `allow`.
        name: As for `allow`.
        reason: Shown to who is asked, and told to the model after a no.
        id: As for `allow`.
        severity: As for `allow`.
        mode: As for `allow`.
        agent: As for `allow`.
        when_labels: As for `allow`.

    Example:
        >>> ask_user("run_command", lambda call: call.args["CommandLine"] == "ls").decision
        <Decision.ASK_USER: 'ASK_USER'>
    """
    if callable(mcp_tools):
        if handler is not None:
            raise ConfigError("two handlers are given", hint="leave one of them out")
        handler, mcp_tools = cast("Callable[..., Any]", mcp_tools), None
    return _build(
        Decision.ASK_USER,
        tool,
        mcp_tools,
        ask_user=handler,
        when=when,
        name=name,
        reason=reason,
        id=id,
        severity=severity,
        mode=mode,
        agent=agent,
        when_labels=when_labels,
    )


allow_mcp = allow
deny_mcp = deny
ask_user_mcp = ask_user


@overload
def veto(
    tool: str,
    mcp_tools: None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy: ...


@overload
def veto(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> list[Policy]: ...


def veto(
    tool: str | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
) -> Policy | list[Policy]:
    """Refuse calls before any other rule is looked at, in any mode, whoever approves.

    Args:
        tool: As for `allow`.
        mcp_tools: As for `allow`.
        when: As for `allow`; one that raises denies, in monitor mode too.
        name: As for `allow`.
        reason: As for `deny`.
        id: As for `allow`.
        severity: As for `allow`.
        agent: As for `allow`.
        when_labels: As for `allow`.
    """
    return _build(
        Decision.DENY,
        tool,
        mcp_tools,
        when=when,
        name=name,
        reason=reason,
        id=id,
        severity=severity,
        agent=agent,
        when_labels=when_labels,
        veto=True,
    )


@overload
def hide(
    tool: str,
    mcp_tools: None = None,
    *,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
) -> Policy: ...


@overload
def hide(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
) -> list[Policy]: ...


def hide(
    tool: str | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
) -> Policy | list[Policy]:
    """Take a tool's definition out of model calls where that is possible, and refuse its calls.

    Args:
        tool: As for `allow`.
        mcp_tools: As for `allow`.
        name: As for `allow`.
        reason: As for `deny`.
        id: As for `allow`.
        severity: As for `allow`.
        mode: As for `allow`.
        agent: As for `allow`.
    """
    return _build(
        Decision.DENY,
        tool,
        mcp_tools,
        name=name,
        reason=reason,
        id=id,
        severity=severity,
        mode=mode,
        agent=agent,
        hide=True,
    )
