"""Attempts to get round the pipeline, without any framework; docs/attacks.md lists them all."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import ctypes
import datetime
import decimal
import enum
import json
import logging
import pathlib
import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import _logs as logs
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider

import otelhooks
from otelhooks import approvals, errors, hooks, policy, types
from otelhooks.audit import verify
from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.permits import NextSeat
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv

REFUSED = "The call was refused because a policy check failed."


class Tools:
    """Tools that note what they were given."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @otelhooks.tool
        def act(x: Any = None) -> str:
            self.ran.append(x)
            return "done"

        self.act = act


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def on(tracer_provider):
    """Instrument no framework, with these rules."""

    def start(*rules: Any, **settings: Any) -> Any:
        settings.setdefault("tracer_provider", tracer_provider)
        otelhooks.instrument(policies=list(rules), frameworks=[], **settings)
        return runtime.active()

    return start


def bad(args: dict[str, Any]) -> bool:
    return args["x"] == "bad"


def audited(path: Any) -> list[dict[str, Any]]:
    otelhooks.uninstrument()
    lines = [json.loads(t) for f in path.parent.glob("audit*") for t in f.read_text().splitlines()]
    return [line for line in lines if "decision" in line]


HUGE = 10**5000  # Python refuses to write it as a decimal number


class Day(enum.Enum):
    MONDAY = 1


class Equal:
    """Cannot be compared, like an array of numpy."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


class Unsaid(str):
    """Has no text."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("unsaid")


def in_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


