"""Answers of SDKs in loops under `@model_call`: read for hooks and traces, and written again."""

from __future__ import annotations

import json
from types import SimpleNamespace as Object
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.loops import sdk_answers
from otelhooks.records import semconv


def chat() -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
    message = {"role": "assistant", "content": "secret", "tool_calls": [call]}
    return {
        "id": "r1",
        "model": "m-1",
        "choices": [
            {"message": message, "finish_reason": "tool_calls"},
            {"message": {"role": "assistant", "content": "secret too"}, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6},
    }


def response() -> Any:
    text = {"type": "output_text", "text": "secret"}
    return {
        "id": "r1",
        "model": "m-1",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [text]},
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": '{"a": 1}'},
        ],
        "usage": {"input_tokens": 5, "output_tokens": 6},
    }


def message() -> Any:
    return {
        "id": "r1",
        "model": "m-1",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "secret"},
            {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 6, "cache_creation_input_tokens": 2},
    }


def content() -> Any:
    parts = [{"text": "secret"}, {"function_call": {"id": "c1", "name": "t", "args": {"a": 1}}}]
    other = {"content": {"parts": [{"text": "secret too"}]}, "finish_reason": "STOP"}
    return {
        "response_id": "r1",
        "model_version": "m-1",
        "candidates": [{"content": {"parts": parts}, "finish_reason": "STOP"}, other],
        "usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 6},
    }


FORMS = (chat, response, message, content)


def as_object(value: Any) -> Any:
    """Return JSON as objects with attributes, as SDKs do; arguments stay mappings."""
    if isinstance(value, dict):
        return Object(
            **{k: v if k in ("args", "input") else as_object(v) for k, v in value.items()}
        )
    return [as_object(one) for one in value] if isinstance(value, list) else value


def as_json(value: Any) -> Any:
    return json.dumps(value, default=vars)


@pytest.fixture(params=[lambda value: value, as_object], ids=["json", "objects"])
def made(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("form", FORMS)
def test_text_calls_and_tokens_are_read(form: Any, made: Any) -> None:
    reply = sdk_answers.read(made(form()))
    assert reply.text == "secret"
    assert reply.tool_calls == [("c1", "t", {"a": 1})]
    assert (reply.response_id, reply.model) == ("r1", "m-1")
    assert (reply.usage["input_tokens"], reply.usage["output_tokens"]) == (5, 6)
    assert reply.asked == {}


@pytest.mark.parametrize("form", FORMS)
def test_a_hooks_text_replaces_that_of_every_choice(form: Any, made: Any) -> None:
    raw = made(form())
    call = types.ToolCall(name="t", args={"a": 1}, id="c1")
    new = sdk_answers.rewritten(raw, types.ModelResponse(text="[masked]", tool_calls=[call]))
    assert type(new) is type(raw)
    assert "secret" not in as_json(new)
    reply = sdk_answers.read(new)
    assert (reply.text, reply.tool_calls) == ("[masked]", [("c1", "t", {"a": 1})])
    assert "secret" in as_json(raw), "the answer itself was changed"


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_a_hook_leaves_out_is_gone(form: Any, made: Any) -> None:
    new = sdk_answers.rewritten(made(form()), types.ModelResponse(text="no"))
    assert sdk_answers.read(new).tool_calls == []
    assert '"c1"' not in as_json(new)


@pytest.mark.parametrize("form", FORMS)
def test_arguments_that_a_hook_changes_are_those_of_the_answer(form: Any, made: Any) -> None:
    call = types.ToolCall(name="t", args={"a": "safe"}, id="c1")
    new = sdk_answers.rewritten(made(form()), types.ModelResponse(text="no", tool_calls=[call]))
    assert sdk_answers.read(new).tool_calls == [("c1", "t", {"a": "safe"})]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_a_hook_adds_or_renames_is_an_error(form: Any, made: Any) -> None:
    call = types.ToolCall(name="other", args={"a": 1}, id="c1")
    with pytest.raises(ValueError, match="another call, of `other`"):
        sdk_answers.rewritten(made(form()), types.ModelResponse(text="no", tool_calls=[call]))


def test_of_calls_with_one_id_the_one_that_is_left_out_is_gone(made: Any) -> None:
    answer = chat()
    calls = answer["choices"][0]["message"]["tool_calls"]
    calls.insert(0, {**calls[0], "function": {"name": "rm", "arguments": "{}"}})
    left = types.ToolCall(name="t", args={"a": 1}, id="c1")
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="", tool_calls=[left]))
    assert sdk_answers.read(new).tool_calls == [("c1", "t", {"a": 1})]


