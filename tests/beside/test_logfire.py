"""Logfire in the same process: its providers, whichever of the two is set up first."""

from __future__ import annotations

import pytest

pytest.importorskip("logfire")

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("first", ["otelhooks", "logfire"])
def test_every_metric_reaches_the_providers_of_logfire(play, first):
    played = play("openai_agents", "logfire", first=first)
    assert played["ran"] == ["search"]
    assert not [line for line in played["log"] if "metrics (" in line or "telemetry failed" in line]
    ours = {point["name"] for point in played["metrics"] if point["scope"] == "otelhooks"}
    assert {
        "otelhooks.policy.decisions",
        "otelhooks.policy.denies",
        "otelhooks.tool.calls",
    } <= ours
    denies = [one for one in played["metrics"] if one["name"] == "otelhooks.policy.denies"]
    assert [one["value"] for one in denies] == [1]


def test_a_second_configuration_of_logfire_takes_the_metrics_along():
    """It makes its instruments again, those that are still held."""
    import logfire
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    import otelhooks
    from otelhooks import policy

    def configure() -> InMemoryMetricReader:
        reader = InMemoryMetricReader()
        logfire.configure(
            send_to_logfire=False,
            console=False,
            inspect_arguments=False,
            metrics=logfire.MetricsOptions(additional_readers=[reader]),
        )
        return reader

    configure()
    otelhooks.instrument(policies=[policy.deny("nothing")])
    last = configure()
    data = last.get_metrics_data()
    assert data is not None
    names = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert "otelhooks.policy.denies" in names
