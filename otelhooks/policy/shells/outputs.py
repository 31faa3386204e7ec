"""Words that are a number, or the output of commands that print one and nothing else."""

from __future__ import annotations

import re

from otelhooks.policy.shells.nodes import (
    Block,
    Node,
    Simple,
    Word,
    is_literal,
    literal,
)

__all__ = ["is_number", "prints_commit", "prints_number", "prints_numbers"]

_COUNTING = re.compile(
    r"nproc|wc\n-[lwcm]|grep\n-[EFivwx]*c[EFivwx]*\n[^\n-][^\n]*(?:\n[^\n-][^\n]*)?"
)
"""Words of such commands: with the name of a file, `wc` prints that too, with two `grep` does."""


def prints_number(node: Node) -> bool:
    """Return whether all that commands write to standard output is one number, or nothing."""
    while isinstance(node, Block):
        if node.redirects or not (
            node.kind == "pipe" or (node.kind == "list" and len(node.parts) == 1)
        ):
            return False
        node = node.parts[-1]
    is_plain = all(map(is_literal, node.words))
    is_read = all(each.operator == "<" for each in node.redirects)
    words = "\n".join(map(literal, node.words))
    return is_plain and is_read and not node.assigned and _COUNTING.fullmatch(words) is not None


def _prints(word: Word, form: str) -> bool:
    """Return whether a word is the output of one command of a form, and nothing else."""
    *before, last = word
    node = last.node if is_literal(before) and not literal(before) else None
    while isinstance(node, Block) and node.kind == "list" and not node.redirects:
        node = node.parts[0] if len(node.parts) == 1 else None
    return (
        isinstance(node, Simple)
        and not node.redirects
        and not node.assigned
        and all(map(is_literal, node.words))
        and re.fullmatch(form, " ".join(map(literal, node.words))) is not None
    )


def prints_numbers(word: Word) -> bool:
    """Return whether a word becomes several, each a number."""
    return bool(word) and not word[0].quoted and _prints(word, "seq [0-9]{1,9}(?: [0-9]{1,9}){0,2}")


def prints_commit(word: Word) -> bool:
    """Return whether a word is the hash of a commit, or nothing."""
    return bool(word) and word[-1].quoted and _prints(word, "git rev-parse HEAD")


def is_number(word: Word) -> bool:
    """Return whether a word is a number, or all that such commands print."""
    if len(word) == 1 and word[0].kind == "output" and word[0].node is not None:
        return prints_number(word[0].node)
    return is_literal(word) and re.fullmatch("[0-9]+", literal(word)) is not None
