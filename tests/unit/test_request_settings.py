"""Settings of model calls under the names of the conventions."""

from __future__ import annotations

from types import SimpleNamespace as Object
from typing import Any

import pytest

from otelhooks.records import semconv
from otelhooks.telemetry.request_settings import instructions_in, request_attributes


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"temperature": 0.5, "top_p": 1},
            {semconv.GEN_AI_REQUEST_TEMPERATURE: 0.5, semconv.GEN_AI_REQUEST_TOP_P: 1},
        ),
        ({"maxOutputTokens": 9}, {semconv.GEN_AI_REQUEST_MAX_TOKENS: 9}),
        ({"max_completion_tokens": 9}, {semconv.GEN_AI_REQUEST_MAX_TOKENS: 9}),
        ({"stop": "END"}, {semconv.GEN_AI_REQUEST_STOP_SEQUENCES: ["END"]}),
        ({"stop_sequences": ["a", "b"]}, {semconv.GEN_AI_REQUEST_STOP_SEQUENCES: ["a", "b"]}),
        ({"n": 1}, {}),
        ({"n": 2}, {semconv.GEN_AI_REQUEST_CHOICE_COUNT: 2}),
        ({"reasoning": {"effort": "low"}}, {semconv.GEN_AI_REQUEST_REASONING_LEVEL: "low"}),
        ({"reasoning": Object(effort="low")}, {semconv.GEN_AI_REQUEST_REASONING_LEVEL: "low"}),
        ({"reasoning_effort": "low"}, {semconv.GEN_AI_REQUEST_REASONING_LEVEL: "low"}),
        ({"previous_response_id": "r"}, {semconv.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID: "r"}),
        ({"temperature": True, "seed": "x", "tool_choice": "auto", "stop": None, 3: 4}, {}),
    ],
)
def test_settings_have_the_names_of_the_conventions(settings: Any, expected: Any) -> None:
    assert request_attributes(settings) == expected


@pytest.mark.parametrize("settings", [{"instructions": None}, {"instructions": ["x"]}, {}])
def test_without_instructions_there_are_none(settings: Any) -> None:
    assert instructions_in(settings) == ""
    assert instructions_in({"temperature": 1, "instructions": "be kind"}) == "be kind"
