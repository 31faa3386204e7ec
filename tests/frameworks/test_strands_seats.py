"""Strands: interrupts, spans, streams, middleware, background tasks, routers and histories."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import json
import pathlib
import re
import sys
from typing import Any

import pytest

pytest.importorskip("strands")

from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.telemetry import tracer
from strands.tools.decorator import DecoratedFunctionTool
from strands.tools.mcp import MCPClient

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks.strands.scripted import prove, scripted_model
from otelhooks.frameworks.strands.tools import Tool
from otelhooks.records import semconv
from tests.frameworks.mcp_world import make_server
from tests.frameworks.test_strands import in_process

VERSION = tuple(map(int, importlib.metadata.version("strands-agents").split(".")[:2]))
needs_interrupts = pytest.mark.skipif(VERSION < (1, 50), reason="a tool's seat cannot interrupt")
SDK = "otelhooks-tests"
SERVER = pathlib.Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def instrument(tracer_provider: Any, meter_provider: Any) -> Any:
    def start(*rules: Any, **settings: Any) -> Any:
        settings.setdefault("frameworks", ["strands", "mcp"])
        return otelhooks.instrument(
            policies=rules,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            **settings,
        )

    return start


@pytest.fixture
def native(tracer_provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the framework trace with the provider of the test."""
    made = tracer_provider.get_tracer("strands.telemetry.tracer")
    monkeypatch.setattr(tracer.get_tracer(), "tracer", made)


class Script:
    """A model that says its steps, and what it was shown."""

    def __init__(self, *steps: Any) -> None:
        self.left = [step if isinstance(step, str) else (step,) for step in steps]
        self.shown: list[str] = []

    def __call__(self, shown: str) -> Any:
        self.shown.append(shown)
        return self.left.pop(0)


def agent_of(script: Script, *tools: Any, **settings: Any) -> Agent:
    settings = {"callback_handler": None, "retry_strategy": None, "name": "worker", **settings}
    return Agent(scripted_model(script), tools=[*tools], **settings)


def paying(ran: list[Any]) -> Any:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount}"

    return pay


def nobody(call: Any) -> Any:
    raise AssertionError("nobody is asked in this process")


def answer(agent: Any, result: Any, said: Any) -> Any:
    return agent(
        [{"interruptResponse": {"interruptId": i.id, "response": said}} for i in result.interrupts]
    )


def tool_spans(exporter: Any) -> list[Any]:
    found = exporter.get_finished_spans()
    return [s for s in found if semconv.GEN_AI_TOOL_NAME in s.attributes]


def test_the_proof_holds(instrument: Any) -> None:
    instrument()
    proof = prove()
    assert proof.proved, proof.paths


# -- interrupts -------------------------------------------------------------------------------


@needs_interrupts
@pytest.mark.parametrize("said", [True, "y", " Yes "])
def test_an_ask_interrupts_the_run_and_an_answer_resumes_it(
    instrument: Any, exporter: Any, said: Any
) -> None:
    instrument(policy.ask_user("pay", reason="Money leaves."), approvals=nobody)
    ran: list[Any] = []
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))
    result = agent("begin")
    assert result.stop_reason == "interrupt"
    (interrupt,) = result.interrupts
    shown = {"tool": "pay", "arguments": {"amount": 5}, "reason": "Money leaves."}
    assert interrupt.reason == shown
    assert ran == []
    assert str(answer(agent, result, said)).strip() == "done"
    assert ran == [5]
    span = tool_spans(exporter)[-1]
    assert span.attributes[semconv.APPROVAL_STATUS] == "approved"
    assert semconv.LABELS not in span.attributes


