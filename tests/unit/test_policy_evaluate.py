"""The engine: precedence against an oracle, predicates of every kind, failures, bookkeeping."""

from __future__ import annotations

import asyncio
import collections
import math
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import adrive, drive
from otelhooks.hooks.verdict import Ruling
from otelhooks.policy import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

NAN = math.nan
SERVER = types.McpStdioServer(name="s", command="x", disabled_tools=["off"])


def judge(rules: Any, call: Call, **settings: Any) -> Ruling:
    return drive(policy.PolicySet(rules, channel=True, **settings).evaluate(call))


def returning(value: Any) -> Callable[[], Any]:
    """Return a predicate that always says the same."""
    return lambda: value


# -- precedence against an oracle that reads all rules every time ------------------------------

NAMES = ["a", "b", "ab"]
SERVERS = [None, "s", "t"]
TOOLS = ["a", "b", "ab", "a*", "*b", "?", "*", "s/a", "s/*", "t/ab", "*/a", "*/*", "kind:shell"]
BUILD = {
    "allow": policy.allow,
    "deny": policy.deny,
    "ask": policy.ask_user,
    "veto": policy.veto,
}


def fits(pattern: str, name: str) -> bool:
    """Match a glob of at most one star, and question marks, by hand."""
    if "*" not in pattern:
        return len(pattern) == len(name) and all(p in {"?", n} for p, n in zip(pattern, name))  # noqa: B905
    head, tail = pattern.split("*")
    room = len(name) >= len(head) + len(tail)
    return room and name.startswith(head) and name.endswith(tail)


def is_unnamed(call: Call) -> bool:
    """Return whether it is a tool of a server that the application has not named."""
    return call.claimed_server or (call.server is None and call.server_says is not None)


def applies(word: str, tool: str, call: Call) -> bool:
    if tool == "*":
        return True
    if word == "allow" and is_doubtful(tool, call):
        return False
    if tool.startswith("kind:"):
        return call.kind == tool[5:]
    if "/" in tool:
        server, own = tool.split("/")
        is_called = any(fits(own, name) for name in (call.name, *call.canonical))
        if is_unnamed(call):
            return is_called
        if call.server is None:
            return "/" in call.name and all(map(fits, (server, own), call.name.split("/")))
        servers = (call.server, call.server_says or call.server)
        return any(fits(server, name) for name in servers) and is_called
    names = [call.name, *call.canonical]
    if call.server is None and not is_unnamed(call):
        names.append(call.name.rpartition("/")[2])
    return any(fits(tool, name) for name in names)


def is_doubtful(tool: str, call: Call) -> bool:
    """Return whether what it meets the call by may not be the tool's name."""
    if tool == "*":
        return False
    if is_unnamed(call):
        return True
    if call.server is not None:
        server, _, own = tool.partition("/")
        is_its = "/" in tool and fits(server, call.server) and fits(own, call.name)
        return ":" not in tool and not is_its
    if "/" in tool:
        return True
    names = (call.name, *call.canonical) if len(call.canonical) == 1 else (call.name,)
    return ":" not in tool and not any(fits(tool, name) for name in names)


def is_greedy(tool: str, call: Call) -> bool:
    """Return whether it meets a server's tool by a bare name that is no canonical one of it."""
    is_bare = tool != "*" and ":" not in tool and "/" not in tool
    is_of_server = call.server is not None or is_unnamed(call)
    names = call.canonical if is_of_server else (call.name, *call.canonical)
    return is_bare and not any(fits(tool, name) for name in names)


def level(word: str, tool: str, call: Call) -> int:
    if word == "veto":
        return -1
    rank = 2 if tool == "*" else int("*" in tool or "?" in tool or ":" in tool)
    rank = max(rank, int(is_greedy(tool, call)))
    return 3 * rank + ["deny", "ask", "allow"].index(word)


def oracle(rules: list[tuple[str, str, bool, bool]], call: Call) -> Any:
    """Return decision, number of the deciding rule, and numbers of the observed ones."""
    matching = [
        (level(word, tool, call), number, word, monitored, is_doubtful(tool, call))
        for number, (word, tool, holds, monitored) in enumerate(rules)
        if holds and applies(word, tool, call)
    ]
    observed, held = [], []
    decided: Any = ("allow", None)
    for _, number, word, monitored, greedy in sorted(matching):
        if greedy and word == "ask":
            held.append((number, monitored))
        elif monitored and word in {"deny", "ask"}:
            observed.append(number)
        else:
            decision = {"veto": "deny"}.get(word, word)
            decided = decision, number
            if word != "allow":
                return decision, number, observed
            break
    for number, monitored in held:  # what would be allowed is asked
        if not monitored:
            return "ask", number, observed
        observed.append(number)
    return *decided, observed


