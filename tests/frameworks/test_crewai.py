"""CrewAI: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import inspect
import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("crewai")

from crewai import BaseLLM, Crew, Process, Task
from crewai.events.types.llm_events import LLMCallType
from crewai.lite_agent import LiteAgent
from crewai.llms.base_llm import llm_call_context
from crewai.memory.unified_memory import Memory
from crewai.tools import BaseTool, tool
from crewai.tools.mcp_native_tool import MCPNativeTool
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams
from pydantic import BaseModel, create_model

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.frameworks.crewai.scripted import agent_of, prove, scripted_model
from tests import test_docs as docs
from tests.frameworks.contract import ANSWER, Contract, Path, Seen, World
from tests.frameworks.mcp_world import make_server

# CrewAI's own code
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai"),
]
HAS_BLOCKS = importlib.util.find_spec("crewai.mcp.content") is not None  # in its results
NAMES = ("danger", "safe", "broken", "slow")


def tools_of(world: World) -> list[Any]:
    """Return the world's tools: functions, and a coroutine function."""
    return [tool(getattr(world, name)) for name in NAMES]


def schema_of(body: Any) -> Any:
    """Return a class of a body's arguments."""
    given = {
        name: (
            Any if one.annotation is one.empty else one.annotation,
            ... if one.default is one.empty else one.default,
        )
        for name, one in inspect.signature(body, eval_str=True).parameters.items()
    }
    return create_model("Arguments", **given)  # type: ignore[call-overload]


def class_of(body: Any, base: type[BaseTool]) -> Any:
    """Return a class of tools with a body."""

    def _run(self: Any, **given: Any) -> Any:
        return body(**given)

    fields = {"name": body.__name__, "description": "A tool.", "args_schema": schema_of(body)}
    kinds = {"name": str, "description": str, "args_schema": Any}
    own = {"__module__": __name__, "__annotations__": kinds, "_run": _run}
    return type("Own", (base,), {**fields, **own})


class Further(BaseTool):
    """A class that overrides `run`, and calls what it overrides."""

    def run(self, *args: Any, **given: Any) -> Any:
        return super().run(*args, **given)

    async def arun(self, *args: Any, **given: Any) -> Any:
        return await super().arun(*args, **given)

    async def _arun(self, **given: Any) -> Any:
        found = self._run(**given)
        return await found if asyncio.iscoroutine(found) else found


def of_class(base: type[BaseTool]) -> Any:
    def made(world: World) -> list[Any]:
        return [class_of(getattr(world, name), base)() for name in NAMES]

    return made


async def in_kickoff(agent: Any, prompt: str) -> Any:
    return (await agent.kickoff_async(prompt)).raw


async def in_akickoff(agent: Any, prompt: str) -> Any:
    return (await agent.akickoff(prompt)).raw


def build(way: Any = None, tools: Any = tools_of, *, is_native: bool = True) -> Any:
    """Return what builds a path on which an agent is kicked off."""

    def built(world: World) -> Any:
        model = scripted_model(world.next, is_native=is_native)
        agent = agent_of(model, tools(world))
        if way is None:
            return lambda prompt: agent.kickoff(prompt).raw

        async def run(prompt: str) -> Any:
            return await way(agent, prompt)

        return run

    return built


def crew_of(world: World, **settings: Any) -> Crew:
    agent = agent_of(scripted_model(world.next), tools_of(world))
    task = Task(description="{text}", expected_output="an answer", agent=agent)
    return Crew(agents=[agent], tasks=[task], name="crew", **settings)


def build_crew(world: World) -> Any:
    crew = crew_of(world)
    return lambda prompt: crew.kickoff({"text": prompt}).raw


def build_crew_async(method: str) -> Any:
    def built(world: World) -> Any:
        crew = crew_of(world)

        async def run(prompt: str) -> Any:
            return (await getattr(crew, method)({"text": prompt})).raw

        return run

    return built


def build_crew_stream(world: World) -> Any:
    crew = crew_of(world, stream=True)

    def run(prompt: str) -> Any:
        output = crew.kickoff({"text": prompt})
        for _ in output:
            pass
        return output.result.raw

    return run


