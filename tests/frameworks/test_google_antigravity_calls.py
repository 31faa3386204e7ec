"""Google Antigravity SDK: tool calls beyond the contract, and attempts to get round their guard."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import json
from typing import Any

import anyio
import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types as native
from google.antigravity.connections.local import event_processor, local_connection
from google.antigravity.hooks import hook_runner
from google.antigravity.hooks import hooks as native_hooks
from google.antigravity.hooks import policy as native_policy
from google.antigravity.tools.tool_runner import ToolRunner
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied, SeatError
from otelhooks.patching import versions
from otelhooks.records import semconv
from tests.frameworks.antigravity_world import (
    ask,
    command,
    converse,
    model_of,
    served,
    started,
    tools_of,
)
from tests.frameworks.contract import BROKEN, DANGER, SAFE, Ask, World
from tests.frameworks.mcp_world import make_server

# The SDK's oldest version warns of a field that its own constructor sets.
pytestmark = pytest.mark.filterwarnings("ignore:CapabilitiesConfig.compaction_threshold")

REASON = "Nobody may do that here."
STEP = {
    "id": "t:1",
    "step_index": 1,
    "type": native.StepType.COMPACTION,
    "source": native.StepSource.SYSTEM,
    "target": native.StepTarget.USER,
    "status": native.StepStatus.DONE,
}
UNREACHABLE = ("read_url_content", {"Url": "http://127.0.0.1:9/"})


@pytest.fixture
def instrument(with_rules: Any) -> Any:
    return functools.partial(with_rules, frameworks=["google_antigravity"])


def span_of(exporter: Any, tool: str) -> Any:
    name = f"execute_tool {tool}"
    (span,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return span


def shell(line: str) -> tuple[Ask, ...]:
    return (Ask(*command(line)),)


def converse_with(world: World) -> None:
    async def run() -> None:
        async with started(model_of(world), tools=tools_of(world)) as agent:
            await ask(agent)

    anyio.run(run)


class TestBuiltInTools:
    def test_are_denied_by_name_and_kind(self, instrument, exporter):
        instrument(policy.deny("kind:shell", reason=REASON))
        _, shown = converse(shell("echo gone"), "done")
        assert REASON in shown
        span = span_of(exporter, "run_command")
        assert span.attributes[semconv.TOOL_KIND] == "shell"
        assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED

    def test_run_with_the_arguments_that_a_hook_wrote(self, instrument):
        @hooks.pre_tool_call_decide
        def rewrite(call: types.ToolCall) -> types.HookResult:
            return types.HookResult(modified_args={"CommandLine": "echo rewritten"})

        instrument(hooks=[rewrite])
        _, shown = converse(shell("echo original"), "done")
        assert "rewritten" in shown
        assert "original" not in shown

    def test_run_without_an_argument_that_a_hook_took_out(self, instrument, tmp_path):
        @hooks.pre_tool_call_decide
        def drop(call: types.ToolCall) -> types.HookResult:
            kept = {name: value for name, value in call.args.items() if name != "Cwd"}
            return types.HookResult(replace_args=kept)

        (tmp_path / "below").mkdir()
        name, args = command("pwd")
        step = ((name, {**args, "Cwd": str(tmp_path / "below")}),)
        instrument(hooks=[drop])
        _, shown = converse(step, "done", workspaces=[str(tmp_path)])
        assert str(tmp_path) in shown
        assert "below" not in shown

    def test_show_hooks_their_result(self, instrument):
        seen: list[types.ToolResult] = []

        @hooks.post_tool_call
        def see(result: types.ToolResult) -> None:
            seen.append(result)

        instrument(hooks=[see])
        converse(shell("echo shown"), "done")
        (result,) = seen
        assert result.name == "run_command"
        assert "shown" in result.result.output

    def test_show_hooks_a_failure(self, instrument, exporter):
        seen: list[Any] = []

        @hooks.on_tool_error
        def note(error: Exception) -> None:
            seen.append(str(error))

        instrument(hooks=[note])
        converse((UNREACHABLE,), "done")
        assert "Failed to fetch" in seen[0]
        assert span_of(exporter, "read_url_content").status.status_code is StatusCode.ERROR

    def test_a_recovery_replaces_the_text_and_is_told_as_the_failure_that_it_stays(
        self, instrument, exporter, log_exporter
    ):
        @hooks.on_tool_error
        def recover(error: Exception) -> str:
            return "Ask for another file."

        instrument(hooks=[recover])
        _, shown = converse((UNREACHABLE,), "done")
        assert "Encountered error in step execution: Ask for another file." in shown
        span = span_of(exporter, "read_url_content")
        assert semconv.RECOVERED not in span.attributes
        assert span.status.status_code is StatusCode.ERROR
        names = {record.log_record.event_name for record in log_exporter.get_finished_logs()}
        assert semconv.EVENT_RECOVERED not in names

    @pytest.mark.parametrize("way", ["rewrite", "withhold"])
    def test_what_a_hook_takes_back_stops_turn_and_conversation(self, instrument, way):
        """The harness has the result, and would show it to the model."""

        @hooks.post_tool_call_transform
        def redact(result: types.ToolResult) -> Any:
            if "4711" not in str(result.result):
                return None
            if way == "rewrite":
                return "[redacted]"
            return types.HookResult(allow=False, message="secret")

        instrument(hooks=[redact])
        said, shown = converse(shell("echo $((4710 + 1))"), prompts=("please begin", "again"))
        assert said == ["The turn was stopped, since a tool's result was taken back."] * 2
        assert "4711" not in shown

    def test_that_ran_long_end_their_span(self, instrument, exporter):
        instrument(policy.deny("something_else"))
        name, args = command("sleep 1.2; echo late")
        said, _ = converse(((name, {**args, "WaitMsBeforeAsync": 50}),), "waiting", "done")
        assert said == ["done"]
        assert span_of(exporter, "run_command").attributes[semconv.POLICY_DECISION] == "allow"


class TestServersTools:
    """Of an MCP server, which the harness is the client of; the contract has the usual way."""

    @pytest.mark.parametrize("way", ["inside", "text", "eager"])
    def test_are_judged_by_their_own_arguments(self, instrument, exporter, way):
        instrument(
            policy.deny("files/danger", when=lambda args: args.get("path") == "/etc", reason=REASON)
        )
        world = World()
        told = self._call(world, way, {"path": "/etc"})
        if "unknown tool name" in told:
            pytest.skip("this version offers no tool of a server by itself")
        assert REASON in told
        assert world.ran == []
        assert span_of(exporter, "danger").attributes[semconv.TOOL_SERVER] == "files"

    @pytest.mark.parametrize("way", ["inside", "text"])
    def test_run_with_the_arguments_that_a_hook_wrote(self, instrument, way):
        @hooks.pre_tool_call_decide
        def rewrite(call: types.ToolCall) -> types.HookResult:
            return types.HookResult(replace_args={"path": "/tmp/other"})

        instrument(hooks=[rewrite])
        world = World()
        self._call(world, way, {"path": "/etc", "more": 1})
        assert world.ran == [("danger", {"path": "/tmp/other"})]

    def test_a_text_of_arguments_is_read_in_one_way_only(self, instrument):
        """If a name occurs twice, what was judged is what is passed on."""
        instrument(policy.deny("files/danger", when=lambda args: args["path"] == "/etc"))
        world = World()
        self._call(world, "text", '{"path": "/etc", "path": "/tmp"}')
        assert world.ran == [("danger", {"path": "/tmp"})]

    def test_of_another_server_in_the_text_are_the_harnesss_to_name(self, instrument):
        """The name of the server is the application's, from its configuration."""
        instrument(policy.allow("files/danger"), policy.deny("*/danger", reason=REASON))
        world = World()
        assert REASON not in self._call(world, "inside", {"path": "/etc"})
        assert world.bodies == ["danger"]

    def _call(self, world: World, way: str, args: Any, at: str = "") -> str:
        shown: list[str] = []
        inside = json.dumps(args) if way == "text" and not isinstance(args, str) else args
        named = {"ServerName": "files", "ToolName": "danger", "Arguments": inside}
        step = ("mcp_files_danger", args) if way == "eager" else ("call_mcp_tool", named)
        left: list[Any] = [(step,), "done"]

        def next_step(seen: list[str]) -> Any:
            shown.append("\n".join(seen))
            return left.pop(0)

        async def run() -> None:
            with contextlib.nullcontext(at) if at else served(make_server(world)) as url:
                more = {"force_all_tools_eager": True} if way == "eager" else {}
                server = native.McpStreamableHttpServer(name="files", url=url, **more)
                async with started(next_step, mcp_servers=[server]) as agent:
                    await ask(agent)

        anyio.run(run)
        return "\n".join(shown)

    @pytest.mark.parametrize("way", ["inside", "eager"])
    @pytest.mark.parametrize("rule", [policy.deny, policy.hide])
    @pytest.mark.parametrize("name", ["kept", "files"])
    def test_of_a_configured_server_are_judged_by_either_name(self, instrument, rule, name, way):
        """The harness is the client: no deeper seat knows the name in ``mcp_servers=``."""
        world = World()
        with served(make_server(world)) as url:
            kept = types.McpStreamableHttpServer(name="kept", url=url)
            instrument(rule(f"{name}/danger"), mcp_servers=[kept])
            self._call(world, way, {"path": "/etc"}, url)
            otelhooks.uninstrument()
            instrument(policy.allow("kept/danger"), policy.deny_all(), mcp_servers=[kept])
            assert world.bodies == []
            told = self._call(world, way, {"path": "/etc"}, url)
        if "unknown tool name" in told:
            pytest.skip("this version offers no tool of a server by itself")
        assert world.bodies == ["danger"]

    def test_resources_of_a_server_are_tools_of_the_harness(self, instrument):
        instrument(policy.deny("read_resource", reason=REASON))
        read = ("read_resource", {"ServerName": "files", "Uri": "x://y"})
        left: list[Any] = [(read,), "done"]
        shown: list[str] = []

        def next_step(seen: list[str]) -> Any:
            shown.append("\n".join(seen))
            return left.pop(0)

        async def run() -> None:
            with served(make_server(World())) as url:
                server = native.McpStreamableHttpServer(name="files", url=url)
                async with started(next_step, mcp_servers=[server]) as agent:
                    await ask(agent)

        anyio.run(run)
        assert REASON in "\n".join(shown)


