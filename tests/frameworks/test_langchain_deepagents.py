"""What is built on langchain: deep agents, supervisors, swarms. The contract, and their tools."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("deepagents", reason="needs Python 3.11")

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import SeatError
from otelhooks.patching import versions
from tests.frameworks.agents_deepagents import PATHS
from tests.frameworks.agents_langchain import ScriptedModel, agent, begin, said, tools_of
from tests.frameworks.contract import ANSWER, DANGER, REASON, Ask, Contract, World

GUARDED = "Policy files cannot be changed from here."


class TestBuiltOnLangchain(Contract):
    framework = "langchain"
    paths = PATHS


@pytest.fixture
def start(with_rules: Callable[..., otelhooks.Handle]) -> Callable[..., otelhooks.Handle]:
    """Instrument with rules and settings."""
    return functools.partial(with_rules, frameworks=["langchain"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside the working directory, with a policy file."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / "policies").mkdir(parents=True)
    (tmp_path / "home" / "policies" / "p.yaml").write_text("policies:\n  - deny: nothing\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home"


def run(ask: Ask, *, is_async: bool = False, **settings: Any) -> World:
    """Run an agent with deepagents' file tools, whose model asks for one."""
    world = World((ask,), ANSWER)
    graph = agent(world, middleware=[FilesystemMiddleware(**settings)])
    result = anyio.run(graph.ainvoke, begin("go")) if is_async else graph.invoke(begin("go"))
    assert said(result) == ANSWER
    return world


FILE: dict[str, Any] = {"file_path": "/a.txt"}
TOOLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("ls", {"path": "/"}, "list_directory", "file_read"),
    ("read_file", FILE, "view_file", "file_read"),
    ("write_file", {**FILE, "content": "x"}, "create_file", "file_write"),
    ("edit_file", {**FILE, "old_string": "x", "new_string": "y"}, "edit_file", "file_write"),
    ("delete", FILE, "edit_file", "file_write"),
    ("glob", {"pattern": "*"}, "find_file", "file_read"),
    ("grep", {"pattern": "x"}, "search_directory", "file_read"),
    ("execute", {"command": "ls"}, "run_command", "shell"),
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("name", "args", "canonical", "kind"), TOOLS, ids=[t[0] for t in TOOLS])
def test_a_file_tool_of_deepagents_has_its_canonical_name_and_its_kind(
    start: Any, name: str, args: dict[str, Any], canonical: str, kind: str, is_async: bool
) -> None:
    """In an agent of langchain with deepagents' middleware alone, too."""
    if name not in {str(getattr(tool, "name", "")) for tool in FilesystemMiddleware().tools}:
        pytest.skip("this release has no such tool")
    for rule in (policy.deny(canonical, reason=REASON), policy.veto(f"kind:{kind}", reason=REASON)):
        start(rule)
        assert REASON in run(Ask(name, args), is_async=is_async).told
        otelhooks.uninstrument()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("prefix", ["", "/ws"])
def test_a_backend_with_a_root_of_its_own_leaves_policy_files_alone(
    start: Any, home: Path, prefix: str, is_async: bool
) -> None:
    """The class: a path of a tool leads elsewhere than it seems: the backend has its own root."""
    backend: Any = FilesystemBackend(root_dir=str(home), virtual_mode=True)
    if prefix:
        outside = FilesystemBackend(root_dir=str(home.parent / "elsewhere"), virtual_mode=True)
        backend = CompositeBackend(outside, {f"{prefix}/": backend})
    before = (home / "policies" / "p.yaml").read_text()
    asks = [
        Ask("write_file", {"file_path": f"{prefix}/policies/new.yaml", "content": "policies: []"}),
        Ask(
            "edit_file",
            {
                "file_path": f"{prefix}/policies/p.yaml",
                "old_string": "deny",
                "new_string": "allow",
            },
        ),
    ]
    start(str(home / "policies"))
    for ask in asks:
        assert GUARDED in run(ask, backend=backend, is_async=is_async).told
    note = Ask("write_file", {"file_path": f"{prefix}/note.txt", "content": "text"})
    assert GUARDED not in run(note, backend=backend, is_async=is_async).told
    assert (home / "note.txt").read_text() == "text"
    assert [path.name for path in (home / "policies").iterdir()] == ["p.yaml"]
    assert (home / "policies" / "p.yaml").read_text() == before


