"""`workspace_only`, attacked."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import pydantic
import pytest

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import paths, workspace


@pytest.fixture
def ws(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A workspace with a file, beside a secret and a directory of almost the same name."""
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "a.txt").write_text("e")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return root


def denied(
    ws: Any,
    args: dict[str, Any],
    *,
    tool: str = "view_file",
    canonical: str | None = None,
    **more: Any,
) -> bool:
    dirs = ws if isinstance(ws, list) else [ws]
    rules = policy.PolicySet(policy.workspace_only(dirs, **more))
    ruling = drive(rules.evaluate(Call(tool, args, path=canonical)))
    assert ruling.error is None
    return ruling.decision == "deny"


def _filled(value: Any, ws: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, ws) for key, item in value.items()}
    return value.replace("{ws}", ws)


class TestRules:
    def test_one_deny_a_file_tool(self, ws: pathlib.Path) -> None:
        rules = policy.workspace_only([ws])
        assert [(r.tool, r.name, r.decision) for r in rules] == [
            (tool.value, "workspace_only", policy.Decision.DENY)
            for tool in types.BuiltinTools.file_tools()
        ]

    def test_tools_are_added_and_may_be_listed_again(self, ws: pathlib.Path) -> None:
        rules = policy.workspace_only([ws], {"render": "template", "view_file": "where"})
        assert [r.tool for r in rules] == ["view_file", "create_file", "edit_file", "render"]

    def test_equal_ones_are_one_in_a_set(self, ws: pathlib.Path) -> None:
        rules = policy.workspace_only([ws])
        assert {*rules, *policy.workspace_only([ws])} == {*rules}

    def test_the_message(self, ws: pathlib.Path) -> None:
        rules = policy.PolicySet(policy.workspace_only([ws]))
        ruling = drive(rules.evaluate(Call("view_file", {"path": "/etc/passwd"})))
        assert ruling.message == "Denied by policy 'workspace_only'."
        assert ruling.rule is not None
        assert ruling.rule.id == "workspace_only:view_file"

    def test_every_file_tool_and_mapped_ones_are_covered(self, ws: pathlib.Path) -> None:
        for tool in ("view_file", "create_file", "edit_file"):
            assert denied(ws, {"path": "/etc/passwd"}, tool=tool)
        rules = policy.PolicySet(policy.workspace_only([ws]))
        call = Call("Read", {"path": "/etc/passwd"}, canonical=("view_file",))
        assert drive(rules.evaluate(call)).decision == "deny"

    def test_other_tools_are_not_touched(self, ws: pathlib.Path) -> None:
        assert not denied(ws, {"path": "/etc/passwd"}, tool="search_web")

    @pytest.mark.parametrize("dirs", ["/ws", b"/ws", pathlib.Path("/ws")])
    def test_one_directory_in_place_of_a_list_is_an_error(self, dirs: Any) -> None:
        with pytest.raises(ConfigError, match="takes a list of directories"):
            policy.workspace_only(dirs)

    @pytest.mark.parametrize("directory", ["", "  ", "a\0b", b"/ws"])
    def test_what_is_not_a_directory_is_an_error(self, directory: Any) -> None:
        with pytest.raises(ConfigError, match="is not a directory"):
            policy.workspace_only([directory])

    @pytest.mark.parametrize("given", ["", [], [""], [3]])
    def test_a_tool_without_an_argument_is_an_error(self, given: Any) -> None:
        with pytest.raises(ConfigError, match="no path argument is named"):
            policy.workspace_only(["."], {"t": given})

    def test_no_directory_leaves_no_place(self, ws: pathlib.Path) -> None:
        assert denied([], {"path": str(ws / "a.txt")})
        assert not denied([], {})

    def test_several_directories(self, ws: pathlib.Path, tmp_path: pathlib.Path) -> None:
        dirs = [ws, tmp_path / "ws-evil"]
        assert not denied(dirs, {"paths": [str(ws / "a.txt"), str(tmp_path / "ws-evil/a.txt")]})
        assert denied(dirs, {"path": str(tmp_path / "secret")})

    def test_the_root_contains_everything(self) -> None:
        assert not denied(["/"], {"path": "/etc/passwd"})

    def test_a_directory_of_the_user(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(ws.parent))
        assert not denied(["~/ws"], {"path": str(ws / "a.txt")})


