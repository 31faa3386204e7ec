"""Providers that otelhooks builds, and those that do nothing.

Separate from `otelhooks.telemetry.sdk`, so that a program with its own providers does not load the
code that builds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["NOWHERE", "SIGNALS", "Built", "no_providers"]

SIGNALS: tuple[str, ...] = ("traces", "metrics", "logs")
NOWHERE = "nowhere"


class Built(NamedTuple):
    """Three providers and, for each signal, a description of where it goes.

    Args:
        logger_provider: None does nothing: only users of the Logs API load it.
        hurry: Called when the process ends, before the providers are shut down.
    """

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    logger_provider: LoggerProvider | None
    targets: Mapping[str, str]
    hurry: Sequence[Callable[[], None]] = ()


def no_providers() -> Built:
    """Return providers that do nothing."""
    nowhere = dict.fromkeys(SIGNALS, NOWHERE)
    return Built(NoOpTracerProvider(), NoOpMeterProvider(), None, nowhere)