def test_a_call_without_a_type_is_kept_beside_a_changed_text(made: Any) -> None:
    answer = chat()
    del answer["choices"][0]["message"]["tool_calls"][0]["type"]
    call = types.ToolCall(name="t", args={"a": 1}, id="c1")
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="no", tool_calls=[call]))
    assert sdk_answers.read(new).tool_calls == [("c1", "t", {"a": 1})]


def test_a_legacy_call_is_read_and_taken_out(made: Any) -> None:
    answer = chat()
    message = answer["choices"][0]["message"]
    del message["tool_calls"]
    message |= {"function_call": {"name": "t", "arguments": "{}"}}
    assert sdk_answers.read(made(answer)).tool_calls == [("", "t", {})]
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="no"))
    assert sdk_answers.read(new).tool_calls == []


@pytest.mark.parametrize("field", ["refusal", "reasoning_content"])
def test_what_stands_beside_a_text_goes_with_it(field: str, made: Any) -> None:
    answer = chat()
    answer["choices"][0]["message"][field] = "secret"
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="no"))
    assert "secret" not in as_json(new)


BESIDE = {
    "chat": (chat, lambda made: made["choices"][0]["message"]),
    "choice": (chat, lambda made: made["choices"][0]),
    "response": (response, lambda made: made["output"][1]["content"][0]),
    "message": (message, lambda made: made["content"][0]),
    "candidate": (content, lambda made: made["candidates"][0]),
    "content": (content, lambda made: made),
}


@pytest.mark.parametrize("place", BESIDE)
@pytest.mark.parametrize(
    "field", ["parsed", "parsed_output", "logprobs", "annotations", "citations", "audio"]
)
def test_what_repeats_a_text_goes_with_it_and_stays_with_it(
    place: str, field: str, made: Any
) -> None:
    form, holder = BESIDE[place]
    answer = form()
    holder(answer)[field] = ["secret"]
    calls = sdk_answers.read(made(answer)).tool_calls
    kept = [types.ToolCall(id=id, name=name, args=args) for id, name, args in calls]
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="no", tool_calls=kept))
    assert "secret" not in as_json(new)
    same = sdk_answers.rewritten(made(answer), types.ModelResponse(text="secret", tool_calls=[]))
    assert as_json(same).count("secret") >= 2


def test_parsed_arguments_are_those_of_the_hook(made: Any) -> None:
    answer = chat()
    answer["choices"][0]["message"]["tool_calls"][0]["function"]["parsed_arguments"] = {"a": 1}
    call = types.ToolCall(id="c1", name="t", args={"a": 2})
    new = sdk_answers.rewritten(made(answer), types.ModelResponse(text="no", tool_calls=[call]))
    assert as_json(new).count('"a": 2') == 1
    assert '"a": 1' not in as_json(new)


def test_blocks_of_text_are_read(made: Any) -> None:
    answer = chat()
    answer["choices"][0]["message"]["content"] = [{"type": "text", "text": "secret"}]
    assert sdk_answers.read(made(answer)).text == "secret"


def test_hooks_that_see_nothing_of_an_answer_are_told_of(
    governed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @hooks.post_model_call_transform
    def mask(data: types.ModelResponse) -> None: ...

    @otelhooks.model_call(model="m")
    def ask(messages: list[Any]) -> Any:
        return Object(chunks=[])

    ask([])
    governed(hooks=[mask])
    for _ in range(2):
        ask([])
    assert caplog.text.count("hooks see no text of a `SimpleNamespace`") == 1


def test_an_answer_of_an_unknown_form_cannot_be_rewritten() -> None:
    with pytest.raises(ValueError, match="class `int`"):
        sdk_answers.rewritten(1, types.ModelResponse(text="no"))


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_gets_what_hooks_made_of_the_answer(governed: Any, form: Any) -> None:
    @hooks.post_model_call_transform
    def mask(data: types.ModelResponse) -> types.ModelResponse:
        return data.model_copy(update={"text": data.text.replace("secret", "[masked]")})

    @otelhooks.model_call(model="m")
    def ask(messages: list[Any]) -> Any:
        return form()

    governed(hooks=[mask], policies=[policy.deny("other")], capture_content="SPAN_ONLY")
    with otelhooks.turn("hi"):
        assert sdk_answers.read(ask([])).text == "[masked]"
    attributes = governed.attributes("chat m")
    [said] = json.loads(attributes[semconv.GEN_AI_OUTPUT_MESSAGES])
    assert [part["type"] for part in said["parts"]] == ["text", "tool_call"]
    assert said["parts"][0]["content"] == "[masked]"
    assert attributes[semconv.GEN_AI_RESPONSE_MODEL] == "m-1"
    assert governed.total(semconv.METRIC_COVERAGE_GAPS) == 0
