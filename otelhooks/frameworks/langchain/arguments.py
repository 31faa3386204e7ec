# pyright: basic, reportMissingImports=false
"""Arguments of langchain's tools: those that a model gives, and those that langgraph fills in.

Rules do not see arguments that langgraph fills in. An annotation cannot distinguish it from a value
that a model made up under the same name, in a loop that passes the model's calls to tools by
itself. So `note` observes langgraph's `ToolNode` filling in arguments; any other value is hidden
only if it contains an object that no model's JSON can have become.
"""

from __future__ import annotations

import contextvars
import functools
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from otelhooks.frameworks.kit.values import SCALARS
from otelhooks.frameworks.langchain.builtin import TABLE
from otelhooks.frameworks.langchain.fields import field, functions

__all__ = ["facts_of", "note", "only_argument", "split"]

PLAIN_ARGUMENT = "__arg1"
"""Name that langchain itself gives models for the single argument of a tool without a schema."""


def facts_of(tool: Any) -> tuple[Mapping[str, bool], Any]:
    """Return what is known of a tool, whatever its arguments are.

    Returns:
        The arguments that no model gives: name -> whether the framework fills them in; and its
            entry of `TABLE`. Read once for each class, schema and pair of functions.
    """
    kind, sources = type(tool), (field(tool, "args_schema"), *functions(tool))
    try:
        return _known(kind, *map(_weakly, sources))
    except TypeError:  # one of them cannot be referenced weakly, or is a bound method
        return _read(kind, *sources)


def _weakly(source: Any) -> Callable[[], Any]:
    if source is None or isinstance(source, dict):
        return types.NoneType  # which returns None, for one that is missing or has no annotations
    if type(source) is types.MethodType:
        raise TypeError("a bound method is a new one each time")
    return weakref.ref(source)


@functools.lru_cache(maxsize=1024)
def _known(kind: type, *sources: Callable[[], Any]) -> Any:
    return _read(kind, *(source() for source in sources))


def _read(kind: Any, schema: Any, function: Any, coroutine: Any) -> Any:
    injected: dict[str, bool] = {}
    for source in (schema, function, coroutine, kind._run, kind._arun):
        if source is not None and not isinstance(source, dict):
            injected.update(_read_annotations(source))
    return injected, TABLE.of(kind, function, coroutine)


def _read_annotations(source: Any) -> dict[str, bool]:
    from langchain_core.tools import base

    try:
        if isinstance(source, type):
            hints = base.get_all_basemodel_annotations(source)  # type: ignore[arg-type]
        else:
            hints = get_type_hints(source, include_extras=True)
    except Exception:  # an unresolvable annotation: langchain cannot inject there either
        return {}
    return {
        name: not _is_plain(hint, base.InjectedToolArg)
        for name, hint in hints.items()
        if base._is_injected_arg_type(hint)
    }


def _is_plain(hint: Any, injected: type) -> bool:
    """Return whether an annotation only says that the argument is injected."""
    kinds = [item if isinstance(item, type) else type(item) for item in get_args(hint)[1:]]
    ours = [kind for kind in kinds if issubclass(kind, injected)]
    return bool(ours) and all(kind is injected for kind in ours)


def only_argument(tool: Any) -> str:
    """Return the name of the argument that a bare text is for."""
    schema = getattr(tool, "args_schema", None)
    if schema is None:
        return PLAIN_ARGUMENT if "func" in type(tool).model_fields else next(iter(tool.args), "")
    return next(iter(tool.args), PLAIN_ARGUMENT)


# -- what langgraph fills in ------------------------------------------------------------------

_filled: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "otelhooks_langchain_filled", default=types.MappingProxyType({})
)
"""Arguments that `ToolNode` filled in last here; its calls have a context of their own."""


def note(wrapped: Any, node: Any, tool_call: Any, *rest: Any, **further: Any) -> Any:
    """Note what a `ToolNode` fills in, besides what the model gave."""
    filled = wrapped(tool_call, *rest, **further)
    if filled is not tool_call:
        given: Mapping[str, Any] = tool_call.get("args") or {}
        new = {
            name: value
            for name, value in (filled.get("args") or {}).items()
            if name not in given or given[name] is not value
        }
        _filled.set({**_filled.get(), **new})
    return filled


def split(
    given: Mapping[str, Any], injected: Mapping[str, bool]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that rules are shown, and the others.

    Args:
        given: Arguments of the tool.
        injected: Arguments that no model gives: name -> whether the framework fills them in.
    """
    if not injected:
        return {**given}, {}
    shown: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    filled = _filled.get()
    for name, value in given.items():
        is_filled = injected.get(name, False) and name in filled and filled[name] is value
        is_hidden = name in injected and (is_filled or not _is_json(value))
        (hidden if is_hidden else shown)[name] = value
    return shown, hidden


def _is_json(value: Any) -> bool:
    """Return whether a value consists only of what a model's JSON becomes."""
    stack, seen = [value], set[int]()
    while stack:
        item = stack.pop()
        if type(item) in SCALARS:
            continue
        if type(item) not in (dict, list) or id(item) in seen:
            return False
        seen.add(id(item))
        stack.extend(item.values() if type(item) is dict else item)
    return True
