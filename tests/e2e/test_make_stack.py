"""`make stack` as a person runs it: it says where everything is, and Ctrl-C leaves nothing."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.asking import eventually
from tests.e2e.stack.build import CACHE, ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture
def terminal(binaries: dict[str, Path], tmp_path: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    """The command in a process group of its own, as a terminal has it, and what it printed."""
    printed = tmp_path / "printed"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            (sys.executable, "-m", "tests.e2e.stack"),
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "XDG_CACHE_HOME": str(CACHE.parents[1]),
                "XDG_STATE_HOME": str(tmp_path / "state"),
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    yield process, printed
    process.kill()
    process.wait()


def servers(folder: Path) -> list[str]:
    """Return the running programs whose settings name this folder."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if bytes(folder) in (entry / "environ").read_bytes():
                found.append(os.readlink(entry / "exe").rpartition("/")[2])
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_where_everything_is_and_leaves_nothing(
    stop: signal.Signals, terminal: tuple[subprocess.Popen, Path]
) -> None:
    process, printed = terminal
    text = eventually(lambda: "Ctrl-C ends it" in (said := printed.read_text()) and said)
    found = re.search(r"^folder +(\S+)", text, re.MULTILINE)
    assert found, text
    folder = Path(found[1])
    assert sorted(servers(folder)) == ["alertmanager", "jaeger", "otelcol", "prometheus"]

    followed = subprocess.run(
        (
            "sh",
            "-c",
            f". {folder}/agent.sh; {shlex.quote(sys.executable)} -m otelhooks doctor --telemetry",
        ),
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr
    os.killpg(process.pid, stop)

    assert process.wait(60) == 0
    assert servers(folder) == []
    logs = {path.name for path in (folder / "logs").iterdir()}
    assert logs == {"alertmanager.log", "jaeger.log", "otelcol.log", "prometheus.log"}
