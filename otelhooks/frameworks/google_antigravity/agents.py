"""What the harness is told before an agent starts, and which agents it may start.

The harness asks before each tool call of an agent and of its copies (types ``self`` and
``research``). It does not ask for calls of agents that the application configured or the model
defined, and not for a few tools of its own; native policies do not reach those either. What could
be denied, and would not be asked for, is refused or taken away, unless the application says
``frameworks={"google_antigravity": {"unjudged": "allow"}}``. Decision code: fails closed.
"""
# pyright: basic

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from typing import Any

from otelhooks.frameworks.google_antigravity.state import AGENT, FRAMEWORK, Connected, known
from otelhooks.hooks.calls import Call
from otelhooks.hooks.registry import HookSet
from otelhooks.patching.builtin import BuiltIn
from otelhooks.pipeline import runtime
from otelhooks.pipeline.frames import Scope, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.policy.builders import deny
from otelhooks.policy.evaluate import PolicySet

__all__ = [
    "ALLOW",
    "INVOKE",
    "KINDS",
    "REFUSE",
    "TABLE",
    "UNJUDGED",
    "build_config",
    "built_in",
    "guarded_scope",
]

UNJUDGED = "unjudged"
"""Option of the framework: what becomes of agents and tools that the harness does not ask for."""
REFUSE, ALLOW = "refuse", "allow"

INVOKE, WORKFLOW = "invoke_subagent", "run_workflow"


def _canonical(kind: str | None) -> tuple[str, ...]:
    return ("run_command",) if kind == "shell" else ()


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

TABLE: dict[str, BuiltIn] = {
    **{
        f"google.antigravity:{name}": BuiltIn(name, _canonical(kind), kind)
        for name, kind in KINDS.items()
    },
    "google.antigravity:start_subagent": BuiltIn("start_subagent", (INVOKE,)),
}
"""The same for reports: the harness runs them, and its names are all that there is of them here."""

_FIELDS: dict[str, str] = {
    "find": "find_file",
    "grep_search": "search_directory",
    "list_dir": "list_directory",
    "file_edit": "edit_file",
    "write_to_file": "create_file",
    "user_questions": "ask_question",
    "subagents": INVOKE,
}
"""Field of the harness's configuration -> built-in tool, where the names differ."""

_NOT_ASKED_FOR = ("manage_task", "schedule")
"""Built-in tools whose calls the harness asks nobody about."""

_COVERED = frozenset(("", "self", "research"))
"""Types of agents whose calls the harness asks for; the empty one stands for ``self``."""

_HOOKS = ("PRE_TOOL", "POST_TOOL", "ON_TOOL_ERROR", "STOP", "POST_TURN", "ON_COMPACTION")

REASON = (
    "This agent cannot be started, since its tools cannot be checked; "
    "agents of type self or research can."
)
_WORKFLOW_REASON = (
    "Workflows cannot be run, since the tools of their agents cannot be checked; "
    "start agents of type self or research."
)


def _refusals(mode: Any) -> PolicySet:
    rules = [
        deny(INVOKE, id="unjudged_agents", reason=REASON, severity="high"),
        deny(WORKFLOW, id="unjudged_workflows", reason=_WORKFLOW_REASON, severity="high"),
    ]
    return PolicySet(rules, mode=mode, source=FRAMEWORK)


_REFUSALS = {False: _refusals("enforce"), True: _refusals("monitor")}


def built_in(name: str) -> Call:
    """Return a call of a built-in tool, to be looked up."""
    kind = KINDS.get(name)
    return Call(name, {}, kind=kind, canonical=_canonical(kind))


# -- agents -----------------------------------------------------------------------------------


def guarded_scope(rt: Runtime, state: Connected, call: Call) -> Scope | None:
    """Return the scope that a call is judged in: one that refuses it, where it must not run.

    Args:
        rt: The active runtime.
        state: Of the connection.
        call: With the arguments that the harness has.
    """
    outer = current_scope()
    if rt.option(FRAMEWORK, UNJUDGED) == ALLOW or not _starts_unjudged(rt, state, call):
        return outer
    return Scope(outer, HookSet(), (_REFUSALS[rt.loaded.monitor],))


def _starts_unjudged(rt: Runtime, state: Connected, call: Call) -> bool:
    """Say whether a call may start an agent that could do unasked what could be denied."""
    branch = call.branch or state.agent
    if call.name == WORKFLOW:
        return _could_deny(rt, None, state.python_tools, branch)
    if call.name != INVOKE:
        return False
    return any(
        _could_deny(rt, _tools_of(state, name), state.python_tools, branch)
        for name in types_started(call.args)
        if name not in _COVERED or name in state.static_agents
    )


def types_started(args: dict[str, Any]) -> list[str]:
    """Return the types of the agents that a call starts; what cannot be read as a type of none."""
    entries = args.get("Subagents")
    if not isinstance(entries, list):
        return ["(unreadable)"]
    return [
        entry["TypeName"]
        if isinstance(entry, dict) and isinstance(entry.get("TypeName", 0), str)
        else ("" if isinstance(entry, dict) and "TypeName" not in entry else "(unreadable)")
        for entry in entries
    ]


def _tools_of(state: Connected, type_name: str) -> frozenset[str] | None:
    """Return the built-in tools of a configured agent; None where they are not known."""
    return None if state.has_mcp else state.static_agents.get(type_name)


