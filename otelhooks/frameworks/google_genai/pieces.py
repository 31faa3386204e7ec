# pyright: basic
"""Function calls whose arguments a stream tells piece by piece, each with a path of its own."""

from __future__ import annotations

import copy
import re
from typing import Any

__all__ = ["continued", "goes_on", "is_piece", "is_piecewise"]

_KEY = r"\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^'\\]*)'|\"([^\"\\]*)\")\]"
_PATH = re.compile(rf"\$(?:{_KEY})+")
_KEYS = re.compile(_KEY)
_VALUES = ("string_value", "number_value", "bool_value")
_MOST = 10_000


def goes_on(part: Any) -> bool:
    """Return whether further pieces of a part's call follow."""
    return bool(part.function_call and getattr(part.function_call, "will_continue", None))


def is_piecewise(part: Any) -> bool:
    """Return whether a part tells arguments of its call by their paths."""
    return bool(part.function_call and getattr(part.function_call, "partial_args", None))


def is_piece(part: Any, of: Any) -> bool:
    """Return whether a part continues another part's call and is not a call itself."""
    piece, call = part.function_call, of.function_call
    return bool(piece) and piece.name in (None, "", call.name) and piece.id in (None, "", call.id)


def continued(part: Any, piece: Any) -> Any:
    """Return a call's part with what a piece adds.

    Raises:
        ValueError: A path cannot be read, or fits no argument; or whole arguments come in pieces.
    """
    call = part.function_call
    if not call.name:
        raise ValueError("a piece of a call continues none")
    if piece is not call and piece.args:
        raise ValueError("a piece of a call has an argument as a whole")
    root = {"args": copy.deepcopy(call.args or {})}
    for one in piece.partial_args or ():
        if _PATH.fullmatch(one.json_path or "") is None:
            raise ValueError(f"the path {one.json_path!r} of an argument cannot be read")
        values = (getattr(one, name) for name in _VALUES)
        value = next((each for each in values if each is not None), None)
        _put(root, ["args", *_keys(one.json_path)], value)
    update = {"args": root["args"], "will_continue": piece.will_continue, "partial_args": None}
    return part.model_copy(update={"function_call": call.model_copy(update=update)})


def _keys(path: str) -> list[str | int]:
    found = _KEYS.finditer(path)
    return [int(one[2]) if one[2] else one[1] or one[3] or one[4] or "" for one in found]


def _put(place: Any, keys: list[Any], value: Any) -> None:
    """Put a value where keys lead to; a text grows."""
    for at, key in enumerate(keys):
        kind: Any = list if isinstance(key, int) else dict
        if type(place) is not kind:
            raise ValueError(f"{key!r} fits no argument")
        if isinstance(key, int):
            if key > _MOST:
                raise ValueError(f"{key} is not an index")
            place.extend([None] * (key + 1 - len(place)))
        before: Any = place[key] if isinstance(key, int) else place.get(key)
        if at + 1 == len(keys):
            is_text = isinstance(before, str) and isinstance(value, str)
            place[key] = before + value if is_text else value
        elif before is None:
            place[key] = [] if isinstance(keys[at + 1], int) else {}
        place = place[key]
