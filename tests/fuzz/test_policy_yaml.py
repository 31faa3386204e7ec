"""Any text as a YAML policy file: rules, or one error with its place; never a hang or a crash.

`FUZZ_EXAMPLES` says how many texts each test tries.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otelhooks import policy
from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.files import document
from otelhooks.policy.files.export import export
from otelhooks.policy.files.rules import RuleFile, read_rules
from otelhooks.policy.files.source import Source
from otelhooks.policy.files.statements import PRESETS, STATEMENTS

LOADERS = [yaml.SafeLoader, *filter(None, [getattr(yaml, "CSafeLoader", None)])]
SETTINGS = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

MARKS = [*":-?,[]{}#&*!|>'\"%@`~\n\t \\", "\n  ", "\n- ", ": ", "---", "...", "<<: *a", "&a ", "*a"]
MARKS += ["!!python/object ", "%YAML 9.9\n", "\u2028", "\x85", "\ufeff", "\0", "\U0001f600", "é"]
WORDS = [*STATEMENTS, *PRESETS, "policies", "version", "default", "mode", "include", "when", "id"]
WORDS += ["when_labels", "agent", "severity", "critical", "reason", "name", "tools", "adds", "per"]
WORDS += ["no", "on", "010", "1e3", "1:30", "null", "~", "0x1", ".inf", "true", "1", "-1", "1.5"]
WORDS += ["run_command", "github/*", "kind:shell", "args['x']", "args", "x" * 300, "9" * 5000]
SEED = """
version: 1
default: deny
policies:
  - deny: run_command
    when: '"rm" in args["c"]'
    reason: |
      a
      b
    severity: high
  - ask: [a, "b/*"]
    id: x
  - safe_defaults
  - workspace_only: [/a, /b]
    tools: {t: [p, q]}
  - {label: a, adds: [b, c]}
  - limit: {turns: 3, per: hour}
  - budget: {cost_usd: 1.5, prices: {m: {input: 1, output: 2}}}
"""

_texts = st.lists(st.sampled_from(MARKS + WORDS) | st.text(max_size=4), max_size=40).map("".join)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    """The seed with some pieces cut, doubled, or others put in."""
    text = SEED
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        piece = draw(st.sampled_from([*MARKS, *WORDS, "", text[start:end] * 2]))
        text = text[:start] + piece + text[end:]
    return text


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def _shaped(draw: st.DrawFn) -> str:
    """A file of the right shape, with values that may be wrong."""
    entries: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        statement = draw(st.sampled_from(list(STATEMENTS.values())))
        entry = {statement.word: draw(_values)}
        for key in statement.options:
            if draw(st.integers(0, 3)) == 0:
                entry[key.name] = draw(_values)
        entries.append(entry)
    return yaml.safe_dump({"policies": entries, **draw(st.just({}) | st.just({"mode": "monitor"}))})


def _read(text: str) -> RuleFile | PolicyFileError:
    start = time.monotonic()
    try:
        return read_rules([Source("f.yaml", text, "f", "v")])[0]
    except PolicyFileError as error:
        return error
    finally:
        assert time.monotonic() - start < 5


def _check(text: str) -> None:
    file = _read(text)
    if isinstance(file, PolicyFileError):
        lines = max(len(text.splitlines()), text.count("\n") + 1)
        assert 1 <= file.line <= lines + 1
        assert file.column >= 1
        assert file.hint
        return
    rules = policy.PolicySet(
        file.rules, default=file.default or "allow", mode=file.mode or "enforce", channel=True
    )
    for tool in {"run_command", "a", *(rule.tool for rule in file.rules)}:
        assert drive(rules.evaluate(Call(tool, {"c": "rm", "x": 1}))).decision
    try:
        again = export(rules, file.gates)
    except ConfigError:
        return
    back = _read(again)
    assert isinstance(back, RuleFile)
    assert back.rules == file.rules


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.__name__)
@pytest.mark.parametrize("texts", [_texts, _mutated(), _shaped()], ids=["any", "mutated", "shaped"])
def test_a_text_is_rules_or_an_error_with_its_place(
    loader: Any, texts: st.SearchStrategy[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_LOADER", loader)

    @SETTINGS
    @given(texts)
    def run(text: str) -> None:
        _check(text)

    run()
