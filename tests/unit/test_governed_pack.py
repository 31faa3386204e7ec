"""The shipped pack: its cases are green, a wrong guard is red, and what it cannot see is said."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import otelhooks
from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.policy import packs
from otelhooks.policy_tools import hook_lint, trials
from otelhooks.policy_tools.dry_run import DryRun
from otelhooks.policy_tools.subject import Subject

PRIORITIES = {
    "audit_tool_pre": 1,
    "audit_tool_post": 1,
    "command_guard": 10,
    "path_guard": 10,
    "prefer_named_tools": 20,
    "meta_tool_guard": 30,
    "completion_window_guard": 40,
}


@pytest.fixture(scope="module")
def governed() -> Subject:
    return Subject.open(["governed"])


def folder() -> Path:
    found = packs.folder("governed")
    assert found is not None
    return found


def decision(policy: DryRun, tool: str, **args: object) -> tuple[str, str]:
    judged = policy.judge(Call(tool, dict(args)))
    return judged.decision, judged.verdict.rule_id


def test_the_seven_guards_and_their_order(governed: Subject) -> None:
    assert {guard.name: guard.said.priority for guard in governed.scripts} == PRIORITIES
    assert [guard.said.priority for guard in governed.scripts] == sorted(PRIORITIES.values())


def test_all_cases_of_the_pack_are_green() -> None:
    results = list(trials.run(["governed"]))

    assert [r.case.name for r in results if r.is_red] == []
    assert len(results) > 130


def test_every_guard_has_cases_in_which_it_decides() -> None:
    deciding = {result.seen["rule"] for result in trials.run(["governed"]) if result.seen["rule"]}

    assert deciding >= set(PRIORITIES) - {"audit_tool_pre", "audit_tool_post"}


def test_the_pack_says_what_it_asks_of_others(governed: Subject) -> None:
    wanted = ["priority", "description", "audit"]

    assert list(hook_lint.missing(governed, wanted)) == []
    assert list(hook_lint.lint_hooks(governed)) == []


WRONG = [
    ("command_guard", '"rm -rf /", ', ""),
    ("command_guard", 'each["read"].lower()', 'each["read"]'),
    ("command_guard", "return block(", "return log.info("),
    ("command_guard", ", programs=PROGRAMS", ""),
    ("command_guard", "candidates = [each", "candidates = [] and [each"),
    ("path_guard", '".." in', '"..." in'),
    ("path_guard", "return climbs(", "return False and climbs("),
    ("path_guard", "named.paths(payload)", "named.paths(dict(payload, args={}))"),
    ("prefer_named_tools", '"execrun", ', ""),
    ("meta_tool_guard", '".harness", ', ""),
    ("meta_tool_guard", "texts=True, ", ""),
    ("meta_tool_guard", 'if each["use"] == "write":', "if False:"),
    ("meta_tool_guard", 'if each["use"] == "write":', "if True:"),
    ("meta_tool_guard", 'startswith("metaregister")', 'startswith("xregister")'),
    ("completion_window_guard", "MAX_MESSAGES = 200", "MAX_MESSAGES = 2000"),
    ("audit_tool_pre", "return allow()", "return block('no')"),
    ("audit_tool_post", "return allow()", "return block('no')"),
]


@pytest.mark.parametrize(("guard", "right", "wrong"), WRONG, ids=lambda text: str(text)[:24])
def test_a_guard_that_is_edited_to_be_wrong_turns_a_case_red(
    tmp_path: Path, guard: str, right: str, wrong: str
) -> None:
    copy = tmp_path / "governed"
    shutil.copytree(folder(), copy)
    file = copy / f"{guard}.md"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))

    cases = copy / "cases" / f"{'audit' if guard.startswith('audit') else guard}.yaml"
    assert any(result.is_red for result in trials.run([str(copy)], [cases]))


def test_the_pack_is_in_force_by_its_name(tmp_path: Path) -> None:
    ran: list[str] = []

    @otelhooks.tool
    def bash(command: str) -> str:
        ran.append(command)
        return "done"

    otelhooks.instrument(policies="governed", frameworks=(), store=tmp_path / "store.db")
    try:
        assert bash("ls") == "done"
        with pytest.raises(otelhooks.errors.Denied, match="dangerous command pattern blocked"):
            bash("rm -rf /")
    finally:
        otelhooks.uninstrument()

    assert ran == ["ls"]


def test_a_pack_goes_before_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that an agent works in does not decide what `governed` means."""
    (tmp_path / "governed").mkdir()
    (tmp_path / "governed" / "nothing.yaml").write_text("policies: [allow_all]")
    monkeypatch.chdir(tmp_path)

    assert len(Subject.open(["governed"]).scripts) == len(PRIORITIES)


def test_what_a_link_leads_to_is_seen_by_workspace_only_beside_the_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script cannot look at the file system; the guard's own page says what to put beside it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("mine")
    (work / "link").symlink_to(tmp_path)
    beside = tmp_path / "workspace.yaml"
    beside.write_text(f"policies: [{{workspace_only: ['{work}']}}]")
    monkeypatch.chdir(work)
    alone = Subject.open(["governed"]).dry_run()
    both = Subject.open(["governed", beside]).dry_run()

    assert decision(alone, "view_file", path="link/secret") == ("allow", "")
    assert decision(both, "view_file", path="link/secret")[0] == "deny"
    assert decision(both, "view_file", path="notes.txt")[0] == "allow"


def test_long_arguments_are_judged_within_the_time_limit(governed: Subject) -> None:
    """A long file is not a reason to refuse it, nor to let a command through."""
    policy = governed.dry_run()
    text = "a line of a file\n" * 5_000

    assert decision(policy, "create_file", path="a.txt", content=text) == ("allow", "")
    assert decision(policy, "run_command", command=text + "rm -rf /")[0] == "deny"


def test_names_of_shells_are_those_of_the_frameworks(governed: Subject) -> None:
    """What adapters map to `run_command`, and the canonical name itself."""
    from otelhooks.setup import catalogue

    policy = governed.dry_run()
    shells = {types.BuiltinTools.RUN_COMMAND.value}
    for name in catalogue.ADAPTERS:
        tools = catalogue.adapter(name).built_in.values()
        shells |= {tool.name for tool in tools if tool.canonical == ("run_command",)}

    for shell in shells:
        found = decision(policy, shell, anything="rm -rf /")
        assert (shell, *found) == (shell, "deny", "command_guard")


def test_the_history_of_a_model_call_is_capped(governed: Subject) -> None:
    long = "x" * 50_000
    action, after, _ = governed.dispatch(
        "completion.pre",
        {
            "model": "m",
            "tools": [],
            "messages": [
                {"role": "user", "content": "hello"},
                {"type": "function_call_output", "output": long},
                {"role": "tool", "content": [{"type": "text", "text": long}, {"type": "image"}]},
            ],
        },
    )

    assert action == "modify"
    _, output, parts = after["messages"]
    assert len(output["output"]) < 21_000
    assert output["output"].endswith("... [30000 characters left out]")
    assert len(parts["content"][0]["text"]) < 21_000
    assert parts["content"][1] == {"type": "image"}


@pytest.mark.parametrize("name", PRIORITIES)
def test_every_file_tells_people_what_it_is_for(name: str) -> None:
    body = (folder() / f"{name}.md").read_text().split("\n---\n", 1)[1]

    assert body.startswith(f"# {name}\n")
    assert len(re.findall(r"\w+", body)) > 30
