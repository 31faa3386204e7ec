"""What is wrong in a fleet's settings is refused at the start, by a message that names the key."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.test_collector_files import COMBINATIONS
from tests.e2e.stack.process import Process, StartError
from tests.e2e.stack.stack import FILES
from tests.fleet.conftest import MakeFleet


def refused(process: Process, **settings: str) -> str:
    """Start a collector with other settings; return why it ended."""
    process.environment |= settings
    try:
        with pytest.raises(StartError) as error:
            process.start(20)
    finally:
        process.stop()
    return str(error.value)


@pytest.fixture
def agent(make_own_fleet: MakeFleet) -> Process:
    return make_own_fleet().agents[0]


@pytest.fixture
def gateway(make_own_fleet: MakeFleet) -> Process:
    return make_own_fleet().gateways[0]


@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_the_shipped_files_are_right(
    names: tuple[str, ...], binaries: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n", "utf-8")
    configs = (f"--config={FILES / name}.yaml" for name in names)

    ended = subprocess.run(
        (str(binaries["otelcol"]), "validate", *configs),
        env={"GATEWAY_TOKEN_FILE": str(tmp_path / "token")},
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_a_gateways_secret_that_is_not_there(gateway: Process, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")

    assert f"open {missing}: no such file" in refused(gateway, OTLP_TOKEN_FILE=missing)


def test_a_secret_for_gateways_that_is_not_there(agent: Process, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")

    assert f"open {missing}: no such file" in refused(agent, GATEWAY_TOKEN_FILE=missing)


@pytest.mark.parametrize("none", ["", "[]"])
def test_no_gateways(none: str, agent: Process) -> None:
    message = refused(agent, GATEWAYS=none)

    assert "load_balancing/gateways" in message
    assert "no endpoints specified for the static resolver" in message


@pytest.mark.parametrize(
    ("tier", "brokers", "words"),
    [
        ("agent", "[]", "brokers must be specified"),
        ("gateway", "[]", "brokers must be specified"),
        ("agent", "[127.0.0.1:port]", "unable to parse port from addr"),
    ],
)
def test_a_wrong_list_of_brokers(
    tier: str, brokers: str, words: str, make_own_fleet: MakeFleet
) -> None:
    fleet = make_own_fleet(kafka="127.0.0.1:9")

    message = refused(getattr(fleet, f"{tier}s")[0], KAFKA_BROKERS=brokers)

    assert "kafka" in message
    assert words in message


def test_a_certificate_for_gateways_that_is_not_there_is_named_in_the_log(
    agent: Process, tmp_path: Path
) -> None:
    """It starts, so that verdicts go on; turns wait on disk."""
    missing = tmp_path / "none.crt"
    agent.environment |= {"GATEWAY_INSECURE": "false", "GATEWAY_CA": str(missing)}
    agent.start()
    agent.stop()

    assert f"failed to load CA CertPool File: failed to load cert {missing}" in agent.log.read_text(
        "utf-8"
    )
