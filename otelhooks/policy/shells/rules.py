"""`shell_only`: shells run listed programs on files of the workspace, and nothing else.

This stops commands that say what they do. A program that runs what is in the workspace (tests,
builds, scripts) runs all of it, and an agent that may write files can write such a script and run
it. The rule sees neither that, nor aliases, functions and variables that earlier calls left in a
shell that stays open. The answer to both is a sandbox.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.policy.builders import ask_user, deny
from otelhooks.policy.commands import named
from otelhooks.policy.paths import Folder
from otelhooks.policy.predicates import Detailed
from otelhooks.policy.rules import Policy
from otelhooks.policy.shells.judge import Judge
from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.options import COMMIT, FOUND, NUMBER, PIPE, UNKNOWN
from otelhooks.policy.shells.places import WILD, Places

__all__ = ["SHELL_ONLY_POLICY_NAME", "Found", "Runs", "check_program", "found_in", "shell_only"]

SHELL_ONLY_POLICY_NAME = "shell_only"

Runs = Literal["allow", "ask", "deny"]

_REASONS = {
    "unread": "this command is not read, since shells read it in different ways or only when it"
    " runs: write plain commands with `|`, `&&`, `;` and quotes, without functions, arrays, `((`,"
    " `$'...'`, braces and backticks, and with a blank before each redirection",
    "program": "a program, option or argument of this command is not on the list of what may run:"
    " use another program, whole names of options, and put options before `--`",
    "outside": "this command names a path outside the workspace, in `.git`, or one that is only"
    " known when it runs: write paths of the workspace as they are",
    "secret": "this command reads keys, passwords, a history or the environment",
    "network": "this command uses the network",
    "runs": "this command runs code of the workspace, or follows settings in its files",
    "asks": "this command installs, sends, ends or changes something beyond the workspace, unpacks"
    " an archive, applies a patch, or runs code that is only in the command",
}
"""Each kind of problem, and what the model and approvers read."""

_SHELLS = frozenset("/bin/sh /bin/bash /usr/bin/bash sh bash".split())
_BESIDE = frozenset("env environment shell executable stdin input".split())
_WORDS = frozenset("args arguments argv".split())
_HARMLESS = re.compile(
    r"(?:yield|wait)?time(?:out)?(?:ms|s|secs?|seconds|millis|milliseconds)?"
    r"|max(?:output)?(?:tokens|length|chars|lines)"
    r"|(?:session|call|toolcall|terminal|request)?id|(?:is|runin)?background|blocking|restart"
    r"|waitmsbeforeasync|waitforcompletion|requires?(?:user)?approval|safetoautorun|(?:security)?risk"
)
"""Names of arguments that do not change what a command does, if their value is a plain word."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*")
_TOLD = re.compile(
    r"description|explanation|reason|reasoning|justification|goal|title|summary|thoughts?|purpose"
)
"""Names of arguments that only say something about a command."""
_TYPED = re.compile("term|stdin|input|keys|chars|tmux|pty|console|interactive")
"""In names of tools and arguments: the text is typed, or may be."""
_FOLDER = re.compile(r"(?!-)[\w./@+, -]*")
"""A directory that means the same if a tool writes it into its command."""
_KEPT_S = 1.0
_SHOWN = WILD | dict.fromkeys(map(ord, (UNKNOWN, NUMBER, COMMIT, PIPE, FOUND)), "...")
"""How a sentence shows the marks of what is not known."""
_TOOLS = ("kind:shell", "*")


