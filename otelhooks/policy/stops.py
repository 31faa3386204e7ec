"""Stops: vetoes that a person gives to running programs, until they are lifted.

`otelhooks stop` writes one where all programs of this user look: `otelhooks.setup.stop_places`.
Decision code: fails closed. A stop that cannot be read stops every call, and so does a folder of
stops that may not be read. If the place cannot be reached, the last stops that were read hold.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from otelhooks.errors import ConfigError
from otelhooks.policy.builders import veto
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Policy
from otelhooks.process import forks

__all__ = [
    "INTERVAL_S",
    "POLICY_ID",
    "Hidden",
    "Place",
    "Stop",
    "Watch",
    "as_text",
    "read",
    "rules_of",
    "stop_now",
    "unreadable",
]

log: logging.Logger = logging.getLogger("otelhooks.policy")

INTERVAL_S = 0.5
"""How often a program looks for stops, in seconds."""

POLICY_ID = "stop"
"""Telemetry's name for the source of these denies."""

_LAST = 1e11  # in the year 5138: calendars go no further than 9999


@dataclass(frozen=True, slots=True)
class Stop:
    """Calls that are stopped.

    Attributes:
        id: Names it, also in telemetry: ``stop-ID``.
        tool: Tools, as in a rule.
        agent: Glob of an agent's name; empty for every agent.
        why: Reason that the model reads.
        by: Who stopped them; empty if that cannot be read.
        at: When; seconds since the Unix epoch, or 0 if that cannot be read.
    """

    id: str
    tool: str = "*"
    agent: str = ""
    why: str = ""
    by: str = ""
    at: float = 0.0

    @property
    def what(self) -> str:
        """What is stopped, in words."""
        tools = "every tool" if self.tool == "*" else f"`{self.tool}`"
        return f"{tools} of agent `{self.agent}`" if self.agent else tools

    @property
    def said(self) -> str:
        """What is stopped, with the person and the reason that are given."""
        by, why = f", by {self.by}" if self.by else "", f": {self.why}" if self.why else ""
        return f"{self.what}{by}{why}"

    def rules(self) -> Iterator[Policy]:
        """Yield its vetoes: an agent is stopped with all agents that it calls.

        Raises:
            ConfigError: A glob cannot be used.
        """
        by, why = f" by {self.by}" if self.by else "", f": {self.why}" if self.why else "."
        reason = f"Stopped{by}{why}"
        own = self.agent
        for agent in (own, f"*/{own}", f"{own}/*", f"*/{own}/*") if own else (None,):
            yield veto(
                self.tool, agent=agent, reason=reason, id=f"stop-{self.id}", severity="critical"
            )


def stop_now(**about: Any) -> Stop:
    """Return a new stop, with the fields of `Stop`.

    Raises:
        ConfigError: A glob cannot be used.
    """
    stop = Stop(id=os.urandom(4).hex(), at=time.time(), **about)
    list(stop.rules())
    return stop


def rules_of(stops: Sequence[Stop]) -> PolicySet | None:
    """Return the rules of stops; None if there are none."""
    rules: list[Policy] = []
    for stop in stops:
        try:
            rules += stop.rules()
        except ConfigError:
            rules += unreadable(stop.id).rules()
    return PolicySet(rules, source=POLICY_ID) if rules else None


def unreadable(id: str) -> Stop:
    """Return what stands for a stop that cannot be read."""
    return Stop(id, why="a stop cannot be read, so that every call is stopped")


def read(id: str, text: str) -> Stop:
    """Return the stop that a text describes."""
    try:
        found = cast("dict[str, Any]", json.loads(text))
        words = {name: str(found[name]) for name in ("tool", "agent", "why", "by")}
        at = float(found["at"])
        return Stop(id, **words, at=at) if 0 <= at < _LAST else unreadable(id)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return unreadable(id)


def as_text(stop: Stop) -> str:
    """Return the text that `read` reads."""
    return json.dumps(dataclasses.asdict(stop))


class Hidden(ConfigError):
    """The place of stops exists, and this user may not read it."""


class Place(Protocol):
    """Where stops are kept."""

    @property
    def where(self) -> str:
        """The place in words, without credentials; and the user who writes there, if another."""
        ...

    def kept(self) -> tuple[Stop, ...]:
        """Return the stops in force.

        Raises:
            Hidden: It exists, and may not be read.
            ConfigError: The place cannot be reached.
        """
        ...

    def prepare(self) -> None:
        """Make the place if it is missing.

        Raises:
            ConfigError: It cannot be made.
        """
        ...

    def put(self, stop: Stop) -> None:
        """Keep a stop.

        Raises:
            ConfigError: It cannot be kept.
        """
        ...

    def lift(self, id: str) -> bool:
        """Remove a stop; return whether it was there.

        Raises:
            ConfigError: It cannot be removed.
        """
        ...


class Watch:
    """Calls a function when the stops in force change, on a thread of its own.

    Args:
        place: Where they are kept.
        known: Those that are known already.
        changed: Called with them; what it raises is logged.

    Attributes:
        place: The same.
    """

    def __init__(
        self,
        place: Place,
        known: tuple[Stop, ...],
        changed: Callable[[tuple[Stop, ...]], None],
    ) -> None:
        self.place: Place = place
        self._known, self._changed = known, changed
        self._is_told = False
        self._over = threading.Event()
        self._begin()
        forks.in_child(self._begin, forks.Step.THREADS)

    def stop(self) -> None:
        """End the thread."""
        self._over.set()

    def _begin(self) -> None:
        if not self._over.is_set():
            threading.Thread(target=self._run, name="otelhooks-stops", daemon=True).start()

    def _run(self) -> None:
        while not self._over.wait(INTERVAL_S):
            try:
                self._take(self.place.kept())
                self._is_told = False
            except Hidden as error:
                self._tell("so every call is stopped", error)
                self._take((unreadable("hidden"),))
            except Exception as error:
                # The last stops hold: without them, a program would run that a person has stopped.
                self._tell("and the last ones hold", error)

    def _take(self, now: tuple[Stop, ...]) -> None:
        if now != self._known:
            self._changed(now)
            self._known = now

    def _tell(self, what: str, error: Exception) -> None:
        if not self._is_told:
            log.error("stops cannot be read, %s: %s", what, error)
        self._is_told = True
