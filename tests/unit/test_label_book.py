"""Labels outlive eviction, process and restart in the local store; what is lost is not trusted."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.hooks.context import SessionContext
from otelhooks.hooks.labels import Labels
from otelhooks.hooks.origins import Origins
from otelhooks.records import semconv
from otelhooks.store import connection, labels
from otelhooks.store.labels import LabelBook
from otelhooks.store.schema import StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


def test_a_conversation_is_known_from_its_first_look_on(path: Path) -> None:
    assert LabelBook(path).open("c") == (False, frozenset())
    assert LabelBook(path).open("c") == (True, frozenset())
    assert LabelBook(path).open("other") == (False, frozenset())


def test_nothing_is_opened_before_a_conversation_is_looked_up(path: Path) -> None:
    LabelBook(path).of("c")
    assert not path.exists()


def test_without_a_store_the_process_remembers_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = LabelBook(tmp_path)  # a folder
    assert book.open("c") == (False, frozenset())
    book.add("c", "untrusted")
    assert book.open("c") == (True, frozenset({"untrusted"}))
    assert caplog.text.count("labels are kept in this process only") == 1
    book.close()


@pytest.fixture
def locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A store that another program keeps locked, and that is not waited for as long."""
    monkeypatch.setattr(labels, "_BUSY_S", 0.2)
    LabelBook(path).open("earlier")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    yield other
    other.close()


def test_a_locked_store_is_waited_for_once_not_by_each_conversation(
    path: Path, locked: sqlite3.Connection
) -> None:
    book = LabelBook(path)
    started = time.monotonic()
    for number in range(40):
        assert book.open(f"c{number}") == (False, frozenset())
        book.add(f"c{number}", "untrusted")
    assert time.monotonic() - started < 2.5


def test_no_conversation_waits_for_the_spans_that_wait_for_a_locked_store(
    path: Path, locked: sqlite3.Connection
) -> None:
    book = LabelBook(path)
    book.open("first")  # waits
    spans = connection.shared(path)
    waiting = threading.Thread(target=lambda: swallow(spans, busy_s=1.5))
    waiting.start()
    time.sleep(0.1)
    started = time.monotonic()
    for number in range(10):
        book.open(f"c{number}")
    assert time.monotonic() - started < 0.2
    waiting.join()


def swallow(spans: connection.Database, *, busy_s: float) -> None:
    with pytest.raises(StoreError, match="locked"):
        spans.write(lambda it: it.execute("SELECT 1"), busy_s=busy_s)


def test_labels_of_a_locked_store_are_read_and_kept_as_soon_as_it_is_free(
    path: Path, locked: sqlite3.Connection
) -> None:
    locked.execute("INSERT INTO labels VALUES ('old', 'untrusted')")
    book = LabelBook(path)
    book.open("new")
    book.add("new", "secret")
    locked.execute("COMMIT")
    assert book.open("old") == (True, frozenset({"untrusted"}))
    assert LabelBook(path).open("new") == (True, frozenset({"secret"}))


def kept_of(path: Path, session_id: str) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as store:
        rows = store.execute("SELECT label FROM labels WHERE session_id = ?", (session_id,))
        return {label for (label,) in rows}


