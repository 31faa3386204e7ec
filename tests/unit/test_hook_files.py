"""Hook files: what is refused at load, where, and what they say when they are asked by hand."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.policy.files import HookChain, load, load_hooks
from otelhooks.policy.files.events import EVENTS

GUARD = """---
event: tool.pre
priority: 10
when: payload["name"] == "run_command"
script: |
  def handle(event, payload):
      cmd = payload.get("args", {}).get("command", "")
      dangerous = [
          "rm -rf /",
          ":(){ :|:& };:",
          "mkfs",
          "dd if=",
          "shutdown",
      ]
      for d in dangerous:
          if d in cmd:
              metrics.incr("audit.policy.deny")
              return block("dangerous command pattern blocked: '" + d + "'")
      return allow()
---
# command_guard

Hard-blocks well-known destructive shell patterns.
"""

HANDLE = "script: |\n  def handle(event, payload):\n    return allow()\n"
SCRIPT = "---\nevent: tool.pre\nscript: |\n"


class Folder:
    """A folder of hook files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str | bytes) -> Path:
        """Write one file as it is."""
        place = self.path / name
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def hook(self, name: str, body: str, event: str = "tool.pre", front: str = "") -> None:
        """Write a hook whose `handle` has this body."""
        code = "".join(f"    {line}\n" for line in body.splitlines())
        script = f"script: |\n  def handle(event, payload):\n{code}"
        self.write(f"{name}.md", f"---\nevent: {event}\n{front}{script}---\n")

    def load(self, **options: Any) -> HookChain:
        """Load it."""
        return load_hooks(self.path, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "hooks"
    path.mkdir()
    return Folder(path)


class TestLoadErrors:
    @pytest.mark.parametrize(
        ("text", "line", "column", "problem"),
        [
            ("", 1, 1, "no front matter"),
            ("# only documentation\n", 1, 1, "no front matter"),
            ("\n---\nevent: tool.pre\n---\n", 1, 1, "no front matter"),
            (f"---\nevent: tool.pre\n{HANDLE}", 1, 1, "not closed"),
            (f"---\nevent: tool.pre\n{HANDLE}----\n", None, None, ""),
            ("---\n---\n", 1, 1, "empty"),
            ("---\njust text\n---\n", 2, 1, "front matter"),
            ("---\n- a\n- b\n---\n", 2, 1, "front matter"),
            ("---\nevent: tool.pre\n---\n", 2, 1, "`script`"),
            (f"---\n{HANDLE}---\n", 2, 1, "`event`"),
            (f"---\nevent: tool.before\n{HANDLE}---\n", 2, 8, "unknown event `tool.before`"),
            (f"---\nevent: custom.\n{HANDLE}---\n", 2, 8, "unknown event"),
            (f"---\nevent: [tool.pre]\n{HANDLE}---\n", 2, 8, "not text"),
            (f"---\nevent: tool.pre\nevent: tool.post\n{HANDLE}---\n", 3, 1, "occurs twice"),
            (f"---\nevent: tool.pre\nwhenn: x\n{HANDLE}---\n", 3, 1, "unknown key `whenn`"),
            (f"---\nevent: tool.pre\npriority: high\n{HANDLE}---\n", 3, 11, "not a whole number"),
            (f"---\nevent: tool.pre\npriority: true\n{HANDLE}---\n", 3, 11, "not a whole number"),
            (f"---\nevent: tool.pre\nseverity: bad\n{HANDLE}---\n", 3, 11, "unknown `severity`"),
            (f"---\nevent: tool.pre\nmode: off\n{HANDLE}---\n", 3, 7, "off"),
            (f"---\nevent: tool.pre\nmode: observe\n{HANDLE}---\n", 3, 7, "unknown `mode`"),
            (f"---\nevent: tool.pre\nwhen: 1 +\n{HANDLE}---\n", 3, None, "no Starlark"),
            (f"---\nevent: tool.pre\nwhen: x = 1\n{HANDLE}---\n", 3, None, "no Starlark"),
            (f"---\nevent: tool.pre\nwhen: true\n{HANDLE}---\n", 3, 7, "not text"),
            (f"---\nevent: tool.pre\nwhen: args\n{HANDLE}---\n", 3, 7, "`args` not found"),
            (f"---\nevent: tool.pre\nwhen: allow()\n{HANDLE}---\n", 3, 7, "`allow` not found"),
            (f"---\nevent: tool.pre\nwhen:\n{HANDLE}---\n", 3, None, "`when`"),
            ("---\nevent: tool.pre\nscript: |\n---\n", 3, None, "`script`"),
            ("---\nevent: tool.pre\nscript: |\n  x = 1\n---\n", 4, 3, "no `handle`"),
            (
                "---\nevent: tool.pre\nscript: |\n  def handle(payload):\n    return 1\n---\n",
                4,
                3,
                "does not take 2 parameters",
            ),
            (
                "---\nevent: tool.pre\nscript: |\n  def handle(e, p):\n    return 1 +\n---\n",
                5,
                15,
                "no Starlark",
            ),
            (
                f"{SCRIPT}\n\n  # c\n  def handle(e, p):\n    return foo()\n---\n",
                8,
                12,
                "`foo` not found",
            ),
            (
                f"{SCRIPT}  def handle(e, p):\n    return [1] * 99999999\n---\n",
                5,
                12,
                "a constant of more than",
            ),
            (
                "---\nevent: tool.pre\nscript: |\n  def handle(e, p):\n\treturn 1\n---\n",
                5,
                None,
                "",
            ),
            ("---\n\tevent: tool.pre\n---\n", 2, None, ""),
            ("---\nevent: 'tool.pre\n---\n", None, None, "not YAML"),
            ("---\nevent: !!python/name:os.system x\n---\n", 2, None, "tag"),
            (
                f"---\na: &a [{'x, ' * 50}x]\nb: &b [{'*a, ' * 50}*a]\nc: [{'*b, ' * 50}*b]\n---\n",
                None,
                None,
                "aliases",
            ),
            (b"---\nevent: tool.pre\n\xff\n---\n", 3, 1, "not UTF-8"),
            (b"---\nevent: tool.pre\n\x00\n---\n", 3, 1, "cannot be seen"),
            (b"x" * 10_000_000, 1, 1, "larger than"),
        ],
    )
    def test_has_a_place_and_a_hint(
        self, folder: Folder, text: str | bytes, line: Any, column: Any, problem: str
    ) -> None:
        path = folder.write("bad.md", text)
        with pytest.raises(PolicyFileError) as caught:
            folder.load()
        error = caught.value
        assert isinstance(error, ValueError)
        assert str(error).startswith(f"{path}:{error.line}:{error.column}: ")
        assert "\nhint: " in str(error)
        assert problem in str(error)
        assert line in (None, error.line)
        assert column in (None, error.column)
        assert error.line >= 1
        assert error.column >= 1

    def test_one_bad_file_of_many_loads_nothing(self, folder: Folder) -> None:
        folder.hook("good", "return allow()")
        folder.write("bad.md", "---\n")
        with pytest.raises(PolicyFileError, match=r"bad\.md"):
            load([folder.path])

    @pytest.mark.parametrize("change", ["vanishes", "loops", "is no folder", "is foreign"])
    def test_so_has_a_folder_that_cannot_be_used(self, folder: Folder, change: str) -> None:
        path = folder.path / "x"
        if change == "loops":
            path.symlink_to(path)
        elif change == "is no folder":
            path.write_text("x")
        elif change == "is foreign":
            folder.hook("a", "return allow()")
            path = folder.path / "a.md"
            path.chmod(0o666)
        with pytest.raises(PolicyFileError, match="hint: "):
            load_hooks(path)

    def test_crlf_and_a_byte_order_mark_are_not_errors(self, folder: Folder) -> None:
        folder.write("guard.md", b"\xef\xbb\xbf" + GUARD.replace("\n", "\r\n").encode())
        chain = folder.load()
        assert (
            chain.dispatch("tool.pre", {"name": "run_command", "args": {"command": "mkfs"}})[0]
            == "block"
        )

    def test_every_event_of_the_table_is_known(self, folder: Folder) -> None:
        for number, event in enumerate(
            [*EVENTS, "custom.deploy", "custom.*", "meta.register_tool"]
        ):
            folder.hook(f"hook_{number}", "return allow()", event)
        loaded = load([folder.path])
        assert len(loaded.sources) == len(EVENTS) + 3
        assert [event for _, event in loaded.unfired] == ["meta.register_tool"]

    def test_delegate_is_an_alias(self, folder: Folder) -> None:
        folder.hook("guard", 'return block("x")', "delegate.pre")
        assert folder.load().dispatch("delegation.pre", {"task": "t"}).action == "block"
        assert folder.load().dispatch("delegate.pre", {"task": "t"}).action == "block"


class TestDispatch:
    def test_the_guard_of_the_source_document(self, folder: Folder) -> None:
        folder.write("command_guard.md", GUARD)
        chain = folder.load()
        given = {"name": "run_command", "args": {"command": "sudo rm -rf / --x"}}
        action, payload, reason = chain.dispatch("tool.pre", given)
        assert (action, payload) == ("block", given)
        assert reason == (
            "blocked by hook \"command_guard\": dangerous command pattern blocked: 'rm -rf /'"
        )
        allowed = chain.dispatch("tool.pre", {"name": "run_command", "args": {"command": "ls"}})
        assert (allowed.action, allowed.reason) == ("allow", "")
        assert chain.dispatch("tool.pre", {"name": "x", "args": {"command": "mkfs"}})[0] == "allow"

    def test_low_priority_runs_first_and_equal_ones_by_name(self, folder: Folder) -> None:
        add = 'return modify({"seen": payload.get("seen", "") + "NAME"})'
        for name, front in (
            ("c", "priority: 1\n"),
            ("b", "priority: 50\n"),
            ("a", "priority: 50\n"),
            ("d", "priority: -5\n"),
            ("e", ""),
            ("f", "priority: 101\n"),
        ):
            folder.hook(name, add.replace("NAME", name), "tool.post", front)
        assert folder.load().dispatch("tool.post", {}).payload == {"seen": "dcabef"}

    def test_the_first_block_ends_the_chain(self, folder: Folder) -> None:
        folder.hook("a", 'cache.set("ran", "a")\nreturn block("a")', front="priority: 1\n")
        folder.hook("b", 'cache.set("ran", "b")\nreturn block("b")')
        folder.hook("show", 'return block(cache.get("ran"))', "turn.end")
        chain = folder.load()
        assert chain.dispatch("tool.pre", {}).reason == 'blocked by hook "a": a'
        assert chain.dispatch("turn.end", {}).reason == 'blocked by hook "show": a'

    @pytest.mark.parametrize("event", ["tool.pre", "tool.post", "turn.start", "custom.x", "meta.x"])
    def test_modify_merges_the_top_level_and_later_hooks_see_it(
        self, folder: Folder, event: str
    ) -> None:
        folder.hook("a", 'return modify({"x": 2})', event, "priority: 1\n")
        folder.hook("b", 'return modify({"y": payload["x"] + 1})', event)
        given = {"x": 1, "z": b"\xff"}
        assert folder.load().dispatch(event, given) == (
            "modify",
            {"x": 2, "z": b"\xff", "y": 3},
            "",
        )
        assert given == {"x": 1, "z": b"\xff"}

    def test_aliases_of_the_arguments_are_for_the_script_only(self, folder: Folder) -> None:
        folder.hook(
            "a",
            'return modify({"args": {"n": payload["arguments"]["n"] + 1}})',
            front='when: payload["arguments_json"] == "{\\"n\\":1}"\n',
        )
        action, payload, _ = folder.load().dispatch("tool.pre", {"name": "t", "args": {"n": 1}})
        assert (action, payload) == ("modify", {"name": "t", "args": {"n": 2}})

    def test_a_rewrite_is_put_to_earlier_gates_again(self, folder: Folder) -> None:
        when = "when: payload[\"args\"] == 'rm'\n"
        folder.hook("a", 'return block("rm")', front=f"{when}priority: 1\n")
        folder.hook("b", 'return modify({"args": "rm"})')
        assert (
            folder.load().dispatch("tool.pre", {"args": "ls"}).reason == 'blocked by hook "a": rm'
        )

    def test_rewrites_that_do_not_settle_block(self, folder: Folder) -> None:
        folder.hook(
            "a",
            'return modify({"args": "again"}) if payload["args"] else allow()',
            front="priority: 1\n",
        )
        folder.hook("b", 'return modify({"args": "x"})')
        reason = 'blocked by hook "a": arguments not stable'
        assert folder.load().dispatch("tool.pre", {"args": ""}).reason == reason

    @pytest.mark.parametrize(
        "event",
        [
            "session.start",
            "turn.start",
            "turn.end",
            "completion.pre",
            "completion.post",
            "tool.pre",
            "tool.post",
            "delegation.pre",
            "delegation.post",
            "delegation.post_verify",
            "custom.x",
            "meta.x",
        ],
    )
    @pytest.mark.parametrize("body", ["return 1", "return None", "return payload['x']['y']"])
    def test_a_failure_blocks_with_its_cause(self, folder: Folder, event: str, body: str) -> None:
        folder.hook("guard", body, event)
        action, _, reason = folder.load().dispatch(event, {})
        assert action == "block"
        assert reason.startswith('blocked by hook "guard": ')

    @pytest.mark.parametrize("event", ["session.end", "agent.stop", "error"])
    def test_where_no_effect_follows_it_is_logged(self, folder: Folder, event: str) -> None:
        folder.hook("guard", "return 1", event)
        assert folder.load().dispatch(event, {"a": 1}) == ("allow", {"a": 1}, "")

    def test_an_endless_script_blocks_in_time(self, folder: Folder) -> None:
        folder.hook(
            "guard", "for i in range(999999):\n  [j for j in range(999999)]\nreturn allow()"
        )
        chain = folder.load()
        started = time.monotonic()
        assert "stopped after 0.05 s" in chain.dispatch("tool.pre", {}).reason
        assert time.monotonic() - started < 5

    def test_the_time_limit_can_be_set(self, folder: Folder) -> None:
        folder.hook(
            "guard", "for i in range(999999):\n  [j for j in range(999999)]\nreturn allow()"
        )
        assert "after 0.01 s" in folder.load(time_limit_s=0.01).dispatch("tool.pre", {}).reason

    def test_a_payload_that_no_script_can_be_given_blocks(self, folder: Folder) -> None:
        folder.hook("guard", "return allow()")
        action, _, reason = folder.load().dispatch(
            "tool.pre", {"name": "t", "args": {"x": object()}}
        )
        assert action == "block"
        assert "cannot be given" in reason

    def test_a_file_in_monitor_mode_never_blocks(self, folder: Folder) -> None:
        folder.hook("guard", 'return block("x")', front="mode: monitor\n")
        assert folder.load().dispatch("tool.pre", {}).action == "allow"

    def test_an_event_that_there_is_not_is_an_error(self, folder: Folder) -> None:
        folder.hook("guard", "return allow()")
        with pytest.raises(ConfigError, match=r"unknown event `tool\.before`"):
            folder.load().dispatch("tool.before", {})

    def test_the_payload_cannot_be_changed_in_place(self, folder: Folder) -> None:
        folder.hook("guard", 'payload["args"]["x"] = 2\npayload["y"] = 1\nreturn allow()')
        given = {"args": {"x": 1}}
        assert folder.load().dispatch("tool.pre", given) == ("allow", {"args": {"x": 1}}, "")

    def test_a_dict_with_an_action_is_a_decision(self, folder: Folder) -> None:
        folder.hook("guard", 'return {"action": "block", "reason": "why"}')
        assert folder.load().dispatch("tool.pre", {}).reason == 'blocked by hook "guard": why'
        folder.hook("guard", 'return {"action": "modify", "payload": {"a": 1}}')
        assert folder.load().dispatch("tool.pre", {}) == ("modify", {"a": 1}, "")

    def test_a_folder_written_for_another_harness_loads_as_it_is(self, tmp_path: Path) -> None:
        hooks = tmp_path / ".harness" / "hooks"
        hooks.mkdir(parents=True)
        folder = Folder(hooks)
        folder.write("command_guard.md", GUARD)
        folder.hook(
            "meta_tool_guard",
            'if ".harness" in payload.get("args", {}).get("path", ""):\n    return block("no")\n'
            "return allow()",
            front='when: payload["name"].startswith("fs.")\n',
        )
        folder.hook("register", 'return block("no new tools")', "meta.register_tool")
        chain = load_hooks([hooks])
        call = {"name": "fs.write", "args": {"path": ".harness/hooks/x.md"}}
        assert chain.dispatch("tool.pre", call).reason == 'blocked by hook "meta_tool_guard": no'
        assert chain.dispatch("meta.register_tool", {"name": "x"}).action == "block"

    def test_a_run_has_a_cache_and_logs_of_its_own(self, folder: Folder) -> None:
        folder.hook(
            "count",
            'n = cache.get("n", 0) + 1\ncache.set("n", n)\nlog.info("call", n=n)\nreturn allow()',
        )
        folder.hook("end", 'return modify({"count": len(payload["logs"])})', "turn.end")
        chain = folder.load()
        for _ in range(2):
            chain.dispatch("turn.start", {"prompt": "p"})
            for _ in range(3):
                chain.dispatch("tool.pre", {"name": "t"})
            assert chain.dispatch("turn.end", {}).payload == {"count": 3}


def test_files_are_not_read_again(folder: Folder) -> None:
    folder.hook("guard", "return allow()")
    chain = folder.load()
    os.remove(folder.path / "guard.md")
    assert chain.dispatch("tool.pre", {}).action == "allow"
