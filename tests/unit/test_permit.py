"""One call through two seats: only one knows the server, or both know different things."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import approvals, hooks, policy, types
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.permits import NextSeat, Permits
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash


class Outer(ToolSeat):
    """A framework's seat, which hands a call on."""

    def __init__(self, server: str | None) -> None:
        self.server = server

    def next_seat(self, call: Call) -> NextSeat:
        return NextSeat("inner", call.name, self.server)

    def denied(self, call: Call, reason: str) -> Any:
        return f"denied: {reason}"


class Inner(ToolSeat):
    """A deeper seat; records what it got."""

    group = "inner"

    def __init__(self) -> None:
        self.told: list[Any] = []

    def denied(self, call: Call, reason: str) -> Any:
        return f"refused: {reason}"

    def error(self, call: Call, raw: Any) -> str | None:
        return raw if raw == "failed" else None

    def finished(self, call: Call, seconds: float, failure: Any, span: Any) -> None:
        self.told.append((call.name, failure, span is not None))

    def error_type(self, error: BaseException) -> str:
        return "-32000"


def nested(outer: Call, inner: Call, server: str | None, *bodies: Any, seat: Any = None) -> Any:
    """Run a call whose body makes another; return what the inner calls gave."""
    rt = runtime.active()
    assert rt is not None
    inner_seat = seat or Inner()
    found: list[Any] = []

    def body(args: Any) -> Any:
        for one in bodies:
            call = Call(inner.name, dict(inner.args), server=inner.server)
            call.claimed_server, call.server_says = inner.claimed_server, inner.server_says
            call.kind, call.canonical = inner.kind, inner.canonical
            found.append(drive(tool(rt, inner_seat, call), lambda _, one=one: one))
        return "done"

    drive(tool(rt, Outer(server), outer), body)
    return found


def instrument(rules: Any, tracer_provider: Any, **settings: Any) -> None:
    """Instrument no framework."""
    otelhooks.instrument(policies=rules, frameworks=[], tracer_provider=tracer_provider, **settings)


def fetch(**where: Any) -> Call:
    return Call("fetch", {"x": 1}, **where)


def spans(exporter: Any) -> list[tuple[str, Any]]:
    found = exporter.get_finished_spans()
    return [(s.name, s.attributes.get(semconv.POLICY_DECISION)) for s in found]


def test_a_seat_that_cannot_know_the_server_takes_the_name_from_the_permit(
    tracer_provider, exporter
):
    rules = [policy.allow("github/*"), policy.deny("other/*"), policy.deny_all()]
    instrument(rules, tracer_provider, mcp_servers=[])
    call = fetch(claimed_server=True)
    assert nested(fetch(server="github"), call, "github", "ok") == ["ok"]
    assert spans(exporter) == [("execute_tool fetch", "allow")]


def test_a_seat_that_knows_another_server_judges_anew(tracer_provider, exporter):
    rules = [policy.deny("evil/*", reason="not there"), policy.allow("*")]
    instrument(rules, tracer_provider, mcp_servers=[])
    call = fetch(server="evil")
    assert nested(fetch(server="github"), call, "github", "ok") == ["refused: not there"]
    assert len(spans(exporter)) == 2


def test_a_local_call_does_not_take_a_servers_permit():
    permits = Permits()
    permits.leave(NextSeat("inner", "fetch", "github"), {"x": 1})
    assert permits.holds("inner")
    assert permits.take("inner", fetch()) is None
    assert permits.take("inner", fetch(claimed_server=True)) is not None
    assert not permits.holds("inner")


def test_a_permit_is_for_one_tool_at_one_seat():
    permits = Permits()
    permits.leave(NextSeat("inner", "fetch", None), {"x": 1})
    assert permits.take("other", fetch()) is None
    assert permits.take("inner", Call("send", {"x": 1})) is None
    assert permits.take("inner", fetch()) is not None


def test_a_limit_counts_a_call_once_at_all_its_seats(tracer_provider):
    instrument([policy.RateLimit(tool_calls=1, per="day")], tracer_provider)
    assert nested(fetch(), fetch(server="github"), None, "ok") == ["ok"]


def test_what_a_server_calls_itself_is_judged_once_a_deeper_seat_hears_it(
    tracer_provider, exporter
):
    rules = [policy.deny("evil/*", reason="not there"), policy.allow("github/*")]
    instrument(rules, tracer_provider, mcp_servers=[])
    call = fetch(claimed_server=True, server_says="evil")
    assert nested(fetch(server="github"), call, "github", "ok") == ["refused: not there"]
    assert spans(exporter) == [("execute_tool fetch", "deny")]
    [span] = exporter.get_finished_spans()
    assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
    assert span.status.description == "not there"