calls = st.builds(
    lambda name, server, claimed, says, canonical, kind: Call(
        name,
        {},
        server=None if claimed else server,
        claimed_server=claimed,
        server_says=says,
        canonical=tuple(canonical),
        kind=kind,
    ),
    st.sampled_from([*NAMES, "s/a"]),
    st.sampled_from(SERVERS),
    st.booleans(),
    st.sampled_from(SERVERS),
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    st.sampled_from([None, "shell"]),
)
written = st.tuples(
    st.sampled_from(sorted(BUILD)), st.sampled_from(TOOLS), st.booleans(), st.booleans()
)


def built(drawn: list[tuple[str, str, bool, bool]]) -> list[policy.Policy]:
    rules: list[policy.Policy] = []
    for number, (word, tool, holds, monitored) in enumerate(drawn):
        fields: dict[str, Any] = {"id": str(number)}
        if not holds or number % 2:  # both with and without a predicate
            fields["when"] = returning(holds)
        if monitored and word != "veto":
            fields["mode"] = "monitor"
        rules.append(BUILD[word](tool, **fields))
    return rules


@given(st.lists(written, max_size=8), st.lists(calls, min_size=1, max_size=4))
def test_the_index_says_what_a_scan_of_all_rules_says(
    given_rules: list[tuple[str, str, bool, bool]], some: list[Call]
) -> None:
    compiled = policy.PolicySet(built(given_rules), channel=True)
    for call in (*some, *some):  # the second time from what the set remembers
        decision, number, observed = oracle(given_rules, call)
        ruling = drive(compiled.evaluate(call))
        assert ruling.decision == decision
        assert (ruling.rule and ruling.rule.id) == (None if number is None else str(number))
        assert [int(rule.id) for _, rule in ruling.observed] == observed


# -- predicates ---------------------------------------------------------------------------------


class Amount(pydantic.BaseModel):
    amount: float


class Transfer(pydantic.BaseModel):
    parts: list[Amount]


