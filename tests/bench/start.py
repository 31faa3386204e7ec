"""What `import otelhooks` and `instrument()` add to a program that has its framework and the SDK.

Each start is a process of its own, with the garbage collector off. The first one compiles: it is
not counted, since an installed program has its byte code on disk. A start reads files and makes
classes; how long an empty call takes says little of it, so its time is not scaled. The peer tells
what the machine is like.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from tests.bench.measure import Row

BEFORE = """
import gc, importlib.util, json, os, sys, time
gc.disable()
if importlib.util.find_spec("agents"):
    import agents
import opentelemetry.exporter.otlp.proto.http.trace_exporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
tracers, meters = TracerProvider(), MeterProvider()
before = set(sys.modules)
started = time.process_time()
"""
OURS = """
import otelhooks
from otelhooks import policy
otelhooks.instrument(
    policies=[policy.deny("run_command")], tracer_provider=tracers, meter_provider=meters
)
"""
PEER = """
from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor
OpenAIAgentsInstrumentor().instrument(tracer_provider=tracers, meter_provider=meters)
"""
AFTER = """
took, added = time.process_time() - started, len(set(sys.modules) - before)
print(json.dumps([took, added]), flush=True)
os._exit(0)
"""


def start(script: str, byte_code: str) -> tuple[float, int] | None:
    """Start one process.

    Args:
        script: What is measured.
        byte_code: Folder in which byte code is kept from one start to the next.

    Returns:
        CPU seconds and modules; None if it fails: no peer.
    """
    command = [sys.executable, "-c", BEFORE + script + AFTER]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": byte_code, "PYTHONDONTWRITEBYTECODE": ""}
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    if found.returncode != 0:
        return None
    seconds, modules = json.loads(found.stdout.splitlines()[-1])
    return seconds, modules


def measure(rounds: int) -> list[Row]:
    """Return the rows of this file."""
    rows: list[Row] = []
    sides = (("import and instrument()", OURS, 40.0), ("  OpenAIAgentsInstrumentor", PEER, None))
    for what, script, budget in sides:
        with tempfile.TemporaryDirectory(prefix="otelhooks-bench-") as byte_code:
            start(script, byte_code)
            starts = [start(script, byte_code) for _ in range(rounds)]
        done = [each for each in starts if each is not None]
        if not done:
            if budget is not None:
                raise RuntimeError("a program with otelhooks does not start")
            continue
        seconds = min(seconds for seconds, _ in done)  # what else the machine does only adds
        rows.append(Row(what, seconds * 1e3, budget, "ms", f"{done[0][1]} modules"))
    return rows
