"""Who else traces the agents: found, told once with what to set, and where openai-agents sends.

The real packages are in `tests/beside`. Here a module is put where theirs lie, with an instrumentor
of the real base class.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

import otelhooks
from otelhooks.setup import tracers

# Not there with the lowest versions: see pyproject.toml.
instrumentor = pytest.importorskip("opentelemetry.instrumentation.instrumentor")


class Instrumentor(instrumentor.BaseInstrumentor):
    """Patches nothing."""

    def instrumentation_dependencies(self):
        return ()

    def _instrument(self, **kwargs):
        """Do nothing."""

    def _uninstrument(self, **kwargs):
        """Do nothing."""


@pytest.fixture
def tracer(monkeypatch):
    """An instrumentor of langchain that is imported, and not on."""
    monkeypatch.setattr(Instrumentor, "_instance", None)
    name = "openinference.instrumentation.langchain"
    module = ModuleType(name)
    module.Instrumentor = Instrumentor
    monkeypatch.setitem(sys.modules, name, module)
    return Instrumentor()


@pytest.fixture
def start(caplog, providers):
    caplog.set_level(logging.INFO, logger="otelhooks")

    def begin(**settings) -> list[str]:
        otelhooks.instrument(frameworks=settings.pop("frameworks", []), **settings, **providers)
        return said()

    def said() -> list[str]:
        found = [f"{r.levelname} {r.getMessage()}" for r in caplog.records]
        return [line for line in found if "traced by" in line or "annotate:" in line]

    begin.said = said
    return begin


def turn(framework: str) -> None:
    """Begin a turn of an adapter."""
    with otelhooks.turn("hello"):
        pass


class TestOthers:
    def test_one_that_is_on_is_named_at_start_with_what_to_set(self, start, tracer):
        tracer.instrument()
        [line] = start()
        assert line.startswith("WARNING langchain is also traced by")
        assert "`openinference.instrumentation.langchain`" in line
        assert 'hint: set spans="annotate"' in line

    def test_one_that_is_only_imported_is_not(self, start, tracer):
        assert tracers.active("langchain") == []
        assert start() == []

    @pytest.mark.parametrize("spans", ["auto", "own", "annotate", "off"])
    def test_who_has_chosen_is_told_and_not_warned(self, start, tracer, spans):
        tracer.instrument()
        [line] = start(spans=spans)
        assert line.startswith("INFO langchain is also traced by")
        assert line.endswith(f"spans={spans}")

    def test_one_that_is_switched_on_later_is_named_at_the_first_turn_and_once(
        self, start, monkeypatch
    ):
        """Hand-written turns are of the framework `otelhooks`."""
        start()
        name = "openinference.instrumentation.otelhooks"
        module = ModuleType(name)
        module.Instrumentor = Instrumentor
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(Instrumentor, "_instance", None)
        Instrumentor().instrument()
        for _ in range(2):
            turn("otelhooks")
        assert [line[:7] for line in start.said()] == ["WARNING"]

    def test_annotate_without_anybody_says_where_verdicts_are(self, start):
        start(spans="annotate")
        turn("otelhooks")
        [line] = start.said()
        assert line.startswith("INFO")
        assert "verdicts are in events, metrics and audit" in line

    def test_what_cannot_be_read_stops_no_start(self, start, monkeypatch):
        class Broken(ModuleType):
            @property
            def __dict__(self):
                raise RuntimeError("broken")

        name = "openinference.instrumentation.langchain"
        monkeypatch.setitem(sys.modules, name, Broken(name))
        assert start() == []

    def test_datadog_is_named(self, start, monkeypatch, caplog):
        caplog.set_level(logging.INFO, logger="otelhooks")
        monkeypatch.setitem(sys.modules, "agents", SimpleNamespace(_datadog_patch=True))
        tracers.tell("openai_agents", "auto", is_chosen=False)
        assert "openai_agents is also traced by `ddtrace`" in caplog.text


class BackendSpanExporter:
    """The name of the SDK's own."""

    def __init__(self, key=None) -> None:
        self._api_key = key


def provider(*exporters, manual=None, disabled=False):
    processors = [SimpleNamespace(_exporter=each) for each in exporters]
    group = SimpleNamespace(_processors=processors)
    return SimpleNamespace(_multi_processor=group, _manual_disabled=manual, _disabled=disabled)


class TestTracesOfOpenAIAgents:
    @pytest.mark.parametrize(
        ("made", "env", "sends"),
        [
            (None, {}, False),
            (None, {"OPENAI_API_KEY": "k"}, True),
            (None, {"OPENAI_API_KEY": "k", "OPENAI_AGENTS_DISABLE_TRACING": "1"}, False),
            (provider(BackendSpanExporter("k")), {}, True),
            (provider(BackendSpanExporter()), {}, False),
            (provider(BackendSpanExporter()), {"OPENAI_API_KEY": "k"}, True),
            (provider(object()), {"OPENAI_API_KEY": "k"}, False),
            (provider(BackendSpanExporter("k"), disabled=True, manual=True), {}, False),
            (provider(BackendSpanExporter("k")), {"OPENAI_AGENTS_DISABLE_TRACING": "true"}, False),
            (
                provider(BackendSpanExporter("k"), manual=False),
                {"OPENAI_AGENTS_DISABLE_TRACING": "true"},
                True,
            ),
            (SimpleNamespace(wrapped=provider(BackendSpanExporter("k"))), {}, True),
        ],
    )
    def test_they_are_reported_where_they_are_sent(self, monkeypatch, caplog, made, env, sends):
        caplog.set_level(logging.INFO, logger="otelhooks")
        for name in ("OPENAI_API_KEY", "OPENAI_AGENTS_DISABLE_TRACING"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        module = SimpleNamespace(GLOBAL_TRACE_PROVIDER=made)
        monkeypatch.setitem(sys.modules, "agents.tracing.setup", module)
        assert tracers.sends_traces() is sends
        tracers.tell("openai_agents", "auto", is_chosen=False)
        assert ("sends traces of its own" in caplog.text) is sends
        assert ("OPENAI_AGENTS_DISABLE_TRACING=1" in caplog.text) is sends
