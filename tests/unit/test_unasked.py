"""A process that has rules and exits without one of them being asked says so, once."""

import asyncio
import contextlib
import sys
from types import ModuleType

import pytest

import otelhooks
from otelhooks import hooks, policy
from otelhooks.setup import instrument, unasked


@pytest.fixture
def at_exit(governed, caplog, monkeypatch):
    """Instrument, do something, and return what is said when the process exits."""
    monkeypatch.setattr(unasked, "is_one_of_several", lambda: False)  # tests before may have been

    def run(act=lambda handle: None, **settings):
        handle = governed(**settings)
        act(handle)
        instrument._say_unasked(handle)
        return caplog.text

    return run


@pytest.mark.parametrize(
    "act",
    [
        lambda handle: otelhooks.tool(lambda: 1, name="other")(),
        lambda handle: otelhooks.model_call(model="m")(lambda messages: "Done.")([]),
        lambda handle: otelhooks.agent("a")(lambda message: "Done.")("Hello."),
        lambda handle: handle.replace(policies=[]),
    ],
    ids=["a tool", "a model call", "a turn", "no rules any more"],
)
def test_nothing_is_said_where_anything_was_guarded_or_no_rules_are_left(at_exit, act):
    assert at_exit(act, policies=[policy.deny("a")]) == ""


def test_nothing_is_said_where_a_question_was_interrupted(at_exit):
    async def ask(call):
        await asyncio.sleep(60)

    async def interrupted():
        task = asyncio.ensure_future(otelhooks.call_tool("a", {}, noted))
        await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def noted():
        raise AssertionError

    said = at_exit(lambda handle: asyncio.run(interrupted()), policies=[policy.ask_user("a", ask)])
    assert "ever asked" not in said


def test_a_hook_that_can_deny_counts_too(at_exit):
    decide = hooks.pre_tool_call_decide(lambda call: None)
    assert "no hook was ever asked" in at_exit(hooks=[decide])


def test_rules_that_guard_policy_files_do_not_count(at_exit, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("policies: [{deny: run_command}]\n")
    assert "0 of 1 rules were" in at_exit(policies=[str(path)])


def test_the_gauge_counts_rules_that_calls_have_met_and_those_that_none_has(governed, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("policies: [{deny: run_command}, {deny: send_email}]\n")
    governed(policies=[str(path), policy.allow("view")])

    def counts():
        points = governed.points("otelhooks.policy.rules")
        return {
            dict(point.attributes)["otelhooks.policy.rule.asked"]: point.value for point in points
        }

    assert counts() == {True: 0, False: 3}
    otelhooks.tool(lambda: 1, name="view")()
    assert counts() == {True: 1, False: 2}


def test_without_rules_the_gauge_is_silent(governed):
    governed()
    assert governed.points("otelhooks.policy.rules") == []


def test_a_worker_of_gunicorn_is_one_of_several(monkeypatch):
    monkeypatch.setitem(sys.modules, "gunicorn.arbiter", ModuleType("gunicorn.arbiter"))
    assert unasked.is_one_of_several()
