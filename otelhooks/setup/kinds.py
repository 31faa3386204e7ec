"""Rules about kinds of tools, and frameworks without a tool of that kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from otelhooks.policy.rules import Decision, Policy

if TYPE_CHECKING:
    from otelhooks.patching.adapters import Adapter

__all__ = ["HINT", "kinds_of", "unmatched"]

HINT = (
    "name the tools, such as `fetch` or `server/*`: only tools that ship with a framework "
    "have a kind"
)


def kinds_of(adapter: Adapter) -> frozenset[str]:
    """Return the kinds of the tools that a framework includes."""
    tools = adapter.built_in.values()
    kinds = {tool.kind for tool in tools if tool.kind is not None}
    return frozenset(kinds | {"net" for tool in tools if tool.is_hosted})


def unmatched(rules: Iterable[Policy], adapters: Collection[Adapter]) -> tuple[Policy, ...]:
    """Return deny and ask rules for a kind that no tool of any of the frameworks has.

    Args:
        rules: As written.
        adapters: Adapters of the frameworks in use; if there are none yet, no rule is reported.
    """
    if not adapters:
        return ()
    known = frozenset[str]().union(*map(kinds_of, adapters))
    return tuple(
        rule
        for rule in rules
        if rule.decision is not Decision.APPROVE
        and rule.tool.startswith("kind:")
        and rule.tool.removeprefix("kind:") not in known
    )
