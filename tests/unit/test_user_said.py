"""`unless_user_said` and `when_user`: who can write into what the user said, what matches it."""

from __future__ import annotations

import asyncio
import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.hooks.context import OperationContext, SessionContext, TurnContext
from otelhooks.hooks.said import (
    CHARACTERS_KEPT,
    MESSAGES_KEPT,
    Message,
    Said,
    Speaker,
    spoken_in,
    user_text,
)
from otelhooks.policy.values import spoken
from otelhooks.policy.values.spoken import all_said, was_said

IBAN = "DE89370400440532013000"
RULES = [policy.deny("send", unless_user_said=["to"], reason="not yours")]


def said(value: Any, *texts: str) -> bool:
    return was_said(value, [Message(text, Speaker()) for text in texts])


class TestText:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("bob@x.com", "Write to bob@x.com"),
            ("bob@x.com", "bob@x.com, please"),
            ("bob@x.com", "to (bob@x.com)."),
            ("bob@x.com", "to <bob@x.com>;"),
            ("bob@x.com", 'to "Bob@X.com"!'),
            ("bob@x.com", "to alice@x.com,bob@x.com;eve@x.com"),
            ("bob@x.com", "bob @ x.com"),
            ("bob @x.com", "bob@x.com"),
            ("BOB@X.COM", "bob@x.com"),
            (" bob@x.com\n", "bob@x.com"),
            ("evil.com", "see evil.com."),
            ("https://x.com/a?b=1", "read https://x.com/a?b=1 now"),
            ("new  york", "in New\nYork"),
            ("\uff42ob", "bob"),
            ("bob", "\uff42ob"),
            ("bob", "b\u00adob"),
            ("café", "cafe\u0301"),
            ("12", "ticket #12, please"),
            ("100", "pay $100 or 100€"),
            ("4111 1111", "card 4111 1111"),
            ("(bob", "((bob)"),
            (IBAN, "pay DE89 3704 0044 0532 0130 00, please"),
            ("DE89 3704 0044 0532 0130 00", f"pay {IBAN}"),
            ("'quoted'", "a 'quoted' word"),
        ],
    )
    def test_the_user_said_it(self, value: str, text: str) -> None:
        assert said(value, text)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("", "anything"),
            (" ", "any thing"),
            ("a", "a mail"),
            ("5", "5 apples"),
            ("bob@x.com", "notbob@x.com"),
            ("bob@x.com", "bob@x.com.au"),
            ("bob@x.com", "x-bob@x.com"),
            ("bob@x.com", "to:bob@x.com"),
            ("evil.com", "evil.com.au"),
            ("evil.com", "notevil.com"),
            ("evil.com", "x.evil.com"),
            ("evil.com", "me@evil.com"),
            ("evil.com", "https://evil.com/"),
            ("https://x.com/a", "https://x.com/a/b"),
            ("https://x.com/a", "https://x.com/a?b=1"),
            ("https://x.com", "https://x.com@evil.com"),
            ("12", "in 2012"),
            ("12", "1.12"),
            ("12", "12.5"),
            ("12", "-12"),
            ("12", "- 12"),
            ("12", "it is \u2212 $12"),
            ("report@bob", "send the report @bob"),
            ("bob@x.com", "bob @x.com"),
            ("12", "1,12"),
            ("12", "12%"),
            ("100", "pay 100 000"),
            ("000", "pay 100 000"),
            ("4111", "card 4111 1111 1111 1111"),
            ("1111", "card 4111 1111"),
            ("..", "hm ... what"),
            ("--", "this -- that"),
            ("30", "at 12:30"),
            ("secret", "../secret"),
            ("secret", "/secret"),
            ("secret", "secret/x"),
            ("brien", "o'brien"),
            ("o'", "o'brien"),
            ("file", "file(1).txt"),
            ("bob", "bob\u0301"),
            ("bob", "bobs"),
            ("bob", "bob_x"),
            ("\u0430pple.com", "apple.com"),
            ("apple.com", "\u0430pple.com"),
            ("straße.de", "strasse.de"),
            ("evil\u200b.com", "evil.com"),
            ("evil.com\u2060", "evil.com"),
            ("bob@x.com\u00a0", "bob@x.com"),
            ("bob@x.com\x00", "bob@x.com"),
            ("bob@x.com", "notbob\u200b@x.com"),
            ("bob@x.com", "not\u200bbob@x.com"),
            ("bob@x.com, eve@x.com", "bob@x.com"),
            ('["bob@x.com"]', "bob@x.com"),
            ('{"to": "eve@x.com"}', "to eve@x.com"),
            ("bob@x.com\nBcc: eve@x.com", "bob@x.com eve@x.com"),
            (IBAN, "DE89 3704 0044 0532 0130 00 1"),
            (IBAN, "XDE89 3704 0044 0532 0130 00"),
            ("DE00370400440532013000", "DE00 3704 0044 0532 0130 00"),
            ("AB12CD", "ab 12 cd"),
        ],
    )
    def test_the_user_did_not_say_it(self, value: str, text: str) -> None:
        assert not said(value, text)

    def test_a_long_run_of_one_letter_is_looked_at_once(self) -> None:
        text = f"{'a' * 200_000} b"
        assert not said("a" * 100_000, text)
        assert not said("((a" + "a" * 100_000, "(" * 10 + text)

    def test_a_value_must_be_in_one_part_of_a_message(self) -> None:
        for parts, value in (("eve@", "x.com"), "eve@x.com"), (("new", "york"), "new york"):
            message = {"role": "user", "content": [{"text": part} for part in parts]}
            assert not said(value, str(spoken_in(message)))
            assert said(parts[1], str(spoken_in(message)))

    def test_a_value_must_be_in_one_message(self) -> None:
        assert not said("new york", "new", "york")
        assert said("york", "new", "york")
        assert not said("york")


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (100, "pay 100"),
            (100.0, "pay 100"),
            (100, "pay 100.00 now"),
            (1000, "pay $1,000."),
            (1_234_567, "1,234,567"),
            (12.5, "12.50€"),
            (-12, "it is -12."),
            (42, "ticket #42"),
            (0.5, "0.5"),
            (25, "a dash \u2014 25, and a range of 3 to 25"),
        ],
    )
    def test_the_user_said_it(self, value: float, text: str) -> None:
        assert said(value, text)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (12, "in 2012"),
            (12, "12.5"),
            (12, "-12"),
            (25, "set it to - 25"),
            (25, "10 - 25"),
            (12, "10-12"),
            (12, "12:30"),
            (12, "12%"),
            (12, "12km"),
            (100, "€100 000"),
            (4111, "card 4111 1111 1111 1111"),
            (12, "v1.12"),
            (12, "12.000"),
            (1, "1. Send it"),
            (1.0, "1 mail"),
            (-0.0, "-0"),
            (0, "0"),
            (100, "1,00"),
            (True, "true True 1"),
            (math.nan, "nan"),
            (math.inf, "inf"),
            (b"bob", "bob"),
            (object(), "object"),
        ],
    )
    def test_the_user_did_not_say_it(self, value: Any, text: str) -> None:
        assert not said(value, text)

    def test_a_class_of_its_own_was_not_said(self) -> None:
        class Name(str): ...

        assert not said(Name("bob"), "bob")


