"""Providers that were built here, and those that do nothing.

Apart from `otelhooks.telemetry.sdk`, so that a program that brings its own providers does not load
what builds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["NOWHERE", "SIGNALS", "Built", "no_providers"]

SIGNALS: tuple[str, ...] = ("traces", "metrics", "logs")
NOWHERE = "nowhere"


class Built(NamedTuple):
    """Three providers and, for each signal, in words where it goes.

    Args:
        logger_provider: None does nothing: the Logs API itself is loaded by those that use it.
    """

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    logger_provider: LoggerProvider | None
    targets: Mapping[str, str]


def no_providers() -> Built:
    """Give providers that do nothing."""
    nowhere = dict.fromkeys(SIGNALS, NOWHERE)
    return Built(NoOpTracerProvider(), NoOpMeterProvider(), None, nowhere)
