"""Rules that name a tool almost as it is called, so that no call ever matches them.

A rule is reported when a tool is offered to a model or called whose name differs from the rule's by
one letter (left out, added, replaced, two swapped), or only in case, `_`, `-` and the like, and no
tool so far has matched the rule. A tool that another rule names exactly is not a misspelling.

Both names without one of their letters are compared to find such a letter: one look-up for each
letter of a rule's name, so that a thousand rules and a hundred tools take milliseconds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import NamedTuple

from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import ALLOW
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Rule
from otelhooks.policy.selectors import EXACT
from otelhooks.policy.workspace import Outside

__all__ = ["Misspelt", "Spelling"]

_SEPARATORS = re.compile(r"[\W_]+")
_SHORTEST = 4
"""Shorter names are skipped, as one letter makes another word."""
_LONGEST = 128
_MOST_RULES = 1_500
_MOST_TOOLS = 4_096


class Misspelt(NamedTuple):
    """A rule that no tool has matched, and a tool that it may mean.

    Attributes:
        rule: The rule.
        tool: The tool, as a rule would name it: ``name`` or ``server/name``.
    """

    rule: Rule
    tool: str


class Spelling:
    """Compares the rules of a set with the tools that exist.

    Args:
        rules: The set. Its rules that deny, ask, hide or veto one tool by name are compared, except
            those that otelhooks creates itself.

    Attributes:
        is_done: Whether nothing is left to compare.
    """

    def __init__(self, rules: PolicySet) -> None:
        self._rules = rules
        exact = [rule for rule in rules.rules if rule.selector.specificity == EXACT]
        self._named = {rule.selector.text for rule in exact}
        waiting = [rule for rule in exact if rule.decision != ALLOW and not _is_made(rule)]
        self._waiting = dict.fromkeys(waiting[:_MOST_RULES])
        self._tools: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to compare."""
        return not self._waiting or len(self._tools) >= _MOST_TOOLS

    def meet(self, calls: Iterable[Call]) -> list[Misspelt]:
        """Compare the rules with existing tools.

        Args:
            calls: One call of each tool; arguments and agent do not matter.

        Returns:
            Rules that may be misspelt, each only once in the life of this object.
        """
        with self._lock:
            new: dict[str, str] = {}  # without separators -> as a rule names it
            for call in calls:
                tool = f"{call.server}/{call.name}" if call.server else call.name
                if tool in self._tools or len(tool) > _LONGEST or self.is_done:
                    continue
                self._tools.add(tool)
                for match in self._rules.candidates(call):
                    self._waiting.pop(match.rule, None)
                if tool not in self._named:
                    new[_plain(tool)] = tool
            shorter = {cut: tool for word, tool in new.items() for cut in _cuts(word)}
            found = [
                Misspelt(rule, tool)
                for rule in (self._waiting if new else ())
                if (tool := _near(_plain(rule.selector.text), new, shorter))
            ]
            for misspelt in found:
                del self._waiting[misspelt.rule]
            return found


def _is_made(rule: Rule) -> bool:
    """Return whether a rule is one of many that otelhooks creates for unnamed tools."""
    return rule.is_built_in or isinstance(rule.policy.when, Outside)


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _cuts(word: str) -> set[str]:
    """Return a word, and each form of it with one letter removed."""
    if len(word) < _SHORTEST:
        return set()
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def _near(word: str, plain: dict[str, str], shorter: dict[str, str]) -> str:
    """Return the tool that a rule's word may mean; empty if there is none."""
    same = plain.get(word)
    return same or next((shorter[cut] for cut in sorted(_cuts(word)) if cut in shorter), "")
