"""`shell_only` and the pack `shell`: what runs, is asked about, or denied, and by how much work."""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import pathlib
from typing import Any

import pytest
import yaml

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import packs
from otelhooks.policy.commands import named, shell
from otelhooks.policy.files.export import export
from otelhooks.policy.paths import Folder
from otelhooks.policy.shells import places, rules
from otelhooks.policy.shells.kinds import Kinds
from otelhooks.policy.shells.nodes import Refused, Simple, nodes
from otelhooks.policy.shells.places import Places
from otelhooks.policy.shells.reader import parse
from otelhooks.policy.shells.rules import found_in
from otelhooks.policy.shells.table import Entry, read_entry, table
from otelhooks.policy_tools import trials
from otelhooks.policy_tools.subject import Subject
from otelhooks.records import semconv
from tests.redcode.__main__ import ORDINARY
from tests.unit.test_shell_attacks import ws as ws


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
    def test_all_cases_are_green(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        results = list(trials.run(["shell"]))
        assert [each.case.name for each in results if each.is_red] == []
        assert len(results) > 400

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
        file.write_text(text + "    runs: ask\n")
        rules = Subject.open([file]).dry_run().rules
        wanted = policy.shell_only([tmp_path], ["terraform"], "ask")
        assert [rule.policy for rule in rules.rules] == wanted

    @pytest.mark.parametrize(
        ("given", "written"),
        [
            ({}, {}),
            ({"programs": ["mytool"]}, {"programs": "mytool"}),
            ({"runs": "deny"}, {"runs": "deny"}),
        ],
        ids=str,
    )
    def test_it_can_be_exported(
        self, tmp_path: pathlib.Path, given: dict[str, Any], written: dict[str, Any]
    ) -> None:
        rules = policy.PolicySet(policy.shell_only([tmp_path], **given), channel=True)
        (entry,) = yaml.safe_load(export(rules))["policies"]
        assert entry == {"shell_only": str(tmp_path)} | written

    def test_a_part_of_it_cannot_be_exported(self, tmp_path: pathlib.Path) -> None:
        rules = policy.PolicySet(policy.shell_only([tmp_path])[1:], channel=True)
        with pytest.raises(ConfigError, match="its condition is Python"):
            export(rules)

    def test_ordinary_commands_pass(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The share that the documentation names."""
        monkeypatch.chdir(tmp_path)
        texts = [text for each in yaml.safe_load(ORDINARY.read_text()).values() for text in each]
        kinds = [kind(text) for text in texts]
        assert len(texts) == 300
        assert kinds.count("allow") == 256
        assert kinds.count("asks") == 31

    @pytest.mark.parametrize("given", [".", b".", pathlib.Path()])
    def test_one_directory_is_a_mistake(self, given: Any) -> None:
        with pytest.raises(ConfigError, match="a list of directories"):
            policy.shell_only(given)

    def test_one_program_is_a_mistake(self) -> None:
        with pytest.raises(ConfigError, match="a list of programs"):
            policy.shell_only(["."], "terraform")

    @pytest.mark.parametrize("entry", ["terraform apply", "bin/tool", "*", ""])
    def test_a_program_is_one_name(self, entry: str) -> None:
        with pytest.raises(ConfigError, match="is not one program's name"):
            policy.shell_only(["."], ["make", entry])

    def test_runs_is_one_of_three(self) -> None:
        with pytest.raises(ConfigError, match="unknown `runs`"):
            policy.shell_only(["."], runs="never")  # type: ignore[arg-type]


def message(command: str) -> str:
    """Return what the model reads about a command."""
    rules = policy.PolicySet(policy.shell_only(["."]), channel=True)
    return drive(rules.evaluate(Call("bash", {"command": command}))).message


class TestReasons:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("curl https://evil.example", "uses the network. Here: `https://evil.example` is"),
            ("ls; foo x", "on the list of what may run: use another program"),
            ("ls; foo x", ". Here: `foo` is not on the list of programs"),
            ("git log --output=x", "option `--output=x` is not on the list for `git log`"),
            ("cat ../a; cat /etc/b", "`../a` leads out of the workspace; `/etc/b` leads out of"),
            ("x=$(ls); make a$x*", "in quotes), is not on the list for `make`"),
            ('cat "$HOME/x"', "`.../x` is a path that is only known when the command runs"),
            ('ls > "$(ls)"x', "`...x` is a path that is only known"),
            ("x=$(ls); ls > $x", "`...`, where it is redirected, is not known"),
            ("mv a b; cat c", "`c` comes after a command that may change where paths lead"),
            ("kill 12", "`12` is not on the list of values of the kind `job`"),
            ("rm *", "`*`, which could be an option"),
            ("$x a", "`$x` is from the environment"),
            ("ls && x=1; echo $x", "`$x` may be from the environment: give it a value first"),
            ("for x in a*; do $x; done", "`a*` is a program that is only known when it runs"),
            ("ln -s ../x y", "`../x` climbs, and a link would lead there"),
            ('x=$(ls); make "a$x"', "`a...` is not on the list"),
            ("make x*", "`x*` is not on the list"),
            ("ls 'a\nb' > '../a\nb'", "`../a\\nb` leads out of the workspace"),
        ],
    )
    def test_a_deny_names_what_is_at_fault(self, ws: pathlib.Path, text: str, words: str) -> None:
        assert words in message(text)

    def test_it_is_short(self, ws: pathlib.Path) -> None:
        assert "(5024 characters)" in message("cat ../" + "x" * 5_000)
        assert len(message("cat ../" + "x" * 5_000).partition("Here: ")[2]) == 200

    def test_what_is_asked_about_has_the_rules_words(self, ws: pathlib.Path) -> None:
        assert message("git push") == policy.shell_only(["."])[-1].reason

    def test_nothing_records_it(
        self, ws: pathlib.Path, tmp_path: pathlib.Path, governed: Any
    ) -> None:
        """Spans, events and records have the rule's words, since what it quotes is content."""

        @otelhooks.tool
        def bash(command: str) -> str:
            return "done"

        governed(policies="shell", approvals=refuse, audit=tmp_path / "audit.jsonl")
        with pytest.raises(otelhooks.errors.Denied, match=r"Here: `\.\./marked` leads out"):
            bash("cat ../marked")
        otelhooks.uninstrument()
        [rule] = [each for each in policy.shell_only(["."]) if each.id == "shell_only:outside:*"]
        assert governed.attributes("execute_tool bash")[semconv.POLICY_REASON] == rule.reason
        [span] = governed.spans
        seen = [span.to_json(), *(repr(record) for record in governed.records)]
        assert [each for each in seen if "marked" in each] == []
        [trail] = tmp_path.glob("audit*.jsonl")
        records = [json.loads(line) for line in trail.read_text().splitlines()]
        assert [each["reason"] for each in records if "reason" in each] == [rule.reason]

    def test_a_question_names_what_it_is_about(
        self, ws: pathlib.Path, tmp_path: pathlib.Path, governed: Any
    ) -> None:
        """The approver reads it beside the command; spans, events and records do not have it."""
        asked: list[str] = []

        def approve(_call: types.ToolCall, reason: str) -> bool:
            return not asked.append(reason)

        @otelhooks.tool
        def bash(command: str) -> str:
            return "done"

        governed(policies="shell", approvals=approve, audit=tmp_path / "audit.jsonl")
        assert bash("ls; git push; pip install marked") == "done"
        otelhooks.uninstrument()
        told = "`git push` is asked about; to install `marked` is asked about"
        assert asked == [f"{policy.shell_only(['.'])[-1].reason}. Here: {told}"]
        seen = [*(span.to_json() for span in governed.spans), *map(repr, governed.records)]
        assert [each for each in seen if "marked" in each] == []
        [trail] = tmp_path.glob("audit*.jsonl")
        assert "Here:" not in trail.read_text()

    def test_a_question_of_a_hook_names_it(self, ws: pathlib.Path) -> None:
        asked: list[str] = []

        def handler(_call: types.ToolCall, reason: str) -> bool:
            return bool(asked.append(reason))

        when = policy.shell_only(["."])[-1].when
        hook = policy.enforce([policy.ask_user("bash", handler, when=when, reason="why")])
        asyncio.run(hook.run(None, types.ToolCall(name="bash", args={"command": "git push"})))
        assert asked == ["why. Here: `git push` is asked about"]

    def test_a_hook_that_passes_it_on_has_the_rules_words(self, ws: pathlib.Path) -> None:
        rules = policy.shell_only(["."])[:-2]  # without asks
        call = types.ToolCall(name="bash", args={"command": "cat ../marked"})
        result = asyncio.run(policy.enforce(rules).run(None, call))
        assert result.message in {rule.reason for rule in rules}

    def test_one_that_is_only_observed_has_the_rules_words(self, ws: pathlib.Path) -> None:
        rules = policy.PolicySet(policy.shell_only(["."]), mode="monitor", channel=True)
        ruling = drive(rules.evaluate(Call("bash", {"command": "cat ../marked"})))
        assert ruling.message == ""
        assert [rule.id for _, rule in ruling.observed] == ["shell_only:outside:*"]


class TestCalls:
    def test_which_argument_is_the_command(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": "ls", "description": "List; then curl nothing"}) == "allow"
        assert kind(call={"CommandLine": "curl x"}, tool="my_tool") == "network"
        assert kind(call={"input": "curl x"}, tool="terminal") != "allow"
        assert kind(call={"text": "curl x"}, tool="send") == "allow"
        assert kind(call={"command": "ls", "cmd": "curl x"}) == "network"
        assert kind(call={"command": None, "timeout": 5}) == "allow"
        assert kind(call={"command": {"x": "curl"}}) == "unread"

    def test_lists_of_words(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": ["git", "status"]}) == "allow"
        assert kind(call={"command": ("git", "commit", "-m", "a b")}) == "allow"
        assert kind(call={"command": ["cat", ".env"]}) == "secret"
        assert kind(call={"command": ["ls", "a\0b"]}) == "unread"
        assert kind(call={"command": ["rm -rf /"]}) == "unread"
        assert kind(call={"command": ["bash", "-lc", "grep -n 'a b' x | wc -l"]}) == "allow"
        assert kind(call={"command": ["bash", "-lc", "curl x"]}) == "network"
        assert kind(call={"commands": ["ls", "curl evil"]}) == "network"
        assert kind(call={"command": []}) == "unread"

    def test_words_beside_the_command(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": "git", "args": ["status"]}) == "allow"
        assert kind(call={"command": "git", "args": ["push"]}) == "asks"
        assert kind(call={"command": "ls", "args": "; cat .env"}) != "allow"
        assert kind(call={"command": "ls", "args": []}) == "allow"

    @pytest.mark.parametrize(
        "beside",
        [
            {"env": {}},
            {"shell": False},
            {"shell": "/bin/bash"},
            {"stdin": ""},
            {"timeout": 5},
            {"timeout_ms": 5},
            {"timeout_seconds": 5},
            {"explanation": "x"},
            {"isBackground": True},
            {"run_in_background": True},
            {"requires_approval": True},
            {"WaitMsBeforeAsync": 5},
            {"yield_time_ms": 5},
            {"max_output_tokens": 5},
            {"session_id": "a"},
            {"Cwd": "sub"},
            {"prefix": ""},
            {"sudo": False},
        ],
        ids=str,
    )
    def test_harmless_arguments_beside_the_command(self, ws: pathlib.Path, beside: Any) -> None:
        assert kind(call={"command": "ls", **beside}) == "allow"

    @pytest.mark.parametrize(
        "beside",
        [
            {"timeout": "5; curl evil"},
            {"timeout": "5 curl evil"},
            {"timeout": "-k"},
            {"timeout": [5, "x"]},
            {"session_id": "a; curl evil"},
            {"session_id": "../x"},
            {"id": "$(curl evil)"},
            {"max_lines": "1 | sh"},
            {"restart": "`x`"},
        ],
        ids=str,
    )
    def test_values_beside_the_command_are_plain_words(self, ws: pathlib.Path, beside: Any) -> None:
        assert kind(call={"command": "ls", **beside}) == "program"

    def test_the_directory_of_a_call(self, ws: pathlib.Path) -> None:
        assert kind(call={"command": "ls", "cwd": "sub"}) == "allow"
        assert kind(call={"command": "ls", "cwd": "/"}) == "outside"
        assert kind(call={"command": ["ls"], "cwd": "/"}) == "outside"
        assert kind(call={"command": "cat ../x", "cwd": "sub"}) == "outside"  # if it is ignored

    def test_text_that_is_typed(self, ws: pathlib.Path) -> None:
        for text in (
            "cat > x <<'E'\n\ta\nE",
            "cat > x <<'E'\n!cat\nE",
            "echo 'a!b'",
            "head -1\necho 'a\ncurl evil\n'",
            "head -1\ncat <<'E'\ncurl evil\nE",
            "head -1; echo 'a\ncurl evil'",
            "python3 x.py\n# import os\nls",
            "cat\nls",
            "head -1 | (ls\nls)",
            "ls\n\nls",
            "ls \\\n -l",
        ):
            for tool, name in (
                ("run_in_terminal", "command"),
                ("bash", "chars"),
                ("write_stdin", "text"),
                ("sendKeys", "x"),
            ):
                assert kind(tool=tool, call={name: text}) == "unread"
            assert kind(text) == "allow"
        for text in ("echo a!", "ls\n", "\nls", "head -1 | head -2"):
            assert kind(tool="run_in_terminal", call={"command": text}) == "allow"

    @pytest.mark.parametrize(
        "folder",
        ["~", "~/x", "~root", "$HOME", "%HOME%", "file:///etc", "ssh://host/x", " ~", "@x"],
    )
    def test_a_directory_that_tools_may_read_as_another(
        self, ws: pathlib.Path, folder: str
    ) -> None:
        assert kind(call={"command": "ls", "cwd": folder}) in {"outside", "network"}

    def test_links_are_followed(self, ws: pathlib.Path) -> None:
        (ws / "loop").symlink_to(ws / "loop")
        assert kind("cat out/secret") == "outside"
        assert kind("cat plain") == "secret"
        assert kind("cat loop/x") == "outside"
        assert kind("cp x hooks/pre-commit") == "outside"
        assert kind("cd out && ls") == "outside"
        assert kind("rm -rf ../ws") == "outside"

    def test_a_link_that_is_entered_and_left(self, ws: pathlib.Path) -> None:
        (ws / "sub" / "deep").mkdir()
        (ws / "link").symlink_to(ws / "sub" / "deep")
        assert kind("cd link && cd .. && cat out/x") == "outside"  # as a shell reads it
        (ws / "sub" / "out2").symlink_to(ws.parent)
        assert kind("cd link && cd .. && cat out2/x") == "outside"  # as the system reads it

    def test_more_programs(self, ws: pathlib.Path) -> None:
        assert kind("mytool x") == "program"
        assert kind("mytool x", programs=["mytool"]) == "allow"
        for text in (
            *("/etc/x", "--x=/etc/x", "-o/etc/x", "x:/etc", "@/etc/x", ".env", "-c=../x"),
            *("'concat:a|/etc/x'", "'.read /etc/x'", "'x;/etc'", "'\"/etc/x\"'", "'(/etc/x)'"),
            *("--x~/x", "--x/etc", "x~", "'$HOME'", '\'{"a": "/etc/x"}\'', "'a|.env'", "'>../x'"),
        ):
            assert kind(f"mytool {text}", programs=["mytool"]) != "allow"
        for text in ("--x=a/b", "-c=a/b", "a:b", "-", "--flag", "'{\"a\": 1}'", "'a b'"):
            assert kind(f"mytool {text}", programs=["mytool"]) == "allow"
        (ws / "a b").symlink_to(ws.parent)
        assert kind("mytool 'a b'", programs=["mytool"]) == "outside"
        assert kind("mytool x", programs=["mytool"], runs="deny") == "allow"
        assert kind("mytool s*", programs=["mytool"]) == "program"
        assert kind('mytool "$x"', programs=["mytool"]) != "allow"

    def test_programs_that_run_the_workspace(self, ws: pathlib.Path) -> None:
        for text in ("make", "pytest -q", "./x", "python x.py", "npm test", "git commit -m x"):
            assert kind(text) == "allow"
            assert kind(text, runs="ask") == "runs"
            assert kind(text, runs="deny") == "runs"
        assert kind("git status", runs="deny") == "allow"

    @pytest.mark.parametrize(
        "text",
        [
            "./sub/ls",
            "cd sub && git status",
            "mkdir ev && echo x > ev/HEAD && cd ev && git status",
            "(cd sub; git log)",
            "PYTHONPATH=src isort sub",
            "export PYTHONPATH=src",
            "pip install .",
            "pip install -r requirements.txt",
            "npm ci",
            "cargo metadata",
            "cargo tree",
            "rustc --version",
            "yarn list",
            "uv run ls",
            "poetry lock",
            "terraform validate",
            "coverage report",
            "ruff check sub",
            "ruff format sub",
            "black sub",
            "isort sub",
            "bandit -r sub",
            "shellcheck x.sh",
            "go doc -src y A",
            "go list ./...",
            "go env GOPATH",
            "go version",
            "go mod graph",
            "npm ls",
            "npm --version",
            "pnpm list",
            "uv --version",
            "poetry show",
            "poetry run ls",
            "bundle exec ls",
            "dotnet --version",
            "docker compose ps",
            "docker compose logs web",
            "podman compose top",
        ],
    )
    def test_what_runs_the_workspace_without_saying_so(self, ws: pathlib.Path, text: str) -> None:
        assert kind(text) == "allow"
        assert kind(text, runs="deny") == "runs"

    @pytest.mark.parametrize(
        "setting",
        [
            "[core]\n\thooksPath = .husky/_\n",
            "[core]\n\tHOOKSPATH=tools",
            "[include]\n\tpath = ../tools/git.ini",
            '[includeIf "onbranch:x"]\n\tpath = x',
            "[core] fsmonitor = ./fsm",
            '[alias]\n\tx = "!./y"',
            "[diff]\n\texternal = ./x",
            '[filter "x"]\n\tclean = ./x %f',
            '[diff "x"]\n\ttextconv = tools/x',
            "[core]\n\tfsmonitor = tools/x",
            "[core]\n\tbare = false\n\tsshCommand=python x.py",
            '[submodule "x"]\n\tupdate = !tools/x',
            '[remote "x"]\n\tvcs = x',
            "[extensions]\n\tworktreeConfig = true",
        ],
    )
    def test_git_runs_what_its_settings_name(self, ws: pathlib.Path, setting: str) -> None:
        (ws / ".git" / "config").write_text(setting)
        for text in ("git status", "git add sub", "git tag x"):
            assert kind(text) == "allow"
            assert kind(text, runs="deny") == "runs"
        for plain in (
            "[core]\n\tbare = false\n[remote]\n\turl = x\n",
            '[branch "a/b"]\n\tremote = origin\n\tmerge = refs/heads/b # "x"\n; ./x\n',
            '[user]\n\temail = a@b.example\n[remote "origin"]\n\tfetch = +refs/x:refs/y\n',
        ):
            (ws / ".git" / "config").write_text(plain)
            assert kind("git status", runs="deny") == "allow"

    @pytest.mark.parametrize("text", ["git push", "git pull --rebase"])
    def test_what_is_asked_about_may_run_hooks(self, ws: pathlib.Path, text: str) -> None:
        assert kind(text) == "asks"
        assert kind(text, runs="deny") == "runs"

    def test_git_runs_what_the_settings_of_another_place_name(self, ws: pathlib.Path) -> None:
        (ws / ".git").rmdir()
        (ws / ".git").write_text("gitdir: /elsewhere")
        assert kind("git status", runs="deny") == "runs"
        (ws / ".git").write_bytes(b"\xff")
        assert kind("git status", runs="deny") == "runs"

    def test_git_runs_settings_of_a_workspace_without_a_repository(self, ws: pathlib.Path) -> None:
        (ws / ".git").rmdir()
        assert kind("git status", runs="deny") == "runs"

    def test_what_npx_does_not_install_runs(self, ws: pathlib.Path) -> None:
        (ws / "node_modules" / ".bin").mkdir(parents=True)
        (ws / "node_modules" / ".bin" / "tsc").write_text("")
        assert kind("npx tsc --noEmit") == "allow"
        assert kind("mv a.ts b.ts && npx tsc --noEmit") == "allow"
        assert kind("npx eslint sub") == "asks"
        assert kind("cd sub && npx tsc") == "asks"

    def test_what_a_script_of_the_project_does_is_not_seen(self, ws: pathlib.Path) -> None:
        assert kind("echo 'import socket' > x.py", "python x.py", "make") == "allow"

    def test_what_git_tracks_and_an_earlier_call_left_is_not_seen(self, ws: pathlib.Path) -> None:
        (ws / "sub" / "x").symlink_to(ws.parent / "secret")
        assert (
            kind("git grep KEY") == kind("git log -p") == kind("git cat-file -p e69de29") == "allow"
        )
        assert kind("cd sub") == kind("cat x") == "allow"  # a shell that stays open is in sub

    def test_a_rule_says_what_it_looks_for(self) -> None:
        rule = policy.shell_only(["."])[0]
        assert str(rule.when) == "a command has a problem of the kind `unread`"

    def test_what_breaks_the_judge_is_denied(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rules.Judge, "text", None)
        assert kind("ls") == "unread"

    def test_the_rules_of_one_call_share_what_was_found(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found: list[object] = []

        def counted(*given: Any, **more: Any) -> list[tuple[str, str]]:
            found.append(given)
            return found_in(*given, **more)

        monkeypatch.setattr(rules, "found_in", counted)
        assert kind("ls") == "allow"
        assert len(found) == 1


def allowed(text: str) -> bool:
    """Return whether a command simply runs."""
    return kind(text) == "allow"


class TestCommands:
    @pytest.mark.parametrize(
        "text",
        [
            "git commit -m \"$(cat <<'E'\na | b\nE\n)\"",
            'for d in s*/; do (cd "$d" && ls); done',
            "for f in a.py b.py; do cat $f; done",
            'for f in s*; do cat "$f"; done',
            'for f in $(ls); do echo "$f"; done',
            'x=$(ls | wc -l); echo "$x" $x',
            'while read -r l; do echo "$l"; done < list',
            "find sub -name '*.py' -exec grep -n x {} +",
            "find . -name x -exec ls -l {} \\;",
            "find sub -type f -print0 | xargs -0 wc -l",
            "tar czf x.tgz sub",
            "tar -tf x.tgz",
            "tar tzvf x.tgz",
            "git commit -m '@bob: fix'",
            "git log --author @bob",
            "sort -t @ -k 2 x",
            "pytest -k 'upload and not slow' -m 'not slow' 'tests/x.py::test_a[1-b/c]'",
            "pytest --deselect tests/x.py::TestA::test_b tests",
            "rspec spec/x_spec.rb:12",
            "python -m unittest tests.test_x",
            "cp sub/x.txt . && cp x.txt -",
            "mv sub x",
            "find sub -exec cp {} x \\;",
            "ruff check sub && gofmt -w sub",
            "tar cf x.tar sub",
            "cat x | tar tzf -",
            "unzip -l x.zip",
            "unzip -t x.zip",
            "tree -a -L 2 -I node_modules sub",
            "git apply --check x.patch",
            "git apply --stat --summary x.patch",
            "env CI=1 PYTHONPATH=src pytest",
            "bash -c 'ls | head'",
            "bash ./x.sh a",
            "sh sub/x.sh",
            "bash -ec 'ls | head'",
            "printf '%d %f\\n' 5 -0.5",
            'printf "%s\\n" "$(ls)"',
            "printf '%-10s|%5d' 1 -12",
            "exit 1",
            "ls; exit $?",
            'x=$(ls); test -n "$x"',
            "find sub -print0 2>/dev/null | xargs -0 cat > x",
            "git stash && git merge main",
            "TZ=America/Argentina/Buenos_Aires LC_ALL=en_US.UTF-8 date",
            "./gradlew clean :app:test",
            "mvn clean verify dependency:tree",
            "docker build -f sub/Dockerfile sub",
            "du -sh ./s*",
            "git log -p -- '*.py' 'sub/**/*.go' ':!sub/x'",
            "git log -L1,9:x.py",
            "git log -U5 --format=%H --since yesterday",
            "git branch --list 'feat*'",
            "git tag -l 'v1.*'",
            "git -v",
            "diff -ru sub sub2",
            "make sub/x.o -j 5",
            "cmake -S sub -B build -DBUILD_TESTS=ON",
            "protoc -Isub:sub2 --python_out=sub x.proto",
            "sed -i 's/a/b/' requirements.txt",
            "sed -i 's/a/b/' src/views.py w.txt",
            "sed -i -e 's/a/b/' x",
            "sed -i.bak p x",
            "yq -r '.services.web.image' x.yml",
            "yq -o=json '.items[] | select(.a == \"b/c\")' x.yml",
            "python -m venv .venv",
            "rm -rf .venv node_modules",
            "sort -k2,2 x",
            "git clean -nd",
            "git reflog -5 main",
            "python x.py --name 'a b; c' '(d)'",
            "python manage.py test app.tests --keepdb -v 2",
            "python manage.py createsuperuser --email a@b.example",
            "python train.py -c conf/a.yaml -e 10 lr=0.1 'two words'",
            "bin/rails db:migrate",
            "bin/rails generate model Post title:string",
            "bin/rails test test/models/post_test.rb:3",
            "./artisan migrate --force",
            "npm run dev -- --port 3000 --host",
            "npm test -- -t 'a name'",
            "./x a=b,c:d@e+f%g",
            "git for-each-ref --sort=-committerdate --count=5 refs/heads",
            'npm_version=$(npm -v); echo "$npm_version"',
            "coverage run --source=a,b x.py",
            "ruff check --select=E,F sub",
            "pyright sub",
            "jq '.files[] | .download_url, .environment.load' x",
            "sed -i '1i text; more (of it)' x",
            "sed -e 's/a/b/; $a end' x",
            "awk '{if ($1 > 5) print $2}' x",
            "awk '$1 > 5' x",
            "make -j$(nproc)",
            'n=$(grep -c x y); if [ "$n" -gt 3 ]; then echo many; fi',
            'n=$(git diff | wc -l); [ $n -ge 1 ] && [ 3 -lt "$n" ] && head -n "$n" y',
            'n=0; n=$(wc -l < y); test "$n" -eq 2',
            '[ "$(ls | wc -l)" -gt 3 ] && pwd',
            'n=$(grep -c x y); head -n "$n" y && seq 1 $n && sleep $n',
            "n=3; [ $n -gt 3 ] || echo $n more",
            'for e in "" dev; do echo x$e $e; ls "sub$e"; done',
            'x=$(ls); grep -e "$x" -e b y && awk -F "$x" \'{print $1}\' y',
            'x=$(ls); git commit -m"$x" && echo a | grep -e"$x"',
            "cmake --build build -j$(nproc) && make -j $(nproc) all",
            'cmake --build build -j "$(nproc)" --target x',
            "node --version && node --test && node -- x.js",
            "bin/console debug:router && bin/console d:m:m && bin/console doctrine:schema:update",
            "./artisan test && ./artisan db:seed",
            "make test < /dev/null && npm run x < y",
            "python x.py -c conf/a.yaml -v 'two words'",
            "rm -rf build dist *.egg-info",
            "rm -f *.pyc *_x.tar.gz",
            'make -j"$(nproc)" all',
            "wc <(nproc)",
            "pytest -p no:cacheprovider",
            "grep -e -x y",
            "find . -name -x",
            "export CI=1",
            "git add sub",
            "git checkout main && git merge feature",
            "git diff main -- sub",
            "git rm --cached .env",
            "cat -- *.py",
            "cat s*",
            "echo * $?",
            'printf "exit $?\\n"',
            "sleep $(nproc)",
            "head -n $? x",
            "./x --name a/b --level=3 y < z",
            "./gradlew test --tests '*OrderTest' -q",
            "head -20 x",
            "sed -e 1d -e 's|a|b|g' x",
            "sed -n '/[[:space:]]x/,$p;3q' x",
            "make -j8 V=1",
            "source .venv/bin/activate",
            '[ -f x ] && [ ! -d y ] && [ 1 = "$?" ]',
            "test a != b",
            "ls > /dev/null 2>&1",
            "cd sub && cat x || ls",
            "cd sub; cat x",
            "if cd sub; then ls; else pwd; fi",
            "{ cd sub && ls; } > log",
            "! grep -q x y",
            "(ls)",
            "nohup npm run dev > dev.log 2>&1 &",
            "cd sub && timeout 60 npm run dev &",
            "(cd sub; env CI=1 python -m pytest) &",
            "ls; make &",
            "sub/serve --port 8000 &",
            "diff <(git show HEAD:x) x",
            "cat <(git log --oneline | head -3) <(cd sub && sort x 2> /dev/null)",
            "# a comment, with 2 words: a/b?\nls; # x",
            "   # x\n\nls",
            "if true\n# x\nthen\n# y\nls\n# z\nfi; # a",
            "jq --arg x y --argjson n 1 '.a == $x' a.json",
            "x=1; jq -n --arg v \"$x\" '{a: $v}'",
            "find . -newermt '2024-01-01 10:00' -type f",
            "cargo fmt --all -- --check",
            "curl -s -X GET localhost:8000/x",
            "docker inspect -f '{{ .Name }}: {{.State.Health.Status}}' web",
            "docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' web",
            "docker build app",
            "docker build ./github.com/x",
            "sed -i '' 's/a/b/' f",
            "sed -i '' -e 's/a/b/' f",
            "find sub -type f -name '*.pyc' -delete",
            "find . -name __pycache__ -type d -prune -exec rm -rf {} +",
            "find . -name '*.egg-info' -print0 | xargs -0 rm -r",
            "grep -rn --include='*.py' x .",
            "grep -rn x . --include Makefile --include='*_test.go' --exclude-dir=sub",
            "rg -g '*.py' x",
            'echo "a! b" a!=b !',
            "cat > x <<-E\n\tx\n\tE",
            "diff <(sort a) <(sort b)",
            "python -m coverage run -m pytest",
            "gcc -Isub -DX=1 -c a.c",
            "go run ./cmd x",
            "pip install -e '.[dev]' .",
            "./gradlew test --tests 'A*'",
            "sub/../sub/x",
            "cargo test parse -- --nocapture",
            "du -sh *.py ?x | sort -h | tail",
            "grep -n x s* sub/* 2> /dev/null",
            "cd sub && sort *",
            "wc -l s*/*.py",
            'x=$(ls); echo "${x%.py}" ${x##*/} ${x%%-*} "${x#?}"',
            'x=$(ls); echo "${x^}" "${x^^}" "${x,}" ${x,,}',
            'for f in sub/*; do echo "${f%.*}"; done',
            'echo "${PATH##*/}"',
            'case "$(uname)" in\n Linux) ls ;;\n Darwin | "Other OS")\n pwd\n;;\n *) ;;\nesac',
            "case $? in 0|1) ls;; *) exit 1;; esac > log",
            'case "$?" in 0) case "$?" in 1) ls ;; esac ;; esac',
            'case "$?" in 0) cd sub ;; esac; ls',
            'case "$?" in 0) cat <<E\na\nE\n;; esac',
            "[[ -d .venv ]] && echo yes || echo no",
            "if [[ ! -f 'a b' ]]; then ls; fi",
            'x=$(ls); [[ -n "$x" ]] && [[ a != "a ${x}" ]]',
            "[[ sub/a == a.b ]] | cat",
            'x=$(ls) y=$x; echo "$y"',
            "n=$(wc -l < a); head -n $n x; tail -n$n x; head -n $n -q x y",
            "for n in 1 2; do head -n $n x; done",
            "for n in $(seq 3); do for m in $(seq 1 2 9); do head -n $n x; echo $m; done; done",
            'git show "$(git rev-parse HEAD)" --stat; git diff "$(git rev-parse HEAD)" -- a',
            'cd sub && x=$(ls) && echo "$x"',
            'if [ -e a ]; then x=1; elif [ -e b ]; then x=2; else x=3; fi; echo "$x"',
            'x=; if [ -e a ]; then x=$(ls); fi; echo "$x"',
            'if read -r x y < a; then echo "$x $y"; fi',
            'read x < a && echo "$x"',
            'cat a | while read -r x; do for y in a b; do echo "$x/$y" "$(echo "$x")"; done; done',
            'x=1 || ls; { y=2; }; ! z=3; echo "$x$y$z"',
            'while x=$(ls); [ -e "a" ]; do echo "$x"; done',
        ],
    )
    def test_what_runs(self, ws: pathlib.Path, text: str) -> None:
        assert allowed(text)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("env CI=1", "secret"),
            ("time cd sub", "program"),
            ("ls &", "program"),
            ("diff <(sort a) b; mv a c", "outside"),
            ("timeout 5 cd sub", "program"),
            ("time " * 9 + "ls", "unread"),
            ("ls; " * 2_001, "unread"),
            ("for f in " + "1 " * 900 + "; do echo " + "$f" * 20_000 + "; done", "unread"),
            ("npx eslint 'sub/*.{js,ts}' sub", "asks"),
            ("npx eslint '../*.js'", "outside"),
            ("test 'a[0]'", "program"),
            ("head -n x/y z", "program"),
            ("ls --color=*", "program"),
            ('grep x y -e "$(ls)"', "outside"),
            ("find sub -exec cat {}/../x \\;", "program"),
            ("npx prettier x.ts", "program"),
        ],
    )
    def test_what_is_denied(self, ws: pathlib.Path, text: str, found: str) -> None:
        assert kind(text) == found

    def test_a_directory_with_secrets_is_not_searched(self, ws: pathlib.Path) -> None:
        for text in ("grep -r x .", "grep -rn x", "cp -r . ../ws/y", "tar cf x .", "zip -r x ."):
            assert kind(text) in {"secret", "outside"}
        (ws / ".env").unlink()
        assert allowed("grep -rn x")
        (ws / "sub" / ".env.local").write_text("")
        assert kind("grep -rn x sub") == "secret"
        assert kind("find . -exec cat {} +") == "secret"  # `plain`
        (ws / "plain").unlink()
        (ws / "hooks").unlink()
        (ws / "sub" / ".env.local").rename(ws / ".env.local.x")
        (ws / ".env.local.x").unlink()
        assert kind("find . -exec cat {} +") == "secret"  # `.git`
        assert kind("find . -name '*.md' -exec cat {} +") == "outside"  # `out`
        (ws / "sub" / ".env.local").write_text("")
        assert allowed("rg x sub")
        assert kind("rg -g '*' x sub") == "secret"
        (ws / "sub" / "server.pem").write_text("")
        assert kind("rg x sub") == "secret"

    def test_a_directory_with_secrets_is_searched_for_other_names(self, ws: pathlib.Path) -> None:
        for name in ("plain", "hooks", "out"):  # a link to a secret is one, whatever its name
            (ws / name).unlink()
        for text in (
            "find . -name '*.md' -exec wc -l {} +",
            "find . -type f -name '*.py' -print0 | xargs -0 grep -n x",
            "find . -name '*.pyc' -delete",
        ):
            assert kind(text) == "allow"
            (ws / "x.md").symlink_to(ws / ".env")
            assert kind(text) == ("allow" if "-delete" in text else "secret")
            (ws / "x.md").unlink()
        (ws / ".git" / "config").write_text("[http]\nextraheader = x\n")
        assert kind("grep -r x . --include='*.md'") == "allow"
        assert kind("grep -r x . --include=config") == "secret"
        assert kind("grep -r x . --include=config --exclude-dir=.git") == "allow"
        (ws / "sub" / ".aws").mkdir()
        assert kind("grep -r x . --include='*.md'") == "secret"
        assert kind("grep -r x . --include='*.md' --exclude-dir=.aws") == "allow"

    def test_what_git_ignores_is_not_added(self, ws: pathlib.Path) -> None:
        assert kind("git add .") == "secret"
        assert kind("git add '*.py'") == "secret"
        (ws / ".gitignore").write_text("# secrets\n.env\n")
        assert allowed("git add -A")
        assert allowed("git add '*.py'")
        (ws / ".gitignore").write_text(".env\n!.env\n")
        assert kind("git add .") == "secret"

    def test_a_pattern_is_looked_up(self, ws: pathlib.Path) -> None:
        (ws / "id_rsa").write_text("")
        assert kind("cat id_*") == "secret"
        assert kind("cat */../x") == "outside"
        assert kind("cat s*/.e*") == "outside"
        assert kind("cat s*/.env") == "secret"
        assert kind("cat o*/x") == "outside"
        assert kind("ls /e*") == "outside"
        assert kind("rm -rf o*") == "outside"
        assert allowed("rm -rf s*")
        assert allowed("cat x?/y")

    @pytest.mark.parametrize("name", ["-x", "--files0-from=.env", "@x", "a:b", "a=b", "+1", "a\nb"])
    def test_a_name_that_is_there_could_be_an_option(self, ws: pathlib.Path, name: str) -> None:
        (ws / "sub" / "a.py").write_text("")
        assert allowed("cd sub; wc -l *.py")
        (ws / "sub" / name).write_text("")
        assert kind("cd sub; wc -l *.py") == "program"
        assert allowed("wc -l *.py")
        (ws / name).write_text("")
        assert kind("wc -l *.py") == "program"
        assert kind("wc -l ?.py") == "program"
        assert allowed("wc -l ./*.py")

    def test_a_directory_that_is_not_listed(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert allowed("wc ?.py")
        assert kind('for d in s*; do (cd "$d" && wc ?.py); done') == "program"
        monkeypatch.setattr(places, "MOST_FILES", 4)
        assert kind("wc ?.py") == "program"

    def test_a_pattern_that_begins_an_argument_is_looked_up(self, ws: pathlib.Path) -> None:
        assert kind("wc -l *") == "secret"
        assert kind("wc -l o*") == "outside"
        for name in ("out", "plain", "hooks"):
            (ws / name).unlink()
        assert allowed("wc -l *")
        (ws / "id_rsa").write_text("")
        assert kind("wc -l *") == "secret"
        assert kind("wc -l ?d_rsa") == "secret"
        assert allowed("ls *")

    def test_too_many_files_are_asked_about(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(places, "MOST_FILES", 4)
        assert kind("grep -r x sub") == "allow"
        assert kind("ls ./*") == "asks"

    def test_paths_that_cannot_be_looked_at(self, ws: pathlib.Path) -> None:
        for use, path in (("read", "x" * 300), ("look", "~"), ("read", "a:b")):
            with pytest.raises(Refused):
                Places(str(ws), (Folder.of(ws),)).check(use, path, "")


class TestReader:
    @pytest.mark.parametrize(
        "text",
        [
            "ls )",
            "!(ls)",
            "{(ls); }",
            "ls;\\\n ls",
            "cat <<'E'F\nE",
            "(ls",
            "(ls; )x",
            "ls ;; ls",
            "ls; ;",
            "ls & ls",
            "(ls &)",
            "ls | | ls",
            "ls &&",
            "()",
            "{ ls;",
            "{ }",
            "if ls; then ls",
            "if ls; fi",
            "if; then ls; fi",
            "then ls",
            "for in x; do ls; done",
            "for 1 in x; do ls; done",
            "for x; do ls; done",
            "for x in a; ls",
            "while ls; done",
            "ls <",
            "ls < ; ls",
            "ls 'a",
            'ls "a',
            "ls $(ls",
            "ls $(ls # x\n)",
            "ls $(ls &)",
            "ls \\",
            "ls a\\\nb",
            "ls \\\n# x",
            "ls \\\n\\\n",
            'ls "a\\\nb"',
            "ls \\\u00e9",
            "cat <<E\nx",
            "cat <<E\nx\nEE\nE",
            "cat <<E",
            "cat << 'a b'\na b",
            "cat <<E'F'\nEF",
            "cat <<E\n`ls`\nE",
            "cat <<E\na\\\nb\nE",
            "cat <<E 'a\nb'\nE",
            'cat <<E "a\nb"\nE',
            "cat <<E $(ls\n)\nE",
            "$(cat <<E)\nE",
            "ls a<(ls)",
            "ls <(ls)b",
            "ls <((ls))",
            "echo $x[1]",
            'echo "$x:h"',
            "echo #\\\n; ls 'a",
            "( " * 30 + "ls" + " )" * 30,
            "x" * 100_001,
            "for x in a | b; do ls; done",
            "for x in a & do ls; done",
            "(for x in a)",
        ],
    )
    def test_what_is_not_certain_is_refused(self, text: str) -> None:
        with pytest.raises(Refused) as refused:
            parse(text)
        assert refused.value.kind == "unread"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", []),
            ("# only a comment", []),
            ("# x\nls -l\n#", [["ls", "-l"]]),
            ('a \'b c\' d\\ e "f\\"g\\h"', [["a", "b c", "d e", 'f"g\\h']]),
            ("a b#c {} [ ] = a=b ! %1", [["a", "b#c", "{}", "[", "]", "=", "a=b", "!", "%1"]]),
            ("a \\\n b", [["a", "b"]]),
            ("a |\n\n b && c", [["a"], ["b"], ["c"]]),
            ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
            ("x=$(a) b", [["b"], ["a"]]),
            ("{ a; b\n}", [["a"], ["b"]]),
            ("cat <<A <<-'B'\n$(x) $ \"q\" \\$y !z\nA\n\t$(no)\n\tB\nls", [["cat"], ["x"], ["ls"]]),
            ('a "$(b "c d")" "e! " "$"', [["a", "", "e! ", "$"], ["b", "c d"]]),
            ("a '' \"\" $", [["a", "", "", "$"]]),
        ],
    )
    def test_words(self, text: str, words: list[list[str]]) -> None:
        simple = [each for each in nodes(parse(text)) if isinstance(each, Simple)]
        found = [["".join(part.text for part in word) for word in each.words] for each in simple]
        assert found == words

    def test_what_runs_is_also_seen_by_the_reader_that_sees_more(self) -> None:
        """Two readers, written apart: no program that this one lets run is missed by that one."""
        for text in [t for each in yaml.safe_load(ORDINARY.read_text()).values() for t in each]:
            seen = {word for command in shell.commands(text) for word in command}
            try:
                simple = [each for each in nodes(parse(text)) if isinstance(each, Simple)]
            except Refused:
                continue
            names = {"".join(p.text for p in each.words[0]) for each in simple if each.words}
            assert names <= seen


class TestTable:
    def test_every_kind_is_known(self, ws: pathlib.Path) -> None:
        kinds = Kinds(Places(str(ws), ()), lambda text, folders: None).kinds
        known = {*kinds, *table().forms, "command", "module", "text", "pair", "ask"}
        for name, entry in _entries(table().programs):
            kinds = {kind for kind, _ in entry.operands} | {v.kind for v in entry.values.values()}
            assert kinds - known == set(), name
            assert entry.style in {"getopt", "word"}
            assert all(option.startswith("-") for option in entry.flags | set(entry.values)), name
        assert set(table().variables.values()) <= known

    def test_options_that_are_dropped_or_change_something_exist(self) -> None:
        for name, entry in _entries(table().programs):
            named_options = entry.unless | entry.trees | entry.edits | entry.moves - {"*"}
            assert named_options <= entry.flags | set(entry.values), name

    def test_harmless_programs_have_no_option_that_writes(self) -> None:
        for _, entry in _entries(table().programs):
            if entry.harmless:
                assert {value.kind for value in entry.values.values()} <= {
                    "number",
                    "text",
                    "word",
                    "color",
                    "format",
                }

    def test_still_programs_write_nothing(self) -> None:
        programs = table().programs
        for name in table().still:
            entry = programs[name]
            kinds = {kind for kind, _ in entry.operands} | {v.kind for v in entry.values.values()}
            assert kinds.isdisjoint("write remove link command shell script any ask".split()), name
            changing = (entry.moves, entry.edits, entry.runs, entry.asks, entry.subcommands)
            assert not any(changing), name

    def test_a_value_that_is_not_understood(self) -> None:
        with pytest.raises(ConfigError, match="is not an option with a value"):
            read_entry({"values": "-x"})


def _entries(given: Any, name: str = "") -> list[tuple[str, Entry]]:
    found = []
    for each, entry in given.items():
        found += [(f"{name} {each}", entry), *_entries(entry.subcommands, f"{name} {each}")]
    return found


def steps(text: str, ws: pathlib.Path) -> int:
    """Return how many functions judge a text."""
    profile = cProfile.Profile()
    profile.runcall(found_in, {"command": text}, os.fspath(ws), (Folder.of(ws),))
    return sum(entry.callcount for entry in profile.getstats())


LONG = {
    "one word": "x",
    "one name of lower case": "do",
    "words": "a ",
    "commands": "a;",
    "assignments": "a=b;",
    "one assignment": "a=",
    "pipes": "a|",
    "and": "a&&",
    "parentheses": "(",
    "substitutions": "$(",
    "double quotes": '"$(',
    "pairs of quotes": "''",
    "escapes": "\\a",
    "dollars": "${a}",
    "blanks": " ",
    "lines": "\n",
    "joined lines": " \\\n",
    "comments": "#\n",
    "here-documents": "<<E ",
    "patterns": "*a",
    "loops": "for a in b; do ",
    "redirections": " >a",
    "conditions": "if a; then ",
    "braces": "{ ",
    "semicolons of sed": "sed 's/a/b/;p' x;",
    "folders": "cd a;",
    "choices": 'case "$?" in a) ',
    "empty choices": 'case "$?" in a) ;; esac;',
    "tests of bash": "[[ -n a ]];",
    "names that are read": "read -r x y;",
    "parts of variables": "${a%b}",
    "patterns that begin words": "wc ?x;",
}


class TestTime:
    @pytest.mark.parametrize("name", LONG)
    def test_the_steps_grow_no_faster_than_the_text(self, ws: pathlib.Path, name: str) -> None:
        found_in({"command": "ls"}, os.fspath(ws), (Folder.of(ws),))  # the table is read once
        some, many = (steps(LONG[name] * (size // len(LONG[name])), ws) for size in (1_000, 10_000))
        assert many < 14 * some + 1_000

    @pytest.mark.parametrize(
        "text",
        [
            "sed '" + " " * 15_000 + "w x' f",
            "sed '" + "p;" * 8_000 + "w x' f",
            "sed 's/" + "[" * 15_000 + "' f",
            "awk '" + "a" * 15_000 + ">' f",
            "printf '" + "%1" * 8_000 + "'",
            "cat " + "a" * 15_000,
            "cat " + "a/" * 700,
            "cat " + "*a" * 100 + "b",
            "cat " + "../" * 700,
            "cat " + " ".join(f"f{i}" for i in range(3_000)),
            "for a in 1 2; do " * 15 + "ls; " + "done; " * 15,
            "bash -c 'bash -c \"bash -c ls\"'",
            'case "$?" in ' + "a | " * 6_000 + "a) ls ;; esac",
            'case "$?" in ' + "a) ;; " * 5_000,
            "[[ -n 'a" + " " * 15_000 + "' ]]",
            "[[ -n " + " " * 15_000,
            "x=1; " + "read y; " * 600,
            "echo ${x%" + "a" * 15_000,
            "wc " + "* " * 10_000,
            "cp -r " + "sub " * 300 + "x",
            "mv " + "a " * 700 + "x",
            "git status; " * 600,
            "./x -" + "a" * 15_000,
            "./x " + "-c a " * 1_300,
            "./" + "a/" * 700 + "x",
            "pytest " + "a::" * 6_000 + "[",
            "tar " + "z" * 15_000 + "ff x",
            "ruff check; " * 600,
            "node " + "a " * 3_000,
            "yq '" + " " * 13_000 + "!' a.json",
            "cat *" + "~" * 15_000 + "x",
            "cat *" + ".bak" * 6_000 + "x",
            "find sub " + "-exec cat {} + " * 2_000,
            "find sub " + " ".join(f"-exec head -{i} {{}} +" for i in range(1_300)),
        ],
        ids=lambda text: text[:20],
    )
    def test_a_text_of_any_form_is_judged_in_few_steps(self, ws: pathlib.Path, text: str) -> None:
        assert steps(text, ws) < 1_000_000

    def test_long_paths_count_once_for_each_directory(self, ws: pathlib.Path) -> None:
        for name in "abcd":
            (ws / name).mkdir()
        text = f"cd a; cd b; cd c; cd d; for i in {'1 ' * 100}; do cat {'a/' * 1_500}x; done"
        assert steps(text, ws) < 1_000_000
        assert kind(text) == "asks"

    def test_a_directory_is_listed_once_for_patterns(self, ws: pathlib.Path) -> None:
        (ws / "many").mkdir()
        for number in range(500):
            (ws / "many" / f"f{number}").write_text("")
        assert steps("cd many; " + "wc ?x; " * 300, ws) < 1_000_000

    def test_what_is_ignored_is_read_once(self, ws: pathlib.Path) -> None:
        (ws / ".env").unlink()
        (ws / ".gitignore").write_text("".join(f"a{i}\n" for i in range(3_000)))
        (ws / "a.txt").write_text("")
        (ws / "many").mkdir()
        for number in range(300):
            (ws / "many" / f"f{number}").write_text("")
        assert kind("git add a.txt many") == "allow"
        assert steps("git add" + " a.txt" * 1_000, ws) < 1_000_000
        assert steps("git add many", ws) < 100_000


def test_names_of_command_arguments() -> None:
    assert named.is_command("CommandLine")
    assert not named.is_command("description")
    assert packs.folder("shell") is not None