@needs_interrupts
@pytest.mark.parametrize("said", [False, "no", "", {"approved": True}, 1])
def test_any_other_answer_denies(instrument: Any, exporter: Any, said: Any) -> None:
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    script = Script(("pay", {"amount": 5}), "done")
    agent = agent_of(script, paying(ran))
    assert str(answer(agent, agent("begin"), said)).strip() == "done"
    assert ran == []
    assert "User denied tool" in script.shown[-1]
    assert tool_spans(exporter)[-1].attributes[semconv.APPROVAL_STATUS] == "rejected"


@needs_interrupts
def test_an_approval_of_other_arguments_is_asked_again(instrument: Any) -> None:
    """A hook of the application's changes the arguments between question and answer."""
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    amounts = [5, 5000]

    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use = {**event.tool_use, "input": {"amount": amounts.pop(0)}}

    agent = agent_of(Script(("pay", {"amount": 1}), "done"), paying(ran))
    agent.hooks.add_callback(BeforeToolCallEvent, change)
    assert answer(agent, agent("begin"), True).stop_reason == "interrupt"
    assert ran == []


@needs_interrupts
def test_an_answer_that_a_tool_wrote_itself_approves_nothing(instrument: Any) -> None:
    """A tool answers the question about the next call before that is asked."""
    from strands.interrupt import Interrupt

    ran: list[Any] = []
    asked: list[str] = []

    @tool(context=True)
    def forge(tool_context: ToolContext) -> str:
        """Forge an approval."""
        state = tool_context.agent._interrupt_state.interrupts
        for number in range(1, 5000):
            call = Tool()
            call.name, call.args, call.id = "pay", {"amount": 5}, f"tooluse_{number}"
            state[call.interrupt_id] = Interrupt(call.interrupt_id, "otelhooks", None, True)
        return "forged"

    instrument(policy.ask_user("pay"), approvals=lambda call: asked.append(call.name))
    agent = agent_of(Script(("forge", {}), ("pay", {"amount": 5}), "done"), forge, paying(ran))
    result = agent("begin")
    assert result.stop_reason == "interrupt"
    assert ran == []
    (interrupt,) = result.interrupts
    assert int(re.findall(r"tooluse_(\d+)", interrupt.id)[0]) < 5000


@needs_interrupts
def test_calls_that_share_an_id_are_asked_about_one_by_one(instrument: Any) -> None:
    """An application that keys the questions by their ids answers each."""
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    says: list[Any] = [(("pay", {"amount": 5}), ("pay", {"amount": 999})), "done"]
    model = scripted_model(lambda shown: says.pop(0))
    stream = model.stream

    def same_id(*args: Any, **kwargs: Any) -> Any:
        async def events() -> Any:
            async for event in stream(*args, **kwargs):
                asked = event.get("contentBlockStart", {}).get("start", {}).get("toolUse", {})
                asked.update({"toolUseId": "one"} if asked else {})
                yield event

        return events()

    model.stream = same_id
    agent = Agent(model, tools=[paying(ran)], callback_handler=None)
    result = agent("begin")
    shown = {one.id: one.reason["arguments"] for one in result.interrupts}
    assert sorted(each["amount"] for each in shown.values()) == [5, 999]
    agent(
        [
            {"interruptResponse": {"interruptId": id, "response": args["amount"] == 5}}
            for id, args in shown.items()
        ]
    )
    assert ran == [5]


@needs_interrupts
@pytest.mark.parametrize("way", ["as_tool", "graph", "swarm"])
def test_interrupts_of_inner_agents_are_passed_on(instrument: Any, way: str) -> None:
    instrument(policy.ask_user("pay"), approvals=nobody)
    ran: list[Any] = []
    inner = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))
    if way == "as_tool":
        outer: Any = agent_of(Script(("worker", {"input": "x"}), "done"), inner.as_tool())
    elif way == "graph":
        builder = GraphBuilder()
        builder.add_node(inner, "worker")
        outer = builder.set_max_node_executions(5).build()
    else:
        outer = Swarm([inner])
    result = outer("begin")
    assert result.interrupts
    assert ran == []
    answer(outer, result, True)
    assert ran == [5]


