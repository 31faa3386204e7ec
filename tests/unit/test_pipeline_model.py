"""A model call through the pipeline."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv
from otelhooks.telemetry import inference

Result = types.HookResult
MESSAGES = [{"role": "user", "content": "hello"}]


class Model:
    """A scripted model that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

        @otelhooks.model_call(model="scripted", provider="openai")
        def ask(messages: list[Any], tools: Any = ()) -> types.ModelResponse:
            self.asked.append((messages, tools))
            usage = types.Usage(input_tokens=3, output_tokens=2, cache_read_input_tokens=1)
            return types.ModelResponse(text="answer", usage=usage, finish_reason="stop")

        self.ask = ask


@pytest.fixture
def model() -> Model:
    return Model()


def test_the_span_says_model_provider_tokens_and_reason(governed: Any, model: Model) -> None:
    governed()
    assert model.ask(MESSAGES).text == "answer"
    span = governed.span("chat scripted")
    attributes = governed.attributes("chat scripted")
    assert span.kind is SpanKind.CLIENT
    assert attributes[semconv.GEN_AI_PROVIDER_NAME] == "openai"
    assert attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 3
    assert attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 2
    assert attributes[semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] == 1
    assert list(attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS]) == ["stop"]
    assert governed.total(semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS) == 3
    [point] = governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION)
    assert point.count == 1


