"""LlamaIndex: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow")

from llama_index.core.agent.workflow import (
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.query_engine import (
    CustomQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    ToolRetrieverRouterQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import TreeSummarize
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.retrievers import RouterRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.tools.ondemand_loader_tool import OnDemandLoaderTool
from llama_index.core.tools.types import (
    AsyncBaseTool,
    BaseTool,
    BaseToolAsyncAdapter,
    ToolMetadata,
    ToolOutput,
)
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from llama_index.tools.mcp import McpToolSpec
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams

import otelhooks
from otelhooks import errors, hooks, policy
from otelhooks.frameworks.llama_index.scripted import ScriptedModel
from otelhooks.patching.versions import at_least
from tests import test_docs as docs
from tests.frameworks.contract import Contract, Path, World
from tests.frameworks.mcp_world import make_server

# The framework looks at all members of its own objects, and calls what its workflows deprecate.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:is_running called from:DeprecationWarning"),
]
NAMES = ("danger", "safe", "broken", "slow")


def tools_of(world: World) -> list[Any]:
    """Return the world's tools: plain functions, and a coroutine function."""
    return [FunctionTool.from_defaults(getattr(world, name)) for name in NAMES]


def async_tools_of(world: World) -> list[Any]:
    """Return the world's tools, all of them coroutine functions."""

    async def danger(path: str) -> str:
        """Remove a path."""
        return world.danger(path)

    async def safe(x: int) -> str:
        """Read number x."""
        return world.safe(x)

    async def broken(x: int) -> str:
        """Fail."""
        return world.broken(x)

    return [FunctionTool.from_defaults(async_fn=one) for one in (danger, safe, broken, world.slow)]


def context_tools_of(world: World) -> list[Any]:
    """Return tools that get the workflow's context, and one with a partial parameter."""

    async def danger(ctx: Context, path: str) -> str:
        """Remove a path."""
        assert await ctx.store.get("memory")
        return world.danger(path)

    danger.__annotations__["ctx"] = Context
    return [FunctionTool.from_defaults(async_fn=danger), *tools_of(world)[1:]]


class Own(AsyncBaseTool):
    """A tool with methods of its own."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._tool = FunctionTool.from_defaults(function)

    @property
    def metadata(self) -> ToolMetadata:
        return self._tool.metadata

    def call(self, **given: Any) -> ToolOutput:
        text = self._function(**given)
        return ToolOutput(self.metadata.get_name(), text, raw_input=given, raw_output=text)

    async def acall(self, **given: Any) -> ToolOutput:
        return self.call(**given)


class Plain(BaseTool):
    """A tool that can only be called."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._tool = FunctionTool.from_defaults(function)

    @property
    def metadata(self) -> ToolMetadata:
        return self._tool.metadata

    def __call__(self, input: Any) -> ToolOutput:
        text = self._function(input)
        return ToolOutput(self.metadata.get_name(), text, raw_input={}, raw_output=text)


