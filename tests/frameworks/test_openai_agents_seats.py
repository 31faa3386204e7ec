"""The OpenAI Agents SDK beyond the contract: built-in tools, hand-offs, approvals, types."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib.metadata
import json
import logging
import sys
from typing import Any

import pytest

pytest.importorskip("agents")

import agents
from agents import RunContextWrapper
from agents.editor import ApplyPatchResult
from agents.mcp import MCPServer
from agents.tool import FunctionTool
from agents.tool_context import ToolContext
from mcp import StdioServerParameters
from mcp.types import CallToolResult, ListToolsResult
from openai.types import responses
from openai.types.responses.response_output_item import LocalShellCall
from pydantic import BaseModel

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied, SeatError
from otelhooks.frameworks.openai_agents.scripted import ScriptedModel, prove
from otelhooks.patching import versions
from otelhooks.records import semconv

VERSION = tuple(int(part) for part in importlib.metadata.version("openai-agents").split(".")[:2])
REASON = "Nobody may do that here."


class Typed(BaseModel):
    """An answer with a type."""

    number: int


class ItemsModel(ScriptedModel):
    """A model that gives items of any kind, or texts; notes what it was shown."""

    def __init__(self, *steps: Any) -> None:
        self.shown: list[str] = []
        self._steps = list(steps)
        super().__init__(self.next)

    def next(self, shown: str) -> Any:
        self.shown.append(shown)
        return self._steps.pop(0)

    def answer(self, shown: Any) -> Any:
        if self._steps and isinstance(self._steps[0], BaseModel):
            self.shown.append(str(shown))
            item = self._steps.pop(0)
            return agents.ModelResponse(output=[item], usage=agents.Usage(), response_id=None)
        return super().answer(shown)


@pytest.fixture
def instrument(with_rules: Any) -> Any:
    agents.set_tracing_disabled(True)
    return functools.partial(with_rules, frameworks=["openai_agents"])


def run(agent: Any, given: Any = "begin", **options: Any) -> Any:
    """Run an agent; return its result."""
    return asyncio.run(_run(agent, given, options))


async def _run(agent: Any, given: Any, options: Any) -> Any:
    return await agents.Runner.run(agent, given, **options)


def tool_spans(exporter: Any) -> list[Any]:
    found = exporter.get_finished_spans()
    return [
        span
        for span in found
        if span.attributes.get(semconv.GEN_AI_OPERATION_NAME) == semconv.OP_EXECUTE_TOOL
    ]


def gaps(reader: Any) -> int:
    data = reader.get_metrics_data()
    metrics = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == semconv.METRIC_COVERAGE_GAPS
    ]
    return sum(point.value for metric in metrics for point in metric.data.data_points)


# -- built-in tools ---------------------------------------------------------------------------


class Editor:
    """An editor that notes what it is asked to do."""

    def __init__(self, ran: list[Any]) -> None:
        self.ran = ran

    def create_file(self, operation: Any) -> Any:
        self.ran.append(operation.path)
        return ApplyPatchResult(status="completed", output="created")

    update_file = delete_file = create_file


def shell(ran: list[Any]) -> tuple[Any, Any, str]:
    def execute(request: Any) -> str:
        ran.append(request.data.action.commands)
        return "executed"

    item = responses.ResponseFunctionShellToolCall.model_validate(
        {
            "id": "s1",
            "call_id": "call_1",
            "type": "shell_call",
            "status": "completed",
            "action": {"commands": ["rm -rf /"]},
        }
    )
    return agents.ShellTool(executor=execute), item, "run_command"


def local_shell(ran: list[Any]) -> tuple[Any, Any, str]:
    async def execute(request: Any) -> str:
        ran.append(request.data.action.command)
        return "executed"

    item = LocalShellCall.model_validate(
        {
            "id": "l1",
            "call_id": "call_1",
            "type": "local_shell_call",
            "status": "completed",
            "action": {"type": "exec", "command": ["rm", "-rf", "/"], "env": {}},
        }
    )
    return agents.LocalShellTool(executor=execute), item, "run_command"


def apply_patch(ran: list[Any]) -> tuple[Any, Any, str]:
    item = responses.ResponseApplyPatchToolCall.model_validate(
        {
            "id": "p1",
            "call_id": "call_1",
            "type": "apply_patch_call",
            "status": "completed",
            "operation": {"type": "create_file", "path": "etc/passwd", "diff": "+x"},
        }
    )
    return agents.ApplyPatchTool(editor=Editor(ran)), item, "create_file"


def custom(ran: list[Any]) -> tuple[Any, Any, str]:
    if VERSION < (0, 14):
        pytest.skip("custom tools came with 0.14")

    def invoke(context: Any, text: str) -> str:
        ran.append(text)
        return "executed"

    item = responses.ResponseCustomToolCall(
        type="custom_tool_call", call_id="call_1", name="freely", input="rm -rf /"
    )
    made = agents.CustomTool(name="freely", description="Do it.", on_invoke_tool=invoke)
    return made, item, "freely"


BUILT_IN = [shell, local_shell, apply_patch, custom]


@pytest.mark.parametrize("make", BUILT_IN)
def test_a_denied_built_in_tool_does_not_run_and_the_model_is_told(
    make, instrument, exporter, metrics_reader
):
    ran: list[Any] = []
    tool, item, name = make(ran)
    model = ItemsModel(item, "done")
    instrument(policy.deny(name, reason=REASON))
    assert run(agents.Agent(name="a", model=model, tools=[tool])).final_output == "done"
    assert ran == []
    assert REASON in model.shown[-1]
    (span,) = tool_spans(exporter)
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert gaps(metrics_reader) == 0


@pytest.mark.parametrize("make", BUILT_IN)
def test_an_allowed_built_in_tool_runs_once_and_its_result_can_be_replaced(make, instrument):
    ran: list[Any] = []

    @hooks.post_tool_call_transform
    def replace(result: types.ToolResult) -> Any:
        return "replaced"

    tool, item, _ = make(ran)
    model = ItemsModel(item, "done")
    instrument(policy.deny("other"), hooks=[replace])
    assert run(agents.Agent(name="a", model=model, tools=[tool])).final_output == "done"
    assert len(ran) == 1
    assert "replaced" in model.shown[-1]


@pytest.mark.parametrize(
    ("make", "change", "expected"),
    [
        (shell, {"commands": ["ls"]}, ["ls"]),
        (local_shell, {"command": ["ls"]}, ["ls"]),
        (apply_patch, {"path": "safe.txt"}, "safe.txt"),
        (custom, {"input": "ls"}, "ls"),
    ],
)
def test_a_built_in_tool_runs_with_the_arguments_that_hooks_wrote(
    make, change, expected, instrument
):
    ran: list[Any] = []

    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args=change)

    tool, item, _ = make(ran)
    instrument(hooks=[rewrite])
    run(agents.Agent(name="a", model=ItemsModel(item, "done"), tools=[tool]))
    assert ran == [expected]


class Screen(agents.Computer):
    """A screen that notes where it is clicked."""

    environment = "browser"
    dimensions = (10, 10)

    def __init__(self) -> None:
        self.clicks: list[tuple[int, int]] = []

    def screenshot(self) -> str:
        return "aGVsbG8="

    def click(self, x: int, y: int, button: Any, **more: Any) -> None:
        self.clicks.append((x, y))

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    double_click = scroll = type = wait = move = keypress = drag = _nothing


def test_a_denied_computer_action_is_not_done_and_ends_the_run(instrument):
    screen = Screen()
    item = responses.ResponseComputerToolCall.model_validate(
        {
            "id": "c1",
            "call_id": "call_1",
            "type": "computer_call",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        }
    )
    tool = agents.ComputerTool(computer=screen)
    for rule, clicks in ((policy.deny("other"), [(1, 2)]), (policy.deny("computer*"), [(1, 2)])):
        instrument(rule)
        agent = agents.Agent(name="a", model=ItemsModel(item, "done"), tools=[tool])
        if rule.tool == "other":
            assert run(agent).final_output == "done"
        else:
            with pytest.raises(Denied):
                run(agent)
        assert screen.clicks == clicks
        otelhooks.uninstrument()


# -- function tools ---------------------------------------------------------------------------


def noting(ran: list[Any], name: str = "danger", **settings: Any) -> Any:
    def body(x: int) -> str:
        ran.append(x)
        return "done"

    return agents.function_tool(body, name_override=name, **settings)


def called(tool: Any, text: str = '{"x": 1}') -> Any:
    """Call a tool's function as user code does."""
    context = ToolContext(None, tool_name=tool.name, tool_call_id="c", tool_arguments=text)
    return asyncio.run(_invoke(tool, context, text))