class TestArguments:
    @pytest.mark.parametrize(
        "args",
        [
            {"to": "bob@x.com"},
            {"to": ["bob@x.com", "eve@x.com"]},
            {"to": ("bob@x.com",), "cc": None},
            {"to": "bob@x.com", "cc": []},
            {"to": {"bob@x.com": ["eve@x.com"]}},
            {"cc": {"eve@x.com"}},
            {"to": "bob@x.com", "other": "mallory@x.com"},
        ],
    )
    def test_every_value_was_said(self, args: dict[str, Any]) -> None:
        assert all_said(args, ("cc", "to"), [Message("bob@x.com and eve@x.com", Speaker())])

    @pytest.mark.parametrize(
        "args",
        [
            {},
            {"to": None},
            {"to": [], "cc": {}},
            {"other": "bob@x.com"},
            {"to": ""},
            {"to": "bob@x.com", "cc": ""},
            {"to": ["bob@x.com", "mallory@x.com"]},
            {"to": [["bob@x.com", {"x": ["mallory@x.com"]}]]},
            {"to": {"mallory@x.com": "bob@x.com"}},
            {"to": "bob@x.com", "cc": True},
            {"to": ["bob@x.com"] * 20_000},
        ],
    )
    def test_in_doubt_it_was_not_said(self, args: dict[str, Any]) -> None:
        assert not all_said(args, ("cc", "to"), [Message("bob@x.com and eve@x.com", Speaker())])


