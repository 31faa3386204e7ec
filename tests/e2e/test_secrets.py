"""Planted secrets are nowhere: not in a store, a file or a log of any hop, with content captured.

The agents mask before they send. A foreign library that masks nothing sends the same secrets
straight to the collector, whose masking is the second net.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from otelhooks.records import semconv
from tests.e2e.agents import PLANTED, SECRETS
from tests.e2e.asking import Jaeger, eventually, get
from tests.e2e.conftest import Traffic
from tests.e2e.sending import Sender
from tests.e2e.stack.stack import Stack

FOREIGN = "foreign-library"


@pytest.fixture(scope="module")
def foreign(stack: Stack) -> str:
    """The id of a trace, and an event, with every secret in clear."""
    sender = Sender(stack.url("OTELCOL_HTTP_PORT"), stack.token, FOREIGN)
    attributes = {
        semconv.POLICY_DECISION: semconv.DECISION_DENY,
        "plain": f'{{"password": "{SECRETS["plain"]}"}}',
        "content": PLANTED,
        "my.password": SECRETS["plain"],
        "card": SECRETS["card"],
        "number": int(SECRETS["card"]),
        "list": [f"card {SECRETS['card']}"],
    }
    message = f"refused, sent Bearer {SECRETS['bearer']}"
    trace_id = sender.span("foreign call", attributes, message=message, event=attributes)
    sender.log(semconv.EVENT_POLICY_DECISION, attributes, body=PLANTED)
    return trace_id


def test_content_was_captured_at_all(traffic: Traffic, jaeger: Jaeger) -> None:
    for agent in traffic.agents:
        for trace_id in agent.traces:
            captured = [
                span["tags"][semconv.GEN_AI_TOOL_CALL_ARGUMENTS]
                for span in jaeger.trace(trace_id)
                if semconv.GEN_AI_TOOL_CALL_ARGUMENTS in span["tags"]
            ]

            assert [text for text in captured if "ada@example.com" in text]


def test_the_second_net_masks_what_a_foreign_library_sends(foreign: str, jaeger: Jaeger) -> None:
    (span,) = eventually(lambda: jaeger.trace(foreign))
    text = json.dumps(span["raw"])

    assert {name for name, secret in SECRETS.items() if secret in text} == set()
    assert '"foreign call"' in text
    assert "***" in text


@pytest.mark.last
def test_no_secret_is_in_any_store_file_or_log(
    traffic: Traffic, foreign: str, stack: Stack, jaeger: Jaeger
) -> None:
    """Stores that pack what they hold are asked for it as well."""
    eventually(lambda: jaeger.trace(foreign))
    places = {
        f"{path}": path.read_bytes()
        for folder in (stack.folder, traffic.agents[0].output.parent)
        for path in files(folder)
    }
    series = get(f"{stack.url('PROMETHEUS_PORT')}/api/v1/series", **{"match[]": '{__name__=~".+"}'})
    places["prometheus"] = json.dumps(series).encode()
    places |= {
        f"jaeger {trace_id}": json.dumps(jaeger.trace(trace_id)).encode()
        for agent in traffic.agents
        for trace_id in agent.traces
    }

    found = {
        (place, name)
        for place, content in places.items()
        for name, secret in SECRETS.items()
        if secret.encode() in content
    }

    assert len(places) > 20
    assert found == set()


def files(folder: Path) -> Iterator[Path]:
    """Yield every file of a folder; links lead to the shipped files."""
    yield from (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
