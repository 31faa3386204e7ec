"""Any text as a hook file: hooks, or one error with its place; never a hang or a crash.

What loads is asked, and answers in time. `FUZZ_EXAMPLES` says how many texts each test tries.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otelhooks.errors import PolicyFileError
from otelhooks.hooks.context import OperationContext, SessionContext, TurnContext
from otelhooks.policy.files import front_matter
from otelhooks.policy.files.document import Node
from otelhooks.policy.files.events import EVENTS
from otelhooks.policy.files.hook_script import HookFailed, HookScript
from otelhooks.policy.files.script_functions import PURE, functions
from otelhooks.policy.files.source import Source
from otelhooks.policy.scripting.starlark import ScriptError, compile_expression

SETTINGS = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LONGEST_S = 10

WORDS = [*EVENTS, "event", "priority", "when", "script", "id", "severity", "mode", "description"]
WORDS += ["payload", "args", "allow()", 'block("x")', 'modify({"args": 1})', "handle", "return"]
WORDS += ["def handle(event, payload):", "for i in range(9):", "if payload:", "else:", "lambda: 1"]
WORDS += [
    "while True:",
    "try:",
    "class A:",
    "import os",
    "load('a', 'b')",
    "yield",
    "async def f():",
]
WORDS += ["range(999999)", "10000 * 'a'", "[1] * 999", "1 << 99", "'a' % 1", "not ", "-", "[", "(("]
WORDS += ["re.search('(a+)+', 'aaa')", "json.decode('[')", "cache.get('x')", "metrics.incr('m')"]
WORDS += [
    "log.info(1)",
    "log . info(1)",
    "struct(a=1)",
    "fail('x')",
    "handle(event, payload)",
    "None",
]
MARKS = [
    *":|>-#'\"[]{}(),.=+*/%\\\n\t ",
    "---\n",
    "\n---\n",
    "\n  ",
    "\n    ",
    ": ",
    "|\n",
    "\ufeff",
]
MARKS += ["\r\n", "\0", "\u2028", "é", "\U0001f600", "'''", '"""', "r'\\", "0x", "1e999", "9" * 40]
NESTING = [("(", ")"), ("[", "]"), ("{1: ", "}"), ("not ", ""), ("-", ""), ("1 + ", "")]
NESTING += [("lambda: ", ""), ("1 if payload else ", ""), ("", ".a"), ("", "[0]"), ("", "()")]
NESTING += [("payload and ", ""), ("str(", ")"), ("[x for x in ", "]"), ("f'{", "}'")]
SEED = """---
event: tool.pre
priority: 10
when: payload["name"] == "run_command"
severity: high
script: |
  PATTERNS = ["rm -rf /", "mkfs"]

  def matches(text):
      return [p for p in PATTERNS if p in text]

  def handle(event, payload):
      command = payload.get("args", {}).get("command", "")
      for pattern in matches(command):
          metrics.incr("denied", pattern=pattern)
          return block("dangerous: '" + pattern + "'", severity="critical")
      if len(command) > 100:
          return modify({"args": {"command": command[:100]}})
      log.info("seen", command=command)
      return allow()
---
# guard
"""
PAYLOADS: list[dict[str, Any]] = [
    {"name": "run_command", "args": {"command": "rm -rf / " * 20}},
    {"name": "x", "args": None},
    {},
]

_texts = st.lists(st.sampled_from(MARKS + WORDS) | st.text(max_size=4), max_size=40).map("".join)


@st.composite
def _mutated(draw: st.DrawFn, seed: str) -> str:
    """A text with some pieces cut, doubled, or others put in."""
    text = seed
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        piece = draw(st.sampled_from([*MARKS, *WORDS, "", text[start:end] * 2]))
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def _nested(draw: st.DrawFn) -> str:
    """An expression that nests as deep as it is long."""
    opening, closing = draw(st.sampled_from(NESTING))
    times = draw(st.integers(1, 20_000))
    return opening * times + "payload" + closing * times


def _check_place(error: PolicyFileError, text: str) -> None:
    lines = max(len(text.splitlines()), text.count("\n") + 1)
    assert 1 <= error.line <= lines + 1
    assert error.column >= 1
    assert error.hint


def _load_and_ask(text: str) -> None:
    started = time.monotonic()
    try:
        script = HookScript(
            front_matter.read(Source("g.md", text, "g", "v")), functions(lambda: [])
        )
    except PolicyFileError as error:
        _check_place(error, text)
    else:
        context = OperationContext(TurnContext(SessionContext()))
        for payload in PAYLOADS:
            with contextlib.suppress(HookFailed):
                decision = script.ask(context, script.said.event, payload)
                assert decision.action in {"allow", "block", "modify"}
    assert time.monotonic() - started < LONGEST_S


@SETTINGS
@given(text=_texts)
def test_any_text(text: str) -> None:
    _load_and_ask(text)


@SETTINGS
@given(text=_mutated(SEED))
def test_a_guard_with_faults(text: str) -> None:
    _load_and_ask(text)


@SETTINGS
@given(body=_texts)
def test_any_script(body: str) -> None:
    lines = body.replace("\n", "\n      ")
    _load_and_ask(
        f"---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n      {lines}\n---\n"
    )


@SETTINGS
@given(text=_texts | _nested() | _mutated('payload["name"] == "x" or any([a in b for a in c])'))
def test_any_expression(text: str) -> None:
    started = time.monotonic()
    try:
        test = compile_expression(
            text, Node(text, "g.md", 1, 1), parameters=("payload",), functions=PURE
        )
    except PolicyFileError as error:
        _check_place(error, text)
    else:
        for payload in PAYLOADS:
            with contextlib.suppress(ScriptError):
                test(payload)
    assert time.monotonic() - started < LONGEST_S
