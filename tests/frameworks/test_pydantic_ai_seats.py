"""Pydantic AI: approvals, output functions, apps, histories, spans, objects, and calls left out."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import importlib.metadata
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.output import ToolOutput
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks.pydantic_ai.scripted import prove, scripted_model
from otelhooks.records import semconv
from tests.frameworks.mcp_world import make_server
from tests.frameworks.test_pydantic_ai import in_process

VERSION = tuple(map(int, importlib.metadata.version("pydantic-ai-slim").split(".")[:2]))


@pytest.fixture
def instrument(tracer_provider: Any, meter_provider: Any) -> Any:
    def start(*rules: Any, **settings: Any) -> Any:
        return otelhooks.instrument(
            policies=rules,
            frameworks=["pydantic_ai", "mcp"],
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            **settings,
        )

    return start


class Script:
    """A model that says its steps, and what it was shown."""

    def __init__(self, *steps: Any) -> None:
        self.left = [step if isinstance(step, str) else (step,) for step in steps]
        self.shown: list[str] = []

    def __call__(self, shown: str) -> Any:
        self.shown.append(shown)
        return self.left.pop(0)


def agent_of(script: Script, *tools: Any, **settings: Any) -> Any:
    return Agent(scripted_model(script), name="worker", tools=tools, **settings)


def tool_spans(exporter: Any) -> list[Any]:
    found = exporter.get_finished_spans()
    return [s for s in found if semconv.GEN_AI_TOOL_NAME in s.attributes]


def test_the_proof_holds(instrument: Any) -> None:
    instrument()
    proof = prove()
    assert proof.proved, proof.paths


def test_the_model_reads_that_the_call_was_denied(instrument: Any) -> None:
    instrument(policy.deny("danger", reason="Not that."))
    agent = agent_of(Script(("danger", {}), "done"), Tool(lambda: "ran", name="danger"))
    messages = asyncio.run(agent.run("begin")).all_messages()
    (part,) = [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    assert part.content == "Not that."
    assert getattr(part, "outcome", "") == ("denied" if VERSION >= (2, 32) else "success")


# -- approvals --------------------------------------------------------------------------------


def nobody(call: types.ToolCall) -> bool:
    raise AssertionError("asked in place")


def approvable(script: Script, ran: list[Any], **options: Any) -> Any:
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    return agent_of(script, Tool(pay, **options), output_type=[str, DeferredToolRequests])


async def answer(agent: Any, result: Any, said: Any) -> Any:
    (asked,) = result.output.approvals
    answers = DeferredToolResults(approvals={asked.tool_call_id: said})
    return await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)


def test_an_ask_without_a_handler_is_put_to_the_frameworks_own_users(
    instrument: Any, exporter: Any
) -> None:
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    agent = approvable(Script(("pay", {"amount": 5}), "done"), ran)

    async def both() -> Any:
        result = await agent.run("begin")
        assert ran == []
        (metadata,) = result.output.metadata.values()
        assert metadata["otelhooks"]["tool"] == "pay"
        return await answer(agent, result, True)

    assert asyncio.run(both()).output == "done"
    assert ran == [5]
    (span,) = [s for s in tool_spans(exporter) if s.name == "execute_tool pay"]
    assert span.attributes[semconv.POLICY_DECISION] == "ask"
    assert span.attributes[semconv.APPROVAL_STATUS] == "approved"


def test_what_the_frameworks_users_reject_does_not_run(instrument: Any) -> None:
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    agent = approvable(Script(("pay", {"amount": 5}), "done"), ran)

    async def both() -> Any:
        return await answer(agent, await agent.run("begin"), False)

    assert asyncio.run(both()).output == "done"
    assert ran == []


def test_an_approval_of_other_arguments_is_asked_again(instrument: Any) -> None:
    from pydantic_ai.tools import ToolApproved

    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    agent = approvable(Script(("pay", {"amount": 5}), "done"), ran)

    async def both() -> Any:
        said = ToolApproved(override_args={"amount": 500})
        return await answer(agent, await agent.run("begin"), said)

    assert isinstance(asyncio.run(both()).output, DeferredToolRequests)
    assert ran == []


def test_an_ask_with_a_handler_is_asked_in_place(instrument: Any) -> None:
    instrument(policy.ask_user("pay", handler=lambda call: True))
    ran: list[Any] = []
    agent = approvable(Script(("pay", {"amount": 5}), "done"), ran)
    assert asyncio.run(agent.run("begin")).output == "done"
    assert ran == [5]


def test_approvals_can_be_asked_in_place(tracer_provider: Any, meter_provider: Any) -> None:
    otelhooks.instrument(
        policies=[policy.ask_user("pay")],
        approvals=lambda call: True,
        frameworks={"pydantic_ai": {"approvals": "in_place"}},
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
    )
    ran: list[Any] = []
    agent = approvable(Script(("pay", {"amount": 5}), "done"), ran)
    assert asyncio.run(agent.run("begin")).output == "done"
    assert ran == [5]


def test_an_agent_that_cannot_pause_asks_in_place(instrument: Any) -> None:
    asked: list[Any] = []
    instrument(policy.ask_user("pay"), approvals=lambda call: asked.append(call.args) or True)
    script = Script(("pay", {"amount": 5}), "done")
    agent = agent_of(script, Tool(lambda amount: "paid", name="pay"))
    assert asyncio.run(agent.run("begin")).output == "done"
    assert len(asked) == 1


def test_no_person_is_asked_about_a_denied_call(instrument: Any, exporter: Any) -> None:
    instrument(policy.deny("pay", when=lambda args: args["amount"] > 3, reason="Too much."))
    ran: list[Any] = []
    script = Script(("pay", {"amount": 5}), "done")
    agent = approvable(script, ran, requires_approval=True)
    assert asyncio.run(agent.run("begin")).output == "done"
    assert ran == []
    assert "Too much." in script.shown[-1]
    assert len(tool_spans(exporter)) == 1


# -- output functions, apps -------------------------------------------------------------------


def test_a_denied_output_function_is_tried_again(instrument: Any) -> None:
    ran: list[Any] = []

    def send(text: str) -> str:
        ran.append(text)
        return text

    instrument(policy.deny("send", when=lambda args: "secret" in args["text"], reason="No."))
    script = Script(("send", {"text": "secret"}), ("send", {"text": "plain"}))
    agent = agent_of(script, output_type=ToolOutput(send, name="send"))
    assert asyncio.run(agent.run("begin")).output == "plain"
    assert ran == ["plain"]
    assert "No." in script.shown[-1]


@pytest.mark.skipif(not hasattr(MCPToolset, "call_tool_for_app"), reason="no apps yet")
@pytest.mark.parametrize("denied", [True, False])
def test_a_call_of_an_apps_page_is_judged_once(
    instrument: Any, exporter: Any, denied: bool
) -> None:
    from tests.frameworks.contract import World

    world = World()

    async def call() -> Any:
        toolset: Any = MCPToolset(in_process(make_server(world)), id="files")
        async with toolset:
            return await toolset.call_tool_for_app("safe", {"x": 1})

    instrument(policy.deny("files/safe" if denied else "other", reason="Not that."))
    found = asyncio.run(call())
    assert found["isError"] is denied
    assert ("Not that." in str(found)) is denied
    assert world.bodies == ([] if denied else ["safe"])
    assert len({s.context.trace_id for s in tool_spans(exporter)}) == 1


@pytest.mark.skipif(not hasattr(MCPToolset, "call_tool_for_app"), reason="no apps yet")
def test_hooks_see_and_change_the_text_of_what_an_apps_page_gets(instrument: Any) -> None:
    from tests.frameworks.contract import World

    seen: list[Any] = []

    @hooks.post_tool_call_transform
    def change(result: types.ToolResult) -> Any:
        seen.append(result.result)
        return "another"

    async def call() -> Any:
        toolset: Any = MCPToolset(in_process(make_server(World())), id="files")
        async with toolset:
            return await toolset.call_tool_for_app("safe", {"x": 1})

    instrument(hooks=[change])
    found = asyncio.run(call())
    assert seen == [World().safe(1)]
    assert found["content"] == [{"type": "text", "text": "another"}]
    assert found["isError"] is False


# -- conversations ----------------------------------------------------------------------------


def test_a_run_that_goes_on_from_a_history_is_in_the_same_conversation(instrument: Any) -> None:
    instrument(
        policy.label("read", adds="untrusted"),
        policy.deny("send", when_labels={"untrusted"}, reason="Read before."),
    )
    ran: list[str] = []

    def note(name: str) -> Any:
        return lambda: ran.append(name)

    tools = [
        Tool(lambda: ran.append("read"), name="read"),
        Tool(lambda: ran.append("x"), name="send"),
    ]
    script = Script(("read", {}), "read it", ("send", {}), "done")
    agent = agent_of(script, *tools)

    async def both() -> Any:
        first = await agent.run("begin")
        return await agent.run("go on", message_history=first.all_messages())

    asyncio.run(both())
    assert ran == ["read"]
    assert "Read before." in script.shown[-1]


def test_the_conversation_has_the_applications_id(instrument: Any, exporter: Any) -> None:
    instrument()
    asyncio.run(agent_of(Script("done")).run("begin", conversation_id="c-1"))
    ids = {s.attributes.get(semconv.GEN_AI_CONVERSATION_ID) for s in exporter.get_finished_spans()}
    assert ids == {"c-1"}


def test_a_stop_hook_sends_a_run_on(instrument: Any) -> None:
    @hooks.stop
    def check(args: types.StopArgs) -> types.StopHookResult:
        if args.continuation_count:
            return types.StopHookResult()
        return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason="Test it.")

    instrument(hooks=[check])
    script = Script("half done", "all done")
    assert asyncio.run(agent_of(script).run("begin")).output == "all done"
    assert "Test it." in script.shown[-1]


def test_a_message_that_a_hook_adds_reaches_the_model(instrument: Any) -> None:
    @hooks.pre_model_call
    def add(call: types.ModelCall) -> types.HookResult:
        message = {"role": "system", "content": "Be brief."}
        return types.HookResult(modified_messages=[*call.messages, message])

    instrument(hooks=[add])
    script = Script("done")
    asyncio.run(agent_of(script).run("begin"))
    assert "Be brief." in script.shown[0]


def test_a_refused_run_of_a_type_raises(instrument: Any) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message="Not now.")

    instrument(hooks=[refuse])
    with pytest.raises(errors.Denied, match=r"Not now\."):
        asyncio.run(agent_of(Script(), output_type=int).run("begin"))


# -- arguments, gaps, spans -------------------------------------------------------------------


class Order(BaseModel):
    day: datetime.date


def test_objects_are_judged_as_plain_data_and_arrive_as_objects(instrument: Any) -> None:
    got: list[Any] = []
    instrument(policy.deny("book", when=lambda args: args["order"]["day"] < "2020"))

    def book(order: Order) -> str:
        got.append(order)
        return "booked"

    days = "2019-01-01", "2026-01-01"
    script = Script(*[("book", {"order": {"day": day}}) for day in days], "done")
    asyncio.run(agent_of(script, Tool(book)).run("begin"))
    assert got == [Order(day=datetime.date(2026, 1, 1))]


def test_objects_that_a_hook_rewrites_are_made_again(instrument: Any) -> None:
    got: list[Any] = []

    @hooks.pre_tool_call_decide
    def later(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"order": {"day": "2030-01-01"}})

    instrument(hooks=[later])

    def book(order: Order) -> str:
        got.append(order)
        return "booked"

    script = Script(("book", {"order": {"day": "2026-01-01"}}), "done")
    asyncio.run(agent_of(script, Tool(book)).run("begin"))
    assert got == [Order(day=datetime.date(2030, 1, 1))]


@pytest.mark.parametrize("written", [{"count": "many"}, {"count": 2, "other": 1}])
def test_what_a_hook_writes_and_the_tool_does_not_take_never_reaches_it(
    instrument: Any, written: dict[str, Any]
) -> None:
    got: list[Any] = []

    @hooks.pre_tool_call_decide
    def change(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args=written)

    instrument(hooks=[change])

    def book(count: int) -> str:
        got.append(count)
        return "booked"

    script = Script(("book", {"count": 1}), "done")
    result = asyncio.run(agent_of(script, Tool(book)).run("begin"))
    assert got == []
    assert result.output == "done"  # the model was told, and asked again


@pytest.mark.parametrize("asked", [("book", {"order": 5}), ("unknown", {})])
def test_a_call_that_the_framework_answers_itself_is_not_a_gap(
    instrument: Any, metrics_reader: Any, asked: Any
) -> None:
    instrument(policy.deny("something_else"))

    def book(order: Order) -> str:
        return "booked"

    asyncio.run(agent_of(Script(asked, "done"), Tool(book)).run("begin"))
    data = metrics_reader.get_metrics_data()
    names = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert semconv.METRIC_COVERAGE_GAPS not in names


def test_the_frameworks_own_spans_carry_the_verdicts(
    instrument: Any, exporter: Any, tracer_provider: Any
) -> None:
    from pydantic_ai.models.instrumented import InstrumentationSettings

    instrument(policy.deny("danger", reason="Not that."))
    tool = Tool(lambda: "ran", name="danger")
    agent = agent_of(Script(("danger", {}), "done"), tool)
    agent.instrument = InstrumentationSettings(tracer_provider=tracer_provider)
    asyncio.run(agent.run("begin"))
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    verdicts = [s for s in spans if s.attributes.get(semconv.POLICY_DECISION) == "deny"]
    assert len(verdicts) == 1


def test_a_text_that_a_function_makes_an_output_of_can_be_rewritten(instrument: Any) -> None:
    from pydantic_ai.output import TextOutput

    @hooks.pre_tool_call_decide
    def shout(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"output": call.args["output"].upper()})

    def frame(text: str) -> str:
        return f"<{text}>"

    instrument(hooks=[shout])
    agent = agent_of(Script("done"), output_type=TextOutput(frame))
    assert asyncio.run(agent.run("begin")).output == "<DONE>"


@dataclasses.dataclass
class Trip:
    day: datetime.date


def of_two(day: datetime.date, title: str) -> Any:
    return day, title


def of_text(title: str) -> Any:
    return title


def of_dict(days: dict[str, int]) -> Any:
    return days


def of_model(order: Order) -> Any:
    return order


def of_dataclass(trip: Trip) -> Any:
    return trip


DAY = datetime.date(2026, 1, 1)
LATER = datetime.date(2030, 1, 1)
SAID = {"day": "2026-01-01"}


@pytest.mark.parametrize(
    ("function", "asked", "output", "written", "rewritten"),
    [
        (of_two, {**SAID, "title": "a"}, (DAY, "a"), {"day": "2030-01-01"}, (LATER, "a")),
        (of_text, {"title": "a"}, "a", {"title": "b"}, "b"),
        (of_dict, {"days": {"a": 1}}, {"a": 1}, {"days": {"b": 2}}, {"b": 2}),
        (of_model, SAID, Order(day=DAY), {"day": "2030-01-01"}, Order(day=LATER)),
        (of_dataclass, SAID, Trip(DAY), {"day": "2030-01-01"}, Trip(LATER)),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
@pytest.mark.parametrize("rewrites", [False, True])
def test_an_output_function_gets_its_arguments_as_approved(
    instrument: Any,
    function: Any,
    asked: Any,
    output: Any,
    written: Any,
    rewritten: Any,
    rewrites: bool,
) -> None:
    shown: list[Any] = []

    @hooks.pre_tool_call_decide
    def change(call: types.ToolCall) -> types.HookResult:
        shown.append(dict(call.args))
        return types.HookResult(modified_args={**call.args, **written} if rewrites else None)

    instrument(hooks=[change])
    agent = agent_of(Script(("make", asked)), output_type=ToolOutput(function, name="make"))
    assert asyncio.run(agent.run("begin")).output == (rewritten if rewrites else output)
    assert shown == [asked]


@pytest.mark.parametrize("of_text", [False, True])
def test_a_denied_output_function_does_not_run_on_parts_of_a_stream(
    instrument: Any, of_text: bool
) -> None:
    """`stream_output` makes an output of all that has come so far, again and again."""
    from pydantic_ai.output import TextOutput

    ran: list[str] = []

    def send(text: str) -> str:
        ran.append(text)
        return text

    async def consume(agent: Any) -> list[Any]:
        async with agent.run_stream("begin") as result:
            return [output async for output in result.stream_output(debounce_by=None)]

    def streaming() -> Any:
        script = Script("the answer" if of_text else ("send", {"text": "the answer"}))
        output = TextOutput(send) if of_text else ToolOutput(send, name="send")
        return agent_of(script, output_type=output)

    instrument(policy.deny("send"))
    with pytest.raises(Exception, match="Output validation failed"):
        asyncio.run(consume(streaming()))
    assert ran == []
    otelhooks.uninstrument()
    instrument(policy.allow("send"))
    assert asyncio.run(consume(streaming()))[-1] == "the answer"
    assert ran[-1] == "the answer"