class TestPythonTools:
    def test_keep_integers_that_the_wire_makes_floats_of(self, instrument):
        """The harness sends 1 as 1.0: the approved arguments run, on the same span."""
        instrument(policy.deny("something_else"))
        seen: list[Any] = []

        def take(values: Any) -> str:
            """Take."""
            seen.append(values)
            return "taken"

        converse((("take", {"values": [1, 2.5, {"n": 3}]}),), "done", tools=[take])
        assert repr(seen) == "[[1, 2.5, {'n': 3}]]"

    def test_arguments_that_changed_on_the_way_are_judged_again(
        self, instrument, exporter, monkeypatch
    ):
        """Code between the two seats replaces the approved arguments by others."""
        world = World()
        instrument(policy.deny("safe", when=lambda args: args["x"] == 13, reason=REASON))
        original = ToolRunner.process_tool_calls

        async def swap(self: Any, calls: Any) -> Any:
            return await original(
                self, [call.model_copy(update={"args": {"x": 13}}) for call in calls]
            )

        monkeypatch.setattr(ToolRunner, "process_tool_calls", swap)
        converse((SAFE,), "done", tools=tools_of(world))
        assert world.ran == []
        decisions = [
            span.attributes[semconv.POLICY_DECISION]
            for span in exporter.get_finished_spans()
            if span.name == "execute_tool safe"
        ]
        assert sorted(decisions) == ["allow", "deny"]
        failed = [s.status.status_code for s in exporter.get_finished_spans() if "safe" in s.name]
        assert failed == [StatusCode.ERROR] * 2

    def test_a_path_that_only_the_first_seat_sees_as_one_is_judged_again(self, instrument):
        """The SDK makes a path of a URI before hooks see it; the tool gets the URI."""
        world = World()
        instrument(policy.deny("danger", when=lambda args: args["path"].startswith("file:")))
        converse((Ask("danger", {"path": "file:///etc/passwd"}),), "done", tools=tools_of(world))
        assert world.ran == []

    def test_a_tool_that_calls_another_is_two_calls(self, instrument, exporter):
        world = World()
        runner: list[Any] = []

        async def outer(x: int) -> str:
            """Call another."""
            return await runner[0].execute("danger", path="/etc")

        async def run() -> None:
            steps: list[Any] = [(Ask("outer", {"x": 1}),), "done"]
            tools = [*tools_of(world), outer]
            async with started(lambda shown: steps.pop(0), tools=tools) as agent:
                runner.append(agent._tool_runner)
                await ask(agent)

        instrument(policy.deny("danger", reason=REASON))
        anyio.run(run)
        assert world.ran == []
        denied, outside = span_of(exporter, "danger"), span_of(exporter, "outer")
        assert denied.parent.span_id == outside.context.span_id
        assert semconv.GEN_AI_TOOL_CALL_ID not in denied.attributes

    def test_an_object_is_judged_as_plain_data_and_runs_as_it_was_given(self, instrument):
        seen: list[Any] = []

        def take(step: Any) -> str:
            """Take."""
            seen.append(step)
            return "taken"

        instrument(policy.deny("take", when=lambda args: args["step"]["content"] == "no"))
        runner = ToolRunner([take])
        steps = [native.Step(**STEP, content=content) for content in ("yes", "no")]
        assert anyio.run(lambda: runner.execute("take", step=steps[0])) == "taken"
        with pytest.raises(Denied):
            anyio.run(lambda: runner.execute("take", step=steps[1]))
        assert seen == [steps[0]]
        assert type(seen[0]) is native.Step

    def test_a_hooks_message_takes_the_place_of_an_errors_text(self, instrument):
        @hooks.on_tool_error
        def pass_on(error: Exception) -> Any:
            return types.HookResult(allow=False, message="Try later."), None

        world = World()
        instrument(hooks=[pass_on])
        _, shown = converse((BROKEN,), "done", tools=tools_of(world))
        assert "failed with error message: Try later." in shown
        assert "disk" not in shown

    def test_an_exception_that_nothing_catches_ends_the_span(self, instrument, exporter):
        class Out(BaseException):
            pass

        def leave() -> str:
            """Leave."""
            raise Out("out")

        instrument(policy.deny("something_else"))
        with pytest.raises(Out):
            anyio.run(lambda: ToolRunner([leave]).execute("leave"))
        assert span_of(exporter, "leave").attributes[semconv.ERROR_TYPE].endswith("Out")


