"""One span for a model call, even if OpenTelemetry instruments the client below the framework.

The official instrumentations share an object in the context: the outermost puts it there, and the
inner ones open no span, record no metric, and write what they know into it
(`opentelemetry.util.genai` 1.3b0). Nothing here imports that package: if no instrumentation has,
none reads the object.

Telemetry: fails open.
"""

from __future__ import annotations

import sys
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from otelhooks.records import semconv
from otelhooks.telemetry.quiet import fails_open

SHARED_BY = "opentelemetry.util.genai.invocation"
"""The module that defines the object and its key."""


@fails_open
def published(context: Context) -> tuple[Context, Any] | None:
    """Tell inner instrumentations that this call already has its span.

    Args:
        context: Context of the call's body.

    Returns:
        The context to run it in, and the object that they fill; None if there are none.
    """
    shared: Any = sys.modules.get(SHARED_BY)
    data = shared.InferenceData()
    data.upload_completion = True  # uploads of theirs are not done here
    return otel_context.set_value(shared.CLIENT_INFERENCE_CONTEXT_KEY, data, context), data


def noted(data: Any) -> dict[str, Any]:
    """Return what the inner instrumentations have filled in, as span attributes without content."""
    found = {name: getattr(data, field, None) for name, field in _FIELDS.items()}
    return {name: value for name, value in found.items() if value is not None}


_FIELDS = {
    semconv.GEN_AI_REQUEST_MAX_TOKENS: "request_max_tokens",
    semconv.GEN_AI_REQUEST_TEMPERATURE: "request_temperature",
    semconv.GEN_AI_REQUEST_TOP_P: "request_top_p",
    semconv.GEN_AI_RESPONSE_FINISH_REASONS: "response_finish_reasons",
    semconv.GEN_AI_RESPONSE_ID: "response_id",
    semconv.GEN_AI_RESPONSE_MODEL: "response_model",
    semconv.SERVER_ADDRESS: "server_address",
    semconv.SERVER_PORT: "server_port",
}
