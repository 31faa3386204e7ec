"""A user whom the system does not know, without HOME, as in many containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import otelhooks
from otelhooks import approvals, policy
from otelhooks.cli import cli
from otelhooks.errors import ConfigError, Denied

pwd = pytest.importorskip("pwd", reason="this system has no user ids")


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "OTELHOOKS_STORE"):
        monkeypatch.delenv(name, raising=False)


@otelhooks.tool
def send() -> str:
    return "sent"


@otelhooks.tool
def look() -> str:
    return "seen"


def test_it_is_an_error_at_the_start_that_names_the_variables() -> None:
    with pytest.raises(ConfigError, match="no home folder\nhint: set HOME, or OTELHOOKS_STOPS"):
        otelhooks.instrument()
    with pytest.raises(ConfigError, match="no home folder\nhint: set HOME, or OTELHOOKS_STORE"):
        approvals.Queue()


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        ("stop --all", "OTELHOOKS_STOPS"),
        ("trace list", "OTELHOOKS_STORE"),
        ("approvals list", "OTELHOOKS_STORE"),
        ("audit verify", "OTELHOOKS_AUDIT"),
    ],
)
def test_so_it_is_for_commands(words: str, variable: str) -> None:
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code == 2
    assert f"hint: set HOME, or {variable}\n" in result.stderr


@pytest.mark.parametrize("exporter", ["none", "otlp"])
def test_telemetry_without_a_place_stops_no_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, exporter: str
) -> None:
    monkeypatch.setenv("OTELHOOKS_STOPS", "off")
    if exporter == "otlp":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    otelhooks.instrument(policies=[policy.deny("send")])
    with pytest.raises(Denied):
        send()
    assert "no local store to keep spans and events in: this user has no home" in caplog.text


def test_labels_are_remembered_by_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTELHOOKS_STOPS", "off")
    rules = [policy.label("look", adds="seen"), policy.deny("send", when_labels="seen")]
    otelhooks.instrument(policies=rules)
    with otelhooks.session("c"):
        assert send() == "sent"
        look()
        with pytest.raises(Denied, match="Denied by policy 'send'"):
            send()
    assert caplog.text.count("labels are kept in this process only: this user has no home") == 1


def test_with_the_variables_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTELHOOKS_STOPS", str(tmp_path / "stops"))
    monkeypatch.setenv("OTELHOOKS_STORE", str(tmp_path / "store.db"))
    handle = otelhooks.instrument(policies=[policy.allow_all()], audit=tmp_path / "audit")
    assert send() == "sent"
    assert handle.force_flush()
    assert (tmp_path / "store.db").exists()
