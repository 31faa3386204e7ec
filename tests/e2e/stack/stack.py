"""Collector, Jaeger, Prometheus and Alertmanager with the files of ``collector/``, on loopback.

Every server gets the shipped file itself. What differs between machines goes in by the variables
of those files; Prometheus and Alertmanager, which have none, look for targets and secrets beside
their file, so theirs is reached by a link in a folder of this stack.
"""

from __future__ import annotations

import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.stack.build import ROOT
from tests.e2e.stack.process import Process, StartError
from tests.e2e.stack.webhook import Webhook
from tests.ports import free_ports

FILES = ROOT / "collector"
HOST = "127.0.0.1"
PORTS = (
    *("OTELCOL_GRPC_PORT", "OTELCOL_HTTP_PORT", "OTELCOL_METRICS_PORT", "OTELCOL_HEALTH_PORT"),
    *("JAEGER_PORT", "JAEGER_OTLP_PORT", "JAEGER_QUERY_PORT"),
    *("JAEGER_HEALTH_PORT", "JAEGER_METRICS_PORT"),
    *("PROMETHEUS_PORT", "ALERTMANAGER_PORT"),
)
PROMETHEUS_FLAGS = ("--web.enable-otlp-receiver", "--enable-feature=exemplar-storage")


class Stack:
    """The servers of one collector, in a folder of their own.

    Args:
        folder: Takes state, secrets and logs; made if it is not there.
        binaries: Program by name; a server without one is left out.
        webhook: Where Alertmanager sends pages and tickets.
        settings: Variables of the shipped files that shall differ.

    Attributes:
        settings: Every variable of the shipped files, as the servers get them.
        processes: The servers by name, in the order they start in.
        left_out: Servers that have no program here.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Mapping[str, Path],
        webhook: Webhook,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._binaries = binaries
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self.token_file = folder / "secrets" / "otlp_token"
        self.settings: dict[str, str] = {
            **dict.fromkeys(("OTELCOL_HOST", "JAEGER_HOST"), HOST),
            **ports,
            "OTELCOL_STATE": str(folder / "otelcol"),
            "JAEGER_STATE": str(folder / "jaeger"),
            "OTLP_TOKEN_FILE": str(self.token_file),
            "TRACES_ENDPOINT": f"{HOST}:{ports['JAEGER_OTLP_PORT']}",
            "PROMETHEUS_URL": f"http://{HOST}:{ports['PROMETHEUS_PORT']}",
            "OTELHOOKS_TRACES_URL": f"http://{HOST}:{ports['JAEGER_PORT']}",
            **(settings or {}),
        }
        self._lay_out(webhook)
        makers = {
            "jaeger": self._jaeger,
            "alertmanager": self._alertmanager,
            "prometheus": self._prometheus,
            "otelcol": self.collector,
        }
        self.processes: dict[str, Process] = {
            name: make() for name, make in makers.items() if name in binaries
        }
        self.left_out = tuple(name for name in makers if name not in binaries)

    # --- Addresses -------------------------------------------------------------------------------

    def url(self, port: str) -> str:
        """Return the address behind a port variable, such as ``JAEGER_PORT``."""
        return f"http://{HOST}:{self.settings[port]}"

    @property
    def token(self) -> str:
        """What agents show to the collector."""
        return self.token_file.read_text("utf-8").strip()

    def agent_environment(self) -> dict[str, str]:
        """Return what points ``otelhooks.instrument()`` at this collector, exporting every second.

        The two of otelhooks are for ``otelhooks doctor --telemetry``.
        """
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url("OTELCOL_HTTP_PORT"),
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{self.token}",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "OTEL_BSP_SCHEDULE_DELAY": "1000",
            "OTELHOOKS_TRACE_STORE": self.url("JAEGER_PORT"),
            "OTELHOOKS_COLLECTOR_METRICS": f"{self.url('OTELCOL_METRICS_PORT')}/metrics",
        }

    # --- Starting and stopping -------------------------------------------------------------------

    def start(self) -> None:
        """Start all servers, each ready before the next.

        Raises:
            StartError: One did not start; those before it run on until `stop`.
        """
        for name, process in self.processes.items():
            process.start()
            if name == "prometheus":
                require_otlp_receiver(self.settings["PROMETHEUS_URL"])

    def stop(self) -> None:
        """Stop the collector, so that what it holds still arrives, then the others at once."""
        order = tuple(reversed(self.processes.values()))
        for process in order[:1]:
            process.stop()
        for process in order:
            process.ask_to_stop()
        for process in order:
            process.stop()

    # --- Servers ---------------------------------------------------------------------------------

    def collector(
        self,
        name: str = "otelcol",
        files: Sequence[str] = ("single.yaml",),
        settings: Mapping[str, str] | None = None,
    ) -> Process:
        """Return a collector with files of ``collector/``, not started.

        Args:
            name: Of its log; another one than ``otelcol`` gets ports and state of its own.
            files: Merged in this order.
            settings: Variables that shall differ from those of the stack.
        """
        own = dict(self.settings)
        if name != "otelcol":
            ports = [port for port in PORTS if port.startswith("OTELCOL_")]
            own |= dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
            own["OTELCOL_STATE"] = str(self.folder / name)
        own |= settings or {}
        configs = (f"--config={FILES / file}" for file in files)
        ready = f"http://{HOST}:{own['OTELCOL_HEALTH_PORT']}/ready"
        return self._process(name, "otelcol", (*configs,), ready, own)

    def _jaeger(self) -> Process:
        ready = f"{self.url('JAEGER_HEALTH_PORT')}/status"
        return self._process("jaeger", "jaeger", (f"--config={FILES / 'jaeger.yaml'}",), ready)

    def _prometheus(self) -> Process:
        folder = self.folder / "prometheus"
        arguments = (
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{self.settings['PROMETHEUS_PORT']}",
            *PROMETHEUS_FLAGS,
        )
        ready = f"{self.url('PROMETHEUS_PORT')}/-/ready"
        return self._process("prometheus", "prometheus", arguments, ready)

    def _alertmanager(self) -> Process:
        folder = self.folder / "alertmanager"
        arguments = (
            f"--config.file={folder / 'alertmanager.yaml'}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{self.settings['ALERTMANAGER_PORT']}",
            "--cluster.listen-address=",
        )
        ready = f"{self.url('ALERTMANAGER_PORT')}/-/ready"
        return self._process("alertmanager", "alertmanager", arguments, ready, folder=folder)

    def _process(
        self,
        name: str,
        program: str,
        arguments: Sequence[str],
        ready: str,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Process:
        inherited = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        return Process(
            name,
            (str(self._binaries[program]), *arguments),
            {**inherited, **(self.settings if settings is None else settings)},
            folder or self.folder,
            self.folder / "logs" / f"{name}.log",
            ready,
        )

    # --- Files -----------------------------------------------------------------------------------

    def _lay_out(self, webhook: Webhook) -> None:
        for name in ("logs", "secrets", "otelcol", "jaeger", "prometheus", "alertmanager"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        prometheus, alertmanager = self.folder / "prometheus", self.folder / "alertmanager"
        for file in ("prometheus.yaml", "rules.yaml"):
            (prometheus / file).symlink_to(FILES / file)
        targets = {"collector": "OTELCOL_METRICS_PORT", "alertmanager": "ALERTMANAGER_PORT"}
        (prometheus / "targets").mkdir()
        for name, port in targets.items():
            target = f'- targets: ["{HOST}:{self.settings[port]}"]\n'
            (prometheus / "targets" / f"{name}.yaml").write_text(target, "utf-8")
        (alertmanager / "alertmanager.yaml").symlink_to(FILES / "alertmanager.yaml")
        (alertmanager / "secrets").mkdir()
        write_secret(self.token_file, secrets.token_urlsafe(32))
        write_secret(alertmanager / "secrets" / "webhook_token", webhook.token)
        for kind in ("oncall", "ticket"):
            write_secret(alertmanager / "secrets" / f"{kind}_url", f"{webhook.url}/{kind}")


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def require_otlp_receiver(prometheus_url: str) -> None:
    """Refuse a Prometheus that takes no OTLP: the collector would drop all metrics.

    Raises:
        StartError: It has no such receiver.
    """
    request = urllib.request.Request(
        f"{prometheus_url}/api/v1/otlp/v1/metrics",
        data=b"",
        headers={"Content-Type": "application/x-protobuf"},
        method="POST",
    )
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                raise StartError(
                    f"prometheus at {prometheus_url} has no OTLP receiver, metrics would be lost\n"
                    "hint: start it with `--web.enable-otlp-receiver`"
                ) from error