def shell_only(
    dirs: Sequence[str | os.PathLike[str]],
    programs: Collection[str] = (),
    runs: Runs = "allow",
) -> list[Policy]:
    """Let shells run listed programs on files of these directories.

    A command is denied unless each program, option and argument in it is on a list, each path leads
    into the directories, and all shells read the text alike. It is asked about if it installs,
    sends or fetches something, or runs code that is only in the command. A tool is a shell by its
    kind, its name, or because it takes a command.

    This is not a sandbox: tests, builds and scripts of the workspace run with all that they do.

    Args:
        dirs: Directories whose content may be read and written; resolved now.
        programs: More programs that may run, whatever their arguments, as long as these lead to no
            path outside.
        runs: What to do about programs that run code of the workspace; not about `programs`.

    Returns:
        Denies, and asks, for shells by kind and for other tools that take a command.

    Raises:
        ConfigError: An argument has another form.

    Example:
        >>> [rule.id for rule in shell_only(["."])][:2]
        ['shell_only:unread:kind:shell', 'shell_only:unread:*']
    """
    for name, value in (("directories", dirs), ("programs", programs)):
        if isinstance(value, (str, bytes, os.PathLike)):
            raise ConfigError(f"shell_only takes a list of {name}", hint=f"write [{value!r}]")
    if runs not in get_args(Runs):
        raise ConfigError(f"unknown `runs`: `{runs}`", hint="use one of allow, ask, deny")
    for program in programs:
        check_program(program)
    workspaces = tuple(Folder.of(directory) for directory in dirs)
    more, last = frozenset(programs), _Last()
    return [
        (ask_user if kind == "asks" or (kind == "runs" and runs == "ask") else deny)(
            tool,
            when=Found(kind, workspaces, more, runs, tool != "*", last),
            name=SHELL_ONLY_POLICY_NAME,
            id=f"{SHELL_ONLY_POLICY_NAME}:{kind}:{tool}",
            reason=reason,
        )
        for kind, reason in _REASONS.items()
        if kind != "runs" or runs != "allow"
        for tool in _TOOLS
    ]


def check_program(name: str) -> None:
    """Check that an entry of ``programs`` can be what a command starts with.

    Raises:
        ConfigError: It is a command, a path or a pattern.
    """
    if not re.fullmatch(r"[\w.+-]+", name):
        raise ConfigError(
            f"`{name}` is not one program's name",
            hint="write the name alone, such as `terraform`; its arguments are free",
        )


_Key: TypeAlias = tuple[str, str]
_Problems: TypeAlias = list[tuple[str, str]]


class _Last:
    """What the last call was found to be, for the rules that look at it in turn."""

    def __init__(self) -> None:
        self._kept: list[tuple[weakref.ref[types.ToolCall], _Key, float, _Problems]] = []

    def problems(
        self, call: types.ToolCall, workspaces: tuple[Folder, ...], programs: frozenset[str]
    ) -> _Problems:
        """Return the problems of a call; those of the same moment are not looked for again."""
        here, now = os.path.abspath(call.work_dir or os.curdir), time.monotonic()
        key = repr(call.args), here
        for whose, seen, when, found in self._kept:
            if whose() is call and seen == key and now - when < _KEPT_S:
                return found
        is_typed = any(map(_TYPED.search, map(str.casefold, (call.name, *call.args))))
        found = found_in(call.args, here, workspaces, programs, is_typed=is_typed)
        self._kept = [(weakref.ref(call), key, now, found)]
        return found


@dataclasses.dataclass(frozen=True)
class Found(Detailed):
    """Predicate: a call's commands have a problem of one kind.

    Attributes:
        kind: The kind.
        workspaces: Where paths may lead.
        programs: More programs that may run.
        runs: What the rules do about programs that run code of the workspace.
        is_shell: Whether the tool is known to be a shell.
        last: What the rules share that look at a call in turn.
    """

    kind: str
    workspaces: tuple[Folder, ...]
    programs: frozenset[str]
    runs: Runs
    is_shell: bool
    last: _Last = dataclasses.field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"a command has a problem of the kind `{self.kind}`"

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether the call's commands have such a problem."""
        if not self.is_shell and not named.is_shell(call.name, call.args):
            return False
        return any(kind == self.kind for kind, _ in self._problems(call))

    def detail(self, call: types.ToolCall) -> str:
        """Return the call's problems of the kind, in a line that may be cut in the middle."""
        found = "; ".join(why for kind, why in self._problems(call) if kind == self.kind)
        return one_line(found.translate(_SHOWN), LOGGED)

    def _problems(self, call: types.ToolCall) -> _Problems:
        return self.last.problems(call, self.workspaces, self.programs)