async def _invoke(tool: Any, context: Any, text: str) -> Any:
    return await tool.on_invoke_tool(context, text)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy])
def test_copies_of_a_tool_are_guarded(clone, instrument):
    ran: list[Any] = []
    instrument(policy.deny("danger", reason=REASON))
    tool = FunctionTool("danger", "Do it.", {}, _appending(ran), strict_json_schema=False)
    assert called(clone(tool)) == REASON
    assert ran == []


class _appending:
    """A function that notes its calls; copies share the note."""

    def __init__(self, ran: list[Any]) -> None:
        self.ran = ran

    def __deepcopy__(self, memo: Any) -> Any:
        return _appending(self.ran)

    async def __call__(self, context: Any, text: str) -> str:
        self.ran.append(text)
        return "ran"


def test_a_field_reads_the_same_object_each_time_and_is_itself_again_afterwards(instrument):
    invoke = _appending([])
    tool = FunctionTool("danger", "Do it.", {}, invoke, strict_json_schema=False)
    instrument(policy.deny("danger"))
    assert tool.on_invoke_tool is tool.on_invoke_tool
    assert isinstance(tool.on_invoke_tool, _appending)
    tool.on_invoke_tool = tool.on_invoke_tool
    otelhooks.uninstrument()
    assert tool.on_invoke_tool is invoke
    assert not hasattr(FunctionTool, "on_invoke_tool")


