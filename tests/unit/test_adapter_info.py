"""The gauge of adapters."""

import pytest

import otelhooks
from otelhooks.records import semconv


@pytest.fixture
def told(meter_provider, metrics_reader, monkeypatch):
    """Return what the gauge reports of packages: name, version and state of each."""
    from otelhooks.patching.adapters import Coverage
    from otelhooks.setup import instrument

    def read(*entries):
        rows = [Coverage(n, n, v, ">=1", state, (), (), "") for n, v, state in entries]
        monkeypatch.setattr(instrument.guarded, "coverage_so_far", lambda: rows)
        otelhooks.instrument(frameworks=[], meter_provider=meter_provider)
        return states(metrics_reader)

    return read


def test_a_framework_that_is_turned_off_and_not_installed_is_not_told(told):
    assert told(("here", "1.2", "off"), ("gone", "", "off")) == {"here": "off"}


def test_one_that_runs_unguarded_is_told_as_unguarded(told):
    """The class: no state in which rules do not hold is silent; one that is not imported is."""
    states = ("patched", "partial", "refused", "unpatched", "not imported", "not installed")
    assert told(*((state, "1", state) for state in states)) == {
        "patched": semconv.ADAPTER_PATCHED,
        "partial": semconv.ADAPTER_PARTIAL,
        "refused": semconv.ADAPTER_REFUSED,
        "unpatched": semconv.ADAPTER_UNGUARDED,
    }


def states(metrics_reader):
    return {
        point.attributes[semconv.ADAPTER_FRAMEWORK]: point.attributes[semconv.ADAPTER_STATE]
        for resource in metrics_reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == semconv.METRIC_ADAPTER_INFO
        for point in metric.data.data_points
    }
