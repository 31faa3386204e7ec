"""Kafka as `docker-compose.yml` has it: what its image makes of the variables, and the topics.

The image writes its configuration by a class of Kafka's own archives, so that class is run here;
what its start script does besides is not.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_compose import STARTED, script
from tests.e2e.stack.build import KAFKA, build
from tests.e2e.stack.stack import HOST
from tests.fleet.kafka import AUDIT, PARTITIONS, SPANS, Broker
from tests.ports import free_ports

COMPOSED: dict[str, Any] = STARTED["kafka"]["kafka"]


class Java:
    """Programs of Kafka's archives."""

    def __init__(self) -> None:
        java = shutil.which("java")
        archives = build(KAFKA)["archives"]
        assert java, "building Kafka has looked for Java"
        self.command = (java, "-Xmx512m", "-cp", f"{archives}/*")

    def run(self, *arguments: str, **environment: str) -> str:
        ended = subprocess.run(
            (*self.command, *arguments),
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def java() -> Java:
    return Java()


@pytest.fixture(scope="module")
def address(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker set up by compose's variables, but for ports and folder: where it listens."""
    folder = tmp_path_factory.mktemp("composed")
    for name in ("default", "mounted", "final"):
        (folder / name).mkdir()
    plain, controller = map(str, free_ports(2))
    others = {
        "kafka:9092": f"{HOST}:{plain}",
        ":9092": f"{HOST}:{plain}",
        ":9093": f":{controller}",
    }
    (data,) = (each.partition(":")[2] for each in COMPOSED["volumes"])
    others[data] = str(folder / "data")
    environment: dict[str, str] = COMPOSED["environment"]
    for old, new in others.items():
        environment = {key: value.replace(old, new) for key, value in environment.items()}
    java.run(
        "kafka.docker.KafkaDockerWrapper",
        "setup",
        *("--default-configs-dir", str(folder / "default")),
        *("--mounted-configs-dir", str(folder / "mounted")),
        *("--final-configs-dir", str(folder / "final")),
        CLUSTER_ID="5L6g3nShT-eMCtK--X86sw",  # the image's, where none is given
        **environment,
    )
    broker = Broker(
        "kafka",
        (*java.command, "kafka.Kafka", str(folder / "final" / "server.properties")),
        {"LC_ALL": "C.UTF-8"},
        folder,
        folder / "kafka.log",
        f"{HOST}:{plain}",
    )
    try:
        broker.start()
        yield f"{HOST}:{plain}"
    finally:
        broker.stop()


def make_topics(java: Java, address: str, programs: Path) -> None:
    """Run compose's own script; Kafka's is replaced by what it would start."""
    programs.mkdir(exist_ok=True)
    words = shlex.join((*java.command, "org.apache.kafka.tools.TopicCommand"))
    (programs / "kafka-topics.sh").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (programs / "kafka-topics.sh").chmod(0o755)
    text = script("topics").replace("kafka:9092", address).replace("/opt/kafka/bin", str(programs))
    made = subprocess.run(
        ("sh", "-euc", text), env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr


def test_the_topics_of_a_fleet_are_made_once(java: Java, address: str, tmp_path: Path) -> None:
    """Each `docker compose up` runs the script again. A message may be as large as it is sent."""
    for _ in range(2):
        make_topics(java, address, tmp_path / "programs")

    told = java.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--describe"
    )
    found = {
        topic: (int(partitions), "max.message.bytes=8388608" in settings)
        for topic, partitions, settings in re.findall(
            r"^Topic: (\S+)\t.*PartitionCount: (\d+)\t.*Configs: (\S*)", told, re.MULTILINE
        )
    }
    assert found == {SPANS: (PARTITIONS, True), AUDIT: (PARTITIONS, True)}


def test_no_variable_is_one_that_kafka_does_not_know(java: Java, address: str) -> None:
    """Kafka takes any key in silence; one that it does not know might be a secret, it thinks."""
    told = java.run(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", address, "--entity-type", "brokers", "--entity-name", "1"),
        *("--describe", "--all"),
    )
    known = set(re.findall(r"^  ([\w.]+)=.* sensitive=false", told, re.MULTILINE))
    properties = {
        name.removeprefix("KAFKA_").replace("_", ".").lower()
        for name in COMPOSED["environment"]
        if name.startswith("KAFKA_") and name not in {"KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS"}
    }

    assert properties <= known
