"""A run through the pipeline: session, turn, agent, sub-agents, the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.drivers import Split, drive
from otelhooks.records import semconv
from otelhooks.telemetry import metrics

Result = types.HookResult


class Seat(RunSeat):
    """A framework that answers with texts, refuses with one, and can be sent on."""

    framework = "fake"

    def __init__(self) -> None:
        self.runs: list[RunRequest] = []
        self.fails: BaseException | None = None

    def refused(self, request: RunRequest, reason: str) -> Any:
        return f"refused: {reason}"

    def answered(self, request: RunRequest, response: Any) -> Any:
        return response

    def is_paused(self, request: RunRequest, raw: Any) -> bool:
        return raw == "PAUSED"

    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:
        return RunRequest(request.agent, reason)

    def body(self, request: RunRequest) -> Any:
        self.runs.append(request)
        if self.fails is not None:
            raise self.fails
        return f"answer to {request.prompt}"

    def run(self, agent: str = "a", prompt: Any = "hi", body: Any = None, **fields: Any) -> Any:
        rt = runtime.active()
        assert rt is not None
        return drive(agent_run(rt, self, RunRequest(agent, prompt, **fields)), body or self.body)


@pytest.fixture
def seat() -> Seat:
    return Seat()


def every_hook(log: list[str]) -> list[Any]:
    """Return a hook at each point of a run that notes its name."""
    inspect = ("on_run_start", "on_run_end", "post_turn", "on_subagent_start", "on_subagent_stop")
    answers = {"pre_turn": Result(), "pre_agent": Result()}
    answers |= dict.fromkeys((*inspect, "stop", "post_agent_transform"))
    sessions = ("on_session_start", "on_session_end")
    return [
        *(getattr(hooks, name)(_noting(log, name, None)) for name in sessions),
        *(getattr(hooks, n)(_noting_data(log, n, answer)) for n, answer in answers.items()),
    ]


def _noting(log: list[str], name: str, value: Any) -> Any:
    def note() -> Any:
        log.append(name)
        return value

    return note


def _noting_data(log: list[str], name: str, value: Any) -> Any:
    def note(data: Any) -> Any:
        log.append(name)
        return value

    return note


ORDER = [
    "on_session_start",
    "on_run_start",
    "pre_turn",
    "pre_agent",
    "stop",
    "post_agent_transform",
    "post_turn",
    "on_run_end",
    "on_session_end",
]


class TestOrder:
    def test_the_points_of_a_run_in_their_order(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        governed(hooks=every_hook(log))
        assert seat.run() == "answer to hi"
        assert log == ORDER

    def test_without_hooks_every_point_leaves_its_mark(self, governed: Any, seat: Seat) -> None:
        governed()
        seat.run()
        assert governed.events == [
            semconv.EVENT_SESSION_START,
            semconv.EVENT_USER_MESSAGE,
            semconv.EVENT_STOP,
            semconv.EVENT_SESSION_END,
        ]
        span = governed.span("invoke_agent a")
        assert {record.trace_id for record in governed.records} == {span.context.trace_id}
        [point] = governed.points(semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION)
        assert point.count == 1

    def test_listeners_hear_of_each_point_once_also_where_no_other_hook_is(
        self, governed: Any, seat: Seat
    ) -> None:
        heard: list[str] = []
        governed(hooks=[hooks.on_event(lambda event: heard.append(event.type))])
        seat.run()
        assert heard == [
            "session_start",
            "before_run",
            "user_message",
            "before_agent",
            "stop",
            "after_agent",
            "post_turn",
            "after_run",
            "session_end",
        ]

    def test_a_failed_run_gets_its_end_and_no_post_hooks(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        infos: list[types.RunInfo] = []
        governed(hooks=[*every_hook(log), hooks.on_run_end(lambda info: infos.append(info))])
        seat.fails = ValueError("boom")
        with pytest.raises(ValueError, match="boom"):
            seat.run()
        assert log == [n for n in ORDER if n not in {"stop", "post_agent_transform", "post_turn"}]
        assert infos[0].error is seat.fails
        assert infos[0].duration is not None
        assert governed.span("invoke_agent a").status.status_code is StatusCode.ERROR

    def test_a_cancelled_run_gets_its_end(self, governed: Any) -> None:
        log: list[str] = []

        started = asyncio.Event()

        @otelhooks.agent("a")
        async def slow(message: str) -> None:
            started.set()
            await asyncio.sleep(30)

        governed(hooks=every_hook(log))

        async def main() -> None:
            task = asyncio.ensure_future(slow("x"))
            await asyncio.wait_for(started.wait(), 10)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert log[-2:] == ["on_run_end", "on_session_end"]

    def test_a_run_cancelled_in_a_hook_gets_its_end(self, governed: Any) -> None:
        log: list[str] = []
        ran: list[int] = []
        started = asyncio.Event()

        @hooks.pre_turn
        async def slow(data: Any) -> Result:
            started.set()
            await asyncio.sleep(30)
            return Result()

        @otelhooks.agent("a")
        async def run(message: str) -> None:
            ran.append(1)

        governed(hooks=[*every_hook(log), slow])

        async def main() -> None:
            task = asyncio.ensure_future(run("x"))
            await asyncio.wait_for(started.wait(), 10)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert ran == []
        assert "on_run_end" in log

    def test_an_abandoned_run_ends_its_span_and_its_session(
        self, governed: Any, seat: Seat
    ) -> None:
        log: list[str] = []
        governed(hooks=every_hook(log))
        rt = runtime.active()
        assert rt is not None
        split = Split(agent_run(rt, seat, RunRequest("a", "x"))).begin()
        assert split.proceeds
        split.abandon()
        assert governed.span("invoke_agent a")
        assert log[-1] == "on_session_end"

    def test_a_resumed_run_has_no_user_message(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        governed(hooks=every_hook(log))
        seat.run(is_resumed=True)
        assert "pre_turn" not in log
        assert "on_run_start" in log
        assert semconv.EVENT_USER_MESSAGE not in governed.events

    def test_a_paused_run_has_no_answer_yet_and_its_session_goes_on(
        self, governed: Any, seat: Seat
    ) -> None:
        log: list[str] = []
        governed(hooks=every_hook(log))
        assert seat.run(body=lambda request: "PAUSED") == "PAUSED"
        assert log == ["on_session_start", "on_run_start", "pre_turn", "pre_agent", "on_run_end"]

    def test_a_turn_of_a_trigger_says_so(self, governed: Any, seat: Seat) -> None:
        seen: list[Any] = []

        @hooks.pre_turn
        def note(context: hooks.TurnContext, data: Any) -> Result:
            seen.append((context.get("source"), context.get("turn_number")))
            return Result()

        governed(hooks=[note])
        seat.run(source="trigger")
        assert seen == [("trigger", 1)]


class TestRefusals:
    @pytest.mark.parametrize("point", ["pre_turn", "pre_agent"])
    def test_a_refusal_is_the_frameworks_own_answer(
        self, governed: Any, seat: Seat, point: str
    ) -> None:
        log: list[str] = []
        deny = getattr(hooks, point)(lambda data: Result(allow=False, message="not today"))
        governed(hooks=[deny, *every_hook(log)])
        assert seat.run() == "refused: not today"
        assert seat.runs == []
        assert "post_turn" not in log
        assert "post_agent_transform" not in log
        assert "on_run_end" in log
        attributes = governed.attributes("invoke_agent a")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.HOOK_POINT] == point
        assert attributes[semconv.ERROR_TYPE] == "policy_denied"

    def test_raise_on_deny_raises_with_what_decided(self, governed: Any, seat: Seat) -> None:
        deny = hooks.pre_turn(rule_id="r")(lambda data: Result(allow=False, message="no"))
        governed(hooks=[deny], raise_on_deny=True)
        with pytest.raises(Denied, match="no") as caught:
            seat.run()
        assert caught.value.rule_id == "r"
        assert caught.value.decision_id

    def test_a_framework_without_a_form_raises(self, governed: Any) -> None:
        deny = hooks.pre_turn(rule_id="r")(lambda data: Result(allow=False, message="no"))
        log: list[str] = []
        governed(hooks=[deny, *every_hook(log)])
        ran: list[int] = []

        @otelhooks.agent("a")
        def run(message: str) -> None:
            ran.append(1)

        with pytest.raises(Denied) as caught:
            run("x")
        assert caught.value.rule_id == "r"
        assert ran == []
        assert "on_run_end" in log

    def test_monitor_mode_observes_and_goes_on(self, governed: Any, seat: Seat) -> None:
        deny = hooks.pre_turn(lambda data: Result(allow=False, message="no"))
        governed(hooks=[deny], mode="monitor")
        assert seat.run() == "answer to hi"
        attributes = governed.attributes("invoke_agent a")
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert semconv.ERROR_TYPE not in attributes

    def test_a_later_allow_does_not_take_a_stricter_verdict_off_the_span(
        self, governed: Any, seat: Seat
    ) -> None:
        governed(
            hooks=[
                hooks.pre_turn(lambda data: Result(modified_prompt="other")),
                hooks.pre_agent(lambda data: Result()),
            ]
        )
        assert seat.run() == "answer to other"
        attributes = governed.attributes("invoke_agent a")
        assert attributes[semconv.POLICY_DECISION] == "modify"
        assert attributes[semconv.HOOK_POINT] == "pre_turn"

    def test_a_ready_answer_passes_the_post_hooks(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        governed(
            hooks=[
                hooks.pre_agent(lambda data: Result(response="ready")),
                hooks.post_agent_transform(lambda answer: answer + "!"),
                *every_hook(log),
            ]
        )
        assert seat.run() == "ready!"
        assert seat.runs == []
        assert log[-3:] == ["post_turn", "on_run_end", "on_session_end"]

    def test_a_withheld_answer(self, governed: Any, seat: Seat) -> None:
        governed(hooks=[hooks.post_agent_transform(lambda a: Result(allow=False, message="gone"))])
        assert seat.run() == "gone"
        assert semconv.EVENT_WITHHELD in governed.events
        assert governed.attributes("invoke_agent a")[semconv.WITHHELD] is True


class TestStop:
    def go_on(self, reason: str = "more") -> Any:
        decision = types.StopDecision.CONTINUE
        return hooks.stop(lambda args: types.StopHookResult(decision=decision, reason=reason))

    def test_a_turn_is_sent_on_at_most_as_often_as_allowed(self, governed: Any, seat: Seat) -> None:
        counts: list[int] = []
        count = hooks.stop(lambda args: counts.append(args.continuation_count))
        governed(hooks=[count, self.go_on()])
        assert seat.run() == "answer to more"
        assert [request.prompt for request in seat.runs] == ["hi", "more", "more"]
        assert counts == [0, 1, 2]

    def test_the_number_can_be_set(self, governed: Any, seat: Seat) -> None:
        governed(hooks=[self.go_on()], max_continuations=0)
        seat.run()
        assert len(seat.runs) == 1

    def test_an_exception_lets_the_run_stop_and_is_logged(
        self, governed: Any, seat: Seat, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed(hooks=[hooks.stop(lambda args: 1 / 0)])
        assert seat.run() == "answer to hi"
        assert "a stop hook failed; the run stops" in caplog.text

    def test_a_framework_that_cannot_be_sent_on_says_so_once(
        self, governed: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        @otelhooks.agent("a")
        def run(message: str) -> Iterator[str]:
            yield "done"

        governed(hooks=[self.go_on()])
        assert list(run("x")) == ["done"]
        assert "cannot be continued from outside" in caplog.text

    def test_stop_arguments_say_the_answer_and_the_place(self, governed: Any, seat: Seat) -> None:
        seen: list[types.StopArgs] = []
        governed(hooks=[hooks.stop(lambda args: seen.append(args))])
        seat.run(conversation="c")
        assert (seen[0].response_text, seen[0].session_id) == ("answer to hi", "c")


class TestPostTurn:
    def test_its_data_is_a_text_with_text_and_usage(self, governed: Any, seat: Seat) -> None:
        seen: list[Any] = []

        @otelhooks.model_call(model="m")
        def ask(messages: list[Any]) -> types.ModelResponse:
            return types.ModelResponse(text="x", usage=types.Usage(input_tokens=4))

        def body(request: RunRequest) -> str:
            ask([])
            ask([])
            return "done"

        governed(hooks=[hooks.post_turn(lambda data: seen.append(data))])
        seat.run(body=body)
        [data] = seen
        assert isinstance(data, str)
        assert (data, data.text, data.usage.input_tokens) == ("done", "done", 8)
        assert governed.attributes("invoke_agent a")[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 8


class TestTraces:
    def test_turns_of_a_conversation_are_traces_linked_in_order(
        self, governed: Any, seat: Seat
    ) -> None:
        governed()
        for _ in range(3):
            seat.run(conversation="c")
        first, second, third = governed.spans
        assert len({span.context.trace_id for span in governed.spans}) == 3
        assert [list(s.links) for s in (first,)] == [[]]
        assert second.links[0].context.span_id == first.context.span_id
        assert third.links[0].context.span_id == second.context.span_id
        assert second.attributes[semconv.GEN_AI_CONVERSATION_ID] == "c"
        assert governed.events.count(semconv.EVENT_SESSION_START) == 1
        otelhooks.uninstrument()
        assert governed.events.count(semconv.EVENT_SESSION_END) == 1

    def test_one_trace_of_a_session_if_wanted(self, governed: Any, seat: Seat) -> None:
        governed()
        with otelhooks.session("c", trace="single"):
            seat.run()
            seat.run()
        names = ["invoke_agent a", "invoke_agent a"]
        assert governed.trees == [("session", [(name, []) for name in names])]

    def test_a_workflow_has_its_own_span(self, governed: Any, seat: Seat) -> None:
        governed()
        seat.run(operation=semconv.OP_INVOKE_WORKFLOW)
        assert governed.attributes("invoke_workflow a")[semconv.GEN_AI_WORKFLOW_NAME] == "a"

    def test_the_task_is_on_every_span_event_and_record_below(
        self, governed: Any, seat: Seat
    ) -> None:
        records: list[Any] = []
        heard: list[str] = []

        @otelhooks.tool
        def t() -> None: ...

        def body(request: RunRequest) -> str:
            t()
            seat.run("inner", body=lambda request: "x")
            return "done"

        governed(
            hooks=[
                hooks.pre_tool_call_decide(lambda data: records.append(data) or Result()),
                hooks.on_run_start(lambda info: records.append(info)),
                hooks.on_event(lambda event: heard.append(event.task_id)),
            ]
        )
        seat.run(body=body, task_id="task-1")
        for span in governed.spans:
            assert span.attributes[semconv.TASK_ID] == "task-1"
        assert [record.task_id for record in records] == ["task-1", "task-1"]
        assert set(heard[1:-1]) == {"task-1"}
        [event] = governed.event(semconv.EVENT_USER_MESSAGE)
        assert event[semconv.TASK_ID] == "task-1"


class TestMetrics:
    CALLS = semconv.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS
    TOOLS = semconv.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS
    DURATION = semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION

    @staticmethod
    def agent() -> Any:
        @otelhooks.tool
        def look(at: str) -> str:
            if at == "worse":
                raise ValueError(at)
            return at

        @otelhooks.model_call(model="m")
        def think(messages: list[Any]) -> types.ModelResponse:
            usage = types.Usage(
                input_tokens=3,
                output_tokens=2,
                cache_read_input_tokens=1,
                cache_write_input_tokens=1,
                reasoning_output_tokens=1,
            )
            return types.ModelResponse(text="answer", usage=usage)

        @otelhooks.agent("inner")
        def inner(message: str) -> str:
            look(message)
            return think([message]).text

        @otelhooks.agent("outer")
        def outer(message: str) -> str:
            for place in ("here", "worse", "secret"):
                with contextlib.suppress(ValueError, Denied):
                    look(place)
            think([message])
            return think([inner(message)]).text

        return outer

    def test_calls_are_counted_once_with_the_agent_that_makes_them(self, governed: Any) -> None:
        """Those that fail, too; those that are denied do not run."""
        secret = policy.deny("look", when=lambda args: args["at"] == "secret")
        governed(policies=[secret])
        self.agent()("hello")
        for metric, outer, inner in ((self.CALLS, 2, 1), (self.TOOLS, 2, 1)):
            found = {
                point.attributes[semconv.GEN_AI_AGENT_NAME]: point.sum
                for point in governed.points(metric)
            }
            assert found == {"outer": outer, "inner": inner}

    def test_an_agent_whose_model_calls_are_not_seen_has_no_number_of_them(
        self, governed: Any
    ) -> None:
        governed()
        otelhooks.agent("blind")(lambda message: message)("hello")
        assert governed.points(self.CALLS) == []
        [point] = governed.points(self.TOOLS)
        assert (point.count, point.sum) == (1, 0)

    def test_a_refused_run_has_a_duration_and_made_no_calls(
        self, governed: Any, seat: Seat
    ) -> None:
        governed(hooks=[hooks.pre_turn(lambda _: Result(allow=False, message="no"))])
        seat.run()
        assert len(governed.points(self.DURATION)) == 1
        assert governed.points(self.TOOLS) == []

    def test_a_run_has_no_sums_of_parts_of_tokens(self, governed: Any) -> None:
        governed()
        self.agent()("hello")
        attributes = governed.attributes("invoke_agent outer")
        usage = {name for name in attributes if name.startswith("gen_ai.usage.")}
        assert usage == {semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS}

    def test_runs_that_the_framework_measures_are_not_measured_twice(
        self, governed: Any, seat: Seat, meter_provider: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It does so at the global provider, if there is one, and not if nothing ran."""
        monkeypatch.setattr(RunRequest, "is_measured", True)
        governed()
        seat.run()
        otelhooks.uninstrument()
        assert len(governed.points(self.DURATION)) == 1  # the provider is not the global one
        monkeypatch.setattr(metrics, "get_meter_provider", lambda: meter_provider)
        governed()
        seat.run()
        assert [point.count for point in governed.points(self.DURATION)] == [1]
        assert [point.count for point in governed.points(self.TOOLS)] == [1]
        otelhooks.uninstrument()
        governed(hooks=[hooks.pre_turn(lambda _: Result(allow=False, message="no"))])
        seat.run()
        assert [point.count for point in governed.points(self.DURATION)] == [2]


