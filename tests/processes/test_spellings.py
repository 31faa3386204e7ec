"""One file and one command in many spellings, against tools that open files and shells that run.

Of each guard: a call that reaches the forbidden file, or runs the forbidden command, when it is
really done must be denied; ordinary calls must not be. What is known to get through is in
`UNSEEN`, and on the guards' pages.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import packs
from otelhooks.policy.files.protection import protect
from otelhooks.policy_tools.subject import Subject
from tests.processes import spellings

Denies = Callable[..., bool]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="paths and shells of POSIX")


class World:
    """A workspace with policy files, and a folder beside it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.app = root / "app"
        self.policy = self.app / "policies" / "base.yaml"
        self.setting = self.app / "conf" / "policy.yaml"
        self.outside = root / "outside" / "base.yaml"
        self.victim = root / "victim"
        self.restore()

    def restore(self) -> None:
        for folder in ("app/policies", "app/conf", "app/data/deep", "outside", "home", "victim"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for file in (self.policy, self.setting, self.outside):
            file.unlink(missing_ok=True)
            file.write_text("as it was")
        if not (self.app / "notes.txt").exists():
            (self.app / "notes.txt").write_text("x\n")
        if not (self.app / "link").is_symlink():
            (self.app / "link").symlink_to("policies")

    def was_reached(self, file: pathlib.Path) -> bool:
        """Return whether a file was changed, and put all back."""
        if _is_as_it_was(file):
            return False
        self.restore()
        return True

    def run(self, shell: str, command: str) -> None:
        """Run a command in the workspace."""
        subprocess.run(
            [shell, "-c", command],
            cwd=self.app,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )


def _is_as_it_was(file: pathlib.Path) -> bool:
    return file.is_file() and file.read_text() == "as it was"


def _stand_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.app)
    monkeypatch.setenv("PWD", str(world.app))
    monkeypatch.setenv("HOME", str(world.root / "home"))
    monkeypatch.setenv("FOLDER", "policies")
    for name in ("a", "b", "d", "f", "i", "n", "p", "r", "x", "y", "dir", "file", "token"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path.resolve())
    _stand_in(made, monkeypatch)
    return made


# -- guards -----------------------------------------------------------------------------------


def _of_pack(name: str) -> Denies:
    folder = packs.folder("governed")
    assert folder is not None
    dry = Subject.open([str(folder / f"{name}.md")]).dry_run()
    return lambda tool, args, **fields: dry.judge(Call(tool, args, **fields)).decision == "deny"


def _of_rules(rules: policy.PolicySet) -> Denies:
    def denies(tool: str, args: dict[str, Any], **fields: Any) -> bool:
        ruling = drive(rules.evaluate(Call(tool, args, **fields)))
        return ruling.decision == "deny"

    return denies


def _guard(name: str, world: World) -> Denies:
    if name == "workspace_only":
        return _of_rules(policy.PolicySet(policy.workspace_only([world.app])))
    if name == "guard_of_a_file":
        return _of_rules(policy.PolicySet(sources=[protect([str(world.setting)], monitor=False)]))
    if name == "policy_files_guard":
        rules = protect([str(world.app / "policies")], monitor=False)
        return _of_rules(policy.PolicySet(sources=[rules]))
    return _of_pack(name)


# -- tools that open files --------------------------------------------------------------------


def _write(path: str) -> None:
    with open(path, "a") as file:  # to cut a file off and close it waits for some disks
        file.write("changed")


READINGS: list[Callable[[str], str]] = [
    str,
    os.path.normpath,
    lambda path: os.path.expandvars(os.path.expanduser(path)),
    urllib.parse.unquote,
    lambda path: urllib.parse.unquote(urllib.parse.unquote(path)),
    lambda path: urllib.request.url2pathname(urllib.parse.urlsplit(path).path),
    lambda path: path.replace("\\", "/"),
    lambda path: urllib.parse.unquote(path).replace("\\", "/"),
    lambda path: path.strip().strip("'\"`").strip(),
]
"""How tools get from what a model says to what they open."""


def _try(function: Callable[..., None], *args: Any) -> None:
    try:
        function(*args)
    except (OSError, ValueError):
        pass


def _patch(text: str) -> None:
    """Change the files that a patch names, with and without their first folder."""
    for line in text.splitlines():
        found = re.match(r"\s*\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)", line)
        found = found or re.match(
            r"(?:\+\+\+|---|(?:rename|copy) to|diff --git \S+) ([^\t]+)", line
        )
        if found is not None:
            name = found[1].strip()
            if name.startswith('"'):
                name = name.strip('"').encode().decode("unicode_escape")
            for path in (name, name.partition("/")[2]):
                _try(_write, path)


