"""Google Antigravity SDK: agents and tools that the harness does not ask about."""

from __future__ import annotations

import contextlib
import gc
import warnings
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types

import otelhooks
from otelhooks import hooks, policy
from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from tests.frameworks.antigravity_world import (
    TASK,
    ask,
    command,
    converse,
    model_of,
    start,
    started,
    tools_of,
)
from tests.frameworks.contract import DANGER, SAFE, Ask, World

# The SDK's oldest version warns of a field that its own constructor sets.
pytestmark = pytest.mark.filterwarnings("ignore:CapabilitiesConfig.compaction_threshold")

REASON = "cannot be started, since its tools cannot be checked"
DEFINE = (
    "define_subagent",
    {"name": "sly", "description": "d", "system_prompt": "s", "enable_write_tools": True},
)


@pytest.fixture
def instrument(with_rules: Any) -> Any:
    def begin(*rules: Any, options: Any = None, **settings: Any) -> otelhooks.Handle:
        others = dict.fromkeys(("mcp", "langchain", "openai_agents", "hedera_agent_kit"), "off")
        frameworks = {**others, "google_antigravity": options or "on"}
        return with_rules(*rules, frameworks=frameworks, **settings)

    return begin


def static(*built_in: str, tools: Any = (), name: str = "worker") -> types.SubagentConfig:
    return types.SubagentConfig(
        name=name,
        description="Works.",
        tools=list(tools),
        capabilities=types.SubagentCapabilities(
            enabled_tools=[types.BuiltinTools(tool) for tool in built_in]
        ),
    )


def delegate(world: World, *main: Any, **settings: Any) -> str:
    """Let an agent start another, which plays the world's script; return all that the first saw."""
    told: list[str] = []
    inner = model_of(world, *main)

    def next_step(shown: list[str]) -> Any:
        if TASK not in shown[0]:
            told.append("\n".join(shown))
        return inner(shown)

    async def run() -> None:
        async with started(next_step, **settings) as agent:
            await ask(agent)

    anyio.run(run)
    return "\n".join(told)


def touch(file: Path) -> Any:
    """Return a step that makes a file with the built-in shell."""
    name, args = command(f"touch {file}")
    return (Ask(name, {**args, "Cwd": str(file.parent)}),)


def spans(exporter: Any, name: str) -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


class TestRefused:
    @pytest.mark.parametrize(
        "rule",
        [
            policy.deny("run_command"),
            policy.deny("kind:shell"),
            policy.deny("run_*"),
            policy.deny_all(),
            policy.ask_user("run_command", handler=lambda call: True),
            policy.deny("run_command", when=lambda args: "rm" in args["CommandLine"]),
            policy.RateLimit(tool_calls=100),
        ],
        ids=["exact", "kind", "glob", "all", "ask", "when", "limit"],
    )
    def test_an_agent_that_the_model_defines_where_a_rule_could_stop_it(
        self, instrument, exporter, tmp_path, rule
    ):
        instrument(policy.allow("invoke_subagent"), rule)
        file = tmp_path / "made"
        told = delegate(World(touch(file), "x"), (DEFINE,), start("sly"), "done")
        assert REASON in told
        assert not file.exists()
        (span,) = spans(exporter, "execute_tool invoke_subagent")
        assert span.attributes[semconv.POLICY_RULE_ID] == "unjudged_agents"
        assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED

    @pytest.mark.parametrize("kind", ["decider", "transformer"])
    def test_an_agent_that_a_hook_could_not_see(self, instrument, tmp_path, kind):
        @hooks.pre_tool_call_decide
        def decide(call: Any) -> otelhooks.types.HookResult:
            return otelhooks.types.HookResult()

        @hooks.post_tool_call_transform
        def transform(result: Any) -> None:
            return None

        instrument(hooks=[decide if kind == "decider" else transform])
        file = tmp_path / "made"
        assert REASON in delegate(World(touch(file), "x"), (DEFINE,), start("sly"), "done")
        assert not file.exists()

    def test_a_configured_agent_with_a_tool_that_a_rule_names(self, instrument, tmp_path):
        instrument(policy.deny("run_command", when=lambda args: False))
        file = tmp_path / "made"
        world = World(touch(file), "x")
        settings = {"subagents": [static("run_command")]}
        assert REASON in delegate(world, start("worker"), "done", **settings)
        assert not file.exists()
        assert world.shown == []

    def test_one_of_several_agents_refuses_them_all(self, instrument):
        instrument(policy.deny("run_command"))
        world = World("x")
        settings = {"subagents": [static("run_command")]}
        assert REASON in delegate(world, start("self", "worker"), "done", **settings)
        assert world.shown == []

    @pytest.mark.parametrize(
        "entries",
        [
            [{"TypeName": "Self", "Role": "r", "Prompt": TASK}],
            [{"TypeName": " self", "Role": "r", "Prompt": TASK}],
            [{"TypeName": "nobody", "Role": "r", "Prompt": TASK}],
        ],
        ids=["case", "blank", "unknown"],
    )
    def test_an_agent_of_a_type_that_is_only_like_a_covered_one(self, instrument, entries):
        instrument(policy.deny("run_command"))
        world = World("x")
        step = (("invoke_subagent", {"Subagents": entries}),)
        assert REASON in delegate(world, step, "done")
        assert world.shown == []

    def test_a_configured_agent_with_the_name_of_a_covered_type(self, instrument, tmp_path):
        """Whatever the harness makes of such a name, nothing runs that nobody was asked about."""
        instrument(policy.deny("run_command"))
        file = tmp_path / "made"
        settings = {"subagents": [static("run_command", name="self")]}
        with contextlib.suppress(RuntimeError):  # where the harness does not take it
            delegate(World(touch(file), "x", "x"), start("self"), "done", **settings)
        with warnings.catch_warnings():  # pipes that the SDK leaves open then
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        assert not file.exists()

    def test_an_agent_that_a_covered_agent_starts(self, instrument, tmp_path):
        instrument(policy.deny("run_command"))
        file = tmp_path / "made"
        inner = World((Ask(*DEFINE),), tuple(Ask(*call) for call in start("sly")), "x", "x")
        deep = types.CapabilitiesConfig(max_subagent_depth=3)
        delegate(inner, start("self"), "done", capabilities=deep)
        assert REASON in inner.told
        assert not file.exists()


