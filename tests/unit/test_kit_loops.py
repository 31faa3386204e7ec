"""Loops that run in another process: their turns, agents, calls and budgets, with a fake one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied, SeatError
from otelhooks.frameworks.kit import unjudged
from otelhooks.frameworks.kit.remote import asked, loops
from otelhooks.frameworks.kit.telemetry import replaces_spans
from otelhooks.hooks.calls import Call
from otelhooks.records import semconv

REASON = "Not that."


class Turn(loops.RemoteRun):
    framework, can_go_on = "fake", True


class SubRun(loops.RemoteRun):
    framework = "fake"


class Loop(loops.Loop):
    framework, provider, agent_run = "fake", "fake", SubRun
    package, unnamed = ("otelhooks", "otelhooks"), "main"

    def __init__(self, conversation: str = "talk") -> None:
        super().__init__(conversation, "main", "model")
        self.stopped: list[str] = []

    async def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    async def ask(self, make: type[Any], tool: str, key: str = "", **args: Any) -> tuple[Any, Any]:
        """Ask about a call; return why it may not run, and the call."""
        call = make()
        call.loop, call.id, call.name, call.key, call.args = self, f"{tool}-1", tool, key, args
        if not call.is_remote:
            call.goes_to("fake.own", tool)
        return await call.ask(), call


class Asked(asked.AskedCall):
    framework = "fake"


class Remote(asked.RemoteCall):
    framework = "fake"


class Starting(Remote):
    def starts(self) -> list[Any]:
        return [SubRun.of(task, task, self.key) for task in self.approved["tasks"]]


class Own(asked.OwnCall):
    framework, group = "fake", "fake.own"

    def read(self, loop: Any, name: str, given: Any, id: str = "") -> None:
        self.name = name
        self.take_for(loop, given, id)

    async def call(self, wrapped: Any, args: Any) -> Any:
        return await wrapped(self.name, args)


class Tools:
    """The tools of this process."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    async def body(self, name: str, args: Any, id: str = "") -> Any:
        self.ran.append((name, args))
        if name == "broken":
            raise ValueError("disk")
        return f"{name} ran"

    async def run(self, loop: Any, name: str, id: str = "", **given: Any) -> Any:
        return await Own.through("coroutine", self.body, loop, name, given, id)


def in_turn(work: Callable[[Loop], Any], prompt: str = "hello") -> Loop:
    """Run a coroutine function within a turn of a loop, in a task that knows nothing of it."""

    async def run() -> Loop:
        loop = Loop()
        assert await asyncio.create_task(loop.begin(Turn.of("", prompt)))
        await asyncio.create_task(work(loop))
        await loop.close()
        return loop

    return asyncio.run(run())


def span_of(governed: Any, name: str) -> Any:
    (span,) = [span for span in governed.spans if span.name == name]
    return span


# -- calls ----------------------------------------------------------------------------------------


def test_a_call_lies_in_the_turn_whatever_task_asks(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        reason, call = await loop.ask(Remote, "shell", line="ls")
        assert reason is None
        assert loop.ended(call.id) is call
        assert loop.ended(call.id) is None
        assert await call.has_ended("files") == "files"

    in_turn(work)
    turn, call = span_of(governed, "invoke_agent main"), span_of(governed, "execute_tool shell")
    assert call.parent.span_id == turn.context.span_id
    assert call.attributes[semconv.GEN_AI_CONVERSATION_ID] == "talk"


def test_a_denied_call_is_reported_with_its_reason(governed: Any) -> None:
    governed(policies=[policy.deny("shell", reason=REASON)])

    async def work(loop: Loop) -> None:
        reason, call = await loop.ask(Remote, "shell")
        assert reason == REASON
        assert loop.calls == {}
        assert loop.judged == {call.id}

    in_turn(work)
    assert span_of(governed, "execute_tool shell").attributes[semconv.POLICY_DECISION] == "deny"


@pytest.mark.parametrize("known_by", ["task", "seat"])
def test_a_tool_of_this_process_is_judged_once(governed: Any, known_by: str) -> None:
    governed(policies=[policy.RateLimit(tool_calls=1)])
    tools = Tools()

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Asked, "read", n=1, of=[2, 0.5])
        if known_by == "task":
            loop.serve(call.id, "")
        id = call.id if known_by == "seat" else ""
        assert await tools.run(loop, "read", id, n=1.0, of=[2.0, 0.5]) == "read ran"
        with pytest.raises(Denied):
            await tools.run(loop, "read", n=1)  # what a body calls is another call

    in_turn(work)
    assert repr(tools.ran) == "[('read', {'n': 1, 'of': [2, 0.5]})]"  # as approved: no float
    found = [s for s in governed.spans if s.name == "execute_tool read"]
    assert [s.attributes[semconv.POLICY_DECISION] for s in found] == ["allow", "deny"]


