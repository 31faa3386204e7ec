"""``named.phrases`` and ``named.secrets`` of hook files: what the texts of a result hold."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, cast

from otelhooks.plain_text import is_unseen
from otelhooks.policy.linear_regex import Pattern
from otelhooks.secret_forms import FORMS

__all__ = ["phrases", "secrets"]

_SHOWS_NO_KEY = frozenset(("curl", "://"))
"""Forms of passwords, which examples in documentation are full of."""

_HOLDS_DIGITS = frozenset(("sk-", "PRIVATE KEY"))
"""Forms that placeholders and prose have too, though not with a digit."""

_FEWEST_CHARACTERS = 9
"""Fewer different ones make a placeholder, such as a row of `x`."""

_STEP = 50_000
_LONGEST = 1_000
"""Longest match that is certainly found: a long text is searched in pieces that overlap by it."""

_compiled: list[tuple[str, re.Pattern[str]]] = []
_BASE64 = re.compile(r"[0-9A-Za-z+/_-]{24,}")
_WRAP = re.compile(r"(?<=[0-9A-Za-z+/_-])[ \t]*\r?\n[ \t]*(?=[0-9A-Za-z+/=_-])")
_BYTE = re.compile(r"\\x[0-9a-f]{2}")
"""A byte that is not part of a text in UTF-8, as scripts see it."""

_DIGIT = re.compile(r"\d", re.ASCII)


def phrases(value: Any, patterns: Sequence[str]) -> list[str]:
    """Return the patterns that match somewhere in the texts of a value.

    Texts at any depth are searched, keys included: as they are, and as a reader sees them, without
    invisible characters and with ordinary letters (NFKC). A list of texts is searched once more
    as one text, since a tool may return it in pieces.

    Args:
        value: Such as ``payload["result"]``.
        patterns: As ``re.search`` takes them.

    Raises:
        ValueError: One is not a pattern.
    """
    wanted = {pattern: Pattern.of(pattern) for pattern in patterns}
    found: set[str] = set()
    for text in _texts(value):
        for read in dict.fromkeys((text, _readable(text))):
            for start in range(0, max(len(read), 1), _STEP):
                piece = read[start : start + _STEP + _LONGEST]
                found |= {each for each in wanted.keys() - found if wanted[each].is_in(piece)}
    return [pattern for pattern in patterns if pattern in found]


def secrets(value: Any) -> list[str]:
    """Return the forms of the keys, tokens and private keys in a value, as masking knows them.

    Texts are read as a reader sees them, see `phrases`, and once more out of base64, whose
    lines may be broken.

    Args:
        value: Such as ``payload["result"]``.

    Returns:
        The text by which each form is known, such as ``github_pat_``; empty if there is none.
    """
    if not _compiled:
        _compiled.extend((m, re.compile(form)) for m, form in FORMS if m not in _SHOWS_NO_KEY)
    found = {
        marker
        for text in map(_readable, _texts(value))
        for read in (text, *_decoded(text))
        for marker, form in _compiled
        if marker in read and any(_is_real(marker, match[0]) for match in form.finditer(read))
    }
    return sorted(found)


def _is_real(marker: str, secret: str) -> bool:
    """Return whether a text in the form of a secret is more than a placeholder."""
    if marker in _HOLDS_DIGITS:
        return _DIGIT.search(secret) is not None
    return len(set(secret)) >= _FEWEST_CHARACTERS


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for item in items:
            yield from _texts(item)
        if len(items) > 1 and all(isinstance(item, str) for item in items):
            yield "".join(items)


def _readable(text: str) -> str:
    text = _BYTE.sub(" ", text)
    hidden = {
        ord(char): None
        for char in set(text)
        if is_unseen(char) and char not in "\t\n\r" and unicodedata.category(char) != "Zs"
    }
    return unicodedata.normalize("NFKC", text.translate(hidden) if hidden else text)


def _decoded(text: str) -> Iterator[str]:
    """Yield what the parts of a text that may be base64 encode, if that is text."""
    yield from (_read(match[0]) for match in _BASE64.finditer(text))
    joined = _WRAP.sub("", text)  # as in mail, where a line of words may be before the first
    if joined != text:
        for match in _BASE64.finditer(joined):
            yield from (_read(match[0][start:]) for start in range(4))


def _read(run: str) -> str:
    if len(run) % 4 == 1:  # no base64 has such a length
        run = run[:-1]
    run += "=" * (-len(run) % 4)
    return base64.b64decode(run, altchars=b"-_").decode(errors="replace")
