"""Definitions of MCP tools: what makes one, the file of pins, and who may change it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otelhooks
from otelhooks import policy, types
from otelhooks.cli import cli, mcp_servers
from otelhooks.cli import mcp as command
from otelhooks.config import load
from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.pipeline import mcp_lists
from otelhooks.pipeline.runtime import active
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.files import reload
from otelhooks.policy.mcp import definitions, pins
from otelhooks.policy.mcp.definitions import Definition, Listing, fields_of

SCHEMA = {
    "type": "object",
    "$defs": {"place": {"description": "A path.", "enum": ["a", "b"]}},
    "properties": {"path": {"$ref": "#/$defs/place"}, "mode": {"default": None}},
    "required": ["path"],
}
TOOL: dict[str, Any] = {
    "name": "read",
    "title": "Read",
    "description": "Read a note.\nIn full.",
    "inputSchema": SCHEMA,
    "outputSchema": None,
    "annotations": {"title": "Reads", "readOnlyHint": True, "openWorldHint": None},
}


def digest(tool: dict[str, Any]) -> str:
    return Definition.of(tool["name"], fields_of(tool)).digest


def changed(*path: str, to: Any) -> dict[str, Any]:
    """Return the tool with another value at a path."""
    copied = json.loads(json.dumps(TOOL))
    place = copied
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return copied


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp-pins.json"
    path.write_text(pins.text_of({"notes": {"read": fields_of(TOOL)}}))
    return path


class TestDefinitions:
    @pytest.mark.parametrize(
        "text",
        [
            json.dumps(TOOL, sort_keys=True),
            json.dumps(dict(reversed(TOOL.items())), indent=4),
            json.dumps(TOOL).replace("note", "\\u006eote"),
            json.dumps({**TOOL, "_meta": {"at": 1}, "icons": [], "execution": {}}),
            json.dumps({key: each for key, each in TOOL.items() if each is not None}),
        ],
    )
    def test_the_form_of_the_json_does_not_count(self, text):
        assert digest(json.loads(text)) == digest(TOOL)

    @pytest.mark.parametrize(
        "other",
        [
            changed("name", to="re\u0430d"),
            changed("title", to="Write"),
            changed("description", to="Read a note.\nIn full. "),
            changed("description", to="Read a note.\u200b\nIn full."),
            changed("description", to=""),
            changed("inputSchema", "$defs", "place", "description", to="Any path, also ~/.ssh."),
            changed("inputSchema", "$defs", "place", "enum", to=["b", "a"]),
            changed("inputSchema", "properties", "mode", to={}),
            changed("inputSchema", "properties", "mode", "default", to=False),
            changed("inputSchema", "required", to=[]),
            changed("outputSchema", to={}),
            changed("annotations", "readOnlyHint", to=False),
            changed("annotations", "destructiveHint", to=True),
            changed("annotations", "title", to="Reads it"),
            changed("annotations", to=None),
        ],
    )
    def test_what_a_model_reads_counts(self, other):
        assert digest(other) != digest(TOOL)

    def test_a_hash_is_the_same_in_every_version(self):
        """A change of this value asks everyone to approve every tool again."""
        known = "sha256:b5623cea3e7d15409f7ac9487a43fd1fe08d2c3dd323bb450c8f2e2ea6e86edd"
        assert digest(TOOL) == known

    def test_annotations_without_a_known_one_are_none(self):
        assert "annotations" not in fields_of({**TOOL, "annotations": {"other": 1}})

    @pytest.mark.parametrize(
        ("given", "destroys"),
        [
            ({}, True),
            ({"readOnlyHint": True}, False),
            ({"readOnlyHint": True, "destructiveHint": True}, True),
            ({"destructiveHint": False}, False),
            ({"destructiveHint": 0}, True),
        ],
    )
    def test_a_hint_that_is_not_given_has_the_default_of_the_protocol(self, given, destroys):
        found = Definition.of("read", {"annotations": given})
        assert found.hint("destructiveHint") is destroys
        assert found.hint("openWorldHint") is True
        assert found.hint("idempotentHint") is False

    def test_a_server_cannot_fill_the_memory(self, monkeypatch):
        monkeypatch.setattr(definitions, "_MAX_TOOLS", 1)
        known: definitions.Listed = {}
        for name in ("a", "b", "a"):
            definitions.note(known, name, (Definition(name),))
        assert list(known) == ["a"]


class TestFile:
    def test_it_comes_back(self, file):
        approved = pins.read(file)
        assert approved == {"notes": {"read": fields_of(TOOL)}}
        assert pins.text_of(approved) == file.read_text()

    def test_a_reviewer_sees_each_line_and_what_cannot_be_seen(self):
        text = pins.text_of({"b": {}, "a": {"re\u0430d": {"description": "One.\nTwo.\u200b"}}})
        assert text.isascii()
        assert '"One.",\n' in text
        assert '"Two.\\u200b"' in text
        assert '"re\\u0430d"' in text
        assert text.index('"a"') < text.index('"b"')

    def test_a_missing_file_approves_nothing(self, tmp_path):
        assert pins.read(tmp_path / "none.json") == {}

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("In full.", "In part.", "the hash of the tool 'read' is not that"),
            ('"hash": "sha', '"hush": "sha', "has 'hush', which is not known"),
            ('"hash": "', '"hash": "x', "the hash of the tool"),
            ('"version": 1', '"version": 2', "reads version 1"),
            ('"version": 1', '"version": true', "reads version 1"),
            ('"servers"', '"server"', "the file has 'server'"),
            ('"version": 1', '"version": 1, "version": 1', "'version' is there twice"),
            ('"read": {', '"read": 1, "x": {', "the tool 'read' is not an object"),
            ('"hash": "', '"icons": [], "hash": "', "has 'icons'"),
            ('"readOnlyHint"', '"readOnlyhint"', "the hash of the tool"),
            ("}\n", "", "Expecting"),
            ("{", "[" * 100_000 + "{", "nested too deep"),
            ('"version": 1', f'"version": {"1" * 5_000}', "not a file of pins"),
        ],
    )
    def test_a_file_that_is_not_understood_is_an_error(self, file, old, new, problem):
        text = file.read_text()
        assert old in text
        cut = text.rstrip()[:-1] if new == "" else text.replace(old, new, 1)
        file.write_text(cut)
        with pytest.raises(PolicyFileError, match=re.escape(problem)):
            otelhooks.instrument(mcp_pins=file)

    def test_an_empty_hash_is_that_of_nothing(self, file):
        content = json.loads(file.read_text())
        content["servers"]["notes"]["read"] = {"hash": "", "annotations": {"evil": 1}}
        file.write_text(json.dumps(content))
        with pytest.raises(PolicyFileError, match="the hash of the tool"):
            pins.read(file)

    @pytest.mark.parametrize(
        ("field", "value"),
        [("description", "text"), ("description", [1]), ("annotations", []), ("title", None)],
    )
    def test_a_field_of_another_form_is_an_error(self, file, field, value):
        content = json.loads(file.read_text())
        content["servers"]["notes"]["read"][field] = value
        file.write_text(json.dumps(content))
        with pytest.raises(PolicyFileError):
            pins.read(file)

    @pytest.mark.parametrize("text", ["[]", '{"version": 1}', '{"version": 1, "servers": [1]}', ""])
    def test_a_file_of_another_form_is_an_error(self, file, text):
        file.write_text(text)
        with pytest.raises(PolicyFileError):
            pins.read(file)

    @pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of POSIX")
    def test_a_file_that_every_user_may_write_is_an_error(self, file):
        file.chmod(0o666)
        with pytest.raises(PolicyFileError, match="every user may write"):
            otelhooks.instrument(mcp_pins=file)


class TestSetting:
    @pytest.mark.parametrize(
        ("given", "mode", "name"),
        [
            ("pins.json", "enforce", "pins.json"),
            (Path("pins.json"), "enforce", "pins.json"),
            ("enforce:pins.json", "enforce", "pins.json"),
            ("monitor:pins.json", "monitor", "pins.json"),
            ("monitor", "monitor", "mcp-pins.json"),
            ("enforce", "enforce", "mcp-pins.json"),
        ],
    )
    def test_it_names_a_file_a_mode_or_both(self, given, mode, name):
        found = load(mcp_pins=given).mcp_pins
        assert (found.mode, found.path) == (mode, Path.cwd() / name)

    def test_a_variable(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_MCP_PINS", "monitor:p.json")
        found = load().mcp_pins
        assert found is not None
        assert (found.mode, found.path.name) == ("monitor", "p.json")
        assert load(mcp_pins=None).mcp_pins is None

    @pytest.mark.parametrize("given", ["", 1, True])
    def test_anything_else_is_an_error(self, given):
        with pytest.raises(ConfigError, match="mcp_pins"):
            load(mcp_pins=given)

    def test_two_servers_with_one_name_are_an_error(self, file):
        servers = [types.McpStdioServer(name="notes", command=name) for name in ("a", "b")]
        with pytest.raises(ConfigError, match="two servers of `mcp_servers` are called `notes`"):
            otelhooks.instrument(mcp_pins=file, mcp_servers=servers)

    @pytest.mark.parametrize("frameworks", [["langchain"], {"mcp": "off"}])
    def test_without_the_adapter_that_reads_lists_it_is_an_error(self, file, frameworks):
        with pytest.raises(ConfigError, match="`mcp_pins` needs the adapter `mcp`"):
            otelhooks.instrument(mcp_pins=file, frameworks=frameworks)

    def test_a_missing_file_is_logged_and_approves_nothing(self, tmp_path, caplog):
        otelhooks.instrument(mcp_pins=tmp_path / "none.json")
        assert "does not exist, so that no MCP tool is approved" in caplog.text
        assert problem(Definition.of("read", fields_of(TOOL))) == "new"


def problem(*found: Definition, server: str = "notes", name: str = "read") -> str:
    rt = active()
    assert rt is not None
    assert rt.pins is not None
    return rt.pins.problem(server, name, found)


class ClientCall(Call):
    """A call at the seat of an MCP client."""


def mcp_call(*found: Definition, server: str = "notes") -> Call:
    call = ClientCall("read", {}, server=server or None)
    call.listing = Listing(server, found)
    return call


class TestJudge:
    GOOD = Definition.of("read", fields_of(TOOL))

    def judge(self, *, monitor: bool = False) -> pins.Pins:
        return pins.Pins({"notes": {"read": fields_of(TOOL)}}, monitor=monitor)

    @pytest.mark.parametrize(
        ("found", "server", "id"),
        [
            ((GOOD,), "notes", ""),
            ((GOOD, GOOD), "notes", ""),
            ((), "notes", "unlisted"),
            ((Definition("sha256:0"),), "notes", "changed"),
            ((GOOD, Definition("sha256:0")), "notes", "changed"),
            ((Definition(""),), "notes", "changed"),
            ((GOOD,), "mail", "new"),
            ((GOOD,), "", "unnamed"),
        ],
    )
    def test_a_call_at_a_client(self, found, server, id):
        judge, call = self.judge(), mcp_call(*found, server=server)
        ruling = drive(judge.evaluate(call))
        assert ruling.decision == ("deny" if id else "allow")
        assert judge.is_against(call) is bool(id)
        if id:
            assert ruling.rule.id == ruling.rule.identity == id
            assert ruling.rule.label == f"mcp_pins:{id}"
            assert ruling.message == ruling.rule.reason
            assert ruling.rule.policy_version == judge.version

    def test_a_call_elsewhere_is_not_judged(self):
        assert not self.judge().is_against(Call("read", {}, server="notes"))

    def test_monitor_only_records(self):
        judge = self.judge(monitor=True)
        ruling = drive(judge.evaluate(mcp_call()))
        assert not judge.can_deny
        assert ruling.decision == "allow"
        assert [(word, rule.id) for word, rule in ruling.observed] == [("deny", "unlisted")]


class TestLists:
    def test_what_cannot_be_read_is_not_approved(self, file):
        otelhooks.instrument(mcp_pins=file)
        rt = active()
        assert rt is not None
        known: definitions.Listed = {}

        def breaks() -> Any:
            raise RuntimeError("no")

        tools = [
            ("read", lambda: TOOL),
            ("odd", lambda: {**TOOL, "annotations": 1}),
            ("deep", breaks),
        ]
        assert mcp_lists.note(rt, "notes", "", known, tools) == {"odd", "deep"}
        assert known["odd"] == known["deep"] == (Definition(""),)

    def test_each_tool_is_told_once(self, file, caplog, monkeypatch):
        monkeypatch.setattr(mcp_lists, "_MAX_TOLD", 2)
        otelhooks.instrument(mcp_pins=file)
        rt = active()
        assert rt is not None
        for name in ("a", "a", "b", "c"):
            mcp_lists.note(rt, "", "says", {}, [(name, lambda: TOOL)])
        told = [one for one in caplog.messages if "is not approved" in one]
        assert [one.split("`")[1] for one in told] == ["a", "b"]
        assert "give the server a name" in told[0]


def until(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestWhileItRuns:
    """The file changes under a running program."""

    def test_without_reload_the_old_one_holds(self, file):
        otelhooks.instrument(mcp_pins=file)
        file.write_text(pins.text_of({}))
        assert problem(TestJudge.GOOD) == ""

    def test_with_reload_it_is_read_again(self, file, monkeypatch, caplog):
        monkeypatch.setattr(reload, "INTERVAL_S", 0.02)
        otelhooks.instrument(mcp_pins=file, reload=True)
        assert problem(TestJudge.GOOD) == ""
        file.write_text("{")
        until(lambda: "the old ones hold" in caplog.text)
        assert problem(TestJudge.GOOD) == ""
        file.write_text(pins.text_of({}))
        until(lambda: problem(TestJudge.GOOD) == "new")
        file.write_text(pins.text_of({"notes": {"read": fields_of(TOOL)}}))
        until(lambda: problem(TestJudge.GOOD) == "")
        file.unlink()
        until(lambda: problem(TestJudge.GOOD) == "new")

    def test_the_same_content_changes_nothing(self, file):
        handle = otelhooks.instrument(mcp_pins=file)
        rt = active()
        assert rt is not None
        before = rt.pins
        handle._read_pins()
        assert rt.pins is before


class TestAgents:
    """An agent must not approve a tool for itself."""

    @pytest.mark.parametrize("exists", [True, False])
    @pytest.mark.parametrize(
        ("tool", "args"),
        [
            ("run_command", {"CommandLine": "cp /tmp/evil.json {path}"}),
            ("run_command", {"CommandLine": "echo '{{}}' > {path}"}),
            ("run_command", {"CommandLine": "otelhooks mcp approve --all --pins {path}"}),
            ("create_file", {"path": "{path}", "content": "{{}}"}),
            ("edit_file", {"file_path": "{path}"}),
            ("run_command", {"CommandLine": "rm -rf {folder}"}),
        ],
    )
    def test_it_cannot_write_the_file(self, file, exists, tool, args):
        if not exists:
            file.unlink()
        handle = otelhooks.instrument(mcp_pins=file)
        places = {"path": file, "folder": file.parent}
        given = {key: text.format(**places) for key, text in args.items()}
        ruling = drive(handle._rules.evaluate(Call(tool, given)))
        assert ruling.decision == "deny"
        assert ruling.message == "Policy files cannot be changed from here."

    @pytest.mark.parametrize("words", [["pin"], ["approve", "--all"]])
    def test_it_cannot_approve_without_a_terminal(self, words, listed, tmp_path):
        path = tmp_path / "pins.json"
        result = run(*words, "--pins", str(path))
        assert result.exit_code == 2
        assert "approving tools needs a terminal" in result.output
        assert not path.exists()


SERVERS = [types.McpStdioServer(name="notes", command="x")]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the one server lists, for the command."""
    now: dict[str, Any] = {"notes": {"read": fields_of(TOOL)}}
    monkeypatch.setattr(mcp_servers, "definitions", lambda servers: now)
    monkeypatch.setenv("OTELHOOKS_MCP_SERVERS", f"{__name__}:SERVERS")
    return now


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone at the terminal confirms."""
    monkeypatch.setattr(command, "confirm", lambda *words: None)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *arguments])


@pytest.mark.usefixtures("person")
class TestCommand:
    def test_pin_writes_what_diff_then_finds_unchanged(self, listed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "notes: 1 new tool" in run("pin").output
        assert pins.read(tmp_path / "mcp-pins.json") == listed
        result = run("diff")
        assert (result.exit_code, result.output) == (0, "every tool is as it was approved\n")
        again = run("pin")
        assert again.exit_code == 2
        assert "exists" in again.output

    def test_pin_shows_what_it_approves(self, listed, tmp_path):
        listed["notes"]["gr\u0430b"] = {"title": "Grab"}
        listed["notes"]["write"] = {"description": "Write\u200b a note."}
        listed["empty"] = {}
        shown = run("pin", "--pins", str(tmp_path / "pins.json")).output.splitlines()
        assert shown[:5] == [
            "empty: 0 new tools",
            "notes: 3 new tools",
            "  gr\\u0430b",
            "  read       Read a note. (and 1 more line)",
            "  write      Write\\u200b a note.",
        ]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "OTELHOOKS_MCP_SERVERS names `none_such:SERVERS`"),
            (["--mcp-servers", "none_other:SERVERS"], "--mcp-servers names `none_other:SERVERS`"),
        ],
    )
    def test_an_error_says_what_names_the_servers(self, file, monkeypatch, words, said):
        monkeypatch.setenv("OTELHOOKS_MCP_SERVERS", "none_such:SERVERS")
        assert said in run("diff", "--pins", str(file), *words).output
        check = ["policy", "check", "tool-output", *words]
        assert said in CliRunner().invoke(cli, check).output

    def test_diff_shows_each_change_as_lines_of_the_file(self, listed, file):
        listed["notes"]["read"] = {**fields_of(TOOL), "description": "Read a note.\nAnd ~/.ssh."}
        listed["notes"]["gr\u0430b"] = {"inputSchema": {}}
        result = run("diff", "--pins", f"monitor:{file}")
        assert result.exit_code == 1
        assert "notes/gr\\u0430b: new\n" in result.output
        assert "notes/read: changed\n" in result.output
        assert '\n  -    "In full."\n  +    "And ~/.ssh."\n' in result.output
        report = json.loads(run("diff", "--json", "--pins", str(file)).output)
        assert [(one["tool"], one["change"]) for one in report] == [
            ("gr\u0430b", "new"),
            ("read", "changed"),
        ]

    def test_approve_takes_what_is_named_and_nothing_else(self, listed, file):
        listed["notes"] = {"one": {"title": "1"}, "two": {"title": "2"}}
        result = run("approve", "notes/one", "notes/r*", "--pins", str(file))
        assert result.exit_code == 0
        assert "notes/read: gone" in result.output
        assert pins.read(file) == {"notes": {"one": {"title": "1"}}}
        assert run("approve", "--all", "--pins", str(file)).exit_code == 0
        assert pins.read(file) == listed
        assert run("approve", "--all", "--pins", str(file)).output.startswith("every tool is")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["approve"], "name the tools to approve"),
            (["approve", "--all", "notes/x"], "name the tools to approve"),
            (["approve", "notes/x"], "no change of `notes/x`"),
            (["diff", "--mcp-servers", ""], "no server is named"),
        ],
    )
    def test_a_command_that_means_nothing_is_an_error(self, listed, file, words, said):
        result = run(*words, "--pins", str(file))
        assert result.exit_code == 2
        assert said in result.output

    @pytest.mark.parametrize("words", [["diff"], ["approve", "--all"]])
    def test_a_file_that_was_edited_can_be_restored_or_written_again(self, listed, file, words):
        file.write_text(file.read_text().replace("In full.", "In part."))
        result = run(*words, "--pins", str(file))
        assert result.exit_code == 2
        assert "restore the file, such as with git" in result.output
        assert "delete it and run `otelhooks mcp pin`" in result.output

    def test_without_the_package_it_is_an_error(self, file, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_MCP_SERVERS", f"{__name__}:SERVERS")
        monkeypatch.setitem(sys.modules, "mcp", None)
        result = run("diff", "--pins", str(file))
        assert result.exit_code == 2
        assert "the package `mcp` is not installed here" in result.output

    def test_a_folder_that_cannot_be_written_is_an_error(self, listed, tmp_path):
        result = run("pin", "--pins", str(tmp_path / "none" / "pins.json"))
        assert result.exit_code == 2
        assert "cannot be written" in result.output


class TestAnnotations:
    """A server's own word selects asks and denies, and never allows."""

    def rules(self, **wanted: bool) -> PolicySet:
        return PolicySet([policy.deny("*", when_annotations=wanted)])

    def decision(self, call: Call, **wanted: bool) -> str:
        return drive(self.rules(**wanted).evaluate(call)).decision

    def test_the_tool_must_be_annotated_like_each_of_them(self):
        found = Definition("sha256:0", {"readOnlyHint": False, "openWorldHint": False})
        call = mcp_call(found)
        assert self.decision(call, readOnlyHint=False) == "deny"
        assert self.decision(call, readOnlyHint=False, openWorldHint=True) == "allow"

    @pytest.mark.parametrize(
        "call",
        [
            mcp_call(),
            mcp_call(Definition("")),
            mcp_call(Definition("sha256:0", {"readOnlyHint": True}), Definition("sha256:1")),
            Call("read", {}, server="not-listed"),
            Call("read", {}, claimed_server=True),
            Call("read", {}, server_says="x"),
        ],
    )
    def test_without_knowledge_the_rule_applies(self, call):
        assert self.decision(call, readOnlyHint=False) == "deny"
        if not (call.listing and len(call.listing.definitions) > 1):
            assert self.decision(call, readOnlyHint=True) == "deny"

    def test_a_tool_without_a_server_is_not_annotated(self):
        assert self.decision(Call("read", {}), readOnlyHint=False) == "allow"

    def test_the_seat_of_a_framework_knows_them_by_the_name_of_the_server(self):
        definitions.note(
            definitions.tools_of("notes"), "read", [Definition("x", {"readOnlyHint": True})]
        )
        assert self.decision(Call("read", {}, server="notes"), readOnlyHint=False) == "allow"
        definitions.forget()
        assert self.decision(Call("read", {}, server="notes"), readOnlyHint=False) == "deny"

    def test_they_cannot_hide_for_certain(self):
        rules = PolicySet(
            [policy.deny("read", when_annotations={"readOnlyHint": True}), policy.hide("read")]
        )
        assert rules.hides(Call("read", {})) is not None

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (
                lambda: policy.Policy(
                    "a", policy.Decision.APPROVE, when_annotations={"readOnlyHint": True}
                ),
                "`when_annotations` cannot allow",
            ),
            (lambda: policy.deny("a", when_annotations={}), "is not a mapping"),
            (lambda: policy.deny("a", when_annotations=["readOnlyHint"]), "is not a mapping"),
            (lambda: policy.deny("a", when_annotations={"title": True}), "unknown annotation"),
            (
                lambda: policy.veto("a", when_annotations={"readOnlyHint": 1}),
                "is not true or false",
            ),
        ],
    )
    def test_what_a_rule_cannot_say_is_an_error(self, make, said):
        with pytest.raises(ConfigError, match=said):
            make()

    def test_a_file_says_the_same(self, tmp_path):
        path = tmp_path / "p.yaml"
        path.write_text("policies:\n  - ask: '*'\n    when_annotations: {destructiveHint: true}\n")
        handle = otelhooks.instrument(policies=[path], approvals=lambda call: False)
        [rule] = handle._rules.given
        assert rule.annotations == {"destructiveHint": True}
        rt = active()
        assert rt is not None
        assert rt.reads_lists

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            (
                "{allow: a, when_annotations: {readOnlyHint: true}}",
                "unknown key",
            ),
            ("{deny: a, when_annotations: {readonlyHint: true}}", "readonlyHint"),
            ("{deny: a, when_annotations: {readOnlyHint: 1}}", "true or false"),
            ("{deny: a, when_annotations: {}}", "when_annotations"),
        ],
    )
    def test_a_file_that_tries_to_allow_is_an_error(self, tmp_path, entry, said):
        path = tmp_path / "p.yaml"
        path.write_text(f"policies: [{entry}]\n")
        with pytest.raises(PolicyFileError, match=said):
            otelhooks.instrument(policies=[path])

    def test_a_candidate_reads_lists_too(self):
        rule = policy.deny("*", when_annotations={"destructiveHint": True})
        otelhooks.instrument(candidate=[rule])
        rt = active()
        assert rt is not None
        assert rt.reads_lists

    def test_two_rules_with_other_annotations_have_other_ids(self):
        rules = [
            policy.deny("a", when_annotations={"readOnlyHint": each}) for each in (True, False)
        ]
        first, second = PolicySet(rules).rules
        assert first.id != second.id
        assert first.identity != second.identity
