"""`shell_only`: shells run known programs on files of the workspace, and nothing else.

`otelhooks.policy.shell_review` says what a text of commands would do; here its paths are resolved,
links and all, where the call runs.

What this cannot see: what tests, builds, scripts and installed programs of the project do, content
of archives, links that are made after the decision, and what earlier calls have left in a shell
that stays open: each text is read as if a new shell ran it in the tool's working directory.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.policy import named
from otelhooks.policy.builders import ask_user, deny
from otelhooks.policy.paths import Folder, real_path
from otelhooks.policy.rules import Policy
from otelhooks.policy.shell_programs import is_git, is_secret
from otelhooks.policy.shell_review import review

__all__ = ["SHELL_ONLY_POLICY_NAME", "Found", "found_in", "shell_only"]

SHELL_ONLY_POLICY_NAME = "shell_only"

_REASONS = {
    "unread": "this command cannot be followed before it runs: write plain commands, without"
    " functions, arrays, `eval`, and names of programs that are only known when it runs",
    "program": "a program, option or variable of this command is not on the list of what may run",
    "outside": "this command names a path outside the workspace, in `.git`, or one that is only"
    " known when it runs",
    "secret": "this command reads keys, passwords, a history or the environment",
    "network": "this command uses the network",
    "asks": "this command installs, sends, ends or changes something beyond the workspace, or runs"
    " code that is only in the command",
}
"""Each kind of problem, and what the model and approvers read."""

_SHELL = re.compile("(?:/bin/|/usr/bin/)?(?:ba|z|da)?sh -l?c")
_TOOLS = ("kind:shell", "*")


def shell_only(
    dirs: Sequence[str | os.PathLike[str]], programs: Collection[str] = ()
) -> list[Policy]:
    """Let shells run known programs on files of these directories.

    A command is read as bash reads it. It is denied if it cannot be followed, runs a program that
    is not known or with an option that starts others, names a path that leads outside, uses the
    network, or reads keys, histories or the environment. It is asked about if it installs something
    by name, sends something, or runs code that is only in the command. A tool is a shell by its
    kind, its name, or because it takes a command.

    Args:
        dirs: Directories whose content may be read and written; resolved now.
        programs: More programs that may run, whatever their arguments, as long as these lead to no
            path outside.

    Returns:
        Denies, and asks, for shells by kind and for other tools that take a command.

    Raises:
        ConfigError: `dirs` or `programs` has another form.

    Example:
        >>> [rule.id for rule in shell_only(["."])][:2]
        ['shell_only:unread:kind:shell', 'shell_only:unread:*']
    """
    for name, value in (("directories", dirs), ("programs", programs)):
        if isinstance(value, (str, bytes, os.PathLike)):
            raise ConfigError(f"shell_only takes a list of {name}", hint=f"write [{value!r}]")
    workspaces = tuple(Folder.of(directory) for directory in dirs)
    more = frozenset(programs)
    return [
        (ask_user if kind == "asks" else deny)(
            tool,
            when=Found(kind, workspaces, more, tool != "*"),
            name=SHELL_ONLY_POLICY_NAME,
            id=f"{SHELL_ONLY_POLICY_NAME}:{kind}:{tool}",
            reason=reason,
        )
        for kind, reason in _REASONS.items()
        for tool in _TOOLS
    ]


@dataclasses.dataclass(frozen=True)
class Found:
    """Predicate: a call's commands have a problem of one kind.

    Attributes:
        kind: The kind.
        workspaces: Where paths may lead.
        programs: More programs that may run.
        is_shell: Whether the tool is known to be a shell.
    """

    kind: str
    workspaces: tuple[Folder, ...]
    programs: frozenset[str]
    is_shell: bool

    def __str__(self) -> str:
        return f"a command has a problem of the kind `{self.kind}`"

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether the call's commands have such a problem."""
        if not self.is_shell and not named.is_shell(call.name, call.args):
            return False
        here = os.path.abspath(call.work_dir or os.curdir)
        kinds = found_in(call.args, here, self.workspaces, self.programs)
        return any(kind == self.kind for kind, _ in kinds)


def found_in(
    args: Mapping[str, Any],
    here: str,
    workspaces: Sequence[Folder],
    programs: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, str]]:
    """Yield each problem of a call's commands: its kind and a sentence.

    Args:
        args: Arguments of the call.
        here: Where the tool works.
        workspaces: Where paths may lead.
        programs: More programs that may run.
    """
    starts = [here, *(os.path.join(here, each) for each in _folders(args))]
    for start in starts:
        yield from _places([("look", ".")], start, workspaces)
    for text in _texts(args):
        found = review(text, programs)
        yield from found.problems
        for start in starts:
            yield from _places(found.paths, start, workspaces)


def _places(
    paths: Sequence[tuple[str, str]], start: str, workspaces: Sequence[Folder]
) -> Iterator[tuple[str, str]]:
    """Yield what speaks against paths, once links are followed."""
    for use, path in paths:
        try:
            real = real_path(os.path.join(start, path))
        except (OSError, ValueError):  # a loop of links, or no access
            yield "outside", f"`{path}` cannot be resolved"
            continue
        inside = [each for each in workspaces if each.contains(real)]
        if not inside:
            yield "outside", f"`{path}` leads out of the workspace"
            continue
        parts = os.path.relpath(real, inside[0].path).split(os.sep)
        if use == "remove" and parts == ["."]:
            yield "outside", "the workspace itself"
        if use == "read" and any(map(is_secret, parts)):
            yield "secret", f"`{path}` may hold secrets"
        if use in {"write", "remove"} and any(map(is_git, parts)):
            yield "outside", "`.git` belongs to git"


def _folders(args: Mapping[str, Any]) -> list[str]:
    """Return the directories that a call names for its commands to run in."""
    return [
        each.value
        for each in named.walk(args)
        if each.role is named.Role.BASE and isinstance(each.value, str)
    ]


def _texts(args: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands of a call: its command arguments, or if there are none all texts."""
    given = [(name, value) for name, value in args.items() if named.is_command(name)]
    words = [value for name, value in args.items() if name in {"args", "arguments", "argv"}]
    for _, value in given or list(args.items()):
        yield from _commands(value, words)


def _commands(value: Any, words: Sequence[Any]) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        listed = [str(each) for each in cast("Sequence[Any]", value)]
        yield shlex.join(listed)
        if not (len(listed) == 3 and _SHELL.fullmatch(" ".join(listed[:2]))):
            yield " ".join(listed)  # some tools join the words,
            yield from (each for each in listed if " " in each)  # others take several commands
    elif isinstance(value, str):
        lists = [cast("Sequence[Any]", each) for each in words if isinstance(each, (list, tuple))]
        yield " ".join([value, *(shlex.join(map(str, each)) for each in lists)])
    elif value is not None and not isinstance(value, (bool, int, float)):
        yield "\0"  # in no form that is known
