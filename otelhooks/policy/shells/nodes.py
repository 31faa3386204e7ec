"""The parts of a text of commands, and what must hold of the text as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otelhooks.policy.shells.reader import Block, Node, Refused, Word

__all__ = ["check_typed", "literal", "nodes"]

_HISTORY = re.compile(r"!(?![ \n=]|$)")


def check_typed(text: str) -> None:
    """Refuse what is a key or history to a terminal, also in here-documents, or several lines.

    A program that an earlier line starts may read the next one in parts, or wait for its end.
    """
    if "\t" in text or _HISTORY.search(text):
        raise Refused("unread", "a TAB, or a `!` without a blank behind it, in text for a terminal")
    if "\n" in text.strip("\n"):
        raise Refused("unread", "several lines for a terminal: send one line in each call")


def literal(word: Word) -> str:
    """Return a word as if all of it were text: of a variable, the name."""
    return "".join(part.text for part in word)


def _words_of(node: Node) -> list[Word]:
    """Return the words of a node itself."""
    words = [*node.words, *(each.word for each in node.redirects)]
    return words if isinstance(node, Block) else [*words, *(word for _, word in node.assigned)]


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, those in words too."""
    yield node
    if isinstance(node, Block):
        for part in node.parts:
            yield from nodes(part)
    for word in _words_of(node):
        for part in word:
            if part.node is not None:
                yield from nodes(part.node)
