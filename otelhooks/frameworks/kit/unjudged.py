# pyright: basic
"""Tools and agents that a loop elsewhere uses without asking: could anything have stopped them?

What could be denied but would not be asked about is refused or removed beforehand. Decision code:
fails closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from otelhooks.frameworks.kit.mcp.servers import name_at
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.frames import current_scope
from otelhooks.policy.builders import deny
from otelhooks.policy.evaluate import PolicySet

__all__ = ["Call", "Hiding", "Refusals", "could_deny"]


class Refusals:
    """Rules of an adapter's own.

    Args:
        framework: Adapter's name.
        rules: Tool to the rule's id, and its reason.
    """

    def __init__(self, framework: str, rules: Mapping[str, tuple[str, str]]) -> None:
        made = [
            deny(tool, id=id, reason=reason, severity="high")
            for tool, (id, reason) in rules.items()
        ]
        self._enforced = PolicySet(made, mode="enforce", source=framework)
        self._monitored = PolicySet(made, mode="monitor", source=framework)

    def in_force(self) -> PolicySet:
        """Return them, to be enforced or only recorded."""
        rt = runtime.active()
        return self._monitored if rt is not None and rt.loaded.monitor else self._enforced


def could_deny(branch: str, tools: Iterable[Call] | None, judged: frozenset[str]) -> bool:
    """Return whether anything in force could stop, count or change a call that is not asked about.

    Args:
        branch: Branch of agents that the call is made in.
        tools: Tools that may be called; None for any, including any tool of a server.
        judged: Names of tools that are judged in any case.
    """
    rt = runtime.active()
    tools = None if tools is None else list(tools)
    if rt is None or (tools is not None and not tools):
        return False
    hooks, judges = rt.in_force(current_scope(), branch)
    point = hooks.at("pre_tool_call")
    if point.deciders or point.gates or hooks.transforms_results:
        return True
    for judge in judges:
        if not getattr(judge, "can_deny", True):
            continue
        if not isinstance(judge, PolicySet):
            return True
        if tools is not None:
            if any(found.rule.can_deny for call in tools for found in judge.candidates(call)):
                return True
        elif judge.default == "deny" or judge.mcp_servers:
            return True
        elif any(rule.can_deny and not _is_for(rule, judged) for rule in judge.rules):
            return True
    return False


def _is_for(rule: Any, names: frozenset[str]) -> bool:
    """Return whether a rule is only for one of these local tools."""
    selector = rule.selector
    return (
        selector.specificity == 0
        and selector.server is None
        and selector.kind is None
        and selector.tool in names
    )


class Hiding:
    """The rules in force that hide tools.

    Args:
        branch: Branch of the agent that the tools are offered to.
    """

    def __init__(self, branch: str) -> None:
        rt = runtime.active()
        judges = rt.in_force(current_scope(), branch)[1] if rt is not None else ()
        self._branch = branch
        self._judges: list[Any] = [one for one in judges if getattr(one, "can_hide", False)]

    def hides(self, call: Call) -> bool:
        """Return whether a tool must not be offered, given a call of it."""
        call.branch = self._branch
        return any(judge.hides(call) for judge in self._judges)

    def of_server(self, server: str, place: Any = None) -> list[str]:
        """Return the names of a server's tools that must not be offered.

        Args:
            server: Its name in the framework.
            place: As for `ToolCall.server_at`.
        """
        name = name_at(place) or server
        selectors = [rule.selector for judge in self._judges for rule in judge.rules if rule.hide]
        return [
            selector.tool
            for selector in selectors
            if selector.specificity == 0 and selector.server in (name, server)
            if self.hides(Call(selector.tool, {}, server=name, server_says=server))
        ]