class TestPredicates:
    @pytest.mark.parametrize("text", ["NaN", "nan"])
    def test_a_text_that_a_model_reads_as_nan_denies(self, text: str) -> None:
        """The class: NaN that comes of parsing passes a limit as one that was sent would."""

        def too_much(given: Amount) -> bool:
            return given.amount > 100

        def one_too_much(given: Transfer) -> bool:
            return any(part.amount > 100 for part in given.parts)

        for when, args in (
            (too_much, {"amount": text}),
            (one_too_much, {"parts": [{"amount": text}]}),
        ):
            ruling = drive(
                policy.PolicySet([policy.deny("a", when=when)]).evaluate(Call("a", args))
            )
            assert (ruling.decision, "is NaN" in ruling.message) == ("deny", True)
        rules = policy.PolicySet([policy.deny("a", when=too_much)])
        assert drive(rules.evaluate(Call("a", {"amount": "5"}))).decision == "allow"

    def test_an_async_predicate_is_awaited(self) -> None:
        async def when(args: dict[str, Any]) -> bool:
            await asyncio.sleep(0)
            return args["x"]

        rules = policy.PolicySet([policy.deny("a", when=when)])
        for x, expected in [(True, "deny"), (False, "allow")]:
            ruling = asyncio.run(adrive(rules.evaluate(Call("a", {"x": x}))))
            assert ruling.decision == expected

    def test_a_sync_predicate_may_return_an_awaitable(self) -> None:
        async def later() -> bool:
            return True

        assert (
            judge([policy.deny("a", when=lambda args: later())], Call("a", {})).decision == "deny"
        )

    def test_an_async_predicate_that_raises_denies(self) -> None:
        async def when() -> bool:
            raise LookupError("gone")

        ruling = judge([policy.allow("a", when=when)], Call("a", {}))
        assert ruling.message == "Policy evaluation failed for policy 'a': LookupError('gone')"
        assert isinstance(ruling.error, LookupError)

    def test_the_truth_of_the_answer_counts(self) -> None:
        for answer, expected in [("x", "deny"), (1, "deny"), ("", "allow"), (None, "allow")]:
            rule = policy.deny("a", when=returning(answer))
            assert judge([rule], Call("a", {})).decision == expected

    @pytest.mark.parametrize(
        "args",
        [{"amount": NAN}, {"amount": 5, "also": [{"x": (1, NAN)}]}, {"amount": 5, "set": {NAN}}],
    )
    def test_what_no_condition_can_compare_denies(self, args: Any) -> None:
        """The class: NaN is neither above a limit nor within it, however a rule is written."""

        def above(call: types.ToolCall) -> bool:
            return call.args["amount"] > 100

        def parsed(transfer: Amount) -> bool:
            return transfer.amount > 100

        async def later(args: Any) -> bool:
            return args["amount"] > 100

        for when in (lambda args: args["amount"] > 100, above, parsed, later):
            for rule in (policy.deny("a", when=when), policy.allow("a", when=when)):
                ruling = judge([rule], Call("a", dict(args)))
                assert (ruling.decision, "is NaN" in ruling.message) == ("deny", True)
        assert judge([policy.deny("b", when=above)], Call("a", dict(args))).decision == "allow"

    def test_infinity_is_above_every_limit(self) -> None:
        rule = policy.deny("a", when=lambda args: args["amount"] > 100)
        assert judge([rule], Call("a", {"amount": math.inf})).decision == "deny"

    def test_an_answer_without_a_truth_denies(self) -> None:
        class Vague:
            def __bool__(self) -> bool:
                raise ValueError("which one?")

        assert judge([policy.deny("a", when=lambda: Vague())], Call("a", {})).error is not None

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
    def test_what_stops_the_caller_escapes(self, error: type[BaseException]) -> None:
        def when() -> bool:
            raise error

        with pytest.raises(error):
            judge([policy.allow("a", when=when, mode="monitor")], Call("a", {}))

    def test_other_base_exceptions_deny(self) -> None:
        class Panic(BaseException):
            pass

        def when() -> bool:
            raise Panic

        ruling = judge([policy.allow("a", when=when)], Call("a", {}))
        assert (ruling.decision, type(ruling.error)) == ("deny", Panic)

    def test_an_exception_that_cannot_be_shown_denies_too(self) -> None:
        class Shy(Exception):
            def __repr__(self) -> str:
                raise RuntimeError("no")

        def when() -> bool:
            raise Shy

        message = judge([policy.allow("a", when=when)], Call("a", {})).message
        assert message.endswith(
            "TestPredicates.test_an_exception_that_cannot_be_shown_denies_too.<locals>.Shy"
        )

    def test_a_record_that_is_not_a_tool_call_denies_where_a_predicate_would_look(self) -> None:
        call = Call.of({"not": "a call"})
        ruling = judge([policy.allow("dict", when=lambda args: True)], call)
        assert "no tool call but dict" in ruling.message
        assert judge([policy.deny("other")], call).decision == "allow"

    def test_evaluations_count_predicates(self) -> None:
        rules = [policy.deny("a", when=lambda: False) for _ in range(3)]
        assert judge(rules, Call("a", {})).evaluations == 3
        assert judge([*rules, policy.allow("*")], Call("a", {})).evaluations == 3
        assert judge(rules * 10, Call("a", {})).evaluations == 30
        assert judge([policy.deny("a")], Call("a", {})).evaluations == 0

    def test_a_rule_of_another_agent_is_not_evaluated(self) -> None:
        rules = [policy.deny("a", agent="x", when=lambda: 1 / 0)]
        assert judge(rules, Call("a", {}, branch="y")).evaluations == 0

    def test_closing_an_evaluation_that_waits_is_not_an_answer(self) -> None:
        async def when() -> bool:
            return True

        steps = policy.PolicySet([policy.deny("a", when=when)]).evaluate(Call("a", {}))
        effect = next(steps)
        steps.close()
        effect.fn().close()  # the coroutine that was not awaited
        assert steps.gi_frame is None  # ended, without a ruling


