"""The console reads a real Jaeger."""

from __future__ import annotations

from otelhooks.ui.servers import open_server
from tests.e2e.asking import eventually
from tests.e2e.conftest import Traffic
from tests.e2e.stack.stack import Stack


def test_pages_query_what_jaeger_has_of_each_agent(stack: Stack, traffic: Traffic) -> None:
    server = open_server("jaeger", stack.url("JAEGER_PORT"), {})
    for agent in traffic.agents:
        for id, spans in agent.traces.items():
            sent = {(span["context"]["span_id"].removeprefix("0x"), span["name"]) for span in spans}
            found = eventually(lambda id=id: server.trace(id))
            assert {(span.span_id, span.name) for span in found.spans} >= sent
            assert all(span.origin.resource["service.name"] for span in found.spans)
    refused = [one.trace_id for one in server.traces(1_000, denied=True)]
    assert refused
    assert "could not be read" not in server.note("live")
