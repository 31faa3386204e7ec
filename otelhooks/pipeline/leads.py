"""Tools that only pass their call on to another package: what that package's adapter knows.

A tool object of an agent framework may be a shell around a tool that has seats of its own. The
adapter of those seats registers what such shells look like; the adapters of agent frameworks ask
here and do not know each other. If nothing is registered, the answer costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline.permits import NextSeat

__all__ = ["Lead", "next_seat_of", "register", "stages_of"]


class Lead(NamedTuple):
    """Where the calls of some tool objects lead.

    Args:
        seat: Group name of the deeper seat.
        stages: Takes such an object and the name it is called by; returns what hooks are shown of
            the tool's steps. None if it has no steps.
    """

    seat: str
    stages: Callable[[Any, str], StageParams | None]


_leads: dict[tuple[str, str], Lead] = {}


def register(module: str, name: str, lead: Lead) -> None:
    """Register where tool objects lead.

    Args:
        module: Module that defines their class, or the functions themselves.
        name: Name of the class, including its subclasses; empty for functions.
        lead: Where they lead.
    """
    _leads[module, name] = lead


def next_seat_of(tool: Any, name: str, server: str | None = None) -> NextSeat | None:
    """Return the deeper seat that a call of a tool object leads to, if one is registered.

    Args:
        tool: A framework's tool object, or a function.
        name: The tool's name at that seat.
        server: The name of its MCP server, if it has one.
    """
    lead = _lead_of(tool) if _leads else None
    return None if lead is None else NextSeat(lead.seat, name, server)


def stages_of(tool: Any, name: str) -> StageParams | None:
    """Return what hooks are shown of the steps of a tool object's call, if it is registered."""
    lead = _lead_of(tool) if _leads else None
    return None if lead is None else lead.stages(tool, name)


def _lead_of(tool: Any) -> Lead | None:
    if type(tool) is FunctionType:
        return _leads.get((tool.__module__, ""))
    for cls in type(tool).__mro__:  # by name: every copy of the framework has a class of its own
        lead = _leads.get((cls.__module__, cls.__name__))
        if lead is not None:
            return lead
    return None
