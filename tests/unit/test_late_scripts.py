"""A script that takes longer than it may denies, wherever it decides, also if it says allow.

A clock that goes on by a day for each call stands for native operations, which nothing interrupts:
what they come to is there, and too late.
"""

from __future__ import annotations

import gc
import itertools
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks.errors import Denied
from otelhooks.policy import linear_regex
from otelhooks.policy.files import load, load_hooks
from otelhooks.policy.scripting import starlark


class Fast:
    """A clock for calls that look at it as they begin and end, and twice more."""

    def __init__(self) -> None:
        self._seconds = itertools.accumulate(itertools.cycle((86_400.0, 0.0, 0.0, 0.0)), initial=0)

    def __call__(self) -> float:
        return next(self._seconds)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda: monkeypatch.setattr(starlark, "thread_time", Fast())


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def act(ran: list[str]) -> Any:
    @otelhooks.tool
    def act(x: str = "x") -> str:
        ran.append(x)
        return x

    return act


RULES = {
    "a deny that does not match": "- deny: act\n  when: args['x'] == 'y'\n",
    "an allow that matches": "- deny: '*'\n- allow: act\n  when: args['x'] == 'x'\n",
    "a veto that does not match": "- veto: act\n  when: args['x'] == 'y'\n",
}
SCRIPT = "script: |\n  def handle(event, payload):\n    return allow()"
HOOKS = {
    "when": f"when: payload['name'] == 'other'\n{SCRIPT}",
    "handle": SCRIPT,
}


@pytest.mark.parametrize("kind", RULES)
def test_a_condition_of_a_rule(
    governed: Any, tmp_path: Path, act: Any, ran: list[str], late: Any, kind: str
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(f"policies:\n{RULES[kind]}", encoding="utf-8")
    governed(policies=path)
    assert act("x") == "x"
    late()
    with pytest.raises(Denied):
        act("x")
    assert ran == ["x"]


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_file_before_a_tool(
    governed: Any, tmp_path: Path, act: Any, ran: list[str], late: Any, kind: str
) -> None:
    (tmp_path / "guard.md").write_text(f"---\nevent: tool.pre\n{HOOKS[kind]}\n---\n", "utf-8")
    governed(hooks=load([tmp_path]).hooks)
    assert act("x") == "x"
    late()
    with pytest.raises(Denied, match="the hook failed"):
        act("x")
    assert ran == ["x"]


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_file_behind_a_tool_withholds(
    governed: Any, tmp_path: Path, act: Any, late: Any, kind: str
) -> None:
    (tmp_path / "guard.md").write_text(f"---\nevent: tool.post\n{HOOKS[kind]}\n---\n", "utf-8")
    governed(hooks=load([tmp_path]).hooks)
    assert act("x") == "x"
    late()
    assert "the hook failed" in act("x")


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_file_that_is_asked_by_hand(tmp_path: Path, late: Any, kind: str) -> None:
    (tmp_path / "guard.md").write_text(f"---\nevent: custom.go\n{HOOKS[kind]}\n---\n", "utf-8")
    chain = load_hooks([tmp_path])
    payload = {"name": "x"}
    assert chain.dispatch("custom.go", payload).action == "allow"
    late()
    assert chain.dispatch("custom.go", payload).action == "block"


class At:
    """A text that a file holds from its beginning on."""

    path = "a.yaml"

    def within(self, line: int, column: int) -> tuple[int, int]:
        return line, column


class Clock:
    """A clock whose seconds pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("counts", [False, True])
def test_the_time_of_host_functions_is_not_the_scripts_unless_they_say_so(
    monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    clock = Clock()

    def slow(x: int) -> int:
        clock.now += 100.0
        return x

    function = starlark.counting_time(slow) if counts else slow
    call = starlark.compile_expression("slow(args)", At(), functions={"slow": function})
    monkeypatch.setattr(starlark, "thread_time", clock)
    if counts:
        with pytest.raises(starlark.ScriptError, match=r"stopped after 0.05 s"):
            call(7)
    else:
        assert call(7) == 7


def test_the_time_in_which_arguments_are_handed_over_is_not_the_scripts() -> None:
    call = starlark.compile_expression("args['n'] == 1", At())
    assert call({"n": 1, "many": [{"a": n} for n in range(50_000)]}) is True


def _spend() -> None:
    end = time.thread_time() + 2 * starlark.TIME_LIMIT_S
    while time.thread_time() < end:
        pass


class Slow:
    """What only a garbage collection frees, and takes longer for than a script may take."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        _spend()


@pytest.fixture(autouse=True)
def nothing_else_to_collect() -> Iterator[None]:
    """Keep collections away from what other tests have made, of which they would read all."""
    gc.freeze()
    yield
    gc.unfreeze()


@starlark.counting_time
def collect(x: str) -> str:
    Slow()
    gc.collect()
    return x


def test_the_time_of_a_garbage_collection_is_not_the_scripts() -> None:
    call = starlark.compile_expression("collect(args) == 'x'", At(), functions={"collect": collect})
    assert call("x") is True
    assert [call("x") for _ in range(3)] == [True] * 3


def test_nor_does_a_collection_give_a_script_more_time() -> None:
    functions = {"collect": collect, "spend": starlark.counting_time(lambda x: _spend())}
    for text in ("collect(args) == spend(args)", "[spend(args), collect(args)]"):
        call = starlark.compile_expression(text, At(), functions=functions)
        with pytest.raises(starlark.ScriptError, match=r"stopped after 0.05 s"):
            call("x")


def test_nor_does_one_in_a_host_function_whose_time_is_not_counted() -> None:
    functions = {
        "collect": lambda x: collect(x),
        "spend": starlark.counting_time(lambda x: _spend()),
    }
    call = starlark.compile_expression("[collect(args), spend(args)]", At(), functions=functions)
    with pytest.raises(starlark.ScriptError, match=r"stopped after 0.05 s"):
        call("x")


def test_nor_does_one_in_another_thread() -> None:
    def elsewhere(x: str) -> str:
        thread = threading.Thread(target=collect, args=(x,))
        thread.start()
        thread.join()
        return x

    functions = {
        "elsewhere": starlark.counting_time(elsewhere),
        "spend": starlark.counting_time(lambda x: _spend()),
    }
    call = starlark.compile_expression("[elsewhere(args), spend(args)]", At(), functions=functions)
    with pytest.raises(starlark.ScriptError, match=r"stopped after 0.05 s"):
        call("x")


def test_collections_outside_of_a_script_are_none_of_its_business() -> None:
    # A program that recurses to its limit may collect there, where nothing can be called.
    before = list(gc.callbacks)
    during: list[int] = []
    count = starlark.counting_time(lambda x: during.append(len(gc.callbacks)) or x)
    call = starlark.compile_expression("count(args) == 'x'", At(), functions={"count": count})
    assert call("x") is True
    assert during == [len(before) + 1]
    with pytest.raises(starlark.ScriptError):
        call(object())
    assert gc.callbacks == before


def test_a_pattern_is_not_late_because_of_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "LIMIT_S", starlark.TIME_LIMIT_S)
    step = linear_regex._Automaton._step
    monkeypatch.setattr(
        linear_regex._Automaton, "_step", lambda *given: (collect("x"), step(*given))[1]
    )
    assert linear_regex.Pattern("ab").is_in("xab") is True


