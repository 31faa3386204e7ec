"""One Kafka node with the topics of a fleet, and what is in them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import HOST
from tests.ports import free_ports

SPANS, AUDIT = "otlp_spans", "otelhooks-audit"
"""Topics by the names that `collector/kafka.yaml` gives them where nothing else is said."""
PARTITIONS = 4
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{plain},SSL://{host}:{tls},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{plain},SSL://{host}:{tls}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={authority}
log.dirs={folder}/data
message.max.bytes=8388608
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Broker(Process):
    """Kafka's process; it is ready when it listens."""

    def _answers(self) -> bool:
        host, _, port = self._ready_url.rpartition(":")
        try:
            socket.create_connection((host, int(port)), 2).close()
        except OSError:
            return False
        return True


class Kafka:
    """A node that is broker and controller, with a listener in plain text and one with mutual TLS.

    Args:
        folder: Takes data and log.
        archives: Folder of Kafka's archives.
        certificates: Folder with ``server.crt``, ``server.key`` and the authority ``ours.crt``.

    Attributes:
        address: Where it listens in plain text.
        tls_address: Where it wants a certificate.
        process: To stop, kill and start again.
    """

    def __init__(self, folder: Path, archives: Path, certificates: Path) -> None:
        java = shutil.which("java")
        assert java, "building Kafka has looked for Java"
        self._folder = folder
        self._java = (java, "-Xmx512m", "-cp", f"{archives}/*")
        plain, tls, controller = free_ports(3)
        self.address, self.tls_address = f"{HOST}:{plain}", f"{HOST}:{tls}"
        self._properties = folder / "server.properties"
        ports = {"plain": plain, "tls": tls, "controller": controller}
        authority = certificates / "ours.crt"
        text = PROPERTIES.format(host=HOST, folder=folder, authority=authority, **ports)
        self._properties.write_text(text, "utf-8")
        pair = (certificates / f"server.{kind}" for kind in ("key", "crt"))
        (folder / "server.pem").write_text("".join(part.read_text("utf-8") for part in pair))
        self.process = Broker(
            "kafka",
            (*self._java, "kafka.Kafka", str(self._properties)),
            {"LC_ALL": "C.UTF-8"},
            folder,
            folder / "kafka.log",
            self.address,
        )

    def start(self) -> None:
        """Start with empty topics."""
        cluster = ("--cluster-id", "b3RlbGhvb2tzLWZsZWV0MQ")
        self._run("kafka.tools.StorageTool", "format", *cluster, "--config", str(self._properties))
        self.process.start()
        for topic in (SPANS, AUDIT):
            self._run(
                "org.apache.kafka.tools.TopicCommand",
                *("--bootstrap-server", self.address, "--create", "--topic", topic),
                *("--partitions", str(PARTITIONS)),
            )

    def stop(self) -> None:
        self.process.stop()

    def read(self, topic: str) -> str:
        """Return the messages of a topic, one a line, from its beginning to its end."""
        return self._run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.address, "--topic", topic),
            *("--from-beginning", "--timeout-ms", "10000"),
        )

    def _run(self, tool: str, *arguments: str) -> str:
        command = (*self._java, tool, *arguments)
        ended = subprocess.run(command, cwd=self._folder, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout
