"""What simple commands may do to the files that their words name.

`otelhooks.policy.commands.shell` reads the words. A program that is not known here to only read may
write whatever it gets, and a word with an unknown part, or a pattern, may be each program that it
matches.
"""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence

from otelhooks.policy.commands.shell import NUMBER, UNKNOWN, Command

__all__ = [
    "arguments",
    "executed",
    "folders",
    "is_copied",
    "is_copied_as_whole",
    "is_vague",
    "only_names",
    "only_reads",
    "operands",
    "pattern",
    "program",
    "stands_for",
    "trees",
    "words",
]

_READING = frozenset(
    (
        "[ [[ : < <& <<< basename break case cat cd cmp column comm continue cut date declare df"
        " diff dirname du echo egrep exit export expr false fgrep file for getopts grep"
        " groups head hostname id in jobs join jq kill let local ls md5sum mapfile nl nproc od"
        " paste pgrep pidof popd printenv printf ps pushd pwd read readarray readlink readonly"
        " realpath return rev select seq set sha1sum sha256sum shift shopt sleep stat strings tac"
        " tail test tr true type typeset uname unset uptime wait wc which whoami"
    ).split()
)
_READING_OF_GIT = frozenset("add blame branch commit merge rev-parse status switch tag".split())
_UNSEEN = frozenset("awk gawk mawk node python python3".split())  # their scripts are not read
_RENAMING = frozenset(("alias", "enable", "expand_aliases", "hash"))
_BEFORE_PROGRAM = frozenset(
    (
        "! { builtin command do elif else env exec function if nohup sudo then time until while"
        " xargs"
    ).split()
)
_TAKING_TEXTS = frozenset("ash bash busybox csh dash fish ksh parallel sh ssh su zsh".split())
_TAKING_TEXTS_FIRST = frozenset(
    (
        ". at batch compgen complete coproc eval flock make mapfile readarray screen script source"
        " tmux trap watch"
    ).split()
)
_TAKEN_LATER = re.compile(
    r"(?:PS\d|PROMPT_COMMAND|BASH_ENV|ENV)\+?=|.*\w\[[^]]*(?:\$\(|`)", re.DOTALL
)
_TAKING_TREES = frozenset(
    (
        "chattr chgrp chmod chown ln mount mv rename rm rmdir rsync setfacl shred srm trash unlink"
        " --delete --remove-files"
    ).split()
)
_TAKING_TREES_OF_GIT = frozenset("checkout clean mv restore rm worktree".split())
_COPYING = frozenset("cp install ln mv rsync scp".split())
_LINKS = re.compile("-[^-]*[ls].*|--[ls].*", re.DOTALL)
_AS_WHOLE = re.compile("-[^-]*T.*|--no-t.*", re.DOTALL)
_FINDING = re.compile("-(?:delete|exec|f(?:print.*|ls))")
_EXECUTING = re.compile("-(?:exec|ok)(?:dir)?")
_OR = frozenset(("!", ",", "-not", "-o", "-or"))
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(\[.*?\])?\+?=")
_OF_XARGS = re.compile(r"-[0rtx]+|-[nPL]\d*|-I(?:\{\})?|\d+|\{\}")
_VAGUE = re.compile(r"[*?./]+")
_SPECIAL = re.compile(rf"[{UNKNOWN}{NUMBER}*?[(]")
_DIGITS = "[-0-9]"
_MOST_TAILS = 64

_CHANGES_FOLDER = frozenset(
    (
        "-C -P -d -t --chdir --cwd --directory --directory-prefix --output-dir --prefix"
        " --target-directory --work-tree"
    ).split()
)
_FOLDER_OPTION = re.compile(
    r"(?:-[CPdt]|--(?:chdir|cwd|directory(?:-prefix)?|output-dir|prefix|target-directory"
    r"|work-tree)=)(.+)",
    re.DOTALL,
)
_WORDS = re.compile(r"[\s;|&<>()=\"'`,{}]+")


# -- words ------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Return the words of a text in any language."""
    return _WORDS.split(text)


