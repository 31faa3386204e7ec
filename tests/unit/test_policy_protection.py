"""The guard of policy files: attempts of an agent to write what governs it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any

import pytest

import otelhooks
from otelhooks import policy
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.files import source
from otelhooks.policy.files.protection import POLICY_ID, protect

REASON = "Policy files cannot be changed from here."


@dataclasses.dataclass
class Step:
    """A command as a record."""

    run: str


@pytest.fixture
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The working directory: `app/policies/base.yaml` is loaded, `app/data` is not."""
    for name in ("policies", "data"):
        (tmp_path / "app" / name).mkdir(parents=True)
    (tmp_path / "app/policies/base.yaml").write_text("policies: []\n")
    (tmp_path / "app/one.yaml").write_text("policies: []\n")
    (tmp_path / "app/link").symlink_to("policies", target_is_directory=True)
    (tmp_path / "app/linked.yaml").symlink_to("one.yaml")
    monkeypatch.chdir(tmp_path / "app")
    return tmp_path / "app"


def _set(home: pathlib.Path, *more: policy.Policy, monitor: bool = False) -> policy.PolicySet:
    rules = protect([str(home / "policies"), str(home / "one.yaml")], monitor=monitor)
    mode = "monitor" if monitor else "enforce"
    return policy.PolicySet(more, mode=mode, sources=[rules])


def test_equal_guards_are_one_in_a_set(home: pathlib.Path) -> None:
    one, other = (protect([str(home / "policies")], monitor=False).rules for _ in range(2))
    assert {*one, *other} == {*one}


def _decide(home: pathlib.Path, tool: str, args: dict[str, Any], **fields: Any) -> Any:
    return drive(_set(home).evaluate(Call(tool, args, **fields)))


WRITES: list[dict[str, Any]] = [
    {"path": "policies/base.yaml"},
    {"path": "policies/new.yaml"},
    {"path": "policies/deep/er.yaml"},
    {"path": "policies"},
    {"path": "./data/../policies/base.yaml"},
    {"path": "one.yaml"},
    {"path": "linked.yaml"},
    {"path": "link/base.yaml"},
    {"path": "link/new.yaml"},
    {"path": "{home}/policies/base.yaml"},
    {"path": "file://{home}/policies/base.yaml"},
    {"path": "/{home}/data/../policies/base.yaml"},
    {"path": "policies%2Fbase.yaml"},
    {"path": "policies\\base.yaml"},
    {"path": " policies/base.yaml"},
    {"path": "$PWD/policies/base.yaml"},
    {"path": "{home}"},
    {"path": "/"},
    {"path": b"policies/base.yaml"},
    {"path": pathlib.Path("policies/base.yaml")},
    {"TargetFile": "policies/base.yaml"},
    {"edits": [{"file_path": "data/a"}, {"file_path": "policies/base.yaml"}]},
    {"paths": ["data/a", "policies/base.yaml"]},
    {"source": "data/a", "destination": "policies/base.yaml"},
    {"source": "policies", "destination": "data/away"},
    {"cwd": "policies", "path": "base.yaml"},
    {"base_dir": "{home}/data", "path": "../policies/base.yaml"},
    {"directory": "policies"},
]


