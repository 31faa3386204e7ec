"""Hook files that verify delegates and keep agents at work, on openai-agents.

What needs no framework is in `tests/unit/test_hook_files_pipeline.py`.
"""

# pyright: basic

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import otelhooks

agents = pytest.importorskip("agents")

from otelhooks.demo.with_openai_agents import scripted  # noqa: E402  # needs the framework

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine

ENOUGH = """---
event: {event}
when: '"source" not in payload["{key}"]'
script: |
  def handle(event, payload):
      return block("name a source")
---
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hooks"
    path.mkdir()
    return path


def run(agent: Any) -> str:
    config = agents.RunConfig(tracing_disabled=True)
    return asyncio.run(agents.Runner.run(agent, "dig", run_config=config)).final_output


def delegating(answers: list[str]) -> Any:
    """Return an agent that hands its task to another, and says what came back."""
    inner = agents.Agent(name="researcher", model=scripted("small", answers))
    outer = scripted("large", [("research", {"input": "dig"}), "done"])
    return agents.Agent(
        name="outer", model=outer, tools=[inner.as_tool("research", "Look things up.")]
    )


def told(agent: Any) -> str:
    return agent.model.seen[-1]


def test_an_agent_is_sent_on_with_the_reason(folder: Path) -> None:
    (folder / "enough.md").write_text(ENOUGH.format(event="agent.stop", key="text"))
    otelhooks.instrument(policies=[folder])
    agent = agents.Agent(name="ops", model=scripted("m", ["42", "42, source: x"]))
    assert run(agent) == "42, source: x"


def test_it_is_sent_on_twice_at_most(folder: Path) -> None:
    (folder / "enough.md").write_text(ENOUGH.format(event="agent.stop", key="text"))
    otelhooks.instrument(policies=[folder])
    agent = agents.Agent(name="ops", model=scripted("m", ["1", "2", "3", "4"]))
    assert run(agent) == "3"


def test_a_delegate_is_asked_again(folder: Path) -> None:
    (folder / "verify.md").write_text(ENOUGH.format(event="delegation.post_verify", key="content"))
    otelhooks.instrument(policies=[folder])
    agent = delegating(["42", "42, source: x"])
    assert run(agent) == "done"
    assert told(agent) == "42, source: x"


def test_after_two_more_attempts_its_answer_is_withheld(folder: Path) -> None:
    (folder / "verify.md").write_text(ENOUGH.format(event="delegation.post_verify", key="content"))
    otelhooks.instrument(policies=[folder])
    agent = delegating(["1", "2", "3", "4"])
    assert run(agent) == "done"
    assert told(agent) == 'blocked by hook "verify": name a source'


def test_a_delegation_can_be_refused(folder: Path) -> None:
    (folder / "guard.md").write_text(ENOUGH.format(event="delegation.pre", key="task"))
    otelhooks.instrument(policies=[folder])
    agent = delegating([])
    assert run(agent) == "done"
    assert 'blocked by hook "guard": name a source' in told(agent)
