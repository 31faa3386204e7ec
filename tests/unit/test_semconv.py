"""Constants and vendored table agree, and the checks on exported data find what is wrong."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode

from otelhooks.records import semconv
from otelhooks.telemetry import metrics

ROOT = Path(__file__).parent.parent.parent


def load_conformance():
    """Tests are not a package (import-mode importlib), so the module is loaded from its file."""
    spec = importlib.util.spec_from_file_location("conformance", ROOT / "tests" / "conformance.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("conformance", module)
    spec.loader.exec_module(module)
    return module


conformance = load_conformance()
TABLE = conformance.TABLE

CONSTANTS = {name: value for name, value in vars(semconv).items() if name.isupper()}
ATTRIBUTES = TABLE["attributes"]
VALUE_PREFIXES = {
    entry["constants"]: (name, entry["values"])
    for name, entry in ATTRIBUTES.items()
    if "constants" in entry
}
# Attribute constants that begin like a group of values.
NOT_VALUES = {
    "ERROR_TYPE",
    "DECISION_ID",
    "MCP_METHOD_NAME",
    "ADAPTER_FRAMEWORK",
    "ADAPTER_VERSION",
    "ADAPTER_STATE",
}
WITHOUT_ATTRIBUTE = {
    "SCOPE_NAME",
    "GEN_AI_SCHEMA_URL",
    "TOOL_NAME_OTHER",
    "OWN_PREFIX",
    "MCP_PREFIX",
    "GEN_AI_PREFIX",
}
METRIC_ATTRIBUTE = {"METRIC_OVERFLOW"}


def constant_for(name: str) -> str:
    """Spell the constant of an attribute name."""
    name = name.removeprefix("otelhooks.").replace("<key>", "prefix")
    if name == "otel.metric.overflow":
        return "METRIC_OVERFLOW"
    return name.upper().replace(".", "_")


def value_group(name: str) -> str | None:
    if name in NOT_VALUES:
        return None
    groups = [prefix for prefix in VALUE_PREFIXES if name.startswith(prefix)]
    return max(groups, key=len) if groups else None


def is_attribute(name: str) -> bool:
    if name in METRIC_ATTRIBUTE:
        return True
    return not (
        name.startswith(("METRIC_", "EVENT_", "SPAN_"))
        or name in WITHOUT_ATTRIBUTE
        or value_group(name) is not None
    )


class TestConstants:
    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_each_attribute_of_the_table_has_its_constant(self, name):
        assert CONSTANTS.get(constant_for(name)) == name.removesuffix("<key>")

    @pytest.mark.parametrize("name", [*filter(is_attribute, CONSTANTS)])
    def test_each_attribute_constant_is_in_the_table(self, name):
        value = CONSTANTS[name]
        assert (f"{value}<key>" if name.endswith("_PREFIX") else value) in ATTRIBUTES

    @pytest.mark.parametrize("prefix", VALUE_PREFIXES)
    def test_the_values_of_an_attribute_are_those_of_the_table(self, prefix):
        _, values = VALUE_PREFIXES[prefix]
        found = [value for name, value in CONSTANTS.items() if value_group(name) == prefix]
        assert sorted(found) == sorted(values)

    @pytest.mark.parametrize(("prefix", "kind"), [("METRIC_", "metrics"), ("EVENT_", "events")])
    def test_metrics_and_events_are_those_of_the_table(self, prefix, kind):
        found = [
            value
            for name, value in CONSTANTS.items()
            if name.startswith(prefix) and name not in METRIC_ATTRIBUTE
        ]
        assert sorted(found) == sorted(TABLE[kind])

    def test_own_spans_are_those_of_the_table(self):
        found = [value for name, value in CONSTANTS.items() if name.startswith("SPAN_")]
        assert sorted(found) == sorted(TABLE["own_spans"])

    def test_candidate_decisions_are_the_decisions(self):
        decisions = ATTRIBUTES[semconv.POLICY_DECISION]["values"]
        assert ATTRIBUTES[semconv.CANDIDATE_DECISION]["values"] == decisions

    def test_the_table_names_only_attributes_it_lists(self):
        named = {
            name
            for kind in ("spans", "own_spans", "metrics", "events")
            for entry in TABLE[kind].values()
            for key in ("required", "allowed", "name")
            for name in entry.get(key, [])
        }
        assert named <= set(ATTRIBUTES)

    def test_the_module_imports_nothing(self):
        source = Path(semconv.__file__).read_text()
        assert not re.findall(r"^(?:import|from) ", source, re.MULTILINE)

    def test_the_instruments_are_the_metrics_of_the_table(self):
        made = {
            **{name: ("counter", spec) for name, spec in metrics._COUNTERS.items()},
            **{name: ("histogram", spec) for name, spec in metrics._HISTOGRAMS.items()},
            **{name: ("gauge", spec) for name, spec in metrics._GAUGES.items()},
        }
        assert set(made) == set(TABLE["metrics"])
        for name, (kind, spec) in made.items():
            entry = TABLE["metrics"][name]
            found = (kind, spec.unit, list(spec.buckets))
            assert found == (entry["kind"], entry["unit"], entry.get("buckets", [])), name


def test_attribute_names_are_written_in_one_module_only():
    """A literal ``gen_ai.`` or ``otelhooks.`` attribute name elsewhere would miss a rename."""
    names = {*ATTRIBUTES, *TABLE["metrics"], *TABLE["events"], *TABLE["own_spans"]}
    names = {name for name in names if name.startswith(("gen_ai.", "mcp.", "otelhooks."))}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {literal}"
        for path in sorted((ROOT / "otelhooks").rglob("*.py"))
        if path.name != "semconv.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for literal in re.findall(r"""["']((?:gen_ai|mcp|otelhooks)\.[a-z_.]+)["']""", line)
        if literal in names or literal.startswith("gen_ai.")
    ]
    # Modules and loggers of ours may be spelt like a name of the table.
    assert [line for line in found if not re.search(r"import_module|getLogger|patch\(", line)] == []


