"""Tools that langchain's packages bring along: known by what they are, whatever they are called."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("langchain_core")

from langchain.agents import create_agent
from langchain.agents.middleware.file_search import FilesystemFileSearchMiddleware
from langchain.agents.middleware.shell_tool import ShellToolMiddleware
from langchain_anthropic.middleware import (
    ClaudeBashToolMiddleware,
    FilesystemClaudeMemoryMiddleware,
    FilesystemClaudeTextEditorMiddleware,
    StateClaudeTextEditorMiddleware,
)
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.langchain.builtin import EDITOR, TABLE, place, read
from otelhooks.frameworks.langchain.tools import ToolRun
from otelhooks.patching.builtin import find
from otelhooks.patching.versions import at_least
from tests.frameworks.agents_langchain import ScriptedModel, begin, said
from tests.frameworks.builtin_tools import check
from tests.frameworks.contract import ANSWER, REASON, Ask, World
from tests.frameworks.langchain_tools import definers_in, tools_in

# langchain's shell leaves its pipes to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)

LANGCHAIN = metadata.version("langchain")
HAS_TOOL = at_least(LANGCHAIN, "1.0.6")
"""Whether the shell and the editors are tools; before, middleware ran them itself."""
NEEDS_TOOL = pytest.mark.skipif(not HAS_TOOL, reason="the shell cannot be renamed before 1.0.6")
NEEDS_COMMUNITY = pytest.mark.skipif(
    importlib.util.find_spec("langchain_community") is None, reason="needs langchain-community"
)
PLUMBING = {
    "langchain.mcp.tools:as_langchain_tool.<locals>.call_tool",
    "langchain_core.tools.convert:convert_runnable_to_tool.<locals>.ainvoke_wrapper",
    "langchain_core.tools.convert:convert_runnable_to_tool.<locals>.invoke_wrapper",
    "langchain_core.tools.retriever:create_retriever_tool.<locals>.afunc",
    "langchain_core.tools.retriever:create_retriever_tool.<locals>.func",
    "langchain_core.tools.simple:Tool",
    "langchain_core.tools.structured:StructuredTool",
    "langchain_mcp_adapters.tools:convert_mcp_tool_to_langchain_tool.<locals>.call_tool",
}
"""What makes tools of what the application gives, and is no tool of its own."""


@pytest.fixture
def start(with_rules: Callable[..., otelhooks.Handle]) -> Callable[..., otelhooks.Handle]:
    """Instrument with rules and settings."""
    return functools.partial(with_rules, frameworks=["langchain"])


def run(middleware: Any, *asks: Ask, is_async: bool = False) -> World:
    """Run an agent with one middleware, whose model asks for tools."""
    world = World(*((ask,) for ask in asks), ANSWER)
    beside = [StructuredTool.from_function(world.safe)]  # without one, 1.0.0 has no node for calls
    graph = create_agent(ScriptedModel(world=world), beside, middleware=[middleware])
    if is_async:
        assert said(anyio.run(graph.ainvoke, begin("go"))) == ANSWER
    else:
        assert said(graph.invoke(begin("go"))) == ANSWER
    return world


# -- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "package",
    [
        "deepagents",
        "langchain",
        "langchain_anthropic",
        "langchain_classic",
        "langchain_core",
        "langchain_mcp_adapters",
        "langgraph",
        "langgraph_supervisor",
        "langgraph_swarm",
    ],
)
def test_every_tool_that_a_package_brings_along_is_known(package: str) -> None:
    check(TABLE, tools_in(package) - PLUMBING, is_newest=False)


@NEEDS_COMMUNITY
def test_tools_of_the_community_are_where_the_table_says() -> None:
    spec: Any = importlib.util.find_spec("langchain_community")
    root = Path(spec.submodule_search_locations[0]).parent
    keys = [key.split(":") for key in TABLE if key.startswith("langchain_community.")]
    for module, name in keys:
        text = root.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"\nclass {name}(" in text


CALLS_THE_TOOL = {
    "langchain.agents.middleware.auto_mode:AutoModeMiddleware",
    "langchain.agents.middleware.human_in_the_loop:HumanInTheLoopMiddleware",
    "langchain.agents.middleware.tool_emulator:LLMToolEmulator",
    "langchain.agents.middleware.tool_error:ToolErrorMiddleware",
    "langchain.agents.middleware.tool_retry:ToolRetryMiddleware",
    "langchain.agents.middleware.types:AgentMiddleware",
    "deepagents.middleware._tool_exclusion:_ToolExclusionMiddleware",
    "deepagents.middleware.filesystem:FilesystemMiddleware",
    "deepagents.middleware.permissions:_PermissionMiddleware",
    "deepagents.middleware.skills:SkillsMiddleware",
    "deepagents.profiles.harness._nvidia_nemotron_3_ultra:NemotronToolCallShim",
    "deepagents.profiles.harness._nvidia_nemotron_3_ultra:ReadFileContinuationNoticeMiddleware",
}
"""Middleware with a hand in calls that calls the tool itself, or nothing at all."""
HAS_A_SEAT = {
    "deepagents.middleware.resumable_shell:ResumableShellToolMiddleware",
    "langchain.agents.middleware.shell_tool:ShellToolMiddleware",
    "langchain_anthropic.middleware.anthropic_tools:_FilesystemClaudeFileToolMiddleware",
    "langchain_anthropic.middleware.anthropic_tools:_StateClaudeFileToolMiddleware",
    "langchain_anthropic.middleware.bash:ClaudeBashToolMiddleware",
}
"""Middleware that does what a call asks for by itself."""


@pytest.mark.parametrize("package", ["deepagents", "langchain", "langchain_anthropic"])
def test_no_other_middleware_has_a_hand_in_calls(package: str) -> None:
    """New middleware is read first: what runs commands without calling a tool needs a seat."""
    assert definers_in(package, "wrap_tool_call") <= CALLS_THE_TOOL | HAS_A_SEAT


# -- shells ---------------------------------------------------------------------------------------


def renamed(tmp_path: Path) -> Any:
    return ShellToolMiddleware(tmp_path, tool_name="look_up")


def claude(tmp_path: Path) -> Any:
    return ClaudeBashToolMiddleware(tmp_path)


def plain(tmp_path: Path) -> Any:
    return ShellToolMiddleware(tmp_path)


def subclassed(tmp_path: Path) -> Any:
    class Harmless(ShellToolMiddleware):
        pass

    return Harmless(tmp_path, tool_name="look_up")


def copied(tmp_path: Path) -> Any:
    middleware = ShellToolMiddleware(tmp_path)
    (shell,) = middleware.tools
    middleware.tools = [shell.model_copy(update={"name": "look_up"})]  # type: ignore[attr-defined]
    return middleware


def made_of_its_function(tmp_path: Path) -> Any:
    middleware = ShellToolMiddleware(tmp_path)
    (shell,) = middleware.tools

    @functools.wraps(shell.func)  # type: ignore[attr-defined]
    def look_up(*args: Any, **kwargs: Any) -> Any:
        return shell.func(*args, **kwargs)  # type: ignore[attr-defined]

    schema: Any = shell.args_schema  # type: ignore[attr-defined]
    other = StructuredTool.from_function(
        look_up, name="look_up", description="Look.", args_schema=schema, infer_schema=False
    )
    middleware.tools = [other]
    return middleware


SHELLS = [
    (plain, "shell"),
    (claude, "bash"),
    *(
        pytest.param(make, "look_up", marks=NEEDS_TOOL)
        for make in (renamed, subclassed, copied, made_of_its_function)
    ),
]


@pytest.mark.parametrize("rule", [policy.veto("kind:shell"), policy.deny("run_command")])
@pytest.mark.parametrize(("make", "name"), SHELLS)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_shell_is_one_under_any_name(
    start: Any, tmp_path: Path, make: Any, name: str, rule: Any, is_async: bool
) -> None:
    """The class: a tool passes a rule for its kind because it is called something else."""
    if is_async and make is claude and not HAS_TOOL:
        pytest.skip("synchronous only in langchain-anthropic 1.0.0")
    start(rule)
    world = run(make(tmp_path), Ask(name, {"command": "touch ran"}), is_async=is_async)
    assert "denied" in world.told.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("make", "name"), SHELLS)
def test_a_shell_that_is_allowed_runs_what_was_approved(
    start: Any, tmp_path: Path, make: Any, name: str
) -> None:
    start(policy.deny("something_else"))
    run(make(tmp_path), Ask(name, {"command": "touch ran"}))
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]


def test_a_tool_of_the_users_own_with_a_shells_name_is_none(start: Any) -> None:
    """A name alone says nothing, neither way."""

    @tool
    def shell(command: str) -> str:
        """Ring."""
        return command

    start(policy.veto("kind:shell"), policy.deny("run_command"))
    assert shell.invoke({"command": "ring"}) == "ring"


# -- editors --------------------------------------------------------------------------------------

WRITES = [
    {"command": "create", "path": "/policies/p.yaml", "file_text": "policies: []"},
    {"command": "create", "path": "policies/p.yaml", "file_text": "policies: []"},
    {"command": "str_replace", "path": "/policies/p.yaml", "old_str": "deny", "new_str": "allow"},
    {"command": "insert", "path": "/policies/p.yaml", "insert_line": 0, "new_str": "#"},
    {"command": "delete", "path": "/policies/p.yaml"},
    {"command": "delete", "path": "/policies"},
    {
        "command": "rename",
        "path": "/policies/p.yaml",
        "old_path": "/policies/p.yaml",
        "new_path": "/away.yaml",
    },
    {"command": "rename", "path": "/a.txt", "old_path": "/a.txt", "new_path": "/policies/p.yaml"},
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside the working directory with a policy file and another."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / "policies").mkdir(parents=True)
    (tmp_path / "home" / "a.txt").write_text("policies: []\n")
    rules = "policies:\n  - deny: something_else\n"
    (tmp_path / "home" / "policies" / "p.yaml").write_text(rules)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("args", WRITES, ids=lambda args: f"{args['command']} {args['path']}")
def test_an_editor_that_takes_a_folder_for_the_root_leaves_policy_files_alone(
    start: Any, home: Path, args: dict[str, Any], is_async: bool
) -> None:
    """The class: a path of a tool leads elsewhere than it seems: the tool has its own root."""
    loaded = home / "policies"
    start(str(loaded))
    middleware = FilesystemClaudeTextEditorMiddleware(root_path=str(home))
    before = (loaded / "p.yaml").read_text()
    world = run(middleware, Ask("str_replace_based_edit_tool", args), is_async=is_async)
    assert "Policy files cannot be changed from here." in world.told
    assert (loaded / "p.yaml").read_text() == before
    assert (home / "a.txt").exists()


@pytest.mark.parametrize("extra", ["file_path", "dir_path", "source_path"])
def test_a_made_up_argument_is_not_the_path_that_an_editor_is_judged_by(
    home: Path, extra: str
) -> None:
    """The class: the model adds a parameter that the tool does not take."""
    middleware = FilesystemClaudeTextEditorMiddleware(root_path=str(home))
    args = {"command": "view", "path": "policies/p.yaml", extra: "a.txt"}
    call = ToolRun()
    place(call, EDITOR, middleware, args)
    assert call.path == str(home / "policies" / "p.yaml")


@NEEDS_COMMUNITY
@pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("read:ReadFileTool", "file_path"),
        ("copy:CopyFileTool", "source_path"),
        ("move:MoveFileTool", "source_path"),
        ("list_dir:ListDirectoryTool", "dir_path"),
    ],
)
def test_a_made_up_argument_is_not_the_path_that_a_file_tool_is_judged_by(
    home: Path, name: str, own: str
) -> None:
    module, kind = name.split(":")
    found = importlib.import_module(f"langchain_community.tools.file_management.{module}")
    made = getattr(found, kind)(root_dir=str(home))
    others = dict.fromkeys(("path", "file_path", "source_path", "dir_path"), "a.txt")
    what = find(TABLE, made)
    assert what is not None
    call = ToolRun()
    call.owner, call.args = made, {**others, own: "policies"}
    read(call, what, {})
    assert call.path == str(home / "policies")


@NEEDS_COMMUNITY
@pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("write:WriteFileTool", {"file_path": "policies/p.yaml", "text": "policies: []"}),
        ("delete:DeleteFileTool", {"file_path": "policies/p.yaml"}),
        (
            "copy:CopyFileTool",
            {"source_path": "a.txt", "destination_path": "policies/p.yaml"},
        ),
        (
            "move:MoveFileTool",
            {"source_path": "policies/p.yaml", "destination_path": "b.txt"},
        ),
    ],
)
def test_a_file_tool_of_the_community_leaves_policy_files_alone(
    start: Any, home: Path, name: str, args: dict[str, Any]
) -> None:
    module, kind = name.split(":")
    found = importlib.import_module(f"langchain_community.tools.file_management.{module}")
    made = getattr(found, kind)(root_dir=str(home), name="harmless")
    start(str(home / "policies"))
    before = (home / "policies" / "p.yaml").read_text()
    assert made.invoke(args) == "Policy files cannot be changed from here."
    assert (home / "policies" / "p.yaml").read_text() == before


def test_a_pattern_of_langchains_search_that_climbs_leads_anywhere(start: Any, home: Path) -> None:
    (home.parent / "elsewhere" / "key.txt").write_text("secret")
    middleware = FilesystemFileSearchMiddleware(root_path=str(home))
    start(*policy.workspace_only([home], {"find_file": "path"}))
    climbing = Ask("glob_search", {"pattern": "../elsewhere/*"})
    assert "Denied by policy" in run(middleware, climbing).told
    assert "/a.txt" in run(middleware, Ask("glob_search", {"pattern": "*.txt"})).told


class Given(BaseModel):
    file_path: str


def bound(inner: Any) -> Any:
    return inner._run


def partial_of_bound(inner: Any) -> Any:
    return functools.partial(functools.partial(inner._run))


def partial_of_class(inner: Any) -> Any:
    return functools.partial(type(inner)._run, inner)


def partial_by_name(inner: Any) -> Any:
    return functools.partial(type(inner)._run, self=inner)


def wrapped(inner: Any) -> Any:
    @functools.wraps(inner._run)
    def other(*args: Any, **kwargs: Any) -> Any:
        return inner._run(*args, **kwargs)

    return other


@NEEDS_COMMUNITY
@pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")
@pytest.mark.parametrize(
    "make", [bound, partial_of_bound, partial_of_class, partial_by_name, wrapped]
)
def test_a_file_tool_that_is_known_by_its_method_has_the_root_of_its_object(
    start: Any, home: Path, make: Any
) -> None:
    """The class: a tool's kind is known by a part of it, and its root is looked for elsewhere."""
    from langchain_community.tools.file_management import ReadFileTool

    (home.parent / "elsewhere" / "a.txt").write_text("inside")
    start(*policy.workspace_only([home.parent / "elsewhere"]))
    for root, told in ((home, "Denied by policy"), (home.parent / "elsewhere", "inside")):
        function = make(ReadFileTool(root_dir=str(root)))
        reader = StructuredTool.from_function(
            function, name="reader", description="Read.", args_schema=Given
        )
        assert told in reader.invoke({"file_path": "a.txt"})


