"""What a span costs in each shipped collector configuration: ``python -m tests.bench.collector``.

Each configuration runs as a collector of its own, between a sender of agents' turns and a sink that
counts what arrives. They take turns, round after round and each time in another order; a collector
that takes OTLP and passes it on, and does nothing else, is one of them. A figure is the CPU of the
collector's process from the first span of a round until all are sent on, by spans received; what
counts is its ratio to the bare one in the same round, since times follow how busy the machine is.

Sender and sink share the cores with the collector, so what it takes in a second is less than on a
machine of its own; `a core` is what its CPU time allows. Linux only: times are read from /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.collector_kafka import broker
from tests.bench.collector_load import TURNS, Connection, send, turns
from tests.e2e.asking import eventually, own_metric
from tests.e2e.stack.build import RECIPES, BuildError, build, built
from tests.e2e.stack.process import Process, StartError
from tests.e2e.stack.stack import HOST, Stack
from tests.e2e.stack.webhook import Webhook
from tests.ports import free_ports

HERE = Path(__file__).parent
BARE = "bare, OTLP to OTLP"
CHAINS: tuple[Mapping[str, Sequence[str]], ...] = (
    {BARE: (str(HERE / "bare.yaml"),)},
    {"single": ("single.yaml",)},
    {"  without masking": ("single.yaml", str(HERE / "unmasked.yaml"))},
    {"single + agent": ("single.yaml", "agent.yaml")},
    {"gateway": ("gateway.yaml",)},
)
"""Collectors, each between sender and sink: what it is called, and its files."""

WITH_KAFKA: Mapping[str, Sequence[str]] = {
    "single + kafka": ("single.yaml", "kafka.yaml"),
    "gateway + kafka-gateway": ("gateway.yaml", "kafka-gateway.yaml"),
}
"""One behind the other: the second reads what the first wrote."""

HOLDING = {"single": ("single.yaml",), "gateway": ("gateway.yaml",)}
"""Those that hold turns in memory until they have ended."""

SINK = (str(HERE / "bare.yaml"), str(HERE / "sink.yaml"))
SENDING_S = 1.5  # a round
QUIET_S = 1.5  # longer than any batch waits
OPEN_TURNS = 1_000
FRESH = 3  # processes whose memory is looked at
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Burst:
    """What one collector did in one round.

    Attributes:
        spans: How many were acknowledged.
        arrived: How many came to the sink.
        sending_s: Seconds that it was sent to; 0 where it reads what another one wrote.
        sending_cpu_s: Its CPU seconds meanwhile.
        cpu_s: Its CPU seconds until all was sent on.
    """

    spans: int
    arrived: float
    sending_s: float
    sending_cpu_s: float
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of a span."""
        return self.cpu_s / self.spans * 1e6


class Bench:
    """Collectors between a sender and a sink.

    Args:
        folder: Takes their state and logs.
        otelcol: The program.
        webhook: Where alerts would go; there are none.
    """

    def __init__(self, folder: Path, otelcol: Path, webhook: Webhook) -> None:
        self._stack = Stack(folder, {"otelcol": otelcol}, webhook)
        (second,) = free_ports(1)
        self.sink = self._stack.collector("sink", SINK, {"SINK_SECOND_PORT": str(second)})
        ports = self.sink.environment
        first = f"{HOST}:{ports['OTELCOL_GRPC_PORT']}"
        self._settings = {
            "TRACES_ENDPOINT": first,
            "GATEWAYS": f"[{first}, {HOST}:{second}]",
            "GATEWAY_TOKEN_FILE": str(self._stack.token_file),
            "PROMETHEUS_URL": f"http://{HOST}:{ports['OTELCOL_HTTP_PORT']}",
            "OTELCOL_WAIT_AFTER_ROOT": "1s",  # rounds end sooner, at no cost
        }

    @contextmanager
    def running(
        self, name: str, files: Sequence[str], settings: Mapping[str, str] | None = None
    ) -> Generator[Process]:
        """Run a collector that sends to the sink."""
        log = name.strip().replace(" ", "-")
        process = self._stack.collector(log, files, {**self._settings, **(settings or {})})
        try:
            process.start()
            yield process
        finally:
            process.stop()

    def burst(self, chain: Sequence[Process], for_s: float) -> list[Burst]:
        """Send to the first of a chain for so many seconds, and wait until all is at the sink.

        Returns:
            What each of the chain did.
        """
        first, last, request = chain[0], chain[-1], turns()
        before, arrived, came = [*map(cpu_s, chain)], _received(self.sink), _received(last)
        port, started = int(first.environment["OTELCOL_HTTP_PORT"]), time.monotonic()
        spans = request.spans * send(port, self._stack.token, request, for_s)
        sending_s, sending_cpu_s = time.monotonic() - started, cpu_s(first) - before[0]
        eventually(lambda: _received(last) - came >= spans, 120)
        self.settle(last)
        arrived = _received(self.sink) - arrived
        done = [now - was for now, was in zip(map(cpu_s, chain), before, strict=True)]
        return [
            Burst(spans, arrived, sending_s, sending_cpu_s, done[0]),
            *(Burst(spans, arrived, 0, 0, each) for each in done[1:]),
        ]

    def settle(self, process: Process) -> None:
        """Wait until a collector has judged all turns, and nothing comes to the sink any more."""
        eventually(lambda: _turns_held(process) == 0, 120)
        arrived, since = _received(self.sink), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            time.sleep(0.2)
            if (now := _received(self.sink)) != arrived:
                arrived, since = now, time.monotonic()

    def held(self, name: str, files: Sequence[str]) -> float:
        """Return by how many KiB a fresh collector grows for each span of turns that are open."""
        ended, still_open = turns(), turns(ended=False)
        requests = OPEN_TURNS // TURNS
        with self.running(name, files) as process:
            port = int(process.environment["OTELCOL_HTTP_PORT"])
            with closing(Connection(port, self._stack.token)) as connection:
                for _ in range(2):  # what is there once is not counted
                    connection.post(ended.body())
                self.settle(process)
                before = resident_kib(process)
                for _ in range(requests):
                    connection.post(still_open.body())
                eventually(lambda: _turns_held(process) == OPEN_TURNS)
                return (resident_kib(process) - before) / (requests * still_open.spans)


