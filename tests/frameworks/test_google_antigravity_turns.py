"""Google Antigravity SDK: turns, sessions, answers, tokens, questions and the SDK's own spans."""

from __future__ import annotations

import asyncio
import functools
import gc
from typing import Any

import anyio
import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types as native
from google.antigravity.connections.local import event_processor
from google.antigravity.hooks import hook_runner
from google.antigravity.hooks import hooks as native_hooks
from google.antigravity.utils import otel as native_otel
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.frameworks.google_antigravity.scripted import prove
from otelhooks.frameworks.kit.remote import loops
from otelhooks.records import semconv
from tests.frameworks.antigravity_world import ask, converse, model_of, started, tools_of
from tests.frameworks.contract import ANSWER, DANGER, SAFE, World

# The SDK's oldest version warns of a field that its own constructor sets.
pytestmark = pytest.mark.filterwarnings("ignore:CapabilitiesConfig.compaction_threshold")

TURN = "invoke_agent Antigravity"


@pytest.fixture
def instrument(with_rules: Any) -> Any:
    return functools.partial(with_rules, frameworks=["google_antigravity"])


def turns(exporter: Any) -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == TURN]


class TestConversations:
    def test_are_one_with_a_trace_for_each_message(self, instrument, exporter):
        instrument(policy.deny("something_else"))
        said, _ = converse("one", "two", prompts=("first", "second"))
        assert said == ["one", "two"]
        first, second = turns(exporter)
        id = semconv.GEN_AI_CONVERSATION_ID
        assert first.attributes[id] == second.attributes[id]
        assert first.context.trace_id != second.context.trace_id
        assert [link.context.span_id for link in second.links] == [first.context.span_id]

    def test_start_and_end_once(self, instrument):
        seen: list[str] = []

        @hooks.on_session_start
        def begin() -> None:
            seen.append("start")

        @hooks.on_session_end
        def end() -> None:
            seen.append("end")

        @hooks.post_turn
        def turn(text: Any) -> None:
            seen.append(f"{text}")

        instrument(hooks=[begin, end, turn])
        converse("one", "two", prompts=("first", "second"))
        assert seen == ["start", "one", "two", "end"]

    def test_that_go_on_from_before_are_the_same_and_known(self, instrument, exporter, tmp_path):
        places = {"save_dir": str(tmp_path / "saved"), "app_data_dir": str(tmp_path / "data")}
        world = World("one", (DANGER,), "two")

        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world), **places) as agent:
                await ask(agent)
                id = agent.conversation_id
            again = {"conversation_id": id, **places}
            async with started(model_of(world), tools=tools_of(world), **again) as agent:
                await ask(agent)

        instrument(policy.deny("danger", when_labels={"untrusted"}))
        anyio.run(run)
        assert world.ran == [("danger", DANGER.args)]  # all of it was seen here
        first, second = turns(exporter)
        id = semconv.GEN_AI_CONVERSATION_ID
        assert first.attributes[id] == second.attributes[id]

    def test_that_this_process_did_not_see_carry_the_label_unknown(self, instrument, tmp_path):
        places = {"save_dir": str(tmp_path / "saved"), "app_data_dir": str(tmp_path / "data")}
        world = World("one", (DANGER,), "two")

        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world), **places) as agent:
                await ask(agent)
                id = agent.conversation_id
            instrument(policy.deny("danger", when_labels={"untrusted"}, reason="unclear"))
            again = {"conversation_id": id, **places}
            async with started(model_of(world), tools=tools_of(world), **again) as agent:
                await ask(agent)

        anyio.run(run)
        assert world.ran == []
        assert "unclear" in world.told

    def test_are_limited_by_their_turns(self, instrument):
        instrument(policy.RateLimit(turns=1))
        said, _ = converse("one", prompts=("first", "second"))
        assert said == ["one", "Rate limit exceeded: 1 of 1 turns used"]