def test_half_a_surrogate_pair_does_not_cost_the_answer_its_attributes(governed: Any) -> None:
    @otelhooks.model_call(model="m\ud800")
    def ask(messages: list[Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop\ud801"}
        return {
            "object": "chat.completion",
            "id": "é\ud802",
            "model": "m\ud803",
            "choices": [choice],
        }

    governed()
    ask(MESSAGES)
    span = governed.span(r"chat m\ud800")
    assert span.attributes[semconv.GEN_AI_REQUEST_MODEL] == r"m\ud800"
    assert span.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == (r"stop\ud801",)
    assert span.attributes[semconv.GEN_AI_RESPONSE_ID] == r"é\ud802"
    assert span.attributes[semconv.GEN_AI_RESPONSE_MODEL] == r"m\ud803"


def test_a_denied_call_does_not_run(governed: Any, model: Model) -> None:
    deny = hooks.pre_model_call(rule_id="r")(lambda data: Result(allow=False, message="no"))
    governed(hooks=[deny])
    with pytest.raises(Denied, match="no") as caught:
        model.ask(MESSAGES)
    assert caught.value.rule_id == "r"
    assert model.asked == []
    assert governed.span("chat scripted").status.status_code is StatusCode.ERROR
    assert governed.attributes("chat scripted")[semconv.ERROR_TYPE] == "policy_denied"
    assert governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION) == []


class TestNamesOfMetrics:
    OLD = (
        semconv.METRIC_GEN_AI_CLIENT_OPERATION_DURATION,
        semconv.METRIC_GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
        semconv.METRIC_GEN_AI_CLIENT_TOKEN_USAGE,
    )
    NEW = (
        semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION,
        semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK,
        semconv.METRIC_GEN_AI_CLIENT_INFERENCE_INPUT_TOKENS,
    )

    @pytest.fixture
    def called(self, governed: Any, monkeypatch: pytest.MonkeyPatch, model: Model) -> Any:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from messages

        def call(words: str) -> Any:
            monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", words)
            monkeypatch.setenv("OTELHOOKS_TOKEN_HISTOGRAM", "1")
            governed()
            model.ask(MESSAGES)
            list(chunks(MESSAGES))
            return governed

        return call

    def test_the_old_names_are_gone(self, called: Any) -> None:
        found = called("gen_ai_latest_experimental")
        assert [found.points(name) for name in self.OLD] == [[], [], []]
        assert all(found.points(name) for name in self.NEW)

    def test_they_are_there_beside_the_new_ones_on_request(self, called: Any) -> None:
        found = called("gen_ai_latest_experimental/dup")

        def read(name: str) -> list[tuple[Any, ...]]:
            return [(p.count, p.sum, p.bucket_counts, p.attributes) for p in found.points(name)]

        for old, new in zip(self.OLD[:2], self.NEW[:2], strict=True):
            assert read(old) == read(new)
            assert read(old)
        tokens = found.points(self.OLD[2])
        by_type = {p.attributes[semconv.GEN_AI_TOKEN_TYPE]: p.sum for p in tokens}
        assert by_type == {"input": 3, "output": 2}

    def test_tokens_are_in_histograms_on_request(self, called: Any) -> None:
        found = called("")
        for name, tokens in (
            (semconv.METRIC_GEN_AI_CLIENT_INFERENCE_INPUT_TOKENS, 3),
            (semconv.METRIC_GEN_AI_CLIENT_INFERENCE_OUTPUT_TOKENS, 2),
        ):
            [point] = found.points(name)
            assert (point.count, point.sum) == (1, tokens)
            assert semconv.GEN_AI_TOKEN_TYPE not in point.attributes


def test_raise_on_deny_raises_with_the_rule(governed: Any, model: Model) -> None:
    deny = hooks.pre_model_call(rule_id="r")(lambda data: Result(allow=False, message="no"))
    governed(hooks=[deny], raise_on_deny=True)
    with pytest.raises(Denied) as caught:
        model.ask(MESSAGES)
    assert caught.value.rule_id == "r"


def test_a_deny_in_monitor_mode_is_observed(governed: Any, model: Model) -> None:
    deny = hooks.pre_model_call(lambda data: Result(allow=False, message="no"))
    governed(hooks=[deny], mode="monitor")
    assert model.ask(MESSAGES).text == "answer"
    assert governed.attributes("chat scripted")[semconv.POLICY_ENFORCEMENT] == "observed"


def test_rewritten_messages_and_tools_are_what_is_sent(governed: Any, model: Model) -> None:
    governed(
        hooks=[
            hooks.pre_model_call(lambda data: Result(modified_messages=[*data.messages, "more"])),
            hooks.pre_model_call(lambda data: Result(modified_tools=[])),
        ]
    )
    model.ask(MESSAGES, tools=[{"name": "t"}])
    assert model.asked == [([*MESSAGES, "more"], [])]
    assert governed.attributes("chat scripted")[semconv.POLICY_DECISION] == "modify"


def test_a_single_prompt_stays_one(governed: Any) -> None:
    asked: list[Any] = []

    @otelhooks.model_call(model="m")
    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "x"

    governed(hooks=[hooks.pre_model_call(lambda data: Result(modified_messages=["other"]))])
    ask("hello")
    assert asked == ["other"]


def test_hidden_tools_are_taken_out_of_the_request(governed: Any, model: Model) -> None:
    governed(policies=[policy.hide("secret")])
    model.ask(MESSAGES, tools=[{"name": "secret"}, {"function": {"name": "secret"}}, {"name": "t"}])
    assert model.asked[0][1] == [{"name": "t"}]


def test_a_ready_answer_passes_the_post_hooks_and_nothing_runs(governed: Any, model: Model) -> None:
    governed(
        hooks=[
            hooks.pre_model_call(lambda data: Result(response="ready")),
            hooks.post_model_call_transform(lambda data: data.text + "!"),
        ]
    )
    assert model.ask(MESSAGES) == "ready!"
    assert model.asked == []
    assert governed.attributes("chat scripted")[semconv.ANSWERED] is True


def test_transforms_then_inspectors_see_the_answer(governed: Any, model: Model) -> None:
    seen: list[Any] = []
    governed(
        hooks=[
            hooks.post_model_call_transform(lambda data: "masked"),
            hooks.post_model_call(lambda data: seen.append((data.text, data.usage.input_tokens))),
        ]
    )
    assert model.ask(MESSAGES).text == "masked"
    assert seen == [("masked", 3)]
    assert semconv.EVENT_REWRITTEN in governed.events


def test_a_withheld_answer(governed: Any, model: Model) -> None:
    governed(hooks=[hooks.post_model_call_transform(lambda d: Result(allow=False, message="gone"))])
    assert model.ask(MESSAGES).text == "gone"
    assert governed.attributes("chat scripted")[semconv.WITHHELD] is True
    assert semconv.EVENT_WITHHELD in governed.events


def test_a_failure_can_be_recovered_or_goes_on_up(governed: Any) -> None:
    @otelhooks.model_call(model="m")
    def broken(messages: list[Any]) -> str:
        raise ConnectionError("down")

    handle = governed()
    with pytest.raises(ConnectionError):
        broken(MESSAGES)
    assert governed.span("chat m").status.status_code is StatusCode.ERROR
    governed._exporter.clear()
    handle.register(hooks.on_model_error(lambda error: "cached"))
    assert broken(MESSAGES) == "cached"
    attributes = governed.attributes("chat m")
    assert attributes[semconv.RECOVERED] is True
    assert attributes[semconv.ERROR_TYPE] == "ConnectionError"
    assert semconv.EVENT_RECOVERED in governed.events


def test_listeners_hear_of_the_call_its_failure_and_its_answer(governed: Any, model: Model) -> None:
    heard: list[Any] = []
    governed(hooks=[hooks.on_event(lambda e: heard.append((e.type, e.decision, e.is_error)))])
    model.ask(MESSAGES)
    assert heard == [("pre_model_call", "allow", False), ("post_model_call", "allow", False)]


def test_a_shared_object_of_another_shape_stops_no_call(
    governed: Any, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module of OpenTelemetry's instrumentations is a beta: its names may change."""
    monkeypatch.setitem(sys.modules, inference.SHARED_BY, ModuleType(inference.SHARED_BY))
    governed()
    assert model.ask(MESSAGES).text == "answer"
    assert governed.span("chat scripted").status.status_code is StatusCode.UNSET


def test_captured_messages_are_masked(governed: Any, model: Model) -> None:
    governed(capture_content="SPAN_ONLY")
    model.ask([{"role": "user", "content": "my key is sk-abcdefghijklmnopqrstuvwxyz123456"}])
    attributes = governed.attributes("chat scripted")
    assert "sk-abc" not in attributes[semconv.GEN_AI_INPUT_MESSAGES]
    assert "answer" in attributes[semconv.GEN_AI_OUTPUT_MESSAGES]


def test_answers_of_sdks_are_read_for_their_tokens(governed: Any) -> None:
    @otelhooks.model_call(model="m")
    def as_dict(messages: list[Any]) -> Any:
        return {"usage": {"prompt_tokens": 5, "completion_tokens": 6}}

    governed()
    as_dict(MESSAGES)
    attributes = governed.attributes("chat m")
    assert attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5
    assert attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 6


def test_the_operations_of_a_turn_are_its_steps(governed: Any, model: Model) -> None:
    seen: list[Any] = []

    @otelhooks.agent("a")
    def run(message: str) -> str:
        model.ask(MESSAGES)
        context = otelhooks.current_context()
        assert context is not None
        seen.extend(context.steps)
        return "done"

    governed()
    run("x")
    [step] = seen
    assert (step.name, step.verdict, step.status) == ("scripted", "allow", "ok")
    assert len(step.span_id) == 16


class TestStreams:
    def test_items_pass_as_they_come_without_a_transform(self, governed: Any) -> None:
        seen: list[str] = []

        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            for part in ("a", "b"):
                seen.append(f"made {part}")
                yield part

        governed()
        seen.extend(f"got {part}" for part in chunks(MESSAGES))
        assert seen == ["made a", "got a", "made b", "got b"]
        assert governed.attributes("chat m")[semconv.GEN_AI_REQUEST_STREAM] is True

    def test_the_time_to_the_first_chunk_is_told(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from messages

        governed()
        list(chunks(MESSAGES * 2))
        span = governed.span("chat m")
        first = span.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]
        assert 0 <= first <= (span.end_time - span.start_time) / 1e9
        metric = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK
        [point] = governed.points(metric)
        assert (point.count, point.sum) == (1, first)

    def test_the_time_between_chunks_is_told_on_request(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from messages

        @otelhooks.model_call(model="n")
        async def achunks(messages: list[Any]) -> Any:
            for message in messages:
                yield message

        async def read() -> None:
            async for _ in achunks(MESSAGES * 3):
                pass

        monkeypatch.setenv("OTELHOOKS_CHUNK_HISTOGRAM", "1")
        governed()
        list(chunks(MESSAGES * 4))
        list(chunks(MESSAGES))
        asyncio.run(read())
        found = {
            point.attributes[semconv.GEN_AI_REQUEST_MODEL]: point
            for point in governed.points(
                semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK
            )
        }
        assert {model: point.count for model, point in found.items()} == {"m": 3, "n": 2}
        first, *_ = (span for span in governed.spans if span.name == "chat m")
        assert 0 <= found["m"].sum <= (first.end_time - first.start_time) / 1e9

    def test_chunks_are_otherwise_not_timed(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from messages

        governed()
        list(chunks(MESSAGES * 4))
        name = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK
        assert governed.points(name) == []

    def test_a_stream_that_fails_has_a_time_to_its_first_chunk_without_an_error(
        self, governed: Any
    ) -> None:
        """The conventions have ``error.type`` on the duration only."""

        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield "a"
            raise ConnectionError("gone")

        governed()
        with pytest.raises(ConnectionError):
            list(chunks(MESSAGES))
        [first] = governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK)
        [whole] = governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION)
        assert semconv.ERROR_TYPE not in first.attributes
        assert whole.attributes[semconv.ERROR_TYPE] == "ConnectionError"

    def test_of_a_stream_without_chunks_and_of_a_refused_one_it_is_not(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from messages

        governed()
        assert list(chunks([])) == []
        name = semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK
        assert name not in governed.attributes("chat m")
        assert governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK) == []

    def test_with_a_transform_they_wait_for_the_verdict(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from ("se", "cret")

        mask = hooks.post_model_call_transform(lambda data: data.text.replace("secret", "***"))
        governed(hooks=[mask])
        assert list(chunks(MESSAGES)) == ["***"]

    def test_stream_pass_lets_them_out_and_says_so(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def chunks(messages: list[Any]) -> Any:
            yield from ("se", "cret")

        governed(hooks=[hooks.post_model_call_transform(lambda data: "x")], stream="pass")
        assert list(chunks(MESSAGES)) == ["se", "cret"]
        assert governed.attributes("chat m")[semconv.STREAM] == "pass"