@NEEDS_COMMUNITY
@pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")
def test_a_file_tool_whose_root_cannot_be_read_leads_anywhere(start: Any, home: Path) -> None:
    from langchain_community.tools.file_management import ReadFileTool

    inner = ReadFileTool(root_dir=str(home))

    def run(file_path: str) -> str:
        return inner._run(file_path)

    run.__wrapped__ = ReadFileTool._run  # type: ignore[attr-defined]
    reader = StructuredTool.from_function(
        run, name="reader", description="Read.", args_schema=Given
    )
    start(*policy.workspace_only([home.parent / "elsewhere"]))
    assert "Denied by policy" in reader.invoke({"file_path": "a.txt"})


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("view", "view_file"),
        ("create", "create_file"),
        ("str_replace", "edit_file"),
        ("insert", "edit_file"),
        ("delete", "edit_file"),
        ("rename", "edit_file"),
    ],
)
def test_an_editor_is_what_it_is_asked_for(
    start: Any, home: Path, command: str, names: str
) -> None:
    given = {
        "command": command,
        "path": "/memories/a.txt",
        "old_path": "/memories/a.txt",
        "new_path": "/memories/b.txt",
        "file_text": "changed",
        "old_str": "policies",
        "new_str": "changed",
        "insert_line": 0,
    }
    others = {"view_file", "create_file", "edit_file"} - {names}
    (home / "memories").mkdir()
    (home / "memories" / "a.txt").write_text("policies: []\n")
    before = [path.name for path in (home / "memories").iterdir()]
    start(policy.deny(names, reason=REASON))
    world = run(FilesystemClaudeMemoryMiddleware(root_path=str(home)), Ask("memory", given))
    assert REASON in world.told
    assert [path.name for path in (home / "memories").iterdir()] == before
    assert (home / "memories" / "a.txt").read_text() == "policies: []\n"
    otelhooks.uninstrument()
    start(*(policy.deny(other, reason=REASON) for other in others))
    world = run(FilesystemClaudeMemoryMiddleware(root_path=str(home)), Ask("memory", given))
    assert REASON not in world.told


def test_an_editor_of_files_in_the_graphs_state_is_one(start: Any) -> None:
    start(policy.veto("kind:file_write", reason=REASON))
    args = {"command": "create", "path": "/a.txt", "file_text": "text"}
    world = run(StateClaudeTextEditorMiddleware(), Ask("str_replace_based_edit_tool", args))
    assert REASON in world.told
