"""The tools that a framework includes, and how rules see each."""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from otelhooks.frameworks.kit.mcp.servers import name_at
from otelhooks.frameworks.kit.objects.classes import each
from otelhooks.patching.builtin import BuiltIn, look_up, parts_of
from otelhooks.pipeline.hosted_tools import hosted_as
from otelhooks.types import normalize_builtin_tool_name

__all__ = ["BuiltIns"]

_Entries = Mapping[str, tuple[Any, ...]]
_NONE: _Entries = MappingProxyType({})

_LASTING = frozenset((types.FunctionType, functools.partial))
"""What runs the same as long as it lives: of these, what was found is kept."""


class _Seen(weakref.ref[Any]):
    """A function, the class of the tool that runs it, and what that tool is."""

    __slots__ = ("cls", "found", "key")

    cls: type
    found: BuiltIn | None
    key: int


class BuiltIns(dict[str, BuiltIn]):
    """A framework's own tools, by ``module:name`` of the class or function that defines each.

    ``(a|b)`` in a place means either.

    Args:
        here: Tools that run in this process: name, canonical names, kind.
        hosted: Tools that run at the model's provider, in the same form.
    """

    def __init__(self, here: _Entries = _NONE, hosted: _Entries = _NONE) -> None:
        for table, is_hosted in ((here, False), (hosted, True)):
            for key, one in table.items():
                self.update(dict.fromkeys(each(key), BuiltIn(*one)._replace(is_hosted=is_hosted)))
        self.look_up = functools.lru_cache(maxsize=1024)(functools.partial(look_up, self))

        self._seen: dict[int, _Seen] = {}

    @staticmethod
    def hosted_as(name: str, what: BuiltIn, server: Any, settings: Mapping[str, Any]) -> Any:
        """Return what rules see of a tool at the provider; see `hosted_tools.hosted_as`.

        Args:
            name: Name of the tool.
            what: Its entry in the table.
            server: The label that the application gave its MCP server there; None for none.
            settings: Its definition; ``server_url`` in it may have a name in ``mcp_servers=``.
        """
        configured = name_at({"url": settings.get("server_url")})
        is_other = configured is not None and configured != server
        return hosted_as(name, what, configured or server, settings, server if is_other else None)

    @staticmethod
    def name_today(name: str) -> str:
        """Return the current name of a tool that may have had another in older releases."""
        return str(normalize_builtin_tool_name(name))

    def of(self, tool: Any, *functions: Any) -> BuiltIn | None:
        """Return what a tool is; None for a user's own tool.

        Args:
            tool: The framework's tool, whose class may identify it, or that class.
            functions: What it runs, which may identify it otherwise; None is skipped.
        """
        cls = tool if isinstance(tool, type) else type(tool)
        function = functions[0] if len(functions) == 1 else None
        seen = self._seen.get(id(function))
        if seen is not None and seen() is function and seen.cls is cls:
            return seen.found
        found = self.look_up(cls, "")
        if found is None:
            found = next((known for known, _ in self.parts(*functions)), None)
        if type(function) in _LASTING:
            self._keep(function, cls, found)
        return found

    def _keep(self, function: Any, cls: type, found: BuiltIn | None) -> None:
        seen = _Seen(function, self._forget)
        seen.cls, seen.found, seen.key = cls, found, id(function)
        self._seen[seen.key] = seen

    def _forget(self, seen: _Seen) -> None:
        if self._seen.get(seen.key) is seen:  # else another function has its memory now
            del self._seen[seen.key]

    def parts(self, *functions: Any) -> Iterator[tuple[BuiltIn, Any]]:
        """Yield each known part of functions, with the object that it belongs to."""
        for part in itertools.chain.from_iterable(map(parts_of, functions)):
            if (found := self.look_up(part.cls, part.key)) is not None:
                yield found, part.holder
