# pyright: basic
"""Tools that run at the model's provider, as langchain's chat models define them.

A definition of OpenAI or Anthropic has a ``type``, with or without a date at its end; one of Google
has a key with the tool's name. An unknown type counts as one that reaches the network from the
provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit

__all__ = ["hosted"]

_VERSION = re.compile(r"(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?$")
_HERE = frozenset(
    "apply_patch bash computer computer_use custom function local_shell memory namespace shell "
    "text_editor tool_search tool_search_tool_bm25 tool_search_tool_regex".split()
)
"""Calls of these come back, and pass a tool seat; a search of tools does not run any."""

_SEARCH = ("web_search", ("search_web",), "net")
_FETCH = ("web_fetch", ("read_url_content",), "net")
_CODE = ("code_execution", ("code_execution",), "shell")
_OTHER = "other"
_TABLE = kit.BuiltIns(
    here={},
    hosted={
        "code_execution": _CODE,
        "code_interpreter": _CODE,
        "enterprise_web_search": _SEARCH,
        "google_search": _SEARCH,
        "google_search_retrieval": _SEARCH,
        "shell": ("shell", ("run_command",), "shell"),
        "image_generation": ("image_generation", ("generate_image",), "net"),
        "url_context": _FETCH,
        "web_fetch": _FETCH,
        "web_search": _SEARCH,
        _OTHER: ("", (), "net"),
    },
)
_OF_GOOGLE = {
    spelling: name
    for name in (*_TABLE, "file_search", "google_maps")
    for spelling in (name, re.sub("_(.)", lambda found: found[1].upper(), name))
}


def hosted(definition: Any) -> Any:
    """Return how rules see a defined tool that runs at the provider; None for any other.

    Args:
        definition: In the provider's form. A denial of one of several tools in it denies them all;
            one that also declares functions does not count as hosted.
    """
    if not isinstance(definition, Mapping) or not definition:
        return None
    kind = definition.get("type")
    if kind == "function":  # almost all of them
        return None
    if isinstance(kind, str):
        name = _VERSION.sub("", kind, count=1)
        place = definition.get("environment")
        is_away = isinstance(place, Mapping) and place.get("type") != "local"  # a shell's container
        if name in _HERE and not is_away:
            return None
        server = definition.get("server_label") or definition.get("mcp_server_name")
        return _as(name, str(definition.get("name") or name), server, definition)
    names = [_OF_GOOGLE.get(key, "") for key in definition]
    if "" in names:
        return None
    several = [_as(name, name, None, definition) for name in names]
    return several[0]._replace(calls=tuple(call for one in several for call in one.calls))


def _as(kind: str, name: str, server: Any, definition: Mapping[str, Any]) -> Any:
    return _TABLE.hosted_as(name, _TABLE.get(kind, _TABLE[_OTHER]), server, definition)
