"""Stops: vetoes that a person gives to running programs, until they are lifted.

`otelhooks stop` writes one where all programs of this user look, in a folder or on a Redis server.
Decision code: fails closed. A stop that cannot be read stops every call, and if the place cannot be
reached, the last stops that were read hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from otelhooks.errors import ConfigError
from otelhooks.policy.builders import veto
from otelhooks.policy.rules import Policy, RuleSource
from otelhooks.process import forks

__all__ = ["INTERVAL_S", "Place", "Stop", "Watch", "place_of", "rules_of", "stop_now"]

log: logging.Logger = logging.getLogger("otelhooks.policy")

INTERVAL_S = 0.5
"""How often a program looks for stops, in seconds."""

OFF = "off"
_POLICY_ID = "stop"
_HASH = "otelhooks:stops"
_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Calls that are stopped.

    Attributes:
        id: Names it, also in telemetry: ``stop-ID``.
        tool: Tools, as in a rule.
        agent: Glob of an agent's name; empty for every agent.
        why: Reason that the model reads.
        by: Who stopped them.
        at: When; seconds since the Unix epoch.
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

    def rules(self) -> Iterator[Policy]:
        """Yield its vetoes: an agent is stopped with all agents that it calls.

        Raises:
            ConfigError: A glob cannot be used.
        """
        reason = f"Stopped by {self.by or 'a person'}{f': {self.why}' if self.why else '.'}"
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


def rules_of(stops: Sequence[Stop]) -> RuleSource | None:
    """Return the rules of stops as a policy of their own; None if there are none."""
    rules: list[Policy] = []
    for stop in stops:
        try:
            rules += stop.rules()
        except ConfigError:
            rules += _unreadable(stop.id).rules()
    version = ",".join(stop.id for stop in stops)
    return RuleSource(_POLICY_ID, version, tuple(rules)) if rules else None


def _unreadable(id: str) -> Stop:
    return Stop(id, why="a stop cannot be read, so that every call is stopped")


def _read(id: str, text: str) -> Stop:
    try:
        found = cast("dict[str, Any]", json.loads(text))
        words = {name: str(found[name]) for name in ("tool", "agent", "why", "by")}
        return Stop(id, **words, at=float(found["at"]))
    except (ValueError, TypeError, LookupError):
        return _unreadable(id)


def _text(stop: Stop) -> str:
    return json.dumps(dataclasses.asdict(stop))


# -- places -------------------------------------------------------------------------------------


class Place(Protocol):
    """Where stops are kept."""

    def kept(self) -> tuple[Stop, ...]:
        """Return the stops in force.

        Raises:
            ConfigError: The place cannot be reached.
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


class _Folder:
    """One file for each stop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def kept(self) -> tuple[Stop, ...]:
        try:
            names = sorted(name for name in os.listdir(self._path) if name.endswith(".json"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._problem("read", error) from error
        return tuple(filter(None, map(self._stop, names)))

    def _stop(self, name: str) -> Stop | None:
        id = name.removesuffix(".json")
        try:
            return _read(id, (self._path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:  # lifted in this moment
            return None
        except (OSError, ValueError):
            return _unreadable(id)

    def put(self, stop: Stop) -> None:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            written = self._path / f"{stop.id}.new"  # never read half written
            written.write_text(_text(stop), encoding="utf-8")
            written.replace(self._path / f"{stop.id}.json")
        except OSError as error:
            raise self._problem("written", error) from error

    def lift(self, id: str) -> bool:
        try:
            (self._path / f"{id}.json").unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._problem("written", error) from error
        return True

    def _problem(self, how: str, error: OSError) -> ConfigError:
        return ConfigError(
            f"`{self._path}`, where stops are kept, cannot be {how}: {error.strerror or error}",
            hint="set OTELHOOKS_STOPS to a folder of this user",
        )


class _Redis:
    """A hash of stops by id, for programs on several hosts."""

    def __init__(self, address: str) -> None:
        try:
            import redis
        except ImportError:
            raise ConfigError(
                "stops on a Redis server need the package `redis`",
                hint="install `otelhooks[redis]`",
            ) from None
        self._failures = (redis.RedisError, OSError)
        with self._problems():
            self._redis = cast("Any", redis.Redis).from_url(
                address,
                decode_responses=True,
                socket_timeout=_TIMEOUT_S,
                socket_connect_timeout=_TIMEOUT_S,
            )

    def kept(self) -> tuple[Stop, ...]:
        with self._problems():
            found: dict[str, str] = self._redis.hgetall(_HASH)
        return tuple(_read(id, found[id]) for id in sorted(found))

    def put(self, stop: Stop) -> None:
        with self._problems():
            self._redis.hset(_HASH, stop.id, _text(stop))

    def lift(self, id: str) -> bool:
        with self._problems():
            return bool(self._redis.hdel(_HASH, id))

    @contextlib.contextmanager
    def _problems(self) -> Generator[None]:
        try:
            yield
        except (*self._failures, ValueError) as error:
            raise ConfigError(
                f"the Redis server of OTELHOOKS_STOPS cannot be used: {type(error).__name__}",
                hint="write `redis://host:6379/0`, and check that the server runs",
            ) from None  # the address may contain a password


def place_of(text: str) -> Place | None:
    """Return where stops are kept.

    Args:
        text: A folder, ``redis://host:6379/0``, or ``off``; empty for the folder ``stops`` in the
            user's state folder.

    Returns:
        None for ``off``.

    Raises:
        ConfigError: The address cannot be used.
    """
    if text == OFF:
        return None
    if text.startswith(("redis://", "rediss://")):
        return _Redis(text)
    if "://" in text:
        raise ConfigError(
            "OTELHOOKS_STOPS is an address that is not Redis's",
            hint="write `redis://host:6379/0`, or a folder",
        )
    if text:
        return _Folder(Path(text).expanduser())
    import platformdirs

    return _Folder(Path(platformdirs.user_state_dir("otelhooks", appauthor=False)) / "stops")


# -- programs -----------------------------------------------------------------------------------


class Watch:
    """Calls a function when the stops in force change, on a thread of its own.

    Args:
        place: Where they are kept.
        known: Those that are known already.
        changed: Called with them; what it raises is logged.
    """

    def __init__(
        self,
        place: Place,
        known: tuple[Stop, ...],
        changed: Callable[[tuple[Stop, ...]], None],
    ) -> None:
        self._place, self._known, self._changed = place, known, changed
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
                now = self._place.kept()
                if now != self._known:
                    self._changed(now)
                    self._known = now
                self._is_told = False
            except Exception as error:
                # The last stops hold: without them, a program would run that a person has stopped.
                if not self._is_told:
                    log.error("stops cannot be read, and the last ones hold: %s", error)
                self._is_told = True