class TestApplication:
    def test_its_own_hooks_come_first_and_ours_judge_what_they_wrote(self, instrument):
        order: list[Any] = []

        @native_hooks.pre_tool_call_decide
        async def own(call: Any) -> Any:
            order.append(("own", call.args["x"]))
            return native_hooks.HookResult(allow=True, modified_args={"x": 13})

        def judge(args: dict[str, Any]) -> bool:
            order.append(("rule", args["x"]))
            return args["x"] == 13

        world = World()
        instrument(policy.deny("safe", when=judge, reason=REASON))
        _, shown = converse((SAFE,), "done", tools=tools_of(world), hooks=[own])
        assert order == [("own", 1), ("rule", 13)]
        assert REASON in shown
        assert world.ran == []

    def test_its_own_denial_stands_and_is_not_a_coverage_gap(self, instrument, exporter, caplog):
        @native_hooks.pre_tool_call_decide
        async def own(call: Any) -> Any:
            return native_hooks.HookResult(allow=False, message="not mine")

        world = World()
        instrument(policy.deny("something_else"))
        _, shown = converse((SAFE,), "done", tools=tools_of(world), hooks=[own])
        assert "not mine" in shown
        assert world.ran == []
        assert "coverage gap" not in caplog.text
        assert [s.name for s in exporter.get_finished_spans()] == ["invoke_agent Antigravity"]

    @pytest.mark.parametrize(
        "asks",
        [(SAFE,), tuple(shell("echo gone")), (SAFE, *shell("echo gone"))],
        ids=["python", "built-in", "parallel"],
    )
    def test_its_own_policy_that_denies_after_us_leaves_a_span_that_says_so(
        self, instrument, exporter, asks, caplog
    ):
        own = [
            native_policy.deny("safe", when=lambda args: True),
            native_policy.deny("run_command"),
            native_policy.allow_all(),
        ]
        world = World()
        instrument(policy.deny("something_else"))
        _, shown = converse(asks, "done", tools=tools_of(world), policies=own)
        assert "Denied by policy" in shown
        assert world.ran == []
        for ask_ in asks:
            span = span_of(exporter, ask_.tool)
            assert span.attributes[semconv.POLICY_DECISION] == "allow"
            assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_TOOL_ERROR
            assert span.status.status_code is StatusCode.ERROR
        assert "coverage gap" not in caplog.text

    def test_agents_that_share_a_runner_of_hooks_are_told_apart(
        self, instrument, exporter, monkeypatch
    ):
        """Two connections with one `HookRunner`: calls lie in their own turns."""
        shared = hook_runner.HookRunner()
        worlds = [World((SAFE,), "done") for _ in range(2)]
        original = local_connection.LocalConnectionStrategy.__init__

        def share(self: Any, **kwargs: Any) -> None:
            original(self, **{**kwargs, "hook_runner": shared})

        async def one(world: World) -> None:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                await ask(agent)

        async def both() -> None:
            async with anyio.create_task_group() as group:
                for world in worlds:
                    group.start_soon(one, world)

        monkeypatch.setattr(local_connection.LocalConnectionStrategy, "__init__", share)
        instrument(policy.deny("something_else"))
        anyio.run(both)
        found = exporter.get_finished_spans()
        turns = {s.context.span_id: s for s in found if s.name == "invoke_agent Antigravity"}
        calls = [s for s in found if s.name == "execute_tool safe"]
        assert len(turns) == len(calls) == 2
        assert {s.parent.span_id for s in calls} == turns.keys()
        for call in calls:
            turn = turns[call.parent.span_id]
            id = semconv.GEN_AI_CONVERSATION_ID
            assert call.attributes[id] == turn.attributes[id]

    def test_a_context_that_was_current_when_it_connected_is_not_taken_for_the_turns(
        self, instrument, exporter
    ):
        world = World((DANGER,), "done", (DANGER,), "done")
        marks: list[Any] = []
        mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")

        @hooks.pre_tool_call_decide
        def look(call: types.ToolCall, context: hooks.HookContext) -> types.HookResult:
            marks.append(context.get("turn_number"))
            return types.HookResult()

        async def run() -> None:
            with otelhooks.turn("an outer turn, long over when tools run"):
                manager = started(model_of(world), tools=tools_of(world))
                agent = await manager.__aenter__()
            mark.set("later")
            for rules in ([policy.deny("danger", reason=REASON)], []):
                with otelhooks.scope(policies=rules):
                    await ask(agent)
            await manager.__aexit__(None, None, None)

        instrument(hooks=[look])
        anyio.run(run)
        assert world.bodies == ["danger"]  # the scope of the first message was in force for it only
        assert marks == [1, 2]