def _could_deny(
    rt: Runtime, tools: frozenset[str] | None, python_tools: frozenset[str], branch: str
) -> bool:
    """Say whether anything in force could stop, count or change a call that nobody asks for.

    Args:
        rt: The active runtime.
        tools: Built-in tools that may be called; None for any, and any tool of a server.
        python_tools: Tools that this process runs, and judges in any case.
        branch: Of the agent that is asked for.
    """
    if tools is not None and not tools:
        return False
    hooks, judges = rt.in_force(current_scope(), branch)
    point = hooks.at("pre_tool_call")
    if point.deciders or point.gates or hooks.transforms_results:
        return True
    for judge in judges:
        rules = getattr(judge, "rules", None)
        if not getattr(judge, "can_deny", True):
            continue
        if rules is None or not isinstance(judge, PolicySet):
            return True
        if tools is not None:
            if any(m.rule.can_deny for name in tools for m in judge.candidates(built_in(name))):
                return True
        elif judge.default == "deny" or judge.mcp_servers:
            return True
        elif any(rule.can_deny and not _is_for(rule, python_tools) for rule in rules):
            return True
    return False


def _is_for(rule: Any, names: frozenset[str]) -> bool:
    """Say whether a rule is for one of these local tools only."""
    selector = rule.selector
    return (
        selector.specificity == 0
        and selector.server is None
        and selector.kind is None
        and selector.tool in names
    )


# -- configuration ----------------------------------------------------------------------------


def build_config(wrapped: Callable[..., Any], strategy: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnectionStrategy._build_harness_config``, called at each start.

    Has the harness ask, and takes away what a rule hides or what nobody would be asked for.
    """
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    runner_type = sys.modules["google.antigravity.hooks.hook_runner"].HookRunner
    runner = strategy._hook_runner
    if runner is None:
        runner = runner_type()
    elif runner in known:
        runner = copy.copy(runner)  # of another agent as well: each must be told from the other
    strategy._hook_runner = runner
    config = wrapped(*args, **kwargs)
    known[runner] = _facts(strategy, runner, config)
    _enable_hooks(config)
    _take_away(rt, config, known[runner])
    return config


def _facts(strategy: Any, runner: Any, config: Any) -> dict[str, Any]:
    names = [getattr(hook, "_agent_name", "") for hook in runner.pre_turn_hooks]
    tool_runner = strategy._tool_runner
    own = frozenset(tool_runner.tool_names) if tool_runner is not None else frozenset()
    return {
        "agent": next((n for n in names if isinstance(n, str) and n), AGENT),
        "model": config.models[0].name if config.models else "",
        "python_tools": own,
        "has_mcp": bool(config.mcp_servers),
        "static_agents": {
            agent.name: frozenset(_enabled(agent.harness_side_tools))
            | frozenset(tool.name for tool in agent.tools if tool.name not in own)
            for agent in config.custom_subagents
        },
    }


def _name_of(field: Any) -> str:
    """Return the built-in tool that a field of the configuration is for."""
    name: str = field.name
    return _FIELDS.get(name, name)


def _enabled(tools: Any) -> Iterable[str]:
    """Yield the built-in tools that a configuration switches on."""
    for field, value in tools.ListFields():
        if getattr(value, "enabled", False):
            yield _name_of(field)


def _enable_hooks(config: Any) -> None:
    wire = sys.modules["google.antigravity.proto.localharness_pb2"]
    for name in _HOOKS:
        kind = getattr(wire, f"LIFECYCLE_HOOK_{name}")
        if kind not in config.enabled_hooks:
            config.enabled_hooks.append(kind)


def _take_away(rt: Runtime, config: Any, facts: dict[str, Any]) -> None:
    """Take out what rules hide, and tools that could be denied and are not asked for."""
    _, judges = rt.in_force(current_scope(), facts["agent"])
    hiding: list[Any] = [judge for judge in judges if getattr(judge, "can_hide", False)]
    refuses = rt.option(FRAMEWORK, UNJUDGED) != ALLOW

    def is_hidden(call: Call) -> bool:
        call.branch = facts["agent"]
        return any(judge.hides(call) for judge in hiding)

    def is_taken(name: str) -> bool:
        if name in _NOT_ASKED_FOR and refuses:
            one = frozenset((name,))
            if _could_deny(rt, one, facts["python_tools"], facts["agent"]):
                return True
        return is_hidden(built_in(name))

    for owner in (config, *config.custom_subagents):
        for field, value in owner.harness_side_tools.ListFields():
            if getattr(value, "enabled", False) and is_taken(_name_of(field)):
                value.enabled = False
        kept = [tool for tool in owner.tools if not is_hidden(Call(tool.name, {}))]
        if len(kept) != len(owner.tools):
            copies = [copy.deepcopy(tool) for tool in kept]
            del owner.tools[:]
            owner.tools.extend(copies)
    for server in config.mcp_servers if hiding else ():
        _hide_of_server(server, hiding, facts["agent"])


def _hide_of_server(server: Any, hiding: list[Any], agent: str) -> None:
    """Switch off the tools of a server that rules hide by name."""
    for rule in (rule for judge in hiding for rule in judge.rules):
        selector = rule.selector
        if not rule.hide or selector.specificity != 0 or selector.server != server.name:
            continue
        call = Call(selector.tool, {}, server=server.name, branch=agent)
        if any(judge.hides(call) for judge in hiding):
            if selector.tool not in server.disabled_tools:
                server.disabled_tools.append(selector.tool)
            if selector.tool in server.enabled_tools:
                server.enabled_tools.remove(selector.tool)
