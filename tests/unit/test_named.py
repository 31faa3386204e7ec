"""What a call names: paths, what is done to them, and commands."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest

from otelhooks.policy.commands import named
from otelhooks.policy.commands.named import Role
from otelhooks.policy.files import named_functions


def found(args: Any, *roles: Role) -> list[Any]:
    wanted = roles or (Role.BASE, Role.PATH, Role.PATCHED)
    return [each.value for each in named.walk(args) if each.role in wanted]


class Item(pydantic.BaseModel, extra="allow"):
    path: str


@dataclasses.dataclass
class Record:
    move_to: str
    n: int = 3


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({"moveTo": "a", "n": 1, "x": None}, ["a"]),
        ({"Cwd": "a", "edits": [{"new-path": "b"}]}, ["a", "b"]),
        ({"item": Item(path="a", file="b"), "type": Record}, ["a", "b"]),
        ({"item": {Record("a").move_to: Record("b")}}, ["b"]),
        ({"files": {"a": "x", "path": "y"}}, ["a", "x", "y"]),
        ({"files": {"a": "text\nof lines"}}, ["a"]),
        ({"files": [{"name": "b", "content": "c"}]}, ["name", "b"]),
        ({"path": {"content": "a"}}, ["a"]),
        ({"path": "a", "content": '{"path": "b"}'}, ["a"]),
        ({"content": '{"path": "b"}'}, ["b"]),
        ({"content": {"path": "b"}, "path": "a"}, ["b", "a"]),
        ({"x": '{"path": "a", "path": "b"}'}, ["a", "b"]),
        ({"x": '"{\\"path\\": \\"a\\"}"'}, ["a"]),
        ({"x": "{no json"}, []),
        ({"x": "[1, 2]"}, []),
        ({"path": 3}, [3]),
        ({"x": {1, 2}, "y": ({"path": "a"},)}, ["a"]),
    ],
)
def test_paths_in_arguments(args: Any, paths: list[Any]) -> None:
    assert found(args) == paths


def test_a_key_that_looks_like_a_path_is_a_text() -> None:
    assert found({"x": {"a/b": 1, "ab": 2}}, Role.TEXT) == ["a/b", 1, 2]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("*** Begin Patch\n*** Add File: a b.txt \n+x\n*** Move to: c", ["a b.txt", "c"]),
        ("  *** UPDATE FILE: a\r\n*** delete file:b", ["a", "b"]),
        ("--- a/x\t2026\n+++ b/x\n", ["a/x", "x", "b/x", "x"]),
        ("*** a\n--- b\n", ["a"]),
        ("rename from a\ncopy to b\nIndex: c", ["a", "b", "c"]),
        ('+++ "b/\\160"', ["b/p", "p"]),
        ("diff --git a/x b/y", ["a/x", "x", "b/y", "y"]),
        ("--- a note\n+++ /dev/null\n", ["a note"]),
        ("--- a note\nof nothing", []),
        ("+++ " + "x" * 4096, ["x" * 4096]),
        ("+++ " + "x" * 4097, []),
    ],
)
def test_files_of_a_patch(text: str, paths: list[str]) -> None:
    assert list(named.patched(text)) == paths


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("read_file", True),
        ("readFiles", True),
        ("list-directory", True),
        ("fs.read", False),
        ("grep", True),
        ("search_replace", False),
        ("searchReplace", False),
        ("view_and_edit", False),
        ("get_or_create", False),
        ("read2", False),
        ("GETFile", True),
        ("", False),
        ("unknown", False),
    ],
)
def test_a_tool_reads_only_if_its_adapter_or_every_word_of_its_name_says_so(
    name: str, reads: bool
) -> None:
    assert (named.use(name) == "read") is reads
    assert named.use(name, kind="file_read") == "read"
    assert named.use(name, canonical=["view_file"]) == "read"
    assert named.use(name, kind="file_write") == "write"
    assert named.use(name, canonical=["edit_file"]) == "write"
    assert (named.use(name, canonical=["mcp__disk__x"]) == "read") is reads


def test_what_runs_commands() -> None:
    assert named.is_shell("Bash", {})
    assert named.is_shell("write_stdin", {"chars": "x"})
    assert named.is_shell("mine", {"stdin": "x"})
    assert named.is_shell("mine", {}, kind="shell")
    assert named.is_shell("mine", {}, canonical=["run_command"])
    assert named.is_shell("mine", {}, canonical=["mine", "bash"])
    assert not named.is_shell("view_file", {"path": "x"})
    assert not named.is_shell("view_file", None)


def test_texts_of_a_call() -> None:
    args = {"a": ["x", 1, "y"], "b": {"k": "z"}, "c": '["u"]', "d": None}

    assert list(named.texts(args)) == [
        ("a", "x y"), ("a", "x"), ("a", "y"),
        ("b", "k"), ("b", "z"),
        ("c", '["u"]'), ("c", "u"), ("c", "u"),
    ]  # fmt: skip


def paths(tool: str, args: dict[str, Any], **more: Any) -> list[str]:
    listed = named_functions.paths({"name": tool, "args": args}, **more)
    return [each["path"] for each in listed]


class TestFunctions:
    """`named.paths` and `named.commands` of hook files."""

    def test_each_form_of_a_path_with_what_is_done_to_it(self) -> None:
        payload = {"name": "read_file", "args": {"path": "'a%2fb'", "n": 3, "x": "*** Add File: c"}}

        assert named_functions.paths(payload) == [
            {"argument": "path", "path": "'a%2fb'", "use": "read"},
            {"argument": "path", "path": "'a/b'", "use": "read"},
            {"argument": "path", "path": "a%2fb", "use": "read"},
            {"argument": "path", "path": "a/b", "use": "read"},
            {"argument": "x", "path": "c", "use": "write"},
        ]

    def test_other_texts_on_request(self) -> None:
        long = "./" * 3000
        args = {"where": "a", "lines": "a\nb", "long": long + "c", "much": "d" * 5000, "n": 3}

        assert paths("t", args) == []
        assert paths("t", args, texts=True) == ["a", long + "c"]

    def test_words_of_commands_on_request(self) -> None:
        args = {"command": "curl -ox https://a.example/y z"}

        assert paths("sh", args) == []
        assert paths("sh", args, texts=True) == ["curl", "-ox", "x", "z"]

    @pytest.mark.parametrize(
        ("path", "has"),
        [
            ("policies/a", True),
            ("x/POLICIES", True),
            ("x\\policies \\a", True),
            ("policies./a", True),
            ("pol*/a", True),
            ("p[a-o]licies", True),
            ("a.db", True),
            ("x/*/a", False),
            ("policies2/a", False),
            ("a.dbx", False),
        ],
    )
    def test_only_paths_with_a_part_of_that_name(self, path: str, has: bool) -> None:
        assert bool(paths("t", {"path": path}, parts=["policies", "*.db"])) is has

    def test_commands_as_a_shell_reads_them(self) -> None:
        payload = {"name": "sh", "args": {"command": "r''m $(ls)x; A=b /bin/r? y; * z"}}

        (read,) = named_functions.commands(payload)
        assert read["argument"] == "command"
        assert read["text"] == payload["args"]["command"]
        assert read["read"] == "ls ; rm $*x $* ; A=b /bin/r? y ; * z"
        (read,) = named_functions.commands(payload, programs=["rm"])
        assert read["read"] == "ls ; rm $*x $* ; A=b rm y ; * z"

    def test_a_tool_that_is_not_a_shell_runs_none(self) -> None:
        assert named_functions.commands({"name": "view_file", "args": {"path": "x"}}) == []