def arguments(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a simple command, and what may be values in them.

    These are values of options (``-opolicies/p.yaml``, ``--output=x``, ``-d@x``), parts
    (``host:x``), and the files that a ``sed`` script writes.
    """
    is_sed = any(_is_one(word, frozenset(("sed",))) for word in command)
    for word in command:
        yield word
        if word.startswith("-"):
            letters = re.match("-[^/=]{0,16}", word)
            yield from (word[start:] for start in range(2, letters.end() if letters else 0))
        parts = re.split("[=:@,]", word)
        if len(parts) > 1 and parts[1]:
            yield from parts
            yield word[len(parts[0]) + 1 :]
        if is_sed:
            tails = [each.end() for each in re.finditer("[wW]", word)]
            yield from (word[end:].split("\n")[0].strip() for end in tails[:_MOST_TAILS])
            yield from [UNKNOWN] if len(tails) > _MOST_TAILS else []


def folders(command: Sequence[str]) -> list[str]:
    """Return the folders that a simple command may make paths relative to: ``cd x``, ``-C x``."""
    found: list[str] = []
    seen: set[str] = set()  # every word behind the first of a kind may be a folder
    for place, word in enumerate(command):
        if word in {"cd", "pushd"}:
            kind = "cd"
        elif UNKNOWN in word:  # such as an option, or `cd`
            kind = UNKNOWN
        else:
            kind = "ln" if _name(word) == "ln" else ""
        if kind:
            rest = command[place + 1 : place + 1 if kind in seen else None]
            seen.add(kind)
            found += (each for each in rest if kind != UNKNOWN or UNKNOWN not in each)
            # The target of a link is relative to the link.
            found += map(posixpath.dirname, rest if kind == "ln" else [])
        elif word in _CHANGES_FOLDER:
            end = place + 1
            while end < len(command) and not command[end].startswith("-"):
                end += 1
            found += command[place + 1 : end]
        else:
            attached = _FOLDER_OPTION.fullmatch(word)
            found += [] if attached is None else [attached[1]]
    return found


def pattern(word: str) -> str | None:
    """Return a pattern for `fnmatch` that matches all that a shell's does; None for a plain word.

    Brackets with any content, and unknown parts, match any text.
    """
    if _SPECIAL.search(word) is None:
        return None
    word = word.replace(UNKNOWN, "*")
    parts = [_any(_any(p, r"\[", "]"), r"[@!+?*]\(", ")") for p in word.split("/")]
    found = re.sub(r"\*+", "*", "/".join(parts)).replace(NUMBER, _DIGITS + "*")
    return found if "*" in found or "?" in found else None


def _any(part: str, begin: str, end: str) -> str:
    """Return a name with everything from its first to its last bracket as any text."""
    start, stop = re.search(begin, part), part.rfind(end)
    if start is None or stop < start.end():
        return part
    return f"{part[: start.start()]}*{part[stop + 1 :]}"


def stands_for(pattern: str, name: str) -> bool:
    """Return whether a `pattern` can match a name, in lower or upper case."""
    shortest = pattern.replace(_DIGITS, "?").replace("*", "")
    return len(shortest) <= len(name) and fnmatch.fnmatchcase(name.lower(), pattern.lower())


def is_vague(word: str) -> bool:
    """Return whether a word has an unknown part, or is a pattern without any letter."""
    return UNKNOWN in word or _VAGUE.fullmatch(pattern(word) or "") is not None


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _is_one(word: str, names: frozenset[str], *, at_all: bool = False) -> bool:
    """Return whether a word may be a program; one that may be any only if it counts `at_all`."""
    name = _name(word)
    own = pattern(name)
    if own is None or (is_vague(own) and not at_all):
        return name in names
    return any(stands_for(own, each) for each in names)


# -- programs ---------------------------------------------------------------------------------


def program(command: Sequence[str]) -> int | None:
    """Return which word of a command is its program; None if it only sets variables."""
    is_xargs = False
    for place, word in enumerate(command):
        is_named = place > 0 and command[place - 1] == "function"
        is_before = word in _BEFORE_PROGRAM or _ASSIGNED.match(word) or is_named
        if not is_before and not (is_xargs and _OF_XARGS.fullmatch(word)):
            return place
        is_xargs |= word == "xargs"
    return None


def operands(command: Command) -> list[str]:
    """Return the words that a command passes to its program; an unknown one for ``xargs``."""
    place = program(command) or 0
    given = command[min(place + 1, command.certain) :]
    return [*given, UNKNOWN] if "xargs" in command[:place] else given


def only_reads(command: Command) -> bool:
    """Return whether a command does nothing to the files in its words, whatever they are."""
    place = program(command)
    if place is None:
        return True
    if place >= command.certain:
        return False
    name = _name(command[place])
    if name == "find":
        return not any(UNKNOWN in word or _FINDING.fullmatch(word) for word in command)
    if name == "git":
        return place + 1 < command.certain and command[place + 1] in _READING_OF_GIT
    return name in _READING or name in _UNSEEN


def trees(command: Command) -> list[str]:
    """Return the folders in a command's words that it removes, moves or links.

    This includes implied ones: ``git clean`` and ``find -delete`` begin in the working directory.
    """
    place = program(command)
    if place is None:
        return []
    name, rest = _name(command[place]), command[place + 1 :]
    if name == "find":
        starts = list(itertools.takewhile(lambda word: word[:1] not in {"-", "(", "!"}, rest))
        return [] if only_reads(command) else starts or ["."]
    if name == "git" and not _TAKING_TREES_OF_GIT.isdisjoint(rest):
        is_all = "clean" in rest and all(word.startswith("-") for word in rest if word != "clean")
        return [*rest, "."] if is_all else rest
    takes = _is_one(command[place], _TAKING_TREES, at_all=command.runs and UNKNOWN in name)
    takes = takes or any(_is_one(word, _TAKING_TREES) for word in command)
    if takes or (name == "cp" and any(map(_LINKS.fullmatch, rest))):
        return [UNKNOWN, *rest] if "xargs" in command[:place] else rest
    return []


def is_copied(command: Command) -> bool:
    """Return whether a command puts files into a folder under their own names."""
    return any(_is_one(word, _COPYING) for word in command)


def is_copied_as_whole(command: Command) -> bool:
    """Return whether a command copies the content of a folder into another."""
    return is_copied(command) and any(map(_AS_WHOLE.fullmatch, command))


def only_names(command: Sequence[str]) -> str | None:
    """Return the pattern of ``find -name`` that all found files match; None if there is none."""
    if not _OR.isdisjoint(command) or any(UNKNOWN in word for word in command):
        return None
    names = [after for word, after in itertools.pairwise(command) if word in {"-name", "-iname"}]
    return (pattern(names[0]) or names[0]) if names else None


def executed(commands: Sequence[Command]) -> list[Command]:
    """Return commands, with merely quoted ones marked as run if a program may run them."""
    takes = any(
        each.runs and (_takes_texts(each) or any(map(_TAKEN_LATER.match, each)))
        for each in commands
    )
    renames = any(each.runs and not _RENAMING.isdisjoint(each) for each in commands)
    found: list[Command] = []
    for command in commands:
        command.runs |= takes
        command.certain = 0 if renames else command.certain
        found += _parts(command)
    return found


def _takes_texts(command: Command) -> bool:
    place = program(command)
    if place is None:
        return False
    is_first = _is_one(command[place], _TAKING_TEXTS | _TAKING_TEXTS_FIRST, at_all=True)
    return is_first or any(_is_one(word, _TAKING_TEXTS) for word in command)


def _parts(command: Command) -> list[Command]:
    """Return a command, and separately the commands that ``find`` executes."""
    place = program(command)
    if place is None or _name(command[place]) != "find":
        return [command]
    starts = [i for i, word in enumerate(command) if _EXECUTING.fullmatch(word)]
    found: list[Command] = []
    for start, end in itertools.pairwise([-1, *starts, len(command)]):
        part = Command(command[start + 1 : end])
        part.runs, part.certain = command.runs, max(0, command.certain - start - 1)
        found.append(part)
    if not all(map(only_reads, found[1:])):
        found[0].append("-exec")
    return found
