"""The tree in the terminal, compared as a whole."""

from __future__ import annotations

import io
import json
import time
from datetime import timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from otelhooks.records import semconv as s
from otelhooks.store.records import Event, Origin, Span
from otelhooks.store.terminal import broken, duration, money
from otelhooks.store.tree import render
from otelhooks.store.verdicts import read_verdict

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
ORIGIN = Origin(1, {}, "", None)
START = 1_795_000_000_000_000_000


def span(
    number: int,
    name: str,
    parent: int | None = 1,
    at: float = 0.0,
    lasts: float = 0.01,
    status: Any = "unset",
    **attributes: Any,
) -> Span:
    return Span(
        id=number,
        trace_id=TRACE_ID,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=name,
        kind="internal",
        started_at=START + round(at * 1e9),
        ended_at=START + round((at + lasts) * 1e9),
        status=status,
        status_message="it broke" if status == "error" else None,
        attributes={getattr(s, key): value for key, value in attributes.items()},
        events=(),
        links=(),
        trace_state="",
        flags=0x101,
        dropped_attributes=0,
        dropped_events=0,
        dropped_links=0,
        origin=ORIGIN,
    )


def event(name: str | None, within: int | None, at: float, **attributes: Any) -> Event:
    return Event(
        id=1,
        trace_id=TRACE_ID,
        span_id=None if within is None else f"{within:016x}",
        name=name,
        at=START + round(at * 1e9),
        emitted_at=None,
        observed_at=None,
        severity=9,
        severity_text=None,
        body=None if name else "a plain line",
        attributes={getattr(s, key): value for key, value in attributes.items()},
        flags=1,
        dropped_attributes=0,
        origin=ORIGIN,
    )


RULE = {"POLICY_ID": "prod", "POLICY_RULE_ID": "no-rm-rf"}
DENY = {"POLICY_DECISION": "deny", "POLICY_ENFORCEMENT": "blocked", **RULE}
ASKED = {"POLICY_DECISION": "ask", "POLICY_RULE_ID": "humans"}
TURN = {"GEN_AI_OPERATION_NAME": "invoke_agent"}


def everything() -> tuple[list[Span], list[Event]]:
    spans = [
        span(
            1,
            "invoke_agent ops",
            None,
            lasts=3.9,
            GEN_AI_USAGE_INPUT_TOKENS=4210,
            GEN_AI_USAGE_OUTPUT_TOKENS=512,
            **TURN,
        ),
        span(
            2,
            "chat",
            at=0.01,
            lasts=0.412,
            GEN_AI_REQUEST_MODEL="gpt-5",
            GEN_AI_USAGE_INPUT_TOKENS=820,
        ),
        span(3, "execute_tool view_file", at=0.5, lasts=0.003, POLICY_DECISION="allow"),
        span(
            4,
            "execute_tool run_command",
            at=0.6,
            lasts=0.00021,
            status="error",
            POLICY_REASON="destructive shell commands are refused; delete single files instead",
            ERROR_TYPE="policy_denied",
            **DENY,
        ),
        span(
            5,
            "otelhooks.approval.request deploy",
            at=0.7,
            APPROVAL_STATUS="pending",
            GEN_AI_TOOL_NAME="deploy",
            DECISION_ID="d-1",
            **ASKED,
        ),
        span(
            6,
            "otelhooks.approval.wait deploy",
            at=0.71,
            lasts=2.1,
            APPROVAL_STATUS="approved",
            APPROVAL_APPROVER_TYPE="human",
            DECISION_ID="d-1",
            POLICY_RULE_ID="humans",
        ),
        span(
            7,
            "execute_tool deploy",
            at=2.9,
            POLICY_ENFORCEMENT="approved",
            APPROVAL_APPROVER_TYPE="human",
            APPROVAL_WAIT_DURATION=2.1,
            DECISION_ID="d-1",
            **ASKED,
        ),
        span(8, "execute_tool drop", at=2.95, POLICY_ENFORCEMENT="rejected", **ASKED),
        span(9, "execute_tool send", at=3.0, POLICY_DECISION="modify", POLICY_RULE_ID="mask"),
        span(10, "execute_tool weather", at=3.05, POLICY_DECISION="modify", ANSWERED=True),
        span(
            11,
            "execute_tool fetch",
            at=3.1,
            POLICY_DECISION="allow",
            RECOVERED=True,
            ERROR_TYPE="TimeoutError",
        ),
        span(
            12,
            "execute_tool read",
            at=3.2,
            WITHHELD=True,
            **{**DENY, "POLICY_RULE_ID": "no-secrets", "POLICY_ID": "hook"},
        ),
        span(13, "execute_tool write", at=3.3, **{**DENY, "POLICY_ENFORCEMENT": "observed"}),
        span(14, "execute_tool break", at=3.35, status="error"),
        span(15, "execute_tool invoke_subagent", at=3.4, lasts=0.4, POLICY_DECISION="allow"),
        span(16, "invoke_agent", 15, at=3.41, lasts=0.39, GEN_AI_AGENT_NAME="researcher", **TURN),
        span(17, "call", 16, at=3.42, GEN_AI_TOOL_NAME="search", POLICY_DECISION="allow"),
        span(18, "execute_tool lost", 0xABC, at=3.0),
    ]
    events = [
        event(s.EVENT_USER_MESSAGE, 1, 0.001),
        event(s.EVENT_POLICY_DECISION, 4, 0.6, **DENY),
        event(s.EVENT_RECOVERED, 11, 3.1),
        event(s.EVENT_WITHHELD, 12, 3.2),
        event(s.EVENT_REWRITTEN, 9, 3.0),
        event(s.EVENT_REWRITTEN, 3, 0.5),
        event(s.EVENT_GEN_AI_OPERATION_DETAILS, 2, 0.3),
        event(s.EVENT_POLICY_DECISION, 0xDEF, 3.5, **DENY),
    ]
    return spans, events


