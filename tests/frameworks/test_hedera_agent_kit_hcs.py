"""The audit trail on a topic, with the tools of the Hedera Agent Kit and local consensus nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")

from hedera_agent_kit import HederaAgentAPI
from hedera_agent_kit.shared.configuration import Context

import otelhooks
from otelhooks import policy
from otelhooks.audit import HcsAuditTrailHook
from otelhooks.audit.chain import parse
from otelhooks.audit.hcs_messages import unwrap
from otelhooks.errors import ConfigError
from tests.frameworks.contract import World
from tests.frameworks.hedera_world import HAS_PHASES, OneStep, Phased, tools_of

if HAS_PHASES:
    from hedera_agent_kit.shared.configuration import AgentMode

    from tests.servers.hedera_network import PASSED, TOPIC, LocalNetwork

newer = pytest.mark.skipif(not HAS_PHASES, reason="the kit brings an older SDK before 3.4")


@pytest.mark.skipif(HAS_PHASES, reason="the kit brings a newer SDK")
def test_an_sdk_that_is_too_old_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"too old .* 0\.2 is needed"):
        HcsAuditTrailHook(["*"], "0.0.5005", spool=tmp_path)


@pytest.fixture
def network() -> Iterator[LocalNetwork]:
    made = LocalNetwork()
    yield made
    made.stop()


class Agent:
    """The kit's API over a world, recorded on a topic."""

    def __init__(self, network: LocalNetwork, spool: Path, kind: Any = Phased, **context: Any):
        self.world = World()
        self._network = network
        self._spool = spool
        tools = tools_of(self.world, kind)
        self.api = HederaAgentAPI(network.client(), Context(account_id="0.0.2", **context), tools)
        self.hook: Any = None

    def record(self, tools: list[str], *rules: Any, **settings: Any) -> None:
        settings.setdefault("logging_client", self._network.client())
        self.hook = HcsAuditTrailHook(tools, TOPIC, spool=self._spool, **settings)
        otelhooks.instrument(
            frameworks=["hedera_agent_kit"], hooks=[self.hook], policies=list(rules)
        )

    def run(self, tool: str, **arguments: Any) -> Any:
        return asyncio.run(self.api.run(tool, arguments))

    def recorded(self, *names: str) -> list[tuple[Any, ...]]:
        assert self.hook.flush(PASSED)
        found = []
        for data in self._network.ledger.messages():
            message = unwrap(data)
            assert message is not None
            line = parse(message.line)
            assert line is not None
            found.append(line.fields)
        found.sort(key=lambda fields: fields["seq"])
        return [tuple(f.get(name) for name in names) for f in found if "audit" not in f]


@pytest.fixture
def agent(network: LocalNetwork, tmp_path: Path) -> Iterator[Any]:
    made: list[Agent] = []

    def make(*args: Any, **context: Any) -> Agent:
        made.append(Agent(network, tmp_path / "spool", *args, **context))
        return made[-1]

    yield make
    otelhooks.uninstrument()
    for one in made:
        if one.hook is not None:
            one.hook.close(1.0)


@newer
def test_a_tool_is_denied_in_the_mode_that_returns_bytes(agent):
    it = agent(mode=AgentMode.RETURN_BYTES)
    it.record(["danger"])
    response = it.run("danger", path="/")
    assert it.world.ran == []
    assert "HcsAuditTrailHook" in response.error
    assert "RETURN_BYTES" in response.error
    assert it.recorded("tool_name", "decision", "rule_id") == [
        ("danger", "deny", "HcsAuditTrailHook")
    ]


@newer
def test_a_tool_that_is_not_recorded_may_return_bytes(agent):
    it = agent(mode=AgentMode.RETURN_BYTES)
    it.record(["danger"])
    assert it.run("safe", x=1).error is None
    assert it.world.bodies == ["safe"]


@newer
def test_the_mode_is_looked_at_before_anything_of_the_tool_runs(agent):
    class Counting(Phased):
        steps = 0

        async def normalize_params(self, params: Any, context: Any, client: Any) -> Any:
            type(self).steps += 1
            return await super().normalize_params(params, context, client)

    it = agent(Counting, mode=AgentMode.RETURN_BYTES)
    it.record(["*"])
    it.run("danger", path="/")
    assert Counting.steps == 0


