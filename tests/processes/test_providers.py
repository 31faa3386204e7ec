"""Providers of a program from its start to its exit, and of the children that it forks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from otelhooks.records import semconv


def run(code: str, tmp_path) -> str:
    """Run a script in a fresh interpreter with the store at `tmp_path`."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("OTEL", "PYTHONWARN"))},
        "OTELHOOKS_STORE": str(tmp_path / "store.db"),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def stored(tmp_path) -> list[str]:
    store = sqlite3.connect(tmp_path / "store.db")
    try:
        return sorted(name for [name] in store.execute("select name from spans"))
    finally:
        store.close()


def test_what_waits_is_stored_at_exit(tmp_path):
    run(
        """
        from otelhooks.config import load
        from otelhooks.telemetry.providers import resolve
        providers = resolve(load())
        providers.tracer_provider.get_tracer("t").start_span("at exit").end()
        """,
        tmp_path,
    )
    assert stored(tmp_path) == ["at exit"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("leave", ["sys.exit", "multiprocessing"])
def test_a_forked_child_stores_its_spans_under_an_identity_of_its_own(tmp_path, leave):
    output = run(
        f"""
        import multiprocessing, os, sys, warnings
        warnings.simplefilter("ignore")
        from otelhooks.config import load
        from otelhooks.records import semconv
        from otelhooks.telemetry.providers import resolve

        providers = resolve(load())
        os.register_at_fork(after_in_child=providers.after_fork)

        def span(name):
            providers.tracer_provider.get_tracer("t").start_span(name).end()
            identity = providers.tracer_provider.resource.attributes
            print(identity[semconv.SERVICE_INSTANCE_ID], flush=True)

        def child():
            changed = []
            providers.on_change(changed.append)
            assert providers.refresh() is True
            assert changed == [providers]
            span("child")

        span("parent")
        if {leave == "sys.exit"}:
            pid = os.fork()
            if pid == 0:
                child()
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        else:
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join()
            assert process.exitcode == 0
        assert providers.refresh() is False
        """,
        tmp_path,
    )
    assert stored(tmp_path) == ["child", "parent"]
    assert len(set(output.split())) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("leave", ["sys.exit", "multiprocessing", "uninstrument", "own turn"])
def test_a_child_stores_the_calls_that_it_makes_in_a_turn_of_its_parent(tmp_path, leave):
    run(
        f"""
        import multiprocessing, os, sys, warnings
        warnings.simplefilter("ignore")
        import otelhooks
        from otelhooks import policy

        @otelhooks.tool
        def look():
            return 1

        @otelhooks.tool
        def send():
            return 1

        def child():
            look()
            try:
                send()
            except otelhooks.errors.Denied:
                pass
            if {leave == "own turn"}:
                with otelhooks.turn("more", agent="b"):
                    pass

        otelhooks.instrument(policies=[policy.deny("send"), policy.allow("*")])
        with otelhooks.turn("begin", agent="a"):
            look()
            if {leave == "multiprocessing"}:
                process = multiprocessing.get_context("fork").Process(target=child)
                process.start()
                process.join()
            else:
                pid = os.fork()
                if pid == 0:
                    child()
                    if {leave == "uninstrument"}:
                        otelhooks.uninstrument()
                        os._exit(0)
                    sys.exit(0)
                os.waitpid(pid, 0)
        """,
        tmp_path,
    )
    own = ["invoke_agent b"] if leave == "own turn" else []
    calls = [name for name in stored(tmp_path) if "invoke_agent a" not in name]
    assert calls == sorted(["execute_tool look"] * 2 + ["execute_tool send", *own])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_never_refreshes_leaves_the_parents_alone(tmp_path):
    run(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        from otelhooks.config import load
        from otelhooks.telemetry.providers import resolve
        providers = resolve(load())
        os.register_at_fork(after_in_child=providers.after_fork)
        if (pid := os.fork()) == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        providers.tracer_provider.get_tracer("t").start_span("parent").end()
        """,
        tmp_path,
    )
    assert stored(tmp_path) == ["parent"]


SET_LATER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
import otelhooks
from otelhooks import policy

@otelhooks.tool
def run_command(command: str) -> None: ...

otelhooks.instrument(policies=[policy.deny("*")], tracer_provider=TracerProvider())
assert "opentelemetry._logs" not in sys.modules

from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export

console = getattr(export, "ConsoleLogRecordExporter", None) or export.ConsoleLogExporter
loggers = LoggerProvider()
loggers.add_log_record_processor(export.SimpleLogRecordProcessor(console()))
set_logger_provider(loggers)
try:
    run_command("ls")
except otelhooks.errors.Denied:
    loggers.force_flush()
"""


def test_a_logger_provider_is_found_in_a_program_that_imports_the_logs_api_after_us():
    command = [sys.executable, "-W", "ignore", "-c", SET_LATER]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert semconv.EVENT_POLICY_DECISION in run.stdout
