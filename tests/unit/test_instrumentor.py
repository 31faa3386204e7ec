"""The entry point of ``opentelemetry-instrument``."""

import importlib
import sys

import pytest

from otelhooks.errors import ConfigError

pytest.importorskip("opentelemetry.instrumentation", reason="opentelemetry-instrument is not there")

from otelhooks.setup import instrumentor as entry
from otelhooks.setup.instrumentor import OtelHooksInstrumentor


class TestInstrumentor:
    @pytest.fixture
    def calls(self, monkeypatch):
        calls = []
        monkeypatch.setattr(entry, "instrument", lambda **kw: calls.append(("on", kw)))
        monkeypatch.setattr(entry, "uninstrument", lambda: calls.append(("off",)))
        yield calls
        OtelHooksInstrumentor._instance = None

    def test_it_switches_otelhooks_on_and_off(self, calls):
        instrumentor = OtelHooksInstrumentor()
        instrumentor.instrument(tracer_provider="given", meter_provider=None, mode="monitor")
        instrumentor.uninstrument()

        assert calls == [("on", {"tracer_provider": "given", "mode": "monitor"}), ("off",)]
        assert instrumentor.instrumentation_dependencies() == ()

    def test_called_by_hand_it_raises_what_instrument_raises(self, monkeypatch):
        def fail(**kwargs):
            raise ConfigError("bad policy")

        monkeypatch.setattr(entry, "instrument", fail)
        with pytest.raises(ConfigError, match="bad policy"):
            OtelHooksInstrumentor().instrument()

    def test_under_opentelemetry_instrument_a_failure_stops_the_program(self, monkeypatch, capsys):
        """That command would log the error, and run the program without policies."""

        def fail(**kwargs):
            raise ConfigError("bad policy")

        importlib.import_module("opentelemetry.instrumentation.auto_instrumentation")
        monkeypatch.setattr(entry, "instrument", fail)
        monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
        monkeypatch.setattr("os._exit", sys.exit)
        with pytest.raises(SystemExit) as caught:
            OtelHooksInstrumentor().instrument()

        assert caught.value.code == 2
        assert "so the program does not run: bad policy" in capsys.readouterr().err

    def test_it_is_published_as_an_entry_point(self):
        from importlib.metadata import entry_points

        (entry,) = entry_points(group="opentelemetry_instrumentor", name="otelhooks")

        assert entry.load() is OtelHooksInstrumentor
