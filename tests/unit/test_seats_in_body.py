"""What seats may do in the framework's own call: pause it, report its failure, answer in it."""

from types import SimpleNamespace

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.permits import NextSeat
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv


class Failing(ToolSeat):
    """A framework that hands a failure on as a result."""

    def error(self, call, raw):
        return raw.error

    def recovered(self, call, value):
        return value


class Pausing(ToolSeat):
    """A framework whose tool returns before it is done."""

    def is_paused(self, call, raw):
        return raw == "come back"


class Answering(RunSeat):
    """A framework that gives refusals and ready answers in a run of its own."""

    refuses_in_body = True


@pytest.fixture
def instrument(tracer_provider):
    def start(*given):
        otelhooks.instrument(hooks=given, frameworks=[], tracer_provider=tracer_provider)
        return runtime.active()

    return start


def test_a_failure_that_is_a_result_reaches_error_hooks_as_the_exception(instrument, exporter):
    seen = []

    @hooks.on_tool_error
    def recover(error: Exception):
        seen.append(error)
        return "recovered"

    rt = instrument(recover)
    error = LookupError("gone")
    result = drive(tool(rt, Failing(), Call("find", {})), lambda _: SimpleNamespace(error=error))
    assert (result, seen) == ("recovered", [error])
    (span,) = exporter.get_finished_spans()
    assert span.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_a_call_that_pauses_goes_on_under_the_same_decision(instrument, exporter):
    judged = []

    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        judged.append(call.name)
        return types.HookResult()

    rt = instrument(rewrite)
    for answer in ("come back", "done"):
        operation = tool(rt, Pausing(), Call("deploy", {}, id="call-1"))
        assert drive(operation, lambda _, answer=answer: answer) == answer
    assert len(exporter.get_finished_spans()) == 2
    assert not rt.pauses


def test_a_call_that_paused_before_a_fork_is_judged_again_in_the_child(instrument):
    judged = []

    @hooks.pre_tool_call_decide
    def note(call: types.ToolCall) -> types.HookResult:
        judged.append(call.name)
        return types.HookResult()

    rt = instrument(note)
    drive(tool(rt, Pausing(), Call("deploy", {}, id="call-1")), lambda _: "come back")
    rt.after_fork()
    assert not rt.pauses
    drive(tool(rt, Pausing(), Call("deploy", {}, id="call-1")), lambda _: "done")
    assert len(judged) == 2


@pytest.mark.parametrize(
    ("result", "field"),
    [
        (types.HookResult(response="ready"), "answer"),
        (types.HookResult(allow=False, message="no"), "refusal"),
    ],
)
def test_the_body_gives_refusals_and_ready_answers_where_it_can(instrument, result, field):
    @hooks.pre_agent
    def decide(call: types.AgentCall) -> types.HookResult:
        return result

    rt = instrument(decide)
    operation = agent_run(rt, Answering(), RunRequest("ops", "hello"))
    given = drive(operation, lambda request: (request.answer, request.refusal))
    assert given == (("ready", None) if field == "answer" else (None, "no"))


class Outer(ToolSeat):
    """A framework that hands its calls to a deeper seat and makes texts of failures."""

    def next_seat(self, call):
        return NextSeat("deeper", call.name)


class Deeper(ToolSeat):
    """A seat that sees whether a call failed."""

    group = "deeper"

    def error(self, call, raw):
        return "the server says no"


def test_a_failure_that_only_a_deeper_seat_sees_is_the_calls(instrument, exporter):
    @hooks.on_tool_error
    def recover(error: Exception):
        return f"recovered from: {error}"

    rt = instrument(recover)

    def body(args):
        return drive(tool(rt, Deeper(), Call("find", args)), lambda _: "shown as a result")

    result = drive(tool(rt, Outer(), Call("find", {})), body)
    assert result == "recovered from: the server says no"
    (span,) = exporter.get_finished_spans()
    assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_TOOL_ERROR


class Interrupted(RunSeat):
    """A framework whose runs may stop half way."""

    def is_paused(self, request, raw):
        return raw == "paused"


def test_a_paused_run_goes_on_in_its_conversation_and_is_linked_to_it(instrument, exporter):
    ended = []

    @hooks.on_session_end
    def end():
        ended.append(True)

    rt = instrument(end)
    first = RunRequest("ops", "hello")
    drive(agent_run(rt, Interrupted(), first), lambda request: "paused")
    assert ended == []
    second = RunRequest("ops", "", is_resumed=True)
    second.session = first.session
    drive(agent_run(rt, Interrupted(), second), lambda request: "done")
    assert ended == [True]
    paused, resumed = exporter.get_finished_spans()
    assert [link.context for link in resumed.links] == [paused.context]