@pytest.mark.parametrize("text", ["", "no json", "[1]", '"text"'])
def test_arguments_that_are_not_an_object_are_judged_and_passed_on_unchanged(text, instrument):
    ran: list[Any] = []
    seen: list[Any] = []

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        seen.append(call.args)
        return types.HookResult()

    instrument(hooks=[look])
    tool = FunctionTool("plain", "Do it.", {}, _appending(ran), strict_json_schema=False)
    assert called(tool, text) == "ran"
    assert ran == [text]
    assert seen == [{"input": text} if text else {}]


def test_a_declared_output_type_does_not_stop_a_refusal(instrument):
    if VERSION < (0, 24):
        pytest.skip("output types of tools came later")

    def danger(x: int) -> Typed:
        """Do it."""
        return Typed(number=x)

    tool = agents.function_tool(danger)
    model = ItemsModel((("danger", {"x": 1}),), "done")
    instrument(policy.deny("danger", reason=REASON))
    assert run(agents.Agent(name="a", model=model, tools=[tool])).final_output == "done"
    assert REASON in model.shown[-1]


def test_a_hooks_message_takes_the_place_of_an_errors_text(instrument):
    @hooks.on_tool_error
    def explain(error: Exception) -> Any:
        return types.HookResult(allow=False, message=f"known problem: {error}"), None

    def broken(x: int) -> str:
        """Fail."""
        raise LookupError("disk")

    model = ItemsModel((("broken", {"x": 1}),), "done")
    instrument(hooks=[explain])
    run(agents.Agent(name="a", model=model, tools=[agents.function_tool(broken)]))
    assert "known problem: disk" in model.shown[-1]


def test_a_call_that_the_users_guardrail_rejects_is_not_a_coverage_gap(instrument, metrics_reader):
    @agents.tool_input_guardrail
    def reject(data: Any) -> Any:
        return agents.ToolGuardrailFunctionOutput.reject_content("not today")

    ran: list[Any] = []
    tool = noting(ran)
    tool.tool_input_guardrails = [reject]
    model = ItemsModel((("danger", {"x": 1}),), "done")
    instrument(policy.deny("other"))
    run(agents.Agent(name="a", model=model, tools=[tool]))
    assert ran == []
    assert gaps(metrics_reader) == 0


@pytest.mark.parametrize("is_denied", [True, False])
def test_a_patch_that_is_called_as_a_function_is_no_coverage_gap(
    is_denied, instrument, exporter, metrics_reader
):
    """The class: a call that the SDK leads to a seat by another form than the model gave it."""
    ran: list[Any] = []
    tool, _, _ = apply_patch(ran)
    given = {"type": "create_file", "path": "a.txt", "diff": "+x"}
    model = ItemsModel((("apply_patch", given),), "done")
    instrument(policy.deny("create_file" if is_denied else "other"))
    run(agents.Agent(name="a", model=model, tools=[tool]))
    assert ran == ([] if is_denied else ["a.txt"])
    (span,) = tool_spans(exporter)
    assert span.attributes[semconv.GEN_AI_TOOL_CALL_ID] in model.shown[-1]
    assert gaps(metrics_reader) == 0


