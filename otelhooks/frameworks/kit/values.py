# pyright: basic
"""What a tool gets: containers with pydantic objects in them, or one such object.

Rules see plain dicts and lists. The tool gets the form that it was called with, as its own copy: if
the caller changes its objects after the decision, this does not change what runs.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from otelhooks.hooks.calls import same_json

__all__ = ["SCALARS", "Value", "copied", "plain", "text_of", "with_fields"]

SCALARS = frozenset((str, int, float, bool, type(None)))


class Value:
    """One value, as it was given and as rules see it.

    Args:
        given: Anything.
        name: Name that rules see it under if it is neither a dict nor an object.

    Attributes:
        shown: The value as rules see it.
    """

    def __init__(self, given: Any, name: str) -> None:
        self._name = name
        self._own = copied(given)
        shown = _plain(self._own)
        self._is_named = type(shown) is not dict and shown is not None
        self.shown: dict[str, Any] = {name: shown} if self._is_named else shown or {}

    def write(self, approved: dict[str, Any]) -> Any:
        """Return what was approved, in the form of what was given.

        Raises:
            pydantic.ValidationError: An object does not accept what a hook wrote.
        """
        if self._own is None:
            return approved or None
        if not self._is_named:
            return _shaped(self._own, self.shown, approved)
        if list(approved) != [self._name]:
            return approved
        return _shaped(self._own, self.shown[self._name], approved[self._name])


def text_of(value: Any) -> str:
    """Return the text that shows a value to a model: itself, JSON, or what Python shows."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def with_fields(record: Any, **fields: Any) -> Any:
    """Return a copy of a mapping, a dataclass or a pydantic object with other values in it."""
    if isinstance(record, Mapping):
        return {**record, **fields}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.replace(record, **fields)
    model: Any = record  # the checks above have left it a type that has no such method
    return model.model_copy(update=fields)


def copied(value: Any) -> Any:
    """Copy containers, pydantic objects and dataclasses, at any depth.

    Other values are passed on uncopied: not every object can be copied, such as a client.
    """
    if type(value) in (set, bytearray, deque):
        return value.copy()
    if _is_model(value):
        own = copy.copy(value)
        for items in (vars(own), own.__pydantic_extra__ or {}):
            items.update({name: copied(item) for name, item in items.items()})
        return own
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _copied_dataclass(value)
    return _mapped(copied, value)


def _copied_dataclass(value: Any) -> Any:
    own = copy.copy(value)
    for field in dataclasses.fields(value):
        if hasattr(value, field.name):
            # a frozen one does not let its own attributes be set
            object.__setattr__(own, field.name, copied(getattr(value, field.name)))
    return own


def plain(value: Any) -> Any:
    """Return a value as the JSON that a model may have written for it."""
    if _is_model(value):
        value = value.model_dump(by_alias=True, warnings=False)
    if type(value) is dict:
        return {str(_leaf(name)): plain(item) for name, item in value.items()}
    return list(map(plain, value)) if type(value) in (list, tuple) else _leaf(value)


def _plain(value: Any) -> Any:
    if _is_model(value):
        return {name: _plain(item) for name, item in value}
    return _leaf(value) if (mapped := _mapped(_plain, value)) is value else mapped


def _leaf(value: Any) -> Any:
    if type(value) in SCALARS:
        return value
    if type(value) is Decimal:  # pydantic would make it text, which is not a number to a rule
        number = int(value) if float(value).is_integer() else float(value)
        is_rounded = value.is_finite() and Decimal(repr(number)) != value
        return str(value) if is_rounded else number  # a comparison with text fails, which denies
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, serialize_unknown=True)


def _mapped(change: Any, value: Any) -> Any:
    if type(value) is dict:
        return {name: change(item) for name, item in value.items()}
    return type(value)(map(change, value)) if type(value) in (list, tuple) else value


def _is_model(value: Any) -> bool:
    return hasattr(type(value), "model_validate")  # without loading pydantic


def _shaped(own: Any, shown: Any, approved: Any) -> Any:
    """Return what was approved in the form of what was given.

    Args:
        own: Copy of what was given.
        shown: The same as rules saw it.
        approved: What will run.
    """
    if same_json(approved, shown):
        return own
    if type(approved) is dict and _is_model(own):
        given = own.model_fields_set | (own.__pydantic_extra__ or {}).keys()
        values = {
            name: _shaped(getattr(own, name, None), shown.get(name), value)
            for name, value in approved.items()
            if name in given or name not in shown or not same_json(value, shown[name])
        }
        return type(own).model_validate(values, by_alias=True, by_name=True)
    if type(approved) is type(own) is dict:
        return {
            name: _shaped(own[name], shown[name], value) if name in own else value
            for name, value in approved.items()
        }
    if type(approved) is type(own) and type(own) in (list, tuple) and len(own) == len(approved):
        return type(own)(map(_shaped, own, shown, approved))
    if shown is own or type(own) in (dict, list, tuple):
        return approved
    from pydantic import TypeAdapter

    return TypeAdapter(type(own)).validate_python(approved)
