"""What spans of tool calls say of verdicts that are more than a plain allow."""

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv


@otelhooks.tool
def add(x: int) -> int:
    return x + 1


def spans_of_a_call(tracer_provider, exporter, *rules, **settings):
    otelhooks.instrument(policies=rules, frameworks=[], tracer_provider=tracer_provider, **settings)
    add(1)
    return {span.name.split(" ")[0]: span.attributes for span in exporter.get_finished_spans()}


def test_a_rewrite_without_a_message_names_the_hook_as_its_reason(tracer_provider, exporter):
    @hooks.pre_tool_call_decide
    def raise_x(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": 5})

    spans = spans_of_a_call(tracer_provider, exporter, hooks=[raise_x])
    attributes = spans[semconv.OP_EXECUTE_TOOL]
    assert attributes[semconv.POLICY_DECISION] == semconv.DECISION_MODIFY
    assert "raise_x" in attributes[semconv.POLICY_REASON]


def test_a_call_that_was_asked_about_carries_the_hash_of_its_arguments(tracer_provider, exporter):
    spans = spans_of_a_call(
        tracer_provider, exporter, policy.ask_user("add", handler=lambda call: True)
    )
    asked = spans[semconv.SPAN_APPROVAL_REQUEST][semconv.ARGUMENTS_HASH]
    assert spans[semconv.OP_EXECUTE_TOOL][semconv.ARGUMENTS_HASH] == asked


def test_a_hooks_message_is_stored_masked_and_the_model_reads_its_words(
    tracer_provider, exporter, logger_provider, log_exporter, tmp_path
):
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"

    @hooks.pre_tool_call_decide
    def quote(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(allow=False, message=f"No call with {secret} or password=hunter2.")

    with pytest.raises(Denied, match=secret):
        spans_of_a_call(
            tracer_provider,
            exporter,
            hooks=[quote],
            logger_provider=logger_provider,
            audit=tmp_path / "audit",
        )
    otelhooks.uninstrument()
    [span] = exporter.get_finished_spans()
    [event] = log_exporter.get_finished_logs()
    [segment] = (tmp_path / "audit").glob("*.jsonl")
    stored = [span.to_json(), str(event.log_record.attributes), segment.read_text()]
    assert span.status.description.startswith("No call with [MASKED]")
    for text in stored:
        assert "No call with [MASKED] or password=[MASKED]" in text
        assert secret not in text
        assert "hunter2" not in text