def test_a_question_that_outlives_the_tools_time_is_no_coverage_gap(instrument, metrics_reader):
    """The class: a call that is given up before it is decided; nothing ran, nothing is missing."""
    asked: list[str] = []

    async def never(call: types.ToolCall) -> bool:
        asked.append(call.name)
        await asyncio.Event().wait()
        raise AssertionError("it waits until it is cancelled")

    async def slow(x: int) -> str:
        raise AssertionError("this does not run")

    tool = agents.function_tool(slow, timeout=0.05)
    model = ItemsModel((("slow", {"x": 1}),), "done")
    instrument(policy.ask_user("slow", handler=never))
    assert run(agents.Agent(name="a", model=model, tools=[tool])).final_output == "done"
    assert asked == ["slow"]
    assert gaps(metrics_reader) == 0


def test_a_hidden_tool_is_not_shown_to_the_model_and_denied_all_the_same(instrument):
    ran: list[Any] = []
    shown: list[Any] = []

    class Looking(ItemsModel):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            shown.append([tool.name for tool in kwargs["tools"]])
            return self.answer(kwargs["input"])

    model = Looking((("danger", {"x": 1}),), "done")
    instrument(policy.hide("danger"))
    tools = [noting(ran), noting(ran, "safe")]
    run(agents.Agent(name="a", model=model, tools=tools))
    assert shown[0] == ["safe"]
    assert ran == []


class Server(MCPServer):
    """An MCP server without a wire."""

    def __init__(self, *tools: str) -> None:
        super().__init__()
        self._tools = tools
        self.called: list[str] = []

    @property
    def name(self) -> str:
        return "files"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        told = [{"name": name, "inputSchema": schema} for name in self._tools]
        return ListToolsResult.model_validate({"tools": told}).tools

    async def call_tool(self, tool_name: str, *args: Any, **kwargs: Any) -> Any:
        self.called.append(tool_name)
        return CallToolResult(content=[])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


class NamesModel(ItemsModel):
    """A model that notes the names of the tools that it is shown."""

    def __init__(self, *steps: Any) -> None:
        self.names: list[str] = []
        super().__init__(*steps)

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        self.names = [tool.name for tool in kwargs["tools"]]
        return self.answer(kwargs["input"])


@pytest.mark.parametrize("hidden", ["files/danger", "files/d*", "*/danger", "danger", "d*"])
def test_a_hidden_tool_of_a_server_is_not_shown_to_the_model_and_denied(hidden, instrument):
    server, model = Server("danger", "safe"), NamesModel((("danger", {}),), "done")
    instrument(policy.hide(hidden), policy.allow("*"))
    run(agents.Agent(name="a", model=model, mcp_servers=[server]))
    assert model.names == ["safe"]
    assert server.called == []


def test_a_bare_name_hides_no_servers_tool_that_an_exact_rule_allows(instrument):
    server, model = Server("danger"), NamesModel((("danger", {}),), "done")
    instrument(policy.hide("danger"), policy.allow("files/danger"))
    run(agents.Agent(name="a", model=model, mcp_servers=[server]))
    assert model.names == server.called == ["danger"]


def test_a_definition_that_changes_is_hidden_and_denied(with_rules, tmp_path):
    from agents.mcp import MCPServerStdio

    from tests.frameworks import mcp_pinned

    changing = mcp_pinned.Server(tmp_path)
    changing.begin()
    with_rules(policy.allow("*"), mcp_pins=changing.pins, mcp_servers=[changing.config])
    model = NamesModel((("read", {"path": "a"}),), "done")

    async def talk() -> list[list[str]]:
        params = {"command": sys.executable, "args": changing.arguments}
        async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:
            agent = agents.Agent(name="a", model=model, mcp_servers=[server])
            await agents.Runner.run(agent, "go")
            first = model.names
            tools = await agent.get_mcp_tools(RunContextWrapper(None))
            changing.lists_now([mcp_pinned.EVIL, mcp_pinned.WRITE])
            await agent.get_mcp_tools(RunContextWrapper(None))
            read = next(tool for tool in tools if tool.name == "read")
            context = ToolContext(None, tool_name="read", tool_call_id="1", tool_arguments="{}")
            said = await read.on_invoke_tool(context, '{"path": "a"}')
            assert mcp_pinned.CHANGED in str(said)
            return first

    assert asyncio.run(talk()) == ["read", "write"]
    assert changing.ran.read_text() == "read\n"


