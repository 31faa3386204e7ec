"""``make stack``: build what is missing, start it, say where it is, until Ctrl-C.

``python -m tests.e2e.stack --build`` only builds. Exit code 1: something could not be built or
started.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

from tests.e2e.stack.build import RECIPES, BuildError, build, built
from tests.e2e.stack.process import StartError
from tests.e2e.stack.stack import Stack, write_secret
from tests.e2e.stack.webhook import Notification, Webhook

STATE = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "otelhooks"


def build_all() -> tuple[dict[str, Path], int]:
    """Build every server that the cache does not have, and say which.

    Returns:
        Programs by name, and how many servers could not be built.
    """
    binaries: dict[str, Path] = {}
    failures = 0
    for recipe in RECIPES:
        words = f"{recipe.name} {recipe.version}"
        started, was_there = time.monotonic(), built(recipe) is not None
        if not was_there:
            print(f"building {words}, some minutes ...", flush=True)
        try:
            binaries |= build(recipe)
        except BuildError as error:
            failures += 1
            print(f"error: {error}", file=sys.stderr)
            continue
        took = "from the cache" if was_there else f"built in {time.monotonic() - started:.0f} s"
        print(f"{words}: {took}", flush=True)
    return binaries, failures


def say_page(notification: Notification) -> None:
    """Print what reached the webhook, an alert a line."""
    for alert in notification.body["alerts"]:
        labels, notes = alert["labels"], alert["annotations"]
        at = time.strftime("%H:%M:%S", time.localtime(notification.received_at))
        print(f"{at} {notification.kind} {alert['status']}: {labels['alertname']}", end=" ")
        print(notes.get("summary", ""), notes.get("traces", ""), flush=True)


def say_where(stack: Stack) -> None:
    """Print addresses, and the line that points agents here."""
    names = {
        "collector": ("otelcol", "OTELCOL_HTTP_PORT", "OTLP over HTTP"),
        "": ("otelcol", "OTELCOL_GRPC_PORT", "OTLP over gRPC"),
        "traces": ("jaeger", "JAEGER_PORT", "Jaeger's API"),
        "metrics": ("prometheus", "PROMETHEUS_PORT", "Prometheus"),
        "alerts": ("alertmanager", "ALERTMANAGER_PORT", "Alertmanager"),
    }
    print()
    for name, (server, port, words) in names.items():
        if server in stack.processes:
            print(f"{name:<10} {stack.url(port):<24} {words}")
    print(f"{'folder':<10} {stack.folder}  (state, secrets, logs)")
    file = stack.folder / "agent.sh"
    lines = (f"export {key}={shlex.quote(item)}" for key, item in stack.agent_environment().items())
    write_secret(file, "\n".join([*lines, "export OTEL_SERVICE_NAME=otelhooks-demo", ""]))
    tags = quote('{"otelhooks.policy.decision":"deny"}')
    print("\nPoint otelhooks.instrument() at it, and watch agents:")
    print(f"  . {shlex.quote(str(file))}")
    print("  otelhooks demo")
    print("  otelhooks doctor --telemetry")
    print("Denies, as Jaeger has them, a few seconds later:")
    print(f"  {stack.url('JAEGER_PORT')}/api/traces?service=otelhooks-demo&tags={tags}")
    print("\nPages and tickets are printed here. Ctrl-C ends it.\n", flush=True)


def end(signum: int, frame: FrameType | None) -> NoReturn:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


def main() -> int:
    """Build, start, wait, stop."""
    parser = argparse.ArgumentParser(prog="make stack", description=__doc__)
    parser.add_argument("--build", action="store_true", help="only build")
    asked = parser.parse_args()
    for name in ("SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), end)
    try:
        binaries, failures = build_all()
    except KeyboardInterrupt:
        return 130
    if asked.build:
        return int(failures > 0)
    STATE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("stack-%m%d-%H%M%S-"), dir=STATE))
    webhook = Webhook(say_page)
    stack = Stack(folder, binaries, webhook)
    try:
        stack.start()
        for name in stack.left_out:
            print(f"left out: {name}", file=sys.stderr)
        say_where(stack)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        print("\nstopping")
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # leave nothing behind
        stack.stop()
        webhook.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
