"""Choose and create the exporters that the ``OTEL_*`` variables name.

A signal whose exporter is not named goes to OTLP if any variable names OTLP, else nowhere. The
protocol defaults to ``http/protobuf``, and to ``grpc`` on port 4317.

Source: specification, SDK environment variables; OTLP exporter configuration.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.plain_text import without_credentials
from otelhooks.telemetry import collector_answers
from otelhooks.telemetry.built import NOWHERE
from otelhooks.telemetry.spill import Spilling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_log = logging.getLogger("otelhooks.telemetry")

_PROTOCOLS = ("http/protobuf", "grpc")
_ENTRY_POINTS = {
    "traces": "opentelemetry_traces_exporter",
    "metrics": "opentelemetry_metrics_exporter",
    "logs": "opentelemetry_logs_exporter",
}
_OTLP = "opentelemetry.exporter.otlp.proto"
_CLASSES = {
    ("traces", "http/protobuf"): ("otelhooks.telemetry.otlp_http", "OTLPSpanExporter"),
    ("traces", "grpc"): ("otelhooks.telemetry.otlp_grpc", "OTLPSpanExporter"),
    ("traces", "console"): ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
    ("metrics", "http/protobuf"): (f"{_OTLP}.http.metric_exporter", "OTLPMetricExporter"),
    ("metrics", "grpc"): (f"{_OTLP}.grpc.metric_exporter", "OTLPMetricExporter"),
    ("metrics", "console"): ("opentelemetry.sdk.metrics.export", "ConsoleMetricExporter"),
    ("logs", "http/protobuf"): (f"{_OTLP}.http._log_exporter", "OTLPLogExporter"),
    ("logs", "grpc"): (f"{_OTLP}.grpc._log_exporter", "OTLPLogExporter"),
    ("logs", "console"): ("opentelemetry.sdk._logs.export", "ConsoleLogRecordExporter"),
}


def exporters(
    signal: str, otel: Mapping[str, str], targets: dict[str, str], unsent: Path | None = None
) -> list[Any]:
    """Create the exporters of a signal.

    Args:
        signal: ``traces``, ``metrics`` or ``logs``.
        otel: The variables that are set.
        targets: Filled, under the signal, with a description of where it goes.
        unsent: Folder for what a collector cannot take; None: it is lost.

    Raises:
        ConfigError: A name or protocol is unknown, or an exporter cannot be created.
    """
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    names = [name.strip() for name in otel.get(variable, "").split(",") if name.strip()]
    if not names:
        names = ["otlp"] if _names_otlp(otel) else ["none"]
    made: list[Any] = []
    places: list[str] = []
    for name in names:
        if name.lower() == "none":
            continue
        kind, place = _kind(name, signal, otel)
        try:
            exporter = _exporter_class(signal, kind)()
            if kind == "http/protobuf":
                _refuse_redirects(exporter)
            if kind in _PROTOCOLS:
                collector_answers.watch(exporter, signal)
            if unsent is not None and kind in _PROTOCOLS:
                exporter = Spilling(exporter, signal, unsent)
            made.append(exporter)
        except Exception as error:
            raise ConfigError(
                f"{variable} names `{name}`, which cannot be used: {error or type(error).__name__}",
                hint="use otlp, console or none, or install the package of that exporter",
            ) from error
        places.append(place)
    targets[signal] = " and ".join(places) or NOWHERE
    return made


def _refuse_redirects(exporter: Any) -> None:
    """Make an exporter fail if the collector answers with a redirect.

    The SDK neither follows it nor takes it for a failure, so the batch would be lost. Source:
    opentelemetry-exporter-otlp-common 0.66b2, ``http``; earlier releases of the exporter follow it.
    """
    client = getattr(exporter, "_client", None)
    if client is None:
        return
    send = client.export

    def export(data: bytes) -> Any:
        result = send(data)
        if result.success and (result.status_code or 0) >= 300:
            _log.error(
                "the collector answers with a redirect (%d), which is not followed; "
                "hint: set OTEL_EXPORTER_OTLP_ENDPOINT to the address that it leads to",
                result.status_code,
            )
            return dataclasses.replace(result, success=False)
        return result

    client.export = export


def _names_otlp(otel: Mapping[str, str]) -> bool:
    return any(
        name.startswith("OTEL_EXPORTER_OTLP_") or (name.endswith("_EXPORTER") and "otlp" in value)
        for name, value in otel.items()
    )


def _kind(name: str, signal: str, otel: Mapping[str, str]) -> tuple[str, str]:
    """Return which exporter a name means, and where it sends to."""
    if name in ("otlp_proto_grpc", "otelhooks_otlp_grpc"):
        kind = "grpc"
    elif name in ("otlp_proto_http", "otelhooks_otlp_http"):
        kind = "http/protobuf"
    elif name == "otlp":
        kind = _protocol(signal, otel)
    else:
        return name, name
    default = "http://localhost:4317" if kind == "grpc" else "http://localhost:4318"
    endpoint = _otlp_setting(signal, "ENDPOINT", otel) or default
    if kind != "grpc" and not endpoint.lower().startswith(("http://", "https://")):
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is `{without_credentials(endpoint)}`, which is not an "
            "address for OTLP over HTTP",
            hint="write http://HOST:4318, or https://HOST:4318",
        )
    return kind, f"otlp {kind} {without_credentials(endpoint)}"


def _protocol(signal: str, otel: Mapping[str, str]) -> str:
    protocol = _otlp_setting(signal, "PROTOCOL", otel)
    if protocol:
        if protocol not in _PROTOCOLS:
            raise ConfigError(
                f"OTEL_EXPORTER_OTLP_PROTOCOL cannot be `{protocol}`",
                hint=f"use {' or '.join(_PROTOCOLS)}",
            )
        return protocol
    endpoint = _otlp_setting(signal, "ENDPOINT", otel)
    return "grpc" if endpoint.rstrip("/").endswith(":4317") else "http/protobuf"


def _otlp_setting(signal: str, name: str, otel: Mapping[str, str]) -> str:
    own = otel.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "")
    return (own or otel.get(f"OTEL_EXPORTER_OTLP_{name}", "")).strip()


def _exporter_class(signal: str, kind: str) -> Any:
    """Find an exporter; those of the SDK and OTLP without searching all installed packages."""
    known = _CLASSES.get((signal, kind))
    if known is not None:
        module, name = known
        found = importlib.import_module(module)
        # OpenTelemetry 1.38 uses the older name for logs.
        return getattr(found, name, None) or getattr(found, name.replace("LogRecord", "Log"))
    for entry in entry_points(group=_ENTRY_POINTS[signal], name=kind):
        return entry.load()
    raise ConfigError("no installed package provides it")