class Nowhere(Server):
    """A server that the SDK reaches at a place, as its own classes keep it."""

    def __init__(self, params: Any, name: str) -> None:
        super().__init__("danger", "safe")
        self.params, self._name = params, name

    @property
    def name(self) -> str:
        return self._name


COMMAND = {"command": "serve", "args": ["--all"]}
URL = {"url": "http://127.0.0.1:1/mcp"}
BY_COMMAND = types.McpStdioServer(name="files", disabled_tools=["danger"], **COMMAND)
BY_URL = types.McpStreamableHttpServer(name="files", **URL)
PLACES = [(BY_COMMAND, StdioServerParameters(**COMMAND)), (BY_URL, URL)]


@pytest.mark.parametrize(("config", "place"), PLACES)
@pytest.mark.parametrize("name", ["stdio: serve", "files", "other"])
def test_a_server_has_the_name_that_mcp_servers_gives_its_place(config, place, name, instrument):
    """The class of the fault: rules by a configured name missed a server named otherwise."""
    for rules, called in (
        ([policy.deny("files/danger")], ["safe"]),
        ([policy.deny(f"{name}/danger")], ["safe"]),
        ([policy.hide("files/danger")], ["safe"]),
        ([policy.allow("files/safe"), policy.deny_all()], ["safe"]),
        ([policy.allow(config, ["danger"]), policy.deny_all()], ["danger"]),
    ):
        server = Nowhere(place, name)
        model = ItemsModel((("danger", {}), ("safe", {})), "done")
        instrument(*rules, mcp_servers=[config.model_copy(update={"disabled_tools": None})])
        run(agents.Agent(name="a", model=model, mcp_servers=[server]))
        assert server.called == called, rules
        otelhooks.uninstrument()


UNNAMED = [
    (StdioServerParameters(**COMMAND), "stdio: serve"),
    (URL, f"streamable_http: {URL['url']}"),
    (URL, f"sse: {URL['url']}"),
]


@pytest.mark.parametrize(("place", "name"), UNNAMED)
def test_a_name_that_the_sdk_makes_of_the_place_is_not_the_applications(place, name, instrument):
    for rules, called in (
        ([policy.deny("files/danger")], ["safe"]),
        ([policy.deny("files/*")], []),
        ([policy.allow("stdio: serve/danger"), policy.deny("danger")], ["safe"]),
        ([policy.allow("stdio: serve/safe"), policy.deny_all()], []),
    ):
        server = Nowhere(place, name)
        model = ItemsModel((("danger", {}), ("safe", {})), "done")
        instrument(*rules)
        run(agents.Agent(name="a", model=model, mcp_servers=[server]))
        assert server.called == called, rules
        otelhooks.uninstrument()


@pytest.mark.parametrize("kind", ["streamable_http: ", "sse: ", ""])
def test_no_record_has_what_the_address_of_a_server_hides(kind, instrument, exporter, tmp_path):
    url = "https://ann:hunter2@127.0.0.1:1/mcp?api_key=hunter3#hunter4"
    server = Nowhere({"url": url}, f"{kind}{url}")
    model = ItemsModel((("danger", {}), ("safe", {})), "done")
    instrument(policy.deny("danger"), audit=tmp_path / "audit")
    run(agents.Agent(name="a", model=model, mcp_servers=[server]))
    otelhooks.uninstrument()
    assert server.called == ["safe"]
    written = "".join(path.read_text() for path in (tmp_path / "audit").glob("*"))
    spans = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert '"danger"' in written
    assert "hunter" not in written + spans


def test_lists_of_a_configured_server_hold_under_any_name(instrument):
    server = Nowhere(StdioServerParameters(**COMMAND), "other")
    model = ItemsModel((("danger", {}), ("safe", {})), "done")
    instrument(mcp_servers=[BY_COMMAND])
    run(agents.Agent(name="a", model=model, mcp_servers=[server]))
    assert server.called == ["safe"]