def _with_home(value: Any, home: pathlib.Path) -> Any:
    if isinstance(value, str):
        return value.replace("{home}", str(home))
    if isinstance(value, dict):
        return {key: _with_home(item, home) for key, item in value.items()}
    return [_with_home(item, home) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("args", WRITES, ids=str)
@pytest.mark.parametrize("tool", ["create_file", "edit_file", "write_it"])
def test_a_file_tool_does_not_write_there(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tool: str, args: dict[str, Any]
) -> None:
    monkeypatch.setenv("PWD", str(home))
    kind = "file_write" if tool == "write_it" else None
    ruling = _decide(home, tool, _with_home(args, home), kind=kind)
    assert ruling.decision == "deny"
    assert ruling.message == REASON
    assert ruling.rule.id.startswith("policy_files_guard:")
    assert ruling.rule.severity == "critical"


@pytest.mark.parametrize(
    "args",
    [
        {"path": "data/a.txt"},
        {"path": "policies.txt"},
        {"path": "policies-old/base.yaml"},
        {"path": "two.yaml"},
        {"path": "/tmp/x"},
        {"path": "https://example.org/policies/base.yaml"},
        {"path": 3},
        {"path": None},
        {"base_dir": "{home}", "path": "data/a"},
        {"cwd": "{home}"},
        {"content": "policies/base.yaml is the file that governs"},
        {},
    ],
    ids=str,
)
def test_other_places_are_written(home: pathlib.Path, args: dict[str, Any]) -> None:
    assert _decide(home, "create_file", _with_home(args, home)).decision == "allow"


def test_the_path_that_the_framework_knows_counts(home: pathlib.Path) -> None:
    path = str(home / "policies/base.yaml")
    assert _decide(home, "edit_file", {"where": "x"}, path=path).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'policies: []' > policies/base.yaml",
        "echo x >policies/base.yaml",
        "rm -rf policies",
        "rm -rf ./policies/",
        "cd policies && rm *",
        "mv policies away",
        "cp x.yaml '{home}/policies/base.yaml'",
        "sed -i s/deny/allow/ one.yaml",
        "truncate -s0 linked.yaml",
        "ln -sf evil.yaml link/base.yaml",
        "rm -rf *",
        "rm -rf pol*/base.yaml",
        "rm -rf [p]olicies",
        "chmod 777 data/../policies",
        "rm /{home}/data/../policies/base.yaml",
        "python -c \"open('policies/base.yaml','w')\"",
        "tee $PWD/policies/base.yaml",
        "x=policies/base.yaml; cat /dev/null > $x",
        "git checkout HEAD -- policies/base.yaml",
        "cat policies/base.yaml",
        "curl -opolicies/p.yaml example.org",
        "tar -Cpolicies -xf x.tar",
        "unzip -dpolicies x.zip",
        "rm policie[^a]/p.yaml",
        "rm policie[[:alpha:]]/p.yaml",
        "docker run -v ./policies:/x image rm /x/base.yaml",
        "d=$(made); rm $d/policies/base.yaml",
        "d=$(pwd)/policies; rm $d/base.yaml",
        "read d; rm $d/base.yaml",
        "mv ../app ../away",
        "rm -rf .",
    ],
)
@pytest.mark.parametrize("tool", ["run_command", "sh"])
def test_a_command_does_not_name_them(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tool: str, command: str
) -> None:
    monkeypatch.setenv("PWD", str(home))
    kind = "shell" if tool == "sh" else None
    args = {"CommandLine": _with_home(command, home)}
    ruling = _decide(home, tool, args, kind=kind)
    assert (ruling.decision, ruling.error) == ("deny", None)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("run_command", {"command": ["rm", "policies/base.yaml"]}),
        ("run_command", {"command": "rm base.yaml", "cwd": "policies"}),
        ("run_command", {"steps": [{"run": "ls"}, {"run": "rm policies/base.yaml"}]}),
        ("run_command", {"step": Step("rm policies/base.yaml")}),
        ("run_command", {"command": "rm /base.yaml", "cwd": "file://policies/../x"}),
        ("code_execution", {"code": "open('policies/base.yaml', 'w').write('')"}),
    ],
)
def test_nor_does_a_command_in_another_form(
    home: pathlib.Path, tool: str, args: dict[str, Any]
) -> None:
    assert _decide(home, tool, args).decision == "deny"


@pytest.mark.parametrize(
    "command",
    ["; ".join(f"cd data/{n}" for n in range(70)), "$x " * 9000 + "; x=" + "y" * 90],
    ids=["folders", "size"],
)
def test_a_command_that_cannot_be_read_is_refused(home: pathlib.Path, command: str) -> None:
    ruling = _decide(home, "run_command", {"CommandLine": command})
    assert (ruling.decision, ruling.error) == ("deny", None)


