"""Many agents, two tiers of collectors, one trace store: the shipped files as real processes."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, Prometheus, eventually_equal, own_metric
from tests.e2e.conftest import TO_STORE
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import HOST, Stack, write_secret
from tests.e2e.stack.webhook import Webhook
from tests.fleet.turns import Sent, send_turns

WITNESS = str(Path(__file__).with_name("witness.yaml"))
GATEWAYS_QUEUE = {"exporter": "load_balancing/gateways"}
KAFKA_QUEUE = {"exporter": "kafka/traces"}


class Fleet:
    """Collectors beside the agents, gateways behind them, Jaeger and Prometheus.

    Args:
        folder: Takes state, secrets and logs.
        binaries: Program by name.
        webhook: For the stack underneath; no alert is looked at here.
        kafka: Address of a broker that stands between the tiers; None: agents' collectors send to
            gateways.
        settings: Variables that shall differ, for every process.
        agents: How many collectors beside agents.
        gateways: How many gateways.
        overlays: Files of ``collector/`` on top of the gateways'.

    Attributes:
        stack: Jaeger and Prometheus; its own collector is not started.
        agents: Collectors beside agents.
        gateways: Each with a file of what it was given.
        store: Jaeger.
        prometheus: Prometheus.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Mapping[str, Path],
        webhook: Webhook,
        kafka: str | None = None,
        settings: Mapping[str, str] | None = None,
        agents: int = 2,
        gateways: int = 2,
        overlays: Sequence[str] = (),
    ) -> None:
        self.stack = Stack(folder, binaries, webhook, settings)
        self._folder, self._kafka, self._overlays = folder, kafka, overlays
        self.token_file = folder / "secrets" / "gateway_token"
        write_secret(self.token_file, secrets.token_urlsafe(32))
        between = {"KAFKA_BROKERS": f"[{kafka}]"} if kafka else {}
        self.gateways = [self._gateway(f"gateway-{number}", between) for number in range(gateways)]
        addresses = (f"{HOST}:{each.environment['OTELCOL_GRPC_PORT']}" for each in self.gateways)
        to = between or {
            "GATEWAYS": f"[{', '.join(addresses)}]",
            "GATEWAY_TOKEN_FILE": str(self.token_file),
        }
        tier = "kafka.yaml" if kafka else "agent.yaml"
        self.agents = [
            self.stack.collector(f"agent-{number}", ("single.yaml", tier), to)
            for number in range(agents)
        ]
        self.store = Jaeger(self.stack.url("JAEGER_PORT"))
        self.prometheus = Prometheus(self.stack.settings["PROMETHEUS_URL"])

    def _gateway(self, name: str, between: Mapping[str, str]) -> Process:
        files = ("gateway.yaml", "kafka-gateway.yaml") if between else ("gateway.yaml",)
        own = {
            "OTLP_TOKEN_FILE": str(self.token_file),
            "WITNESS_FILE": str(self._folder / f"{name}.jsonl"),
            "WITNESS_RECEIVER": "kafka" if between else "otlp",
        }
        return self.stack.collector(name, (*files, *self._overlays, WITNESS), {**between, **own})

    # --- Starting and stopping -------------------------------------------------------------------

    @property
    def jaeger(self) -> Process:
        return self.stack.processes["jaeger"]

    def start(self) -> None:
        """Start the back ends, then the gateways, then the agents' collectors."""
        for process in (self.jaeger, self.stack.processes["prometheus"]):
            process.start()
        for process in (*self.gateways, *self.agents):
            process.start()

    def stop(self) -> None:
        """Stop all, senders first."""
        for tier in (self.agents, self.gateways):
            for process in tier:
                process.ask_to_stop()
            for process in tier:
                process.stop()
        self.jaeger.kill()  # it takes ten seconds to end, and what it holds is done with
        self.stack.stop()

    # --- Sending ---------------------------------------------------------------------------------

    def send(self, service: str, turns: int, denied: int, senders: int = 4) -> Sent:
        """Send turns to all agents' collectors, as `send_turns` does."""
        urls = [url(agent, "OTELCOL_HTTP_PORT") for agent in self.agents]
        return send_turns(urls, self.stack.token, service, turns, denied, senders)

    def environment(self, agent: int) -> dict[str, str]:
        """Return what points ``otelhooks.instrument()`` at one of the agents' collectors."""
        own = {"OTEL_EXPORTER_OTLP_ENDPOINT": url(self.agents[agent], "OTELCOL_HTTP_PORT")}
        return {**self.stack.agent_environment(), **own}

    # --- What is where ---------------------------------------------------------------------------

    def stored(self, sent: Sent) -> dict[str, frozenset[str]]:
        """Return trace id to span ids of what the trace store has of some senders."""
        return {
            trace_id: frozenset(span["id"] for span in spans)
            for service in sent.services
            for trace_id, spans in self.store.find(service, {}).items()
        }

    def taken(self) -> int:
        """Return how many spans the trace store was given since it started, each time counted."""
        url_ = self.stack.url("JAEGER_METRICS_PORT")
        return int(own_metric(url_, "otelcol_receiver_accepted_spans"))

    def given(self, gateway: int) -> Counter[tuple[str, str]]:
        """Return how often a gateway was given each span, by trace id and span id."""
        path = Path(self.gateways[gateway].environment["WITNESS_FILE"])
        text = path.read_text("utf-8") if path.exists() else ""
        # The last line may be half written.
        lines = text[: text.rfind("\n") + 1].splitlines()
        return Counter(
            (span["traceId"], span["spanId"])
            for line in lines
            for resource in json.loads(line)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        )

    def held_by(self, gateway: int, sent: Sent) -> set[str]:
        """Return the trace ids, of what was sent, that a gateway was given spans of."""
        return {trace_id for trace_id, _ in self.given(gateway)} & sent.turns.keys()

    def events(self) -> Counter[str]:
        """Return how often each decision is in the audit files of the agents' collectors."""
        found = Counter[str]()
        for agent in self.agents:
            path = Path(agent.environment["OTELCOL_STATE"], "audit", "decisions.jsonl")
            if path.exists():
                found += decisions_in(path.read_text("utf-8"))
        return found

    def judged(self, **labels: str) -> int:
        """Return how many turns the gateways have judged since each was started."""
        name = "otelcol_processor_tail_sampling_global_count_traces_sampled"
        return sum(int(metric(gateway, name, **labels)) for gateway in self.gateways)

    def settle(self) -> None:
        """Wait until nothing waits in any queue on disk of a process that runs."""
        eventually_equal(self._queued, 0, 120)

    def _queued(self) -> int:
        name, own = "otelcol_exporter_queue_size", KAFKA_QUEUE if self._kafka else GATEWAYS_QUEUE
        running = (each for each in (*self.agents, *self.gateways) if each.is_running)
        to_store = sum(metric(each, name, **TO_STORE) for each in running)
        return int(to_store + sum(metric(agent, name, **own) for agent in self.agents))


def url(process: Process, port: str) -> str:
    """Return the address behind a collector's port variable."""
    return f"http://{HOST}:{process.environment[port]}"


def metric(process: Process, name: str, **labels: str) -> float:
    """Return a sum over a collector's own metric."""
    return own_metric(url(process, "OTELCOL_METRICS_PORT"), name, **labels)


def decisions_in(text: str) -> Counter[str]:
    """Return how often each decision id is in lines of OTLP JSON."""
    ids = (
        next(iter(attribute["value"].values()))
        for line in text[: text.rfind("\n") + 1].splitlines()
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
        for attribute in record["attributes"]
        if attribute["key"] == semconv.DECISION_ID
    )
    return Counter(ids)


def torn(sent: Sent, stored: Mapping[str, frozenset[str]], among: Sequence[str]) -> set[str]:
    """Return those of some turns that the trace store has parts of, but not all."""
    return {key for key in among if key in stored and stored[key] != sent.turns[key].spans}