def test_a_server_elsewhere_is_not_the_configured_one(instrument):
    """What merely has the place of no configured server keeps the name in the SDK."""
    server = Nowhere({"url": "http://127.0.0.1:2/mcp"}, "other")
    model = ItemsModel((("danger", {}), ("safe", {})), "done")
    instrument(policy.allow("files/*"), policy.deny("*/danger"), mcp_servers=[BY_URL])
    run(agents.Agent(name="a", model=model, mcp_servers=[server]))
    assert server.called == ["safe"]


def test_hooks_get_and_change_the_text_that_a_formatter_makes_of_a_failure(instrument):
    """The class: what the model reads of a failure need not be the exception's own text."""
    seen: list[Any] = []

    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        seen.append(result.error)
        text = (result.error or "").replace("4711", "[redacted]")
        return result.model_copy(update={"error": text})

    @agents.function_tool(failure_error_function=lambda context, error: "card 4711 was refused")
    def pay() -> str:
        """Pay."""
        raise ValueError("no")

    model = ItemsModel((("pay", {}),), "done")
    instrument(hooks=[redact])
    run(agents.Agent(name="a", model=model, tools=[pay]))
    assert seen == ["card 4711 was refused"]
    assert "card [redacted] was refused" in model.shown[-1]
    assert "4711" not in model.shown[-1]


@pytest.mark.parametrize("hidden", ["run_command", "kind:shell", "local_shell"])
def test_a_shell_is_hidden_by_each_name_that_denies_it(hidden, instrument):
    model = NamesModel("done")
    tools = [agents.LocalShellTool(executor=lambda request: "ran"), noting([], "safe")]
    instrument(policy.hide(hidden))
    run(agents.Agent(name="a", model=model, tools=tools))
    assert model.names == ["safe"]


def test_a_streamed_model_call_tells_when_its_first_chunk_came(instrument, exporter):
    agent = agents.Agent(name="a", model=ItemsModel("done"))
    instrument(policy.deny("other"))

    async def finish() -> None:
        async for _ in agents.Runner.run_streamed(agent, "begin").stream_events():
            pass

    asyncio.run(finish())
    [call] = [s for s in exporter.get_finished_spans() if s.name.startswith("chat")]
    first = call.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]
    assert 0 <= first <= (call.end_time - call.start_time) / 1e9


# -- hand-offs --------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_a_denied_handoff_leaves_the_run_with_its_agent(streamed, instrument, metrics_reader):
    other = agents.Agent(name="other", model=ItemsModel("never"))
    model = ItemsModel((("transfer_to_other", {}),), "done here")
    agent = agents.Agent(name="a", model=model, handoffs=[other])
    instrument(policy.deny("transfer_to_other", reason=REASON))

    async def finish() -> Any:
        if not streamed:
            return await agents.Runner.run(agent, "begin")
        result = agents.Runner.run_streamed(agent, "begin")
        async for _ in result.stream_events():
            pass
        return result

    result = asyncio.run(finish())
    assert (result.final_output, result.last_agent.name) == ("done here", "a")
    assert REASON in model.shown[-1]
    assert gaps(metrics_reader) == 0


def test_of_several_handoffs_one_is_judged_and_none_is_a_gap(instrument, exporter, metrics_reader):
    first = agents.Agent(name="first", model=ItemsModel("from first"))
    second = agents.Agent(name="second", model=ItemsModel("from second"))
    calls = (("transfer_to_first", {}), ("transfer_to_second", {}))
    agent = agents.Agent(name="a", model=ItemsModel(calls), handoffs=[first, second])
    instrument(policy.deny("other"))
    assert run(agent).final_output == "from first"
    assert [span.name for span in tool_spans(exporter)] == ["execute_tool transfer_to_first"]
    assert gaps(metrics_reader) == 0


def test_the_function_of_a_handoff_called_alone_is_refused_by_an_exception(instrument):
    handoff = agents.handoff(agents.Agent(name="other"))
    instrument(policy.deny("transfer_to_other", reason=REASON))

    async def invoke() -> Any:
        return await handoff.on_invoke_handoff(agents.RunContextWrapper(None), "")

    with pytest.raises(Denied, match=REASON):
        asyncio.run(invoke())


# -- runs -------------------------------------------------------------------------------------


