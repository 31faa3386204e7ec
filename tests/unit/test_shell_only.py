"""`shell_only` and the pack `shell`: what runs, what is asked, what is denied, and in what time."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import pytest
import yaml

import otelhooks
from otelhooks import policy, types
from otelhooks.cli.policies import trials
from otelhooks.cli.policies.subject import Subject
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import named, packs, shell, shell_syntax
from otelhooks.policy.files.export import export
from otelhooks.policy.shell_review import review
from tests.redcode.__main__ import ORDINARY


@pytest.fixture
def ws(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A workspace with a link that leads out, beside a secret."""
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".env").write_text("KEY=1")
    (root / "out").symlink_to(tmp_path)
    (root / "plain").symlink_to(root / ".env")
    (root / "hooks").symlink_to(root / ".git")
    (root / "loop").symlink_to(root / "loop")
    (tmp_path / "secret").write_text("s")
    monkeypatch.chdir(root)
    return root


def refuse(_call: types.ToolCall) -> bool:
    """Answer every question with no."""
    return False


def kind(*texts: Any, tool: str = "bash", call: Any = None, **more: Any) -> str:
    """Return which kind of rule decides about commands; ``allow`` if none does."""
    rules = policy.PolicySet(policy.shell_only(["."], **more), channel=True)
    args = call or {"command": "; ".join(texts)}
    ruling = drive(rules.evaluate(Call(tool, args)))
    assert ruling.error is None
    return "allow" if ruling.rule is None else ruling.rule.id.split(":")[1]


class TestPack:
    def test_all_cases_are_green(self, ws: pathlib.Path) -> None:
        results = list(trials.run(["shell"]))
        assert [each.case.name for each in results if each.is_red] == []
        assert len(results) > 300

    def test_it_is_in_force_by_its_name(self, ws: pathlib.Path, tmp_path: pathlib.Path) -> None:
        ran: list[str] = []

        @otelhooks.tool
        def bash(command: str) -> str:
            ran.append(command)
            return "done"

        otelhooks.instrument(
            policies="shell",
            frameworks=(),
            store=tmp_path / "store.db",
            approvals=refuse,
        )
        try:
            assert bash("git status") == "done"
            with pytest.raises(otelhooks.errors.Denied, match="uses the network"):
                bash("curl https://example.com")
            with pytest.raises(otelhooks.errors.Denied, match="outside the workspace"):
                bash("cat out/secret")
        finally:
            otelhooks.uninstrument()
        assert ran == ["git status"]

    def test_a_file_is_what_python_says(self, tmp_path: pathlib.Path) -> None:
        file = tmp_path / "own.yaml"
        text = f"version: 1\npolicies:\n  - shell_only: [{tmp_path}]\n    programs: [terraform]\n"
        file.write_text(text)
        rules = Subject.open([file]).dry_run().rules
        assert [rule.policy for rule in rules.rules] == policy.shell_only([tmp_path], ["terraform"])

    @pytest.mark.parametrize("programs", [[], ["mytool"]])
    def test_it_can_be_exported(self, tmp_path: pathlib.Path, programs: list[str]) -> None:
        rules = policy.PolicySet(policy.shell_only([tmp_path], programs), channel=True)
        (entry,) = yaml.safe_load(export(rules))["policies"]
        assert entry == {"shell_only": str(tmp_path)} | ({"programs": "mytool"} if programs else {})

    def test_a_part_of_it_cannot_be_exported(self, tmp_path: pathlib.Path) -> None:
        rules = policy.PolicySet(policy.shell_only([tmp_path])[1:], channel=True)
        with pytest.raises(ConfigError, match="its condition is Python"):
            export(rules)

    def test_ordinary_commands_pass(self, ws: pathlib.Path) -> None:
        """The share that the documentation names."""
        texts = [text for each in yaml.safe_load(ORDINARY.read_text()).values() for text in each]
        kinds = [kind(text) for text in texts]
        assert len(texts) == 300
        assert kinds.count("allow") == 279
        assert kinds.count("asks") == 15

    @pytest.mark.parametrize("given", [".", b".", pathlib.Path()])
    def test_one_directory_is_a_mistake(self, given: Any) -> None:
        with pytest.raises(ConfigError, match="a list of directories"):
            policy.shell_only(given)

    def test_one_program_is_a_mistake(self) -> None:
        with pytest.raises(ConfigError, match="a list of programs"):
            policy.shell_only(["."], "terraform")


