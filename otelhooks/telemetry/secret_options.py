"""Passwords that programs take as an option of one letter: in commands and lists of arguments.

An option whose name describes it (``--password``) needs no row here. The same letter is harmless in
other programs, so a row is for one program or one family of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

__all__ = ["cover", "in_arguments"]


class _Row(NamedTuple):
    marker: str
    program: str
    option: str
    value: Literal["attached", "next", "either"]
    form: str = ""


_PAIR = r"(?!\d+:\d+(?![^\s\"'\\]))(?=[^\s:\"'\\]+:[^\s\"'\\])"
"""User and password; two numbers are the user and group of a container."""

_BETWEEN = r"[\s\"',\\b]{1,8}"
"""Between two words of a command, or of a list of arguments as Python or JSON writes it."""

_ROWS = (
    _Row("sql", r"mysql[\w-]*", "-p", "attached"),  # the word after a bare -p is the database
    _Row("mariadb", r"mariadb[\w-]*", "-p", "attached"),
    _Row("7z", r"7z\w?", "-p", "attached"),
    _Row("sshpass", "sshpass", "-p", "either"),
    _Row("zip", "(?:un)?zip", "-P", "either"),
    _Row("ldap", r"ldap\w+", "-w", "either"),
    _Row("sqlcmd", "sqlcmd", "-P", "either"),
    _Row("mosquitto_", r"mosquitto_\w+", "-P", "either"),
    _Row("mongo", r"mongo\w*", "-p", "next"),
    _Row("login", "login", "-p", "next"),  # of docker, podman, helm, az
    _Row("login", rf"(?:docker|podman|nerdctl){_BETWEEN}login", "-p", "either"),
    _Row("redis-cli", "redis-cli", "-a", "next"),
    _Row("plink", "plink", "-pw", "next"),
    _Row("pscp", "pscp", "-pw", "next"),
    _Row("openssl", "openssl", "-pass(?:in|out)?", "next"),
    _Row("curl", "curl", "(?:-[#0-46aBfgGiIjJklLMnNOpqRsSvVZ]{0,16}u|--user)", "either", _PAIR),
)
_PROGRAM = rf"(?s)(?:.*[/\\])?(?P<name>{'|'.join(row.program for row in _ROWS)})(?:\.exe)?"
_OPTION = r"(?a)--?(?P<name>[A-Za-z][\w.-]{0,127})"
_ASSIGNED = r"(?as)(?:--[\w-]{1,64}=)?(?P<name>[A-Za-z][\w.-]{0,127})="
_QUOTE = r"\\{0,7}[\"']"

_CODE = frozenset(("-c", "-ec", "-lc", "-Command"))
"""Options of shells, whose values are not a word but a command."""

_compiled = lru_cache(maxsize=64)(re.compile)


def _bare(group: str, form: str, ends: str = "") -> str:
    return rf"(?P<{group}>{form}(?:[^\s\"'\\{ends}]|\\(?![\"']))+)"


def _quoted(group: str, form: str) -> str:
    return rf"(?P<{group}_quote>{_QUOTE})(?P<{group}>{form}.*?)(?=(?P={group}_quote)|\Z)"


@lru_cache(maxsize=len(_ROWS))
def _expression(row: _Row) -> str:
    """Return an expression for the option after its program, in a command or a list's text."""
    blanks = r"(?:\s{0,4}\\\r?\n\s{0,16}|\s{1,4}(?!\\\r?\n))(?!-)"
    gap = {"attached": "", "next": blanks, "either": f"(?:{blanks})?"}[row.value]
    form = row.form
    in_shell = f"{gap}(?:{_quoted('quoted', form)}|{_bare('bare', form, ';|&')})"
    same = _bare("same", form)
    following = rf"{_QUOTE}\s{{0,4}},\s{{0,4}}b?{_quoted('following', form)}"
    in_list = {"attached": same, "next": following, "either": f"(?:{same}|{following})"}[row.value]
    program = rf"(?<![\w.-])(?:{row.program})(?:\.exe)?(?=[\s\"'\\])"
    return (
        rf"(?s){program}(?:(?!{program})[^\n;|&]|\\\n){{0,512}}?"  # up to the next program
        rf"(?:(?<=\s){row.option}{in_shell}|(?<=[\"']){row.option}{in_list})"
    )


def cover(text: str, mask: str) -> str:
    """Return a text with each password replaced.

    Args:
        text: Text with commands, or lists of arguments as Python or JSON writes them.
        mask: Replacement for a password.
    """

    def replaced(match: re.Match[str]) -> str:
        found = match.groupdict()
        name = next((name for name in found if found[name] and "_" not in name), "")
        if not name:
            return match.group()
        start, end = (place - match.start() for place in match.span(name))
        return f"{match.group()[:start]}{mask}{match.group()[end:]}"

    for row in _ROWS:
        if row.marker in text:
            text = _compiled(_expression(row)).sub(replaced, text)
    return text


@lru_cache(maxsize=64)
def _rows_of(program: str) -> tuple[_Row, ...]:
    return tuple(row for row in _ROWS if re.fullmatch(row.program, program))


def in_arguments(items: Sequence[object], is_secret: Callable[[str], bool]) -> dict[int, int]:
    """Return which items of a list of arguments contain a password, and where it begins in each.

    Args:
        items: Of any kind; nothing looks like an option in a list of other things.
        is_secret: Whether the name of an option shows that its value is a secret.
    """
    found: dict[int, int] = {}
    rows: dict[_Row, None] = {}
    awaited: re.Pattern[str] | None = None  # the expected form of the item after an option
    before = ""
    texts = [item for item in items if isinstance(item, str)]
    are_variables = bool(texts) and all(map(_compiled(_ASSIGNED).match, texts))
    if not are_variables and not any(text.startswith("-") for text in texts):
        return found
    for index, item in enumerate(items):
        text = item if isinstance(item, str) else ""
        expected, awaited = awaited, None
        words, option, before = f"{before} {text}", before, text
        is_word = text.startswith("--") or (option.startswith("-") and option not in _CODE)
        if (is_word or are_variables) and (assigned := _compiled(_ASSIGNED).match(text)):
            if is_secret(assigned["name"]) and assigned.end() < len(text):
                found[index] = assigned.end()
        if not text.startswith("-"):
            if expected is not None and expected.match(text):
                found[index] = 0
            else:
                for given in (text, words):
                    if program := _compiled(_PROGRAM).fullmatch(given[-256:]):
                        rows |= dict.fromkeys(_rows_of(program["name"]))
            continue
        option = _compiled(_OPTION).fullmatch(text)
        if option is not None and is_secret(option["name"]):
            awaited = _compiled("(?s).")
        for row in tuple(rows):
            begun = re.match(row.option, text)
            if begun is None:
                continue
            del rows[row]  # later items may be the options of another program
            form = _compiled(f"(?s){row.form}.")
            if begun.end() == len(text):
                awaited = form if row.value != "attached" else None
            elif row.value != "next" and form.match(text, begun.end()):
                found[index] = begun.end()
    return found