WIDE = """\
trace 4bf92f35
2026-11-18 11:06:40 · 3.90 s · 18 spans · 820 → ? tokens · 2 refused · 1 withheld
1 would be refused · 1 approved · 3 with another verdict

invoke_agent ops                  3.90 s    4,210 → 512 tokens
├─ · user_message
├─ chat                           412 ms    model gpt-5, 820 → ? tokens
├─ execute_tool view_file           3 ms  ✓ allow
│  └─ · rewritten
├─ execute_tool run_command      0.21 ms  ✗ deny  no-rm-rf (prod): destructive shell commands are
│                                           refused; delete single files instead  [policy_denied]
├─ execute_tool deploy             10 ms  ✓ ask → approved  humans  by human after 2.10 s
├─ execute_tool drop               10 ms  ✗ ask → rejected  humans
├─ execute_tool send               10 ms  ~ modify  mask
├─ execute_tool weather            10 ms  ~ modify, answered
├─ execute_tool fetch              10 ms  ~ allow, recovered  [TimeoutError]
├─ execute_tool read               10 ms  ✗ deny, withheld  no-secrets
├─ execute_tool write              10 ms  ◌ deny → observed  no-rm-rf (prod)
├─ execute_tool break              10 ms    error: it broke
└─ execute_tool invoke_subagent   400 ms  ✓ allow
   └─ invoke_agent                390 ms    agent researcher  sub-agent of ops
      └─ call                      10 ms  ✓ allow  tool search
span 00000000                               not stored: still running, or lost
└─ execute_tool lost               10 ms
span 00000000                               not stored: still running, or lost
└─ · policy.decision                      ✗ deny  no-rm-rf (prod)
"""

RUNNING = """\
trace 4bf92f35
2026-11-18 11:06:40 · 410 ms · 3 spans · 1 pending

invoke_agent desk             not stored: still running, or lost
├─ · session_start
├─ · user_message
├─ chat gpt-5        10 ms
├─ execute_tool ask  10 ms  ✓ allow
└─ ask wire          10 ms  … ask → pending  humans
"""

NARROW = """\
trace 4bf92f35
2026-11-18 11:06:40 - 10 ms - 2 spans
1 -> 2 tokens - 1 refused

invoke_agent ops                       10 ms
|    1 -> 2 tokens
`- execute_tool run_command_elsewhere  10 ms
        x deny  no-rm-rf (prod): destructive shell
        commands are refused
"""