class TestAttacks:
    def test_a_runner_of_tools_that_is_used_directly(self, instrument):
        world = World()
        instrument(policy.deny("danger", reason=REASON))
        runner = ToolRunner(tools_of(world))
        with pytest.raises(Denied, match=REASON):
            anyio.run(lambda: runner.execute("danger", path="/"))
        with pytest.raises(Denied, match=REASON):
            anyio.run(lambda: runner.execute(tool_name="danger", path="/"))
        assert world.ran == []

    def test_a_method_that_was_taken_out_of_the_class_while_instrumented(self, instrument):
        world = World()
        instrument(policy.deny("danger", reason=REASON))
        kept = ToolRunner(tools_of(world)).execute
        with pytest.raises(Denied):
            anyio.run(lambda: kept("danger", path="/"))
        otelhooks.uninstrument()
        assert anyio.run(lambda: kept("danger", path="/")) == "removed /"

    def test_a_subclass_of_the_runner(self, instrument):
        class Mine(ToolRunner):
            async def execute(self, tool_name: str, **kwargs: Any) -> Any:
                return await super().execute(tool_name, **kwargs)

        world = World()
        instrument(policy.deny("danger", reason=REASON))
        with pytest.raises(Denied):
            anyio.run(lambda: Mine(tools_of(world)).execute("danger", path="/"))
        assert world.ran == []

    def test_a_subclass_of_the_runner_that_runs_tools_itself(self, instrument):
        """Also a subclass from before `instrument()`; what leads to the SDK's is judged once."""

        class Early(ToolRunner):
            async def execute(self, tool_name: str, **kwargs: Any) -> Any:
                return self.tools[tool_name](**kwargs)

        world, judged = World(), []

        def look(context: Any, call: types.ToolCall) -> types.HookResult:
            judged.append(call.name)
            return types.HookResult.allowed()

        instrument(policy.deny("danger", reason=REASON), hooks=[hooks.pre_tool_call_decide(look)])

        class Late(Early):
            async def execute(self, tool_name: str, **kwargs: Any) -> Any:
                return await super().execute(tool_name, **kwargs)

        for runner in (Early, Late):
            with pytest.raises(Denied, match=REASON):
                anyio.run(lambda made=runner: made(tools_of(world)).execute("danger", path="/"))
            assert anyio.run(lambda made=runner: made(tools_of(world)).execute("safe", x=1))
        assert world.bodies == ["safe", "safe"]
        assert judged == ["danger", "safe"] * 2

    def test_calls_at_once_of_the_same_tool_are_each_judged(self, instrument):
        world = World()
        instrument(policy.deny("safe", when=lambda args: args["x"] % 2 == 0, reason=REASON))
        asks = tuple(Ask("safe", {"x": x}) for x in range(6))
        converse(asks, "done", tools=tools_of(world))
        assert sorted(args["x"] for _, args in world.ran) == [1, 3, 5]

    def test_a_request_that_was_never_asked_about_is_judged_in_its_conversation(self, instrument):
        """What runs a call once more by itself, when the turn is over, finds no permit left."""
        world = World((SAFE,), "done")
        instrument(policy.RateLimit(tool_calls=1))

        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                await ask(agent)
                processor: Any = agent.conversation.connection._processor  # type: ignore[attr-defined]
                asked = event_processor.localharness_pb2.ToolCall(
                    id="again", name="safe", arguments_json='{"x": 1}'
                )
                await processor.handle_tool_call(asked)

        anyio.run(run)
        assert world.bodies == ["safe"]

    def test_an_agent_that_was_started_before_is_refused(self, instrument):
        world = World((DANGER,), "done")

        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                instrument(policy.deny("danger"))
                with pytest.raises(SeatError, match="started before"):
                    await agent.chat("begin")

        anyio.run(run)
        assert world.shown == []

    def test_a_connection_without_hooks_of_its_own_is_asked_for(self, instrument, monkeypatch):
        original = local_connection.LocalConnectionStrategy.__init__

        def without_runner(self: Any, **kwargs: Any) -> None:
            original(self, **{**kwargs, "hook_runner": None})

        monkeypatch.setattr(local_connection.LocalConnectionStrategy, "__init__", without_runner)
        world = World((DANGER,), "done")
        instrument(policy.deny("danger", reason=REASON))
        converse_with(world)
        assert world.ran == []
        assert REASON in world.told

    def test_a_harness_that_died_ends_every_span(self, instrument, exporter):
        world = World((Ask("slow", {"x": 1}),))
        instrument(policy.deny("something_else"))

        async def run() -> None:
            manager = started(model_of(world), tools=tools_of(world))
            agent = await manager.__aenter__()
            response = await agent.chat("begin")

            async def kill() -> None:
                while not world.started:  # noqa: ASYNC110  # set by a tool of the world
                    await asyncio.sleep(0.01)
                agent.conversation.connection._process.kill()  # type: ignore[attr-defined]

            task = asyncio.create_task(kill())
            with pytest.raises(native.AntigravityConnectionError):
                await response.text()
            await task
            with contextlib.suppress(native.AntigravityExecutionError):  # of newer versions
                await manager.__aexit__(None, None, None)

        anyio.run(run)
        spans = {span.name: span for span in exporter.get_finished_spans()}
        assert spans.keys() == {"invoke_agent Antigravity", "execute_tool slow"}
        assert {span.status.status_code for span in spans.values()} == {StatusCode.ERROR}

    def test_a_harness_that_is_started_again_is_guarded(self, instrument):
        world = World((DANGER,), "one", (DANGER,), "two")
        instrument(policy.deny("danger", reason=REASON))

        async def run() -> None:
            async with started(model_of(world), tools=tools_of(world)) as agent:
                await ask(agent)
                strategy = agent._strategy
                process = strategy._connection._process
                await strategy.__aexit__(None, None, None)
                for pipe in (process.stdout, process.stderr):
                    pipe.close()
                await strategy.__aenter__()
                again = strategy.connect()
                await again.send("once more")
                [step async for step in again.receive_steps()]
                other = again._process
                await again.disconnect()
                for pipe in (other.stdout, other.stderr):
                    pipe.close()
                strategy._connection = None

        anyio.run(run)
        assert world.ran == []
        assert world.told.count(REASON) >= 2