def test_arguments_that_changed_on_the_way_are_judged_again(governed: Any) -> None:
    governed(policies=[policy.deny("read", when=lambda args: args["n"] == 2, reason=REASON)])
    tools = Tools()

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Asked, "read", n=1)
        loop.serve(call.id, "")
        with pytest.raises(Denied, match=REASON):
            await tools.run(loop, "read", n=2)

    in_turn(work)
    assert tools.ran == []
    found = [s for s in governed.spans if s.name == "execute_tool read"]
    assert [s.attributes[semconv.ERROR_TYPE] for s in found] == [semconv.ERROR_POLICY_DENIED] * 2


def test_a_request_that_was_not_asked_about_is_judged_in_its_turn(governed: Any) -> None:
    governed(policies=[policy.deny("read", reason=REASON)])

    async def work(loop: Loop) -> None:
        loop.serve("late", "")
        with pytest.raises(Denied, match=REASON):
            await Tools().run(None, "read")
        assert loop.judged == {"late"}

    in_turn(work)
    turn, call = span_of(governed, "invoke_agent main"), span_of(governed, "execute_tool read")
    assert call.parent.span_id == turn.context.span_id


def test_a_tool_that_the_application_calls_itself_is_judged_where_it_is(governed: Any) -> None:
    governed()
    assert asyncio.run(Tools().run(None, "read")) == "read ran"
    assert span_of(governed, "execute_tool read").parent is None


def test_a_failure_in_this_process_can_be_recovered_from(governed: Any) -> None:
    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        return "try the other"

    governed(hooks=[recover])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Asked, "broken")
        loop.serve(call.id, "")
        assert await Tools().run(loop, "broken") == "try the other"

    in_turn(work)
    assert span_of(governed, "execute_tool broken").attributes[semconv.RECOVERED] is True


class Boxed(Own):
    """A tool whose results have a form of their own, which only its body's seat knows."""

    async def call(self, wrapped: Any, args: Any) -> Any:
        return {"box": await wrapped(self.name, args)}

    def value(self, raw: Any) -> Any:
        return raw["box"]

    def with_value(self, raw: Any, value: Any) -> Any:
        return {"box": value}

    def recovered(self, value: Any) -> Any:
        return {"box": value}


@pytest.mark.parametrize(("tool", "found"), [("read", "[redacted]"), ("broken", "try the other")])
def test_the_result_of_a_call_that_was_asked_about_has_the_form_of_its_body(
    governed: Any, tool: str, found: str
) -> None:
    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return "[redacted]" if result.result == "read ran" else None

    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        return "try the other"

    governed(hooks=[redact, recover])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Asked, tool)
        body = Tools().body
        assert await Boxed.through("coroutine", body, loop, tool, {}, call.id) == {"box": found}

    in_turn(work)


def test_a_failure_in_the_other_process_stays_one_with_another_text(governed: Any) -> None:
    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        return "try the other"

    governed(hooks=[recover])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Remote, "shell")
        assert await loop.failed(call.id, RuntimeError("gone")) == "try the other"
        assert await loop.failed(call.id, RuntimeError("gone")) is None

    in_turn(work)


def test_another_error_than_the_loops_is_not_lost(governed: Any) -> None:
    class Failing(Remote):
        def failed(self, error: BaseException, message: str) -> Any:
            raise OSError(message)

    @hooks.on_tool_error
    def other(error: Exception) -> str:
        return "try the other"

    governed(hooks=[other])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Failing, "shell")
        with pytest.raises(OSError, match="try the other"):
            await loop.failed(call.id, RuntimeError("gone"))

    in_turn(work)


