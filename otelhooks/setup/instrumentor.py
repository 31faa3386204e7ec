"""The entry point of ``opentelemetry-instrument``, which makes it do what `instrument()` does."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from otelhooks.errors import OtelHooksError
from otelhooks.setup.instrument import instrument, uninstrument

if TYPE_CHECKING:
    from collections.abc import Collection

_PROVIDERS = ("tracer_provider", "meter_provider", "logger_provider")


class OtelHooksInstrumentor(BaseInstrumentor):
    """Switch otelhooks on and off like OpenTelemetry's other instrumentations.

    Example:
        ``OtelHooksInstrumentor().instrument(tracer_provider=provider, policies=["policies/"])``
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: versions are checked for each framework, see `patches`."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        """Call `otelhooks.instrument`.

        Args:
            **kwargs: Its arguments. None as a provider means the global one, as for other
                instrumentations.

        Raises:
            OtelHooksError: What `otelhooks.instrument` raises; the program must not continue
                without its policies.
        """
        given = {key: value for key, value in kwargs.items() if not _is_unset(key, value)}
        try:
            instrument(**given)
        except Exception as error:
            if not _is_python_starting():
                raise
            _stop(error)

    def _uninstrument(self, **kwargs: Any) -> None:
        """Call `otelhooks.uninstrument`."""
        uninstrument()


def _stop(error: Exception) -> None:
    """End the process: ``opentelemetry-instrument`` would log the error and continue unguarded."""
    if not isinstance(error, OtelHooksError):
        traceback.print_exception(error)
    message = f"error: otelhooks could not start, so the program does not run: {error}"
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    os._exit(2)


def _is_python_starting() -> bool:
    """Return whether ``opentelemetry-instrument`` runs, before the program's own first line."""
    main = sys.modules.get("__main__")
    return (
        "opentelemetry.instrumentation.auto_instrumentation" in sys.modules
        and getattr(main, "__file__", None) is None
    )


def _is_unset(key: str, value: Any) -> bool:
    return key in _PROVIDERS and value is None
