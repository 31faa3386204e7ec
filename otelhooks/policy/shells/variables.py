"""The variables of a text of commands: which have a value of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from otelhooks.policy.shells.nodes import (
    Block,
    Node,
    Refused,
    Simple,
    Word,
    is_literal,
    literal,
    nodes,
)
from otelhooks.policy.shells.outputs import is_number

__all__ = ["Given", "given_names", "maybe_not_given"]

_Names: TypeAlias = "frozenset[str]"

_READ = re.compile(r"read(?:\n-r)?((?:\n[A-Za-z_][A-Za-z0-9_]*)+)")


class Given(NamedTuple):
    """The names that a text gives values to.

    Attributes:
        loops: Those of its loops.
        names: Those, and all others.
        numbers: Those that get nothing but numbers.
    """

    loops: _Names = frozenset()
    names: _Names = frozenset()
    numbers: _Names = frozenset()


def given_names(node: Node) -> Given:
    """Return the names that a text gives values to.

    Raises:
        Refused: One is the variable of a loop and gets another value too.
    """
    loops: set[str] = set()
    others: set[str] = set()
    texts: set[str] = set()
    for each in nodes(node):
        if isinstance(each, Block):
            loops |= {each.name} - {""}
        else:
            others |= {name for name, _ in each.assigned if not each.words}
            texts |= {name for name, value in each.assigned if not is_number(value)}
            if each.words and literal(each.words[0]) == "read":
                read_into = {literal(word) for word in each.words[1:]}
                others, texts = others | read_into, texts | read_into
    if not loops.isdisjoint(others):
        raise Refused("unread", "the variable of a loop gets another value")
    return Given(frozenset(loops), frozenset(loops | others), frozenset(others - texts))


def maybe_not_given(node: Node, names: _Names) -> Iterator[str]:
    """Yield why one of the names that a text gives values to may have none where it is used.

    It has one where a command has run that gives it one and cannot fail before it does: one with a
    redirection, and `read`, count only where they have succeeded.
    """
    flow = _Flow()
    flow.run(node, frozenset())
    for name in flow.used:
        if name in names:
            yield f"`${name}` may be from the environment: give it a value first, as in `{name}=''`"


class _Flow:
    """Follows commands in the order in which they run.

    Attributes:
        used: Names that may have had no value of the text's where they were used.
    """

    def __init__(self) -> None:
        self.used: dict[str, None] = {}

    def run(self, node: Node, known: _Names) -> tuple[_Names, _Names]:
        """Return the names that have a value after a node, and those after it has succeeded."""
        self._words((each.word for each in node.redirects), known)
        after, good = (
            self._simple(node, known) if isinstance(node, Simple) else self._block(node, known)
        )
        return known if node.redirects else after, good

    def _block(self, node: Block, known: _Names) -> tuple[_Names, _Names]:
        self._words(node.words, known)
        parts = list(node.parts)
        if node.kind == "list":
            good = known
            for part in parts:
                known, good = self.run(part, known)
            return known, good
        if node.kind == "and":
            after, good = self.run(parts[0], known)
            for part in parts[1:]:
                good = self.run(part, good)[1]
            return after, good
        if node.kind in {"or", "not"}:
            known = self.run(parts.pop(0), known)[0]
        elif node.kind == "if":
            known = self._if(parts, known)
            parts.clear()
        elif node.kind == "loop":
            self.run(parts[1], self.run(parts[0], known)[1])
            parts.clear()
        for part in parts:  # each may be the only one that runs, in a process of its own, or none
            self.run(part, known | {node.name})
        return known, known

    def _if(self, parts: list[Node], known: _Names) -> _Names:
        """Return the names that have a value whichever of the lists has run."""
        ends: list[_Names] = []
        for condition, body in zip(parts[::2], parts[1::2], strict=False):
            known, good = self.run(condition, known)
            ends.append(self.run(body, good)[0])
        last = self.run(parts[-1], known)[0] if len(parts) % 2 else known
        return last.intersection(*ends)

    def _simple(self, node: Simple, known: _Names) -> tuple[_Names, _Names]:
        after = known
        for name, word in node.assigned:
            self._words((word,), after)
            if not node.words:
                after |= {name}
        self._words(node.words, known)
        read = _READ.fullmatch("\n".join(map(literal, node.words)))
        if read is not None and all(map(is_literal, node.words)):
            after |= {*read[1].split()}
        return known if node.words else after, after

    def _words(self, words: Iterable[Word], known: _Names) -> None:
        for part in (part for word in words for part in word):
            if part.kind in {"variable", "changed"} and part.text not in known and part.text != "?":
                self.used[part.text] = None
            if part.node is not None:
                self.run(part.node, known)