class TestPatching:
    def test_twice_is_once(self, instrument, exporter):
        rule = policy.deny("something_else")
        assert instrument(rule) is instrument(rule)
        world = World()
        converse((SAFE,), "done", tools=tools_of(world))
        assert span_of(exporter, "safe").attributes[semconv.POLICY_DECISION] == "allow"

    def test_a_foreign_wrapper_above_ours_survives_its_undoing(self, instrument):
        world, seen = World(), []
        instrument(policy.deny("danger", reason=REASON))
        original = ToolRunner.execute

        async def foreign(self: Any, tool_name: str, **kwargs: Any) -> Any:
            seen.append(tool_name)
            return await original(self, tool_name, **kwargs)

        ToolRunner.execute = foreign  # type: ignore[method-assign]
        try:
            runner = ToolRunner(tools_of(world))
            with pytest.raises(Denied):
                anyio.run(lambda: runner.execute("danger", path="/"))
            otelhooks.uninstrument()
            assert anyio.run(lambda: runner.execute("danger", path="/")) == "removed /"
            assert seen == ["danger", "danger"]
        finally:
            ToolRunner.execute = getattr(original, "__wrapped__", original)  # type: ignore[method-assign]

    def test_an_unknown_version_is_refused(self, instrument, monkeypatch, caplog):
        monkeypatch.setattr(
            versions, "installed", lambda names, module: ("google-antigravity", "0.2.0")
        )
        instrument(policy.deny("danger"))
        world = World()
        with pytest.raises(SeatError, match=r"google-antigravity 0\.2\.0"):
            converse((DANGER,), "done", tools=tools_of(world))
        with pytest.raises(SeatError):
            anyio.run(lambda: ToolRunner(tools_of(world)).execute("danger", path="/"))
        assert world.ran == []
        assert "google_antigravity is not guarded" in caplog.text