class Overriding(FunctionTool):
    """A tool whose methods come to those that they override."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return super().call(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return await super().acall(*args, **kwargs)


def own_tools_of(world: World) -> list[Any]:
    return [*(Own(getattr(world, name)) for name in NAMES[:3]), tools_of(world)[3]]


def overriding_tools_of(world: World) -> list[Any]:
    return [Overriding.from_defaults(getattr(world, name)) for name in NAMES]


def build(tools: Any = tools_of, **settings: Any) -> Any:
    """Return what builds a path on which a `FunctionAgent` runs."""

    def built(world: World) -> Any:
        async def run(prompt: str) -> str:
            model = ScriptedModel(next_step=world.next)
            agent = FunctionAgent(tools=tools(world), llm=model, **settings)
            return str(await agent.run(user_msg=prompt))

        return run

    return built


def build_workflow(world: World) -> Any:
    async def run(prompt: str) -> str:
        model = ScriptedModel(next_step=world.next)
        worker = FunctionAgent(
            name="worker", description="Works.", tools=tools_of(world), llm=model
        )
        workflow = AgentWorkflow(agents=[worker], root_agent="worker")
        return str(await workflow.run(user_msg=prompt))

    return run


def chunks(world: World) -> Any:
    """Return what reads the texts in the events of a run."""

    async def read(prompt: str) -> AsyncIterator[str]:
        model = ScriptedModel(next_step=world.next, pieces=3)
        handler = FunctionAgent(tools=tools_of(world), llm=model).run(user_msg=prompt)
        async for event in handler.stream_events():
            if isinstance(event, AgentStream) and event.delta:
                yield event.delta
        await handler

    return read


def build_subagent(world: World) -> Any:
    """Build a path on which a tool starts the agent that plays the script."""

    async def run(prompt: str) -> str:
        agent = FunctionAgent(
            name="worker", tools=tools_of(world), llm=ScriptedModel(next_step=world.next)
        )

        async def work(task: str) -> str:
            """Hand a task on."""
            return str(await agent.run(user_msg=task))

        steps = iter([[("work", {"task": prompt})]])
        model = ScriptedModel(
            next_step=lambda text: next(steps, text.rpartition("\n")[2])  # what the tool said
        )
        outer = FunctionAgent(
            name="lead", tools=[FunctionTool.from_defaults(async_fn=work)], llm=model
        )
        return str(await outer.run(user_msg=prompt))

    return run


def build_handoff(world: World) -> Any:
    """Build a path on which an agent hands over to the one that plays the script."""

    async def run(prompt: str) -> str:
        over = [("handoff", {"to_agent": "worker", "reason": "it is the one that can"})]
        lead = FunctionAgent(
            name="lead", description="Leads.", llm=ScriptedModel(next_step=lambda text: over)
        )
        worker = FunctionAgent(
            name="worker",
            description="Works.",
            tools=tools_of(world),
            llm=ScriptedModel(next_step=world.next),
        )
        workflow = AgentWorkflow(agents=[lead, worker], root_agent="lead")
        return str(await workflow.run(user_msg=prompt))

    return run


def build_react(world: World) -> Any:
    def next_step(shown: str) -> str:
        step = world.next(shown)
        if isinstance(step, str):
            return f"Thought: I can answer.\nAnswer: {step}"
        [(name, args)] = step
        return f"Thought: I need it.\nAction: {name}\nAction Input: {json.dumps(args)}"

    async def run(prompt: str) -> str:
        model = ScriptedModel(next_step=next_step)
        agent = ReActAgent(tools=tools_of(world), llm=model)
        return str(await agent.run(user_msg=prompt))

    return run


def build_direct(tools: Any, method: str) -> Any:
    """Return what builds a path on which a program calls the tools itself."""

    def built(world: World) -> Any:
        by_name = {tool.metadata.name: tool for tool in tools(world)}
        return lambda prompt: world.play(
            lambda name, args: getattr(by_name[name], method)(**args), prompt
        )

    return built


def build_async_direct(tools: Any) -> Any:
    def built(world: World) -> Any:
        by_name = {tool.metadata.name: tool for tool in tools(world)}

        async def run(prompt: str) -> str:
            return await world.aplay(lambda name, args: by_name[name].acall(**args), prompt)

        return run

    return built


@contextlib.asynccontextmanager
async def connected(server: Any) -> AsyncIterator[ClientSession]:
    """Connect a session to a server in this process."""
    low = getattr(server, "_mcp_server", None) or server._lowlevel_server
    async with contextlib.AsyncExitStack() as stack:
        memory = create_client_server_memory_streams()
        ours, theirs = await stack.enter_async_context(memory)
        task = asyncio.create_task(low.run(*theirs, low.create_initialization_options()))
        stack.callback(task.cancel)
        session = await stack.enter_async_context(ClientSession(*ours))
        await session.initialize()
        yield session


def build_mcp(world: World) -> Any:
    """Build a path on which an agent has the tools of a server in this process."""

    async def run(prompt: str) -> str:
        async with connected(make_server(world)) as session:
            tools = await McpToolSpec(client=session).to_tool_list_async()
            model = ScriptedModel(next_step=world.next)
            return str(await FunctionAgent(tools=tools, llm=model).run(user_msg=prompt))

    return run


ROOT = policy.deny("danger", when=lambda args: args["path"] == "/")
DIRECT: dict[str, Any] = {"has_run": False, "has_model": False, "errors": "raised"}
ONE = dict.fromkeys(("parallel", "limit"), "one call a step")
IS_OLD = not at_least(metadata.version("llama-index-workflows"), "2.12")
# Also without otelhooks: a task of these dies, and the run waits for it until its timeout.
OLD = {"exception_that_escapes": "these workflows hang on it"} if IS_OLD else {}
SERVER = {"exception_that_escapes": "the server answers with an error"}
# A cancelled run of these leaves its steps alone; what ends this one is the closed connection.
SERVER |= {"cancelled": "these workflows go on with a step"} if IS_OLD else {}
MCP: dict[str, Any] = {"selector": "*/{}".format, "lacks": SERVER}


@pytest.fixture
def world() -> World:
    return World()


class TestAdapter(Contract):
    """All scenarios, on each path."""

    framework = "llama_index"
    paths = (
        Path("agent", build(streaming=False), lacks=OLD),
        Path("agent_stream", build(), chunks=chunks, lacks=OLD),
        Path("agent_async_tools", build(async_tools_of), lacks=OLD),
        Path("agent_context", build(context_tools_of), lacks=OLD),
        Path("agent_own_tools", build(own_tools_of), lacks=OLD),
        Path("agent_overriding", build(overriding_tools_of), lacks=OLD),
        Path("agent_workflow", build_workflow, lacks=OLD),
        Path("subagent", build_subagent, around=("work",), subagent="work", lacks=OLD),
        Path("handoff", build_handoff, around=("handoff",), lacks=OLD),
        Path("mcp", build_mcp, **MCP),
        Path("react", build_react, lacks=ONE | OLD),
        Path("direct_call", build_direct(tools_of, "call"), **DIRECT),
        Path("direct_dunder_call", build_direct(tools_of, "__call__"), **DIRECT),
        Path("direct_own", build_direct(own_tools_of, "__call__"), **DIRECT),
        Path("direct_acall", build_async_direct(tools_of), **DIRECT),
    )


class TestBesideMcp(Contract):
    """With the adapter of MCP, whose client's seat comes second: judged once, one span."""

    framework = "llama_index"
    also = ("mcp",)
    paths = (Path("mcp", build_mcp, **MCP),)


class TestTools:
    """Tools in forms of their own."""

    def test_a_tool_that_can_only_be_called_is_denied(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        output = Plain(world.danger)("/")
        assert (output.is_error, output.content, world.ran) == (True, "No.", [])

    def test_so_it_is_in_an_agent(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        shown: list[str] = []
        steps: list[Any] = [[("danger", {"input": "/"})], "done"]

        def next_step(text: str) -> Any:
            shown.append(text)
            return steps.pop(0)

        async def run() -> str:
            model = ScriptedModel(next_step=next_step)
            return str(await FunctionAgent(tools=[Plain(world.danger)], llm=model).run("begin"))

        assert asyncio.run(run()) == "done"
        assert world.ran == []
        assert "No." in shown[-1]

    def test_positional_arguments_have_their_names(self, world):
        otelhooks.instrument(policies=[ROOT])
        tool = tools_of(world)[0]
        assert tool("/").is_error
        assert not tool("/tmp").is_error
        assert world.bodies == ["danger"]

    def test_a_subclass_of_the_adapter_cannot_hide_a_body(self, world):
        class Hiding(BaseToolAsyncAdapter):
            def call(self, input: Any) -> ToolOutput:
                return ToolOutput("danger", world.danger(input), raw_input={}, raw_output="")

        otelhooks.instrument(policies=[policy.deny("danger")])
        tool = Hiding(Plain(world.danger))
        assert tool.call("/").is_error
        assert asyncio.run(tool.acall("/")).is_error
        assert world.ran == []

    def test_a_tool_that_waits_for_a_person_is_no_failure(self, world):
        seen: list[Any] = []

        @hooks.post_tool_call_transform
        def note(data: Any) -> Any:
            seen.append(data.error)
            return None

        async def safe(ctx: Context, x: int) -> str:
            """Read number x."""
            event = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent())
            return world.safe(x) if event.response == "yes" else "no"

        safe.__annotations__["ctx"] = Context
        otelhooks.instrument(policies=[policy.deny("danger")], hooks=[note])
        steps: list[Any] = [[("safe", {"x": 1})], "done"]

        async def run() -> str:
            model = ScriptedModel(next_step=lambda text: steps.pop(0))
            agent = FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=safe)], llm=model)
            handler = agent.run("begin")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    handler.ctx.send_event(HumanResponseEvent(response="yes"))
            return str(await handler)

        assert asyncio.run(run()) == "done"
        assert world.bodies == ["safe"]
        assert not any(seen)

    def test_a_partial_parameter_is_seen(self, world):
        otelhooks.instrument(policies=[ROOT])
        tool = FunctionTool.from_defaults(world.danger, partial_params={"path": "/"})
        assert tool().is_error
        assert tool.call().is_error
        assert world.ran == []

    def test_limits_count_a_call_once(self, world):
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=2)])
        tool = Own(world.safe)
        assert not tool(x=1).is_error
        assert not asyncio.run(tool.acall(x=2)).is_error
        assert tool(x=3).is_error
        assert world.bodies == ["safe", "safe"]

    def test_the_span_of_a_call_has_its_id(self, world, with_rules, exporter):
        with_rules(policy.deny("danger"))
        steps: list[Any] = [[("safe", {"x": 1})], "done"]

        async def run() -> str:
            model = ScriptedModel(next_step=lambda text: steps.pop(0))
            return str(await FunctionAgent(tools=tools_of(world), llm=model).run("begin"))

        assert asyncio.run(run()) == "done"
        [span] = [one for one in exporter.get_finished_spans() if one.name == "execute_tool safe"]
        assert span.attributes["gen_ai.tool.call.id"].startswith("call_")