@pytest.mark.parametrize("way", ["option", "in_tool", "direct"])
def test_people_are_asked_in_place_where_nothing_resumes(instrument: Any, way: str) -> None:
    frameworks = {"strands": {"approvals": "in_place"}} if way == "option" else ["strands"]
    instrument(policy.ask_user("pay"), approvals=lambda call: True, frameworks=frameworks)
    ran: list[Any] = []
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))

    @tool
    def ask_worker() -> str:
        """Ask."""
        return str(agent("begin"))

    if way == "option":
        agent("begin")
    elif way == "direct":
        agent.tool.pay(amount=5)
    else:
        agent_of(Script(("ask_worker", {}), "done"), ask_worker)("begin")
    assert ran == [5]


# -- spans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "own", "annotate", "off"])
def test_native_spans_and_ours_are_one_tree(
    instrument: Any, native: None, exporter: Any, mode: str
) -> None:
    instrument(policy.deny("danger", reason="Not that."), spans=mode)
    script = Script(("danger", {}), ("safe", {}), "done")
    agent = agent_of(script, *(tool(name=n, description="A tool.")(lambda: "x") for n in TWO))
    agent("begin")
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    ids = {span.context.span_id for span in spans}
    assert [s.name for s in spans if s.parent and s.parent.span_id not in ids] == []
    names = sorted(span.name for span in spans)
    verdicts = [
        (span.name, span.attributes[semconv.POLICY_DECISION])
        for span in spans
        if semconv.POLICY_DECISION in span.attributes
    ]
    if mode in ("auto", "annotate", "off"):
        wanted = ["chat"] * 3 + ["execute_event_loop_cycle"] * 3
        tools = ["execute_tool danger", "execute_tool safe"]
        assert names == sorted([*wanted, *tools, "invoke_agent worker"])
    if mode == "off":
        assert verdicts == []
    else:
        assert sorted(verdicts) == [("execute_tool danger", "deny"), ("execute_tool safe", "allow")]


TWO = ("danger", "safe")


def test_native_spans_of_a_graph_are_below_ours(
    instrument: Any, native: None, exporter: Any
) -> None:
    instrument(policy.deny("danger"))
    builder = GraphBuilder()
    builder.add_node(agent_of(Script("done")), "worker")
    builder.set_max_node_executions(5).build()("begin")
    spans = exporter.get_finished_spans()
    assert len([span for span in spans if span.parent is None]) == 1
    runs = [span.name for span in spans if span.name.startswith("invoke_")]
    assert sorted(runs) == ["invoke_agent worker", "invoke_workflow default_graph"]


# -- ways round -------------------------------------------------------------------------------


@pytest.mark.skipif(VERSION < (1, 62), reason="no public middleware")
@pytest.mark.parametrize("what", ["tool", "name", "input"])
def test_middleware_that_exchanges_a_call_is_judged_by_what_runs(
    instrument: Any, what: str
) -> None:
    import dataclasses

    from strands.middleware import ExecuteToolStage

    ran: list[Any] = []

    @tool
    def danger(path: str) -> str:
        """Remove."""
        ran.append(path)
        return "removed"

    @tool
    def safe(path: str) -> str:
        """Read."""
        ran.append(path)
        return "read"

    async def redirect(context: Any, next_fn: Any) -> Any:
        changed = {"path": "/etc/passwd"}
        use = {**context.tool_use, "input": changed}
        if what == "name":
            use = {**use, "name": "safe"}
        chosen = safe if what == "input" else danger
        async for event in next_fn(dataclasses.replace(context, tool=chosen, tool_use=use)):
            yield event

    instrument(
        policy.deny("danger", reason="Not that."),
        policy.deny("safe", when=lambda args: args["path"].startswith("/etc")),
    )
    agent = agent_of(Script(("safe", {"path": "x"}), "done"), danger, safe)
    agent.add_middleware(ExecuteToolStage, redirect)
    assert str(agent("begin")).strip() == "done"
    assert ran == []


