"""A broker for `collector.py`, where Kafka was built before."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.stack.build import KAFKA, built
from tests.fleet.kafka import Kafka


@contextmanager
def broker(folder: Path) -> Generator[str | None]:
    """Run Kafka in a folder; yield its address, or None where it is not in the cache."""
    binaries = built(KAFKA)
    if binaries is None or not all(map(shutil.which, ("java", "openssl"))):
        yield None
        return
    home = folder / "kafka"
    home.mkdir()
    # It needs a certificate for its other listener, which is not used here.
    pair = ("-keyout", "server.key", "-out", "server.crt")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench")
    subprocess.run((*command, *pair), cwd=home, check=True, capture_output=True)
    shutil.copy(home / "server.crt", home / "ours.crt")
    kafka = Kafka(home, binaries["archives"], home)
    try:
        kafka.start()
        yield kafka.address
    finally:
        kafka.stop()