class TestAllowed:
    def test_a_configured_agent_whose_tools_no_rule_names(self, instrument, tmp_path):
        instrument(policy.deny("create_file"))
        file = tmp_path / "made"
        world = World(touch(file), "x")
        settings = {"subagents": [static("run_command")], "workspaces": [str(tmp_path)]}
        delegate(world, start("worker"), "done", **settings)
        assert file.exists()

    def test_any_agent_where_only_python_tools_are_denied(self, instrument, tmp_path):
        instrument(policy.deny("danger"))
        world, file = World((DANGER,), touch(tmp_path / "made"), "x"), tmp_path / "made"
        settings = {
            "subagents": [static("run_command", tools=tools_of(world))],
            "workspaces": [str(tmp_path)],
        }
        delegate(world, start("worker"), "done", **settings)
        assert world.ran == []
        assert "Denied by policy 'danger'" in world.told
        assert file.exists()

    def test_the_application_says_so(self, instrument, exporter, tmp_path, caplog):
        instrument(policy.deny("create_file"), policy.deny("danger"), options={"unjudged": "allow"})
        file = tmp_path / "made"
        settings = {"workspaces": [str(tmp_path)]}
        delegate(World(touch(file), "x"), (DEFINE,), start("sly"), "done", **settings)
        assert file.exists()
        assert "coverage gap: tool `run_command` of agent `sly`" in caplog.text
        (span,) = spans(exporter, "invoke_agent sly")
        assert span.attributes[semconv.AGENT_BRANCH] == "Antigravity/sly"

    def test_a_copy_of_the_agent_whose_calls_are_judged(self, instrument, exporter, tmp_path):
        instrument(policy.deny("run_command", reason="No shells."))
        file, inner = tmp_path / "made", World(touch(tmp_path / "made"), "x")
        delegate(inner, start("self"), "done")
        assert not file.exists()
        assert "No shells." in inner.told
        (started_by,) = spans(exporter, "execute_tool invoke_subagent")
        (agent,) = spans(exporter, "invoke_agent self")
        (denied,) = spans(exporter, "execute_tool run_command")
        assert agent.parent.span_id == started_by.context.span_id
        assert denied.parent.span_id == agent.context.span_id
        assert denied.attributes[semconv.AGENT_BRANCH] == "Antigravity/self"

    def test_agents_at_once_are_told_from_each_other(self, instrument, exporter):
        instrument(policy.deny("something_else"))
        inner = World((SAFE,), (SAFE,), "one", "two")
        delegate(inner, start("self", "research"), "done", tools=tools_of(inner))
        assert len(inner.ran) == 2
        for name in ("self", "research"):
            (agent,) = spans(exporter, f"invoke_agent {name}")
            assert agent.end_time
        parents = {span.parent.span_id for span in spans(exporter, "execute_tool safe")}
        agents = spans(exporter, "invoke_agent self") + spans(exporter, "invoke_agent research")
        assert parents <= {span.context.span_id for span in agents}

    def test_in_monitor_mode_what_would_be_refused_is_recorded(
        self, instrument, exporter, tmp_path
    ):
        instrument(policy.deny("create_file"), mode="monitor")
        file = tmp_path / "made"
        settings = {"workspaces": [str(tmp_path)]}
        delegate(World(touch(file), "x"), (DEFINE,), start("sly"), "done", **settings)
        assert file.exists()