ODD: dict[str, Any] = {
    "dates as keys": lambda: {datetime.date(2026, 1, 1): "x"},
    "members as keys": lambda: {Day.MONDAY: 1},
    "bytes as keys": lambda: [{b"k": 1}],
    "tuples as keys": lambda: {(1, 2): {(3,): 4}},
    "keys of all kinds": lambda: {None: 1, "None": 2, 1.5: 3, (): 4, b"": 5},
    "a huge number": lambda: HUGE,
    "a huge number below zero": lambda: {"n": [-HUGE]},
    "a huge number as a key": lambda: {HUGE: 1},
    "a huge number in a key": lambda: {(HUGE,): 1},
    "a huge number in a set": lambda: {HUGE},
    "a huge number in an object": lambda: decimal.Decimal(HUGE),
    "a secret that cannot be compared": lambda: {"password": Equal(), "in": ["password", Equal()]},
    "a pair that cannot be compared": lambda: [["password", Equal()]],
    "a text without a text": lambda: [Unsaid("x")],
    "nested deep": lambda: nested(200),
    "a view without length": lambda: memoryview(ctypes.c_int(1)),
}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Unspeakable(Exception):
    """An exception whose own code raises."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    __str__ = __repr__


class TestArguments:
    """What a tool is given."""

    @pytest.mark.parametrize("value", [in_itself(), nested(5000)], ids=["in itself", "deep"])
    def test_arguments_that_cannot_be_copied_deny_and_are_recorded(
        self, on, tools, tmp_path, value
    ):
        on(policy.allow("*"), audit=tmp_path / "audit.jsonl")
        with pytest.raises(errors.Denied, match=REFUSED):
            tools.act(value)
        assert tools.ran == []
        (record,) = audited(tmp_path / "audit.jsonl")
        assert (record["decision"], record["arguments"]) == ("deny", {})

    @pytest.mark.parametrize(
        "make",
        [
            lambda inner: (inner,),
            lambda inner: collections.OrderedDict(a=inner),
            lambda inner: collections.defaultdict(list, a=inner),
        ],
        ids=["tuple", "OrderedDict", "defaultdict"],
    )
    def test_what_a_predicate_changes_inside_a_container_is_not_what_runs(self, on, tools, make):
        def change(args: dict[str, Any]) -> bool:
            held = args["x"]
            (held[0] if isinstance(held, tuple) else held["a"]).append("/etc")
            return False

        on(policy.deny("act", when=change), policy.allow("*"))
        with pytest.raises(errors.Denied, match="in place"):
            tools.act(make(["/ok"]))
        assert tools.ran == []

    @pytest.mark.parametrize(
        "make",
        [
            lambda inner: (inner,),
            lambda inner: collections.OrderedDict(a=inner),
        ],
        ids=["tuple", "OrderedDict"],
    )
    def test_a_thread_that_keeps_the_arguments_does_not_change_what_runs(self, on, tools, make):
        kept: list[Any] = ["/ok"]

        def answer(call: types.ToolCall) -> bool:
            thread = threading.Thread(target=lambda: kept.append("/etc"))
            thread.start()
            thread.join()
            return True

        on(policy.ask_user("act", handler=answer))
        tools.act(make(kept))
        assert tools.ran == [make(["/ok"])]

    def test_a_set_that_an_approver_fills_is_not_what_runs(self, on, tools):
        on(policy.ask_user("act", handler=lambda call: call.args["x"].add("/etc") is None))
        tools.act({"/ok"})
        assert tools.ran == [{"/ok"}]

    def test_keys_that_cannot_be_ordered_are_recorded(self, on, tools, tmp_path):
        on(policy.allow("*"), audit=tmp_path / "audit.jsonl")
        assert tools.act({1: "a", "b": 2}) == "done"
        assert len(audited(tmp_path / "audit.jsonl")) == 1

    def test_a_value_whose_repr_raises_is_recorded(self, on, tools, tmp_path):
        class Silent:
            def __repr__(self) -> str:
                raise ValueError("no text")

        on(policy.allow("*"), audit=tmp_path / "audit.jsonl")
        assert tools.act(Silent()) == "done"
        assert len(audited(tmp_path / "audit.jsonl")) == 1

    def test_no_number_is_the_same_on_its_way_to_a_deeper_seat(self, on, exporter):
        on(policy.allow("*"))
        handed_on(Call("pay", {"x": float("nan")}), Call("pay", {"x": float("nan")}))
        assert len(exporter.get_finished_spans()) == 1

    @pytest.mark.parametrize("field", ["canonical_path", "raw", "id", "branch", "agent"])
    def test_a_hook_cannot_lie_to_rules_about_the_call(self, on, field):
        @hooks.pre_tool_call_decide
        def lie(call: types.ToolCall) -> types.HookResult:
            setattr(call, field, "forged")
            return types.HookResult()

        def is_true(call: types.ToolCall) -> bool:
            return getattr(call, field) != "forged"

        rt = on(policy.deny("*", when=is_true), hooks=[lie])
        call = Call("read", {}, path="/etc/passwd", raw="{}", id="1", agent="a", branch="a")
        with pytest.raises(errors.Denied):
            drive(tool(rt, ToolSeat(), call), lambda _: "done")

    def test_a_rewrite_that_is_not_a_dict_denies(self, on, tools):
        @hooks.pre_tool_call_decide
        def confused(call: types.ToolCall) -> types.HookResult:
            result = types.HookResult()
            result.modified_args = 5  # type: ignore[assignment]
            return result

        on(hooks=[confused])
        with pytest.raises(errors.Denied, match=REFUSED):
            tools.act("x")
        assert tools.ran == []


class Through(ToolSeat):
    """A seat that hands its call on."""

    def next_seat(self, call: Call) -> NextSeat:
        return NextSeat("deeper", call.name)


class Deeper(ToolSeat):
    """The seat that it reaches."""

    group = "deeper"


def handed_on(outer: Call, inner: Call, again: int = 1) -> list[Any]:
    """Make a call whose body makes another, so many times; return their results."""
    rt = runtime.active()
    assert rt is not None
    found: list[Any] = []

    def body(_: Any) -> None:
        for _ in range(again):
            try:
                found.append(drive(tool(rt, Deeper(), inner), lambda args: args))
            except errors.Denied as error:
                found.append(error)

    drive(tool(rt, Through(), outer), body)
    return found


class TestPermits:
    """What a call on its way leaves behind."""

    def test_a_permit_is_used_once(self, on, exporter):
        on(policy.allow("*"))
        handed_on(Call("pay", {"x": 1}), Call("pay", {"x": 1}), again=2)
        assert len(exporter.get_finished_spans()) == 2

    def test_a_tool_of_the_same_name_that_is_known_for_a_shell_is_judged(self, on):
        on(policy.deny("run_command", reason="no shell"), policy.allow("*"))
        inner = Call("run", {"x": 1}, canonical=("run_command",), kind="shell")
        with pytest.raises(errors.Denied, match="no shell"):
            handed_on(Call("run", {"x": 1}), inner)

    @pytest.mark.parametrize("args", [{"x": 1.0}, {"x": True}, {"x": 1, "y": None}, {}])
    def test_equal_is_not_the_same(self, on, exporter, args):
        on(policy.allow("*"))
        handed_on(Call("pay", {"x": 1}), Call("pay", args))
        assert len(exporter.get_finished_spans()) == 2

    def test_two_threads_do_not_both_take_one(self, on, exporter):
        rt = on(policy.allow("*"))
        import contextvars

        def body(_: Any) -> None:
            def inner() -> None:
                drive(tool(rt, Deeper(), Call("pay", {"x": 1})), lambda args: args)

            threads = [
                threading.Thread(target=contextvars.copy_context().run, args=(inner,))
                for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        drive(tool(rt, Through(), Call("pay", {"x": 1})), body)
        assert len(exporter.get_finished_spans()) == 8  # the call, and all but one below it


class Pausing(ToolSeat):
    """A framework whose tool returns before it is done."""

    def is_paused(self, call: Call, raw: Any) -> bool:
        return raw == "come back"


class TestPauses:
    """An approval that was given before a pause."""

    def pause(self, rt: Any, *calls: Call) -> list[Any]:
        found: list[Any] = []
        for call, answer in zip(calls, ["come back"] + ["done"] * len(calls), strict=False):
            try:
                found.append(drive(tool(rt, Pausing(), call), lambda _, answer=answer: answer))
            except errors.Denied as error:
                found.append(error)
        return found

    def approve_once(self, on: Any, *rules: Any, **settings: Any) -> tuple[Any, list[str]]:
        asked: list[str] = []

        def answer(call: types.ToolCall) -> bool:
            asked.append(str(call.name))
            return len(asked) == 1

        return on(policy.ask_user("*", handler=answer), *rules, **settings), asked

    def test_it_holds_for_the_very_same_call_once(self, on):
        rt, asked = self.approve_once(on)
        calls = [Call("deploy", {"to": "test"}, id="1") for _ in range(3)]
        first, second, third = self.pause(rt, *calls)
        assert (first, second) == ("come back", "done")
        assert isinstance(third, errors.Denied)
        assert asked == ["deploy", "deploy"]

    @pytest.mark.parametrize(
        "other",
        [
            Call("delete", {"to": "test"}, id="1"),
            Call("deploy", {"to": "prod"}, id="1"),
            Call("deploy", {"to": "test"}, id="2"),
            Call("deploy", {"to": "test"}, id="1", server="ops"),
        ],
        ids=["name", "arguments", "id", "server"],
    )
    def test_another_call_is_asked_anew(self, on, other):
        rt, asked = self.approve_once(on, mcp_servers=[])
        _, second = self.pause(rt, Call("deploy", {"to": "test"}, id="1"), other)
        assert isinstance(second, errors.Denied)
        assert len(asked) == 2

    def test_values_that_only_look_the_same_are_asked_anew(self, on):
        class Order:
            def __repr__(self) -> str:
                return "Order()"

        rt, _ = self.approve_once(on)
        calls = [Call("pay", {"what": Order()}, id="1") for _ in range(2)]
        _, second = self.pause(rt, *calls)
        assert isinstance(second, errors.Denied)

    def test_it_is_no_answer_to_a_rule_that_asks_only_after_the_pause(self, on):
        late: list[bool] = []
        rt = on(
            policy.ask_user("deploy", when=lambda args: not late, handler=lambda call: True),
            policy.ask_user("*", handler=lambda call: False, name="late"),
        )
        call = Call("deploy", {}, id="1")
        drive(tool(rt, Pausing(), call), lambda _: late.append(True) or "come back")
        with pytest.raises(errors.Denied, match=r"policy 'late'"):
            drive(tool(rt, Pausing(), Call("deploy", {}, id="1")), lambda _: "done")

    def test_what_a_hook_rewrites_after_the_pause_is_asked_anew(self, on):
        @hooks.pre_tool_call_decide
        def rewrite(data: types.ToolCall) -> types.HookResult:
            return types.HookResult(modified_args={"to": "prod"} if asked else None)

        rt, asked = self.approve_once(on, hooks=[rewrite])
        calls = [Call("deploy", {"to": "test"}, id="1") for _ in range(2)]
        _, second = self.pause(rt, *calls)
        assert isinstance(second, errors.Denied)
        assert len(asked) == 2

    def test_a_deny_after_the_pause_is_recorded(self, on, tmp_path):
        late: list[bool] = []
        rt, _ = self.approve_once(
            on,
            policy.deny("deploy", when=lambda args: bool(late), id="late"),
            audit=tmp_path / "audit.jsonl",
        )
        call = Call("deploy", {}, id="1")
        drive(tool(rt, Pausing(), call), lambda _: late.append(True) or "come back")
        with pytest.raises(errors.Denied):
            drive(tool(rt, Pausing(), Call("deploy", {}, id="1")), lambda _: "done")
        found = [record["decision"] for record in audited(tmp_path / "audit.jsonl")]
        assert found == ["ask", "deny"]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (policy.allow("x"), policy.deny("deploy", mode="monitor", id="new")),
            (
                policy.ask_user("deploy", handler=lambda call: True, id="ask"),
                policy.ask_user("deploy", handler=lambda call, reason: True, id="ask"),
            ),
            (policy.allow("deploy", id="a"), policy.allow("deploy", id="a", severity="low")),
        ],
        ids=["observed", "approver", "policy version"],
    )
    @pytest.mark.parametrize("changes", [False, True])
    def test_what_changed_rules_say_of_it_after_the_pause_is_recorded(
        self, tmp_path, before, after, changes
    ):
        path = tmp_path / "audit.jsonl"
        handle = otelhooks.instrument(policies=[before], frameworks=[], audit=path)
        rt = runtime.active()
        assert rt is not None
        call = Call("deploy", {}, id="1")
        assert drive(tool(rt, Pausing(), call), lambda _: "come back") == "come back"
        handle.replace(policies=[after if changes else before])
        drive(tool(rt, Pausing(), Call("deploy", {}, id="1")), lambda _: "done")
        assert len(audited(path)) == 1 + changes


class TestNames:
    """What a tool is called."""

    def test_a_local_tool_with_a_servers_name_in_its_own_is_denied_by_the_servers_rules(self, on):
        rt = on(policy.deny("docs/delete_*"), policy.allow("*"), mcp_servers=[])
        with pytest.raises(errors.Denied):
            drive(tool(rt, ToolSeat(), Call("docs/delete_page", {})), lambda _: "done")

    def test_such_a_tool_is_not_allowed_by_the_servers_rules(self, on):
        rt = on(policy.allow("docs/*"), policy.deny_all(), mcp_servers=[])
        with pytest.raises(errors.Denied):
            drive(tool(rt, ToolSeat(), Call("docs/delete_page", {})), lambda _: "done")

    @pytest.mark.parametrize(
        "name", ["", " pay", "PAY", "p\u0430y", "pay\n", "pay\u200b", "/", "a/"]
    )
    def test_a_name_that_looks_like_an_allowed_one_is_not_allowed(self, on, name):
        rt = on(policy.allow("pay"), policy.deny_all())
        with pytest.raises(errors.Denied):
            drive(tool(rt, ToolSeat(), Call(name, {})), lambda _: "done")

    def test_half_a_surrogate_pair_does_not_cost_the_exporter_its_batch(self, on, exporter):
        rt = on(policy.deny("rm*"))
        with pytest.raises(errors.Denied):
            drive(tool(rt, ToolSeat(), Call("rm\ud800", {"x": "\ud800"}, id="1")), lambda _: 1)
        spans = exporter.get_finished_spans()
        sent = encode_spans(spans).SerializeToString()
        assert rb"rm\ud800" in sent
        assert b"deny" in sent

    def test_half_a_surrogate_pair_in_a_reason_or_id_costs_neither_the_batch_nor_the_text(
        self, on, exporter, caplog
    ):
        @hooks.pre_tool_call_decide
        def block(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            context.set_attribute("app.paths", [call.args["path"]])
            context.event("seen", {"path": call.args["path"]})
            return types.HookResult(allow=False, message=f"never {call.args['path']}")

        def ask(call: types.ToolCall) -> approvals.Approval:
            return approvals.Approval("rejected", approver_id="\ud801")

        rt = on(policy.ask_user("ask", handler=ask))
        with otelhooks.session("s\ud802"):
            for name, hook in (("rm", [block]), ("ask", [])):
                call = Call(name, {"path": "/\ud803"}, id="c\ud804")
                with otelhooks.scope(hooks=hook), pytest.raises(errors.Denied):
                    drive(tool(rt, ToolSeat(), call), lambda _: 1)
        sent = encode_spans(exporter.get_finished_spans()).SerializeToString()
        for text in (r"never /\ud803", r"\ud801", r"s\ud802", r"c\ud804"):
            assert text.encode() in sent
        assert not caplog.records


class TestScopes:
    """Blocks that add rules."""

    def test_a_generator_that_leaves_its_block_lifts_nothing_of_its_caller(self, on, tools):
        on(policy.allow("*"))

        def items() -> Any:
            with otelhooks.scope(policies=[policy.deny("other")]):
                yield 1

        running = items()
        next(running)
        with otelhooks.scope(policies=[policy.deny("act", when=bad)]):
            running.close()
            with pytest.raises(errors.Denied):
                tools.act("bad")
        assert tools.act("bad") == "done"
        assert tools.ran == ["bad"]

    def test_a_block_that_a_generator_left_is_over(self, on, tools):
        on(policy.allow("*"))

        def items() -> Any:
            with otelhooks.session("one", policies=[policy.deny("act")]):
                yield 1

        running = items()
        next(running)
        with otelhooks.scope(policies=[policy.deny("other")]):
            with pytest.raises(errors.Denied):
                tools.act(1)
            running.close()
            assert tools.act(2) == "done"
        assert otelhooks.current_context() is None

    def test_a_turn_that_ends_in_a_generator_lifts_no_block_of_its_caller(self, on, tools):
        on(policy.allow("*"))

        def items() -> Any:
            with otelhooks.turn("hello", agent="a"):
                yield 1

        running = items()
        next(running)
        with otelhooks.scope(policies=[policy.deny("act")]):
            running.close()
            with pytest.raises(errors.Denied):
                tools.act(1)
        assert tools.act(2) == "done"

    def test_rules_of_a_block_follow_into_a_thread_that_gets_the_context_only(self, on, tools):
        """`docs/attacks.md` says so: a bare thread starts without any block's rules."""
        import contextvars

        on(policy.deny("act", when=bad), policy.allow("*"))
        found: list[Any] = []

        def call(x: str) -> None:
            try:
                found.append(tools.act(x))
            except errors.Denied as error:
                found.append(str(error))

        with otelhooks.scope(policies=[policy.deny("act", reason="not in this block")]):
            for run, x in (
                (contextvars.copy_context().run, "x"),
                (contextvars.Context().run, "x"),
                (contextvars.Context().run, "bad"),
            ):
                thread = threading.Thread(target=run, args=(call, x))
                thread.start()
                thread.join()
        assert found == ["not in this block", "done", "Denied by policy 'act'."]


