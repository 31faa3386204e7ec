"""Arguments that a model wrote as JSON: read as rules judge them, and passed on as judged.

A framework may read a text with another parser than ours. If two parsers could differ, the text is
written again from what rules saw.
"""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["read", "write"]

_raw_decode = json.JSONDecoder().raw_decode


def read(text: Any, name: str) -> dict[str, Any]:
    """Return the arguments in a model's text.

    Args:
        text: The model's text.
        name: Name of the single argument for a text that is not a JSON object.
    """
    if not text:
        return {}
    found = _parse(text)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {name: text}


def write(text: Any, name: str, args: dict[str, Any], is_changed: bool) -> Any:
    """Return a model's text unchanged, or one with what rules saw or hooks wrote.

    Args:
        text: The model's text.
        name: As for `read`.
        args: The approved arguments.
        is_changed: Whether hooks wrote them.
    """
    if not is_changed:
        return json.dumps(args) if _repeats_names(text, args) else text
    is_plain = text and not isinstance(_parse(text), dict)
    return args[name] if is_plain and args.keys() == {name} else json.dumps(args)


def _parse(text: Any) -> Any:
    """Return the JSON in a text, None if there is none that a rule could read."""
    try:
        found, end = _raw_decode(text)
        if end == len(text):  # no space around it, as models write it
            return found
    except (TypeError, ValueError, RecursionError):
        pass  # read again below, which separates the reasons
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError, UnicodeError, RecursionError):
        return None
    except ValueError:  # an integer with more digits than Python reads; other parsers do read it
        return json.loads(text, parse_int=float)


def _repeats_names(text: Any, args: dict[str, Any]) -> bool:
    """Return whether an object in a text repeats a name: parsers differ in which one counts."""
    if not isinstance(text, str) or text.count(":") <= len(args):
        return False
    try:
        _each_once.decode(text)
    except _RepeatedError:
        return isinstance(_parse(text), dict)
    except (ValueError, RecursionError):
        pass  # not JSON: passed on unchanged
    return False


class _RepeatedError(Exception):
    """An object repeats a name."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedError


_each_once = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)
