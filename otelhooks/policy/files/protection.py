"""The built-in guard: agents do not write the policy files that govern them.

File tools that write are judged by the paths in their arguments. Of shell tools only the text of
the command is known: one that names a policy file or a loaded folder is refused, whatever it would
do there. A command that builds the name as it runs is not recognised; who lets agents run
commands keeps policy files where the agent's user cannot write. The setting
``allow_policy_writes`` switches the guard off.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Iterable
from typing import Any

from otelhooks import types
from otelhooks.policy import fingerprints, shell
from otelhooks.policy.builders import deny, veto
from otelhooks.policy.files.source import SUFFIXES
from otelhooks.policy.named import Role, texts, walk
from otelhooks.policy.paths import Folder, spellings
from otelhooks.policy.rules import BUILT_IN, RuleSource

__all__ = ["NAME", "POLICY_ID", "protect"]

NAME = "policy_files_guard"
POLICY_ID = BUILT_IN
"""What telemetry calls the source of the guard's rules."""

REASON = "Policy files cannot be changed from here."

_WRITERS = ("create_file", "edit_file", "kind:file_write")
_SHELLS = ("run_command", "code_execution", "kind:shell")
_REMOVERS = frozenset(("chgrp", "chmod", "chown", "mv", "rm", "rmdir", "shred", "unlink"))
_MOST_FOLDERS = 16
_PLAIN = re.compile(r"[\w+@,.:=-]+", re.ASCII)


def protect(paths: Iterable[str], *, monitor: bool) -> RuleSource:
    """Return the rules that keep tools from writing policy files.

    Vetoes, since an ``allow`` for a tool is not meant to reach its own rules; in monitor mode,
    where nothing is enforced that files say, denies.

    Args:
        paths: Files and folders that were loaded.
        monitor: Whether the set is in monitor mode.
    """
    protected = tuple(Folder.of(path) for path in dict.fromkeys(map(os.path.realpath, paths)))
    build = deny if monitor else veto
    rules = {
        **dict.fromkeys(_WRITERS, WritesInto(protected)),
        **dict.fromkeys(_SHELLS, Names(protected)),
    }
    built = tuple(
        build(tool, when=when, name=NAME, id=f"{NAME}:{tool}", reason=REASON, severity="critical")
        for tool, when in rules.items()
    )
    version = fingerprints.digest(*(folder.path for folder in protected), length=12)
    return RuleSource(POLICY_ID, version, built)


@dataclasses.dataclass(frozen=True)
class WritesInto:
    """Predicate: some path of the call leads to something protected, or to a folder around it.

    Args:
        protected: Files and folders.
    """

    protected: tuple[Folder, ...]

    def __call__(self, call: types.ToolCall) -> bool:
        """Say whether a path of the call leads there."""
        found = list(walk(call.args))
        look = _Look((each.value for each in found if each.role is Role.BASE), call.work_dir)
        paths = [each.value for each in found if each.role in {Role.PATH, Role.PATCHED}]
        if call.canonical_path is not None:
            paths.append(call.canonical_path)
        leads = [place for path in paths for place in look.places(path)]
        return any(
            folder.contains(lead) or Folder(lead, folder.folds_case).contains(folder.path)
            for folder in self.protected
            for lead in leads
        ) or any(folder.contains(base) for folder in self.protected for base in look.bases)