def test_a_span_tells_the_server_that_only_a_deeper_seat_knows(tracer_provider, exporter):
    """So that the call can be judged again from its span."""
    instrument([policy.allow("*")], tracer_provider, mcp_servers=[])
    assert nested(fetch(claimed_server=True), fetch(server="github"), None, "ok") == ["ok"]
    [span] = exporter.get_finished_spans()
    assert span.attributes["otelhooks.tool.server"] == "github"


@pytest.mark.parametrize(
    ("rule", "news"),
    [
        (policy.deny("kind:shell", reason="no"), {"kind": "shell"}),
        (policy.deny("run_command", reason="no"), {"canonical": ("run_command",)}),
    ],
)
def test_what_only_a_deeper_seat_knows_of_the_tool_is_judged_there(
    tracer_provider, exporter, rule, news
):
    instrument([rule, policy.allow("*")], tracer_provider)
    assert nested(fetch(), fetch(**news), None, "ok") == ["refused: no"]
    assert spans(exporter) == [("execute_tool fetch", "deny")]


def test_rules_see_at_a_deeper_seat_what_the_outer_one_knew(tracer_provider):
    seen: list[Any] = []

    def when(call: types.ToolCall) -> bool:
        seen.append((call.id, call.canonical_path, call.raw))
        return False

    instrument([policy.deny("fetch", when=when)], tracer_provider)
    outer = fetch(id="call-1", path="/w/a.txt", raw="{}")
    assert nested(outer, fetch(kind="shell"), None, "ok") == ["ok"]
    assert seen == [("call-1", "/w/a.txt", "{}")] * 2


def of_github(test: Any) -> Any:
    def when(call: types.ToolCall) -> bool:
        return call.server_name == "github" and test(call)

    return when


