"""Who may send to a gateway, and to Kafka: by token, and by certificate."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.e2e.asking import eventually, eventually_equal
from tests.e2e.fault_table import AddRow
from tests.e2e.sending import Sender
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import HOST, write_secret
from tests.e2e.test_refusals import export
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import Fleet, url
from tests.fleet.kafka import Kafka
from tests.fleet.turns import Sent

TURNS, DENIED = 20, 4
KEEP_ALL = {"OTELCOL_SAMPLING_PERCENTAGE": "100"}


@pytest.fixture(scope="module")
def fleet(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet(settings=KEEP_ALL, agents=1, gateways=1)
    fleet.start()
    return fleet


@pytest.mark.parametrize("shown", ["none", "wrong", "that of the senders"])
def test_a_gateway_wants_its_own_token(shown: str, fleet: Fleet) -> None:
    (gateway,) = fleet.gateways
    token = {"none": None, "wrong": "wrong", "that of the senders": fleet.stack.token}[shown]
    sender = Sender(url(gateway, "OTELCOL_HTTP_PORT"), token, "stranger")
    address = f"{HOST}:{gateway.environment['OTELCOL_GRPC_PORT']}"

    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
        export(channel, fleet.stack, token)

    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert sender.post("/v1/traces", b"") == 401


def test_an_agents_collector_does_not_take_the_gateways_token(fleet: Fleet) -> None:
    (agent,) = fleet.agents
    token = fleet.token_file.read_text("utf-8")

    assert Sender(url(agent, "OTELCOL_HTTP_PORT"), token, "stranger").post("/v1/traces", b"") == 401


def test_with_a_wrong_token_verdicts_arrive_and_the_log_says_what_is_wrong(
    make_own_fleet: MakeFleet, tmp_path: Path, row: AddRow
) -> None:
    wrong = tmp_path / "token"
    write_secret(wrong, "wrong\n")
    fleet = make_own_fleet(settings=KEEP_ALL, agents=1, gateways=1)
    (agent,) = fleet.agents
    agent.environment["GATEWAY_TOKEN_FILE"] = str(wrong)
    fleet.start()
    sent = fleet.send("wrong-token", TURNS, DENIED)

    eventually(lambda: "code = Unauthenticated" in agent.log.read_text("utf-8"))
    only = {key: frozenset({turn.deny}) for key, turn in sent.denied.items()}
    eventually_equal(lambda: fleet.stored(sent), only)
    row(
        "gateways refuse the token that an agent's collector shows",
        "every deny; the log says why; turns are dropped",
        str(sent),
        f"{len(only)} denies, `Unauthenticated` in the log, 0 turns whole",
    )


# --- Certificates --------------------------------------------------------------------------------


def shows(process: Process, part: str, folder: Path, name: str) -> None:
    """Let a collector's sending side show a certificate, and take those of our authority."""
    process.environment |= {
        f"{part}_INSECURE": "false",
        f"{part}_CA": str(folder / "ours.crt"),
        f"{part}_CERT": str(folder / f"{name}.crt"),
        f"{part}_KEY": str(folder / f"{name}.key"),
    }


def assert_whole(fleet: Fleet, sent: Sent) -> None:
    expected = {key: turn.spans for key, turn in sent.turns.items()}
    eventually_equal(lambda: fleet.stored(sent), expected, 120)


def test_a_gateway_with_tls_wants_a_certificate_of_our_authority(
    make_own_fleet: MakeFleet, certificates: Path
) -> None:
    """A stranger is refused; the gateway gets nothing from it, the trace store its verdicts."""
    fleet = make_own_fleet(settings=KEEP_ALL, agents=1, gateways=1, overlays=("tls.yaml",))
    (agent,), (gateway,) = fleet.agents, fleet.gateways
    gateway.environment |= {
        "OTELCOL_CERT": str(certificates / "server.crt"),
        "OTELCOL_KEY": str(certificates / "server.key"),
        "OTELCOL_CLIENT_CA": str(certificates / "ours.crt"),
    }
    shows(agent, "GATEWAY", certificates, "client")
    fleet.start()
    assert_whole(fleet, fleet.send("client", TURNS, DENIED))

    def failures() -> int:
        """Of connections; that the gateway says why is not always read before it hangs up."""
        return agent.log.read_text("utf-8").count("createTransport failed to connect")

    agent.stop()
    shows(agent, "GATEWAY", certificates, "stranger")
    given, before = fleet.given(0), failures()
    agent.start()
    sent = fleet.send("stranger", TURNS, DENIED)
    eventually(lambda: failures() > before + 1)
    assert fleet.given(0) == given
    only = {key: frozenset({turn.deny}) for key, turn in sent.denied.items()}
    eventually_equal(lambda: fleet.stored(sent), only)


def test_kafka_wants_a_certificate_of_our_authority(
    make_own_fleet: MakeFleet, certificates: Path, kafka: Kafka
) -> None:
    """On both sides; a stranger is refused, what it was to send goes out with the right one."""
    fleet = make_own_fleet(kafka=kafka.tls_address, settings=KEEP_ALL, agents=1, gateways=1)
    (agent,), (gateway,) = fleet.agents, fleet.gateways
    shows(gateway, "KAFKA", certificates, "client")
    shows(agent, "KAFKA", certificates, "stranger")
    fleet.start()
    sent = fleet.send("kafka-stranger", TURNS, DENIED)

    only = {key: frozenset({turn.deny}) for key, turn in sent.denied.items()}
    eventually_equal(lambda: fleet.stored(sent), only)
    eventually(lambda: "kafka records export failed" in agent.log.read_text("utf-8"))
    assert not fleet.given(0)
    agent.stop()
    shows(agent, "KAFKA", certificates, "client")
    agent.start()
    assert_whole(fleet, sent)
