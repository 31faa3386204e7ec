"""Passwords in statements of SQL and in `.netrc` files, which name them by a word beside them.

In running text such words are ordinary: SQL's count in capitals, or behind ``create user``.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["cover"]

_SQL = (
    r"(?is)(?:\b(?-i:IDENTIFIED|PASSWORD)"
    r"|\b(?:create|alter)\s{1,8}(?:user|role|login)\b[^;\n]{0,128}?\b(?:identified|password))"
    r"(?:\s{1,8}for\s{1,8}\S{1,128}(?=\s))?(?:\s{1,8}with\s{1,8}\S{1,64}(?=\s))?"
    r"(?:\s{1,8}(?:by|as)|\s{0,8}=)?(?:\s{1,8}(?:password|values))?\s{0,8}\(?\s{0,8}"
    r"(?:[ne]|u&)?(?P<quote>\\{0,7}[\"'])(?P<secret>(?:(?P=quote){2}|(?!(?P=quote)).)+)"
)
_NETRC = (
    r"\bmachine\s{1,16}\S{1,255}(?:\s{1,16}(?:login|account)\s{1,16}\S{1,255}){1,2}"
    r"\s{1,16}password\s{1,16}(?P<secret>\"[^\"\n]*|[^\s\"'\\]+)"
)


@cache
def _compiled() -> tuple[re.Pattern[str], ...]:
    return re.compile(_SQL), re.compile(_NETRC)


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
    return text
