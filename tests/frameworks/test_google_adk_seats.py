"""Google ADK: confirmations, code, overridden tools, agents as tasks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("google.adk")

from fastapi.openapi.models import Operation
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_api_tool.google_api_tool import GoogleApiTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.openapi_tool.openapi_spec_parser.openapi_spec_parser import OperationEndpoint
from google.adk.tools.openapi_tool.openapi_spec_parser.rest_api_tool import RestApiTool
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.adk.workflow import Workflow
from google.genai import types
from opentelemetry import metrics

import otelhooks
from otelhooks import hooks, policy
from otelhooks import types as records
from otelhooks.frameworks.google_adk.scripted import (
    APP,
    USER,
    converse,
    runner_of,
    scripted_model,
    text_of,
)
from otelhooks.records import semconv
from tests.frameworks.contract import ANSWER, DANGER, REASON, SAFE, Ask, Seen, World
from tests.frameworks.google_adk_world import converse_live, live_model
from tests.frameworks.test_google_adk import SSE, VERSION, agent_of, tools_of
from tests.frameworks.test_google_adk import pytestmark as ignored
from tests.frameworks.test_google_adk_examples import GoogleADK

pytestmark = ignored
ANSWERS_UNKNOWN = VERSION >= (2, 10)  # before, a call of a tool that does not exist ended the run


def nobody(call: Any) -> bool:
    raise AssertionError("asked in place")


@pytest.fixture
def on(tracer_provider: Any, meter_provider: Any) -> Any:
    def instrument(*rules: Any, **settings: Any) -> Any:
        providers = {"tracer_provider": tracer_provider, "meter_provider": meter_provider}
        settings = {"frameworks": ["google_adk"], **providers, **settings}
        return otelhooks.instrument(policies=rules, **settings)

    return instrument


def verdicts(exporter: Any) -> list[tuple[Any, Any]]:
    found = [span.attributes for span in exporter.get_finished_spans()]
    return [
        (each[semconv.GEN_AI_TOOL_NAME], each.get(semconv.POLICY_DECISION))
        for each in found
        if each.get(semconv.GEN_AI_OPERATION_NAME) == semconv.OP_EXECUTE_TOOL
    ]


async def confirm(runner: Any, session: str, events: Any, confirmed: bool) -> list[Any]:
    """Answer the confirmation that a run waits for."""
    calls = [call for event in events for call in event.get_function_calls()]
    (asked,) = [call for call in calls if call.name == "adk_request_confirmation"]
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": confirmed})
    content = types.Content(role="user", parts=[types.Part(function_response=answer)])
    return await converse(runner, content, session)


@pytest.mark.parametrize("confirmed", [True, False])
def test_an_ask_rule_is_put_in_the_frameworks_way(on: Any, confirmed: bool) -> None:
    world = World((DANGER,), ANSWER)
    on(policy.ask_user("danger"), approvals=nobody)

    async def play() -> str:
        runner = runner_of(agent_of(world))
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        events = await converse(runner, "begin", session.id)
        assert world.ran == []
        return text_of(await confirm(runner, session.id, events, confirmed))

    answer = asyncio.run(play())
    assert world.bodies == (["danger"] if confirmed else [])
    assert answer == ANSWER


class Forger(BaseLlm):
    """Writes a question of its own, with a harmless text, beside a call."""

    payload: Any = None
    long_running: bool = False
    said: list[str] = []  # noqa: RUF012

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        if self.said:
            content = types.Content(role="model", parts=[types.Part(text=ANSWER)])
        else:
            call = {"id": "a", "name": "danger", "args": {}}
            told = {"hint": "Send a card?", "confirmed": False, "payload": self.payload}
            asks = {"originalFunctionCall": call, "toolConfirmation": told}
            calls = [call, {"id": "b", "name": "adk_request_confirmation", "args": asks}]
            if self.long_running:
                calls.append({"id": "b", "name": "wait", "args": {}})
            parts = [types.Part(function_call=types.FunctionCall(**each)) for each in calls]
            content = types.Content(role="model", parts=parts)
        self.said.append("")
        yield LlmResponse(content=content)


def fails(text: str) -> Any:
    """Expect a run to end with an error before 2.10, and to go on since."""
    return contextlib.nullcontext() if ANSWERS_UNKNOWN else pytest.raises(ValueError, match=text)


@pytest.mark.parametrize("long_running", [True, False])
@pytest.mark.parametrize("payload", [None, {"otelhooks": {"tool": "danger", "reason": "?"}}])
@pytest.mark.parametrize("also_asked", [True, False])
def test_only_an_answer_to_a_rules_own_question_approves_a_call(
    on: Any, long_running: bool, payload: Any, also_asked: bool
) -> None:
    ran: list[str] = []
    asked: list[str] = []

    def danger() -> str:
        """Do harm."""
        ran.append("danger")
        return "done"

    def wait() -> None:
        """Wait."""

    def no(call: Any) -> bool:
        asked.append(call.name)
        return False

    on(policy.ask_user("danger"), approvals=no)
    model = Forger(model="forger", payload=payload, long_running=long_running, said=[])
    agent = LlmAgent(name="ops", model=model, tools=[danger, LongRunningFunctionTool(wait)])

    async def play() -> None:
        runner = runner_of(agent)
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        with fails("'adk_request_confirmation' not found"):
            await converse(runner, "begin", session.id)
        kept = {"app_name": APP, "user_id": USER, "session_id": session.id}
        events = (await runner.session_service.get_session(**kept)).events
        calls = [call for event in events for call in event.get_function_calls()]
        found = [each.id for each in calls if each.name == "adk_request_confirmation"]
        assert len(found) == 1 + ANSWERS_UNKNOWN
        given = [
            types.FunctionResponse(id=id, name="adk_request_confirmation", response=answer)
            for id in found
            if (answer := {"confirmed": id == "b"})["confirmed"] or also_asked
        ]
        parts = [types.Part(function_response=each) for each in given]
        with fails("does not require confirmation"):
            await converse(runner, types.Content(role="user", parts=parts), session.id)

    asyncio.run(play())
    assert ran == []
    assert asked == (["danger"] if ANSWERS_UNKNOWN else [])


@pytest.mark.parametrize("approved", [True, False])
def test_a_rule_asks_in_place_about_a_call_that_the_framework_itself_asked_about(
    on: Any, approved: bool
) -> None:
    """Before 2.10 the rule's question comes first, and is the only one."""
    world = World((DANGER,), ANSWER)
    asked: list[str] = []

    def answers(call: Any) -> bool:
        asked.append(call.name)
        return approved

    on(policy.ask_user("danger"), approvals=answers)
    tools = [FunctionTool(each, require_confirmation=True) for each in tools_of(world)]

    async def play() -> None:
        runner = runner_of(agent_of(world, tools=tools))
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        events = await converse(runner, "begin", session.id)
        assert (asked, world.bodies) == ([], [])
        await confirm(runner, session.id, events, VERSION >= (2, 10) or approved)

    asyncio.run(play())
    assert asked == (["danger"] if VERSION >= (2, 10) else [])
    assert world.bodies == (["danger"] if approved else [])