class TestAnswers:
    def test_that_a_hook_may_change_are_held_back(self, instrument):
        @hooks.post_agent_transform
        def stamp(text: Any) -> str:
            return f"{text}, checked"

        instrument(hooks=[stamp])
        seen: list[str] = []
        history: list[Any] = []

        async def run() -> None:
            steps: list[Any] = [(SAFE,), ANSWER]
            tools = tools_of(World())
            async with started(lambda shown: steps.pop(0), tools=tools) as agent:
                seen.extend([text async for text in await agent.chat("begin")])
                history.extend(step.content for step in agent.conversation.history)

        anyio.run(run)
        assert seen == [f"{ANSWER}, checked"]
        assert ANSWER not in history

    def test_that_a_hook_withholds_reach_no_consumer(self, instrument):
        @hooks.post_agent_transform
        def check(text: Any) -> Any:
            return types.HookResult(allow=False, message="Not for you.")

        instrument(hooks=[check])
        said, _ = converse(ANSWER)
        assert said == ["Not for you."]

    def test_with_a_schema_are_shown_as_values(self, instrument):
        seen: list[Any] = []

        @hooks.post_agent_transform
        def change(value: Any) -> Any:
            seen.append(value)
            return {**value, "number": 2}

        instrument(hooks=[change])

        async def run() -> Any:
            steps: list[Any] = [(("finish", {"number": 1}),)]
            schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
            async with started(lambda shown: steps.pop(0), response_schema=schema) as agent:
                response = await agent.chat("begin")
                return await response.structured_output()

        found = anyio.run(run)
        assert seen[0]["number"] == 1
        assert found["number"] == 2

    def test_a_ready_one_takes_the_place_of_a_run(self, instrument):
        @hooks.pre_agent
        def ready(call: types.AgentCall) -> types.HookResult:
            return types.HookResult(response="ready made")

        instrument(hooks=[ready])
        said, shown = converse()
        assert said == ["ready made"]
        assert shown == ""

    def test_of_a_refused_turn_raise_where_the_application_wants_it(self, instrument):
        @hooks.pre_turn
        def refuse(prompt: Any) -> types.HookResult:
            return types.HookResult(allow=False, message="No.")

        instrument(hooks=[refuse], raise_on_deny=True)
        with pytest.raises(Denied, match="No"):
            converse()

    def test_a_message_of_parts_is_shown_as_such_and_can_be_replaced(self, instrument):
        seen: list[Any] = []

        @hooks.pre_turn
        def look(prompt: Any) -> types.HookResult:
            seen.append(prompt)
            return types.HookResult(modified_prompt="all in one")

        instrument(hooks=[look])
        _, shown = converse("done", prompts=(["one", "two"],))  # type: ignore[arg-type]
        assert seen == ["one\ntwo"]
        assert "all in one" in shown
        assert "two" not in shown


class TestStop:
    def test_a_hook_sends_the_agent_on(self, instrument, exporter):
        asked: list[Any] = []

        @hooks.stop
        def more(args: types.StopArgs) -> types.StopHookResult:
            asked.append((args.response_text, args.continuation_count))
            goes_on = args.response_text == "one"
            decision = types.StopDecision.CONTINUE if goes_on else types.StopDecision.ALLOW_STOP
            return types.StopHookResult(decision=decision, reason="Count on.")

        instrument(hooks=[more])
        said, shown = converse("one", "two")
        assert said == ["two"]
        assert "Count on." in shown
        assert asked == [("one", 0), ("two", 1)]
        assert len(turns(exporter)) == 1

    def test_as_often_as_is_allowed(self, instrument):
        @hooks.stop
        def more(args: types.StopArgs) -> types.StopHookResult:
            return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason="More.")

        instrument(hooks=[more], max_continuations=1)
        said, _ = converse("one", "two")
        assert said == ["two"]

    def test_the_applications_own_hook_goes_first(self, instrument):
        @native_hooks.stop
        async def own(args: Any) -> Any:
            goes_on = args.response_text == "one"
            word = native.StopDecision.CONTINUE if goes_on else native.StopDecision.ALLOW_STOP
            return native.StopHookResult(decision=word, reason="Mine.")

        seen: list[str] = []

        @hooks.stop
        def ours(args: types.StopArgs) -> None:
            seen.append(args.response_text)

        instrument(hooks=[ours])
        _, shown = converse("one", "two", hooks=[own])
        assert "Mine." in shown
        assert seen == ["two"]


class TestTokens:
    def test_are_those_of_the_turn(self, instrument, exporter):
        seen: list[Any] = []

        @hooks.post_turn
        def turn(text: Any) -> None:
            seen.append((text.text, text.usage.input_tokens, text.usage.output_tokens))

        world = World()
        instrument(hooks=[turn])
        converse((SAFE,), "one", "two", prompts=("first", "second"), tools=tools_of(world))
        assert seen == [("one", 14, 6), ("two", 7, 3)]
        found = [s.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] for s in turns(exporter)]
        assert found == [14, 7]

    def test_a_budget_that_is_used_up_stops_the_turn_and_the_next(self, instrument, exporter):
        world = World((SAFE,), "never")
        instrument(policy.Budget(tokens=5, id="budget"))

        async def run() -> list[str]:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                return [await ask(agent), await ask(agent)]

        said = anyio.run(run)
        assert [text.startswith("Budget exceeded: 10 of 5 tokens used") for text in said] == [
            True,
            True,
        ]
        assert len(world.shown) == 1
        for span in turns(exporter):
            assert span.attributes[semconv.POLICY_RULE_ID] == "budget"
            assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED

    def test_the_answer_that_passes_a_budgets_border_is_let_through(self, instrument):
        instrument(policy.Budget(tokens=5))
        said, _ = converse("the last word", prompts=("first", "second"))
        assert said[0] == "the last word"
        assert said[1].startswith("Budget exceeded")