class TestInside:
    def test_what_is_in_the_workspace_is_allowed(self, ws: pathlib.Path) -> None:
        for path in (ws / "a.txt", ws / "new" / "file", ws, f"{ws}/", f"{ws}/sub/../a.txt"):
            assert not denied(ws, {"path": str(path)})

    def test_no_path_is_not_denied(self, ws: pathlib.Path) -> None:
        assert not denied(ws, {})
        assert not denied(ws, {"content": "/etc/passwd", "n": 3})
        assert not denied(ws, {"path": None})

    def test_a_file_below_a_file_can_only_fail(self, ws: pathlib.Path) -> None:
        assert not denied(ws, {"path": str(ws / "a.txt" / "x")})

    def test_a_link_inside_and_a_workspace_behind_a_link(
        self, ws: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        (ws / "link").symlink_to(ws / "a.txt")
        (tmp_path / "door").symlink_to(ws)
        assert not denied(ws, {"path": str(ws / "link")})
        assert not denied(tmp_path / "door", {"path": str(ws / "a.txt")})
        assert not denied(ws, {"path": str(tmp_path / "door" / "a.txt")})

    def test_path_objects_and_bytes(self, ws: pathlib.Path, tmp_path: pathlib.Path) -> None:
        assert not denied(ws, {"path": ws / "a.txt"})
        assert not denied(ws, {"path": os.fsencode(ws / "a.txt")})
        assert denied(ws, {"path": tmp_path / "secret"})
        assert denied(ws, {"path": os.fsencode(tmp_path / "secret")})

    def test_file_urls(self, ws: pathlib.Path) -> None:
        assert not denied(ws, {"path": f"file://{ws}/a.txt"})
        assert not denied(ws, {"path": f"file://localhost{ws}/a%20b.txt"})
        assert not denied(ws, {"path": f"FILE:{ws}/a.txt"})


class TestOutside:
    @pytest.mark.parametrize(
        "path",
        [
            "/etc/passwd",
            " /etc/passwd",
            "\n/etc/passwd",
            "{ws}-evil/a.txt",
            "{ws}/../secret",
            "{ws}/sub/../../secret",
            "{ws}/new/../../secret",
            "{ws}/./sub/.././../secret",
            "{ws}/..",
            "{ws}\\..\\secret",
            "{ws}/sub\\..\\..\\secret",
            "{ws}/%2e%2e/secret",
            "{ws}/..%2fsecret",
            "{ws}/\0",
            "{ws}/a.txt\0/../../secret",
            "~",
            "~/.ssh/id_rsa",
            "~root/.ssh",
            "~nobody-of-this-name/x",
            "{ws}/$OTELHOOKS_TEST_UP/secret",
            "$OTELHOOKS_TEST_SECRET",
            "file:///etc/passwd",
            "File:///etc/passwd",
            " file:///etc/passwd",
            "file:/etc/passwd",
            "file://localhost/etc/passwd",
            "file://other-host{ws}/a.txt",
            "file://{ws}/../secret",
            "file://{ws}/%2e%2e/secret",
            "file:///etc/passwd#/{ws}/a.txt",
            "file:///etc/passwd?x={ws}/a.txt",
            "file://{ws}/a.txt%00",
            "https://example.com/x",
            "s3://bucket/x",
            "local:///etc/passwd",
            "C:\\Windows\\system.ini",
            "c:/Windows",
            "C:",
            "\\\\host\\share\\x",
            "//etc/passwd",
            "/proc/self/root/etc/passwd",
            "/proc/self/cwd/../secret",
            "",
            ".",
            "..",
            "a.txt",
            "\udcff",
            "x" * 5000,
        ],
    )
    def test_a_path_that_leads_out(
        self, ws: pathlib.Path, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTELHOOKS_TEST_UP", "..")
        monkeypatch.setenv("OTELHOOKS_TEST_SECRET", "/etc/passwd")
        assert denied(ws, {"path": path.replace("{ws}", str(ws))})

    @pytest.mark.parametrize("times", range(6))
    def test_percent_signs_are_decoded_up_to_four_times(self, ws: pathlib.Path, times: int) -> None:
        path = "../secret"
        for _ in range(times):
            path = path.replace("%", "%25").replace(".", "%2e")
        assert denied(ws, {"AbsolutePath": f"{ws}/{path}"}) is (times <= 4)

    def test_case_counts_where_the_file_system_counts_it(self, ws: pathlib.Path) -> None:
        if os.path.exists(str(ws).swapcase()):
            pytest.skip("this file system folds case")
        assert denied(ws, {"path": str(ws.parent / "WS" / "a.txt")})

    def test_links_out(self, ws: pathlib.Path, tmp_path: pathlib.Path) -> None:
        (ws / "file").symlink_to(tmp_path / "secret")
        (ws / "dir").symlink_to(tmp_path)
        (ws / "dangling").symlink_to(tmp_path / "not-there")
        (ws / "relative").symlink_to("../secret")
        (ws / "hop").symlink_to(ws / "dir")
        for path in ("file", "dir/secret", "dir", "dangling", "relative", "hop/secret", "dir/new"):
            assert denied(ws, {"path": str(ws / path)})

    def test_dots_after_a_link_are_taken_where_the_link_leads(
        self, ws: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        (tmp_path / "elsewhere" / "deep").mkdir()
        (ws / "dir").symlink_to(tmp_path / "elsewhere" / "deep")
        assert denied(ws, {"path": f"{ws}/dir/../../ws-evil/a.txt"})
        assert denied(ws, {"path": f"{ws}/dir/../a.txt"})

    def test_a_loop_cannot_be_resolved(self, ws: pathlib.Path) -> None:
        (ws / "loop").symlink_to(ws / "loop")
        assert denied(ws, {"path": str(ws / "loop")})

    def test_a_working_directory_that_is_gone_cannot_be_resolved(
        self, ws: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        (tmp_path / "elsewhere").rmdir()
        assert denied(ws, {"path": "a.txt"})

    @pytest.mark.parametrize("value", [3, 3.5, True, object(), {"fd": 3}, [None, 3]])
    def test_what_is_not_a_path_is_outside(self, ws: pathlib.Path, value: Any) -> None:
        assert denied(ws, {"path": value})


class TestArguments:
    @pytest.mark.parametrize("name", policy.PATH_ARGUMENTS)
    def test_every_published_argument_is_looked_at(self, ws: pathlib.Path, name: str) -> None:
        assert denied(ws, {name: "/etc/passwd"})
        assert not denied(ws, {name: str(ws / "a.txt")})

    @pytest.mark.parametrize(
        "name", ["AbsolutePath", "TargetFile", "targetFile", "target-file", "PATH", "filename"]
    )
    def test_names_are_the_same_in_every_spelling(self, ws: pathlib.Path, name: str) -> None:
        assert denied(ws, {name: "/etc/passwd"})

    def test_every_path_counts(self, ws: pathlib.Path) -> None:
        inside = str(ws / "a.txt")
        assert denied(ws, {"path": inside, "destination": "/etc/passwd"})
        assert denied(ws, {"paths": [inside, "/etc/passwd"]})
        assert denied(ws, {"paths": (inside, {"x": ["/etc/passwd"]})})
        assert not denied(ws, {"path": inside, "destination": inside})

    def test_paths_at_any_depth(self, ws: pathlib.Path) -> None:
        class Model(pydantic.BaseModel, extra="allow"):
            path: str

        @dataclasses.dataclass
        class Record:
            file: str

        for hidden in (
            {"options": {"deep": {"path": "/etc/passwd"}}},
            {"edits": [{"n": 1}, {"file": "/etc/passwd"}]},
            {"edits": ({"file": "/etc/passwd"},)},
            {"input": Model(path="/etc/passwd")},
            {"input": Model(path=str(ws), file="/etc/passwd")},
            {"input": [Record("/etc/passwd")]},
            {"path": Record("/etc/passwd")},
            {"path": Model(path="/etc/passwd")},
            {3: {"path": "/etc/passwd"}},
        ):
            assert denied(ws, hidden)  # type: ignore[arg-type]
        assert not denied(ws, {"input": Model(path=str(ws)), "type": Record})

    def test_a_structure_without_an_end_denies(self, ws: pathlib.Path) -> None:
        loop: dict[str, Any] = {}
        loop["x"] = loop
        rules = policy.PolicySet(policy.workspace_only([ws]))
        assert drive(rules.evaluate(Call("view_file", loop))).decision == "deny"


class TestRelative:
    def test_they_are_relative_to_the_working_directory(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert denied(ws, {"path": "a.txt"})
        monkeypatch.chdir(ws / "sub")
        assert not denied(ws, {"path": "new"})
        assert not denied(ws, {"path": "../a.txt"})
        assert denied(ws, {"path": "../../secret"})
        assert not denied(ws, {"path": ""})

    def test_they_are_relative_to_a_directory_of_the_call_and_to_the_working_directory(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("cwd", "root", "directory", "workingDirectory"):
            assert denied(ws, {name: str(ws), "path": "a.txt"})  # a tool may not know the argument
        monkeypatch.chdir(ws)
        for name in ("cwd", "root", "directory", "workingDirectory"):
            assert not denied(ws, {name: str(ws), "path": "a.txt"})
            assert denied(ws, {name: str(ws), "path": "../secret"})
            assert denied(ws, {name: "/", "path": f".{ws}/a.txt"})
            assert denied(ws, {name: "/etc", "path": "passwd"})

    def test_directories_of_the_call_add_up(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(ws)
        assert not denied(ws, {"root": str(ws), "directory": "sub", "file": "a.txt"})
        assert denied(ws, {"root": str(ws), "directory": "sub", "file": "../../secret"})
        assert denied(ws, {"root": str(ws), "directory": "..", "file": "a.txt"})
        monkeypatch.chdir(ws / "sub")
        assert not denied(ws, {"cwd": "..", "path": "a.txt"})
        assert denied(ws, {"cwd": "..", "path": ".."})
        assert denied(ws, {"cwd": "..", "path": "../secret"})

    def test_an_argument_that_the_tool_may_not_know_does_not_help(
        self, ws: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert denied(ws, {"cwd": str(ws), "path": "secret"})

    def test_they_are_relative_to_where_the_tool_works_if_that_is_known(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rules = policy.PolicySet(policy.workspace_only([ws]))

        def decision(work_dir: pathlib.Path) -> str:
            call = Call("view_file", {"path": "a.txt"}, work_dir=str(work_dir))
            return drive(rules.evaluate(call)).decision

        assert decision(ws) == "allow"
        monkeypatch.chdir(ws)
        assert decision(ws.parent) == "deny"

    @pytest.mark.parametrize(
        "invented",
        [{"cwd": "{ws}/sub/deep"}, {"root": "{ws}/a/b"}, {"meta": {"cwd": "{ws}/a/b/c"}}],
    )
    def test_an_argument_that_a_model_makes_up_does_not_lift_the_path_of_a_file_that_is_not_there(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch, invented: dict[str, Any]
    ) -> None:
        """The class: a base that the framework drops, so that the tool opens something else."""
        monkeypatch.chdir(ws)
        (ws.parent / "evil.txt").unlink(missing_ok=True)
        named = _filled(invented, str(ws))
        assert denied(ws, {"path": "../evil.txt", **named}, tool="create_file")
        assert not denied(ws, {"path": "sub/new.txt", **named}, tool="create_file")


class TestCanonicalPath:
    def test_it_counts_where_it_is_known(self, ws: pathlib.Path) -> None:
        assert denied(ws, {}, canonical="/etc/passwd")
        assert not denied(ws, {}, canonical=str(ws / "a.txt"))

    def test_a_relative_argument_beside_it_is_its_other_spelling(self, ws: pathlib.Path) -> None:
        assert not denied(ws, {"path": "sub/x"}, canonical=str(ws / "sub/x"))

    @pytest.mark.parametrize("name", ["move_to", "destination_path", "new_path", "source"])
    def test_a_second_path_beside_it_is_looked_at(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """The class: the path that the framework reads is one of several that the tool opens."""
        (ws / "vendor").symlink_to(ws.parent / "elsewhere")
        from_elsewhere = {"path": "a.txt", name: "b.txt"}
        assert denied(ws, from_elsewhere, canonical=str(ws / "a.txt"))
        assert denied(ws, {"path": str(ws / "a.txt"), name: "a.txt"}, canonical=str(ws / "a.txt"))
        rules = policy.PolicySet(policy.workspace_only([ws]))
        for here in (ws.parent / "elsewhere", ws):
            monkeypatch.chdir(here)
            for second, decision in (("b.txt", "allow"), ("vendor/b.txt", "deny")):
                args = {"path": "a.txt", name: second}
                call = Call("edit_file", args, path=str(ws / "a.txt"), work_dir=str(ws))
                assert drive(rules.evaluate(call)).decision == decision
        for canonical in ("a.txt", str(ws / "a.txt")):
            assert not denied(ws, from_elsewhere, canonical=canonical)
            assert denied(ws, {"path": "a.txt", name: "vendor/b.txt"}, canonical=canonical)

    @pytest.mark.parametrize(
        "path",
        ["/etc/passwd", " /etc/passwd", "../secret", "sub/../../secret", "~/x", "$HOME/x",
         "file:///etc/passwd", "C:\\x", "\\\\host\\x", "..\\secret", "%2e%2e/secret"],
    )  # fmt: skip
    def test_an_argument_beside_it_that_may_lead_elsewhere_is_looked_at(
        self, ws: pathlib.Path, path: str
    ) -> None:
        assert denied(ws, {"path": path}, canonical=str(ws / "a.txt"))
        assert denied(ws, {"cwd": path}, canonical=str(ws / "a.txt"))

    def test_an_argument_inside_does_not_help_it(self, ws: pathlib.Path) -> None:
        assert denied(ws, {"path": str(ws / "a.txt")}, canonical="/etc/passwd")

    def test_a_value_that_is_not_text_is_looked_at(self, ws: pathlib.Path) -> None:
        assert denied(ws, {"path": 3}, canonical=str(ws / "a.txt"))


class TestListedTools:
    def test_the_argument_that_was_named_is_looked_at(self, ws: pathlib.Path) -> None:
        tools = {"render": "template", "copy": ["a", "b"]}
        assert denied(ws, {"template": "/etc/passwd"}, tool="render", tools=tools)
        assert not denied(ws, {"template": str(ws / "t")}, tool="render", tools=tools)
        assert denied(ws, {"a": str(ws), "b": "/etc/passwd"}, tool="copy", tools=tools)
        assert not denied(ws, {"source": "/etc/passwd"}, tool="render", tools=tools)
        assert not denied(ws, {}, tool="render", tools=tools)

    def test_it_may_be_relative_to_a_directory_of_the_call(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(ws)
        tools = {"render": "template"}
        assert not denied(ws, {"cwd": str(ws), "template": "t"}, tool="render", tools=tools)
        assert denied(ws, {"cwd": "/etc", "template": "t"}, tool="render", tools=tools)

    def test_a_text_that_the_server_decodes_and_a_key_are_paths(
        self, ws: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The class: what a rule sees as one text, or as a name, and the tool as paths."""
        monkeypatch.chdir(ws)
        tools = {"disk/write_all": "where"}
        rules = policy.PolicySet(policy.workspace_only([ws], tools))
        for where, decision in (
            ('["/etc/passwd"]', "deny"),
            ('{"/etc/passwd": "x"}', "deny"),
            ({"/etc/passwd": "x"}, "deny"),
            (f'["{ws}/a.txt", "b.txt"]', "allow"),
            ({str(ws / "a.txt"): "two\nlines"}, "allow"),
        ):
            call = Call("write_all", {"where": where}, server="disk")
            assert drive(rules.evaluate(call)).decision == decision

    def test_a_canonical_tool_keeps_its_other_arguments(self, ws: pathlib.Path) -> None:
        tools = {"view_file": "where"}
        assert denied(ws, {"where": "/etc/passwd"}, tools=tools)
        assert denied(ws, {"where": str(ws), "path": "/etc/passwd"}, tools=tools)

    def test_a_tool_of_a_server(self, ws: pathlib.Path) -> None:
        rules = policy.PolicySet(policy.workspace_only([ws], {"disk/read": "p"}))
        call = Call("read", {"p": "/etc/passwd"}, server="disk")
        assert drive(rules.evaluate(call)).decision == "deny"


class TestCaseFolding:
    def test_where_the_file_system_folds_case(self) -> None:
        place = paths.Folder("/Data/Ws", folds_case=True)
        assert place.contains("/data/WS/x")
        assert place.contains("/DATA/ws")
        assert not place.contains("/data/ws-evil")
        strict = paths.Folder("/Data/Ws", folds_case=False)
        assert not strict.contains("/data/WS/x")

    def test_one_letter_in_two_forms_of_unicode(self) -> None:
        place = paths.Folder("/caf\u00e9", folds_case=True)
        assert place.contains("/cafe\u0301/x")

    def test_it_is_tried_out(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os.path, "samefile", lambda a, b: True)
        assert paths._folds_case("/a")
        monkeypatch.setattr(os.path, "samefile", lambda a, b: False)
        assert not paths._folds_case("/a")
        assert not paths._folds_case("/1")

    def test_a_directory_that_is_not_there_folds_as_the_platform_does(self) -> None:
        assert paths._folds_case("/not/there") is (os.path.normcase("A") == "a")


class TestTime:
    @pytest.fixture
    def looked_up(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Paths that were looked up in the file system."""
        found: list[str] = []

        def noting(path: str) -> str:
            found.append(path)
            return real_path(path)

        real_path = paths.real_path
        monkeypatch.setattr(workspace, "real_path", noting)
        return found

    @pytest.mark.parametrize("count", [150, 3_000])
    @pytest.mark.parametrize("start", ["", "{ws}/"], ids=["relative", "absolute"])
    def test_more_places_than_any_tool_needs_are_denied_at_once(
        self, ws: pathlib.Path, monkeypatch, looked_up, start: str, count: int
    ) -> None:
        monkeypatch.chdir(ws)
        folders = [start.format(ws=ws) + f"c{number}" for number in range(count)]
        assert denied(ws, {"path": [f"a{number}" for number in range(count)], "cwd": folders})
        assert len(looked_up) <= 10_000

    def test_the_first_path_outside_is_the_last_that_is_looked_up(
        self, ws: pathlib.Path, monkeypatch, looked_up
    ) -> None:
        monkeypatch.chdir(ws)
        assert denied(ws, {"path": ["../secret", *(f"a{number}" for number in range(1_000))]})
        assert len(looked_up) == 1

    def test_an_equal_path_is_looked_up_once(
        self, ws: pathlib.Path, monkeypatch, looked_up
    ) -> None:
        monkeypatch.chdir(ws)
        folders = [os.fspath(ws / "sub")] * 500
        assert not denied(ws, {"path": ["a.txt"] * 1_000, "cwd": folders})
        assert len(looked_up) == len(set(looked_up)) <= 4

    def test_many_paths_in_one_directory_are_allowed(self, ws: pathlib.Path, monkeypatch) -> None:
        monkeypatch.chdir(ws)
        assert not denied(ws, {"path": [f"a{number}" for number in range(3_000)], "cwd": "sub"})
