"""Definitions of MCP tools: what a server says of a tool, in the list of its tools that came last.

Two definitions are the same if a model reads the same: name, title, description, input and output
schema, annotations. The order of keys, blanks and escapes do not count, nor do fields that no model
reads: ``_meta``, ``icons`` and ``execution``.

Decision code: what cannot be read equals nothing, and may be annotated in any way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from otelhooks.hooks.calls import Call

__all__ = [
    "FIELDS",
    "HINTS",
    "Definition",
    "Listed",
    "Listing",
    "fields_of",
    "forget",
    "may_be",
    "note",
    "tools_of",
]

HINTS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""Annotations that rules may look at, and their value if a server says nothing.

Source: MCP specification, ``ToolAnnotations``.
"""

FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations")
"""Fields of a definition beside its name; the others of the protocol do not count."""

_ANNOTATIONS = ("title", *HINTS)
_MAX_TOOLS = 10_000


class Definition(NamedTuple):
    """What is kept of a definition.

    Attributes:
        digest: Hash of it; empty if it cannot be read.
        hints: Its annotations that are true or false.
    """

    digest: str
    hints: Mapping[str, bool] = {}

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> Definition:
        """Return the definition of a tool with the given `fields_of`."""
        text = json.dumps(
            {"name": name, **fields}, sort_keys=True, separators=(",", ":"), ensure_ascii=True
        )
        given: Mapping[str, Any] = fields.get("annotations", {})
        hints = {key: given[key] for key in HINTS if isinstance(given.get(key), bool)}
        return cls("sha256:" + hashlib.sha256(text.encode()).hexdigest(), hints)

    def hint(self, name: str) -> bool:
        """Return an annotation, or the protocol's default for it."""
        if name in self.hints:
            return self.hints[name]
        if name == "destructiveHint":  # it only has a meaning for tools that change something
            return not self.hint("readOnlyHint")
        return HINTS[name]


def fields_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that count of a tool in the protocol's JSON; without those that are null.

    Raises:
        TypeError: Its annotations are not an object.
    """
    found = {key: tool[key] for key in FIELDS if tool.get(key) is not None}
    if "annotations" in found:
        given = found["annotations"]
        if not isinstance(given, Mapping):
            raise TypeError("annotations")
        said = cast("Mapping[str, Any]", given)
        found["annotations"] = {key: said[key] for key in _ANNOTATIONS if said.get(key) is not None}
        if not found["annotations"]:
            del found["annotations"]
    return found


Listed = dict[str, tuple[Definition, ...]]
"""A server's tools: name -> its definitions; several if a list repeats it."""


class Listing(NamedTuple):
    """What an MCP client knows of the called tool.

    Attributes:
        server: The server's name; empty if the application gave it none.
        definitions: Those of the tool; empty if no list had it.
    """

    server: str
    definitions: tuple[Definition, ...]


_of_server: dict[str, Listed] = {}


def tools_of(server: str) -> Listed:
    """Return the tools of a server that the application named; `note` adds to them."""
    return _of_server.setdefault(server, {})


def forget() -> None:
    """Forget every list."""
    _of_server.clear()


def note(known: Listed, name: str, found: Sequence[Definition]) -> None:
    """Keep what a list says of a tool, instead of what earlier ones said."""
    if name in known or len(known) < _MAX_TOOLS:
        known[name] = tuple(found)


def may_be(call: Call, wanted: Mapping[str, bool]) -> bool:
    """Return whether the tool of a call may be annotated like this.

    A tool whose server was not heard may be annotated in any way; one without a server is not.
    """
    if call.listing is not None:
        known = call.listing.definitions
    else:
        known = _of_server.get(call.server or "", {}).get(call.name, ())
    if not known:
        return bool(call.server or call.claimed_server or call.server_says)
    return any(
        not one.digest or all(one.hint(name) == value for name, value in wanted.items())
        for one in known
    )
