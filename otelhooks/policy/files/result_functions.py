"""``named.texts`` and ``named.secrets`` of hook files: the texts of a result, and secrets in them."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from otelhooks.plain_text import is_unseen
from otelhooks.telemetry.secret_forms import FORMS

__all__ = ["secrets", "texts"]

_SHOWS_NO_KEY = frozenset(("curl", "://"))
"""Forms of passwords, which examples in documentation are full of."""

_compiled: list[tuple[str, re.Pattern[str]]] = []
_BASE64 = re.compile(r"[0-9A-Za-z+/_-]{24,}")
_DIGIT = re.compile(r"\d", re.ASCII)


def texts(value: Any) -> list[str]:
    """Return the texts of a value at any depth, keys included, as a reader sees them.

    Invisible characters are removed, and letters have their ordinary form (NFKC). A list of texts
    also yields them joined, since a tool may return one text in pieces.

    Args:
        value: Such as ``payload["result"]``.
    """
    return [_readable(text) for text in _texts(value)]


def secrets(value: Any) -> list[str]:
    """Return the forms of the keys, tokens and private keys in a value, as masking knows them.

    Texts are read as `texts` returns them, and once more out of base64.

    Args:
        value: Such as ``payload["result"]``.

    Returns:
        The text by which each form is known, such as ``github_pat_``; empty if there is none.
    """
    if not _compiled:
        _compiled.extend((m, re.compile(form)) for m, form in FORMS if m not in _SHOWS_NO_KEY)
    found = {
        marker
        for text in texts(value)
        for read in (text, *_decoded(text))
        for marker, form in _compiled
        if marker in read and any(_DIGIT.search(match[0]) for match in form.finditer(read))
    }
    return sorted(found)


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
    hidden = {
        ord(char): None
        for char in set(text)
        if is_unseen(char) and char not in "\t\n\r" and unicodedata.category(char) != "Zs"
    }
    return unicodedata.normalize("NFKC", text.translate(hidden) if hidden else text)


def _decoded(text: str) -> Iterator[str]:
    """Yield what the parts of a text that may be base64 encode, if that is text."""
    for match in _BASE64.finditer(text):
        run = match[0][: len(match[0]) // 4 * 4]
        try:
            yield base64.b64decode(run, altchars=b"-_").decode()
        except ValueError:
            continue
