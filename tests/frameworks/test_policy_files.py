"""The demonstration's own agents under policy as files: the pack, a YAML file, and what follows.

Runs where the frameworks are; each one that is installed is governed by the same files.
"""

# pyright: basic

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import otelhooks
from otelhooks.demo import story
from otelhooks.policy_tools import trials
from otelhooks.policy_tools.learn import learn
from otelhooks.policy_tools.replay import replay
from otelhooks.policy_tools.sources import StoreSource
from otelhooks.policy_tools.subject import Subject

pytestmark = pytest.mark.timeout(120)  # importing a framework takes long on a busy machine

MODULES = {"openai_agents": "agents", "langchain": "langchain", "mcp": "mcp"}

SCRIPT = (
    ("view_file", {"path": "notes.txt"}),
    ("view_file", {"path": "/etc/passwd"}),
    ("run_command", {"CommandLine": "RM  -fr /"}),
    ("run_command", {"CommandLine": "rm -rf build"}),
    ("run_command", {"CommandLine": "echo x > .harness/hooks/a.md"}),
    ("run_command", {"CommandLine": "ls"}),
)
TOLD = (
    "notes.txt: 12 lines",
    'blocked by hook "path_guard": path outside the workspace',
    'blocked by hook "command_guard": dangerous command pattern blocked',
    "Deleting files is not allowed here.",
    'blocked by hook "meta_tool_guard": an agent may not change its own rules',
    "ran: ls",
)
RULES = """\
policies:
  - deny: run_command
    when: '"rm -rf" in args["CommandLine"]'
    id: no-rm
    reason: Deleting files is not allowed here.
  - deny: docs/delete_page
    reason: The documentation is read-only here.
"""
CANDIDATE = """\
policies:
  - {deny: run_command, id: no-shell}
  - {deny: docs/delete_page}
"""


class Run(NamedTuple):
    """The result of one run: its store, the files it was under, and the differences."""

    store: Path
    rules: Path
    findings: list[str]


@pytest.fixture(params=MODULES, scope="module")
def governed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the demonstration of one framework under the pack and a YAML file."""
    name: str = request.param
    for module in ("mcp", MODULES[name]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    folder = tmp_path_factory.mktemp(name)
    run = Run(folder / "store.db", folder / "rules.yaml", [])
    run.rules.write_text(RULES)
    demo: Any = importlib.import_module(f"otelhooks.demo.with_{name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story, "SCRIPT", SCRIPT)
        patch.setattr(story, "TOLD", TOLD)
        patch.setattr(story, "findings", run.findings)
        if name == "mcp":
            patch.setattr(demo, "CALLS", (*SCRIPT, *demo.CALLS[-2:]))
        handle = otelhooks.instrument(
            policies=["governed", run.rules],
            mcp_servers=[story.SERVER],
            capture_content="SPAN_ONLY",
            store=run.store,
        )
        try:
            demo.run()
            handle.force_flush()
        finally:
            otelhooks.uninstrument()
    return run


def test_files_govern_the_demonstrations_agents(governed: Run) -> None:
    """What is refused does not run, and the model gets the reason; the rest runs."""
    assert governed.findings == []

    calls = list(StoreSource(governed.store).calls())
    decided = Counter((call.tool, call.decision) for call in calls)
    assert decided["view_file", "deny"] == 1
    assert decided["run_command", "deny"] == 3
    assert decided["view_file", "allow"] == decided["run_command", "allow"] == 1
    assert {call.rule_id for call in calls if call.decision == "deny"} >= {
        "path_guard",
        "command_guard",
        "meta_tool_guard",
    }


def test_a_replay_names_exactly_the_calls_that_flip(governed: Run, tmp_path: Path) -> None:
    changed = tmp_path / "rules.yaml"
    changed.write_text(CANDIDATE)
    source = StoreSource(governed.store)

    result = replay(source.calls(), Subject.open(["governed", changed]).dry_run())

    flipped = [(c.recorded.tool, c.recorded.args, c.words) for c in result.changes]
    assert flipped == [("run_command", {"CommandLine": "ls"}, "allow -> deny")]
    assert not result.gaps
    assert not result.unnamed


def test_a_replay_under_the_same_files_changes_nothing(governed: Run) -> None:
    same = Subject.open(["governed", governed.rules])

    assert replay(StoreSource(governed.store).calls(), same.dry_run()).changes == []


def test_what_is_learned_lets_run_what_ran(governed: Run, tmp_path: Path) -> None:
    draft = learn(StoreSource(governed.store).calls())
    folder = tmp_path / "learned"
    (folder / "cases").mkdir(parents=True)
    (folder / "draft.yaml").write_text(draft.policy())
    (folder / "cases" / "draft.yaml").write_text(draft.suite())

    results = list(trials.run([folder]))

    assert results
    assert not [result for result in results if result.is_red]
    assert "run_command" in draft.policy().split("# Left out:")[1]