@newer
@pytest.mark.parametrize("mode", ["autonomous", None])
def test_tools_that_execute_are_recorded(agent, mode):
    it = agent(mode=mode and AgentMode(mode))
    it.record(["danger", "broken"], policy.deny("danger", id="no-danger"))
    it.run("danger", path="/")
    it.run("safe", x=1)
    assert it.run("broken", x=1).error is not None
    assert it.recorded("tool_name", "decision", "rule_id", "outcome") == [
        ("danger", "deny", "no-danger", None),
        ("broken", "allow", None, None),
        ("broken", "allow", None, "failed"),
    ]


@newer
def test_executed_only_records_what_the_hook_of_the_kit_does(agent):
    it = agent()
    it.record(["*"], policy.deny("danger"), executed_only=True)
    it.run("danger", path="/")
    it.run("broken", x=1)
    it.run("safe", x=1)
    assert it.recorded("tool_name", "outcome", "arguments") == [("safe", "ok", {"x": 1})]


@newer
def test_a_tool_of_one_step_is_recorded_too(agent):
    it = agent(OneStep)
    it.record(["safe"])
    it.run("safe", x=1)
    assert it.recorded("tool_name") == [("safe",)]


@newer
def test_without_a_client_of_its_own_the_one_of_the_call_is_used(agent):
    it = agent()
    it.record(["safe"], logging_client=None)
    it.run("safe", x=1)
    assert it.recorded("tool_name") == [("safe",)]


@newer
def test_a_required_record_that_is_refused_denies_the_tool(agent, network):
    network.ledger.topics.clear()
    it = agent()
    it.record(["danger"], required=True)
    response = it.run("danger", path="/")
    assert it.world.ran == []
    assert "could not be recorded" in response.error


@newer
def test_a_tool_that_a_hook_stops_between_its_steps_has_not_been_executed(agent):
    from otelhooks import hooks

    class Stop(hooks.AbstractHook):
        relevant_tools = ("danger",)

        async def post_core_action_hook(self, context: Any, params: Any, method: str) -> None:
            raise ValueError("no")

    it = agent()
    it.record(["*"], executed_only=True)
    with otelhooks.scope(hooks=[Stop()]):
        assert it.run("danger", path="/").error is not None
    assert it.world.ran == []
    assert it.recorded("tool_name") == []


@newer
@pytest.mark.filterwarnings("ignore:Field 'lifespan'")  # mcp 1.26 under newer pydantic-settings
@pytest.mark.parametrize("name", ["direct", "langchain", "agent", "adk", "mcp"])
def test_the_mode_is_known_on_each_way_to_a_tool(network, tmp_path, monkeypatch, name):
    import inspect

    from tests.frameworks import hedera_world
    from tests.frameworks.contract import Ask

    paths = {
        "direct": hedera_world.direct_path,
        "langchain": hedera_world.langchain_path,
        "agent": hedera_world.agent_path,
        "adk": hedera_world.adk_path,
        "mcp": hedera_world.mcp_path,
    }
    returning_bytes = Context(account_id="0.0.2", mode=AgentMode.RETURN_BYTES)
    monkeypatch.setattr(hedera_world, "Context", lambda **_: returning_bytes)
    hook = HcsAuditTrailHook(["danger", "*/danger"], TOPIC, network.client(), spool=tmp_path)
    # The kit's own version of ADK is older than those that its adapter supports.
    otelhooks.instrument(hooks=[hook], frameworks={"google_adk": "off"})
    try:
        world = World((Ask("danger", {"path": "/"}),), "done")
        run = paths[name](Phased)(world)

        async def main() -> None:
            answer = run("go")
            if inspect.isawaitable(answer):
                await answer

        asyncio.run(main())
        assert world.ran == []
        assert "RETURN_BYTES" in world.told
    finally:
        otelhooks.uninstrument()
        hook.close(1.0)


class InContext:
    """The hook in place of the kit's own one, with nothing instrumented."""

    def __init__(self, agent: Any, mode: Any) -> None:
        self.agent = agent(mode=mode)
        network, spool = self.agent._network, self.agent._spool
        self.agent.hook = HcsAuditTrailHook(
            ["safe", "danger"], TOPIC, network.client(), spool=spool
        )
        self.agent.api.context.hooks.append(self.agent.hook)


@newer
def test_in_a_context_of_the_kit_it_records_what_ran(agent):
    it = InContext(agent, AgentMode.AUTONOMOUS).agent
    it.run("safe", x=1)
    it.run("broken", x=1)
    assert it.recorded("tool_name", "outcome", "arguments") == [("safe", "ok", {"x": 1})]


@newer
def test_in_a_context_of_the_kit_it_refuses_to_return_bytes(agent):
    it = InContext(agent, AgentMode.RETURN_BYTES).agent
    assert "RETURN_BYTES" in it.run("danger", path="/").error
    assert it.world.ran == []
