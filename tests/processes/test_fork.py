"""What a forked child has of its own, and what it has of its parent."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import Counter as SdkCounter
from opentelemetry.sdk.metrics import Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

import otelhooks
from otelhooks import errors, hooks, policy
from otelhooks.errors import Denied
from otelhooks.hooks import background, own_threads, results
from otelhooks.hooks.context import SessionContext
from otelhooks.hooks.drive import Run, drive, run
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.watch import Watch
from otelhooks.pipeline import runtime
from otelhooks.pipeline.answers import Answers, Asked
from otelhooks.policy.limits.counters import Counter, MemoryStorage
from otelhooks.records import semconv
from otelhooks.store.labels import LabelBook
from otelhooks.telemetry.metrics import Instruments

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@otelhooks.tool
def t(x: int = 1) -> int:
    return x


def _reason() -> str:
    try:
        t()
    except Denied as error:
        return str(error)
    return ""


def test_a_child_has_no_permit_of_a_call_that_its_parent_may_run():
    answers = Answers()
    answers.book(Asked("call_1", "t", {"x": 1}))
    child = os.fork()
    if not child:
        os._exit(0 if answers.find("", "call_1") is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert answers.find("", "call_1") is not None


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 15
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class TestRules:
    def test_a_forked_child_is_governed_and_audits_into_a_segment_of_its_own(
        self, governed: Any, tmp_path: pathlib.Path
    ) -> None:
        folder = tmp_path / "audit"
        handle = governed(policies=[policy.deny("t", reason="first")], audit=folder)
        with pytest.raises(Denied):
            t()
        context = multiprocessing.get_context("fork")
        queue: Any = context.SimpleQueue()
        process = context.Process(target=lambda: queue.put(_reason()))
        process.start()
        assert queue.get() == "first"
        process.join(20)
        assert process.exitcode == 0
        assert handle.force_flush()
        segments = [file for file in folder.rglob("*.jsonl") if file.stat().st_size]
        assert len(segments) == 2

    def test_a_child_that_a_tool_forks_denies_as_its_parent_does(self, governed: Any) -> None:
        def bad(args: dict[str, Any]) -> bool:
            return args["x"] == 13

        governed(policies=[policy.deny("t", when=bad), policy.allow("*")])

        @otelhooks.tool
        def split() -> int:
            child = os.fork()
            if child:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            try:
                t(13)
            except errors.Denied:
                os._exit(0)
            finally:
                os._exit(1)

        assert split() == 0

    def test_the_child_waits_for_no_thread_of_the_parent(self, governed: Any) -> None:
        governed(policies=[policy.allow("t")])
        rt = runtime.active()
        assert rt is not None
        rt.pending = 3
        child = os.fork()
        if child == 0:
            here = runtime.active()
            ok = here is not None and here.pending is None and t() == 1
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        rt.pending = None

    def test_a_child_does_not_tell_the_end_of_conversations_of_its_parent(
        self, governed: Any, tmp_path: pathlib.Path
    ) -> None:
        told = tmp_path / "told"

        @hooks.on_session_end
        def end(context: Any) -> None:
            with told.open("a") as file:
                file.write(f"{os.getpid()}\n")

        governed(hooks=[end])
        with otelhooks.session("a"):
            child = os.fork()
            if child == 0:
                with otelhooks.session("of its own"):
                    pass
                otelhooks.uninstrument()  # as at its exit
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert told.read_text().split() == [str(child), str(os.getpid())]

    def test_a_child_looks_for_changed_policy_files_as_well(
        self, governed: Any, tmp_path: pathlib.Path
    ) -> None:
        file = tmp_path / "policies" / "base.yaml"
        file.parent.mkdir()
        file.write_text("policies: [{deny: t, reason: first}]\n")
        governed(policies=file.parent, reload=True)
        context = multiprocessing.get_context("fork")
        mine, other_end = context.Pipe()

        def child() -> None:
            other_end.send(_reason())
            other_end.recv()
            other_end.send(_until(lambda: _reason() == "second"))

        process = context.Process(target=child)
        process.start()
        assert mine.recv() == "first"
        new = file.with_suffix(".new")
        new.write_text("policies: [{deny: t, reason: second}]\n")
        new.replace(file)  # in one step, as editors and deployments do
        mine.send(None)
        assert mine.recv() is True
        process.join(10)


def test_it_has_a_queue_of_background_hooks_of_its_own() -> None:
    def put(function: Any, data: Any) -> None:
        found = HookSet(registrations(hooks.on_event(background=True)(function))).at("event")
        drive(results.inspect_point(found, SessionContext(), data, Watch()))

    put(lambda data: None, 1)
    child = os.fork()
    if child == 0:
        seen: list[Any] = []
        put(seen.append, 7)
        os._exit(0 if background.flush() and seen == [7] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_it_has_a_loop_for_coroutines_of_its_own() -> None:
    async def suspending() -> int:
        await asyncio.sleep(0)
        return 1

    assert run(Run(suspending)) == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if run(Run(suspending)) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_it_counts_on_though_another_thread_was_counting() -> None:
    storage = MemoryStorage()
    counter = Counter(10, 60, storage)
    counter.take("a")
    with storage._lock:  # as another thread would hold it
        child = os.fork()
        if child == 0:
            os._exit(counter.read("a") if counter.take("a") else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_open_questions_of_the_parent_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_threads, "MAX_WAITING", 1)
    monkeypatch.setattr(own_threads, "_slots", threading.BoundedSemaphore(1))
    release = threading.Event()
    waiting = own_threads.start(release.wait, 10)
    child = os.fork()
    if child == 0:
        os._exit(0 if run(Run(lambda: 5, is_question=True, timeout=5)) == 5 else 1)
    assert os.waitpid(child, 0)[1] == 0
    own_threads._forget()
    assert run(Run(lambda: 5, is_question=True, timeout=5)) == 5
    release.set()
    waiting.result(10)


def test_it_keeps_labels_though_another_thread_was_remembering(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "folder" / "store.db"
    book = LabelBook(path)
    book.open("c")
    with book._lock:
        child = os.fork()
        if child == 0:
            book.add("c", "from the child")
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert LabelBook(path).open("c") == (True, frozenset({"from the child"}))


@pytest.mark.parametrize("temporality", ["CUMULATIVE", "DELTA"])
def test_it_counts_metrics_and_collects_though_a_lock_was_held(temporality: str) -> None:
    kinds = (SdkCounter, Histogram, ObservableCounter)
    preferred = dict.fromkeys(kinds, AggregationTemporality[temporality])
    reader = InMemoryMetricReader(preferred_temporality=preferred)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    instruments = Instruments(provider, "1")
    cell = instruments.denies.cell({semconv.POLICY_DECISION: semconv.DECISION_DENY})
    duration = semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION
    with cell.lock, instruments._drain_lock, instruments.denies._lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                instruments.after_fork()
                cell.add()
                instruments.record(duration, 0.1, {semconv.GEN_AI_TOOL_NAME: "run_command"})
                data = reader.get_metrics_data()
                found = {
                    metric.name: metric
                    for resource in data.resource_metrics
                    for scope in resource.scope_metrics
                    for metric in scope.metrics
                }
                [point] = found[semconv.METRIC_POLICY_DENIES].data.data_points
                code = 0 if point.value == 1 and duration in found else 2
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    instruments.close()
    provider.shutdown()