class TestTime:
    @pytest.mark.parametrize("is_last", [False, True])
    def test_steps_for_numbers_grow_with_text_and_values_and_not_with_their_product(
        self, is_last: bool
    ) -> None:
        def steps(times: int) -> int:
            numbers = range(10_000, 10_000 + times)
            message = Message(", ".join(map(str, numbers)), Speaker())
            args = {"to": [numbers[-1]] * times if is_last else list(numbers)}
            calls = 0

            def count(_frame: Any, event: str, _argument: Any) -> None:
                nonlocal calls
                calls += event in {"call", "c_call"}

            sys.setprofile(count)
            try:
                assert all_said(args, ["to"], [message])
            finally:
                sys.setprofile(None)
            return calls

        steps(1)
        assert steps(200) < 14 * steps(20)

    def test_a_message_is_read_once_for_all_ibans(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reads: list[str] = []

        def enumerated(text: str) -> Any:
            reads.append(text)
            return enumerate(text)

        monkeypatch.setattr(spoken, "enumerate", enumerated, raising=False)
        message = Message(f"pay {IBAN[:4]} {IBAN[4:]}", Speaker())
        assert all_said({"to": [IBAN] * 100}, ["to"], [message])
        assert len(reads) == 1


class TestMessages:
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ("hello", "hello"),
            ("", None),
            (None, None),
            ([], None),
            ({"question": "a", "documents": ["b"]}, None),
            ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "b"}], "a"),
            ([{"type": "input_text", "text": "a"}, "b"], "a\n\u2029b"),
            ([{"type": "document", "text": "b"}, {"text": "a"}], "a"),
            ([{"type": "tool_result", "content": "x"}, {"type": "text", "text": "a"}], None),
            ([{"text": "a"}, {"toolResult": {"content": []}}], None),
            ([{"text": "a"}, {"function_response": {"name": "x"}}], None),
            ([{"role": "user", "content": "old"}, {"role": "user", "content": "new"}], "new"),
            ([{"role": "user", "content": "old"}, {"role": "assistant", "content": "x"}], None),
            ([{"role": "user", "content": "a"}, {"type": "function_call_output"}], None),
            ([{"type": "custom_tool_call_output"}, {"type": "text", "text": "a"}], None),
            ([{"type": "mcp_call"}, {"type": "text", "text": "a"}], None),
        ],
    )
    def test_texts_of_the_user_count(self, message: Any, text: str | None) -> None:
        assert user_text(message) == text

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ("hello", "hello"),
            ({"role": "user", "content": "a"}, "a"),
            ({"role": "user", "parts": [{"text": "a"}]}, "a"),
            ({"role": "user", "content": [{"text": "a"}, {"text": "b", "role": "user"}]}, "a"),
            ({"role": "user", "content": [{"type": "tool_result"}, {"role": "user"}]}, None),
            ({"role": "user", "content": {"text": "a"}}, None),
            ({"role": "user", "content": ""}, None),
            ({"role": "assistant", "content": "a"}, None),
            ({"role": "system", "content": "a"}, None),
            ({"role": "tool", "content": "a", "tool_call_id": "1"}, None),
            ({"role": "user", "content": "a", "tool_call_id": "1"}, None),
            ({"type": "function_call_output", "call_id": "1", "output": "a"}, None),
        ],
    )
    def test_messages_of_requests(self, message: Any, text: str | None) -> None:
        assert spoken_in(message) == text

    def test_the_newest_messages_are_kept(self) -> None:
        memory = Said()
        for number in range(MESSAGES_KEPT + 5):
            memory.add(Message(f"message {number}", Speaker()))
        assert next(one.text for one in memory.all()) == "message 5"
        memory.add(Message("x" * (CHARACTERS_KEPT + 1), Speaker()))
        assert memory.all()[-1].text == f"message {MESSAGES_KEPT + 4}"
        memory.add(Message("x" * CHARACTERS_KEPT, Speaker()))
        assert len(memory.all()) == 1