def test_a_resumed_run_is_not_a_message_and_its_call_is_judged_once(instrument, exporter):
    messages: list[Any] = []
    judged: list[str] = []

    @hooks.pre_turn
    def count(prompt: Any) -> types.HookResult:
        messages.append(prompt)
        return types.HookResult()

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        judged.append(call.name)
        return types.HookResult()

    ran: list[Any] = []
    tool = noting(ran, needs_approval=True)
    agent = agents.Agent(name="a", model=ItemsModel((("danger", {"x": 1}),), "done"), tools=[tool])
    instrument(hooks=[count, look])

    async def twice() -> Any:
        paused = await agents.Runner.run(agent, "begin")
        assert (ran, judged) == ([], [])
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        return await agents.Runner.run(agent, state)

    assert asyncio.run(twice()).final_output == "done"
    assert (ran, judged, messages) == ([1], ["danger"], ["begin"])
    roots = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert [len(span.links) for span in roots] == [0, 1]


def test_an_agent_that_is_a_tool_and_waits_for_approval_is_told_once(instrument, metrics_reader):
    ran: list[Any] = []
    inner = agents.Agent(
        name="inner",
        model=ItemsModel((("danger", {"x": 1}),), "inner done"),
        tools=[noting(ran, needs_approval=True)],
    )
    outer = agents.Agent(
        name="outer",
        model=ItemsModel((("ask_inner", {"input": "go"}),), "done"),
        tools=[inner.as_tool("ask_inner", "Ask.")],
    )
    instrument(policy.deny("other"))

    async def twice() -> Any:
        paused = await agents.Runner.run(outer, "begin")
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        return await agents.Runner.run(outer, state)

    assert asyncio.run(twice()).final_output == "done"
    assert ran == [1]
    counted = {}
    for resource in metrics_reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name == semconv.METRIC_POLICY_DECISIONS:
                    for point in metric.data.data_points:
                        counted[point.attributes[semconv.GEN_AI_TOOL_NAME]] = point.value
    assert counted == {"ask_inner": 1, "danger": 1}


def test_a_refusal_of_a_typed_answer_raises_and_a_ready_one_is_parsed(instrument):
    answers = iter([types.HookResult(allow=False, message=REASON), types.HookResult(response=None)])

    @hooks.pre_agent
    def decide(call: types.AgentCall) -> types.HookResult:
        result = next(answers)
        return result if not result.allow else types.HookResult(response=Typed(number=7))

    agent = agents.Agent(name="a", model=ItemsModel(), output_type=Typed)
    instrument(hooks=[decide])
    with pytest.raises(Denied, match=REASON):
        run(agent)
    assert run(agent).final_output == Typed(number=7)


def test_a_refused_model_call_of_a_typed_answer_raises(instrument):
    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    instrument(hooks=[refuse])
    with pytest.raises(Denied, match=REASON):
        run(agents.Agent(name="a", model=ItemsModel(), output_type=Typed))


@pytest.mark.parametrize(
    ("options", "id"),
    [
        (lambda: {"session": agents.SQLiteSession("s-1")}, "s-1"),
        (lambda: {"conversation_id": "c-1"}, "c-1"),
        (lambda: {"run_config": agents.RunConfig(group_id="g-1")}, "g-1"),
    ],
)
def test_the_conversations_id_is_on_every_span(options, id, instrument, exporter):
    ran: list[Any] = []
    model = ItemsModel((("danger", {"x": 1}),), "done")
    given = options()
    instrument()
    run(agents.Agent(name="a", model=model, tools=[noting(ran)]), **given)
    if "session" in given:
        given["session"].close()
    spans = exporter.get_finished_spans()
    assert len(spans) == 4
    assert {span.attributes[semconv.GEN_AI_CONVERSATION_ID] for span in spans} == {id}


def test_the_users_message_can_be_replaced_in_a_list_of_items(instrument):
    @hooks.pre_turn
    def rewrite(prompt: Any) -> types.HookResult:
        assert prompt == "secret"
        return types.HookResult(modified_prompt="[gone]")

    model = ItemsModel("done")
    instrument(hooks=[rewrite])
    items = [{"role": "user", "content": "first"}, {"role": "user", "content": "secret"}]
    run(agents.Agent(name="a", model=model), items)
    assert "first" in model.shown[0]
    assert "[gone]" in model.shown[0]
    assert "secret" not in model.shown[0]