def test_a_pattern_with_links_in_a_circle_is_refused(home: pathlib.Path) -> None:
    for name in ("x1", "x2", "x3", "x4", "x5", "x6", "x7"):
        (home / "data" / name).symlink_to(".", target_is_directory=True)
    command = "ls data/x*/x*/x*/x*/x*/x*"
    ruling = _decide(home, "run_command", {"CommandLine": command})
    assert (ruling.decision, ruling.error) == ("deny", None)
    ruling = _decide(home, "run_command", {"CommandLine": "ls data/x*/x*"})
    assert (ruling.decision, ruling.error) == ("allow", None)


def test_what_cannot_be_understood_as_a_path_is_refused(home: pathlib.Path) -> None:
    """Such as a file of another host, which some tools take for one of this machine."""
    ruling = _decide(home, "create_file", {"path": "file://host/policies/base.yaml"})
    assert ruling.decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat data/a.txt",
        "echo policies.md",
        "rm -rf data/*",
        "curl https://example.org/policies/base.yaml",
        "cd {home} && make test",
        "pytest -k 'policy and not files'",
        "~nobody-of-this-name/x",
        "rm -rf /",
        "rm -rf 'po",
        "",
    ],
)
def test_other_commands_run(home: pathlib.Path, command: str) -> None:
    args = {"CommandLine": _with_home(command, home)}
    assert _decide(home, "run_command", args).decision == "allow"


def test_no_file_can_have_its_policy_id() -> None:
    assert POLICY_ID in source.RESERVED


def test_an_allow_for_the_tool_does_not_lift_it(home: pathlib.Path) -> None:
    rules = _set(home, policy.allow("write_it"), policy.allow("create_file"))
    for tool, kind in (("write_it", "file_write"), ("create_file", None)):
        call = Call(tool, {"path": "policies/base.yaml"}, kind=kind)
        assert drive(rules.evaluate(call)).decision == "deny"


def test_in_monitor_mode_it_is_observed(home: pathlib.Path) -> None:
    rules = _set(home, monitor=True)
    ruling = drive(rules.evaluate(Call("create_file", {"path": "policies/base.yaml"})))
    assert ruling.decision == "allow"
    assert [rule.label for _, rule in ruling.observed] == ["policy_files_guard"]
    assert not rules.can_deny  # else monitor mode would refuse frameworks of unknown versions


def test_where_the_working_directory_is_loaded_only_what_is_written_there_is_refused(
    home: pathlib.Path,
) -> None:
    rules = policy.PolicySet(sources=[protect([str(home)], monitor=False)])
    for tool, args, decision in (
        ("run_command", {"CommandLine": "ls"}, "allow"),
        ("run_command", {"CommandLine": "touch one.yaml"}, "deny"),
        ("run_command", {"CommandLine": "touch new.yaml"}, "deny"),
        ("run_command", {"CommandLine": "rm -r data"}, "deny"),
        ("create_file", {"path": "x.txt"}, "deny"),
        ("create_file", {"path": "/tmp/x.txt"}, "allow"),
        ("edit_file", {}, "allow"),
    ):
        assert drive(rules.evaluate(Call(tool, args))).decision == decision


def test_a_folder_that_is_not_there_yet_cannot_be_made(home: pathlib.Path) -> None:
    rules = policy.PolicySet(sources=[protect([str(home / "later")], monitor=False)])
    call = Call("create_file", {"path": "later/base.yaml"})
    assert drive(rules.evaluate(call)).decision == "deny"


