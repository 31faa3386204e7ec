"""The parts of a text of commands, and what must hold of the text as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otelhooks.policy.shells.reader import Block, Node, Part, Refused, Simple, Word, parse

__all__ = ["check_sums", "check_typed", "literal", "nodes", "words_of"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = re.compile(r"[0-9-]*")
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


def check_sums(whole: Block) -> None:
    """Refuse sums with names that may not be numbers, since shells calculate what their value says.

    A name is a number if a command of its own has made it one before, and nothing else than numbers
    and sums is assigned to it anywhere.
    """
    others: set[str] = set()
    for node in nodes(whole):
        if isinstance(node, Block):
            others.add(node.name)
            continue
        others |= {name for name, word in node.assigned if not all(map(_is_number, word))}
        if node.words and literal(node.words[0]) == "read":
            others |= {literal(word) for word in node.words[1:]}
    numbers: set[str] = set()
    for part in whole.parts:
        used = {
            name
            for node in nodes(part)
            for word in words_of(node)
            for each in word
            if each.kind == "sum"
            for name in _NAME.findall(each.text)
        }
        if not used <= numbers - others:
            raise Refused("unread", "a sum of what may not be a number: begin with `x=0` on a line")
        if isinstance(part, Simple) and not part.words and not part.redirects:
            numbers |= {name for name, _ in part.assigned}


def _is_number(part: Part) -> bool:
    return part.kind == "sum" or (part.kind == "text" and _DIGITS.fullmatch(part.text) is not None)


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
