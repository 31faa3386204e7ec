"""``spans="annotate"`` beside those who trace the same agents, each the newest, all real.

A denied tool of langchain has no span of its own: the agent does not get as far as telling others
of the call. Its verdict is on the span around it.
"""

from __future__ import annotations

import importlib.util
from importlib import metadata

import pytest

pytestmark = pytest.mark.timeout(120)

RULE, DECISION = "otelhooks.policy.rule.id", "otelhooks.policy.decision"
V2 = "opentelemetry-instrumentation-openai-agents-v2"


def is_installed(distribution: str) -> bool:
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


OLDER = is_installed(V2)
AGENTS = (
    [("openai_agents", "otel_v2")]
    if OLDER
    else [
        ("openai_agents", "logfire"),
        ("openai_agents", "openinference"),
        ("openai_agents", "traceloop"),
        ("openai_agents", "otel"),
        ("openai_agents", "otel", "otel_client"),
        ("langchain", "openinference"),
        ("langchain", "traceloop"),
        ("langchain", "otel"),
        ("langchain", "otel", "otel_client"),
    ]
)
every = pytest.mark.parametrize("asked", AGENTS, ids="-".join)


def carriers(played, decision):
    """Return the spans that carry a verdict, as attributes or as an event."""
    return [
        span
        for span in played["spans"]
        if any(one.get(DECISION) == decision for one in (span["attributes"], *span["events"]))
    ]


@pytest.mark.skipif(not importlib.util.find_spec("agents"), reason="needs openai-agents")
class TestAnnotate:
    @every
    def test_no_span_is_opened(self, play, asked):
        played = play(*asked, spans="annotate")
        assert played["answer"] == "Limits are 10 a minute."
        assert played["ran"] == ["search"]
        assert played["spans"]
        assert "otelhooks" not in {span["scope"] for span in played["spans"]}

    @every
    def test_they_open_what_they_open_without_us(self, play, asked):
        """So none is doubled by us, moved, or kept from ending."""
        alone = play(*asked, spans="off")
        beside = play(*asked, spans="annotate")
        names = [sorted(span["name"] for span in played["spans"]) for played in (alone, beside)]
        assert names[0] == names[1]

    @every
    def test_each_verdict_is_on_exactly_one_span(self, play, asked):
        played = play(*asked, spans="annotate")
        [allowed], [denied] = carriers(played, "allow"), carriers(played, "deny")
        assert allowed["id"] != denied["id"]
        assert allowed["attributes"][RULE].startswith("allow:search")
        assert denied["attributes"][RULE].startswith("deny:delete_page")

    @every
    def test_the_span_of_a_denied_tool_is_an_error_in_the_end(self, play, asked):
        [denied] = carriers(play(*asked, spans="annotate"), "deny")
        if asked[0] == "langchain":
            assert denied["status"] != "ERROR"  # that of the agent or node, which went on
        else:
            assert denied["status"] == "ERROR"
            assert denied["attributes"]["error.type"] == "policy_denied"

    @every
    def test_nothing_is_counted_twice(self, play, asked):
        played = play(*asked, spans="annotate")
        scopes: dict[str, set[str]] = {}
        for point in played["metrics"]:
            scopes.setdefault(point["name"], set()).add(point["scope"])
        assert not [name for name, found in scopes.items() if len(found) > 1]
        counted = [one for one in played["metrics"] if one["name"] == "otelhooks.policy.decisions"]
        assert {one["attributes"][DECISION]: one["value"] for one in counted} == {
            "allow": 1,
            "deny": 1,
        }

    @every
    def test_who_records_what_the_docs_say(self, play, asked):
        """Some record no ``gen_ai.*`` metrics; ``spans="off"`` records ours beside their spans."""

        def recorded(mode):
            points = play(*asked, spans=mode)["metrics"]
            return {one["name"] for one in points if one["name"].startswith("gen_ai.")}

        none = {("openai_agents", peer) for peer in ("logfire", "openinference", "traceloop")}
        assert bool(recorded("annotate")) is (asked not in {*none, ("langchain", "openinference")})
        ours = {"gen_ai.client.inference.duration"}
        assert ours <= recorded("off")

    def test_one_framework_can_be_annotated_by_itself(self, play):
        peer = "otel_v2" if OLDER else "otel"
        frameworks = {"openai_agents": {"spans": "annotate"}}
        played = play("openai_agents", peer, frameworks=frameworks)
        assert "otelhooks" not in {span["scope"] for span in played["spans"]}
        assert len(carriers(played, "deny")) == 1


@pytest.mark.skipif(OLDER, reason="needs Traceloop")
class TestAuto:
    def test_a_span_that_is_adopted_stays_failed(self, play):
        """Traceloop ends each span as a success."""
        [denied] = carriers(play("openai_agents", "traceloop"), "deny")
        assert (denied["name"], denied["status"]) == ("delete_page.tool", "ERROR")
