"""Contexts that cross to another task of this process inside a message."""

from __future__ import annotations

from types import SimpleNamespace

from opentelemetry import context as otel_context

from otelhooks.frameworks.kit.crossings import crossing, origin


def test_whoever_handles_a_message_finds_the_context_that_it_was_sent_in() -> None:
    here = otel_context.set_value("call", "mine")
    token = otel_context.attach(here)
    try:
        with crossing({"progressToken": 2}) as meta:
            otel_context.detach(token)
            token = otel_context.attach(otel_context.Context())
            assert meta["progressToken"] == 2
            assert origin(meta) == here
            assert origin(SimpleNamespace(model_extra=meta)) == here
    finally:
        otel_context.detach(token)


def test_a_message_that_has_been_answered_leads_nowhere() -> None:
    with crossing(None) as meta:
        pass
    assert origin(meta) is None


def test_a_made_up_key_leads_nowhere() -> None:
    with crossing({}) as meta:
        (name,) = meta
        assert origin({name: "a" * 32}) is None
        assert origin({name: ["a"]}) is None
        assert origin(None) is None


def test_two_messages_lead_to_their_own_contexts() -> None:
    with crossing({}) as first, crossing({}) as second:
        assert first != second