class TestExceptions:
    """What hooks, rules and tools raise."""

    @pytest.mark.parametrize(
        "error",
        [Unspeakable(), StopIteration(), BaseException("x"), RecursionError(), MemoryError()],
        ids=lambda error: type(error).__name__,
    )
    @pytest.mark.parametrize("where", ["rule", "hook", "approver"])
    def test_whatever_is_raised_denies_and_is_recorded(self, on, tools, tmp_path, error, where):
        def fail(*_: Any) -> bool:
            raise error

        @hooks.pre_tool_call_decide
        def hook(call: types.ToolCall) -> types.HookResult:
            raise error

        audit = tmp_path / "audit.jsonl"
        if where == "rule":
            on(policy.deny("act", when=fail), policy.allow("*"), audit=audit)
        elif where == "hook":
            on(policy.allow("*"), hooks=[hook], audit=audit)
        else:
            on(policy.ask_user("act", handler=lambda call: fail()), audit=audit)
        with pytest.raises(errors.Denied):
            tools.act(1)
        assert tools.ran == []
        (record,) = audited(audit)
        assert record["enforcement"] in {"blocked", "rejected"}

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    @pytest.mark.parametrize("where", ["rule", "hook"])
    def test_what_stops_the_program_stops_the_call(self, on, tools, error, where):
        def fail(*_: Any) -> bool:
            raise error

        @hooks.pre_tool_call_decide
        def hook(call: types.ToolCall) -> types.HookResult:
            raise error

        if where == "rule":
            on(policy.deny("act", when=fail), policy.allow("*"))
        else:
            on(policy.allow("*"), hooks=[hook])
        with pytest.raises(error):
            tools.act(1)
        assert tools.ran == []

    def test_a_tools_failure_goes_on_as_it_was_though_it_has_no_text(self, on, exporter):
        @otelhooks.tool
        def fail() -> None:
            raise Unspeakable

        on(policy.allow("*"))
        with pytest.raises(Unspeakable):
            fail()
        (span,) = exporter.get_finished_spans()
        assert span.attributes[semconv.ERROR_TYPE].endswith("Unspeakable")

    def test_a_hook_that_calls_the_tool_it_guards_ends_in_a_deny(self, on, tools):
        @hooks.pre_tool_call_decide
        def again(call: types.ToolCall) -> types.HookResult:
            tools.act(1)
            return types.HookResult()

        on(policy.allow("*"), hooks=[again])
        logging.disable()  # each level says that it failed
        try:
            with pytest.raises(errors.Denied):
                tools.act(1)
        finally:
            logging.disable(logging.NOTSET)
        assert tools.ran == []


