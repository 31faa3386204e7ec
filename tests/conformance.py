"""Check exported telemetry against the vendored table of names, types and values.

::

    check_span(span)                 # a ReadableSpan
    check_metric(metric)             # a Metric of opentelemetry.sdk.metrics.export
    check_event(record)              # a ReadableLogRecord, or the LogRecord in it
    check_all(spans, metrics_data, records)

Each raises AssertionError that lists everything wrong. Names that are not ours or not of the
GenAI and MCP conventions (a framework's own, the user's) are left alone, except on metrics and
events of ours, where the table is complete.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import StatusCode

from otelhooks.records import semconv

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TABLE = json.loads((Path(__file__).parent / "unit" / "semconv_table.json").read_text())

# Namespaces in which every name must be in the table.
_GOVERNED = ("gen_ai.", "mcp.", "otelhooks.", "jsonrpc.", "security_rule.")
# Set by hooks and policy scripts of the user, by design.
_PREFIXES = {
    name.removesuffix("<key>"): entry
    for name, entry in TABLE["attributes"].items()
    if name.endswith("<key>")
}
_NEVER_ON_METRICS = (
    semconv.POLICY_REASON,
    semconv.DECISION_ID,
    semconv.GEN_AI_TOOL_CALL_ID,
    semconv.GEN_AI_CONVERSATION_ID,
    semconv.SESSION_ID,
    semconv.USER_ID,
    semconv.USER_HASH,
)


_LEVELS = dict(zip(("low", "medium", "high", "critical"), (9, 13, 17, 21), strict=True))


def check_span(span: Any) -> None:
    """Check name, kind, attributes, verdict and status of an ended span."""
    attributes = dict(span.attributes or {})
    wrong = _attribute_problems(attributes, is_span=True)
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    entry = TABLE["spans"].get(operation)
    own = TABLE["own_spans"].get(span.name.split(" ")[0])
    if own is not None:
        wrong += _missing(attributes, own["required"]) + _kind(span, own["kinds"])
    elif entry is not None:
        is_mcp = semconv.MCP_METHOD_NAME in attributes and span.kind.name in ("CLIENT", "SERVER")
        wrong += _missing(attributes, entry["required"])
        if not is_mcp:
            wrong += _kind(span, entry["kinds"])
            words = [str(attributes[name]) for name in entry["name"] if name in attributes]
            if span.name != " ".join(words):
                wrong.append(f"name is `{span.name}`, not `{' '.join(words)}`")
    wrong += _verdict_problems(attributes)
    if span.status.status_code is StatusCode.ERROR and semconv.ERROR_TYPE not in attributes:
        wrong.append("status is ERROR without error.type")
    if (
        semconv.ERROR_TYPE in attributes
        and span.status.status_code is not StatusCode.ERROR
        and semconv.RECOVERED not in attributes
        and attributes[semconv.ERROR_TYPE] != semconv.ERROR_POLICY_DENIED  # denied_span_status
    ):
        wrong.append("error.type without status ERROR")
    assert not wrong, _report(f"span `{span.name}`", wrong)


def check_metric(metric: Any) -> None:
    """Check name, kind, unit, buckets and attributes of a collected metric."""
    entry = TABLE["metrics"].get(metric.name)
    if entry is None:
        assert not metric.name.startswith(_GOVERNED), f"metric `{metric.name}` is not in the table"
        return
    wrong: list[str] = []
    if metric.unit != entry["unit"]:
        wrong.append(f"unit is `{metric.unit}`, not `{entry['unit']}`")
    data = type(metric.data).__name__
    kind = {"Sum": "counter", "Gauge": "gauge", "Histogram": "histogram"}.get(data, data)
    if kind == "counter" and not metric.data.is_monotonic:
        kind = "up-down counter"
    if kind != entry["kind"]:
        wrong.append(f"kind is {kind}, not {entry['kind']}")
    for point in metric.data.data_points:
        attributes = dict(point.attributes or {})
        if "buckets" in entry and list(point.explicit_bounds) != entry["buckets"]:
            wrong.append(f"buckets are {list(point.explicit_bounds)}")
        if attributes.get(semconv.METRIC_OVERFLOW) is True:
            continue
        wrong += _attribute_problems(attributes, is_span=False)
        wrong += _missing(attributes, entry.get("required", []))
        wrong += [
            f"`{name}` does not belong here" for name in attributes if name not in entry["allowed"]
        ]
        wrong += [f"`{name}` on a metric" for name in _NEVER_ON_METRICS if name in attributes]
    assert not wrong, _report(f"metric `{metric.name}`", wrong)


def check_event(record: Any) -> None:
    """Check name, severity and attributes of a log record; plain log records pass."""
    record = getattr(record, "log_record", record)
    name = record.event_name
    if not name:
        return
    entry = TABLE["events"].get(name)
    if entry is None:
        assert not name.startswith(_GOVERNED), f"event `{name}` is not in the table"
        return
    attributes = dict(record.attributes or {})
    wrong = _attribute_problems(attributes, is_span=False)
    required = list(entry["required"])
    if attributes.get(semconv.APPROVAL_STATUS) == semconv.APPROVAL_STATUS_PENDING:
        required.remove(semconv.POLICY_ENFORCEMENT)  # nothing has happened yet
    wrong += _missing(attributes, required)
    allowed = entry.get("allowed", attributes)
    wrong += [f"`{name}` does not belong here" for name in attributes if name not in allowed]
    number = record.severity_number.value if record.severity_number is not None else None
    if number not in entry["severities"]:
        wrong.append(f"severity is {number}, not one of {entry['severities']}")
    if name == semconv.EVENT_POLICY_DECISION:
        is_deny = attributes.get(semconv.POLICY_DECISION) == semconv.DECISION_DENY
        severity = attributes.get(semconv.POLICY_SEVERITY, semconv.SEVERITY_MEDIUM)
        if number != (_LEVELS[severity] if is_deny else 9):
            wrong.append(f"severity {number} does not fit the decision")
    assert not wrong, _report(f"event `{name}`", wrong)


def check_all(
    spans: Iterable[Any] = (), metrics_data: Any = None, records: Iterable[Any] = ()
) -> None:
    """Check everything a test has exported."""
    for span in spans:
        check_span(span)
    for resource in metrics_data.resource_metrics if metrics_data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                check_metric(metric)
    for record in records:
        check_event(record)


def _report(what: str, wrong: list[str]) -> str:
    return f"{what}:\n" + "\n".join(f"  - {problem}" for problem in dict.fromkeys(wrong))


def _missing(attributes: Mapping[str, Any], required: list[str]) -> list[str]:
    return [f"`{name}` is missing" for name in required if name not in attributes]


def _kind(span: Any, kinds: list[str]) -> list[str]:
    return (
        [] if span.kind.name in kinds else [f"kind is {span.kind.name}, not {' or '.join(kinds)}"]
    )


def _entry_of(name: str) -> dict[str, Any] | None:
    entry = TABLE["attributes"].get(name)
    if entry is None:
        for prefix, found in _PREFIXES.items():
            if name.startswith(prefix) and len(name) > len(prefix):
                return found
    return entry


def _attribute_problems(attributes: Mapping[str, Any], *, is_span: bool) -> list[str]:
    wrong: list[str] = []
    for name, value in attributes.items():
        entry = _entry_of(name)
        if entry is None:
            if name.startswith(_GOVERNED):
                wrong.append(f"`{name}` is not in the table")
            continue
        kind = entry["type"]
        if not _has_type(value, kind, is_span=is_span):
            wrong.append(f"`{name}` is {value!r}, not {kind}")
            continue
        if "only" in entry and value is not entry["only"]:
            wrong.append(f"`{name}` is {value!r}, which is not recorded")
        if "max_length" in entry and len(value) > entry["max_length"]:
            wrong.append(f"`{name}` is longer than {entry['max_length']}")
        if "values" in entry and not entry.get("open") and kind == "string":
            if value not in entry["values"]:
                wrong.append(f"`{name}` is `{value}`, not one of {entry['values']}")
    return wrong


def _has_type(value: Any, kind: str, *, is_span: bool) -> bool:
    if kind == "string":
        return isinstance(value, str) and value != ""
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "double":
        return isinstance(value, float)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string[]":
        return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    if kind == "scalar":
        return isinstance(value, (str, bool, int, float))
    return isinstance(value, str) if is_span else True  # any: JSON text on spans


def _verdict_problems(attributes: Mapping[str, Any]) -> list[str]:
    decision = attributes.get(semconv.POLICY_DECISION)
    if decision is None:
        return []
    verdict = TABLE["verdict"]
    extra = [
        name
        for name in attributes
        if name.startswith("otelhooks.policy.") and name not in verdict["plain_allow"]
    ]
    if decision == semconv.DECISION_ALLOW and not extra:
        return []
    required = verdict["required"] + verdict["required_on"].get(decision, [])
    if attributes.get(semconv.POLICY_ENFORCEMENT) == semconv.ENFORCEMENT_OBSERVED:
        required = [name for name in required if name not in verdict["required_if_asked"]]
    if attributes.get(semconv.APPROVAL_STATUS) == semconv.APPROVAL_STATUS_PENDING:
        required = [name for name in required if name != semconv.POLICY_ENFORCEMENT]
    return _missing(attributes, required)
