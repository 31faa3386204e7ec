"""The Hedera Agent Kit beside an ADK whose adapter is on: each call is judged once, in one span.

The kit names an older ADK, which its own tests have; this environment lifts that bound.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")
pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from hedera_agent_kit import HederaAgentAPI
from hedera_agent_kit.adk import HederaADKToolkit
from hedera_agent_kit.shared.configuration import Context
from pydantic import BaseModel

from otelhooks import policy
from otelhooks.frameworks.google_adk import scripted
from otelhooks.records import semconv
from tests.frameworks.contract import World
from tests.frameworks.hedera_world import Client, OneStep, Phased, configured, tools_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(120),
]
REASON, ANSWER = "Not that one.", "done"
BOTH = ["hedera_agent_kit", "google_adk"]


def play(tools: list[Any], place: str, *steps: Any) -> None:
    """Run an agent that has tools, itself, as a tool, or as a sub-agent."""
    left = iter(steps)
    toolkit = HederaADKToolkit(Client(), configured(tools)).get_tools()
    agent = LlmAgent(
        name="ops", model=scripted.scripted_model(lambda shown: next(left)), tools=toolkit
    )
    if place != "agent":
        transfer = ("transfer_to_agent", {"agent_name": "ops"})
        call = ("ops", {"request": "go"}) if place == "tool" else transfer
        outer = iter([[call], ANSWER])
        agent = LlmAgent(
            name="outer",
            model=scripted.scripted_model(lambda shown: next(outer)),
            tools=[AgentTool(agent)] if place == "tool" else [],
            sub_agents=[agent] if place == "sub-agent" else [],
        )
    events = asyncio.run(scripted.converse(scripted.runner_of(agent), "begin"))
    assert scripted.text_of(events) == ANSWER


def decisions(exporter: Any, name: str) -> list[Any]:
    found = [one for one in exporter.get_finished_spans() if one.name == f"execute_tool {name}"]
    return [one.attributes.get(semconv.POLICY_DECISION) for one in found]


@pytest.mark.parametrize("kind", [OneStep, Phased])
@pytest.mark.parametrize("place", ["agent", "tool", "sub-agent"])
@pytest.mark.parametrize("denied", [True, False])
def test_a_call_has_one_span(
    with_rules: Any, exporter: Any, kind: Any, place: str, denied: bool
) -> None:
    world = World()
    with_rules(policy.deny("danger" if denied else "else", reason=REASON), frameworks=BOTH)
    play(tools_of(world, kind), place, [("danger", {"path": "/"})], ANSWER)
    assert world.bodies == ([] if denied else ["danger"])
    assert decisions(exporter, "danger") == ["deny" if denied else "allow"]


class Paths(BaseModel):
    """Parameters of which the model may leave one out."""

    path: str = "/etc"


def test_rules_judge_the_parameters_that_the_kit_fills_in(with_rules: Any, exporter: Any) -> None:
    world = World()
    tool = OneStep(world.danger)
    tool.parameters = Paths
    rule = policy.deny("danger", when=lambda args: args.get("path") == "/etc", reason=REASON)
    with_rules(rule, frameworks=BOTH)
    play([tool], "agent", [("danger", {})], ANSWER)
    assert world.bodies == []
    assert decisions(exporter, "danger") == ["deny"]


def test_a_call_that_the_body_makes_is_judged_by_itself(with_rules: Any, exporter: Any) -> None:
    """The permit of ADK's seat is for one call: the body of the same tool gets none."""
    world = World()

    async def danger(path: str) -> str:
        """Reach for another path by the API."""
        if path == "/tmp":
            api = HederaAgentAPI(Client(), Context(), [OneStep(world.danger)])
            return str((await api.run("danger", {"path": "/"})).error)
        return world.danger(path)

    rule = policy.deny("danger", when=lambda args: args["path"] == "/", reason=REASON)
    with_rules(rule, frameworks=BOTH)
    play([OneStep(danger)], "agent", [("danger", {"path": "/tmp"})], ANSWER)
    assert world.bodies == []
    assert sorted(decisions(exporter, "danger")) == ["allow", "deny"]