ALLOWED = {
    semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
    semconv.GEN_AI_TOOL_NAME: "run_command",
    semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
    semconv.POLICY_RULE_ID: "r1",
}
DENIED = {
    **ALLOWED,
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_BLOCKED,
    semconv.POLICY_MODE: semconv.MODE_ENFORCE,
    semconv.POLICY_ID: semconv.POLICY_SOURCE_CODE,
    semconv.POLICY_REASON: "not here",
    semconv.HOOK_POINT: semconv.POINT_PRE_TOOL_CALL,
    semconv.DECISION_ID: "d1",
    semconv.ERROR_TYPE: semconv.ERROR_POLICY_DENIED,
}


def make_span(attributes, name="execute_tool run_command", kind=SpanKind.INTERNAL, is_error=False):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = provider.get_tracer("t").start_span(name, kind=kind, attributes=attributes)
    if is_error:
        span.set_status(Status(StatusCode.ERROR, "denied"))
    span.end()
    return exporter.get_finished_spans()[0]


class TestCheckSpan:
    def test_a_plain_allow_and_a_deny_pass(self):
        conformance.check_span(make_span(ALLOWED))
        conformance.check_span(make_span(DENIED, is_error=True))

    def test_a_foreign_span_passes(self):
        conformance.check_span(make_span({"http.method": "GET"}, name="GET"))

    def test_context_keys_of_the_user_pass(self):
        conformance.check_span(make_span({**ALLOWED, semconv.CONTEXT_PREFIX + "team": "blue"}))

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"gen_ai.made.up": "x"}, "not in the table"),
            ({semconv.GEN_AI_USAGE_INPUT_TOKENS: "5"}, "not int"),
            ({semconv.GEN_AI_TOOL_CALL_ID: ""}, "not string"),
            ({semconv.POLICY_DECISION: "block"}, "not one of"),
            ({semconv.RECOVERED: False}, "not recorded"),
            ({semconv.POLICY_REASON: "x" * 257}, "longer than"),
            ({semconv.POLICY_DECISION: semconv.DECISION_MODIFY}, "is missing"),
            ({semconv.GEN_AI_TOOL_NAME: "other"}, "name is"),
            ({semconv.ERROR_TYPE: "ValueError"}, "without status"),
        ],
    )
    def test_what_is_wrong_is_named(self, change, problem):
        with pytest.raises(AssertionError, match=problem):
            conformance.check_span(make_span({**ALLOWED, **change}))

    def test_a_wrong_kind_and_an_error_without_type_are_named(self):
        with pytest.raises(AssertionError, match="kind is CLIENT"):
            conformance.check_span(make_span(ALLOWED, kind=SpanKind.CLIENT))
        with pytest.raises(AssertionError, match=r"without error\.type"):
            conformance.check_span(make_span(ALLOWED, is_error=True))


