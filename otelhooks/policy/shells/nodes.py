"""The parts of a text of commands, and what must hold of the text as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otelhooks.policy.shells.reader import Block, Node, Refused, Word, parse

__all__ = ["check_typed", "literal", "nodes", "words_of"]

_HISTORY = re.compile(r"!(?![ \n=]|$)")


def check_typed(text: str) -> None:
    """Refuse what is a key or history to a terminal, also in here-documents, or gets out of step.

    A program that is started before may read the first of several lines that belong together.
    """
    if "\t" in text or _HISTORY.search(text):
        raise Refused("unread", "a TAB, or a `!` without a blank behind it, in text for a terminal")
    whole = parse(text)
    if len(whole.parts) > 1 and any(map(_has_lines, nodes(whole))):
        raise Refused(
            "unread", "text for a terminal with lines that belong together: use two calls"
        )


def _has_lines(node: Node) -> bool:
    return any(each.operator == "<<" for each in node.redirects) or any(
        "\n" in part.text for word in words_of(node) for part in word
    )


def literal(word: Word) -> str:
    """Return a word as if all of it were text: of a variable, the name."""
    return "".join(part.text for part in word)


def words_of(node: Node) -> list[Word]:
    """Return the words of a node itself."""
    words = [*node.words, *(each.word for each in node.redirects)]
    return words if isinstance(node, Block) else [*words, *(word for _, word in node.assigned)]


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, those in words too."""
    yield node
    if isinstance(node, Block):
        for part in node.parts:
            yield from nodes(part)
    for word in words_of(node):
        for part in word:
            if part.node is not None:
                yield from nodes(part.node)
