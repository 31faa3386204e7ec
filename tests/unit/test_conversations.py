"""Whole conversations in the trace, where content is captured."""

from __future__ import annotations

import json
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.errors import Denied
from otelhooks.records import semconv

Result = types.HookResult
RUN = "invoke_agent ops"


def said(attributes: Any, name: str) -> Any:
    [message] = json.loads(attributes[name])
    return message["role"], [part["content"] for part in message["parts"]]


@otelhooks.agent("ops")
def run(prompt: Any) -> Any:
    return f"done: {prompt}"


def test_a_run_shows_what_it_was_given_and_what_it_answered(governed: Any) -> None:
    governed(capture_content="SPAN_ONLY")
    run("my key is sk-abcdefghijklmnopqrstuvwxyz123456")
    attributes = governed.attributes(RUN)
    assert said(attributes, semconv.GEN_AI_INPUT_MESSAGES)[0] == "user"
    role, [answer] = said(attributes, semconv.GEN_AI_OUTPUT_MESSAGES)
    assert (role, answer[:6]) == ("assistant", "done: ")
    assert attributes[semconv.INPUT_VALUE].startswith("my key is ")
    assert attributes[semconv.OUTPUT_VALUE] == answer
    assert "sk-abc" not in str(attributes)
    [message] = json.loads(attributes[semconv.GEN_AI_OUTPUT_MESSAGES])
    assert message["finish_reason"] == "stop"


@pytest.mark.parametrize("mode", ["NO_CONTENT", "EVENT_ONLY"])
def test_a_run_shows_nothing_where_spans_carry_no_content(governed: Any, mode: str) -> None:
    governed(capture_content=mode)
    run("hello")
    assert "hello" not in str(governed.attributes(RUN))


def test_a_run_shows_the_prompt_and_the_answer_that_hooks_left(governed: Any) -> None:
    @hooks.pre_turn
    def other(data: str) -> Result:
        return Result(modified_prompt="other")

    @hooks.post_agent_transform
    def masked(data: str) -> str:
        return data.replace("done", "[masked]")

    governed(hooks=[other, masked], capture_content="SPAN_ONLY")
    assert run("hello") == "[masked]: other"
    attributes = governed.attributes(RUN)
    assert said(attributes, semconv.GEN_AI_INPUT_MESSAGES) == ("user", ["other"])
    assert said(attributes, semconv.GEN_AI_OUTPUT_MESSAGES) == ("assistant", ["[masked]: other"])


def test_a_refused_run_shows_the_message_and_the_reason(governed: Any) -> None:
    @hooks.pre_turn
    def no(data: str) -> Result:
        return Result(allow=False, message="not today")

    governed(hooks=[no], capture_content="SPAN_ONLY")
    with pytest.raises(Denied):
        run("hello")
    attributes = governed.attributes(RUN)
    assert said(attributes, semconv.GEN_AI_INPUT_MESSAGES) == ("user", ["hello"])
    role, [reason] = said(attributes, semconv.GEN_AI_OUTPUT_MESSAGES)
    assert role == "assistant"
    assert "not today" in reason


def test_data_in_place_of_a_text_is_shown_as_json_and_masked(governed: Any) -> None:
    governed(capture_content="SPAN_ONLY")
    run({"task": "x", "api_key": "sesame"})
    attributes = governed.attributes(RUN)
    _, [prompt] = said(attributes, semconv.GEN_AI_INPUT_MESSAGES)
    assert json.loads(prompt)["task"] == "x"
    assert "sesame" not in prompt


def test_a_model_call_shows_its_tools_and_instructions(governed: Any) -> None:
    tools = [{"name": "t", "description": "d", "input_schema": {"type": "object"}}]

    @otelhooks.model_call(model="m")
    def ask(messages: list[Any], tools: Any = ()) -> str:
        return "done"

    governed(capture_content="SPAN_ONLY")
    ask([], tools=tools)
    [tool] = json.loads(governed.attributes("chat m")[semconv.GEN_AI_TOOL_DEFINITIONS])
    assert tool == {
        "type": "function",
        "name": "t",
        "description": "d",
        "parameters": {"type": "object"},
    }


def test_the_event_of_a_failed_call_shows_what_the_model_was_given(governed: Any) -> None:
    @otelhooks.model_call(model="m")
    def ask(messages: list[Any]) -> str:
        raise ValueError("away")

    governed(capture_content="EVENT_ONLY")
    with pytest.raises(ValueError, match="away"):
        ask([{"role": "user", "content": "hello"}])
    [event] = governed.event(semconv.EVENT_GEN_AI_OPERATION_DETAILS)
    assert "hello" in str(event[semconv.GEN_AI_INPUT_MESSAGES])


@pytest.mark.parametrize("attribute", ["user.id", "enduser.pseudo.id"])
def test_the_attribute_of_the_user_is_a_choice(governed: Any, attribute: str) -> None:
    governed(user_attribute=attribute)
    with otelhooks.session("c", user="u-1"):
        run("hello")
    attributes = governed.attributes(RUN)
    assert {k: v for k, v in attributes.items() if v == "u-1"} == {attribute: "u-1"}
