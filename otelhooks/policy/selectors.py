"""What the tool part of a rule may be: a name, a glob, a server's tool, a kind, all.

======================  ==========================================  ===========
text                    matches                                     specificity
======================  ==========================================  ===========
``run_command``         a tool of that name; see below              exact
``github/create_pr``    one tool of one server                      exact
``github/*``            every tool of one server                    pattern
``delete_*``            tools whose name fits; see below            pattern
``*/delete_*``          tools of any server whose name fits         pattern
``kind:shell``          tools that an adapter says are of the kind  pattern
``*``                   every call                                  wildcard
======================  ==========================================  ===========

A selector without a server allows local tools only. A deny or ask rule with it also applies to
tools of servers, as ``*/run_command`` would, but never makes a verdict about one milder.

Globs support ``*``, ``?`` and ``[...]`` and are case-sensitive. Anything else is an error at load.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable

from otelhooks.errors import ConfigError
from otelhooks.plain_text import is_unseen

__all__ = ["EXACT", "KINDS", "PATTERN", "WILDCARD", "Selector", "glob_matcher"]

KINDS = ("shell", "file_read", "file_write", "net")
"""Kinds of tools that an adapter can report."""

EXACT, PATTERN, WILDCARD = 0, 1, 2

_GLOB = re.compile(r"[*?\[\]]")
_WITH_ARGUMENTS = re.compile(r"([\w./*?-]+)\(.*\)")  # but not `Search (web)`, as crewai has it
_COMPLETE_SET = re.compile(r"\[!?\]?[^\]]*\]")


@functools.lru_cache(maxsize=4096)
def glob_matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that returns None if a text does not match a glob, else a match.

    Args:
        pattern: ``*`` any text, also across ``/``; ``?`` one character; ``[...]`` one of a set.

    Raises:
        ConfigError: The pattern has an unclosed bracket, or ``**``.
    """
    if re.search(r"[\[\]]", _COMPLETE_SET.sub("", pattern)):
        raise ConfigError(f"`{pattern}`: a bracket without its other half", hint="write `[...]`")
    if "**" in pattern:
        raise ConfigError(f"`{pattern}`: `**` is not known", hint="`*` already crosses `/`")
    return re.compile(fnmatch.translate(pattern)).match


class Selector:
    """The tool part of one rule.

    Args:
        text: The rule's text.

    Attributes:
        kind: Kind of tool, for a ``kind:`` selector.
        server: Server part, None for a local tool.
        tool: Tool part.
        specificity: `EXACT`, `PATTERN` or `WILDCARD`.

    Raises:
        ConfigError: The text is not a selector.
    """

    __slots__ = ("_server_fits", "_tool_fits", "kind", "server", "specificity", "text", "tool")

    def __init__(self, text: str) -> None:
        if not text or text != text.strip() or any(map(is_unseen, text.replace(" ", ""))):
            raise ConfigError(
                f"`{text}` is not a tool name: it is empty, or has blanks around it or "
                "characters that cannot be seen",
                hint="name a tool, `server/tool`, a glob, `kind:shell` or `*`",
            )
        outside = _COMPLETE_SET.sub("", text)
        separator = re.search("[,;|]", outside)
        if separator is not None:
            raise ConfigError(
                f"`{text}` cannot be one tool: it has a `{separator[0]}`",
                hint=f"write a list of tools, or `[{separator[0]}]` if it is part of a name",
            )
        if with_arguments := _WITH_ARGUMENTS.fullmatch(outside):
            raise ConfigError(
                f"`{text}` has arguments",
                hint=f"name the tool, `{with_arguments[1]}`, and look at its arguments in `when`;"
                " `[(]` if it is part of a name",
            )
        if text[0] == "!":
            raise ConfigError(
                f"`{text}` excludes a tool",
                hint=f"deny `*` and allow `{text[1:]}`; `?` if `!` is part of a name",
            )
        self.text: str = text
        self.kind: str | None = None
        self.server: str | None = None
        self.tool: str = text
        if text == "*":
            self.specificity: int = WILDCARD
            return
        prefix, colon, kind = text.partition(":")
        if colon and prefix.strip().lower() == "kind":
            if prefix != "kind" or kind not in KINDS:
                kinds = ", ".join(f"`kind:{each}`" for each in KINDS)
                raise ConfigError(f"unknown kind `{text}`", hint=f"write one of {kinds}")
            self.kind = kind
            self.specificity = PATTERN
            return
        if "/" in text:
            self.server, self.tool = text.split("/", 1)
            if not self.server or not self.tool:
                raise ConfigError(
                    f"`{text}`: a server or a tool is missing", hint="write `server/tool`"
                )
        self._server_fits = _fits(self.server or "")
        self._tool_fits = _fits(self.tool)
        globs = _GLOB.search(text)
        self.specificity = EXACT if globs is None else PATTERN

    def __reduce__(self) -> tuple[type[Selector], tuple[str]]:
        return Selector, (self.text,)

    def fits_tool(self, name: str) -> bool:
        """Return whether the tool part matches a name."""
        return bool(self._tool_fits(name))

    def fits_server(self, server: str) -> bool:
        """Return whether the selector has a server part, and it matches a name."""
        return self.server is not None and bool(self._server_fits(server))

    def fits(self, server: str, name: str) -> bool:
        """Return whether a selector with a server part matches a server's tool."""
        return bool(self._server_fits(server) and self._tool_fits(name))


def _fits(part: str) -> Callable[[str], object]:
    return glob_matcher(part) if _GLOB.search(part) else lambda name: name == part