def _metrics(process: Process) -> str:
    return f"http://{HOST}:{process.environment['OTELCOL_METRICS_PORT']}"


def _received(process: Process) -> float:
    """Return how many spans a collector has taken."""
    return own_metric(_metrics(process), "otelcol_receiver_accepted_spans")


def _turns_held(process: Process) -> float:
    """Return how many turns the sampler has not judged; 0 where there is none."""
    sampler = "otelcol_processor_tail_sampling"
    came = own_metric(_metrics(process), f"{sampler}_new_trace_id_received")
    return came - own_metric(_metrics(process), f"{sampler}_global_count_traces_sampled")


def cpu_s(process: Process) -> float:
    """Return the CPU seconds of a process so far: all threads, the kernel's work included."""
    # Behind the name, in brackets because it may hold blanks: user and system time are 14 and 15.
    fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_kib(process: Process) -> int:
    """Return how much memory of a process lies in RAM."""
    status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
    return int(status.partition("VmRSS:")[2].split()[0])


def table(bursts: Mapping[str, Sequence[Burst]]) -> Iterator[str]:
    """Yield a line for each collector, its medians over all rounds.

    Args:
        bursts: By name a burst a round, two at least; `BARE` is among them.
    """
    yield (
        f"{'collector':<24} {'us/span':>8} {'of bare':>8}  {'middle half':<13}"
        f" {'spans/s a core':>14} {'taken/s':>8} {'on cores':>8} {'arrived':>8}"
    )
    for name, rounds in bursts.items():
        pairs = zip(rounds, bursts[BARE], strict=True)
        ratios = [each.cpu_us / bare.cpu_us for each, bare in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        cost = statistics.median(each.cpu_us for each in rounds)
        sent_to = [each for each in rounds if each.sending_s]
        taken = cores = ""
        if sent_to:
            taken = f"{statistics.median(each.spans / each.sending_s for each in sent_to):,.0f}"
            cores = (
                f"{statistics.median(each.sending_cpu_s / each.sending_s for each in sent_to):.2f}"
            )
        arrived = sum(each.arrived for each in rounds) / sum(each.spans for each in rounds)
        yield (
            f"{name:<24} {cost:>8.1f} {middle:>8.2f}  {f'{low:.2f} to {high:.2f}':<13}"
            f" {1e6 / cost:>14,.0f} {taken:>8} {cores:>8} {arrived:>8.1%}"
        )


def measure(bench: Bench, kafka: str | None, rounds: int) -> None:
    """Measure, and print.

    Args:
        bench: With its sink running.
        kafka: A broker's address; None: what needs one is left out.
        rounds: How many.
    """
    kinds = (*CHAINS, WITH_KAFKA) if kafka else CHAINS
    settings = {"KAFKA_BROKERS": f"[{kafka}]"}
    bursts: dict[str, list[Burst]] = {name: [] for kind in kinds for name in kind}
    with ExitStack() as running:
        chains = [
            {
                name: running.enter_context(bench.running(name, files, settings))
                for name, files in kind.items()
            }
            for kind in kinds
        ]
        for chain in chains:
            bench.burst([*chain.values()], 0.5)  # a first one does not count
        shuffle = random.Random(0).shuffle
        for _ in range(rounds):
            shuffle(chains)
            for chain in chains:
                done = bench.burst([*chain.values()], SENDING_S)
                for name, burst in zip(chain, done, strict=True):
                    bursts[name].append(burst)
    for line in table(bursts):
        print(line)
    if not kafka:
        print(
            f"left out, as there is no Kafka (`make e2e-full` brings it): {', '.join(WITH_KAFKA)}"
        )
    print(f"\n{OPEN_TURNS:,} open turns, memory by span held:", flush=True)
    for name, files in HOLDING.items():
        found = sorted(bench.held(f"{name}-{number}", files) for number in range(FRESH))
        shown = ", ".join(f"{kib:.1f}" for kib in found)
        print(f"{name:<24} {statistics.median(found):>8.1f} KiB ({shown})", flush=True)


def main() -> int:
    """Measure all in one run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.collector")
    parser.add_argument("--rounds", type=int, default=6, help="two at least")
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error("fewer than two rounds have no spread")
    recipe = next(recipe for recipe in RECIPES if recipe.name == "otelcol")
    if built(recipe) is None:
        print(f"building otelcol {recipe.version}, some minutes ...", flush=True)
    with ExitStack() as stack:
        try:
            otelcol = build(recipe)["otelcol"]
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="otelhooks-")))
            webhook = stack.enter_context(closing(Webhook()))
            kafka = stack.enter_context(broker(folder))
            bench = Bench(folder, otelcol, webhook)
            stack.callback(bench.sink.stop)
            bench.sink.start()
            load = f"load {os.getloadavg()[0]:.1f}"
            print(f"otelcol {recipe.version}, {os.cpu_count()} cores, {load}\n", flush=True)
            measure(bench, kafka, asked.rounds)
        except (BuildError, StartError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