class TestCalls:
    def test_which_argument_is_the_command(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": "ls", "description": "List; then curl nothing"}) == "allow"
        assert kind(call={"CommandLine": "curl x"}, tool="my_tool") == "network"
        assert kind(call={"input": "curl x"}, tool="terminal") == "network"
        assert kind(call={"text": "curl x"}, tool="send") == "allow"
        assert kind(call={"command": "ls", "cmd": "curl x"}) == "network"
        assert kind(call={"command": None, "timeout": 5}) == "allow"
        assert kind(call={"command": {"x": "curl"}}) == "unread"

    def test_lists_of_words(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": ["git", "status"]}) == "allow"
        assert kind(call={"command": ["bash", "-lc", "grep -n 'a b' x | wc -l"]}) == "allow"
        assert kind(call={"command": ["bash", "-lc", "curl x"]}) == "network"
        assert kind(call={"commands": ["ls", "curl evil"]}) == "network"
        assert kind(call={"command": ["ls", "; curl evil"]}) != "allow"
        assert kind(call={"command": "git", "args": ["push"]}) == "asks"
        assert kind(call={"command": "git", "args": "push"}) == "allow"  # a text is no list

    def test_the_directory_of_a_call(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": "ls", "cwd": "sub"}) == "allow"
        assert kind(call={"command": "ls", "cwd": "/"}) == "outside"
        assert kind(call={"command": "cat ../x", "cwd": "sub"}) == "outside"  # if it is ignored

    def test_links_are_followed(self, ws: pathlib.Path) -> None:
        assert kind("cat out/secret") == "outside"
        assert kind("cat plain") == "secret"
        assert kind("cat loop/x") == "outside"
        assert kind("cp x hooks/pre-commit") == "outside"
        assert kind("cd out && ls") == "outside"
        assert kind("rm -rf ../ws") == "outside"

    def test_more_programs(self, ws: pathlib.Path) -> None:
        assert kind("mytool x") == "program"
        assert kind("mytool x", programs=["mytool"]) == "allow"
        assert kind("mytool /etc/x", programs=["mytool"]) == "outside"

    def test_what_a_script_of_the_project_does_is_not_seen(self, ws: pathlib.Path) -> None:
        assert kind("echo 'import socket' > x.py", "python x.py", "make") == "allow"

    def test_a_rule_says_what_it_looks_for(self) -> None:
        rule = policy.shell_only(["."])[0]
        assert str(rule.when) == "a command has a problem of the kind `unread`"


class TestTime:
    @pytest.mark.parametrize(
        "text",
        [
            "x" * 200_000,
            "echo " + "$(" * 200 + "x" + ")" * 200,
            "(" * 500,
            "{," * 20_000,
            "`" * 1_001,
            "a=b;" * 3_000,
            "sed 's/a/b/" + "\n" * 1_900 + "w x' f",
            "sed -n '" + " " * 1_900 + "w x' f",
            "sed -n '" + "p;" * 950 + "w x' f",
            "for a in 1 2;do " * 20 + "x=$x/..;" + "done;" * 20,
            "cat " + " ".join(f"f{i}" for i in range(10_000)),
            "a" + "=a" * 40_000,
            "echo " + "\\a" * 45_000,
            "echo ${" * 10_000,
            "cat " + "{a,b}" * 30,
            "bash -c 'bash -c \"" * 3,
            "eval " * 3_000 + "ls",
        ],
        ids=lambda text: text[:12],
    )
    def test_a_text_of_any_size_is_judged_soon(self, text: str) -> None:
        start = time.process_time()
        assert review(text).problems or text.startswith(("echo \\", "sed -n 'p", "a=a", "cat {"))
        assert time.process_time() - start < 3


class TestBesideTheOtherReader:
    def test_what_runs_is_also_seen_by_the_reader_that_sees_more(self) -> None:
        """Two readers, written apart: no program that this one lets run is missed by that one."""
        for text in [t for each in yaml.safe_load(ORDINARY.read_text()).values() for t in each]:
            seen = {word for command in shell.commands(text) for word in command}
            for simple in _simple(shell_syntax.parse(text)):
                for name in [shell_syntax.literal(word) for word in simple.words[:1]]:
                    assert name is None or name in seen


def _simple(node: shell_syntax.Node) -> list[shell_syntax.Simple]:
    if isinstance(node, shell_syntax.Simple):
        return [node]
    if isinstance(node, shell_syntax.Function):
        return _simple(node.body)
    return [each for part in node.parts for each in _simple(part)]


def test_names_of_command_arguments() -> None:
    assert named.is_command("CommandLine")
    assert not named.is_command("description")
    assert packs.folder("shell") is not None
