"""Servers for fleets: those of `make stack`, and Kafka; and the table of faults at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.e2e.conftest import binaries as binaries
from tests.e2e.conftest import webhook as webhook
from tests.e2e.fault_table import pytest_terminal_summary as pytest_terminal_summary
from tests.e2e.fault_table import row as row
from tests.e2e.stack.build import KAFKA, build
from tests.e2e.stack.webhook import Webhook
from tests.e2e.test_refusals import certificates as certificates
from tests.fleet.fleet import Fleet
from tests.fleet.kafka import Kafka

MakeFleet: TypeAlias = Callable[..., Fleet]


@pytest.fixture(scope="module")
def make_fleet(
    binaries: dict[str, Path], webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeFleet]:
    """Make fleets, with the arguments of `Fleet` from `kafka` on; not started.

    They are stopped when the tests of a file have run.
    """
    with stopped_afterwards(binaries, webhook, tmp_path_factory) as make:
        yield make


@pytest.fixture
def make_own_fleet(
    binaries: dict[str, Path], webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeFleet]:
    """Make fleets of one test, as `make_fleet` does."""
    with stopped_afterwards(binaries, webhook, tmp_path_factory) as make:
        yield make


@contextmanager
def stopped_afterwards(
    binaries: dict[str, Path], webhook: Webhook, folders: pytest.TempPathFactory
) -> Generator[MakeFleet]:
    made: list[Fleet] = []

    def make(**options: Any) -> Fleet:
        made.append(Fleet(folders.mktemp("fleet"), binaries, webhook, **options))
        return made[-1]

    try:
        yield make
    finally:
        for fleet in made:
            fleet.stop()


@pytest.fixture(scope="module")
def kafka(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker, started, with the two topics."""
    archives = build(KAFKA)["archives"]
    kafka = Kafka(tmp_path_factory.mktemp("kafka"), archives, certificates)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()
