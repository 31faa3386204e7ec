"""Gateways that agents' collectors find by one name, in place of a list."""

from __future__ import annotations

from tests.e2e.asking import eventually_equal
from tests.fleet.conftest import MakeFleet

TURNS, DENIED = 50, 5


def test_what_the_name_resolves_to_gets_the_turns(make_own_fleet: MakeFleet) -> None:
    fleet = make_own_fleet(agents=0, gateways=1, settings={"OTELCOL_SAMPLING_PERCENTAGE": "100"})
    agent = fleet.stack.collector(
        "agent-dns",
        ("single.yaml", "agent.yaml", "agent-dns.yaml"),
        {
            "GATEWAY_HOST": "localhost",
            "GATEWAY_PORT": fleet.gateways[0].environment["OTELCOL_GRPC_PORT"],
            "GATEWAY_TOKEN_FILE": str(fleet.token_file),
        },
    )
    fleet.agents.append(agent)
    fleet.start()
    sent = fleet.send("by-name", TURNS, DENIED)

    whole = {key: turn.spans for key, turn in sent.turns.items()}
    eventually_equal(lambda: fleet.stored(sent), whole, 120)
    assert fleet.held_by(0, sent) == sent.turns.keys()
