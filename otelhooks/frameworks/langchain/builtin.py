# pyright: basic
"""Tools of langchain and of packages built on it: what each is, and where it works.

Each is recognised by its function or class, in every release of the range, because their names are
settings (``ShellToolMiddleware(tool_name="bash")``). Many file tools treat a directory of their own
as the root; where a path really leads is read from the object that the function belongs to.

Those that run at the model's provider are defined for chat models: a definition of OpenAI or
Anthropic has a ``type``, with or without a date at its end; one of Google has a key with the tool's
name. An unknown type counts as one that reaches the network from the provider.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.langchain.fields import closure, functions

__all__ = ["EDITOR", "SHELL", "TABLE", "hosted", "place", "read"]


# -- the tools --------------------------------------------------------------------------------

_SHELL = ("shell", ("run_command",), "shell")
_LIST = ("ls", ("list_directory",), "file_read", False, "path")
_FIND = ("glob", ("find_file",), "file_read", False, "path")
_GREP = ("grep", ("search_directory",), "file_read", False, "path")
_VIEW = ("read_file", ("view_file",), "file_read", False, "file_path")
_CREATE = ("write_file", ("create_file",), "file_write", False, "file_path")
_EDIT = ("edit_file", ("edit_file",), "file_write", False, "file_path")
_EDITS = ("create_file", "edit_file", "view_file")
_EDITOR = ("str_replace_based_edit_tool", _EDITS, "file_write", False, "path")
_AGENT = ("invoke_subagent",)
_FETCH = ("requests", ("read_url_content",), "net")
_SEARCH = ("web_search", ("search_web",), "net")
_COMMANDS = {
    "view": _VIEW,
    "create": _CREATE,
    **dict.fromkeys(("str_replace", "insert", "delete", "rename"), _EDIT),
}
"""The editor's command -> the tool that it then is; for any other word it is all three."""

_LANGCHAIN, _ANTHROPIC = "langchain.agents.middleware", "langchain_anthropic.middleware"
_DEEP, _COMMUNITY = "deepagents.middleware", "langchain_community.tools"
_IN_INIT = "__init__.<locals>"
_CLAUDE = f"ClaudeFileToolMiddleware.{_IN_INIT}.file_tool"
_TOOL = "langchain_core.tools.base:BaseTool"  # callable in some releases

_OF_DEEPAGENTS = {
    "ls": _LIST,
    "read_file": _VIEW,
    "write_file": _CREATE,
    "edit_file": _EDIT,
    "delete": _EDIT,
    "glob": _FIND,
    "grep": _GREP,
    "execute": _SHELL,
}
"""Created by functions first, by methods since 0.3.9."""

_SEARCHES = (
    "arxiv.tool:ArxivQueryRun",
    "bing_search.tool:BingSearch(Results|Run)",
    "brave_search.tool:BraveSearch",
    "ddg_search.tool:DuckDuckGoSearch(Results|Run)",
    "google_serper.tool:GoogleSerper(Results|Run)",
    "jina_search.tool:JinaSearch",
    "mojeek_search.tool:MojeekSearch",
    "pubmed.tool:PubmedQueryRun",
    "searchapi.tool:SearchAPI(Results|Run)",
    "searx_search.tool:SearxSearch(Results|Run)",
    "tavily_search.tool:Tavily(Answer|SearchResults)",
    "(wikidata.tool:Wikidata|wikipedia.tool:Wikipedia)QueryRun",
    "you.tool:YouSearchTool",
    "youtube.search:YouTubeSearchTool",
)

