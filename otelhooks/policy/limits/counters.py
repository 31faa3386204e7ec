"""Counts that several calls, threads or processes share, on the library ``limits``.

It uses two strategies of that library. A cap on a session or a turn is a *fixed window* that is as
long as a count is kept: one atomic increment. A cap per minute, hour or day is a *moving window*:
there is no border at which twice the number passes. Sums (tokens, cost) are always fixed windows,
since a moving one keeps an entry for each unit.

The library's own memory storage is not used: with several threads it lets more pass than the limit,
loses the first count, and starts a maintenance thread that looks at every key (Source: limits 5.8,
``storage/memory.py``).
"""

from __future__ import annotations

import bisect
import threading
import time
from typing import Any, cast

from limits import RateLimitItemPerSecond
from limits.errors import ConfigurationError
from limits.storage import MovingWindowSupport, Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

from otelhooks.errors import ConfigError
from otelhooks.process import forks

__all__ = ["Counter", "MemoryStorage"]

_NAMESPACE = "otelhooks"
_TIMEOUT_S = 2.0
_MIN_KEYS_TO_PRUNE = 4_096
_ANY_NUMBER = 2**31 - 1


class MemoryStorage(Storage, MovingWindowSupport):
    """Counts of this process: every step under one lock, dropped when they expire.

    Time is the monotonic clock's: setting the machine's clock does not end a window.

    Args:
        max_keys: Most counts that are kept: before there are more, the half that was counted last
            is kept; None for any number.
    """

    STORAGE_SCHEME: list[str] | None = None

    def __init__(self, max_keys: int | None = None) -> None:
        super().__init__()
        self._max_keys = max_keys
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, float]] = {}  # with the time at which it ends
        self._entries: dict[str, tuple[list[float], int]] = {}  # times, and the window's length
        self._prune_at = _MIN_KEYS_TO_PRUNE
        forks.in_child(self.after_fork, forks.Step.THREADS)

    @property
    def base_exceptions(self) -> type[Exception]:
        """Exceptions that the storage itself raises: none."""
        return ValueError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a count, and return it; `expiry` is in seconds from its first unit."""
        now = time.monotonic()
        with self._lock:
            self._prune(now)
            count, ends_at = self._counts.pop(key, (0, 0.0))  # the last one counted comes last
            if ends_at <= now:
                count, ends_at = 0, now + expiry
            self._counts[key] = (count + amount, ends_at)
            return count + amount

    def get(self, key: str) -> int:
        """Return a count."""
        with self._lock:
            count, ends_at = self._counts.get(key, (0, 0.0))
        return count if ends_at > time.monotonic() else 0

    def get_expiry(self, key: str) -> float:
        """Return when a count ends, in seconds since the epoch."""
        now = time.monotonic()
        with self._lock:
            _, ends_at = self._counts.get(key, (0, now))
        return time.time() + ends_at - now

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Add entries unless there would be more than `limit` in the last `expiry` seconds."""
        now = time.monotonic()
        with self._lock:
            self._prune(now)
            times, _ = self._entries.setdefault(key, ([], expiry))
            del times[: bisect.bisect_right(times, now - expiry)]
            if len(times) + amount > limit:
                return False
            times.extend([now] * amount)
            return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time of the oldest entry in the window, and how many there are."""
        now = time.monotonic()
        with self._lock:
            times, _ = self._entries.get(key, ([], expiry))
            first = bisect.bisect_right(times, now - expiry)
            number = len(times) - first
            oldest = times[first] if number else now
        return time.time() + oldest - now, number

    def check(self) -> bool:
        """Return that the storage is available."""
        return True

    def reset(self) -> int:
        """Forget everything; return how many keys there were."""
        with self._lock:
            number = len(self._counts) + len(self._entries)
            self._counts.clear()
            self._entries.clear()
        return number

    def clear(self, key: str) -> None:
        """Forget one key."""
        with self._lock:
            self._counts.pop(key, None)
            self._entries.pop(key, None)

    def _prune(self, now: float) -> None:
        """Drop expired keys, each time that the number of keys has doubled."""
        if len(self._counts) + len(self._entries) < self._prune_at:
            return
        self._counts = {k: entry for k, entry in self._counts.items() if entry[1] > now}
        self._entries = {
            key: (times, expiry)
            for key, (times, expiry) in self._entries.items()
            if times and times[-1] > now - expiry
        }
        if self._max_keys is not None:
            for key in [*self._counts][: -self._max_keys // 2]:
                del self._counts[key]
        kept = len(self._counts) + len(self._entries)
        self._prune_at = max(_MIN_KEYS_TO_PRUNE, 2 * kept)

    def after_fork(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.Lock()


class Counter:
    """One kind of count, under a key for each session, turn or window.

    Args:
        max: Units that are allowed, 1 or more.
        window_s: Seconds that a count is kept, from its first unit.
        storage: ``memory``, an address that `limits` accepts (``redis://host:6379/0``), or a
            storage of that library.
        is_moving: Whether the window moves; otherwise it starts with its first unit.

    Attributes:
        waits: Whether each step goes over a network.

    Raises:
        ConfigError: The storage cannot be used.
    """

    def __init__(
        self, max: int, window_s: int, storage: str | Storage, *, is_moving: bool = False
    ) -> None:
        found = open_storage(storage)
        self.max: int = max
        self.waits: bool = not isinstance(found, MemoryStorage)
        self._item = RateLimitItemPerSecond(max, window_s, _NAMESPACE)
        self._limiter: FixedWindowRateLimiter | MovingWindowRateLimiter
        if not is_moving:
            self._limiter = FixedWindowRateLimiter(found)
        elif isinstance(found, MovingWindowSupport):
            self._limiter = MovingWindowRateLimiter(cast("Any", found))
        else:
            raise ConfigError(
                f"storage of type `{type(found).__name__}` knows no moving window",
                hint="use memory or Redis, or a limit per session or turn",
            )

    def take(self, *key: str) -> bool:
        """Count one unit, unless that is one too many; one atomic step."""
        return self._limiter.hit(self._item, *key)

    def add(self, amount: int, *key: str) -> None:
        """Count units that are used in any case."""
        if isinstance(self._limiter, FixedWindowRateLimiter):
            self._limiter.hit(self._item, *key, cost=amount)
            return
        storage = cast("MovingWindowSupport", self._limiter.storage)
        window_s = self._item.get_expiry()
        storage.acquire_entry(self._item.key_for(*key), _ANY_NUMBER, window_s, amount)

    def overdraw(self, *key: str) -> bool:
        """Count one unit whether or not there is room for it; return True."""
        self.add(1, *key)
        return True

    def has_room(self, *key: str) -> bool:
        """Return whether there is room for one more unit."""
        return self.read(*key) < self.max

    def read(self, *key: str) -> int:
        """Return the used units; of a moving window at most `max`."""
        if isinstance(self._limiter, FixedWindowRateLimiter):
            return self._limiter.storage.get(self._item.key_for(*key))
        return self.max - self._limiter.get_window_stats(self._item, *key).remaining


def open_storage(storage: str | Storage) -> Storage:
    """Return the storage of an address; nothing is connected yet.

    Raises:
        ConfigError: The address is unknown, or a package for it is missing.
    """
    if isinstance(storage, Storage):
        return storage
    if storage == "memory":
        return MemoryStorage()
    scheme = storage.partition(":")[0]  # never the rest: it may contain a password
    options = _redis_options() if scheme in {"redis", "rediss"} else {}
    try:
        return cast("Storage", storage_from_string(storage, **options))
    except Exception as error:
        cause = type(error).__qualname__
        if isinstance(error, ConfigurationError):
            cause = str(error).replace(storage, f"{scheme}:...")
        raise ConfigError(
            f"storage `{scheme}:...` cannot be used: {cause}",
            hint="use `memory`, or `redis://host:6379/0` with the extra `otelhooks[redis]`",
        ) from None  # neither the address nor its parser's message


def _redis_options() -> dict[str, Any]:
    """Return options that keep a call from waiting long for an unreachable server."""
    try:
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        return {}  # `limits` reports what is missing
    return {
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
        "retry": Retry(NoBackoff(), 1),  # once: a connection of the pool may be stale
    }
