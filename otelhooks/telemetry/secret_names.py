"""Which names of keys and variables name a secret."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise

__all__ = ["KINDS_OF_KEYS", "is_secret_key", "names_secret"]

# Words that make a key secret wherever they occur in it, and pairs that do so together.
_SECRET_WORDS = frozenset(
    "password passwd pwd passphrase secret secrets credential credentials authorization cookie"
    " apikey authtoken accesstoken privatekey passcode".split()
)
_SECRET_ENDS = ("password", "passwd", "passphrase")  # PGPASSWORD is one word
KINDS_OF_KEYS = (
    *("api", "access", "auth", "private", "master", "secret", "signing", "encryption"),
    *("operator", "account", "subscription"),
)
_SECRET_PAIRS = frozenset(
    [
        *((kind, "key") for kind in KINDS_OF_KEYS),
        *(("pass", second) for second in ("word", "wd", "phrase", "code")),
    ]
)
# The last word of a key whose value is a secret if it is text: tests pass or fail, too.
_SECRET_TEXTS = frozenset(("pass", "pw"))


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _words(key: str) -> list[str]:
    return [word.lower() for word in _word().findall(key)]


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    words = _words(key)
    if words[-1:] in ([], ["ref"]) or words[-2:] == ["secret", "name"]:  # as in Kubernetes
        return False
    return (
        words[-1] == "token"
        or not _SECRET_WORDS.isdisjoint(words)
        or any(word.endswith(_SECRET_ENDS) for word in words)
        or any(pair in _SECRET_PAIRS for pair in pairwise(words))
    )


def is_secret_key(key: object) -> bool:
    """Return whether a key names a secret: ``apiKey`` does, ``max_tokens`` does not."""
    return isinstance(key, str) and len(key) <= 128 and _is_secret(key)


@lru_cache(maxsize=4096)
def _names_secret_text(key: str) -> bool:
    return not _SECRET_TEXTS.isdisjoint(_words(key)[-1:])


def names_secret(key: object, value: object) -> bool:
    """Return whether a key with this value names a secret."""
    if is_secret_key(key):
        return True
    return isinstance(value, str) and isinstance(key, str) and _names_secret_text(key[-128:])