WORKFLOW = "from antigravity import agent\nawait agent('{task}')"


class TestWorkflows:
    @pytest.mark.parametrize("rule", ["run_command", "danger"])
    def test_are_refused_where_a_rule_could_stop_their_agents(self, instrument, exporter, rule):
        instrument(policy.deny(rule))
        script = {"Script": WORKFLOW.format(task=TASK), "Description": "d"}
        world = World("x", "x", "x")
        told = delegate(world, (("run_workflow", script),), "done", tools=tools_of(world))
        if "unknown tool name" in told:
            pytest.skip("this version has no workflows")
        is_refused = "Workflows cannot be run" in told
        assert is_refused is (rule == "run_command")


class TestHooks:
    def test_see_start_and_end_of_agents(self, instrument):
        seen: list[tuple[Any, ...]] = []

        @hooks.on_subagent_start
        def begin(info: otelhooks.types.SubagentInfo) -> None:
            seen.append(("start", info.agent, info.parent, info.task))

        @hooks.on_subagent_stop
        def end(info: otelhooks.types.SubagentInfo) -> None:
            seen.append(("stop", info.agent, info.response))

        instrument(hooks=[begin, end])
        delegate(World("it is done"), start("self"), "done")
        assert seen == [("start", "self", "Antigravity", TASK), ("stop", "self", "it is done")]

    def test_may_refuse_an_agent_before_it_starts(self, instrument, exporter):
        @hooks.pre_agent
        def refuse(call: otelhooks.types.AgentCall) -> otelhooks.types.HookResult:
            allow = call.agent == "Antigravity"
            return otelhooks.types.HookResult(allow=allow, message="" if allow else "Not this one.")

        instrument(hooks=[refuse])
        world = World("x")
        assert "Not this one." in delegate(world, start("self"), "done")
        assert world.shown == []

    def test_a_rule_for_the_old_name_holds(self, instrument):
        instrument(policy.deny("start_subagent", reason="Alone."))
        world = World("x")
        assert "Alone." in delegate(world, start("self"), "done")
        assert world.shown == []


class TestToolsThatNobodyIsAskedAbout:
    @pytest.mark.parametrize(
        ("rule", "gone"),
        [
            (policy.deny("schedule"), {"schedule"}),
            (policy.deny("run_command", when=lambda args: False), {"manage_task"}),
            (policy.deny("danger"), set()),
            (policy.RateLimit(tool_calls=5), {"manage_task", "schedule"}),
        ],
        ids=["named", "shell", "other", "limit"],
    )
    def test_are_taken_away_where_a_rule_could_stop_them(self, instrument, rule, gone):
        offered = self._offered(instrument, rule)
        kept = self._offered(instrument, rule, options={"unjudged": "allow"})
        assert kept - offered == gone & kept

    def _offered(self, instrument: Any, rule: Any, options: Any = None) -> set[str]:
        instrument(rule, options=options)
        offered: set[str] = set()

        async def run() -> None:
            async with started(lambda shown: "done") as agent:
                await ask(agent)
                offered.update(agent.offered.tools)  # type: ignore[attr-defined]

        anyio.run(run)
        otelhooks.uninstrument()
        return offered


class TestHide:
    def test_takes_python_and_built_in_tools_out_and_denies_them(self, instrument):
        instrument(policy.hide("danger"), policy.hide("run_command"))
        world = World()
        offered: set[str] = set()

        def next_step(shown: list[str]) -> Any:
            return "done"

        async def run() -> None:
            async with started(next_step, tools=tools_of(world)) as agent:
                await ask(agent)
                offered.update(agent.offered.tools)  # type: ignore[attr-defined]

        anyio.run(run)
        assert "safe" in offered
        assert not offered & {"danger", "run_command"}

    def test_holds_where_the_model_asks_all_the_same(self, instrument):
        world = World()
        instrument(policy.hide("danger"))
        converse((DANGER,), "done", tools=tools_of(world))
        assert world.ran == []


def test_an_unknown_option_is_named():
    with pytest.raises(ConfigError, match="unknown option of framework `google_antigravity`: `x`"):
        otelhooks.instrument(frameworks={"google_antigravity": {"x": "y"}})
    with pytest.raises(ConfigError, match=r"`unjudged` .* cannot be `maybe`"):
        otelhooks.instrument(frameworks={"google_antigravity": {"unjudged": "maybe"}})
