"""``named.paths`` and ``named.commands`` of hook files: what a tool call names.

They read no files: `workspace_only` checks where links lead.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otelhooks.policy.commands import named, programs, shell, shell_words
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
        payload: Payload of ``tool.pre``; at least ``name`` and ``args``.
        texts: Whether to include other texts that may be paths, and words of commands.
        parts: Names or shell patterns; only paths with such a folder or file are returned.

    Returns:
        ``argument``, ``path`` and ``use`` (``read`` or ``write``; unknown uses count as ``write``).

    Raises:
        ValueError: A text cannot be read, such as a command that is nested too deep.
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
        {"argument": argument, "path": path.replace(shell.UNKNOWN, "*"), "use": own}
        for argument, path, own in found
        if not patterns or _has_part(path, patterns, wanted)
    ]


def commands(payload: Mapping[str, Any], programs: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the commands that a call runs; empty for a tool that runs none.

    Args:
        payload: Payload of ``tool.pre``; at least ``name`` and ``args``.
        programs: A pattern (``/bin/r?``) that matches one of these is read as its name.

    Returns:
        ``argument``, ``text`` as written, and ``read`` as a shell reads it: words separated by a
            blank, simple commands by `` ; ``, and ``$*`` for text that is only known when it runs.

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


def _read(text: str, wanted: Sequence[str]) -> str:
    found = programs.executed(shell.commands(text))
    if wanted:
        found = [_with_programs(command, wanted) for command in found]
    read = (" ".join(each).replace(shell.UNKNOWN, "$*" if each.runs else "*") for each in found)
    new = shell_words.new_file()  # of the command's own
    return " ; ".join(read).replace(shell.NUMBER, "0").replace(new, posixpath.basename(new))


def _with_programs(command: shell.Command, wanted: Sequence[str]) -> shell.Command:
    """Return the words of a command, with programs for words that may be one of them."""
    place = programs.program(command)
    if place is None:
        return command
    if place >= command.certain and command[place] == shell.UNKNOWN:
        command.insert(place, shell.UNKNOWN)  # and some of its arguments
    end = place + 1 if place < command.certain else len(command)
    for word in command[place:end]:
        name = programs.pattern(word.rsplit("/", 1)[-1])
        if name is not None and name.strip("*"):
            found = [each for each in wanted if programs.stands_for(name, each)]
            command[place : place + bool(found)] = found
    return command


def _words(args: Any) -> Iterator[tuple[str, str]]:
    for argument, text in named.texts(args):
        yield from ((argument, word) for word in _values(programs.words(text)))
        for command in programs.executed(shell.commands(text)):
            for word in _values(command):
                yield argument, word.replace(shell.UNKNOWN, "*")
            if command.runs and not programs.only_reads(command):
                yield from ((argument, word) for word in _values(programs.operands(command)))


def _values(words: Sequence[str]) -> Iterator[str]:
    return programs.arguments([word for word in words if not _URL.match(word)])


def _may_be_path(found: named.Found) -> bool:
    """Return whether a text is one line, and short once parts that lead nowhere are removed."""
    if found.role is not named.Role.TEXT or not isinstance(found.value, str):
        return False
    text = found.value.strip()
    return "\n" not in text and len(posixpath.normpath(text.replace("\\", "/"))) <= _LONGEST_PATH


def _has_part(path: str, patterns: list[str], wanted: re.Pattern[str]) -> bool:
    for part in set(path.replace("\\", "/").split("/")):
        if part.startswith(shell.UNKNOWN):
            return True
        name = unicodedata.normalize("NFC", part).strip().rstrip(".").casefold()
        own = programs.pattern(name)
        if wanted.match(name):
            return True
        if own and own != "*" and any(programs.stands_for(own, each) for each in patterns):
            return True
    return False
