"""What a request through a raw client costs, and when the first of a stream comes.

Each client asks in this process, once whole and once as a stream of some twenty events, bare, under
otelhooks without and with a rule that could deny a call, and under the peer. The times to the first
chunk are of streams whose events come `PAUSE_S` apart: what is held back of them is seen there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from otelhooks import hooks
from tests.bench.measure import Contender, Row, alternate, floor
from tests.bench.sides import ours, peer, project_of
from tests.frameworks.canned import CALLS, CLIENTS, TEXT, Client, Wire

__all__ = ["CLIENTS", "rows"]

REQUESTS = 20  # in a turn
PAUSE_S = 0.005
STREAMS = 15  # of each side, for the times to the first chunk


def rows(client: str, rounds: int) -> list[Row]:
    """Return the rows of a client."""
    asking = CLIENTS[client](Wire(TEXT))
    return [
        *_costs(client, f"{client}, a request", asking.create, rounds),
        *_costs(client, f"{client}, a stream", lambda: list(asking.stream()), rounds),
        *_first_chunks(client),
    ]


def _costs(client: str, what: str, ask: Callable[[], object], rounds: int) -> list[Row]:
    """Return what otelhooks adds to one way to ask, with and without a rule."""

    def work(calls: int) -> None:
        for _ in range(calls):
            ask()

    sides = {
        "floor": floor(),
        "bare": Contender(work, REQUESTS),
        "a rule": ours(client, work, REQUESTS),
        "no rule": ours(client, work, REQUESTS, policies=()),
        "peer": peer(client, work, REQUESTS),
    }
    times = alternate(sides, rounds)
    return [
        times.row(what, None, "a rule", "floor", "bare"),
        times.row("  without a rule", None, "no rule", "floor", "bare"),
        times.row(f"  beside {project_of(client)}'s", None, "a rule", "peer", "bare"),
        times.row("    without a rule", None, "no rule", "peer", "bare"),
    ]


@hooks.post_model_call_transform
def unchanged(answer: object) -> object:
    """Leave an answer as it is, which is known when it is whole."""
    return answer


def _first_chunks(client: str) -> list[Row]:
    """Return how much later than from the bare client the first text, or call, comes."""
    sides = {
        "bare": Contender(_nothing, 0),
        "no rule": ours(client, _nothing, 0, policies=()),
        "a rule": ours(client, _nothing, 0),
        "a hook that may change the answer": ours(client, _nothing, 0, hooks=[unchanged]),
        f"{project_of(client)}'s": peer(client, _nothing, 0),
    }
    found: list[Row] = []
    for shown, step in (("text", TEXT), ("call", CALLS)):
        wire = Wire(step, PAUSE_S)
        asking = CLIENTS[client](wire)
        waits: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(STREAMS):
            for name, side in sides.items():
                waits[name].append(_wait(asking, shown, side))
        bare = statistics.median(waits.pop("bare"))
        note = f"bare after {bare * 1e3:.0f} ms; {wire.sent} events"
        found += [
            Row(
                f"  first {shown}, {name}",
                (statistics.median(times) - bare) * 1e3,
                None,
                "ms",
                note,
            )
            for name, times in waits.items()
        ]
    return found


def _nothing(calls: int) -> None:
    """Do nothing."""


def _wait(asking: Client, shown: str, side: Contender) -> float:
    """Return the seconds until a stream shows something for the first time."""
    side.on()
    started, first = time.perf_counter(), 0.0
    for what in asking.stream():
        if what == shown and not first:
            first = time.perf_counter()
    side.off()
    side.flush()
    return first - started