class TestArguments:
    """Predicates cannot change what runs, and one that tries denies."""

    @staticmethod
    def grow(args: dict[str, Any]) -> bool:
        args["more"] = 1
        return False

    @staticmethod
    def nest(args: dict[str, Any]) -> bool:
        args["list"].append(1)
        return False

    @staticmethod
    def grow_call(call: types.ToolCall) -> bool:
        call.args["more"] = 1
        return False

    @staticmethod
    def nest_call(call: types.ToolCall) -> bool:
        call.args["list"].append(1)
        return False

    @staticmethod
    def replace_call(call: types.ToolCall) -> bool:
        call.args = {"other": 1}
        return False

    @staticmethod
    def type_call(call: types.ToolCall) -> bool:
        call.args["n"] = True
        return False

    @staticmethod
    def raise_call(call: types.ToolCall) -> bool:
        call.args.clear()
        raise LookupError

    @staticmethod
    async def later(call: types.ToolCall) -> bool:
        call.args["more"] = 1
        return False

    CHANGES: ClassVar[list[Any]] = [
        grow, nest, grow_call, nest_call, replace_call, type_call, raise_call, later,
    ]  # fmt: skip

    @pytest.mark.parametrize("when", CHANGES)
    @pytest.mark.parametrize("build", [policy.allow, policy.deny, policy.ask_user, policy.veto])
    def test_a_change_in_place_denies_and_is_undone(self, when: Any, build: Any) -> None:
        args = {"n": 1, "list": [0]}
        call = Call("a", args)
        ruling = judge([build("a", when=getattr(when, "__func__", when))], call)
        assert ruling.decision == "deny"
        assert ruling.message.startswith("Policy evaluation failed for policy 'a': ")
        assert call.args is args
        assert repr(args) == "{'n': 1, 'list': [0]}"

    @pytest.mark.parametrize("when", CHANGES)
    def test_in_monitor_mode_it_is_observed_and_undone(self, when: Any) -> None:
        args = {"n": 1, "list": [0]}
        seen: list[str] = []
        rules = [
            policy.deny("a", when=getattr(when, "__func__", when)),
            policy.deny("a", when=lambda args: seen.append(repr(args))),
            policy.deny("a", when=lambda call: seen.append(repr(call)), id="x"),
        ]
        ruling = judge(rules, Call("a", args), mode="monitor")
        assert ruling.decision == "allow"
        assert [decision for decision, _ in ruling.observed] == ["deny"]
        assert set(seen) == {repr(args)} == {"{'n': 1, 'list': [0]}"}

    def test_predicates_of_the_call_get_the_very_object(self) -> None:
        record = types.ToolCall(name="a", args={"x": 1})
        seen: list[Any] = []

        def when(call: types.ToolCall) -> bool:
            return bool(seen.append(call))

        judge([policy.deny("a", when=when)], Call.of(record))
        assert seen[0] is record

    def test_values_that_are_not_json_are_shown_as_they_are(self) -> None:
        frame = collections.Counter()
        seen: list[Any] = []
        rule = policy.deny("a", when=lambda args: seen.append(args["frame"]))
        judge([rule], Call("a", {"frame": frame}))
        assert seen[0] is frame

    def test_values_that_cannot_be_compared_are_not_a_reason_to_deny(self) -> None:
        class Frame:
            def __eq__(self, other: object) -> bool:
                raise ValueError("ambiguous")

            __hash__ = None  # type: ignore[assignment]

        rules = [policy.deny("a", when=lambda args: False)]
        assert judge(rules, Call("a", {"frame": Frame(), "nested": [Frame()]})).decision == "allow"


# -- the set ------------------------------------------------------------------------------------