def test_labels_of_a_locked_store_are_written_when_it_is_free_though_no_call_follows(
    path: Path, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_RETRY_S", 0.05)
    book = LabelBook(path)
    for label in ("untrusted", "secret"):  # again, once the first is written
        book.add("c", label)
        time.sleep(0.1)
        assert label not in kept_of(path, "c")
        locked.execute("COMMIT")
        deadline = time.monotonic() + 10
        while label not in kept_of(path, "c") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert label in kept_of(path, "c")
        time.sleep(0.2)
        locked.execute("BEGIN EXCLUSIVE")


def test_an_id_that_is_no_unicode_text_holds_no_other_conversation_up(
    path: Path, locked: sqlite3.Connection
) -> None:
    book = LabelBook(path)
    book.add("c\ud800", "untrusted")
    locked.execute("COMMIT")
    assert book.open("d") == (False, frozenset())
    assert LabelBook(path).open("c\ud800") == (True, frozenset({"untrusted"}))


def test_labels_of_a_locked_store_are_waited_for_at_the_end(
    path: Path, locked: sqlite3.Connection
) -> None:
    book = LabelBook(path)
    book.add("c", "untrusted")
    threading.Timer(0.3, lambda: locked.execute("COMMIT")).start()
    book.close()
    assert kept_of(path, "c") == {"untrusted"}


def test_the_end_waits_for_a_locked_store_only_so_long_and_says_what_is_lost(
    path: Path, locked: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    book = LabelBook(path)
    book.add("c", "untrusted")
    book.add("c", "secret")
    book.add("d", "secret")
    started = time.monotonic()
    book.close()
    book.close()
    assert time.monotonic() - started < 3
    assert caplog.text.count("labels of 2 conversations could not be written") == 1
    assert book.open("c") == (True, frozenset({"untrusted", "secret"}))


def test_a_history_that_a_locked_store_may_know_is_unknown(
    path: Path, locked: sqlite3.Connection
) -> None:
    book = LabelBook(path)
    for name in ("waits", "does not"):
        session = Labels()
        session.keeper = book.of(name)
        session.come_with_history()
        assert session.all() == {"unknown"}


def test_what_is_forgotten_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MAX_REMEMBERED", 2)
    book = LabelBook(tmp_path)
    for name in "abc":
        book.add(name, "untrusted")
    assert book.open("c") == (True, frozenset({"untrusted"}))
    assert book.open("a") == (False, frozenset())
    book.close()


def test_the_keeper_is_asked_once_and_gets_each_new_label() -> None:
    told: list[str] = []

    class Keeper:
        is_read = True

        def open(self) -> tuple[bool, frozenset[str]]:
            told.append("open")
            return True, frozenset({"kept"})

        def add(self, label: str) -> None:
            told.append(label)

    context = SessionContext()
    context.keep_labels(Keeper())
    context.add_label("new")
    context.add_label("new")
    assert context.labels == {"kept", "new"}
    assert context.labels == {"kept", "new"}
    assert told == ["open", "new"]  # what is read later may not be taken for its own


def test_threads_may_add_at_once(path: Path) -> None:
    book = LabelBook(path)
    threads = [threading.Thread(target=lambda n=n: book.add("c", f"label-{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(LabelBook(path).open("c")[1]) == 8


RULES = [policy.label("fetch", adds="untrusted"), policy.deny("send", when_labels={"untrusted"})]


def test_a_restart_washes_no_label_off(governed: Any, path: Path) -> None:
    @otelhooks.tool
    def fetch() -> None: ...

    @otelhooks.tool
    def send() -> None: ...

    governed(policies=RULES, store=path)
    with otelhooks.session("c"):
        fetch()
    otelhooks.uninstrument()
    governed(policies=RULES, store=path)
    with otelhooks.session("c"), pytest.raises(Denied):
        send()
    with otelhooks.session("d"):
        send()


def test_kept_labels_that_a_locked_store_hid_count_when_it_is_free(
    governed: Any, path: Path, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    @otelhooks.tool
    def send() -> None: ...

    monkeypatch.setattr(labels, "_RETRY_S", 60)
    locked.execute("INSERT INTO labels VALUES ('c', ''), ('c', 'untrusted')")
    governed(policies=RULES, store=path)
    with otelhooks.session("c"):
        send()  # its label cannot be read yet
        locked.execute("COMMIT")
        with pytest.raises(Denied):
            send()
    with otelhooks.session("d"):
        send()


def test_a_history_stays_unknown_when_the_store_is_free_again(
    path: Path, locked: sqlite3.Connection
) -> None:
    session = Labels()
    session.keeper = LabelBook(path).of("c")
    assert session.all() == set()
    locked.execute("COMMIT")
    assert session.all() == set()  # the row that it finds is its own
    session.come_with_history()
    assert session.all() == {"unknown"}


def test_uninstrument_writes_what_a_locked_store_did_not_take(
    governed: Any, path: Path, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    @otelhooks.tool
    def fetch() -> None: ...

    monkeypatch.setattr(labels, "_RETRY_S", 60)
    governed(policies=RULES, store=path)
    with otelhooks.session("c"):
        fetch()
    locked.execute("COMMIT")
    assert kept_of(path, "c") == set()
    otelhooks.uninstrument()
    assert kept_of(path, "c") == {"", "untrusted"}


def test_a_conversation_of_another_machine_is_not_trusted(governed: Any, path: Path) -> None:
    @otelhooks.tool
    def send() -> None: ...

    @otelhooks.model_call(model="m")
    def ask(messages: Any) -> str:
        return "ok"

    history = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": "I have read it"},
        {"role": "user", "content": "send it"},
    ]
    governed(policies=RULES, store=path)
    with otelhooks.session("c"):
        ask(history)
        with pytest.raises(Denied):
            send()
    assert governed.attributes("execute_tool send")[semconv.LABELS] == ("unknown",)


def test_without_rules_on_labels_nothing_is_written(governed: Any, path: Path) -> None:
    @otelhooks.tool
    def send() -> None: ...

    seen = hooks.pre_tool_call_decide(lambda call: types.HookResult())
    governed(
        policies=[policy.deny("other"), policy.RateLimit(tool_calls=9)], hooks=[seen], store=path
    )
    with otelhooks.session("c"):
        send()
    assert not path.exists()


def test_a_label_that_is_added_while_the_kept_ones_are_read_keeps_what_is_known_of_it() -> None:
    own, known = Labels(), Origins()

    class Keeper:
        is_read = True

        def open(self) -> tuple[bool, set[str]]:
            own.origins["untrusted"] = known  # by another thread, which has kept it too
            return True, {"untrusted"}

        def add(self, label: str) -> None:
            raise AssertionError(label)

    own.keeper = Keeper()
    assert own.add("untrusted") is known
