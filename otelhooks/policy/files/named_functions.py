"""``named.paths`` and ``named.commands`` of hook files: what a tool call names.

They look at no file: where a link leads is for `workspace_only` to see.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otelhooks.policy import named, shell
from otelhooks.policy.paths import readings

__all__ = ["commands", "paths"]

_PATHS = frozenset((named.Role.BASE, named.Role.PATH, named.Role.PATCHED))
_LONGEST_PATH = 4096
_URL = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://(?!.*\.\.)", re.IGNORECASE)


def paths(
    payload: Mapping[str, Any], texts: bool = False, parts: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Return the paths that a call names, each in every form in which a tool may read it.

    Args:
        payload: Of ``tool.pre``; at least ``name`` and ``args``.
        texts: Whether other texts that may be paths count, and words of commands.
        parts: Names or shell patterns; only paths with such a folder or file are returned.

    Returns:
        ``argument``, ``path`` and ``use`` (``read`` or ``write``; what is not known writes).

    Raises:
        ValueError: A text cannot be read, such as a command nested too deep.
    """
    facts = _facts(payload)
    runs = named.is_shell(args=payload["args"], **facts)
    does = "write" if runs else named.use(**facts)
    found: dict[tuple[str, str, str], None] = {}
    for each in named.walk(payload["args"]):
        may_be = each.role in _PATHS or (texts and not runs and _may_be_path(each))
        if may_be and isinstance(each.value, str):
            own = "write" if each.role is named.Role.PATCHED else does
            found.update(((each.argument, path, own), None) for path in readings(each.value))
    if runs and texts:
        found.update(((argument, word, does), None) for argument, word in _words(payload["args"]))
    patterns = [part.casefold() for part in parts]
    wanted = re.compile("|".join(map(fnmatch.translate, patterns)))
    return [
        {"argument": argument, "path": path, "use": own}
        for argument, path, own in found
        if not patterns or _has_part(path, patterns, wanted)
    ]


def commands(payload: Mapping[str, Any], programs: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the commands that a call runs; none of a tool that runs none.

    Args:
        payload: Of ``tool.pre``; at least ``name`` and ``args``.
        programs: Where a pattern (``/bin/r?``) stands for one of these, its name is read.

    Returns:
        ``argument``, ``text`` as it is written, and ``read`` as a shell reads it: words apart by a
        blank, simple commands by `` ; ``, ``*`` for what only running it tells.

    Raises:
        ValueError: A command cannot be read.
    """
    if not named.is_shell(args=payload["args"], **_facts(payload)):
        return []
    return [
        {"argument": argument, "text": text, "read": _read(text, programs)}
        for argument, text in dict.fromkeys(named.texts(payload["args"]))
    ]


def _facts(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": payload["name"],
        "kind": payload.get("kind"),
        "canonical": payload.get("canonical") or (),
    }


def _read(text: str, programs: Sequence[str]) -> str:
    found = shell.commands(text)
    if programs:
        found = [list(_with_programs(words, programs)) for words in found]
    return " ; ".join(map(" ".join, found)).replace(shell.UNKNOWN, "*")


_BEFORE_PROGRAM = frozenset(
    (
        "! -exec -execdir builtin busybox command do doas else env eval exec if nice nohup sudo"
        " then time timeout until while xargs {"
    ).split()
)


def _with_programs(words: Sequence[str], programs: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, with programs for patterns where the shell looks for one."""
    is_program = True
    for word in words:
        name = shell.pattern(word.rsplit("/", 1)[-1]) if is_program else None
        found = [p for p in programs if name and name.strip("*") and shell.stands_for(name, p)]
        yield from found or [word]
        is_program = word in _BEFORE_PROGRAM or (is_program and "=" in word)


def _words(args: Any) -> Iterator[tuple[str, str]]:
    for argument, text in named.texts(args):
        for words in (shell.words(text), *shell.commands(text)):
            for word in shell.arguments([word for word in words if not _URL.match(word)]):
                yield argument, word


def _may_be_path(found: named.Found) -> bool:
    """Return whether a text is one line, and short enough without what leads nowhere in it."""
    if found.role is not named.Role.TEXT or not isinstance(found.value, str):
        return False
    text = found.value.strip()
    return "\n" not in text and len(posixpath.normpath(text.replace("\\", "/"))) <= _LONGEST_PATH


def _has_part(path: str, patterns: list[str], wanted: re.Pattern[str]) -> bool:
    for part in set(path.replace("\\", "/").split("/")):
        name = unicodedata.normalize("NFC", part).strip().rstrip(".").casefold()
        if wanted.match(name):
            return True
        own = shell.pattern(name)
        if own is not None and own != "*" and any(shell.stands_for(own, each) for each in patterns):
            return True
    return False
