"""Passwords in statements of SQL and in `.netrc` files, which name them by a word beside them.

In running text such words are ordinary: SQL's count in capitals, or behind ``create user``. What is
inserted into a table is a secret if its column is named like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from otelhooks.telemetry.secret_names import names_secret

__all__ = ["cover"]

_USERS = (  # a statement, up to an empty line
    r"(?is)\b(?:create|alter)\s{1,8}(?:user|role|login)\b(?:'[^']{0,512}(?:'|\Z)"
    r"|\"[^\"]{0,512}(?:\"|\Z)|(?!\.\s|\n\s{0,64}\n)[^;'\"]){1,1024}"
)
_IN_CAPITALS = r"(?-i:IDENTIFIED|PASSWORD)|set\s{1,8}password(?=\s{1,8}for\b)"
_PASSWORD = (
    r"(?is)\b(?:%s)"
    r"(?:\s{1,8}for\s{1,8}\S{1,128}(?=\s))?(?:\s{1,8}with\s{1,8}\S{1,64}(?=\s))?"
    r"(?:\s{1,8}(?:by|as)|\s{0,8}=)?(?:\s{1,8}(?:password|values))?\s{0,8}\(?\s{0,8}"
)
_LITERAL = r"(?P<quote>\\{0,7}[\"'])(?P<secret>(?:(?P=quote){2}|(?!(?P=quote)).)+)"
_PREFIX = r"(?:[ne]|u&)?"
_DOLLARS = r"(?P<quote>\$\w{0,16}\$)(?P<secret>(?:(?!(?P=quote)).)+)"  # PostgreSQL
_WORD = r"[^\s;\"'\\()\[]+"
_ORACLE = (  # without quotes; prose continues behind it
    r"(?i)\b(?:(?:create|alter)\s{1,8}user|(?-i:GRANT)\b[^;\n]{1,128}?(?-i:\bTO))\s{1,8}\S{1,128}"
    rf"\s{{1,8}}identified\s{{1,8}}by\s{{1,8}}(?!random\b)(?P<secret>{_WORD})"
    r"(?=\s{0,8}(?:;|\\{0,7}[\"']|\Z|(?:account|container|default|profile|quota|replace|temporary)"
    r"\b)|[ \t]{0,8}\r?\n)"
)
_REPLACED = (
    r"(?is)\bidentified\s{1,8}by\s{1,8}\S{1,32}\s{1,8}replace\s{1,8}(?P<quote>\\{0,7}[\"'])?"
    rf"(?P<secret>(?(quote)(?:(?P=quote){{2}}|(?!(?P=quote)).)+|{_WORD}))"
)
_NETRC = (
    r"\bmachine\s{1,16}\S{1,255}(?:\s{1,16}(?:login|account)\s{1,16}\S{1,255}){1,2}"
    r"\s{1,16}password\s{1,16}(?P<secret>\"[^\"\n]*|[^\s\"'\\]+)"
)
_COMMENT = r"/\*(?:(?!\*/)[\s\S]){0,128}\*/|--[^\n]{0,128}(?=\n)"
_NAMES = r"(?:(?!--|/\*)[^()])"
_GAP = rf"(?:\s|{_COMMENT}){{1,8}}"
_INSERT = (  # or `REPLACE`, `UPSERT`; SQL Server, Hive and `MERGE` leave out `INTO`
    rf"(?i)\b(?:(?:insert|replace|upsert)(?:{_GAP}\w{{1,16}}){{0,2}}{_GAP}into{_GAP}"
    rf"(?:{_COMMENT}|(?!--|/\*)[^(;]){{1,160}}|insert(?:{_GAP}(?:(?!--|/\*)[^\s(;]){{1,128}}){{0,4}}(?:{_GAP})?)"
    rf"(?:\([^()]{{0,256}}\)(?:{_GAP})?)?"  # of `PARTITION`
    rf"\((?P<columns>{_NAMES}{{1,4096}}(?:(?:{_COMMENT}){_NAMES}{{0,256}}){{0,16}})\)"
    rf"(?:{_COMMENT}|\\[nrt]|[^\w();/-]){{0,64}}(?:(?:output|overriding)\b[^();]{{0,64}}\b)?"
    r"values?\s{0,8}(?:row\s{0,8})?(?=\()"
)
_PARTS = (
    r"(?s)\\{1,7}\"(?:(?!\\{1,7}\").)*(?:\\{1,7}\"|\Z)"  # in a literal of a program
    r"|'(?:''|%s[^'\\])*(?:'|\Z)|\"(?:\\.|[^\"\\])*(?:\"|\Z)|[(),;]"
    r"|(\$(?:[^\W\d]\w{0,15})?\$)(?:(?!\1).)*(?:\1|\Z)|\$|(?:(?![(),;'\"$]|\\{1,7}\").)+|\Z"
)
_BACKSLASHES = (r"\\.|", r"\\|")
"""What a backslash in a literal is: an escape as in MySQL, or itself as in standard SQL."""
_LONGEST = 2048
"""Most characters of a statement that is read with a backslash as an ordinary character."""
_NO_SECRET = (  # a placeholder of a statement, or of the program that makes it
    r"(?i)\s*(?:[?]\d{0,3}|[$:@]\w{1,64}|null|default|(?P<mark>\\{0,7}[\"'])?"
    r"(?:%s|%\(\w{1,64}\)s|[$#]?\{{1,2}[^{}\"']{1,64}\}{1,2})(?(mark)(?P=mark)))?\s*"
)
_AROUND_NAMES = ' \t\r\n`"[]\\'


@cache
def _compiled() -> tuple[re.Pattern[str], ...]:
    password = _PASSWORD % _IN_CAPITALS
    quoted = f"{password}{_PREFIX}{_LITERAL}", f"{password}{_DOLLARS}"
    return tuple(map(re.compile, (*quoted, _ORACLE, _REPLACED, _NETRC)))


@cache
def _of_users() -> tuple[re.Pattern[str], ...]:
    password = _PASSWORD % "identified|password"
    return tuple(
        map(re.compile, (_USERS, password, f"(?is){_PREFIX}{_LITERAL}", f"(?s){_DOLLARS}"))
    )


@cache
def _of_inserts() -> tuple[re.Pattern[str], ...]:
    parts = (_PARTS % backslash for backslash in _BACKSLASHES)
    return tuple(map(re.compile, (_INSERT, _NO_SECRET, _COMMENT, *parts)))


def cover(text: str, mask: str) -> str:
    """Return a text with each password replaced.

    Args:
        text: Text with statements, or lines of `.netrc`.
        mask: Replacement for a password.
    """

    def replaced(match: re.Match[str]) -> str:
        return f"{match[0][: match.start('secret') - match.start()]}{mask}"

    for expression in _compiled():
        text = expression.sub(replaced, text)
    for find in (_given, _inserted):
        pieces: list[str] = []
        done = 0
        for first, end in find(text):
            pieces += (text[done:first], mask)
            done = end
        text = "".join((*pieces, text[done:]))
    return text


def _given(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the passwords are that statements give users, whose words may be small."""
    users, password, *literals = _of_users()
    done = 0
    for statement in users.finditer(text):
        for found in password.finditer(text, *statement.span()):
            secret = next(filter(None, (one.match(text, found.end()) for one in literals)), None)
            if secret and found.start() >= done:
                yield secret.span("secret")
                done = secret.end()