class TestSet:
    def test_rules_know_their_source_and_its_version(self) -> None:
        rules = policy.PolicySet([policy.deny("a")], source="prod")
        more = rules.with_rules([policy.deny("b"), policy.deny("c")], source="extra")
        assert [(r.policy_id, r.label) for r in more.rules] == [
            ("prod", "a"),
            ("extra", "b"),
            ("extra", "c"),
        ]
        a, b, c = more.rules
        assert a.policy_version == rules.rules[0].policy_version != b.policy_version
        assert b.policy_version == c.policy_version
        assert "prod/" in repr(a)

    def test_a_change_makes_a_new_set(self) -> None:
        rules = policy.PolicySet([policy.deny("a")])
        version = rules.version
        more = rules.with_rules([policy.deny("b")])
        assert (len(rules.rules), len(more.rules)) == (1, 2)
        assert rules.version == version != more.version
        assert more.without(more.rules[1]).version == version

    def test_rules_added_later_lie_behind(self) -> None:
        rules = policy.PolicySet([policy.deny("a", id="1")]).with_rules([policy.deny("a", id="2")])
        assert drive(rules.evaluate(Call("a", {}))).rule is rules.rules[0]

    def test_without_takes_the_very_rule_before_an_equal_one(self) -> None:
        one, two = policy.deny("a"), policy.deny("a")
        left = policy.PolicySet([one, two]).without(two)
        assert left.rules[0].policy is one
        assert policy.PolicySet([one]).without(policy.deny("a")).rules == ()

    def test_without_a_rule_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="no rule `b` is loaded"):
            policy.PolicySet([policy.deny("a")]).without(policy.deny("b"))

    def test_settings_are_kept_by_changes(self) -> None:
        rules = policy.PolicySet(
            [], default="deny", mode="monitor", mcp_servers=[SERVER], channel=True
        ).with_rules([policy.ask_user("a")])
        assert (rules.default, rules.mode, rules.mcp_servers) == ("deny", "monitor", (SERVER,))
        ruling = drive(rules.evaluate(Call("off", {}, server="s")))
        assert [rule.id for _, rule in ruling.observed] == ["s/disabled_tools", "default"]

    def test_no_person_is_asked_about_a_tool_that_its_server_disables(self) -> None:
        for rule in (policy.ask_user("s/off"), policy.allow("s/off")):
            ruling = judge([rule], Call("off", {}, server="s"), mcp_servers=[SERVER])
            assert (ruling.decision, ruling.rule.id) == ("deny", "s/disabled_tools")

    def test_settings_change_the_version(self) -> None:
        rules = [policy.deny("a")]
        settings: list[dict[str, Any]] = [
            {}, {"default": "deny"}, {"mode": "monitor"}, {"mcp_servers": [SERVER]},
        ]  # fmt: skip
        versions = [policy.PolicySet(rules, **each).version for each in settings]
        assert len(set(versions)) == len(versions)
        assert policy.PolicySet(rules).version == versions[0]

    def test_unknown_settings_are_errors(self) -> None:
        with pytest.raises(ConfigError, match="unknown mode `off`"):
            policy.PolicySet([], mode="off")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="unknown default `ask`"):
            policy.PolicySet([], default="ask")  # type: ignore[arg-type]

    def test_an_ask_needs_a_handler_or_a_channel(self) -> None:
        text = "ASK_USER policy 'n' is missing an ask_user handler. Provide one via"
        with pytest.raises(ValueError, match=text):
            policy.PolicySet([policy.ask_user("a", name="n")])
        policy.PolicySet([policy.ask_user("a")], channel=True)

    def test_a_monitored_ask_needs_neither(self) -> None:
        policy.PolicySet([policy.ask_user("a")], mode="monitor")
        policy.PolicySet([policy.ask_user("a", mode="monitor")])
        with pytest.raises(ConfigError, match="missing an ask_user handler"):
            policy.PolicySet([policy.ask_user("a", mode="enforce")], mode="monitor")

    def test_can_deny(self) -> None:
        def can(rules: Any, **settings: Any) -> bool:
            return policy.PolicySet(rules, channel=True, **settings).can_deny

        assert not can([])
        assert not can([policy.allow("a")])
        assert can([policy.allow("a", when=lambda: True)])  # a predicate that raises denies
        assert can([policy.deny("a")])
        assert can([policy.ask_user("a")])
        assert not can([policy.deny("a")], mode="monitor")
        assert can([policy.veto("a")], mode="monitor")
        assert can([], default="deny")
        assert can([], mcp_servers=[SERVER])
        assert not can([], mcp_servers=[types.McpStdioServer(name="s", command="x")])

    def test_no_rule_needs_a_context(self) -> None:
        assert not policy.PolicySet([policy.deny("a", when=lambda: True)]).needs_context

    def test_what_depends_on_the_tool_alone_is_decided_once(self) -> None:
        rules = policy.PolicySet([policy.deny("a", mode="monitor"), policy.deny("*")])
        first, second = (drive(rules.evaluate(Call("a", {}))) for _ in range(2))
        assert first is second
        assert [rule.label for _, rule in first.observed] == ["a"]

    def test_what_stands_behind_a_rule_that_always_holds_is_not_tried(self) -> None:
        rules = policy.PolicySet([policy.deny("a"), policy.deny("*", when=lambda args: True)])
        call = Call("a", {})
        assert drive(rules.evaluate(call)) is rules.constant(call)

    def test_a_set_knows_which_rules_calls_have_met(self) -> None:
        met, other = policy.deny("a"), policy.deny("b")
        rules = policy.PolicySet([met, other])
        assert rules.asked == set()
        drive(rules.evaluate(Call("a", {})))
        assert [rule.policy for rule in rules.asked] == [met]

    @pytest.mark.parametrize(
        ("rule", "names"),
        [
            (policy.deny("a"), True),
            (policy.ask_user("a"), True),
            (policy.allow("a"), False),
            (policy.deny("a*"), False),
            (policy.deny_all(), False),
        ],
    )
    def test_a_set_knows_whether_it_names_tools_to_deny_or_ask_about(
        self, rule: Any, names: bool
    ) -> None:
        assert policy.PolicySet([rule], channel=True).names_tools is names

    def test_names_that_a_model_invents_are_forgotten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(evaluate, "_TOOLS_KEPT", 10)
        rules = policy.PolicySet([policy.deny("bad*")])
        for number in range(100):
            assert drive(rules.evaluate(Call(f"bad{number}", {}))).decision == "deny"
            assert drive(rules.evaluate(Call("good", {}))).decision == "allow"
            assert len(rules._plans) <= 10

    def test_threads_may_share_a_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(evaluate, "_TOOLS_KEPT", 5)
        rules = policy.PolicySet([policy.deny("*0", when=lambda: True)])
        wrong: list[str] = []

        def work() -> None:
            for number in range(300):
                decision = drive(rules.evaluate(Call(str(number), {}))).decision
                if decision != ("deny" if number % 10 == 0 else "allow"):
                    wrong.append(str(number))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestHides:
    @staticmethod
    def hidden(rules: Any, call: Call, **settings: Any) -> str | None:
        rule = policy.PolicySet(rules, channel=True, **settings).hides(call)
        return rule and rule.id

    def test_a_hidden_tool_is_hidden_and_others_are_not(self) -> None:
        rules = [policy.hide("a", id="h"), policy.deny("b")]
        assert self.hidden(rules, Call("a", {})) == "h"
        assert self.hidden(rules, Call("b", {})) is None
        assert self.hidden(rules, Call("c", {})) is None
        assert self.hidden(rules, Call("Alpha", {}, canonical=("a",))) == "h"

    def test_a_rule_that_goes_before_it_shows_the_tool(self) -> None:
        assert self.hidden([policy.hide("a*"), policy.allow("ab")], Call("ab", {})) is None
        rules = [policy.hide("a*"), policy.ask_user("ab", when=lambda: False)]
        assert self.hidden(rules, Call("ab", {})) is None

    def test_a_deny_that_goes_before_it_does_not(self) -> None:
        rules = [policy.hide("a*", id="h"), policy.deny("ab", when=lambda: False)]
        assert self.hidden(rules, Call("ab", {})) == "h"

    def test_hiding_for_one_agent(self) -> None:
        rules = [policy.hide("a", id="h", agent="x")]
        assert self.hidden(rules, Call("a", {}, branch="x")) == "h"
        assert self.hidden(rules, Call("a", {}, branch="y")) is None

    def test_monitor_mode_hides_nothing(self) -> None:
        assert self.hidden([policy.hide("a")], Call("a", {}), mode="monitor") is None

    def test_disabled_tools_of_a_server_are_hidden(self) -> None:
        hidden = self.hidden([], Call("off", {}, server="s"), mcp_servers=[SERVER])
        assert hidden == "s/disabled_tools"