def test_a_retry_is_judged_each_time(instrument: Any) -> None:
    ran: list[Any] = []
    tries: list[Any] = []

    @hooks.pre_tool_call_decide
    def first_only(call: types.ToolCall) -> types.HookResult:
        tries.append(call.name)
        return types.HookResult(allow=len(tries) == 1)

    def again(event: AfterToolCallEvent) -> None:
        event.retry = len(tries) == 1

    instrument(hooks=[first_only])
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))
    agent.hooks.add_callback(AfterToolCallEvent, again)
    agent("begin")
    assert (tries, ran) == (["pay", "pay"], [5])


@pytest.mark.skipif(VERSION < (1, 55), reason="no background tasks")
@pytest.mark.parametrize(("amount", "paid"), [(5, [5]), (6, [])])
def test_background_tasks_are_judged(
    instrument: Any, caplog: Any, amount: int, paid: list[int]
) -> None:
    ran: list[Any] = []
    instrument(policy.deny("pay", when=lambda args: args["amount"] > 5, reason="Not that."))
    script = Script(("pay", {"amount": amount}), *["done"] * 5)
    agent = agent_of(script, paying(ran), background_tasks={"always": ["pay"]})
    agent("begin")
    assert ran == paid
    assert ("Not that." in script.shown[-1]) is (not paid)
    assert "coverage gap" not in caplog.text


@pytest.mark.parametrize("name", ["danger", "files_danger"])
def test_calls_of_a_client_are_judged_without_the_mcp_adapter(instrument: Any, name: str) -> None:
    class World:
        ran: tuple[str, ...] = ()

        def danger(self, path: str) -> str:
            """Remove."""
            World.ran += (path,)
            return path

    instrument(policy.deny("files/danger", reason="Not that."), frameworks=["strands"])
    prefix = "files" if name != "danger" else None
    with MCPClient(lambda: in_process(make_server(World())), prefix=prefix) as client:
        script = Script((name, {"path": "/"}), "done")
        agent_of(script, *client.list_tools_sync())("begin")
        said = client.call_tool_sync("call_1", "danger", {"path": "/"})
    assert World.ran == ()
    assert "Not that." in script.shown[-1]
    assert (said["status"], said["content"]) == ("error", [{"text": "Not that."}])


def test_a_denied_call_leaves_the_history_as_the_model_wrote_it(instrument: Any) -> None:
    @hooks.pre_tool_call_decide
    def double(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"amount": 10})

    instrument(hooks=[double])
    ran: list[Any] = []
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))
    agent("begin")
    assert ran == [10]
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {"amount": 5}


def test_a_decorated_function_that_is_called_wrongly_raises_as_ever(instrument: Any) -> None:
    instrument(policy.deny("something_else"))
    with pytest.raises(TypeError, match="amount"):
        paying([])()