class Tools:
    """A tool that sends, and what it has sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

        @otelhooks.tool
        def send(to: Any = "", text: str = "") -> str:
            self.sent.append(to)
            return "sent"

        self.send = send

    def sends(self, to: Any) -> bool:
        try:
            self.send(to)
        except Denied:
            return False
        return True


@pytest.fixture
def tools() -> Tools:
    return Tools()


class TestTurns:
    def test_only_what_the_user_said_is_sent(self, governed: Any, tools: Tools) -> None:
        governed(policies=RULES)
        with otelhooks.turn("Mail bob@x.com"):
            assert tools.sends("bob@x.com")
            assert not tools.sends("eve@x.com")
        assert tools.sent == ["bob@x.com"]

    def test_without_a_prompt_nothing_was_said(self, governed: Any, tools: Tools) -> None:
        governed(policies=RULES)
        assert not tools.sends("bob@x.com")
        with otelhooks.session("c"):
            assert not tools.sends("bob@x.com")
        with otelhooks.turn({"question": "bob@x.com"}):
            assert not tools.sends("bob@x.com")

    def test_a_decorated_agent_hears_its_first_argument(self, governed: Any, tools: Tools) -> None:
        governed(policies=RULES)

        @otelhooks.agent("mailer")
        def run(message: str) -> bool:
            return tools.sends("bob@x.com")

        assert run("Mail bob@x.com")
        assert not run("Mail eve@x.com")

    def test_what_a_model_writes_for_a_sub_agent_does_not_count(
        self, governed: Any, tools: Tools
    ) -> None:
        governed(policies=RULES)

        @otelhooks.agent("sub")
        def sub(message: str) -> tuple[bool, bool]:
            return tools.sends("bob@x.com"), tools.sends("eve@x.com")

        @otelhooks.tool
        def delegate(task: str) -> tuple[bool, bool]:
            return sub(task)

        with otelhooks.turn("Mail bob@x.com"):
            assert delegate("Mail eve@x.com") == (True, False)
            assert sub("Mail eve@x.com") == (True, False)
            with otelhooks.turn("Mail eve@x.com"):
                assert not tools.sends("eve@x.com")
        assert delegate("Mail eve@x.com and bob@x.com") == (False, False)  # outside any turn

    def test_the_conversation_is_remembered(self, governed: Any, tools: Tools) -> None:
        governed(policies=RULES)
        with otelhooks.session("c"):
            with otelhooks.turn("Draft a mail to bob@x.com"):
                pass
            with otelhooks.turn("Send it"):
                assert tools.sends("bob@x.com")
        with otelhooks.session("d"), otelhooks.turn("Send it"):
            assert not tools.sends("bob@x.com")

    def test_users_of_one_conversation_do_not_speak_for_each_other(
        self, governed: Any, tools: Tools
    ) -> None:
        governed(policies=RULES)
        with otelhooks.session("c", user="eve"), otelhooks.turn("Mail eve@x.com"):
            pass
        with otelhooks.session("c", user="bob"), otelhooks.turn("Send it"):
            assert not tools.sends("eve@x.com")
        with otelhooks.session("c"), otelhooks.turn("Send it"):
            assert not tools.sends("eve@x.com")
        with otelhooks.session("c", user="eve"), otelhooks.turn("Send it"):
            assert tools.sends("eve@x.com")

    def test_what_a_hook_adds_to_the_prompt_does_not_count(
        self, governed: Any, tools: Tools
    ) -> None:
        @hooks.pre_turn
        def retrieve(context: hooks.HookContext, prompt: Any) -> types.HookResult:
            return types.HookResult(modified_prompt=f"{prompt} eve@x.com")

        governed(policies=RULES, hooks=[retrieve])
        with otelhooks.turn("Mail bob@x.com") as turn:
            assert turn.prompt == "Mail bob@x.com eve@x.com"
            assert tools.sends("bob@x.com")
            assert not tools.sends("eve@x.com")

    def test_what_a_tool_returns_does_not_count(self, governed: Any, tools: Tools) -> None:
        @otelhooks.tool
        def fetch() -> str:
            return "mail eve@x.com"

        governed(policies=RULES)
        with otelhooks.turn("Fetch it"):
            fetch()
            assert not tools.sends("eve@x.com")

    def test_a_message_that_was_denied_stays_what_the_user_said(
        self, governed: Any, tools: Tools
    ) -> None:
        governed(policies=[*RULES, policy.RateLimit(turns=1)])
        with otelhooks.session("c"):
            with otelhooks.turn("Hello"):
                assert not tools.sends("bob@x.com")

    def test_the_text_parts_of_a_message_count(self, governed: Any, tools: Tools) -> None:
        governed(policies=RULES)
        parts = [{"type": "text", "text": "Mail bob@x.com"}, {"type": "image_url", "image_url": ""}]
        with otelhooks.turn(parts):
            assert tools.sends("bob@x.com")

    def test_asks_and_vetoes_take_it_too(self, governed: Any, tools: Tools) -> None:
        asked: list[Any] = []

        def approve(call: types.ToolCall) -> bool:
            asked.append(call.args["to"])
            return True

        governed(policies=[policy.ask_user("send", approve, unless_user_said="to")])
        with otelhooks.turn("Mail bob@x.com"):
            assert tools.sends("bob@x.com")
            assert tools.sends("eve@x.com")
        assert asked == ["eve@x.com"]

    def test_labels_and_it_must_both_hold(self, governed: Any, tools: Tools) -> None:
        rule = policy.deny("send", when_labels={"untrusted"}, unless_user_said=["to"])
        governed(policies=[policy.label("fetch", adds="untrusted"), rule])

        @otelhooks.tool
        def fetch() -> str:
            return ""

        with otelhooks.turn("Mail bob@x.com"):
            assert tools.sends("eve@x.com")
            fetch()
            assert not tools.sends("eve@x.com")
            assert tools.sends("bob@x.com")

    def test_a_hook_reads_what_the_user_said(self, governed: Any, tools: Tools) -> None:
        seen: list[Any] = []

        @hooks.pre_tool_call_decide
        def look(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            seen.append((call.prompt, call.prompts, call.user))
            assert (context.prompt, context.prompts, context.user) == seen[-1]
            return types.HookResult()

        governed(hooks=[look])
        tools.sends("x")
        with otelhooks.session("c", user=types.User(id="u", roles=["admin"])):
            with otelhooks.turn("one"):
                pass
            with otelhooks.turn("two"):
                tools.sends("x")
        user = types.User(id="u", roles=("admin",))
        assert seen == [(None, (), None), ("two", ("one", "two"), user)]

    def test_nothing_is_kept_for_rules_that_do_not_look(self, governed: Any, tools: Tools) -> None:
        governed(policies=[policy.deny("x"), policy.RateLimit(tool_calls=5)])
        with otelhooks.session("c") as context, otelhooks.turn("Mail bob@x.com"):
            tools.sends("bob@x.com")
            inner = otelhooks.current_context()
            assert inner is not None
            assert inner.prompt is None
        assert context.prompts == ()

    def test_a_candidate_hears_too(self, governed: Any, tools: Tools) -> None:
        governed(candidate=RULES)
        with otelhooks.turn("Mail bob@x.com"):
            tools.sends("bob@x.com")
            tools.sends("eve@x.com")
        sent = [span for span in governed.spans if span.name == "execute_tool send"]
        flips = [span.attributes.get("otelhooks.candidate.decision") for span in sent]
        assert flips == [None, "deny"]


class TestUsers:
    RULE = policy.deny("send", when_user={"role": "intern"})

    @pytest.mark.parametrize(
        ("user", "sends"),
        [
            (types.User(id="u", roles=["intern"]), False),
            (types.User(id="u", roles=["admin", "intern"]), False),
            (types.User(id="u", roles=["admin"]), True),
            (types.User(id="u"), False),
            ("u", False),
            ("", False),
            (None, False),
        ],
    )
    def test_a_deny_is_for_a_role_and_for_unknown_users(
        self, governed: Any, tools: Tools, user: Any, sends: bool
    ) -> None:
        governed(policies=[self.RULE])
        with otelhooks.session("c", user=user), otelhooks.turn("hello"):
            assert tools.sends("x") is sends

    @pytest.mark.parametrize(
        ("user", "sends"),
        [
            (types.User(id="u", roles=["admin"], tenant="acme"), True),
            (types.User(id="u", roles=["admin"], tenant="other"), False),
            (types.User(id="u", roles=["admin"]), False),
            (types.User(roles=["admin"], tenant="acme"), False),
            (types.User(id="v", roles=["admin"], tenant="acme"), True),
            ("", False),
        ],
    )
    def test_an_allow_needs_a_user_who_fits(
        self, governed: Any, tools: Tools, user: Any, sends: bool
    ) -> None:
        wanted = {"id": ["u", "v"], "role": "admin", "tenant": "acme"}
        governed(policies=[policy.allow("send", when_user=wanted), policy.deny("*")])
        with otelhooks.session("c", user=user):
            assert tools.sends("x") is sends

    def test_the_user_is_of_the_block_and_not_of_the_conversation(
        self, governed: Any, tools: Tools
    ) -> None:
        governed(policies=[policy.allow("send", when_user={"id": "boss"}), policy.deny("*")])
        with otelhooks.session("c", user="boss"):
            assert tools.sends("x")
            with otelhooks.session("c", user="guest"):
                assert not tools.sends("x")
            assert tools.sends("x")
        with otelhooks.session("c"):
            assert not tools.sends("x")

    def test_a_function_of_the_application_names_the_user(
        self, governed: Any, tools: Tools, caplog: Any
    ) -> None:
        found: list[Any] = [None, "", "boss", types.User(id="boss"), 5, ValueError("x")]

        def user() -> Any:
            one = found.pop(0)
            if isinstance(one, Exception):
                raise one
            return one

        rules = [policy.allow("send", when_user={"id": "boss"}), policy.deny("*")]
        governed(policies=rules, user=user)
        assert [tools.sends("x") for _ in range(6)] == [False, False, True, True, False, False]
        assert "rules treat the user as unknown" in caplog.text

    def test_what_is_wrong_about_the_function_is_logged_once(
        self, governed: Any, tools: Tools, caplog: Any
    ) -> None:
        governed(policies=[self.RULE], user=lambda: 5)
        assert [tools.sends("x"), tools.sends("x")] == [False, False]
        said = [r.getMessage() for r in caplog.records if "`user` failed" in r.getMessage()]
        assert len(said) == 1
        assert said[0].endswith("it returned int, not a `types.User`, an id or None")

    def test_a_function_that_calls_a_tool_has_no_user_for_it(
        self, governed: Any, tools: Tools, caplog: Any
    ) -> None:
        sent: list[bool] = []

        def user() -> types.User:
            sent.append(tools.sends("who"))
            return types.User(id="boss")

        rules = [policy.allow("send", when_user={"id": "boss"}), policy.deny("*")]
        governed(policies=rules, user=user)
        assert tools.sends("x")
        assert sent == [False]
        assert "`user` makes a call that asks for the user" in caplog.text

    def test_a_slow_function_is_warned_of_once(
        self, governed: Any, tools: Tools, caplog: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("otelhooks.setup.users._SLOW_S", 0.0)
        governed(policies=[self.RULE], user=lambda: "u")
        tools.sends("x")
        tools.sends("x")
        said = [r.getMessage() for r in caplog.records if "`user` took" in r.getMessage()]
        assert len(said) == 1
        assert said[0].endswith("wait for it, event loops included")

    @pytest.mark.parametrize("user", [5, {"id": "u"}, types.User])
    def test_a_session_takes_no_other_user(self, user: Any) -> None:
        with pytest.raises(ConfigError, match="`user` is of type") as raised:
            with otelhooks.session("c", user=user):
                pass
        assert "types.User" in str(raised.value)

    def test_attributes_of_the_resource_name_the_user(self) -> None:
        from otelhooks.setup.users import find

        resource = SimpleNamespace(attributes={})
        providers: Any = SimpleNamespace(tracer_provider=SimpleNamespace(resource=resource))
        assert find(None, providers, print) is None
        resource.attributes = {"user.id": "u", "user.roles": "a b,c"}
        assert find(None, providers, print) == types.User(id="u", roles=("a", "b", "c"))
        resource.attributes = {
            "enduser.pseudo.id": "p",
            "user.roles": ("a",),
            "user.tenant": "acme",
        }
        assert find(None, providers, print) == types.User(id="p", roles=("a",), tenant="acme")

    def test_the_variable_names_the_user_even_if_spans_are_off(
        self, monkeypatch: pytest.MonkeyPatch, tools: Tools
    ) -> None:
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "user.id=u,user.roles=admin")
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        rules = [policy.allow("send", when_user={"role": "admin"}), policy.deny("*")]
        otelhooks.instrument(policies=rules)
        assert tools.sends("x")

    def test_the_function_must_be_a_plain_one(self) -> None:
        async def user() -> str:
            return "u"

        with pytest.raises(ConfigError, match="a plain function"):
            otelhooks.instrument(user=user)

    def test_enforce_reads_the_record_that_it_is_given(self) -> None:
        hook = policy.enforce([*RULES, policy.deny("wipe", when_user={"role": "intern"})])

        def runs(context: Any, **fields: Any) -> bool:
            return asyncio.run(hook.run(context, types.ToolCall(**fields))).allow

        call = {"name": "send", "args": {"to": "bob@x.com"}}
        assert not runs(None, **call)
        assert runs(None, **call, prompt="Mail bob@x.com")
        assert runs(None, **call, prompts=("Mail bob@x.com", "now"))
        assert not runs(None, name="wipe")
        assert runs(None, name="wipe", user=types.User(roles=("admin",)))
        context = OperationContext(TurnContext(SessionContext()))
        assert runs(context, **call, prompt="Mail bob@x.com")

    def test_a_runner_hears_the_turn_and_not_that_of_a_sub_agent(self) -> None:
        hook = policy.enforce(RULES)
        runner = hooks.HookRunner([hook])

        async def sends(runner: Any, prompt: Any) -> bool:
            _, turn = await runner.dispatch_pre_turn(prompt)
            call = types.ToolCall(name="send", args={"to": "bob@x.com"})
            result, *_ = await runner.dispatch_pre_tool_call(turn, call)
            return result.allow

        child = runner.child()
        assert not asyncio.run(sends(child, "Mail bob@x.com"))
        assert not asyncio.run(sends(runner, None))
        assert asyncio.run(sends(runner, "Mail bob@x.com"))


class TestRules:
    @pytest.mark.parametrize(
        "fields",
        [
            {"unless_user_said": []},
            {"unless_user_said": [""]},
            {"unless_user_said": [5]},
            {"unless_user_said": 5},
            {"when_user": {}},
            {"when_user": "admin"},
            {"when_user": {"roles": "admin"}},
            {"when_user": {"role": []}},
            {"when_user": {"role": 5}},
        ],
    )
    def test_what_is_not_understood_is_an_error(self, fields: Any) -> None:
        with pytest.raises(ConfigError):
            policy.deny("send", **fields)

    def test_an_allow_for_what_was_not_said_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="would allow what the user did not say"):
            policy.Policy("send", policy.Decision.APPROVE, unless_user_said=["to"])

    def test_rules_that_do_not_use_it_keep_their_versions(self) -> None:
        assert policy.PolicySet([policy.deny("send")]).rules[0].policy_version == "19baff7a7b47"

    def test_ids_depend_on_it(self) -> None:
        rules = [
            policy.deny("send"),
            policy.deny("send", unless_user_said=["to"]),
            policy.deny("send", when_user={"role": "x"}),
        ]
        assert len({rule.identity for rule in policy.PolicySet(rules).rules}) == 3

    def test_a_rule_with_it_hides_nothing(self) -> None:
        rules = policy.PolicySet([*RULES, policy.hide("send")])
        from otelhooks.hooks.calls import Call

        assert rules.hides(Call("send", {})) is rules.rules[1]


FILE = """
policies:
  - deny: send
    unless_user_said: [to, cc]
    when_user: {role: [guest, intern]}
    id: strangers
  - deny: wipe
    when: prompt == None or "wipe" not in prompt or user["tenant"] != "acme" or agent != "lead"
    id: wipes
  - allow: report
    when_user: {tenant: acme}
  - deny: rep*
