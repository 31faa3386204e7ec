"""Compare the tools that models are offered, and that are called, with the names in rules.

The cost is one comparison of identities for each model call, until every rule has matched a tool or
has been reported; a list that was seen is not read again. Telemetry: fails open.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from otelhooks.plain_text import LOGGED, one_line
from otelhooks.records import semconv
from otelhooks.telemetry.events import WARN
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otelhooks.hooks.calls import Call
    from otelhooks.pipeline.runtime import Runtime
    from otelhooks.policy.evaluate import PolicySet
    from otelhooks.policy.rules import Rule
    from otelhooks.policy.spelling import Spelling

__all__ = ["DECORATED", "Offers"]

_log = logging.getLogger("otelhooks")

_MOST_LISTS = 64

DECORATED: dict[tuple[str, str | None], Call] = {}
"""A call of each function under `otelhooks.tool`, by name and server: it exists, called or not."""


class Offers:
    """What is known of the tools under one set of rules.

    Args:
        rt: Reports misspelt rules, and refers to this object as long as there is anything to
            compare.
        rules: The set.
        said: Policy and id of rules that were already reported; added to.
    """

    def __init__(self, rt: Runtime, rules: PolicySet, said: set[tuple[str, str]]) -> None:
        self._rt = rt
        self._rules = rules
        self._known: Spelling | None = None  # created, and its module loaded, with the first tool
        self._said = said
        # Keeps the lists alive: the id of a freed list could be given to another one.
        self._seen: dict[tuple[int, ...], Sequence[Any]] = {}
        rt.see_tools = self.see if rules.names_tools else None
        rules.on_tool = self.called

    @property
    def _spelling(self) -> Spelling:
        if self._known is None:
            from otelhooks.policy.spelling import Spelling

            self._known = Spelling(self._rules)
        return self._known

    @fails_open
    def see(self, read: Callable[[Any], Call | None], definitions: Sequence[Any]) -> None:
        """Look at the tools that a model call offers.

        Args:
            read: Reads a definition; returns None if it is not a tool.
            definitions: The framework's own objects; not changed.
        """
        key = tuple(map(id, definitions))
        if key in self._seen:
            return
        self._seen[key] = list(definitions)
        self._meet(call for each in definitions if (call := read(each)) is not None)

    @fails_open
    def called(self, call: Call) -> None:
        """Look at a tool that is called for the first time."""
        if self._rules.names_tools and not self._spelling.is_done:
            self._meet((call,))

    def _meet(self, calls: Iterable[Call]) -> None:
        for rule, tool in self._spelling.meet(calls):
            if not self._is_of_decorated(rule):
                self._tell(rule, tool)
        is_done = self._spelling.is_done or len(self._seen) >= _MOST_LISTS
        if is_done and self._rt.see_tools == self.see:
            self._rt.see_tools = None

    def _is_of_decorated(self, rule: Rule) -> bool:
        """Return whether a rule is right, as a function that was not called yet has its name."""
        calls = tuple(DECORATED.values())
        return any(rule is match.rule for call in calls for match in self._rules.candidates(call))

    def _tell(self, rule: Rule, tool: str) -> None:
        if (rule.policy_id, rule.id) in self._said:
            return
        self._said.add((rule.policy_id, rule.id))
        _log.warning(
            "rule `%s` of policy `%s` matches no tool so far\n"
            "hint: there is a tool `%s`: did you mean it? `otelhooks policy explain` shows which"
            " rules apply to a call",
            one_line(rule.selector.text, LOGGED),
            rule.policy_id,
            one_line(tool, LOGGED),
        )
        attributes = {
            semconv.POLICY_ID: rule.policy_id,
            semconv.POLICY_RULE_ID: rule.id,
            semconv.POLICY_RULE_TOOL: rule.selector.text,
            semconv.GEN_AI_TOOL_NAME: tool,
        }
        self._rt.events.emit(semconv.EVENT_RULE_UNMATCHED, WARN, attributes)