class TestTriggers:
    def _trigger(self, world: World, calls: int) -> None:
        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                connection: Any = agent.conversation.connection
                await ask(agent)
                await connection.send_trigger_notification("wake up")
                while len(world.shown) < calls:  # noqa: ASYNC110  # by the server's thread
                    await anyio.sleep(0.01)
                await connection.wait_for_idle()

        anyio.run(run)

    def test_start_a_turn_that_is_guarded(self, instrument, exporter):
        sources: list[Any] = []

        @hooks.pre_turn
        def look(prompt: Any, context: hooks.HookContext) -> types.HookResult:
            sources.append((prompt, context.get("source")))
            return types.HookResult()

        world = World("ready", (DANGER,), "done")
        instrument(policy.deny("danger", reason="Denied."), hooks=[look])
        self._trigger(world, calls=3)
        assert world.ran == []
        assert "Denied." in world.told
        # The harness may go on by itself once it is idle; that is a turn without a message.
        woken = [("", "trigger")] * (len(sources) - 2)
        assert sources == [("please begin", "user"), ("wake up", "trigger"), *woken]
        assert len(turns(exporter)) == len(sources)

    def test_can_be_refused(self, instrument):
        @hooks.pre_turn
        def refuse(prompt: Any) -> types.HookResult:
            return types.HookResult(allow=prompt != "wake up", message="asleep")

        world = World("ready")
        instrument(hooks=[refuse])
        self._trigger(world, calls=1)
        assert len(world.shown) == 1

    def test_a_wake_up_is_not_part_of_what_the_agent_was_started_in(self, instrument, exporter):
        instrument(policy.deny("something_else"))

        async def run() -> None:
            with otelhooks.turn("starts an agent"):
                manager = started(lambda shown: "never")
                agent = await manager.__aenter__()
            connection: Any = agent.conversation.connection
            state = loops.Loop.of(connection)
            assert state is not None
            wire = event_processor.localharness_pb2
            update = wire.TrajectoryStateUpdate(
                trajectory_id=state.conversation, state="STATE_RUNNING"
            )
            event = wire.OutputEvent(trajectory_state_update=update)
            with otelhooks.turn("reads what the harness tells"):
                await connection._processor.process_event(event)
            await manager.__aexit__(None, None, None)

        anyio.run(run)
        (woken,) = turns(exporter)
        assert woken.parent is None


class TestQuestions:
    @pytest.mark.parametrize("who", ["hook", "application", "nobody", "failing"])
    def test_are_answered_by_a_hook_or_the_application(self, instrument, log_exporter, who):
        """Through the SDK's runner: the scripted model cannot ask through the harness."""
        spec = native.AskQuestionInteractionSpec(
            questions=[
                native.AskQuestionEntry(
                    question="Which?", options=[native.AskQuestionOption(id="1", text="red")]
                )
            ]
        )

        @hooks.on_interaction
        def answer(asked: types.AskQuestionInteractionSpec) -> Any:
            assert asked.questions[0].options[0].text == "red"
            if who == "failing":
                raise ValueError
            response = types.QuestionResponse(selected_option_ids=["1"])
            return types.QuestionHookResult(responses=[response])

        class Own(native_hooks.OnInteractionHook):
            async def run(self, context: Any, data: Any) -> Any:
                return native.QuestionHookResult(responses=[], cancelled=True)

        instrument(hooks=[answer] if who in ("hook", "failing") else [])
        runner = hook_runner.HookRunner()
        if who == "application":
            runner.register_hook(Own())
        context = native_hooks.TurnContext(runner.session_context)

        async def run() -> Any:
            return await runner.dispatch_interaction(turn_context=context, interaction_spec=spec)

        result, found, _ = anyio.run(run)
        assert result.allow is (who in ("hook", "application"))
        if who == "hook":
            assert isinstance(found, native.QuestionHookResult)
            assert found.responses[0].selected_option_ids == ["1"]
        assert (found is None) is (who in ("nobody", "failing"))
        names = [record.log_record.event_name for record in log_exporter.get_finished_logs()]
        assert semconv.EVENT_INTERACTION in names