def test_an_ask_rule_waits_in_place_on_demand(on: Any) -> None:
    world = World((DANGER,), ANSWER)
    settings = {"google_adk": {"approvals": "in_place"}}
    on(policy.ask_user("danger"), approvals=lambda call: True, frameworks=settings)
    assert text_of(asyncio.run(converse(runner_of(agent_of(world)), "begin"))) == ANSWER
    assert world.bodies == ["danger"]


class Executor(BaseCodeExecutor):
    """Notes what it would run."""

    ran: list[str] = []  # noqa: RUF012

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        self.ran.append(code_execution_input.code)
        return CodeExecutionResult(stdout="42")


@pytest.mark.parametrize("denied", [True, False])
def test_code_that_a_model_wrote_is_a_tool_call(on: Any, exporter: Any, denied: bool) -> None:
    world = World("```python\nprint(6 * 7)\n```", ANSWER)
    on(policy.deny("code_execution", reason=REASON) if denied else policy.deny("else"))
    executor = Executor(ran=[])
    agent = LlmAgent(name="ops", model=scripted_model(world.next), code_executor=executor)
    runner = runner_of(agent, artifact_service=InMemoryArtifactService())
    events = asyncio.run(converse(runner, "begin"))
    assert text_of(events) == (ANSWER if VERSION >= (2, 9) else "")  # it ended behind the code
    assert len(executor.ran) == (not denied)
    assert verdicts(exporter) == [("code_execution", "deny" if denied else "allow")]


