"""A real Redis server, started by the tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.ports import free_ports

NEEDS_REDIS = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="there is no redis-server on this machine"
)


class Server:
    """A Redis server of the test's own on a free port; it keeps what it has when it is stopped."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = ("redis-server", "--port", str(self.port), "--bind", "127.0.0.1")
        options = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(self._folder))
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