class TestWhileItRuns:
    """What changes during a call."""

    def test_a_hook_that_removes_itself_still_denies_this_call(self, on, tools):
        @hooks.pre_tool_call_decide
        def once(call: types.ToolCall) -> types.HookResult:
            handle.unregister(once)
            return types.HookResult(allow=False, message="not now")

        handle = otelhooks.instrument(hooks=[once], frameworks=[])
        with pytest.raises(errors.Denied, match="not now"):
            tools.act(1)
        assert tools.act(2) == "done"
        assert tools.ran == [2]

    @pytest.mark.parametrize("answer", [True, False])
    def test_uninstrumenting_during_a_question_changes_nothing_for_it(self, on, tools, answer):
        def ask(call: types.ToolCall) -> bool:
            otelhooks.uninstrument()
            return answer

        on(policy.ask_user("act", handler=ask))
        if answer:
            assert tools.act(1) == "done"
        else:
            with pytest.raises(errors.Denied):
                tools.act(1)
        assert tools.ran == ([1] if answer else [])

    @pytest.mark.parametrize("answer", [True, False])
    def test_uninstrumenting_during_a_question_loses_neither_its_record_nor_its_span(
        self, on, tools, answer, tmp_path, exporter, caplog
    ):
        def ask(call: types.ToolCall) -> bool:
            otelhooks.uninstrument()
            return answer

        path = tmp_path / "audit.jsonl"
        on(policy.ask_user("act", handler=ask), audit=path)
        with contextlib.nullcontext() if answer else pytest.raises(errors.Denied):
            tools.act(1)
        status = "approved" if answer else "rejected"
        assert [record["approval_status"] for record in audited(path)] == [status]
        assert verify(path) == []
        waits = [s for s in exporter.get_finished_spans() if s.name.endswith("approval.wait act")]
        assert [wait.attributes[semconv.APPROVAL_STATUS] for wait in waits] == [status]
        assert not caplog.records

    def test_each_call_that_goes_on_after_uninstrumenting_has_its_record(self, on, tools, tmp_path):
        @hooks.pre_tool_call_decide
        def slow(call: types.ToolCall) -> types.HookResult:
            begun.wait(5)
            if call.args["x"] == 1:
                otelhooks.uninstrument()
                ended.set()
            ended.wait(5)
            return types.HookResult(allow=True)

        begun, ended, path = threading.Barrier(3), threading.Event(), tmp_path / "audit.jsonl"
        on(hooks=[slow], audit=path)
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            assert list(threads.map(tools.act, (1, 2, 3))) == ["done"] * 3
        assert len(audited(path)) == 3
        assert verify(path) == []

    def test_a_rule_that_is_added_during_a_question_is_for_the_next_call(self, on, tools):
        def ask(call: types.ToolCall) -> bool:
            handle.register(policy.deny("act", id="late"))
            return True

        handle = otelhooks.instrument(policies=[policy.ask_user("act", handler=ask)], frameworks=[])
        assert tools.act(1) == "done"
        with pytest.raises(errors.Denied):
            tools.act(2)
        assert tools.ran == [1]


