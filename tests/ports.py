"""Ports for servers that tests start."""

from __future__ import annotations

import contextlib
import random
import socket

RANGE = range(15_000, 32_768)
"""Below those that systems give to outgoing connections: else one of these may have taken a port
when its server is started, or started again."""


def free_ports(count: int) -> list[int]:
    """Return free TCP ports on loopback, all different."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(found) == count:
            break
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
