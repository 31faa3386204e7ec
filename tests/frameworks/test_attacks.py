"""Attempts to get round the seats of real frameworks; docs/attacks.md lists them all."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import inspect
import pickle
from typing import Any

import anyio
import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied

REASON = "Nobody may do that here."


def secret(args: dict[str, Any]) -> bool:
    return args.get("path") == "/secret"


@pytest.fixture
def on(tracer_provider: Any) -> Any:
    """Instrument one framework, with rules."""

    def start(framework: str, *rules: Any, **settings: Any) -> otelhooks.Handle:
        return otelhooks.instrument(
            policies=rules, frameworks=[framework], tracer_provider=tracer_provider, **settings
        )

    return start


class TestOpenAIAgents:
    """The OpenAI Agents SDK."""

    @pytest.fixture(autouse=True)
    def sdk(self) -> Any:
        agents = pytest.importorskip("agents")
        agents.set_tracing_disabled(True)
        return agents

    def make(self, ran: list[str], name: str = "read") -> Any:
        """Return a tool whose function takes its two arguments under any name."""
        from agents.tool import FunctionTool

        async def body(ctx: Any, input: str = "{}") -> str:
            ran.append(input)
            return "ran"

        return FunctionTool(name, "Read.", {}, body, strict_json_schema=False)

    def call(self, tool: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a tool's function as the SDK or other code does."""

        async def run() -> Any:
            return await tool.on_invoke_tool(*args, **kwargs)

        return asyncio.run(run())

    def context(self, text: str) -> Any:
        from agents.tool_context import ToolContext

        return ToolContext(context=None, tool_name="read", tool_call_id="1", tool_arguments=text)

    @pytest.mark.parametrize(
        "text",
        [
            '{"path": "/secret"}',
            '{"path": "/ok", "path": "/secret"}',
            '{"path": "/secret", "n": ' + "1" * 5000 + "}",
            '{"p\\u0061th": "\\u002fsecret"}',
            '  {"path":\t"/secret"}\n',
        ],
        ids=["plain", "name twice", "long number", "escapes", "blanks"],
    )
    def test_a_text_cannot_hide_an_argument_from_a_rule(self, on, text):
        ran: list[str] = []
        on("openai_agents", policy.deny("read", when=secret, reason=REASON))
        assert self.call(self.make(ran), self.context(text), text) == REASON
        assert ran == []

    @pytest.mark.parametrize(
        "text",
        ['{"path": "/secret", "path": "/ok"}', '{"o": {"path": "/secret", "path": "/ok"}}'],
        ids=["outside", "inside"],
    )
    def test_a_parser_that_reads_the_first_of_two_gets_what_was_approved(self, on, text):
        ran: list[str] = []
        on("openai_agents", policy.deny("read", when=secret))
        assert self.call(self.make(ran), self.context(text), text) == "ran"
        assert "/secret" not in ran[0]
        assert "/ok" in ran[0]

    def test_a_text_of_colons_is_handed_on_as_it_is(self, on):
        ran: list[str] = []
        text = '{"path":  "c:/a:b"}'
        on("openai_agents", policy.deny("read", when=secret))
        assert self.call(self.make(ran), self.context(text), text) == "ran"
        assert ran == [text]

    @pytest.mark.parametrize(
        "text", ["[" * 100_000, '{"path": "/secret"} x', '{"path": "/secret"'], ids=str.__len__
    )
    def test_a_rule_that_needs_an_argument_denies_a_text_that_has_none(self, on, text):
        ran: list[str] = []
        on("openai_agents", policy.deny("read", when=lambda args: args["path"] == "/secret"))
        told = self.call(self.make(ran), self.context(text), text)
        assert "KeyError" in told
        assert ran == []

    def test_arguments_given_by_name_are_judged(self, on):
        ran: list[str] = []
        on("openai_agents", policy.deny("read", reason=REASON))
        text = '{"path": "/secret"}'
        told = self.call(self.make(ran), ctx=self.context(text), input=text)
        assert (told, ran) == (REASON, [])

    @pytest.mark.parametrize("count", [1, 3])
    def test_a_function_that_is_called_in_a_way_of_its_own_is_refused(self, on, count):
        ran: list[str] = []
        on("openai_agents", policy.deny("read"))
        given = (self.context("{}"), "{}", "more")[:count]
        with pytest.raises(TypeError, match="2 arguments"):
            self.call(self.make(ran), *given)
        assert ran == []

    @pytest.mark.parametrize(
        "take",
        [
            copy.copy,
            copy.deepcopy,
            dataclasses.replace,
            lambda tool: functools.partial(tool.on_invoke_tool),
            lambda tool: getattr(tool, "on_invoke_tool"),  # noqa: B009
        ],
        ids=["copy", "deepcopy", "replace", "partial", "kept"],
    )
    def test_what_is_made_of_a_tool_is_guarded(self, on, take):
        ran: list[str] = []
        tool = self.make(ran)
        on("openai_agents", policy.deny("read", reason=REASON))
        made = take(tool)
        invoke = getattr(made, "on_invoke_tool", made)

        async def run() -> Any:
            return await invoke(self.context("{}"), "{}")

        assert (asyncio.run(run()), ran) == (REASON, [])

    def test_a_tool_is_judged_by_the_name_that_it_has_now(self, on):
        ran: list[str] = []
        tool = self.make(ran, "read")
        on("openai_agents", policy.deny("erase", reason=REASON), policy.allow("*"))
        tool.name = "erase"
        assert (self.call(tool, self.context("{}"), "{}"), ran) == (REASON, [])

    def test_a_shell_that_is_called_by_name_of_its_argument_is_judged(self, on):
        from agents import LocalShellTool

        ran: list[Any] = []
        shell = LocalShellTool(executor=lambda request: ran.append(request) or "ran")
        on("openai_agents", policy.deny("run_command", reason=REASON))
        action = self.shell_action()

        async def run() -> Any:
            return await shell.executor(request=action)

        assert (asyncio.run(run()), ran) == (REASON, [])

    def shell_action(self) -> Any:
        from agents import LocalShellCommandRequest, RunContextWrapper
        from openai.types.responses.response_output_item import (
            LocalShellCall,
            LocalShellCallAction,
        )

        action = LocalShellCallAction(command=["rm"], env={}, type="exec")
        call = LocalShellCall(
            id="1", call_id="1", action=action, status="completed", type="local_shell_call"
        )
        return LocalShellCommandRequest(ctx_wrapper=RunContextWrapper(None), data=call)

    @pytest.mark.parametrize("method", ["create_file", "update_file", "delete_file"])
    def test_an_editor_that_is_called_by_name_of_its_argument_is_judged(self, on, method):
        from agents import ApplyPatchTool
        from agents.editor import ApplyPatchOperation

        ran: list[Any] = []

        class Editor:
            def create_file(self, operation: Any) -> None:
                ran.append(operation)

            update_file = delete_file = create_file

        patch = ApplyPatchTool(editor=Editor())
        on("openai_agents", policy.deny("kind:file_write", reason=REASON))
        operation = ApplyPatchOperation(type=method, path="/etc/passwd", diff="+x")

        async def run() -> Any:
            return await getattr(patch.editor, method)(operation=operation)

        assert (asyncio.run(run()).output, ran) == (REASON, [])

    def test_a_handoff_that_is_called_by_name_of_its_arguments_is_judged(self, on, sdk):
        handoff = sdk.handoff(sdk.Agent(name="ops"))
        on("openai_agents", policy.deny("transfer_to_ops"))

        async def run() -> Any:
            names = inspect.signature(handoff.on_invoke_handoff).parameters
            given = dict(zip(names, (self.context("{}"), "{}"), strict=True))
            return await handoff.on_invoke_handoff(**given)

        with pytest.raises(Denied):
            asyncio.run(run())


