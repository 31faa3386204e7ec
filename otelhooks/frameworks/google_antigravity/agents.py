"""What the harness gets before an agent starts, and which agents it may start.

The harness asks before each tool call of an agent and of its copies (types ``self`` and
``research``). It does not ask about calls of agents that the application configured or the model
defined, nor about a few tools of its own; native policies do not reach those either. What could be
denied but would not be asked about is refused or removed, unless the application sets
``frameworks={"google_antigravity": {"unjudged": "allow"}}``. Decision code: fails closed.
"""
# pyright: basic

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_antigravity.harness import AGENT, Facts, SubRun, known
from otelhooks.frameworks.kit import unjudged

__all__ = ["ALLOW", "INVOKE", "KINDS", "REFUSE", "TABLE", "UNJUDGED", "build_config", "objection"]

UNJUDGED = "unjudged"
"""Option of the framework for agents and tools that the harness does not ask about."""
REFUSE, ALLOW = "refuse", "allow"

INVOKE, WORKFLOW = "invoke_subagent", "run_workflow"

KINDS: dict[str, str | None] = {
    "run_command": "shell",
    "view_file": "file_read",
    "list_directory": "file_read",
    "search_directory": "file_read",
    "find_file": "file_read",
    "create_file": "file_write",
    "edit_file": "file_write",
    "generate_image": "file_write",
    "search_web": "net",
    "read_url_content": "net",
    "ask_question": None,
    INVOKE: None,
    WORKFLOW: None,
    "schedule": None,
    "finish": None,
    "manage_task": "shell",
}
"""Built-in tools, by the names that rules see; ``manage_task`` types into running commands."""


def _canonical(kind: str | None) -> tuple[str, ...]:
    return ("run_command",) if kind == "shell" else ()


TABLE = kit.BuiltIns(
    {
        **{
            f"google.antigravity:{name}": (name, _canonical(kind), kind)
            for name, kind in KINDS.items()
        },
        "google.antigravity:start_subagent": ("start_subagent", (INVOKE,)),
    }
)
"""The same for reports: the harness runs them, and only their names are known here."""

_FIELDS: dict[str, str] = {
    "find": "find_file",
    "grep_search": "search_directory",
    "list_dir": "list_directory",
    "file_edit": "edit_file",
    "write_to_file": "create_file",
    "user_questions": "ask_question",
    "subagents": INVOKE,
}
"""Field of the harness's configuration -> built-in tool, if the names differ."""

_NOT_ASKED_FOR = ("manage_task", "schedule")
"""Built-in tools that the harness calls without asking."""

_COVERED = frozenset(("", "self", "research"))
"""Types of agents whose calls the harness asks about; the empty one means ``self``."""

_HOOKS = ("PRE_TOOL", "POST_TOOL", "ON_TOOL_ERROR", "STOP", "POST_TURN", "ON_COMPACTION")

_AGENT_REASON = (
    "This agent cannot be started, since its tools cannot be checked; "
    "agents of type self or research can."
)
_WORKFLOW_REASON = (
    "Workflows cannot be run, since the tools of their agents cannot be checked; "
    "start agents of type self or research."
)
_REFUSALS = unjudged.Refusals(
    "google_antigravity",
    {
        INVOKE: ("unjudged_agents", _AGENT_REASON),
        WORKFLOW: ("unjudged_workflows", _WORKFLOW_REASON),
    },
)


def _built_in(name: str) -> unjudged.Call:
    """Return a call of a built-in tool, to be looked up."""
    kind = KINDS.get(name)
    return unjudged.Call(name, {}, kind=kind, canonical=_canonical(kind))


# -- agents -----------------------------------------------------------------------------------


def objection(call: Any) -> Any:
    """Return the rules that refuse a call that starts agents which could do what is denied."""
    facts, branch = call.loop.facts, call.branch or call.loop.agent
    if call.option(UNJUDGED) == ALLOW:
        return None
    if call.name == WORKFLOW:
        started: Iterable[Any] = (None,)
    elif call.name == INVOKE:
        asked_about = _COVERED - facts.static_agents.keys()
        started = [_tools_of(facts, n) for n in _types(call.args) if n not in asked_about]
    else:
        return None
    if any(unjudged.could_deny(branch, tools, facts.python_tools) for tools in started):
        return _REFUSALS.in_force()
    return None


