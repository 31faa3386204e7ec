"""Errors for the author of an adapter's class: file, line, class, and remedy."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, cast

from otelhooks.errors import ConfigError

__all__ = ["clash", "missing", "mistake", "place"]

_KIT = "otelhooks.frameworks.kit."
_STORE_ATTR = dis.opmap["STORE_ATTR"]
_REMEDIES = {
    "read": "define it, with the parameters of the framework's function",
    "call": "define it: call `wrapped` with what was approved",
    "answer": "define it: return an answer of the framework's that consists of given parts",
    "answer_of": "define it: return the final answer in a run's result",
    "denied": "define it: return, or raise, what tells the framework's model of a refusal",
    "whole": "define it: return the result of a stream that was read",
    "told": "define it: return the items, or the stream, that tell a result",
    "spec": "define it: return a `types.AskQuestionInteractionSpec` for the question",
    "answered": "define it: return a hook's answer in the framework's form",
    "declined": "define it: return the framework's form of a question that is not answered",
}
_METHOD = "make it a method, `def {}(self, ...)`, that returns the value"
_FIELD = "set `self.{}` in `read`"
_OTHER_WORDS = {"context": "; for the context that the function runs in, call `self.runs_in`"}


def place(cls: type) -> str:
    """Return file, line and name of an adapter's class."""
    try:
        line = inspect.getsourcelines(cls)[1]
        return f"{inspect.getsourcefile(cls)}:{line}: class `{cls.__name__}`"
    except (OSError, TypeError):
        return f"{cls.__module__}: class `{cls.__name__}`"


def mistake(cls: type, problem: str, hint: str) -> ConfigError:
    """Return the error about a class."""
    return ConfigError(f"{place(cls)}{problem}", hint=hint)


def missing(cls: type, names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of some methods that a class does not override, and the remedy."""
    base = next(each for each in cls.__mro__ if each.__module__.startswith(_KIT))
    for name in names:
        if getattr(cls, name) is getattr(base, name):
            remedy = _REMEDIES.get(name, f"define it, as `{base.__name__}.{name}` documents it")
            return f"does not define `{name}`", remedy
    return None


def clash(cls: type) -> tuple[str, str] | None:
    """Return which of the kit's own names a class defines, or sets on its objects; and the remedy.

    A value for which the kit has a method counts, and so do names from a base class that is not a
    passage.
    """
    kits = [each for each in cls.__mro__ if each.__module__.startswith(_KIT)]
    ours = {each for kit in kits for each in kit.__mro__}
    words = _words(kits)
    kept = frozenset[str]().union(*map(_kept, kits)) - words
    called = frozenset(name for name in words if callable(getattr(kits[0], name, None)))
    fields = frozenset(name for one in ours for name in vars(one).get("__slots__", ())) & words
    for each in cls.__mro__:
        if each in ours or (each is not cls and not ours.isdisjoint(each.__mro__[:-1])):
            continue
        for name in vars(each).keys() & kept:
            return _clashing("defines", name)
        for name in vars(each).keys() & fields - called:
            return f"defines `{name}`, which each object sets for itself", _FIELD.format(name)
        for name, method in vars(each).items():
            if name in called and not (callable(method) or isinstance(method, classmethod)):
                return f"defines `{name}` as a value, and the kit calls it", _METHOD.format(name)
            for name in _set_by(method, kept | called):
                if name in called:
                    return f"sets `self.{name}`, and the kit calls it", _METHOD.format(name)
                return _clashing("sets", f"self.{name}")
    return None


def _clashing(does: str, name: str) -> tuple[str, str]:
    hint = f"use another name{_OTHER_WORDS.get(name.rpartition('.')[2], '')}"
    return f"{does} `{name}`, which the kit keeps for itself", hint


@functools.cache
def _kept(kit: type) -> frozenset[str]:
    found = {
        name
        for each in kit.__mro__[:-1]
        for name in (*vars(each), *inspect.get_annotations(each))
        if not name.startswith("__")
    }
    return frozenset(found)


def _words(kits: Iterable[Any]) -> frozenset[str]:
    return frozenset(" ".join(str(kit.words) for kit in kits).split())


def _set_by(method: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield those of some names that a method sets on its first parameter.

    The source may be missing, and `__setattr__` would cost time at each call: so the code is read.
    """
    function = inspect.unwrap(getattr(method, "__func__", getattr(method, "fget", method)))
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or not code.co_argcount:
        return
    pairs = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    if names.isdisjoint({code.co_names[at] for op, at in pairs if op == _STORE_ATTR}):
        return  # `dis` is slow, and this is an import
    loaded: Any = None
    for each in dis.get_instructions(code):
        if each.opcode == _STORE_ATTR and each.argval in names and loaded == code.co_varnames[0]:
            yield each.argval
        loaded = each.argval
        # two loads in one instruction: the second is the object
        if isinstance(loaded, tuple) and loaded:
            loaded = cast("tuple[Any, ...]", loaded)[-1]
