"""What is wrong is refused at the start, by a message that names the file and the line or the key.

The wrong files are made here from the shipped ones by one change each.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.stack.process import Process, StartError
from tests.e2e.stack.stack import FILES, PROMETHEUS_FLAGS, Stack, require_otlp_receiver
from tests.ports import free_ports

Refused = Callable[..., str]


@pytest.fixture
def refused(stack: Stack) -> Refused:
    """Start a collector with other settings; return why it ended."""

    def refused(**settings: str) -> str:
        collector = stack.collector("otelcol-wrong", settings=settings)
        try:
            with pytest.raises(StartError) as error:
                collector.start(20)
        finally:
            collector.stop()
        return str(error.value)

    return refused


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """Return a shipped file with one change."""
    text = (FILES / name).read_text("utf-8")
    assert old in text
    path = folder / name
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


def said(*command: str | Path) -> str:
    """Run a checker that must fail; return what it said."""
    ended = subprocess.run(tuple(map(str, command)), capture_output=True, text=True)
    assert ended.returncode != 0, ended.stdout
    return ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fsync: true", "fsinc: true", ("file_storage/queue", "fsinc")),
        ("tail_sampling:\n", "tail_sampler:\n", ("tail_sampler",)),
        ("replace_all_patterns(span.", "replace_al_patterns(span.", ("replace_al_patterns",)),
        ("log.event_name", "log.event_nam", ("filter/decision_events", "event_nam")),
        ("exporters: [file/audit]", "exporters: [file/adit]", ("logs/audit", "file/adit")),
    ],
)
def test_a_wrong_word_in_the_collectors_file(
    old: str, new: str, words: tuple[str, ...], binaries: dict[str, Path], tmp_path: Path
) -> None:
    file = changed(tmp_path, "single.yaml", old, new)

    message = said(binaries["otelcol"], "validate", f"--config={file}")

    for word in words:
        assert word in message


def test_a_secret_that_is_not_there(refused: Refused, tmp_path: Path) -> None:
    missing = tmp_path / "no_token"

    assert f"open {missing}: no such file" in refused(OTLP_TOKEN_FILE=str(missing))


def test_a_token_file_that_is_empty(refused: Refused, tmp_path: Path) -> None:
    empty = tmp_path / "token"
    empty.touch()

    assert f'credentials file "{empty}" is empty' in refused(OTLP_TOKEN_FILE=str(empty))


@pytest.mark.parametrize("port", ["OTELCOL_GRPC_PORT", "OTELCOL_HTTP_PORT", "OTELCOL_HEALTH_PORT"])
def test_a_port_in_use(port: str, refused: Refused) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])

        assert f"127.0.0.1:{number}: bind: address already in use" in refused(**{port: number})


def test_a_state_folder_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    message = refused(OTELCOL_STATE=str(tmp_path / "file"))

    assert "file_storage/queue" in message
    assert f"{tmp_path}/file/queue" in message


def test_a_number_that_is_none(refused: Refused) -> None:
    message = refused(OTELCOL_SAMPLING_PERCENTAGE="ten")

    assert "tail_sampling" in message
    assert "sampling_percentage" in message


def test_a_prometheus_without_the_otlp_receiver(stack: Stack) -> None:
    there = stack.processes["prometheus"]
    port = str(free_ports(1)[0])
    command = [
        argument.replace(stack.settings["PROMETHEUS_PORT"], port).replace("/data", "/no-otlp")
        for argument in there.command
        if argument != PROMETHEUS_FLAGS[0]
    ]
    url = f"http://127.0.0.1:{port}"
    prometheus = Process(
        "no-otlp",
        command,
        there.environment,
        stack.folder,
        stack.folder / "no-otlp.log",
        f"{url}/-/ready",
    )
    prometheus.start()
    try:
        with pytest.raises(StartError, match="has no OTLP receiver"):
            require_otlp_receiver(url)
    finally:
        prometheus.stop()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[1h] offset 5m", "[1h] ofset 5m", ("OtelhooksCriticalDeny", "parse error")),
        ("expr: |", "exp: |", ("line", "exp")),
    ],
)
def test_a_typo_in_the_rules(
    old: str, new: str, words: tuple[str, ...], binaries: dict[str, Path], tmp_path: Path
) -> None:
    file = changed(tmp_path, "rules.yaml", old, new)

    message = said(binaries["promtool"], "check", "rules", file)

    assert str(file) in message
    for word in words:
        assert word in message


def test_a_wrong_key_in_prometheus_file(binaries: dict[str, Path], tmp_path: Path) -> None:
    file = changed(tmp_path, "prometheus.yaml", "out_of_order_time_window", "out_of_order_window")

    message = said(binaries["promtool"], "check", "config", "--syntax-only", file)

    assert "out_of_order_window" in message
    assert "line" in message


def test_a_wrong_key_in_alertmanagers_file(binaries: dict[str, Path], tmp_path: Path) -> None:
    file = changed(tmp_path, "alertmanager.yaml", "url_file", "url_path")

    message = said(binaries["amtool"], "check-config", file)

    assert "url_path" in message
    assert "line" in message


def test_a_wrong_key_in_jaegers_file(binaries: dict[str, Path], tmp_path: Path) -> None:
    file = changed(tmp_path, "jaeger.yaml", "ephemeral", "ephemerall")

    message = said(binaries["jaeger"], "validate", f"--config={file}")

    assert "jaeger_storage" in message
    assert "ephemerall" in message


def test_the_shipped_files_are_right(binaries: dict[str, Path], stack: Stack) -> None:
    for command in (
        (binaries["otelcol"], "validate", f"--config={FILES / 'single.yaml'}"),
        (
            *(binaries["otelcol"], "validate"),
            *(f"--config={FILES / name}" for name in ("single.yaml", "tls.yaml")),
        ),
        (binaries["promtool"], "check", "config", stack.folder / "prometheus/prometheus.yaml"),
        (binaries["promtool"], "check", "rules", FILES / "rules.yaml"),
        (binaries["amtool"], "check-config", FILES / "alertmanager.yaml"),
        (binaries["jaeger"], "validate", f"--config={FILES / 'jaeger.yaml'}"),
    ):
        ended = subprocess.run(
            tuple(map(str, command)), capture_output=True, text=True, cwd=stack.folder
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