LOOP = "len([1 for i in range(100000) for j in range(100000)])"


def test_the_deny_of_a_late_condition_names_the_limit_and_the_policy(
    governed: Any, exporter: Any, tmp_path: Path, act: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(f"policies:\n- deny: act\n  when: {LOOP} == 7\n", encoding="utf-8")
    governed(policies=path)
    limit = r"line 3:\d+: stopped after 0\.05 s, the time limit of a script"
    with pytest.raises(Denied, match=f"policy 'act': .*{limit}"):
        act("x")
    said = f"rule `deny:act` of policy `rules` could not be evaluated and denies: {limit}"
    assert re.search(said, caplog.text)
    (span,) = exporter.get_finished_spans()
    assert re.fullmatch(f"deny:act: {limit}", span.attributes["otelhooks.policy.reason"])
    assert span.attributes["otelhooks.policy.id"] == "rules"


def test_the_deny_of_a_late_hook_file_names_the_limit_and_the_file(
    governed: Any, exporter: Any, tmp_path: Path, act: Any
) -> None:
    text = (
        f"---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n    return {LOOP}\n---\n"
    )
    (tmp_path / "guard.md").write_text(text, "utf-8")
    governed(hooks=load([tmp_path]).hooks)
    with pytest.raises(Denied, match="the hook failed"):
        act("x")
    (span,) = exporter.get_finished_spans()
    reason = span.attributes["otelhooks.policy.reason"]
    assert 'hook "guard": ' in reason
    assert "stopped after 0.05 s, the time limit of a script" in reason
