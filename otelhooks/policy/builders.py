"""Builders of rules, one for each decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypedDict, cast, overload

from typing_extensions import Unpack

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


# What the overloads share. Each builder itself spells out its keywords, for `help()` and for
# Python's own error about an unknown one, and passes on `locals()`: its parameters and nothing
# else.
class _Any(TypedDict, total=False):
    name: str
    reason: str
    id: str | None
    severity: Severity | None
    agent: str | None


class _Hide(_Any, total=False):
    mode: Mode | None


class _Conditions(_Any, total=False):
    when: Predicate | str | None
    when_labels: str | Collection[str] | None
    when_user: Mapping[str, str | Collection[str]] | None


class _Allow(_Hide, _Conditions, total=False): ...


class _Veto(_Conditions, total=False):
    when_annotations: Mapping[str, bool] | None
    unless_user_said: str | Collection[str] | None
    when_argument_from: Mapping[str, str | Collection[str]] | None


class _Deny(_Hide, _Veto, total=False): ...


class _Question(_Deny, total=False):
    handler: AskUserHandler | None


def _build(
    decision: Decision,
    tool: Any,
    mcp_tools: Any,
    *,
    name: str,
    id: str | None,
    handler: AskUserHandler | None = None,
    **fields: Any,
) -> Any:
    """Return one rule for a tool name, a list of rules for a list of tools, or a server."""
    if isinstance(fields.get("when"), str):
        about = id or name or (tool if isinstance(tool, str) else "")
        fields["when"] = _expression(fields["when"], f"rule `{about}`: when" if about else "when")

    def rule(pattern: str, name: str = name, id: str | None = id) -> Policy:
        return Policy(pattern, decision, name=name, id=id, ask_user=handler, **fields)

    if isinstance(tool, (list, tuple)):
        given = cast("Sequence[Any]", tool)
        if mcp_tools is not None:
            raise ConfigError("mcp_tools cannot be specified when tool is a list")
        if not given:
            raise ConfigError("the list of tools is empty", hint="name a tool, or leave it out")
        if len(given) == 1:
            return [rule(given[0])]
        return [rule(each, name and f"{name}_{each}", id and f"{id}_{each}") for each in given]
    # The name of the class loads pydantic (50 ms), which a program without such servers never
    # needs.
    if isinstance(tool, str) or not isinstance(tool, types.BaseMcpServerConfig):
        if mcp_tools is not None:
            raise ConfigError("mcp_tools cannot be specified when tool is a string.")
        return rule(tool)
    if isinstance(mcp_tools, str):
        msg = (
            f"mcp_tools must be a sequence of strings (e.g., ['{mcp_tools}']), not a single string."
        )
        raise ConfigError(msg)
    prefix = f"{decision.value.lower()}_{tool.name}"
    if mcp_tools is None:
        return [rule(f"{tool.name}/*", name or f"{prefix}_all")]
    rules: list[Policy] = []
    for each in mcp_tools:
        if not isinstance(each, str):
            raise ConfigError(f"mcp_tools must be a sequence of strings, not of {type(each)}")
        own_id = None if id is None else f"{id}_{each}"
        rules.append(rule(f"{tool.name}/{each}", f"{name or prefix}_{each}", own_id))
    return rules


def _expression(text: str, place: str) -> Any:
    """Compile a condition as written in a YAML policy; an error names its line and column."""
    from otelhooks.policy.files.document import parse
    from otelhooks.policy.files.when import WHEN

    return WHEN.read(parse(json.dumps(text), place), "`when`")


@overload
def allow(tool: str, mcp_tools: None = None, **fields: Unpack[_Allow]) -> Policy: ...
@overload
def allow(
    tool: list[str] | tuple[str, ...], mcp_tools: None = None, **fields: Unpack[_Allow]
) -> list[Policy]: ...
@overload
def allow(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    **fields: Unpack[_Allow],
) -> list[Policy]: ...
def allow(
    tool: str | list[str] | tuple[str, ...] | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | str | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
    when_user: Mapping[str, str | Collection[str]] | None = None,
) -> Policy | list[Policy]:
    """Let calls run.

    Args:
        tool: Name, ``server/tool``, glob, ``kind:shell``, ``*``, a list of them, or a server's
            configuration.
        mcp_tools: Tools of that server; None for all of them.
        when: Predicate on the call, or an expression as in a YAML policy; None for always.
        name: Name in messages; for several tools each one's name is added.
        reason: For span, event and audit record.
        id: Stable name in telemetry; a hash of the rule if None.
        severity: For alerts.
        mode: ``monitor`` records but does not enforce; None takes the mode of the set.
        agent: Glob on the branch of agents that the rule is for; None for every agent.
        when_labels: One of these labels must be in force, see `label`; None for any. Rules that do
            not allow also apply if the conversation's history is unknown.
        when_user: What the user must be: ``id``, ``role`` or ``tenant``, each with the text that
            must fit, or several. What is unknown of the user fits a rule that does not allow.

    Returns:
        One rule, or for a list or a server a list of them.

    Raises:
        ConfigError: An argument is not understood.

    Example:
        >>> allow("view_file").decision
        <Decision.APPROVE: 'APPROVE'>
    """
    return _build(Decision.APPROVE, **locals())


@overload
def deny(tool: str, mcp_tools: None = None, **fields: Unpack[_Deny]) -> Policy: ...
@overload
def deny(
    tool: list[str] | tuple[str, ...], mcp_tools: None = None, **fields: Unpack[_Deny]
) -> list[Policy]: ...
@overload
def deny(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    **fields: Unpack[_Deny],
) -> list[Policy]: ...
def deny(
    tool: str | list[str] | tuple[str, ...] | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | str | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
    when_annotations: Mapping[str, bool] | None = None,
    unless_user_said: str | Collection[str] | None = None,
    when_user: Mapping[str, str | Collection[str]] | None = None,
    when_argument_from: Mapping[str, str | Collection[str]] | None = None,
) -> Policy | list[Policy]:
    """Refuse calls; parameters, return value and errors as for `allow`.

    ``when_annotations``, such as ``{"readOnlyHint": False}``, restricts the rule to tools of MCP
    servers that are annotated like this, or whose annotations are not known. With
    ``unless_user_said``, names of arguments, the rule does not apply if the user said every value
    of them, at any depth; see `otelhooks.policy.values.spoken`. ``when_argument_from``, such as
    ``{"url": "untrusted"}``, restricts it to calls where a value of one of these arguments came
    from a tool's result with the label; see `otelhooks.policy.origins`. A ``when`` that raises
    denies. ``reason`` is what the model reads instead of ``Denied by policy 'LABEL'.``

    Example:
        >>> deny("run_command", when=lambda args: "rm -rf" in args["CommandLine"]).label
        'run_command'
    """
    return _build(Decision.DENY, **locals())


@overload
def ask_user(
    tool: str, mcp_tools: AskUserHandler | None = None, **fields: Unpack[_Question]
) -> Policy: ...
@overload
def ask_user(
    tool: list[str] | tuple[str, ...],
    mcp_tools: AskUserHandler | None = None,
    **fields: Unpack[_Question],
) -> list[Policy]: ...
@overload
def ask_user(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | AskUserHandler | None = None,
    **fields: Unpack[_Question],
) -> list[Policy]: ...
def ask_user(
    tool: str | list[str] | tuple[str, ...] | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | AskUserHandler | None = None,
    *,
    handler: AskUserHandler | None = None,
    when: Predicate | str | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
    when_annotations: Mapping[str, bool] | None = None,
    unless_user_said: str | Collection[str] | None = None,
    when_user: Mapping[str, str | Collection[str]] | None = None,
    when_argument_from: Mapping[str, str | Collection[str]] | None = None,
) -> Policy | list[Policy]:
    """Ask a human before calls run; parameters, return value and errors as for `deny`.

    The handler, which may be the second argument, gets the `ToolCall`, and the reason if it takes
    one; only ``True`` approves. None leaves the question to the approval channel. ``reason`` is
    shown to the person who is asked, and to the model after a refusal.

    Example:
        >>> ask_user("run_command", lambda call: call.args["CommandLine"] == "ls").decision
        <Decision.ASK_USER: 'ASK_USER'>
    """
    if callable(mcp_tools):
        if handler is not None:
            raise ConfigError("two handlers are given", hint="leave one of them out")
        handler, mcp_tools = cast("Callable[..., Any]", mcp_tools), None
    return _build(Decision.ASK_USER, **locals())


allow_mcp = allow
deny_mcp = deny
ask_user_mcp = ask_user


@overload
def veto(tool: str, mcp_tools: None = None, **fields: Unpack[_Veto]) -> Policy: ...
@overload
def veto(
    tool: list[str] | tuple[str, ...], mcp_tools: None = None, **fields: Unpack[_Veto]
) -> list[Policy]: ...
@overload
def veto(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    **fields: Unpack[_Veto],
) -> list[Policy]: ...
def veto(
    tool: str | list[str] | tuple[str, ...] | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    when: Predicate | str | None = None,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    agent: str | None = None,
    when_labels: str | Collection[str] | None = None,
    when_annotations: Mapping[str, bool] | None = None,
    unless_user_said: str | Collection[str] | None = None,
    when_user: Mapping[str, str | Collection[str]] | None = None,
    when_argument_from: Mapping[str, str | Collection[str]] | None = None,
) -> Policy | list[Policy]:
    """Refuse calls before any other rule is checked, in any mode, even if people approve.

    Parameters, return value and errors as for `deny`. A ``when`` that raises denies in monitor mode
    too.
    """
    return _build(Decision.DENY, veto=True, **locals())


@overload
def hide(tool: str, mcp_tools: None = None, **fields: Unpack[_Hide]) -> Policy: ...
@overload
def hide(
    tool: list[str] | tuple[str, ...], mcp_tools: None = None, **fields: Unpack[_Hide]
) -> list[Policy]: ...
@overload
def hide(
    tool: types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    **fields: Unpack[_Hide],
) -> list[Policy]: ...
def hide(
    tool: str | list[str] | tuple[str, ...] | types.BaseMcpServerConfig,
    mcp_tools: Sequence[str] | None = None,
    *,
    name: str = "",
    reason: str = "",
    id: str | None = None,
    severity: Severity | None = None,
    mode: Mode | None = None,
    agent: str | None = None,
) -> Policy | list[Policy]:
    """Remove a tool's definition from model calls where possible, and refuse its calls.

    Parameters, return value and errors as for `deny`.
    """
    return _build(Decision.DENY, hide=True, **locals())