class TestMonitor:
    """Mode `monitor`."""

    def test_a_veto_holds_and_its_failure_denies(self, on, tools):
        on(policy.veto("act", when=bad), policy.deny("act"), mode="monitor")
        assert tools.act("good") == "done"
        with pytest.raises(errors.Denied):
            tools.act("bad")

        def fail(args: dict[str, Any]) -> bool:
            raise LookupError("gone")

        otelhooks.uninstrument()
        on(policy.veto("act", when=fail), mode="monitor")
        with pytest.raises(errors.Denied):
            tools.act("good")
        assert tools.ran == ["good"]


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("telemetry is broken")


class BrokenSpan(trace.NonRecordingSpan):
    """A span whose methods all raise."""

    def __init__(self) -> None:
        super().__init__(trace.SpanContext(1, 2, False, trace.TraceFlags(1)))

    set_attribute = set_attributes = add_event = end = set_status = broken
    is_recording = record_exception = update_name = get_span_context = broken


class BrokenTracer(trace.NoOpTracer):
    """A tracer that gives broken spans, or none at all."""

    def __init__(self, start: Any) -> None:
        self.start_span = start


class BrokenTracers(trace.TracerProvider):
    """Their provider."""

    def __init__(self, start: Any) -> None:
        self.start = start

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        return BrokenTracer(self.start)