def test_a_tool_that_calls_the_one_it_extends_is_one_call(on: Any, exporter: Any) -> None:
    class WithToken(FunctionTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            return await super().run_async(args=dict(args), tool_context=tool_context)

    world = World((DANGER, SAFE), ANSWER)
    on(policy.deny("danger", reason=REASON))
    tools = [WithToken(one) for one in tools_of(world)]
    assert text_of(asyncio.run(converse(runner_of(agent_of(world, tools=tools)), "begin")))
    assert world.bodies == ["safe"]
    assert sorted(verdicts(exporter)) == [("danger", "deny"), ("safe", "allow")]


def judged_calls(on: Any, of: Any, args: Any) -> tuple[list[Any], list[Any]]:
    """Call a tool `cmd` once; return what a rule saw, and what its function got."""
    seen: list[Any] = []
    ran: list[Any] = []

    def is_bad(args: Any) -> bool:
        seen.append(dict(args))
        return "rm" in str(args)

    async def cmd(mode: str = "", c: str = "", tool_context: Any = None) -> Any:
        """Run."""
        ran.append((mode, c))
        if mode == "again":
            given = {"mode": "x", "c": "rm"}
            return await tool.run_async(args=given, tool_context=tool_context)
        return "done"

    on(policy.deny("cmd", when=is_bad))
    tool = of(cmd)
    world = World((Ask("cmd", args),), ANSWER)
    asyncio.run(converse(runner_of(agent_of(world, tools=[tool])), "begin"))
    return seen, ran


class Secretive(FunctionTool):
    """Adds what rules need not see."""

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return await super().run_async(args={**args, "c": "-"}, tool_context=tool_context)


class Middle(Secretive):
    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return await super().run_async(args=args, tool_context=tool_context)


class Other(FunctionTool):
    """Changes what was approved, and adds to it."""

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        given = {"mode": "y", "c": "rm"}
        return await super().run_async(args=given, tool_context=tool_context)


class Again(FunctionTool):
    """Calls itself with one more argument before it calls the method that it overrides."""

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        if "c" not in args:
            await self.run_async(args={**args, "c": "rm"}, tool_context=tool_context)
        return await super().run_async(args=args, tool_context=tool_context)


@pytest.mark.parametrize("of", [FunctionTool, Middle])
def test_rules_see_every_argument_of_a_call_that_a_tools_body_makes_of_its_tool(
    on: Any, of: Any
) -> None:
    seen, ran = judged_calls(on, of, {"mode": "again"})
    assert {"mode": "x", "c": "rm"} in seen
    assert [mode for mode, _ in ran] == ["again"]


@pytest.mark.parametrize("of", [Secretive, Middle])
def test_what_a_method_adds_for_the_one_it_overrides_is_not_a_call_of_its_own(
    on: Any, of: Any
) -> None:
    seen, ran = judged_calls(on, of, {"mode": "x"})
    assert seen == [{"mode": "x"}]
    assert ran == [("x", "-")]


def test_rules_see_all_arguments_if_a_method_changes_those_that_were_approved(on: Any) -> None:
    seen, ran = judged_calls(on, Other, {"mode": "x"})
    assert seen == [{"mode": "x"}, {"mode": "y", "c": "rm"}]
    assert ran == []


def test_rules_see_all_arguments_if_an_overriding_method_calls_itself(on: Any) -> None:
    seen, ran = judged_calls(on, Again, {"mode": "x"})
    assert seen == [{"mode": "x"}, {"mode": "x", "c": "rm"}]
    assert ran == [("x", "")]


def test_tools_of_an_agent_that_takes_a_task_are_guarded(on: Any) -> None:
    inner, ask = World((DANGER,), (SAFE,), ANSWER), Ask("worker", {"request": "begin"})
    outer = World((ask,), ANSWER)
    on(policy.deny("danger", reason=REASON))
    worker = LlmAgent(
        name="worker", model=scripted_model(inner.next), tools=tools_of(inner), mode="task"
    )
    agent = LlmAgent(name="ops", model=scripted_model(outer.next), sub_agents=[worker])
    asyncio.run(converse(runner_of(agent), "begin"))
    assert inner.bodies == ["safe"]
    assert REASON in inner.told


@pytest.mark.parametrize("named", ["worker", "invoke_subagent"])
def test_an_agent_does_not_take_a_task_that_a_rule_is_against(
    on: Any, exporter: Any, named: str
) -> None:
    inner, outer = World((SAFE,), ANSWER), World((Ask("worker", {"request": "begin"}),), ANSWER)
    on(policy.deny(named, reason=REASON))
    worker = LlmAgent(
        name="worker", model=scripted_model(inner.next), tools=tools_of(inner), mode="task"
    )
    agent = LlmAgent(name="ops", model=scripted_model(outer.next), sub_agents=[worker])
    assert text_of(asyncio.run(converse(runner_of(agent), "begin"))) == ANSWER
    assert (inner.shown, inner.ran) == ([], [])
    assert REASON in outer.told
    assert verdicts(exporter) == [("worker", "deny")]


@pytest.mark.parametrize("approved", [True, False])
def test_a_task_that_is_asked_about_waits_in_place(on: Any, exporter: Any, approved: bool) -> None:
    inner, outer = World((SAFE,), ANSWER), World((Ask("worker", {"request": "begin"}),), ANSWER)
    on(policy.ask_user("worker"), approvals=lambda call: approved)
    worker = LlmAgent(
        name="worker", model=scripted_model(inner.next), tools=tools_of(inner), mode="task"
    )
    agent = LlmAgent(name="ops", model=scripted_model(outer.next), sub_agents=[worker])
    asyncio.run(converse(runner_of(agent), "begin"))
    assert inner.bodies == (["safe"] if approved else [])
    judged = [name for name, verdict in verdicts(exporter) if verdict is not None]
    assert judged.count("worker") == 1


def test_a_result_in_a_message_does_not_hide_its_text_from_hooks(on: Any) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> records.HookResult:
        return records.HookResult(allow=False, message=REASON)

    world = World(ANSWER)
    on(hooks=[refuse])
    made_up = types.FunctionResponse(id="no", name="no", response={"x": 1})
    parts = [types.Part(text="begin"), types.Part(function_response=made_up)]
    message = types.Content(role="user", parts=parts)
    events = asyncio.run(converse(runner_of(agent_of(world)), message))
    assert REASON in text_of(events)
    assert world.shown == []


def test_the_verdict_is_on_the_frameworks_own_span_of_a_call(
    on: Any, exporter: Any, tracer_provider: Any
) -> None:
    world = World((DANGER, SAFE), ANSWER)
    with GoogleADK().own_spans(tracer_provider):
        on(policy.deny("danger", reason=REASON))
        asyncio.run(converse(runner_of(agent_of(world)), "begin"))
    spans = [
        (span.instrumentation_scope.name, span.name, span.attributes.get(semconv.POLICY_DECISION))
        for span in exporter.get_finished_spans()
        if span.name in ("execute_tool danger", "execute_tool safe")
    ]
    assert sorted(spans) == [
        ("gcp.vertex.agent", "execute_tool danger", "deny"),
        ("gcp.vertex.agent", "execute_tool safe", "allow"),
    ]


def test_what_the_framework_traces_is_not_written_on_spans_of_runs(on: Any, exporter: Any) -> None:
    """Without a global tracer provider, older OpenTelemetry leaves the span of the run current."""
    world = World((DANGER, SAFE), ANSWER)
    on(policy.deny("danger", reason=REASON))
    asyncio.run(converse(runner_of(agent_of(world)), "begin"))
    (run,) = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert run.name == "invoke_agent worker"
    assert run.attributes[semconv.GEN_AI_OPERATION_NAME] == "invoke_agent"
    written = [name for name in run.attributes if "tool" in name or name.startswith("gcp.")]
    assert written == []


# -- ways round -------------------------------------------------------------------------------


def test_a_stream_shows_no_piece_of_an_answer_that_a_hook_replaces(on: Any) -> None:
    @hooks.post_agent_transform
    def redact(response: Any) -> str:
        return "redacted"

    on(hooks=[redact])
    runner = runner_of(agent_of(World("it is 4711")))
    events = asyncio.run(converse(runner, "begin", run_config=SSE))
    said = [part.text for event in events if event.content for part in event.content.parts]
    assert said == ["redacted"]


@pytest.mark.parametrize("place", ["class", "object"])
def test_a_method_that_is_set_after_a_class_is_defined_is_judged(
    on: Any, exporter: Any, place: str
) -> None:
    ran: list[str] = []

    class Late(BaseTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            raise AssertionError("replaced")

        def _get_declaration(self) -> Any:
            return types.FunctionDeclaration(name=self.name)

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        ran.append(self.name)
        return {"done": True}

    world = World((Ask("danger", {}), Ask("safe", {})), (Ask("danger", {}),), ANSWER)
    tools = [Late(name=name, description="A tool.") for name in ("danger", "safe")]
    on(policy.deny("danger", reason=REASON))
    if place == "class":
        Late.run_async = run_async  # type: ignore[method-assign,assignment]
    else:
        for tool in tools:
            tool.run_async = functools.partial(run_async, tool)  # type: ignore[method-assign]
    asyncio.run(converse(runner_of(agent_of(world, tools=tools)), "begin"))
    assert ran == ["safe"]
    assert REASON in world.told
    assert Counter(verdicts(exporter)) == {("danger", "deny"): 2, ("safe", "allow"): 1}


def test_a_tool_of_a_google_api_is_one_call(on: Any, exporter: Any) -> None:
    ran: list[Any] = []

    class Api(RestApiTool):
        async def call(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            ran.append(args)
            return {"done": True}

    place = OperationEndpoint(base_url="https://localhost", path="/", method="get")
    inner = Api("list_files", "List.", place, Operation(operationId="list_files"))
    world = World((Ask("list_files", {}),), (Ask("list_files", {}),), ANSWER)
    on(policy.RateLimit(tool_calls=1))
    agent = agent_of(world, tools=[GoogleApiTool(inner)])
    assert text_of(asyncio.run(converse(runner_of(agent), "begin"))) == ANSWER
    assert len(ran) == 1
    assert Counter(verdicts(exporter)) == {("list_files", "allow"): 1, ("list_files", "deny"): 1}


@pytest.mark.parametrize("field", ["isError", "is_error"])
def test_an_error_of_an_mcp_server_is_a_failure(on: Any, exporter: Any, field: str) -> None:
    """The second name is that of mcp 2, which some releases pass on."""

    def safe() -> dict[str, Any]:
        """Fail."""
        return {"content": [{"type": "text", "text": "no disk"}], field: True}

    seen: list[Any] = []

    @hooks.on_tool_error
    def look(error: Exception) -> None:
        seen.append(str(error))

    on(hooks=[look])
    world = World((Ask("safe", {}),), ANSWER)
    asyncio.run(converse(runner_of(agent_of(world, tools=[safe])), "begin"))
    assert len(seen) == 1
    assert "no disk" in seen[0]


@pytest.mark.parametrize("approved", [True, False])
def test_a_node_of_a_workflow_waits_in_place(on: Any, approved: bool) -> None:
    ran: list[str] = []
    asked: list[str] = []

    def danger() -> str:
        """Do harm."""
        ran.append("danger")
        return "done"

    def answers(call: Any) -> bool:
        asked.append(call.name)
        return approved

    on(policy.ask_user("danger"), approvals=answers)
    workflow = Workflow(name="flow", edges=[("START", FunctionTool(danger))])
    runner = Runner(app_name=APP, node=workflow, session_service=InMemorySessionService())
    asyncio.run(converse(runner, ""))
    assert asked == ["danger"]
    assert ran == (["danger"] if approved else [])


class Answers(BasePlugin):
    """Answers every call of a tool itself."""

    async def before_tool_callback(self, **given: Any) -> Any:
        return {"kept": True}


@pytest.mark.parametrize("place", ["agent", "plugin"])
def test_a_call_that_a_callback_answers_is_no_coverage_gap(
    on: Any, exporter: Any, metrics_reader: Any, place: str
) -> None:
    world = World((DANGER, SAFE), ANSWER)
    on(policy.deny("danger", reason=REASON))
    if place == "agent":
        answers = {"before_tool_callback": lambda **given: {"kept": True}}
        runner = runner_of(agent_of(world, **answers))
    else:
        runner = runner_of(agent_of(world), plugins=[Answers(name="answers")])
    assert text_of(asyncio.run(converse(runner, "begin"))) == ANSWER
    assert world.bodies == []
    assert Seen(exporter, metrics_reader).gaps() == 0


RUNS = {
    semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION,
    semconv.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS,
    semconv.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS,
}


@pytest.mark.parametrize("is_global", [True, False])
def test_runs_are_measured_once_although_the_framework_does_so_as_well(
    on: Any, meter_provider: Any, metrics_reader: Any, is_global: bool
) -> None:
    """It records at the global provider: if that is another one, so does otelhooks at its own."""
    if is_global:
        metrics.set_meter_provider(meter_provider)
    on(policy.deny("danger", reason=REASON))
    runner = runner_of(agent_of(World((SAFE,), ANSWER)))
    assert text_of(asyncio.run(converse(runner, "begin"))) == ANSWER
    found = Counter(
        metric.name
        for resource in metrics_reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name in RUNS
        for point in metric.data.data_points
        if point.count == 1
    )
    assert found == dict.fromkeys(RUNS, 1)


@pytest.mark.parametrize("callback", ["after_tool_callback", "on_tool_error_callback"])
def test_a_plugin_that_tries_a_denied_call_again_is_denied(
    on: Any, exporter: Any, callback: str
) -> None:
    async def again(*, tool: Any, tool_args: Any, tool_context: Any, **given: Any) -> Any:
        return await tool.run_async(args=tool_args, tool_context=tool_context)

    world = World((DANGER,), ANSWER)
    on(policy.deny("danger", reason=REASON))
    plugin = BasePlugin(name="again")
    setattr(plugin, callback, again)
    events = asyncio.run(converse(runner_of(agent_of(world), plugins=[plugin]), "begin"))
    assert text_of(events) == ANSWER
    assert world.bodies == []
    assert REASON in world.told


@pytest.mark.parametrize("pool", [True, False])
def test_a_denied_streaming_tool_of_a_live_run_yields_nothing(
    on: Any, exporter: Any, pool: bool
) -> None:
    ran: list[str] = []

    async def danger() -> Any:
        """Count."""
        ran.append("danger")
        yield "1"

    world = World((Ask("danger", {}), SAFE), ANSWER)
    on(policy.deny("danger", reason=REASON))
    runner = runner_of(agent_of(world, tools=[danger, *tools_of(world)[1:]]))
    runner.agent.model = live_model(world.next)
    settings = {"tool_thread_pool_config": ToolThreadPoolConfig()} if pool else {}
    events = asyncio.run(converse_live(runner, "begin", run_config=RunConfig(**settings)))
    assert text_of(events) == ANSWER
    assert (ran, world.bodies) == ([], ["safe"])
    assert REASON in world.told


@pytest.mark.parametrize("denied", [True, False])
def test_a_memory_that_the_framework_searches_by_itself_is_judged(
    on: Any, exporter: Any, denied: bool
) -> None:
    class Memory(InMemoryMemoryService):
        asked = 0

        async def search_memory(self, **given: Any) -> Any:
            self.asked += 1
            text = types.Content(role="user", parts=[types.Part(text="the code is 4711")])
            return SearchMemoryResponse(memories=[MemoryEntry(content=text, author=USER)])

    on(policy.deny("preload_memory", reason=REASON) if denied else policy.deny("else"))
    memory, world = Memory(), World(ANSWER)
    agent = agent_of(world, tools=[PreloadMemoryTool()])
    events = asyncio.run(converse(runner_of(agent, memory_service=memory), "begin"))
    assert text_of(events) == ANSWER
    assert memory.asked == (not denied)
    assert ("4711" in world.told) is not denied
    assert verdicts(exporter) == [("preload_memory", "deny" if denied else "allow")]