@pytest.mark.parametrize(
    "path",
    [
        "./mem/policies/p.yaml",
        "mem//policies/p.yaml",
        ".//mem/./policies/p.yaml",
        "mem\\policies/p.yaml",
    ],
)
def test_a_path_is_routed_as_deepagents_spells_it(start: Any, home: Path, path: str) -> None:
    """The class: another spelling of a path is routed to another backend than the one judged."""
    outside = FilesystemBackend(root_dir=str(home.parent / "elsewhere"), virtual_mode=True)
    inside = FilesystemBackend(root_dir=str(home), virtual_mode=True)
    backend = CompositeBackend(outside, {"/mem/": CompositeBackend(inside, {"/x/": outside})})
    before = (home / "policies" / "p.yaml").read_text()
    start(str(home / "policies"))
    edit = {"file_path": path, "old_string": "deny", "new_string": "allow"}
    assert GUARDED in run(Ask("edit_file", edit), backend=backend).told
    write = {"file_path": path.replace("p.yaml", "new.yaml"), "content": "policies: []"}
    assert GUARDED in run(Ask("write_file", write), backend=backend).told
    assert (home / "policies" / "p.yaml").read_text() == before
    assert [path.name for path in (home / "policies").iterdir()] == ["p.yaml"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", [None, "/", "."])
@pytest.mark.parametrize("name", ["grep", "glob"])
def test_a_search_of_everything_leads_to_every_backend(
    start: Any, home: Path, name: str, path: str | None, is_async: bool
) -> None:
    """The class: one call reaches several folders, one of them outside the workspace."""
    (home / "a.txt").write_text("word")
    (home.parent / "elsewhere" / "b.txt").write_text("word")
    inside = FilesystemBackend(root_dir=str(home), virtual_mode=True)
    notes = FilesystemBackend(root_dir=str(home / "policies"), virtual_mode=True)
    outside = FilesystemBackend(root_dir=str(home.parent / "elsewhere"), virtual_mode=True)
    places: list[str | None] = []

    def leads_out(call: types.ToolCall) -> bool:
        places.append(call.canonical_path)
        return not str(call.canonical_path).startswith(str(home))

    rules = [policy.deny(each, when=leads_out) for each in ("search_directory", "find_file")]
    args = {"pattern": "word" if name == "grep" else "*.txt"}
    args |= {} if path is None else {"path": path}
    start(*rules)
    for routes, is_denied in (
        ({"/out/": outside}, True),
        ({"/in/": CompositeBackend(inside, {"/out/": outside})}, True),
        ({"/in/": notes}, False),
    ):
        backend = CompositeBackend(inside, routes)
        world = run(Ask(name, args), backend=backend, is_async=is_async)
        assert ("Denied by policy" in world.told) is is_denied
    assert places == [str(home.parent), str(home.parent), str(home)]
    below = run(Ask(name, {**args, "path": "/policies"}), backend=CompositeBackend(inside, routes))
    assert "Denied" not in below.told


def test_a_relative_path_is_absolute_where_a_backend_has_no_root(start: Any, home: Path) -> None:
    backend = FilesystemBackend(root_dir=str(home.parent / "elsewhere"), virtual_mode=False)
    start(str(home / "policies"))
    path = str(home / "policies" / "new.yaml").lstrip("/")
    write = Ask("write_file", {"file_path": path, "content": "policies: []"})
    assert GUARDED in run(write, backend=backend).told
    assert not (home / "policies" / "new.yaml").exists()


FILE_TOOLS = ["ls", "read_file", "write_file", "edit_file", "delete"]
SEARCHES = {"search_directory": "path", "list_directory": "path", "find_file": "path"}


class Looked(FilesystemBackend):
    """A backend that accepts any command, and only records it."""

    reached: list[str]

    def _resolve_path(self, key: str) -> Path:
        self.reached.append(str(super()._resolve_path(key)))
        return self.cwd / "nothing"  # so that no test touches a real root


def looked(root: Path, *, is_virtual: bool = False) -> Looked:
    backend = Looked(root_dir=str(root), virtual_mode=is_virtual)
    backend.reached = []
    return backend


def has_tool(name: str) -> bool:
    return name in {str(getattr(tool, "name", "")) for tool in FilesystemMiddleware().tools}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", ["", ".", "./", "/", "//"])
@pytest.mark.parametrize("name", [*FILE_TOOLS, "grep", "glob"])
def test_every_spelling_of_nothing_leads_where_the_backend_takes_it(
    start: Any, home: Path, name: str, path: str, is_async: bool
) -> None:
    """The class: an empty path is taken for the workspace here, and for the real root there."""
    if not has_tool(name):
        pytest.skip("this release has no such tool")
    start(*policy.workspace_only([home], SEARCHES))
    args: dict[str, Any] = {"path" if name in ("ls", "grep", "glob") else "file_path": path}
    args |= {"pattern": "word"} if name in ("grep", "glob") else {}
    args |= {"content": "x"} if name == "write_file" else {}
    args |= {"old_string": "x", "new_string": "y"} if name == "edit_file" else {}
    backend = looked(home)
    world = run(Ask(name, args), backend=backend, is_async=is_async)
    assert "Denied by policy" in world.told
    assert backend.reached == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("given", [{}, {"path": None}])
@pytest.mark.parametrize("name", ["grep", "glob"])
def test_a_search_without_a_path_is_one_of_the_backends_root(
    start: Any, home: Path, name: str, given: dict[str, Any], is_async: bool
) -> None:
    start(*policy.workspace_only([home], SEARCHES))
    world = run(Ask(name, {"pattern": "word", **given}), backend=looked(home), is_async=is_async)
    assert "Denied" not in world.told


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_search_of_everything_asks_a_routed_backend_for_the_root(
    start: Any, home: Path, is_nested: bool, is_async: bool
) -> None:
    """The class: a backend without a root of its own takes ``/``, which a route gives, as it is."""
    start(*policy.workspace_only([home], SEARCHES))
    routed = looked(home / "policies")
    inner: Any = CompositeBackend(routed, {}) if is_nested else routed
    backend = CompositeBackend(looked(home, is_virtual=True), {"/mem/": inner})
    world = run(Ask("grep", {"pattern": "word"}), backend=backend, is_async=is_async)
    assert "Denied by policy" in world.told
    assert routed.reached == []
    found = run(Ask("glob", {"pattern": "*.txt"}), backend=backend, is_async=is_async)
    assert "Denied" not in found.told


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_virtual", [False, True])
@pytest.mark.parametrize("pattern", ["../elsewhere/*", "policies/../../*/*", "/../elsewhere/*"])
def test_a_pattern_that_climbs_leads_anywhere(
    start: Any, home: Path, pattern: str, is_virtual: bool, is_async: bool
) -> None:
    """The class: another argument than its path decides what a search reaches."""
    (home.parent / "elsewhere" / "key.txt").write_text("secret")
    (home / "a..txt").write_text("text")
    backend = FilesystemBackend(root_dir=str(home), virtual_mode=is_virtual)
    start(*policy.workspace_only([home], SEARCHES))
    world = run(Ask("glob", {"pattern": pattern}), backend=backend, is_async=is_async)
    assert "Denied by policy" in world.told
    for inside in ("*..txt", "/a..txt"):
        world = run(Ask("glob", {"pattern": inside}), backend=backend, is_async=is_async)
        assert "a..txt" in world.told


def with_backend_of(make: Callable[[Any], Any]) -> Any:
    """Return deepagents' middleware with a factory, or skip where it takes none."""
    try:
        return FilesystemMiddleware(backend=make)
    except TypeError:
        pytest.skip("this release takes no factories")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_virtual", [False, True])
def test_a_factory_makes_the_backend_that_a_path_is_judged_by(
    start: Any, home: Path, is_virtual: bool, is_async: bool
) -> None:
    """The class: a backend that is made for each call is none that has a root."""
    elsewhere = home.parent / "elsewhere"
    (elsewhere / "a.txt").write_text("inside")
    (home / "a.txt").write_text("secret")
    runtimes: list[Any] = []

    def inside(runtime: Any) -> Any:
        runtimes.append(runtime)
        return FilesystemBackend(root_dir=str(elsewhere), virtual_mode=is_virtual)

    def outside(runtime: Any) -> Any:
        return FilesystemBackend(root_dir=str(home), virtual_mode=True)

    with_backend_of(inside)
    start(*policy.workspace_only([elsewhere]))
    path = "a.txt" if is_virtual else str(elsewhere / "a.txt")
    assert "inside" in run(read_of(path), backend=inside, is_async=is_async).told
    assert all(runtime is not None for runtime in runtimes)
    assert "Denied by policy" in run(read_of("a.txt"), backend=outside, is_async=is_async).told
    path = str(home / "a.txt").lstrip("/")  # relative, which deepagents makes absolute
    if not is_virtual:
        assert "Denied by policy" in run(read_of(path), backend=inside, is_async=is_async).told


def test_a_factory_that_fails_leads_anywhere(start: Any, home: Path) -> None:
    made: list[Any] = []

    def fails_at_first(runtime: Any) -> Any:
        if hasattr(runtime, "tool_call_id") and not made:  # some releases ask it for models, too
            made.append(runtime)
            raise ValueError("no backend")
        return FilesystemBackend(root_dir=str(home), virtual_mode=True)

    with_backend_of(fails_at_first)
    start(*policy.workspace_only([home.parent / "elsewhere"]))
    assert "Denied by policy" in run(read_of("a.txt"), backend=fails_at_first).told


def test_the_backend_that_deepagents_makes_itself_may_be_written_to(start: Any, home: Path) -> None:
    """Its default is a factory in some releases."""
    start(str(home / "policies"))
    write = Ask("write_file", {"file_path": "/a.txt", "content": "text"})
    assert "Updated file /a.txt" in run(write).told


def read_of(path: str) -> Ask:
    return Ask("read_file", {"file_path": path})


def test_a_tool_made_of_a_file_tools_function_has_its_root(start: Any, home: Path) -> None:
    """The class: a tool's kind is known by a part of it, and its root is looked for elsewhere."""
    (home / "a.txt").write_text("secret")
    middleware = FilesystemMiddleware(
        backend=FilesystemBackend(root_dir=str(home), virtual_mode=True)
    )
    (inner,) = (each for each in middleware.tools if getattr(each, "name", "") == "read_file")
    function = functools.partial(inner.func, runtime=None)  # type: ignore[attr-defined]

    class Given(BaseModel):
        file_path: str

    reader = StructuredTool.from_function(
        function, name="reader", description="Read.", args_schema=Given
    )
    start(*policy.workspace_only([home.parent / "elsewhere"]))
    assert "Denied by policy" in reader.invoke({"file_path": "a.txt"})


def test_a_shell_of_deepagents_leaves_policy_files_where_it_works_alone(
    start: Any, home: Path
) -> None:
    backends = pytest.importorskip("deepagents.backends.local_shell", exc_type=ImportError)
    backend = backends.LocalShellBackend(root_dir=str(home), virtual_mode=True, inherit_env=True)
    start(str(home / "policies"))
    world = run(Ask("execute", {"command": "rm policies/p.yaml"}), backend=backend)
    assert GUARDED in world.told
    assert (home / "policies" / "p.yaml").exists()


def test_what_a_person_edits_in_a_deep_agents_call_is_judged(start: Any) -> None:
    world = World((DANGER,), ANSWER)
    graph = create_deep_agent(
        model=ScriptedModel(world=world),
        tools=tools_of(world),
        interrupt_on={"danger": {"allowed_decisions": ["approve", "edit", "reject"]}},
        checkpointer=InMemorySaver(),
    )
    rule = policy.deny("danger", when=lambda args: args["path"] == "/etc/shadow", reason=REASON)
    start(rule)
    thread: Any = {"configurable": {"thread_id": "t-1"}}
    assert "__interrupt__" in graph.invoke(begin("go"), thread)
    edited = {"name": "danger", "args": {"path": "/etc/shadow"}}
    answer: Any = Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]})
    assert said(graph.invoke(answer, thread)) == ANSWER
    assert REASON in world.told
    assert world.ran == []


@pytest.mark.parametrize("what", ["create_deep_agent", "FilesystemMiddleware"])
def test_a_release_of_deepagents_that_is_not_known_refuses(
    start: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The class: what the log says is refused is refused at each way in."""
    installed = versions.installed

    def newer(distributions: tuple[str, ...], module: str) -> tuple[str, str]:
        found = installed(distributions, module)
        return (found[0], "9.0") if module == "deepagents" else found

    monkeypatch.setattr(versions, "installed", newer)
    start(policy.deny("danger"))
    model = ScriptedModel(world=World())
    with pytest.raises(SeatError, match=r"9\.0"):
        create_deep_agent(model=model) if what == "create_deep_agent" else FilesystemMiddleware()