"""
CASES = """
cases:
  - call: {tool: send, args: {to: bob@x.com}, prompt: Mail bob@x.com, user: {roles: guest}}
    verdict: allow
  - call: {tool: send, args: {to: eve@x.com}, prompt: Mail bob@x.com, user: {roles: [guest]}}
    verdict: deny
    rule: strangers
  - call: {tool: send, args: {to: eve@x.com}, user: {id: u, roles: [admin]}}
    verdict: allow
  - call: {tool: send, args: {to: bob@x.com}, prompt: [Draft it to bob@x.com, Send it]}
    verdict: allow
  - call: {tool: send, args: {to: bob@x.com}}
    verdict: deny
  - call: {tool: wipe, agent: lead, prompt: wipe it, user: {tenant: acme}}
    verdict: allow
  - call: {tool: wipe, agent: other, prompt: wipe it, user: {tenant: acme}}
    verdict: deny
    rule: wipes
  - call: {tool: wipe, agent: lead, prompt: wipe it}
    verdict: deny
  - call: {tool: report, user: {tenant: acme}}
    verdict: allow
  - call: {tool: report}
    verdict: deny
"""


@pytest.fixture
def file(tmp_path: Any) -> Any:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "p.yaml").write_text(CASES)
    return path


class TestFiles:
    def test_cases_say_prompt_and_user(self, file: Any) -> None:
        from otelhooks.policy_tools import trials

        results = list(trials.run([file]))
        assert [result.differences for result in results] == [()] * 10

    @pytest.mark.parametrize(
        "call",
        [
            "{tool: a, user: {role: x}}",
            "{tool: a, user: admin}",
            "{tool: a, prompt: {}}",
            "{tool: a, prompts: x}",
        ],
    )
    def test_a_case_that_is_not_understood_is_an_error(self, tmp_path: Any, call: str) -> None:
        from otelhooks.policy_tools.cases import read_suites

        path = tmp_path / "c.yaml"
        path.write_text(f"cases: [{{call: {call}, verdict: deny}}]")
        with pytest.raises(ConfigError):
            read_suites(path)

    @pytest.mark.parametrize(
        ("entry", "hint"),
        [
            ("{deny: a, unless_user_sad: x}", "did you mean `unless_user_said`"),
            ("{deny: a, when_user: {rol: x}}", "did you mean `role`"),
            ("{deny: a, when_user: {}}", "no user is described"),
            ("{deny: a, unless_user_said: []}", "empty list"),
            ("{allow: a, unless_user_said: x}", "unknown key"),
            ("{hide: a, when_user: {role: x}}", "unknown key"),
        ],
    )
    def test_what_a_file_gets_wrong(self, tmp_path: Any, entry: str, hint: str) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(f"policies: [{entry}]")
        from otelhooks.policy_tools.subject import Subject

        with pytest.raises(ConfigError) as error:
            Subject.open([path])
        assert hint in str(error.value)

    def test_a_file_comes_back_from_its_export(self, file: Any, tmp_path: Any) -> None:
        from otelhooks.policy.files.export import export
        from otelhooks.policy_tools.diff import diff
        from otelhooks.policy_tools.subject import Subject

        subject = Subject.open([file])
        again = tmp_path / "again" / "p.yaml"
        again.parent.mkdir()
        again.write_text(export(subject.table()))
        assert diff(subject, Subject.open([again])) == []
        again.write_text(again.read_text().replace("guest", "visitor").replace("- cc", "- bcc"))
        (note,) = diff(subject, Subject.open([again]))
        assert note.fields.keys() == {"unless_user_said", "when_user"}

    def test_check_knows_that_such_a_rule_leaves_calls_to_others(self, tmp_path: Any) -> None:
        from otelhooks.policy_tools.check import KnownTools, lint_rules
        from otelhooks.policy_tools.subject import Subject

        path = tmp_path / "p.yaml"
        entries = [
            "{deny: a, unless_user_said: x, id: b}",
            "{deny: a, when_user: {role: x}, id: c}",
            "{deny: a, id: d}",
        ]
        path.write_text(f"policies: [{', '.join(entries)}]")
        assert not list(lint_rules(Subject.open([path]).table(), KnownTools()))
        path.write_text(f"policies: [{entries[0]}, {entries[0].replace('id: b', 'id: e')}]")
        assert list(lint_rules(Subject.open([path]).table(), KnownTools()))

    @pytest.mark.parametrize(
        ("call", "outcome"),
        [
            ({"prompt": "Mail bob@x.com"}, "the user said every value of cc, to"),
            ({"user": {"roles": "admin"}}, "it is for users with role guest or intern"),
            ({}, "decides"),
        ],
    )
    def test_explain_says_why(self, file: Any, call: Any, outcome: str) -> None:
        import json

        from otelhooks.policy_tools import words
        from otelhooks.policy_tools.explain import explain, read_call_text
        from otelhooks.policy_tools.subject import Subject

        given = [json.dumps({"tool": "send", "args": {"to": "bob@x.com"}, **call})]
        found = explain(Subject.open([file]).dry_run(), *read_call_text(given))
        assert found.tried[0].outcome.endswith(outcome)
        text = "\n".join(words.of_explanation(found))
        assert ("admin" in text) is ("user" in call)
        data = words.explanation_as_data(found)
        assert data["prompt"] == ([call["prompt"]] if "prompt" in call else [])

    @pytest.mark.parametrize(
        ("tool", "args", "labels", "gaps"),
        [
            ("send", '{"to": "bob@x.com"}', (), 1),
            ("wipe", "{}", (), 1),
            ("report", "{}", (), 1),
            ("other", "{}", (), 0),
        ],
    )
    def test_replay_counts_what_was_not_recorded(
        self, file: Any, tool: str, args: str, labels: Any, gaps: int
    ) -> None:
        from otelhooks.policy_tools.recorded import read_call
        from otelhooks.policy_tools.replay import replay
        from otelhooks.policy_tools.subject import Subject
        from otelhooks.records import semconv

        attributes = {
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
            semconv.GEN_AI_TOOL_NAME: tool,
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS: args,
        }
        call = read_call(attributes, trace_id="a" * 32, span_id="b" * 16, at=1, has_failed=False)
        assert call is not None
        result = replay([call], Subject.open([file]).dry_run())
        assert result.gaps == ({"user and prompt not recorded": 1} if gaps else {})

    def test_replay_asks_only_rules_that_count(self, tmp_path: Any) -> None:
        from otelhooks.hooks.calls import Call
        from otelhooks.hooks.registry import HookSet
        from otelhooks.policy_tools.dry_run import DryRun

        rules = [
            policy.veto("send"),
            policy.deny("send", unless_user_said=["to"]),
            policy.deny("look", agent="other", unless_user_said=["to"]),
            policy.deny("look", when_labels="x", unless_user_said=["to"]),
        ]
        dry = DryRun(policy.PolicySet(rules), HookSet())
        assert not dry.judge(Call("send", {})).asked_user
        assert not dry.judge(Call("look", {})).asked_user
        assert dry.judge(Call("look", {}), ["x"]).asked_user

    def test_hook_files_read_it(self, governed: Any, tools: Tools, tmp_path: Any) -> None:
        path = tmp_path / "h.md"
        path.write_text(
            "---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n"
            '    if payload["user"]["id"] != "u" or "bob" not in payload["prompt"]:\n'
            '        return block("no")\n    return allow()\n---\n'
        )
        governed(policies=[path])
        with otelhooks.session("c", user="u"):
            with otelhooks.turn("Mail bob@x.com"):
                assert tools.sends("x")
            with otelhooks.turn("Mail eve@x.com"):
                assert not tools.sends("x")