def build_hierarchical(world: World) -> Any:
    """Build a crew whose manager delegates to the agent that plays the script."""
    worker = agent_of(scripted_model(world.next), tools_of(world))
    given = {"task": "please begin", "context": "none", "coworker": "worker"}
    steps: list[Any] = [[("delegate_work_to_coworker", given)]]
    over = scripted_model(lambda shown: steps.pop(0) if steps else ANSWER)
    task = Task(description="{text}", expected_output="an answer")
    crew = Crew(agents=[worker], tasks=[task], process=Process.hierarchical, manager_llm=over)
    return lambda prompt: crew.kickoff({"text": prompt}).raw


def build_delegation(world: World) -> Any:
    """Build a crew whose first agent delegates to the one that plays the script."""
    worker = agent_of(scripted_model(world.next), tools_of(world))
    given = {"task": "please begin", "context": "none", "coworker": "worker"}
    steps: list[Any] = [[("delegate_work_to_coworker", given)]]
    model = scripted_model(lambda shown: steps.pop(0) if steps else ANSWER)
    over = agent_of(model, [], role="over", allow_delegation=True)
    task = Task(description="{text}", expected_output="an answer", agent=over)
    crew = Crew(agents=[over, worker], tasks=[task])
    return lambda prompt: crew.kickoff({"text": prompt}).raw


class InProcess:
    """A client of CrewAI's, connected to a server in this process."""

    transport = None

    def __init__(self, world: Any) -> None:
        self.world = world

    def server(self) -> Any:
        return make_server(self.world)

    async def connect(self) -> None:
        server = self.server()
        low = getattr(server, "_mcp_server", None) or server._lowlevel_server
        self._stack = contextlib.AsyncExitStack()
        memory = create_client_server_memory_streams()
        ours, theirs = await self._stack.enter_async_context(memory)
        task = asyncio.create_task(low.run(*theirs, low.create_initialization_options()))
        self._stack.callback(task.cancel)
        self._session = await self._stack.enter_async_context(ClientSession(*ours))
        await self._session.initialize()

    async def disconnect(self) -> None:
        await self._stack.aclose()

    async def call_tool_result(self, name: str, arguments: Any) -> Any:
        return Result(await self._session.call_tool(name, arguments))


class Result:
    """A result in the form of CrewAI's client."""

    def __init__(self, result: Any) -> None:
        self.content: Any = result.content if HAS_BLOCKS else result.content[0].text
        self.is_error = bool(result.isError)


def mcp_tools_of(world: World) -> list[Any]:
    made = []
    for name in NAMES:
        one = MCPNativeTool(functools.partial(InProcess, world), name, {}, "files")
        one.args_schema = schema_of(getattr(world, name))
        made.append(one)
    return made


def build_mcp(world: World) -> Any:
    def next_step(shown: str) -> Any:
        step = world.next(shown)
        return step if isinstance(step, str) else [(f"files_{name}", args) for name, args in step]

    agent = agent_of(scripted_model(next_step), mcp_tools_of(world))
    return lambda prompt: agent.kickoff(prompt).raw


def build_direct(tools: Any) -> Any:
    """Return what builds a path on which a program calls the tools itself."""

    def built(world: World) -> Any:
        by_name = {one.name: one for one in tools(world)}
        return lambda prompt: world.play(lambda name, args: by_name[name].run(**args), prompt)

    return built


def build_direct_async(world: World) -> Any:
    by_name = {one.name: one for one in of_class(Further)(world)}

    async def run(prompt: str) -> Any:
        return await world.aplay(lambda name, args: by_name[name].arun(**args), prompt)

    return run


def build_structured(world: World) -> Any:
    by_name = {one.name: one.to_structured_tool() for one in tools_of(world)}
    return lambda prompt: world.play(lambda name, args: by_name[name].invoke(args), prompt)


ROOT = policy.deny("danger", when=lambda args: args["path"] == "/")
THREAD = "a tool runs in a thread, which nothing can cancel"
STREAM = {"exception_that_escapes": "it ends the framework's own thread"}
ASYNC = {"cancelled": THREAD}
ONE = dict.fromkeys(("parallel", "limit"), "one call a step")
ESCAPES = {"exception_that_escapes": "the server answers with an error"}
MCP: dict[str, Any] = {"selector": "*/{}".format, "lacks": ESCAPES}
DIRECT: dict[str, Any] = {"has_run": False, "has_model": False, "errors": "raised"}
TEXT = {**ONE, "error_without_recovery": "it calls a tool that fails three times"}
SUB: dict[str, Any] = {
    "around": ("delegate_work_to_coworker",),
    "subagent": "delegate_work_to_coworker",
}


