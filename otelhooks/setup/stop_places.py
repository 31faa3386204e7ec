"""Where stops are kept: in a folder, or on a Redis server for programs on several hosts."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator
from pathlib import Path

from otelhooks.errors import ConfigError
from otelhooks.plain_text import without_credentials
from otelhooks.policy.stops import Hidden, Place, Stop, as_text, read, unreadable
from otelhooks.process.folders import user_folder
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

    @property
    def where(self) -> str:
        uid = _owner(self._path).st_uid
        return f"`{self._path}`, as uid {uid}" if _acts_as(uid) else f"`{self._path}`"

    def kept(self) -> tuple[Stop, ...]:
        try:
            names = sorted(name for name in os.listdir(self._path) if name.endswith(".json"))
            found = tuple(filter(None, map(self._stop, names)))
            self._path.stat()  # it may be moved meanwhile, which lifts nothing
        except FileNotFoundError as error:
            if self._last:
                raise self._problem("read", error, _LIFT) from error
            return ()
        except PermissionError as error:
            if not os.path.isdir(self._path):  # behind another that may not be read
                raise self._problem("read", error) from error
            self._last = (unreadable("hidden"),)
            raise self._problem("read", error, kind=Hidden) from error
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
        with self._writing():
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, stop: Stop) -> None:
        self.prepare()
        with self._writing():
            written = self._path / f"{stop.id}.new"  # never read half written
            written.write_text(as_text(stop), encoding="utf-8")
            written.replace(self._path / f"{stop.id}.json")

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        """Act as the owner of the folder, or of the nearest above it, if this process is root.

        What root made in another user's home, programs of that user could not read.
        """
        hint = _ELSEWHERE
        try:
            owner = _owner(self._path)
            if not _acts_as(owner.st_uid):
                yield
                return
            hint = f"run the command as uid {owner.st_uid}, whose programs look there"
            group = os.getegid()
            os.setegid(owner.st_gid)
            try:
                os.seteuid(owner.st_uid)
                try:
                    yield
                finally:
                    os.seteuid(0)
            finally:
                os.setegid(group)
        except OSError as error:
            raise self._problem("written", error, hint) from error

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

    def _problem(
        self,
        how: str,
        error: OSError,
        hint: str = _ELSEWHERE,
        kind: type[ConfigError] = ConfigError,
    ) -> ConfigError:
        return kind(
            f"`{self._path}`, where stops are kept, cannot be {how}: {error.strerror or error}",
            hint=hint,
        )


def _owner(path: Path) -> os.stat_result:
    """Return the status of a folder, or of the nearest one above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists()).stat()


def _acts_as(uid: int) -> bool:
    """Return whether this process is root, and is to act as another user."""
    return uid != 0 and hasattr(os, "geteuid") and os.geteuid() == 0


class _Redis:
    """A hash of stops by id, for programs on several hosts."""

    def __init__(self, address: str) -> None:
        self.where: str = f"`{without_credentials(address)}`"
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
        ConfigError: The address cannot be used, or the user has no home folder.
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
    return _Folder(user_folder("state", "OTELHOOKS_STOPS") / "stops")
