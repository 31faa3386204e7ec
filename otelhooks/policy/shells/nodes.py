"""The parts of a text of commands, and what must hold of the text as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

__all__ = [
    "Block",
    "Node",
    "Part",
    "Redirect",
    "Refused",
    "Simple",
    "Word",
    "check",
    "check_typed",
    "is_call",
    "is_literal",
    "literal",
    "nodes",
]

_MOST_CHARACTERS = 100_000
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]")
"""Letters that Python counts as printable, and that look like a blank or like nothing."""
_HISTORY = re.compile(r"!(?![ \n=]|$)")


class Refused(Exception):
    """What speaks against running a text.

    Attributes:
        kind: Kind of the problem.
    """

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Part(NamedTuple):
    """A part of a word.

    Attributes:
        kind: ``text``, ``glob``, ``variable``, ``changed`` (a part of a variable, or with other
            capitals), ``output`` (of commands), or ``pipe`` (``<(...)``).
        text: The text, ``*`` or ``?``, or the variable's name.
        quoted: Whether it is in quotes, so that it cannot become several words.
        node: Commands whose output it is.
    """

    kind: str
    text: str
    quoted: bool = True
    node: Node | None = None


Word: TypeAlias = Sequence[Part]


class Redirect(NamedTuple):
    """A redirection: its operator, with the target, or the content of a here-document."""

    operator: str
    word: Word


class Simple(NamedTuple):
    """A simple command."""

    assigned: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Block(NamedTuple):
    """Commands that belong together.

    Attributes:
        kind: ``list``, ``and``, ``or``, ``not``, ``pipe``, ``subshell``, ``background``, ``if``,
            ``case``, ``loop`` or ``for``.
        parts: The commands.
        redirects: Redirections of all of them.
        name: Variable of a ``for``.
        words: Its values, or the word of a ``case``.
        notes: What speaks against the text as a whole, which could be read.
    """

    kind: str
    parts: tuple[Node, ...]
    redirects: tuple[Redirect, ...] = ()
    name: str = ""
    words: tuple[Word, ...] = ()
    notes: tuple[str, ...] = ()


Node: TypeAlias = Simple | Block


def check(text: str) -> None:
    """Refuse a text that is too long, or has characters that cannot be seen.

    Raises:
        Refused: It is such a text.
    """
    if len(text) > _MOST_CHARACTERS:
        raise Refused("unread", "the text is too long: put it into a file")
    if not text.replace("\n", "").replace("\t", "").isprintable() or _BLANK.search(text):
        raise Refused("unread", "a character cannot be seen: leave it out")


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


def is_literal(word: Word) -> bool:
    """Return whether a word is known as it is."""
    return all(part.kind == "text" for part in word)


def is_call(node: Node, program: str) -> bool:
    """Return whether a node is a command that starts with the name of a program."""
    return isinstance(node, Simple) and bool(node.words) and literal(node.words[0]) == program


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