def test_a_whole_trace_with_every_verdict() -> None:
    assert render(*everything(), width=100, tz=timezone.utc).plain == WIDE


def test_a_run_that_has_not_ended_is_one_line_above_what_has() -> None:
    agent = {"GEN_AI_AGENT_NAME": "desk"}
    asked = {"APPROVAL_STATUS": "pending", "DECISION_ID": "d", **ASKED}
    spans = [
        span(2, "chat gpt-5", at=0.2, GEN_AI_OPERATION_NAME="chat", **agent),
        span(3, "execute_tool ask", at=0.3, POLICY_DECISION="allow", **agent),
        span(4, "otelhooks.approval.request wire", at=0.4, **asked, **agent),
    ]
    events = [
        event(s.EVENT_SESSION_START, 1, 0.0),
        event(s.EVENT_USER_MESSAGE, 1, 0.1, **agent),
    ]
    assert render(spans, events, width=100, tz=timezone.utc).plain == RUNNING


def test_a_call_that_has_not_ended_has_the_name_of_no_agent() -> None:
    spans = [span(2, "invoke_agent sub", GEN_AI_AGENT_NAME="sub", **TURN)]
    drawn = render(spans, [], width=100, tz=timezone.utc).plain
    assert (
        "span 00000000                 not stored: still running, or lost\n└─ invoke_agent" in drawn
    )


def test_a_tool_of_a_server_is_shown_with_it_and_one_that_is_not_approved_with_the_change() -> None:
    stock = {"GEN_AI_TOOL_NAME": "stock", "TOOL_SERVER": "shop"}
    spans = [span(1, "execute_tool stock", None, POLICY_DECISION="allow", **stock)]
    events = [event(s.EVENT_MCP_TOOL_UNAPPROVED, None, 0.0, MCP_TOOL_CHANGE="new", **stock)]
    drawn = render(spans, events, width=100, tz=timezone.utc).plain
    assert "✓ allow  server shop\n" in drawn
    assert "tool stock, server shop, change new\n" in drawn


def test_a_narrow_terminal_in_ascii_puts_details_below() -> None:
    spans = [
        span(
            1, "invoke_agent ops", None, GEN_AI_USAGE_INPUT_TOKENS=1, GEN_AI_USAGE_OUTPUT_TOKENS=2
        ),
        span(
            2,
            "execute_tool run_command_elsewhere",
            POLICY_REASON="destructive shell commands are refused",
            **DENY,
        ),
    ]
    drawn = render(spans, [], width=50, is_unicode=False, tz=timezone.utc).plain
    assert drawn.isascii()
    assert drawn == NARROW


def test_every_word_is_there_without_colour_and_none_is_coloured_with_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    tree = render(*everything(), width=100, tz=timezone.utc)
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=100, color_system="truecolor").print(
        tree, soft_wrap=True, end=""
    )
    for colour in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m"):
        assert colour not in file.getvalue()
    monkeypatch.delenv("NO_COLOR")
    coloured = io.StringIO()
    Console(file=coloured, force_terminal=True, width=100, color_system="truecolor").print(
        tree, soft_wrap=True, end=""
    )
    assert "\x1b[1;31m✗ deny" in coloured.getvalue()


def test_escape_codes_in_names_and_reasons_never_reach_the_terminal() -> None:
    reason = "\x1b]0;owned\x07 \x9b31m\u202egnp.exe\nsecond line"
    evil = span(1, "execute_tool \x1b[2J", None, **{**DENY, "POLICY_REASON": reason})
    drawn = render([evil], [event("\x1b[31mname", 1, 0.0)]).plain
    assert not [
        character for character in drawn if not character.isprintable() and character != "\n"
    ]


def test_spans_that_are_each_others_parents_are_drawn_once_each() -> None:
    drawn = render([span(1, "one", 2), span(2, "two", 1), span(3, "self", 3)], []).plain
    assert [drawn.count(name) for name in ("one ", "two ", "self ")] == [1, 1, 1]
    assert "its parents form a circle" in drawn