@dataclasses.dataclass(frozen=True)
class Names:
    """Predicate: a text of the call names something protected.

    Args:
        protected: Files and folders.
    """

    protected: tuple[Folder, ...]

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether a word of an argument leads there, or its text has the whole path."""
        bases = (each.value for each in walk(call.args) if each.role is Role.BASE)
        look = _Look(bases, call.work_dir)
        if any(folder.contains(base) for folder in self.protected for base in look.bases):
            return True
        return any(self._is_named(text, look) for _, text in texts(call.args))

    def _is_named(self, text: str, look: _Look) -> bool:
        if any(folder.path in text for folder in self.protected):
            return True
        try:
            commands = shell.commands(text)
            for words in commands:
                look.change(shell.folders(words))
        except ValueError:  # it cannot be read
            return True
        words = (word for command in commands for word in shell.arguments(command))
        if any(
            self._leads_there(word, look) for word in dict.fromkeys((*shell.words(text), *words))
        ):
            return True
        removes = (words for words in commands if not _REMOVERS.isdisjoint(map(_program, words)))
        return any(self._is_around(word, look) for words in removes for word in words)

    def _leads_there(self, word: str, look: _Look) -> bool:
        pattern = shell.pattern(word)
        if word.startswith(shell.UNKNOWN):
            return self._may_end_there(word.lstrip(shell.UNKNOWN).lstrip("/"))
        for place in look.places(pattern or word):
            for folder in self.protected:
                if folder.contains(place) and _is_path(word, place):
                    return True
                if pattern is not None and _fits(place, folder.path):
                    return True
        return False

    def _may_end_there(self, tail: str) -> bool:
        """Return whether what follows an unknown folder may be a protected file in it."""
        parts = tail.split("/")
        for folder in self.protected:
            own = folder.path.split("/")
            if any(own[-n:] == parts[:n] for n in range(1, len(own))):
                return True
            if tail and os.path.lexists(os.path.join(folder.path, tail)):
                return True
        return False

    def _is_around(self, word: str, look: _Look) -> bool:
        # `rm -rf /` is left to rules that name it: their reason tells a model more than ours.
        return any(
            Folder(place, folder.folds_case).contains(folder.path)
            for folder in self.protected
            for place in look.places(word)
            if place != os.sep
        )


def _program(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _is_path(word: str, place: str) -> bool:
    """Say whether a word in a protected working directory is a path, and not just any word."""
    is_plain = _PLAIN.fullmatch(word) is not None
    return not is_plain or place.lower().endswith(SUFFIXES) or os.path.lexists(place)


class _Look:
    """Where the paths of one call lead.

    Args:
        bases: What the call names as the folders that its other paths are relative to.
        work_dir: Where the tool works, if that is known; it may take the folder for the root.

    Attributes:
        bases: The same, as paths without links.
    """

    def __init__(self, bases: Iterable[Any], work_dir: str | None) -> None:
        self._here = os.path.realpath(os.curdir)
        self._work_dir = None if work_dir is None else os.path.realpath(work_dir)
        self._real: dict[str, tuple[str, bool]] = {}
        self.bases: list[str] = []
        self.bases = [place for base in bases for place in self.places(base)]

    def change(self, folders: Iterable[str]) -> None:
        """Take folders for what later paths are relative to, as well.

        Raises:
            ValueError: They are more than any command needs.
        """
        for folder in folders:
            self.bases += [place for place in self.places(folder) if place not in self.bases]
            if len(self.bases) > _MOST_FOLDERS:
                raise ValueError("too many folders")

    def places(self, value: Any) -> list[str]:
        """Return where a path can lead, without links; nowhere if it is no path of this machine."""
        if not value:
            return []
        forms: Iterable[str] = (value,)
        if not isinstance(value, str) or not _PLAIN.fullmatch(value):
            try:
                forms = spellings(value)
            except TypeError:  # such as the number of an open file
                return []
            except ValueError:
                if isinstance(value, str) and value.lstrip().lower().startswith("file:"):
                    raise
                climbs = isinstance(value, str) and ".." in value  # a tool may take it for a path
                forms = [os.path.normpath(value)] if climbs else []
        found = [os.path.join(s, text) for s in (self._here, *self.bases) for text in forms]
        if self._work_dir is not None:
            found += [os.path.join(self._work_dir, text.lstrip(os.sep)) for text in forms]
        return [self._resolve(path) for path in found]

    def _resolve(self, path: str) -> str:
        """Return a path without links and ``..``.

        Each folder is looked at once a call: commands may have thousands of words.
        """
        walked, below_drive = os.path.splitdrive(path)
        real, is_there = walked + os.sep, True
        for name in below_drive.split(os.sep):
            if name in {"", os.curdir}:
                continue
            walked += os.sep + name
            known = self._real.get(walked)
            if known is None:
                if name == os.pardir:
                    known = os.path.dirname(real), is_there
                else:
                    below = os.path.join(real, name)
                    known = _entry(below) if is_there else (below, False)
                self._real[walked] = known
            real, is_there = known
        return real


def _entry(path: str) -> tuple[str, bool]:
    """Return where an entry of a folder without links leads, and whether something is there."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return path, False
    return (os.path.realpath(path), True) if stat.S_ISLNK(mode) else (path, True)


def _fits(pattern: str, path: str) -> bool:
    """Say whether a shell's pattern can stand for a path, or for something in it."""
    wanted = pattern.split(os.sep)
    has = path.split(os.sep)
    return len(wanted) >= len(has) and all(map(shell.stands_for, wanted, has))