def _types(args: dict[str, Any]) -> list[str]:
    """Return the types of agents that a call starts; an unreadable one is an unknown type."""
    entries = args.get("Subagents")
    if not isinstance(entries, list):
        return [_UNREADABLE]
    given = [e.get("TypeName", "") if isinstance(e, dict) else None for e in entries]
    return [name if isinstance(name, str) else _UNREADABLE for name in given]


_UNREADABLE = "(unreadable)"


def _tools_of(facts: Facts, name: str) -> list[Any] | None:
    """Return the built-in tools of a configured agent; None if unknown."""
    tools = None if facts.servers else facts.static_agents.get(name)
    return None if tools is None else list(map(_built_in, tools))


# -- configuration ----------------------------------------------------------------------------


def build_config(wrapped: Any, strategy: Any) -> Any:
    """Listen to ``LocalConnectionStrategy._build_harness_config``, called at each start.

    Makes the harness ask, and removes what a rule hides or what it would not ask about.
    """
    runner = strategy._hook_runner
    if runner is None:
        runner = kit.native("google.antigravity.hooks.hook_runner:HookRunner")()
    elif runner in known:
        runner = copy.copy(runner)  # another agent has it, too: the two must stay apart
    strategy._hook_runner = runner
    config = wrapped()
    known[runner] = facts = _facts(strategy, runner, config)
    for name in _HOOKS:
        kind = kit.native(f"google.antigravity.proto.localharness_pb2:LIFECYCLE_HOOK_{name}")
        if kind not in config.enabled_hooks:
            config.enabled_hooks.append(kind)
    _take_away(config, facts)
    return config


def _facts(strategy: Any, runner: Any, config: Any) -> Facts:
    names = [getattr(hook, "_agent_name", "") for hook in runner.pre_turn_hooks]
    tool_runner = strategy._tool_runner
    own = frozenset(tool_runner.tool_names) if tool_runner is not None else frozenset()
    return Facts(
        agent=next((n for n in names if isinstance(n, str) and n), AGENT),
        model=config.models[0].name if config.models else "",
        python_tools=own,
        servers={server.name: _place_of(server) for server in config.mcp_servers},
        static_agents={
            agent.name: frozenset(name for name, _ in _enabled(agent.harness_side_tools))
            | frozenset(tool.name for tool in agent.tools if tool.name not in own)
            for agent in config.custom_subagents
        },
    )


def _place_of(server: Any) -> Any:
    return getattr(server, server.WhichOneof("transport"))


def _enabled(tools: Any) -> Iterable[tuple[str, Any]]:
    """Yield the built-in tools that a configuration switches on, each with its setting."""
    for field, setting in tools.ListFields():
        if getattr(setting, "enabled", False):
            name: str = field.name
            yield _FIELDS.get(name, name), setting


def _take_away(config: Any, facts: Facts) -> None:
    """Remove what rules hide, and tools that could be denied but are not asked for."""
    hiding = unjudged.Hiding(facts.agent)
    refuses = SubRun.option(UNJUDGED) != ALLOW

    def is_taken(name: str) -> bool:
        tool = _built_in(name)
        if refuses and name in _NOT_ASKED_FOR:
            if unjudged.could_deny(facts.agent, [tool], facts.python_tools):
                return True
        return hiding.hides(tool)

    for owner in (config, *config.custom_subagents):
        for name, setting in _enabled(owner.harness_side_tools):
            if is_taken(name):
                setting.enabled = False
        kept = [tool for tool in owner.tools if not hiding.hides(unjudged.Call(tool.name, {}))]
        if len(kept) != len(owner.tools):
            copies = [copy.deepcopy(tool) for tool in kept]
            del owner.tools[:]
            owner.tools.extend(copies)
    for server in config.mcp_servers:
        for name in hiding.of_server(server.name, _place_of(server)):
            if name not in server.disabled_tools:
                server.disabled_tools.append(name)
            if name in server.enabled_tools:
                server.enabled_tools.remove(name)