class TestMcp:
    """MCP's client and server."""

    @pytest.fixture(autouse=True)
    def sdk(self) -> Any:
        return pytest.importorskip("mcp")

    @pytest.mark.parametrize("side", ["client", "server"])
    def test_a_request_that_changes_its_name_while_somebody_is_asked(self, on, side):
        """What was approved is what is sent, and what is handled."""
        from tests.frameworks import test_mcp as shared

        ran: list[str] = []
        held: list[Any] = []

        class World:
            def safe(self, path: str) -> str:
                ran.append("safe")
                return "safe"

            def danger(self, path: str) -> str:
                ran.append("danger")
                return "danger"

        def answer(call: types.ToolCall) -> bool:
            params = held[-1]
            params.name = "danger"
            params.arguments = {"path": "/etc"}
            return True

        types_ = shared.wire

        async def run() -> None:
            async with shared.connected(shared.make_server(World())) as client:
                params = types_.CallToolRequestParams(name="safe", arguments={"path": "/ok"})
                request = types_.CallToolRequest(method="tools/call", params=params)
                sent = request if shared.IS_2 else types_.ClientRequest(request)
                held.append((sent if shared.IS_2 else sent.root).params)
                session = shared.session_of(client)
                await session.send_request(sent, types_.CallToolResult)

        on("mcp", policy.ask_user("*/safe", handler=answer), policy.deny("*/danger"))
        if side == "server":
            anyio.run(self.handled, shared, held, World())
        else:
            anyio.run(run)
        assert ran == ["safe"]

    async def handled(self, shared: Any, held: list[Any], world: Any) -> None:
        """Give a server's handler a request of its own."""
        server = shared.make_lowlevel(world)
        params = shared.wire.CallToolRequestParams(name="safe", arguments={"path": "/ok"})
        if shared.IS_2:
            from types import SimpleNamespace

            held.append(params)
            handler = server.get_request_handler("tools/call").handler
            context = SimpleNamespace(protocol_version="2025-06-18", meta=None)
            await handler(context, params)
            return
        request = shared.wire.CallToolRequest(method="tools/call", params=params)
        held.append(request.params)
        await server.request_handlers[shared.wire.CallToolRequest](request)


