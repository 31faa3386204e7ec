"""Labels by rule: a tool that runs marks the conversation; rules with ``when_labels`` read it.

A mark is set when nothing holds the call up any more, before the tool's body runs: so a tool that
fails, is cancelled or returns its result piece by piece has also marked the conversation, and a
denied one has not.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, get_args

from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.labels import UNKNOWN, Lasting
from otelhooks.hooks.verdict import ALLOW, Ruling
from otelhooks.policy.index import Index
from otelhooks.policy.rules import Decision, Policy, Rule
from otelhooks.policy.selector_values import read_labels

__all__ = ["Label", "label"]

_TOOLS_KEPT = 4_096


class Label(Gate):
    """Marks the conversation with labels when a tool runs; see `label`.

    Attributes:
        tools: The tools that it is about.
        adds: The labels.
        per: ``session`` or ``turn``.
    """

    points: tuple[str, ...] = ("pre_tool_call",)
    priority: int = 200  # limits go first: what they refuse does not run
    can_deny: bool = False

    def __init__(
        self,
        tools: Sequence[str],
        adds: str | Collection[str],
        *,
        per: Lasting,
        name: str,
        id: str | None,
    ) -> None:
        if not tools:
            raise ConfigError("a label names no tool", hint="give one, or a list of them")
        labels = read_labels("adds", adds)
        if UNKNOWN in labels:
            raise ConfigError(
                f"label `{UNKNOWN}` is reserved for histories that otelhooks has not seen",
                hint="take another",
            )
        if per not in get_args(Lasting):
            raise ConfigError(f"unknown per `{per}`", hint="use one of session, turn")
        # Matched like a deny: if a server's name is in doubt, it applies.
        policies = [Policy(tool, Decision.DENY, name=name) for tool in tools]
        self.tools: tuple[str, ...] = tuple(policy.tool for policy in policies)
        self.adds: tuple[str, ...] = labels
        self.per: Lasting = per
        self.label: str = policies[0].label
        self.id: str = id if id is not None else f"label_{self.label}_{'_'.join(labels)}"
        self._index = Index(
            [
                Rule(policy, order=order, source="code", version="", mode="enforce", id=self.id)
                for order, policy in enumerate(policies)
            ],
            (),
        )
        self._known: dict[tuple[Any, ...], bool] = {}

    def __repr__(self) -> str:
        tools = self.tools[0] if len(self.tools) == 1 else list(self.tools)
        return f"label({tools!r}, adds={self.adds!r})"

    def matches(self, call: Call) -> bool:
        """Return whether it is about a call's tool."""
        key = (
            call.name,
            call.server,
            call.claimed_server,
            call.server_says,
            call.canonical,
            call.kind,
        )
        known = self._known.get(key)
        if known is None:
            known = bool(self._index.candidates(call))
            if len(self._known) < _TOOLS_KEPT:
                self._known[key] = known
        return known

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Let every call pass; mark the conversation if the call runs now."""
        if take and context is not None and self.matches(subject):
            for name in self.adds:
                context.add_label(name, self.per)
        yield from ()
        return Ruling(ALLOW)


def label(
    tool: str | Sequence[str],
    *,
    adds: str | Collection[str],
    per: Lasting = "session",
    name: str = "",
    id: str | None = None,
) -> Label:
    """Mark the conversation when a tool runs, or one of several; a mark is never removed.

    Rules with ``when_labels`` read it, in the agent that called the tool, its sub-agents, and the
    agents that started it. A tool that fails has marked the conversation; a denied one has not.

    Args:
        tool: As for `allow`; several are one object, so that a call looks at it once.
        adds: One label or several: letters, digits and ``_ . : / -``.
        per: ``session`` for the rest of the conversation; ``turn`` for this user message, if the
            tool's result is not in the history of the next one.
        name: Name in messages; the first tool if empty.
        id: Stable name; made of the first tool and the labels if None.

    Raises:
        ConfigError: An argument is not understood.

    Example:
        >>> from otelhooks import policy
        >>> rules = [
        ...     policy.label("web_fetch", adds="untrusted"),
        ...     policy.deny("send_email", when_labels={"untrusted"}),
        ... ]
    """
    tools = [tool] if isinstance(tool, str) else tool
    return Label(tools, adds, per=per, name=name, id=id)
