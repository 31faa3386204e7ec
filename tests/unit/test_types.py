"""Records: fields, defaults, equality, dumps."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from otelhooks import types

PLACE = {
    "agent": "a",
    "branch": "o/a",
    "task_id": "t",
    "session_id": "s",
    "turn": 3,
    "trace_id": "1" * 32,
    "span_id": "2" * 16,
    "source": "user",
}


class TestRecords:
    def test_every_record_but_its_name_has_defaults(self) -> None:
        for record in (
            types.ModelCall(),
            types.ModelResponse(),
            types.AgentCall(),
            types.RunInfo(),
            types.SubagentInfo(),
            types.StopArgs(),
            types.Step(),
            types.Usage(),
            types.HookResult(),
        ):
            assert record.model_dump() is not None
        for record_class in (types.ToolCall, types.ToolResult):
            with pytest.raises(pydantic.ValidationError):
                record_class()  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        "make",
        [
            lambda **place: types.ToolCall(name="t", args={"x": 1}, **place),
            lambda **place: types.ToolResult(name="t", result=1, **place),
            lambda **place: types.ModelCall(model="m", **place),
            lambda **place: types.ModelResponse(text="x", **place),
            lambda **place: types.RunInfo(framework="f", **place),
            lambda **place: types.StopArgs(response_text="x", **place),
        ],
    )
    def test_where_a_record_was_made_is_not_part_of_its_value_or_dump(self, make: Any) -> None:
        plain, placed = make(), make(**PLACE)
        assert plain == placed
        assert plain.model_dump() == placed.model_dump()
        assert not PLACE.keys() & placed.model_dump().keys()
        assert placed.turn == 3
        assert placed.session_id == "s"

    def test_records_with_other_values_or_of_other_classes_differ(self) -> None:
        assert types.ToolCall(name="a") != types.ToolCall(name="b")
        assert types.ToolCall(name="a") != types.ToolResult(name="a")
        assert types.ToolCall(name="a") != "a"

    def test_the_raw_text_of_arguments_is_not_part_of_a_calls_value(self) -> None:
        assert types.ToolCall(name="a", raw='{"x":1}') == types.ToolCall(name="a")
        assert "raw" not in types.ToolCall(name="a", raw="{}").model_dump()

    def test_duration_and_partial_are_not_part_of_a_results_value(self) -> None:
        one = types.ToolResult(name="a", result=1, duration=0.5, partial=True)
        assert one == types.ToolResult(name="a", result=1)
        assert one.duration == 0.5
        assert one.partial

    def test_the_agent_of_an_agent_call_and_of_a_sub_agent_is_part_of_its_value(self) -> None:
        assert types.AgentCall(agent="a") != types.AgentCall(agent="b")
        assert types.SubagentInfo(agent="a") != types.SubagentInfo(agent="b")
        assert types.AgentCall(agent="a").agent == "a"

    def test_a_step_keeps_its_own_source_and_says_its_summary(self) -> None:
        step = types.Step(source=types.StepSource.MODEL, content="done", extra_field=1)
        assert step != types.Step(content="done", extra_field=1)
        assert str(step) == "done"
        assert str(types.Step(error="boom")) == "boom"
        assert str(types.Step(type=types.StepType.FINISH)) == "FINISH"

    def test_a_failure_is_never_serialised(self) -> None:
        result = types.ToolResult(name="a", error="boom", exception=ValueError("secret"))
        assert "exception" not in result.model_dump()
        assert "error" not in types.RunInfo(error=ValueError("x")).model_dump()


class TestToolNames:
    def test_a_local_start_subagent_is_invoke_subagent(self) -> None:
        assert types.ToolCall(name="start_subagent").name == "invoke_subagent"
        assert types.ToolResult(name="start_subagent").name == "invoke_subagent"

    def test_a_servers_own_tool_keeps_the_name_it_has(self) -> None:
        call = types.ToolCall(name="start_subagent", server_name="s")
        assert call.name == "start_subagent"

    def test_the_deprecated_member_warns_and_is_todays_member(self) -> None:
        with pytest.warns(DeprecationWarning, match="START_SUBAGENT"):
            assert types.BuiltinTools.START_SUBAGENT is types.BuiltinTools.INVOKE_SUBAGENT
        with pytest.warns(DeprecationWarning, match="start_subagent"):
            assert types.BuiltinTools("start_subagent") is types.BuiltinTools.INVOKE_SUBAGENT
        assert types.BuiltinTools["START_SUBAGENT"] is types.BuiltinTools.INVOKE_SUBAGENT

    def test_an_unknown_name_is_not_a_member(self) -> None:
        with pytest.raises(ValueError, match="nonsense"):
            types.BuiltinTools("nonsense")

    def test_the_lists_of_tools_are_the_published_ones(self) -> None:
        tools = types.BuiltinTools
        assert str(tools.RUN_COMMAND) == "run_command"
        assert tools.read_only() == [
            tools.VIEW_FILE,
            tools.READ_URL_CONTENT,
            tools.SCHEDULE,
            tools.FINISH,
        ]
        assert tools.file_tools() == [tools.VIEW_FILE, tools.CREATE_FILE, tools.EDIT_FILE]
        assert tools.deprecated() == [tools.LIST_DIR, tools.SEARCH_DIR, tools.FIND_FILE]
        assert tools.none() == []
        assert tools.RUN_COMMAND in tools.minimal()
        assert tools.RUN_COMMAND not in tools.nondestructive()
        assert tools.ASK_QUESTION not in tools.default()
        assert tools.all_tools() == list(tools)


class TestServers:
    def test_a_name_of_other_characters_is_refused(self) -> None:
        with pytest.raises(pydantic.ValidationError):
            types.McpStdioServer(name="a b", command="x")

    def test_both_lists_of_tools_at_once_are_refused(self) -> None:
        with pytest.raises(pydantic.ValidationError, match="mutually exclusive"):
            types.McpStdioServer(name="a", command="x", enabled_tools=[], disabled_tools=[])

    def test_the_http_server_has_two_names(self) -> None:
        assert types.McpHttpServer is types.McpStreamableHttpServer
        assert types.McpHttpServer(name="a", url="http://x").timeout == 30.0


class TestHookResult:
    @pytest.mark.parametrize(
        ("field", "meant"),
        [
            ("modified_result", "output"),
            ("modified_arg", "modified_args"),
            ("mesage", "message"),
            ("reason", "message"),
            ("allowed", "allow"),
        ],
    )
    def test_a_field_that_it_does_not_have_is_an_error(self, field: str, meant: str) -> None:
        with pytest.raises(TypeError, match=f"no field `{field}`; did you mean `{meant}`"):
            types.HookResult(**{field: "secret"})
        with pytest.raises(TypeError) as caught:
            types.HookResult(allow=True, zzzzz="secret")  # type: ignore[call-arg]
        assert "secret" not in str(caught.value)
        assert str(caught.value) == "`HookResult` has no field `zzzzz`"

    def test_one_of_a_subclass_is_known(self) -> None:
        class Mine(types.HookResult):
            ticket: str = ""

        assert Mine(ticket="T-1").ticket == "T-1"

    @pytest.mark.parametrize(
        ("fields", "action"),
        [
            ({}, "allow"),
            ({"allow": False}, "deny"),
            ({"modified_args": {}}, "modify"),
            ({"replace_args": {"x": 1}}, "modify"),
            ({"modified_messages": []}, "modify"),
            ({"modified_tools": []}, "modify"),
            ({"response": ""}, "modify"),
            ({"allow": False, "modified_args": {"x": 1}}, "deny"),
        ],
    )
    def test_the_action_follows_from_the_other_fields(
        self, fields: dict[str, Any], action: str
    ) -> None:
        assert types.HookResult(**fields).action == types.HookAction(action)

    def test_an_action_of_deny_denies(self) -> None:
        assert not types.HookResult(action="deny").allow
        assert not types.HookResult(action="block").allow

    def test_an_unknown_action_is_refused(self) -> None:
        with pytest.raises(pydantic.ValidationError):
            types.HookResult(action="perhaps")

    def test_an_allow_that_contradicts_the_action_is_refused(self) -> None:
        with pytest.raises(pydantic.ValidationError, match="contradicts"):
            types.HookResult(allow=False, action="allow")

    def test_a_severity_must_be_a_known_one(self) -> None:
        with pytest.raises(pydantic.ValidationError):
            types.HookResult(severity="awful")  # type: ignore[arg-type]


class TestStop:
    @pytest.mark.parametrize("reason", ["", "  \n"])
    def test_to_continue_without_a_reason_is_refused(self, reason: str) -> None:
        with pytest.raises(ValueError, match="non-empty reason"):
            types.StopHookResult(decision=types.StopDecision.CONTINUE, reason=reason)

    def test_to_stop_needs_no_reason(self) -> None:
        assert types.StopHookResult().decision is types.StopDecision.ALLOW_STOP


class Opaque:
    """A value that no serialiser knows, and whose own text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class TestHookEvent:
    @pytest.mark.parametrize(
        "value",
        [
            object(),
            {"x": object()},
            b"\xff\xfe",
            float("nan"),
            "\ud800 lone surrogate",
            {"\ud800": 1},
            {1, 2},
            Opaque(),
            ValueError("x"),
            types.ToolCall(name="t"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_any_input_and_output_can_be_dumped_as_json(self, value: Any) -> None:
        event = types.HookEvent(type="x", input=value, output=value)
        assert "input" in json.loads(event.model_dump_json())

    def test_values_that_refer_to_themselves_can_be_dumped(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert json.loads(types.HookEvent(type="x", input=loop).model_dump_json())["type"] == "x"

    def test_texts_that_are_not_unicode_can_be_dumped(self) -> None:
        event = types.HookEvent(type="x", tool_name="\ud800", error="\ud800", reason="\ud800")
        assert json.loads(event.model_dump_json())["type"] == "x"

    def test_plain_values_are_dumped_as_they_are(self) -> None:
        event = types.HookEvent(type="x", input={"a": [1, "b"]}, usage=types.Usage(input_tokens=1))
        dumped = json.loads(event.model_dump_json())
        assert dumped["input"] == {"a": [1, "b"]}
        assert dumped["usage"]["input_tokens"] == 1


class TestToolContext:
    def test_it_keeps_state_and_knows_its_session(self) -> None:
        context = types.ToolContext("s")
        context.set_state("x", 1)
        assert context.get_state("x") == 1
        assert context.session_id == "s"
