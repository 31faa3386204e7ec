"""What scripts of hook files can reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from otelhooks.hooks.context import HookContext

__all__ = ["Host", "Speaker", "active", "set_active"]


class Speaker(NamedTuple):
    """The hook that a script runs for.

    Attributes:
        hook: Its name.
        event: The event that it was called for.
        context: State of the operation.
    """

    hook: str
    event: str
    context: HookContext


class Host:
    """Reaches nothing; the pipeline replaces it. Telemetry: fails open, except for `call`."""

    def count(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Add to a counter."""

    def gauge(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Set a gauge."""

    def log(self, speaker: Speaker, is_warning: bool, message: str, fields: Any) -> None:
        """Emit a log record."""

    def audit(self, speaker: Speaker, record: Any) -> None:
        """Write an audit record."""

    def is_reserved(self, name: str) -> bool:
        """Return whether scripts may not write an attribute of that name on spans."""
        return False

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Call a function that was registered with `@otelhooks.tool`, through the pipeline.

        Raises:
            LookupError: There is no such function.
            Denied: Policy refuses the call.
        """
        msg = f"call_tool: no `@otelhooks.tool` is called `{tool}`"
        raise LookupError(msg)


_host = Host()


def active() -> Host:
    """Return the host of scripts that run now."""
    return _host


def set_active(host: Host) -> None:
    """Set the host that scripts reach."""
    global _host
    _host = host