def test_the_failure_of_a_tool_of_this_process_keeps_its_text_in_the_other(governed: Any) -> None:
    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        return "try the other"

    governed(hooks=[recover])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Asked, "broken")
        assert await loop.failed(call.id, RuntimeError("gone")) is None

    in_turn(work)


def test_a_result_that_is_taken_back_is_known_to_be(governed: Any) -> None:
    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return "[redacted]" if result.name == "shell" else None

    governed(hooks=[redact])

    async def work(loop: Loop) -> None:
        for tool, is_taken_back in (("shell", True), ("other", False)):
            _, call = await loop.ask(Remote, tool)
            found = await loop.returned(call.id, "secret")
            assert found is (call if is_taken_back else None)
            assert await loop.returned(call.id, "secret") is None

    in_turn(work)


def test_a_call_that_has_not_run_although_it_may_ends_once(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Remote, "shell")
        assert await loop.not_run(call.id, "Its own policy.")
        assert not await loop.not_run(call.id, "Its own policy.")

    in_turn(work)
    attributes = span_of(governed, "execute_tool shell").attributes
    assert attributes[semconv.ERROR_TYPE] == semconv.ERROR_TOOL_ERROR


def test_calls_whose_end_is_not_told_end_with_the_turn(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        await loop.ask(Remote, "shell")

    in_turn(work)
    span = span_of(governed, "execute_tool shell")
    assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_TOOL_ERROR


def test_a_call_of_an_unknown_loop_is_judged_and_ends_at_once(governed: Any) -> None:
    governed(policies=[policy.deny("danger", reason=REASON)])

    async def ask(tool: str) -> str | None:
        call = Remote()
        call.id, call.name = "1", tool
        return await call.ask()

    assert asyncio.run(ask("danger")) == REASON
    assert asyncio.run(ask("safe")) is None
    assert span_of(governed, "execute_tool safe")


def test_calls_that_no_seat_judges_are_a_gap(governed: Any, caplog: Any) -> None:
    governed(policies=[policy.deny("other")])

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Remote, "shell")
        loop.asks_for("", {"unseen-1": "unseen"})
        await call.has_ended("done")

    in_turn(work)
    assert "coverage gap: tool `unseen`" in caplog.text


# -- turns ----------------------------------------------------------------------------------------


def test_a_stop_hook_sends_a_turn_on(governed: Any) -> None:
    @hooks.stop
    def more(args: types.StopArgs) -> types.StopHookResult:
        goes_on = args.response_text == "one"
        decision = types.StopDecision.CONTINUE if goes_on else types.StopDecision.ALLOW_STOP
        return types.StopHookResult(decision=decision, reason="Go on.")

    governed(hooks=[more])

    async def work(loop: Loop) -> None:
        turn = loop.turn
        assert await turn.may_stop("one") == "Go on."
        assert turn.is_open
        assert await turn.may_stop("two") is None
        assert (turn.result, turn.is_open, turn.is_changed) == ("two", False, False)
        assert await turn.may_stop("three") is None
        await turn.end("three")
        await turn.fail(ValueError())
        assert turn.result == "two"

    in_turn(work)


def test_an_answer_that_hooks_change_is_known_to_be(governed: Any) -> None:
    @hooks.post_agent_transform
    def stamp(text: Any) -> Any:
        return {**text, "checked": True}

    governed(hooks=[stamp])

    async def work(loop: Loop) -> None:
        turn = loop.turn
        turn.value = {"n": 1}
        await loop.end()
        assert turn.is_changed
        assert turn.result == {"n": 1, "checked": True}

    in_turn(work)


def test_a_refused_turn_and_a_ready_answer_are_results(governed: Any) -> None:
    @hooks.pre_agent
    def decide(call: types.AgentCall) -> types.HookResult:
        if call.input == "no":
            return types.HookResult(allow=False, message=REASON)
        return types.HookResult(response="ready")

    governed(hooks=[decide])

    async def run() -> None:
        for prompt, result in (("no", REASON), ("yes", "ready")):
            loop, turn = Loop(), Turn.of("", prompt)
            assert not await loop.begin(turn)
            assert (turn.result, loop.turn) == (result, None)

    asyncio.run(run())


def test_a_refused_turn_raises_where_refusals_raise(governed: Any) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    governed(hooks=[refuse], raise_on_deny=True)
    with pytest.raises(Denied, match=REASON):
        asyncio.run(Loop().begin(Turn.of("", "hello")))


