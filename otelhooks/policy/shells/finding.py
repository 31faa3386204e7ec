"""What `find` hands on to other programs, and what `grep` and `rg` keep of a directory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.options import FOUND, GLOBS, NUMBER, UNKNOWN, Argument, Reading
from otelhooks.policy.shells.places import Kept

__all__ = [
    "CACHES",
    "DELETED",
    "ENDING",
    "REMOVING",
    "SEVERAL_FOUND",
    "SUFFIX",
    "cut",
    "edits",
    "found_by",
    "kept_by",
    "left_out_by",
    "lists",
]

SEVERAL_FOUND = Argument(FOUND, many=True)
_PRINTING = frozenset(("-print", "-ls", "-exec"))
_LEFT_OUT = re.compile("[A-Za-z0-9_.-]+")
ENDING = re.compile(r"[A-Za-z0-9_.-]*\*?[A-Za-z0-9_.-]+")
SUFFIX = re.compile(
    r"[A-Za-z0-9_-]*\*?[A-Za-z0-9_.-]*\.(?!git$|venv$|worktree$)[A-Za-z0-9]+|[A-Z][a-z]+file"
)
"""Files that git does not have in `.git`, and no directories of packages."""
REMOVING = [["rm", option, FOUND] for option in ("-r", "-rf", "-fr")]
DELETED = re.compile(r"\*\.(?:pyc|pyo|o|class|tmp|bak|orig|rej|log)")
CACHES = re.compile(r"__pycache__|node_modules|\.(?:pytest|mypy|ruff)_cache|\*\.egg-info")
_END = re.compile(
    f"[{UNKNOWN}{NUMBER}]*[;+{UNKNOWN}][{UNKNOWN}{NUMBER}]*|.*[{''.join(GLOBS.values())}].*",
    re.DOTALL,
)
"""What may be the end of a command of `find`, or what it finds, when it runs: a pattern may be the
value of a loop, and match a file named `;` or `{}`."""
_PATH_FORM = re.compile("[A-Za-z0-9_./*-]+")
_NOT = frozenset(("-not", "!"))
_CHOOSING = _NOT | {"-o", "-or", "(", ","}


def kept_by(found: Reading) -> Kept:
    """Return what grep and rg keep of a directory, where it is certain."""
    given: dict[str, list[str]] = {"glob": [], "included": [], "excluded": [], "left_out": []}
    for kind, value in found.given:
        given.get(kind, []).append(value.text)
    only = [*given["glob"], *given["included"]]
    if given["excluded"] or not all(map(ENDING.fullmatch, only)):
        only = []
    left_out = given["left_out"] if all(map(_LEFT_OUT.fullmatch, given["left_out"])) else ()
    return Kept(tuple(only), frozenset(left_out))


def found_by(finding: Reading, action: str) -> str:
    """Return the form of all names that `find` hands to an action, or nothing."""
    texts = [each.text for each in finding.args]
    chosen = _without_left_out(texts[: texts.index(action)])
    names = [text for option, text in itertools.pairwise(chosen) if option == "-name"]
    used = {*finding.options, *(value.text for _, value in finding.operands)} - _NOT
    return names[0] if names and _CHOOSING.isdisjoint({*used, *chosen}) else ""


def _without_left_out(texts: Sequence[str]) -> list[str]:
    """Return arguments of `find` without such as `-not -path NAME`, which leave names out."""
    kept: list[str] = []
    rest = iter(texts)
    for text in rest:
        kept.append(text)
        if text in _NOT:
            kept.append(next(rest, ""))
            if kept[-1] in {"-name", "-path"}:
                del kept[-2:]
                next(rest, "")
    return kept


def left_out_by(finding: Reading, action: str) -> list[str]:
    """Return plain forms of paths that do not reach an action of `find`, by `-not -path`."""
    texts = [each.text for each in finding.args]
    texts = ["", *texts[: texts.index(action)]]
    return [
        form
        for before, sign, option, form in zip(texts, texts[1:], texts[2:], texts[3:], strict=False)
        if sign in _NOT and option == "-path" and _PATH_FORM.fullmatch(form)
        if not before.startswith("-") and before not in _NOT  # else it may be a value, or denied
    ]


def edits(words: Sequence[Argument]) -> bool:
    """Return whether a command is `sed -i`."""
    texts = [each.text for each in words]
    return texts[0] == "sed" and any(each.startswith(("-i", "--in-place")) for each in texts)


def lists(found: Reading) -> bool:
    """Return whether a command prints names with an end that no name has, and nothing else."""
    return "-print0" in found.options and _PRINTING.isdisjoint(found.options)


def cut(args: Sequence[Argument]) -> tuple[list[Argument], list[list[Argument]]]:
    """Return the arguments of `find` without the commands that it runs, and these."""
    kept: list[Argument] = []
    commands: list[list[Argument]] = []
    inner: list[Argument] | None = None
    for arg in args:
        if inner is None and arg.text == "-exec":
            inner = []
        elif inner is None:
            kept.append(arg)
        elif arg.text == ";" or (arg.text == "+" and inner and inner[-1].text == FOUND):
            is_one = arg.text == ";"
            found = Argument(FOUND) if is_one else SEVERAL_FOUND
            commands.append([found if each.text == FOUND else each for each in inner])
            inner = None
        elif arg.text == "+":
            raise Refused("program", "`find -exec`: write `{}` before `+`")
        elif arg.many or _END.fullmatch(arg.text):
            raise Refused("program", f"`find -exec`: `{arg.text}` may be `;`")
        elif arg.text == "{}" or "{}" not in arg.text:
            inner.append(Argument(FOUND) if arg.text == "{}" else arg)
        else:
            raise Refused("program", "`find -exec`: write `{}` as a word of its own")
    if inner is not None or not all(FOUND in [word.text for word in each[1:]] for each in commands):
        raise Refused("program", "`find -exec` needs a command with `{}`, and its end")
    return kept, commands
