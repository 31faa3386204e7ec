"""The built-in guard: agents must not write the policy files that govern them.

It cannot see what an interpreter does (``python -c``, ``perl -e``, ``awk``), what a program finds
by itself (the files of an archive, a patch or a repository), a script that is written first and run
later, a text that another program creates and a shell reads (``base64 -d | sh``), or what earlier
commands of the same shell set. If you let agents run commands, keep policy files where the agent's
user cannot write.

File tools that write are judged by the paths in their arguments. For shell tools only the text of
the command is known: a command that names a policy file or a loaded folder is refused, whatever it
would do there. A part of a word that is unknown before it runs may be anything, so such a word is
refused if a program may write what it is given and the word may lead there; so is a pattern. Only
programs that are known to do nothing but read may get any word.

The setting ``allow_policy_writes`` switches the guard off.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable

from otelhooks import types
from otelhooks.policy import fingerprints
from otelhooks.policy.builders import deny, veto
from otelhooks.policy.commands import programs, shell
from otelhooks.policy.commands.named import Role, texts, walk
from otelhooks.policy.commands.shell import UNKNOWN, Command
from otelhooks.policy.files.leads import (
    PLAIN,
    Look,
    fits,
    fits_around,
    is_pattern,
    may_be,
    names_in,
)
from otelhooks.policy.files.source import SUFFIXES
from otelhooks.policy.paths import Folder
from otelhooks.policy.rules import BUILT_IN, RuleSource

__all__ = ["NAME", "POLICY_ID", "protect"]

NAME = "policy_files_guard"
POLICY_ID = BUILT_IN
"""Telemetry's name for the source of the guard's rules."""

REASON = "Policy files cannot be changed from here."

_WRITERS = ("create_file", "edit_file", "kind:file_write")
_SHELLS = ("run_command", "code_execution", "kind:shell")


def protect(paths: Iterable[str], *, monitor: bool) -> RuleSource:
    """Return the rules that keep tools from writing policy files.

    They are vetoes, since an ``allow`` for a tool should not let it change its own rules; in
    monitor mode, where nothing in files is enforced, denies.

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
    """Predicate: a path of the call leads to something protected, or to a folder around it.

    Args:
        protected: Files and folders.
    """

    protected: tuple[Folder, ...]

    def __str__(self) -> str:
        return f"a path leads to {' or '.join(map(str, self.protected))}"

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether a path of the call leads there."""
        found = list(walk(call.args))
        look = Look((each.value for each in found if each.role is Role.BASE), call.work_dir)
        paths = [each.value for each in found if each.role in {Role.PATH, Role.PATCHED}]
        if call.canonical_path is not None:
            paths.append(call.canonical_path)
        leads = dict.fromkeys(place for path in paths for place in look.places(path))
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

    def __str__(self) -> str:
        return f"a text names {' or '.join(map(str, self.protected))}"

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether a word of an argument leads there, or its text contains the whole path."""
        bases = (each.value for each in walk(call.args) if each.role is Role.BASE)
        look = Look(bases, call.work_dir)
        if any(folder.contains(base) for folder in self.protected for base in look.bases):
            return True
        try:
            return any(self._is_named(text, look) for _, text in texts(call.args))
        except ValueError:  # it cannot be read
            return True

    def _is_named(self, text: str, look: Look) -> bool:
        if any(folder.path in text for folder in self.protected):
            return True
        commands = programs.executed(shell.commands(text))
        for command in commands:
            look.change(programs.folders(command))
        words = [word for command in commands for word in programs.arguments(command)]
        if any(
            self._leads_there(word, look) for word in dict.fromkeys((*programs.words(text), *words))
        ):
            return True
        known = (word for word in words if UNKNOWN not in word)
        made = sorted({part for word in known for part in word.split("/")})
        return any(
            self._takes_around(command, look, made)
            or (command.runs and self._lands(command, look))
            or (command.runs and self._may_write(command, look, made))
            for command in commands
            if not programs.only_reads(command)
        )

    def _leads_there(self, word: str, look: Look) -> bool:
        """Return whether a word shows where it leads, and the target exists."""
        if programs.is_vague(word):
            return False
        return any(
            (folder.contains(place) and _is_path(word, place))
            or (is_pattern(place) and fits(place, folder.path))
            for place in look.places(programs.pattern(word) or word)
            for folder in self.protected
        )

    def _may_write(self, command: Command, look: Look, made: list[str]) -> bool:
        """Return whether something unknown that a command writes may be there."""
        words = dict.fromkeys(programs.arguments(programs.operands(command)))
        return any(self._may_be(word, look, made) for word in words)

    def _may_be(self, word: str, look: Look, made: list[str]) -> bool:
        if UNKNOWN not in word and look.is_of_process(word):
            word = UNKNOWN
        elif look.is_lost and not word.startswith(("-", "/")):
            word = f"{UNKNOWN}/{word}"
        if UNKNOWN in word:
            return any(may_be(word, folder.path, look, made) for folder in self.protected)
        return programs.is_vague(word) and any(
            fits(place, folder.path)
            for place in look.places(programs.pattern(word))
            for folder in self.protected
        )

    def _takes_around(self, command: Command, look: Look, made: list[str]) -> bool:
        """Return whether a command removes, moves or links a folder around something there."""
        only = programs.only_names(command)
        is_root_left = "rm" in map(os.path.basename, command)
        for word in programs.trees(command):
            is_unknown = UNKNOWN in word
            if programs.is_vague(word) and not command.runs:
                continue
            places = [] if is_unknown else look.places(programs.pattern(word) or word)
            for folder in self.protected:
                if only is not None and not any(
                    programs.stands_for(only, name)
                    for name in (*folder.path.split(os.sep), *names_in(folder.path))
                ):
                    continue
                if is_unknown and may_be(word, folder.path, look, made, or_around=True):
                    return True
                # `rm -rf /` is left to rules that name it: their reason is clearer to a model.
                if any(
                    _is_around(place, folder)
                    for place in places
                    if place != os.sep or not is_root_left
                ):
                    return True
        return False

    def _lands(self, command: Command, look: Look) -> bool:
        """Return whether a command puts something there through a folder around it."""
        copies = programs.is_copied(command)
        given = programs.arguments(programs.operands(command))
        words = dict.fromkeys(word for word in given if UNKNOWN not in word)
        for folder in self.protected:
            around = {
                word: [
                    place
                    for place in look.places(programs.pattern(word) or word)
                    if place != os.sep and _is_around(place, folder)
                ]
                for word in words
            }
            named = list(itertools.chain.from_iterable(around.values()))
            if named and programs.is_copied_as_whole(command):
                return True
            for word in words:
                if around[word] and not (copies and programs.is_vague(word)):
                    continue
                name = programs.pattern(_last(word)) or _last(word)
                for base in [*named, *look.bases, look.here] if "://" in word else named:
                    place = os.path.join(base, name)
                    is_whole = name in {"", ".", "..", "{}"} or _is_around(place, folder)
                    if fits(place, folder.path) or (copies and is_whole):
                        return True
        return False


def _last(word: str) -> str:
    return word.rstrip("/").rsplit("/", 1)[-1]


def _is_around(place: str, folder: Folder) -> bool:
    is_outer = Folder(place, folder.folds_case).contains(folder.path) and place != folder.path
    return is_outer or fits_around(place, folder.path)


def _is_path(word: str, place: str) -> bool:
    """Return whether a word in a protected working directory is a path, not just any word."""
    is_plain = PLAIN.fullmatch(word) is not None
    return not is_plain or place.lower().endswith(SUFFIXES) or os.path.lexists(place)