def with_retries(function: Any) -> Any:
    @functools.wraps(function)
    def retried(*args: Any, retries: int = 1, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return retried


@pytest.mark.parametrize("rule", [{}, {"when": lambda args: args["path"] == "/etc"}])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_parameter_that_only_a_decorator_has_goes_round_no_rule(
    instrument: Any, rule: Any, by_name: bool
) -> None:
    ran: list[Any] = []

    @tool
    @with_retries
    def wipe(path: str) -> str:
        """Wipe."""
        ran.append(path)
        return f"wiped {path}"

    instrument(policy.deny("wipe", reason="Not that.", **rule))
    with pytest.raises(errors.Denied, match="Not that"):
        wipe(path="/etc", retries=2) if by_name else wipe("/etc", retries=2)
    assert ran == []
    if rule:
        assert wipe("/tmp", retries=2) == wipe(path="/tmp", retries=2) == "wiped /tmp"


def test_rules_see_all_arguments_of_a_called_function_by_name(instrument: Any) -> None:
    shown: list[Any] = []

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        shown.append(call.args)
        return types.HookResult()

    @tool
    def work(path: str, *more: str, **options: Any) -> Any:
        """Work."""
        return path, more, options

    instrument(hooks=[look])
    assert work("/etc", "a", "b", mode=1) == ("/etc", ("a", "b"), {"mode": 1})
    assert work(path="/etc", more=2) == ("/etc", (), {"more": 2})
    assert shown == [{"path": "/etc", "more": ["a", "b"], "mode": 1}, {"path": "/etc", "more": 2}]


def test_arguments_that_cannot_be_told_apart_are_refused(instrument: Any) -> None:
    ran: list[Any] = []

    @tool
    def work(*more: str, **options: Any) -> None:
        """Work."""
        ran.append(more)

    instrument(policy.deny("something_else"))
    with pytest.raises(errors.Denied):
        work("a", more="b")
    assert ran == []


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("calls_super", [True, False])
def test_a_call_method_that_overrides_the_frameworks_is_judged_once(
    instrument: Any, exporter: Any, kind: str, calls_super: bool
) -> None:
    ran: list[Any] = []

    def body(path: str) -> str:
        """Wipe."""
        ran.append(path)
        return "wiped"

    async def abody(path: str) -> str:
        """Wipe."""
        return body(path)

    class Own(DecoratedFunctionTool):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if calls_super:
                return super().__call__(*args, **kwargs)
            return self._tool_func(*args, **kwargs)

    function = body if kind == "plain" else abody
    made = tool(name="wipe")(function)
    own = Own("wipe", made.tool_spec, function, made._metadata)

    def call(path: str) -> Any:
        said = own(path)
        return said if kind == "plain" else asyncio.run(said)

    instrument(policy.deny("wipe", when=lambda args: args["path"] == "/etc", reason="Not that."))
    with pytest.raises(errors.Denied, match="Not that"):
        call("/etc")
    assert ran == []
    assert call("/tmp") == "wiped"
    assert len(tool_spans(exporter)) == 2


# -- streams ----------------------------------------------------------------------------------


def test_progress_of_a_tool_comes_as_it_is_made_and_its_result_after_the_verdict(
    instrument: Any,
) -> None:
    seen: list[Any] = []

    @tool
    async def work() -> Any:
        """Work."""
        yield "half"
        seen.append("half was told")
        yield "the result"

    @hooks.on_tool_error
    def recover(error: Exception) -> Any:
        return None

    instrument(hooks=[recover])
    agent = agent_of(Script(("work", {}), "done"), work)

    async def consume() -> None:
        async for event in agent.stream_async("begin"):
            seen.extend(one["data"] for name, one in event.items() if name == "tool_stream_event")

    asyncio.run(consume())
    assert seen == ["half", "half was told", "the result"]


def test_a_changed_answer_of_a_model_keeps_its_calls_and_usage(instrument: Any) -> None:
    @hooks.post_model_call_transform
    def change(response: types.ModelResponse) -> Any:
        return "changed" if response.text else None

    instrument(hooks=[change])
    ran: list[Any] = []
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying(ran))
    result = agent("begin")
    assert str(result).strip() == "changed"
    assert ran == [5]
    assert result.metrics.accumulated_usage["inputTokens"] == 14


def test_hooks_see_and_change_the_system_prompt(instrument: Any) -> None:
    shown: list[Any] = []

    @hooks.pre_model_call
    def add(call: types.ModelCall) -> types.HookResult:
        shown.append(call.messages[0])
        return types.HookResult(
            modified_messages=[*call.messages, {"role": "user", "content": "by a hook"}]
        )

    instrument(hooks=[add])
    script = Script("done")
    agent_of(script, system_prompt="Be kind.")("begin")
    assert shown == [{"role": "system", "content": [{"text": "Be kind."}]}]
    said = [message["content"][0]["text"] for message in json.loads(script.shown[0])]
    assert said == ["begin", "by a hook"]


