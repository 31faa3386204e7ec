"""The settings of a model call, in the names of the conventions.

Frameworks and providers spell one setting in several ways: ``max_tokens``, ``maxOutputTokens``,
``max_completion_tokens``. What has no name here is not recorded.

Source: GenAI conventions, span of an inference; parameter names of the APIs of OpenAI, Anthropic,
Google and Amazon Bedrock, November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from otelhooks.records import semconv

__all__ = ["instructions_in", "request_attributes"]

_NUMBERS = {
    "temperature": semconv.GEN_AI_REQUEST_TEMPERATURE,
    "top_p": semconv.GEN_AI_REQUEST_TOP_P,
    "topp": semconv.GEN_AI_REQUEST_TOP_P,
    "top_k": semconv.GEN_AI_REQUEST_TOP_K,
    "topk": semconv.GEN_AI_REQUEST_TOP_K,
    "max_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "maxtokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "max_output_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "maxoutputtokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "max_completion_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "frequency_penalty": semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": semconv.GEN_AI_REQUEST_PRESENCE_PENALTY,
    "seed": semconv.GEN_AI_REQUEST_SEED,
}
_STOPS = ("stop", "stop_sequences", "stopsequences")
_CHOICES = ("n", "candidate_count", "candidatecount")


def request_attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the conventions name, as span attributes; odd values are left out.

    The count of choices is recorded unless it is 1, as the conventions ask.
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        key = str(name).lower()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if attribute := _NUMBERS.get(key):
                found[attribute] = value
            elif key in _CHOICES and value != 1:
                found[semconv.GEN_AI_REQUEST_CHOICE_COUNT] = value
        elif value and key in _STOPS:
            found[semconv.GEN_AI_REQUEST_STOP_SEQUENCES] = _texts(value)
        elif key in ("reasoning_effort", "reasoning") and (effort := _effort(value)):
            found[semconv.GEN_AI_REQUEST_REASONING_LEVEL] = effort
        elif key == "previous_response_id" and isinstance(value, str):
            found[semconv.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID] = value
    return found


def instructions_in(settings: Mapping[str, Any]) -> str:
    """Return instructions that are kept apart from the messages; empty if there are none."""
    return value if isinstance(value := settings.get("instructions"), str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    found = cast("Iterable[object]", value) if isinstance(value, (list, tuple)) else ()
    return [one for one in found if isinstance(one, str)]


def _effort(value: object) -> str:
    if isinstance(value, Mapping):
        value = cast("Mapping[str, object]", value).get("effort")
    else:
        value = getattr(value, "effort", value)
    return value if isinstance(value, str) else ""
