"""The console: its pages beside a large store, its start, and what an agent pays while it is open.

The store has what 2,500 turns left, about 100,000 spans. A page's time is the best of some, over
HTTP in this process. An agent's cost is its CPU time for a number of calls, with a browser that
reads three pages a second and without, in turns; the least of each counts.
"""

from __future__ import annotations

import http.cookiejar
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otelhooks.store.writer import SqliteSpanExporter
from tests.bench.measure import Row
from tests.bench.store import BATCH, make_spans

PAGES = ("", "?tool=none", "?text=none", "runs", "decisions", "approvals", "policy")
CALLS = 4_000
PAGE_MS, START_S, RATIO = 100, 1, 1.05

POLICY = "version: 1\npolicies: [{allow: view_file, id: safe-reads}, {deny: remove}]\n"
AGENT = """
import sys, time
import otelhooks
from otelhooks import policy

otelhooks.instrument(policies=[policy.deny("remove")])

@otelhooks.tool
def view_file(path): return path

for line in sys.stdin:
    began = time.process_time()
    for number in range(int(line)):
        view_file("a")
        time.sleep(0.001)
    print(time.process_time() - began, flush=True)
"""


def measure(rounds: int) -> list[Row]:
    """Return the rows of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exporter = SqliteSpanExporter(folder / "store.db")
        for _ in range(5):
            spans = make_spans()
            for first in range(0, len(spans), BATCH):
                exporter.export(spans[first : first + BATCH])
        exporter.shutdown()
        (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
        command = [sys.executable, "-m", "otelhooks", "ui", "--port", "0"]
        command += ["--store", "store.db", "--policy", "policy.yaml"]
        began = time.perf_counter()
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(command, cwd=folder, **pipes) as console:
            assert console.stdout is not None
            address = console.stdout.readline().strip()
            jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
            browser = urllib.request.build_opener(jar)

            def read(page: str) -> float:
                start = time.perf_counter()
                with browser.open(address.partition("?")[0] + page, timeout=60) as answer:
                    answer.read()
                return time.perf_counter() - start

            browser.open(address).read()
            started = time.perf_counter() - began
            best = {page: min(read(page) for _ in range(max(rounds, 3))) for page in PAGES}
            slowest = max(best, key=lambda page: best[page])
            ratio = _cost(folder, read, max(rounds // 3, 2))
            console.terminate()
    said = ", ".join(f"/{page} {seconds * 1e3:.0f}" for page, seconds in best.items())
    return [
        Row("slowest page of the console", best[slowest] * 1e3, PAGE_MS, "ms", said),
        Row("start to first page", started, START_S, "s", ""),
        Row("an agent's CPU, console open of closed", ratio, RATIO, "", ""),
    ]


def _cost(folder: Path, read: Callable[[str], float], rounds: int) -> float:
    """Return an agent's CPU time with a browser open, of that without."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    env = {"OTELHOOKS_STORE": str(folder / "store.db"), "OTELHOOKS_ANNOUNCE": "false"}
    agent = subprocess.Popen([sys.executable, "-c", AGENT], env=env, **pipes)
    assert agent.stdin is not None
    assert agent.stdout is not None
    times: dict[bool, list[float]] = {True: [], False: []}
    with agent, agent.stdin:
        for is_open in (False, *[True, False] * rounds):
            closed = threading.Event()
            looking = threading.Thread(target=_look, args=(read, closed))
            if is_open:
                looking.start()
            agent.stdin.write(f"{CALLS}\n")
            agent.stdin.flush()
            times[is_open].append(float(agent.stdout.readline()))
            closed.set()
            if is_open:
                looking.join()
    return min(times[True]) / min(times[False])


def _look(read: Callable[[str], float], closed: threading.Event) -> None:
    while not closed.wait(1):
        for page in ("live", "approvals/waiting", "approvals/count"):
            read(page)
