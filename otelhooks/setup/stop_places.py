"""Where stops are kept: in a folder, or on a Redis server for programs on several hosts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from otelhooks.errors import ConfigError
from otelhooks.policy.stops import Place, Stop, as_text, read, unreadable
from otelhooks.store.redis_server import RedisServer, is_redis

__all__ = ["place_of"]

OFF = "off"
_HASH = "otelhooks:stops"
_ELSEWHERE = "set OTELHOOKS_STOPS to a folder of this user"
_LIFT = "put the folder back, or make it again and lift its stops: `otelhooks go --all`"


class _Folder:
    """One file for each stop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[Stop, ...] = ()

    def kept(self) -> tuple[Stop, ...]:
        try:
            names = sorted(name for name in os.listdir(self._path) if name.endswith(".json"))
            found = tuple(filter(None, map(self._stop, names)))
            self._path.stat()  # it may be moved meanwhile, which lifts nothing
        except FileNotFoundError as error:
            if self._last:
                raise self._problem("read", error, _LIFT) from error
            return ()
        except OSError as error:
            raise self._problem("read", error) from error
        self._last = found
        return found

    def _stop(self, name: str) -> Stop | None:
        id, file = name.removesuffix(".json"), self._path / name
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                return unreadable(id)  # a pipe would never end
            return read(id, file.read_text(encoding="utf-8"))
        except FileNotFoundError:  # lifted in this moment
            return None
        except (OSError, ValueError):
            return unreadable(id)

    def prepare(self) -> None:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._problem("written", error) from error

    def put(self, stop: Stop) -> None:
        self.prepare()
        try:
            written = self._path / f"{stop.id}.new"  # never read half written
            written.write_text(as_text(stop), encoding="utf-8")
            written.replace(self._path / f"{stop.id}.json")
        except OSError as error:
            raise self._problem("written", error) from error

    def lift(self, id: str) -> bool:
        file = self._path / f"{id}.json"
        if file.parent != self._path:  # an id that a form or a command made up
            return False
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._problem("written", error) from error
        return True

    def _problem(self, how: str, error: OSError, hint: str = _ELSEWHERE) -> ConfigError:
        return ConfigError(
            f"`{self._path}`, where stops are kept, cannot be {how}: {error.strerror or error}",
            hint=hint,
        )


class _Redis:
    """A hash of stops by id, for programs on several hosts."""

    def __init__(self, address: str) -> None:
        server = RedisServer(address, "stops")
        self._redis, self._problems = server.client, server.problems

    def kept(self) -> tuple[Stop, ...]:
        with self._problems():
            found: dict[str, str] = self._redis.hgetall(_HASH)
        return tuple(read(id, found[id]) for id in sorted(found))

    def prepare(self) -> None:
        """Nothing: a server makes the hash with the first stop."""

    def put(self, stop: Stop) -> None:
        with self._problems():
            self._redis.hset(_HASH, stop.id, as_text(stop))

    def lift(self, id: str) -> bool:
        with self._problems():
            return bool(self._redis.hdel(_HASH, id))


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
    if is_redis(text):
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
