"""Guard what instances hold in a field, by a data descriptor on their class.

A framework that keeps a tool's function in a field has no function on a class to wrap. The
descriptor keeps the raw value where the field had it, in the instance's ``__dict__`` under the
field's own name, and returns a stand-in when the field is read. Instances created before and after
`instrument()` are guarded alike, and uninstrumenting leaves no trace in them. Frameworks compare,
copy and replace what they read: an instance always returns the same stand-in, and writing a
stand-in back writes the raw value.

A framework may read a field twenty times a call, so the stand-in is kept in the instance, with the
field, the instance and the value that it was created for. A copy of the instance copies the kept
stand-in too; these three show that it is not the copy's own.
"""
# pyright: basic

from __future__ import annotations

import copy
import inspect
from types import MethodType
from typing import Any

import wrapt

from otelhooks.patching.seats import Install, Undo, Wrapper
from otelhooks.patching.subclasses import Subclasses

__all__ = ["Function", "Proxy", "StandIn", "in_field", "items", "methods"]

_MISSING: Any = object()


class Proxy(wrapt.ObjectProxy):
    """wrapt's proxy, for classes in Python: reading one of its attributes takes half the time."""

    # wrapt's own calls its `__getattr__` for a missing attribute, and Python then calls that again.
    __getattribute__ = object.__getattribute__


class StandIn(Proxy):
    """What a field returns instead of its raw value.

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


class Function(StandIn):
    """Replaces a function; calling it is a call of the seat."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:  # users name the parameters of functions as they like: seats go by position
            bound = inspect.signature(self.__wrapped__).bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        return self._self_call(self.__wrapped__, self._self_owner, args, kwargs)


def methods(*names: str) -> type[StandIn]:
    """Return a stand-in for objects with methods that are calls of the seat."""

    class Methods(StandIn):
        def __getattr__(self, name: str) -> Any:
            value = getattr(self.__wrapped__, name)
            if name not in names:
                return value
            return lambda *args, **kwargs: self._self_call(value, self._self_owner, args, kwargs)

    return Methods


def items(name: str) -> type[StandIn]:
    """Return a stand-in for tables of functions by class; one function is the seat's.

    Args:
        name: Name of the function's class; each copy of the framework has its own.
    """

    class Items(StandIn):
        def __getitem__(self, key: Any) -> Any:
            value = self.__wrapped__[key]
            is_ours = key.__name__ == name
            return Function(value, self._self_owner, self._self_call) if is_ours else value

        def get(self, key: Any, default: Any = None) -> Any:
            return self[key] if key in self.__wrapped__ else default

    return Items


class _Kept:
    """A stand-in, in the instance that it was created for; a deep copy or pickle has None."""

    __slots__ = ("field", "owner", "raw", "stand_in")

    def __init__(self, field: _Field, owner: Any, raw: Any, stand_in: StandIn) -> None:
        self.field = field
        self.owner = owner
        self.raw = raw
        self.stand_in = stand_in

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class _Field:
    """The data descriptor on a class, and on subclasses that define the name again.

    Args:
        name: Name of the field.
        original: What the class held under that name.
        make: Kind of stand-in.
        call: Runs a call through the seat.
    """

    def __init__(self, name: str, original: Any, make: type[StandIn], call: Wrapper) -> None:
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
            pass  # nothing kept yet, or read on the class
        return self._read(instance, owner)

    def _read(self, instance: Any, owner: type) -> Any:
        original = self.original
        if instance is None:
            if original is _MISSING:  # a field without default: the class has no attribute
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
            # each reading of a class's method gives a new, equal object
            if kept.raw is raw or (type(raw) is MethodType and kept.raw == raw):
                return kept.stand_in
        stand_in = self._make(raw, instance, self._call)
        state[self._kept] = _Kept(self, instance, raw, stand_in)
        return stand_in

    def __set__(self, instance: Any, value: Any) -> None:
        if issubclass(type(value), StandIn):
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

    def __init__(self, owner: type, name: str, make: type[StandIn], call: Wrapper) -> None:
        self._name = name
        self._make = make
        self._call = call
        self._placed: list[tuple[type, _Field]] = []
        self._place(owner)
        self._subclasses = Subclasses(owner, self._place_again)

    def _place(self, cls: type) -> None:
        original = vars(cls).get(self._name, _MISSING)
        field = _Field(self._name, original, self._make, self._call)
        setattr(cls, self._name, field)
        self._placed.append((cls, field))

    def _place_again(self, cls: type) -> None:
        if self._name in vars(cls):
            self._place(cls)

    def undo(self) -> None:
        """Remove every descriptor that is still where we put it."""
        self._subclasses.undo()
        for cls, field in reversed(self._placed):
            if vars(cls).get(self._name) is field:
                if field.original is _MISSING:
                    delattr(cls, self._name)
                else:
                    setattr(cls, self._name, field.original)


def in_field(make: type[StandIn] = Function) -> Install:
    """Return a function that guards a field, for `Seat.install`.

    Args:
        make: Stand-in for what the field holds.
    """

    def install(owner: type, name: str, call: Wrapper) -> Undo:
        return _Fields(owner, name, make, call).undo

    return install