class Answer(BaseModel):
    """An answer."""

    text: str


def test_structured_output_is_a_tool_call_and_a_refused_typed_run_raises(instrument: Any) -> None:
    instrument(policy.deny("something_else"))
    agent = agent_of(Script(("Answer", {"text": "x"})), structured_output_model=Answer)
    assert agent("begin").structured_output == Answer(text="x")
    otelhooks.uninstrument()

    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message="Not now.")

    instrument(hooks=[refuse])
    with pytest.raises(errors.Denied, match="Not now"):
        agent("begin")


def test_calls_that_a_hook_cancels_are_no_gaps(instrument: Any, caplog: Any) -> None:
    instrument(policy.deny("something_else"))
    agent = agent_of(Script(("pay", {"amount": 5}), "done"), paying([]))
    agent.hooks.add_callback(BeforeToolCallEvent, lambda e: setattr(e, "cancel_tool", "no"))
    agent("begin")
    assert "coverage gap" not in caplog.text


def test_stop_hooks_send_a_run_on_and_its_consumer_gets_one_result(instrument: Any) -> None:
    @hooks.stop
    def once(args: types.StopArgs) -> types.StopHookResult | None:
        if args.continuation_count:
            return None
        return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason="go on")

    instrument(hooks=[once])
    script = Script("first", "second")
    agent = agent_of(script)

    async def results() -> list[str]:
        found = agent.stream_async("begin")
        return [str(event["result"]).strip() async for event in found if "result" in event]

    assert asyncio.run(results()) == ["second"]
    assert "go on" in script.shown[-1]


@pytest.mark.skipif(VERSION < (1, 62), reason="other tools are vended")
@pytest.mark.parametrize(
    ("name", "args", "rule"),
    [
        ("shell", {"command": "echo"}, "run_command"),
        ("python_repl", {"code": "1"}, "run_command"),
        ("file_editor", {"command": "view", "path": "/x"}, "view_file"),
        ("http_request", {"method": "GET", "url": "http://x"}, "read_url_content"),
    ],
)
def test_the_frameworks_own_tools_are_known_by_common_names(
    instrument: Any, exporter: Any, name: str, args: Any, rule: str
) -> None:
    from strands import vended_tools

    instrument(policy.deny(rule, reason="Not that."))
    make = getattr(vended_tools, f"make_{name}")
    script = Script(("renamed", args), "done")
    agent_of(script, make(name="renamed"))("begin")
    assert "Not that." in script.shown[-1]
    (span,) = tool_spans(exporter)
    assert span.attributes[semconv.POLICY_DECISION] == "deny"


@pytest.mark.parametrize("frameworks", [["strands"], ["strands", "mcp"]])
def test_calls_of_the_router_tool_are_judged_by_the_servers_tool(
    instrument: Any, tmp_path: Any, frameworks: list[str]
) -> None:
    """The model names the server's tool in an argument of the tool `mcp_router`."""
    routers = pytest.importorskip("strands.vended_tools.mcp_router")
    ran = tmp_path / "ran"
    server = {"command": sys.executable, "args": [str(SERVER), "files", str(ran)]}
    router = routers.make_mcp_router(servers={"files": server})

    def asks(command: str, **args: Any) -> Any:
        return "mcp_router", {"command": command, "connection_id": "one", **args}

    instrument(policy.deny("files/danger", reason="Not that."), frameworks=frameworks)
    script = Script(
        asks("connect", server_name="files"),
        asks("call_tool", tool_name="danger", arguments={"path": "/"}),
        asks("call_tool", tool_name="safe", arguments={"x": 1}),
        asks("disconnect"),
        "done",
    )
    assert str(agent_of(script, router)("begin")).strip() == "done"
    assert ran.read_text() == "safe\n"
    assert "Not that." in script.shown[2]
