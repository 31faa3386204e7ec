"""The hash of a call's arguments: the same on spans, in audit records and in limits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["arguments_hash", "as_number", "as_text"]


def arguments_hash(args: Mapping[str, Any]) -> str:
    """Return the hash of arguments, whatever they are: hex SHA-256 of their canonical JSON."""
    try:
        text = _json(args, sort_keys=True)
    except Exception:  # keys that JSON does not know or cannot order, too deep, a huge number
        text = _odd(args)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def as_text(value: object) -> str:
    """Return the text that stands for a value or key that JSON cannot hold."""
    try:
        return repr(value)
    except Exception:  # the value's own code may raise anything
        return hex(value) if isinstance(value, int) else f"<{type(value).__qualname__}>"


def as_number(value: int) -> int | str:
    """Return an integer, or hexadecimal text if Python refuses to write so many digits."""
    try:
        int.__repr__(value)
    except ValueError:
        return hex(value)
    return value


def _json(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(
        value, sort_keys=sort_keys, separators=(",", ":"), default=as_text, ensure_ascii=False
    )


def _odd(args: Mapping[str, Any]) -> str:
    try:
        return _json(args)
    except Exception:
        return _spelled_out(args)


def _spelled_out(args: Mapping[str, Any]) -> str:
    """Return JSON as `_json` does, with a text for each key and number that it refuses.

    Without recursion: arguments may be nested as deep as memory allows.
    """
    pieces: list[str] = []
    around: set[int] = set()  # ids of the containers that are being written
    todo: list[tuple[Any, str | None]] = [(args, None)]  # values, and the text between them
    while todo:
        value, text = todo.pop()
        if text is not None:
            pieces.append(text)
            around.discard(value)
        elif not isinstance(value, (dict, list, tuple)):
            pieces.append(_scalar(value))
        elif (own := id(cast("object", value))) in around:
            pieces.append('"..."')
        else:
            around.add(own)
            opening, closing, items = _parts(cast("object", value))
            pieces.append(opening)
            todo.append((own, closing))
            for place, (name, item) in reversed(list(enumerate(items))):
                todo += ((item, None), (0, f",{name}" if place else name))
    return "".join(pieces)


def _parts(value: object) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return the brackets and the items of a container, with their names if it is a mapping."""
    if isinstance(value, dict):
        pairs = cast("Any", dict).items(value)
        named = [(f"{_json(_name(key))}:", item) for key, item in pairs]
        return "{", "}", sorted(named, key=lambda pair: pair[0])
    kind = cast("Any", list if isinstance(value, list) else tuple)
    return "[", "]", [("", item) for item in kind.__iter__(value)]


def _name(key: object) -> str:
    return key if isinstance(key, str) else as_text(key)


def _scalar(value: object) -> str:
    return _json(as_number(value) if isinstance(value, int) else value)
