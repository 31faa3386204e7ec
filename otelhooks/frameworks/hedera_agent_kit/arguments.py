# pyright: basic
"""Parameters of the kit's tools: dicts with pydantic models in them, or a whole model.

Rules see plain dicts and lists. The tool gets the form it was called with, as an own copy: whoever
keeps the objects of the call cannot change what runs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from otelhooks.hooks.calls import same_json

__all__ = ["Given", "as_arguments"]

WHOLE = "params"
"""Name under which rules see parameters that are neither a dict nor a model."""


class Given:
    """One parameter of a method, as it was given and as rules see it.

    Args:
        method: Bound.
        index: Place of the parameter, from 0.
        name: Its usual name; an override may have another.
        args: That the method is called with.
        kwargs: That the method is called with.

    Attributes:
        shown: As rules see it.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        index: int,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._call = (args, kwargs)
        self._key: int | str = index if len(args) > index else _name(method, index, name, kwargs)
        self._own = _own(args[index] if len(args) > index else kwargs.get(str(self._key)))
        self.shown = as_arguments(self._own)

    def write(self, approved: dict[str, Any]) -> Any:
        """Return what the method is given instead.

        Raises:
            pydantic.ValidationError: A model does not take what a hook wrote.
        """
        own = self._own
        if own is None:
            return approved or None
        if type(own) is dict or isinstance(own, BaseModel):
            return _shaped(own, self.shown, approved)
        return approved[WHOLE] if list(approved) == [WHOLE] else approved

    def call(self, method: Callable[..., Any], value: Any) -> Any:
        """Call the method with another value in its place."""
        args, kwargs = self._call
        if isinstance(self._key, int):
            return method(*args[: self._key], value, *args[self._key + 1 :], **kwargs)
        return method(*args, **({**kwargs, self._key: value} if self._key in kwargs else kwargs))


def _name(method: Callable[..., Any], index: int, name: str, kwargs: dict[str, Any]) -> str:
    if name in kwargs:
        return name
    names = list(inspect.signature(method).parameters)
    return names[index] if len(names) > index else name


def as_arguments(value: Any) -> dict[str, Any]:
    """Return the parameters of a tool as rules see them."""
    shown = _plain(value)
    if shown is None:
        return {}
    return shown if type(shown) is dict else {WHOLE: shown}


def _plain(value: Any) -> Any:
    """Return models as dicts, at any depth of containers; other values as they are."""
    if isinstance(value, BaseModel):
        return {name: _plain(item) for name, item in value}
    if type(value) is dict:
        return {name: _plain(item) for name, item in value.items()}
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return value


def _own(value: Any) -> Any:
    """Copy models and containers, at any depth; other values are handed on as they are."""
    if isinstance(value, BaseModel):
        own = copy.copy(value)
        for items in (vars(own), own.__pydantic_extra__ or {}):
            items.update({name: _own(item) for name, item in items.items()})
        return own
    if type(value) is dict:
        return {name: _own(item) for name, item in value.items()}
    if type(value) is list:
        return [_own(item) for item in value]
    if type(value) is tuple:
        return tuple(map(_own, value))
    return value


def _shaped(own: Any, shown: Any, approved: Any) -> Any:
    """Return what was approved in the form of what was given.

    Args:
        own: Copy of what was given.
        shown: The same as rules saw it.
        approved: What is to run.
    """
    if same_json(approved, shown):
        return own
    if type(approved) is dict and isinstance(own, BaseModel):
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
    return approved
