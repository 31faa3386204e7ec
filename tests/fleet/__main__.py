"""Bring Kafka where the cache has none, and say so. Exit code 1: it cannot be had here."""

from __future__ import annotations

import sys

from tests.e2e.stack.build import KAFKA, BuildError, build, built


def main() -> int:
    """Build, or find, and print which."""
    was_there = built(KAFKA) is not None
    try:
        build(KAFKA)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{KAFKA.name} {KAFKA.version}: {'from the cache' if was_there else 'built'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