class Warm(ScriptedModel):
    """A model with a setting of its own, as those of providers have."""

    temperature: float = 0.5


def test_the_span_of_a_model_call_has_its_settings(with_rules, exporter):
    with_rules(policy.deny("danger"))
    Warm(next_step=lambda text: "done").chat([ChatMessage("begin")], max_tokens=7)
    [span] = exporter.get_finished_spans()
    assert span.attributes["gen_ai.request.temperature"] == 0.5
    assert span.attributes["gen_ai.request.max_tokens"] == 7


class Behind(CustomQueryEngine):
    """An engine that is behind a tool."""

    body: Any

    def custom_query(self, query_str: str) -> str:
        return str(self.body(path=query_str))


class Found(BaseRetriever):
    """A retriever that is behind a tool."""

    def __init__(self, body: Any) -> None:
        self.body = body
        super().__init__()

    def _retrieve(self, query_bundle: Any) -> Any:
        return [NodeWithScore(node=TextNode(text=str(self.body(path=query_bundle.query_str))))]


class Chosen(BaseSelector):
    """What a model would choose."""

    indices: Any

    def _select(self, choices: Any, query: Any) -> Any:
        return SelectorResult(
            selections=[SingleSelection(index=i, reason="") for i in self.indices]
        )

    async def _aselect(self, choices: Any, query: Any) -> Any:
        return self._select(choices, query)

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...


class Asked(BaseQuestionGenerator):
    """Questions that a model would have."""

    def generate(self, tools: Any, query: Any) -> Any:
        return [SubQuestion(sub_question="/", tool_name=name) for name in ("danger", "other")]

    async def agenerate(self, tools: Any, query: Any) -> Any:
        return self.generate(tools, query)

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...


def routed(tools: Any, indices: Any, cls: Any = RouterQueryEngine) -> Any:
    model = MockLLM()
    summarizer = TreeSummarize(llm=model)
    selector = Chosen()
    selector.indices = indices
    return cls(selector, tools, llm=model, summarizer=summarizer)


def asking(tools: Any, *, use_async: bool) -> Any:
    return SubQuestionQueryEngine(Asked(), NoText(MockLLM()), tools, use_async=use_async)


