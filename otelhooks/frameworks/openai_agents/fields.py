"""Guard what a dataclass instance holds in a field: a data descriptor on the class.

The SDK keeps a tool's function in a field, so the class has nothing to wrap. The descriptor keeps
the raw value where the field had it, in the instance's ``__dict__`` under the field's own name, and
hands out a stand-in when the field is read: tools made before and after `instrument()` are the same
to it, and after it is gone the instances are as if it had never been there. The SDK compares,
copies and replaces what it reads, so the stand-in of an instance is one object, and writing it back
writes the raw value.

The SDK reads the field some twenty times a call, so the stand-in is kept in the instance. What is
kept says which field of which instance it was made for, and of which value: a copy takes it along
with the rest of its state, or something that was copied of it, and must not be led by either.
"""
# pyright: basic

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import wrapt

from otelhooks.patching.seats import Undo, Wrapper

__all__ = ["install_editor", "install_function"]

_MISSING: Any = object()
_METHODS = ("create_file", "update_file", "delete_file")


class _StandIn(wrapt.ObjectProxy):
    """What is handed out in the place of a raw value.

    Args:
        raw: The value.
        owner: Instance whose field was read.
        call: Runs a call through the seat.
    """

    def __init__(self, raw: Any, owner: Any, call: Wrapper) -> None:
        super().__init__(raw)
        self._self_owner = owner
        self._self_call = call

    def __copy__(self) -> Any:
        return copy.copy(self.__wrapped__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.__wrapped__, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__reduce_ex__(protocol)


class _Function(_StandIn):
    """Stands in for a function; called, it is a call of the seat."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_call(self.__wrapped__, self._self_owner, args, kwargs)


class _Editor(_StandIn):
    """Stands in for an editor; its three methods are calls of the seat."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__wrapped__, name)
        if name not in _METHODS:
            return value
        return lambda *args, **kwargs: self._self_call(value, self._self_owner, args, kwargs)


class _Kept:
    """A stand-in, in the instance that it was made for; a deep copy or a pickle of it is None."""

    __slots__ = ("field", "owner", "raw", "stand_in")

    def __init__(self, field: _Field, owner: Any, raw: Any, stand_in: _StandIn) -> None:
        self.field = field
        self.owner = owner
        self.raw = raw
        self.stand_in = stand_in

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class _Field:
    """The data descriptor on a class, and on subclasses that define the name again.

    Args:
        name: Of the field.
        original: What the class held under that name.
        make: Kind of stand-in.
        call: Runs a call through the seat.
    """

    def __init__(self, name: str, original: Any, make: type[_StandIn], call: Wrapper) -> None:
        self._name = name
        self.original = original
        self._make = make
        self._call = call
        self._kept = f"_otelhooks_{name}"

    def __get__(self, instance: Any, owner: type) -> Any:
        try:
            state = instance.__dict__
            kept = state[self._kept]
            if kept.owner is instance and kept.raw is state[self._name] and kept.field is self:
                return kept.stand_in
        except (AttributeError, KeyError):
            pass  # nothing kept yet, or asked of the class
        return self._read(instance, owner)

    def _read(self, instance: Any, owner: type) -> Any:
        original = self.original
        if instance is None:
            if original is _MISSING:  # a field without default: nothing on the class
                raise AttributeError(self._name)
            return original.__get__(None, owner) if hasattr(original, "__get__") else original
        state = instance.__dict__
        raw = state.get(self._name, _MISSING)
        if raw is _MISSING:
            if original is _MISSING:
                raise AttributeError(self._name)
            raw = original.__get__(instance, owner) if hasattr(original, "__get__") else original
        if raw is None:
            return None
        kept = state.get(self._kept)
        if type(kept) is _Kept and kept.field is self and kept.owner is instance:
            # a method of the class is another object at each reading, and equal
            if kept.raw is raw or (type(raw) is MethodType and kept.raw == raw):
                return kept.stand_in
        stand_in = self._make(raw, instance, self._call)
        state[self._kept] = _Kept(self, instance, raw, stand_in)
        return stand_in

    def __set__(self, instance: Any, value: Any) -> None:
        if issubclass(type(value), _StandIn):
            value = value.__wrapped__
        if hasattr(self.original, "__set__"):
            self.original.__set__(instance, value)
        else:
            instance.__dict__[self._name] = value

    def __delete__(self, instance: Any) -> None:
        instance.__dict__.pop(self._name, None)
        instance.__dict__.pop(self._kept, None)


class _Fields:
    """The descriptors of one field: on its class, and on subclasses that define it again."""

    def __init__(self, owner: type, name: str, make: type[_StandIn], call: Wrapper) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._call = call
        self._placed: list[tuple[type, _Field]] = []
        self._place(owner)
        for cls in _below(owner):
            self._place_again(cls)
        self._subclass = owner.__dict__.get("__init_subclass__", _MISSING)
        self._hook = self._make_hook()
        owner.__init_subclass__ = self._hook  # type: ignore[assignment]

    def _place(self, cls: type) -> None:
        original = cls.__dict__.get(self._name, _MISSING)
        field = _Field(self._name, original, self._make, self._call)
        setattr(cls, self._name, field)
        self._placed.append((cls, field))

    def _place_again(self, cls: type) -> None:
        if self._name in cls.__dict__:
            self._place(cls)

    def _make_hook(self) -> Any:
        fields, owner, original = self, self._owner, self._subclass

        def __init_subclass__(cls: type, **kwargs: Any) -> None:
            if original is _MISSING:
                super(owner, cls).__init_subclass__(**kwargs)
            else:
                original.__get__(None, cls)(**kwargs)
            fields._place_again(cls)

        return classmethod(__init_subclass__)

    def undo(self) -> None:
        """Take every descriptor away, where nobody has put something else."""
        if self._owner.__dict__.get("__init_subclass__") is self._hook:
            if self._subclass is _MISSING:
                del self._owner.__init_subclass__
            else:
                self._owner.__init_subclass__ = self._subclass
        for cls, field in reversed(self._placed):
            if cls.__dict__.get(self._name) is field:
                if field.original is _MISSING:
                    delattr(cls, self._name)
                else:
                    setattr(cls, self._name, field.original)


def _below(cls: type) -> list[type]:
    found: list[type] = []
    for subclass in type.__subclasses__(cls):
        found += [subclass, *_below(subclass)]
    return found


def _installer(make: type[_StandIn]) -> Callable[[type, str, Wrapper], Undo]:
    def install(owner: type, name: str, call: Wrapper) -> Undo:
        return _Fields(owner, name, make, call).undo

    return install


install_function = _installer(_Function)
install_editor = _installer(_Editor)
