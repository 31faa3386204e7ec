"""Fixtures of the tests of the Hedera Agent Kit; imported by name where they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import otelhooks
from tests.frameworks.contract import Seen
from tests.frameworks.hedera_world import Ledger, offline_client


@pytest.fixture
def seen(exporter: Any, metrics_reader: Any) -> Seen:
    """What was recorded of a run."""
    return Seen(exporter, metrics_reader)


@pytest.fixture
def on(with_rules: Callable[..., otelhooks.Handle]) -> Callable[..., otelhooks.Handle]:
    """Instrument the kit, and what else is named, with rules and settings."""

    def instrument(*rules: Any, also: tuple[str, ...] = (), **settings: Any) -> otelhooks.Handle:
        return with_rules(*rules, frameworks=["hedera_agent_kit", *also], **settings)

    return instrument


@pytest.fixture
def client() -> Iterator[Any]:
    """A client of the ledger with a key, and no way there."""
    made = offline_client()
    yield made
    made.close()


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """What the autonomous mode has sent."""
    from hedera_agent_kit.shared.strategies.tx_mode_strategy import ExecuteStrategy

    made = Ledger()

    async def handle(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await made.handle(self, *args, **kwargs)

    monkeypatch.setattr(ExecuteStrategy, "handle", handle)
    return made