_TOOLS = {
    f"{_LANGCHAIN}.shell_tool:ShellToolMiddleware.{_IN_INIT}.shell_tool": _SHELL,
    f"{_LANGCHAIN}.shell_tool:_PersistentShellTool": _SHELL,
    f"{_LANGCHAIN}.file_search:FilesystemFileSearchMiddleware.{_IN_INIT}.glob_search": _FIND,
    f"{_LANGCHAIN}.file_search:FilesystemFileSearchMiddleware.{_IN_INIT}.grep_search": _GREP,
    f"{_LANGCHAIN}.todo:(|_|_a|TodoListMiddleware.{_IN_INIT}.)write_todos": ("write_todos",),
    f"{_ANTHROPIC}.anthropic_tools:(_State|_Filesystem){_CLAUDE}": _EDITOR,
    f"{_ANTHROPIC}.file_search:StateFileSearchMiddleware.{_IN_INIT}.glob_search": _FIND,
    f"{_ANTHROPIC}.file_search:StateFileSearchMiddleware.{_IN_INIT}.grep_search": _GREP,
    "langgraph_(supervisor|swarm).handoff:create_handoff_tool.<locals>.handoff_to_agent": (
        "transfer_to_agent",
    ),
    "langgraph_supervisor.handoff:create_forward_message_tool.<locals>.forward_message": (
        "forward_message",
    ),
    "langchain_classic.agents.(agent:ExceptionTool|tools:InvalidTool)": ("invalid_tool",),
    **{
        f"{_DEEP}.filesystem:(_{name}_tool_generator|FilesystemMiddleware._create_{name}_tool)"
        f".<locals>.(|sync_|async_){name}": what
        for name, what in _OF_DEEPAGENTS.items()
    },
    f"{_DEEP}.subagents:(_create|_build)_task_tool.<locals>.(|a)task": ("task", _AGENT),
    **{
        f"{_DEEP}.async_subagents:_build_{made}_tool.<locals>.(|a){name}": (name, _AGENT, "net")
        for made, name in (
            *((verb, f"{verb}_async_task") for verb in ("start", "check", "update", "cancel")),
            ("list_tasks", "list_async_tasks"),
        )  # the agents run on a server
    },
    f"{_DEEP}.summarization:SummarizationToolMiddleware._create_compact_tool"
    ".<locals>.(|a)sync_compact": ("compact_conversation",),
    f"{_COMMUNITY}.shell.tool:ShellTool": _SHELL,
    f"{_COMMUNITY}.file_management.copy:CopyFileTool": (*_CREATE[:-1], "source_path"),
    f"{_COMMUNITY}.file_management.delete:DeleteFileTool": _EDIT,
    f"{_COMMUNITY}.file_management.file_search:FileSearchTool": (*_FIND[:-1], "dir_path"),
    f"{_COMMUNITY}.file_management.list_dir:ListDirectoryTool": (*_LIST[:-1], "dir_path"),
    f"{_COMMUNITY}.file_management.move:MoveFileTool": (*_EDIT[:-1], "source_path"),
    f"{_COMMUNITY}.file_management.read:ReadFileTool": _VIEW,
    f"{_COMMUNITY}.file_management.write:WriteFileTool": _CREATE,
    f"{_COMMUNITY}.requests.tool:Requests(Get|Post|Patch|Put|Delete)Tool": _FETCH,
    f"{_COMMUNITY}.(graphql.tool:BaseGraphQL|playwright.navigate:Navigate)Tool": _FETCH,
    **{f"{_COMMUNITY}.{place}": _SEARCH for place in _SEARCHES},
}


TABLE = kit.BuiltIns(_TOOLS)
"""What defines a tool -> what it is; more lines than one release has."""

SHELL = TABLE[f"{_LANGCHAIN}.shell_tool:_PersistentShellTool"]
EDITOR = TABLE[f"{_ANTHROPIC}.anthropic_tools:_State{_CLAUDE}"]


# -- one call ---------------------------------------------------------------------------------


def read(call: Any, found: Any, hidden: Mapping[str, Any]) -> None:
    """Read what the call of a built-in tool is, and where it works.

    Args:
        call: The call, with tool and arguments.
        found: What is known of the tool.
        hidden: What langgraph fills in; a factory creates its backend from the ``runtime`` in it.
    """
    call.canonical, call.kind = found.canonical, found.kind
    if found.kind in ("file_read", "file_write", "shell"):
        place(call, found, _backend(_owner(call.owner), hidden.get("runtime")), call.args)


def place(call: Any, found: Any, owner: Any, args: Mapping[str, Any]) -> None:
    """Read what a call is, by the object with the tool's settings: middleware or backend.

    If that is unknown (None), a path may lead anywhere: to ``/``, which is outside every workspace
    and around every protected file. So may a pattern that goes up: its target depends on the links
    among its matches.
    """
    given = args.get(found.path) if found.path else None
    given = given if isinstance(given, str) else None
    command = args.get("command") if found == EDITOR else None
    what = _COMMANDS.get(command, found) if isinstance(command, str) else found
    call.canonical, call.kind = what[1:3]
    if (owner is None and call.kind != "shell") or (found == _FIND and _climbs(args)):
        call.path = os.path.abspath(os.sep)
        return
    if given is not None and (hasattr(owner, "routes") or hasattr(owner, "cwd")):
        given = os.path.normpath(given).replace("\\", "/")  # as in deepagents' `validate_path`
        given = given if given.startswith("/") else f"/{given}"
    searches = found in (_FIND, _GREP) and not (given or "").strip("/.")
    backends = _reached(owner, given or "", searches=searches)
    if found == _FIND:  # a backend's tool accepts only ``/``, not ``/.``, as its root
        backends = ((each, "" if path == "/" else path) for each, path in backends)
    if places := list(filter(None, (_on_disk(*each) for each in backends))):
        path, call.work_dir = (os.path.commonpath(each) for each in zip(*places, strict=True))
        call.path = None if call.kind == "shell" else path


def _on_disk(backend: Any, path: str) -> tuple[str, str] | None:
    """Return where a path leads, and the root of the backend; None if it has none on a disk."""
    for name in _ROOTS:
        root = getattr(backend, name, None)
        if isinstance(root, (str, os.PathLike)):
            break
    else:
        return None
    root = os.path.abspath(root)
    is_virtual = name == "root_path" or getattr(backend, "virtual_mode", None) is True
    return os.path.normpath(os.path.join(root, path.lstrip("/") if is_virtual else path)), root