class TestAdapter(Contract):
    """All scenarios, on each path."""

    framework = "crewai"
    paths = (
        Path("kickoff", build()),
        Path("kickoff_async", build(in_kickoff), lacks=ASYNC),
        Path("akickoff", build(in_akickoff), lacks=ASYNC),
        Path("classes", build(tools=of_class(BaseTool))),
        Path("overriding", build(tools=of_class(Further))),
        Path("text", build(is_native=False), lacks=TEXT),
        Path("text_async", build(in_akickoff, is_native=False), lacks={**ASYNC, **TEXT}),
        Path("crew", build_crew),
        Path("crew_kickoff_async", build_crew_async("kickoff_async"), lacks=ASYNC),
        Path("crew_akickoff", build_crew_async("akickoff"), lacks=ASYNC),
        Path("crew_stream", build_crew_stream, lacks=STREAM),
        Path("delegation", build_delegation, **SUB),
        Path("hierarchical", build_hierarchical, **SUB),
        Path("mcp", build_mcp, **MCP),
        Path("direct_run", build_direct(tools_of), **DIRECT),
        Path("direct_overriding", build_direct(of_class(Further)), **DIRECT),
        Path("direct_arun", build_direct_async, **DIRECT),
        Path("direct_structured", build_structured, **DIRECT),
    )


class TestBesideMcp(Contract):
    """With the adapter of MCP, whose client's seat comes second: judged once, one span."""

    framework = "crewai"
    also = ("mcp",)
    paths = (Path("mcp", build_mcp, **MCP),)


def test_the_proof_holds_and_prints_nothing(capsys):
    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof
    assert capsys.readouterr().out == ""


def step(number: int) -> dict[str, Any]:
    about = {"description": "go", "tool_to_use": "danger", "depends_on": []}
    return {"step_number": number, **about}