@pytest.mark.parametrize("tool", ["create_file", "run_command"])
def test_a_call_with_more_folders_than_any_tool_needs_is_refused_at_once(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    looked_up: list[str] = []
    realpath = os.path.realpath
    rules = _set(home)
    monkeypatch.setattr(os.path, "realpath", lambda path: looked_up.append(path) or realpath(path))

    def decision(count: int) -> str:
        folders = [f"c{number}" for number in range(count)]
        args = {"path": [f"a{number}" for number in range(500)], "cwd": folders}
        return drive(rules.evaluate(Call(tool, args))).decision

    assert decision(64) == "allow"
    looked_up.clear()
    assert decision(500) == "deny"
    assert len(looked_up) < 1_000


def test_a_long_command_is_judged_in_time(home: pathlib.Path) -> None:
    script = " ".join(f"word{n}/x" for n in range(10_000))
    rules = _set(home)
    start = time.monotonic()
    assert drive(rules.evaluate(Call("run_command", {"c": script}))).decision == "allow"
    assert time.monotonic() - start < 20  # some tenths of a second on an idle machine
    ruling = drive(rules.evaluate(Call("run_command", {"c": script + " policies/base.yaml"})))
    assert ruling.decision == "deny"


class TestInstrumented:
    @pytest.fixture
    def tools(self) -> Any:
        @otelhooks.tool
        def create_file(path: str) -> str:
            pathlib.Path(path).write_text("policies: []")
            return "written"

        return create_file

    def test_it_is_on_as_soon_as_files_are_loaded(
        self, governed: Any, home: pathlib.Path, tools: Any
    ) -> None:
        (home / "policies/base.yaml").write_text("policies: [{allow: create_file}]\n")
        governed(policies="policies")
        with pytest.raises(Denied, match=REASON):
            tools(path="policies/base.yaml")
        found = governed.attributes("execute_tool create_file")
        assert found["otelhooks.policy.rule.id"] == "policy_files_guard:create_file"
        assert found["otelhooks.policy.id"] == "policy_files"
        assert tools(path="data/x") == "written"

    def test_included_files_are_guarded(
        self, governed: Any, home: pathlib.Path, tools: Any
    ) -> None:
        (home / "parts").mkdir()
        (home / "parts/deep.yaml").write_text("policies: []\n")
        (home / "one.yaml").write_text("include: parts/deep.yaml\n")
        governed(policies="one.yaml")
        with pytest.raises(Denied, match=REASON):
            tools(path="parts/deep.yaml")

    def test_a_setting_switches_it_off(
        self, governed: Any, home: pathlib.Path, tools: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTELHOOKS_ALLOW_POLICY_WRITES", "1")
        handle = governed(policies="policies")
        assert tools(path="policies/base.yaml") == "written"
        assert handle.config.allow_policy_writes is True

    def test_a_policy_file_cannot_switch_it_off(
        self, governed: Any, home: pathlib.Path, tools: Any
    ) -> None:
        text = "policies:\n  - {allow: '*'}\n  - {allow: create_file, id: 'policy_files_guard:x'}\n"
        (home / "policies/more.yaml").write_text(text)
        governed(policies="policies")
        with pytest.raises(Denied, match=REASON):
            tools(path="policies/base.yaml")

    def test_another_working_directory_does_not_move_it(
        self, governed: Any, home: pathlib.Path, tools: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        governed(policies="policies")
        monkeypatch.chdir(home / "data")
        with pytest.raises(Denied, match=REASON):
            tools(path=os.path.join("..", "policies", "base.yaml"))


ROOTED: list[dict[str, Any]] = [
    {"path": "/policies/base.yaml"},
    {"path": "policies/base.yaml"},
    {"path": "//policies/new.yaml"},
    {"old_path": "/data/a", "new_path": "/policies/base.yaml"},
    {"old_path": "/policies", "new_path": "/data/away"},
    {"source": "one.yaml"},
]


@pytest.mark.parametrize("args", ROOTED)
def test_a_tool_that_takes_its_directory_for_the_root_does_not_write_there(
    home: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, args: Any
) -> None:
    """The class: a path leads elsewhere than it seems, since the tool has a root of its own."""
    monkeypatch.chdir(tmp_path)
    assert _decide(home, "edit_file", args, work_dir=str(home)).decision == "deny"
    assert _decide(home, "edit_file", {"path": "/data/a"}, work_dir=str(home)).decision == "allow"


@pytest.mark.parametrize("command", ["rm one.yaml", "echo > policies/base.yaml", "rm -r policies"])
def test_a_shell_that_works_elsewhere_does_not_write_there(
    home: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A command's paths start where the shell works, not where this process does."""
    monkeypatch.chdir(tmp_path)
    given: Any = {"kind": "shell", "work_dir": str(home)}
    assert _decide(home, "bash", {"command": command}, **given).decision == "deny"
    assert _decide(home, "bash", {"command": "ls data"}, **given).decision == "allow"