def _inserted(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values are that are inserted into columns named like secrets."""
    inserts, _, comments, escaped, standard = _of_inserts()
    read, longest = 0, len(text)
    for insert in inserts.finditer(text):
        names = comments.sub("", insert["columns"]).split(",")
        secret = [names_secret(name.strip(_AROUND_NAMES), "") for name in names]
        first = insert.end()
        if insert.start() < read or not any(secret):
            continue
        found, read, ends = _values(text, first, first + longest, secret, escaped)
        if "\\" in text[first:read]:
            others, end, is_standard = _values(text, first, first + _LONGEST, secret, standard)
            if is_standard and ends:  # it may be either
                found, read = sorted({*others, *found}), max(read, end)
            elif is_standard:
                found, read, ends = others, end, True
                longest = _LONGEST  # or each statement might be read to the end of the text
        if not ends:
            found, read, _ = _values(text, first, len(text), secret, escaped)
        done = 0
        for start, end in found:
            if start >= done:
                yield start, end
                done = end


def _values(
    text: str, first: int, limit: int, secret: list[bool], parts: re.Pattern[str]
) -> tuple[list[tuple[int, int]], int, bool]:
    """Read what is inserted: the values of secret columns, where it ends, and whether it does."""
    no_secret = _of_inserts()[1]
    found: list[tuple[int, int]] = []
    depth = column = 0
    end = first
    for part in parts.finditer(text, first, limit):
        mark, end = part[0], part.end()
        if mark == "(":
            depth += 1
            if depth == 1:
                column, first = 0, part.end()
        elif depth == 1 and mark in (",", ")", ""):
            value = text[first : part.start()]
            if secret[column : column + 1] == [True] and not no_secret.fullmatch(value):
                start = first + len(value) - len(value.lstrip())
                found.append((start, start + len(value.strip())))
            column, first = column + 1, part.end()
        if mark == ")":
            depth -= 1
        elif depth == 0 and mark.strip().lower() not in ("", ",", "row"):
            break  # the statement continues with something else
    return found, end, depth == 0