def test_a_closed_loop_begins_no_turn(governed: Any) -> None:
    governed()
    loop, turn = Loop(), Turn.of("", "hello")
    loop.closed = "It is over."
    assert not asyncio.run(loop.begin(turn))
    assert turn.result == "It is over."


def test_a_failed_turn_ends_its_span(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        await loop.turn.fail(ValueError("lost"))

    in_turn(work)
    assert span_of(governed, "invoke_agent main").attributes[semconv.ERROR_TYPE] == "ValueError"


def test_tokens_are_counted_and_stop_a_turn_that_has_spent_its_budget(governed: Any) -> None:
    governed(policies=[policy.Budget(tokens=5)])

    async def work(loop: Loop) -> None:
        await loop.count({"input_tokens": 4, "output_tokens": 0})
        assert loop.stopped == []
        loop.is_answering = True
        await loop.count({"input_tokens": 8, "output_tokens": 1})
        assert loop.stopped == []  # no model call follows
        loop.is_answering = False
        await loop.count({"input_tokens": 9, "output_tokens": 1})
        assert loop.stopped[0].startswith("Budget exceeded: 10 of 5 tokens used")
        await loop.end()
        turn = Turn.of("", "again")
        assert not await loop.begin(turn)
        assert turn.result.startswith("Budget exceeded")

    in_turn(work)
    first, second = [span for span in governed.spans if span.name == "invoke_agent main"]
    assert first.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 9
    assert second.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED


def test_tokens_that_are_reported_after_a_turn_count_for_its_session(governed: Any) -> None:
    governed(policies=[policy.Budget(tokens=5, per="session")])

    async def work(loop: Loop) -> None:
        await loop.count({"input_tokens": 4})
        await loop.end()
        await loop.count({"input_tokens": 9})
        assert loop.stopped == []  # no turn runs
        turn = Turn.of("", "again")
        assert not await loop.begin(turn)
        assert turn.result.startswith("Budget exceeded: 9 of 5 tokens used")

    in_turn(work)


def test_a_loop_that_asks_nothing_is_refused_where_anything_could_be_denied(
    governed: Any,
) -> None:
    governed()
    Loop.unguarded("started before")
    with otelhooks.scope(policies=[policy.deny("x")]):
        with pytest.raises(SeatError, match="started before"):
            Loop.unguarded("started before")


def test_without_instrumentation_all_goes_on(governed: Any) -> None:
    async def run() -> None:
        loop = Loop()
        Loop.unguarded("started before")
        turn = Turn.of("", "hello")
        assert await loop.begin(turn)
        with loops.inside(turn.context):
            assert (await loop.ask(Remote, "shell"))[0] is None
        assert await loop.start([SubRun.of("count", "count")], None) is None
        assert await Tools().run(loop, "read") == "read ran"
        await loop.count({"input_tokens": 4})
        await loop.close()

    asyncio.run(run())


def test_it_is_found_by_the_frameworks_objects() -> None:
    class Connection:
        pass

    loop, connection = Loop(), Connection()
    loop.found_by(connection, None)
    assert Loop.of(connection) is loop
    assert Loop.of(Connection()) is None


# -- agents ---------------------------------------------------------------------------------------


def test_agents_are_told_from_each_other_by_what_they_were_told(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        _, call = await loop.ask(Starting, "start", tasks=["count", "sing"])
        await loop.meet("t1", "", "now sing")
        await loop.meet("t1", "", "now sing")
        await loop.meet("t2", "", "now count")
        _, inner = await loop.ask(Remote, "shell", key="t1")
        await inner.has_ended("done")
        loop.agents["t1"].text = "la"
        await loop.left("t1")
        await call.has_ended("started")

    in_turn(work)
    singer, inner = span_of(governed, "invoke_agent sing"), span_of(governed, "execute_tool shell")
    start = span_of(governed, "execute_tool start")
    assert singer.parent.span_id == start.context.span_id
    assert inner.parent.span_id == singer.context.span_id
    assert span_of(governed, "invoke_agent count").end_time


def test_an_agent_that_may_not_start_denies_the_call_and_the_others(governed: Any) -> None:
    @hooks.pre_agent
    def refuse(call: types.AgentCall) -> types.HookResult:
        return types.HookResult(allow=call.agent != "sing", message=REASON)

    governed(hooks=[refuse])

    async def work(loop: Loop) -> None:
        reason, _ = await loop.ask(Starting, "start", tasks=["count", "sing"])
        assert reason == REASON
        assert loop.starting == []

    in_turn(work)
    assert span_of(governed, "invoke_agent count").end_time


@pytest.mark.parametrize("raises", [False, True])
def test_the_calls_of_an_agent_that_was_refused_are_denied(governed: Any, raises: bool) -> None:
    """One that no call has announced is met when it is at work already."""

    @hooks.pre_agent
    def refuse(call: types.AgentCall) -> types.HookResult:
        return types.HookResult(allow=call.agent != "subagent", message=REASON)

    governed(hooks=[refuse], raise_on_deny=raises)

    async def work(loop: Loop) -> None:
        await loop.meet("t1", "")
        assert (await loop.ask(Remote, "shell", key="t1"))[0] == REASON

    in_turn(work)


def test_several_agents_that_start_wait_for_their_first_step(governed: Any) -> None:
    governed()

    async def work(loop: Loop) -> None:
        await loop.ask(Starting, "start", key="talk", tasks=["count", "sing"])
        await loop.meet("t1", "talk")
        assert loop.agents == {}
        assert loop.agent_of("t1") is not None

    in_turn(work)


# -- what is not asked about ----------------------------------------------------------------------


def shell() -> list[Call]:
    return [Call("shell", {}, kind="shell")]


@pytest.mark.parametrize(
    ("rule", "of_shell", "of_any"),
    [
        (policy.deny("shell"), True, True),
        (policy.deny("kind:shell"), True, True),
        (policy.deny("own"), False, False),
        (policy.deny("other"), False, True),
        (policy.allow("shell"), False, False),
        (policy.RateLimit(tool_calls=1), True, True),
        (policy.deny_all(), True, True),
    ],
    ids=["name", "kind", "judged", "other", "allow", "limit", "all"],
)
def test_whether_a_call_could_be_denied(
    governed: Any, rule: Any, of_shell: bool, of_any: bool
) -> None:
    assert not unjudged.could_deny("main", None, frozenset())
    governed(policies=[rule])
    own = frozenset(("own",))
    assert unjudged.could_deny("main", shell(), own) is of_shell
    assert unjudged.could_deny("main", None, own) is of_any
    assert not unjudged.could_deny("main", [], own)


def test_an_adapter_refuses_by_rules_of_its_own(governed: Any) -> None:
    refusals = unjudged.Refusals("fake", {"start": ("unjudged", REASON)})

    class Objecting(Remote):
        def objection(self) -> Any:
            return refusals.in_force()

    async def work(loop: Loop) -> None:
        assert (await loop.ask(Objecting, "start"))[0] == (REASON if enforced else None)

    for enforced in (True, False):
        governed(policies=[policy.deny("other")], mode="enforce" if enforced else "monitor")
        in_turn(work)
        otelhooks.uninstrument()
    first, second = [span for span in governed.spans if span.name == "execute_tool start"]
    assert first.attributes[semconv.POLICY_RULE_ID] == "unjudged"
    assert second.attributes[semconv.POLICY_RULE_ID] == "unjudged"


def test_hidden_tools_are_known_beforehand(governed: Any) -> None:
    governed(policies=[policy.hide("danger"), policy.hide("files/erase"), policy.deny("files/x")])
    hiding = unjudged.Hiding("main")
    assert hiding.hides(Call("danger", {}))
    assert not hiding.hides(Call("safe", {}))
    assert hiding.of_server("files") == ["erase"]
    assert hiding.of_server("other") == []


# -- besides --------------------------------------------------------------------------------------


def test_what_is_not_understood_is_logged_without_its_text(caplog: Any) -> None:
    with loops.understood("an event"):
        raise ValueError("4711")
    assert "an event was not understood: ValueError" in caplog.text
    assert "4711" not in caplog.text


def test_a_framework_s_own_spans_rest_while_ours_are_made(governed: Any) -> None:
    assert not replaces_spans("fake")
    governed(spans="off")
    assert not replaces_spans("fake")
    otelhooks.uninstrument()
    governed()
    assert replaces_spans("fake")