_ROOTS = ("root_path", "_workspace_root", "cwd", "root_dir")
"""Settings of middleware, backends and tools with the directory in which they work."""


def _climbs(args: Mapping[str, Any]) -> bool:
    """Return whether a pattern has ``..``; an absolute one starts where the search does."""
    pattern = args.get("pattern")
    return isinstance(pattern, str) and ".." in pattern.replace("\\", "/").split("/")


def _reached(backend: Any, path: str, *, searches: bool) -> Iterator[tuple[Any, str]]:
    """Yield the backends of a composite one that a path reaches, and its name there.

    Args:
        backend: Composite or not.
        path: Path for it.
        searches: Whether it is searched completely, and so are all its backends: the default one
            for the same path, the others for ``/``. The folder that contains all places is then
            where the search leads.
    """
    routes = getattr(backend, "routes", None)
    if not isinstance(routes, Mapping):
        yield backend, path
        return
    for prefix in sorted(routes, key=len, reverse=True):
        folder = f"{prefix.rstrip('/')}/"
        if searches:
            yield from _reached(routes[prefix], "/", searches=True)
        elif f"{path}/".startswith(folder):
            yield from _reached(routes[prefix], f"/{path[len(folder) :]}", searches=False)
            return
    yield from _reached(getattr(backend, "default", None), path, searches=searches)


def _owner(tool: Any) -> Any:
    """Return the object with a tool's settings: tool, middleware or backend; None if unknown."""
    if TABLE.of(tool) is not None:
        return tool
    owners = (_held_by(holder) for _, holder in TABLE.parts(*functions(tool)))
    return next((owner for owner in owners if owner is not None), None)


def _held_by(holder: Any) -> Any:
    """Return the object of a method, or what the function of a built-in tool closes over."""
    if not isinstance(holder, types.FunctionType):
        return holder
    if hasattr(holder, "__wrapped__"):  # only has the name of what it wraps
        return None
    closed = closure(holder, "self", "backend")
    return closed.get("self", closed.get("backend"))


def _backend(owner: Any, runtime: Any) -> Any:
    """Return the backend of deepagents' middleware, or another object with a tool's settings.

    A factory creates a backend for each call, so it is called as the tool will call it.
    """
    backend = getattr(owner, "backend", None) or owner
    if not callable(backend) or kit.is_a(backend, _TOOL):
        return backend
    try:
        return None if runtime is None else backend(runtime)
    except Exception:  # the factory's own error, which the tool will get as well
        return None


# -- tools at the model's provider ------------------------------------------------------------

_VERSION = re.compile(r"(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?$")
_HERE = frozenset(
    "apply_patch bash computer computer_use custom function local_shell memory namespace shell "
    "text_editor tool_search tool_search_tool_bm25 tool_search_tool_regex".split()
)
"""Calls of these come back, and pass a tool seat; a search of tools does not run any."""

_PAGE = ("web_fetch", ("read_url_content",), "net")
_CODE = ("code_execution", ("code_execution",), "shell")
_OTHER = "other"
_HOSTED = kit.BuiltIns(
    hosted={
        "code_(execution|interpreter)": _CODE,
        "(enterprise_web_search|google_search|google_search_retrieval|web_search)": _SEARCH,
        "shell": _SHELL,
        "image_generation": ("image_generation", ("generate_image",), "net"),
        "(url_context|web_fetch)": _PAGE,
        _OTHER: ("", (), "net"),
    },
)
_OF_GOOGLE = {
    spelling: name
    for name in (*_HOSTED, "file_search", "google_maps")
    for spelling in (name, re.sub("_(.)", lambda found: found[1].upper(), name))
}


def hosted(definition: Any) -> Any:
    """Return how rules see a defined tool that runs at the provider; None for any other.

    Args:
        definition: In the provider's form. A denial of one of several tools in it denies them all;
            one that also declares functions does not count as hosted.
    """
    if not isinstance(definition, Mapping) or not definition:
        return None
    kind = definition.get("type")
    if kind == "function":  # almost all of them
        return None
    if isinstance(kind, str):
        name = _VERSION.sub("", kind, count=1)
        place = definition.get("environment")
        is_away = isinstance(place, Mapping) and place.get("type") != "local"  # a shell's container
        if name in _HERE and not is_away:
            return None
        server = definition.get("server_label") or definition.get("mcp_server_name")
        return _as(name, str(definition.get("name") or name), server, definition)
    names = [_OF_GOOGLE.get(key, "") for key in definition]
    if "" in names:
        return None
    several = [_as(name, name, None, definition) for name in names]
    return several[0]._replace(calls=tuple(call for one in several for call in one.calls))


def _as(kind: str, name: str, server: Any, definition: Mapping[str, Any]) -> Any:
    return _HOSTED.hosted_as(name, _HOSTED.get(kind, _HOSTED[_OTHER]), server, definition)