class Broken:
    """An object whose methods all raise."""

    def __getattr__(self, name: str) -> Any:
        return broken


class BrokenMeters(metrics.MeterProvider):
    """A provider of broken meters."""

    def get_meter(self, *args: Any, **kwargs: Any) -> Any:
        return Broken()


class BrokenLoggers(logs.LoggerProvider):
    """A provider of broken loggers."""

    def get_logger(self, *args: Any, **kwargs: Any) -> Any:
        return Broken()


class BrokenIds:
    """An id generator without ids."""

    generate_trace_id = generate_span_id = broken


BROKEN = {
    "spans": lambda: {"tracer_provider": BrokenTracers(lambda *_, **__: BrokenSpan())},
    "tracer": lambda: {"tracer_provider": BrokenTracers(broken)},
    "ids": lambda: {
        "tracer_provider": TracerProvider(id_generator=BrokenIds(), shutdown_on_exit=False)
    },
    "meter": lambda: {"meter_provider": BrokenMeters()},
    "logger": lambda: {"logger_provider": BrokenLoggers()},
}


class TestBrokenTelemetry:
    """Providers that raise whatever is asked of them."""

    @pytest.mark.parametrize("part", BROKEN)
    @pytest.mark.parametrize("with_hooks", [False, True])
    def test_calls_go_on_and_denies_hold(self, on, tools, part, with_hooks, caplog):
        @hooks.pre_tool_call_decide
        def look(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            assert isinstance(call.trace_id, str)
            return types.HookResult()

        @hooks.post_tool_call_transform
        def shout(result: types.ToolResult) -> str:
            return str(result.result).upper()

        @hooks.on_tool_error
        def recover(error: Exception) -> str:
            return "recovered"

        @otelhooks.tool
        def fail() -> None:
            raise LookupError("gone")

        rules = [
            policy.deny("act", when=bad),
            policy.ask_user("act", when=lambda args: args["x"] == "ask", handler=lambda _: True),
            policy.allow("*"),
        ]
        given = [look, shout, recover] if with_hooks else []
        on(*rules, hooks=given, capture_content="SPAN_AND_EVENT", **BROKEN[part]())
        expected = "DONE" if with_hooks else "done"
        assert tools.act("good") == expected
        assert tools.act("ask") == expected
        with pytest.raises(errors.Denied):
            tools.act("bad")
        with otelhooks.session("s"), otelhooks.turn("hello", agent="a"):
            assert tools.act("again") == expected
            with pytest.raises(errors.Denied):
                tools.act("bad")
        if with_hooks:
            assert fail() == "RECOVERED"
        assert tools.ran == ["good", "ask", "again"]


class TestTruth:
    """What is recorded."""

    def test_every_decision_has_an_id_of_its_own(self, on, tools, tmp_path):
        on(policy.allow("*"), audit=tmp_path / "audit.jsonl")
        for x in range(3):
            tools.act(x)
        ids = {record["decision_id"] for record in audited(tmp_path / "audit.jsonl")}
        assert len(ids) == 3

    def test_a_renamed_tool_is_recorded_with_each_of_its_names(self, on, tmp_path):
        rt = on(policy.allow("*"), audit=tmp_path / "audit.jsonl")
        for canonical in (("fs_delete", "delete"), ()):
            drive(tool(rt, ToolSeat(), Call("fs_delete", {}, canonical=canonical)), lambda _: None)
        first, second = audited(tmp_path / "audit.jsonl")
        assert (first["tool_name"], first["canonical"]) == ("fs_delete", ["fs_delete", "delete"])
        assert "canonical" not in second

    @pytest.mark.parametrize("required", [True, False])
    def test_a_record_that_cannot_be_made_denies_where_it_is_required(
        self, on, tools, tmp_path, monkeypatch, required
    ):
        trail = otelhooks.audit.Audit(tmp_path / "a", required=required)
        on(policy.allow("*"), audit=trail)
        monkeypatch.setattr(runtime, "arguments_hash", broken)
        if required:
            with pytest.raises(errors.Denied, match="could not be recorded"):
                tools.act(1)
        else:
            assert tools.act(1) == "done"
        assert len(tools.ran) == (not required)
        assert (trail.failed, trail.dropped) == (1, 1)
        trail.close()
        denied = [record["rule_id"] for record in audited(trail.segment)]
        assert denied == ["record_required"] * required
        assert [found.kind for found in otelhooks.audit.verify(trail.folder)] == ["lost"]

    def test_a_record_that_is_lost_without_a_call_that_waits_for_it_is_counted(
        self, on, tmp_path, monkeypatch
    ):
        trail = otelhooks.audit.Audit(tmp_path / "a")
        rt = on(audit=trail)
        monkeypatch.setattr(type(rt), "audit_record", broken)
        op: Any = SimpleNamespace(call=None, agent="", span=None)
        rt.record_unawaited(op, Verdict("pre_tool_call", "deny", allowed=False))
        assert trail.dropped == 1

    @pytest.mark.parametrize("content", [False, True], ids=["content off", "content on"])
    @pytest.mark.parametrize("required", [False, True], ids=["", "required"])
    @pytest.mark.parametrize("name", ODD)
    def test_whatever_the_arguments_are_the_call_has_its_span_and_its_record(
        self, on, exporter, tmp_path, name, required, content
    ):
        ran: list[str] = []

        @otelhooks.tool
        def plain(x: Any) -> None:
            ran.append("plain")

        @otelhooks.tool
        def asked(x: Any) -> None:
            ran.append("asked")

        @otelhooks.tool
        def denied(x: Any) -> None:
            ran.append("denied")

        trail = otelhooks.audit.Audit(tmp_path / "a", required=required)
        on(
            policy.deny("denied"),
            policy.ask_user("asked", handler=lambda call: True),
            audit=trail,
            capture_content=content,
        )
        plain(ODD[name]())
        asked(ODD[name]())
        with pytest.raises(errors.Denied):
            denied(ODD[name]())
        assert ran == ["plain", "asked"]
        spans = [span.name for span in exporter.get_finished_spans()]
        assert spans == [
            "execute_tool plain",
            "otelhooks.approval.request asked",
            "otelhooks.approval.wait asked",
            "execute_tool asked",
            "execute_tool denied",
        ]
        trail.close()
        records = audited(trail.segment)
        assert [record["tool_name"] for record in records] == ["plain", "asked", "denied"]
        assert {len(record["arguments_hash"]) for record in records} == {64}
        assert trail.failed == 0
        assert otelhooks.audit.verify(trail.folder) == []

    def test_arguments_that_are_too_deep_for_any_rule_are_denied_and_recorded(
        self, on, tools, exporter, tmp_path
    ):
        trail = otelhooks.audit.Audit(tmp_path / "a")
        on(audit=trail, capture_content=True)
        with pytest.raises(errors.Denied):
            tools.act(nested(100_000))
        assert len(exporter.get_finished_spans()) == len(audited(trail.segment)) == 1

    def test_a_limit_tells_calls_apart_by_keys_that_json_does_not_know(self, on, tools):
        on(policy.Repeat(calls=2, per="session"))
        with otelhooks.session("s"):
            for key in (b"a", b"b", HUGE, HUGE + 1):
                assert tools.act({key: 1}) == "done"
                with pytest.raises(errors.Denied):
                    tools.act({key: 1})


def test_every_test_that_the_page_of_attacks_names_is_there():
    tests = pathlib.Path(__file__).parents[1]
    page = (tests.parent / "docs" / "attacks.md").read_text()
    code = "\n".join(file.read_text() for file in tests.rglob("test_*.py"))
    code += "".join(
        (tests / "frameworks" / f"{name}.py").read_text()
        for name in ("contract", "loops", "parking")
    )
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 50
    assert {name for name in named if f"def {name}(" not in code} == set()
