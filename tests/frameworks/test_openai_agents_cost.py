"""What the adapter does for a call of the OpenAI Agents SDK, counted: nothing that nobody looks at.

Times are in `make bench`; here is what they follow from.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import sys
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("agents")

import agents

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.frameworks.kit import json_text
from otelhooks.frameworks.openai_agents import models
from otelhooks.frameworks.openai_agents.scripted import ScriptedModel
from otelhooks.patching import fields

COUNTED = (models.__file__.removesuffix("models.py"), fields.__file__)
OURS = otelhooks.__file__.removesuffix("__init__.py")
CALLS = 20
FRAMES = 52
"""Python calls in the adapter and the fields it guards, for a tool call and its model call."""
ALL_FRAMES = 187
"""Those in all of otelhooks: 7 for what the model call costs, and 5 so that its run can pause."""
OFFERED = 1
"""Those for a list of one tool that was not offered before: it is held against the rules once."""


def is_scripted(frame: Any) -> bool:
    """Return whether the scripted model made a call."""
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_filename.endswith("scripted.py"):
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def instrument(with_rules: Any) -> Any:
    agents.set_tracing_disabled(True)
    return functools.partial(with_rules, frameworks=["openai_agents"])


def searching(**settings: Any) -> Any:
    """Return an agent that calls its one tool `CALLS` times, then answers."""
    steps = [*((("search", {"query": "x"}),) for _ in range(CALLS)), "done"]

    def search(query: str) -> str:
        """Search."""
        return "found"

    return agents.Agent(
        name="assistant",
        model=ScriptedModel(lambda shown: steps.pop(0)),
        tools=[agents.function_tool(search)],
        **settings,
    )


def run(agent: Any) -> Any:
    return asyncio.run(_run(agent))


async def _run(agent: Any) -> Any:
    return await agents.Runner.run(agent, "begin", max_turns=CALLS + 1)


def test_a_tool_call_costs_so_many_calls_in_the_adapter(instrument):
    frames: Counter[str] = Counter()
    everywhere = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal everywhere
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(OURS) and not is_scripted(frame):
            everywhere += 1
            if file.startswith(COUNTED):
                frames[frame.f_code.co_name] += 1

    instrument(policy.allow("search"), policy.deny("run_command"))
    run(searching())  # what is made once is made
    agent = searching()
    sys.setprofile(count)
    try:
        run(agent)
    finally:
        sys.setprofile(None)
    assert sum(frames.values()) <= FRAMES * CALLS + OFFERED, frames.most_common(12)
    assert everywhere <= ALL_FRAMES * CALLS


class Sealed(dict):  # type: ignore[type-arg]
    """An item of a history that must not be read."""

    def _refuse(self, *args: Any) -> Any:
        raise AssertionError("an item was read though nobody looks")

    __getitem__ = __iter__ = __len__ = get = items = keys = values = __getattribute__ = _refuse


class Answering(agents.Model):
    """A model that answers with nothing."""

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        return agents.ModelResponse(output=[], usage=agents.Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_model_call_without_hooks_reads_no_item(instrument):
    instrument(policy.deny("run_command"))
    stand_in = models.guarded(Answering(), "assistant")
    history = [dict.__new__(Sealed) for _ in range(3)]
    answer = asyncio.run(_ask(stand_in, input=history, model_settings=object(), tools=[]))
    assert answer.output == []


def test_the_answer_is_read_once_by_its_tool_and_not_by_the_model_call(instrument, monkeypatch):
    parsed: list[Any] = []
    read = json_text._parse
    monkeypatch.setattr(json_text, "_parse", lambda text: parsed.append(text) or read(text))
    monkeypatch.setattr(models, "text_of", lambda item: pytest.fail("nobody reads the text"))
    instrument(policy.allow("search"))
    run(searching())
    assert len(parsed) == CALLS


async def _ask(model: Any, **arguments: Any) -> Any:
    return await model.get_response(system_instructions=None, **arguments)


def test_a_hook_sees_the_settings_that_are_set(instrument):
    seen: list[dict[str, Any]] = []

    @hooks.pre_model_call
    def look(call: types.ModelCall) -> types.HookResult:
        seen.append(call.settings)
        return types.HookResult()

    instrument(hooks=[look])
    settings = agents.ModelSettings(temperature=0.5)
    model = ScriptedModel(lambda shown: "done")
    run(agents.Agent(name="a", instructions="Be brief.", model=model, model_settings=settings))
    run(agents.Agent(name="a", model=model))
    assert seen == [{"temperature": 0.5, "instructions": "Be brief."}, {}]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"path": "/safe", "path": "/etc"}', '{"path": "/etc"}'),
        ('{"in": {"a": 1, "a": 2}}', '{"in": {"a": 2}}'),
        ('{"list": [{"a": 1, "a": 2}], "b": ":"}', '{"list": [{"a": 2}], "b": ":"}'),
        ('[{"a": 1, "a": 2}]', None),
        ('{"a": 1, "a": 2} and more', None),
        ("a: b: c", None),
        ('{"a": "b: c", "d": {"e": 1}}', None),
    ],
)
def test_a_tool_is_given_what_was_judged_where_a_name_stands_twice(text, written):
    args = json_text.read(text, "input")
    assert json_text.write(text, "input", args, False) == (text if written is None else written)


def test_a_model_is_told_once_that_its_run_has_ended(instrument):
    if not hasattr(agents.Model, "_cleanup_on_run_end"):
        pytest.skip("this version tells no model")
    told: list[Any] = []
    agent = searching()

    async def clean_up(owner: object) -> None:
        told.append(owner)

    agent.model._cleanup_on_run_end = clean_up
    instrument(policy.allow("search"))
    assert run(agent).final_output == "done"
    assert len(told) == 1


def test_a_refused_run_is_cleaned_up_without_a_warning(instrument, caplog):
    @hooks.pre_agent
    def refuse(call: types.AgentCall) -> types.HookResult:
        return types.HookResult(allow=False, message="Not today.")

    instrument(hooks=[refuse])
    with caplog.at_level(logging.WARNING):
        assert run(searching()).final_output == "Not today."
    assert caplog.records == []


def test_models_that_are_gone_leave_no_stand_in(instrument):
    instrument(policy.allow("search"))
    run(searching())
    gc.collect()
    assert not models._stand_ins