class TestGreedyNames:
    """The class: a rule without a server that would hold a call back holds it on every server.

    Which rule decides is in tests/cases/servers.yaml; here is that no verdict gets milder.
    """

    @staticmethod
    def ruling(rules: list[policy.Policy], **call: Any) -> Any:
        found = policy.PolicySet(rules, channel=True, default=call.pop("default", "allow"))
        return drive(found.evaluate(Call("push", {"n": 1}, **call)))

    @pytest.mark.parametrize("where", [{"server": "github"}, {"claimed_server": True}])
    @pytest.mark.parametrize("rest", [[policy.deny("*")], [policy.deny("*", when=lambda: True)]])
    def test_a_bare_ask_lifts_no_deny(self, rest: Any, where: Any) -> None:
        asks = [policy.ask_user("push"), policy.ask_user("pu*")]
        assert self.ruling([*asks, *rest], **where).decision == "deny"
        assert self.ruling(asks, default="deny", **where).decision == "deny"
        assert self.ruling(asks, **where).decision == "ask"

    @pytest.mark.parametrize(
        "where", [{"server": "github"}, {"claimed_server": True}, {"server_says": "github"}]
    )
    def test_a_message_names_a_servers_tool_as_the_server_does(self, where: Any) -> None:
        found = policy.PolicySet([policy.ask_user("*")], channel=True)
        ruling = drive(found.evaluate(Call("start_subagent", {}, **where)))
        assert ruling.message.startswith("User denied tool 'start_subagent'")
        ruling = drive(found.evaluate(Call("start_subagent", {})))
        assert ruling.message.startswith("User denied tool 'invoke_subagent'")

    @given(st.lists(written, max_size=8), calls)
    def test_no_rule_that_may_mean_another_tool_makes_a_verdict_milder(
        self, drawn: list[tuple[str, str, bool, bool]], call: Call
    ) -> None:
        def strictness(rules: list[tuple[str, str, bool, bool]]) -> int:
            decision = drive(policy.PolicySet(built(rules), channel=True).evaluate(call)).decision
            return ["allow", "ask", "deny"].index(decision)

        without = [r for r in drawn if r[0] == "allow" or not is_doubtful(r[1], call)]
        assert strictness(drawn) >= strictness(without)

    @pytest.mark.parametrize(
        ("asked", "call"),
        [
            ("mcp_github__push", {"server": "github", "canonical": ("mcp_github__push",)}),
            ("trusted/push", {"server": "github", "server_says": "trusted"}),
            ("trusted/push", {"claimed_server": True, "server_says": "trusted"}),
            ("a/b/push", {"server": "a/b"}),
            ("edit_file", {"canonical": ("edit_file", "create_file")}),
        ],
    )
    def test_an_ask_by_a_doubtful_name_lifts_no_deny(self, asked: str, call: Any) -> None:
        """The class: a name that a bridge or a server chose turns a deny into a question."""
        rules = [policy.ask_user(asked)]
        assert self.ruling(rules, **call).decision == "ask"
        assert self.ruling(rules, default="deny", **call).decision == "deny"
        for deny in ("push", "pu*", "*") if "server" in call else ("p*", "*"):
            assert self.ruling([*rules, policy.deny(deny)], **call).decision == "deny"

    @pytest.mark.parametrize("deny", ["delete_repo", "delete_*", "github/delete_repo"])
    def test_a_bare_deny_meets_a_local_tool_that_is_named_as_a_servers(self, deny: str) -> None:
        rules = policy.PolicySet([policy.deny(deny), policy.allow("delete_repo")])
        for name in ("github/delete_repo", "org/github/delete_repo"):
            if name.startswith(deny.partition("/")[0]) or "/" not in deny:
                assert drive(rules.evaluate(Call(name, {}))).decision == "deny"
        assert drive(rules.evaluate(Call("x/search", {}))).decision == "allow"

    def test_each_bare_ask_counts_for_itself(self) -> None:
        rules = [policy.ask_user("push", mode="monitor"), policy.ask_user("pu*", id="second")]
        ruling = self.ruling(rules, server="github")
        assert (ruling.decision, ruling.rule.id) == ("ask", "second")
        assert [rule.label for _, rule in ruling.observed] == ["push"]

    def test_a_bare_ask_hides_nothing_and_keeps_nothing_from_being_hidden(self) -> None:
        rules = policy.PolicySet([policy.ask_user("push"), policy.hide("*")], channel=True)
        hidden = rules.hides(Call("push", {}, server="github"))
        assert hidden is rules.rules[1]
        assert rules.hides(Call("push", {})) is None

    def test_nothing_is_said_of_it(self, caplog: pytest.LogCaptureFixture) -> None:
        self.ruling([policy.deny("push")], server="github")
        assert caplog.text == ""


def test_a_failure_is_logged_once_a_cause_and_without_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = policy.PolicySet([policy.deny("a", id="r", when=lambda args: args["secret-7"])])
    for _ in range(3):
        drive(rules.evaluate(Call("a", {"password": "hunter2"})))
    (record,) = caplog.records
    assert record.getMessage() == (
        "rule `r` of policy `code` could not be evaluated and denies: KeyError\n"
        "hint: give the call to `otelhooks policy explain`, which shows why"
    )