class TestSubagents:
    def test_a_run_in_a_tool_call_is_a_sub_agent_of_it(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        infos: list[types.SubagentInfo] = []

        @otelhooks.tool
        def delegate(task: str) -> Any:
            return seat.run("worker", task)

        def body(request: RunRequest) -> Any:
            log.append("body")
            return delegate("dig")

        governed(hooks=[*every_hook(log), hooks.on_subagent_stop(lambda info: infos.append(info))])
        assert seat.run("boss", body=body) == "answer to dig"
        inner = log[log.index("body") + 1 : log.index("on_subagent_stop") + 1]
        assert inner == [
            "on_subagent_start",
            "pre_agent",
            "stop",
            "post_agent_transform",
            "on_subagent_stop",
        ]
        assert log.count("on_run_start") == log.count("pre_turn") == 1
        [info] = infos
        assert (info.agent, info.parent, info.task) == ("worker", "boss", "dig")
        assert (info.response, info.branch) == ("answer to dig", "boss/worker")
        assert governed.trees == [
            (
                "invoke_agent boss",
                [("execute_tool delegate", [("invoke_agent worker", [])])],
            )
        ]
        assert semconv.EVENT_SUBAGENT_START in governed.events

    def test_rules_for_invoke_subagent_apply_to_the_start(self, governed: Any, seat: Seat) -> None:
        @otelhooks.tool
        def delegate(task: str) -> Any:
            return seat.run("worker", task)

        rule = policy.deny("invoke_subagent", when=lambda args: args["agent"] == "worker")
        governed(policies=[rule])
        assert seat.run("boss", body=lambda r: delegate("dig")).startswith("refused: Denied by")
        assert seat.runs == []

    def test_a_rewritten_task_is_what_the_sub_agent_is_asked(
        self, governed: Any, seat: Seat
    ) -> None:
        @otelhooks.tool
        def delegate(task: str) -> Any:
            return seat.run("worker", task)

        @hooks.pre_tool_call_decide
        def softer(data: types.ToolCall) -> Result:
            changes = data.name == "invoke_subagent"
            return Result(modified_args={"task": "rest"} if changes else None)

        governed(hooks=[softer])
        assert seat.run("boss", body=lambda r: delegate("dig")) == "answer to rest"

    def test_a_failed_sub_agent_gets_its_stop(self, governed: Any, seat: Seat) -> None:
        infos: list[types.SubagentInfo] = []

        class Raising(RunSeat):
            framework = "fake"

        @otelhooks.tool
        def delegate() -> Any:
            rt = runtime.active()
            assert rt is not None
            return drive(agent_run(rt, Raising(), RunRequest("worker", "x")), lambda r: 1)

        governed(
            hooks=[
                hooks.on_subagent_stop(lambda info: infos.append(info)),
                hooks.pre_agent(lambda data: Result(allow=data.agent == "boss", message="no")),
            ]
        )
        with pytest.raises(Denied):
            seat.run("boss", body=lambda r: delegate())
        assert isinstance(infos[0].error, Denied)

    def test_a_sub_agents_state_has_the_starting_operation_as_parent(
        self, governed: Any, seat: Seat
    ) -> None:
        seen: list[Any] = []

        @otelhooks.tool
        def delegate() -> Any:
            context = otelhooks.current_context()
            assert context is not None
            context.set("from", "operation")
            return seat.run("worker")

        @hooks.pre_agent
        def look(context: hooks.HookContext, data: Any) -> Result:
            seen.append(context.get("from"))
            return Result()

        governed(hooks=[look])
        seat.run("boss", body=lambda r: delegate())
        assert seen == [None, "operation"]

    def test_an_agent_inside_a_run_is_not_a_turn(self, governed: Any, seat: Seat) -> None:
        log: list[str] = []
        governed(hooks=every_hook(log))
        seat.run("boss", body=lambda r: seat.run("peer"))
        assert log.count("pre_turn") == 1
        assert log.count("pre_agent") == 2
        assert "on_subagent_start" not in log
        assert governed.attributes("invoke_agent peer")[semconv.AGENT_BRANCH] == "boss/peer"


class TestGaps:
    def test_a_call_that_was_asked_for_and_judged_by_no_seat_is_counted(
        self, governed: Any, seat: Seat, caplog: pytest.LogCaptureFixture
    ) -> None:
        @otelhooks.model_call(model="m")
        def ask(messages: list[Any]) -> types.ModelResponse:
            return types.ModelResponse(tool_calls=[types.ToolCall(name="t", id="c1")])

        governed(policies=[policy.deny("x")])
        seat.run(body=lambda r: ask([]))
        assert governed.total(semconv.METRIC_COVERAGE_GAPS) == 1
        assert "coverage gap: tool `t`" in caplog.text

    def test_a_name_that_a_model_made_up_does_not_forge_a_log_line(
        self, governed: Any, seat: Seat, caplog: pytest.LogCaptureFixture
    ) -> None:
        forged = "t`\nINFO otelhooks: all is well\u2028\u202e" + "x" * 10_000

        @otelhooks.model_call(model="m")
        def ask(messages: list[Any]) -> types.ModelResponse:
            return types.ModelResponse(tool_calls=[types.ToolCall(name=forged, id="c1")])

        governed(policies=[policy.deny("x")])
        seat.run(body=lambda r: ask([]))
        (message,) = [m for m in caplog.messages if m.startswith("coverage gap")]
        assert message.isprintable()
        assert len(message) < 1_000
