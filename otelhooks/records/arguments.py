"""The hash of a call's arguments: the same on spans, in audit records and in limits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments_hash"]


def arguments_hash(args: Mapping[str, Any]) -> str:
    """Return the hash of arguments: hex SHA-256 of their canonical JSON."""
    try:
        text = _canonical(args, sort_keys=True)
    except TypeError:  # keys that cannot be ordered
        text = _canonical(args, sort_keys=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(args: Mapping[str, Any], *, sort_keys: bool) -> str:
    return json.dumps(
        args, sort_keys=sort_keys, separators=(",", ":"), default=_shown, ensure_ascii=False
    )


def _shown(value: Any) -> str:
    """Return a value that JSON cannot hold as text."""
    try:
        return repr(value)
    except Exception:  # the value's own code may raise anything
        return f"<{type(value).__qualname__}>"
