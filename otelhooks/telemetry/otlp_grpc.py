"""The OTLP/gRPC exporter of the SDK, with the encoder of otelhooks."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.grpc import trace_exporter

from otelhooks.telemetry.otlp_encoder import with_encoder

__all__ = ["OTLPSpanExporter"]


class OTLPSpanExporter(trace_exporter.OTLPSpanExporter):
    """Sends what its base class sends, and takes the same arguments; encodes in less time."""

    _translate_data = with_encoder(trace_exporter.OTLPSpanExporter._translate_data)
