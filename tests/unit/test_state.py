"""State of hooks and tools: reads walk outwards, writes stay local."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from otelhooks.state import StateStore
from otelhooks.utils.state import StateStore as Alias


def test_the_alias_is_the_same_class() -> None:
    assert Alias is StateStore


def test_reads_walk_outwards_and_writes_stay_local() -> None:
    outer = StateStore()
    inner = StateStore(outer)
    outer.set("a", 1)
    assert inner.get("a") == 1
    inner.set("a", 2)
    assert inner.get("a") == 2
    assert outer.get("a") == 1
    assert inner.has_parent()
    assert not outer.has_parent()
    assert inner.parent is outer


def test_a_stored_none_is_found() -> None:
    outer = StateStore()
    outer.set("a", 1)
    inner = StateStore(outer)
    inner.set("a", None)
    assert inner.get("a", 7) is None


def test_a_value_of_another_type_counts_as_absent() -> None:
    store = StateStore()
    store.set("a", "text")
    assert store.get("a", 0, type=int) == 0
    assert store.get("a", "", type=str) == "text"
    assert store.get("b", 3, type=int) == 3


def test_upstreams_names_do_the_same() -> None:
    store = StateStore()
    store.set_state("a", 1)
    assert store.get_state("a") == 1
    assert store.get_state("b", 2) == 2


def test_an_update_is_one_step_for_all_threads() -> None:
    store = StateStore()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(store.update_state, "n", lambda n: n + 1, 0)
    assert store.get("n") == 400


def test_an_update_starts_from_the_value_outside_and_stays_local() -> None:
    outer = StateStore()
    outer.set("n", 10)
    inner = StateStore(outer)
    assert inner.update_state("n", lambda n: n + 1) == 11
    assert outer.get("n") == 10


def test_the_lock_is_held_over_several_steps() -> None:
    store = StateStore()
    seen: list[bool] = []
    with store as same, store.lock():
        assert same is store
        other = threading.Thread(target=lambda: seen.append(store.lock().acquire(blocking=False)))
        other.start()
        other.join()
    assert seen == [False]
    assert store.lock().acquire(blocking=False)
    store.lock().release()
