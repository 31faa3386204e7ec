"""A Redis server, which programs on several hosts share. Needs ``otelhooks[redis]``."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, cast

from otelhooks.errors import ConfigError

__all__ = ["RedisServer", "Unreachable", "is_redis"]

_TIMEOUT_S = 5.0


class Unreachable(ConfigError):
    """What is kept there cannot be reached now."""


def is_redis(address: str) -> bool:
    """Return whether an address is that of a Redis server."""
    return address.startswith(("redis://", "rediss://"))


class RedisServer:
    """One server and database; errors never have its address, which may contain a password.

    Args:
        address: ``redis://[user:password@]host:port/number``, or ``rediss://`` for TLS.
        what: What is kept there, in words.

    Attributes:
        client: The client, for use inside `problems`.

    Raises:
        ConfigError: The address cannot be used, or the package is missing.
    """

    def __init__(self, address: str, what: str) -> None:
        self._place = f"{what} at `{address.partition(':')[0]}:...`"
        try:
            import redis
        except ImportError:
            raise ConfigError(
                f"{self._place} need the package `redis`", hint="install `otelhooks[redis]`"
            ) from None
        self._failures = (redis.RedisError, OSError)
        with self.problems():
            self.client: Any = cast("Any", redis.Redis).from_url(
                address,
                decode_responses=True,
                socket_timeout=_TIMEOUT_S,
                socket_connect_timeout=_TIMEOUT_S,
            )

    @contextlib.contextmanager
    def problems(self) -> Generator[None]:
        """Turn what the client raises into a `ConfigError`.

        Raises:
            Unreachable: The server cannot be reached.
            ConfigError: The address cannot be read.
        """
        try:
            yield
        except ValueError:
            raise ConfigError(
                f"the address of {self._place} cannot be read", hint="write `redis://host:6379/0`"
            ) from None
        except self._failures as error:
            raise Unreachable(
                f"{self._place} cannot be reached: {type(error).__name__}",
                hint="check that the server runs, and its address and password",
            ) from None