@pytest.mark.parametrize(
    ("known", "rule"),
    [
        ({"id": "c7"}, policy.deny("*", when=of_github(lambda call: call.id == "c7"))),
        ({"kind": "shell"}, policy.deny("kind:shell", when=of_github(bool))),
        ({"canonical": ("run_command",)}, policy.deny("run_command", when=of_github(bool))),
        ({"path": "/w/a"}, policy.deny("*", when=of_github(lambda c: c.canonical_path == "/w/a"))),
        ({"raw": "{}"}, policy.deny("*", when=of_github(lambda call: call.raw == "{}"))),
        ({"work_dir": "/w"}, policy.deny("*", when=of_github(lambda call: call.work_dir == "/w"))),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_what_only_the_first_seat_knows_is_judged_where_the_server_is_known(
    tracer_provider, known, rule
):
    instrument([rule], tracer_provider)
    [said] = nested(fetch(**known), fetch(server="github"), None, "ok")
    assert said.startswith("refused: ")


def no_github(call: types.ToolCall) -> types.HookResult:
    return types.HookResult(allow=call.server_name != "github", message="no")


def no_github_rule(call: types.ToolCall) -> bool:
    return call.server_name == "github"


@hooks.pre_tool_call_decide
def no_net(context: hooks.OperationContext, call: types.ToolCall) -> types.HookResult:
    return types.HookResult(allow=context.tool_kind != "net", message="no")


@hooks.pre_tool_call_decide
def no_get(context: hooks.OperationContext, call: types.ToolCall) -> types.HookResult:
    return types.HookResult(allow="get" not in context.canonical, message="no")


@pytest.mark.parametrize(
    ("hook", "news"),
    [
        (hooks.pre_tool_call_decide(no_github), {"server": "github"}),
        (
            policy.enforce([policy.deny("*", when=no_github_rule, reason="no")]),
            {"server": "github"},
        ),
        (no_net, {"kind": "net"}),
        (no_get, {"canonical": ("get",)}),
        (policy.enforce([policy.deny("kind:net", reason="no")]), {"kind": "net"}),
        (policy.enforce([policy.deny("get", reason="no")]), {"canonical": ("get",)}),
    ],
)
@pytest.mark.parametrize("is_scoped", [False, True])
def test_hooks_that_allowed_are_asked_again_where_more_is_known(
    tracer_provider, exporter, hook, news, is_scoped
):
    instrument([], tracer_provider, hooks=[] if is_scoped else [hook], mcp_servers=[])
    with otelhooks.scope(hooks=[hook] if is_scoped else []):
        assert nested(fetch(), fetch(**news), None, "ok") == ["refused: no"]
    assert spans(exporter) == [("execute_tool fetch", "deny")]


def test_a_hook_that_rewrites_at_a_deeper_seat_denies(tracer_provider):
    """There it can no longer be said of the call, and hooks before it have not seen it."""

    @hooks.pre_tool_call_decide
    def hide(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": 2} if call.server_name else {"x": 1})

    instrument([], tracer_provider, hooks=[hide], mcp_servers=[])
    found = nested(fetch(), fetch(server="github"), None, "ok")
    assert found == ["refused: arguments not stable"]
    assert nested(fetch(), fetch(kind="net"), None, "ok") == ["ok"]


def audited(path: Any) -> list[dict[str, Any]]:
    otelhooks.uninstrument()
    lines = [line for file in path.glob("*.jsonl") for line in file.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if "decision" in record]


def _answer(answer: Any, call: types.ToolCall) -> Any:
    return answer


@pytest.mark.parametrize("content", [False, True])
def test_an_edit_at_a_deeper_seat_is_shown_to_hooks_and_recorded(
    tracer_provider, exporter, tmp_path, content
):
    asked: list[Any] = []

    @hooks.pre_tool_call_decide
    def guard(call: types.ToolCall) -> types.HookResult:
        asked.append(call.args["x"])
        return types.HookResult(allow=call.args["x"] != 666, message="evil")

    for kind, edit, found in (
        (None, 2, {"x": 2}),
        ("net", 2, {"x": 2}),
        (None, 666, "refused: evil"),
        (None, None, {"x": 1}),
    ):
        asked.clear()
        exporter.clear()
        changed = None if edit is None else {"x": edit}
        answer = approvals.Approval("approved", edit=changed)
        rule = policy.ask_user("kind:net", handler=partial(_answer, answer))
        path = tmp_path / f"{kind}-{edit}"
        settings: dict[str, Any] = {"capture_content": "SPAN_ONLY"} if content else {}
        instrument([rule], tracer_provider, hooks=[guard], audit=path, **settings)
        rt = runtime.active()
        assert rt is not None
        inner, ran = Inner(), []

        def body(args: Any, rt: Any = rt, inner: Any = inner, ran: Any = ran) -> Any:
            call = Call("fetch", dict(args), kind="net")
            ran.append(drive(tool(rt, inner, call), dict))
            return "done"

        drive(tool(rt, Outer(None), fetch(kind=kind)), body)
        assert ran == [found]
        assert asked[-1] == (edit or 1)
        [*_, span] = exporter.get_finished_spans()
        runs = {"x": edit or 1}
        assert span.attributes[semconv.ARGUMENTS_HASH] == arguments_hash(runs)
        if content:
            assert json.loads(span.attributes[semconv.GEN_AI_TOOL_CALL_ARGUMENTS]) == runs
        *_, record = audited(path)
        assert record["arguments"] == runs
        assert record["arguments_hash"] == arguments_hash(runs)


def test_a_deny_at_a_deeper_seat_is_told_as_any_denied_call(tracer_provider, exporter, tmp_path):
    heard: list[Any] = []

    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        heard.append(error)
        return "recovered"

    @hooks.post_tool_call
    def see(result: types.ToolResult) -> None:
        heard.append(result)

    class Raising(Inner):
        def denied(self, call: Call, reason: str) -> Any:
            raise RuntimeError(reason)

    hook = hooks.pre_tool_call_decide(no_github)
    for inner in (Inner(), Raising()):
        exporter.clear()
        path = tmp_path / type(inner).__name__
        reader = InMemoryMetricReader()
        instrument(
            [],
            tracer_provider,
            meter_provider=MeterProvider([reader], shutdown_on_exit=False),
            hooks=[hook, recover, see],
            mcp_servers=[],
            audit=path,
        )
        rt = runtime.active()
        assert rt is not None

        def body(args: Any, rt: Any = rt, inner: Any = inner) -> Any:
            call = Call("fetch", dict(args), server="github")
            return drive(tool(rt, inner, call), lambda _: "ran")

        assert drive(tool(rt, Outer(None), fetch()), body) == "denied: no"
        [span] = exporter.get_finished_spans()
        assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
        assert span.status.description == "no"
        data = reader.get_metrics_data()
        assert data is not None
        assert semconv.METRIC_TOOL_CALLS not in data.to_json()
        assert [(r["decision"], r.get("server")) for r in audited(path)] == [
            ("allow", None),
            ("deny", "github"),
        ]
    assert heard == []


def test_a_hook_is_told_at_a_deeper_seat_that_it_is_asked_again(tracer_provider):
    told: list[tuple[str | None, bool]] = []

    @hooks.pre_tool_call_decide
    def look(context: hooks.OperationContext, call: types.ToolCall) -> types.HookResult:
        told.append((call.server_name, context.is_recheck))
        return types.HookResult()

    instrument([], tracer_provider, hooks=[look], mcp_servers=[])
    assert nested(fetch(), fetch(server="github"), None, "ok") == ["ok"]
    assert nested(fetch(), fetch(), None, "ok") == ["ok"]
    assert told == [(None, False), ("github", True), (None, False)]


def test_where_rules_are_asked_again_without_news_hooks_are_not(tracer_provider):
    asked: list[str] = []
    rule = policy.deny("fetch", when=lambda args: bool(asked.append("rule")))
    enforced = policy.deny("fetch", when=lambda args: bool(asked.append("enforced")))
    hook = hooks.pre_tool_call_decide(lambda call: asked.append("hook") or types.HookResult())
    instrument([rule], tracer_provider, hooks=[hook, policy.enforce([enforced])])

    class Again(Inner):
        judges_again = True

    assert nested(fetch(), fetch(), None, "ok", seat=Again()) == ["ok"]
    assert asked == ["hook", "enforced", "rule", "enforced", "rule"]


@pytest.mark.parametrize("known", [{}, {"kind": "net"}, {"canonical": ("get",)}])
def test_a_deeper_seat_that_knows_nothing_more_does_not_ask_again(tracer_provider, known):
    judged: list[Any] = []
    rule = policy.deny("fetch", when=lambda args: bool(judged.append(args)))
    instrument([rule], tracer_provider)
    for deeper in ({}, known):
        judged.clear()
        assert nested(fetch(**known), fetch(**deeper), None, "ok") == ["ok"]
        assert len(judged) == 1


def test_a_server_whose_name_no_seat_knows_stays_one(tracer_provider):
    instrument([policy.deny("github/fetch", reason="no")], tracer_provider, mcp_servers=[])
    inner = fetch(claimed_server=True, kind="net")
    assert nested(fetch(), inner, None, "ok") == ["refused: no"]


def test_a_server_that_calls_itself_by_its_known_name_is_not_news(tracer_provider):
    judged: list[Any] = []
    rule = policy.deny("github/fetch", when=lambda args: bool(judged.append(args)))
    instrument([rule], tracer_provider, mcp_servers=[])
    inner = fetch(server="github", server_says="github")
    assert nested(fetch(server="github"), inner, "github", "ok") == ["ok"]
    assert len(judged) == 1


def test_the_span_of_a_call_denied_at_a_deeper_seat_can_be_left_unset(tracer_provider, exporter):
    instrument([policy.deny("kind:shell")], tracer_provider, denied_span_status="unset")
    assert len(nested(fetch(), fetch(kind="shell"), None, "ok")) == 1
    [span] = exporter.get_finished_spans()
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert span.status.status_code is StatusCode.UNSET


def test_a_call_without_a_decider_gets_no_verdict_at_a_deeper_seat(tracer_provider, exporter):
    instrument([], tracer_provider, mcp_servers=[])
    assert nested(fetch(claimed_server=True), fetch(server="github"), None, "ok") == ["ok"]
    assert spans(exporter) == [("execute_tool fetch", None)]


@pytest.mark.parametrize("name", ["POST /chat", "fetch"])
def test_what_a_deeper_seat_denies_fails_no_span_that_is_not_the_calls(
    tracer_provider, exporter, name
):
    """With ``spans="annotate"``; the span of the call itself carries the last verdict and fails."""
    rules = [policy.deny("evil/*", reason="not there"), policy.allow("github/*")]
    instrument(rules, tracer_provider, mcp_servers=[], spans="annotate")
    call = fetch(claimed_server=True, server_says="evil")
    with tracer_provider.get_tracer("theirs").start_as_current_span(name):
        assert nested(fetch(server="github"), call, "github", "ok") == ["refused: not there"]
    (span,) = exporter.get_finished_spans()
    told = [event.attributes[semconv.POLICY_DECISION] for event in span.events]
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert (told, span.status.is_ok) == (([], False) if name == "fetch" else (["deny"], True))


def test_what_a_person_approved_is_not_asked_again_once_the_server_is_known(
    tracer_provider, exporter
):
    asked: list[str] = []

    def approve(call: types.ToolCall) -> bool:
        asked.append(call.name)
        return True

    instrument([policy.ask_user("*/fetch", handler=approve)], tracer_provider, mcp_servers=[])
    found = nested(fetch(claimed_server=True), fetch(server="github"), None, "ok")
    assert found == ["ok"]
    assert asked == ["fetch"]


def test_a_rule_that_only_a_deeper_seat_can_match_asks_there(tracer_provider, exporter):
    """An approval is for the rules that people were asked for, not for those that match later."""
    asked: list[str] = []

    def approve(name: str, answer: bool) -> Any:
        return lambda call: asked.append(name) or answer

    for answer, found in ((True, "ok"), (False, "refused: User denied tool 'fetch' (policy 'g').")):
        asked.clear()
        rules = [
            policy.ask_user("github/fetch", handler=approve("github", answer), name="g"),
            policy.ask_user("fetch", handler=approve("fetch", True)),
        ]
        instrument(rules, tracer_provider, mcp_servers=[])
        assert nested(fetch(), fetch(server="github"), None, "ok") == [found]
        assert asked == ["fetch", "github"]
        otelhooks.uninstrument()


def test_a_call_that_follows_up_has_a_permit_of_its_own_and_rules_are_asked_again(
    tracer_provider, exporter
):
    judged: list[int] = []

    class Rounds(Inner):
        judges_again = True

        def follow_up(self, call: Call, raw: Any) -> NextSeat | None:
            return NextSeat("inner", call.name) if raw == "more" else None

    def count(args: dict[str, Any]) -> bool:
        judged.append(args["x"])
        return len(judged) > 3

    instrument([policy.deny("fetch", when=count, reason="enough")], tracer_provider)
    bodies = ("more", "more", "more")
    found = nested(fetch(), fetch(), None, *bodies, seat=Rounds())
    assert found == ["more", "more", "refused: enough"]
    assert [name for name, _ in spans(exporter)] == ["execute_tool fetch"]


@pytest.mark.parametrize(("body", "failure"), [("ok", None), ("failed", semconv.ERROR_TOOL_ERROR)])
def test_a_deeper_seat_is_told_how_its_part_ended(tracer_provider, body, failure):
    instrument([policy.deny("x")], tracer_provider)
    seat = Inner()
    nested(fetch(), fetch(), None, body, seat=seat)
    assert seat.told == [("fetch", failure, True)]


def test_a_seat_names_the_type_of_its_errors(tracer_provider, exporter):
    instrument([policy.deny("x")], tracer_provider)
    rt = runtime.active()
    assert rt is not None
    seat = Inner()

    def body(args: Any) -> Any:
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        drive(tool(rt, seat, fetch()), body)
    (span,) = exporter.get_finished_spans()
    assert span.attributes[semconv.ERROR_TYPE] == "-32000"
    assert seat.told == [("fetch", "-32000", True)]


def test_a_seat_can_stand_on_an_attribute_that_the_constructor_sets():
    from otelhooks.patching import patches
    from otelhooks.patching.seats import Seat, find

    class Server:
        def __init__(self) -> None:
            self.handlers: dict[str, Any] = {}

    module = type(hooks)("fake_server")
    module.Server = Server
    seat = Seat("fake_server", "Server.handlers", patches.pass_through, install=lambda *_: list)
    assert find(seat, module) is not None
    assert find(Seat("fake_server", "Server.others", install=lambda *_: list), module) is None


def test_a_seat_finds_the_copies_that_modules_made_of_a_function(monkeypatch):
    """They get the wrapper, and the function again; what is another function stays."""
    import sys

    from otelhooks.patching import handles, seats

    def connect() -> str:
        return "connected"

    defining, copying, other = (type(hooks)(f"fake_{n}") for n in ("one", "two", "three"))
    defining.connect = copying.connect = connect
    other.connect = len
    for module in (defining, copying, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    seen: list[str] = []

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        seen.append("called")
        return wrapped(*args, **kwargs)

    seat = seats.Seat("fake_one", "connect", wrapper, copies=True)
    switch = seats.Switch(lambda: otelhooks.errors.SeatError("never"))
    switch.mode = seats.GUARD
    place = seats.find(seat, defining)
    assert place is not None
    handle = handles.Handle(seat, place, switch)
    handles.wrap_copies([handle])
    assert copying.connect() == defining.connect() == "connected"
    assert seen == ["called", "called"]
    assert other.connect is len
    handles.restore_copies([handle], everywhere=False)
    handle.undo()
    assert copying.connect is defining.connect is connect
