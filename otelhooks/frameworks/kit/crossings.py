# pyright: basic
"""The context of a call whose request crosses to another task of this process inside a message.

A server that runs in this process handles requests in tasks of its own, which were started with
another context. The side that sends leaves its context under a random key in the message's
``_meta``; only who has the message can find it, and only while the request is on its way.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator, Mapping
from typing import Any

from opentelemetry.context import Context, get_current

__all__ = ["crossing", "origin"]

_KEY = "otelhooks/context"

_left: dict[str, Context] = {}


@contextlib.contextmanager
def crossing(meta: Mapping[str, Any] | None) -> Generator[dict[str, Any]]:
    """Leave the current context for the handler of a message, while the block runs.

    Args:
        meta: The message's ``_meta``.

    Yields:
        The ``_meta`` to send instead.
    """
    key = secrets.token_hex(16)
    _left[key] = get_current()
    try:
        yield {**(meta or {}), _KEY: key}
    finally:
        del _left[key]


def origin(meta: Any) -> Context | None:
    """Return the context that a message comes from; None if nothing here left one.

    Args:
        meta: The message's ``_meta``: a mapping, or an object with extra fields.
    """
    found: Any = meta if isinstance(meta, Mapping) else getattr(meta, "model_extra", None)
    key: Any = (found or {}).get(_KEY)
    return _left.get(key) if isinstance(key, str) else None