def collected(make) -> list:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    make(provider.get_meter("t"))
    data = reader.get_metrics_data()
    provider.shutdown()
    return [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]


class TestCheckMetric:
    def test_our_instruments_pass(self):
        reader = InMemoryMetricReader()
        provider = MeterProvider([reader], shutdown_on_exit=False)
        instruments = metrics.Instruments(provider, "1")
        instruments.denies.cell(
            {
                semconv.POLICY_ID: "code",
                semconv.POLICY_RULE_ID: "r",
                semconv.POLICY_MODE: semconv.MODE_ENFORCE,
            }
        )
        instruments.record(
            semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION,
            0.1,
            {semconv.GEN_AI_OPERATION_NAME: "execute_tool", semconv.GEN_AI_TOOL_NAME: "t"},
        )
        conformance.check_all(metrics_data=reader.get_metrics_data())
        provider.shutdown()

    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda m: m.create_counter("otelhooks.made.up").add(1), "not in the table"),
            (lambda m: m.create_counter("otelhooks.hook.errors", unit="s").add(1), "unit is"),
            (
                lambda m: m.create_up_down_counter("otelhooks.hook.errors", "{error}").add(1),
                "kind is up-down",
            ),
            (lambda m: m.create_counter("otelhooks.hook.errors", "{error}").add(1), "missing"),
            (
                lambda m: m.create_histogram("otelhooks.hook.duration", "s").record(1),
                "buckets are",
            ),
            (
                lambda m: m.create_counter("otelhooks.coverage.gaps", "{tool_call}").add(
                    1, {semconv.GEN_AI_CONVERSATION_ID: "c"}
                ),
                "on a metric",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, make, problem):
        [metric] = collected(make)
        with pytest.raises(AssertionError, match=problem):
            conformance.check_metric(metric)

    def test_a_foreign_metric_passes(self):
        [metric] = collected(lambda m: m.create_counter("http.requests").add(1))
        conformance.check_metric(metric)


def make_record(name, severity, attributes):
    number = None if severity is None else SimpleNamespace(value=severity)
    return SimpleNamespace(event_name=name, severity_number=number, attributes=attributes)


class TestCheckEvent:
    def test_a_deny_event_and_a_plain_log_record_pass(self):
        conformance.check_event(make_record(semconv.EVENT_POLICY_DECISION, 13, DENIED))
        conformance.check_event(make_record(None, None, {}))
        conformance.check_event(make_record("somebody.elses", None, {}))

    @pytest.mark.parametrize(
        ("name", "severity", "attributes", "problem"),
        [
            ("otelhooks.made.up", 9, {}, "not in the table"),
            (semconv.EVENT_STOP, 9, {}, "missing"),
            (semconv.EVENT_STOP, 13, {semconv.HOOK_POINT: semconv.POINT_STOP}, "severity is 13"),
            (semconv.EVENT_POLICY_DECISION, 9, DENIED, "does not fit"),
        ],
    )
    def test_what_is_wrong_is_named(self, name, severity, attributes, problem):
        with pytest.raises(AssertionError, match=problem):
            conformance.check_event(make_record(name, severity, attributes))
