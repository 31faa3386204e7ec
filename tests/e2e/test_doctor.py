"""`otelhooks doctor --telemetry` against real servers: the hop and the cause are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.stack.stack import Stack


def doctor(stack: Stack, folder: Path, **settings: str) -> dict[str, dict[str, Any]]:
    """Return each hop by its name."""
    ended = subprocess.run(
        (sys.executable, "-m", "otelhooks", "doctor", "--telemetry", "--json"),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **stack.agent_environment(),
            **settings,
        },
        capture_output=True,
        text=True,
    )
    hops = {hop["name"]: hop for hop in json.loads(ended.stdout)["telemetry"]}
    assert ended.returncode == (0 if all(hop["is_reached"] for hop in hops.values()) else 1)
    return hops


def missed(hops: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: hop["detail"] for name, hop in hops.items() if not hop["is_reached"]}


def test_over_http_it_arrives(stack: Stack, tmp_path: Path) -> None:
    hops = doctor(stack, tmp_path)

    assert missed(hops) == {}
    assert list(hops)[-1] == "trace store"


def test_over_grpc_it_arrives(stack: Stack, tmp_path: Path) -> None:
    hops = doctor(
        stack,
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT=stack.url("OTELCOL_GRPC_PORT"),
        OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
    )

    assert missed(hops) == {}


def test_a_wrong_token_is_the_collectors_refusal(stack: Stack, tmp_path: Path) -> None:
    hops = doctor(stack, tmp_path, OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20wrong")

    assert list(missed(hops)) == ["collector: traces"]
    assert "401" in missed(hops)["collector: traces"]


def test_a_collector_that_sends_astray_says_what_it_holds(stack: Stack, tmp_path: Path) -> None:
    collector = stack.collector("otelcol-astray", settings={"TRACES_ENDPOINT": "127.0.0.1:1"})
    collector.start()
    try:
        url = "http://127.0.0.1:"
        hops = doctor(
            stack,
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=url + collector.environment["OTELCOL_HTTP_PORT"],
            OTELHOOKS_COLLECTOR_METRICS=(
                f"{url}{collector.environment['OTELCOL_METRICS_PORT']}/metrics"
            ),
        )
    finally:
        collector.stop()

    assert list(missed(hops)) == ["trace store"]
    assert "waiting in the queue of `otlp_grpc/traces`" in missed(hops)["trace store"]