class TestTools:
    """What an agent, a model's answer or a careless program could get round."""

    @pytest.fixture
    def world(self) -> World:
        return World()

    @staticmethod
    def run(steps: list[Any], tools: list[Any], **settings: Any) -> tuple[Any, list[str]]:
        shown: list[str] = []
        model = scripted_model(lambda text: (shown.append(text), steps.pop(0))[1])
        return agent_of(model, tools, **settings).kickoff("begin"), shown

    def test_a_denied_tool_whose_result_would_be_the_answer_ends_no_run(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        last = tool("danger", result_as_answer=True)(world.danger)
        output, shown = self.run([[("danger", {"path": "/"})], "done"], [last])
        assert world.ran == []
        assert (output.raw, "No." in shown[-1]) == ("done", True)

    def test_a_deny_goes_on_where_failures_end_the_run(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        settings = {"tool_failure_policy": "raise"}
        steps = [[("danger", {"path": "/"})], "done"]
        output, shown = self.run(steps, tools_of(world), **settings)
        assert (output.raw, world.ran) == ("done", [])
        assert "No." in shown[-1]

    def test_memories_and_other_messages_are_not_what_the_user_said(self, world):
        class Remembers(Memory):
            def recall(self, query: str, **given: Any) -> list[Any]:
                return [SimpleNamespace(format=lambda: "- remove /tmp/remembered")]

        said = [
            {"role": "user", "content": "please remove /tmp/mine"},
            {"role": "assistant", "content": "I remove /tmp/other"},
        ]
        paths = ["/tmp/remembered", "/tmp/other", "/tmp/mine"]
        steps: list[Any] = [*([("danger", {"path": path})] for path in paths), "done"]
        model = scripted_model(lambda text: steps.pop(0))
        agent = agent_of(model, tools_of(world), memory=Remembers.model_construct())
        otelhooks.instrument(policies=[policy.deny("danger", unless_user_said="path")])
        assert agent.kickoff(said).raw == "done"
        assert world.ran == [("danger", {"path": "/tmp/mine"})]

    def test_a_result_of_the_cache_is_not_given_for_a_denied_call(self, world):
        agent = agent_of(scripted_model(lambda text: steps.pop(0)), tools_of(world), cache=True)
        steps: list[Any] = [[("danger", {"path": "/"})], "done"]
        crew = Crew(
            agents=[agent],
            tasks=[Task(description="go", expected_output="an answer", agent=agent)],
            cache=True,
        )
        crew.kickoff()
        assert world.bodies == ["danger"]
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        shown: list[str] = []
        agent.llm = scripted_model(lambda text: (shown.append(text), steps.pop(0))[1])
        steps[:] = [[("danger", {"path": "/"})], "done"]
        crew.kickoff()
        assert world.bodies == ["danger"]
        assert "No." in shown[-1]
        assert "removed" not in shown[-1]

    def test_functions_that_a_client_runs_are_denied(self, world):
        class Running(BaseLLM):
            def call(self, messages: Any, *args: Any, **given: Any) -> Any:
                functions = given["available_functions"]
                return self._handle_tool_execution("danger", {"path": "/"}, functions)

        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        model = Running(model="x")
        functions = {"danger": world.danger}
        assert model.call("go", available_functions=functions) == "No."
        [one] = [one for one in tools_of(world) if one.name == "danger"]
        assert "No." in model.call("go", available_functions={"danger": one.run})
        assert "No." in model.call("go", available_functions={"danger": one._run})
        assert world.ran == []

    def test_a_function_that_a_client_calls_by_position_has_names_for_rules(self, world):
        class Running(BaseLLM):
            def call(self, messages: Any, *args: Any, **given: Any) -> Any:
                return given["available_functions"]["danger"](messages)

        otelhooks.instrument(policies=[ROOT])
        model = Running(model="x")
        assert "removed" not in model.call("/", available_functions={"danger": world.danger})
        assert model.call("/tmp", available_functions={"danger": world.danger}) == "removed /tmp"
        assert world.bodies == ["danger"]

    def test_rules_know_a_tool_by_its_name_and_as_models_see_it(self, world):
        otelhooks.instrument()
        named = tool("Remove Files")(world.danger)
        for name in ("Remove Files", "remove_files"):
            with otelhooks.scope(policies=[policy.deny(name, reason="No.")]):
                assert "No." in str(named.run(path="/"))
        assert world.ran == []

    def test_positional_arguments_have_their_names(self, world):
        otelhooks.instrument(policies=[ROOT])
        [danger, *_] = tools_of(world)
        assert "denied" in str(danger.run("/")).lower()
        assert danger.run("/tmp") == "removed /tmp"
        assert world.bodies == ["danger"]

    def test_they_have_those_of_the_function_that_runs(self, world):
        class Own(BaseTool):
            name: str = "danger"
            description: str = "A tool."
            func: Any = None

            def _run(self, *args: Any) -> Any:
                raise NotImplementedError

            async def _arun(self, path: str) -> Any:
                return world.danger(path)

        def other(mode: str) -> None: ...

        otelhooks.instrument(policies=[ROOT])
        for tool_of_my_own in (Own(), Own(func=other)):
            assert "denied" in str(asyncio.run(tool_of_my_own.arun("/"))).lower()
            assert asyncio.run(tool_of_my_own.arun("/tmp")) == "removed /tmp"
        assert world.bodies == ["danger"] * 2

    def test_an_argument_beside_the_input_is_seen(self, world):
        otelhooks.instrument(policies=[ROOT])
        [danger, *_] = (one.to_structured_tool() for one in tools_of(world))
        denied = [
            danger.invoke({"path": "/"}),
            danger.invoke('{"path": "/"}'),
            danger.invoke({"path": "/tmp"}, path="/"),
        ]
        assert [one.message for one in denied] == ["Denied by policy 'danger'."] * 3
        assert world.ran == []

    def test_a_structured_tool_is_allowed_by_the_name_that_the_model_sees(self, world):
        [danger, *_] = (one.to_structured_tool() for one in tools_of(world))
        danger.name = "Clean up"
        handle = otelhooks.instrument(policies=[policy.deny("cl*"), policy.allow("danger")])
        assert danger.invoke({"path": "/"}).message == "Denied by policy 'cl*'."
        assert world.ran == []
        handle.replace(policies=[policy.deny("*"), policy.allow("clean_up")])
        assert danger.invoke({"path": "/"}) == "removed /"

    def test_rules_know_a_structured_tool_by_its_own_name_too(self, world):
        [danger, *_] = (one.to_structured_tool() for one in tools_of(world))
        danger.name = "Clean up"
        otelhooks.instrument()
        for name in ("Clean up", "clean_up", "danger"):
            with otelhooks.scope(policies=[policy.deny(name, reason="No.")]):
                assert danger.invoke({"path": "/"}).message == "No."
        assert world.ran == []

    def test_an_unknown_tool_and_a_limit_of_uses_are_no_gaps(
        self, world, with_rules, exporter, metrics_reader
    ):
        with_rules(policy.deny("other"))
        once = tool("safe", max_usage_count=1)(world.safe)
        steps = [[("nothing", {})], [("safe", {"x": 1})], [("safe", {"x": 2})], "done"]
        output, _ = self.run(steps, [once])
        assert (output.raw, world.bodies) == ("done", ["safe"])
        assert Seen(exporter, metrics_reader).gaps() == 0

    def test_a_step_of_a_plan_is_guarded(self, world, with_rules, exporter):
        with_rules(policy.deny("danger", reason="No."))
        plan = {"plan": "go", "steps": [step(1)], "ready": True}
        steps = [json.dumps(plan), [("danger", {"path": "/"})], "one", "two", "three", "four"]
        shown: list[str] = []
        model = scripted_model(lambda text: (shown.append(text), steps.pop(0))[1])
        agent_of(model, tools_of(world), planning=True).kickoff("begin")
        assert world.ran == []
        [call] = [one for one in exporter.get_finished_spans() if "danger" in one.name]
        assert call.attributes["gen_ai.tool.call.id"].startswith("call_")
        assert any("No." in text for text in shown)

    def test_the_span_of_a_call_has_its_id_and_the_chat_its_usage(
        self, world, with_rules, exporter
    ):
        class Reporting(BaseLLM):
            def call(self, messages: Any, *args: Any, **given: Any) -> Any:
                usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
                kind = LLMCallType.LLM_CALL
                self._emit_call_completed_event("done", kind, usage=usage)
                return "done"

        with_rules(policy.deny("danger"))
        self.run([[("safe", {"x": 1})], "done"], tools_of(world))
        with llm_call_context():
            assert Reporting(model="x").call("go") == "done"
        spans = {one.name: one.attributes for one in exporter.get_finished_spans()}
        assert spans["execute_tool safe"]["gen_ai.tool.call.id"].startswith("call_")
        assert spans["chat x"]["gen_ai.usage.input_tokens"] == 7
        assert spans["chat x"]["gen_ai.usage.output_tokens"] == 3

    def test_a_refused_run_of_a_typed_task_raises(self, world):
        class Answer(BaseModel):
            text: str

        @hooks.pre_agent
        def refuse(call: types.AgentCall) -> types.HookResult:
            return types.HookResult(allow=False, message="No.")

        otelhooks.instrument(hooks=[refuse])
        agent = agent_of(scripted_model(world.next), [], max_retry_limit=0)
        task = Task(description="go", expected_output="it", agent=agent, output_pydantic=Answer)
        with pytest.raises(Denied, match="No"):
            agent.execute_task(task)
        assert world.shown == []

    @pytest.mark.filterwarnings("ignore:LiteAgent is deprecated")
    def test_a_lite_agent_is_guarded(self, world, with_rules, exporter):
        with_rules(policy.deny("danger", reason="No."))
        steps: list[Any] = [[("danger", {"path": "/"})], "done"]
        shown: list[str] = []
        model = scripted_model(lambda text: (shown.append(text), steps.pop(0))[1], is_native=False)
        agent = LiteAgent(
            role="worker", goal="help", backstory="It helps.", llm=model, tools=tools_of(world)
        )
        assert agent.kickoff("begin").raw == "done"
        assert world.ran == []
        assert "No." in shown[-1]
        roots = [one.name for one in exporter.get_finished_spans() if one.parent is None]
        assert roots == ["invoke_agent worker"]


def test_the_blocks_of_its_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert docs.run_page(docs.DOCS / "frameworks" / "crewai.md", tmp_path) == 1
