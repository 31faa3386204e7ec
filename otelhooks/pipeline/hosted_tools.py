"""Tools that run at the model's provider: their calls do not pass here, so none can be judged.

A tool that a rule denies is not offered to the model. An ask counts as a deny, because the question
could never be put; so does a condition of a rule that names exactly this tool, or its server.
Conditions of broader rules do not apply to calls that no seat sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import ALLOW, Judge
from otelhooks.plain_text import sanitize
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Rule
from otelhooks.policy.selectors import EXACT

if TYPE_CHECKING:
    from otelhooks.patching.builtin import BuiltIn
    from otelhooks.pipeline.runtime import Runtime

__all__ = ["Hosted", "hosted_as", "is_withheld", "rule_against"]


class Hosted(NamedTuple):
    """A tool that runs at the provider, as rules see it.

    Args:
        calls: One call for each way in which rules may name it; denying one denies the tool.
        server: Name of the server whose tools it represents, if they cannot be listed.
        says: Another name of that server; what denies by it denies the tool.
    """

    calls: tuple[Call, ...]
    server: str = ""
    says: str | None = None


def hosted_as(
    name: str, what: BuiltIn, server: Any, settings: Mapping[str, Any], says: str | None = None
) -> Hosted:
    """Return what rules see of a tool that runs at the provider.

    It counts as reached over the network, whatever else it is.

    Args:
        name: Name of the tool.
        what: Its canonical names and its kind.
        server: Name of the MCP server whose tools it represents; anything but text if there is
            none.
        settings: Its definition; ``allowed_tools`` in it lists tools of the server.
        says: Another name of the server.
    """
    kinds = {what.kind, what.kind and "net"}
    calls = tuple(Call(name, {}, canonical=what.canonical, kind=kind) for kind in kinds)
    if not isinstance(server, str):
        return Hosted(calls)
    names: Any = settings.get("allowed_tools")
    if isinstance(names, dict):
        names = cast("dict[str, Any]", names).get("tool_names")
    if names is None:
        return Hosted(calls, server, says)
    listed = (Call(name, {}, server=server, server_says=says, kind="net") for name in names)
    return Hosted((*calls, *listed))


def is_withheld(rt: Runtime, judges: Iterable[Judge], tool: Hosted, branch: str) -> bool:
    """Return whether a hosted tool is not offered, and warn once for each rule against it.

    Args:
        rt: The active runtime.
        judges: The sets of rules in force.
        tool: What would be offered.
        branch: Branch of the agent that it would be offered to.
    """
    name = tool.server or tool.calls[0].server or tool.calls[0].name
    for judge in judges:
        rule = rule_against(judge, tool, branch) if isinstance(judge, PolicySet) else None
        if rule is not None:
            rt.warn_once(
                f"hosted: {name} {rule.policy_id}/{rule.id}",
                "`%s` is not offered to models: rule `%s` is against it, and it runs at the "
                "provider, where no call can be judged",
                sanitize(name),
                rule.label,
            )
            return True
    return False


def rule_against(rules: PolicySet, tool: Hosted, branch: str) -> Rule | None:
    """Return the rule that keeps a hosted tool from being offered, None if it may be.

    Args:
        rules: The rules in force.
        tool: What would be offered.
        branch: Branch of the agent that it would be offered to.
    """
    for call in (*tool.calls, *_unlisted(rules, tool)):
        call.branch = branch
        found = _against(rules, call)
        if found is not None:
            return found
    return None


def _unlisted(rules: PolicySet, tool: Hosted) -> Iterator[Call]:
    """Yield calls of the tools of a server that the rules mention, and of one that they do not."""
    if server := tool.server:
        selectors = [rule.selector for rule in rules.rules]
        known = (server, tool.says or server)
        names = {one.tool for one in selectors if any(map(one.fits_server, known))}
        names |= {name for one in rules.mcp_servers for name in one.disabled_tools or ()}
        for name in ("", *sorted(names)):
            yield Call(name, {}, server=server, server_says=tool.says, kind="net")


def _against(rules: PolicySet, call: Call) -> Rule | None:
    for rule, _, _ in rules.candidates(call):
        if rule.fits_branch is not None and not rule.fits_branch(call.branch):
            continue
        if rule.monitored:
            continue
        if not rule.has_condition:
            return None if rule.decision == ALLOW else rule
        selector = rule.selector
        is_of_tool = selector.specificity == EXACT and selector.text == call.name
        if rule.decision != ALLOW and (is_of_tool or selector.server is not None):
            return rule
    return None