def test_a_compaction_is_shown_to_hooks(instrument, log_exporter):
    """Through the SDK's runner: the harness compacts only long conversations."""
    seen: list[Any] = []

    @hooks.on_compaction
    def note(step: types.Step) -> None:
        seen.append(step.content)

    instrument(hooks=[note])
    runner = hook_runner.HookRunner()
    context = native_hooks.TurnContext(runner.session_context)
    step = native.Step(
        id="t:1",
        step_index=1,
        type=native.StepType.COMPACTION,
        source=native.StepSource.SYSTEM,
        target=native.StepTarget.USER,
        status=native.StepStatus.DONE,
        content="the short of it",
    )
    anyio.run(runner.dispatch_compaction, context, step)
    assert seen == ["the short of it"]
    names = [record.log_record.event_name for record in log_exporter.get_finished_logs()]
    assert semconv.EVENT_COMPACTION in names


class TestNativeSpans:
    def test_rest_while_ours_are_made(self, instrument, exporter, tracer_provider, monkeypatch):
        monkeypatch.setattr(
            native_otel, "_get_tracer", lambda: tracer_provider.get_tracer("native")
        )
        world = World()
        instrument(policy.deny("something_else"))
        own = native_otel.get_otel_hooks("named")
        converse((SAFE,), "done", tools=tools_of(world), hooks=own)
        names = sorted(span.name for span in exporter.get_finished_spans())
        assert names == ["execute_tool safe", "invoke_agent named"]

    def test_are_made_where_ours_are_off(self, instrument, exporter, tracer_provider, monkeypatch):
        monkeypatch.setattr(
            native_otel, "_get_tracer", lambda: tracer_provider.get_tracer("native")
        )
        world = World()
        instrument(policy.deny("danger", reason="Denied."), spans="off")
        own = native_otel.get_otel_hooks("named")
        _, shown = converse((DANGER,), "done", tools=tools_of(world), hooks=own)
        assert "Denied." in shown
        scopes = {span.instrumentation_scope.name for span in exporter.get_finished_spans()}
        assert scopes == {"native"}


class TestEnds:
    def test_a_consumer_that_stops_reading_leaves_a_turn_that_ends(self, instrument, exporter):
        instrument(policy.deny("something_else"))

        async def run() -> None:
            steps: list[Any] = ["one", "two"]
            async with started(lambda shown: steps.pop(0)) as agent:
                await agent.chat("first")  # the answer is never read
                await ask(agent)

        anyio.run(run)
        assert len(turns(exporter)) == 2

    def test_a_cancelled_turn_ends_its_span(self, instrument, exporter):
        world = World((("slow", {"x": 1}),), "never")  # type: ignore[arg-type]
        instrument(policy.deny("something_else"))

        async def run() -> None:
            async with started(lambda shown: (("slow", {"x": 1}),), tools=tools_of(world)) as agent:
                response = await agent.chat("begin")
                while not world.started:  # noqa: ASYNC110  # set by a tool of the world
                    await anyio.sleep(0.01)
                await agent.conversation.cancel()
                with pytest.raises((asyncio.CancelledError, native.AntigravityExecutionError)):
                    await response.text()

        anyio.run(run)
        (turn,) = turns(exporter)
        assert turn.status.status_code is StatusCode.ERROR

    def test_states_go_with_their_connections(self, instrument):
        instrument(policy.deny("something_else"))
        before = len(loops._loops)
        converse("one")
        gc.collect()
        assert len(loops._loops) <= before

    def test_uninstrumented_within_a_turn_it_goes_on_alone(self, instrument, exporter):
        world = World()
        instrument(policy.deny("something_else"))

        async def run() -> str:
            steps: list[Any] = [(SAFE,), ANSWER]
            async with started(lambda shown: steps.pop(0), tools=tools_of(world)) as agent:
                response = await agent.chat("begin")
                otelhooks.uninstrument()
                return await response.text()

        assert anyio.run(run) == ANSWER
        assert world.bodies == ["safe"]


class TestDoctor:
    def test_tells_what_is_guarded_and_what_is_not(self, instrument):
        handle = instrument(policy.deny("something_else"))
        (row, *_) = [c for c in handle.coverage if c.framework == "google_antigravity"]
        assert row.state in {"patched", "partial"}
        what = " ".join(what for what, _ in row.not_covered)
        for word in ("model calls", "manage_task", "workflows"):
            assert word in what

    def test_proves_it(self, instrument):
        instrument(policy.deny("something_else"))
        found = prove()
        assert found.proved, found
        assert len(found.paths) == 3


def test_the_current_span_in_a_tool_is_its_own(instrument, exporter):
    seen: list[int] = []

    def look() -> str:
        """Look."""
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "seen"

    instrument(policy.deny("something_else"))
    converse((("look", {}),), "done", tools=[look])
    (span,) = [s for s in exporter.get_finished_spans() if s.name == "execute_tool look"]
    assert seen == [span.context.span_id]