def _do(args: dict[str, Any]) -> None:
    """Do with arguments what some tool does with them."""
    bases = [value for name, value in args.items() if name in {"cwd", "root", "base_dir"}]
    for text in _texts(args):
        for read in READINGS:
            _try(lambda read=read, text=text: _write(read(text)))
        for base in bases:
            _try(_write, os.path.join(base, text))
        _try(_patch, text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
        if value.strip()[:1] in {"[", "{", '"'}:
            try:
                yield from _texts(json.loads(value))
            except ValueError:
                pass


# -- spellings ----------------------------------------------------------------------


def _fill(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_fill(key, names): _fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, names) for item in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
    return value


def _spelled(world: World, file: pathlib.Path) -> list[dict[str, Any]]:
    path = os.path.relpath(file, world.app)
    folder, name = os.path.split(path)
    percent = "".join(f"%{ord(sign):02x}" for sign in path)
    names = {
        "p": path,
        "dir": folder,
        "name": name,
        "abs": str(file),
        "absdir": str(file.parent),
        "root": str(world.root),
        "p_dots": "/./".join(path.split("/")),
        "abs_dots": "/./".join(str(file).split("/")),
        "dots": "./" * 600,
        "percent": percent,
        "percent_twice": percent.replace("%", "%25"),
    }
    return [
        _fill(args, names)
        for args in [*({"path": text} for text in spellings.TEXTS), *spellings.SHAPES]
    ]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("outside", ["workspace_only", "path_guard"]),
        ("policy", ["policy_files_guard", "meta_tool_guard"]),
    ],
)
def test_a_path_in_any_spelling_that_a_tool_opens_is_denied(
    world: World, target: str, names: list[str]
) -> None:
    guards = {name: _guard(name, world) for name in names}
    file = getattr(world, target)
    reached, missed = 0, []
    for args in _spelled(world, file):
        allows = [name for name, denies in guards.items() if not denies("create_file", args)]
        _do(args)
        if world.was_reached(file):
            reached += 1
            missed += [(name, args) for name in allows]
    assert missed == []
    assert reached >= 60


def _in_shells(plain: list[str], in_bash: list[str]) -> list[tuple[str, str]]:
    bash = shutil.which("bash")
    found = [("/bin/sh", command) for command in plain]
    return found + ([(bash, command) for command in in_bash] if bash is not None else [])


def test_a_command_in_any_spelling_that_changes_a_policy_file_is_denied(world: World) -> None:
    guards = {name: _guard(name, world) for name in ("policy_files_guard", "meta_tool_guard")}
    reached, missed = 0, []
    for shell, command in _in_shells(spellings.TO_POLICIES, spellings.TO_POLICIES_IN_BASH):
        args = {"command": command}
        allows = [name for name, denies in guards.items() if not denies("run_command", args)]
        world.run(shell, command)
        if world.was_reached(world.policy):
            reached += 1
            missed += [(name, command) for name in allows]
    assert missed == [("meta_tool_guard", command) for command in spellings.SEEN_ON_DISK_ONLY]
    assert reached >= 60


def test_a_destructive_command_in_any_spelling_that_runs_is_denied(world: World) -> None:
    """`rm -rf` of an absolute path: here a folder that the test made."""
    denies = _guard("command_guard", world)
    reached, missed = 0, []
    in_bash = [*spellings.DESTROY_IN_BASH, *spellings.DESTROY_BUILT]
    for shell, line in _in_shells(spellings.DESTROY, in_bash):
        command = line.replace("{v}", str(world.victim))
        denied = denies("run_command", {"command": command})
        world.run(shell, command)
        if not world.victim.exists():
            reached += 1
            missed += [] if denied else [command]
        world.restore()
    assert missed == []
    assert reached >= 60


def test_a_name_that_bash_builds_or_a_program_finds_is_denied(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is not modelled is unknown, and may be the protected path, program or option."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    reached, missed = 0, []
    for number, command in enumerate([*spellings.NAMES_BUILT, *spellings.WRITTEN_ELSEWHERE]):
        world = World(tmp_path.resolve() / str(number))
        _stand_in(world, monkeypatch)
        files = {"policy_files_guard": world.policy, "guard_of_a_file": world.setting}
        allows = [n for n in files if not _guard(n, world)("run_command", {"command": command})]
        world.run(bash, command)
        changed = [n for n, file in files.items() if not _is_as_it_was(file)]
        reached += bool(changed)
        missed += [(name, command) for name in changed if name in allows]
    assert missed == []
    assert reached >= 120


@pytest.mark.parametrize("command", spellings.UNSEEN)
def test_what_a_command_makes_up_as_it_runs_is_not_seen(world: World, command: str) -> None:
    """As the page of the guard says: this is why another user should own the files."""
    assert not _guard("policy_files_guard", world)("run_command", {"command": command})
    world.run("/bin/sh", command)
    assert world.was_reached(world.policy)


@pytest.mark.parametrize(
    "name",
    ["workspace_only", "policy_files_guard", "path_guard", "meta_tool_guard", "command_guard"],
)
def test_ordinary_calls_are_allowed(world: World, name: str) -> None:
    denies = _guard(name, world)
    commands = [("run_command", {"command": command}) for command in spellings.ORDINARY_COMMANDS]

    assert [call for call in (*spellings.ORDINARY, *commands) if denies(*call)] == []


@pytest.mark.parametrize("command", spellings.HARMLESS_COMMANDS, ids=lambda text: text[:60])
def test_what_is_unknown_and_written_nowhere_protected_is_allowed(
    world: World, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown word is harmless if a program only reads it, or it cannot lead there."""
    monkeypatch.setenv(
        "PATH", "/usr/bin:/bin"
    )  # no folder of the machine's own is called otelhooks
    for name in ("policy_files_guard", "guard_of_a_file", "meta_tool_guard", "command_guard"):
        assert (name, _guard(name, world)("run_command", {"command": command})) == (name, False)
