"""LlamaIndex: runs of agents, questions to their readers, streams of models."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

pytest.importorskip("llama_index.core.agent.workflow")

from llama_index.core.agent.workflow import (
    AgentInput,
    AgentOutput,
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent, StopEvent
from llama_index.core.workflow import step as workflow_step

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.frameworks.llama_index.scripted import ScriptedModel
from tests.frameworks.contract import ANSWER, SAFE, World
from tests.frameworks.test_llama_index import build_handoff, tools_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
    pytest.mark.filterwarnings("ignore:is_running called from:DeprecationWarning"),
]


@pytest.fixture
def world() -> World:
    return World()


def agent_of(*script: Any, tools: Any = (), shown: Any = None, **settings: Any) -> Any:
    """Return an agent whose model says these steps, and notes what it was shown."""
    steps, seen = list(script), [] if shown is None else shown
    model = ScriptedModel(next_step=lambda text: (seen.append(text), steps.pop(0))[1], pieces=2)
    return settings.pop("cls", FunctionAgent)(tools=tools, llm=model, **settings)


async def read(handler: Any, answers: Any = None) -> tuple[list[Any], Any]:
    """Return all events of a run, and its result; answer what it asks."""
    events = []
    async for event in handler.stream_events():
        events.append(event)
        if isinstance(event, InputRequiredEvent) and answers is not None:
            for answer in answers(event):
                handler.ctx.send_event(answer)
    return events, await handler


def said_in(events: Any) -> str:
    """Return all that a reader of events could see of answers."""
    told = [one for one in events if type(one).__name__ not in ("AgentInput", "AgentSetup")]
    return "\n".join(f"{one!r} {getattr(one, 'raw', '')!r}" for one in told)


@hooks.post_agent_transform
def masked(response: Any) -> Any:
    return str(response).replace("4711", "[key]")


class Named(ChatMemoryBuffer):
    """A memory that has a session, as a `Memory` has, whose database would have to be closed."""

    session_id: str = "c-1"


REACT = "Thought: I know.\nAnswer: The key is 4711."


class TestRuns:
    """Runs begin in a step of the workflow and end in another."""

    @pytest.mark.parametrize(
        ("cls", "text", "streaming"),
        [
            (FunctionAgent, "The key is 4711.", True),
            (FunctionAgent, "The key is 4711.", False),
            (ReActAgent, REACT, True),
            (CodeActAgent, "The key is 4711.", True),
        ],
    )
    def test_nothing_is_left_of_an_answer_that_a_hook_rewrites(self, cls, text, streaming):
        otelhooks.instrument(hooks=[masked])
        further = {"code_execute_fn": lambda code: code} if cls is CodeActAgent else {}

        async def run() -> Any:
            memory = ChatMemoryBuffer.from_defaults()
            agent = agent_of(text, cls=cls, streaming=streaming, **further)
            events, result = await read(agent.run(user_msg="begin", memory=memory))
            return events, result, await memory.aget_all()

        events, result, remembered = asyncio.run(run())
        assert str(result) == "The key is [key]."
        assert "[key]" in said_in(events)
        for left in (said_in(events), repr(result), repr(result.raw), repr(remembered)):
            assert "4711" not in left
        assert "[key]" in repr(remembered)

    def test_nor_of_one_that_a_tool_gave(self):
        otelhooks.instrument(hooks=[masked])

        def look() -> str:
            """Look it up."""
            return "The key is 4711."

        async def run() -> Any:
            memory = ChatMemoryBuffer.from_defaults()
            tool = FunctionTool.from_defaults(look, return_direct=True)
            agent = agent_of([("look", {})], tools=[tool])
            events, result = await read(agent.run(user_msg="begin", memory=memory))
            return events, result, await memory.aget_all()

        events, result, remembered = asyncio.run(run())
        assert str(result) == "The key is [key]."
        for left in (said_in(events), repr(result), repr(result.raw), repr(remembered)):
            assert "4711" not in left

    def test_nor_of_its_structured_form(self):
        class Key(pydantic.BaseModel):
            key: str

        seen: list[str] = []

        @hooks.post_agent_transform
        def mask(response: Any) -> Any:
            seen.append(str(response))
            return "no key"

        otelhooks.instrument(hooks=[mask])

        async def run() -> Any:
            agent = agent_of("It is 1.", structured_output_fn=lambda messages: {"key": "4711"})
            return await read(agent.run(user_msg="begin"))

        events, result = asyncio.run(run())
        assert "4711" in seen[0]
        assert (str(result), result.structured_response) == ("no key", None)
        assert "4711" not in said_in(events)

    def test_what_was_said_before_a_tool_call_is_told_before_it(self, world):
        otelhooks.instrument(hooks=[masked])
        agent = agent_of([("safe", {"x": 1})], "done", tools=tools_of(world))

        async def run() -> Any:
            return await read(agent.run(user_msg="begin"))

        names = [type(one).__name__ for one in asyncio.run(run())[0]]
        assert names.index("AgentOutput") < names.index("ToolCall") < names.index("ToolCallResult")
        assert names[-1] == "StopEvent"
        assert names.count("AgentOutput") == 2

    def test_a_refused_message_is_not_remembered(self):
        @hooks.pre_turn
        def refuse(prompt: Any) -> Any:
            return types.HookResult(allow="bad" not in prompt, message="No.")

        otelhooks.instrument(hooks=[refuse])
        shown: list[str] = []

        async def run() -> Any:
            memory = ChatMemoryBuffer.from_defaults()
            agent = agent_of("fine", shown=shown)
            first = await read(agent.run(user_msg="something bad", memory=memory))
            return *first, str(await agent.run(user_msg="go on", memory=memory))

        events, result, second = asyncio.run(run())
        assert (str(result), second) == ("No.", "fine")
        assert [type(one).__name__ for one in events] == ["AgentStream", "AgentOutput", "StopEvent"]
        assert shown == ["go on"]

    def test_a_stop_hook_sends_a_run_on(self, exporter, with_rules):
        @hooks.stop
        def more(args: Any) -> Any:
            return types.StopHookResult(
                decision=types.StopDecision.ALLOW_STOP
                if args.continuation_count
                else types.StopDecision.CONTINUE,
                reason="And?",
            )

        shown: list[str] = []
        otelhooks.instrument(hooks=[more])
        answer = asyncio.run(_run(agent_of("one", "two", shown=shown)))
        assert answer == "two"
        assert "And?" in shown[1]

    @pytest.mark.parametrize("shared", ["memory", "key", "session", "context"])
    def test_runs_that_share_a_memory_are_one_conversation(self, world, shared):
        otelhooks.instrument(
            policies=[
                policy.label("safe", adds="untrusted"),
                policy.deny("danger", when_labels={"untrusted"}, reason="No."),
            ]
        )

        async def run() -> None:
            steps = ([("safe", {"x": 1})], "read", [("danger", {"path": "/"})], "done")
            agent = agent_of(*steps, tools=tools_of(world))
            memory = ChatMemoryBuffer.from_defaults
            given: dict[str, dict[str, Any]] = {
                "memory": {"memory": memory()},
                "key": {"memory": memory(chat_store_key="c-1")},
                "session": {"memory": Named.from_defaults()},
                "context": {"ctx": Context(agent)},
            }
            await agent.run(user_msg="read", **given[shared])
            given["key"] = {"memory": memory(chat_store_key="c-1")}  # an object of its own
            given["session"] = {"memory": Named.from_defaults()}
            await agent.run(user_msg="go on", **given[shared])

        asyncio.run(run())
        assert world.bodies == ["safe"]

    def test_runs_that_share_none_are_not(self, world):
        otelhooks.instrument(
            policies=[
                policy.label("safe", adds="untrusted"),
                policy.deny("danger", when_labels={"untrusted"}),
            ]
        )

        async def run() -> None:
            steps = ([("safe", {"x": 1})], "read", [("danger", {"path": "/"})], "done")
            agent = agent_of(*steps, tools=tools_of(world))
            for _ in range(2):
                await agent.run(user_msg="go on", memory=ChatMemoryBuffer.from_defaults())

        asyncio.run(run())
        assert world.bodies == ["safe", "danger"]

    def test_a_run_that_fails_ends_with_its_error(self, with_rules, exporter):
        with_rules(policy.deny("danger"))
        with pytest.raises(IndexError):
            asyncio.run(_run(agent_of()))
        [root] = [one for one in exporter.get_finished_spans() if one.parent is None]
        assert (root.name, root.attributes["error.type"]) == ("invoke_agent Agent", "IndexError")

    def test_a_run_that_is_cancelled_while_it_waits_is_paused(self, with_rules, exporter):
        ended: list[Any] = []

        @hooks.on_run_end
        def note(info: Any) -> None:
            ended.append(info.error)

        with_rules(policy.deny("danger"), hooks=[note])

        async def run() -> None:
            handler = agent_of([("ask", {})], tools=[waiting()]).run(user_msg="begin")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    break
            await handler.cancel_run()
            await asyncio.sleep(0.05)

        asyncio.run(run())
        [root] = [one for one in exporter.get_finished_spans() if one.parent is None]
        assert "error.type" not in root.attributes
        assert len(ended) == 1

    def test_a_run_that_goes_on_from_a_stored_context_may_hold_anything(self, world):
        heard: list[Any] = []

        @hooks.pre_turn
        def note(prompt: Any) -> types.HookResult:
            heard.append(prompt)
            return types.HookResult(allow=True)

        otelhooks.instrument(
            policies=[policy.deny("danger", when_labels={"untrusted"}, reason="No.")],
            hooks=[note],
        )
        shown: list[str] = []

        async def run() -> str:
            steps = ([("ask", {})], [("danger", {"path": "/"})], "done")
            agent = agent_of(*steps, tools=[waiting(), *tools_of(world)], shown=shown)
            handler = agent.run(user_msg="begin")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    break
            handler = await resumed(agent, handler)
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
            return str(await handler)

        assert asyncio.run(run()) == "done"
        assert (heard, world.ran) == (["begin"], [])
        assert "No." in shown[-1]

    def test_rules_see_the_agent_that_is_at_work_after_a_hand_off(
        self, world, with_rules, exporter
    ):
        with_rules(policy.deny("danger"))
        world = World((SAFE,), ANSWER)
        assert asyncio.run(build_handoff(world)("begin")) == ANSWER
        found = {
            one.attributes["gen_ai.tool.name"]: one.attributes["gen_ai.agent.name"]
            for one in exporter.get_finished_spans()
            if one.name.startswith("execute_tool")
        }
        assert found == {"handoff": "lead", "safe": "worker"}

    def test_a_denied_hand_off_stays_with_the_agent(self, world):
        otelhooks.instrument(policies=[policy.deny("handoff", reason="Stay.")])
        shown: list[str] = []
        over = [("handoff", {"to_agent": "worker", "reason": "why not"})]
        lead = agent_of(over, "mine", name="lead", description="Leads.", shown=shown)
        worker = agent_of(name="worker", description="Works.")
        workflow = AgentWorkflow(agents=[lead, worker], root_agent="lead")
        assert asyncio.run(_run(workflow)) == "mine"
        assert "Stay." in shown[-1]

    def test_steps_that_override_the_frameworks_are_steps_of_one_run(self, world, exporter):
        class Mine(FunctionAgent):
            @workflow_step
            async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
                return await super().call_tool(ctx, ev)

            @workflow_step
            async def parse_agent_output(
                self, ctx: Context, ev: AgentOutput
            ) -> StopEvent | AgentInput | ToolCall | None:
                return await super().parse_agent_output(ctx, ev)

        told: list[str] = []

        @hooks.post_agent_transform
        def note(response: Any) -> Any:
            told.append(str(response))
            return f"{response}!"

        otelhooks.instrument(policies=[policy.deny("danger")], hooks=[note])
        steps = ([("safe", {"x": 1})], [("danger", {"path": "/"})], "done")
        assert asyncio.run(_run(agent_of(*steps, cls=Mine, tools=tools_of(world)))) == "done!"
        assert (world.bodies, told) == (["safe"], ["done"])

    def test_tools_that_code_of_a_model_holds_are_judged(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        tools = {tool.metadata.name: tool for tool in tools_of(world)}

        def execute(code: str) -> str:
            return str(eval(code, dict(tools)))  # this is what such agents do

        shown: list[str] = []
        agent = agent_of(
            "<execute>danger(path='/')</execute>",
            "<execute>safe(x=1)</execute>",
            "done",
            cls=CodeActAgent,
            code_execute_fn=execute,
            shown=shown,
        )
        assert asyncio.run(_run(agent)) == "done"
        assert world.bodies == ["safe"]
        assert "No." in shown[1]

    def test_an_agent_that_ran_before_is_guarded(self, world):
        agent = agent_of("early", [("danger", {"path": "/"})], "late", tools=tools_of(world))
        assert asyncio.run(_run(agent)) == "early"
        otelhooks.instrument(policies=[policy.deny("danger")], hooks=[masked])
        assert asyncio.run(_run(agent)) == "late"
        assert world.ran == []


async def _run(agent: Any) -> str:
    return str(await agent.run(user_msg="begin"))


async def resumed(agent: Any, handler: Any) -> Any:
    """Return the run that goes on where another waits, as another process does it."""
    form, memory = handler.ctx.to_dict(), await handler.ctx.store.get("memory")
    await handler.cancel_run()
    again = agent.run(ctx=Context.from_dict(agent, form))
    await again.ctx.store.set("memory", memory)  # some releases cannot store it
    return again


def waiting() -> Any:
    """Return a tool that waits for a person."""

    async def ask(ctx: Context) -> str:
        """Ask a person."""
        event = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent())
        return str(event.response)

    ask.__annotations__["ctx"] = Context
    return FunctionTool.from_defaults(async_fn=ask)


class TestApprovals:
    """With `approvals="native"` the reader of events is asked."""

    @pytest.fixture(autouse=True)
    def native(self):
        def nobody(call: types.ToolCall) -> bool:
            raise AssertionError("the framework asks")

        otelhooks.instrument(
            policies=[policy.ask_user("danger", reason="May it?")],
            approvals=nobody,
            frameworks={"llama_index": {"approvals": "native"}},
        )

    @pytest.mark.parametrize(
        ("said", "runs"), [("yes", True), (True, True), ("no", False), ("", False), (1, False)]
    )
    def test_an_answer_decides(self, world, said, runs):
        shown: list[str] = []
        agent = agent_of([("danger", {"path": "/"})], "done", tools=tools_of(world), shown=shown)
        asked: list[Any] = []

        def answer(event: Any) -> Any:
            asked.append((event.prefix, event.tool_name, event.tool_kwargs))
            return [HumanResponseEvent(response=said, tool_id=event.tool_id)]

        async def run() -> Any:
            return await read(agent.run(user_msg="begin"), answer)

        assert str(asyncio.run(run())[1]) == "done"
        [(prefix, *call)] = asked
        assert "May it?" in prefix
        assert call == ["danger", {"path": "/"}]
        assert world.bodies == (["danger"] if runs else [])

    def test_an_answer_is_for_one_call(self, world):
        agent = agent_of(
            [("danger", {"path": "/a"}), ("danger", {"path": "/b"})], "done", tools=tools_of(world)
        )

        def answer(event: Any) -> Any:
            is_a = event.tool_kwargs["path"] == "/a"
            said = [HumanResponseEvent(response="yes")]  # for no call
            return [*said, HumanResponseEvent(response=is_a, tool_id=event.tool_id)]

        async def run() -> Any:
            return await read(agent.run(user_msg="begin"), answer)

        assert str(asyncio.run(run())[1]) == "done"
        assert world.ran == [("danger", {"path": "/a"})]

    def test_an_answer_in_another_process_decides(self, world):
        shown: list[str] = []

        async def run() -> str:
            steps = ([("danger", {"path": "/"})], "done")
            agent = agent_of(*steps, tools=tools_of(world), shown=shown)
            handler = agent.run(user_msg="begin")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    break
            handler = await resumed(agent, handler)
            handler.ctx.send_event(HumanResponseEvent(response="yes", tool_id=event.tool_id))
            return str(await handler)

        assert asyncio.run(run()) == "done"
        assert world.bodies == ["danger"]

    def test_code_that_calls_a_tool_itself_cannot_be_paused(self, world):
        otelhooks.uninstrument()
        otelhooks.instrument(
            policies=[policy.ask_user("danger")],
            approvals=lambda call: False,
            frameworks={"llama_index": {"approvals": "native"}},
        )
        assert tools_of(world)[0](path="/").is_error
        assert world.ran == []


class TestStreams:
    """Streams of models, wherever they are read."""

    def test_a_rewritten_answer_is_all_that_is_left(self):
        @hooks.post_model_call_transform
        def mask(response: Any) -> Any:
            return response.text.replace("4711", "[key]")

        otelhooks.instrument(hooks=[mask])
        model = ScriptedModel(next_step=lambda text: "It is 4711.", pieces=3)
        told = [ChatMessage("begin", role="user")]

        async def run() -> list[Any]:
            chats = [one async for one in await model.astream_chat(told)]
            return [*chats, *[one async for one in await model.astream_complete("begin")]]

        seen = [*model.stream_chat(told), *model.stream_complete("begin"), *asyncio.run(run())]
        assert len(seen) == 4
        for one in [*seen, model.chat(told), model.complete("begin")]:
            assert "[key]" in one.delta
            assert "4711" not in f"{one!r} {one.raw!r}"

    def test_a_denied_one_is_not_asked_for(self):
        @hooks.pre_model_call
        def refuse(call: Any) -> Any:
            return types.HookResult(allow=False, message="No.")

        otelhooks.instrument(hooks=[refuse])
        model = ScriptedModel(next_step=lambda text: 1 / 0)
        assert [one.text for one in model.stream_complete("begin")] == ["No."]

    def test_a_thread_that_reads_one_is_in_the_scope_of_its_call(self, world):
        heard: list[str] = []

        @hooks.post_model_call
        def note(response: Any) -> None:
            heard.append(response.text)

        otelhooks.instrument(policies=[policy.deny("danger")])
        model = ScriptedModel(next_step=lambda text: "done")
        memory = ChatMemoryBuffer.from_defaults()
        engine = SimpleChatEngine.from_defaults(llm=model, memory=memory)
        with otelhooks.scope(hooks=[note]):
            response = engine.stream_chat("begin")
        assert "".join(response.response_gen) == "done"
        assert heard == ["done"]