class TestLangchain:
    """langchain's tools."""

    @pytest.fixture(autouse=True)
    def sdk(self) -> Any:
        return pytest.importorskip("langchain_core.tools")

    def make(self, ran: list[Any]) -> Any:
        from langchain_core.tools import StructuredTool

        def read(path: str = "/secret") -> str:
            """Read."""
            ran.append(path)
            return "ran"

        return StructuredTool.from_function(read, name="read")

    @pytest.mark.parametrize(
        "call",
        [
            lambda tool, args: tool.invoke(args),
            lambda tool, args: tool.invoke(input=args),
            lambda tool, args: tool.run(args),
            lambda tool, args: tool.run(tool_input=args),
            lambda tool, args: tool.batch([args])[0],
            lambda tool, args: next(iter(tool.stream(args))),
            lambda tool, args: next(iter(tool.transform(iter([args])))),
            lambda tool, args: tool.with_retry().invoke(args),
            lambda tool, args: tool.bind(verbose=False).invoke(args),
            lambda tool, args: tool.with_config(tags=["x"]).invoke(args),
            lambda tool, args: (tool | str).invoke(args),
            lambda tool, args: tool.map().invoke([args])[0],
            lambda tool, args: tool.with_fallbacks([tool]).invoke(args),
            lambda tool, args: copy.copy(tool).invoke(args),
            lambda tool, args: copy.deepcopy(tool).invoke(args),
            lambda tool, args: tool.model_copy().invoke(args),
            lambda tool, args: asyncio.run(tool.ainvoke(args)),
            lambda tool, args: asyncio.run(tool.arun(args)),
            lambda tool, args: asyncio.run(tool.abatch([args]))[0],
        ],
    )
    def test_every_way_to_call_a_tool_is_judged(self, on, call):
        ran: list[Any] = []
        tool = self.make(ran)
        on("langchain", policy.deny("read", when=secret, reason=REASON))
        assert call(tool, {"path": "/ok"}) == "ran"
        assert call(tool, {"path": "/secret"}) == REASON
        assert ran == ["/ok"]

    def test_a_subclass_that_overrides_what_runs_is_judged(self, on, sdk):
        ran: list[Any] = []

        class Mine(sdk.BaseTool):
            name: str = "read"
            description: str = "Read."

            def _run(self, path: str) -> str:
                ran.append(path)
                return "ran"

            def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
                return super().run({"path": "/secret"}, *args, **kwargs)

        on("langchain", policy.deny("read", when=secret, reason=REASON))
        assert Mine().invoke({"path": "/ok"}) == REASON
        assert ran == []

    def test_a_tool_that_calls_another_of_its_name_gives_it_no_permit_for_more(self, on, sdk):
        """An override's permit is for the method below it, once."""
        ran: list[Any] = []
        inner = self.make(ran)

        class Outer(sdk.BaseTool):
            name: str = "read"
            description: str = "Read."

            def _run(self, path: str) -> str:
                return str([inner.invoke({"path": p}) for p in (path, "/secret")])

        on("langchain", policy.deny("read", when=secret, reason=REASON))
        assert Outer().invoke({"path": "/ok"}) == str(["ran", REASON])
        assert ran == ["/ok"]

    def test_a_pickled_tool_is_guarded(self, on):
        tool = PickledTool()
        on("langchain", policy.deny("pickled", reason=REASON))
        assert pickle.loads(pickle.dumps(tool)).invoke({"path": "/ok"}) == REASON


try:
    from langchain_core.tools import BaseTool
except ImportError:
    pass
else:

    class PickledTool(BaseTool):
        """A tool of a module, which pickle can find."""

        name: str = "pickled"
        description: str = "Read."

        def _run(self, path: str) -> str:
            return "ran"


def test_a_hook_that_calls_the_tool_it_guards_through_the_framework(on):
    """It is judged in turn; the hook's own call ends the chain with a deny, not with a run."""
    pytest.importorskip("langchain_core")
    ran: list[Any] = []
    tool = TestLangchain().make(ran)

    @hooks.pre_tool_call_decide
    def nosy(call: types.ToolCall) -> types.HookResult:
        if call.args.get("path") == "/ok":
            found = tool.invoke({"path": "/secret"})
            return types.HookResult(allow=found == "ran", message=f"below: {found}")
        return types.HookResult()

    on("langchain", policy.deny("read", when=secret, reason=REASON), hooks=[nosy])
    assert tool.invoke({"path": "/ok"}) == f"below: {REASON}"
    assert ran == []
