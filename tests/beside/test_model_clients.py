"""OpenTelemetry's instrumentation of the client below the framework: one span a model call."""

from __future__ import annotations

import pytest

pytest.importorskip("logfire", reason="needs the lock with all the others")

pytestmark = pytest.mark.timeout(120)

THEIRS = "opentelemetry.instrumentation.genai.openai"
DURATIONS = {"gen_ai.client.inference.duration", "gen_ai.client.operation.duration"}  # new and old


@pytest.mark.parametrize("framework", ["openai_agents", "langchain"])
class TestClients:
    def test_it_opens_no_second_span_and_records_no_second_duration(self, play, framework):
        played = play(framework, "otel_client")
        calls = [span for span in played["spans"] if span["name"].startswith("chat")]
        assert [span["scope"] for span in calls] == ["otelhooks", "otelhooks"]
        durations = [point for point in played["metrics"] if point["name"] in DURATIONS]
        assert [(point["scope"], point["value"]) for point in durations] == [("otelhooks", 2)]

    def test_what_it_knows_is_on_our_span(self, play, framework):
        played = play(framework, "otel_client")
        for span in played["spans"]:
            if span["name"].startswith("chat"):
                assert span["attributes"]["server.address"] == "127.0.0.1"
                assert span["attributes"]["gen_ai.response.model"] == "small"
                assert "gen_ai.input.messages" not in span["attributes"]

    @pytest.mark.parametrize("spans", ["off", "annotate"])
    def test_it_opens_its_own_where_we_open_none(self, play, framework, spans):
        played = play(framework, "otel_client", spans=spans)
        calls = [span for span in played["spans"] if span["name"].startswith("chat")]
        assert [span["scope"] for span in calls] == [
            "opentelemetry.instrumentation.genai.openai"
        ] * 2