class TestEngines:
    """Query engines and retrievers that call what is behind a tool."""

    def engines(self, world: World) -> Any:
        return [
            QueryEngineTool.from_defaults(Behind(body=world.danger), name=name, description="d")
            for name in ("danger", "other")
        ]

    def retrievers(self, world: World) -> Any:
        return [
            RetrieverTool.from_defaults(Found(world.danger), name=name, description="d")
            for name in ("danger", "other")
        ]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_router_asks_no_denied_engine(self, is_async, world, with_rules, exporter):
        with_rules(policy.deny("danger", reason="No."))
        router = routed(self.engines(world), [0])
        found = asyncio.run(router.aquery("/")) if is_async else router.query("/")
        assert (str(found), world.ran) == ("No.", [])
        [span] = [one for one in exporter.get_finished_spans() if one.name == "execute_tool danger"]
        assert span.attributes["otelhooks.policy.decision"] == "deny"

    @pytest.mark.parametrize("is_async", [False, True])
    def test_of_several_it_asks_the_others(self, is_async, world, with_rules):
        with_rules(policy.deny("danger", reason="No."))
        router = routed(self.engines(world), [0, 1])
        asyncio.run(router.aquery("/x")) if is_async else router.query("/x")
        assert world.bodies == ["danger"]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_router_of_retrievers_asks_no_denied_one(self, is_async, world, with_rules):
        with_rules(policy.deny("danger", reason="No."))
        selector = Chosen()
        selector.indices = [0]
        router = RouterRetriever(selector, self.retrievers(world), llm=MockLLM())
        found = asyncio.run(router.aretrieve("/")) if is_async else router.retrieve("/")
        assert ([one.get_content() for one in found], world.ran) == (["No."], [])

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_question_for_a_denied_tool_is_not_asked(self, is_async, world, with_rules):
        with_rules(policy.deny("danger", reason="No."))
        found = asking(self.engines(world), use_async=is_async).query("begin")
        assert world.bodies == ["danger"]  # behind `other`
        assert [one.get_content().splitlines()[-1] for one in found.source_nodes] == [
            "Response: No.",
            "Response: removed /",
        ]

    def test_hooks_rewrite_queries_and_answers(self, world):
        @hooks.pre_tool_call_decide
        def rewrite(data: Any) -> Any:
            return hooks.HookResult(modified_args={"input": "/tmp"})

        @hooks.post_tool_call_transform
        def replace(data: Any) -> Any:
            return f"{data.result}!"

        otelhooks.instrument(hooks=[rewrite, replace])
        assert str(routed(self.engines(world), [0]).query("/")) == "removed /tmp!"

    def test_a_router_of_ones_own_asks_no_denied_engine(self, world):
        class Mine(RouterQueryEngine):
            def _query(self, query_bundle: Any) -> Any:
                return self._query_engines[0].query(query_bundle)

        class Further(RouterQueryEngine):
            def _query(self, query_bundle: Any) -> Any:
                return super()._query(query_bundle)

        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        for cls in (Mine, Further):
            assert str(routed(self.engines(world), [0], cls).query("/")) == "No."
        assert world.ran == []

    def test_one_that_calls_the_frameworks_is_judged_once(self, world):
        class Further(RouterQueryEngine):
            def _query(self, query_bundle: Any) -> Any:
                return super()._query(query_bundle)

        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        assert str(routed(self.engines(world), [0], Further).query("/")) == "removed /"

    def test_a_loader_of_a_denied_tool_is_denied(self, world):
        otelhooks.instrument(policies=[policy.deny("danger", reason="No.")])
        tool = OnDemandLoaderTool.from_tool(
            FunctionTool.from_defaults(world.danger), name="load", description="Load."
        )
        assert tool(query_str="x", path="/").is_error
        assert asyncio.run(tool.acall(query_str="x", path="/")).is_error
        assert world.ran == []

    def test_an_allow_for_the_function_of_a_loader_opens_nothing(self, world):
        otelhooks.instrument(policies=[policy.deny("lo*"), policy.allow("danger")])
        tool = OnDemandLoaderTool.from_tool(
            FunctionTool.from_defaults(world.danger), name="load", description="Load."
        )
        assert tool(query_str="x", path="/").is_error
        assert world.ran == []

    def test_an_engine_that_no_seat_guards_is_refused(self, world):
        otelhooks.instrument(policies=[policy.deny("danger")])
        engine = ToolRetrieverRouterQueryEngine.__new__(ToolRetrieverRouterQueryEngine)
        with pytest.raises(errors.SeatError, match="not covered"):
            engine._query(QueryBundle("/"))


def test_completions_are_model_calls(with_rules, exporter):
    with_rules(policy.deny("danger"))
    model = ScriptedModel(next_step=lambda text: "done")
    assert model.complete("begin").text == "done"
    assert asyncio.run(model.acomplete("begin")).text == "done"
    assert len(exporter.get_finished_spans()) == 2


def test_the_blocks_of_its_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert docs.run_page(docs.DOCS / "frameworks" / "llama_index.md", tmp_path) == 2


def test_the_proof_holds():
    from otelhooks.frameworks.llama_index.scripted import prove

    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof
