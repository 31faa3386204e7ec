"""What scripts of hook files can reach: metrics, logs, the audit trail, tools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from otelhooks.hooks.drive import Raised, Run, run
from otelhooks.hooks.script_host import Host, Speaker
from otelhooks.pipeline import runtime
from otelhooks.records import semconv
from otelhooks.telemetry.events import INFO, WARN
from otelhooks.telemetry.quiet import fails_open

__all__ = ["TOOLS", "ScriptHost"]

TOOLS: dict[str, Callable[..., Any]] = {}
"""Functions decorated with `otelhooks.tool`, by the name that rules see; the last one wins."""


class ScriptHost(Host):
    """Reaches what the active `otelhooks.instrument()` set up; without one, telemetry is silent."""

    @fails_open
    def count(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Add to a counter."""
        counter = _instrument("counter", name)
        if counter is not None:
            counter.add(value, _flat(attributes))

    @fails_open
    def gauge(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Set a gauge."""
        gauge = _instrument("gauge", name)
        if gauge is not None:
            gauge.set(value, _flat(attributes))

    @fails_open
    def log(self, speaker: Speaker, is_warning: bool, message: str, fields: Any) -> None:
        """Emit a log record."""
        rt = runtime.active()
        if rt is None or rt.is_suppressed():
            return
        body = {"message": message, **({"fields": fields} if fields else {})}
        attributes = {semconv.HOOK_NAME: speaker.hook}
        rt.events.emit(semconv.EVENT_HOOK_LOG, WARN if is_warning else INFO, attributes, body=body)

    @fails_open
    def audit(self, speaker: Speaker, record: Any) -> None:
        """Write an audit record."""
        rt = runtime.active()
        if rt is None or rt.audit is None:
            return
        context = speaker.context
        entry: dict[str, Any] = {
            "hook": speaker.hook,
            "event": speaker.event,
            "record": rt.content.redactor.mask(record),
        }
        optional = (
            ("session", context.known("session_id")),
            ("agent", context.known("agent_name")),
            ("tool", context.known("tool_name")),
            ("trace_id", context.trace_id),
        )
        rt.audit.write({**entry, **{key: value for key, value in optional if value}})

    def is_reserved(self, name: str) -> bool:
        """Return whether scripts may not write an attribute of that name on spans."""
        return name.startswith((semconv.OWN_PREFIX, semconv.GEN_AI_PREFIX, semconv.MCP_PREFIX))

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Call a function that was registered with `@otelhooks.tool`, through the pipeline."""
        function = TOOLS.get(tool)
        if function is None:
            return super().call(tool, args)
        value: Any = run(Run(functools.partial(function, **args)))
        if type(value) is Raised:
            raise value.error
        return value


def _instrument(kind: str, name: str) -> Any:
    rt = runtime.active()
    return None if rt is None or rt.is_suppressed() else rt.instruments.custom(kind, name)


def _flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    scalars = (str, bool, int, float)
    return {k: v if isinstance(v, scalars) else str(v) for k, v in attributes.items()}
