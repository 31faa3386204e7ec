"""Fixtures for every test: nothing leaves the machine, nothing outlives its test.

The autouse fixtures block sockets but loopback, point all data at `tmp_path`, give candidate sets
time, and put the global state of otelhooks and OpenTelemetry back. The others are for tests that
look at telemetry: pass `tracer_provider`, `meter_provider` or `logger_provider` on, or `providers`,
which are all three; read `exporter`, `metrics_reader` or `log_exporter`. These providers have no
threads and need no shutdown.
"""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import itertools
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any

import hypothesis
import opentelemetry._logs._internal as global_logs
import opentelemetry.metrics._internal as global_metrics
import opentelemetry.sdk.trace
import opentelemetry.trace as global_trace
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import IdGenerator, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

import otelhooks
from tests.logs import InMemoryLogRecordExporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The same examples each time: what guards main does not hang on chance. `make fuzz` tries others.
# No time limits: a busy machine is no failure.
hypothesis.settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
if "FUZZ_EXAMPLES" not in os.environ:
    hypothesis.settings.load_profile("same")

_folders = itertools.count()

LOCAL_NAMES = {"", "localhost", "ip6-localhost", socket.gethostname()}


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of every garbage collection."""
    gc.freeze()


class CountingIds(IdGenerator):
    """Trace and span ids 1, 2, 3, ..., so that a whole tree can be compared with a literal."""

    def __init__(self) -> None:
        self._traces = itertools.count(1)
        self._spans = itertools.count(1)

    def generate_trace_id(self) -> int:
        return next(self._traces)

    def generate_span_id(self) -> int:
        return next(self._spans)


class Clock:
    """A wall clock in nanoseconds that starts at 1 s and goes on by 1 ms at each reading."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run a coroutine test on both backends; parametrize it where a framework knows only one."""
    return request.param


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Finished spans of `tracer_provider`, in the order in which they ended."""
    return InMemorySpanExporter()


@pytest.fixture
def tracer_provider(exporter: InMemorySpanExporter) -> TracerProvider:
    """A provider of its own, not the global one, with counting ids."""
    provider = TracerProvider(id_generator=CountingIds(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def metrics_reader() -> InMemoryMetricReader:
    """Metrics of `meter_provider`: `get_metrics_data()` collects, None while there are none."""
    return InMemoryMetricReader()


@pytest.fixture
def meter_provider(metrics_reader: InMemoryMetricReader) -> MeterProvider:
    """A provider of its own, not the global one."""
    return MeterProvider(metric_readers=[metrics_reader], shutdown_on_exit=False)


@pytest.fixture
def log_exporter() -> InMemoryLogRecordExporter:
    """Log records and events of `logger_provider`."""
    return InMemoryLogRecordExporter()


@pytest.fixture
def logger_provider(log_exporter: InMemoryLogRecordExporter) -> LoggerProvider:
    """A provider of its own, not the global one."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(log_exporter))
    return provider


@pytest.fixture
def providers(
    tracer_provider: TracerProvider, meter_provider: MeterProvider, logger_provider: LoggerProvider
) -> dict[str, Any]:
    """All three, as arguments of `otelhooks.instrument`."""
    return {
        "tracer_provider": tracer_provider,
        "meter_provider": meter_provider,
        "logger_provider": logger_provider,
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Make the wall clock of otelhooks and of the SDK's spans tick by 1 ms a reading."""
    clock = Clock()
    monkeypatch.setattr(time, "time_ns", clock)
    monkeypatch.setattr(opentelemetry.sdk.trace, "time_ns", clock)
    return clock


@pytest.fixture(autouse=True)
def own_data(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Point store, audit and every data folder at the test's own folder; forget outside settings.

    The folder is `tmp_path` if the test uses it. Other tests get a path that does not exist yet:
    making and removing a folder takes longer than most of them.
    """
    for name in [n for n in os.environ if n.startswith(("OTEL_", "OTELHOOKS_"))]:
        monkeypatch.delenv(name)
    has_folder = "tmp_path" in request.fixturenames
    unmade = tmp_path_factory.getbasetemp() / f"data-{next(_folders)}"
    folder = request.getfixturevalue("tmp_path") if has_folder else unmade
    for kind in ("DATA", "STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / f"xdg-{kind.lower()}"))
    monkeypatch.setenv("OTELHOOKS_STORE", str(folder / "store.db"))
    yield
    if unmade.exists():
        shutil.rmtree(unmade, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def time_for_candidates() -> Iterator[None]:
    """Let candidate sets answer however late a busy machine comes to their threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otelhooks.policy.candidate.TIME_LIMIT_S", 60)
        yield


@pytest.fixture(autouse=True)
def fresh_state(own_data: None) -> Iterator[None]:
    """Undo `instrument()` and put OpenTelemetry's global providers back after the test."""
    owners: list[tuple[Any, str]] = [
        (global_trace, "_TRACER_PROVIDER"),
        (global_metrics, "_METER_PROVIDER"),
        (global_logs, "_LOGGER_PROVIDER"),
    ]
    before = [getattr(owner, name) for owner, name in owners]
    yield
    getattr(otelhooks, "uninstrument", lambda: None)()
    for (owner, name), provider in zip(owners, before, strict=True):
        if getattr(owner, name) is not provider:
            setattr(owner, name, provider)
            setattr(owner, f"{name}_SET_ONCE", Once())


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse name look-ups and connections that leave the machine, and fail the test for trying.

    A refusal alone would not do: telemetry fails open and would swallow it. Sockets opened in C
    (gRPC) are not seen.
    """
    attempts: list[str] = []

    def guard(real: Callable[..., Any], host_of: Callable[..., object]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            host = host_of(*args, **kwargs)
            if not is_local(host):
                attempts.append(f"{real.__name__} to `{host}`")
                raise OSError(f"a test may not leave the machine: {attempts[-1]}")
            return real(*args, **kwargs)

        return guarded

    def host_of_address(_self: socket.socket, *args: Any) -> object:
        address = args[-1]  # sendto has flags before it
        return address[0] if isinstance(address, tuple) else None

    for name in ("connect", "connect_ex", "sendto"):
        real = getattr(socket.socket, name)
        monkeypatch.setattr(socket.socket, name, guard(real, host_of_address))
    find = guard(socket.getaddrinfo, lambda host, *_args, **_kwargs: host)
    monkeypatch.setattr(socket, "getaddrinfo", find)
    yield
    assert not attempts


def is_local(host: object) -> bool:
    """Return whether a host is this machine: loopback, unspecified, a local name, or no host."""
    if host is None:
        return True
    name = host.decode() if isinstance(host, bytes) else str(host)
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name.partition("%")[0])
        return address.is_loopback or address.is_unspecified
    return name.lower() in LOCAL_NAMES