def test_a_trace_deeper_than_the_recursion_limit_is_drawn() -> None:
    spans = [span(n, f"depth {n}", n - 1 or None) for n in range(1, 3_000)]
    drawn = render(spans, []).plain
    assert "(level 2998) depth 2999" in drawn
    assert "(level 30)" not in drawn


def test_a_trace_of_events_alone_is_drawn() -> None:
    drawn = render([], [event(None, None, 0.0)], tz=timezone.utc).plain
    assert drawn.splitlines() == [
        f"trace {TRACE_ID[:8]}",
        "2026-11-18 11:06:40 · 0.00 ms · 0 spans",
        "",
        "· a plain line",
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0.00 ms"),
        (0.000214, "0.21 ms"),
        (0.0421, "42 ms"),
        (0.9996, "1.00 s"),
        (1.2345, "1.23 s"),
        (59.999, "1 min 00 s"),
        (3723, "62 min 03 s"),
    ],
)
def test_durations_are_read_at_a_glance(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_the_header_tells_observed_denies_from_observed_asks() -> None:
    observed = {"POLICY_ENFORCEMENT": "observed"}
    spans = [
        span(1, "execute_tool drop", None, **{**DENY, **observed}),
        span(2, "execute_tool mail", None, **ASKED, **observed),
        span(3, "execute_tool pay", None, **ASKED, **observed),
    ]
    header = render(spans, [], tz=timezone.utc).plain.splitlines()[1]
    assert header.endswith("3 spans · 1 would be refused · 2 would be asked about")


def test_a_rule_that_failed_is_named_once() -> None:
    failed = {"POLICY_REASON": "no-rm-rf: ValueError", "ERROR_TYPE": "policy_error"}
    other = {"POLICY_REASON": "note: look first"}
    text = str(render([span(1, "execute_tool a", None, **DENY, **failed)], [], width=200))
    assert "✗ deny  no-rm-rf (prod): failed: ValueError  [policy_error]" in text
    text = str(render([span(1, "execute_tool a", None, **DENY, **other)], [], width=200))
    assert "no-rm-rf (prod): note: look first" in text


def test_an_event_about_a_rule_that_matches_no_tool_names_the_rule() -> None:
    found = event(
        s.EVENT_RULE_UNMATCHED,
        None,
        0.0,
        POLICY_ID="prod",
        POLICY_RULE_ID="no-run",
        POLICY_RULE_TOOL="run_comand",
        GEN_AI_TOOL_NAME="run_command",
    )
    line = render([], [found], tz=timezone.utc).plain.splitlines()[3]
    assert " ".join(line.split()) == (
        "· policy.rule.unmatched rule no-run (prod) is for run_comand, tool run_command"
    )


def test_a_question_that_is_still_open_is_one_row() -> None:
    asked = {"GEN_AI_TOOL_NAME": "deploy", "DECISION_ID": "d-1", "POLICY_RULE_ID": "humans"}
    spans = [
        span(
            1,
            "otelhooks.approval.request deploy",
            None,
            POLICY_DECISION="ask",
            APPROVAL_STATUS="pending",
            **asked,
        ),
        span(2, "otelhooks.approval.wait deploy", None, APPROVAL_STATUS="pending", **asked),
        span(3, "otelhooks.approval.request other", None, POLICY_DECISION="ask", DECISION_ID="d-2"),
    ]
    [first, second] = (
        render(spans[:2], []).plain.splitlines()[3:] + render(spans[2:], []).plain.splitlines()[3:]
    )
    assert " ".join(first.split()) == "ask deploy 10 ms … ask → pending humans"
    assert second.startswith("ask other")


@pytest.mark.parametrize(
    ("usd", "unknown", "words"),
    [
        (None, None, ""),
        (None, 2, "$?"),
        (0.0, 0, "$0.0000"),
        (0.00351, 0, "$0.0035"),
        (0.000012, None, "$0.000012"),
        (1234.5, 0, "$1,234.50"),
        (0.5, 1, "≥ $0.5000"),
    ],
)
def test_a_cost_says_what_is_not_known(usd: Any, unknown: Any, words: str) -> None:
    assert money(usd, unknown) == words


def messages(*pairs: tuple[str, Any]) -> str:
    return json.dumps(
        [
            {"role": role, "parts": [part if isinstance(part, dict) else text_part(part)]}
            for role, part in pairs
        ]
    )


def text_part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


CALL = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "rain"}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": "wet"}


