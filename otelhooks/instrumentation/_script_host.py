"""What scripts of hook files reach outside of themselves: metrics, logs, audit trail, tools."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.drive import Raised, Run, run
from otelhooks.hooks.script_host import Host, Speaker
from otelhooks.instrumentation import _runtime
from otelhooks.telemetry import semconv
from otelhooks.telemetry.events import INFO, WARN
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

__all__ = ["TOOLS", "ScriptHost"]

TOOLS: dict[str, Callable[..., Any]] = {}
"""Functions decorated with `otelhooks.tool`, by the name that rules see; the last one counts."""

_instruments: weakref.WeakKeyDictionary[Meter, dict[str, Any]] = weakref.WeakKeyDictionary()


class ScriptHost(Host):
    """Reaches what the active `otelhooks.instrument()` set up; without one, telemetry is silent."""

    @fails_open
    def count(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Add to a counter."""
        meter = _meter()
        if meter is not None:
            _instrument(meter, name, "counter").add(value, _flat(attributes))

    @fails_open
    def gauge(self, name: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Set a gauge."""
        meter = _meter()
        if meter is not None:
            _instrument(meter, name, "gauge").set(value, _flat(attributes))

    @fails_open
    def log(self, speaker: Speaker, is_warning: bool, message: str, fields: Any) -> None:
        """Emit a log record."""
        rt = _runtime.active()
        if rt is None or rt.is_suppressed():
            return
        body = {"message": message, **({"fields": fields} if fields else {})}
        attributes = {semconv.HOOK_NAME: speaker.hook}
        rt.events.emit(semconv.EVENT_HOOK_LOG, WARN if is_warning else INFO, attributes, body=body)

    @fails_open
    def audit(self, speaker: Speaker, record: Any) -> None:
        """Write an audit record."""
        rt = _runtime.active()
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
        """Say whether a name on spans is not for scripts to write."""
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


def _meter() -> Meter | None:
    rt = _runtime.active()
    return rt.instruments.meter if rt is not None and not rt.is_suppressed() else None


def _instrument(meter: Meter, name: str, kind: str) -> Any:
    """Return the counter or gauge of a name, made once for each meter."""
    made = _instruments.setdefault(meter, {})
    key = f"{kind} {name}"
    if key not in made:
        made[key] = meter.create_counter(name) if kind == "counter" else meter.create_gauge(name)
    return made[key]


def _flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    scalars = (str, bool, int, float)
    return {k: v if isinstance(v, scalars) else str(v) for k, v in attributes.items()}
