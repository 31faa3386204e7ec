"""Each pattern of the second net, wherever a span, an event of a span or a log record carries text.

What is sent and what is kept is compared letter by letter: a pattern that masks less is red, and so
is one that masks more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, eventually
from tests.e2e.sending import Sender
from tests.e2e.stack.stack import Stack

LETTERS = "abcdefghijklmnopqrst"
MASKED = {
    "json": (
        '{"a": {"API_key": "x1"}, "token" : "y,2", "b": 1}',
        '{"a": {"API_key": "***"}, "token" : "***", "b": 1}',
    ),
    "json in json": (r'{"a": "{\"passwd\":\"x\\\"1\"}"}', r'{"a": "{\"passwd\":\"***\"}"}'),
    "json in json in json": (r'"{\\\"secret\\\": \\\"x1\\\"}"', r'"{\\\"secret\\\": \\\"***\\\"}"'),
    "list": ('["authorization":"x1"]', '["authorization":"***"]'),
    "key of a service": (f"one sk-{LETTERS}, GHP_{LETTERS}", "one ***, ***"),
    "another": (f"xoxb-{LETTERS} xoxp-{LETTERS}", "*** ***"),
    "header": ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
    "headers": ("basic dXNlcjpwYXNz, BEARER a1-b2_c3~d4", "basic ***, BEARER ***"),
    "card": ("4111111111111111, 4222222222222.", "****, ****."),
    "access key": ("AKIAABCDEFGHIJKLMNOP", "****"),
    "signed token": ("is eyJhbGciOi.eyJzdWIi-_.c2ln valid?", "is **** valid?"),
    "card in a token": ("eyJh.4111111111111111.c2ln", "****"),
}
"""Kind of secret: what is sent, what is kept."""

KEPT = {
    "time": "1764412345678901234",
    "short": "sk-abc bearer abc basically",
    "within words": f"task-{LETTERS} forbearer {LETTERS}",
    "words": 'the password is "x1", the token too',
    "dotted": "monkeyJson.field.name",
    "lower case": "akiaabcdefghijklmnop",
}
"""Kind of text in which nothing is masked: the text."""

TEXTS = {**{kind: sent for kind, (sent, _) in MASKED.items()}, **KEPT}
EXPECTED = {**{kind: kept for kind, (_, kept) in MASKED.items()}, **KEPT}
KEYS = ("user.password", "clientSecret", "X-API-Key", "api_key", "myApiKey")
OTHER_KEYS = ("passenger", "api.version", "second", "key")
ATTRIBUTES = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,  # by the branch without sampling
    **TEXTS,
    **dict.fromkeys((*KEYS, *OTHER_KEYS), "open"),
}
AFTERWARDS = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    **EXPECTED,
    **dict.fromkeys(KEYS, "****"),
    **dict.fromkeys(OTHER_KEYS, "open"),
}


@pytest.fixture(scope="module")
def sender(stack: Stack) -> Sender:
    return Sender(stack.url("OTELCOL_HTTP_PORT"), stack.token, "masking")


def arrived(jaeger: Jaeger, trace_id: str) -> dict[str, Any]:
    (span,) = eventually(lambda: jaeger.trace(trace_id))
    return span


def sent(attributes: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the trace store adds."""
    return {key: value for key, value in attributes.items() if key in ATTRIBUTES}


def test_attributes_of_a_span_without_events(sender: Sender, jaeger: Jaeger) -> None:
    span = arrived(jaeger, sender.span("plain", ATTRIBUTES))

    assert sent(span["tags"]) == AFTERWARDS


def test_attributes_of_a_span_and_of_its_event(sender: Sender, jaeger: Jaeger) -> None:
    span = arrived(jaeger, sender.span("with an event", ATTRIBUTES, event=ATTRIBUTES))

    (event,) = span["raw"]["logs"]
    assert sent(span["tags"]) == AFTERWARDS
    assert sent({field["key"]: field["value"] for field in event["fields"]}) == AFTERWARDS


def test_the_status_of_a_span(sender: Sender, jaeger: Jaeger) -> None:
    deny = {semconv.POLICY_DECISION: semconv.DECISION_DENY}
    headers, kept = MASKED["headers"]

    span = arrived(jaeger, sender.span("failed", deny, message=headers))

    assert span["tags"]["otel.status_description"] == kept


def test_attributes_and_body_of_a_log_record(sender: Sender, stack: Stack) -> None:
    for body in TEXTS.values():
        sender.log(semconv.EVENT_POLICY_DECISION, {**ATTRIBUTES, "by": "test_masking"}, body)

    path = Path(stack.settings["OTELCOL_STATE"], "audit", "decisions.jsonl")
    found = eventually(lambda: of_this_test(path) if path.exists() else [])
    assert [record["body"]["stringValue"] for record in found] == list(EXPECTED.values())
    for record in found:
        values = {each["key"]: each["value"]["stringValue"] for each in record["attributes"]}
        assert sent(values) == AFTERWARDS


def of_this_test(path: Path) -> list[Any]:
    """Return the log records of this file, once all are there; the last line may be half there."""
    lines = path.read_text("utf-8").rpartition("\n")[0].splitlines()
    records = [
        record
        for line in lines
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
        if "test_masking" in json.dumps(record["attributes"])
    ]
    return records if len(records) == len(TEXTS) else []