def conversation() -> list[Span]:
    history = [("user", "Will it rain?\nIn Oslo?")]
    return [
        span(1, "invoke_agent ops", None, lasts=1, **TURN),
        span(
            2,
            "chat gpt-4o",
            GEN_AI_SYSTEM_INSTRUCTIONS=json.dumps([text_part("Be brief.")]),
            GEN_AI_INPUT_MESSAGES=messages(*history),
            GEN_AI_OUTPUT_MESSAGES=messages(("assistant", CALL)),
        ),
        span(
            3,
            "execute_tool search",
            at=0.1,
            GEN_AI_TOOL_CALL_ID="c1",
            GEN_AI_TOOL_CALL_ARGUMENTS='{"q":"rain"}',
            GEN_AI_TOOL_CALL_RESULT="wet\x1b[2J" + "!" * 300,
        ),
        span(
            4,
            "chat gpt-4o",
            at=0.2,
            GEN_AI_SYSTEM_INSTRUCTIONS=json.dumps([text_part("Be brief.")]),
            GEN_AI_INPUT_MESSAGES=messages(*history, ("assistant", CALL), ("tool", RESULT)),
            GEN_AI_OUTPUT_MESSAGES=messages(("assistant", "Yes.")),
        ),
    ]


def test_content_is_one_line_a_message_and_nothing_is_told_twice() -> None:
    lines = render(conversation(), [], width=80).plain.splitlines()[3:]
    assert [line.rstrip() for line in lines] == [
        "invoke_agent ops        1.00 s",
        "├─ chat gpt-4o           10 ms",
        "│     system: Be brief.",
        "│     user: Will it rain? In Oslo?",
        "├─ execute_tool search   10 ms",
        '│     {"q": "rain"}',
        lines[6],
        "└─ chat gpt-4o           10 ms",
        "      after 2 earlier messages",
        "      assistant: Yes.",
    ]
    assert lines[6].startswith("│     → wet\\x1b[2J!!!")
    assert "(307 characters)" in lines[6]
    assert len(lines[6]) <= 80


def test_content_can_be_shown_in_full_or_left_out() -> None:
    whole = render(conversation(), [], width=80, content="whole").plain
    assert "│     user: Will it rain?\n│           In Oslo?\n" in whole
    assert "│     → wet" + "!" * 300 + "\n" in whole
    assert "\x1b" not in whole
    assert len(render(conversation(), [], content="none").plain.splitlines()) == 3 + 4


def test_a_call_that_no_span_shows_is_told_by_its_message() -> None:
    [turn, first, _, second] = conversation()
    drawn = render([turn, first, second], [], width=80).plain
    assert 'assistant: calls search {"q": "rain"}' in drawn
    assert "tool: result wet" in drawn


def test_content_of_events_is_shown_as_well() -> None:
    details = event(
        s.EVENT_GEN_AI_OPERATION_DETAILS,
        2,
        0.1,
        GEN_AI_INPUT_MESSAGES=[{"role": "user", "parts": [text_part("hello")]}],
    )
    spans = [span(1, "invoke_agent ops", None, **TURN), span(2, "chat gpt-4o")]
    assert "user: hello" in render(spans, [details]).plain


def test_long_histories_are_cut_unless_all_is_wanted() -> None:
    many = messages(*[("user", f"message {number}") for number in range(20)])
    spans = [span(1, "chat gpt-4o", None, GEN_AI_INPUT_MESSAGES=many)]
    assert "and 8 more; --content shows all" in render(spans, []).plain
    assert "user: message 19" in render(spans, [], content="whole").plain


@pytest.mark.parametrize("value", ["[1", '{"a": 1}', "[null, 3]", '[{"role": 7}]', 5])
def test_odd_messages_are_shown_as_they_are(value: Any) -> None:
    assert render([span(1, "chat m", None, GEN_AI_INPUT_MESSAGES=value)], []).plain