def found_in(
    args: Mapping[str, Any],
    here: str,
    workspaces: Sequence[Folder],
    programs: frozenset[str] = frozenset(),
    *,
    is_typed: bool = False,
) -> list[tuple[str, str]]:
    """Return each problem of a call's commands: its kind and a sentence.

    Args:
        args: Arguments of the call.
        here: Where the tool works.
        workspaces: Where paths may lead.
        programs: More programs that may run.
        is_typed: Whether they are typed into a terminal.
    """
    try:
        return list(dict.fromkeys(_found(args, here, workspaces, programs, is_typed)))
    except Exception as error:
        return [("unread", f"the command could not be judged: {type(error).__name__}")]


def _found(
    args: Mapping[str, Any],
    here: str,
    workspaces: Sequence[Folder],
    programs: frozenset[str],
    is_typed: bool,
) -> Iterator[tuple[str, str]]:
    knows = any(named.is_command(name) for name in args)
    for name, value in args.items():
        is_given = value or type(value) is int  # 0 is a user, for one
        if is_given and not _is_shell(value) and (name.casefold() in _BESIDE or knows):
            if name.casefold() in _BESIDE or not _is_harmless(name, value):
                yield "program", f"the argument `{name}` may change what the command does"
    commands, folders = list(_commands(args)), _folders(args)
    for folder in folders:
        try:
            Places(here, workspaces).check("look", folder.strip(), "")
            if _FOLDER.fullmatch(folder) is None:
                yield "outside", f"`{folder}`, where it should run, is more than a path to a shell"
        except Refused as error:
            yield error.kind, str(error)
    for folder in ("", *folders):
        for command in commands:
            judge = Judge(Places(os.path.join(here, folder), workspaces), programs)
            if isinstance(command, str):
                judge.text(command, is_typed=is_typed)
            else:
                judge.words(command)
            yield from judge.problems


def _is_harmless(name: str, value: Any) -> bool:
    plain = re.sub(r"[\W_]", "", name).casefold()
    return (
        named.is_command(name)
        or name.casefold() in _WORDS
        or _TOLD.fullmatch(plain) is not None
        or bool(_HARMLESS.fullmatch(plain) and _PLAIN.fullmatch(str(value)))
        or (isinstance(value, str) and bool(_folders({name: value})))
    )


def _is_shell(value: Any) -> bool:
    return isinstance(value, str) and value in _SHELLS


def _folders(args: Mapping[str, Any]) -> list[str]:
    """Return the directories that a call names for its commands to run in."""
    return [
        each.value
        for each in named.walk(args)
        if each.role is named.Role.BASE and isinstance(each.value, str)
    ]


def _commands(args: Mapping[str, Any]) -> Iterator[str | list[str]]:
    """Yield the commands of a call, texts for a shell or words that no shell reads.

    If no argument is known to be a command, all texts are.
    """
    given = [(name, value) for name, value in args.items() if named.is_command(name)]
    rest = [_texts(value) for name, value in args.items() if name.casefold() in _WORDS and value]
    for name, value in given or list(args.items()):
        if isinstance(value, (list, tuple)) and name.casefold().endswith("s"):
            texts = _texts(value)
            yield from (*texts, "\n".join(texts))
        elif isinstance(value, (list, tuple)) or (isinstance(value, str) and given and rest):
            for more in rest if given and rest else [[]]:
                words = [*_texts(value), *more]
                if len(words) == 3 and _is_shell(words[0]) and words[1] in {"-c", "-lc"}:
                    yield words[2]
                else:
                    yield words
                    yield " ".join(words)  # as some tools hand them to a shell
        elif isinstance(value, str):
            yield value
        elif value is not None and not isinstance(value, (bool, int, float)):
            yield "\0"  # in no form that is known


def _texts(value: Any) -> list[str]:
    listed = cast("Sequence[Any]", value if isinstance(value, (list, tuple)) else [value])
    return [str(each) for each in listed]
