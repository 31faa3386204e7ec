"""The gauge of adapters."""

import otelhooks
from otelhooks.telemetry import semconv


def test_a_framework_that_is_turned_off_and_not_installed_is_not_told(
    meter_provider, metrics_reader, monkeypatch
):
    from otelhooks import _instrument
    from otelhooks.instrumentation._adapter import Coverage

    def entry(name, version, state):
        return Coverage(name, name, version, ">=1", state, (), (), "")

    entries = (entry("here", "1.2", "off"), entry("gone", "", "off"))
    monkeypatch.setattr(_instrument.instrumentation, "coverage_so_far", lambda: entries)
    otelhooks.instrument(frameworks=[], meter_provider=meter_provider)
    found = [
        point.attributes[semconv.ADAPTER_FRAMEWORK]
        for resource in metrics_reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == semconv.METRIC_ADAPTER_INFO
        for point in metric.data.data_points
    ]
    assert found == ["here"]