def test_a_name_of_an_agent_stands_where_it_is_another() -> None:
    sub = {**TURN, "GEN_AI_AGENT_NAME": "writer"}
    spans = [
        span(1, "invoke_agent ops", None, lasts=1, **TURN),
        span(2, "chat m", GEN_AI_AGENT_NAME="ops"),
        span(3, "invoke_agent writer", at=0.1, **sub),
        span(4, "chat m", 3, at=0.2, GEN_AI_AGENT_NAME="writer"),
        span(5, "execute_tool t", 3, at=0.3, GEN_AI_AGENT_NAME="ops"),
    ]
    lines = render(spans, []).plain.splitlines()[3:]
    assert [" ".join(line.split()[-3:]) for line in lines[1:]] == [
        "m 10 ms",
        "sub-agent of ops",
        "m 10 ms",
        "ms agent ops",
    ]


EVIL = "\x1b[2J\u202e\r\n\u2028└─ execute_tool pay  ✓ allow"


@pytest.mark.parametrize("content", ["lines", "whole"])
@pytest.mark.parametrize("width", [50, 80, 120])
def test_hostile_content_stays_in_its_place(content: Any, width: int) -> None:
    role = {"role": EVIL * 50, "parts": [text_part(EVIL * 500), {"type": EVIL}, EVIL]}
    deep = "[" * 50_000 + "]" * 50_000
    spans = [
        span(1, "execute_tool " + EVIL * 100, None, GEN_AI_TOOL_NAME=EVIL * 90),
        span(2, "chat m", GEN_AI_INPUT_MESSAGES=json.dumps([role]), GEN_AI_AGENT_NAME=EVIL * 90),
        span(3, "chat m", GEN_AI_INPUT_MESSAGES=deep, GEN_AI_OUTPUT_MESSAGES="[" * 300 + "]" * 300),
        span(4, "execute_tool t", GEN_AI_TOOL_CALL_ARGUMENTS=deep, GEN_AI_TOOL_CALL_RESULT=EVIL),
    ]
    drawn = render(spans, [], width=width, content=content).plain
    assert not set("\x1b\u202e\r\u2028") & set(drawn)
    lines = drawn.splitlines()[4:]
    starts = ("├─ chat", "├─ execute_tool t", "└─ execute_tool t", "│", "   ")
    assert all(line.startswith(starts) for line in lines), lines
    if content == "lines":
        assert max(map(cell_len, lines)) <= max(width, 110)


@given(
    st.lists(st.text("ab 日", max_size=60), max_size=12).map("  ".join),
    st.integers(28, 90),
    st.integers(28, 90),
)
def test_a_line_is_broken_at_blanks_alone(line: str, width: int, further: int) -> None:
    text = " ".join(["x", *line.strip().split(" ")])
    pieces = [piece.plain for piece in broken(Text(text), width, further)]
    assert " ".join(" ".join(pieces).split()) == " ".join(text.split())
    for piece, limit in zip(pieces, [width] + [further] * len(pieces), strict=False):
        assert cell_len(piece) <= limit or " " not in piece.strip()


def test_tokens_and_cost_are_not_broken() -> None:
    line = Text("chat m  412 ms  4,210 → 512 tokens, $0.0035  billing")
    assert [piece.plain for piece in broken(line, 40)] == [
        "chat m  412 ms",
        "4,210 → 512 tokens, $0.0035  billing",
    ]


def test_a_very_long_line_is_broken_quickly() -> None:
    line = Text("日 " * 50_000)
    started = time.perf_counter()
    assert len(broken(line, 100_000)) == 2
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("status", ["rejected", "error"])
def test_a_question_that_could_not_be_put_is_not_called_rejected(status: str) -> None:
    attributes = {
        s.POLICY_DECISION: "ask",
        s.POLICY_ENFORCEMENT: "rejected",
        s.APPROVAL_STATUS: status,
    }
    verdict = read_verdict(attributes)
    assert verdict is not None
    assert (verdict.words, verdict.mood) == (f"ask → {status}", "bad")
