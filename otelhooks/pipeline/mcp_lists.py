"""A list of tools that an MCP client read: remembered, and compared with what is approved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from otelhooks.plain_text import LOGGED, one_line
from otelhooks.policy.mcp import definitions
from otelhooks.policy.mcp.definitions import Definition, Listed
from otelhooks.records import semconv
from otelhooks.telemetry.events import WARN
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from otelhooks.pipeline.runtime import Runtime

__all__ = ["CHANGES", "note"]

log: logging.Logger = logging.getLogger("otelhooks.policy")

CHANGES = ("unnamed", "new", "changed")
"""Why a tool of a list is not approved."""

_MAX_TOLD = 1_000


def note(
    rt: Runtime,
    server: str,
    says: str,
    known: Listed,
    tools: Sequence[tuple[str, Callable[[], Any]]],
) -> frozenset[str]:
    """Remember the tools of a list, and report those that are not approved.

    Args:
        rt: The active runtime.
        server: The server's name; empty if the application gave it none.
        says: The name that it gives itself.
        known: What it listed before; gets the new definitions.
        tools: Each tool's name, and a function that returns it in the protocol's JSON.

    Returns:
        The names of the tools that no model may see.
    """
    found: Listed = {}
    for name, read in tools:
        found[name] = (*found.get(name, ()), _definition(name, read))
    hidden: set[str] = set()
    pins = rt.pins
    for name, given in found.items():
        definitions.note(known, name, given)
        problem = pins.problem(server, name, given) if pins is not None else ""
        if pins is not None and problem:
            _tell(rt, problem, server or says, name, given)
            if pins.can_deny:
                hidden.add(name)
    return frozenset(hidden)


def _definition(name: str, read: Callable[[], Any]) -> Definition:
    """Return a tool's definition; one that cannot be read equals no other."""
    try:
        return Definition.of(name, definitions.fields_of(read()))
    except Exception as error:  # it came from a server, in an object of its package
        log.warning("a definition of an MCP tool cannot be read: %s", type(error).__qualname__)
        return Definition("")


@fails_open
def _tell(rt: Runtime, problem: str, server: str, name: str, found: Sequence[Definition]) -> None:
    """Count a tool that is not approved; the first time also log it, and emit an event."""
    mode = (
        semconv.MODE_ENFORCE if rt.pins is not None and rt.pins.can_deny else semconv.MODE_MONITOR
    )
    attributes = {semconv.MCP_TOOL_CHANGE: problem, semconv.POLICY_MODE: mode}
    rt.instruments.counter(semconv.METRIC_MCP_TOOLS_UNAPPROVED).cell(attributes).add(1)
    key = (problem, server, name, *(one.digest for one in found))
    if key in rt.told_tools or len(rt.told_tools) >= _MAX_TOLD:
        return
    rt.told_tools.add(key)
    log.warning(
        "tool `%s` of MCP server `%s` is not approved (%s)%s",
        one_line(name, LOGGED),
        one_line(server, LOGGED),
        problem,
        "\nhint: give the server a name in `mcp_servers=`"
        if problem == "unnamed"
        else "\nhint: `otelhooks mcp diff` shows what is new, `otelhooks mcp approve` approves it",
    )
    about = {
        semconv.TOOL_SERVER: server,
        semconv.GEN_AI_TOOL_NAME: name,
        semconv.MCP_TOOL_HASH: ", ".join(sorted({one.digest for one in found})),
    }
    rt.events.emit(semconv.EVENT_MCP_TOOL_UNAPPROVED, WARN, {**attributes, **about})
