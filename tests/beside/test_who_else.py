"""Each other tracer is found by name, whichever is set up first, and logged once."""

from __future__ import annotations

import pytest

pytest.importorskip("logfire", reason="needs the lock with all the others")

pytestmark = pytest.mark.timeout(120)

FOUND = {
    ("openai_agents", "logfire"): "logfire",
    ("openai_agents", "openinference"): "openinference.instrumentation.openai_agents",
    ("openai_agents", "traceloop"): "opentelemetry.instrumentation.openai_agents",
    ("openai_agents", "otel"): "opentelemetry.instrumentation.genai.openai_agents",
    ("langchain", "openinference"): "openinference.instrumentation.langchain",
    ("langchain", "traceloop"): "opentelemetry.instrumentation.langchain",
    ("langchain", "otel"): "opentelemetry.instrumentation.genai.langchain",
}


def said(played):
    return [line for line in played["log"] if "traced by" in line]


@pytest.mark.parametrize("asked", FOUND, ids="-".join)
class TestWhoElse:
    def test_a_program_that_has_chosen_nothing_is_warned(self, play, asked):
        [line] = said(play(*asked))
        assert line.startswith(f"WARNING {asked[0]} is also traced by `{FOUND[asked]}`:")
        assert 'hint: set spans="annotate"' in line

    def test_one_that_annotates_is_told(self, play, asked):
        [line] = said(play(*asked, spans="annotate"))
        assert line == f"INFO {asked[0]} is also traced by `{FOUND[asked]}`; spans=annotate"


def test_one_that_is_switched_on_after_us_is_found_at_the_first_turn(play):
    [line] = said(play("openai_agents", "logfire", first="otelhooks"))
    assert line.startswith("WARNING openai_agents is also traced by `logfire`:")