def test_a_stop_hook_sends_a_run_on(instrument):
    reasons = iter(["check it again"])

    @hooks.stop
    def go_on(args: types.StopArgs) -> types.StopHookResult:
        reason = next(reasons, None)
        if reason is None:
            return types.StopHookResult(decision=types.StopDecision.STOP)
        return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason=reason)

    model = ItemsModel("first answer", "second answer")
    instrument(hooks=[go_on])
    assert run(agents.Agent(name="a", model=model)).final_output == "second answer"
    assert "check it again" in model.shown[1]


def test_a_model_calls_tokens_and_names_are_on_its_span(instrument, exporter):
    instrument()
    run(agents.Agent(name="a", model=ScriptedModel(lambda shown: "done")))
    (span,) = [one for one in exporter.get_finished_spans() if one.name == "chat scripted"]
    assert span.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
    assert span.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert span.attributes[semconv.GEN_AI_AGENT_NAME] == "a"


def test_a_hook_can_leave_out_a_call_that_the_model_asks_for(instrument):
    @hooks.post_model_call_transform
    def only_safe(response: types.ModelResponse) -> Any:
        kept = [call for call in response.tool_calls if call.name == "safe"]
        return response.model_copy(update={"tool_calls": kept}) if response.tool_calls else None

    ran: list[Any] = []
    also: list[Any] = []
    model = ItemsModel((("danger", {"x": 1}), ("safe", {"x": 2})), "done")
    instrument(hooks=[only_safe])
    run(agents.Agent(name="a", model=model, tools=[noting(ran), noting(also, "safe")]))
    assert (ran, also) == ([], [2])


def test_each_attempt_of_a_model_call_is_one_span_and_denies_hold_after_it(instrument, exporter):
    if VERSION < (0, 24):
        pytest.skip("the runner tries again in newer versions only")
    failures = iter([ConnectionError("gone")])

    class FailingFirst(ItemsModel):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            failure = next(failures, None)
            if failure is not None:
                raise failure
            return await super().get_response(*args, **kwargs)

    ran: list[Any] = []
    retry = agents.ModelRetrySettings(
        max_retries=1, policy=lambda context: True, backoff={"initial_delay": 0.01}
    )
    agent = agents.Agent(
        name="a",
        model=FailingFirst((("danger", {"x": 1}),), "done"),
        model_settings=agents.ModelSettings(retry=retry),
        tools=[noting(ran)],
    )
    instrument(policy.deny("danger"))
    assert run(agent).final_output == "done"
    assert ran == []
    chats = [span for span in exporter.get_finished_spans() if span.name == "chat scripted"]
    errors = [span.attributes.get(semconv.ERROR_TYPE) for span in chats]
    assert errors == ["ConnectionError", None, None]


# -- versions ---------------------------------------------------------------------------------


def test_an_unknown_version_is_refused_at_every_seat(instrument, monkeypatch, caplog):
    ran: list[Any] = []
    tool = noting(ran)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "9.9"))
    with caplog.at_level(logging.ERROR):
        instrument(policy.deny("danger"))
    with pytest.raises(SeatError, match=r"9\.9"):
        run(agents.Agent(name="a", model=ItemsModel("done")))
    assert "9.9" in called(tool)
    assert ran == []
    otelhooks.uninstrument()
    assert called(tool) == "done"


def test_the_proof_holds_where_the_adapter_is_on(instrument):
    instrument()
    proof = prove()
    assert proof.proved, json.dumps(proof.to_dict())
    assert [path for path, _, _ in proof.paths] == ["run", "stream", "agent as tool"]


def test_the_proof_fails_where_the_adapter_is_off(tracer_provider):
    agents.set_tracing_disabled(True)
    otelhooks.instrument(frameworks=["mcp"], tracer_provider=tracer_provider)
    assert not prove().proved


@pytest.mark.skipif(not hasattr(agents, "tool_namespace"), reason="needs another release")
@pytest.mark.parametrize("name", ["danger", "crm.danger", "crm.*"])
def test_a_tool_in_a_namespace_is_denied_by_either_name(instrument: Any, name: str) -> None:
    ran: list[str] = []

    @agents.function_tool
    def danger() -> str:
        ran.append("danger")
        return "removed"

    instrument(policy.deny(name, reason="No."), policy.allow("danger*"))
    (tool,) = agents.tool_namespace(name="crm", description="Customers.", tools=[danger])
    context = ToolContext(None, tool_name="danger", tool_call_id="1", tool_arguments="{}")
    assert "No." in str(asyncio.run(tool.on_invoke_tool(context, "{}")))
    assert ran == []
