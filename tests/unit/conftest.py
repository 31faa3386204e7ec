"""Fixtures of the core: `otelhooks.instrument()` without any adapter, and what it emitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otelhooks
from otelhooks.setup import catalogue
from tests.logs import InMemoryLogRecordExporter
from tests.unit.noting import Tool


def _conformance() -> Any:
    path = Path(__file__).parent.parent / "conformance.py"
    spec = util.spec_from_file_location("otelhooks_conformance", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Governed:
    """Instruments with providers of the test's own, and reads what came out."""

    def __init__(
        self,
        providers: dict[str, Any],
        exporter: InMemorySpanExporter,
        reader: InMemoryMetricReader,
        logs: InMemoryLogRecordExporter,
    ) -> None:
        self._providers = providers
        self._exporter = exporter
        self._reader = reader
        self._logs = logs

    def __call__(self, **settings: Any) -> otelhooks.Handle:
        """Instrument."""
        return otelhooks.instrument(**{**self._providers, **settings})

    @property
    def spans(self) -> list[ReadableSpan]:
        """Finished spans, in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """Return the one finished span of a name."""
        [found] = [span for span in self.spans if span.name == name]
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        """Return the attributes of the one finished span of a name."""
        return dict(self.span(name).attributes or {})

    @property
    def records(self) -> list[Any]:
        """Log records."""
        return [entry.log_record for entry in self._logs.get_finished_logs()]

    @property
    def events(self) -> list[str]:
        """Names of events, in order."""
        return [record.event_name for record in self.records]

    def event(self, name: str) -> list[dict[str, Any]]:
        """Return the attributes of the events of a name."""
        return [dict(r.attributes or {}) for r in self.records if r.event_name == name]

    def points(self, metric: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]

    def total(self, metric: str, **attributes: Any) -> float:
        """Return the sum of a counter's points that have these attributes."""
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        return sum(
            point.value
            for point in self.points(metric)
            if wanted.items() <= dict(point.attributes).items()
        )

    @property
    def trees(self) -> list[Any]:
        """Each trace as nested (name, children), in the order in which spans started."""
        spans = sorted(self.spans, key=lambda span: (span.start_time or 0, span.context.span_id))
        ids = {span.context.span_id for span in spans}

        def below(parent: int | None) -> list[Any]:
            return [
                (span.name, below(span.context.span_id))
                for span in spans
                if (span.parent.span_id if span.parent and span.parent.span_id in ids else None)
                == parent
            ]

        return below(None)

    def check(self) -> None:
        """Check everything against the table of names, types and values."""
        _conformance().check_all(self.spans, self._reader.get_metrics_data(), self.records)


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse to start a process or to fork: tests that do so are in `tests/processes`."""
    attempts: list[str] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        attempts.append(f"started a process: {args[1:]}" if args else "forked")
        raise OSError("this test belongs in `tests/processes`")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    monkeypatch.setattr(os, "fork", refuse, raising=False)
    yield
    assert attempts == []


@pytest.fixture
def no_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every framework alone, installed or not."""
    monkeypatch.setattr(catalogue, "ADAPTERS", {})


@pytest.fixture
def governed(
    no_adapters: None,
    providers: dict[str, Any],
    exporter: InMemorySpanExporter,
    metrics_reader: InMemoryMetricReader,
    log_exporter: InMemoryLogRecordExporter,
) -> Iterator[Governed]:
    """Call it to instrument; everything it emitted is checked at the end."""
    made = Governed(providers, exporter, metrics_reader, log_exporter)
    yield made
    made.check()


@pytest.fixture
def tool() -> Tool:
    """A tool that notes what it was run with."""
    return Tool()
