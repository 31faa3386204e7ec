"""Where questions are kept."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from otelhooks.errors import ConfigError
from otelhooks.store.redis_server import is_redis

if TYPE_CHECKING:
    from otelhooks.approvals.questions import Questions

__all__ = ["questions_at"]

_ADDRESS = re.compile(r"[\w+.-]+://|[\w.-]+:\d+(/|$)")


def questions_at(place: str | os.PathLike[str] | None) -> Questions:
    """Return the questions that are kept in a file or at an address.

    Args:
        place: ``redis://host:6379/0`` or ``rediss://...``, a store's file, or None for the local
            store of this process.

    Raises:
        ConfigError: It cannot be used.
    """
    text = os.fspath(place) if place is not None else ""
    if is_redis(text):
        from otelhooks.approvals.redis_questions import RedisQuestions

        return RedisQuestions(text)
    if _ADDRESS.match(text):
        raise ConfigError(
            "the place of questions looks like an address, but not like one of Redis",
            hint="write `redis://host:6379/0`, or the path of the store's file",
        )
    from otelhooks.approvals.store_questions import StoreQuestions

    return StoreQuestions(place)
