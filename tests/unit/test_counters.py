"""Counts in memory, on the library `limits`: atomic, forgotten in time, whole after a fork."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
from limits.storage import Storage

from otelhooks.errors import ConfigError
from otelhooks.policy.limits import counters
from otelhooks.policy.limits.counters import Counter, MemoryStorage


class Time:
    """A clock that only moves when set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + 1_700_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(counters, "time", made)
    return made


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("is_moving", [False, True])
class TestBothStrategies:
    def test_as_many_pass_as_there_may_be(self, is_moving: bool) -> None:
        counter = Counter(3, 60, "memory", is_moving=is_moving)
        assert [counter.take("a") for _ in range(5)] == [True, True, True, False, False]
        assert min(counter.read("a"), 3) == 3

    def test_keys_have_counts_of_their_own(self, is_moving: bool) -> None:
        counter = Counter(1, 60, "memory", is_moving=is_moving)
        assert counter.take("a")
        assert counter.take("b")
        assert counter.read("c") == 0

    def test_threads_never_take_more_than_there_is(
        self, is_moving: bool, quick_switches: None
    ) -> None:
        for _ in range(60):
            counter = Counter(3, 60, "memory", is_moving=is_moving)
            barrier, passed = threading.Barrier(8), list[bool]()

            def take(
                counter: Counter = counter,
                barrier: threading.Barrier = barrier,
                passed: list[bool] = passed,
            ) -> None:
                barrier.wait()
                passed.append(counter.take("a"))

            threads = [threading.Thread(target=take) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sum(passed) == 3

    def test_a_count_ends(self, is_moving: bool, clock: Time) -> None:
        counter = Counter(1, 60, "memory", is_moving=is_moving)
        assert counter.take("a")
        clock.now += 59
        assert not counter.take("a")
        clock.now += 1
        assert counter.read("a") == 0
        assert counter.take("a")


class TestWindows:
    def test_a_moving_window_has_no_border_where_twice_the_number_passes(self, clock: Time) -> None:
        counter = Counter(2, 60, "memory", is_moving=True)
        clock.now += 59
        assert counter.take("a")
        assert counter.take("a")
        clock.now += 2  # a fixed minute would be over
        assert not counter.take("a")
        clock.now += 58.1
        assert counter.take("a")

    def test_setting_the_clock_of_the_machine_ends_no_count(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counter = Counter(1, 60, "memory")
        assert counter.take("a")
        monkeypatch.setattr("time.time", lambda: 4e9)
        assert not counter.take("a")

    def test_sums_take_any_amount(self) -> None:
        counter = Counter(100, 60, "memory")
        counter.add(70, "a")
        counter.add(70, "a")
        assert counter.read("a") == 140


class TestMemory:
    def test_what_is_over_does_not_stay(self, clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counters, "_MIN_KEYS_TO_PRUNE", 10)
        storage = MemoryStorage()
        fixed, moving = Counter(1, 60, storage), Counter(1, 60, storage, is_moving=True)
        for number in range(1_000):
            clock.now += 30
            assert fixed.take(str(number))
            assert moving.take(str(number))
        assert storage.reset() <= 20

    def test_it_is_looked_through_only_when_there_are_twice_as_many(
        self, clock: Time, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(counters, "_MIN_KEYS_TO_PRUNE", 10)
        storage = MemoryStorage()
        fixed, moving = Counter(1, 60, storage), Counter(1, 60, storage, is_moving=True)
        for number in range(11):
            assert fixed.take(str(number))
            assert moving.take(str(number))
        clock.now += 61  # all are over, and stay until there are as many again
        for number in range(11, 13):
            assert fixed.take(str(number))
        assert storage.reset() == 24

    def test_what_holds_stays_however_many_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counters, "_MIN_KEYS_TO_PRUNE", 10)
        storage = MemoryStorage()
        counter = Counter(1, 60, storage)
        for number in range(100):
            assert counter.take(str(number))
        assert not any(counter.take(str(number)) for number in range(100))

    def test_it_is_a_whole_storage_of_the_library(self, clock: Time) -> None:
        storage = MemoryStorage()
        assert isinstance(storage, Storage)
        assert storage.check()
        assert storage.base_exceptions is ValueError
        assert storage.incr("a", 60) == 1
        assert storage.get_expiry("a") == clock.time() + 60
        assert storage.get_expiry("b") == clock.time()
        storage.clear("a")
        assert storage.get("a") == 0
        assert storage.get_moving_window("a", 1, 60) == (clock.time(), 0)

    def test_every_storage_gets_a_lock_of_its_own_in_a_child(self) -> None:
        storage = MemoryStorage()
        with storage._lock:
            storage.after_fork()
            assert storage.incr("a", 60) == 1


class TestStorages:
    def test_a_storage_can_be_shared(self) -> None:
        storage = MemoryStorage()
        assert Counter(1, 60, storage).take("a")
        assert not Counter(1, 60, storage).take("a")

    @pytest.mark.parametrize("address", ["nonsense://host", "red is", ""])
    def test_an_unknown_address_is_an_error(self, address: str) -> None:
        with pytest.raises(ConfigError, match="cannot be used"):
            Counter(1, 60, address)

    @pytest.mark.parametrize(
        "address", ["nonsense://user:secret@host", "redis://user:1@secret:host"]
    )
    def test_the_error_does_not_show_a_password(self, address: str) -> None:
        with pytest.raises(ConfigError) as caught:
            Counter(1, 60, address)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_a_storage_without_moving_windows_is_refused_for_them(self) -> None:
        class Plain(Storage):
            STORAGE_SCHEME = None
            base_exceptions = ValueError

            def incr(self, key: str, expiry: int, amount: int = 1) -> int:
                return amount

            def get(self, key: str) -> int:
                return 0

            def get_expiry(self, key: str) -> float:
                return 0

            def check(self) -> bool:
                return True

            def reset(self) -> int:
                return 0

            def clear(self, key: str) -> None: ...

        assert Counter(1, 60, Plain()).take("a")
        with pytest.raises(ConfigError, match="no moving window"):
            Counter(1, 60, Plain(), is_moving=True)

    def test_redis_is_not_connected_before_it_is_needed(self) -> None:
        assert Counter(1, 60, "redis://127.0.0.1:1").waits

    def test_a_missing_redis_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "redis", None)
        monkeypatch.setitem(sys.modules, "redis.backoff", None)
        with pytest.raises(ConfigError, match=r"otelhooks\[redis\]"):
            Counter(1, 60, "redis://127.0.0.1:1")


@pytest.mark.parametrize(
    ("address", "waits"),
    [("redis://host", True), ("rediss://host", True), ("memcached://host", False)],
)
def test_no_call_waits_long_for_a_redis_server_and_others_get_no_option_of_it(
    monkeypatch: pytest.MonkeyPatch, address: str, waits: bool
) -> None:
    pytest.importorskip("redis")
    given: list[dict[str, object]] = []

    def make(uri: str, **options: object) -> Storage:
        given.append(options)
        return MemoryStorage()

    monkeypatch.setattr(counters, "storage_from_string", make)
    counters.open_storage(address)
    assert [options.get("socket_timeout") for options in given] == [2.0 if waits else None]
